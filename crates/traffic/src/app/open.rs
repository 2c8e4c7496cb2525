//! The open loop: every connection begins when it is due, whatever becomes of the others, and its times count from that moment. So a
//! slow firewall is asked as often as a fast one, and what had to wait for its turn here does not hide it.

use super::load::{Tally, VirtualClient, World};
use measure::open_loop::OpenLoop;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::rc::Rc;
use tokio::io::unix::AsyncFd;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Duration, Instant};

/// Connections of a run that may be open at once. Those that are due beyond it are not made, and the ledger says so.
pub(super) const MOST_OPEN: usize = 8_000;
/// Connections that are due so soon are waited for by taking turns with those that are open: the timer would come later.
const SOON: Duration = Duration::from_micros(30);

/// Makes the connections of one thread of `of`: every so-many-th, from number `place` on.
///
/// # Errors
/// This machine cannot make another connection.
pub(super) async fn keep_time(
    world: Rc<World>,
    tally: Rc<RefCell<Tally>>,
    load: OpenLoop,
    place: usize,
    of: usize,
) -> io::Result<()> {
    let alarm = Alarm::new()?;
    let start = *world.start.get_or_init(Instant::now);
    let mut open = JoinSet::new();
    for number in (place as u64..load.connections()).step_by(of) {
        let due_seconds = load.due_seconds(number);
        let due = start + Duration::from_secs_f64(due_seconds);
        alarm.until(due).await?;
        while let Some(ended) = open.try_join_next() {
            settle(ended)?;
        }
        let part = world.next_part();
        if open.len() >= MOST_OPEN / of {
            tally.borrow_mut().leave_out(part, u64::from(world.transactions(part)));
            continue;
        }
        let client = VirtualClient { number, world: world.clone(), tally: tally.clone() };
        open.spawn_local(client.connect_at(start, part, due, load.is_sustained(due_seconds)));
    }
    while let Some(ended) = open.join_next().await {
        settle(ended)?;
    }
    Ok(())
}

pub(super) fn settle(ended: Result<io::Result<()>, JoinError>) -> io::Result<()> {
    ended.unwrap_or_else(|broken| Err(io::Error::other(broken)))
}

/// A timer of the kernel, which is exact to some microseconds where the runtime's own one is to a millisecond.
pub(super) struct Alarm(AsyncFd<Timer>);

pub(super) struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for files whose number may change: a timer's does not"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        Ok(Self(AsyncFd::new(Timer(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?))?))
    }

    /// Waits until a moment; at least once everybody else has a turn.
    pub(super) async fn until(&self, due: Instant) -> io::Result<()> {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left <= SOON {
                tokio::task::yield_now().await;
                if left.is_zero() {
                    return Ok(());
                }
                continue;
            }
            let once = Expiration::OneShot(TimeSpec::from_duration(left - SOON / 2));
            self.0.get_ref().0.set(once, TimerSetTimeFlags::empty())?;
            // Setting the timer takes back what an earlier one had left to read.
            let mut ready = self.0.readable().await?;
            let _ = ready.try_io(|timer| timer.get_ref().0.wait().map_err(io::Error::from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alarm_is_never_early() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let alarm = Alarm::new().unwrap();
            for micros in [0, 10, 200, 3_000, 15_000, 0] {
                let due = Instant::now() + Duration::from_micros(micros);
                alarm.until(due).await.unwrap();
                assert!(Instant::now() >= due, "{micros} us");
            }
        });
    }
}
