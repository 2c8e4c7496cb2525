//! Firewalls that lie about connections (`bpf/test/lying_tcp.bpf.c`): each is caught, and the reason names the lie. What no end can
//! see is listed in `docs/design/tcp-engine.md`. A test of the package `traffic`; needs root, iproute2.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot run")]

#[path = "../../crates/traffic/tests/tcp/bed.rs"]
mod bed;

use bed::{Bed, PATIENCE};
use libbpf_rs::{MapCore, MapFlags};
use measure::connections::IllegalKind;
use std::time::Duration;
use testkit::filter::{Filter, LYING_TCP, ONLY};
use traffic::tcp::{
    Close, Ends, Engine, FORBIDDEN_PORT, IllegalPlan, Message, Opening, Options, TcpPhase, TcpPlan,
    TcpReading,
};

/// `enum lie`, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    Honest,
    Answers,
    AnswersHandshake,
    Replays,
    FlipsAndMends,
    Flips,
    FlipsRequests,
    DropsCloses,
    RepeatsSyn,
    RepeatsRequests,
    ChangesPort,
    ChangesAddress,
    Splices,
    Admits,
    AdmitsFast,
    StopsMarked,
}

/// A firewall.
struct Firewall {
    lie: Lie,
    /// For [`Lie::Answers`]: client ports that have one of these bits.
    mask: u32,
    /// For the last two.
    every: u32,
    /// Whether it knows what an answer looks like before it saw one.
    informed: bool,
}

impl Firewall {
    const fn of(lie: Lie) -> Self {
        Self { lie, mask: u32::MAX, every: 1, informed: false }
    }

    /// Stands before the router of the bed from now on.
    fn stand(&self, bed: &Bed) {
        let filter = Filter::load(LYING_TCP);
        let links = ["left", "right"].map(|link| bed.router().ifindex(link));
        let words = [self.lie as u32, links[0], links[1], self.mask, self.every, u32::from(self.informed)];
        let mut bytes = words.map(u32::to_ne_bytes).concat();
        bytes.extend([0; 16]);
        bytes.extend(Message::http_answer(1).bytes());
        bytes.resize(filter.map("lying_map").value_size() as usize, 0);
        filter.map("lying_map").update(&ONLY, &bytes, MapFlags::ANY).unwrap();
        filter.attach("lying", bed.router(), &links);
    }
}

const CONNECTIONS: u64 = 400;

fn plan() -> TcpPlan {
    TcpPlan {
        options: Options::MSS,
        retry: Duration::from_millis(200),
        retries: 1,
        grace: PATIENCE,
        settle: PATIENCE,
        ..TcpPlan::new(Opening::Scheduled(vec![TcpPhase::counted(CONNECTIONS, 4000.0)]))
    }
}

/// With a forbidden attempt beside each connection, as the bench sends one beside a thousand.
fn with_forbidden(plan: &mut TcpPlan) {
    let kinds = vec![IllegalKind::Address, IllegalKind::Port];
    plan.illegal = Some(IllegalPlan {
        share: 0.5,
        kinds,
        ports: FORBIDDEN_PORT..=FORBIDDEN_PORT,
        listed: Vec::new(),
        watches: true,
    });
    plan.opening = Opening::Scheduled(vec![TcpPhase::counted(2 * CONNECTIONS, 8000.0)]);
}

/// Why the trial must not count.
fn reasons(reading: &TcpReading) -> Vec<String> {
    let outcome = reading.outcome();
    let mut found = outcome.served.unwrap().disagreements();
    let through = outcome.forbidden.map_or(0, |forbidden| forbidden.total_got_through());
    if through > 0 {
        found.push(format!("{through} forbidden attempts got through"));
    }
    found
}

#[test]
fn every_lie_about_connections_is_caught_and_named() {
    type Row = (&'static str, Firewall, fn(&mut TcpPlan), &'static str);
    let rows: [Row; 25] = [
        ("honest", Firewall::of(Lie::Honest), |_| (), ""),
        ("honest, FIN", Firewall::of(Lie::Honest), |p| p.close = Close::ClientFin, ""),
        ("honest, no request", Firewall::of(Lie::Honest), |p| p.transactions = 0, ""),
        (
            "honest, forbidden attempts",
            Firewall { every: u32::MAX, ..Firewall::of(Lie::Admits) },
            with_forbidden,
            "",
        ),
        (
            "answers all itself",
            Firewall { informed: true, ..Firewall::of(Lie::Answers) },
            |_| (),
            "400 connections were established whose SYN never reached the server",
        ),
        (
            "answers all itself, FIN",
            Firewall { informed: true, ..Firewall::of(Lie::Answers) },
            |p| p.close = Close::ServerFin,
            "400 connections were established whose SYN never reached the server",
        ),
        (
            "answers connections without a request itself",
            Firewall { informed: true, ..Firewall::of(Lie::Answers) },
            |p| p.transactions = 0,
            "the server served 0 of the 400 connections that the client completed",
        ),
        (
            "answers connections without a request itself, FIN",
            Firewall { informed: true, ..Firewall::of(Lie::Answers) },
            |p| (p.transactions, p.close) = (0, Close::ClientFin),
            "the server served 0 of the 400 connections that the client completed",
        ),
        (
            "answers every second connection itself",
            Firewall { informed: true, mask: 1, ..Firewall::of(Lie::Answers) },
            |p| p.transactions = 0,
            "of the 400 connections that the client completed",
        ),
        (
            "answers from a cache",
            Firewall::of(Lie::Answers),
            |_| (),
            "answers were not the server's to that request",
        ),
        (
            "answers the handshake itself",
            Firewall::of(Lie::AnswersHandshake),
            |_| (),
            "400 connections were established whose SYN never reached the server",
        ),
        (
            "replays an earlier answer",
            Firewall::of(Lie::Replays),
            |_| (),
            "399 answers were not the server's to that request",
        ),
        (
            "replays an earlier answer of the same connection",
            Firewall::of(Lie::Replays),
            |p| (p.transactions, p.request) = (2, Message::http_get("/")),
            "answers were not the server's to that request",
        ),
        (
            "flips bits of answers",
            Firewall::of(Lie::FlipsAndMends),
            |_| (),
            "400 answers arrived with other bytes than the server's",
        ),
        (
            "flips bits of answers and leaves the checksum",
            Firewall::of(Lie::Flips),
            |_| (),
            "segments reached the client with a wrong checksum",
        ),
        (
            "flips bits of requests",
            Firewall::of(Lie::FlipsRequests),
            |_| (),
            "400 requests reached the server with other bytes than the client's",
        ),
        (
            "drops the end",
            Firewall::of(Lie::DropsCloses),
            |_| (),
            "the ends of 400 of the 400 connections did not reach the server",
        ),
        (
            "sends SYN of its own",
            Firewall::of(Lie::RepeatsSyn),
            |_| (),
            "400 SYN more reached the server than the client sent",
        ),
        (
            "sends requests of its own",
            Firewall::of(Lie::RepeatsRequests),
            |_| (),
            "400 requests more reached the server than the client sent",
        ),
        (
            "changes the source port",
            Firewall::of(Lie::ChangesPort),
            |_| (),
            "segments reached the server from another address or port than their client's",
        ),
        (
            "changes the source address",
            Firewall::of(Lie::ChangesAddress),
            |_| (),
            "segments reached the server from another address or port than their client's",
        ),
        (
            "splices connections",
            Firewall::of(Lie::Splices),
            |_| (),
            "answers were not the server's to that request",
        ),
        (
            "admits one forbidden attempt in a hundred",
            Firewall { every: 100, ..Firewall::of(Lie::Admits) },
            with_forbidden,
            "4 forbidden attempts got through",
        ),
        (
            "admits forbidden attempts above a rate",
            Firewall { every: 1_000_000_000, ..Firewall::of(Lie::AdmitsFast) },
            with_forbidden,
            "forbidden attempts got through",
        ),
        (
            "stops only forbidden attempts with an odd window",
            Firewall::of(Lie::StopsMarked),
            with_forbidden,
            "400 forbidden attempts got through",
        ),
    ];
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let mut failed = Vec::new();
    for (name, firewall, change, said) in rows {
        firewall.stand(&bed);
        let mut plan = plan();
        change(&mut plan);
        let reading = engine.run(&ports, &plan, &mut ()).unwrap();
        let found = reasons(&reading).join("; ");
        let fits = if said.is_empty() {
            found.is_empty() && reading.counts.closed == CONNECTIONS
        } else {
            found.contains(said)
        };
        if !fits {
            failed.push(format!("{name}: expected «{said}», found «{found}» in {:?}", reading.counts));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
