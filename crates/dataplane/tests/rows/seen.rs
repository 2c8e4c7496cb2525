//! What a frame says, read slowly: each header by its RFC, each lie by its reason. Knows nothing of flows and policies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why reading ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Early {
    Dropped(&'static str),
    /// It is for the kernel: ARP, or neighbour discovery and to whom.
    Up(Option<IpAddr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Icmp {
    Question,
    Answer,
    Error,
    Other,
}

/// A part of a datagram, in bytes behind the headers that all fragments have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) id: u32,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) is_last: bool,
}

/// A packet that is as it should be.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Where the IP header begins, and where what it carries does.
    pub(crate) network: usize,
    pub(crate) transport: usize,
    pub(crate) ip_bytes: usize,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) ttl: u8,
    /// Which part of a datagram it is; `None`: all of it.
    pub(crate) part: Option<Part>,
    /// Of both ends; of an ICMP question its identifier and its kind.
    pub(crate) ports: (u16, u16),
    /// What rules ask for: a port, or type and code.
    pub(crate) selector: u16,
    pub(crate) tcp_flags: u8,
    pub(crate) icmp: Option<Icmp>,
}

const TRUNCATED: Early = Early::Dropped("truncated");
const LENGTH: Early = Early::Dropped("length");

/// Of IPv6, in one packet.
pub(crate) const MOST_EXTENSIONS: usize = 8;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

/// RFC 7126: what is not to be dropped is the end, nothing, and quick start, security of three kinds, router alert.
fn has_good_options(options: &[u8]) -> bool {
    match options {
        [] | [0, ..] => true,
        [1, rest @ ..] => has_good_options(rest),
        [25 | 130 | 133 | 134 | 148, length @ 2..=255, ..] => {
            options.get(usize::from(*length)..).is_some_and(has_good_options)
        }
        _ => false,
    }
}

impl Seen {
    pub(crate) fn read(frame: &[u8]) -> Result<Self, Early> {
        let word = |at: usize| if frame.len() < at + 2 { Err(TRUNCATED) } else { Ok(u16_at(frame, at)) };
        let (mut network, mut kind) = (14, word(12)?);
        for _ in 0..2 {
            if matches!(kind, 0x8100 | 0x88a8) {
                // IEEE 802.1Q: 0 is no VLAN, only a priority.
                if word(network)? & 0xfff != 0 {
                    return Err(Early::Dropped("vlan"));
                }
                kind = word(network + 2)?;
                network += 4;
            }
        }
        let mut seen = match kind {
            0x0800 => Self::ipv4(frame, network)?,
            0x86dd => Self::ipv6(frame, network)?,
            0x0806 => return Err(Early::Up(None)),
            _ => return Err(Early::Dropped("not-ip")),
        };
        if !seen.is_later_part() {
            seen.read_transport(&frame[seen.transport..network + seen.ip_bytes])?;
        }
        Ok(seen)
    }

    /// RFC 791.
    pub(crate) fn ipv4(frame: &[u8], network: usize) -> Result<Self, Early> {
        let ip = &frame[network..];
        if ip.len() < 20 {
            return Err(TRUNCATED);
        }
        let header = usize::from(ip[0] & 15) * 4;
        if ip[0] >> 4 != 4 || header < 20 {
            return Err(Early::Dropped("header"));
        }
        let ip_bytes = usize::from(u16_at(ip, 2));
        if ip_bytes < header || ip_bytes > ip.len() {
            return Err(LENGTH);
        }
        if testkit::packet::checksum(&ip[..header]) != 0 {
            return Err(Early::Dropped("checksum"));
        }
        if !has_good_options(&ip[20..header]) {
            return Err(Early::Dropped("options"));
        }
        let (more, offset) = (ip[6] & 0x20 != 0, usize::from(u16_at(ip, 6) & 0x1fff) * 8);
        if offset > 0 && offset + ip_bytes > 65_535 {
            return Err(LENGTH);
        }
        let address = |at: usize| IpAddr::from(Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]));
        Ok(Self {
            transport: network + header,
            ip_bytes,
            protocol: ip[9],
            part: (more || offset > 0).then_some(Part {
                id: u32::from(u16_at(ip, 4)),
                from: offset,
                to: offset + ip_bytes - header,
                is_last: !more,
            }),
            ..Self::between(network, address(12), address(16), ip[8])
        })
    }

    /// RFC 8200.
    pub(crate) fn ipv6(frame: &[u8], network: usize) -> Result<Self, Early> {
        let ip = &frame[network..];
        if ip.len() < 40 {
            return Err(TRUNCATED);
        }
        if ip[0] >> 4 != 6 {
            return Err(Early::Dropped("header"));
        }
        let ip_bytes = 40 + usize::from(u16_at(ip, 4));
        if ip_bytes > ip.len() {
            return Err(LENGTH);
        }
        let address =
            |at: usize| IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap()));
        let mut seen = Self { ip_bytes, ..Self::between(network, address(8), address(24), ip[7]) };
        let (mut next, mut at, mut fragments) = (ip[6], 40, 0);
        for _ in 0..=MOST_EXTENSIONS {
            if !matches!(next, 0 | 43 | 44 | 60) {
                return Ok(Self { protocol: next, transport: network + at, ..seen });
            }
            let header = ip.get(at..at + 8).ok_or(TRUNCATED)?;
            fragments += usize::from(next == 44);
            if fragments > 1 || (next == 43 && header[3] != 0) {
                return Err(Early::Dropped("extensions"));
            }
            let offset = if next == 44 { usize::from(u16_at(header, 2) & 0xfff8) } else { 0 };
            if next == 44 && u16_at(header, 2) & 0xfff9 != 0 {
                let (id, is_last) = (u32_at(header, 4), header[3] & 1 == 0);
                let to = offset + (ip_bytes - 40).saturating_sub(at - 32);
                seen.part = Some(Part { id, from: offset, to, is_last });
            }
            at += if next == 44 { 8 } else { (usize::from(header[1]) + 1) * 8 };
            next = header[0];
            match offset {
                0 if at > ip_bytes => return Err(LENGTH),
                0 => {}
                // Without its own header and the fragment header, which is not in the whole.
                _ if offset + ip_bytes - 48 > 65_535 => return Err(LENGTH),
                _ => return Ok(Self { protocol: next, transport: network + at, ..seen }),
            }
        }
        Err(Early::Dropped("extensions"))
    }

    fn between(network: usize, source: IpAddr, destination: IpAddr, ttl: u8) -> Self {
        Self {
            network,
            transport: 0,
            ip_bytes: 0,
            source,
            destination,
            protocol: 0,
            ttl,
            part: None,
            ports: (0, 0),
            selector: 0,
            tcp_flags: 0,
            icmp: None,
        }
    }

    pub(crate) fn is_later_part(&self) -> bool {
        self.part.is_some_and(|part| part.from > 0)
    }

    fn read_transport(&mut self, segment: &[u8]) -> Result<(), Early> {
        let least = match (self.protocol, self.source) {
            (6, _) => 20,
            (17, _) | (1, IpAddr::V4(_)) | (58, IpAddr::V6(_)) => 8,
            (132, _) => 12,
            _ => return Ok(()),
        };
        if segment.len() < least {
            return Err(LENGTH);
        }
        match self.protocol {
            6 => self.read_tcp(segment),
            17 => {
                let says = usize::from(u16_at(segment, 4));
                if says < 8 || (says > segment.len() && self.part.is_none()) {
                    return Err(LENGTH);
                }
                self.read_ports(segment)
            }
            132 => self.read_ports(segment),
            _ => self.read_icmp(segment),
        }
    }

    fn read_ports(&mut self, segment: &[u8]) -> Result<(), Early> {
        self.ports = (u16_at(segment, 0), u16_at(segment, 2));
        self.selector = self.ports.1;
        Ok(())
    }

    /// RFC 9293: no sender combines SYN with FIN or RST, sets nothing, or sets everything.
    fn read_tcp(&mut self, segment: &[u8]) -> Result<(), Early> {
        let header = usize::from(segment[12] >> 4) * 4;
        if header < 20 || header > segment.len() {
            return Err(LENGTH);
        }
        self.tcp_flags = segment[13];
        let (syn, ends) = (segment[13] & 2 != 0, segment[13] & 5 != 0);
        if (syn && ends) || matches!(segment[13] & 0x3f, 0 | 0x3f) {
            return Err(Early::Dropped("tcp-flags"));
        }
        self.read_ports(segment)
    }

    /// RFC 792, RFC 4443.
    fn read_icmp(&mut self, message: &[u8]) -> Result<(), Early> {
        let (kind, code, id) = (message[0], message[1], u16_at(message, 4));
        if matches!((self.protocol, kind), (1, 5) | (58, 137)) {
            return Err(Early::Dropped("icmp-redirect"));
        }
        self.selector = u16_at(message, 0);
        let (question, what): (u8, Icmp) = match (self.protocol, kind) {
            (1, 8 | 0) => (8, if kind == 8 { Icmp::Question } else { Icmp::Answer }),
            (1, 13 | 14) => (13, if kind == 13 { Icmp::Question } else { Icmp::Answer }),
            (58, 128 | 129) => (128, if kind == 128 { Icmp::Question } else { Icmp::Answer }),
            (1, 3 | 4 | 11 | 12) | (58, 1..=4) => (0, Icmp::Error),
            (58, 133 | 135 | 136) if self.ttl == 255 => return Err(Early::Up(Some(self.destination))),
            (58, 130..=132 | 143) if self.ttl == 1 => return Err(Early::Up(Some(self.destination))),
            _ => (0, Icmp::Other),
        };
        self.icmp = Some(if question > 0 && code > 0 { Icmp::Other } else { what });
        let asked = u16::from(question) << 8;
        self.ports = match self.icmp {
            Some(Icmp::Question) => (id, asked),
            Some(Icmp::Answer) => (asked, id),
            _ => (0, 0),
        };
        Ok(())
    }
}
