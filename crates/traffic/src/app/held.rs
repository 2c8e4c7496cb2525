//! Connections that are kept open together. Each is opened when it is due and has a transaction, then one whenever its think time is over,
//! and a last one after all others were opened, or failed to be, and the hold is over. So whatever completes all of its transactions was
//! open together with all others that do. Nothing here decides how many there should be.

use super::client::{Order, Stop, transact};
use super::load::{BUFFER_BYTES, Tally, Took, VirtualClient, World};
use super::open::{Alarm, settle};
use super::run::{Load, allow_files, files_of_held};
use crate::TrafficError;
use crate::random::SplitMix64;
use measure::application::{Arrivals, Protocol, ProtocolMix};
use measure::held_open::HeldOpen;
use nix::sys::resource::{Resource, getrlimit};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep_until};

/// Memory set aside for a connection, both ends together. Measured with 10,000 of HTTP, 3,000 of HTTPS and 500 of HTTP/2: 9, 24 and 68 KiB of the
/// process, and about 8 KiB of the kernel. Twice as much, because busy sockets have buffers.
const BYTES_PLAIN: u64 = 32 * 1024;
const BYTES_TLS: u64 = 64 * 1024;
const BYTES_HTTP2: u64 = 160 * 1024;
/// Of the memory that the machine has left.
const MEMORY_SHARE: f64 = 0.8;
/// So many times longer than planned may opening take, and closing, before the machine is too slow for what was asked.
const SLOWER: f64 = 2.0;

/// What all threads of clients have in common.
#[derive(Debug)]
pub(super) struct Together {
    plan: HeldOpen,
    limit: Duration,
    start: OnceLock<Instant>,
    /// Connections that are neither open nor failed.
    pending: AtomicU64,
    /// Connections that were due and not begun, because this machine was too late.
    left_out: AtomicU64,
    /// When the last one was opened, or failed to be.
    all_open: watch::Sender<Option<Instant>>,
}

impl Together {
    pub(super) fn new(plan: HeldOpen, limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            plan,
            limit,
            start: OnceLock::new(),
            pending: AtomicU64::new(plan.connections),
            left_out: AtomicU64::new(0),
            all_open: watch::channel(None).0,
        })
    }

    /// How long a run may take.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_secs_f64(self.plan.seconds() * SLOWER) + 3 * self.limit
    }

    /// Why connections were not made that were due; `None` where all were.
    pub(super) fn why_late(&self) -> Option<String> {
        let left_out = self.left_out.load(Ordering::Relaxed);
        (left_out > 0).then(|| {
            format!(
                "the bench opened {} of {} connections in {:.1} s: this machine cannot open {} a second; lower opening_rate",
                self.plan.connections - left_out,
                self.plan.connections,
                self.latest().as_secs_f64(),
                self.plan.opening_rate
            )
        })
    }

    /// How long after the start a connection may still be begun.
    fn latest(&self) -> Duration {
        Duration::from_secs_f64(self.plan.opening_seconds() * SLOWER) + self.limit
    }

    /// So many more connections are open, failed or given up.
    fn settle(&self, connections: u64) {
        if self.pending.fetch_sub(connections, Ordering::AcqRel) == connections {
            self.all_open.send_replace(Some(Instant::now()));
        }
    }

    /// When a connection has its last transaction, once all are open.
    fn end_of(&self, number: u64) -> Option<Instant> {
        let all_open = *self.all_open.borrow();
        let after = Duration::from_secs_f64(self.plan.hold_seconds + self.plan.due_seconds(number));
        all_open.map(|moment| moment + after)
    }
}

/// The load with as many connections as this machine can have both ends of, and what the limit was where these are fewer than asked for.
///
/// # Errors
/// It can have none, or does not say what it can.
pub(super) fn as_many_as_can_be(load: &Load) -> Result<(Load, Option<String>), TrafficError> {
    let Arrivals::Held(held) = load.arrivals else { return Ok((load.clone(), None)) };
    let memory = available_memory().map_err(TrafficError::system("reading /proc/meminfo"))?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|errno| TrafficError::system("asking how many files may be open")(errno.into()))?;
    // Who may raise the limit does.
    let files = if allow_files(files_of_held(held.connections)).is_ok() { u64::MAX } else { hard };
    let limits = Limits { files, memory, bytes_each: bytes_each(&load.protocol) };
    let Some((connections, why)) = limits.below(held.connections) else { return Ok((load.clone(), None)) };
    if connections == 0 {
        return Err(TrafficError::Impossible(format!("no connection can be held: {why}")));
    }
    let held = HeldOpen { connections, ..held };
    Ok((Load { arrivals: Arrivals::Held(held), seconds: held.seconds(), ..load.clone() }, Some(why)))
}

fn bytes_each(mix: &ProtocolMix) -> u64 {
    match mix.over_tls()[..] {
        [] => BYTES_PLAIN,
        [Protocol::Https] => BYTES_TLS,
        _ => BYTES_HTTP2,
    }
}

/// What this machine has for both ends of connections.
struct Limits {
    /// Files that a process may have open.
    files: u64,
    /// Bytes of memory.
    memory: u64,
    /// Bytes of memory that both ends of a connection may take.
    bytes_each: u64,
}

impl Limits {
    /// How many connections there can be and why no more, if these are fewer than so many.
    fn below(&self, connections: u64) -> Option<(u64, String)> {
        let by_files = self.files.saturating_sub(files_of_held(0)) / 2;
        let each = self.bytes_each;
        let by_memory = (self.memory as f64 * MEMORY_SHARE) as u64 / each;
        let (most, why) = if by_files <= by_memory {
            (by_files, format!("the bench may have {} files open (`ulimit -Hn`), two for each", self.files))
        } else {
            let mebibytes = self.memory >> 20;
            (
                by_memory,
                format!(
                    "the machine has {mebibytes} MiB of memory left, and each may take {} KiB",
                    each >> 10
                ),
            )
        };
        (most < connections).then_some((most, why))
    }
}

/// Bytes of memory that programs can still have.
fn available_memory() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map(|kb| kb * 1024).ok_or_else(|| io::Error::other("it has no MemAvailable"))
}

/// Opens the connections of one thread of `of`, every so-many-th from number `place` on, and keeps them to their ends.
///
/// # Errors
/// This machine cannot make another connection.
pub(super) async fn keep_open(
    world: Rc<World>,
    tally: Rc<RefCell<Tally>>,
    together: Arc<Together>,
    place: usize,
    of: usize,
) -> io::Result<()> {
    let alarm = Alarm::new()?;
    let start = *together.start.get_or_init(Instant::now);
    let latest = start + together.latest();
    let mut open = JoinSet::new();
    let all = together.plan.connections;
    for number in (place as u64..all).step_by(of) {
        let due = start + Duration::from_secs_f64(together.plan.due_seconds(number));
        alarm.until(due).await?;
        while let Some(ended) = open.try_join_next() {
            settle(ended)?;
        }
        if Instant::now() > latest {
            let rest = (all - number).div_ceil(of as u64);
            tally.borrow_mut().leave_out(None, rest);
            together.left_out.fetch_add(rest, Ordering::Relaxed);
            together.settle(rest);
            break;
        }
        let client = VirtualClient { number, world: world.clone(), tally: tally.clone() };
        open.spawn_local(client.hold(start, together.clone()));
    }
    while let Some(ended) = open.join_next().await {
        settle(ended)?;
    }
    Ok(())
}

impl VirtualClient {
    /// Opens a connection and uses it until all were open, or to the first transaction that fails.
    ///
    /// # Errors
    /// This machine cannot make another connection.
    async fn hold(self, start: Instant, together: Arc<Together>) -> io::Result<()> {
        let mut random = self.random();
        let mut order = self.next_in_turn(&mut random);
        let mut connection = None;
        order.is_last = false;
        let is_open = self.once(start, &mut connection, &order).await;
        self.tally.borrow_mut().held.opened += u64::from(matches!(is_open, Ok(true)));
        together.settle(1);
        if !is_open? {
            return Ok(());
        }
        let think = Duration::from_secs_f64(together.plan.think());
        let mut next = Instant::now() + self.stagger(think, &mut random);
        let mut all_open = together.all_open.subscribe();
        loop {
            let end = together.end_of(self.number);
            tokio::select! {
                () = sleep_until(end.map_or(next, |end| end.min(next))) => {}
                // The sender lives as long as its run.
                _ = all_open.changed(), if end.is_none() => continue,
            }
            let now = Instant::now();
            order.is_last = end.is_some_and(|end| now >= end);
            order.file = self.world.files.any(order.protocol, &mut random);
            if !self.once(start, &mut connection, &order).await? {
                return Ok(());
            }
            if order.is_last {
                self.tally.borrow_mut().held.alive += 1;
                return Ok(());
            }
            next = Instant::now() + think;
        }
    }

    /// The first think time is shorter by chance, so that connections that were opened together do not ask together for ever.
    fn stagger(&self, think: Duration, random: &mut SplitMix64) -> Duration {
        think.mul_f64(random.below(1000) as f64 / 1000.0)
    }

    /// Makes one transaction; says whether it completed.
    async fn once(
        &self,
        start: Instant,
        connection: &mut Option<super::client::Connection>,
        order: &Order<'_>,
    ) -> io::Result<bool> {
        let begun = Instant::now();
        self.tally.borrow_mut().begin(None, (begun - start).as_secs_f64());
        // Most connections think most of the time, so a buffer is lent for a transaction alone.
        let kept = self.world.buffers.borrow_mut().pop();
        let mut buffer = kept.unwrap_or_else(|| vec![0; BUFFER_BYTES]);
        let result = transact(connection, order, &mut buffer).await;
        self.world.buffers.borrow_mut().push(buffer);
        let ended = Instant::now();
        let mut tally = self.tally.borrow_mut();
        match result {
            Ok(arrival) => {
                let took = Took::of(begun, arrival, ended);
                let at = (ended - start).as_secs_f64();
                tally.complete(None, at, self.world.load.seconds, took, order.file.bytes.len());
                Ok(true)
            }
            Err(Stop::Failed(failure)) => {
                tally.fail(None, failure);
                Ok(false)
            }
            Err(Stop::Own(error)) => {
                tally.take_back(None);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_comes_first_is_named() {
        use Protocol::{Http2, Http11, Https};
        const MIB: u64 = 1 << 20;
        type Row = (u64, u64, Protocol, u64, Option<(u64, &'static str)>);
        let rows: [Row; 7] = [
            (u64::MAX, 1 << 40, Https, 300_000, None),
            (20_256, 1 << 40, Http11, 10_000, None),
            (20_256, 1 << 40, Http11, 10_001, Some((10_000, "the bench may have 20256 files open"))),
            (100, 1 << 40, Http11, 1, Some((0, "the bench may have 100 files open"))),
            (
                u64::MAX,
                40 * MIB,
                Http11,
                2000,
                Some((1024, "has 40 MiB of memory left, and each may take 32 KiB")),
            ),
            (u64::MAX, 40 * MIB, Https, 2000, Some((512, "and each may take 64 KiB"))),
            (u64::MAX, 40 * MIB, Http2, 2000, Some((204, "and each may take 160 KiB"))),
        ];
        for (files, memory, protocol, asked, expected) in rows {
            let bytes_each = bytes_each(&ProtocolMix::Only(protocol));
            let found = Limits { files, memory, bytes_each }.below(asked);
            let what = format!("{files} {memory} {asked}: {found:?}");
            assert_eq!(found.as_ref().map(|(most, _)| *most), expected.map(|(most, _)| most), "{what}");
            let said = expected.is_none_or(|(_, said)| found.is_some_and(|(_, why)| why.contains(said)));
            assert!(said, "{what}");
        }
    }
}
