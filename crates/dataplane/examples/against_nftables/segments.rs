//! Connections: those of `tests/tcp.txt`, up to where one waits, and random segments around the numbers that a connection expects.

use crate::bed::Side;
use crate::random::Random;
use testkit::packet::{ACK, FIN, Frame, RST, SYN, Tcp};

const SERVER_PORT: u16 = 80;
const RANDOM_SEGMENTS: u64 = 10;

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

/// A line as in `tests/tcp.txt`.
pub(crate) fn segment(line: &str, port: u16) -> (Side, Vec<u8>) {
    let mut words = line.split_whitespace();
    let side = if words.next().unwrap() == ">" { Side::In } else { Side::Out };
    let (ports, ends) = match side {
        Side::In => ((port, SERVER_PORT), ("198.18.1.2", "198.18.2.2")),
        Side::Out => ((SERVER_PORT, port), ("198.18.2.2", "198.18.1.2")),
    };
    let mut tcp = Tcp { ports, flags: flags(words.next().unwrap()), ..Tcp::default() };
    let (mut ttl, mut is_wrong, mut is_part) = (64, false, false);
    for (key, value) in words.map(|word| word.split_once('=').unwrap_or((word, ""))) {
        match key {
            "ttl" => ttl = value.parse().unwrap(),
            "bad-sum" => is_wrong = true,
            "part" => is_part = true,
            "seq" => tcp.sequence = value.parse().unwrap(),
            "ack" => tcp.acknowledgement = value.parse().unwrap(),
            "win" => tcp.window = value.parse().unwrap(),
            "len" => tcp.length = value.parse().unwrap(),
            "scale" => tcp.scale = Some(value.parse().unwrap()),
            "nothings" => tcp.nothings = value.parse().unwrap(),
            other => panic!("{other}: {line}"),
        }
    }
    let mut frame = Frame::new(ends.0, ends.1, 6, tcp.bytes()).completed();
    frame.ttl = ttl;
    // Each of a datagram of its own.
    frame.fragment = is_part.then_some(((tcp.sequence ^ tcp.length as u32) & 0xffff, 0, true));
    frame.payload[17] ^= if is_wrong { 0x55 } else { 0 };
    (side, frame.bytes())
}

/// Title and lines of each connection of the file, up to where it waits: nftables does not jump in time.
pub(crate) fn written() -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    let mut waits = false;
    for line in
        include_str!("../../tests/tcp.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(title) = line.strip_prefix("== ") {
            all.push((title.to_owned(), Vec::new()));
            waits = false;
        } else if line.starts_with("wait ") {
            waits = true;
        } else if !waits {
            all.last_mut().unwrap().1.push(line.split("->").next().unwrap().trim().to_owned());
        }
    }
    all
}

/// An open connection and then segments of which some fit.
pub(crate) fn random(seed: u64) -> (String, Vec<String>) {
    const KINDS: [&str; 10] = ["A", "A", "A", "A", "FA", "R", "RA", "S", "SA", "A"];
    const OFF: [i64; 12] = [0, 0, 0, 0, 1, -1, 500, -500, 60_000, -70_000, 200_000, 1 << 30];
    let mut random = Random(seed);
    let mut next = [1001i64, 5001i64];
    let mut lines = vec![
        "> S seq=1000 win=65535".to_owned(),
        "< SA seq=5000 ack=1001 win=65535".to_owned(),
        "> A seq=1001 ack=5001 win=65535".to_owned(),
    ];
    for _ in 0..RANDOM_SEGMENTS {
        let side = random.next(2) as usize;
        let kind = KINDS[random.next(10) as usize];
        let mut off = || OFF[random.next(12) as usize];
        let (sequence, acknowledgement) = (next[side] + off(), next[1 - side] + off());
        let length = if kind == "A" { random.next(4) * 300 } else { 0 };
        let acknowledgement = if kind.contains('A') { acknowledgement as u32 } else { 0 };
        lines.push(format!(
            "{} {kind} seq={} ack={acknowledgement} win={} len={length}",
            ["> ", "< "][side],
            sequence as u32,
            [0, 1000, 65535][random.next(3) as usize]
        ));
        if sequence == next[side] {
            next[side] += length as i64 + i64::from(kind.contains('F'));
        }
    }
    (format!("random {seed}"), lines)
}
