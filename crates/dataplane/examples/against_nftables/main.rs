//! Sends the same packets through nftables and through Rampart under the same policy, and lists where they differ:
//! `cargo run -p dataplane --example against_nftables [SEED] [CONVERSATIONS] [PARTS]`, as root. The packets are the connections of
//! `tests/tcp.txt`, up to where one waits, and random segments around the numbers that a connection expects (part `connections`); random packets
//! of every protocol (`packets`); and random datagrams in random fragments (`fragments`). The latter two are routed, with and without a
//! masquerade, and bridged, at both hooks, and go through Rampart where the kernel forwards (`kernel`).
//! `docs/design/nftables-differences.md` explains what is listed. All run in namespaces of their own; a second run with the same seed sends the
//! same packets.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

#[path = "../../tests/bed/mod.rs"]
mod bed;
mod compare;
mod datagrams;
mod packets;
mod router;
#[path = "../../tests/segment/mod.rs"]
mod segment;
mod segments;
mod whole;

use bed::{Bed, Fate, POLICY, Side};
use compare::{Kinds, difference, ours, print, theirs};
use dataplane::{Filter, Hook, Settings};
use packets::{Conversation, Sent};
use router::{ROUTES, Router, Way};
use segment::{frame, segment};
use segments::written;
use std::fmt::Write as _;
use std::time::Duration;
use whole::{Datagram, Received};

const RANDOM_CONNECTIONS: u64 = 60;
const RANDOM_CONVERSATIONS: u64 = 300;
const PACKETS: usize = 8;
/// Longer than any datagram waits for the rest of it.
const DATAGRAMS_WAIT: Duration = Duration::from_secs(90);
/// Bytes of a frame that are shown.
const SHOWN: usize = 120;
const MASQUERADE: &str = r#"
[[nat]]
name = "lan-out"
from = "inside"
to = "outside"
masquerade = true
"#;
const BRIDGE: &str = "\n[bridges.wire]\ninterfaces = [\"in0\", \"out0\"]\n";
/// Between packets, so that nobody waits for what does not come (`hosts.py`).
const SENTINEL: &str = r#"
[[rules]]
name = "sentinel"
from = "any"
to = "any"
service = "udp/9"
action = "allow"
"#;

fn main() {
    let argument = |n| std::env::args().nth(n).and_then(|word| word.parse().ok());
    let seed: u64 = argument(1).unwrap_or(1);
    let conversations = argument(2).unwrap_or(RANDOM_CONVERSATIONS);
    let parts = std::env::args().nth(3).unwrap_or_else(|| "connections,packets,fragments,kernel".to_owned());
    let is_wanted = |part| parts.split(',').any(|wanted| wanted == part);
    if is_wanted("connections") {
        compare_connections(seed);
    }
    for way in [Way::Routed, Way::Masqueraded, Way::Bridged] {
        if is_wanted("packets") {
            compare_packets(seed, conversations, &mut Ours::hooks(way), way);
        }
        if is_wanted("fragments") {
            compare_datagrams(seed, conversations, &mut Ours::hooks(way), way);
        }
        if is_wanted("kernel") && way != Way::Bridged {
            let mut ours = Ours::Kernel(Box::new(Router::rampart(way)));
            compare_packets(seed, conversations, &mut ours, way);
            if let Ours::Kernel(router) = &ours {
                router.believe_checksums();
            }
            compare_datagrams(seed, conversations, &mut ours, way);
        }
    }
}

fn compare_connections(seed: u64) {
    let mut rampart = Bed::new(Hook::Xdp);
    let mut nftables = Router::nftables(Way::Routed);
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

/// The policy for the way that packets take.
fn policy_of(way: Way) -> String {
    match way {
        Way::Routed => format!("{POLICY}{SENTINEL}"),
        Way::Masqueraded => format!("{POLICY}{SENTINEL}{MASQUERADE}"),
        Way::Bridged => format!("{POLICY}{SENTINEL}{BRIDGE}"),
    }
}

/// A bed that answers what it refuses as the router does.
fn bed(hook: Hook, way: Way) -> Bed {
    let mut bed = Bed::with(hook, &Settings { flows: 4096, rules: 1024 }, &policy_of(way));
    bed.namespace().ip(ROUTES);
    bed.firewall().forget_routes().unwrap();
    for (side, v4, v6) in
        [(Side::In, "198.18.1.1", "2001:2:0:1::1"), (Side::Out, "198.18.2.1", "2001:2:0:2::1")]
    {
        let index = bed.indices()[side as usize];
        bed.firewall().set_own_addresses(index, v4.parse().unwrap(), v6.parse().unwrap()).unwrap();
    }
    bed.firewall_mut().keep_early_until(Duration::from_secs(1 << 30));
    bed
}

/// Rampart at both hooks, or where the kernel forwards.
enum Ours {
    Hooks(Box<[Bed; 2]>),
    Kernel(Box<Router>),
}

/// What came of a frame: the words, what left and the side where it did, and how the hooks differ.
struct Came {
    words: String,
    left: Vec<u8>,
    hooks_differ: Option<String>,
}

impl Ours {
    fn hooks(way: Way) -> Self {
        Ours::Hooks(Box::new([Hook::Xdp, Hook::Tc].map(|hook| bed(hook, way))))
    }

    fn name(&self) -> &'static str {
        match self {
            Ours::Hooks(_) => "hooks",
            Ours::Kernel(_) => "where the kernel forwards",
        }
    }

    fn forget(&mut self) {
        match self {
            Ours::Hooks(beds) => {
                for bed in beds.iter_mut() {
                    for flow in bed.flows(&Filter::default()) {
                        bed.firewall().flows.end(flow.id).unwrap();
                    }
                }
            }
            Ours::Kernel(router) => router.forget(),
        }
    }

    fn send(&mut self, side: Side, frame: &[u8]) -> Came {
        match self {
            Ours::Hooks(beds) => {
                let outcomes = beds.each_mut().map(|bed| bed.send_and_see(side, frame));
                let said = outcomes.each_ref().map(|(fate, left)| ours(*fate, left));
                // A neighbour that is not known is found by the kernel.
                let is_found = said[0] == "up" && said[1] == "pass";
                let hooks_differ = ((said[0] != said[1] && !is_found)
                    || (said[0] == "pass" && outcomes[0].1 != outcomes[1].1))
                    .then(|| format!("XDP {}, TC {}", said[0], said[1]));
                let [(_, left), _] = outcomes;
                let [words, _] = said;
                Came { words, left, hooks_differ }
            }
            Ours::Kernel(router) => {
                let mut seen = router.send(side, frame).about(frame);
                let words = theirs(&seen);
                Came { words, left: seen.far.pop().unwrap_or_default(), hooks_differ: None }
            }
        }
    }
}

fn compare_packets(seed: u64, conversations: u64, rampart: &mut Ours, way: Way) {
    let mut nftables = Router::nftables(way);
    let (mut packets, mut kinds) = (0, Kinds::new());
    for n in 0..conversations {
        rampart.forget();
        nftables.forget();
        let mut conversation = Conversation::new(seed << 32 | n, way == Way::Masqueraded);
        let mut before = Vec::new();
        for _ in 0..PACKETS {
            let Sent { words, side, frame } = conversation.next();
            let came = rampart.send(side, &frame);
            let seen = nftables.send(side, &frame).about(&frame);
            packets += 1;
            let is_up = came.words == "up";
            let differs = came
                .hooks_differ
                .or_else(|| difference(&came.words, &theirs(&seen), &came.left, &seen).filter(|_| !is_up));
            before.push(words.clone());
            if let Some(how) = differs {
                let first = format!("{n}: {}\n          {}", before.join(" | "), shown(&frame));
                kinds.entry(format!("{how}: {words}")).or_insert((0, first)).0 += 1;
                break;
            }
            if came.words == "pass" {
                conversation.leaves(&came.left);
            }
        }
    }
    println!(
        "\n{packets} packets of {conversations} conversations, {way:?}, {}; the first difference of each:",
        rampart.name()
    );
    print(&kinds);
}

fn shown(frame: &[u8]) -> String {
    frame.iter().take(SHOWN).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What each of our hooks, or the kernel, delivered of a case, with what was said about each fragment.
fn deliver(rampart: &mut Ours, case: &[Sent], way: Way) -> Vec<(Received, Vec<String>)> {
    match rampart {
        Ours::Hooks(beds) => beds.each_mut().map(|bed| deliver_by(bed, case, way)).into(),
        Ours::Kernel(router) => {
            let (mut received, mut said) = (Received::by(way), Vec::new());
            for Sent { side, frame, .. } in case {
                let seen = router.send(*side, frame).about(frame);
                said.push(seen.far.len().to_string());
                seen.far.iter().for_each(|frame| received.take(frame));
            }
            vec![(received, said)]
        }
    }
}

fn deliver_by(bed: &mut Bed, case: &[Sent], way: Way) -> (Received, Vec<String>) {
    let (mut received, mut said) = (Received::by(way), Vec::new());
    for Sent { side, frame, .. } in case {
        let mut next = vec![(*side, side.addressed(frame))];
        while !next.is_empty() {
            let (side, frame) = next.remove(0);
            let (fate, left) = bed.send_and_see(side, &frame);
            said.push(fate.words());
            if fate == Fate::Sent {
                received.take(&left);
            }
            let (now, [inside, _]) = (bed.now(), bed.indices());
            let due = bed.firewall_mut().due_fragments(now).unwrap();
            let side_of = |index| if index == inside { Side::In } else { Side::Out };
            next.extend(due.into_iter().map(|(index, frame)| (side_of(index), frame)));
        }
    }
    (received, said)
}

/// What only one of two delivered.
fn only_of(a: &Received, b: &Received) -> Option<Datagram> {
    let is_missing = |(datagram, times): &(&Datagram, &u32)| b.whole.get(*datagram) != Some(*times);
    a.whole.iter().find(is_missing).map(|(datagram, _)| datagram.clone())
}

fn compare_datagrams(seed: u64, cases: u64, rampart: &mut Ours, way: Way) {
    let mut nftables = Router::nftables(way);
    nftables.believe_checksums();
    let (mut fragments, mut delivered, mut kinds) = (0, 0, Kinds::new());
    for n in 0..cases {
        rampart.forget();
        nftables.forget();
        if let Ours::Hooks(beds) = rampart {
            beds.iter_mut().for_each(|bed| bed.pass(DATAGRAMS_WAIT));
        }
        let is_ipv4 = way == Way::Masqueraded || n % 2 == 0;
        // No other datagram of the run has these numbers.
        let (words, case) = datagrams::case(seed << 32 | n, (n as u32 + 1) * 4, is_ipv4);
        let came = deliver(rampart, &case, way);
        let mut theirs = Received::by(way);
        let mut answers = 0;
        for Sent { side, frame, .. } in &case {
            let seen = nftables.send(*side, frame).about(frame);
            seen.far.iter().for_each(|frame| theirs.take(frame));
            answers += seen.near.len();
        }
        fragments += case.len();
        delivered += theirs.whole.len();
        let ours = &came[0].0;
        let how = if came.iter().any(|(received, _)| received.ambiguous > 0) {
            "Rampart leaves what can be read in two ways"
        } else if came.iter().any(|(_, said)| *said != came[0].1) {
            "the hooks differ"
        } else if only_of(ours, &theirs).is_some() && only_of(&theirs, ours).is_some() {
            "both deliver what the other does not"
        } else if only_of(ours, &theirs).is_some() {
            "only Rampart delivers"
        } else if only_of(&theirs, ours).is_some() {
            "only nftables delivers"
        } else {
            continue;
        };
        let family = if is_ipv4 { "IPv4" } else { "IPv6" };
        let parts: Vec<_> = case.iter().map(|sent| sent.words.as_str()).collect();
        let said: Vec<_> = came.iter().map(|(_, said)| said.join(" ")).collect();
        let first = format!(
            "{n}: {}\n          {}\n          {answers} answers of nftables",
            parts.join(" "),
            said.join("\n          ")
        );
        kinds.entry(format!("{how}, {family}: {words}")).or_insert((0, first)).0 += 1;
    }
    println!(
        "\n{fragments} fragments, {way:?}, {}; nftables delivered {delivered} datagrams of {cases} cases; the differences:",
        rampart.name()
    );
    print(&kinds);
}
