//! Who is behind which interface of a bridge of more than two: what `bpf/firewall/stations.h` has learned.

use super::Ports;
use crate::DataplaneError;
use crate::clock::whole_tick;
use crate::shared::from_bytes;
use crate::skeleton::types::{self, sizes, station_bits};
use libbpf_rs::{MapCore, MapFlags};
use policy::Bridge;
use std::collections::BTreeMap;
use std::time::Duration;

/// Sets that are read by one system call: 128 KiB.
const BATCH: u32 = 512;
/// The key while a state is written.
const TAKEN: u64 = u64::MAX;

/// An Ethernet address behind an interface of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Station {
    /// Name of the bridge.
    pub bridge: String,
    /// The VLAN; 0: none.
    pub vlan: u16,
    /// The address.
    pub address: [u8; 6],
    /// Name of the interface that it is behind.
    pub interface: String,
    /// Name of the interface that it is at home at, where it was before it moved.
    pub home: String,
    /// It came home after it was heard elsewhere: two may have the address.
    pub is_claimed: bool,
    /// Since it moved or was first heard, about.
    pub moved: Duration,
    /// Since it was last heard, about.
    pub seen: Duration,
}

impl Ports {
    /// The stations of the bridges, by bridge, VLAN and address; those at interfaces that are gone are left out. `now` is CLOCK_MONOTONIC since its
    /// beginning.
    ///
    /// # Errors
    /// The kernel does not let the table be read.
    pub fn stations(&self, now: Duration) -> Result<Vec<Station>, DataplaneError> {
        let sets = self
            .station_map
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
            .map_err(DataplaneError::bpf("reading the stations of bridges"))?;
        let known = sets
            .filter_map(|(_, bytes)| from_bytes::<types::station_set>(&bytes))
            .flat_map(|set| set.key.into_iter().zip(set.state))
            .filter(|(key, _)| *key != 0 && *key != TAKEN);
        // By bridge, VLAN and address, and each once: two cores may have learned one at the same time.
        let known: BTreeMap<u64, u64> = known.map(|(key, state)| (in_order(key), state)).collect();
        let beat = whole_tick(now) >> station_bits::STATION_BEAT.0;
        Ok(known.into_iter().filter_map(|(key, state)| self.station(key, state, beat)).collect())
    }

    /// One that is known, its key in order.
    fn station(&self, key: u64, state: u64, beat: u64) -> Option<Station> {
        let number = (key >> station_bits::STATION_BRIDGE_SHIFT.0) as usize;
        let bridge = self.bridges.iter().filter(|it| it.is_switch()).nth(number.checked_sub(1)?)?;
        let place_in = |state: u64| state & u64::from(station_bits::STATION_PLACE.0);
        let (place, home) = (place_in(state), place_in(state >> station_bits::STATION_HOME_SHIFT.0));
        let since = |shift: u32, bits: u32| {
            let passed = beat.wrapping_sub(state >> shift) & ((1 << bits) - 1);
            // Another core's clock may have been ahead.
            let passed = if passed >> (bits - 1) == 0 { passed } else { 0 };
            Duration::from_nanos(passed << (station_bits::STATION_BEAT.0 + sizes::TICK_SHIFT.0))
        };
        Some(Station {
            bridge: bridge.name.clone(),
            vlan: (key >> station_bits::STATION_VLAN_SHIFT.0 & 0xfff) as u16,
            address: key.to_be_bytes()[2..].try_into().ok()?,
            interface: self.name_at(bridge, place)?,
            home: self.name_at(bridge, home)?,
            is_claimed: state & u64::from(station_bits::STATION_CLAIMED.0) != 0,
            moved: since(station_bits::STATION_MOVED_SHIFT.0, station_bits::STATION_MOVED_BITS.0),
            seen: since(station_bits::STATION_SEEN_SHIFT.0, station_bits::STATION_SEEN_BITS.0),
        })
    }

    /// Name of the interface at a place, if it is of that bridge.
    fn name_at(&self, bridge: &Bridge, place: u64) -> Option<String> {
        let at_place = self.attached.iter().find(|port| u64::from(port.place) == place);
        at_place.map(|port| &port.name).filter(|name| bridge.interfaces.contains(name)).cloned()
    }
}

/// A key whose address is in the order in which people write it.
fn in_order(key: u64) -> u64 {
    let address = key.to_le_bytes();
    let mut ordered = key.to_be_bytes();
    ordered[2..].copy_from_slice(&address[..6]);
    u64::from_be_bytes(ordered)
}
