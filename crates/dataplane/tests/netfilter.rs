//! The rows of `rows/rows.txt` where the kernel forwards: the program at netfilter says of each packet what the reference says,
//! asked as the kernel would ask, by the way that the packet takes. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the reference and the bed are shared")]

#[path = "rows/answers.rs"]
mod answers;
mod bed;
#[path = "rows/reference.rs"]
mod reference;
#[path = "rows/seen.rs"]
mod seen;

use bed::Bed;
use dataplane::{Filter, Hook, Place, Settings, Verdict};
use policy::Policy;
use reference::{Reference, Way};
use seen::Seen;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

const POLICY: &str = include_str!("rows/rows.toml");
const ROWS: &str = include_str!("rows/rows.txt");
const WINDOW: &str = "window=1000";
/// The kernel sees to these itself, and nobody is asked about the packet: it is no IP, in another's frame, of another interface, or
/// goes nowhere; it has no hop left, or the checksum of its IPv4 header is wrong.
const NEVER_ASKED: [&str; 7] = ["not-ip", "not-ours", "vlan", "no-route", "reverse-path", "ttl", "checksum"];
/// And to these once the packet was allowed.
const LATER: [&str; 2] = ["cut", "too-big"];

/// The interfaces: inside, outside, and one of no zone.
struct Interfaces([u32; 3]);

impl Interfaces {
    fn from(&self, cell: &str) -> u32 {
        match cell.split(' ').next() {
            Some("in") => self.0[0],
            Some("out") => self.0[1],
            _ => self.0[2],
        }
    }

    /// By which way the kernel asks about a packet, and where the packet goes out.
    fn way(&self, reference: &Reference, frame: &[u8]) -> Option<(Place, u32)> {
        let Ok(seen) = Seen::read(frame) else { return Some((Place::Forward, self.0[1])) };
        // Somebody else's with our own address: `way_back` drops it at TC.
        if matches!(reference.way(seen.source), Way::Own) {
            return None;
        }
        // Its routes say how far those go.
        if [seen.source, seen.destination]
            .iter()
            .any(|end| matches!(end, IpAddr::V4(end) if end.is_link_local()))
        {
            return None;
        }
        match reference.way(seen.destination) {
            Way::Own => Some((Place::In, 0)),
            Way::Link { zone, .. } if reference.policy.zone("inside") == Some(zone) => {
                Some((Place::Forward, self.0[0]))
            }
            Way::Link { .. } => Some((Place::Forward, self.0[1])),
            Way::NoZone => Some((Place::Forward, self.0[2])),
            Way::Nowhere(_) => None,
        }
    }
}

fn bed(policy: &str) -> (Bed, Interfaces) {
    let bed = Bed::with(Hook::Netfilter, &Settings { flows: 4096, rules: 1024 }, policy);
    bed.namespace().ip("link add side0 type veth peer name far2\nlink set side0 up");
    let [inside, outside] = bed.indices();
    let interfaces = Interfaces([inside, outside, bed.namespace().ifindex("side0")]);
    (bed, interfaces)
}

/// The frame as the interface of its VLAN has it.
fn untagged(mut frame: Vec<u8>) -> Vec<u8> {
    while matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8])) && frame.len() >= 18 {
        frame.drain(12..16);
    }
    frame
}

/// Whether the kernel asks about such a frame: IP, with a whole header.
fn is_asked(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.len() >= 14 + 20,
        Some([0x86, 0xdd]) => frame.len() >= 14 + 40,
        _ => false,
    }
}

/// What the program returns to the kernel when these words are what becomes of a packet.
fn wanted(words: &str, place: Place) -> String {
    let reason = words.split(' ').next().unwrap();
    match reason {
        "pass" => "up".to_owned(),
        later if LATER.contains(&later) => "up".to_owned(),
        // What links need for themselves is for this machine, and never forwarded.
        "up" if place == Place::Forward => "default-deny".to_owned(),
        other => other.to_owned(),
    }
}

#[test]
fn needs_root_every_row_gets_its_verdict_where_the_kernel_forwards() {
    let (mut bed, interfaces) = bed(POLICY);
    let policy = Policy::parse("rows.toml", POLICY).unwrap_or_else(|problems| panic!("{problems}"));
    let mut reference = Reference::new(policy, jiff::Timestamp::UNIX_EPOCH);
    let (mut count, mut met, mut wrong) = (0, BTreeSet::new(), Vec::new());
    for line in ROWS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with("==") {
            for flow in bed.flows(&Filter::default()) {
                bed.firewall().flows.end(flow.id).unwrap();
            }
            reference.forget_flows();
            continue;
        }
        if let Some(text) = reference.change_policy(POLICY, line) {
            bed.apply_at(&text, reference.at);
            continue;
        }
        if let Some(time) = line.strip_prefix("clock ") {
            reference.at = time.parse().unwrap();
            bed.apply_at(POLICY, reference.at);
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, from, frame, expected] = cells[..] else { panic!("four cells: {line}") };
        let frame = testkit::packet::frame(&format!("{WINDOW} {frame}"));
        let zone = match from.split(' ').next() {
            Some("in") => Some("inside"),
            Some("out") => Some("outside"),
            _ => None,
        };
        // The reference learns of every packet.
        reference.cross(zone, &frame);
        let reason = expected.split(' ').next().unwrap();
        let way = interfaces.way(&reference, &frame);
        let frame = untagged(frame);
        let Some((place, out)) = way.filter(|_| is_asked(&frame) && !NEVER_ASKED.contains(&reason)) else {
            continue;
        };
        let fate = bed.ask(place, [interfaces.from(from), out], &frame);
        if fate.words() != wanted(expected, place) {
            wrong.push(format!("{line}\n  {place:?}: {}", fate.words()));
        }
        met.insert(reason);
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count} rows:\n{}", wrong.len(), wrong.join("\n"));
    let seldom = ["no-zone", "not-a-port", "flow-zone", "zone-source", "land", "source", "fragment-unknown"];
    let missing: Vec<_> = seldom.iter().filter(|reason| !met.contains(*reason)).collect();
    assert!(missing.is_empty() && count >= 200, "{count} rows; none of {missing:?}");
}

/// An interface is closed until it is attached if its whole name is a policy's, or if it begins as a pattern does.
#[test]
fn needs_root_an_interface_yet_to_come_is_closed_by_its_name() {
    let mut bed = Bed::with(Hook::Tc, &Settings { flows: 4096, rules: 1024 }, POLICY);
    let namespace = Arc::clone(bed.namespace());
    let frame = testkit::packet::frame("198.18.1.2 > 198.18.1.1 udp 5>6");
    namespace.within(|| {
        for (names, is_closed) in [
            (&["lo"][..], true),
            (&["l*"], true),
            (&["lo*"], true),
            (&["*"], true),
            (&["eth0", "lo"], true),
            (&["l"], false),
            (&["lo0"], false),
            (&["loo*"], false),
            (&["o*"], false),
            (&[], false),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert!(bed.firewall_mut().ports.close_until_attached(&names).unwrap());
            let wanted = if is_closed { Verdict::Drop } else { Verdict::Up };
            for place in [Place::In, Place::Out] {
                let found = bed.firewall().ask_gate(&frame, place).unwrap();
                assert_eq!(found, wanted, "{names:?}, {place:?}");
            }
        }
        bed.firewall_mut().ports.close_until_attached(&["lo".to_owned()]).unwrap();
        bed.firewall_mut().ports.attach("lo", "inside", Hook::Tc).unwrap();
        assert_eq!(bed.firewall().ask_gate(&frame, Place::In).unwrap(), Verdict::Up, "it is attached");
    });
}

/// A way through a tunnel, and one around it.
const TWO_WAYS: &str = r#"
[zones]
inside = { interfaces = "in0" }
outside = { interfaces = "out0" }
tunnel = { interfaces = "side0" }

[[rules]]
name = "tunnelled"
from = "inside"
to = "tunnel"
action = "allow"

[[rules]]
name = "either"
from = "inside"
to = ["tunnel", "outside"]
service = "udp/7"
action = "allow"
"#;

/// An open flow whose route leads to another zone is judged there: what may only go through a tunnel does not go around it.
#[test]
fn needs_root_a_flow_whose_route_moves_is_judged_where_it_goes() {
    let (mut bed, Interfaces([inside, outside, tunnel])) = bed(TWO_WAYS);
    let namespace = Arc::clone(bed.namespace());
    namespace.within(|| bed.firewall_mut().ports.attach("side0", "tunnel", Hook::Netfilter).unwrap());
    for (ends, unreachable) in
        [(["198.18.1.2", "192.0.2.1"], "icmp 3/1"), (["2001:2:0:1::2", "2001:db8::1"], "icmp 1/3")]
    {
        let error = format!("{unreachable} about {{ {} > {} udp 5>7 }}", ends[0], ends[1]);
        let mut ask = |from: usize, words: &str, interfaces: [u32; 2]| {
            let frame = format!("window=1000 {} > {} {words}", ends[from], ends[1 - from]);
            bed.ask(Place::Forward, interfaces, &testkit::packet::frame(&frame)).words()
        };
        assert_eq!(ask(0, "udp 5>6", [inside, tunnel]), "up");
        assert_eq!(ask(1, "udp 6>5", [tunnel, inside]), "up");
        assert_eq!(ask(0, "udp 5>6", [inside, outside]), "default-deny", "around the tunnel");
        assert_eq!(ask(1, "udp 6>5", [tunnel, inside]), "default-deny", "the flow is gone");
        assert_eq!(ask(0, "udp 5>7", [inside, tunnel]), "up");
        assert_eq!(ask(0, "udp 5>7", [inside, outside]), "up", "either way is allowed");
        assert_eq!(ask(1, "udp 7>5", [tunnel, inside]), "flow-zone", "it lives outside now");
        assert_eq!(ask(1, "udp 7>5", [outside, inside]), "up");
        assert_eq!(ask(1, &error, [outside, inside]), "up", "an error about it");
        assert_eq!(ask(1, &error, [outside, tunnel]), "flow-zone", "its sender does not live there");
        // From where it does not live it moves nothing.
        assert_eq!(ask(0, "udp 5>7", [outside, tunnel]), "flow-zone");
        assert_eq!(ask(0, "udp 5>7", [inside, outside]), "up");
    }
}

/// An initiator that sends by one zone and is reached by another: errors about its flow go where the flow's packets may.
#[test]
fn needs_root_an_error_goes_where_the_packets_of_its_flow_may() {
    const BACK: &str = r#"
[[rules]]
name = "asks"
from = "outside"
to = "inside"
service = ["udp/8", "udp/9"]
action = "allow"

[[rules]]
name = "is-reached"
from = "tunnel"
to = "inside"
service = "udp/9"
action = "allow"
"#;
    let (mut bed, Interfaces([inside, outside, tunnel])) = bed(&format!("{TWO_WAYS}{BACK}"));
    let namespace = Arc::clone(bed.namespace());
    namespace.within(|| bed.firewall_mut().ports.attach("side0", "tunnel", Hook::Netfilter).unwrap());
    for ([client, host], unreachable) in
        [(["192.0.2.1", "198.18.1.2"], "icmp 3/1"), (["2001:db8::1", "2001:2:0:1::2"], "icmp 1/3")]
    {
        for (port, expected) in [(9, "up"), (8, "flow-zone")] {
            let question = format!("{client} > {host} udp 5>{port}");
            let mut ask = |words: &str, interfaces: [u32; 2]| {
                bed.ask(Place::Forward, interfaces, &testkit::packet::frame(words)).words()
            };
            let error = format!("{host} > {client} {unreachable} about {{ {question} }}");
            assert_eq!(ask(&question, [outside, inside]), "up");
            assert_eq!(ask(&error, [inside, outside]), "up", "{question}");
            assert_eq!(ask(&error, [inside, tunnel]), expected, "{question}");
        }
    }
}

/// Neighbour discovery is the business of a link. A packet that is being forwarded comes from elsewhere, whatever it says.
#[test]
fn needs_root_neighbour_discovery_is_never_forwarded_unjudged() {
    let (mut bed, Interfaces([inside, outside, _])) = bed(POLICY);
    let frame = |ttl: u8| {
        testkit::packet::frame(&format!("2001:2:0:2::2 > 2001:2:0:1::2 ttl={ttl} icmp 135/0 data=20"))
    };
    assert_eq!(bed.ask(Place::In, [outside, 0], &frame(255)).words(), "up");
    // It was sent with 255, and the kernel has taken its hop.
    assert_eq!(bed.ask(Place::Forward, [outside, inside], &frame(254)).words(), "default-deny");
}

/// The kernel of Linux forwards to link-local addresses of IPv6 back into their link, and to those of IPv4 if it has a route there: containers reach
/// the resolver of a cloud by one.
#[test]
fn needs_root_link_local_addresses_of_one_version_are_forwarded_to_if_a_rule_allows_it() {
    let (mut bed, Interfaces([inside, outside, _])) = bed(POLICY);
    for (ends, firewall, [destination, source]) in [
        (["198.18.1.2", "169.254.7.7"], "198.18.1.1", ["up", "up"]),
        (["2001:2:0:1::2", "fe80::7"], "2001:2:0:1::1", ["destination", "source"]),
    ] {
        let mut ask = |place: Place, words: String, interfaces: [u32; 2]| {
            bed.ask(place, interfaces, &testkit::packet::frame(&format!("window=1000 {words}"))).words()
        };
        let [host, link] = ends;
        let to_it = [inside, outside];
        assert_eq!(ask(Place::Forward, format!("{host} > {link} udp 5>6"), to_it), destination);
        assert_eq!(ask(Place::Forward, format!("{host} > {link} tcp 5>80 S seq=1"), to_it), destination);
        assert_eq!(ask(Place::Forward, format!("{link} > {host} udp 5>53"), [outside, inside]), source);
        // What its neighbours ask of the machine itself is no forwarding.
        assert_eq!(ask(Place::In, format!("{link} > {firewall} udp 68>67"), [inside, 0]), "up");
    }
}

/// A later fragment goes where its first went, or nowhere: what may go through a tunnel only does not go around it in pieces.
#[test]
fn needs_root_a_fragment_whose_route_has_moved_to_another_zone_is_dropped() {
    let (mut bed, Interfaces([inside, outside, tunnel])) = bed(TWO_WAYS);
    let namespace = Arc::clone(bed.namespace());
    namespace.within(|| bed.firewall_mut().ports.attach("side0", "tunnel", Hook::Netfilter).unwrap());
    for ends in ["198.18.1.2 > 192.0.2.1", "2001:2:0:1::2 > 2001:db8::1"] {
        let mut ask = |words: &str, interfaces: [u32; 2]| {
            bed.ask(Place::Forward, interfaces, &testkit::packet::frame(&format!("{ends} {words}"))).words()
        };
        assert_eq!(ask("id=9 more udp 5>6 data=16 says=100", [inside, tunnel]), "up");
        assert_eq!(ask("id=9 offset=24 more protocol=17 data=16", [inside, outside]), "flow-zone");
        assert_eq!(ask("id=9 offset=40 more protocol=17 data=16", [inside, tunnel]), "up");
        // Its flow moves, where either way is allowed, and so does its next datagram.
        assert_eq!(ask("udp 5>7", [inside, tunnel]), "up");
        assert_eq!(ask("id=10 more udp 5>7 data=16 says=100", [inside, outside]), "up");
        assert_eq!(ask("id=10 offset=24 protocol=17 data=76", [inside, outside]), "up");
        // What begins another datagram is judged where it goes.
        assert_eq!(ask("id=11 more udp 5>6 data=16 says=100", [inside, outside]), "default-deny");
    }
}

/// A bridge of the kernel's takes no hop from what it asks about (`br_netfilter`), so there may be all of them left, or none.
#[test]
fn needs_root_what_a_bridge_of_the_kernels_asks_about_is_followed_whatever_hops_it_has() {
    let (mut bed, Interfaces([inside, outside, _])) = bed(POLICY);
    for (ends, port) in [(["198.18.1.2", "198.18.2.2"], 5), (["2001:2:0:1::2", "2001:2:0:2::2"], 6)] {
        for ttl in [0, 1, 254, 255] {
            let port = port * 1000 + ttl;
            let mut ask = |from: usize, words: &str, interfaces: [u32; 2]| {
                let frame = format!("window=1000 {} > {} ttl={ttl} {words}", ends[from], ends[1 - from]);
                bed.ask(Place::Forward, interfaces, &testkit::packet::frame(&frame)).words()
            };
            let syn = ask(0, &format!("tcp {port}>80 S seq=100"), [inside, outside]);
            let answer = ask(1, &format!("tcp 80>{port} SA seq=7 ack=101"), [outside, inside]);
            let stray = ask(1, &format!("tcp 80>{port} A seq=99999999 ack=101"), [outside, inside]);
            assert_eq!([syn, answer, stray], ["up", "up", "tcp-window"], "{ends:?} with {ttl}");
        }
    }
}

/// The loopback interface belongs to no zone: what the machine says to itself is let through, and nothing else is.
#[test]
fn needs_root_the_loopback_interface_is_the_machines_own() {
    const LOOPBACK: u32 = 1;
    let (mut bed, Interfaces([inside, ..])) = bed(POLICY);
    let frame = testkit::packet::frame("127.0.0.1 > 127.0.0.1 udp 5>6");
    assert_eq!(bed.ask(Place::Out, [0, LOOPBACK], &frame).words(), "up");
    assert_eq!(bed.ask(Place::In, [LOOPBACK, 0], &frame).words(), "up");
    assert_eq!(bed.ask(Place::In, [inside, 0], &frame).words(), "land");
    assert_eq!(bed.ask(Place::Forward, [LOOPBACK, inside], &frame).words(), "no-zone");
}
