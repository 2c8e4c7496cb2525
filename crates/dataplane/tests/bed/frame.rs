//! Frames, byte by byte. Checksums of the IPv4 header are right; those of transport headers are not looked at by a firewall.

use std::net::IpAddr;

/// An IP packet in an Ethernet frame.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// Transport header and what follows.
    pub(crate) payload: Vec<u8>,
    /// VLAN tags, the outer first.
    pub(crate) tags: Vec<u16>,
    /// IPv4 options, a multiple of 4 bytes.
    pub(crate) options: Vec<u8>,
    /// IPv6 extension headers: number and bytes behind the first, a multiple of 8 with it.
    pub(crate) extensions: Vec<(u8, Vec<u8>)>,
    /// Identification, offset in bytes, more to come.
    pub(crate) fragment: Option<(u32, u16, bool)>,
    pub(crate) ttl: u8,
    /// IPv4's flag.
    pub(crate) dont_fragment: bool,
}

impl Frame {
    pub(crate) fn new(source: &str, destination: &str, protocol: u8, payload: Vec<u8>) -> Self {
        Self {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol,
            payload,
            tags: vec![],
            options: vec![],
            extensions: vec![],
            fragment: None,
            ttl: 64,
            dont_fragment: false,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 8, 8];
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
    pub(crate) fn packet(&self) -> Vec<u8> {
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

/// The Internet checksum of some bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | c.get(1).map_or(0, |b| u32::from(*b))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A TCP segment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tcp {
    pub(crate) ports: (u16, u16),
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) window: u16,
    /// Bytes of data.
    pub(crate) length: usize,
    /// Of the window scale option, of a SYN.
    pub(crate) scale: Option<u8>,
}

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

impl Tcp {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let options: Vec<u8> = match self.scale {
            Some(scale) => vec![2, 4, 5, 180, 1, 3, 3, scale, 4, 2, 1, 1],
            None => vec![],
        };
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
        bytes.resize(bytes.len() + self.length, b'x');
        bytes
    }
}

pub(crate) fn udp(ports: (u16, u16), length: usize) -> Vec<u8> {
    let mut bytes = vec![];
    bytes.extend(ports.0.to_be_bytes());
    bytes.extend(ports.1.to_be_bytes());
    bytes.extend(((8 + length) as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.resize(8 + length, b'x');
    bytes
}

/// An ICMP query or its answer: type, code, identifier.
pub(crate) fn icmp(kind: u8, code: u8, id: u16) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(id.to_be_bytes());
    bytes.extend([0, 1, 1, 2, 3, 4]);
    bytes
}

/// An ICMP error about a packet.
pub(crate) fn icmp_error(kind: u8, code: u8, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
    bytes.extend(&packet[..packet.len().min(128)]);
    bytes
}
