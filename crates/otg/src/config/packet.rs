//! The headers of a flow's frames: Ethernet, IPv4 or IPv6, and UDP, which is what the generator sends.

use super::pattern::{Kind, Pattern, single, written};
use crate::node::Node;
use crate::refusal::Refusal;
use measure::shape::IpVersion;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use traffic::{Ends, MOST_COMBINATIONS};

/// The protocol number of UDP.
const UDP: u128 = 17;
/// What both IP versions have if nothing else is written.
const TTL: u128 = 64;

/// What stands in a flow's headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) ip: IpVersion,
    pub(crate) source_mac: [u8; 6],
    pub(crate) destination_mac: [u8; 6],
    /// TOS or traffic class.
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
    pub(crate) ttl: u8,
    pub(crate) dont_fragment: bool,
    /// In the order in which frames have them.
    pub(crate) ends: Vec<Ends>,
}

impl Packet {
    /// Reads `packet` of a flow.
    pub(super) fn read(flow: &Node<'_>) -> Result<Self, Refusal> {
        let headers = flow.need("packet")?;
        let items = headers.items()?;
        let named =
            items.iter().map(|header| Ok((kind(header)?, header))).collect::<Result<Vec<_>, Refusal>>()?;
        let [("ethernet", ethernet), (network, ip), ("udp", udp)] = named.as_slice() else {
            return Err(headers.refuse("the generator sends ethernet, ipv4 or ipv6, and udp, in this order"));
        };
        let (ethernet, udp) = (ethernet.need("ethernet")?, udp.need("udp")?);
        let ip_header = ip.need(network)?;
        match *network {
            "ipv4" => Self::read_v4(&ethernet, &ip_header, &udp),
            "ipv6" => Self::read_v6(&ethernet, &ip_header, &udp),
            _ => Err(headers.refuse("the generator sends ethernet, ipv4 or ipv6, and udp, in this order")),
        }
    }

    fn read_v4(ethernet: &Node<'_>, ip: &Node<'_>, udp: &Node<'_>) -> Result<Self, Refusal> {
        ip.only(&[
            "version",
            "header_length",
            "priority",
            "total_length",
            "identification",
            "reserved",
            "dont_fragment",
            "more_fragments",
            "fragment_offset",
            "time_to_live",
            "protocol",
            "header_checksum",
            "src",
            "dst",
        ])?;
        for (key, value) in [
            ("version", 4),
            ("header_length", 5),
            ("identification", 0),
            ("reserved", 0),
            ("more_fragments", 0),
            ("fragment_offset", 0),
            ("protocol", UDP),
        ] {
            written(ip, key, value)?;
        }
        by_itself(ip, &["total_length", "header_checksum"])?;
        let made = Self::read_ethernet(ethernet, IpVersion::V4, 0x0800)?;
        Ok(Self {
            traffic_class: priority(ip)?,
            ttl: single(ip, "time_to_live", Kind::Number(8), TTL)? as u8,
            dont_fragment: single(ip, "dont_fragment", Kind::Number(1), 0)? == 1,
            ends: ends(ip, udp, Kind::V4)?,
            ..made
        })
    }

    fn read_v6(ethernet: &Node<'_>, ip: &Node<'_>, udp: &Node<'_>) -> Result<Self, Refusal> {
        ip.only(&[
            "version",
            "traffic_class",
            "flow_label",
            "payload_length",
            "next_header",
            "hop_limit",
            "src",
            "dst",
        ])?;
        written(ip, "version", 6)?;
        written(ip, "next_header", UDP)?;
        by_itself(ip, &["payload_length"])?;
        let made = Self::read_ethernet(ethernet, IpVersion::V6, 0x86dd)?;
        Ok(Self {
            traffic_class: single(ip, "traffic_class", Kind::Number(8), 0)? as u8,
            flow_label: single(ip, "flow_label", Kind::Number(20), 0)? as u32,
            ttl: single(ip, "hop_limit", Kind::Number(8), TTL)? as u8,
            ends: ends(ip, udp, Kind::V6)?,
            ..made
        })
    }

    /// A packet of which only the Ethernet header is known.
    fn read_ethernet(node: &Node<'_>, ip: IpVersion, ether_type: u128) -> Result<Self, Refusal> {
        node.only(&["src", "dst", "ether_type"])?;
        written(node, "ether_type", ether_type)?;
        let mac = |key| single(node, key, Kind::Mac, 0).map(|mac| mac.to_be_bytes());
        let last = |bytes: [u8; 16]| std::array::from_fn(|at| bytes[10 + at]);
        Ok(Self {
            ip,
            source_mac: last(mac("src")?),
            destination_mac: last(mac("dst")?),
            traffic_class: 0,
            flow_label: 0,
            ttl: 0,
            dont_fragment: false,
            ends: Vec::new(),
        })
    }
}

/// Which header it is.
fn kind(header: &Node<'_>) -> Result<&'static str, Refusal> {
    header.choice(&["ethernet", "ipv4", "ipv6", "udp"], "ethernet")
}

/// Checks lengths and checksums, which differ from frame to frame.
fn by_itself(header: &Node<'_>, keys: &[&str]) -> Result<(), Refusal> {
    for key in keys {
        let Some(node) = header.get(key) else { continue };
        let chosen = node.choice(&["auto", "generated"], "auto")?;
        if chosen == "generated" && node.get("generated").is_some_and(|it| !matches!(it.text(), Ok("good"))) {
            return Err(node.refuse("the generator writes good checksums only"));
        }
    }
    Ok(())
}

/// TOS: raw, or DSCP and ECN.
fn priority(ip: &Node<'_>) -> Result<u8, Refusal> {
    let Some(node) = ip.get("priority") else { return Ok(0) };
    match node.choice(&["raw", "dscp"], "dscp")? {
        "raw" => Ok(single(&node, "raw", Kind::Number(8), 0)? as u8),
        _ => {
            let Some(dscp) = node.get("dscp") else { return Ok(0) };
            dscp.only(&["phb", "ecn"])?;
            let phb = single(&dscp, "phb", Kind::Number(6), 0)?;
            Ok((phb << 2 | single(&dscp, "ecn", Kind::Number(2), 0)?) as u8)
        }
    }
}

/// Addresses and ports of all frames until they begin again: every field goes through its own values, frame by frame.
fn ends(ip: &Node<'_>, udp: &Node<'_>, kind: Kind) -> Result<Vec<Ends>, Refusal> {
    udp.only(&["src_port", "dst_port", "length", "checksum"])?;
    by_itself(udp, &["length", "checksum"])?;
    let address = |key: &str| -> Result<Pattern, Refusal> {
        let pattern = Pattern::read(ip, key, kind, 0)?;
        match ip.get(key) {
            Some(node) if !pattern.differs_in_last_bits_only(16) => {
                Err(node.refuse("addresses of a flow may differ in their last two bytes only"))
            }
            _ => Ok(pattern),
        }
    };
    let port = |key| Pattern::read(udp, key, Kind::Number(16), 0);
    let [source, destination] = [address("src")?, address("dst")?];
    let [source_port, destination_port] = [port("src_port")?, port("dst_port")?];
    let counts = [&source, &destination, &source_port, &destination_port].map(Pattern::count);
    let turns = counts.into_iter().try_fold(1, least_common_multiple);
    let most = u64::from(MOST_COMBINATIONS);
    let turns = turns.filter(|turns| *turns <= most).ok_or_else(|| {
        udp.refuse(format!("addresses and ports together begin again after more than {most} frames"))
    })?;
    let ip_of = |bits: u128| match kind {
        Kind::V4 => IpAddr::V4(Ipv4Addr::from(bits as u32)),
        _ => IpAddr::V6(Ipv6Addr::from(bits)),
    };
    let one = |number| Ends {
        source: ip_of(source.at(number)),
        destination: ip_of(destination.at(number)),
        source_port: source_port.at(number) as u16,
        destination_port: destination_port.at(number) as u16,
    };
    Ok((0..turns).map(one).collect())
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}
