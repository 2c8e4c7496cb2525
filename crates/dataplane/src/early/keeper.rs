//! What the thread does that keeps early fragments.

use super::kept::{Fragment, Kept};
use super::{Arrived, Early};
use crate::DataplaneError;
use crate::attendant::{Attendant, Work};
use crate::shared::descriptor_of;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Milliseconds between two looks if nothing comes: with fragments that may be over, and without.
const WITH_SOME: u16 = 100;
const WITH_NONE: u16 = 1_000;

struct Keeping {
    early: Early,
    kept: Kept,
}

impl Early {
    /// Keeps on a thread of its own.
    pub(crate) fn keep_in_background(self) -> Result<Attendant, DataplaneError> {
        Attendant::start(Keeping { early: self, kept: Kept::default() })
    }

    /// Takes what has come. Returns what may go in again, and how many are given up.
    pub(crate) fn due(&self, kept: &mut Kept, now: Duration) -> io::Result<(Vec<Fragment>, usize)> {
        let (mut due, mut lost) = (Vec::new(), 0);
        for arrived in self.take()? {
            match arrived {
                Arrived::Fragment(fragment) => lost += kept.keep(fragment),
                Arrived::First(name) => {
                    // What waited in the ring for a daemon to come is too old.
                    lost += kept.expire(now);
                    due.extend(kept.release(&name));
                }
            }
        }
        Ok((due, lost + kept.expire(now)))
    }
}

impl Work for Keeping {
    const NAME: &'static str = "fragments";
    const WITHOUT: &'static str = "early fragments are not kept";

    fn ring(&self) -> BorrowedFd<'_> {
        descriptor_of(&self.early.ring)
    }

    fn attend_until(&mut self, time: Duration) {
        self.early.keep_until(time);
    }

    /// Takes what has come, sends in what may go, gives up what is over.
    fn turn(&mut self, now: Duration) -> io::Result<()> {
        let Self { early, kept } = self;
        let (due, lost) = early.due(kept, now)?;
        // An interface that is gone takes no fragment.
        let lost = lost + due.iter().filter(|fragment| early.send_in(fragment).is_err()).count();
        early.lose(lost)
    }

    fn rest(&self) -> u16 {
        if self.kept.is_empty() { WITH_NONE } else { WITH_SOME }
    }

    fn end(mut self) -> io::Result<()> {
        let arrived = self.early.take()?;
        let fragments = arrived.into_iter().filter(|it| matches!(it, Arrived::Fragment(_))).count();
        self.early.lose(fragments + self.kept.expire(Duration::MAX))
    }
}
