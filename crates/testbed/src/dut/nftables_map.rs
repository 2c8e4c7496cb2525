//! `nftables-map`: all rules of a policy as the elements of one verdict map for each IP version, which the kernel looks up at once
//! however many there are (`nft_set_pipapo`, Linux 5.6). The elements of a map have no order and must not overlap, but rules have one and
//! may: where a later rule overlaps earlier ones, only what they leave of it becomes elements. So every frame gets the verdict
//! of the first rule that matches it, as in a chain. A policy whose rules leave too many pieces is refused. Pure.

use super::nftables::{family, verdict};
use crate::error::TestbedError;
use crate::policy::{Action, PolicySpec, Rule};
use ipnet::IpNet;
use measure::shape::IpVersion;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Elements that a rule may become, on the average of all rules.
const ELEMENTS_A_RULE: usize = 8;
const ANY_PORT: (u16, u16) = (0, u16::MAX);
/// Source, destination, protocol, source port, destination port.
const FIELDS: usize = 5;
const SOURCE_PORT: usize = 3;

/// Frames: an inclusive range of values for each field.
type Region = [(u128, u128); FIELDS];

/// The maps of a policy.
pub(super) struct VerdictMaps {
    /// Whether any rule asks for source ports; otherwise they are not part of the key.
    source_ports: bool,
    v4: Vec<(Region, Action)>,
    v6: Vec<(Region, Action)>,
}

impl VerdictMaps {
    /// # Errors
    /// [`TestbedError::Unsupported`] when the rules overlap too much to be a map.
    pub(super) fn of(policy: &PolicySpec, dut: &'static str) -> Result<Self, TestbedError> {
        let rules = &policy.rules;
        let elements = |ip| {
            let regions: Vec<Region> = rules.iter().map(|rule| region(rule, ip)).collect();
            let apart = apart(&regions, ELEMENTS_A_RULE * rules.len() + 64);
            let elements = apart
                .map(|pieces| pieces.into_iter().map(|(rule, piece)| (piece, rules[rule].action)).collect());
            elements.ok_or_else(|| TestbedError::Unsupported {
                dut,
                what: format!(
                    "these {} rules as a map: elements of a map must not overlap, and these rules overlap so much that more than \
                     {ELEMENTS_A_RULE} elements for each of them would be left",
                    rules.len()
                ),
            })
        };
        Ok(Self {
            source_ports: rules.iter().any(|rule| rule.source_ports.is_some()),
            v4: elements(IpVersion::V4)?,
            v6: elements(IpVersion::V6)?,
        })
    }

    /// The type of the key.
    pub(super) fn key_type(&self, ip: IpVersion) -> String {
        let address = match ip {
            IpVersion::V4 => "ipv4_addr",
            IpVersion::V6 => "ipv6_addr",
        };
        self.join([address, address, "inet_proto", "inet_service", "inet_service"].map(str::to_owned))
    }

    /// The expression that makes the key of a frame.
    pub(super) fn key(&self, ip: IpVersion) -> String {
        let family = family(ip);
        let fields = ["saddr", "daddr"].map(|field| format!("{family} {field}"));
        let [source, destination] = fields;
        self.join([source, destination, "meta l4proto".into(), "th sport".into(), "th dport".into()])
    }

    /// The elements as nftables writes them.
    pub(super) fn elements(&self, ip: IpVersion) -> impl Iterator<Item = String> {
        let elements = match ip {
            IpVersion::V4 => &self.v4,
            IpVersion::V6 => &self.v6,
        };
        elements.iter().map(move |([source, destination, rest @ ..], action)| {
            let [source, destination] =
                [source, destination].map(|&(low, high)| range(address(low, ip), address(high, ip)));
            let [protocol, sport, dport] = rest.map(|(low, high)| range(low, high));
            format!("{} : {}", self.join([source, destination, protocol, sport, dport]), verdict(*action))
        })
    }

    fn join(&self, fields: [String; FIELDS]) -> String {
        let in_key = |(index, _): &(usize, String)| self.source_ports || *index != SOURCE_PORT;
        let fields: Vec<String> =
            fields.into_iter().enumerate().filter(in_key).map(|(_, field)| field).collect();
        fields.join(" . ")
    }
}

fn range<T: PartialEq + std::fmt::Display>(low: T, high: T) -> String {
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

fn address(value: u128, ip: IpVersion) -> IpAddr {
    match ip {
        IpVersion::V4 => Ipv4Addr::from(value as u32).into(),
        IpVersion::V6 => Ipv6Addr::from(value).into(),
    }
}

/// Regions without overlap, each with the number of the first region given that has it; `None` for more than `most`.
fn apart(regions: &[Region], most: usize) -> Option<Vec<(usize, Region)>> {
    let mut pieces = Vec::with_capacity(regions.len());
    for (index, region) in regions.iter().enumerate() {
        let mut left = vec![*region];
        for earlier in regions[..index].iter().filter(|earlier| meet(earlier, region)) {
            left = left.iter().flat_map(|piece| without(piece, earlier)).collect();
            if pieces.len() + left.len() > most {
                return None;
            }
        }
        pieces.extend(left.into_iter().map(|piece| (index, piece)));
    }
    (pieces.len() <= most).then_some(pieces)
}

fn region(rule: &Rule, ip: IpVersion) -> Region {
    let number = |address| match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => u128::from(address),
    };
    let [source, destination] =
        rule.networks(ip).map(|net: IpNet| (number(net.network()), number(net.broadcast())));
    let (lowest, highest) = rule.protocol.numbers(ip);
    let [sport, dport] = [rule.source_ports, rule.destination_ports].map(|ports| {
        let (low, high) = ports.unwrap_or(ANY_PORT);
        (low.into(), high.into())
    });
    [source, destination, (lowest.into(), highest.into()), sport, dport]
}

/// Destinations differ most often, so they are looked at first: with 10,000 rules there are 50 million pairs.
fn meet(a: &Region, b: &Region) -> bool {
    let at = |field: usize| a[field].0 <= b[field].1 && b[field].0 <= a[field].1;
    at(1) && at(0) && at(2) && at(4) && at(3)
}

/// What is left of a region: for each field in turn, what lies below and above the other's range.
fn without(region: &Region, other: &Region) -> Vec<Region> {
    if !meet(region, other) {
        return vec![*region];
    }
    let mut pieces = Vec::new();
    let mut rest = *region;
    for field in 0..FIELDS {
        let ((low, high), (from, to)) = (rest[field], other[field]);
        if low < from {
            rest[field] = (low, from - 1);
            pieces.push(rest);
        }
        if high > to {
            rest[field] = (to + 1, high);
            pieces.push(rest);
        }
        rest[field] = (low.max(from), high.min(to));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::shape::{PolicyShape, TestProtocol, ZoneForm};
    use proptest::prelude::*;
    use rule_sets::Family;

    fn policy(rules: u32, stateful: bool, protocol: TestProtocol) -> PolicySpec {
        let shape = PolicyShape {
            rules,
            match_position: rules,
            stateful,
            protocol,
            ..PolicyShape::forward_everything(1)
        };
        PolicySpec::generate(&shape, ZoneForm::Two).unwrap()
    }

    #[test]
    fn a_small_map_reads_as_an_expert_writes_it() {
        let maps = VerdictMaps::of(&policy(1, true, TestProtocol::Tcp), "x").unwrap();
        assert_eq!(maps.key(IpVersion::V4), "ip saddr . ip daddr . meta l4proto . th dport");
        assert_eq!(maps.key_type(IpVersion::V6), "ipv6_addr . ipv6_addr . inet_proto . inet_service");
        let v4 = "198.18.0.0-198.18.255.255 . 198.19.0.0-198.19.127.255 . 6 . 1-49151 : accept";
        assert_eq!(maps.elements(IpVersion::V4).collect::<Vec<_>>(), [v4]);
        let stateless = VerdictMaps::of(&policy(1, false, TestProtocol::Udp), "x").unwrap();
        assert_eq!(
            stateless.key(IpVersion::V6),
            "ip6 saddr . ip6 daddr . meta l4proto . th sport . th dport"
        );
        let reply = "198.19.0.0-198.19.127.255 . 198.18.0.0-198.18.255.255 . 17 . 1-49151 . 0-65535 : accept";
        assert_eq!(stateless.elements(IpVersion::V4).nth(1).as_deref(), Some(reply));
    }

    /// Every number of rules that shipped suites have.
    #[test]
    fn the_rules_of_suites_can_be_a_map() {
        for (protocol, most) in [(TestProtocol::Udp, 1000), (TestProtocol::Tcp, 10_000)] {
            for rules in [1, 4, 100, 500, 1000, 10_000].into_iter().filter(|rules| *rules <= most) {
                let maps = VerdictMaps::of(&policy(rules, true, protocol), "x");
                let maps = maps.unwrap_or_else(|error| panic!("{rules} {protocol:?}: {error}"));
                let (elements, rules) = (maps.v4.len(), rules as usize);
                assert!(
                    elements >= rules / 2 && elements < 2 * rules,
                    "{elements} elements of {rules} rules"
                );
            }
        }
    }

    /// Access lists can; in firewalls and chains rules from anywhere to a host cross rules from a host to anywhere.
    #[test]
    fn some_families_can_be_a_map() {
        for family in Family::all() {
            let shape =
                PolicyShape { rule_family: Some(family), ..policy(1000, true, TestProtocol::Tcp).shape };
            let maps = VerdictMaps::of(&PolicySpec::generate(&shape, ZoneForm::Two).unwrap(), "x");
            let can = ["acl1", "acl3", "acl4", "acl5"].contains(&family.name());
            assert_eq!(maps.is_ok(), can, "{family:?}");
            assert!(maps.is_ok_and(|maps| maps.source_ports && maps.v4.len() < 2000) || !can, "{family:?}");
        }
    }

    #[test]
    fn rules_that_overlap_too_much_are_refused_with_the_reason() {
        let mut crossing = policy(1, true, TestProtocol::Udp);
        let rule = crossing.rules[0].clone();
        // A grid: each of the second hundred crosses all of the first.
        let stripe = |n: u16| Some((200 * n, 200 * n + 9));
        let by_source =
            (0..100).map(|n| Rule { source_ports: stripe(n), destination_ports: None, ..rule.clone() });
        let by_destination =
            (0..100).map(|n| Rule { source_ports: None, destination_ports: stripe(n), ..rule.clone() });
        crossing.rules = by_source.chain(by_destination).collect();
        let error =
            VerdictMaps::of(&crossing, "nftables-map").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("nftables-map cannot do") && error.contains("overlap"), "{error}");
    }

    proptest! {
        /// Any frame gets the verdict of the first rule that matches it, from one element at most.
        #[test]
        fn elements_judge_as_rules_do(
            rules in prop::collection::vec(prop::array::uniform5((0u128..6, 0u128..6)), 1..12),
            frame in prop::array::uniform5(0u128..8),
        ) {
            let sorted = |region: &Region| region.map(|(a, b)| (a.min(b), a.max(b)));
            let regions: Vec<Region> = rules.iter().map(sorted).collect();
            let first = regions.iter().position(|r| within(r, &frame));
            let pieces = apart(&regions, usize::MAX).unwrap();
            let found: Vec<usize> =
                pieces.iter().filter(|(_, piece)| within(piece, &frame)).map(|(rule, _)| *rule).collect();
            prop_assert_eq!(found, first.into_iter().collect::<Vec<_>>());
        }
    }

    fn within(region: &Region, frame: &[u128; FIELDS]) -> bool {
        region.iter().zip(frame).all(|((low, high), value)| (low..=high).contains(&value))
    }
}
