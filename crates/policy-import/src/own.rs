//! The machine's own addresses, which no rule set names: with them, what a rule asks of the kind of a destination, and where it
//! redirects packets to, is said by addresses.

use crate::cube::{Cube, Interfaces, kind};
use crate::ruleset::{InterfaceTest, Names, Rule, Ruleset, Verdict};
use crate::translation::Change;
use crate::words;
use policy::address::AddressSet;
use policy::ranges::RangeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The interface that has it, if that is known. Its first address of IPv4 is where packets are redirected to that come by it.
    pub interface: Option<String>,
    /// The address.
    pub address: IpAddr,
    /// The length of its network.
    pub length: u8,
}

/// Writes kinds of destinations as addresses, in the rules of each family of which addresses are given.
pub(crate) fn say_kinds_by_addresses(ruleset: &mut Ruleset, own: &[Own]) {
    let families = [own.iter().any(|own| own.address.is_ipv4()), own.iter().any(|own| own.address.is_ipv6())];
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

/// Makes translations to the machine's addresses of rules that redirect, one for each interface whose address is given.
pub(crate) fn say_where_redirected(ruleset: &mut Ruleset, own: &[Own]) {
    let names = &ruleset.interfaces;
    let mut known: Vec<(&str, Interfaces, Ipv4Addr)> = Vec::new();
    for own in own {
        let (Some(name), IpAddr::V4(address)) = (own.interface.as_deref(), own.address) else { continue };
        if !known.iter().any(|(other, ..)| *other == name) {
            known.push((name, names.matched(name), address));
        }
    }
    for chain in &mut ruleset.chains {
        for rule in std::mem::take(&mut chain.rules) {
            chain.rules.extend(redirected(rule, names, &known));
        }
    }
}

/// A rule, or what it becomes: translations of what comes by known interfaces, and itself for the rest.
fn redirected(rule: Rule, names: &Names, known: &[(&str, Interfaces, Ipv4Addr)]) -> Vec<Rule> {
    let Some(port) = rule.redirects else { return vec![rule] };
    let inside = rule.interfaces.iter().filter(|test| !test.outside);
    let comes_by = inside.fold(names.every(), |left, test| left & names.tested(test));
    let test = |not, names| InterfaceTest { outside: false, not, names };
    let met = known.iter().filter(|(_, bit, _)| bit & comes_by != 0);
    let mut rules: Vec<Rule> = met
        .clone()
        .map(|(name, _, address)| {
            let mut of = rule.clone();
            of.interfaces.push(test(false, vec![(*name).to_owned()]));
            of.verdict = Verdict::Translate(Change::Destination { address: *address, port });
            of
        })
        .collect();
    let met: Vec<_> = met.collect();
    if met.iter().fold(comes_by, |left, (_, bit, _)| left & !bit) != 0 || rules.is_empty() {
        let mut rest = rule;
        let met = met.iter().map(|(name, ..)| (*name).to_owned()).collect();
        rest.interfaces.push(test(true, met));
        rules.push(rest);
    }
    rules
}

/// Whether addresses are given of all families that a rule is about.
fn is_known(cube: &Cube, [v4, v6]: [bool; 2]) -> bool {
    let is_about = |source: bool, destination: bool| !source && !destination;
    (v4 || !is_about(cube.source.v4.is_empty(), cube.destination.v4.is_empty()))
        && (v6 || !is_about(cube.source.v6.is_empty(), cube.destination.v6.is_empty()))
}

/// Without the loopback network, whose packets no interface of a policy has.
fn local(own: &[Own]) -> AddressSet {
    let each = own.iter().filter_map(|own| AddressSet::between(own.address, own.address));
    AddressSet::union(&each.collect::<Vec<_>>())
}

fn loopback() -> AddressSet {
    let v6 = u128::from(Ipv6Addr::LOCALHOST);
    AddressSet { v4: RangeSet::of([(0x7f00_0000, 0x7fff_ffff)]), v6: RangeSet::of([(v6, v6)]) }
}

/// The limited broadcast, and that of each network with room for one.
fn broadcast(own: &[Own]) -> AddressSet {
    let of_network = |own: &Own| match own.address {
        IpAddr::V4(v4) if own.length < 31 => Some(u32::from(v4) | u32::MAX >> own.length),
        _ => None,
    };
    let all = own.iter().filter_map(of_network).chain([u32::from(Ipv4Addr::BROADCAST)]);
    AddressSet { v4: RangeSet::of(all.map(|address| (address, address))), v6: RangeSet::default() }
}
