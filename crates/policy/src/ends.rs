//! Packets that are dropped for their addresses whatever the rules say: `check_ends()` of `bpf/firewall/open.h`, the networks of zones, and
//! addresses of a link. A test of the data plane holds the two together (`crates/dataplane/tests/ends.rs`). What only the machine
//! knows is not asked here: its own addresses and its routes.

use crate::address::AddressSet;
use crate::interpret::Packet;
use crate::model::{Policy, SELF, ZoneId};
use crate::ranges::RangeSet;
use crate::settings::Forwarding;
use std::net::{IpAddr, Ipv4Addr};

/// Why a packet is dropped for its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Misfit {
    /// Source and destination are the same.
    Land,
    /// No host has such a source; or it is of a link alone, and would be forwarded.
    Source,
    /// No host has such a destination; or it is of a link alone, and the kernel would forward to it.
    Destination,
    /// The source belongs to the networks of another zone.
    ZoneSource,
}

impl Misfit {
    /// The name of the reason, as `rampart drops` says it.
    pub const fn name(self) -> &'static str {
        match self {
            Misfit::Land => "land",
            Misfit::Source => "source",
            Misfit::Destination => "destination",
            Misfit::ZoneSource => "zone-source",
        }
    }

    /// The same as a sentence.
    pub fn words(self, packet: &Packet) -> String {
        match self {
            Misfit::Land => format!("{} is its source and its destination", packet.source),
            Misfit::Source => format!("no host sends from {} across a router", packet.source),
            Misfit::Destination if is_of_a_link(packet.destination) => {
                format!("{} is of one link, and no router forwards to it", packet.destination)
            }
            Misfit::Destination => format!("no host has the address {}", packet.destination),
            Misfit::ZoneSource => format!("{} belongs to the networks of another zone", packet.source),
        }
    }
}

/// Why a packet is dropped whatever the rules say; `None` if its addresses are no reason. Its destination is the one that it came with, before any
/// translation.
pub fn misfit(policy: &Policy, packet: &Packet) -> Option<Misfit> {
    let checks = policy.settings.integrity;
    if checks.land && packet.source == packet.destination {
        return Some(Misfit::Land);
    }
    if is_no_source(packet) {
        return Some(Misfit::Source);
    }
    // Where the kernel forwards it has translated the destination before, and the loopback network may be its own.
    let kernel_forwards = policy.settings.forwarding == Forwarding::Kernel;
    // Elsewhere there is no route to it.
    let is_beyond = kernel_forwards
        && packet.from != SELF
        && packet.to != SELF
        && packet.destination.is_ipv6()
        && is_of_a_link(packet.destination);
    if is_beyond || is_no_destination(packet.destination, kernel_forwards) {
        return Some(Misfit::Destination);
    }
    if packet.from == SELF {
        return None;
    }
    if checks.zones && is_misplaced(policy, packet) {
        return Some(Misfit::ZoneSource);
    }
    // How far those of IPv4 go the kernel's routes say, where it forwards.
    let is_of_a_link = is_of_a_link(packet.source) && !(kernel_forwards && packet.source.is_ipv4());
    (is_of_a_link && packet.to != SELF && !policy.is_bridged(packet.from)).then_some(Misfit::Source)
}

impl Policy {
    /// Whether what comes from a zone crosses a bridge.
    pub fn is_bridged(&self, zone: ZoneId) -> bool {
        let has = |name: &String| self.bridges.iter().any(|bridge| bridge.interfaces.contains(name));
        self.zones.get(usize::from(zone)).is_some_and(|zone| zone.interfaces.iter().any(has))
    }
}

/// RFC 3927 section 2.7, RFC 4291 section 2.5.6.
fn is_of_a_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_in(&[LINK4], address.into()),
        IpAddr::V6(address) => is_in(&[LINK6], address.into()),
    }
}

/// Ranges that no host sends from: "this network" (RFC 1122), loopback, groups and what is above them.
const NO_SOURCE4: [(u32, u32); 3] =
    [(0, 0x00ff_ffff), (0x7f00_0000, 0x7fff_ffff), (0xe000_0000, 0xffff_ffff)];
/// Ranges that no host receives at. 255.255.255.255 is everybody on a link.
const NO_DESTINATION4: [(u32, u32); 2] = [(0, 0x00ff_ffff), (0xf000_0000, 0xffff_fffe)];
const LOOPBACK4: (u32, u32) = (0x7f00_0000, 0x7fff_ffff);
const LINK4: (u32, u32) = (0xa9fe_0000, 0xa9fe_ffff);
/// The unspecified and the loopback address, and IPv4 addresses written as IPv6 ones, in the old way and in the new (RFC 4291).
const OF_ANOTHER_KIND: [(u128, u128); 2] = [(0, 0xffff_ffff), (0xffff_0000_0000, 0xffff_ffff_ffff)];
const GROUPS6: (u128, u128) = (0xff << 120, u128::MAX);
const LINK6: (u128, u128) = (0xfe80 << 112, (0xfec0 << 112) - 1);

fn is_in<T: PartialOrd + Copy>(ranges: &[(T, T)], address: T) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&address))
}

fn is_no_source(packet: &Packet) -> bool {
    match packet.source {
        // Who has no address asks for one by broadcast (RFC 2131).
        IpAddr::V4(source) if source.is_unspecified() => {
            packet.destination != IpAddr::V4(Ipv4Addr::BROADCAST)
        }
        IpAddr::V4(source) => is_in(&NO_SOURCE4, source.into()),
        IpAddr::V6(source) => is_in(&[GROUPS6], source.into()) || is_in(&OF_ANOTHER_KIND, source.into()),
    }
}

fn is_no_destination(destination: IpAddr, may_be_loopback: bool) -> bool {
    match destination {
        IpAddr::V4(address) => {
            let is_loopback = is_in(&[LOOPBACK4], address.into());
            is_in(&NO_DESTINATION4, address.into()) || (is_loopback && !may_be_loopback)
        }
        IpAddr::V6(address) => is_in(&OF_ANOTHER_KIND, address.into()),
    }
}

/// Addresses whose packets [`misfit`] drops whatever their other end is.
pub(crate) struct Nowhere {
    kernel_forwards: bool,
    source: AddressSet,
    source_beyond_link: AddressSet,
    destination: AddressSet,
    destination_beyond_link: AddressSet,
    /// Zones whose packets cross a bridge, a bit each.
    bridged: u64,
}

impl Nowhere {
    pub(crate) fn of(policy: &Policy) -> Self {
        let kernel_forwards = policy.settings.forwarding == Forwarding::Kernel;
        let set = |v4: &[(u32, u32)], v6: &[(u128, u128)]| AddressSet {
            v4: RangeSet::of(v4.iter().copied()),
            v6: RangeSet::of(v6.iter().copied()),
        };
        // From 0.0.0.0 an address is asked for.
        let asking = set(&[(0, 0)], &[]);
        let groups = set(&[], &[GROUPS6]);
        let source = AddressSet::union([&set(&NO_SOURCE4, &OF_ANOTHER_KIND).without(&asking), &groups]);
        let loopback = if kernel_forwards { &[][..] } else { &[LOOPBACK4] };
        let destination = AddressSet::union([&set(&NO_DESTINATION4, &OF_ANOTHER_KIND), &set(loopback, &[])]);
        let (from_link, to_link) = if kernel_forwards {
            (set(&[], &[LINK6]), set(&[], &[LINK6]))
        } else {
            (set(&[LINK4], &[LINK6]), AddressSet::default())
        };
        let zones = 0..policy.zones.len() as ZoneId;
        Self {
            kernel_forwards,
            source_beyond_link: AddressSet::union([&source, &from_link]),
            source,
            destination_beyond_link: AddressSet::union([&destination, &to_link]),
            destination,
            bridged: zones.filter(|zone| policy.is_bridged(*zone)).map(|zone| 1 << zone).sum(),
        }
    }

    /// Sources and destinations whose packets are dropped on every way between some zones, a bit each.
    pub(crate) fn between(&self, from: u64, to: u64) -> (&AddressSet, &AddressSet) {
        let is_beyond = (from | to) >> SELF & 1 == 0;
        let source_is_beyond = is_beyond && from & self.bridged == 0;
        let destination_is_beyond = is_beyond && self.kernel_forwards;
        (
            if source_is_beyond { &self.source_beyond_link } else { &self.source },
            if destination_is_beyond { &self.destination_beyond_link } else { &self.destination },
        )
    }
}

/// Whether the source belongs to networks of zones, and not to those of the zone that it comes from.
fn is_misplaced(policy: &Policy, packet: &Packet) -> bool {
    let lives = |zone: &crate::model::Zone| zone.networks.contains(packet.source);
    policy.zones.iter().any(lives) && !policy.zones.get(usize::from(packet.from)).is_some_and(lives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    const TCP: u8 = 6;

    /// What is dropped whatever the other end is, asked of each address beside a boundary of [`Nowhere`]'s sets, with others that are good.
    #[test]
    fn what_is_nowhere_is_dropped_and_what_is_beside_it_is_not() {
        for settings in ["", "[settings]\nforwarding = \"kernel\"\n"] {
            let text =
                format!("{settings}[zones.in]\ninterfaces = \"e1\"\n[zones.out]\ninterfaces = \"e0\"\n");
            let policy = Policy::parse("p.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
            let nowhere = Nowhere::of(&policy);
            for (from, to) in [(1, 2), (1, SELF), (SELF, 2)] {
                let (no_source, no_destination) = nowhere.between(1 << from, 1 << to);
                for address in beside(no_source).chain(beside(no_destination)) {
                    let is_dropped = |source, destination| {
                        let packet = Packet {
                            from,
                            to,
                            source,
                            destination,
                            source_port: 1024,
                            protocol: TCP,
                            selector: 80,
                        };
                        misfit(&policy, &packet).is_some()
                    };
                    let (other, everybody): (IpAddr, IpAddr) = match address {
                        IpAddr::V4(_) => ([192, 0, 2, 1].into(), Ipv4Addr::BROADCAST.into()),
                        IpAddr::V6(_) => {
                            ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), Ipv6Addr::LOCALHOST.into())
                        }
                    };
                    let source_is_dropped = is_dropped(address, other) && is_dropped(address, everybody);
                    assert_eq!(no_source.contains(address), source_is_dropped, "{from}>{to} from {address}");
                    let destination_is_dropped = is_dropped(other, address);
                    assert_eq!(
                        no_destination.contains(address),
                        destination_is_dropped,
                        "{from}>{to} to {address}"
                    );
                }
            }
        }
    }

    fn beside(set: &AddressSet) -> impl Iterator<Item = IpAddr> {
        let v4 =
            set.v4.ranges().iter().flat_map(|(first, last)| {
                [first.checked_sub(1), Some(*first), Some(*last), last.checked_add(1)]
            });
        let v6 =
            set.v6.ranges().iter().flat_map(|(first, last)| {
                [first.checked_sub(1), Some(*first), Some(*last), last.checked_add(1)]
            });
        let v4 = v4.flatten().map(|address| IpAddr::V4(address.into()));
        v4.chain(v6.flatten().map(|address| IpAddr::V6(address.into()))).collect::<Vec<_>>().into_iter()
    }
}
