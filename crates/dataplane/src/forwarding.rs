//! What forwarding must be told: that routes changed, which addresses are the firewall's own, how often it may answer.

use crate::DataplaneError;
use crate::firewall::Firewall;
use crate::routes::RouteMaps;
use crate::skeleton::types;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// `struct forwarding` of `bpf/abi/forward.h`, in its words.
pub(crate) const WORDS: usize = 15;
pub(crate) const MARK: usize = 1;
pub(crate) const ANSWER_INTERVAL: usize = 3;
pub(crate) const ANSWER_BURST: usize = 5;
const TAKES_FRAMES: usize = 7;

const _: () = assert!(
    size_of::<types::forwarding>() == 4 * WORDS
        && std::mem::offset_of!(types::forwarding, mark) == 4 * MARK
        && std::mem::offset_of!(types::forwarding, answer_interval) == 4 * ANSWER_INTERVAL
        && std::mem::offset_of!(types::forwarding, answer_burst) == 4 * ANSWER_BURST
        && std::mem::offset_of!(types::forwarding, takes_frames) == 4 * TAKES_FRAMES
);

/// One at a time: the map is one value, written by whoever attaches interfaces and by the thread that follows routes.
static TURN: Mutex<()> = Mutex::new(());

/// Changes something of the map `forwarding`, and makes remembered routes old.
pub(crate) fn change(map: &impl MapCore, change: impl FnOnce(&mut [u32; WORDS])) -> libbpf_rs::Result<()> {
    // Nothing is left half done by a panic: the map is written at the end.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = 0u32.to_ne_bytes();
    let found = map.lookup(&key, MapFlags::ANY)?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(found.iter().flat_map(|b| b.as_chunks::<4>().0)) {
        *word = u32::from_ne_bytes(*bytes);
    }
    change(&mut words);
    // 0 is what slots of the cache carry that were never written.
    words[0] = words[0].wrapping_add(1).max(1);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    map.update(&key, &bytes, MapFlags::ANY)
}

impl Firewall {
    /// Makes the firewall ask the kernel again where packets go. To be called after every change of routes, neighbours,
    /// links and addresses.
    ///
    /// # Errors
    /// The kernel does not let the map be written.
    pub fn routes_changed(&mut self) -> Result<(), DataplaneError> {
        self.change_forwarding(|_| {})
    }

    /// The device of a port takes frames from XDP, or not.
    pub(crate) fn takes_frames(&mut self, port: u32, takes: bool) -> Result<(), DataplaneError> {
        self.change_forwarding(|words| {
            let word = &mut words[TAKES_FRAMES + port as usize / 32];
            *word = *word & !(1 << (port % 32)) | u32::from(takes) << (port % 32);
        })
    }

    fn change_forwarding(&mut self, words: impl FnOnce(&mut [u32; WORDS])) -> Result<(), DataplaneError> {
        change(&self.skel.maps.forwarding, words)
            .map_err(DataplaneError::bpf("changing how packets are forwarded"))
    }

    /// What [`crate::routes::Routes`] write. They do all of what this module's other functions do, and go on doing it.
    ///
    /// # Errors
    /// No file descriptors left.
    pub fn route_maps(&self) -> Result<RouteMaps, DataplaneError> {
        let maps = &self.skel.maps;
        let handle =
            |map| MapHandle::try_from(map).map_err(DataplaneError::bpf("opening the maps of routes"));
        Ok(RouteMaps {
            forwarding: handle(&maps.forwarding)?,
            local_addresses: handle(&maps.local_addresses)?,
            own_addresses: handle(&maps.own_addresses)?,
        })
    }

    /// Adds an address of the firewall itself, or a broadcast address: packets to it are for zone `self`.
    ///
    /// # Errors
    /// There are too many, or the kernel does not let the map be written.
    pub fn add_local_address(&mut self, address: IpAddr) -> Result<(), DataplaneError> {
        self.skel
            .maps
            .local_addresses
            .update(&local_key(address), &1u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(DataplaneError::bpf(format!("noting {address} as an address of the firewall")))?;
        self.routes_changed()
    }

    /// Whom ICMP errors come from when they answer packets that came in by an interface. The unspecified address: nobody,
    /// and nothing of that family is answered there.
    ///
    /// # Errors
    /// There are too many interfaces, or the kernel does not let the map be written.
    pub fn set_own_addresses(
        &mut self,
        ifindex: u32,
        v4: Ipv4Addr,
        v6: Ipv6Addr,
    ) -> Result<(), DataplaneError> {
        let value = [&v4.octets()[..], &v6.octets()].concat();
        self.skel
            .maps
            .own_addresses
            .update(&ifindex.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(DataplaneError::bpf(format!("noting the firewall's addresses of interface {ifindex}")))
    }
}

/// `struct address` of `bpf/abi/forward.h`.
pub(crate) fn local_key(address: IpAddr) -> [u8; 24] {
    let mut key = [0; 24];
    let version: u32 = match address {
        IpAddr::V4(v4) => {
            key[..4].copy_from_slice(&v4.octets());
            4
        }
        IpAddr::V6(v6) => {
            key[..16].copy_from_slice(&v6.octets());
            6
        }
    };
    key[16..20].copy_from_slice(&version.to_ne_bytes());
    key
}
