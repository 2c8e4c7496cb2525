//! Frames, byte by byte. Checksums of the IPv4 header are right; those of transport headers are filled in by
//! [`Frame::completed`], where a test wants them.

use super::{FIREWALL, SENDER, checksum, complete};
use std::net::IpAddr;

/// An IP packet in an Ethernet frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Of the same family as the destination.
    pub source: IpAddr,
    /// Of the same family as the source.
    pub destination: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Transport header and what follows.
    pub payload: Vec<u8>,
    /// VLAN tags, the outer first.
    pub tags: Vec<u16>,
    /// IPv4 options, a multiple of 4 bytes.
    pub options: Vec<u8>,
    /// IPv6 extension headers: number and bytes behind the first, a multiple of 8 with it.
    pub extensions: Vec<(u8, Vec<u8>)>,
    /// Identification, offset in bytes, more to come. With IPv6 it is an extension header.
    pub fragment: Option<(u32, u16, bool)>,
    /// Or hop limit.
    pub ttl: u8,
    /// IPv4's flag.
    pub dont_fragment: bool,
}

impl Frame {
    /// A plain packet with 64 hops to go.
    pub fn new(source: &str, destination: &str, protocol: u8, payload: Vec<u8>) -> Self {
        let [source, destination] = [source, destination].map(|address| address.parse().unwrap());
        Self { payload, ..Self::between(source, destination, protocol) }
    }

    /// The same without a payload.
    pub fn between(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        Self {
            source,
            destination,
            protocol,
            payload: vec![],
            tags: vec![],
            options: vec![],
            extensions: vec![],
            fragment: None,
            ttl: 64,
            dont_fragment: false,
        }
    }

    /// The same with the checksum of its transport header filled in.
    #[must_use]
    pub fn completed(mut self) -> Self {
        complete(&mut self.payload, self.protocol, self.source, self.destination);
        self
    }

    /// The frame, from [`SENDER`] to [`FIREWALL`].
    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = [FIREWALL, SENDER].concat();
        for tag in &self.tags {
            frame.extend([0x81, 0]);
            frame.extend(tag.to_be_bytes());
        }
        let packet = self.packet();
        frame.extend(if self.source.is_ipv4() { [8, 0] } else { [0x86, 0xdd] });
        frame.extend(packet);
        frame
    }

    /// The IP packet alone.
    pub fn packet(&self) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => self.ipv4(source.octets(), destination.octets()),
            (IpAddr::V6(source), IpAddr::V6(destination)) => self.ipv6(source.octets(), destination.octets()),
            _ => panic!("two families"),
        }
    }

    fn ipv4(&self, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let header = 20 + self.options.len();
        let (id, offset, more) = self.fragment.unwrap_or((0, 0, false));
        let mut packet = vec![0x40 | (header / 4) as u8, 0];
        packet.extend(((header + self.payload.len()) as u16).to_be_bytes());
        packet.extend((id as u16).to_be_bytes());
        let flags = u16::from(more) << 13 | u16::from(self.dont_fragment) << 14;
        packet.extend(((offset / 8) | flags).to_be_bytes());
        packet.extend([self.ttl, self.protocol, 0, 0]);
        packet.extend(source);
        packet.extend(destination);
        packet.extend(&self.options);
        let check = checksum(&packet);
        packet[10..12].copy_from_slice(&check.to_be_bytes());
        packet.extend(&self.payload);
        packet
    }

    fn ipv6(&self, source: [u8; 16], destination: [u8; 16]) -> Vec<u8> {
        let mut extensions = self.extensions.clone();
        if let Some((id, offset, more)) = self.fragment {
            let mut bytes = vec![0];
            bytes.extend((offset | u16::from(more)).to_be_bytes());
            bytes.extend(id.to_be_bytes());
            extensions.push((44, bytes));
        }
        let mut body = vec![];
        for (i, (_, bytes)) in extensions.iter().enumerate() {
            body.push(extensions.get(i + 1).map_or(self.protocol, |(next, _)| *next));
            body.extend(bytes);
        }
        body.extend(&self.payload);
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((body.len() as u16).to_be_bytes());
        packet.extend([extensions.first().map_or(self.protocol, |(number, _)| *number), self.ttl]);
        packet.extend(source);
        packet.extend(destination);
        packet.extend(body);
        packet
    }
}

/// Bytes that count, so that none of them can be lost or moved unseen.
pub(super) fn data(length: usize) -> impl Iterator<Item = u8> {
    (0..length).map(|i| i as u8)
}

/// A TCP segment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp {
    /// Source and destination.
    pub ports: (u16, u16),
    /// [`SYN`] and others.
    pub flags: u8,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// As it stands in the header, without its scale.
    pub window: u16,
    /// Bytes of data.
    pub length: usize,
    /// Of the window scale option, of a SYN.
    pub scale: Option<u8>,
    /// Options of one byte that say nothing, before all others.
    pub nothings: usize,
}

/// No more data.
pub const FIN: u8 = 1;
/// Open.
pub const SYN: u8 = 2;
/// Reset.
pub const RST: u8 = 4;
/// The acknowledgement number counts.
pub const ACK: u8 = 16;

impl Tcp {
    /// Header and data, without a checksum.
    pub fn bytes(&self) -> Vec<u8> {
        let mut options = vec![1; self.nothings];
        if let Some(scale) = self.scale {
            options.extend([2, 4, 5, 180, 1, 3, 3, scale, 4, 2, 1, 1]);
        }
        let mut bytes = vec![];
        bytes.extend(self.ports.0.to_be_bytes());
        bytes.extend(self.ports.1.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgement.to_be_bytes());
        bytes.push((((20 + options.len()) / 4) << 4) as u8);
        bytes.push(self.flags);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        bytes.extend(data(self.length));
        bytes
    }
}

/// A datagram with so many bytes of data, without a checksum.
pub fn udp(ports: (u16, u16), length: usize) -> Vec<u8> {
    let mut bytes = vec![];
    bytes.extend(ports.0.to_be_bytes());
    bytes.extend(ports.1.to_be_bytes());
    bytes.extend(((8 + length) as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(data(length));
    bytes
}

/// An ICMP query or its answer: type, code, identifier.
pub fn icmp(kind: u8, code: u8, id: u16) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(id.to_be_bytes());
    bytes.extend([0, 1, 1, 2, 3, 4]);
    bytes
}

/// An ICMP error about a packet.
pub fn icmp_error(kind: u8, code: u8, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
    bytes.extend(&packet[..packet.len().min(128)]);
    bytes
}
