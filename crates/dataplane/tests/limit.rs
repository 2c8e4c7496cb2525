//! Limits of rules: rates against the reference, flows at once through every way in which a flow can end, and policies that
//! change. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, POLICY, Side};
use dataplane::{EventKind, Filter, Hook, Reason, Settings, Tally};
use policy::quantity::Rate;
use policy::quota::Bucket;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use std::time::Duration;
use testkit::packet::{ACK, Frame, SYN, Tcp, icmp, udp};

const IN: &str = "198.18.1.2";
const OUT: &str = "198.18.2.2";
const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];

/// A policy of rules from inside to outside: name, UDP port, what else it says.
fn policy(rules: &[(&str, u16, &str)]) -> String {
    let (zones, _) = POLICY.split_once("[[rules]]").unwrap();
    let rule = |(name, port, rest): &(&str, u16, &str)| {
        format!(
            "[[rules]]\nname = '{name}'\nfrom = 'inside'\nto = 'outside'\nservice = ['udp/{port}', 'icmp']\n\
             action = 'allow'\n{rest}\n"
        )
    };
    format!("{zones}{}", rules.iter().map(rule).collect::<String>())
}

fn limited(limit: &str) -> String {
    policy(&[("a", 53, &format!("limit = {{ {limit} }}"))])
}

fn bed(hook: Hook, policy: &str) -> Bed {
    Bed::with(hook, &Settings { flows: 4096, rules: 64 }, policy)
}

/// What becomes of a packet of a flow that is known by its source port.
fn send(bed: &mut Bed, from: &str, to: &str, port: u16) -> String {
    bed.send(Side::In, &Frame::new(from, to, 17, udp((port, 53), 18)).bytes()).words()
}

fn kill(bed: &Bed, port: u16) {
    for flow in bed.flows(&Filter { port: Some(port), ..Filter::default() }) {
        assert!(bed.firewall().flows.end(flow.id).unwrap());
    }
}

#[test]
fn needs_root_a_rate_for_a_rule_an_address_and_another() {
    let (a, b) = ("198.18.1.2", "198.18.1.3");
    let (x, y) = ("198.18.2.2", "198.51.100.7");
    for hook in HOOKS {
        let mut bed = bed(hook, &limited("rate = '1/h', burst = 2"));
        // Which packets of a new flow each pass: from, to, with each kind of counting.
        for (per, passes) in [
            ("rule", [true, true, false, false, false, false, false]),
            ("source", [true, true, false, true, true, false, false]),
            ("destination", [true, true, true, true, false, false, false]),
        ] {
            bed.apply(&policy(&[]));
            bed.apply(&limited(&format!("rate = '1/h', burst = 2, per = '{per}'")));
            let ways = [(a, x), (a, y), (a, x), (b, y), (b, x), (b, y), (a, x)];
            let (mut passed, mut hits) = (Vec::new(), 0);
            for (port, (from, to)) in (1..).zip(ways) {
                let fate = send(&mut bed, from, to, port);
                assert!(fate == "pass" || fate == "rate", "{fate}");
                passed.push(fate == "pass");
                hits += 1;
            }
            assert_eq!(passed, passes, "{per}, {hook:?}");
            assert_eq!(bed.firewall().counters.rule_hits(["a"]).unwrap(), [("a", hits)]);
            let refused = passes.iter().filter(|passed| !**passed).count() as u64;
            assert_eq!(bed.firewall().policies.limited_packets().unwrap()["a"], refused, "{per}");
            bed.flows(&Filter::default()).iter().for_each(|flow| {
                assert!(bed.firewall().flows.end(flow.id).unwrap());
            });
        }
    }
}

/// A packet of a flow that is known is not asked for a token, one of which no flow can come is.
#[test]
fn needs_root_what_takes_a_token() {
    let mut bed = bed(Hook::Tc, &limited("rate = '1/h', burst = 3"));
    for _ in 0..5 {
        assert_eq!(send(&mut bed, IN, OUT, 1), "pass");
    }
    let stateless = Frame::new(IN, OUT, 1, icmp(9, 0, 7)).bytes();
    assert_eq!(bed.send(Side::In, &stateless).words(), "pass");
    assert_eq!(bed.send(Side::In, &stateless).words(), "pass");
    assert_eq!(bed.send(Side::In, &stateless).words(), "rate");
    assert_eq!(send(&mut bed, IN, OUT, 1), "pass");
    assert_eq!(send(&mut bed, IN, OUT, 2), "rate");
}

/// Every way in which a flow ends makes room for one more, once.
#[test]
fn needs_root_flows_at_once() {
    for hook in HOOKS {
        let mut bed = bed(hook, &policy(&[]));
        for per in ["rule", "source", "destination"] {
            bed.apply(&limited(&format!("connections = 3, per = '{per}'")));
            let revoked = bed.tally(Tally::Revoked);
            let fits = |bed: &mut Bed, first: u16| {
                (first..first + 9).filter(|port| send(bed, IN, OUT, *port) == "pass").count()
            };
            assert_eq!(fits(&mut bed, 100), 3, "{per}, {hook:?}");
            assert_eq!(send(&mut bed, IN, OUT, 200), "connections", "{per}, {hook:?}");
            // One that is open goes on.
            assert_eq!(send(&mut bed, IN, OUT, 100), "pass");
            kill(&bed, 101);
            assert_eq!(fits(&mut bed, 300), 1, "killed: {per}, {hook:?}");
            bed.pass(Duration::from_secs(400));
            // Its packet finds that its time is over: it makes room for itself, the others are not swept yet.
            assert_eq!(send(&mut bed, IN, OUT, 100), "pass", "found expired: {per}, {hook:?}");
            assert_eq!(fits(&mut bed, 400), 0, "not swept: {per}, {hook:?}");
            bed.firewall().flows.sweep().unwrap();
            bed.firewall().flows.sweep().unwrap();
            assert_eq!(fits(&mut bed, 500), 2, "swept: {per}, {hook:?}");
            // A policy that denies what is open.
            bed.apply(&policy(&[]));
            for port in [100, 500, 501] {
                send(&mut bed, IN, OUT, port);
            }
            assert_eq!(bed.tally(Tally::Revoked) - revoked, 3);
            bed.apply(&limited(&format!("connections = 3, per = '{per}'")));
            assert_eq!(fits(&mut bed, 600), 3, "revoked: {per}, {hook:?}");
            bed.flows(&Filter::default()).iter().for_each(|flow| {
                assert!(bed.firewall().flows.end(flow.id).unwrap());
            });
            bed.apply(&policy(&[]));
        }
    }
}

#[test]
fn needs_root_counts_follow_the_name_of_the_rule() {
    let with = |name: &str, connections: u32| {
        policy(&[(name, 53, &format!("limit = {{ connections = {connections} }}"))])
    };
    let mut bed = bed(Hook::Xdp, &with("a", 5));
    let at_once = |bed: &Bed, name: &str| bed.firewall().policies.concurrent_flows(name).unwrap();
    for port in 1..=4 {
        assert_eq!(send(&mut bed, IN, OUT, port), "pass");
    }
    // Another number, and the same rule.
    bed.apply(&with("a", 2));
    assert_eq!(at_once(&bed, "a"), Some(4));
    assert_eq!(send(&mut bed, IN, OUT, 1), "pass", "what is open stays, beyond the limit too");
    assert_eq!(send(&mut bed, IN, OUT, 9), "connections");
    kill(&bed, 1);
    kill(&bed, 2);
    assert_eq!(send(&mut bed, IN, OUT, 9), "connections");
    kill(&bed, 3);
    assert_eq!(send(&mut bed, IN, OUT, 9), "pass");
    // Another rule in its place counts what comes to it: here 4 and 9, each with its next packet.
    bed.apply(&with("b", 2));
    assert_eq!((at_once(&bed, "a"), at_once(&bed, "b")), (None, Some(0)));
    for (port, expected, open) in [(4, "pass", 1), (9, "pass", 2), (10, "connections", 2), (4, "pass", 2)] {
        assert_eq!(send(&mut bed, IN, OUT, port), expected);
        assert_eq!(at_once(&bed, "b"), Some(open), "after {port}");
    }
    // What still bore the mark of the one that is gone does not count twice, nor off.
    bed.apply(&with("c", 3));
    kill(&bed, 4);
    assert_eq!(at_once(&bed, "c"), Some(0));
    assert_eq!(send(&mut bed, IN, OUT, 9), "pass");
    assert_eq!(at_once(&bed, "c"), Some(1));
    // Without a limit nothing is counted; with one again, what comes is.
    bed.apply(&policy(&[("c", 53, "")]));
    assert_eq!(send(&mut bed, IN, OUT, 9), "pass");
    bed.apply(&with("c", 3));
    assert_eq!(at_once(&bed, "c"), Some(0));
    assert_eq!(send(&mut bed, IN, OUT, 9), "pass");
    assert_eq!(at_once(&bed, "c"), Some(1));
}

#[test]
fn needs_root_what_is_beyond_a_limit_is_recorded() {
    let mut bed = bed(Hook::Xdp, &policy(&[("a", 53, "log = true\nlimit = { rate = '1/h' }")]));
    send(&mut bed, IN, OUT, 1);
    send(&mut bed, IN, OUT, 2);
    let events: Vec<EventKind> =
        bed.firewall().events.take().unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(events, [EventKind::Opened, EventKind::Refused(Reason::Rate)]);
}

/// Hosts inside, by number: in which wide and in which narrow network they are, and which of it they are.
#[derive(Clone, Copy)]
struct Inside {
    host: fn((u16, u16, u16)) -> String,
    server: &'static str,
}

const V4: Inside = Inside { host: |(wide, narrow, n)| format!("10.{wide}.{narrow}.{n}"), server: OUT };
const V6: Inside = Inside {
    host: |(wide, narrow, n)| format!("2001:{:x}:{narrow:x}:{n:x}::9", 0xd00 + wide),
    server: "2001:2:0:2::2",
};

/// How a flow opens, and how much of that others see. TCP is answered when its handshake is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exchange {
    Datagrams,
    Handshake,
}

/// Entries for addresses that this table has, as many as flows.
const ENTRIES: u16 = 4096;
const DAY: &str = "limit = { rate = '1/d', burst = 2, per = 'source' }";

/// Rules for some ports, for hosts of many networks inside.
fn roomy_policy(rules: &[(u16, &str)]) -> String {
    let (zones, _) = POLICY.split_once("[[rules]]").unwrap();
    let zones = zones.replace(", networks = [\"198.18.1.0/24\", \"2001:2:0:1::/64\"]", "");
    let rule = |(port, rest): &(u16, &str)| {
        format!(
            "[[rules]]\nname = 'r{port}'\nfrom = 'inside'\nto = 'outside'\nservice = ['udp/{port}', 'tcp/{port}']\n\
             action = 'allow'\n{rest}\n"
        )
    };
    format!("{zones}{}", rules.iter().map(rule).collect::<String>())
}

/// Behind the inside are many networks.
fn roomy(hook: Hook, rules: &[(u16, &str)]) -> Bed {
    let bed = bed(hook, &roomy_policy(rules));
    bed.namespace().ip("route add 10.0.0.0/8 via 198.18.1.2\nroute add 2001:d00::/24 via 2001:2:0:1::2");
    bed.firewall().forget_routes().unwrap();
    bed
}

/// The packets by which a host opens a flow, with the sides that they come from.
fn exchange(kind: Exchange, from: &str, to: &str, ports: (u16, u16)) -> Vec<(Side, Vec<u8>)> {
    let back = (ports.1, ports.0);
    let tcp = |ports, flags, sequence, acknowledgement| {
        Tcp { ports, flags, sequence, acknowledgement, window: 999, ..Tcp::default() }.bytes()
    };
    let (protocol, packets) = match kind {
        Exchange::Datagrams => (17, vec![(Side::In, udp(ports, 18)), (Side::Out, udp(back, 18))]),
        Exchange::Handshake => {
            let answer = (Side::Out, tcp(back, SYN | ACK, 70, 2));
            (6, vec![(Side::In, tcp(ports, SYN, 1, 0)), answer, (Side::In, tcp(ports, ACK, 2, 71))])
        }
    };
    let frame = |(side, bytes)| match side {
        Side::In => (side, Frame::new(from, to, protocol, bytes).bytes()),
        Side::Out => (side, Frame::new(to, from, protocol, bytes).bytes()),
    };
    packets.into_iter().map(frame).collect()
}

/// Many hosts open a flow each and go on with it as long as `packets` says. Then all of their flows are over, or may be.
fn flood(
    bed: &mut Bed,
    kind: Exchange,
    packets: usize,
    flows: impl Iterator<Item = (String, &'static str, u16)>,
) {
    let frames: Vec<_> = flows
        .flat_map(|(from, to, port)| exchange(kind, &from, to, (7, port)).into_iter().take(packets))
        .collect();
    for part in frames.chunks(1_000) {
        bed.within(Side::In, |firewall, _| {
            for (side, frame) in part {
                let index = bed.indices()[*side as usize];
                firewall.test_run(&side.addressed(frame), index, bed.hook()).unwrap();
            }
        });
        bed.pass(Duration::from_secs(400));
        for _ in 0..2 {
            bed.firewall().flows.sweep().unwrap();
        }
    }
}

/// What becomes of the first packets of flows from a host, each of which goes on to its end if it passes.
fn fates<const N: usize>(
    bed: &mut Bed,
    kind: Exchange,
    from: &str,
    to: &str,
    ports: [(u16, u16); N],
) -> [String; N] {
    ports.map(|ports| {
        let mut packets = exchange(kind, from, to, ports).into_iter();
        let (side, first) = packets.next().unwrap();
        let fate = bed.send(side, &first).words();
        for (side, frame) in packets.filter(|_| fate == "pass") {
            assert_eq!(bed.send(side, &frame).words(), "pass");
        }
        fate
    })
}

/// Lets so much time pass that no rate remembers anything.
fn forget_all(bed: &mut Bed) {
    bed.pass(Duration::from_secs(3 * 86_400));
    for _ in 0..2 {
        bed.firewall().flows.sweep().unwrap();
    }
}

fn limit_full(bed: &Bed) -> u64 {
    bed.firewall().counters.drops().unwrap()[&Reason::LimitFull]
}

/// More addresses than there is room for, forged, so that nobody completes what they begin: a host that comes afterwards has its whole
/// limit, and one that was there before has what it left of it.
#[test]
fn needs_root_forged_addresses_keep_no_host_from_its_limit() {
    let mut beds = HOOKS.map(|hook| roomy(hook, &[(53, DAY)]));
    for (bed, Inside { host, server }, kind) in [
        (0, V4, Exchange::Handshake),
        (1, V6, Exchange::Handshake),
        (0, V6, Exchange::Datagrams),
        (1, V4, Exchange::Datagrams),
    ] {
        let bed = &mut beds[bed];
        let hook = bed.hook();
        forget_all(bed);
        let hosts = (1..17).map(|n| (host((200, 0, n)), host((201, 0, n))));
        for (known, _) in hosts.clone() {
            assert_eq!(fates(bed, kind, &known, server, [(1, 53)]), ["pass"]);
        }
        // Of TCP, a server answers them.
        let seen = if kind == Exchange::Handshake { 2 } else { 1 };
        flood(
            bed,
            kind,
            seen,
            (0..3 * ENTRIES).map(|n| (host((n % 199, n / 199 % 256, n % 251)), server, 53)),
        );
        assert_eq!(limit_full(bed), 0, "{hook:?} {server}");
        for (known, new) in hosts {
            assert_eq!(
                fates(bed, kind, &known, server, [(2, 53), (3, 53)]),
                ["pass", "rate"],
                "{hook:?} {known}"
            );
            let ports = [(1, 53), (2, 53), (3, 53)];
            assert_eq!(fates(bed, kind, &new, server, ports), ["pass", "pass", "rate"], "{hook:?} {new}");
        }
    }
}

/// Who really has all addresses of a network, a wide or a narrow one, uses its own room up, and not that of others.
#[test]
fn needs_root_hosts_of_one_network_keep_no_host_of_another_out() {
    const WIDE: fn(u16) -> (u16, u16, u16) = |n| (1, n / 250, n % 250);
    const NARROW: fn(u16) -> (u16, u16, u16) = |n| (1, 1, n);
    let mut beds = HOOKS.map(|hook| roomy(hook, &[(53, DAY)]));
    for (bed, Inside { host, server }, crowd, other) in
        [(0, V4, WIDE, (2, 0)), (1, V6, WIDE, (2, 0)), (0, V6, NARROW, (1, 2)), (1, V6, NARROW, (1, 2))]
    {
        let bed = &mut beds[bed];
        let hook = bed.hook();
        forget_all(bed);
        let before = limit_full(bed);
        flood(bed, Exchange::Datagrams, 2, (0..2 * ENTRIES).map(|n| (host(crowd(n)), server, 53)));
        let full = limit_full(bed);
        assert!(full > before, "all of its own room");
        for n in 1..17 {
            let from = host((other.0, other.1, n));
            let ports = [(1, 53), (2, 53), (3, 53)];
            assert_eq!(
                fates(bed, Exchange::Datagrams, &from, server, ports),
                ["pass", "pass", "rate"],
                "{hook:?} {from}"
            );
            // All addresses of a network of 64 bits are one source.
            let beside = from.replace("::9", "::a");
            let same = fates(bed, Exchange::Datagrams, &beside, server, [(4, 53)]);
            assert!(server != V6.server || same == ["rate"], "{hook:?} {beside}");
        }
        let fellows = (2 * ENTRIES..3 * ENTRIES).map(|n| (host(crowd(n)), server, 53));
        flood(bed, Exchange::Datagrams, 1, fellows);
        assert!(limit_full(bed) > full, "and no more, {hook:?}");
        forget_all(bed);
        let full = limit_full(bed);
        flood(bed, Exchange::Datagrams, 1, (0..500).map(|n| (host(crowd(n)), server, 53)));
        assert_eq!(limit_full(bed), full, "nothing is left to remember");
    }
}

/// A rule whose addresses fill all buckets makes room for those of another rule, and not the other way round for ever.
#[test]
fn needs_root_a_rules_addresses_do_not_keep_those_of_another_out() {
    let mut bed = roomy(Hook::Xdp, &[(53, DAY), (54, DAY)]);
    let hosts = |first: u16, count: u16, port| {
        (first..first + count).map(move |n| ((V4.host)((1, n / 250, n % 250)), OUT, port))
    };
    flood(&mut bed, Exchange::Datagrams, 2, hosts(0, 2 * ENTRIES, 53));
    let full = limit_full(&bed);
    assert_eq!(bed.firewall().policies.limited_packets().unwrap()["r53"], full);
    flood(&mut bed, Exchange::Datagrams, 2, hosts(0, 100, 54));
    assert_eq!(limit_full(&bed), full, "room for the other rule");
    flood(&mut bed, Exchange::Datagrams, 2, hosts(100, 2 * ENTRIES, 54));
    assert!(limit_full(&bed) > full, "but not for all it might want");
}

/// Who counts flows at once keeps its count, whoever comes: a second flow does not fit, before a flood and after it. The flood finds no room,
/// and never a place that somebody else's flow has.
#[test]
fn needs_root_an_entry_that_counts_flows_stays() {
    let limit = "limit = { rate = '1/d', burst = 9, connections = 1, per = 'source' }";
    let mut bed = roomy(Hook::Xdp, &[(53, limit)]);
    bed.apply(&format!("[settings]\nunanswered = {ENTRIES}\n{}", roomy_policy(&[(53, limit)])));
    let opens = |from: &str| Frame::new(from, OUT, 17, udp((1, 53), 18)).bytes();
    let hosts = (1..9).map(|n| (V4.host)((200, 0, n)));
    for from in hosts.clone() {
        assert_eq!(bed.send(Side::In, &opens(&from)).words(), "pass");
    }
    // Fewer than the flow table has room for, and more than many buckets have.
    for n in 0..ENTRIES - 96 {
        let frame = Side::In.addressed(&opens(&(V4.host)((n % 199, n / 199 % 256, n % 251))));
        bed.within(Side::In, |firewall, index| firewall.test_run(&frame, index, Hook::Xdp).unwrap());
    }
    let drops = bed.firewall().counters.drops().unwrap();
    assert_eq!(drops[&Reason::Connections], 0, "each of the flood has one flow");
    assert!(drops[&Reason::LimitFull] > 0, "no entry made room");
    for from in hosts {
        assert_eq!(fates(&mut bed, Exchange::Datagrams, &from, OUT, [(2, 53)]), ["connections"]);
    }
}

const PER_HOUR: [u32; 11] = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30];

/// The same flows at the same moments as the reference, whatever the rate and the burst.
#[test]
fn needs_root_rates_are_those_of_the_reference() {
    // Loaded once: each case is another rule, so another count.
    let bed = RefCell::new((bed(Hook::Xdp, &policy(&[])), 0u32));
    let steps = proptest::collection::vec((0u64..12, 1u8..5), 1..40);
    let choices = (proptest::sample::select(&PER_HOUR[..]), 1u32..20, any::<bool>(), steps);
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() });
    runner
        .run(&choices, |(events, burst, is_default, steps)| {
            let (bed, case) = &mut *bed.borrow_mut();
            *case += 1;
            // Whole minutes from one flow to the next, so that flows come exactly when a token does.
            let rate = Rate { events, seconds: 3_600 };
            let burst = (!is_default).then_some(burst);
            let said = burst.map_or(String::new(), |burst| format!(", burst = {burst}"));
            bed.apply(&policy(&[(
                &format!("r{case}"),
                53,
                &format!("limit = {{ rate = '{events}/h'{said} }}"),
            )]));
            let mut reference = Bucket::new(rate, burst);
            for (minutes, flows) in steps {
                bed.pass(Duration::from_secs(minutes * 60));
                let now = bed.now();
                for _ in 0..flows {
                    let fate = send(bed, IN, OUT, 1);
                    let passed = fate == "pass";
                    prop_assert_eq!(passed, reference.take(now), "{} at {:?}: {}", rate, now, fate);
                    kill(bed, 1);
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn needs_root_more_rules_with_limits_than_there_is_room_for_are_refused() {
    const MOST: u32 = 16_384;
    let rules = |count: u32| {
        let rule = |i: u32| {
            format!(
                "[[rules]]\nname = 'r{i}'\nfrom = 'inside'\nto = 'outside'\nservice = 'udp/{i}'\naction = 'allow'\n\
                 limit = {{ connections = 1 }}\n"
            )
        };
        let (zones, _) = POLICY.split_once("[[rules]]").unwrap();
        format!("{zones}{}", (1..=count).map(rule).collect::<String>())
    };
    let mut bed = Bed::with(Hook::Xdp, &Settings { flows: 4096, rules: 20_000 }, &rules(MOST));
    let to = |port| Frame::new(IN, OUT, 17, udp((1, port), 18)).bytes();
    assert_eq!(bed.send(Side::In, &to(16_384)).words(), "pass");
    let policy = policy::Policy::parse("bed", &rules(MOST + 1)).unwrap();
    let tables = policy::Tables::build(&policy, jiff::Timestamp::UNIX_EPOCH).unwrap();
    let error = bed.firewall_mut().policies.apply(&tables, &policy).unwrap_err().to_string();
    assert!(error.contains("rule `r16385` is one too many: 16385 rules"), "{error}");
    assert_eq!(bed.send(Side::In, &to(16_384)).words(), "pass", "the policy before stays");
}
