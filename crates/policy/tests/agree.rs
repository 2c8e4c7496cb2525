//! The interpreter and the tables give the same verdict, whatever the policy and the packet, and by any method.

mod random;

use policy::Policy;
use policy::interpret::{Decider, Packet, decide};
use policy::tables::{Limits, Method, Tables};
use proptest::prelude::*;
use random::fillers::{filled_policy, matching_packet, mixed_packet};
use random::{Choices, MOMENTS, bytes, packet, policy_text};

/// Packets for each policy; with the cases below, more than 10^5.
const PACKETS: usize = 500;

proptest! {
    #![proptest_config(ProptestConfig { cases: 220, ..ProptestConfig::default() })]

    #[test]
    fn interpreter_and_tables_agree(choices in proptest::collection::vec(any::<u8>(), 0..700), rules in 0usize..24, seed: u64) {
        let text = policy_text(&mut Choices(&choices), rules);
        let policy = Policy::parse("random", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        let at = MOMENTS[seed as usize % 4].parse().unwrap();
        let chosen = Tables::build(&policy, at).unwrap();
        let blocks = Tables::build_within(&policy, at, Limits::BLOCKS).unwrap();
        let vectors = Tables::build_within(&policy, at, Limits::NONE).unwrap();
        prop_assert!(matches!(chosen.method, Method::Crossed(_)));
        prop_assert!(matches!(blocks.method, Method::Blocked(_)));
        prop_assert!(matches!(vectors.method, Method::Vectors(_)));
        let random = bytes(seed, PACKETS * 16);
        for chunk in random.chunks(16) {
            let packet = packet(&mut Choices(chunk), &policy);
            let expected = decide(&policy, &packet, at);
            prop_assert_eq!(chosen.look_up(&packet).0, expected, "tables, {:?}", packet);
            prop_assert_eq!(blocks.look_up(&packet).0, expected, "blocks, {:?}", packet);
            prop_assert_eq!(vectors.look_up(&packet).0, expected, "vectors, {:?}", packet);
        }
    }
}

/// Enough rules for several chunks, blocks and words of a summary (32,768 rules each).
#[test]
fn many_rules_agree_too() {
    const RULES: u32 = 40_000;
    let mut text = String::from("[zones]\na = { interfaces = \"e0\" }\nb = { interfaces = \"e1\" }\n");
    for i in 0..RULES {
        let (source, high, low) = (i % 7 * 30, i >> 8, i & 255);
        text += &format!(
            "[[rules]]\nname = \"r{i}\"\nfrom = \"a\"\nto = \"b\"\nsource = \"10.{source}.0.0/16\"\n\
             destination = \"172.16.{high}.{low}\"\nservice = \"tcp/{}\"\naction = \"allow\"\n",
            i % 11
        );
    }
    let policy = Policy::parse("many", &text).unwrap();
    let at = MOMENTS[0].parse().unwrap();
    let chosen = Tables::build(&policy, at).unwrap();
    let vectors = Tables::build_within(&policy, at, Limits::NONE).unwrap();
    let mut last_decider = 0;
    for i in (0..RULES).step_by(211) {
        let rule = &policy.rules[i as usize];
        let first = |set: &policy::address::AddressSet| std::net::IpAddr::V4(set.v4.ranges()[0].0.into());
        for selector in [i % 11, (i + 1) % 11] {
            let (source, destination) = (first(&rule.source), first(&rule.destination));
            let packet =
                Packet { from: 1, to: 2, source, destination, protocol: 6, selector: selector as u16 };
            let expected = decide(&policy, &packet, at);
            if let Decider::Rule(row) = expected.decider {
                last_decider = row;
            }
            assert_eq!(chosen.look_up(&packet).0, expected, "{packet:?}");
            assert_eq!(vectors.look_up(&packet).0, expected, "{packet:?}");
        }
    }
    assert!(last_decider > 39_000, "{last_decider}");
}

/// Enough hosts, networks and services that nest for tables in blocks.
#[test]
fn rule_sets_of_the_bench_agree_too() {
    const RULES: u64 = 3_000;
    let policy = Policy::parse("filled", &filled_policy(RULES)).unwrap();
    let at = MOMENTS[0].parse().unwrap();
    let chosen = Tables::build(&policy, at).unwrap();
    let vectors = Tables::build_within(&policy, at, Limits::NONE).unwrap();
    assert!(matches!(chosen.method, Method::Blocked(_)));
    let mut deciders = std::collections::BTreeSet::new();
    for number in 0..1_500 {
        for packet in [matching_packet(number), mixed_packet(&policy, number)] {
            let expected = decide(&policy, &packet, at);
            deciders.extend(match expected.decider {
                Decider::Rule(row) => Some(row),
                Decider::Default => None,
            });
            assert_eq!(chosen.look_up(&packet).0, expected, "{packet:?}");
            assert_eq!(vectors.look_up(&packet).0, expected, "{packet:?}");
        }
    }
    assert!(deciders.contains(&(RULES as usize - 1)) && deciders.len() > 300, "{}", deciders.len());
}
