//! The data plane's clock in user space: ticks of the monotonic clock.

use crate::skeleton::types::{era, sizes};
use std::time::Duration;

const ERA_BITS: u8 = era::ERA_BITS.0 as u8;
const ERA_KNOWN: u8 = era::ERA_KNOWN.0 as u8;

/// The tick at a time since the machine was started.
pub(crate) fn whole_tick(now: Duration) -> u64 {
    (now.as_nanos() >> sizes::TICK_SHIFT.0) as u64
}

/// A number of ticks as time.
pub(crate) fn ticks(ticks: u64) -> Duration {
    Duration::from_nanos(ticks << sizes::TICK_SHIFT.0)
}

/// Time since a tick that was written in 32 bits less than 52 days ago: `ticks_since()` in C.
pub(crate) fn since(now: u64, then: u32) -> Duration {
    let passed = (now as u32).wrapping_sub(then);
    // 0 when the clock that was read stands a little behind.
    ticks(if passed > u32::MAX - era::TICK_SLACK.0 { 0 } else { passed.into() })
}

/// Time since the last packet of a flow, whose era stands above the bit of its initiator: `idle_ticks()` in C.
pub(crate) fn idle(now: u64, seen: u32, initiator: u8) -> Duration {
    const ROUND: u64 = (ERA_BITS as u64 + 1) << era::ERA_TICKS.0;
    let known = initiator >> era::ERA_SHIFT.0;
    if known & ERA_KNOWN == 0 {
        return since(now, seen);
    }
    let then = u64::from(known & ERA_BITS) << era::ERA_TICKS.0 | u64::from(seen);
    let passed = now.wrapping_sub(then) & (ROUND - 1);
    ticks(if passed > ROUND / 2 { 0 } else { passed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_idle_for_as_long_as_it_is() {
        let known = |number: u8| (number | ERA_KNOWN) << era::ERA_SHIFT.0;
        for (now, seen, initiator, expected) in [
            (100, 40, known(0), 60),
            (40, 100, known(0), 0),
            ((1 << 32) + 5, u32::MAX, known(0), 6),
            ((1 << 32) + 5, 5, known(0), 1 << 32),
            ((3 << 32) + 5, 4, known(1) | 1, (2 << 32) + 1),
            // The clock of another core was ahead when the era changed.
            ((1 << 32) - 1, 2, known(1), 0),
            // 64 eras are one round.
            (65 << 32, 0, known(63), 2 << 32),
            // Of a build without eras.
            ((3 << 32) + 5, 4, 1, 1),
            (4, 5, 0, 0),
        ] {
            assert_eq!(idle(now, seen, initiator), ticks(expected), "{now} {seen} {initiator}");
        }
    }
}
