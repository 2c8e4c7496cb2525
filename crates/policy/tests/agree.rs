//! The interpreter and the tables give the same verdict, whatever the policy and the packet, and by any method.

mod random;

use policy::Policy;
use policy::interpret::{Decider, Packet, decide, decide_listed};
use policy::lists::{ListTable, OnLists};
use policy::tables::{ClassLimits, Limits, Method, Tables, TreeLimits};
use proptest::prelude::*;
use random::fillers::{filled_policy, matching_packet, mixed_packet};
use random::sets::{How, names, probe, set};
use random::{Choices, MOMENTS, bytes, contents, listed_policy_text, packet, policy_text};
use rule_sets::Random;

/// Packets for each policy; with the cases below, more than 10^5.
const PACKETS: usize = 500;

/// Each method, and limits under which it is taken.
const METHODS: [(&str, Limits); 4] = [
    ("trees", Limits::TREES),
    ("tables", Limits::DENSE),
    ("blocks", Limits::BLOCKS),
    ("vectors", Limits::VECTORS),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 220, ..ProptestConfig::default() })]

    #[test]
    fn interpreter_and_tables_agree(choices in proptest::collection::vec(any::<u8>(), 0..700), rules in 0usize..24, seed: u64) {
        let text = policy_text(&mut Choices(&choices), rules);
        let policy = Policy::parse("random", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        let at = MOMENTS[seed as usize % 4].parse().unwrap();
        let tables = METHODS.map(|(name, limits)| {
            let tables = Tables::build_within(&policy, at, limits).unwrap();
            assert_eq!(tables.method.name(), name);
            tables
        });
        let random = bytes(seed, PACKETS * 16);
        for chunk in random.chunks(16) {
            let packet = packet(&mut Choices(chunk), &policy);
            let expected = decide(&policy, &packet, at);
            for tables in &tables {
                let (verdict, accesses) = tables.look_up(&packet);
                prop_assert_eq!(verdict, expected, "{}, {:?}", tables.method.name(), packet);
                let bound = tables.bounds()[usize::from(packet.source.is_ipv6())];
                prop_assert!(accesses <= bound, "{}: {accesses} of {bound}", tables.method.name());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn rules_that_name_lists_agree_too(choices in proptest::collection::vec(any::<u8>(), 0..500), rules in 0usize..16, seed: u64) {
        let text = listed_policy_text(&mut Choices(&choices), rules);
        let policy = Policy::parse("random", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        let sets = contents(&policy);
        let lists = ListTable::build(&sets.iter().collect::<Vec<_>>()).unwrap();
        let at = MOMENTS[seed as usize % 4].parse().unwrap();
        let tables = METHODS.map(|(_, limits)| Tables::build_within(&policy, at, limits).unwrap());
        for chunk in bytes(seed, 200 * 16).chunks(16) {
            let packet = packet(&mut Choices(chunk), &policy);
            let on = lists.on_lists(packet.source, packet.destination);
            prop_assert_eq!(on, OnLists::of(&sets, packet.source, packet.destination));
            let expected = decide_listed(&policy, &packet, on, at);
            for tables in &tables {
                let (verdict, accesses) = tables.look_up_listed(&packet, on);
                prop_assert_eq!(verdict, expected, "{}, {:?}\n{}", tables.method.name(), packet, text);
                prop_assert!(accesses <= tables.bounds()[usize::from(packet.source.is_ipv6())]);
                let asked = tables.asked_by_decider(&packet, on);
                let is_on = |list: Option<u8>, on: u32| list.is_none_or(|list| on >> list & 1 == 1);
                prop_assert!(is_on(asked[0], on.source) && is_on(asked[1], on.destination), "{:?} of {:?}", asked, on);
            }
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
    let vectors = Tables::build_within(&policy, at, Limits::VECTORS).unwrap();
    let mut last_decider = 0;
    for i in (0..RULES).step_by(211) {
        let rule = &policy.rules[i as usize];
        let first = |set: &policy::address::AddressSet| std::net::IpAddr::V4(set.v4.ranges()[0].0.into());
        for selector in [i % 11, (i + 1) % 11] {
            let (source, destination) = (first(&rule.source), first(&rule.destination));
            let packet = Packet {
                from: 1,
                to: 2,
                source,
                destination,
                source_port: 40_000,
                protocol: 6,
                selector: selector as u16,
            };
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
    let vectors = Tables::build_within(&policy, at, Limits::VECTORS).unwrap();
    let blocks = Tables::build_within(&policy, at, Limits::BLOCKS).unwrap();
    assert_eq!(blocks.method.name(), "blocks");
    let mut deciders = std::collections::BTreeSet::new();
    for number in 0..1_500 {
        for packet in [matching_packet(number), mixed_packet(&policy, number)] {
            let expected = decide(&policy, &packet, at);
            deciders.extend(match expected.decider {
                Decider::Rule(row) => Some(row),
                Decider::Default => None,
            });
            for tables in [&chosen, &blocks, &vectors] {
                assert_eq!(tables.look_up(&packet).0, expected, "{packet:?}");
            }
        }
    }
    assert!(deciders.contains(&(RULES as usize - 1)) && deciders.len() > 300, "{}", deciders.len());
}

/// Rule sets as they are in use and such as are hard to search, in both families, between one pair of zones and between many.
#[test]
fn trees_of_rule_sets_agree_too() {
    let at = MOMENTS[0].parse().unwrap();
    for (number, name) in (0..).zip(names()) {
        let how = How {
            rules: 400,
            seed: number,
            v6: number % 3 == 1,
            zones: number % 2 == 0,
            source_ports: number % 5 > 1,
        };
        let policy = Policy::parse(name, &set(name, how)).unwrap();
        let tables = Tables::build_within(&policy, at, Limits::TREES).unwrap();
        assert_eq!(tables.method.name(), "trees", "{name}");
        let random = &mut Random(number);
        let mut deciders = std::collections::BTreeSet::new();
        let mut most = [0; 2];
        for _ in 0..2_000 {
            let packet = probe(&policy, random);
            let expected = decide(&policy, &packet, at);
            deciders.extend(match expected.decider {
                Decider::Rule(row) => Some(row),
                Decider::Default => None,
            });
            let (verdict, accesses) = tables.look_up(&packet);
            assert_eq!(verdict, expected, "{name}: {packet:?}");
            let family = usize::from(packet.source.is_ipv6());
            most[family] = accesses.max(most[family]);
        }
        assert!(deciders.len() > 20, "{name}: only {} rules decide", deciders.len());
        for (most, bound) in most.into_iter().zip(tables.bounds()) {
            assert!(most <= bound, "{name}: {most} of {bound}");
        }
    }
}

/// Enough rules for several trees: fewer are all copied, and none is kicked.
#[test]
fn series_of_trees_agree_too() {
    let at = MOMENTS[0].parse().unwrap();
    for (name, v6) in [("fw1", false), ("fw3", true), ("fw5", false)] {
        let how = How { rules: 5_000, seed: 9, v6, zones: false, source_ports: v6 };
        let policy = Policy::parse(name, &set(name, how)).unwrap();
        let tables = Tables::build_within(&policy, at, Limits::TREES).unwrap();
        let Method::Trees(trees) = &tables.method else { panic!("{name}: {}", tables.method.name()) };
        assert!(trees.series[usize::from(v6)].trees > 1, "{name}: {:?}", trees.series);
        let random = &mut Random(1);
        for _ in 0..1_500 {
            let packet = probe(&policy, random);
            let (verdict, accesses) = tables.look_up(&packet);
            assert_eq!(verdict, decide(&policy, &packet, at), "{name}: {packet:?}");
            assert!(accesses <= tables.bounds()[usize::from(packet.source.is_ipv6())], "{name}");
        }
    }
}

/// A later tree may hold the better rule by a row: one has the rules of single sources, the other those of single destinations.
#[test]
fn the_better_rule_of_two_trees_decides() {
    let at = MOMENTS[0].parse().unwrap();
    let mut text = String::from("[zones]\na = { interfaces = \"e0\" }\nb = { interfaces = \"e1\" }\n");
    let host = |net: u8, i: u32| std::net::Ipv4Addr::new(net, 0, (i >> 8) as u8, i as u8);
    for i in 0..3_000 {
        let (field, net) = if i % 2 == 0 { ("destination", 172) } else { ("source", 10) };
        text += &format!(
            "[[rules]]\nname = \"r{i}\"\nfrom = \"a\"\nto = \"b\"\n{field} = \"{}\"\naction = \"allow\"\n",
            host(net, i / 2)
        );
    }
    let policy = Policy::parse("two", &text).unwrap();
    let tables = Tables::build_within(&policy, at, Limits::TREES).unwrap();
    let Method::Trees(trees) = &tables.method else { panic!("{}", tables.method.name()) };
    assert_eq!(trees.series[0].trees, 2);
    for (i, j) in (0..30).flat_map(|i| (0..30).map(move |j| (i, j))) {
        let (source, destination) = (host(10, i).into(), host(172, j).into());
        let packet =
            Packet { from: 1, to: 2, source, destination, source_port: 0, protocol: 6, selector: 80 };
        let decider = Decider::Rule((2 * i + 1).min(2 * j) as usize);
        assert_eq!(tables.look_up(&packet).0.decider, decider, "{packet:?}");
    }
}

/// What no method but vectors holds stays right, and its bound says what it costs.
#[test]
fn sets_that_no_tree_holds_keep_another_method() {
    let at = MOMENTS[0].parse().unwrap();
    let how = How { rules: 3_000, seed: 1, v6: false, zones: false, source_ports: true };
    let policy = Policy::parse("wide", &set("wide free ranges", how)).unwrap();
    let few_lines = TreeLimits { lines: 2_000, ..TreeLimits::WIDE };
    let limits = Limits { trees: Some(few_lines), classes: ClassLimits::NONE };
    let tables = Tables::build_within(&policy, at, limits).unwrap();
    assert_eq!(tables.method.name(), "vectors");
    let random = &mut Random(5);
    for _ in 0..300 {
        let packet = probe(&policy, random);
        let (verdict, accesses) = tables.look_up(&packet);
        assert_eq!(verdict, decide(&policy, &packet, at), "{packet:?}");
        assert!(accesses <= tables.bounds()[0], "{accesses} of {:?}", tables.bounds());
    }
}
