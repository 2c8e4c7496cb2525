//! Probes of the rules that no frame of a test matches. They are most of a policy and never decide in a trial, so a firewall that left them
//! out would be faster, and nothing else would show it. What both ends in the bed can show is asked: rules between two zones, of the protocol
//! that is not tested. Which rules and which frames, nobody knows before the proof. Pure.

use super::probe::{Expect, Probe, other_protocol};
use super::{Action, PolicySpec, Protocol, Rule};
use crate::layout::{RESERVED_ADDRESSES, ZoneAddresses, forward_lanes_of};
use measure::shape::{IpVersion, Lane, TestProtocol};
use rule_sets::Random;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Probes of one proof. Of a firewall without half of its rules all of them go well once in 65,000 proofs.
const PROBES: usize = 16;
/// Rules that are looked at for one that can be probed.
const TRIED: usize = 20_000;
/// Ports that clients use where a rule leaves them open.
const ANY_SOURCE: (u16, u16) = (1024, u16::MAX);
const ANY_DESTINATION: (u16, u16) = (1, u16::MAX);

/// Of each direction together, what must not arrive first.
pub(super) fn probes(policy: &PolicySpec, draw: u64) -> Vec<Probe> {
    let mut random = Random(draw);
    let mut found = Vec::new();
    if policy.has_rules() {
        for _ in 0..TRIED {
            if found.len() == PROBES {
                break;
            }
            found.extend(one(policy, &mut random));
        }
    }
    found.sort_by_key(|probe| (probe.lane.from, probe.lane.to, probe.expect == Expect::Arrives));
    found
}

/// A frame that some rule asks for, with what the first rule that matches it says; none if that rule has no such frame.
fn one(policy: &PolicySpec, random: &mut Random) -> Option<Probe> {
    let number = random.below(policy.rules.len() as u64) as usize;
    let rule = policy.rules.get(number)?;
    if rule.protocol != other_than(policy.shape.protocol) {
        return None;
    }
    let lanes = forward_lanes_of(policy.zones);
    let (from, to) = lanes[random.below(lanes.len() as u64) as usize];
    let ip = if random.below(2) == 0 { IpVersion::V4 } else { IpVersion::V6 };
    let [source, destination] = rule.networks(ip).map(|network| (network.addr(), network.prefix_len()));
    let ends = [
        SocketAddr::new(
            host_of(random, ZoneAddresses::of(from), source)?,
            port_of(random, rule.source_ports, ANY_SOURCE),
        ),
        SocketAddr::new(
            host_of(random, ZoneAddresses::of(to), destination)?,
            port_of(random, rule.destination_ports, ANY_DESTINATION),
        ),
    ];
    let expect = match deciding(policy, rule.protocol, ends)?.action {
        Action::Accept => Expect::Arrives,
        Action::Drop => Expect::Dropped,
    };
    let what = format!("rule {} of {}", number + 1, policy.rules.len());
    Some(other_protocol(policy, &what, Lane { from, to }, ends, expect))
}

fn other_than(tested: TestProtocol) -> Protocol {
    match tested {
        TestProtocol::Udp => Protocol::Tcp,
        TestProtocol::Tcp => Protocol::Udp,
    }
}

/// The first rule that matches.
fn deciding(policy: &PolicySpec, protocol: Protocol, ends: [SocketAddr; 2]) -> Option<&Rule> {
    policy.rules.iter().find(|rule| matches(rule, protocol, ends))
}

fn matches(rule: &Rule, protocol: Protocol, [source, destination]: [SocketAddr; 2]) -> bool {
    let ip = if source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    let [from, to] = rule.networks(ip);
    let inside =
        |range: Option<(u16, u16)>, port| range.is_none_or(|(low, high)| (low..=high).contains(&port));
    (rule.protocol == protocol || rule.protocol == Protocol::Any)
        && from.contains(&source.ip())
        && to.contains(&destination.ip())
        && inside(rule.source_ports, source.port())
        && inside(rule.destination_ports, destination.port())
}

/// A test host of a zone in a network; none if the network has none.
fn host_of(random: &mut Random, zone: ZoneAddresses, (network, length): (IpAddr, u8)) -> Option<IpAddr> {
    // Both prefixes of a zone have the same hosts in their last bits.
    let (own, whole, width) = match network {
        IpAddr::V4(address) => (u128::from(u32::from(address)), u128::from(u32::from(zone.v4.network())), 32),
        IpAddr::V6(address) => (u128::from(address), u128::from(zone.v6.network()), 128),
    };
    let zone_length = match network {
        IpAddr::V4(_) => zone.v4.prefix_len(),
        IpAddr::V6(_) => zone.v6.prefix_len(),
    };
    let common = length.min(zone_length);
    if common > 0 && (own ^ whole) >> (width - u32::from(common)) != 0 {
        return None;
    }
    let hosts = zone.host_count();
    let base = if length > zone_length { own } else { whole };
    let free = width - u32::from(length.max(zone_length));
    let all = u128::from(hosts + RESERVED_ADDRESSES);
    let size = (1u128 << free.min(64)).min(all);
    let offset = base - whole + u128::from(random.below(size as u64));
    if offset < u128::from(RESERVED_ADDRESSES) || offset >= all {
        return None;
    }
    let address = whole + offset;
    Some(match network {
        IpAddr::V4(_) => Ipv4Addr::from(address as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(address).into(),
    })
}

fn port_of(random: &mut Random, ports: Option<(u16, u16)>, any: (u16, u16)) -> u16 {
    let (low, high) = ports.unwrap_or(any);
    low.max(1) + random.below(u64::from(high.max(1) - low.max(1)) + 1) as u16
}
