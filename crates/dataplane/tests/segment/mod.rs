//! Segments as `tests/tcp.txt` writes them.

use crate::bed::Side;
use std::net::IpAddr;
use testkit::packet::{ACK, FIN, Frame, RST, SYN, Tcp, checksum};

const SERVER_PORT: u16 = 80;

fn flags(text: &str) -> u8 {
    let flag = |c| match c {
        'S' => SYN,
        'A' => ACK,
        'F' => FIN,
        'R' => RST,
        '.' => 0,
        other => panic!("flag {other}"),
    };
    text.chars().map(flag).sum()
}

/// What a checksum says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sum {
    Right,
    Wrong,
    /// What the kernel leaves there for whoever fills it in: the sum of the pseudo header.
    Unfilled,
}

/// A segment, and what is not in its TCP header.
pub(crate) struct Segment {
    pub(crate) side: Side,
    tcp: Tcp,
    pub(crate) ttl: u8,
    sum: Sum,
    /// It is the first part of a segment.
    is_part: bool,
}

/// A line's segment, without what is expected of it.
pub(crate) fn segment(line: &str, port: u16) -> Segment {
    let mut words = line.split_whitespace();
    let side = if words.next().unwrap() == ">" { Side::In } else { Side::Out };
    let ports = if side == Side::In { (port, SERVER_PORT) } else { (SERVER_PORT, port) };
    let tcp = Tcp { ports, flags: flags(words.next().unwrap()), ..Tcp::default() };
    let mut segment = Segment { side, tcp, ttl: 64, sum: Sum::Right, is_part: false };
    let tcp = &mut segment.tcp;
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "ttl" => segment.ttl = value.parse().unwrap(),
            "bad-sum" => segment.sum = Sum::Wrong,
            "no-sum" => segment.sum = Sum::Unfilled,
            "part" => segment.is_part = true,
            "seq" => tcp.sequence = value.parse().unwrap(),
            "ack" => tcp.acknowledgement = value.parse().unwrap(),
            "win" => tcp.window = value.parse().unwrap(),
            "len" => tcp.length = value.parse().unwrap(),
            "scale" => tcp.scale = Some(value.parse().unwrap()),
            "nothings" => tcp.nothings = value.parse().unwrap(),
            other => panic!("{other}: {line}"),
        }
    }
    segment
}

/// The frame of a segment, IPv4 or IPv6.
pub(crate) fn frame(segment: &Segment, v6: bool) -> Vec<u8> {
    let (client, server) = if v6 { ("2001:2:0:1::2", "2001:2:0:2::2") } else { ("198.18.1.2", "198.18.2.2") };
    let (source, destination) = if segment.side == Side::In { (client, server) } else { (server, client) };
    let mut frame = Frame::new(source, destination, 6, segment.tcp.bytes()).completed();
    frame.ttl = segment.ttl;
    // Each of a datagram of its own.
    let id = segment.tcp.sequence ^ segment.tcp.length as u32;
    frame.fragment = segment.is_part.then_some((id & 0xffff, 0, true));
    match segment.sum {
        Sum::Right => {}
        Sum::Wrong => frame.payload[17] ^= 0x55,
        Sum::Unfilled => {
            let sum = pseudo_sum(&frame);
            frame.payload[16..18].copy_from_slice(&sum.to_be_bytes());
        }
    }
    frame.bytes()
}

/// The sum of a packet's addresses, protocol and length (RFC 9293 section 3.1).
fn pseudo_sum(frame: &Frame) -> u16 {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let rest = [&[0, frame.protocol][..], &(frame.payload.len() as u16).to_be_bytes()].concat();
    !checksum(&[octets(frame.source), octets(frame.destination), rest].concat())
}
