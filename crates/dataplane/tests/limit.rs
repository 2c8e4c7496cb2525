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
use testkit::packet::{Frame, icmp, udp};

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

/// Sends to so many addresses, and says how often there was no room for one since the beginning.
fn refused_of(bed: &Bed, port: u16, first: u32, count: u32) -> u64 {
    bed.within(Side::In, |firewall, index| {
        for i in first..first + count {
            let to = format!("2001:2:0:2::{:x}:{:x}", 1 + (i >> 16), i & 0xffff);
            let frame = Frame::new("2001:2:0:1::2", &to, 17, udp((1, port), 18)).bytes();
            firewall.test_run(&Side::In.addressed(&frame), index, Hook::Xdp).unwrap();
        }
        firewall.counters.drops().unwrap()[&Reason::LimitFull]
    })
}

/// A rule whose addresses fill all buckets makes room for those of another rule, and not the other way round for ever.
#[test]
fn needs_root_a_rules_addresses_do_not_keep_those_of_another_out() {
    let rate = "limit = { rate = '1/h', per = 'destination' }";
    let bed = bed(Hook::Xdp, &policy(&[("a", 53, rate), ("b", 54, rate)]));
    let full = refused_of(&bed, 53, 0, 100_000);
    assert!(full > 20_000, "{full}");
    assert_eq!(refused_of(&bed, 54, 0, 2_000), full, "room for the other rule");
    assert!(refused_of(&bed, 54, 2_000, 100_000) > full + 20_000, "but not for all it might want");
}

/// Of more addresses than there is room for some are refused, and room comes back when there is nothing more to remember.
#[test]
fn needs_root_a_full_table_of_addresses_fails_closed() {
    const ADDRESSES: u32 = 30_000;
    let mut bed = bed(Hook::Xdp, &limited("rate = '1/min', per = 'destination'"));
    let from = |bed: &Bed, first: u32, count: u32| refused_of(bed, 53, first, count);
    let refused = from(&bed, 0, ADDRESSES);
    assert!((1..u64::from(ADDRESSES) / 20).contains(&refused), "{refused}");
    assert_eq!(bed.firewall().policies.limited_packets().unwrap()["a"], refused);
    bed.pass(Duration::from_secs(61));
    assert_eq!(from(&bed, ADDRESSES, 500), refused, "nothing is left to remember");
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
