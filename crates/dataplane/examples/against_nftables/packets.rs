//! Random packets of every protocol between a host inside and one outside: what opens a flow, what answers it, errors about it, the same
//! again, each damaged in up to two ways. Pure: the caller says what left the firewall.

use crate::bed::Side;
use std::net::IpAddr;
use testkit::packet::{Frame, Tcp, checksum, complete, icmp, icmp_error, udp};
use testkit::random::Random;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Where the header of a packet begins in a frame.
const NETWORK: usize = 14;
/// Options of IPv4: nothing, router alert, a label, record route, a source route, time stamps, one that nobody knows, damaged.
const OPTIONS: [&[u8]; 8] = [
    &[1, 1, 1, 1],
    &[148, 4, 0, 0],
    &[134, 6, 0, 0, 0, 1, 0, 0],
    &[7, 7, 4, 0, 0, 0, 0, 0],
    &[131, 7, 4, 198, 51, 100, 1, 0],
    &[68, 8, 5, 0, 0, 0, 0, 0],
    &[255, 4, 0, 0],
    &[148, 9, 0, 0],
];
/// Extension headers of IPv6, by number, with what is behind the first byte.
const EXTENSIONS: [(&str, u8, &[u8]); 14] = [
    ("hop", 0, &[0, 1, 4, 0, 0, 0, 0]),
    ("hop, router alert", 0, &[0, 5, 2, 0, 0, 1, 0]),
    ("hop, jumbo", 0, &[0, 0xc2, 4, 0, 1, 0, 0]),
    ("hop, discard if unknown", 0, &[0, 0x7e, 4, 0, 0, 0, 0]),
    ("dest", 60, &[0, 1, 4, 0, 0, 0, 0]),
    ("dest, tunnel limit", 60, &[0, 4, 1, 4, 1, 1, 0]),
    ("home address", 60, &[2, 1, 2, 0, 0, 0xc9, 16, 0x20, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9]),
    ("route 0, none left", 43, &[0, 0, 0, 0, 0, 0, 0]),
    ("route 0, one left", 43, &[2, 0, 1, 0, 0, 0, 0, 0x20, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9]),
    ("route 2, one left", 43, &[2, 2, 1, 0, 0, 0, 0, 0x20, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9]),
    ("route 4, none left", 43, &[0, 4, 0, 0, 0, 0, 0]),
    ("atomic fragment", 44, &[0, 0, 0, 1, 2, 3, 4]),
    ("mobility", 135, &[0, 0, 0, 0, 0, 0, 0]),
    ("shim6", 140, &[0, 0, 0, 0, 0, 0, 0]),
];
/// Tags of VLANs, before the type of a frame.
const TAGS: [(&str, &[u8]); 5] = [
    ("priority tag", &[0x81, 0, 0xa0, 0]),
    ("two priority tags", &[0x88, 0xa8, 0xa0, 0, 0x81, 0, 0xa0, 0]),
    ("three priority tags", &[0x88, 0xa8, 0, 0, 0x81, 0, 0, 0, 0x81, 0, 0, 0]),
    ("VLAN 7", &[0x81, 0, 0, 7]),
    ("VLAN 7 behind a priority", &[0x88, 0xa8, 0, 0, 0x81, 0, 0, 7]),
];
/// Addresses that few hosts have, as source or destination.
const ODD_IPV4: [&str; 18] = [
    "0.0.0.0",
    "0.1.2.3",
    "127.0.0.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "169.254.1.1",
    "192.0.2.1",
    "100.64.0.1",
    "198.18.1.0",
    "198.18.1.255",
    "198.18.2.0",
    "198.18.2.255",
    "198.18.1.1",
    "198.18.2.1",
    "192.88.99.1",
    "10.0.0.1",
];
const ODD_IPV6: [&str; 17] = [
    "::",
    "::1",
    "::198.18.2.2",
    "::ffff:198.18.2.2",
    "64:ff9b::198.18.2.2",
    "2002:c612:202::1",
    "fe80::9",
    "fec0::1",
    "fd00::1",
    "ff01::1",
    "ff02::1",
    "ff05::2",
    "ff0e::9",
    "2001:2:0:1::1",
    "2001:2:0:2::1",
    "2001:2:0:2::",
    "2001:db8::1",
];

/// Of a frame on the beds' links.
const LONGEST: usize = NETWORK + 2000;
/// Beyond a route that takes 1,400 bytes.
const NARROW: (&str, &str) = ("192.0.2.9", "2001:2:0:5::9");

/// A packet and what it is.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) words: String,
    pub(crate) side: Side,
    pub(crate) frame: Vec<u8>,
}

/// Packets that belong together.
#[derive(Debug)]
pub(crate) struct Conversation {
    random: Random,
    is_ipv4: bool,
    /// Of who opens flows.
    port: u16,
    /// What was sent, and from which side.
    sent: Vec<Sent>,
    /// What left, at the side where it left.
    left: Vec<(Side, Vec<u8>)>,
}

const fn other(side: Side) -> Side {
    match side {
        Side::In => Side::Out,
        Side::Out => Side::In,
    }
}

impl Conversation {
    pub(crate) fn new(seed: u64, is_translated: bool) -> Self {
        let mut random = Random::new(seed);
        let is_ipv4 = is_translated || random.below(2) == 0;
        let port = 20_000 + random.below(20_000) as u16;
        Self { random, is_ipv4, port, sent: Vec::new(), left: Vec::new() }
    }

    /// Says what left of the last packet.
    pub(crate) fn leaves(&mut self, frame: &[u8]) {
        if let Some(last) = self.sent.last() {
            self.left.push((other(last.side), frame.to_vec()));
        }
    }

    /// The next packet, which is no longer than the links take.
    pub(crate) fn next(&mut self) -> Sent {
        loop {
            let sent = self.any();
            if sent.frame.len() <= LONGEST {
                self.sent.push(sent.clone());
                return sent;
            }
        }
    }

    fn any(&mut self) -> Sent {
        let choice = if self.left.is_empty() { self.random.below(2) } else { 1 + self.random.below(9) };
        let (words, side, mut frame) = match choice {
            0 | 1 => self.opens(),
            2..=5 => self.answers(),
            6..=8 => self.errs(),
            _ => self.again(),
        };
        let mut words = vec![words];
        for _ in 0..[0, 0, 1, 1, 1, 2][self.random.below(6)] {
            words.extend(self.damage(&mut frame));
        }
        if self.random.is_one_in(20) {
            let (name, tags) = TAGS[self.random.below(TAGS.len())];
            frame.splice(12..12, tags.iter().copied());
            words.push(name.to_owned());
        }
        Sent { words: words.join(", "), side, frame }
    }

    fn ends(&self, side: Side) -> (&'static str, &'static str) {
        let ends =
            if self.is_ipv4 { ("198.18.1.2", "198.18.2.2") } else { ("2001:2:0:1::2", "2001:2:0:2::2") };
        if side == Side::In { ends } else { (ends.1, ends.0) }
    }

    /// A packet that may open a flow; from outside too.
    fn opens(&mut self) -> (String, Side, Vec<u8>) {
        let side = if self.random.below(5) == 0 { Side::Out } else { Side::In };
        let port = [22, 53, 80, 0, 65535][self.random.below(5)];
        let ports = (self.port + self.random.below(2) as u16, port);
        let length = [0, 1, 18, 100, 1400, 1952][self.random.below(6)];
        let tcp = |flags| Tcp {
            ports,
            flags,
            sequence: 1000,
            window: 65535,
            scale: Some(7),
            length: 0,
            ..Tcp::default()
        };
        let echo = if self.is_ipv4 { (1, 8) } else { (58, 128) };
        let (name, protocol, payload) = match self.random.below(11) {
            0 | 1 => (format!("udp {port} {length}"), UDP, udp(ports, length)),
            2 => (format!("udp-lite {port}"), 136, udp(ports, 8)),
            3 | 4 => ("syn".to_owned(), TCP, tcp(2).bytes()),
            5 => ("syn, data".to_owned(), TCP, Tcp { length: 33, ..tcp(2) }.bytes()),
            6 => ("echo".to_owned(), echo.0, icmp(echo.1, 0, ports.0)),
            7 if self.is_ipv4 => ("time stamp".to_owned(), 1, icmp(13, 0, ports.0)),
            8 => ("sctp init".to_owned(), 132, sctp(ports)),
            9 => ("gre".to_owned(), 47, vec![0x20, 0, 8, 0, 0, 0, 0, 7, 1, 2, 3, 4]),
            _ => {
                let protocol = [50, 51, 4, 41, 2, 33, 89, 103, 112, 253, 255, 59][self.random.below(12)];
                (
                    format!("protocol {protocol}"),
                    protocol,
                    vec![0, 1, 0, 2, 0, 0, 0, 9, 0x45, 0, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8],
                )
            }
        };
        let (source, mut destination) = self.ends(side);
        if side == Side::In && self.random.below(6) == 0 {
            destination = if self.is_ipv4 { NARROW.0 } else { NARROW.1 };
        }
        let mut frame = Frame::new(source, destination, protocol, payload);
        sum_up(&mut frame.payload, protocol, frame.source, frame.destination);
        (name, side, frame.bytes())
    }

    /// What the other end would say, by the packet that it got.
    fn answers(&mut self) -> (String, Side, Vec<u8>) {
        let (side, frame) = self.left[self.random.below(self.left.len())].clone();
        let Some(packet) = Read::of(&frame) else { return self.opens() };
        let mut payload = frame[packet.transport..packet.end].to_vec();
        if matches!(packet.protocol, TCP | UDP | 132 | 136) && payload.len() >= 4 {
            let [a, b, c, d] = payload[..4].try_into().unwrap();
            payload[..4].copy_from_slice(&[c, d, a, b]);
        }
        let mut name = format!("answer {}", packet.protocol);
        match (packet.protocol, payload.first().copied()) {
            (TCP, _) if payload.len() >= 20 => name += &self.tcp_answer(&mut payload),
            (1, Some(8 | 13)) => payload[0] = if payload[0] == 8 { 0 } else { 14 },
            (58, Some(128)) => payload[0] = 129,
            // INIT-ACK, to the tag of the INIT.
            (132, _) if payload.len() > 12 => {
                payload[12] = if payload[12] == 1 { 2 } else { 6 };
                payload[7] = 7;
            }
            _ => {}
        }
        sum_up(&mut payload, packet.protocol, packet.destination, packet.source);
        let frame = Frame { payload, ..Frame::between(packet.destination, packet.source, packet.protocol) };
        (name, side, frame.bytes())
    }

    /// The next segment of a connection, or something near to it.
    fn tcp_answer(&mut self, segment: &mut Vec<u8>) -> String {
        let number = |at: usize| u32::from_be_bytes(segment[at..at + 4].try_into().unwrap());
        let (sequence, acknowledgement, flags) = (number(4), number(8), segment[13]);
        let length = segment.len() - usize::from(segment[12] >> 4) * 4;
        let next = sequence.wrapping_add(length as u32 + u32::from(flags & 3 != 0));
        let (mut kind, own) = match flags & 0x12 {
            2 => (0x12, 5000),
            _ => (0x10, acknowledgement),
        };
        let mut name = String::new();
        if self.random.below(3) == 0 {
            kind = [0x10, 0x11, 0x14, 0x04, 0x02, 0x12, 0x18, 0x38, 0x50, 0xd0][self.random.below(10)];
        }
        name += &format!(" flags {kind:02x}");
        segment[4..8].copy_from_slice(&own.to_be_bytes());
        segment[8..12].copy_from_slice(&next.to_be_bytes());
        segment[13] = kind;
        let header = if kind & 2 != 0 { 32.min(segment.len()) } else { 20 };
        segment.truncate(header);
        segment[12] = (header as u8 / 4) << 4;
        if kind & 2 == 0 && kind & 4 == 0 && self.random.below(2) == 0 {
            segment.extend([b'x'; 50]);
            name += " data";
        }
        name
    }

    /// An ICMP error about a packet, as who got it would quote it.
    fn errs(&mut self) -> (String, Side, Vec<u8>) {
        let (side, frame) = self.left[self.random.below(self.left.len())].clone();
        let Some(packet) = Read::of(&frame) else { return self.opens() };
        let mut quote = frame[NETWORK..packet.end].to_vec();
        let kinds: &[(u8, u8)] = if self.is_ipv4 {
            &[
                (3, 0),
                (3, 1),
                (3, 3),
                (3, 4),
                (3, 13),
                (3, 16),
                (4, 0),
                (11, 0),
                (11, 1),
                (12, 0),
                (12, 2),
                (5, 1),
                (3, 2),
            ]
        } else {
            &[(1, 0), (1, 4), (2, 0), (3, 0), (3, 1), (4, 0), (4, 2), (1, 7), (2, 1), (100, 0), (137, 0)]
        };
        let (kind, code) = kinds[self.random.below(kinds.len())];
        let mut name = format!("error {kind}/{code} about {}", packet.protocol);
        let header = packet.transport - NETWORK;
        match self.random.below(8) {
            0 => {
                quote.truncate(header + 8);
                name += ", 8 bytes";
            }
            1 => {
                quote.truncate(header + self.random.below(8));
                name += ", short";
            }
            2 if quote.len() > header + 3 => {
                quote[header + 3] ^= 1;
                name += ", other port";
            }
            3 if quote.len() > header + 7 && packet.protocol == TCP => {
                quote[header + 5] ^= 0x80;
                name += ", other number";
            }
            4 => {
                quote[if self.is_ipv4 { 8 } else { 7 }] = 1;
                name += ", its last hop";
            }
            5 => {
                quote[if self.is_ipv4 { 10 } else { 1 }] ^= 0x15;
                name += ", wrong header";
            }
            _ => {}
        }
        let router = match (self.is_ipv4, side) {
            (true, Side::Out) => "198.51.100.1",
            (true, Side::In) => "198.18.1.9",
            (false, Side::Out) => "2001:2:0:2::9",
            (false, Side::In) => "2001:2:0:1::9",
        };
        let source = if self.random.below(2) == 0 { packet.destination } else { router.parse().unwrap() };
        let protocol = if self.is_ipv4 { 1 } else { 58 };
        let mut payload = icmp_error(kind, code, &quote);
        let mtu = [0u32, 1, 67, 68, 1279, 1280, 1400, 65535][self.random.below(8)];
        if (self.is_ipv4 && (kind, code) == (3, 4)) || (!self.is_ipv4 && kind == 2) {
            payload[4..8].copy_from_slice(&mtu.to_be_bytes());
            name += &format!(", mtu {mtu}");
        }
        let frame = Frame { payload, ..Frame::between(source, packet.source, protocol) }.completed();
        (name, side, frame.bytes())
    }

    fn again(&mut self) -> (String, Side, Vec<u8>) {
        let sent = self.sent[self.random.below(self.sent.len())].clone();
        (format!("again ({})", sent.words), sent.side, sent.frame)
    }

    /// Changes a frame in one way, and says in which.
    fn damage(&mut self, frame: &mut Vec<u8>) -> Option<String> {
        let random = &mut self.random;
        let packet = Read::of(frame)?;
        let (network, transport) = (NETWORK, packet.transport);
        let header = network..transport;
        let v4 = packet.source.is_ipv4();
        let mut is_sum_kept = false;
        let name = match random.below(22) {
            0 if v4 => {
                frame[network + 1] = random.below(256) as u8;
                "tos".to_owned()
            }
            0 => {
                frame[network] = 0x60 | random.below(16) as u8;
                frame[network + 1] = random.below(256) as u8;
                frame[network + 3] = 9;
                "class and flow".to_owned()
            }
            1 | 2 => {
                let hops = [0, 1, 2, 255][random.below(4)];
                frame[network + if v4 { 8 } else { 7 }] = hops;
                format!("hops {hops}")
            }
            3 if v4 => {
                let flags = [0x80, 0x40, 0xc0][random.below(3)];
                frame[network + 6] |= flags;
                frame[network + 4..network + 6].copy_from_slice(&[random.below(256) as u8, 0]);
                format!("flags {flags:x}")
            }
            4 | 5 if v4 && transport == network + 20 => {
                let options = OPTIONS[random.below(8)];
                frame.splice(transport..transport, options.iter().copied());
                frame[network] += (options.len() / 4) as u8;
                add_length(frame, network + 2, options.len() as i32);
                format!("option {}", options[0])
            }
            3..=6 if !v4 => {
                let (name, number, rest) = EXTENSIONS[random.below(14)];
                let next = frame[network + 6];
                frame[network + 6] = number;
                let at = network + 40;
                frame.splice(at..at, std::iter::once(next).chain(rest.iter().copied()));
                add_length(frame, network + 4, rest.len() as i32 + 1);
                name.to_owned()
            }
            7 => {
                let by = [-1, 1, -8, 8, 1000][random.below(5)];
                add_length(frame, network + if v4 { 2 } else { 4 }, by);
                format!("ip length {by:+}")
            }
            8 if v4 => {
                frame[network + 10] ^= 0x55;
                is_sum_kept = true;
                "wrong ip checksum".to_owned()
            }
            9 if packet.sum_at.is_some_and(|at| at < frame.len()) => {
                frame[packet.sum_at?] ^= 0x55;
                "wrong checksum".to_owned()
            }
            10 if packet.protocol == UDP => {
                frame[transport + 6..transport + 8].fill(0);
                "no checksum".to_owned()
            }
            11 if matches!(packet.protocol, UDP | 136) => {
                let by = [-1, 1, -8, 8, 100][random.below(5)];
                add_length(frame, transport + 4, by);
                repair_transport(frame, &packet);
                format!("udp length {by:+}")
            }
            12 if packet.protocol == TCP && frame.len() > transport + 20 => {
                let words = random.below(16) as u8;
                frame[transport + 12] = words << 4 | random.below(16) as u8;
                repair_transport(frame, &packet);
                format!("data offset {words}")
            }
            13 if packet.protocol == TCP && frame.len() > transport + 20 => {
                let flags = random.below(256) as u8;
                frame[transport + 13] = flags;
                repair_transport(frame, &packet);
                format!("flags {flags:02x}")
            }
            14 | 15 => {
                let list: &[&str] = if v4 { &ODD_IPV4 } else { &ODD_IPV6 };
                let address = list[random.below(list.len())];
                let is_source = random.below(2) == 0;
                let at = network
                    + if v4 { 12 } else { 8 }
                    + if is_source {
                        0
                    } else if v4 {
                        4
                    } else {
                        16
                    };
                match address.parse().unwrap() {
                    IpAddr::V4(v4) => frame[at..at + 4].copy_from_slice(&v4.octets()),
                    IpAddr::V6(v6) => frame[at..at + 16].copy_from_slice(&v6.octets()),
                }
                let changed = Read::of(frame)?;
                repair_transport(frame, &changed);
                format!("{} {address}", if is_source { "from" } else { "to" })
            }
            16 => {
                let (name, to): (_, [u8; 6]) = [
                    ("everybody", [0xff; 6]),
                    ("another machine", [2, 0, 0, 0, 9, 9]),
                    ("a group", [1, 0, 0x5e, 1, 1, 1]),
                    ("a group of v6", [0x33, 0x33, 0, 0, 0, 1]),
                ][random.below(4)];
                frame[..6].copy_from_slice(&to);
                format!("to {name}")
            }
            17 => {
                frame.extend(std::iter::repeat_n(0xee, 1 + random.below(40)));
                "padding".to_owned()
            }
            18 => {
                // A test run of TC takes no less than a header.
                let least = network + if v4 { 20 } else { 40 };
                frame.truncate(least + random.below(frame.len().saturating_sub(least) + 1));
                "cut".to_owned()
            }
            19 if matches!(packet.protocol, 1 | 58) => {
                frame[transport] = random.below(256) as u8;
                frame[transport + 1] = random.below(3) as u8;
                repair_transport(frame, &packet);
                format!("type {}/{}", frame[transport], frame[transport + 1])
            }
            20 if transport + 4 < frame.len() => {
                let at = transport + random.below(4);
                frame[at] = [0, 255, 80][random.below(3)];
                repair_transport(frame, &packet);
                format!("byte {} of transport", at - transport)
            }
            _ => {
                let at = header.start + random.below(header.len());
                frame[at] = [0, 1, 4, 5, 17, 40, 0x45, 0x60, 255][random.below(9)];
                if let Some(changed) = Read::of(frame) {
                    repair_transport(frame, &changed);
                }
                format!("byte {} {:02x}", at - header.start, frame[at])
            }
        };
        if !is_sum_kept {
            repair_header(frame);
        }
        Some(name)
    }
}

/// An INIT chunk behind SCTP's header.
fn sctp(ports: (u16, u16)) -> Vec<u8> {
    let mut bytes = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    bytes.extend([0; 8]);
    bytes.extend([1, 0, 0, 20, 0, 0, 0, 7, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9]);
    bytes
}

fn add_length(frame: &mut [u8], at: usize, by: i32) {
    let Some(place) = frame.get_mut(at..at + 2) else { return };
    let length = i32::from(u16::from_be_bytes([place[0], place[1]])) + by;
    place.copy_from_slice(&(length as u16).to_be_bytes());
}

/// What is needed to change a packet: its ends, and where its transport header is.
struct Read {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    transport: usize,
    end: usize,
    sum_at: Option<usize>,
}

impl Read {
    /// Of an undamaged packet with any headers.
    fn of(frame: &[u8]) -> Option<Self> {
        let v4 = frame.get(NETWORK)? >> 4 == 4;
        let (mut transport, mut protocol, end) = if v4 {
            let header = usize::from(frame[NETWORK] & 15) * 4;
            (NETWORK + header, *frame.get(NETWORK + 9)?, NETWORK + word(frame, NETWORK + 2)?)
        } else {
            (NETWORK + 40, *frame.get(NETWORK + 6)?, NETWORK + 40 + word(frame, NETWORK + 4)?)
        };
        while !v4 && matches!(protocol, 0 | 43 | 44 | 60) {
            let units = if protocol == 44 { 0 } else { usize::from(*frame.get(transport + 1)?) };
            protocol = *frame.get(transport)?;
            transport += (units + 1) * 8;
        }
        let octets = |at: usize, n: usize| frame.get(at..at + n);
        let address = |at: usize| match v4 {
            true => Some(IpAddr::from(<[u8; 4]>::try_from(octets(at, 4)?).ok()?)),
            false => Some(IpAddr::from(<[u8; 16]>::try_from(octets(at, 16)?).ok()?)),
        };
        let (first, second) = if v4 { (12, 16) } else { (8, 24) };
        let place = match protocol {
            1 | 58 => Some(2),
            6 => Some(16),
            17 | 136 => Some(6),
            _ => None,
        };
        (transport <= end && end <= frame.len()).then_some(())?;
        Some(Self {
            source: address(NETWORK + first)?,
            destination: address(NETWORK + second)?,
            protocol,
            transport,
            end,
            sum_at: place.map(|place| transport + place),
        })
    }
}

fn word(frame: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?)))
}

fn repair_transport(frame: &mut [u8], packet: &Read) {
    let Some(part) = frame.get_mut(packet.transport..packet.end) else { return };
    sum_up(part, packet.protocol, packet.source, packet.destination);
}

/// The checksum of a transport header, of SCTP too (RFC 9260 appendix A).
pub(crate) fn sum_up(payload: &mut [u8], protocol: u8, source: IpAddr, destination: IpAddr) {
    match protocol {
        132 if payload.len() >= 12 => {
            payload[8..12].fill(0);
            let sum = payload.iter().fold(u32::MAX, |sum, byte| {
                (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                    sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
                })
            });
            payload[8..12].copy_from_slice(&(!sum).to_le_bytes());
        }
        _ => complete(payload, protocol, source, destination),
    }
}

fn repair_header(frame: &mut [u8]) {
    let header = usize::from(frame[NETWORK] & 15) * 4;
    if frame[NETWORK] >> 4 == 4 && header >= 20 && frame.len() >= NETWORK + header {
        frame[24..26].fill(0);
        let check = checksum(&frame[NETWORK..NETWORK + header]);
        frame[24..26].copy_from_slice(&check.to_be_bytes());
    }
}
