//! Packets that are dropped for their addresses whatever the rules say: `check_ends()` of `bpf/firewall/open.h`, the networks of zones, and
//! addresses of a link. A test of the data plane holds the two together (`crates/dataplane/tests/ends.rs`). What only the machine
//! knows is not asked here: its own addresses and its routes.

use crate::interpret::Packet;
use crate::model::{Policy, SELF, ZoneId};
use crate::settings::Forwarding;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_no_source(packet: &Packet) -> bool {
    match packet.source {
        // Who has no address asks for one by broadcast (RFC 2131).
        IpAddr::V4(source) if source.is_unspecified() => {
            packet.destination != IpAddr::V4(Ipv4Addr::BROADCAST)
        }
        IpAddr::V4(source) => {
            let first = source.octets()[0];
            first == 0 || first == 127 || first >= 224
        }
        IpAddr::V6(source) => source.is_multicast() || is_of_another_kind(source),
    }
}

fn is_no_destination(destination: IpAddr, may_be_loopback: bool) -> bool {
    match destination {
        IpAddr::V4(destination) => {
            let first = destination.octets()[0];
            let is_class_e = first >= 240 && destination != Ipv4Addr::BROADCAST;
            first == 0 || is_class_e || (first == 127 && !may_be_loopback)
        }
        IpAddr::V6(destination) => is_of_another_kind(destination),
    }
}

/// The unspecified and the loopback address, and IPv4 addresses written as IPv6 ones, in the old way and in the new (RFC 4291).
fn is_of_another_kind(address: Ipv6Addr) -> bool {
    let [.., fourth, fifth, _, _] = address.segments();
    address.octets()[..8] == [0; 8] && matches!((fourth, fifth), (0, 0 | 0xffff))
}

/// Whether the source belongs to networks of zones, and not to those of the zone that it comes from.
fn is_misplaced(policy: &Policy, packet: &Packet) -> bool {
    let lives = |zone: &crate::model::Zone| zone.networks.contains(packet.source);
    policy.zones.iter().any(lives) && !policy.zones.get(usize::from(packet.from)).is_some_and(lives)
}
