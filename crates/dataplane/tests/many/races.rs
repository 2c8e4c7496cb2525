//! Two threads on two cores that use the same flows at the same moment: both open one, each from its end; one closes what the
//! other uses; both find one expired while the sweep takes it; both open one anew where another was closed; a third ends
//! what they use. Whatever comes first, a packet that the policy allows passes, and nothing is lost.

use super::{Account, Moments, WORKERS, Worker, account, bed, settle, with_workers};
use crate::bed::{Bed, Side};
use dataplane::{Filter, Reason, Verdict};
use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::packet::{ACK, RST, SYN};

const TABLE: u32 = 1024;
/// Flows of a kind in a batch.
const BATCH: u16 = 64;
/// Moments in a batch at which both threads do something to the same flow.
const MOMENTS: u64 = 7 * BATCH as u64;
const TWICE_PORT: u16 = 1_024;
const ENDS_PORT: u16 = 2_048;
const TCP_PORT: u16 = 4_096;

/// What came of a run.
pub(crate) struct Run {
    /// Moments at which two threads did something to the same flow.
    pub(crate) races: u64,
    /// Data that came too late for a connection that was closed at that moment.
    pub(crate) late: u64,
    pub(crate) account: Account,
}

/// Where the threads of a run wait for each other.
struct Meeting {
    /// All, the third one too.
    steps: Barrier,
    /// The two, as close together as it gets.
    moments: Moments,
    /// The two are through with what the third accompanies.
    is_over: AtomicU64,
    late: AtomicU64,
}

/// Runs so many races, rounded up to whole batches.
///
/// # Panics
/// If a packet is refused, or anything is lost.
pub(crate) fn run(races: u64) -> Run {
    let batches = races.div_ceil(MOMENTS);
    let mut bed = bed(TABLE);
    let meeting = Meeting {
        steps: Barrier::new(WORKERS + 1),
        moments: Moments::default(),
        is_over: AtomicU64::new(0),
        late: AtomicU64::new(0),
    };
    let mut doubles = 0;
    let workers = with_workers(
        &mut bed,
        [0, 0],
        |worker, number| {
            let mut moment = 0;
            for batch in 0..batches {
                race(worker, number, batch, &meeting, &mut moment);
            }
        },
        |bed| {
            for batch in 0..batches {
                doubles += accompany(bed, batch, &meeting);
            }
        },
    );
    for worker in &workers {
        assert_eq!(worker.fault, None, "{:?}", account(&bed));
    }
    assert_eq!(doubles, 0, "two flows of the same ends");
    let late = meeting.late.into_inner();
    let account = settle(&mut bed, TABLE, 0);
    let dropped: u64 = account.drops.values().sum();
    let as_late = account.drops.get(&Reason::TcpState).copied().unwrap_or(0);
    assert_eq!((dropped, as_late), (late, late), "{account:?}");
    Run { races: batches * MOMENTS, late, account }
}

/// What a worker does in a batch. Both send in the name of the first one's client.
fn race(worker: &mut Worker, number: usize, batch: u64, meeting: &Meeting, moment: &mut u64) {
    let own_side = [Side::In, Side::Out][number];
    let tries = |worker: &mut Worker, side, ports, what| {
        let verdict = worker.datagram(side, ports);
        worker.passes(verdict, what, ports.0);
    };
    for n in 0..BATCH {
        meeting.moments.now(moment);
        tries(worker, Side::In, (TWICE_PORT + n, 53), "opening a flow twice");
        meeting.moments.now(moment);
        tries(worker, own_side, (ENDS_PORT + n, 53), "opening a flow from both ends");
    }
    // The third one looks at the table, and lets them expire.
    meeting.steps.wait();
    meeting.steps.wait();
    for n in 0..BATCH {
        meeting.moments.now(moment);
        tries(worker, own_side, (TWICE_PORT + n, 53), "what has expired");
        tries(worker, own_side, (ENDS_PORT + n, 53), "what has expired, of both ends");
    }
    leave(meeting);
    connections(worker, number, batch, meeting, moment);
    // The third one ends them all meanwhile.
    meeting.steps.wait();
    for n in 0..BATCH {
        meeting.moments.now(moment);
        tries(worker, Side::In, (TWICE_PORT + n, 53), "what is ended");
    }
    leave(meeting);
}

/// Through with what the third one accompanies; all go on together.
fn leave(meeting: &Meeting) {
    meeting.is_over.fetch_add(1, Ordering::AcqRel);
    meeting.steps.wait();
}

fn connections(worker: &mut Worker, number: usize, batch: u64, meeting: &Meeting, moment: &mut u64) {
    let segment = |worker: &mut Worker, n: u16, (side, flags, sequence, ack), what| {
        let verdict = worker.segment(side, TCP_PORT + n, flags, sequence, ack);
        worker.passes(verdict, what, TCP_PORT + n);
    };
    // Each batch, and each connection of it, begins behind the last.
    let start = (batch as u32).wrapping_mul(1 << 20);
    let [first, second, third] = [start, start.wrapping_add(300_000), start.wrapping_add(600_000)];
    for n in (0..BATCH).filter(|n| usize::from(*n) % WORKERS == number) {
        segment(worker, n, (Side::In, SYN, first, 0), "a SYN");
        segment(worker, n, (Side::Out, SYN | ACK, 7, first.wrapping_add(1)), "a SYN-ACK");
        segment(worker, n, (Side::In, ACK, first.wrapping_add(1), 8), "an ACK");
    }
    for n in 0..BATCH {
        meeting.moments.now(moment);
        if number == 0 {
            segment(worker, n, (Side::In, RST, first.wrapping_add(1), 0), "the right reset");
        } else if worker.segment(Side::Out, TCP_PORT + n, ACK, 8, first.wrapping_add(1)) != Verdict::Sent {
            meeting.late.fetch_add(1, Ordering::Relaxed);
        }
        meeting.moments.now(moment);
        segment(worker, n, (Side::In, SYN, second, 0), "a SYN where another connection was");
        meeting.moments.now(moment);
        if number == 0 {
            segment(
                worker,
                n,
                (Side::Out, SYN | ACK, 7, second.wrapping_add(1)),
                "the answer to a raced SYN",
            );
        }
        meeting.moments.now(moment);
        if number == 0 {
            segment(worker, n, (Side::In, RST, second.wrapping_add(1), 0), "the reset of a raced SYN");
        } else {
            segment(worker, n, (Side::In, SYN, third, 0), "a SYN beside a reset");
        }
    }
}

/// What the third thread does in a batch: how many flows there are twice.
fn accompany(bed: &mut Bed, batch: u64, meeting: &Meeting) -> usize {
    meeting.steps.wait();
    let flows = bed.flows(&Filter::default());
    let ends: HashSet<_> = flows
        .iter()
        .map(|s| (s.protocol, s.initiator.max(s.responder), s.initiator.min(s.responder)))
        .collect();
    let doubles = flows.len() - ends.len();
    // Over, and the sweep comes: just not yet, and at once.
    bed.pass(Duration::from_millis(if batch.is_multiple_of(2) { 5_500 } else { 6_200 }));
    meeting.steps.wait();
    let over = |round: u64| WORKERS as u64 * (2 * batch + round);
    while meeting.is_over.load(Ordering::Acquire) < over(1) {
        bed.firewall().flows.sweep().unwrap();
    }
    meeting.steps.wait();
    meeting.steps.wait();
    while meeting.is_over.load(Ordering::Acquire) < over(2) {
        for flow in bed.flows(&Filter { protocol: Some(17), ..Filter::default() }) {
            bed.firewall().flows.end(flow.id).unwrap();
        }
    }
    meeting.steps.wait();
    doubles
}
