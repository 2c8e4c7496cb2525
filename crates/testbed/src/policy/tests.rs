use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn shape(rules: u32, match_position: u32) -> PolicyShape {
    PolicyShape { rules, match_position, stateful: true, ..PolicyShape::forward_everything(1) }
}

#[test]
fn the_matching_rules_stand_at_their_position() {
    let rows = [
        (ZoneForm::Two, true, 1),
        (ZoneForm::Two, false, 2),
        (ZoneForm::Three, true, 3),
        (ZoneForm::Three, false, 6),
    ];
    for (zones, stateful, count) in rows {
        for (rules, position) in [(1, 1), (10, 1), (10, 4), (10, 10)] {
            let policy =
                PolicySpec::generate(&PolicyShape { stateful, ..shape(rules, position) }, zones).unwrap();
            assert_eq!(policy.rules.len(), rules as usize - 1 + count);
            let matching: Vec<usize> =
                (0..policy.rules.len()).filter(|&i| policy.rules[i].may_match_tests()).collect();
            let first = position as usize - 1;
            assert_eq!(matching, (first..first + count).collect::<Vec<_>>(), "{zones:?} {rules} {position}");
        }
    }
}

#[test]
fn impossible_positions_are_refused() {
    for (rules, position) in [(0, 1), (10, 0), (10, 11)] {
        let error = PolicySpec::generate(&shape(rules, position), ZoneForm::Two).unwrap_err();
        assert!(error.to_string().contains("position"), "{error}");
    }
}

#[test]
fn fillers_have_the_spread_of_real_rule_sets() {
    let policy = PolicySpec::generate(&shape(2000, 2000), ZoneForm::Two).unwrap();
    let fillers = &policy.rules[..1999];
    let lengths: HashSet<u8> =
        fillers.iter().flat_map(|r| [r.source.v4.prefix_len(), r.destination.v4.prefix_len()]).collect();
    assert!((8..=32).all(|length| lengths.contains(&length)), "{lengths:?}");
    let share = |p: fn(&Rule) -> bool| fillers.iter().filter(|r| p(r)).count() as f64 / 1999.0;
    assert!((0.05..0.2).contains(&share(|r| r.protocol == Protocol::Icmp)));
    assert!((0.15..0.4).contains(&share(|r| r.protocol == Protocol::Udp)));
    assert!(share(|r| r.destination_ports.is_some_and(|(low, high)| low < high)) > 0.1);
    assert!(share(|r| r.source.touches_tests() && r.destination.touches_tests()) > 0.1);
    let distinct: HashSet<&Rule> = fillers.iter().collect();
    assert!(distinct.len() > 1950, "{}", distinct.len());
}

#[test]
fn lists_are_distinct_public_and_repeatable() {
    let list = AddressList { count: 100_000, seed: 9 };
    let addresses: Vec<Ipv4Addr> = list.addresses().collect();
    assert_eq!(addresses.len(), 100_000);
    assert_eq!(addresses[0], LISTED_CANARY);
    assert!(addresses[1..].iter().all(may_be_listed));
    assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), addresses.len());
    assert!(list.addresses().eq(addresses.iter().copied()));
    assert!(!AddressList { seed: 10, ..list }.addresses().eq(addresses));
}

#[test]
fn probes_cover_every_direction_and_both_answers() {
    for zones in [ZoneForm::Two, ZoneForm::Three] {
        let policy = PolicySpec::generate(&shape(10, 5), zones).unwrap();
        let probes = policy.probes();
        for &(from, to) in forward_lanes_of(zones) {
            for (from, to) in [(from, to), (to, from)] {
                for v4 in [true, false] {
                    for expect in [Expect::Arrives, Expect::Dropped] {
                        let found = probes.iter().any(|p| {
                            p.lane.from == from
                                && p.lane.to == to
                                && p.source.is_ipv4() == v4
                                && p.expect == expect
                        });
                        assert!(found, "{from:?} {to:?} IPv4 {v4} {expect:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn without_rules_everything_arrives() {
    let policy = PolicySpec::forward_everything(ZoneForm::Three);
    assert!(policy.probes().iter().all(|probe| probe.expect == Expect::Arrives));
}

#[test]
fn translated_probes_say_how_they_arrive() {
    let policy = PolicySpec::generate(&PolicyShape { nat: true, ..shape(3, 2) }, ZoneForm::Three).unwrap();
    for probe in policy.probes() {
        let lane = (probe.lane.from, probe.lane.to);
        assert_eq!(
            probe.source != probe.source_on_arrival,
            lane == (Zone::Private, Zone::Hostile),
            "{}",
            probe.name
        );
        let back = lane == (Zone::Hostile, Zone::Private);
        assert_eq!(probe.destination != probe.destination_on_arrival, back, "{}", probe.name);
    }
}

proptest! {
    #[test]
    fn fillers_never_touch_test_traffic(seed: u64) {
        let mut random = Random::new(seed);
        for _ in 0..200 {
            let rule = filler(&mut random);
            prop_assert!(!rule.may_match_tests(), "{rule:?}");
            prop_assert!(rule.protocol != Protocol::Icmp || rule.destination_ports.is_none());
            if let Some((low, high)) = rule.destination_ports {
                prop_assert!(0 < low && low <= high && high < FORBIDDEN_PORT);
            }
        }
    }

    #[test]
    fn permutations_do_not_repeat(seed: u64, start: u32) {
        let permutation = random::Permutation::new(seed);
        let values: HashSet<u32> = (0..1000u32).map(|i| permutation.at(start.wrapping_add(i))).collect();
        prop_assert_eq!(values.len(), 1000);
    }
}
