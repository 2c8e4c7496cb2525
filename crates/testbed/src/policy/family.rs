//! Filler rules of a family of rule sets as they are in use, which no frame of a test matches. Pure.
//!
//! The busiest network of the family's sources is the private zone's, and that of its destinations the hostile zone's. Frames of tests
//! so lie among the rules' own addresses, and a firewall that searches by address has to tell them apart as in use. A filter that a
//! frame could match with both ends in the bed has one end elsewhere.

use super::{Action, Network, Protocol, Rule};
use crate::layout::ZoneAddresses;
use ipnet::{Ipv4Net, Ipv6Net};
use measure::shape::{TestProtocol, Zone};
use rule_sets::{Base, Family, Filter, Prefix, Random, source_ports};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Where the rules' addresses lie but for those of the bed: apart from all that frames of tests have.
const BASE: Base = Base { source: 20, destination: 140 };
const BASE_V6: u32 = 0x2400_0000;

/// The rules of one set.
pub(super) struct FamilyRules {
    pub(super) family: Family,
    /// Rules in all.
    pub(super) rules: u32,
    pub(super) seed: u64,
    pub(super) tested: TestProtocol,
}

impl FamilyRules {
    /// The rule at a position. What a test's frames could match wherever it lies is drawn again: some of the few rules from anywhere to
    /// anywhere.
    pub(super) fn rule(&self, random: &mut Random, position: u32) -> Rule {
        // In every family at least nine rules of ten have an address on one side at least, so this ends.
        loop {
            let filter = self.family.filter(random, self.rules as usize, BASE);
            let action = if random.below(2) == 0 { Action::Accept } else { Action::Drop };
            let of_source = position.is_multiple_of(2);
            let ends_in_bed =
                [(true, true), (of_source, !of_source), (!of_source, of_source), (false, false)];
            let mut rules =
                ends_in_bed.map(|in_bed| self.of_filter(&filter, position, action, in_bed)).into_iter();
            if let Some(rule) = rules.find(|rule| !rule.may_match_tests(self.tested)) {
                return rule;
            }
        }
    }

    /// `in_bed`: whether the busiest networks of sources and of destinations are those of the bed.
    fn of_filter(&self, filter: &Filter, position: u32, action: Action, in_bed: (bool, bool)) -> Rule {
        let protocol = match filter.protocol {
            rule_sets::Protocol::Tcp => Protocol::Tcp,
            rule_sets::Protocol::Udp => Protocol::Udp,
            rule_sets::Protocol::Icmp => Protocol::Icmp,
            rule_sets::Protocol::Any => Protocol::Any,
        };
        let percent = if filter.protocol.has_ports() { self.family.percent_with_source_ports() } else { 0 };
        Rule {
            protocol,
            source: network(filter.source, BASE.source, in_bed.0.then_some(Zone::Private)),
            destination: network(filter.destination, BASE.destination, in_bed.1.then_some(Zone::Hostile)),
            source_ports: source_ports(self.seed, position.into(), percent),
            destination_ports: filter.destination_ports,
            action,
        }
    }
}

/// A prefix in both versions: of the zone, if it lies in the busiest network behind `base` (the first /16).
fn network(prefix: Prefix, base: u8, zone: Option<Zone>) -> Network {
    let ((v4, v4_length), (v6, v6_length)) = (prefix.v4(), prefix.v6(BASE_V6));
    let is_busiest = v4_length >= 16 && v4.octets()[..2] == [base, 0];
    match zone.filter(|_| is_busiest).map(ZoneAddresses::of) {
        None => Network { v4: Ipv4Net::new_assert(v4, v4_length), v6: Ipv6Net::new_assert(v6, v6_length) },
        Some(zone) => {
            let host = u32::from(v4) & 0xffff;
            let (v4, v6) =
                (u32::from(zone.v4.network()) | host, u128::from(zone.v6.network()) | u128::from(host));
            Network {
                v4: Ipv4Net::new_assert(Ipv4Addr::from(v4), v4_length),
                v6: Ipv6Net::new_assert(Ipv6Addr::from(v6), v4_length + 96),
            }
        }
    }
}
