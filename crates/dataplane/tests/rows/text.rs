//! Frames as text, so that rows can be read; lies and damage included.
//!
//! ```text
//! SOURCE > DESTINATION [TRANSPORT] [WORDS] [about { PACKET }]
//!   TRANSPORT: tcp PORT>PORT FLAGS | udp PORT>PORT | sctp PORT>PORT | icmp TYPE/CODE | protocol=N
//!   of the link: vlan=N,N type=HEX pad=BYTES cut=BYTES group (to a group's Ethernet address)
//!   of IP: ttl=N df id=N offset=BYTES more options=WORDS ext=hop,dest,route,source-route,frag
//!   of the transport: seq=N ack=N data=BYTES icmpid=N says=BYTES (a UDP length that may lie)
//!   damage: ip.N=HEX (a byte of the IP header), bad-sum (of the transport)
//! ```
//! FLAGS are of SFRPAU, or `-` for none. `about` gives an ICMP error the packet that it quotes.

use crate::bed::frame::{Frame, Tcp, checksum, icmp, icmp_error, udp};
use std::net::IpAddr;

const FLAGS: [(char, u8); 6] = [('F', 1), ('S', 2), ('R', 4), ('P', 8), ('A', 16), ('U', 32)];

/// The words of a line.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.value(name).map(|v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is no number")))
    }

    /// What stands behind a word, as two numbers.
    fn pair(&self, word: &str, between: char) -> Option<(u16, u16)> {
        let at = self.0.iter().position(|w| *w == word)?;
        let (a, b) = self.0[at + 1].split_once(between).unwrap();
        Some((a.parse().unwrap(), b.parse().unwrap()))
    }
}

/// The frame that a line tells of.
pub(crate) fn frame(text: &str) -> Vec<u8> {
    let (outer, quoted) = text.split_once(" about {").map_or((text, None), |(o, q)| (o, Some(q)));
    let quoted = quoted.map(|text| packet(text.trim().trim_end_matches('}')));
    let words = Words(outer.split_whitespace().collect());
    let described = describe(&words, quoted.as_deref());
    let mut frame = described.bytes();
    let network = 14 + 4 * described.tags.len();
    if let Some(kind) = words.value("type") {
        let kind = u16::from_str_radix(kind, 16).unwrap();
        frame[network - 2..network].copy_from_slice(&kind.to_be_bytes());
    }
    if words.has("group") {
        frame[0] |= 1;
    }
    damage(&words, &mut frame[network..]);
    frame.resize(frame.len() + words.number("pad").unwrap_or(0) as usize, 0);
    frame.truncate(words.number("cut").unwrap_or(u32::MAX) as usize);
    frame
}

/// The IP packet alone.
fn packet(text: &str) -> Vec<u8> {
    frame(text)[14..].to_vec()
}

fn damage(words: &Words<'_>, packet: &mut [u8]) {
    for word in &words.0 {
        if let Some((place, value)) = word.strip_prefix("ip.").and_then(|rest| rest.split_once('=')) {
            packet[place.parse::<usize>().unwrap()] = u8::from_str_radix(value, 16).unwrap();
        }
    }
}

fn describe(words: &Words<'_>, quoted: Option<&[u8]>) -> Frame {
    let arrow = words.0.iter().position(|w| *w == ">").unwrap_or_else(|| panic!("no `>`: {:?}", words.0));
    let (source, destination) = (words.0[arrow - 1], words.0[arrow + 1]);
    let (protocol, mut payload) = transport(words, source.contains(':'), quoted);
    let mut frame = Frame::new(source, destination, protocol, vec![]);
    if words.value("offset").is_none() {
        complete(&mut payload, protocol, frame.source, frame.destination);
        if words.has("bad-sum") {
            let at = checksum_place(protocol).unwrap();
            payload[at] ^= 0x55;
        }
    }
    frame.payload = payload;
    frame.ttl = words.number("ttl").unwrap_or(64) as u8;
    frame.dont_fragment = words.has("df");
    frame.options = vec![1; 4 * words.number("options").unwrap_or(0) as usize];
    let list = |name| words.value(name).into_iter().flat_map(|v| v.split(','));
    frame.tags = list("vlan").map(|tag| tag.parse().unwrap()).collect();
    frame.extensions = list("ext").map(extension).collect();
    if let Some(id) = words.number("id") {
        frame.fragment = Some((id, words.number("offset").unwrap_or(0) as u16, words.has("more")));
    }
    frame
}

/// An extension header: its number, and its bytes behind the first.
fn extension(kind: &str) -> (u8, Vec<u8>) {
    let bytes = |segments_left| vec![0, 0, segments_left, 0, 0, 0, 0];
    match kind {
        "hop" => (0, bytes(0)),
        "dest" => (60, bytes(0)),
        "long" => (60, [&[1][..], &[0; 14]].concat()),
        "route" => (43, bytes(0)),
        "source-route" => (43, bytes(1)),
        "frag" => (44, bytes(0)),
        "beyond" => (60, [&[200][..], &[0; 6]].concat()),
        other => panic!("no extension header: {other}"),
    }
}

/// The protocol's number, its header and its data, without the checksum.
fn transport(words: &Words<'_>, v6: bool, quoted: Option<&[u8]>) -> (u8, Vec<u8>) {
    let data = words.number("data").unwrap_or(0) as usize;
    if let Some(ports) = words.pair("tcp", '>') {
        let at = words.0.iter().position(|w| *w == "tcp").unwrap();
        let flag = |c| FLAGS.iter().find(|f| f.0 == c).unwrap_or_else(|| panic!("flag {c}")).1;
        let flags = words.0[at + 2].chars().filter(|c| *c != '-').map(flag).sum();
        let number = |name| words.number(name).unwrap_or(0);
        let (sequence, acknowledgement) = (number("seq"), number("ack"));
        let tcp = Tcp { ports, flags, sequence, acknowledgement, window: 1000, length: data, scale: None };
        return (6, tcp.bytes());
    }
    if let Some(ports) = words.pair("udp", '>') {
        let mut bytes = udp(ports, data);
        if let Some(says) = words.number("says") {
            bytes[4..6].copy_from_slice(&(says as u16).to_be_bytes());
        }
        return (17, bytes);
    }
    if let Some((from, to)) = words.pair("sctp", '>') {
        let mut bytes = [from.to_be_bytes(), to.to_be_bytes()].concat();
        bytes.resize(12 + data, 0);
        return (132, bytes);
    }
    if let Some((kind, code)) = words.pair("icmp", '/') {
        let protocol = if v6 { 58 } else { 1 };
        let (kind, code) = (kind as u8, code as u8);
        let id = words.number("icmpid").unwrap_or(0) as u16;
        return (protocol, quoted.map_or_else(|| icmp(kind, code, id), |q| icmp_error(kind, code, q)));
    }
    (words.number("protocol").unwrap_or(253) as u8, vec![0; data])
}

fn checksum_place(protocol: u8) -> Option<usize> {
    match protocol {
        1 | 58 => Some(2),
        6 => Some(16),
        17 => Some(6),
        _ => None,
    }
}

/// Fills the transport's checksum in.
fn complete(payload: &mut [u8], protocol: u8, source: IpAddr, destination: IpAddr) {
    let Some(at) = checksum_place(protocol).filter(|at| payload.len() > at + 1) else { return };
    let sum = transport_checksum(payload, protocol, source, destination);
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The checksum of a transport header and what follows, its own place being 0.
pub(crate) fn transport_checksum(payload: &[u8], protocol: u8, source: IpAddr, destination: IpAddr) -> u16 {
    let mut bytes = vec![];
    if protocol != 1 {
        for address in [source, destination] {
            match address {
                IpAddr::V4(v4) => bytes.extend(v4.octets()),
                IpAddr::V6(v6) => bytes.extend(v6.octets()),
            }
        }
        bytes.extend([0, protocol]);
        bytes.extend((payload.len() as u16).to_be_bytes());
    }
    bytes.extend(payload);
    checksum(&bytes)
}
