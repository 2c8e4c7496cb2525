//! Frames as text, so that rows can be read; lies and damage included.
//!
//! ```text
//! SOURCE > DESTINATION [TRANSPORT] [WORDS] [about { PACKET }]
//!   TRANSPORT: tcp PORT>PORT FLAGS | udp PORT>PORT | sctp PORT>PORT | icmp TYPE/CODE | protocol=N
//!   of the link: vlan=N,N type=HEX pad=BYTES cut=BYTES to=everybody|group|XX:XX:XX:XX:XX:XX (an Ethernet
//!     address that is not the firewall's; the group is that of the packet's destination)
//!   of IP: ttl=N (64) df id=N offset=BYTES more options=WORDS (that do nothing) options=83.07.04. (bytes) ext=hop,dest,route,source-route,frag
//!   of the transport: seq=N ack=N window=N data=BYTES icmpid=N mtu=N says=BYTES (a UDP length that may lie)
//!   damage: ip.N=HEX (a byte of the IP header), bad-sum (of the transport)
//! ```
//! FLAGS are of SFRPAU, or `-` for none. `about` gives an ICMP error the packet that it quotes, `quote` how much of it.

use super::build::{Frame, Tcp, data, icmp_error, udp};
use super::{FLAGS, checksum_place, complete};
use std::net::IpAddr;

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

/// The identification of IPv4 packets for which a line gives none.
const ID: u32 = 0x1234;

/// The frame that a line describes, from [`super::SENDER`] to [`super::FIREWALL`], with correct checksums unless it asks for others.
pub fn frame(text: &str) -> Vec<u8> {
    let (outer, quoted) = text.split_once(" about {").map_or((text, None), |(o, q)| (o, Some(q)));
    let words = Words(outer.split_whitespace().collect());
    let mut quoted = quoted.map(|text| packet(text.trim().trim_end_matches('}')));
    if let (Some(packet), Some(bytes)) = (&mut quoted, words.number("quote")) {
        packet.truncate(bytes as usize);
    }
    let described = describe(&words, quoted.as_deref());
    let mut frame = described.bytes();
    let network = 14 + 4 * described.tags.len();
    if let Some(kind) = words.value("type") {
        let kind = u16::from_str_radix(kind, 16).unwrap();
        frame[network - 2..network].copy_from_slice(&kind.to_be_bytes());
    }
    if let Some(to) = words.value("to") {
        frame[..6].copy_from_slice(&link_address(to, described.destination));
    }
    damage(&words, &mut frame[network..]);
    frame.resize(frame.len() + words.number("pad").unwrap_or(0) as usize, 0);
    frame.truncate(words.number("cut").unwrap_or(u32::MAX) as usize);
    frame
}

/// The Ethernet address that a word says.
fn link_address(word: &str, destination: IpAddr) -> [u8; 6] {
    match (word, destination) {
        ("everybody", _) => [0xff; 6],
        // RFC 1112 section 6.4, RFC 2464 section 7.
        ("group", IpAddr::V4(v4)) => {
            let [_, b, c, d] = v4.octets();
            [1, 0, 0x5e, b & 0x7f, c, d]
        }
        ("group", IpAddr::V6(v6)) => {
            let [.., a, b, c, d] = v6.octets();
            [0x33, 0x33, a, b, c, d]
        }
        _ => {
            let octets: Vec<u8> =
                word.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
            octets.try_into().unwrap_or_else(|_| panic!("no Ethernet address: {word}"))
        }
    }
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
    frame.options = words.value("options").map_or_else(Vec::new, options);
    let list = |name| words.value(name).into_iter().flat_map(|v| v.split(','));
    frame.tags = list("vlan").map(|tag| tag.parse().unwrap()).collect();
    frame.extensions = list("ext").map(extension).collect();
    let (id, offset, more) = (words.number("id"), words.number("offset"), words.has("more"));
    if frame.source.is_ipv4() || id.is_some() || offset.is_some() || more {
        frame.fragment = Some((id.unwrap_or(ID), offset.unwrap_or(0) as u16, more));
    }
    frame
}

/// IPv4 options: so many words that do nothing, or bytes in hexadecimal with a dot after each.
fn options(text: &str) -> Vec<u8> {
    if text.contains('.') {
        let bytes = text.split('.').filter(|byte| !byte.is_empty());
        return bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    }
    vec![1; 4 * text.parse::<usize>().unwrap_or_else(|_| panic!("options={text}"))]
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
    let length = words.number("data").unwrap_or(0) as usize;
    let number = |name| words.number(name).unwrap_or(0);
    if let Some(ports) = words.pair("tcp", '>') {
        let at = words.0.iter().position(|w| *w == "tcp").unwrap();
        let flag = |c| FLAGS.iter().find(|f| f.0 == c).unwrap_or_else(|| panic!("flag {c}")).1;
        let flags = words.0[at + 2].chars().filter(|c| *c != '-').map(flag).sum();
        let (sequence, acknowledgement) = (number("seq"), number("ack"));
        let window = number("window") as u16;
        let tcp = Tcp { ports, flags, sequence, acknowledgement, window, length, scale: None, nothings: 0 };
        return (6, tcp.bytes());
    }
    if let Some(ports) = words.pair("udp", '>') {
        let mut bytes = udp(ports, length);
        if let Some(says) = words.number("says") {
            bytes[4..6].copy_from_slice(&(says as u16).to_be_bytes());
        }
        return (17, bytes);
    }
    if let Some((from, to)) = words.pair("sctp", '>') {
        let mut bytes = [from.to_be_bytes(), to.to_be_bytes()].concat();
        bytes.resize(12 + length, 0);
        return (132, bytes);
    }
    if let Some((kind, code)) = words.pair("icmp", '/') {
        let protocol = if v6 { 58 } else { 1 };
        let (kind, code) = (kind as u8, code as u8);
        if let Some(quoted) = quoted {
            return (protocol, icmp_error(kind, code, quoted));
        }
        let mut bytes = vec![kind, code, 0, 0];
        bytes.extend((number("icmpid") << 16 | number("mtu")).to_be_bytes());
        bytes.extend(data(length));
        return (protocol, bytes);
    }
    (words.number("protocol").unwrap_or(253) as u8, data(length).collect())
}
