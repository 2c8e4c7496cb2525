//! Sets of packets as products of sets, one a field: what a rule matches, and what of it is left where the rule stands.

use policy::address::AddressSet;
use policy::ranges::RangeSet;
use policy::service::{LAST_KEY, any_port};

/// Interfaces by their places among all that the rule sets name.
pub(crate) type Interfaces = u128;

/// The states that conntrack gives to packets.
pub(crate) mod state {
    /// Opens a flow.
    pub(crate) const NEW: u8 = 1;
    /// Belongs to a flow that was answered.
    pub(crate) const ESTABLISHED: u8 = 2;
    /// Belongs to what another flow leads to: ICMP errors, expected connections.
    pub(crate) const RELATED: u8 = 4;
    /// Fits to nothing. Rampart drops most of it by itself.
    pub(crate) const INVALID: u8 = 8;
    /// Exempt from tracking.
    pub(crate) const UNTRACKED: u8 = 16;
    pub(crate) const ALL: u8 = 31;
}

/// What kind of destination a packet has for the machine.
pub(crate) mod kind {
    /// An address of the machine.
    pub(crate) const LOCAL: u8 = 1;
    /// The limited broadcast, or that of a network of the machine.
    pub(crate) const BROADCAST: u8 = 2;
    /// A group.
    pub(crate) const MULTICAST: u8 = 4;
    /// Somebody else's.
    pub(crate) const OTHER: u8 = 8;
    pub(crate) const ALL: u8 = 15;
}

/// All packets that have each field in the field's set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cube {
    /// States, as bits of [`state`].
    pub(crate) states: u8,
    /// Kinds of destinations, as bits of [`kind`].
    pub(crate) kinds: u8,
    /// Interfaces that the packet comes in by.
    pub(crate) inside: Interfaces,
    /// Interfaces that it goes out by.
    pub(crate) outside: Interfaces,
    pub(crate) source: AddressSet,
    pub(crate) destination: AddressSet,
    /// Protocols with destination ports, or ICMP types and codes: [`policy::service::key`].
    pub(crate) services: RangeSet<u32>,
    pub(crate) source_ports: RangeSet<u32>,
}

impl Cube {
    /// Every packet.
    pub(crate) fn all() -> Self {
        Self {
            states: state::ALL,
            kinds: kind::ALL,
            inside: Interfaces::MAX,
            outside: Interfaces::MAX,
            source: AddressSet::any(),
            destination: AddressSet::any(),
            services: RangeSet::of([(0, LAST_KEY)]),
            source_ports: any_port(),
        }
    }

    /// Whether a packet of two families, or of none, is all that there could be.
    pub(crate) fn is_empty(&self) -> bool {
        let v4 = self.source.v4.is_empty() || self.destination.v4.is_empty();
        let v6 = self.source.v6.is_empty() || self.destination.v6.is_empty();
        self.states == 0
            || self.kinds == 0
            || self.inside == 0
            || self.outside == 0
            || (v4 && v6)
            || self.services.is_empty()
            || self.source_ports.is_empty()
    }

    /// The packets of both; `None` if there are none.
    pub(crate) fn common(&self, other: &Self) -> Option<Self> {
        let common = Self {
            states: self.states & other.states,
            kinds: self.kinds & other.kinds,
            inside: self.inside & other.inside,
            outside: self.outside & other.outside,
            source: common(&self.source, &other.source),
            destination: common(&self.destination, &other.destination),
            services: common_ranges(&self.services, &other.services, LAST_KEY),
            source_ports: common_ranges(&self.source_ports, &other.source_ports, u16::MAX.into()),
        };
        (!common.is_empty()).then_some(common)
    }

    /// Whether some packet is of both.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let source4 = self.source.v4.meets(&other.source.v4);
        let source6 = self.source.v6.meets(&other.source.v6);
        self.states & other.states != 0
            && self.kinds & other.kinds != 0
            && self.inside & other.inside != 0
            && self.outside & other.outside != 0
            && (source4 && self.destination.v4.meets(&other.destination.v4)
                || source6 && self.destination.v6.meets(&other.destination.v6))
            && self.services.meets(&other.services)
            && self.source_ports.meets(&other.source_ports)
    }

    /// Whether every packet of the other is of this.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.states & !self.states == 0
            && other.kinds & !self.kinds == 0
            && other.inside & !self.inside == 0
            && other.outside & !self.outside == 0
            && covers(&self.source, &other.source)
            && covers(&self.destination, &other.destination)
            && self.services.covers(&other.services)
            && self.source_ports.covers(&other.source_ports)
    }

    /// The packets of this that the other does not have, as cubes that share none.
    pub(crate) fn without(&self, other: &Self) -> Vec<Self> {
        let Some(common) = self.common(other) else { return vec![self.clone()] };
        let mut rest = self.clone();
        let mut parts = Vec::new();
        // Field by field: what the other does not have of the field, with all that is left of the others; then the common part.
        let mut part = |change: &dyn Fn(&mut Self), keep: &dyn Fn(&mut Self)| {
            let mut outside = rest.clone();
            change(&mut outside);
            if !outside.is_empty() {
                parts.push(outside);
            }
            keep(&mut rest);
        };
        part(&|c| c.states &= !other.states, &|c| c.states = common.states);
        part(&|c| c.kinds &= !other.kinds, &|c| c.kinds = common.kinds);
        part(&|c| c.inside &= !other.inside, &|c| c.inside = common.inside);
        part(&|c| c.outside &= !other.outside, &|c| c.outside = common.outside);
        part(&|c| c.source = c.source.without(&other.source), &|c| c.source = common.source.clone());
        part(&|c| c.destination = c.destination.without(&other.destination), &|c| {
            c.destination = common.destination.clone();
        });
        part(&|c| c.services = c.services.without(&other.services), &|c| {
            c.services = common.services.clone();
        });
        part(&|c| c.source_ports = c.source_ports.without(&other.source_ports), &|_| ());
        parts
    }
}

fn common(a: &AddressSet, b: &AddressSet) -> AddressSet {
    if a.is_any() {
        return b.clone();
    }
    if b.is_any() {
        return a.clone();
    }
    AddressSet { v4: a.v4.common(&b.v4), v6: a.v6.common(&b.v6) }
}

fn common_ranges(a: &RangeSet<u32>, b: &RangeSet<u32>, last: u32) -> RangeSet<u32> {
    match (a.ranges(), b.ranges()) {
        ([(0, end)], _) if *end == last => b.clone(),
        (_, [(0, end)]) if *end == last => a.clone(),
        _ => a.common(b),
    }
}

fn covers(a: &AddressSet, b: &AddressSet) -> bool {
    a.v4.covers(&b.v4) && a.v6.covers(&b.v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cube(source: &str, ports: (u32, u32)) -> Cube {
        let source = AddressSet::parse(source).unwrap();
        Cube { source, source_ports: RangeSet::of([ports]), ..Cube::all() }
    }

    #[test]
    fn what_is_taken_out_and_what_is_left_are_the_whole() {
        for (whole, taken, parts) in [
            (cube("10.0.0.0/8", (0, 100)), cube("10.1.0.0/16", (50, 60)), 2),
            (cube("10.0.0.0/8", (0, 100)), cube("10.0.0.0/8", (50, 60)), 1),
            (cube("10.0.0.0/8", (0, 100)), cube("0.0.0.0/0", (0, 65_535)), 0),
            (cube("10.0.0.0/8", (0, 100)), cube("11.0.0.0/8", (0, 65_535)), 1),
        ] {
            let left = whole.without(&taken);
            assert_eq!(left.len(), parts, "{left:?}");
            for (address, port) in [("10.0.0.1", 55), ("10.1.0.1", 55), ("10.1.0.1", 49), ("10.1.0.1", 61)] {
                let one = cube(address, (port, port));
                let places = left.iter().filter(|part| part.covers(&one)).count();
                let expected = usize::from(whole.covers(&one) && !taken.covers(&one));
                assert_eq!(places, expected, "{address} from {port} in {left:?}");
            }
        }
    }
}
