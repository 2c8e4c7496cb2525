//! Probes of the rules that no frame of a test matches. They are most of a policy and never decide in a trial, so a firewall that left them
//! out would be faster, and nothing else would show it. What the bed can show is asked: rules between two zones, of the protocols that are not
//! tested, and rules of any protocol between a zone and what is behind the hostile one. Which rules and which frames, nobody knows before.
//! Pure.

use super::probe::{Expect, Probe, first_frame};
use super::{Action, PolicySpec, Protocol, Rule};
use crate::layout::{RESERVED_ADDRESSES, WORLD_V4, WORLD_V6, ZoneAddresses, forward_lanes_of};
use ipnet::IpNet;
use measure::shape::{IpVersion, Lane, Zone};
use rule_sets::Random;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Probes of one proof. Of a firewall without half of its rules all of them go well once in 65,000 proofs.
const PROBES: usize = 16;
/// Rules that are looked at for one that can be probed.
const TRIED: usize = 20_000;
/// Of these, where there are echo requests, so many are some that no rule allows.
const ECHOES: usize = 2;
/// Ports that clients use where a rule leaves them open.
const ANY_SOURCE: (u16, u16) = (1024, u16::MAX);
const ANY_DESTINATION: (u16, u16) = (1, u16::MAX);

/// Of each direction together, what must not arrive first.
pub(super) fn probes(policy: &PolicySpec, with_icmp: bool, draw: u64) -> Vec<Probe> {
    let mut random = Random(draw);
    let mut found = Vec::new();
    if policy.has_rules() {
        if with_icmp {
            found.extend((0..ECHOES).filter_map(|_| any_echo(policy, &mut random)));
        }
        for _ in 0..TRIED {
            if found.len() == PROBES {
                break;
            }
            found.extend(one(policy, with_icmp, &mut random));
        }
    }
    found.sort_by_key(|probe| (probe.lane.from, probe.lane.to, probe.expect == Expect::Arrives));
    found
}

/// A frame that some rule asks for, with what the first rule that matches it says; none if that rule has no such frame.
fn one(policy: &PolicySpec, with_icmp: bool, random: &mut Random) -> Option<Probe> {
    let number = random.below(policy.rules.len() as u64) as usize;
    let rule = policy.rules.get(number)?;
    let protocol = match rule.protocol {
        Protocol::Any => [Protocol::Udp, Protocol::Tcp, Protocol::Icmp][random.below(3) as usize],
        protocol => protocol,
    };
    if protocol == Protocol::Icmp && !with_icmp {
        return None;
    }
    let lanes = forward_lanes_of(policy.zones);
    let (from, to) = lanes[random.below(lanes.len() as u64) as usize];
    let ip = if random.below(2) == 0 { IpVersion::V4 } else { IpVersion::V6 };
    let [source, destination] = rule.networks(ip);
    let (source, destination) = (end_in(random, from, source)?, end_in(random, to, destination)?);
    let is_far = source.is_far || destination.is_far;
    if !is_far && protocol == policy.shape.protocol.into() {
        return None;
    }
    // What lists and the country table say of the world is asked by probes of their own, and who is translated there is each firewall's affair.
    let has_sets = ip == IpVersion::V4 && !(policy.listed.is_empty() && policy.countries.is_empty());
    if is_far && (has_sets || policy.shape.nat) {
        return None;
    }
    let ends = [
        SocketAddr::new(source.address, port_of(random, rule.source_ports, ANY_SOURCE)),
        SocketAddr::new(destination.address, port_of(random, rule.destination_ports, ANY_DESTINATION)),
    ];
    let expect = match deciding(policy, protocol, ends)?.action {
        Action::Accept => Expect::Arrives,
        Action::Drop => Expect::Dropped,
    };
    let what = format!("rule {} of {}", number + 1, policy.rules.len());
    Some(first_frame(policy, &what, Lane { from, to }, protocol, ends, expect))
}

/// An echo request between any hosts of two zones, in either direction, that no rule allows; none if one does.
fn any_echo(policy: &PolicySpec, random: &mut Random) -> Option<Probe> {
    let lanes = forward_lanes_of(policy.zones);
    let (a, b) = lanes[random.below(lanes.len() as u64) as usize];
    let (from, to) = if random.below(2) == 0 { (a, b) } else { (b, a) };
    let ip = if random.below(2) == 0 { IpVersion::V4 } else { IpVersion::V6 };
    let ends =
        [from, to].map(|zone| SocketAddr::new(ZoneAddresses::of(zone).host(ip, random.next() as u32), 0));
    let allows = deciding(policy, Protocol::Icmp, ends).is_some_and(|rule| rule.action == Action::Accept);
    let lane = Lane { from, to };
    (!allows).then(|| first_frame(policy, "echo request", lane, Protocol::Icmp, ends, Expect::Dropped))
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

/// One end of a frame.
struct FrameEnd {
    address: IpAddr,
    /// It is in the world behind the zone.
    is_far: bool,
}

/// An address of a network that a frame of a zone's port may have: of a test host, or behind it; none if the network has none.
fn end_in(random: &mut Random, zone: Zone, network: IpNet) -> Option<FrameEnd> {
    let near = host_of(random, ZoneAddresses::of(zone), (network.addr(), network.prefix_len()));
    let far = if zone == Zone::Hostile { far_in(random, network) } else { None };
    let prefers_far = random.below(2) == 0;
    let (address, is_far) = match (near, far) {
        (Some(near), Some(far)) => {
            if prefers_far {
                (far, true)
            } else {
                (near, false)
            }
        }
        (Some(near), None) => (near, false),
        (None, far) => (far?, true),
    };
    Some(FrameEnd { address, is_far })
}

/// An address of a network that is in the world.
fn far_in(random: &mut Random, network: IpNet) -> Option<IpAddr> {
    let world = if network.addr().is_ipv4() { IpNet::from(WORLD_V4) } else { IpNet::from(WORLD_V6) };
    // Of two networks one holds the other, or they have nothing in common.
    let common = match (world.contains(&network), network.contains(&world)) {
        (true, _) => network,
        (false, true) => world,
        (false, false) => return None,
    };
    let draw = u128::from(random.next()) << 64 | u128::from(random.next());
    Some(match common {
        IpNet::V4(net) => {
            Ipv4Addr::from(u32::from(net.network()) | draw as u32 & u32::from(net.hostmask())).into()
        }
        IpNet::V6(net) => {
            Ipv6Addr::from(u128::from(net.network()) | draw & u128::from(net.hostmask())).into()
        }
    })
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
