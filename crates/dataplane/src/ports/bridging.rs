//! Interfaces of bridges: each knows the place of the other, or of all others.

use super::attachment::Attachment;
use super::programs::Direction;
use super::{Hook, Port, Ports, index_of};
use crate::DataplaneError;
use crate::skeleton::types::{self, bridge_passes, sizes};
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
        // What is passed up is judged from the first frame on, and until the last.
        let of_switches = (0..self.attached.len()).filter(|at| self.is_of_switch(&self.attached[*at].name));
        of_switches.collect::<Vec<_>>().into_iter().try_for_each(|at| self.judge_copies(at))?;
        self.join()?;
        (0..self.attached.len()).try_for_each(|at| self.judge_copies(at))
    }

    /// Whether an interface is of a bridge of more than two.
    pub(super) fn is_of_switch(&self, interface: &str) -> bool {
        bridge::of(&self.bridges, interface).is_some_and(Bridge::is_switch)
    }

    /// The program of copies is behind the driver of an interface where there are any, and that of packets without a neighbour elsewhere.
    fn judge_copies(&mut self, at: usize) -> Result<(), DataplaneError> {
        let Port { name, index, hook, judges_copies, .. } = &self.attached[at];
        let judges = self.is_of_switch(name);
        // One that is gone is attached anew when it is back.
        if *hook != Hook::Xdp || *judges_copies == judges || index_of(name).ok() != Some(*index) {
            return Ok(());
        }
        let (behind, direction) = (self.behind_driver(name)?, Direction::In);
        let attachment = Attachment::behind(behind, &self.siblings(direction), *index, direction, name)?;
        let port = &mut self.attached[at];
        port.attachments.retain(|it| !it.is_where_packets_come_in());
        port.attachments.push(attachment);
        port.judges_copies = judges;
        Ok(())
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
        let Some(bridge) = bridge::of(&self.bridges, interface) else {
            self.note(place, &vec![0; size_of::<types::bridge>()], "that it is of no bridge")?;
            return Ok(0);
        };
        let doing = format!("what crosses the bridge `{}`", bridge.name);
        let places = bridge.others(interface).map(|other| self.place_named(other).map(bridged_to));
        if !bridge.is_switch() {
            self.note(place, &value(bridge, 0, &[]), &doing)?;
            return Ok(places.flatten().next().unwrap_or(sizes::BRIDGED_TO_NONE.0 as u16));
        }
        let switches = self.bridges.iter().filter(|it| it.is_switch());
        let number = switches.take_while(|it| it.name != bridge.name).count() as u16 + 1;
        self.note(place, &value(bridge, number, &places.flatten().collect::<Vec<_>>()), &doing)?;
        Ok(sizes::BRIDGED_TO_MANY.0 as u16)
    }

    /// What was at a place is of no bridge.
    pub(super) fn forget_bridge(&self, place: u32) -> Result<(), DataplaneError> {
        self.note(place, &vec![0; size_of::<types::bridge>()], "that an interface is given up")
    }

    fn note(&self, place: u32, value: &[u8], what: &str) -> Result<(), DataplaneError> {
        let noted = self.bridge_map.update(&place.to_ne_bytes(), value, MapFlags::ANY);
        noted.map_err(DataplaneError::bpf(format!("noting {what}")))
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
fn value(bridge: &Bridge, number: u16, others: &[u16]) -> Vec<u8> {
    let bit = |passes: &Passes| match passes {
        Passes::Arp => bridge_passes::BRIDGE_ARP.0,
        Passes::NeighbourDiscovery => bridge_passes::BRIDGE_NEIGHBOURS.0,
        Passes::SpanningTree => bridge_passes::BRIDGE_SPANNING_TREE.0,
        Passes::Other => bridge_passes::BRIDGE_OTHER.0,
    };
    let passes: u32 = bridge.passes.iter().map(bit).fold(0, |all, bit| all | bit);
    let vlans = bridge.vlans.words.iter().flat_map(|word| word.to_ne_bytes());
    let none = std::iter::repeat_n(&0, sizes::BRIDGE_OTHERS.0 as usize - others.len());
    let others = others.iter().chain(none).chain([&number]).flat_map(|place| place.to_ne_bytes());
    vlans.chain(u64::from(passes).to_ne_bytes()).chain(others).collect()
}
