//! The policy's tables in the kernel give the verdicts of the reference interpreter: the rows of `policy`, and random
//! policies and packets. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../policy/tests/random/mod.rs"]
mod random;

use dataplane::{Firewall, Judgement, Settings};
use policy::Policy;
use policy::interpret::{Decider, Packet, decide, decide_listed};
use policy::lists::{ListTable, OnLists};
use policy::service::ServiceSet;
use policy::tables::{Limits, Method, Tables};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use random::fillers::{filled_policy, matching_packet, mixed_packet};
use random::sets::{How, probe, set};
use random::{Choices, MOMENTS, bytes, contents, listed_policy_text, packet, policy_text};
use rule_sets::Random;

/// Packets for each policy; with the cases below and all methods, more than 1.5 x 10^5.
const PACKETS: usize = 250;
const CASES: u32 = 210;

/// Each method, and limits under which it is taken.
const METHODS: [(&str, Limits); 4] = [
    ("trees", Limits::TREES),
    ("tables", Limits::DENSE),
    ("blocks", Limits::BLOCKS),
    ("vectors", Limits::VECTORS),
];

fn firewall() -> Firewall {
    Firewall::load_for(&Settings { flows: 1024, rules: 65_536 }, &[]).unwrap()
}

/// The verdict in the interpreter's words.
fn in_words(judgement: Judgement, tables: &Tables) -> policy::interpret::Verdict {
    let decider = match judgement.row {
        Some(row) => Decider::Rule(tables.rules[row as usize] as usize),
        None => Decider::Default,
    };
    policy::interpret::Verdict { decider, action: judgement.action }
}

#[test]
fn needs_root_every_row_gets_its_verdict_in_the_kernel() {
    let text = include_str!("../../policy/tests/verdicts.toml");
    let policy = Policy::parse("verdicts.toml", text).unwrap_or_else(|e| panic!("{e}"));
    let rows = include_str!("../../policy/tests/verdicts.txt").lines();
    let mut firewall = firewall();
    let mut last = String::new();
    let mut tables = None;
    let mut count = 0;
    for row in rows.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let time = if cells[6] == "wed-noon" { "2026-11-25T12:00:00+01:00" } else { cells[6] };
        let at = time.parse().unwrap();
        if last != time {
            last = time.to_owned();
            let built = Tables::build(&policy, at).unwrap();
            firewall.policies.apply(&built, &policy).unwrap();
            tables = Some(built);
        }
        let packet = row_packet(&policy, &cells[1..]);
        let judgement = firewall.judge(&packet).unwrap().unwrap();
        assert_eq!(in_words(judgement, tables.as_ref().unwrap()), decide(&policy, &packet, at), "{row}");
        count += 1;
    }
    assert!(count > 100, "{count} rows");
}

fn row_packet(policy: &Policy, cells: &[&str]) -> Packet {
    // `udp/123 from 123`; a row that says no source port has one that no rule asks for.
    let (service, source_port) = cells[4].split_once(" from ").unwrap_or((cells[4], "40000"));
    let key = ServiceSet::parse(service).unwrap().parts()[0].keys.ranges()[0].0;
    Packet {
        from: policy.zone(cells[0]).unwrap(),
        to: policy.zone(cells[1]).unwrap(),
        source: cells[2].parse().unwrap(),
        destination: cells[3].parse().unwrap(),
        source_port: source_port.parse().unwrap(),
        protocol: (key >> 16) as u8,
        selector: key as u16,
    }
}

/// Puts a policy into force by one method and holds packets of a seed against the interpreter.
fn agree(
    firewall: &mut Firewall,
    policy: &Policy,
    tables: &Tables,
    at: jiff::Timestamp,
    seed: u64,
) -> Result<(), TestCaseError> {
    let generation = firewall.policies.apply(tables, policy).unwrap();
    for chunk in bytes(seed, PACKETS * 16).chunks(16) {
        let packet = packet(&mut Choices(chunk), policy);
        let judgement = firewall.judge(&packet).unwrap().unwrap();
        prop_assert_eq!(judgement.generation, generation.0);
        prop_assert_eq!(in_words(judgement, tables), decide(policy, &packet, at), "{:?}", packet);
    }
    Ok(())
}

/// Rules that name lists, on lists that overlap, by each method for the other rules.
#[test]
fn needs_root_rules_that_name_lists_agree_with_the_interpreter() {
    let firewall = std::cell::RefCell::new(firewall());
    let choices = (proptest::collection::vec(any::<u8>(), 0..500), 0usize..16, any::<u64>());
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() });
    let by_lists = std::cell::Cell::new(0);
    let done = runner.run(&choices, |(choices, rules, seed)| {
        let text = listed_policy_text(&mut Choices(&choices), rules);
        let policy = Policy::parse("random", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        let sets = contents(&policy);
        let lists = ListTable::build(&sets.iter().collect::<Vec<_>>()).unwrap();
        let at = MOMENTS[seed as usize % 4].parse().unwrap();
        for (name, limits) in METHODS {
            let tables = Tables::build_within(&policy, at, limits).unwrap();
            let firewall = &mut *firewall.borrow_mut();
            firewall.policies.apply_with(&tables, &policy, Some(&lists)).unwrap();
            for chunk in bytes(seed, PACKETS * 16).chunks(16) {
                let packet = packet(&mut Choices(chunk), &policy);
                let on = OnLists::of(&sets, packet.source, packet.destination);
                let judged = in_words(firewall.judge(&packet).unwrap().unwrap(), &tables);
                prop_assert_eq!(
                    judged,
                    decide_listed(&policy, &packet, on, at),
                    "{}: {:?}\n{}",
                    name,
                    packet,
                    text
                );
                let by_a_list = tables.asked_by_decider(&packet, on) != [None; 2];
                by_lists.set(by_lists.get() + u32::from(by_a_list));
            }
        }
        Ok(())
    });
    done.unwrap();
    // A few hundred by chance.
    assert!(by_lists.get() > 20, "{}", by_lists.get());
}

#[test]
fn needs_root_random_policies_agree_with_the_interpreter() {
    let mut firewall = firewall();
    let choices = (proptest::collection::vec(any::<u8>(), 0..700), 0usize..24, any::<u64>());
    let mut runner =
        TestRunner::new(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() });
    let firewall = std::cell::RefCell::new(&mut firewall);
    runner
        .run(&choices, |(choices, rules, seed)| {
            let text = policy_text(&mut Choices(&choices), rules);
            let policy =
                Policy::parse("random", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
            let at = MOMENTS[seed as usize % 4].parse().unwrap();
            for (turn, (name, limits)) in (0..).zip(METHODS) {
                let tables = Tables::build_within(&policy, at, limits).unwrap();
                prop_assert_eq!(tables.method.name(), name);
                agree(&mut firewall.borrow_mut(), &policy, &tables, at, seed.rotate_left(16 * turn))?;
            }
            Ok(())
        })
        .unwrap();
}

/// Enough rules for several chunks, blocks and words of a summary (32,768 rules each), and for more than a batch of pages.
#[test]
fn needs_root_many_rules_agree_too() {
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
    let mut firewall = firewall();
    let mut last_row = 0;
    for tables in [Tables::build(&policy, at), Tables::build_within(&policy, at, Limits::VECTORS)] {
        let tables = tables.unwrap();
        firewall.policies.apply(&tables, &policy).unwrap();
        for i in (0..RULES).step_by(211) {
            let first = |set: &policy::address::AddressSet| std::net::IpAddr::V4(set.v4.ranges()[0].0.into());
            let rule = &policy.rules[i as usize];
            let (source, destination) = (first(&rule.source), first(&rule.destination));
            for selector in [i % 11, (i + 1) % 11] {
                let packet = Packet {
                    from: 1,
                    to: 2,
                    source,
                    destination,
                    source_port: 40_000,
                    protocol: 6,
                    selector: selector as u16,
                };
                let judgement = firewall.judge(&packet).unwrap().unwrap();
                last_row = last_row.max(judgement.row.unwrap_or(0));
                assert_eq!(in_words(judgement, &tables), decide(&policy, &packet, at), "{packet:?}");
            }
        }
    }
    assert!(last_row > 39_000, "{last_row}");
}

/// Enough hosts, networks and services that nest for tables in blocks of several thousand columns.
#[test]
fn needs_root_rule_sets_of_the_bench_agree_too() {
    const RULES: u64 = 3_000;
    let policy = Policy::parse("filled", &filled_policy(RULES)).unwrap();
    let at = MOMENTS[0].parse().unwrap();
    let mut firewall = firewall();
    for (name, limits) in [METHODS[0], METHODS[2]] {
        let tables = Tables::build_within(&policy, at, limits).unwrap();
        assert_eq!(tables.method.name(), name);
        firewall.policies.apply(&tables, &policy).unwrap();
        for packet in (0..1_500).flat_map(|i| [matching_packet(i), mixed_packet(&policy, i)]) {
            let judgement = firewall.judge(&packet).unwrap().unwrap();
            assert_eq!(in_words(judgement, &tables), decide(&policy, &packet, at), "{packet:?}");
        }
    }
}

/// Series of several trees, several lines a leaf, both families and many pairs of zones.
#[test]
fn needs_root_trees_of_rule_sets_agree_too() {
    let at = MOMENTS[0].parse().unwrap();
    let mut firewall = firewall();
    for (name, v6, zones) in
        [("fw1", false, false), ("fw1", true, false), ("ipc1", true, true), ("fw5", false, true)]
    {
        let how = How { rules: 4_000, seed: 11, v6, zones, source_ports: zones };
        let policy = Policy::parse(name, &set(name, how)).unwrap();
        let tables = Tables::build_within(&policy, at, Limits::TREES).unwrap();
        let Method::Trees(trees) = &tables.method else { panic!("{name}: {}", tables.method.name()) };
        assert!(trees.series[usize::from(v6)].trees > 1, "{name}: {:?}", trees.series);
        firewall.policies.apply(&tables, &policy).unwrap();
        let random = &mut Random(3);
        for _ in 0..600 {
            let packet = probe(&policy, random);
            let judgement = firewall.judge(&packet).unwrap().unwrap();
            assert_eq!(in_words(judgement, &tables), decide(&policy, &packet, at), "{name}: {packet:?}");
        }
    }
}
