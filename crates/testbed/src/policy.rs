//! The policy of a test as data, from a seed: filler rules that the test traffic does not match, the rule that
//! allows it, a default that denies all else, a block list, source translation; and the probes that prove a
//! firewall enforces it. Every driver renders the same value. Pure.
//!
//! What the policy means, for every firewall:
//! - Frames from or to a listed address are dropped before anything else.
//! - Stateful: frames of a known connection are accepted next, then the rules decide about new ones. Stateless: the
//!   rules decide about every frame, and a mirrored rule right behind the matching one allows the replies.
//! - The matching rule allows UDP to ports 1 to 49151 between the zones of each forward lane. A bed with three
//!   zones has three such lanes, whose rules (and mirrors) count as one position.
//! - What no rule matches is dropped and counted.
//! - No rules at all means no filter: everything is forwarded, unless a list forbids it.

use crate::error::TestbedError;
use crate::layout::{
    LISTED_CANARY, TEST_V4, TEST_V6, TRANSLATED_V4, TRANSLATED_V6, ZoneAddresses, forward_lanes_of,
};
use crate::policy::random::Random;
use ipnet::{Ipv4Net, Ipv6Net};
use measure::shape::{Lane, PolicyShape, Zone, ZoneForm};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

mod probe;
mod random;

pub use probe::{Expect, Probe};

/// Source ports of test traffic (RFC 4814 section 4.5).
pub const TEST_SOURCE_PORTS: RangeInclusive<u16> = 1024..=65535;
/// Destination ports of test traffic (RFC 4814 section 4.5): what the matching rule allows.
pub const TEST_DESTINATION_PORTS: RangeInclusive<u16> = 1..=49151;
/// A destination port that no rule ever allows, with UDP or TCP: forbidden probes use it.
pub const FORBIDDEN_PORT: u16 = 60000;

/// A rule's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// ICMP in IPv4, ICMPv6 in IPv6.
    Icmp,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Forward.
    Accept,
    /// Discard in silence.
    Drop,
}

/// The same network in both IP versions, so that a policy costs the same whichever is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// In IPv4.
    pub v4: Ipv4Net,
    /// In IPv6.
    pub v6: Ipv6Net,
}

/// One rule: all conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The protocol.
    pub protocol: Protocol,
    /// Source network.
    pub source: Network,
    /// Destination network.
    pub destination: Network,
    /// Source ports, or any; always any for ICMP.
    pub source_ports: Option<(u16, u16)>,
    /// Destination ports, or any; always any for ICMP.
    pub destination_ports: Option<(u16, u16)>,
    /// What happens to a frame that matches.
    pub action: Action,
}

/// A policy, ready to be rendered by a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySpec {
    /// What was asked for.
    pub shape: PolicyShape,
    /// The zones it is for.
    pub zones: ZoneForm,
    /// All rules in order. Longer than `shape.rules` where the matching position holds several rules.
    pub rules: Vec<Rule>,
    /// The block list, with the canary that the list's probe is sent from.
    pub listed: AddressList,
}

impl PolicySpec {
    /// Generates the policy of a shape.
    ///
    /// # Errors
    /// [`TestbedError::Impossible`] for a match position outside the rules, or more addresses than there are.
    pub fn generate(shape: &PolicyShape, zones: ZoneForm) -> Result<Self, TestbedError> {
        check(shape)?;
        let mut random = Random::new(shape.seed);
        let mut rules = Vec::with_capacity(shape.rules as usize + 5);
        for position in 1..=shape.rules {
            if position == shape.match_position {
                rules.extend(matching_rules(zones, shape.stateful));
            } else {
                rules.push(filler(&mut random));
            }
        }
        let listed = AddressList { count: shape.listed_addresses, seed: shape.seed };
        Ok(Self { shape: shape.clone(), zones, rules, listed })
    }

    /// The policy that every firewall can do: forward everything.
    pub fn forward_everything(zones: ZoneForm) -> Self {
        let shape = PolicyShape::forward_everything(0);
        Self { rules: Vec::new(), listed: AddressList { count: 0, seed: 0 }, shape, zones }
    }

    /// Whether anything is filtered by rules.
    pub fn has_rules(&self) -> bool {
        self.shape.rules > 0
    }

    /// Whether sources on this lane are translated.
    pub fn translates(&self, lane: Lane) -> bool {
        self.shape.nat && lane.from == Zone::Private && lane.to == Zone::Hostile
    }

    /// What must arrive and what must not, in the order in which to send it: a reply comes after what it replies to.
    pub fn probes(&self) -> Vec<Probe> {
        probe::probes(self)
    }
}

/// Addresses on a block list: distinct, unicast and public, none of a test, in a seeded order. Nothing is stored, so
/// 30 million addresses take no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressList {
    count: u32,
    seed: u64,
}

impl AddressList {
    /// Addresses in all, the canary included.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there is no list.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The addresses, the canary first.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let permutation = random::Permutation::new(self.seed);
        let others =
            (0..=u32::MAX).map(move |index| Ipv4Addr::from(permutation.at(index))).filter(may_be_listed);
        std::iter::once(LISTED_CANARY).chain(others).take(self.count as usize)
    }
}

/// The most addresses that a list can have: what is left of IPv4 would allow about 3.6 thousand million.
const MOST_LISTED: u32 = 3_000_000_000;

fn may_be_listed(address: &Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let special = matches!(first, 0 | 10 | 127 | 224..) || matches!((first, second), (100, 64..=127));
    !special && !TEST_V4.contains(address)
}

fn check(shape: &PolicyShape) -> Result<(), TestbedError> {
    let position_fits = match shape.rules {
        0 => shape.match_position == 0,
        rules => (1..=rules).contains(&shape.match_position),
    };
    if !position_fits {
        return Err(TestbedError::Impossible(format!(
            "the matching rule cannot be at position {} of {} rules: positions go from 1 to the number of rules, \
             and without rules it is 0",
            shape.match_position, shape.rules
        )));
    }
    if shape.listed_addresses > MOST_LISTED {
        return Err(TestbedError::Impossible(format!(
            "a list of {} addresses is more than the public IPv4 addresses: {MOST_LISTED} at most",
            shape.listed_addresses
        )));
    }
    Ok(())
}

impl Network {
    fn of_zone(zone: Zone) -> Self {
        let addresses = ZoneAddresses::of(zone);
        Self { v4: addresses.v4, v6: addresses.v6 }
    }

    /// Whether any address of a test, translated or not, is inside.
    fn touches_tests(&self) -> bool {
        let meet4 = |a: Ipv4Net| a.contains(&self.v4) || self.v4.contains(&a);
        let meet6 = |a: Ipv6Net| a.contains(&self.v6) || self.v6.contains(&a);
        meet4(TEST_V4) || meet4(TRANSLATED_V4) || meet6(TEST_V6) || meet6(TRANSLATED_V6)
    }
}

impl Rule {
    /// Whether any frame of a test, or any probe, could match. Errs on the side of yes.
    fn may_match_tests(&self) -> bool {
        let forbidden_port =
            self.destination_ports.is_none_or(|(low, high)| (low..=high).contains(&FORBIDDEN_PORT));
        let protocol = match self.protocol {
            Protocol::Udp => true,
            Protocol::Tcp => forbidden_port,
            Protocol::Icmp => false,
        };
        protocol && self.source.touches_tests() && self.destination.touches_tests()
    }
}

/// The rules at the matching position: one a forward lane, each followed by its mirror in a stateless policy.
fn matching_rules(zones: ZoneForm, stateful: bool) -> Vec<Rule> {
    let ports = Some((*TEST_DESTINATION_PORTS.start(), *TEST_DESTINATION_PORTS.end()));
    let mut rules = Vec::new();
    for &(from, to) in forward_lanes_of(zones) {
        let forward = Rule {
            protocol: Protocol::Udp,
            source: Network::of_zone(from),
            destination: Network::of_zone(to),
            source_ports: None,
            destination_ports: ports,
            action: Action::Accept,
        };
        let mirror = Rule {
            source: forward.destination,
            destination: forward.source,
            source_ports: ports,
            destination_ports: None,
            ..forward.clone()
        };
        rules.push(forward);
        if !stateful {
            rules.push(mirror);
        }
    }
    rules
}

/// A rule as rule sets have them, which no test traffic matches.
fn filler(random: &mut Random) -> Rule {
    // Every draw is independent and about nine in ten pass, so this ends.
    loop {
        let rule = candidate(random);
        if !rule.may_match_tests() {
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

/// A network outside all test ranges.
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

#[cfg(test)]
mod tests;
