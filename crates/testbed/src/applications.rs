//! What a bed needs beside its zones' own addresses so that applications can run in it: hosts with addresses of their own, ports
//! for their connections, whole checksums in what they send, and segments that stay apart.

use crate::bed::Bed;
use crate::error::TestbedError;
use crate::layout::ZonePort;
use measure::shape::IpVersion;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Gives the zone's first `count` test hosts to its namespace, so that sockets can be bound to their addresses.
///
/// # Errors
/// What `ip` says.
pub fn add_hosts(port: &ZonePort, ip: IpVersion, count: u32) -> Result<Vec<IpAddr>, TestbedError> {
    let hosts: Vec<IpAddr> = (0..count).map(|index| port.addresses.host(ip, index)).collect();
    add_addresses(port, &hosts)?;
    Ok(hosts)
}

/// Gives these addresses to the zone's namespace.
///
/// # Errors
/// What `ip` says.
pub fn add_addresses(port: &ZonePort, addresses: &[IpAddr]) -> Result<(), TestbedError> {
    let add = |address: &IpAddr| {
        let (length, more) = if address.is_ipv4() { (32, "") } else { (128, " nodad") };
        format!("address add {address}/{length} dev {}{more}\n", port.end.device)
    };
    let batch: String = addresses.iter().map(add).collect();
    port.end.namespace.run_with_input("ip", &["-batch", "-"], &batch).map(drop)
}

/// Decides which ports the zone's connections come from.
///
/// # Errors
/// When the kernel refuses.
pub fn choose_ports(port: &ZonePort, ports: &RangeInclusive<u16>) -> Result<(), TestbedError> {
    let range = format!("{} {}", ports.start(), ports.end());
    port.end.namespace.set(&[("ipv4/ip_local_port_range", &range)])
}

/// Makes every kernel before a firewall compute checksums itself, as it must where a network card does not, and cut segments to the
/// link's size. Between virtual links it would otherwise leave the sum to a card that is not there: a firewall at XDP forwards such a
/// segment as it is, and whoever receives it behind another link drops it. Rate-limited links are such kernels too: they put
/// segments together (GRO), whose sums are to be made again when they are cut. All firewalls get the same segments.
///
/// # Errors
/// What `ethtool` says.
pub fn send_whole_checksums(bed: &Bed) -> Result<(), TestbedError> {
    let zones = bed.layout().ports.iter().map(|port| (port.end.namespace.clone(), port.end.device.clone()));
    for (namespace, device) in zones.chain(bed.link_devices()) {
        namespace.run("ethtool", &["-K", &device, "tx", "off"])?;
    }
    Ok(())
}

/// Lets no segments travel put together: whoever sends cuts them and computes their checksums, as in [`send_whole_checksums`], and the
/// firewall's ends leave those apart that come in. The zones' ends put together what they receive, which is behind the firewall.
///
/// GRO stays on with room for nothing: without it an end of a veth pair would take no redirected frames, and probes are such.
///
/// # Errors
/// What `ethtool` and `ip` say.
pub fn keep_segments_apart(bed: &Bed) -> Result<(), TestbedError> {
    send_whole_checksums(bed)?;
    for end in bed.layout().ports.iter().filter_map(|port| port.firewall.as_ref()) {
        end.namespace.run("ip", &["link", "set", "dev", &end.device, "gro_max_size", "1"])?;
    }
    Ok(())
}
