//! TCP connections segment by segment: `tcp.txt`, on both hooks. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, Side};
use dataplane::Hook;
use std::time::Duration;
use testkit::packet::{ACK, FIN, Frame, RST, SYN, Tcp};

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

/// A line's direction and segment, without what is expected of it.
fn segment(line: &str, port: u16) -> (Side, Tcp) {
    let mut words = line.split_whitespace();
    let side = if words.next().unwrap() == ">" { Side::In } else { Side::Out };
    let ports = if side == Side::In { (port, SERVER_PORT) } else { (SERVER_PORT, port) };
    let mut tcp = Tcp { ports, flags: flags(words.next().unwrap()), ..Tcp::default() };
    for word in words {
        let (key, value) = word.split_once('=').unwrap();
        match key {
            "seq" => tcp.sequence = value.parse().unwrap(),
            "ack" => tcp.acknowledgement = value.parse().unwrap(),
            "win" => tcp.window = value.parse().unwrap(),
            "len" => tcp.length = value.parse().unwrap(),
            "scale" => tcp.scale = Some(value.parse().unwrap()),
            other => panic!("{other}: {line}"),
        }
    }
    (side, tcp)
}

fn frame(side: Side, tcp: &Tcp, v6: bool) -> Vec<u8> {
    let (client, server) = if v6 { ("2001:2:0:1::2", "2001:2:0:2::2") } else { ("198.18.1.2", "198.18.2.2") };
    let (source, destination) = if side == Side::In { (client, server) } else { (server, client) };
    Frame::new(source, destination, 6, tcp.bytes()).bytes()
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
        let (side, tcp) = segment(given, port);
        let fate = bed.send(side, &frame(side, &tcp, v6));
        let seen = format!("{} {}", fate.words(), bed.state(port));
        assert_eq!(seen, expected.trim(), "{title}: {line}");
        rows += 1;
    }
    assert!(rows > 140, "{rows}");
}

#[test]
fn needs_root_segments_by_xdp() {
    run(Hook::Xdp, false);
}

#[test]
fn needs_root_segments_by_tc_over_ipv6() {
    run(Hook::Tc, true);
}
