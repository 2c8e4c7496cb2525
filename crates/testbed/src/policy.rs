//! The policy of a test as data, from a seed: filler rules that the test traffic does not match, of the bench's own or of a family of
//! rule sets as they are in use; the rule that allows it, a default that denies all else, block lists, a country table, source translation; and the probes that prove
//! a firewall enforces it. Every driver renders the same value. Pure.
//!
//! What the policy means, for every firewall, in the order in which a frame meets it:
//! - Frames from or to an address on any of the block lists are dropped before anything else.
//! - With a country table, frames whose source or whose destination is not in the table are dropped next, whether or not
//!   they belong to a connection. Both ends are looked up, so one table serves both directions. Lists and the table are of
//!   IPv4; they say nothing about IPv6.
//! - Stateful: frames of a known connection are accepted next, then the rules decide about new ones. Stateless: the
//!   rules decide about every frame, and a mirrored rule right behind the matching one allows the replies.
//! - Stateful, and the test traffic is TCP: what belongs to no connection and is no SYN, and what is outside the window of
//!   its connection, is dropped before the rules. A stateless policy cannot do that.
//! - The matching rule allows the test's protocol, UDP or TCP, to ports 1 to 49151 between the zones of each forward lane. A
//!   bed with three zones has three such lanes, whose rules (and mirrors) count as one position.
//! - Where attackers are admitted, that position has one more rule for each zone that can be reached from the private one: the
//!   attackers' range may open what the private zone may, with the test's protocol. Other floods than those of that protocol
//!   (UDP in a TCP policy) meet the rules and the default.
//! - What no rule matches is dropped and counted.
//! - No rules at all means no filter: everything is forwarded, unless a list or the country table forbids it. With state (for
//!   a firewall that cannot be without) everything may be opened, and what belongs to no TCP connection and is no SYN is dropped.
//!
//! Drivers that count drops name the counters `listed_drop`, `country_drop`, `invalid_drop` and `default_drop`.

use crate::error::TestbedError;
use crate::layout::{
    ATTACKERS_V4, ATTACKERS_V6, OUTSIDE_COUNTRIES, STRANGERS_V4, STRANGERS_V6, TEST_V4, TEST_V6,
    TRANSLATED_V4, TRANSLATED_V6, ZoneAddresses, forward_lanes_of,
};
use crate::policy::family::FamilyRules;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use measure::shape::{IpVersion, Lane, PolicyShape, TestProtocol, Zone, ZoneForm};
use rule_sets::Random;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

mod family;
mod filler;
mod lists;
mod other_ends;
mod probe;
mod random;
mod replacement;
mod rule_probe;

pub use lists::{AddressList, CountryTable, FEWEST_SUBNETS, MOST_LISTED, MOST_LISTS, MOST_SUBNETS};
pub use other_ends::{HOSTS_OF_LOADS, Hosts};
pub use probe::{Expect, Probe, Segment, StatedTraffic};
pub use replacement::{Generation, ReplacementProbes};

/// Destination ports of test traffic (RFC 4814 section 4.5): what the matching rule allows.
pub const TEST_DESTINATION_PORTS: RangeInclusive<u16> = 1..=49151;
/// A destination port that no rule ever allows, with UDP or TCP: forbidden probes use it.
pub const FORBIDDEN_PORT: u16 = 60000;
/// Destination ports that no rule allows for the test's protocol: forbidden traffic under load goes to any of them.
pub const FORBIDDEN_PORTS: RangeInclusive<u16> = 49152..=59999;
/// Listed addresses that forbidden traffic under load comes from, beside the lists' canaries.
const LISTED_SOURCES: usize = 512;

/// A rule's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// ICMP in IPv4, ICMPv6 in IPv6.
    Icmp,
    /// Whatever it is; always with any ports.
    Any,
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
    /// Source ports, or any; always any but for UDP and TCP.
    pub source_ports: Option<(u16, u16)>,
    /// Destination ports, or any; always any but for UDP and TCP.
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
    /// The block lists, each with the canary that its probe is sent from; none without listed addresses.
    pub listed: Vec<AddressList>,
    /// The country table.
    pub countries: CountryTable,
    /// Which of two policies it is in a test of replacement under load; `None` in all other tests.
    pub generation: Option<Generation>,
    /// Connections that the test has at once: a table of its own that a firewall sizes when it starts must hold them. The
    /// kernel's is raised for them too, see [`crate::tables::ConntrackSize`]. 0: whatever it holds by itself.
    pub connections: u32,
}

impl PolicySpec {
    /// Generates the policy of a shape.
    ///
    /// # Errors
    /// [`TestbedError::Impossible`] for a match position outside the rules, or more addresses, lists or subnets than there
    /// are.
    pub fn generate(shape: &PolicyShape, zones: ZoneForm) -> Result<Self, TestbedError> {
        check(shape)?;
        lists::check(shape)?;
        Ok(Self {
            shape: shape.clone(),
            zones,
            rules: rules_of(shape, zones, None),
            listed: AddressList::of(shape),
            countries: CountryTable::of(shape),
            generation: None,
            connections: 0,
        })
    }

    /// The policy that every firewall can do: forward everything.
    pub fn forward_everything(zones: ZoneForm) -> Self {
        let shape = PolicyShape::forward_everything(0);
        let (rules, listed) = (Vec::new(), Vec::new());
        Self { shape, zones, rules, listed, countries: CountryTable::NONE, generation: None, connections: 0 }
    }

    /// Whether anything is filtered by rules.
    pub fn has_rules(&self) -> bool {
        self.shape.rules > 0
    }

    /// Whether any frame is forbidden: by rules, by a list or by the country table.
    pub fn forbids(&self) -> bool {
        self.has_rules() || !self.listed.is_empty() || !self.countries.is_empty()
    }

    /// Destination ports that no rule allows, where there are rules: what goes there is forbidden between all zones.
    pub fn forbidden_ports(&self) -> Option<RangeInclusive<u16>> {
        self.has_rules().then_some(FORBIDDEN_PORTS)
    }

    /// IPv4 addresses from which nothing passes, whatever the rules allow: of the lists, chosen by `draw`, and outside the country table. Those of the
    /// private zone come first, from which a firewall that looked at neither would forward. Takes as long as
    /// [`listed_sample`](Self::listed_sample).
    pub fn forbidden_sources(&self, draw: u64) -> Vec<Ipv4Addr> {
        let outside = OUTSIDE_COUNTRIES.hosts().filter(|_| !self.countries.is_empty());
        let canaries = self.listed.iter().map(AddressList::canary);
        canaries.chain(outside).chain(self.listed_sample(LISTED_SOURCES, draw)).collect()
    }

    /// Whether answers that nobody asked for are forbidden.
    pub fn forbids_strange_answers(&self) -> bool {
        self.has_rules() && self.shape.stateful && !self.shape.nat
    }

    /// Whether what belongs to no TCP connection and is no SYN is dropped.
    pub fn is_strict(&self) -> bool {
        self.has_rules() && self.shape.stateful && self.shape.protocol == TestProtocol::Tcp
    }

    /// Whether a firewall has to remember connections.
    pub fn tracks_connections(&self) -> bool {
        (self.shape.stateful && self.has_rules()) || self.shape.nat
    }

    /// Whether sources on this lane are translated.
    pub fn translates(&self, lane: Lane) -> bool {
        self.shape.nat && lane.from == Zone::Private && lane.to == Zone::Hostile
    }

    /// The prefixes, of both IP versions, that sources have where [`translates`](Self::translates) says that they are translated.
    pub fn translated(&self) -> Option<(u32, [u8; 16])> {
        let prefixes = (u32::from(TRANSLATED_V4.network()), TRANSLATED_V6.network().octets());
        self.shape.nat.then_some(prefixes)
    }

    /// What must arrive and what must not, in the order in which to send it: a reply comes after what it replies to.
    pub fn probes(&self) -> Vec<Probe> {
        probe::probes(self)
    }

    /// The first frame of a connection, and the answer that passes only while the firewall remembers it; none where it need not.
    pub fn forgetting_probes(&self, ip: IpVersion) -> Option<[Probe; 2]> {
        (self.has_rules() && self.shape.stateful).then(|| probe::forgetting_probes(self, ip))
    }

    /// Of rules that no frame of a test matches, as many probes as fit into one proof, chosen by `draw`: a firewall that leaves those rules out
    /// has less to do than the others. None for what only forwards, and for rules of which no end or protocol can be probed. Echo requests
    /// are among them only `with_icmp`.
    pub fn rule_probes(&self, with_icmp: bool, draw: u64) -> Vec<Probe> {
        rule_probe::probes(self, with_icmp, draw)
    }
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
    Ok(())
}

impl Network {
    fn of_zone(zone: Zone) -> Self {
        let addresses = ZoneAddresses::of(zone);
        Self { v4: addresses.v4, v6: addresses.v6 }
    }

    /// The attackers' range.
    const ATTACKERS: Self = Self { v4: ATTACKERS_V4, v6: ATTACKERS_V6 };

    /// Whether any address is inside that a frame of a test may have: translated or not, an attacker's or a stranger's.
    fn touches_tests(&self) -> bool {
        let meet4 = |a: Ipv4Net| a.contains(&self.v4) || self.v4.contains(&a);
        let meet6 = |a: Ipv6Net| a.contains(&self.v6) || self.v6.contains(&a);
        [TEST_V4, TRANSLATED_V4, ATTACKERS_V4, STRANGERS_V4].into_iter().any(meet4)
            || [TEST_V6, TRANSLATED_V6, ATTACKERS_V6, STRANGERS_V6].into_iter().any(meet6)
    }
}

impl From<TestProtocol> for Protocol {
    fn from(tested: TestProtocol) -> Self {
        match tested {
            TestProtocol::Udp => Self::Udp,
            TestProtocol::Tcp => Self::Tcp,
        }
    }
}

impl Protocol {
    /// Its name in an IP version, as nftables, iptables and `/etc/protocols` know it. Of any protocol it is iptables' word.
    pub const fn name(self, ip: IpVersion) -> &'static str {
        match (self, ip) {
            (Self::Udp, _) => "udp",
            (Self::Tcp, _) => "tcp",
            (Self::Icmp, IpVersion::V4) => "icmp",
            (Self::Icmp, IpVersion::V6) => "icmpv6",
            (Self::Any, _) => "all",
        }
    }

    /// Its numbers in an IP version (IANA), first and last.
    pub const fn numbers(self, ip: IpVersion) -> (u8, u8) {
        match (self, ip) {
            (Self::Udp, _) => (17, 17),
            (Self::Tcp, _) => (6, 6),
            (Self::Icmp, IpVersion::V4) => (1, 1),
            (Self::Icmp, IpVersion::V6) => (58, 58),
            (Self::Any, _) => (0, u8::MAX),
        }
    }
}

impl Rule {
    /// Source and destination network in an IP version.
    pub fn networks(&self, ip: IpVersion) -> [IpNet; 2] {
        [self.source, self.destination].map(|network| match ip {
            IpVersion::V4 => network.v4.into(),
            IpVersion::V6 => network.v6.into(),
        })
    }

    /// Whether any frame of a test, legal or not, or any probe, could match. Errs on the side of yes.
    pub(crate) fn may_match_tests(&self, tested: TestProtocol) -> bool {
        let probed = |port| self.destination_ports.is_none_or(|(low, high)| (low..=high).contains(&port));
        let protocol = match self.protocol {
            Protocol::Icmp => false,
            Protocol::Any => true,
            protocol => protocol == tested.into() || (FORBIDDEN_PORT..=replacement::LAST_PORT).any(probed),
        };
        protocol && self.source.touches_tests() && self.destination.touches_tests()
    }
}

fn rules_of(shape: &PolicyShape, zones: ZoneForm, generation: Option<Generation>) -> Vec<Rule> {
    let random = &mut Random(shape.seed);
    let of_family = shape.rule_family.map(|family| FamilyRules {
        family,
        rules: shape.rules,
        seed: shape.seed,
        tested: shape.protocol,
    });
    let mut rules = Vec::with_capacity(shape.rules as usize + 12);
    for position in 1..=shape.rules {
        if position == shape.match_position {
            rules.extend(matching_rules(shape, zones));
            rules.extend(generation.into_iter().flat_map(|generation| generation.rules(zones)));
        } else {
            rules.push(match &of_family {
                Some(family) => family.rule(random, position),
                None => filler::filler(random, shape.protocol),
            });
        }
    }
    rules
}

/// The rules at the matching position: one a forward lane, and one for the attackers where they are admitted, each followed
/// by its mirror in a stateless policy.
fn matching_rules(shape: &PolicyShape, zones: ZoneForm) -> Vec<Rule> {
    let ports = Some((*TEST_DESTINATION_PORTS.start(), *TEST_DESTINATION_PORTS.end()));
    let lanes = forward_lanes_of(zones).iter();
    let mut allowed: Vec<(Network, Network)> =
        lanes.clone().map(|&(from, to)| (Network::of_zone(from), Network::of_zone(to))).collect();
    if shape.admits_attackers {
        let behind_their_port = lanes.filter(|(from, _)| *from == Zone::Private);
        allowed.extend(behind_their_port.map(|&(_, to)| (Network::ATTACKERS, Network::of_zone(to))));
    }
    let mut rules = Vec::new();
    for (source, destination) in allowed {
        let forward = Rule {
            protocol: shape.protocol.into(),
            source,
            destination,
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
        if !shape.stateful {
            rules.push(mirror);
        }
    }
    rules
}

#[cfg(test)]
mod tests;
