//! The interpreter and the tables give the same verdict, whatever the policy and the packet, and by either method.

mod random;

use policy::Policy;
use policy::interpret::decide;
use policy::tables::{Limits, Method, Tables};
use proptest::prelude::*;
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
        let vectors = Tables::build_within(&policy, at, Limits::NONE).unwrap();
        prop_assert!(matches!(chosen.method, Method::Crossed(_)));
        prop_assert!(matches!(vectors.method, Method::Vectors(_)));
        let random = bytes(seed, PACKETS * 16);
        for chunk in random.chunks(16) {
            let packet = packet(&mut Choices(chunk), &policy);
            let expected = decide(&policy, &packet, at);
            prop_assert_eq!(chosen.look_up(&packet).0, expected, "tables, {:?}", packet);
            prop_assert_eq!(vectors.look_up(&packet).0, expected, "vectors, {:?}", packet);
        }
    }
}

/// Enough rules for several chunks and blocks, many of them alike.
#[test]
fn many_rules_agree_too() {
    let mut text = String::from(
        "[zones]\na = { interfaces = \"e0\" }\nb = { interfaces = \"e1\" }\nc = { interfaces = \"e2\" }\n",
    );
    for i in 0..20_000u32 {
        let (x, y, z) = (i % 7 * 30, i / 7 % 250, i % 250);
        let (from, to) = [("a", "b"), ("b", "c"), ("any", "a")][i as usize % 3];
        text += &format!(
            "[[rules]]\nname = \"r{i}\"\nfrom = \"{from}\"\nto = \"{to}\"\nsource = \"10.{x}.{y}.0/24\"\n\
             destination = \"10.{y}.{z}.{x}\"\nservice = \"tcp/{}\"\naction = \"allow\"\n",
            i % 11
        );
    }
    let policy = Policy::parse("many", &text).unwrap();
    let at = MOMENTS[0].parse().unwrap();
    let chosen = Tables::build(&policy, at).unwrap();
    let vectors = Tables::build_within(&policy, at, Limits::NONE).unwrap();
    let mut decided = 0;
    for i in 0..300u32 {
        let rule = &policy.rules[(i * 61 % 20_000) as usize];
        let first = |set: &policy::address::AddressSet| std::net::IpAddr::V4(set.v4.ranges()[0].0.into());
        let packet = policy::interpret::Packet {
            from: 1 + (i % 3) as u8,
            to: rule.to.trailing_zeros() as u8,
            source: first(&rule.source),
            destination: first(&rule.destination),
            protocol: 6,
            selector: (i * 61 % 20_000 % 11) as u16,
        };
        let expected = decide(&policy, &packet, at);
        decided += usize::from(expected.decider != policy::interpret::Decider::Default);
        assert_eq!(chosen.look_up(&packet).0, expected, "{packet:?}");
        assert_eq!(vectors.look_up(&packet).0, expected, "{packet:?}");
    }
    assert!(decided > 50, "most packets should meet a rule, {decided} did");
}
