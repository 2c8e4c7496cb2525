//! A thread that keeps early fragments until it is dropped.

use super::kept::Kept;
use super::{Arrived, Early};
use crate::DataplaneError;
use crate::shared::descriptor_of;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use std::io::{self, PipeWriter, pipe};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the programs give fragments to a thread that says nothing any more.
const ATTENDED: Duration = Duration::from_secs(3);
/// Milliseconds between two looks if nothing comes: with fragments that may be over, and without.
const WITH_SOME: u16 = 100;
const WITH_NONE: u16 = 1_000;

/// Keeps fragments until it is dropped, and waits then until the thread is gone.
#[derive(Debug)]
pub struct Keeper {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    /// What the last attempt failed with.
    trouble: Arc<Mutex<Option<String>>>,
}

impl Early {
    /// Keeps on a thread of its own.
    pub(crate) fn keep_in_background(mut self) -> Result<Keeper, DataplaneError> {
        let doing = "keeping early fragments";
        let (stopped, stop) = pipe().map_err(DataplaneError::system(doing))?;
        let trouble = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&trouble);
        let thread = std::thread::Builder::new().name("fragments".to_owned()).spawn(move || {
            let mut kept = Kept::default();
            loop {
                let done = self.turn(&mut kept);
                let text = done.err().map(|error| format!("early fragments are not kept: {error}"));
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = text;
                let rest = if kept.is_empty() { WITH_NONE } else { WITH_SOME };
                // The other end of the pipe is closed when the keeper is dropped.
                if self.wait(stopped.as_fd(), rest) {
                    break;
                }
            }
            self.keep_until(Duration::ZERO);
            // What came until then is counted; a failure here has nobody left who would read it.
            let _ = self.turn_of_end(kept);
        });
        Ok(Keeper { stop: Some(stop), thread: Some(thread.map_err(DataplaneError::system(doing))?), trouble })
    }

    /// Waits for fragments or until some time is over. Returns true if it is to end.
    fn wait(&self, stopped: BorrowedFd<'_>, milliseconds: u16) -> bool {
        let ring = descriptor_of(&self.ring);
        let mut wanted = [PollFd::new(stopped, PollFlags::POLLIN), PollFd::new(ring, PollFlags::POLLIN)];
        // Interrupted by a signal is as good as a fragment: reading finds out.
        let _ = poll(&mut wanted, PollTimeout::from(milliseconds));
        wanted[0].revents().is_some_and(|events| !events.is_empty())
    }

    /// Takes what has come, sends in what may go, gives up what is over.
    fn turn(&mut self, kept: &mut Kept) -> io::Result<()> {
        let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
        self.keep_until(now + ATTENDED);
        let mut lost = 0;
        for arrived in self.take()? {
            match arrived {
                Arrived::Fragment(fragment) => lost += kept.keep(fragment),
                // An interface that is gone takes no fragment.
                Arrived::First(name) => {
                    let failed = |fragment: &_| self.send_in(fragment).is_err();
                    // What waited in the ring for a daemon to come is too old.
                    lost += kept.expire(now);
                    lost += kept.release(&name).iter().filter(|fragment| failed(fragment)).count();
                }
            }
        }
        lost += kept.expire(now);
        self.lose(lost)
    }

    fn turn_of_end(&self, mut kept: Kept) -> io::Result<()> {
        let fragments = self.take()?.into_iter().filter(|it| matches!(it, Arrived::Fragment(_))).count();
        self.lose(fragments + kept.expire(Duration::MAX))
    }
}

impl Keeper {
    /// What the last attempt to keep fragments failed with. It is tried again.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}
