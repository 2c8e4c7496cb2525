//! Translated packets, byte by byte: `nat/nat.txt` on both hooks; what a pool does when it is used up; and what ends with a flow.
//! Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
#[path = "nat/reference.rs"]
mod reference;

use bed::{Bed, Fate, Side};
use dataplane::{Filter, Hook, Reason, Settings};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

const POLICY: &str = include_str!("nat/nat.toml");
const ROWS: &str = include_str!("nat/nat.txt");
const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];

/// The bed with the hosts of the rows, and each interface's own address.
fn bed(hook: Hook) -> Bed {
    let bed = Bed::with(hook, &Settings { flows: 4096, rules: 1024 }, POLICY);
    for host in [8, 9, 11, 12, 66, 67, 68, 69, 70] {
        bed.namespace().ip(&format!("neighbour add 198.18.1.{host} lladdr 02:00:00:00:01:02 dev in0"));
    }
    let none = "::".parse().unwrap();
    for (side, address) in [(Side::In, "198.18.1.1"), (Side::Out, "198.18.2.1")] {
        let index = bed.indices()[side as usize];
        bed.firewall().set_own_addresses(index, address.parse().unwrap(), none).unwrap();
    }
    bed
}

fn frame(text: &str) -> Vec<u8> {
    let window = if text.contains("window=") { "" } else { "window=1000 " };
    testkit::packet::frame(&format!("{window}{text}"))
}

/// The same frame one hop further.
fn forwarded(text: &str) -> Vec<u8> {
    let (outer, about) = text.split_once(" about").unwrap_or((text, ""));
    let about = if about.is_empty() { String::new() } else { format!(" about{about}") };
    frame(&format!("ttl=63 {outer}{about}"))
}

/// What became of a frame, in the words of a row: `expected` says whether the frame behind it is compared.
fn differs(bed: &mut Bed, from: &str, text: &str, expected: &str) -> Option<String> {
    let side = if from == "in" { Side::In } else { Side::Out };
    let (fate, left) = bed.send_and_see(side, &frame(text));
    let (word, wanted) = expected.split_once(' ').unwrap_or((expected, ""));
    let is_right = match (word, fate) {
        ("in" | "out", Fate::Sent) => {
            let neighbour = if word == "in" { 1 } else { 2 };
            left[..6] == [2, 0, 0, 0, neighbour, 2] && left[14..] == forwarded(wanted)[14..]
        }
        ("up", Fate::Up) => left[14..] == frame(wanted)[14..],
        (_, Fate::Sent | Fate::Up | Fate::Cut) => false,
        _ => fate.words() == word && (wanted.is_empty() || left[14..] == frame(wanted)[14..]),
    };
    let shown = || match fate {
        Fate::Sent | Fate::Up | Fate::Answered(_) => {
            format!("{} {left:02x?}", fate.words())
        }
        _ => fate.words(),
    };
    (!is_right).then(|| format!("{:?}: {text}\n  is {}\n not {expected}", bed.hook(), shown()))
}

fn forget_flows(bed: &Bed) {
    for flow in bed.flows(&Filter::default()) {
        assert!(bed.firewall().flows.end(flow.id).unwrap());
    }
}

#[test]
fn needs_root_every_row_leaves_as_it_says() {
    for hook in HOOKS {
        let mut bed = bed(hook);
        let (mut wrong, mut count, mut met) = (Vec::new(), 0, BTreeSet::new());
        for line in ROWS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if line.starts_with("==") {
                forget_flows(&bed);
                continue;
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, from, text, expected] = cells[..] else { panic!("four cells: {line}") };
            wrong.extend(differs(&mut bed, from, text, expected));
            met.insert(expected.split(' ').next().unwrap());
            count += 1;
        }
        assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
        assert!(count >= 75 && met.contains("nat-exhausted") && met.contains("untranslatable"));
        forget_flows(&bed);
        assert_eq!(bed.firewall().flows.half_open() + bed.firewall().flows.unanswered(), 0);
    }
}

/// Opens a flow of UDP from a host inside, whose port is one of the pool's; what became of it, and the port that it has outside.
fn open(bed: &mut Bed, host: u8, port: u16) -> Result<u16, Fate> {
    let text = format!("198.18.1.{host} > 198.18.2.2 udp {port}>9");
    match bed.send_and_see(Side::In, &frame(&text)) {
        (Fate::Sent, left) => Ok(u16::from_be_bytes([left[34], left[35]])),
        (fate, _) => Err(fate),
    }
}

/// RFC 4787 REQ-2: a host has one address of a pool, whatever it talks to; hosts share the addresses.
#[test]
fn needs_root_a_host_keeps_its_address_of_a_pool() {
    for hook in HOOKS {
        let mut bed = bed(hook);
        let pool = "source_to = \"192.0.2.16\"\nports = \"40000-40003\"\n";
        assert!(POLICY.contains(pool));
        bed.apply(&POLICY.replace(pool, "source_to = \"192.0.2.16-192.0.2.19\"\n"));
        let mut used = BTreeSet::new();
        for host in 64..128 {
            let mut address = |port: u16| {
                let text = format!("198.18.1.{host} > 198.18.2.2 udp {port}>9");
                let (fate, left) = bed.send_and_see(Side::In, &frame(&text));
                assert_eq!(fate, Fate::Sent, "{hook:?}, {text}");
                Ipv4Addr::from(*left[26..].first_chunk::<4>().unwrap())
            };
            let first = address(1_000);
            assert!((1_001..1_004).all(|port| address(port) == first), "{hook:?}, host {host}");
            used.insert(first);
        }
        // That 64 hosts have two addresses of four happens once in 2^60 times.
        assert!(
            used.len() >= 3 && used.iter().all(|address| (16..20).contains(&address.octets()[3])),
            "{used:?}"
        );
    }
}

#[test]
fn needs_root_a_pool_gives_each_port_once_and_again_when_its_flow_is_over() {
    for hook in HOOKS {
        let mut bed = bed(hook);
        let mut taken = BTreeSet::new();
        for (host, port) in [(66, 40_001), (67, 40_001), (68, 40_001), (69, 40_001), (70, 40_001), (66, 5)] {
            match open(&mut bed, host, port) {
                Ok(outside) => {
                    assert!((40_000..=40_003).contains(&outside), "{outside}");
                    assert!(taken.insert(outside), "{outside} is given twice");
                }
                Err(fate) => assert_eq!(fate, Fate::Dropped(Reason::NatExhausted)),
            }
        }
        assert!(taken.contains(&40_001) && taken.len() >= 2, "{taken:?}");
        let answers = taken.iter().map(|port| format!("198.18.2.2 > 192.0.2.16 udp 9>{port}"));
        for answer in answers.collect::<Vec<_>>() {
            let (fate, left) = bed.send_and_see(Side::Out, &frame(&answer));
            assert_eq!((fate, left[33]), (Fate::Sent, left[33]), "{answer}");
            assert!((66..=70).contains(&left[33]), "{answer}: to {}", left[33]);
        }
        let flows = bed.flows(&Filter::default());
        assert_eq!(flows.len(), taken.len());
        assert!(flows.iter().all(|flow| flow.aliases.0.is_some() && flow.aliases.1.is_none()), "{flows:?}");
        bed.pass(Duration::from_secs(3_600));
        assert_eq!(bed.firewall().flows.sweep().unwrap() as usize, taken.len());
        assert_eq!(open(&mut bed, 70, 40_001), Ok(40_001), "free again");
        assert_eq!(bed.firewall().flows.unanswered(), 1);
    }
}

/// The policy of the rows with a pool of so many ports, and nothing else about sources.
fn with_pool(ports: &str) -> String {
    POLICY.replace("ports = \"40000-40003\"", &format!("ports = \"{ports}\""))
}

#[test]
fn needs_root_one_source_does_not_use_a_pool_up() {
    let settings = Settings { flows: 4096, rules: 64 };
    let mut bed = Bed::with(Hook::Tc, &settings, &with_pool("40000-40399"));
    let opened = (0..4_000).filter(|port| open(&mut bed, 66, 39_000 + port).is_ok()).count();
    // Its own ports up to a quarter, and a quarter of the ports at a place of its own.
    assert!((100..=220).contains(&opened), "{opened} of 400");
    let others = (0..40).filter(|port| open(&mut bed, 67, 50_000 + port).is_ok()).count();
    assert!(others >= 30, "{others} of 40 flows of another host, after a host that wants all");
}

#[test]
fn needs_root_a_masquerade_ends_with_its_address_and_a_pool_does_not() {
    for hook in HOOKS {
        let mut bed = bed(hook);
        assert_eq!(bed.send(Side::In, &frame("198.18.1.2 > 198.18.2.2 udp 5>9")), Fate::Sent);
        assert!(open(&mut bed, 66, 40_000).is_ok());
        assert_eq!(bed.firewall().flows.sweep().unwrap(), 0, "both addresses are there");
        bed.firewall().remove_local_address("198.18.2.1".parse().unwrap()).unwrap();
        assert_eq!(bed.firewall().flows.sweep().unwrap(), 1, "the address of an interface");
        let left = bed.flows(&Filter::default());
        assert!(left.len() == 1 && left[0].initiator.0.to_string() == "198.18.1.66", "{left:?}");
    }
}

/// What has the ends of a translated flow as they are outside cannot be opened beside it, and the other way round.
#[test]
fn needs_root_a_translated_flow_and_a_plain_one_never_have_the_same_ends_outside() {
    for hook in HOOKS {
        let mut bed = bed(hook);
        // The firewall forwards for a host that has the alias as its own address: it is there first.
        bed.apply(&POLICY.replace("source_to = \"192.0.2.16\"", "source_to = \"198.18.1.12\""));
        bed.namespace().ip("route add 192.0.2.16 via 198.18.1.2");
        let exempt = POLICY
            .replace("source_to = \"192.0.2.16\"", "source_to = \"198.18.1.12\"")
            .replace("destination = \"198.51.100.128/25\"", "source = \"198.18.1.12\"");
        bed.apply(&exempt);
        assert_eq!(bed.send(Side::In, &frame("198.18.1.12 > 198.18.2.2 udp 40001>9")), Fate::Sent);
        let outside = open(&mut bed, 66, 40_001).unwrap();
        assert_ne!(outside, 40_001, "somebody has it");
        assert_eq!(
            bed.send(Side::In, &frame(&format!("198.18.1.12 > 198.18.2.2 udp {outside}>9"))),
            Fate::Dropped(Reason::Contended),
            "the translated flow has it"
        );
        let (fate, left) = bed.send_and_see(Side::Out, &frame("198.18.2.2 > 198.18.1.12 udp 9>40001"));
        assert_eq!((fate, left[33]), (Fate::Sent, 12), "each gets its own");
        let answer = format!("198.18.2.2 > 198.18.1.12 udp 9>{outside}");
        let (fate, left) = bed.send_and_see(Side::Out, &frame(&answer));
        assert_eq!((fate, left[33]), (Fate::Sent, 66), "each gets its own");
    }
}
