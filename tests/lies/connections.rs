//! Firewalls that lie about connections (`bpf/test/lying_tcp.bpf.c`): each is caught, and the reason names the lie. What no end can
//! see is listed in `docs/design/tcp-engine.md`. A test of the package `traffic`; needs root, iproute2.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot run")]

#[path = "../../crates/traffic/tests/tcp/bed.rs"]
mod bed;

use bed::{Bed, PATIENCE};
use measure::connections::IllegalKind;
use measure::shape::IpVersion;
use std::time::Duration;
use testkit::filter::{Filter, LYING_TCP};
use traffic::tcp::{
    Answer, Close, Ends, Engine, FORBIDDEN_PORT, IllegalPlan, Message, Opening, Options, TcpPhase, TcpPlan,
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
    AcksEarly,
    ClosesEarly,
    SpeaksAfterClose,
    RepeatsAnswers,
    SwapsAnswers,
    Proxies,
    Renumbers,
    Evicts,
    RaisesMss,
    LowersMss,
    RaisesScale,
    AddsSack,
    RemovesSack,
    RemovesSackOfServer,
    RemovesStamps,
    RaisesWindows,
    LowersWindows,
    InventsRest,
    Completes,
    ClearsUrgent,
    KnowsClients,
    KnowsConnections,
    HurriesTimed,
}

/// A firewall.
struct Firewall {
    lie: Lie,
    /// For [`Lie::Answers`]: client ports that have one of these bits.
    mask: u32,
    /// What it counts by; see the program.
    every: u32,
    /// Segments for which it is honest.
    after: u32,
    /// Whether it knows what an answer looks like before it saw one.
    informed: bool,
}

impl Firewall {
    const fn of(lie: Lie) -> Self {
        Self { lie, mask: u32::MAX, every: 1, after: 0, informed: false }
    }

    /// Stands before the router of the bed from now on, where connections are as planned.
    fn stand(&self, bed: &Bed, plan: &TcpPlan) {
        let filter = Filter::load(LYING_TCP);
        let links = ["left", "right"].map(|link| bed.router().ifindex(link));
        let informed = u32::from(self.informed);
        let words = [self.lie as u32, links[0], links[1], self.mask, self.every, self.after, informed, 0];
        let mut bytes = words.map(u32::to_ne_bytes).concat();
        bytes.extend([0; 24]);
        let Answer::Exactly(answer) = &plan.answer else { unreachable!("all servers are the bench's") };
        bytes.extend(&answer.bytes()[answer.bytes().len() - ANSWER_BYTES..]);
        filter.only("settings").set_bytes(bytes);
        filter.attach("lying", bed.router(), &links);
    }
}

const CONNECTIONS: u64 = 400;
/// `ANSWER_BYTES` of the program: of the answer to a request, or of the last segment of one.
const ANSWER_BYTES: usize = 64;

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

/// The same of acknowledgements that belong to no connection, to servers of which clients have the half each.
fn with_strange_acks(plan: &mut TcpPlan) {
    with_forbidden(plan);
    plan.servers.hosts = 2;
    plan.clients.hosts = 64;
    plan.clients.ports = 1008;
    if let Some(illegal) = &mut plan.illegal {
        illegal.kinds = vec![IllegalKind::Ack];
    }
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

/// A name, the firewall, what is changed of the plan, and what is said; nothing of an honest one.
type Row = (&'static str, Firewall, fn(&mut TcpPlan), &'static str);

fn rows() -> Vec<Row> {
    let mut rows = common_rows();
    rows.extend(rows_of_ipv6_addresses());
    rows.extend(rows_of_seals());
    rows
}

/// An answer of two segments, the second of which is as long as what the firewall makes up.
fn answers_in_two(plan: &mut TcpPlan) {
    let bytes = plan.segment_bytes() as usize + ANSWER_BYTES;
    plan.answer = Answer::Exactly(Message::filling(bytes, 7).unwrap().proved_at(0).unwrap());
}

/// A policy translates sources, so that the client cannot know the server's sequence numbers.
fn translates(plan: &mut TcpPlan) {
    (plan.transactions, plan.translates) = (0, true);
}

const V6: fn(&mut TcpPlan) = |plan| plan.ip = IpVersion::V6;

/// Lies about addresses, which are others with IPv6.
fn rows_of_ipv6_addresses() -> Vec<Row> {
    vec![
        (
            "IPv6, changes the source address",
            Firewall::of(Lie::ChangesAddress),
            V6,
            "segments reached the server from another address or port than their client's",
        ),
        (
            "IPv6, honest, forbidden attempts",
            Firewall { every: u32::MAX, ..Firewall::of(Lie::Admits) },
            |p| {
                V6(p);
                with_forbidden(p);
            },
            "",
        ),
        (
            "IPv6, admits one forbidden attempt in a hundred",
            Firewall { every: 100, ..Firewall::of(Lie::Admits) },
            |p| {
                V6(p);
                with_forbidden(p);
            },
            "4 forbidden attempts got through",
        ),
    ]
}

/// Lies that seals alone show, in both versions.
fn rows_of_seals() -> Vec<Row> {
    vec![
        ("IPv6, honest", Firewall::of(Lie::Honest), V6, ""),
        (
            "IPv6, honest, knows connections by both ends",
            Firewall::of(Lie::KnowsConnections),
            |p| {
                V6(p);
                with_strange_acks(p);
            },
            "",
        ),
        (
            "IPv6, knows connections by their client's port",
            Firewall::of(Lie::KnowsClients),
            |p| {
                V6(p);
                with_strange_acks(p);
            },
            "forbidden attempts got through",
        ),
        (
            "IPv6, honest, FIN, all options, an answer of two segments",
            Firewall::of(Lie::Honest),
            |p| {
                V6(p);
                (p.close, p.options) = (Close::ClientFin, Options::LINUX);
                answers_in_two(p);
            },
            "",
        ),
        (
            "IPv6, acknowledges requests before the server does",
            Firewall::of(Lie::AcksEarly),
            V6,
            "400 segments reached the client that the server did not write",
        ),
        (
            "IPv6, ends connections before the server does",
            Firewall::of(Lie::ClosesEarly),
            |p| {
                V6(p);
                p.close = Close::ClientFin;
            },
            "400 segments reached the client that the server did not write",
        ),
        (
            "IPv6, sends data after the end",
            Firewall { informed: true, ..Firewall::of(Lie::SpeaksAfterClose) },
            V6,
            "400 segments reached the client that the server did not write",
        ),
        (
            "makes up the end of answers",
            Firewall::of(Lie::InventsRest),
            answers_in_two,
            "400 segments reached the client that the server did not write",
        ),
        (
            "IPv6, makes up the end of answers",
            Firewall::of(Lie::InventsRest),
            |p| {
                V6(p);
                answers_in_two(p);
            },
            "400 segments reached the client that the server did not write",
        ),
        (
            "completes connections itself and opens as many with the server",
            Firewall::of(Lie::Completes),
            translates,
            "400 segments reached the client that the server did not write; \
             400 segments reached the server that the client did not write",
        ),
        (
            "IPv6, completes connections itself and opens as many with the server",
            Firewall::of(Lie::Completes),
            |p| {
                V6(p);
                translates(p);
            },
            // All that reaches the client is the firewall's, so that at this end it looks like one that clears urgent pointers.
            "400 segments reached the server that the client did not write",
        ),
        (
            "IPv6, writes urgent pointers of its own",
            Firewall::of(Lie::Renumbers),
            V6,
            "segments reached the server that the client did not write",
        ),
    ]
}

fn common_rows() -> Vec<Row> {
    vec![
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
            "honest, knows connections by both ends",
            Firewall::of(Lie::KnowsConnections),
            with_strange_acks,
            "",
        ),
        (
            "knows connections by their client's port",
            Firewall::of(Lie::KnowsClients),
            with_strange_acks,
            "forbidden attempts got through",
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
        (
            "answers itself from the 1,000th segment on",
            Firewall { informed: true, after: 1000, ..Firewall::of(Lie::Answers) },
            |_| (),
            "answers were not the server's to that request",
        ),
        (
            "acknowledges requests before the server does",
            Firewall::of(Lie::AcksEarly),
            |_| (),
            "400 segments reached the client that the server did not write",
        ),
        (
            "acknowledges requests before the server does, later",
            Firewall { after: 1000, ..Firewall::of(Lie::AcksEarly) },
            |_| (),
            "segments reached the client that the server did not write",
        ),
        (
            "ends connections before the server does",
            Firewall::of(Lie::ClosesEarly),
            |p| p.close = Close::ClientFin,
            "400 segments reached the client that the server did not write",
        ),
        (
            "sends data after the end",
            Firewall { informed: true, ..Firewall::of(Lie::SpeaksAfterClose) },
            |_| (),
            "400 segments reached the client that the server did not write",
        ),
        (
            "sends answers twice",
            Firewall::of(Lie::RepeatsAnswers),
            |_| (),
            "400 segments more reached the client than the server sent",
        ),
        (
            "gives answers to the next connection",
            Firewall::of(Lie::SwapsAnswers),
            |_| (),
            "answers were not the server's to that request",
        ),
        (
            "writes IP ids of its own",
            Firewall::of(Lie::Renumbers),
            |_| (),
            "segments reached the server that the client did not write",
        ),
        (
            "offers a larger MSS than the ends",
            Firewall::of(Lie::RaisesMss),
            |_| (),
            "800 SYN or SYN-ACK arrived with a larger MSS or window scale",
        ),
        (
            "offers a larger window scale than the ends",
            Firewall::of(Lie::RaisesScale),
            |p| p.options = Options::LINUX,
            "800 SYN or SYN-ACK arrived with a larger MSS or window scale",
        ),
        (
            "offers what no end does",
            Firewall::of(Lie::AddsSack),
            |p| p.options = Options { timestamps: true, ..Options::MSS },
            "800 SYN or SYN-ACK arrived with an option that its sender did not offer",
        ),
        (
            "removes options from one way",
            Firewall::of(Lie::RemovesSackOfServer),
            |p| p.options = Options::LINUX,
            "400 SYN-ACK lost options on their way that the server had agreed to",
        ),
        (
            "opens windows",
            Firewall::of(Lie::RaisesWindows),
            |_| (),
            "segments arrived with a larger window than their sender's",
        ),
    ]
}

/// Whether what was found says all of this. A forged segment has the right seal, of 16 bits, by chance, so a few of 400 may miss where seals are
/// counted.
fn says(found: &str, said: &str) -> bool {
    const BY_CHANCE: u64 = 3;
    let apart = |text: &str| -> Option<(u64, String)> {
        let (number, what) = text.split_once(' ')?;
        Some((number.replace(',', "").parse().ok()?, what.to_owned()))
    };
    said.split("; ").all(|said| match apart(said).filter(|(_, what)| what.ends_with("did not write")) {
        Some((most, what)) => {
            let mut all = found.split("; ").filter_map(apart);
            all.any(|(number, found)| found == what && (most - BY_CHANCE..=most).contains(&number))
        }
        None => found.contains(said),
    })
}

#[test]
fn every_lie_about_connections_is_caught_and_named() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let mut failed = Vec::new();
    for (name, firewall, change, said) in rows() {
        let mut plan = plan();
        change(&mut plan);
        firewall.stand(&bed, &plan);
        let reading = engine.run(&ports, &plan, &mut ()).unwrap();
        let found = reasons(&reading).join("; ");
        let fits = if said.is_empty() {
            found.is_empty() && reading.counts.closed == CONNECTIONS
        } else {
            says(&found, said)
        };
        if !fits {
            failed.push(format!("{name}: expected «{said}», found «{found}» in {:?}", reading.counts));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What a firewall may do because its users want it to, the options that are offered, and what a reader of its figures sees.
const ALLOWED: [(Lie, IpVersion, Options, &str); 7] = {
    use IpVersion::{V4, V6};
    [
        (Lie::Proxies, V4, Options::MSS, PROXY),
        (Lie::Proxies, V6, Options::MSS, PROXY),
        (Lie::LowersMss, V4, Options::MSS, "800 SYN or SYN-ACK arrived with a smaller MSS or window scale"),
        (Lie::RemovesSack, V4, Options::LINUX, "400 of 400 SYN reached the server without an option"),
        (Lie::RemovesStamps, V4, Options::LINUX, "400 of 400 SYN reached the server without an option"),
        (Lie::LowersWindows, V4, Options::MSS, "segments arrived with a smaller window than their sender's"),
        // To the client a SYN-ACK and an answer each; to the server a SYN, a request, and in the end a reset, which is not looked at.
        (Lie::ClearsUrgent, V6, Options::MSS, "1,600 segments arrived with an urgent pointer of 0"),
    ]
};
const PROXY: &str = "400 of 400 connections were not with the server, but with a proxy";

#[test]
fn what_a_firewall_may_change_stays_valid_and_is_said() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for (lie, ip, options, said) in ALLOWED {
        let plan = TcpPlan { ip, options, ..plan() };
        Firewall::of(lie).stand(&bed, &plan);
        let reading = engine.run(&ports, &plan, &mut ()).unwrap();
        let remarks = reading.outcome().served.unwrap().remarks().join("; ");
        assert_eq!(reasons(&reading), Vec::<String>::new(), "{lie:?}");
        assert!(remarks.contains(said), "{lie:?}: {remarks}");
        assert_eq!(reading.counts.closed, CONNECTIONS, "{lie:?}: {:?}", reading.counts);
    }
}

/// At high rates one connection in sixteen is timed. Which, a firewall must not find out by counting.
#[test]
fn connections_that_are_timed_cannot_be_hurried() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let many = Opening::Scheduled(vec![TcpPhase::counted(8000, 200_000.0)]);
    for (lie, slow) in [(Lie::Honest, false), (Lie::HurriesTimed, true)] {
        let plan = TcpPlan { opening: many.clone(), retries: 5, ..plan() };
        Firewall { every: 16, ..Firewall::of(lie) }.stand(&bed, &plan);
        let reading = engine.run(&ports, &plan, &mut ()).unwrap();
        let times = reading.outcome().times.established_ns.unwrap();
        assert_eq!(reading.counts.closed, 8000, "{lie:?}: {:?}", reading.counts);
        // Fifteen of sixteen come with their second SYN, and so the median of those that are timed.
        assert_eq!(times.p50 >= 1e8, slow, "{lie:?}: {times:?}");
    }
}

/// A firewall whose table is full and that forgets old connections without a word: each is asked once more when all are open.
#[test]
fn connections_that_are_quietly_evicted_are_not_held() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for (lie, held) in [(Lie::Honest, CONNECTIONS), (Lie::Evicts, 101)] {
        let plan = TcpPlan { close: Close::Never, transactions: 0, ..plan() };
        Firewall { every: 100, ..Firewall::of(lie) }.stand(&bed, &plan);
        let (_, reading) = engine.open_all_and_verify(&ports, &plan, &mut ()).unwrap();
        let outcome = reading.outcome();
        assert_eq!(
            (outcome.established, outcome.verified),
            (CONNECTIONS, Some(held)),
            "{:?}",
            reading.counts
        );
    }
}

#[test]
fn the_promises_count_the_lies_that_there_are() {
    let caught = rows().iter().filter(|(.., said)| !said.is_empty()).count();
    let honest = rows().len() - caught + ALLOWED.len();
    let said = format!(
        "{caught} of {caught}, and {honest} honest ones stay valid | any | `cargo test -p traffic --test lies_connections`"
    );
    assert!(include_str!("../../SPEC.md").contains(&said), "SPEC.md does not say: {said}");
}
