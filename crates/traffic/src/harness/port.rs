//! The ports between which a run goes: the zones' own ends of the links to the firewall.

use crate::{TrafficError, namespace};
use libbpf_rs::{Link, MapFlags, ProgramMut};
use measure::shape::Zone;
use std::path::PathBuf;

/// A zone's own end of a link: where traffic of the zone starts and arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The zone.
    pub zone: Zone,
    /// `/run/netns/NAME`, or `None` for an interface of this namespace.
    pub namespace: Option<PathBuf>,
    /// Interface number within the namespace.
    pub ifindex: u32,
    /// The port's own address.
    pub mac: [u8; 6],
    /// Where its frames go: the firewall's address on this link.
    pub next_hop_mac: [u8; 6],
    /// IPv4 prefix of the zone, host byte order, host bits zero.
    pub v4_prefix: u32,
    /// IPv6 prefix of the zone, the last four bytes zero.
    pub v6_prefix: [u8; 16],
}

impl Port {
    /// The IPv6 prefix in words as they lie in a frame.
    pub(crate) fn v6_words(&self) -> [u32; 4] {
        words(&self.v6_prefix)
    }
}

/// An IPv6 address in words as they lie in a frame.
pub(crate) fn words(address: &[u8; 16]) -> [u32; 4] {
    std::array::from_fn(|word| u32::from_ne_bytes(std::array::from_fn(|byte| address[4 * word + byte])))
}

/// Attaches a program to a port, until the link is dropped.
///
/// # Errors
/// The interface is gone, or its driver has no XDP.
pub(crate) fn attach(port: &Port, program: &ProgramMut<'_>) -> Result<Link, TrafficError> {
    inside(port, || program.attach_xdp(port.ifindex as i32))
}

/// Makes a port number `slot` of an object's ports, through which its programs send.
///
/// # Errors
/// The interface is gone.
pub(crate) fn send_through(
    port: &Port,
    ports: &impl libbpf_rs::MapCore,
    slot: u32,
) -> Result<(), TrafficError> {
    inside(port, || ports.update(&slot.to_ne_bytes(), &port.ifindex.to_ne_bytes(), MapFlags::ANY))
}

fn inside<T>(port: &Port, work: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, TrafficError> {
    let doing = format!("taking port {} of zone {} into use", port.ifindex, port.zone.name());
    namespace::inside(port.namespace.as_deref(), work)?.map_err(TrafficError::bpf(doing))
}
