//! The clock of all measurements: CLOCK_MONOTONIC, which the BPF programs read too and which never steps.

use nix::time::{ClockId, clock_gettime};

/// Namespace for clock readings.
#[derive(Debug, Clone, Copy)]
pub struct Clock;

impl Clock {
    /// ns of CLOCK_MONOTONIC.
    pub fn now_ns() -> u64 {
        Self::read(ClockId::CLOCK_MONOTONIC)
    }

    /// ns of CLOCK_REALTIME, which steps; only for finding out that it did.
    pub fn wall_ns() -> u64 {
        Self::read(ClockId::CLOCK_REALTIME)
    }

    /// ns of CLOCK_MONOTONIC_RAW, whose pace nobody can change; only for finding out that somebody changed the other's.
    pub fn raw_ns() -> u64 {
        Self::read(ClockId::CLOCK_MONOTONIC_RAW)
    }

    /// ns of CLOCK_BOOTTIME, which goes on while the machine is suspended.
    pub fn boot_ns() -> u64 {
        Self::read(ClockId::CLOCK_BOOTTIME)
    }

    /// ns that cores have worked for this process.
    pub fn busy_ns() -> u64 {
        Self::read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
    }

    fn read(clock: ClockId) -> u64 {
        // These clocks always exist on Linux.
        clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
    }
}
