//! Each first packet of a flow is translated and judged as `policy` says, which is what `rampart explain` goes by: all sources, destinations
//! and services of the rows with one another, and messages of ICMP that are no query.

use super::{HOOKS, POLICY, PREFIX_POLICY, bed_under, forget_flows};
use crate::bed::{Bed, Fate, Side};
use dataplane::Reason;
use policy::Policy;
use policy::interpret::{Decider, Packet, decide};
use policy::model::{Action, SELF, ZoneId};
use policy::translation::SourceTranslation;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use testkit::packet::{Frame, Tcp, icmp, udp};

const SOURCES: [(Side, &[&str]); 2] = [
    (Side::In, &["198.18.1.2", "198.18.1.8", "198.18.1.11", "198.18.1.12", "198.18.1.66"]),
    (Side::Out, &["198.18.2.2", "198.51.100.7", "198.51.100.9"]),
];
const DESTINATIONS: [&str; 9] = [
    "198.18.1.1",
    "198.18.1.2",
    "198.18.1.9",
    "198.18.2.1",
    "198.18.2.2",
    "192.0.2.9",
    "198.51.100.1",
    "198.51.100.127",
    "198.51.100.128",
];
/// Under the policy of prefixes: names outside and addresses inside, of both pairs, some without the other one.
const PREFIX_SOURCES: [(Side, &[&str]); 2] = [
    (
        Side::In,
        &[
            "fd01:203:405:1::2",
            "fd01:203:405:1::99",
            "fd01:203:405:ffff::2",
            "fd02:0:0:7::1",
            "fd02:0:0:7:ffff:ffff:ffff:ffff",
            "fd03::2",
            "2001:2:0:1::2",
            "2001:db8:1:d550::2",
        ],
    ),
    (Side::Out, &["2001:2:0:2::2", "2001:db8:ff:80::1", "2001:db8:1:d550::3"]),
];
const PREFIX_DESTINATIONS: [&str; 12] = [
    "2001:2:0:2::1",
    "2001:2:0:2::2",
    "2001:2:0:1::2",
    "2001:db8:ff:80::1",
    "2001:db8:ff:81::1",
    "2001:db8:1:d550::2",
    "2001:db8:1:d551::9",
    "2001:db8:1:d550::99",
    "2001:db8:1:d54f::1",
    "2001:db8:2:1:cf4d::1",
    "fd01:203:405:1::2",
    "2001:db8:9::1",
];
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
/// Protocols, each with ports or with types and codes; errors of ICMP are about a packet, and have rows of their own.
const SERVICES: [(u8, &[u16]); 5] = [
    (TCP, &[22, 23, 79, 80, 2222, 8080]),
    (UDP, &[53, 79, 5000]),
    (ICMP, &[0x0000, 0x0800, 0x0801, 0x0900, 0x0d00, 0x0e00, 0x0e01, 0x0f00, 0x1100, 0x2800]),
    (132, &[80]),
    (47, &[0]),
];
const ICMPV6: u8 = 58;
const PREFIX_SERVICES: [(u8, &[u16]); 5] = [
    (TCP, &[22, 23, 79, 80]),
    (UDP, &[53, 79, 5000]),
    (ICMPV6, &[0x8000, 0x8100, 0x8c00]),
    (132, &[80]),
    (47, &[0]),
];
const PORT: u16 = 40_001;

/// Where the bed's routes lead.
fn zone_of(policy: &Policy, address: IpAddr) -> ZoneId {
    let name = match address.to_string().as_str() {
        "198.18.1.1" | "198.18.2.1" | "2001:2:0:1::1" | "2001:2:0:2::1" => return SELF,
        "fd01:203:405::1" | "2001:db8:1:d550::99" => return SELF,
        text if ["198.18.1.", "2001:2:0:1:", "fd0", "2001:db8:1:"].iter().any(|it| text.starts_with(it)) => {
            "inside"
        }
        _ => "outside",
    };
    policy.zone(name).unwrap()
}

fn frame(packet: &Packet) -> Vec<u8> {
    let ports = (packet.source_port, packet.selector);
    let payload = match packet.protocol {
        TCP => Tcp { ports, flags: 2, sequence: 1, window: 1024, ..Tcp::default() }.bytes(),
        UDP => udp(ports, 8),
        ICMP | ICMPV6 => icmp((packet.selector >> 8) as u8, packet.selector as u8, 7),
        132 => [ports.0.to_be_bytes(), ports.1.to_be_bytes(), [0; 2], [0; 2], [0; 2], [0; 2]].concat(),
        _ => vec![0; 8],
    };
    Frame { payload, ..Frame::between(packet.source, packet.destination, packet.protocol) }
        .completed()
        .bytes()
}

/// What `policy` decides about a packet: the name of its fate, the packet after its destination is translated, and the first and last source that it
/// may leave with.
fn expected(policy: &Policy, asked: &Packet) -> (String, Packet, (IpAddr, IpAddr)) {
    let mut packet = *asked;
    if let Some((_, Some(new))) = policy.translate_destination(asked) {
        packet.destination = new.address;
        packet.selector = new.port.unwrap_or(packet.selector);
    }
    packet.to = zone_of(policy, packet.destination);
    let own = packet.source;
    let verdict = decide(policy, &packet, jiff::Timestamp::UNIX_EPOCH);
    let by_default = verdict.decider == Decider::Default;
    let refused = match verdict.action {
        Action::Allow => None,
        action => Some(format!("{}-{}", if by_default { "default" } else { "rule" }, action.name())),
    };
    let translation = policy.translate_source(&packet, Some(asked)).and_then(|(_, translation)| translation);
    let sources = match translation {
        None | Some(SourceTranslation::Untranslatable) => (own, own),
        Some(SourceTranslation::Interface) => {
            let is_inside = Some(packet.to) == policy.zone("inside");
            let address: IpAddr = if is_inside { "198.18.1.1" } else { "198.18.2.1" }.parse().unwrap();
            (address, address)
        }
        Some(SourceTranslation::OneOf(first, last)) => (first.into(), last.into()),
        Some(SourceTranslation::Address(address)) => (address, address),
    };
    let to = packet.destination.to_string();
    let is_nowhere =
        ["192.0.2.", "2001:db8:9:", "2001:db8:2:", "2001:db8:3:"].iter().any(|it| to.starts_with(it));
    let fate = match (refused, translation) {
        _ if packet.answers_query() => Reason::IcmpUnasked.name().to_owned(),
        _ if is_nowhere => Reason::NoRoute.name().to_owned(),
        (Some(refused), _) => refused,
        (None, Some(SourceTranslation::Untranslatable)) => Reason::Untranslatable.name().to_owned(),
        (None, _) if packet.to == SELF => "up".to_owned(),
        (None, _) => "pass".to_owned(),
    };
    (fate, packet, sources)
}

/// Source, destination and destination port of a frame.
fn ends_of(frame: &[u8], is_ipv4: bool) -> (IpAddr, IpAddr, u16) {
    let v4 = |at: usize| Ipv4Addr::from(*frame[at..].first_chunk::<4>().unwrap()).into();
    let v6 = |at: usize| Ipv6Addr::from(*frame[at..].first_chunk::<16>().unwrap()).into();
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    if is_ipv4 { (v4(26), v4(30), port(36)) } else { (v6(22), v6(38), port(56)) }
}

/// What is not as the policy says of a packet.
fn differs(bed: &mut Bed, policy: &Policy, side: Side, asked: &Packet) -> (String, Option<String>) {
    let (word, packet, sources) = expected(policy, asked);
    let (fate, left) = bed.send_and_see(side, &frame(asked));
    let mut is_right = fate.words().trim_end_matches('!') == word;
    if is_right && matches!(fate, Fate::Sent | Fate::Up) {
        let (source, destination, port) = ends_of(&left, packet.source.is_ipv4());
        is_right = (sources.0..=sources.1).contains(&source)
            && destination == packet.destination
            && (!matches!(packet.protocol, TCP | UDP) || port == packet.selector);
    }
    let wrong = || {
        format!(
            "{:?}: {asked:?}\n  is {} {left:02x?}\n not {word} {packet:?} {sources:?}",
            bed.hook(),
            fate.words()
        )
    };
    (word.clone(), (!is_right).then(wrong))
}

type Sources = [(Side, &'static [&'static str]); 2];
type Services = [(u8, &'static [u16]); 5];

/// Sends all sources, destinations and services with one another; returns how often each fate was met.
fn compare(text: &str, sources: Sources, destinations: &[&str], services: Services) -> BTreeMap<String, u32> {
    let policy = Policy::parse("nat.toml", text).unwrap();
    let mut met = BTreeMap::new();
    for hook in HOOKS {
        let mut bed = bed_under(hook, text);
        let mut wrong = Vec::new();
        for (side, sources) in sources {
            let from = policy.zone(if side == Side::In { "inside" } else { "outside" }).unwrap();
            for (source, destination) in
                sources.iter().flat_map(|source| destinations.iter().map(move |to| (source, to)))
            {
                let (source, destination): (IpAddr, IpAddr) =
                    (source.parse().unwrap(), destination.parse().unwrap());
                // That is `land`.
                if source == destination {
                    continue;
                }
                for (protocol, selectors) in services {
                    for &selector in selectors {
                        let has_no_port = matches!(protocol, 47 | ICMP | ICMPV6);
                        let source_port = if has_no_port { 0 } else { PORT };
                        let packet =
                            Packet { from, to: SELF, source, destination, source_port, protocol, selector };
                        let (word, fault) = differs(&mut bed, &policy, side, &packet);
                        wrong.extend(fault);
                        if matches!(word.as_str(), "pass" | "up") {
                            forget_flows(&bed);
                        }
                        *met.entry(word).or_insert(0) += 1;
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {met:?}:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
    }
    for fate in ["pass", "up", "no-route", "untranslatable", "default-deny", "rule-deny", "rule-reject"] {
        assert!(met.contains_key(fate), "no packet is to be {fate}: {met:?}");
    }
    met
}

#[test]
fn needs_root_the_policy_says_what_becomes_of_first_packets() {
    compare(POLICY, SOURCES, &DESTINATIONS, SERVICES);
}

#[test]
fn needs_root_the_policy_says_what_becomes_of_first_packets_of_prefixes() {
    compare(PREFIX_POLICY, PREFIX_SOURCES, &PREFIX_DESTINATIONS, PREFIX_SERVICES);
}
