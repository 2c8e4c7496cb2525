//! Follows a trial while it runs: seconds, interruptions, the reset of a firewall, and when frames were last lost.

use crate::interrupt::Interrupt;
use measure::trial::{FrameRequest, SecondSample};
use std::time::Duration;
use traffic::{Reading, Seconds, Watch};

/// How finely losses are dated where a recovery is measured.
const FINE: Duration = Duration::from_millis(10);
const COARSE: Duration = Duration::from_millis(100);
/// A whole second in which at least this many frames were sent and none arrived is an outage.
const TELLING_FRAMES: u64 = 1_000;

/// Resets the firewall at a moment of the trial.
pub(crate) type Reset<'a> = (f64, &'a mut dyn FnMut() -> Result<(), String>);

/// The watcher of one trial.
pub(crate) struct Watcher<'a> {
    interrupt: &'a Interrupt,
    seconds: Seconds,
    ticks: Vec<(f64, u64)>,
    fine: bool,
    last_phase_start: f64,
    reset: Option<Reset<'a>>,
    expects_outage: bool,
    faults: Vec<String>,
}

/// What a watcher saw.
pub(crate) struct Seen {
    pub(crate) samples: Vec<SecondSample>,
    pub(crate) faults: Vec<String>,
    /// Seconds from the start and frames missing then, of which some were still under way.
    ticks: Vec<(f64, u64)>,
    last_phase_start: f64,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(interrupt: &'a Interrupt, request: &FrameRequest, reset: Option<Reset<'a>>) -> Self {
        let phases = &request.phases;
        Self {
            interrupt,
            seconds: Seconds::default(),
            ticks: Vec::new(),
            fine: phases.len() > 1 || reset.is_some(),
            last_phase_start: phases[..phases.len().saturating_sub(1)].iter().map(|p| p.seconds).sum(),
            expects_outage: reset.is_some(),
            reset,
            faults: Vec::new(),
        }
    }

    /// For frames that are not measured.
    pub(crate) fn quiet(interrupt: &'a Interrupt) -> Self {
        Self {
            interrupt,
            seconds: Seconds::default(),
            ticks: Vec::new(),
            fine: false,
            last_phase_start: 0.0,
            expects_outage: true,
            reset: None,
            faults: Vec::new(),
        }
    }

    pub(crate) fn into_seen(mut self) -> Seen {
        let samples = std::mem::take(&mut self.seconds).into_samples();
        self.into_seen_of(samples)
    }

    /// The same where others made the samples.
    pub(crate) fn into_seen_of(self, samples: Vec<SecondSample>) -> Seen {
        let mut faults = self.faults;
        let outage = samples.iter().find(|s| s.sent >= TELLING_FRAMES && s.received == 0);
        if let Some(outage) = outage.filter(|_| !self.expects_outage) {
            faults.push(format!(
                "the firewall stopped forwarding: {} frames were sent and none arrived up to second {:.1}",
                outage.sent, outage.at_seconds
            ));
        }
        Seen { samples, faults, ticks: self.ticks, last_phase_start: self.last_phase_start }
    }
}

impl Watch for Watcher<'_> {
    fn interrupted(&self) -> bool {
        self.interrupt.asked()
    }

    fn tick_every(&self) -> Duration {
        if self.fine { FINE } else { COARSE }
    }

    fn tick(&mut self, at_seconds: f64, sent: u64, received: u64) {
        if self.fine {
            self.ticks.push((at_seconds, sent.saturating_sub(received)));
        }
        if self.reset.as_ref().is_some_and(|(when, _)| at_seconds >= *when)
            && let Some((_, reset)) = self.reset.take()
            && let Err(why) = reset()
        {
            self.faults.push(format!("the firewall could not be reset: {why}"));
        }
    }

    fn sample(&mut self, at_seconds: f64, reading: &Reading) {
        self.seconds.add(at_seconds, reading);
    }
}

impl Seen {
    /// When frames were last lost, in seconds from the start of the last phase, to within a tick. `None` when nothing
    /// was lost in that phase.
    ///
    /// The frames missing at a tick are those lost so far and those under way. So at the last tick where fewer are
    /// missing than were lost in the end, a loss was still to come.
    pub(crate) fn last_loss_seconds(&self, sent: u64, received: u64) -> Option<f64> {
        let lost = sent.saturating_sub(received);
        let last = self.ticks.iter().rposition(|(_, missing)| *missing < lost)?;
        let when = self.ticks.get(last + 1).or(self.ticks.last())?.0;
        (when > self.last_phase_start).then_some(when - self.last_phase_start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_loss_is_dated_by_what_was_missing() {
        let seen = |ticks: &[(f64, u64)]| Seen {
            samples: Vec::new(),
            faults: Vec::new(),
            ticks: ticks.to_vec(),
            last_phase_start: 1.0,
        };
        for (ticks, lost, when) in [
            (vec![(0.5, 3), (1.5, 2), (2.0, 0)], 0, None),
            // All lost in the first phase.
            (vec![(0.5, 40), (0.9, 100), (1.5, 101), (2.0, 100)], 100, None),
            // The last ten were lost between 1.2 s and 1.3 s.
            (vec![(0.9, 90), (1.2, 95), (1.3, 100), (2.0, 104)], 100, Some(0.3)),
            // Frames under way hide nothing once they arrive.
            (vec![(0.9, 90), (1.1, 120), (1.2, 93), (1.3, 100)], 100, Some(0.3)),
        ] {
            let found = seen(&ticks).last_loss_seconds(1000, 1000 - lost);
            assert_eq!(found.map(|s| (s * 1000.0).round()), when.map(|s: f64| s * 1000.0), "{ticks:?}");
        }
    }
}
