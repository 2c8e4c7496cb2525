//! A trial at a host, as those see it who may tell it what the other host does: the thread that has the trial waits for its beginning and for
//! what is expected, and is ordered to stop.

use crate::wire::Progress;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use traffic::{Clock, Partner, TrafficError};

/// Longest time between a trial that is ready and its beginning.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is known of a trial.
#[derive(Debug, Default)]
struct Known {
    ready: bool,
    start_ns: Option<u64>,
    sent: Option<u64>,
    expected: Option<u64>,
    stopped: bool,
}

/// A trial at a host.
#[derive(Debug, Default)]
pub struct Course {
    known: Mutex<Known>,
    changed: Condvar,
}

impl Course {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, what: impl FnOnce(&mut Known)) {
        what(&mut self.known());
        self.changed.notify_all();
    }

    pub(crate) fn begin(&self, start_ns: u64) {
        self.tell(|known| known.start_ns = Some(start_ns));
    }

    pub(crate) fn expect(&self, frames: u64) {
        self.tell(|known| known.expected = Some(frames));
    }

    /// Ends the trial soon.
    pub fn stop(&self) {
        self.tell(|known| known.stopped = true);
    }

    /// Whether it is to end.
    pub fn is_stopped(&self) -> bool {
        self.known().stopped
    }

    pub(crate) fn progress(&self) -> Progress {
        let known = self.known();
        Progress { ready: known.ready, sent: known.sent, now_ns: Clock::now_ns() }
    }
}

/// The other host, for the thread that has the trial.
impl Partner for &Course {
    fn start(&mut self) -> Result<Option<u64>, TrafficError> {
        self.tell(|known| known.ready = true);
        let waits = |known: &mut Known| known.start_ns.is_none() && !known.stopped;
        let waited = self.changed.wait_timeout_while(self.known(), PATIENCE, waits);
        let known = waited.unwrap_or_else(PoisonError::into_inner).0;
        match known.start_ns {
            _ if known.stopped => Err(TrafficError::Interrupted),
            Some(start_ns) => Ok(Some(start_ns)),
            None => Err(TrafficError::Impossible(format!(
                "nobody said within {} s when the trial begins",
                PATIENCE.as_secs()
            ))),
        }
    }

    fn expected(&mut self, sent: u64) -> Option<u64> {
        let mut known = self.known();
        known.sent = Some(sent);
        known.expected
    }
}
