//! A transparent bridge, frame by frame on both hooks: what crosses it, unchanged, and what does not. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, Fate, Side};
use dataplane::{Hook, Settings};
use testkit::packet::frame;

const POLICY: &str = r#"
[zones]
inside = { interfaces = "in0", networks = ["198.18.1.0/24", "2001:2:0:1::/64"] }
outside = { interfaces = "out0" }

[bridges.wire]
interfaces = ["in0", "out0"]
vlans = [10, "2000-2001"]

[[rules]]
name = "out"
from = "inside"
to = "outside"
action = "allow"

[[rules]]
name = "in"
from = "outside"
to = "inside"
service = "tcp/7"
action = "reject"

[[rules]]
name = "web"
from = "outside"
to = "inside"
service = ["tcp/80", "udp/53", "ping"]
action = "allow"

[[rules]]
name = "machine"
from = "any"
to = "self"
action = "allow"
"#;

/// The frame of a line, for a machine that is not the firewall.
fn between(text: &str) -> Vec<u8> {
    let (outer, rest) = text.find(" about").map_or((text, ""), |at| text.split_at(at));
    frame(&format!("{outer} to=02:00:00:00:aa:01{rest}"))
}

fn bed(hook: Hook, more: &str) -> Bed {
    Bed::with(
        hook,
        &Settings { flows: 4096, rules: 1024 },
        &POLICY.replace("vlans = ", &format!("{more}\nvlans = ")),
    )
}

/// A frame of another protocol than IP.
fn other(to: [u8; 6], type_or_length: u16) -> Vec<u8> {
    let mut frame = [&to[..], &[2, 0, 0, 0, 0xaa, 9], &type_or_length.to_be_bytes()].concat();
    frame.resize(60, 0x42);
    frame
}

/// What becomes of a frame, and that it is as it was if it passes.
fn fate(bed: &mut Bed, side: Side, frame: &[u8]) -> String {
    let (fate, left) = bed.send_and_see(side, frame);
    if fate == Fate::Sent {
        assert_eq!(left, frame, "a bridge changes nothing");
    }
    fate.words()
}

#[test]
fn needs_root_ip_is_judged_across_a_bridge_and_not_changed() {
    use Side::{In, Out};
    let rows = [
        (
            "a SYN of another machine to another",
            In,
            "198.18.1.9 > 203.0.113.5 df tcp 1000>443 S seq=100",
            "pass",
        ),
        ("its answer", Out, "203.0.113.5 > 198.18.1.9 df tcp 443>1000 SA seq=7 ack=101", "pass"),
        ("the last of it", In, "198.18.1.9 > 203.0.113.5 df tcp 1000>443 A seq=101 ack=8", "pass"),
        ("a segment of nobody", Out, "203.0.113.5 > 198.18.1.9 tcp 444>1000 A seq=1 ack=1", "tcp-no-flow"),
        (
            "outside the window",
            Out,
            "203.0.113.5 > 198.18.1.9 df tcp 443>1000 A seq=99999999 ack=101",
            "tcp-window",
        ),
        ("over IPv6", In, "2001:2:0:1::9 > 2001:db8::5 udp 5>6", "pass"),
        ("its answer, over IPv6", Out, "2001:db8::5 > 2001:2:0:1::9 udp 6>5", "pass"),
        ("what no rule allows", Out, "203.0.113.5 > 198.18.1.9 udp 5>6000", "default-deny"),
        ("what a rule allows", Out, "203.0.113.5 > 198.18.1.9 udp 5>53", "pass"),
        ("what a rule rejects", Out, "203.0.113.5 > 198.18.1.9 tcp 1000>7 S seq=1", "rule-reject!"),
        ("a host of the other side", Out, "198.18.1.77 > 198.18.1.9 udp 5>53", "zone-source"),
        ("to an address of the machine's own", In, "198.18.1.9 > 198.18.1.1 tcp 1000>22 S seq=1", "pass"),
        ("no hop left for a router", In, "198.18.1.9 > 203.0.113.5 ttl=1 udp 7>8", "pass"),
        ("its answer has one left too", Out, "203.0.113.5 > 198.18.1.9 ttl=1 udp 8>7", "pass"),
        (
            "no hop left at all, which no router is asked about",
            In,
            "198.18.1.9 > 203.0.113.5 ttl=0 udp 7>18",
            "pass",
        ),
        ("it has opened a flow", Out, "203.0.113.5 > 198.18.1.9 ttl=0 udp 18>7", "pass"),
        (
            "without a hop outside the window",
            Out,
            "203.0.113.5 > 198.18.1.9 df ttl=0 tcp 443>1000 A seq=99999999 ack=101",
            "tcp-window",
        ),
        (
            "a reset without a hop and without the right number",
            Out,
            "203.0.113.5 > 198.18.1.9 df ttl=0 tcp 443>1000 R seq=99999999",
            "tcp-reset",
        ),
        ("a first fragment", In, "198.18.1.9 > 203.0.113.5 id=77 more udp 9>9 data=1472 says=2000", "pass"),
        ("its rest", In, "198.18.1.9 > 203.0.113.5 id=77 offset=1480 protocol=17 data=520", "pass"),
        (
            "a first fragment without a hop",
            In,
            "198.18.1.9 > 203.0.113.5 id=78 more ttl=0 udp 9>9 data=1472 says=2000",
            "pass",
        ),
        (
            "its rest without one either",
            In,
            "198.18.1.9 > 203.0.113.5 id=78 offset=1480 ttl=0 protocol=17 data=520",
            "pass",
        ),
        (
            "another first fragment",
            In,
            "198.18.1.9 > 203.0.113.5 id=79 more udp 9>9 data=1472 says=2000",
            "pass",
        ),
        (
            "a rest without a hop that overlaps it",
            In,
            "198.18.1.9 > 203.0.113.5 id=79 offset=1472 ttl=0 protocol=17 data=528",
            "fragment-overlap",
        ),
        (
            "an error about a flow",
            Out,
            "203.0.113.5 > 198.18.1.9 icmp 3/3 about {198.18.1.9 > 203.0.113.5 udp 7>8}",
            "pass",
        ),
        (
            "an error about none",
            Out,
            "203.0.113.5 > 198.18.1.9 icmp 3/3 about {198.18.1.9 > 203.0.113.5 udp 7>9}",
            "default-deny",
        ),
        (
            "a source route",
            In,
            "198.18.1.9 > 203.0.113.5 options=83.07.04.00.00.00.00.00. udp 5>6",
            "options",
        ),
    ];
    for hook in [Hook::Xdp, Hook::Tc] {
        let mut bed = bed(hook, "");
        for (what, side, text, expected) in rows {
            assert_eq!(fate(&mut bed, side, &between(text)), expected, "{hook:?}: {what}");
        }
    }
}

#[test]
fn needs_root_what_is_not_ip_crosses_as_the_policy_says() {
    let everybody = [0xff; 6];
    let spanning_tree = [0x01, 0x80, 0xc2, 0, 0, 0];
    let arp = other(everybody, 0x0806);
    let solicitation =
        |to: &str| frame(&format!("2001:2:0:1::9 > ff02::1:ff00:5 ttl=255 icmp 135/0 data=20 to={to}"));
    let advertisement = frame("fe80::1 > ff02::1 ttl=255 icmp 134/0 data=8 to=group");
    let listener = frame("fe80::9 > ff02::16 ttl=1 icmp 143/0 data=8 to=group");
    let far = frame("2001:2:0:1::9 > ff02::1:ff00:5 ttl=254 icmp 135/0 data=20 to=group");
    let rows = [
        ("ARP", &arp, ["pass", "not-ip", "pass"]),
        ("ARP to one machine", &other([2, 0, 0, 0, 0xaa, 1], 0x0806), ["pass", "not-ip", "pass"]),
        ("neighbour solicitation", &solicitation("group"), ["pass", "not-ip", "pass"]),
        ("the same to one machine", &solicitation("02:00:00:00:aa:01"), ["pass", "not-ip", "pass"]),
        ("a listener's report", &listener, ["pass", "not-ip", "pass"]),
        ("a router's advertisement is for the rules", &advertisement, ["default-deny"; 3]),
        ("neighbour discovery of another link is for the rules", &far, ["pass"; 3]),
        ("spanning tree", &other(spanning_tree, 38), ["pass", "not-ip", "pass"]),
        (
            "a length, to another group",
            &other([0x01, 0x80, 0xc2, 0, 0, 0x0e], 38),
            ["not-ip", "not-ip", "pass"],
        ),
        (
            "link layer discovery",
            &other([0x01, 0x80, 0xc2, 0, 0, 0x0e], 0x88cc),
            ["not-ip", "not-ip", "pass"],
        ),
        ("PPPoE", &other([2, 0, 0, 0, 0xaa, 1], 0x8864), ["not-ip", "not-ip", "pass"]),
    ];
    for hook in [Hook::Xdp, Hook::Tc] {
        for (at, passes) in
            ["", "pass = []", "pass = ['arp', 'neighbour-discovery', 'spanning-tree', 'other']"]
                .iter()
                .enumerate()
        {
            let mut bed = bed(hook, passes);
            for (what, frame, expected) in &rows {
                let side = if *what == rows[5].0 { Side::Out } else { Side::In };
                assert_eq!(fate(&mut bed, side, frame), expected[at], "{hook:?}, {passes}: {what}");
            }
        }
    }
}

/// A frame with a tag in it, for a machine that is not the firewall.
fn tagged(id: u16) -> Vec<u8> {
    frame(&format!("198.18.1.9 > 203.0.113.5 udp 5>6 vlan={id} to=02:00:00:00:aa:01"))
}

#[test]
fn needs_root_frames_of_the_vlans_of_a_bridge_are_judged_and_keep_their_tags() {
    for hook in [Hook::Xdp, Hook::Tc] {
        let mut bed = bed(hook, "");
        for (id, expected) in [
            (0, "pass"),
            (10, "pass"),
            (9, "vlan"),
            (11, "vlan"),
            (2000, "pass"),
            (2001, "pass"),
            (2002, "vlan"),
            (4095, "vlan"),
        ] {
            assert_eq!(fate(&mut bed, Side::In, &tagged(id)), expected, "{hook:?}: {id}");
        }
        let denied = frame("203.0.113.5 > 198.18.1.9 udp 5>6000 vlan=10 to=02:00:00:00:aa:01");
        assert_eq!(fate(&mut bed, Side::Out, &denied), "default-deny", "{hook:?}");
        let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0xaa, 9], &[0x81, 0, 0, 11, 8, 6], &[0; 42]].concat();
        assert_eq!(fate(&mut bed, Side::In, &arp), "vlan", "{hook:?}: ARP of another VLAN");
    }
}

/// What a bridge rejects is answered by the address that was asked, because the bridge has none.
#[test]
fn needs_root_a_refusal_comes_from_where_the_packet_was_going() {
    for hook in [Hook::Xdp, Hook::Tc] {
        let mut bed = bed(hook, "");
        let policy = POLICY.replace("service = \"tcp/7\"", "service = [\"tcp/7\", \"udp/7\"]");
        bed.apply(&policy);
        for (text, protocol) in [
            ("203.0.113.5 > 198.18.1.9 tcp 1000>7 S seq=1", 6),
            ("203.0.113.5 > 198.18.1.9 udp 1000>7", 1),
            ("2001:db8::5 > 2001:2:0:1::9 tcp 1000>7 S seq=1", 6),
            ("2001:db8::5 > 2001:2:0:1::9 udp 1000>7", 58),
        ] {
            let sent = between(text);
            let (fate, answer) = bed.send_and_see(Side::Out, &sent);
            assert_eq!(fate.words(), "rule-reject!", "{hook:?}: {text}");
            assert_eq!((&answer[..6], &answer[6..12]), (&sent[6..12], &sent[..6]), "{hook:?}: {text}");
            let (ends, kind) = if sent[12] == 8 { (26..34, 23) } else { (22..54, 20) };
            let half = ends.len() / 2;
            let (source, destination) = sent[ends.clone()].split_at(half);
            assert_eq!(answer[ends], [destination, source].concat(), "{hook:?}: {text}");
            assert_eq!(answer[kind], protocol, "{hook:?}: {text}");
        }
    }
}

/// The other interface goes away, and comes back.
#[test]
fn needs_root_nothing_crosses_to_an_interface_that_is_gone() {
    for hook in [Hook::Xdp, Hook::Tc] {
        let mut bed = bed(hook, "");
        let flow = between("198.18.1.9 > 203.0.113.5 udp 5>6");
        let arp = other([0xff; 6], 0x0806);
        assert_eq!(fate(&mut bed, Side::In, &flow), "pass");
        let namespace = bed.namespace().clone();
        assert!(namespace.within(|| bed.firewall_mut().ports.detach("out0")).unwrap());
        for frame in [&flow, &between("198.18.1.9 > 203.0.113.5 udp 5>7"), &arp] {
            assert_eq!(fate(&mut bed, Side::In, frame), "not-a-port", "{hook:?}");
        }
        namespace.within(|| bed.firewall_mut().ports.attach("out0", "outside", hook)).unwrap();
        assert_eq!(fate(&mut bed, Side::In, &flow), "pass", "{hook:?}");
        assert_eq!(fate(&mut bed, Side::In, &arp), "pass", "{hook:?}");
        // A policy without the bridge routes again.
        bed.apply(
            &POLICY.replace(
                "[bridges.wire]\ninterfaces = [\"in0\", \"out0\"]\nvlans = [10, \"2000-2001\"]\n",
                "",
            ),
        );
        assert_eq!(fate(&mut bed, Side::In, &flow), "not-ours", "{hook:?}");
    }
}
