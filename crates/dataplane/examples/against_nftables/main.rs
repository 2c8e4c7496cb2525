//! Sends the same packets through nftables and through Rampart under the same policy, and lists where they differ:
//! `cargo run -p dataplane --example against_nftables [SEED] [CONVERSATIONS]`, as root. The packets are the connections of `tests/tcp.txt`,
//! up to where one waits, random segments around the numbers that a connection expects, and random packets of every protocol, with and
//! without a masquerade, at both hooks. `docs/design/nftables-differences.md` explains what is listed. Both run in namespaces of their
//! own; a second run with the same seed sends the same packets.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

#[path = "../../tests/bed/mod.rs"]
mod bed;
mod packets;
mod router;
#[path = "../../tests/segment/mod.rs"]
mod segment;
mod segments;

use bed::{Bed, Fate, POLICY, Side};
use dataplane::{Filter, Hook, Settings};
use packets::{Conversation, Sent};
use router::{Nftables, ROUTES, Seen};
use segment::{frame, segment};
use segments::written;
use std::collections::BTreeMap;

const RANDOM_CONNECTIONS: u64 = 60;
const RANDOM_CONVERSATIONS: u64 = 300;
const PACKETS: usize = 8;
const MASQUERADE: &str = r#"
[[nat]]
name = "lan-out"
from = "inside"
to = "outside"
masquerade = true
"#;

/// How often something happened, and the first time.
type Kinds = BTreeMap<String, (u32, String)>;

fn main() {
    let argument = |n| std::env::args().nth(n).and_then(|word| word.parse().ok());
    let seed: u64 = argument(1).unwrap_or(1);
    let conversations = argument(2).unwrap_or(RANDOM_CONVERSATIONS);
    compare_connections(seed);
    for is_translated in [false, true] {
        compare_packets(seed, conversations, is_translated);
    }
}

fn compare_connections(seed: u64) {
    let mut rampart = Bed::new(Hook::Xdp);
    let mut nftables = Nftables::new(false);
    let mut connections = written();
    connections.extend((0..RANDOM_CONNECTIONS).map(|i| segments::random(seed * RANDOM_CONNECTIONS + i)));
    let (mut packets, mut kinds) = (0, Kinds::new());
    for (port, (title, lines)) in (20_000..).zip(&connections) {
        for line in lines {
            let segment = segment(line, port);
            let (side, frame) = (segment.side, frame(&segment, false));
            let state = rampart.state(port);
            let (ours, theirs) = (rampart.send(side, &frame).words(), nftables.passes(side, &frame));
            packets += 1;
            if (ours == "pass") == theirs {
                continue;
            }
            let theirs = if theirs { "pass" } else { "drop" };
            let kind = line.split_whitespace().nth(1).unwrap();
            let kind = format!("{kind:2} in {state}: Rampart {ours}, nftables {theirs}");
            kinds.entry(kind).or_insert((0, format!("{title}: {line}"))).0 += 1;
            // From here on each follows a connection of its own.
            break;
        }
    }
    println!("\n{packets} packets of {} connections; the first difference of each:", connections.len());
    print(&kinds);
}

fn print(kinds: &Kinds) {
    for (kind, (count, first)) in kinds {
        println!("{count:4}  {kind}\n          {first}");
    }
}

/// An IP packet without what fills its frame up.
fn packet_of(frame: &[u8]) -> &[u8] {
    let field =
        |at: usize| frame.get(at..at + 2).map_or(0, |b| usize::from(u16::from_be_bytes([b[0], b[1]])));
    let bytes = if frame.get(14).is_some_and(|first| first >> 4 == 4) { field(16) } else { 40 + field(18) };
    frame.get(14..14 + bytes).unwrap_or_default()
}

/// What nftables did, in the words of a fate.
fn theirs(seen: &Seen) -> String {
    match (&seen.far[..], &seen.near[..]) {
        ([], []) => "drop".to_owned(),
        ([], answers) => format!("drop, {}", answer(&answers[0])),
        ([_], _) => "pass".to_owned(),
        _ => "cut".to_owned(),
    }
}

/// What kind of packet came back.
fn answer(frame: &[u8]) -> String {
    match (frame.get(14).map(|first| first >> 4), frame.get(23), frame.get(20)) {
        (Some(4), Some(1), _) => format!("icmp {}/{}", frame[34], frame[35]),
        (Some(6), _, Some(58)) => format!("icmp {}/{}", frame[54], frame[55]),
        (Some(4), Some(6), _) | (Some(6), _, Some(6)) => "reset".to_owned(),
        _ => "something".to_owned(),
    }
}

fn ours(fate: Fate, frame: &[u8]) -> String {
    match fate {
        Fate::Answered(reason) => format!("{}, {}", reason.name(), answer(frame)),
        fate => fate.words(),
    }
}

/// How two outcomes differ, if they do.
fn difference(ours: &str, theirs: &str, left: &[u8], seen: &Seen) -> Option<String> {
    let passes = |words: &str| words == "pass" || words == "cut";
    if passes(ours) != passes(theirs) {
        return Some(format!("Rampart {ours}, nftables {theirs}"));
    }
    if ours == "pass" && theirs == "pass" {
        let (a, b) = (packet_of(left), packet_of(&seen.far[0]));
        if a.len() != b.len() {
            return Some(format!("Rampart leaves {} bytes, nftables {}", a.len(), b.len()));
        }
        let places: Vec<_> = (0..a.len()).filter(|at| a[*at] != b[*at]).collect();
        return (!places.is_empty()).then(|| format!("other bytes: {:?}", &places[..places.len().min(6)]));
    }
    let answered = |words: &str| words.split_once(", ").map(|(_, answer)| answer.to_owned());
    (answered(ours) != answered(theirs)).then(|| format!("Rampart {ours}, nftables {theirs}"))
}

fn forget(bed: &Bed, router: &Nftables) {
    for flow in bed.flows(&Filter::default()) {
        bed.firewall().flows.end(flow.id).unwrap();
    }
    router.forget();
}

/// A bed that answers what it refuses as the router does.
fn bed(hook: Hook, is_translated: bool) -> Bed {
    let more = if is_translated { MASQUERADE } else { "" };
    let bed = Bed::with(hook, &Settings { flows: 4096, rules: 1024 }, &format!("{POLICY}{more}"));
    bed.namespace().ip(ROUTES);
    bed.firewall().forget_routes().unwrap();
    for (side, v4, v6) in
        [(Side::In, "198.18.1.1", "2001:2:0:1::1"), (Side::Out, "198.18.2.1", "2001:2:0:2::1")]
    {
        let index = bed.indices()[side as usize];
        bed.firewall().set_own_addresses(index, v4.parse().unwrap(), v6.parse().unwrap()).unwrap();
    }
    bed
}

fn compare_packets(seed: u64, conversations: u64, is_translated: bool) {
    let mut beds = [Hook::Xdp, Hook::Tc].map(|hook| bed(hook, is_translated));
    let mut nftables = Nftables::new(is_translated);
    let (mut packets, mut kinds) = (0, Kinds::new());
    for n in 0..conversations {
        forget(&beds[0], &nftables);
        forget(&beds[1], &nftables);
        let mut conversation = Conversation::new(seed << 32 | n, is_translated);
        let mut before = Vec::new();
        for _ in 0..PACKETS {
            let Sent { words, side, frame } = conversation.next();
            let outcomes = beds.each_mut().map(|bed| bed.send_and_see(side, &frame));
            let seen = nftables.send(side, &frame).about(&frame);
            packets += 1;
            let said = outcomes.each_ref().map(|(fate, left)| ours(*fate, left));
            let theirs = theirs(&seen);
            let is_found = said[0] == "up" && said[1] == "pass";
            let hooks_differ = ((said[0] != said[1] && !is_found)
                || (said[0] == "pass" && outcomes[0].1 != outcomes[1].1))
                .then(|| format!("XDP {}, TC {}", said[0], said[1]));
            // A neighbour that is not known is found by the kernel.
            let is_up = said[0] == "up";
            let differs = hooks_differ
                .or_else(|| difference(&said[0], &theirs, &outcomes[0].1, &seen).filter(|_| !is_up));
            before.push(words.clone());
            if let Some(how) = differs {
                let hex: String = frame.iter().take(120).map(|byte| format!("{byte:02x}")).collect();
                let first = format!("{n}: {}\n          {hex}", before.join(" | "));
                kinds.entry(format!("{how}: {words}")).or_insert((0, first)).0 += 1;
                break;
            }
            if said[0] == "pass" {
                conversation.leaves(&outcomes[0].1);
            }
        }
    }
    let how = if is_translated { ", with a masquerade" } else { "" };
    println!("\n{packets} packets of {conversations} conversations{how}; the first difference of each:");
    print(&kinds);
}
