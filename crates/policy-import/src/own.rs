//! The machine's own addresses, which no rule set names: with them, what a rule asks of the kind of a destination is said by addresses.

use crate::cube::{Cube, kind};
use crate::ruleset::Ruleset;
use crate::words;
use policy::address::AddressSet;
use policy::ranges::RangeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of the machine and the length of its network.
pub type Own = (IpAddr, u8);

/// Writes kinds of destinations as addresses, in the rules of each family of which addresses are given.
pub(crate) fn say_kinds_by_addresses(ruleset: &mut Ruleset, own: &[Own]) {
    let families =
        [own.iter().any(|(address, _)| address.is_ipv4()), own.iter().any(|(address, _)| address.is_ipv6())];
    let local = local(own);
    let broadcast = broadcast(own).without(&local);
    let groups = words::groups();
    let other = [&local, &loopback(), &broadcast, &groups]
        .iter()
        .fold(AddressSet::any(), |left, taken| left.without(taken));
    let sets =
        [(kind::LOCAL, local), (kind::BROADCAST, broadcast), (kind::MULTICAST, groups), (kind::OTHER, other)];
    for rule in ruleset.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
        let cube = &mut rule.cube;
        if cube.kinds == kind::ALL || !is_known(cube, families) {
            continue;
        }
        let meant = sets.iter().filter(|(kind, _)| cube.kinds & kind != 0).map(|(_, set)| set);
        let meant = AddressSet::union(meant);
        let of = &mut cube.destination;
        *of = AddressSet { v4: of.v4.common(&meant.v4), v6: of.v6.common(&meant.v6) };
        cube.kinds = kind::ALL;
    }
}

/// Whether addresses are given of all families that a rule is about.
fn is_known(cube: &Cube, [v4, v6]: [bool; 2]) -> bool {
    let is_about = |source: bool, destination: bool| !source && !destination;
    (v4 || !is_about(cube.source.v4.is_empty(), cube.destination.v4.is_empty()))
        && (v6 || !is_about(cube.source.v6.is_empty(), cube.destination.v6.is_empty()))
}

/// Without the loopback network, whose packets no interface of a policy has.
fn local(own: &[Own]) -> AddressSet {
    let each = own.iter().filter_map(|(address, _)| AddressSet::between(*address, *address));
    AddressSet::union(&each.collect::<Vec<_>>())
}

fn loopback() -> AddressSet {
    let v6 = u128::from(Ipv6Addr::LOCALHOST);
    AddressSet { v4: RangeSet::of([(0x7f00_0000, 0x7fff_ffff)]), v6: RangeSet::of([(v6, v6)]) }
}

/// The limited broadcast, and that of each network with room for one.
fn broadcast(own: &[Own]) -> AddressSet {
    let of_network = |(address, length): &Own| match address {
        IpAddr::V4(v4) if *length < 31 => Some(u32::from(*v4) | u32::MAX >> length),
        _ => None,
    };
    let all = own.iter().filter_map(of_network).chain([u32::from(Ipv4Addr::BROADCAST)]);
    AddressSet { v4: RangeSet::of(all.map(|address| (address, address))), v6: RangeSet::default() }
}
