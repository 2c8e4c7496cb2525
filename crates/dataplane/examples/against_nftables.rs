//! Sends the same packets through nftables and through Rampart under the same policy, and lists where they differ:
//! `cargo run -p dataplane --example against_nftables [SEED]`, as root. The packets are the connections of `tests/tcp.txt`, up to
//! where one waits, and random segments around the numbers that a connection expects. `docs/design/nftables-differences.md`
//! explains what is listed. Both run in namespaces of their own; a second run with the same seed sends the same packets.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

#[path = "../tests/bed/mod.rs"]
mod bed;

use bed::{Bed, Side};
use dataplane::Hook;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use testkit::namespace::Namespace;
use testkit::packet::{ACK, FIN, Frame, RST, SYN, Tcp};

const SERVER_PORT: u16 = 80;
const RANDOM_CONNECTIONS: u64 = 60;
const RANDOM_SEGMENTS: u64 = 10;

/// The policy of the bed for what is sent here, as its users write it for nftables: strict, as Rampart always is.
const RULES: &str = "table inet rules {
    chain early { type filter hook prerouting priority raw; udp dport 9 notrack; }
    chain forward {
        type filter hook forward priority 0; policy drop;
        udp dport 9 accept
        ct state invalid drop
        ct state established,related accept
        iifname in0 oifname out0 accept
        iifname out0 oifname in0 tcp dport 80 accept
    }
}";

/// A router with nftables, and the hosts on both sides of it.
struct Nftables {
    hosts: Child,
    answers: BufReader<ChildStdout>,
    _namespaces: [Namespace; 2],
}

impl Nftables {
    fn new() -> Self {
        let (router, far) = (Namespace::create("router"), Namespace::create("hosts"));
        router.ip(&format!(
            "link add in0 address 02:00:00:00:01:01 type veth peer name far0 netns {0}
             link add out0 address 02:00:00:00:02:01 type veth peer name far1 netns {0}
             link set in0 up
             link set out0 up
             address add 198.18.1.1/24 dev in0
             address add 198.18.2.1/24 dev out0
             neighbour add 198.18.1.2 lladdr 02:00:00:00:01:02 dev in0
             neighbour add 198.18.2.2 lladdr 02:00:00:00:02:02 dev out0",
            far.name()
        ));
        far.ip("link set far0 address 02:00:00:00:01:02 up\nlink set far1 address 02:00:00:00:02:02 up");
        router.set(&[("ipv4/ip_forward", "1")]);
        router.run("nft", &[RULES]);
        router.set(&[
            ("netfilter/nf_conntrack_tcp_loose", "0"),
            ("netfilter/nf_conntrack_tcp_be_liberal", "0"),
        ]);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/against_nftables.py");
        let mut command = Command::new("python3");
        command.args([script, "far0", "far1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hosts = far.within(|| command.spawn()).unwrap();
        let answers = BufReader::new(hosts.stdout.take().unwrap());
        Self { hosts, answers, _namespaces: [router, far] }
    }

    /// Whether a frame came out at the other side.
    fn passes(&mut self, side: Side, frame: &[u8]) -> bool {
        let (from, to, own) = match side {
            Side::In => ("far0", "far1", 1),
            Side::Out => ("far1", "far0", 2),
        };
        let mut frame = frame.to_vec();
        frame[..6].copy_from_slice(&[2, 0, 0, 0, own, 1]);
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.hosts.stdin.as_mut().unwrap(), "{from} {to} {hex}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().parse::<u32>().expect("the hosts' answer") > 0
    }
}

impl Drop for Nftables {
    fn drop(&mut self) {
        drop(self.hosts.stdin.take());
        let _ = self.hosts.wait();
    }
}

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
fn segment(line: &str, port: u16) -> (Side, Vec<u8>) {
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
fn written() -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    let mut waits = false;
    for line in
        include_str!("../tests/tcp.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
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

/// Numbers of a seed (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % below
    }
}

/// An open connection and then segments of which some fit.
fn random(seed: u64) -> (String, Vec<String>) {
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

fn main() {
    let seed: u64 = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut rampart = Bed::new(Hook::Xdp);
    let mut nftables = Nftables::new();
    let mut connections = written();
    connections.extend((0..RANDOM_CONNECTIONS).map(|i| random(seed * RANDOM_CONNECTIONS + i)));
    let (mut packets, mut kinds) = (0, BTreeMap::<String, u32>::new());
    for (port, (title, lines)) in (20_000..).zip(&connections) {
        for line in lines {
            let (side, frame) = segment(line, port);
            let state = rampart.state(port);
            let (ours, theirs) = (rampart.send(side, &frame).words(), nftables.passes(side, &frame));
            packets += 1;
            if (ours == "pass") == theirs {
                continue;
            }
            let theirs = if theirs { "pass" } else { "drop" };
            println!("{title}: {line}\n    Rampart ({state}): {ours}; nftables: {theirs}");
            let kind = line.split_whitespace().nth(1).unwrap();
            *kinds.entry(format!("{kind:2} in {state}: Rampart {ours}, nftables {theirs}")).or_default() += 1;
            // From here on each follows a connection of its own.
            break;
        }
    }
    println!("\n{packets} packets of {} connections; the first difference of each:", connections.len());
    for (kind, count) in &kinds {
        println!("{count:4}  {kind}");
    }
}
