//! Policies as they are, and odd ones, by a second reading that shares nothing with the crate (`independent/reading.rs`): the interpreter and the tables
//! by every method give its verdicts, within the bounds that `rampart check` prints.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "independent/odd.rs"]
mod odd;
mod random;
#[path = "independent/reading.rs"]
mod reading;

use odd::{Boundaries, ODD};
use policy::Policy;
use policy::interpret::{Decider, Packet, Verdict, decide};
use policy::tables::{Limits, Tables};
use random::sets::{How, families, set};
use reading::{Asked, Reading};
use rule_sets::Random;
use std::collections::BTreeSet;

const METHODS: [Limits; 4] = [Limits::TREES, Limits::DENSE, Limits::BLOCKS, Limits::VECTORS];

fn packet(policy: &Policy, asked: &Asked) -> Packet {
    let zone = |name: &str| policy.zone(name).unwrap();
    let Asked { source, destination, source_port, protocol, selector, .. } = *asked;
    Packet {
        from: zone(&asked.from),
        to: zone(&asked.to),
        source,
        destination,
        source_port,
        protocol,
        selector,
    }
}

fn words(policy: &Policy, verdict: Verdict) -> (String, String) {
    let name = match verdict.decider {
        Decider::Rule(place) => policy.rules[place].name.as_str(),
        Decider::Default => "-",
    };
    (verdict.action.name().to_owned(), name.to_owned())
}

/// Holds a policy against the second reading; returns which rules decided.
fn hold(what: &str, text: &str, packets: usize, seed: u64) -> BTreeSet<String> {
    let at = jiff::Timestamp::UNIX_EPOCH;
    let policy = Policy::parse(what, text).unwrap_or_else(|problems| panic!("{what}: {problems}"));
    let reading = Reading::of(text);
    let boundaries = Boundaries::of(text, &reading);
    let mut tables = vec![Tables::build(&policy, at).unwrap_or_else(|error| panic!("{what}: {error}"))];
    tables.extend(METHODS.into_iter().filter_map(|limits| Tables::build_within(&policy, at, limits).ok()));
    let random = &mut Random(seed);
    let mut deciders = BTreeSet::new();
    for _ in 0..packets {
        let asked = boundaries.packet(random);
        let expected = reading.verdict(&asked);
        let packet = packet(&policy, &asked);
        assert_eq!(words(&policy, decide(&policy, &packet, at)), expected, "{what}: {asked:?}");
        for tables in &tables {
            let (verdict, lines) = tables.look_up(&packet);
            let method = tables.method.name();
            assert_eq!(words(&policy, verdict), expected, "{what}, {method}: {asked:?}");
            let bound = tables.bounds()[usize::from(packet.source.is_ipv6())];
            assert!(lines <= bound, "{what}, {method}: {lines} of {bound} lines, {asked:?}");
        }
        deciders.insert(expected.1);
    }
    deciders
}

#[test]
fn odd_policies_mean_what_their_text_says() {
    let mut by_default = 0;
    for (number, (what, make)) in (0..).zip(ODD) {
        let text = make(&mut Random(number + 40));
        let deciders = hold(what, &text, 250, number);
        assert!(deciders.len() > 8, "{what}: {deciders:?}");
        by_default += usize::from(deciders.contains("-"));
    }
    assert!(by_default > ODD.len() / 2, "no rule decides in {by_default}");
}

#[test]
fn rule_sets_as_they_are_mean_what_their_text_says() {
    for (number, name) in (0..).zip(families()) {
        for v6 in [false, true] {
            let how =
                How { rules: 300, seed: number, v6, zones: number % 2 == 1, source_ports: number % 3 > 0 };
            let deciders = hold(name, &set(name, how), 250, number);
            assert!(deciders.len() > 8, "{name}: {deciders:?}");
        }
    }
}
