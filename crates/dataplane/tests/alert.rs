//! Alerts of rules: when they are told, and that it is when the reference says so. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::frame::{Frame, udp};
use bed::{Bed, POLICY, Side};
use dataplane::{EventKind, Filter, Hook, Settings};
use policy::model::Per;
use policy::quota::Sliding;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use std::time::Duration;

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

/// The surge that a packet of a new flow raises, if it does: rule, what it is counted for, what came.
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
    // Told again when a second has passed, and not for each packet.
    bed.pass(Duration::from_secs(2));
    assert_eq!(raised(&mut bed, 2, (5, 53)), each(5));
    assert_eq!(raised(&mut bed, 2, (6, 53)).map_or(6, |(_, _, count)| count), 6);
    // What is refused counts too, and what is beyond a limit.
    assert_eq!([1, 2].map(|port| raised(&mut bed, 2, (port, 54))), [None, None]);
    assert_eq!(raised(&mut bed, 3, (3, 54)), Some(("all".to_owned(), Per::Rule, 3)));
    assert_eq!(raised(&mut bed, 2, (1, 55)), None);
    assert_eq!(raised(&mut bed, 2, (2, 55)), Some(("beyond".to_owned(), Per::Destination, 2)));
    // After twice its time nothing is left of it.
    bed.pass(Duration::from_secs(1_200));
    assert_eq!(raised(&mut bed, 2, (7, 53)), None);
}

#[test]
fn needs_root_alerts_are_those_of_the_reference() {
    let bed = RefCell::new((bed(Hook::Xdp, &policy(&[])), 0u32));
    let choices = (0u64..30, proptest::collection::vec((1u64..34, 1u8..8), 1..25));
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() });
    runner
        .run(&choices, |(threshold, steps)| {
            let (bed, case) = &mut *bed.borrow_mut();
            *case += 1;
            let threshold = threshold + 1;
            let rest = format!("action = 'deny'\nalert = {{ count = {threshold}, within = '20min' }}");
            bed.apply(&policy(&[(&format!("r{case}"), 53, &rest)]));
            let (mut reference, mut now) = (None, Duration::from_secs(1));
            for (minutes, packets) in steps {
                // Whole minutes, so that a window never ends for one of the two alone.
                bed.pass(Duration::from_secs(minutes * 60));
                now += Duration::from_secs(minutes * 60);
                for packet in 0..packets {
                    let sliding = reference.get_or_insert(Sliding::new(Duration::from_secs(1_200), now));
                    let count = sliding.rise(now);
                    let told = raised(bed, 2, (1, 53)).is_some();
                    // The test itself takes time, in which what came before fades.
                    let is_sure =
                        (sliding.estimate(now + Duration::from_secs(20)) > threshold) == (count > threshold);
                    if packet == 0 && is_sure {
                        prop_assert_eq!(told, count > threshold, "{} of {} at {:?}", count, threshold, now);
                    }
                }
            }
            prop_assert!(bed.sessions(&Filter::default()).is_empty());
            Ok(())
        })
        .unwrap();
}
