//! Short flows, one after the other, of two clients on two cores. Their ports are used again: those of UDP just as their flows
//! have expired, so that packet and sweep race for each; those of connections while they are in TIME_WAIT or reset. The
//! table is smaller than what is remembered, so closed connections give their records away. A few connections stay open.

use super::{Account, WORKERS, Worker, bed, settle, with_workers};
use crate::bed::Side;
use std::sync::Barrier;
use std::time::Duration;
use testkit::packet::{ACK, FIN, RST, SYN};

/// Records. About 4,900 hold UDP flows that have not expired.
const TABLE: u32 = 8192;
/// Flows of a worker in a round, which is a second of the data plane's clock: half are UDP, a quarter end by FIN.
const ROUND: u64 = 700;
/// Rounds until a port of UDP comes again: its time is 5 s, and the sweep comes a little more than a second after it.
const UDP_ROUNDS: u64 = 7;
/// The same of connections that end by FIN and by RST; with those of UDP they are more than the table has room for.
const FIN_ROUNDS: u64 = 4;
const RST_ROUNDS: u64 = 7;
/// Connections that stay, of the first worker.
const LASTING: u16 = 16;
/// First ports of each kind.
const UDP_PORT: u64 = 1_024;
const FIN_PORT: u64 = 10_000;
const RST_PORT: u64 = 20_000;
const LASTING_PORT: u16 = 30_000;

/// What came of a run.
pub(crate) struct Run {
    pub(crate) flows: u64,
    pub(crate) packets: u64,
    pub(crate) table: u32,
    pub(crate) account: Account,
}

/// Sends so many flows, rounded up to whole rounds.
///
/// # Panics
/// If a packet is refused, or anything is lost.
pub(crate) fn run(flows: u64) -> Run {
    let rounds = flows.div_ceil(ROUND * WORKERS as u64);
    let mut bed = bed(TABLE);
    let barrier = Barrier::new(WORKERS + 1);
    let workers = with_workers(
        &mut bed,
        [0, 1],
        |worker, number| {
            for round in 0..rounds {
                (0..ROUND).for_each(|n| short_flow(worker, round * ROUND + n));
                if number == 0 {
                    lasting(worker, round);
                }
                barrier.wait();
            }
        },
        |bed| {
            for _ in 0..rounds {
                barrier.wait();
                bed.pass(Duration::from_secs(1));
                bed.firewall().flows.sweep().unwrap();
            }
        },
    );
    for worker in &workers {
        assert_eq!(worker.fault, None, "{:?}", super::account(&bed));
    }
    let packets = workers.iter().map(|worker| worker.packets).sum();
    let account = settle(&mut bed, TABLE, u64::from(LASTING));
    let flows = rounds * ROUND * WORKERS as u64;
    assert!(account.drops.is_empty(), "{account:?}");
    assert_eq!(account.opened, flows + u64::from(LASTING), "{account:?}");
    Run { flows, packets, table: TABLE, account }
}

/// One flow from its beginning to its end, the kind and the port by its number.
fn short_flow(worker: &mut Worker, number: u64) {
    let port = |first: u64, each: u64, rounds: u64| (first + number / each % (ROUND / each * rounds)) as u16;
    match number % 4 {
        0 | 2 => {
            let port = port(UDP_PORT, 2, UDP_ROUNDS);
            for side in [Side::In, Side::Out] {
                let verdict = worker.datagram(side, (port, 53));
                worker.passes(verdict, "a datagram", port);
            }
        }
        1 => connection(worker, port(FIN_PORT, 4, FIN_ROUNDS), number as u32, false),
        _ => connection(worker, port(RST_PORT, 4, RST_ROUNDS), number as u32, true),
    }
}

/// Opens a connection, and closes it by RST or by FIN of both ends.
fn connection(worker: &mut Worker, port: u16, number: u32, by_reset: bool) {
    let (start, other) = (number.wrapping_mul(0x0019_660d), number.wrapping_mul(0x0001_0dcd));
    let (next, other_next) = (start.wrapping_add(1), other.wrapping_add(1));
    let opening =
        [(Side::In, SYN, start, 0), (Side::Out, SYN | ACK, other, next), (Side::In, ACK, next, other_next)];
    let reset = [(Side::In, RST, next, 0)];
    let end = [
        (Side::In, FIN | ACK, next, other_next),
        (Side::Out, FIN | ACK, other_next, next.wrapping_add(1)),
        (Side::In, ACK, next.wrapping_add(1), other_next.wrapping_add(1)),
    ];
    let closing = if by_reset { &reset[..] } else { &end[..] };
    for (side, flags, sequence, ack) in opening.iter().chain(closing) {
        let verdict = worker.segment(*side, port, *flags, *sequence, *ack);
        worker.passes(verdict, "a segment", port);
    }
}

/// The connections that stay: opened in the first round, and then each has a packet of its other end once in a while.
fn lasting(worker: &mut Worker, round: u64) {
    if round == 0 {
        for port in LASTING_PORT..LASTING_PORT + LASTING {
            for (side, flags, sequence, ack) in
                [(Side::In, SYN, 1, 0), (Side::Out, SYN | ACK, 1, 2), (Side::In, ACK, 2, 2)]
            {
                let verdict = worker.segment(side, port, flags, sequence, ack);
                worker.passes(verdict, "the opening", port);
            }
        }
        return;
    }
    let port = LASTING_PORT + (round % u64::from(LASTING)) as u16;
    let verdict = worker.segment(if round.is_multiple_of(2) { Side::In } else { Side::Out }, port, ACK, 2, 2);
    worker.passes(verdict, "a lasting connection", port);
}
