//! Wrong resets at open connections, from both sides: with numbers in the window that are not the next one, which pass and
//! close nothing, and with others, which are dropped (RFC 5961 section 3).

use super::{WORKERS, Worker, bed, with_workers};
use crate::bed::Side;
use dataplane::{Filter, Reason, State, Tally, Verdict};
use testkit::packet::{ACK, RST, SYN};

/// Open connections of each worker.
const CONNECTIONS: u16 = 500;
/// The numbers that each end sends next, and the window that it offers. Client and server far apart, so that a number that is
/// right for one is wrong for the other.
const NEXT: [u32; 2] = [1_000_001, 0xffff_f001];
const WINDOW: u32 = 0xffff;

/// What came of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) connections: u64,
    /// In the window, passed on.
    pub(crate) inexact: u64,
    /// Outside, dropped.
    pub(crate) dropped: u64,
}

/// Sends so many wrong resets, rounded up to so many for each connection; looks whether each connection still carries data
/// both ways, and whether the right reset closes it.
///
/// # Panics
/// If not.
pub(crate) fn run(resets: u64) -> Run {
    let each = resets.div_ceil(u64::from(CONNECTIONS) * WORKERS as u64);
    let mut bed = bed(4096);
    let workers = with_workers(&mut bed, [0, 1], |worker, _| attack(worker, each), |_| {});
    for worker in &workers {
        assert_eq!(worker.fault, None);
    }
    let connections = u64::from(CONNECTIONS) * WORKERS as u64;
    let run = Run {
        connections,
        inexact: bed.tally(Tally::ResetInexact),
        dropped: bed.firewall().counters.drops().unwrap()[&Reason::TcpReset],
    };
    let sent = [Place::Inside, Place::Outside]
        .map(|place| connections * (0..each).filter(|n| place_of(*n) == place).count() as u64);
    assert_eq!([run.inexact, run.dropped], sent, "each is counted as what it is");
    let closed = bed.flows(&Filter { state: Some(State::Reset), ..Filter::default() });
    assert_eq!(closed.len() as u64, connections, "the right reset closes");
    assert_eq!(bed.tally(Tally::Opened), connections);
    run
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Inside,
    Outside,
}

/// One in four is in the window.
fn place_of(number: u64) -> Place {
    if number.is_multiple_of(4) { Place::Inside } else { Place::Outside }
}

/// How far the number of a wrong reset is from the right one; spread over all that are wrong, ends included.
fn distance(number: u64, port: u16) -> u32 {
    // xorshift*, of both.
    let mut random = (number + 1) ^ u64::from(port) << 32;
    random ^= random >> 12;
    random ^= random << 25;
    random ^= random >> 27;
    let random = random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
    match (place_of(number), number % 64) {
        (Place::Inside, 0) => 1,
        (Place::Inside, 4) => WINDOW,
        (Place::Inside, _) => 1 + (random % u64::from(WINDOW)) as u32,
        (Place::Outside, 1) => WINDOW + 1,
        (Place::Outside, 2) => u32::MAX,
        (Place::Outside, _) => WINDOW + 1 + (random % (u64::from(u32::MAX) - u64::from(WINDOW))) as u32,
    }
}

fn attack(worker: &mut Worker, each: u64) {
    let [client, server] = NEXT;
    let ports = 1024..1024 + CONNECTIONS;
    for port in ports.clone() {
        let back = |next: u32| next.wrapping_sub(1);
        for (side, flags, sequence, ack) in [
            (Side::In, SYN, back(client), 0),
            (Side::Out, SYN | ACK, back(server), client),
            (Side::In, ACK, client, server),
            (Side::Out, ACK, server, client),
        ] {
            let verdict = worker.segment(side, port, flags, sequence, ack);
            worker.passes(verdict, "the opening", port);
        }
    }
    for number in 0..each {
        for port in ports.clone() {
            wrong_reset(worker, number, port);
        }
    }
    for port in ports {
        for (side, flags, sequence, ack) in
            [(Side::In, ACK, client, server), (Side::Out, ACK, server, client), (Side::In, RST, client, 0)]
        {
            let verdict = worker.segment(side, port, flags, sequence, ack);
            worker.passes(verdict, "what is right", port);
        }
        if worker.segment(Side::Out, port, ACK, server, client) != Verdict::Drop {
            worker.note(|| format!("port {port} is open behind its reset"));
        }
    }
}

fn wrong_reset(worker: &mut Worker, number: u64, port: u16) {
    let side = if (number / 4 + u64::from(port)).is_multiple_of(2) { Side::In } else { Side::Out };
    let next = NEXT[side as usize];
    // With and without an acknowledgement: it is not looked at.
    let flags = if number.is_multiple_of(3) { RST | ACK } else { RST };
    let verdict =
        worker.segment(side, port, flags, next.wrapping_add(distance(number, port)), NEXT[side as usize ^ 1]);
    let wanted = if place_of(number) == Place::Inside { Verdict::Sent } else { Verdict::Drop };
    if verdict != wanted {
        worker.note(|| format!("reset {number} of port {port}: {verdict:?}"));
    }
}
