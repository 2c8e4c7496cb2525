//! Transparent bridges: two interfaces as one wire, or more as one switch, on which packets are judged by the zones of the two that they cross.

use std::ops::RangeInclusive;

/// Numbers that a VLAN can have (IEEE 802.1Q).
pub const VLANS: RangeInclusive<u16> = 1..=4094;

/// What crosses a bridge without being judged, besides IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Passes {
    /// ARP (RFC 826).
    Arp,
    /// Neighbour discovery (RFC 4861, without router advertisements, which are for the rules) and multicast listeners (RFC 3810) of IPv6.
    NeighbourDiscovery,
    /// Spanning tree (IEEE 802.1D).
    SpanningTree,
    /// Every other protocol that is not IP.
    Other,
}

impl Passes {
    /// All of them, as policies write them.
    pub const NAMES: [(&'static str, Passes); 4] = [
        ("arp", Passes::Arp),
        ("neighbour-discovery", Passes::NeighbourDiscovery),
        ("spanning-tree", Passes::SpanningTree),
        ("other", Passes::Other),
    ];

    /// What passes unless a policy says otherwise.
    pub const USUAL: [Passes; 3] = [Passes::Arp, Passes::NeighbourDiscovery, Passes::SpanningTree];
}

/// A set of VLANs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanSet {
    /// Bit `n % 64` of the word `n / 64`: the VLAN `n` is in it.
    pub words: [u64; 64],
}

impl Default for VlanSet {
    fn default() -> Self {
        Self { words: [0; 64] }
    }
}

impl VlanSet {
    /// Adds the VLANs of a range.
    pub fn add(&mut self, vlans: RangeInclusive<u16>) {
        for vlan in vlans {
            self.words[usize::from(vlan / 64) % 64] |= 1 << (vlan % 64);
        }
    }

    /// Whether a VLAN is in it.
    pub fn contains(&self, vlan: u16) -> bool {
        self.words.get(usize::from(vlan / 64)).is_some_and(|word| word >> (vlan % 64) & 1 != 0)
    }
}

/// Interfaces that a bridge can have.
pub const INTERFACES: RangeInclusive<usize> = 2..=16;

/// Bridges of more than two interfaces that a policy can have.
pub const MOST_SWITCHES: usize = 15;

/// Interfaces of one network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// Its name.
    pub name: String,
    /// Its interfaces, each of a zone: at least two.
    pub interfaces: Vec<String>,
    /// What crosses it without being judged.
    pub passes: Vec<Passes>,
    /// VLANs whose frames cross it, judged like those of none.
    pub vlans: VlanSet,
}

impl Bridge {
    /// Whether it has more than two interfaces, so that who is behind which has to be learned.
    pub fn is_switch(&self) -> bool {
        self.interfaces.len() > 2
    }

    /// The interfaces besides one of them.
    pub fn others<'b>(&'b self, interface: &'b str) -> impl Iterator<Item = &'b str> {
        self.interfaces.iter().map(String::as_str).filter(move |other| *other != interface)
    }
}

/// The bridge of an interface.
pub fn of<'b>(bridges: &'b [Bridge], interface: &str) -> Option<&'b Bridge> {
    bridges.iter().find(|bridge| bridge.interfaces.iter().any(|it| it == interface))
}
