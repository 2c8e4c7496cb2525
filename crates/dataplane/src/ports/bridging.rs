//! Interfaces that are one wire: each knows the place of the other.

use super::Ports;
use crate::DataplaneError;
use crate::skeleton::types::{bridge_passes, sizes};
use libbpf_rs::{MapCore, MapFlags};
use nix::net::if_::if_nametoindex;
use policy::Bridge;
use policy::bridge::{self, Passes};

impl Ports {
    /// From now on these interfaces are bridged, and no others. Interfaces that are attached are joined at once, others when they are.
    ///
    /// # Errors
    /// The kernel does not let the map be written.
    pub fn set_bridges(&mut self, bridges: &[Bridge]) -> Result<(), DataplaneError> {
        self.bridges = bridges.to_vec();
        self.join()
    }

    /// Says of each interface what it is bridged to now.
    pub(super) fn join(&mut self) -> Result<(), DataplaneError> {
        let attached: Vec<(String, u32)> =
            self.attached.iter().map(|port| (port.name.clone(), port.place)).collect();
        for (name, place) in attached {
            let bridged_to = self.note_bridge(&name, place)?;
            self.places[place as usize].bridged_to = bridged_to;
        }
        Ok(())
    }

    /// What is bridged to a place that is about to be given up is bridged to nothing.
    pub(super) fn part(&mut self, place: u32) {
        let (gone, nothing) = (bridged_to(place), sizes::BRIDGED_TO_NONE.0 as u16);
        self.places.iter_mut().filter(|it| it.bridged_to == gone).for_each(|it| it.bridged_to = nothing);
    }

    /// Notes what crosses the bridge of an interface besides IP, and says where the interface at the other end is, as `port.bridged_to`
    /// has it.
    pub(super) fn note_bridge(&self, interface: &str, place: u32) -> Result<u16, DataplaneError> {
        let Some((bridge, other)) = bridge::of(&self.bridges, interface) else { return Ok(0) };
        self.bridge_map
            .update(&place.to_ne_bytes(), &value(bridge), MapFlags::ANY)
            .map_err(DataplaneError::bpf(format!("noting what crosses the bridge `{}`", bridge.name)))?;
        Ok(self.place_named(other).map_or(sizes::BRIDGED_TO_NONE.0 as u16, bridged_to))
    }

    /// The place of an interface that is attached, or that an earlier firewall was on and that is attached next.
    fn place_named(&self, interface: &str) -> Option<u32> {
        if let Some(known) = self.attached.iter().find(|port| port.name == interface) {
            return Some(known.place);
        }
        let index = if_nametoindex(interface).ok()?;
        self.places.iter().position(|it| it.ifindex == index).map(|place| place as u32)
    }
}

fn bridged_to(place: u32) -> u16 {
    place as u16 + 1
}

/// `struct bridge`.
fn value(bridge: &Bridge) -> Vec<u8> {
    let bit = |passes: &Passes| match passes {
        Passes::Arp => bridge_passes::BRIDGE_ARP.0,
        Passes::NeighbourDiscovery => bridge_passes::BRIDGE_NEIGHBOURS.0,
        Passes::SpanningTree => bridge_passes::BRIDGE_SPANNING_TREE.0,
        Passes::Other => bridge_passes::BRIDGE_OTHER.0,
    };
    let passes: u32 = bridge.passes.iter().map(bit).fold(0, |all, bit| all | bit);
    let vlans = bridge.vlans.words.iter().flat_map(|word| word.to_ne_bytes());
    vlans.chain(u64::from(passes).to_ne_bytes()).collect()
}
