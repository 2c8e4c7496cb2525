//! What the kernel's forwarding refused with an answer (`bpf/firewall/refused.h`). The program at netfilter puts such packets into a ring,
//! as many as may be answered and no more; here another program is run on each, which sends the answer. Never decides what is
//! answered, and how: the programs do.

use crate::DataplaneError;
use crate::attendant::{Attendant, Work};
use crate::contexts;
use crate::ring::Ring;
use crate::shared::{Program, Shared, publish};
use crate::skeleton::types;
use libbpf_rs::MapCore;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Who waits longer for an answer has sent again: what was in the ring when no daemon ran is not answered.
const LATE: Duration = Duration::from_secs(1);
/// Milliseconds between two looks if nothing comes.
const REST: u16 = 1_000;

/// The reading end of the ring, and who answers.
pub(crate) struct Refused {
    ring: Ring<types::refused_packet>,
    until: Shared<u64>,
    answer: Program,
}

impl Refused {
    pub(crate) fn new(
        map: &dyn MapCore,
        until: Shared<u64>,
        answer: Program,
    ) -> Result<Self, DataplaneError> {
        Ok(Self { ring: Ring::new(map, "the ring of refused packets")?, until, answer })
    }

    /// Answers on a thread of its own.
    pub(crate) fn answer_in_background(self) -> Result<Attendant, DataplaneError> {
        Attendant::start(self)
    }
}

/// What the program that answers is run on: the frame, and behind it what is known of the packet.
fn handed(refused: &types::refused_packet) -> Vec<u8> {
    let frame = refused.frame.get(..refused.bytes as usize).unwrap_or_default();
    [frame, &refused.packet].concat()
}

impl Work for Refused {
    const NAME: &'static str = "answers";
    const WITHOUT: &'static str = "what is refused is not answered";

    fn ring(&self) -> BorrowedFd<'_> {
        self.ring.descriptor()
    }

    fn attend_until(&mut self, time: Duration) {
        publish(&mut *self.until, crate::clock::whole_tick(time));
    }

    fn turn(&mut self, now: Duration) -> io::Result<()> {
        for refused in self.ring.take().map_err(io::Error::other)? {
            if Duration::from_nanos(refused.time) + LATE > now {
                // An interface that is gone has nobody who waits.
                let _ = self.answer.run(&handed(&refused), &contexts::tc(refused.ifindex), &mut [], 1);
            }
        }
        Ok(())
    }

    fn rest(&self) -> u16 {
        REST
    }

    fn end(self) -> io::Result<()> {
        Ok(())
    }
}
