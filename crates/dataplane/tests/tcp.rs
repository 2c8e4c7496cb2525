//! TCP connections segment by segment: `tcp.txt`, on all hooks. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, Side};
use dataplane::Hook;
use std::net::IpAddr;
use std::time::Duration;
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
struct Segment {
    side: Side,
    tcp: Tcp,
    ttl: u8,
    sum: Sum,
    /// It is the first part of a segment.
    is_part: bool,
}

/// A line's segment, without what is expected of it.
fn segment(line: &str, port: u16) -> Segment {
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

fn frame(segment: &Segment, v6: bool) -> Vec<u8> {
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

fn run(hook: Hook, v6: bool) {
    let mut bed = Bed::new(hook);
    let mut port = 20_000;
    let mut title = "";
    let mut rows = 0;
    for line in include_str!("tcp.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(words) = line.strip_prefix("== ") {
            (title, port) = (words, port + 1);
            continue;
        }
        if let Some(seconds) = line.strip_prefix("wait ") {
            bed.pass(Duration::from_secs(seconds.parse().unwrap()));
            continue;
        }
        let (given, expected) = line.split_once("->").unwrap();
        let segment = segment(given, port);
        // A kernel that forwards sees to these itself, and asks nobody.
        if hook == Hook::Netfilter && segment.ttl <= 1 {
            continue;
        }
        let fate = bed.send(segment.side, &frame(&segment, v6));
        let seen = format!("{} {}", fate.words(), bed.state(port));
        assert_eq!(seen, expected.trim(), "{title}: {line}");
        rows += 1;
    }
    assert!(rows > 140, "{rows}");
}

#[test]
fn needs_root_segments_by_xdp() {
    run(Hook::Xdp, false);
    run(Hook::Xdp, true);
}

#[test]
fn needs_root_segments_by_tc() {
    run(Hook::Tc, false);
    run(Hook::Tc, true);
}

#[test]
fn needs_root_connections_are_followed_by_netfilter() {
    run(Hook::Netfilter, false);
    run(Hook::Netfilter, true);
}

/// A checksum that somebody behind us may still fill in. In a test run nobody does, and TC sees that; XDP cannot, and lets it pass
/// without closing anything.
#[test]
fn needs_root_what_has_no_checksum_yet_closes_nothing() {
    for (hook, expected) in [(Hook::Xdp, "pass established"), (Hook::Tc, "tcp-checksum established")] {
        let mut bed = Bed::new(hook);
        for (v6, port) in [(false, 20_000), (true, 20_001)] {
            for (line, expected) in [
                ("> S seq=1000 win=65535", "pass syn-sent"),
                ("< SA seq=5000 ack=1001 win=65535", "pass syn-received"),
                ("> A seq=1001 ack=5001 win=65535", "pass established"),
                ("> R seq=1001 win=0 no-sum", expected),
                ("< FA seq=5001 ack=1001 win=65535 len=600 no-sum", expected),
                ("< A seq=5001 ack=1001 win=65535 len=600 no-sum", "pass established"),
            ] {
                let segment = segment(line, port);
                let fate = bed.send(segment.side, &frame(&segment, v6));
                assert_eq!(format!("{} {}", fate.words(), bed.state(port)), expected, "{hook:?}: {line}");
            }
        }
    }
}
