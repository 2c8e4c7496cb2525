//! Filler rules: rules as rule sets have them, from a seed, which no frame of a test matches. Pure.

use super::lists::may_be_listed;
use super::{Action, Network, Protocol, Rule, TEST_DESTINATION_PORTS};
use ipnet::{Ipv4Net, Ipv6Net};
use measure::shape::{TestProtocol, Zone};
use rule_sets::Random;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A rule as rule sets have them, which no test traffic matches.
pub(super) fn filler(random: &mut Random, tested: TestProtocol) -> Rule {
    // Every draw is independent and more than eight in ten pass, so this ends.
    loop {
        let rule = candidate(random);
        if !rule.may_match_tests(tested) {
            return rule;
        }
    }
}

/// Half of the rules are about hosts of the private zone going out, a quarter about others coming in to a zone, a
/// quarter about services between the zones themselves, which only differ from the test traffic in the protocol.
fn candidate(random: &mut Random) -> Rule {
    let (source, destination) = match random.below(4) {
        0 | 1 => (part_of_zone(random, Zone::Private), elsewhere(random)),
        2 => (elsewhere(random), part_of_zone(random, Zone::Dmz)),
        _ => (Network::of_zone(Zone::Private), part_of_zone(random, Zone::Hostile)),
    };
    let protocol = match random.below(10) {
        0 => Protocol::Icmp,
        1..=3 => Protocol::Udp,
        _ => Protocol::Tcp,
    };
    let destination_ports = if protocol == Protocol::Icmp { None } else { ports(random) };
    let action = if random.below(8) == 0 { Action::Drop } else { Action::Accept };
    Rule { protocol, source, destination, source_ports: None, destination_ports, action }
}

/// Single hosts and /24 are the most common in rule sets; the rest spreads from /8 to /31.
fn prefix_length(random: &mut Random) -> u8 {
    match random.below(20) {
        0..=6 => 32,
        7..=12 => 24,
        13 | 14 => 16,
        15 | 16 => 25 + random.below(7) as u8,
        17 | 18 => 17 + random.below(7) as u8,
        _ => 8 + random.below(8) as u8,
    }
}

/// A network outside all ranges that any frame of a test has.
fn elsewhere(random: &mut Random) -> Network {
    loop {
        let length = prefix_length(random);
        let v4 = Ipv4Addr::from(random.next() as u32);
        // 2000::/3, with lengths from /24 for large networks to /128 for hosts.
        let v6 =
            Ipv6Addr::from((u128::from(random.next()) << 64 | u128::from(random.next())) >> 3 | 1 << 125);
        let network = Network {
            v4: Ipv4Net::new_assert(v4, length).trunc(),
            v6: Ipv6Net::new_assert(v6, if length == 32 { 128 } else { length + 16 }).trunc(),
        };
        if may_be_listed(&v4) && !network.touches_tests() {
            return network;
        }
    }
}

/// A network inside a zone's prefix.
fn part_of_zone(random: &mut Random, zone: Zone) -> Network {
    let whole = Network::of_zone(zone);
    let length = prefix_length(random).max(whole.v4.prefix_len());
    let host = random.next() as u32 & u32::from(whole.v4.hostmask());
    let v4 = Ipv4Addr::from(u32::from(whole.v4.network()) | host);
    let v6 = Ipv6Addr::from(u128::from(whole.v6.network()) | u128::from(host));
    Network { v4: Ipv4Net::new_assert(v4, length).trunc(), v6: Ipv6Net::new_assert(v6, length + 96).trunc() }
}

/// Mostly one well-known service, sometimes a range, sometimes all that tests do not reserve.
fn ports(random: &mut Random) -> Option<(u16, u16)> {
    const SERVICES: [u16; 16] =
        [22, 25, 53, 80, 110, 123, 143, 161, 389, 443, 445, 993, 1433, 3306, 5432, 8080];
    let highest = *TEST_DESTINATION_PORTS.end();
    Some(match random.below(10) {
        0..=5 => {
            let port = SERVICES[random.below(16) as usize];
            (port, port)
        }
        6 | 7 => {
            let port = 1 + random.below(u64::from(highest)) as u16;
            (port, port)
        }
        8 => {
            let low = 1024 + random.below(40_000) as u16;
            (low, low + 1 + random.below(2000) as u16)
        }
        _ => (1024, highest),
    })
}
