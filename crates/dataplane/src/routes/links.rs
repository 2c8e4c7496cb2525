//! For which Ethernet addresses an interface takes frames: the map `link_addresses`, which is kept as the kernel's links are, and
//! beside each interface's zone its own address, for which nearly all frames are.

use super::RoutesError;
use super::netlink::Queries;
use crate::DataplaneError;
use crate::shared::{Mapping, Shared, publish};
use crate::skeleton::types::{port, sizes};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::sync::{Mutex, PoisonError};

/// Addresses that one interface may have.
const MOST: usize = sizes::LINK_ADDRESSES.0 as usize;
/// `struct link_addresses`.
const BYTES: usize = 8 * MOST + 8;
const INDEX: usize = 8 * MOST;

/// One at a time: the thread that follows the kernel writes the map, and so does whoever attaches interfaces. What was read of the
/// kernel last is written last.
static TURN: Mutex<()> = Mutex::new(());

/// A link as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) ifindex: u32,
    /// Its Ethernet address; `None` for a link that has none.
    pub(super) address: Option<[u8; 6]>,
    /// The bridge or bond that it belongs to.
    pub(super) controller: Option<u32>,
    /// Of an interface that has an address of its own on another one (macvlan): that one.
    pub(super) below: Option<u32>,
}

/// Where the programs look for the Ethernet addresses of interfaces.
#[derive(Debug)]
pub struct LinkAddresses {
    map: MapHandle,
    own: Option<OwnAddresses>,
}

/// `address` of `struct port`, in a mapping of its own: [`crate::Ports`] writes the other fields.
struct OwnAddresses {
    variables: MapHandle,
    ports: Shared<[port; sizes::MAX_PORTS.0 as usize]>,
}

impl std::fmt::Debug for OwnAddresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnAddresses")
    }
}

impl LinkAddresses {
    /// The map `link_addresses` alone, of programs that do not look beside the zones.
    pub fn new(map: MapHandle) -> Self {
        Self { map, own: None }
    }

    /// The map, and the firewall's variables.
    pub(crate) fn of(map: MapHandle, variables: MapHandle) -> Result<Self, DataplaneError> {
        let (mapping, mapped) = Mapping::of(&variables)
            .map_err(DataplaneError::system("reaching the interfaces' Ethernet addresses"))?;
        let ports = Shared::new(&mut mapped.ports, &mapping);
        Ok(Self { map, own: Some(OwnAddresses { variables, ports }) })
    }

    /// The same for another thread.
    pub(crate) fn again(&self) -> Result<Self, DataplaneError> {
        let again = |map| MapHandle::try_from(map).map_err(DataplaneError::bpf("opening the maps of links"));
        let map = again(&self.map)?;
        match &self.own {
            Some(own) => Self::of(map, again(&own.variables)?),
            None => Ok(Self::new(map)),
        }
    }

    /// Notes an interface at its place, and fills in its addresses. `ifindex` 0: there is none any more.
    pub(crate) fn note(&mut self, place: u32, ifindex: u32) -> Result<(), RoutesError> {
        // One that an earlier firewall was on has its addresses, and its packets go on.
        if ifindex == 0 || self.noted(place)? != ifindex {
            let mut value = [0; BYTES];
            value[INDEX..INDEX + 4].copy_from_slice(&ifindex.to_ne_bytes());
            self.write(place, &value)?;
        }
        if ifindex == 0 { Ok(()) } else { self.refresh(&mut Queries::open()?) }
    }

    /// Writes the addresses of all interfaces that are noted, as they are now.
    pub(super) fn refresh(&mut self, queries: &mut Queries) -> Result<(), RoutesError> {
        // Nothing is left half done by a panic: each entry is written at once.
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let links = queries.links()?;
        for place in 0..sizes::MAX_PORTS.0 {
            let ifindex = self.noted(place)?;
            if ifindex != 0 {
                self.write(place, &entry(ifindex, &addresses(ifindex, &links))?)?;
            }
        }
        Ok(())
    }

    /// The interface at a place, or 0.
    fn noted(&self, place: u32) -> Result<u32, RoutesError> {
        let value = self.map.lookup(&place.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        let bytes = value.as_ref().and_then(|value| value.get(INDEX..INDEX + 4)?.try_into().ok());
        Ok(bytes.map_or(0, u32::from_ne_bytes))
    }

    fn write(&mut self, place: u32, value: &[u8; BYTES]) -> Result<(), RoutesError> {
        self.map.update(&place.to_ne_bytes(), value, MapFlags::ANY).map_err(failed)?;
        if let (Some(own), Some(first)) = (&mut self.own, value.first_chunk()) {
            publish(&mut own.ports[place as usize].address, u64::from_ne_bytes(*first));
        }
        Ok(())
    }
}

/// The addresses of an interface, its own first. An interface that is gone has none.
fn addresses(ifindex: u32, links: &[Link]) -> Vec<[u8; 6]> {
    let Some(this) = links.iter().find(|link| link.ifindex == ifindex) else { return Vec::new() };
    let others = links
        .iter()
        .filter(|link| this.controller == Some(link.ifindex) || link.below == Some(ifindex))
        .filter_map(|link| link.address);
    let mut all: Vec<_> = this.address.into_iter().collect();
    for address in others {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// `struct link_addresses`. A place that is not needed repeats the first address.
fn entry(ifindex: u32, addresses: &[[u8; 6]]) -> Result<[u8; BYTES], RoutesError> {
    if addresses.len() > MOST {
        return Err(RoutesError::Addresses { ifindex, most: MOST });
    }
    let mut value = [0; BYTES];
    for place in 0..MOST {
        let address = addresses.get(place).or(addresses.first()).copied().unwrap_or_default();
        value[8 * place..8 * place + 8].copy_from_slice(&word(address).to_ne_bytes());
    }
    value[INDEX..INDEX + 4].copy_from_slice(&ifindex.to_ne_bytes());
    Ok(value)
}

/// An Ethernet address as the programs compare it.
fn word([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from(u32::from_ne_bytes([a, b, c, d])) | u64::from(u16::from_ne_bytes([e, f])) << 32
}

fn failed(source: libbpf_rs::Error) -> RoutesError {
    RoutesError::Map { map: "link_addresses", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_takes_frames_for_itself_its_bridge_and_what_stands_on_it() {
        let link = |ifindex, last, controller, below| Link {
            ifindex,
            address: Some([2, 0, 0, 0, 0, last]),
            controller,
            below,
        };
        let links = [
            link(2, 2, Some(4), None),
            link(3, 3, Some(4), None),
            link(4, 4, None, None),
            link(5, 5, None, Some(2)),
            link(6, 2, None, Some(2)),
            Link { address: None, ..link(7, 0, None, None) },
        ];
        for (ifindex, expected) in
            [(2, &[2, 4, 5][..]), (3, &[3, 4]), (4, &[4]), (5, &[5]), (7, &[]), (8, &[])]
        {
            let last: Vec<u8> = addresses(ifindex, &links).iter().map(|address| address[5]).collect();
            assert_eq!(last, expected, "{ifindex}");
        }
        let value = entry(2, &addresses(2, &links)).unwrap();
        let at = |place: usize| u64::from_ne_bytes(value[8 * place..8 * place + 8].try_into().unwrap());
        let own = u64::from_ne_bytes([2, 0, 0, 0, 0, 2, 0, 0]);
        assert_eq!((at(0), at(3), at(MOST - 1)), (own, own, own), "unused places take no other frames");
        assert!(entry(2, &[[2; 6]; MOST + 1]).is_err());
    }
}
