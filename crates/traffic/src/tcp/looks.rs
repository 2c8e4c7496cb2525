//! How many connections had done all that was asked of them, and when: whether a rate was held while it was asked for
//! ([`measure::pace`]).

use super::plan::{Close, Opening, TcpPlan};
use super::reading::{TcpCounts, TcpTime};
use measure::pace::Look;
use std::time::Duration;

/// A look that took longer was interrupted: nobody knows of which moment it is.
const LONGEST_LOOK: Duration = Duration::from_millis(1);

/// What makes a connection of a plan one that has done everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Done {
    /// Its handshake: it asks nothing and is held open.
    Established,
    /// Its last answer: it is held open.
    Answered,
    /// Its end.
    #[default]
    Closed,
}

impl Done {
    pub(super) fn of(plan: &TcpPlan) -> Self {
        match plan.close {
            Close::Never if plan.transactions == 0 => Self::Established,
            Close::Never => Self::Answered,
            _ => Self::Closed,
        }
    }

    pub(super) fn count(self, counts: &TcpCounts) -> u64 {
        match self {
            Self::Established => counts.established,
            Self::Answered => counts.completed,
            Self::Closed => counts.closed,
        }
    }

    /// From the intended start until then.
    pub(super) fn time(self) -> TcpTime {
        match self {
            Self::Established => TcpTime::Established,
            Self::Answered => TcpTime::LastByte,
            Self::Closed => TcpTime::Closed,
        }
    }
}

/// The looks at a run.
#[derive(Debug, Default)]
pub(super) struct Looks {
    pub(super) done: Done,
    pub(super) seen: Vec<Look>,
}

impl Looks {
    pub(super) fn at(plan: &TcpPlan) -> Self {
        Self { done: Done::of(plan), seen: Vec::new() }
    }

    /// Reads the counters and keeps what had ended.
    pub(super) fn look(
        &mut self,
        elapsed: impl Fn() -> Duration,
        read: impl FnOnce() -> TcpCounts,
    ) -> TcpCounts {
        let at = elapsed();
        let counts = read();
        if elapsed() - at < LONGEST_LOOK {
            self.keep(at, &counts);
        }
        counts
    }

    pub(super) fn keep(&mut self, at: Duration, counts: &TcpCounts) {
        self.seen.push(Look { at_ns: at.as_nanos() as u64, ended: self.done.count(counts) });
    }
}

/// The length of a load that does not change while it lasts; `None` of another one.
pub(super) fn constant_load(plan: &TcpPlan) -> Option<Duration> {
    let is_constant = match &plan.opening {
        Opening::Fastest(_) => true,
        Opening::Scheduled(phases) => matches!(&phases[..], [phase] if phase.from == phase.to),
        Opening::KeepOpen(..) => false,
    };
    is_constant.then(|| Duration::from_secs_f64(plan.seconds()))
}
