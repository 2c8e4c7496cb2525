//! What a bed needs beside its zones' own addresses so that applications can run in it: hosts with addresses of their own, ports
//! for their connections, whole checksums in what they send, and segments that stay apart.

use crate::bed::Bed;
use crate::error::TestbedError;
use crate::layout::{PortEnd, ZonePort};
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

/// How segments leave those who send them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segments {
    /// As the kernel likes.
    Any,
    /// As [`send_whole_checksums`] has them.
    Cut,
    /// As [`keep_segments_apart`] has them.
    Apart,
}

impl Segments {
    /// Fails if somebody has undone it: segments that travel put together cost a firewall a tenth of the others.
    ///
    /// # Errors
    /// It was undone, or what `ethtool` and `ip` say.
    pub fn check(self, bed: &Bed) -> Result<(), TestbedError> {
        let changed = |what: &str, device: &str| {
            let why = format!("somebody changed {what} of {device}, so that segments travel put together");
            Err(TestbedError::Impossible(why))
        };
        if self == Self::Any {
            return Ok(());
        }
        for PortEnd { namespace, device, .. } in bed.layout().ports.iter().map(|port| &port.end) {
            if !is_cut(&namespace.run("ethtool", &["-k", device])?) {
                return changed("the offloads", device);
            }
        }
        for end in bed.layout().ports.iter().filter_map(|port| port.firewall.as_ref()) {
            let shown = end.namespace.run("ip", &["-d", "-o", "link", "show", "dev", &end.device])?;
            if self == Self::Apart && !is_apart(&shown) {
                return changed("the room for segments", &end.device);
            }
        }
        Ok(())
    }
}

/// Of what `ethtool -k` shows. It sums up several kinds of segmentation, of which newer kernels have some that nobody turns off.
fn is_cut(features: &str) -> bool {
    ["tx-checksumming: off", "tx-tcp-segmentation: off", "tx-tcp6-segmentation: off"]
        .iter()
        .all(|off| features.lines().any(|line| line.trim().starts_with(off)))
}

/// Of what `ip -d link` shows. Newer kernels have a room of its own for IPv4.
fn is_apart(link: &str) -> bool {
    let words: Vec<&str> = link.split_whitespace().collect();
    let rooms = words.windows(2).filter(|pair| matches!(pair[0], "gro_max_size" | "gro_ipv4_max_size"));
    let mut sizes = rooms.map(|pair| pair[1]).peekable();
    sizes.peek().is_some() && sizes.all(|size| size == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_travel_put_together_are_seen() {
        let off = "Features for e0:\ntx-checksumming: off\n\ttx-checksum-ip-generic: off\ntcp-segmentation-offload: on\n\
                   \ttx-tcp-segmentation: off [requested on]\n\ttx-tcp6-segmentation: off [requested on]\n\
                   \ttx-tcp-accecn-segmentation: on\n";
        let on = off.replace("tx-tcp6-segmentation: off [requested on]", "tx-tcp6-segmentation: on");
        let sums = off.replace("tx-checksumming: off", "tx-checksumming: on");
        assert_eq!([off, &on, &sums, ""].map(is_cut), [true, false, false, false]);
        for (shown, apart) in [
            ("gso_max_size 65536 gro_max_size 1 gso_ipv4_max_size 65536 gro_ipv4_max_size 1", true),
            ("gro_max_size 1", true),
            ("gro_max_size 65536 gro_ipv4_max_size 1", false),
            ("gro_max_size 1 gro_ipv4_max_size 65536", false),
            ("mtu 1500", false),
        ] {
            assert_eq!(is_apart(shown), apart, "{shown}");
        }
    }
}
