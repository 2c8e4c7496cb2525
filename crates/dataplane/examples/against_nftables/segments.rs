//! Connections: those of `tests/tcp.txt`, up to where one waits, and random segments around the numbers that a connection expects.

use testkit::random::Random;

const RANDOM_SEGMENTS: u64 = 10;

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
    let mut random = Random::new(seed);
    let mut next = [1001i64, 5001i64];
    let mut lines = vec![
        "> S seq=1000 win=65535".to_owned(),
        "< SA seq=5000 ack=1001 win=65535".to_owned(),
        "> A seq=1001 ack=5001 win=65535".to_owned(),
    ];
    for _ in 0..RANDOM_SEGMENTS {
        let side = random.below(2);
        let kind = KINDS[random.below(10)];
        let mut off = || OFF[random.below(12)];
        let (sequence, acknowledgement) = (next[side] + off(), next[1 - side] + off());
        let length = if kind == "A" { random.below(4) * 300 } else { 0 };
        let acknowledgement = if kind.contains('A') { acknowledgement as u32 } else { 0 };
        lines.push(format!(
            "{} {kind} seq={} ack={acknowledgement} win={} len={length}",
            ["> ", "< "][side],
            sequence as u32,
            [0, 1000, 65535][random.below(3)]
        ));
        if sequence == next[side] {
            next[side] += length as i64 + i64::from(kind.contains('F'));
        }
    }
    (format!("random {seed}"), lines)
}
