//! Alerts of rules: when they are recorded, and that it is when the reference says so. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, POLICY, Side};
use dataplane::{EventKind, Filter, Hook, Settings, Tally};
use policy::model::Per;
use policy::quota::Sliding;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use std::time::Duration;
use testkit::packet::{Frame, udp};

/// Rules for UDP ports from inside to outside: name, port, the rest.
fn policy(rules: &[(&str, u16, &str)]) -> String {
    let (zones, _) = POLICY.split_once("[[rules]]").unwrap();
    let rule = |(name, port, rest): &(&str, u16, &str)| {
        format!(
            "[[rules]]\nname = '{name}'\nfrom = 'inside'\nto = 'outside'\nservice = 'udp/{port}'\n{rest}\n"
        )
    };
    format!("{zones}{}", rules.iter().map(rule).collect::<String>())
}

fn bed(hook: Hook, policy: &str) -> Bed {
    Bed::with(hook, &Settings { flows: 4096, rules: 64 }, policy)
}

/// The alert that a packet of a new flow raises, if it does: rule, what it is counted for, what came.
fn raised(bed: &mut Bed, host: u8, ports: (u16, u16)) -> Option<(String, Per, u64)> {
    let frame = Frame::new(&format!("198.18.1.{host}"), "198.18.2.2", 17, udp(ports, 18));
    bed.send(Side::In, &frame.bytes());
    let events = bed.firewall().events.take().unwrap();
    assert!(events.len() < 2, "{events:?}");
    events.first().map(|event| match event.kind {
        EventKind::Alert { per, sliding, .. } => {
            (event.rule.clone().unwrap(), per, sliding.estimate(event.at))
        }
        other => panic!("{other:?}"),
    })
}

#[test]
fn needs_root_what_raises_an_alert() {
    let rules = policy(&[
        ("each", 53, "action = 'allow'\nalert = { count = 3, within = '10min', per = 'source' }"),
        ("all", 54, "action = 'deny'\nalert = { count = 2, within = '1h' }"),
        (
            "beyond",
            55,
            "action = 'allow'\nlimit = { rate = '1/h' }\nalert = { count = 1, within = '1h', per = 'destination' }",
        ),
    ]);
    let mut bed = bed(Hook::Tc, &rules);
    let each = |count| Some(("each".to_owned(), Per::Source, count));
    for (host, port, expected) in [
        (2, 1, None),
        (2, 2, None),
        (2, 2, None), // of a flow that is known
        (2, 3, None),
        (3, 1, None), // somebody else
        (2, 4, each(4)),
    ] {
        assert_eq!(raised(&mut bed, host, (port, 53)), expected, "{host} {port}");
    }
    // Repeated when a second has passed, and not for each packet.
    bed.pass(Duration::from_secs(2));
    assert_eq!(raised(&mut bed, 2, (5, 53)), each(5));
    assert_eq!(raised(&mut bed, 2, (6, 53)), None);
    // What is refused counts too, and what is beyond a limit.
    assert_eq!([1, 2].map(|port| raised(&mut bed, 2, (port, 54))), [None, None]);
    assert_eq!(raised(&mut bed, 3, (3, 54)), Some(("all".to_owned(), Per::Rule, 3)));
    assert_eq!(raised(&mut bed, 2, (1, 55)), None);
    assert_eq!(raised(&mut bed, 2, (2, 55)), Some(("beyond".to_owned(), Per::Destination, 2)));
    // After twice its time nothing is left of it.
    bed.pass(Duration::from_secs(1_200));
    assert_eq!(raised(&mut bed, 2, (7, 53)), None);
}

/// More addresses than there is room for do not hide who raises an alert.
#[test]
fn needs_root_a_flood_of_addresses_hides_no_alert() {
    let rule = "action = 'deny'\nalert = { count = 3, within = '1d', per = 'source' }";
    let policy = policy(&[("each", 53, rule)]);
    let mut bed = bed(Hook::Tc, &policy.replace(", networks = [\"198.18.1.0/24\", \"2001:2:0:1::/64\"]", ""));
    bed.namespace().ip("route add 10.0.0.0/8 via 198.18.1.2");
    bed.firewall().forget_routes().unwrap();
    let hosts = 2..12;
    for host in hosts.clone() {
        assert_eq!([1, 2, 3].map(|port| raised(&mut bed, host, (port, 53))), [None, None, None]);
    }
    for n in 0..12_288 {
        let from = format!("10.{}.{}.{}", n % 199, n / 199, n % 251);
        let frame = Side::In.addressed(&Frame::new(&from, "198.18.2.2", 17, udp((1, 53), 18)).bytes());
        bed.within(Side::In, |firewall, index| firewall.test_run(&frame, index, Hook::Tc).unwrap());
    }
    assert!(bed.tally(Tally::AlertUncounted) > 0);
    for host in hosts {
        assert_eq!(raised(&mut bed, host, (4, 53)), Some(("each".to_owned(), Per::Source, 4)), "{host}");
    }
}

#[test]
fn needs_root_a_flood_in_one_tick_raises_one_alert() {
    let mut bed = bed(Hook::Xdp, &policy(&[]));
    for case in 0..8 {
        let name = format!("r{case}");
        bed.apply(&policy(&[(&name, 53, "action = 'deny'\nalert = { count = 1, within = '1min' }")]));
        let raised = [1, 2, 3, 4].map(|port| raised(&mut bed, 2, (port, 53)).is_some());
        assert_eq!(raised, [false, true, false, false], "{case}");
        bed.pass(Duration::from_nanos(1 << 20));
    }
}

/// Whether a standing alert is repeated: after a second, in ticks of 2^20 ns. The data plane sets the lowest bit of each tick, so
/// that 0 is none.
fn is_repeated(last: Duration, now: Duration) -> bool {
    let tick = |time: Duration| time.as_nanos() >> 20 | 1;
    tick(now) >= tick(last) + 954
}

#[test]
fn needs_root_alerts_are_those_of_the_reference() {
    let bed = RefCell::new((bed(Hook::Xdp, &policy(&[])), 0u32));
    // Mostly parts of the window, so that windows end exactly on steps; short times, in which a standing alert is repeated; any time.
    let step = prop_oneof![
        6 => (1u64..9).prop_map(|fives| Duration::from_secs(fives * 300)),
        1 => (0u64..3_000_000_000).prop_map(Duration::from_nanos),
        1 => (0u64..2_000_000_000_000).prop_map(Duration::from_nanos),
    ];
    let choices = (0u64..30, proptest::collection::vec((step, 1u8..8), 1..25));
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() });
    runner
        .run(&choices, |(threshold, steps)| {
            let (bed, case) = &mut *bed.borrow_mut();
            *case += 1;
            let threshold = threshold + 1;
            let rest = format!("action = 'deny'\nalert = {{ count = {threshold}, within = '20min' }}");
            bed.apply(&policy(&[(&format!("r{case}"), 53, &rest)]));
            let mut sliding: Option<Sliding> = None;
            let mut alerted = None;
            for (time, packets) in steps {
                bed.pass(time);
                let now = bed.now();
                for _ in 0..packets {
                    let sliding = sliding.get_or_insert(Sliding::new(Duration::from_secs(1_200), now));
                    let count = sliding.rise(now);
                    let is_due = alerted.is_none_or(|last| is_repeated(last, now));
                    let expected =
                        (count > threshold && is_due).then(|| (format!("r{case}"), Per::Rule, count));
                    alerted = expected.as_ref().map_or(alerted, |_| Some(now));
                    prop_assert_eq!(raised(bed, 2, (1, 53)), expected, "{:?} at {:?}", sliding, now);
                }
            }
            prop_assert!(bed.flows(&Filter::default()).is_empty());
            Ok(())
        })
        .unwrap();
}
