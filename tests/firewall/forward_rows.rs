//! Rows: a packet in, what is done, the packet out; on both hooks.

use crate::rows_program::{Deed, IcmpError, NO_ZONE, Outcome, Rows, ZONE_OUT, ZONE_SELF};
use dataplane::Hook;
use std::time::Instant;
use testkit::packet::{describe, frame};

const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];

fn said(outcome: &Outcome, sent: &[u8]) -> String {
    match outcome.action {
        "redirect" | "pass" => {
            format!("{} {}: {}", outcome.action, outcome.way, describe(&outcome.frame, sent))
        }
        other => other.to_owned(),
    }
}

fn check(rows: &[(Deed, &str, &str)]) {
    let program = Rows::load();
    let mut wrong = Vec::new();
    for (deed, packet, expected) in rows {
        for hook in HOOKS {
            let sent = frame(packet);
            let said = said(&program.run(hook, *deed, &sent), &sent);
            if said != *expected {
                wrong.push(format!("{hook:?} {deed:?}\n    of {packet}\n   was {said}\nwanted {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn packets_go_on_with_one_hop_less() {
    use Deed::Forward as F;
    check(&[
        (
            F,
            "198.18.0.9 > 198.19.0.2 ttl=64 udp 5>6 data=10",
            "redirect onward: 198.18.0.9 > 198.19.0.2 ttl=63 udp 5>6 data=10",
        ),
        (
            F,
            "198.18.0.9 > 198.19.0.2 ttl=2 df udp 5>6",
            "redirect onward: 198.18.0.9 > 198.19.0.2 ttl=1 df udp 5>6",
        ),
        (
            F,
            "198.18.0.9 > 198.19.0.2 ttl=255 tcp 5>6 SA seq=1 ack=2 data=1400",
            "redirect onward: 198.18.0.9 > 198.19.0.2 ttl=254 tcp 5>6 SA seq=1 ack=2 data=1400",
        ),
        (
            F,
            "198.18.0.9 > 198.19.0.2 ttl=64 options=10 udp 5>6",
            "redirect onward: 198.18.0.9 > 198.19.0.2 ttl=63 options=10 udp 5>6",
        ),
        (
            F,
            "198.18.0.9 > 198.19.0.2 ttl=64 offset=800 more udp 5>6 data=64",
            "redirect onward: 198.18.0.9 > 198.19.0.2 ttl=63 more data=72",
        ),
        (
            F,
            "198.18.0.9 > 198.51.100.7 ttl=64 icmp 8/0 data=56",
            "redirect onward: 198.18.0.9 > 198.51.100.7 ttl=63 icmp 8/0 data=56",
        ),
        (
            F,
            "vlan=7 198.18.0.9 > 198.19.0.2 ttl=64 udp 5>6 data=10",
            "redirect onward: 198.18.0.9 > 198.19.0.2 ttl=63 udp 5>6 data=10",
        ),
        (
            F,
            "2001:2:0:1::9 > 2001:2:0:2::2 ttl=64 udp 5>6 data=10",
            "redirect onward: 2001:2:0:1::9 > 2001:2:0:2::2 ttl=63 udp 5>6 data=10",
        ),
        (
            F,
            "2001:2:0:1::9 > 2001:2:0:5::2 ttl=2 tcp 5>6 S seq=7",
            "redirect onward: 2001:2:0:1::9 > 2001:2:0:5::2 ttl=1 tcp 5>6 S seq=7",
        ),
        (
            F,
            "vlan=4095 2001:2:0:1::9 > 2001:2:0:2::2 ttl=64 icmp 128/0 data=8",
            "redirect onward: 2001:2:0:1::9 > 2001:2:0:2::2 ttl=63 icmp 128/0 data=8",
        ),
    ]);
}

/// A checksum of 0xffff and one that overflows when one hop less is added: both must still be right.
#[test]
fn every_header_checksum_survives_a_hop() {
    let program = Rows::load();
    for (host, ttl) in (0..=255).flat_map(|host| [2, 64, 255].map(|ttl| (host, ttl))) {
        let sent = frame(&format!("198.18.{host}.9 > 198.19.0.2 ttl={ttl} udp 5>6"));
        let outcome = program.run(Hook::Xdp, Deed::Forward, &sent);
        assert!(describe(&outcome.frame, &sent).contains(&format!("ttl={}", ttl - 1)));
    }
}

/// `enum reason` of `bpf/abi/firewall.h`.
const NONE: u32 = 0;
const TTL: u32 = 40;
const TOO_BIG: u32 = 41;
const NO_ROUTE: u32 = 42;
const NOT_A_PORT: u32 = 43;

/// The sender gets an ICMP error where RFC 1812 and RFC 4443 want it.
#[test]
fn what_cannot_be_forwarded_is_answered_with_an_error() {
    let rows = [
        ("198.18.0.9 > 198.19.0.2 ttl=1 udp 5>6", TTL, "icmp 11/0 quote=28"),
        ("198.18.0.9 > 198.19.0.2 ttl=0 udp 5>6", TTL, "icmp 11/0 quote=28"),
        ("2001:2:0:1::9 > 2001:2:0:2::2 ttl=1 udp 5>6", TTL, "icmp 3/0 quote=48"),
        ("198.18.0.9 > 198.19.0.2 ttl=64 udp 5>6 data=1472", NONE, ""),
        ("198.18.0.9 > 198.19.0.2 ttl=64 df udp 5>6 data=1473", TOO_BIG, "icmp 3/4 mtu=1500 quote=548"),
        ("198.18.0.9 > 198.51.100.2 ttl=64 df udp 5>6 data=1372", NONE, ""),
        ("198.18.0.9 > 198.51.100.2 ttl=64 df udp 5>6 data=1373", TOO_BIG, "icmp 3/4 mtu=1400 quote=548"),
        ("2001:2:0:1::9 > 2001:2:0:5::2 ttl=64 udp 5>6 data=1352", NONE, ""),
        ("2001:2:0:1::9 > 2001:2:0:5::2 ttl=64 udp 5>6 data=1353", TOO_BIG, "icmp 2/0 mtu=1400 quote=1232"),
        ("2001:2:0:1::9 > fe80::1 ttl=64 udp 5>6", NO_ROUTE, "icmp 1/0 quote=48"),
        ("198.18.0.9 > 192.0.2.1 ttl=64 udp 5>6", NO_ROUTE, "icmp 3/0 quote=28"),
        ("2001:2:0:1::9 > 2001:db8::1 ttl=64 udp 5>6", NO_ROUTE, "icmp 1/0 quote=48"),
        ("198.18.0.9 > 203.0.113.1 ttl=64 udp 5>6", NO_ROUTE, "icmp 3/1 quote=28"),
        ("198.18.0.9 > 203.0.113.65 ttl=64 udp 5>6", NO_ROUTE, "icmp 3/13 quote=28"),
        ("198.18.0.9 > 203.0.113.129 ttl=64 udp 5>6", NO_ROUTE, "drop"),
        ("198.18.0.9 > 198.19.1.2 ttl=64 udp 5>6", NOT_A_PORT, "drop"),
    ];
    let program = Rows::load();
    for (packet, reason, answer) in rows {
        // The second time the route is remembered.
        for hook in HOOKS.into_iter().chain(HOOKS) {
            let sent = frame(packet);
            let outcome = program.run(hook, Deed::Forward, &sent);
            assert_eq!(outcome.reason, reason, "{hook:?} {packet}");
            let said = said(&outcome, &sent);
            assert!(said.ends_with(answer), "{hook:?} {packet}: {said}, not {answer}");
        }
    }
}

/// What may be fragmented goes to the kernel as it came, by way of the loopback interface; from XDP through the program beside it.
#[test]
fn packets_that_may_be_fragmented_are_left_to_the_kernel() {
    let program = Rows::load();
    for packet in [
        "198.18.0.9 > 198.19.0.2 ttl=64 udp 5>6 data=1473",
        "198.18.0.9 > 198.51.100.2 ttl=2 udp 5>6 data=1373",
        "198.18.0.9 > 198.51.100.2 ttl=64 options=10 tcp 5>6 A data=1400",
        "vlan=7 198.18.0.9 > 198.19.0.2 ttl=64 udp 5>6 data=1600",
        "198.18.0.9 > 198.19.0.2 ttl=64 more udp 5>6 data=1496",
        "198.18.0.9 > 198.19.0.2 ttl=64 offset=1504 protocol=17 data=1488",
    ] {
        let before = program.tally(21);
        for hook in HOOKS.into_iter().chain(HOOKS) {
            let sent = frame(packet);
            let outcome = program.run(hook, Deed::Forward, &sent);
            let action = if hook == Hook::Xdp { "pass" } else { "redirect" };
            assert_eq!((outcome.action, outcome.way), (action, "cut"), "{hook:?} {packet}");
            assert_eq!(
                outcome.frame[12..],
                sent[sent.len() - outcome.frame.len() + 12..],
                "{hook:?} {packet}"
            );
        }
        assert_eq!(program.tally(21), before + 4, "{packet}");
    }
    // One that has no hop left is answered, and not cut.
    let sent = frame("198.18.0.9 > 198.19.0.2 ttl=1 udp 5>6 data=1473");
    for hook in HOOKS {
        assert_eq!(program.run(hook, Deed::Forward, &sent).reason, TTL, "{hook:?}");
    }
}

/// A packet for the firewall itself is for the policy of the zone `self` and then for the kernel.
#[test]
fn own_addresses_are_the_zone_self_and_others_that_of_their_port() {
    let program = Rows::load();
    for (destination, to) in [
        ("198.18.0.9 > 198.18.0.1", ZONE_SELF),
        ("198.18.0.9 > 224.0.0.5", ZONE_SELF),
        ("198.18.0.9 > 255.255.255.255", ZONE_SELF),
        ("2001:2:0:1::9 > ff02::1", ZONE_SELF),
        ("198.18.0.9 > 198.19.0.2", ZONE_OUT),
        ("2001:2:0:1::9 > 2001:2:0:2::2", ZONE_OUT),
        ("198.18.0.9 > 198.19.0.99", ZONE_OUT),
        ("198.18.0.9 > 198.19.1.2", NO_ZONE),
        ("198.18.0.9 > 192.0.2.1", NO_ZONE),
    ] {
        let sent = frame(&format!("{destination} ttl=64 udp 5>6"));
        for hook in HOOKS {
            let outcome = program.run(hook, Deed::Forward, &sent);
            assert_eq!(outcome.to, to, "{hook:?} {destination}");
            assert!(to != ZONE_SELF || (outcome.action, &outcome.frame) == ("pass", &sent), "{destination}");
        }
    }
}

/// The kernel cuts such a packet before it is sent, so its segments must fit and not the whole.
#[test]
fn segments_are_measured_not_the_packet_they_are_in() {
    let program = Rows::load();
    for (packet, segment, reason) in [
        ("198.18.0.9 > 198.19.0.2 ttl=64 df tcp 5>6 A data=3000", 1460, 0),
        ("198.18.0.9 > 198.19.0.2 ttl=64 df tcp 5>6 A data=3000", 1461, TOO_BIG),
        ("198.18.0.9 > 198.19.0.2 ttl=64 df udp 5>6 data=3000", 1472, 0),
        ("198.18.0.9 > 198.19.0.2 ttl=64 df udp 5>6 data=3000", 1473, TOO_BIG),
        ("2001:2:0:1::9 > 2001:2:0:2::2 ttl=64 tcp 5>6 A data=3000", 1440, 0),
        ("2001:2:0:1::9 > 2001:2:0:2::2 ttl=64 tcp 5>6 A data=3000", 1441, TOO_BIG),
    ] {
        let outcome = program.run_segments(Hook::Tc, Deed::Forward, &frame(packet), segment);
        assert_eq!(outcome.reason, reason, "{packet} of {segment}");
    }
}

/// XDP hands the packet, complete, to the program beside it; TC leaves it to the kernel's neighbours at once.
#[test]
fn a_neighbour_that_is_not_known_yet_is_left_to_the_kernel() {
    let program = Rows::load();
    for (packet, after) in [
        ("198.18.0.9 > 198.19.0.99 ttl=64 udp 5>6", "198.18.0.9 > 198.19.0.99 ttl=63 udp 5>6"),
        ("2001:2:0:1::9 > 2001:2:0:2::99 ttl=64 udp 5>6", "2001:2:0:1::9 > 2001:2:0:2::99 ttl=63 udp 5>6"),
    ] {
        let sent = frame(packet);
        let xdp = program.run(Hook::Xdp, Deed::Forward, &sent);
        assert_eq!(said(&xdp, &sent), format!("pass handed: {after}"));
        let tc = program.run(Hook::Tc, Deed::Forward, &sent);
        assert_eq!(said(&tc, &sent), format!("redirect kept: {after}"));
    }
}

/// A change counts from the moment that user space says so, and not before.
#[test]
fn routes_are_remembered_until_the_next_generation() {
    let program = Rows::load();
    let sent = frame("198.18.0.9 > 198.51.100.7 ttl=64 udp 5>6");
    let reason = || program.run(Hook::Xdp, Deed::Forward, &sent).reason;
    assert_eq!(reason(), NONE);
    program.namespace.ip("route del 198.51.100.0/24");
    assert_eq!(reason(), NONE);
    program.forwarding(2, [0; 2], [0; 2]);
    assert_eq!(reason(), NO_ROUTE);
}

/// Neighbours of their own for 300 hosts, of both versions: remembered or not, each packet goes to its own host.
#[test]
fn many_hosts_with_their_own_neighbours_are_not_confused() {
    const HOSTS: u32 = 300;
    let program = Rows::load();
    let v4 = |i: u32| format!("198.19.{}.{}", 8 + i / 200, 1 + i % 200);
    let v6 = |i: u32| format!("2001:2:0:2::{:x}", 0x1000 + i);
    program.namespace.ip("address add 198.19.8.254/21 dev out0");
    let lines: String = (0..HOSTS)
        .flat_map(|i| [v4(i), v6(i)].map(|host| (i, host)))
        .map(|(i, host)| {
            format!("neighbour add {host} lladdr 02:00:00:01:{:02x}:{:02x} dev out0\n", i >> 8, i & 255)
        })
        .collect();
    program.namespace.ip(&lines);
    for round in 0..2 {
        for i in 0..HOSTS {
            for (source, host) in [("198.18.0.9", v4(i)), ("2001:2:0:1::9", v6(i))] {
                let sent = frame(&format!("{source} > {host} ttl=64 udp 5>6"));
                let outcome = program.run(Hook::Xdp, Deed::Forward, &sent);
                assert_eq!(
                    outcome.frame[..6],
                    [2, 0, 0, 1, (i >> 8) as u8, i as u8],
                    "{host}, round {round}"
                );
            }
        }
    }
    // Both versions in the first round, and the few that displaced each other in the second.
    let lookups = program.tally(15);
    assert!(lookups < u64::from(HOSTS) * 5 / 2, "{lookups} questions to the kernel: nothing is remembered");
}

#[test]
fn a_tcp_segment_is_refused_as_rfc_9293_says() {
    use Deed::Reset as R;
    check(&[
        // Without ACK: sequence 0, and everything acknowledged that the segment takes.
        (
            R,
            "198.18.0.9 > 198.19.0.2 ttl=60 df tcp 1000>80 S seq=100",
            "redirect back: 198.19.0.2 > 198.18.0.9 ttl=64 df tcp 80>1000 RA ack=101",
        ),
        (
            R,
            "198.18.0.9 > 198.19.0.2 ttl=60 tcp 1000>80 SF seq=100 data=9",
            "redirect back: 198.19.0.2 > 198.18.0.9 ttl=64 df tcp 80>1000 RA ack=111",
        ),
        (
            R,
            "198.18.0.9 > 198.19.0.2 ttl=60 tcp 1000>80 - seq=4294967290 data=16",
            "redirect back: 198.19.0.2 > 198.18.0.9 ttl=64 df tcp 80>1000 RA ack=10",
        ),
        (
            R,
            "198.18.0.9 > 198.19.0.2 ttl=60 options=5 tcp 1000>80 S seq=100",
            "redirect back: 198.19.0.2 > 198.18.0.9 ttl=64 df tcp 80>1000 RA ack=101",
        ),
        // With ACK: the sequence number that the sender expects.
        (
            R,
            "198.18.0.9 > 198.19.0.2 ttl=60 tcp 1000>80 A seq=100 ack=777 data=1400",
            "redirect back: 198.19.0.2 > 198.18.0.9 ttl=64 df tcp 80>1000 R seq=777",
        ),
        (
            R,
            "198.18.0.9 > 198.19.0.2 ttl=60 tcp 1000>80 SA seq=100 ack=777",
            "redirect back: 198.19.0.2 > 198.18.0.9 ttl=64 df tcp 80>1000 R seq=777",
        ),
        (
            R,
            "2001:2:0:1::9 > 2001:2:0:2::2 ttl=60 tcp 1000>80 S seq=100 data=3",
            "redirect back: 2001:2:0:2::2 > 2001:2:0:1::9 ttl=64 tcp 80>1000 RA ack=104",
        ),
        (
            R,
            "2001:2:0:1::9 > 2001:2:0:2::2 ttl=60 tcp 1000>80 PA seq=100 ack=4294967295 data=300",
            "redirect back: 2001:2:0:2::2 > 2001:2:0:1::9 ttl=64 tcp 80>1000 R seq=4294967295",
        ),
    ]);
}

#[test]
fn icmp_errors_quote_what_they_are_about() {
    use Deed::Error as E;
    use IcmpError::{Expired, Host, NoRoute, Port, Prohibited, TooBig};
    check(&[
        (
            E(NoRoute),
            "198.18.0.9 > 192.0.2.1 ttl=9 udp 5>6",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/0 quote=28",
        ),
        (
            E(Host),
            "198.18.0.9 > 192.0.2.1 ttl=9 udp 5>6 data=100",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/1 quote=128",
        ),
        (
            E(Port),
            "198.18.0.9 > 192.0.2.1 ttl=9 udp 5>6 data=1",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/3 quote=28",
        ),
        (
            E(Prohibited),
            "198.18.0.9 > 192.0.2.1 ttl=9 options=10 tcp 5>6 S data=1400",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/13 quote=548",
        ),
        (
            E(TooBig(1400)),
            "198.18.0.9 > 192.0.2.1 ttl=9 df udp 5>6 data=1472",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/4 mtu=1400 quote=548",
        ),
        (
            E(Expired),
            "198.18.0.9 > 192.0.2.1 ttl=1 icmp 8/0 data=7",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 11/0 quote=32",
        ),
        (
            E(Prohibited),
            "198.18.0.9 > 192.0.2.1 ttl=9 more udp 5>6 data=8",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/13 quote=36",
        ),
        (
            E(Prohibited),
            "198.18.0.9 > 192.0.2.1 ttl=9 protocol=47 data=40",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/13 quote=60",
        ),
        (
            E(NoRoute),
            "2001:2:0:1::9 > 2001:db8::1 ttl=9 udp 5>6",
            "redirect back: 2001:2:0:1::1 > 2001:2:0:1::9 ttl=64 icmp 1/0 quote=48",
        ),
        (
            E(Host),
            "2001:2:0:1::9 > 2001:db8::1 ttl=9 udp 5>6 data=600",
            "redirect back: 2001:2:0:1::1 > 2001:2:0:1::9 ttl=64 icmp 1/3 quote=648",
        ),
        (
            E(Port),
            "2001:2:0:1::9 > 2001:db8::1 ttl=9 udp 5>6 data=464",
            "redirect back: 2001:2:0:1::1 > 2001:2:0:1::9 ttl=64 icmp 1/4 quote=512",
        ),
        (
            E(Prohibited),
            "2001:2:0:1::9 > 2001:db8::1 ttl=9 tcp 5>6 S",
            "redirect back: 2001:2:0:1::1 > 2001:2:0:1::9 ttl=64 icmp 1/1 quote=60",
        ),
        (
            E(TooBig(1280)),
            "2001:2:0:1::9 > 2001:db8::1 ttl=9 udp 5>6 data=1400",
            "redirect back: 2001:2:0:1::1 > 2001:2:0:1::9 ttl=64 icmp 2/0 mtu=1280 quote=1232",
        ),
        (
            E(Expired),
            "2001:2:0:1::9 > 2001:db8::1 ttl=1 icmp 128/0 data=4",
            "redirect back: 2001:2:0:1::1 > 2001:2:0:1::9 ttl=64 icmp 3/0 quote=52",
        ),
    ]);
}

#[test]
fn an_answer_goes_back_with_its_vlan_tag() {
    let program = Rows::load();
    for (deed, packet) in [
        (Deed::Reset, "vlan=77 198.18.0.9 > 198.19.0.2 ttl=9 tcp 5>6 S"),
        (Deed::Error(IcmpError::Port), "vlan=77 2001:2:0:1::9 > 2001:2:0:2::2 ttl=9 udp 5>6 data=99"),
    ] {
        let sent = frame(packet);
        let outcome = program.run(Hook::Xdp, deed, &sent);
        describe(&outcome.frame, &sent);
        assert_eq!(
            (outcome.action, outcome.way, &outcome.frame[12..16]),
            ("redirect", "back", &[0x81, 0, 0, 77][..])
        );
    }
}

#[test]
fn what_must_not_be_answered_is_dropped() {
    use Deed::{Error as E, Reset as R};
    use IcmpError::Prohibited as P;
    let mut rows = vec![
        (R, "198.18.0.9 > 198.19.0.2 ttl=9 tcp 5>6 R seq=1"),
        (R, "198.18.0.9 > 198.19.0.2 ttl=9 tcp 5>6 RA seq=1 ack=1"),
        (R, "2001:2:0:1::9 > 2001:2:0:2::2 ttl=9 tcp 5>6 R"),
        (R, "198.18.0.9 > 198.19.0.2 ttl=9 offset=1480 tcp 5>6 S"),
        (E(P), "198.18.0.9 > 198.19.0.2 ttl=9 tcp 5>6 R"),
        (E(P), "198.18.0.9 > 198.19.0.2 ttl=9 offset=8 udp 5>6 data=99"),
        (E(P), "198.18.0.9 > 224.0.0.9 ttl=9 udp 5>6"),
        (E(P), "198.18.0.9 > 255.255.255.255 ttl=9 udp 5>6"),
        (E(P), "2001:2:0:1::9 > ff0e::1 ttl=9 udp 5>6"),
    ];
    for source in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"] {
        rows.push((E(P), Box::leak(format!("{source} > 198.19.0.2 ttl=9 udp 5>6").into_boxed_str())));
    }
    for source in ["::", "::1", "ff02::1"] {
        rows.push((E(P), Box::leak(format!("{source} > 2001:2:0:2::2 ttl=9 udp 5>6").into_boxed_str())));
    }
    for kind in [3, 4, 5, 11, 12, 30] {
        rows.push((
            E(P),
            Box::leak(format!("198.18.0.9 > 198.19.0.2 ttl=9 icmp {kind}/0 data=28").into_boxed_str()),
        ));
    }
    for kind in [1, 2, 3, 4, 100, 137] {
        let text = format!("2001:2:0:1::9 > 2001:2:0:2::2 ttl=9 icmp {kind}/0 data=48");
        rows.push((E(P), Box::leak(text.into_boxed_str())));
    }
    let rows: Vec<(Deed, &str, &str)> =
        rows.into_iter().map(|(deed, packet)| (deed, packet, "drop")).collect();
    check(&rows);
}

/// A frame that went to everybody on the link is not answered, whatever its packet says.
#[test]
fn a_frame_for_many_is_not_answered() {
    let program = Rows::load();
    let mut sent = frame("198.18.0.9 > 198.19.0.2 ttl=9 udp 5>6");
    sent[..6].copy_from_slice(&[0xff; 6]);
    for hook in HOOKS {
        assert_eq!(program.run(hook, Deed::Error(IcmpError::Port), &sent).action, "drop", "{hook:?}");
    }
}

#[test]
fn short_frames_are_quoted_without_their_padding() {
    let program = Rows::load();
    let packet = frame("198.18.0.9 > 198.19.0.2 ttl=9 udp 5>6");
    let mut padded = packet.clone();
    padded.resize(60, 0xee);
    for hook in HOOKS {
        let outcome = program.run(hook, Deed::Error(IcmpError::Port), &padded);
        let expected = "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/3 quote=28";
        assert_eq!(said(&outcome, &packet), expected, "{hook:?}");
    }
}

/// One answer takes four seconds of a budget that holds one: of ten packets one is answered, and one more for every four seconds that asking
/// took. Resets and errors do not take from each other, and what must not be answered takes nothing. On one core, because each has a budget.
#[test]
fn answers_are_limited_per_kind() {
    on_one_core(|| {
        let program = Rows::load();
        program.forwarding(1, [4_000_000_000; 2], [1_000_000_000; 2]);
        let packet = frame("198.18.0.9 > 198.19.0.2 ttl=9 tcp 5>6 S");
        let reset = frame("198.18.0.9 > 198.19.0.2 ttl=9 tcp 5>6 R");
        let mut answered = 0;
        for deed in [Deed::Reset, Deed::Error(IcmpError::Port)] {
            assert_eq!(program.run(Hook::Xdp, deed, &reset).action, "drop");
            let begin = Instant::now();
            let actions: Vec<_> = (0..10).map(|_| program.run(Hook::Xdp, deed, &packet).action).collect();
            let refilled = begin.elapsed().as_secs() / 4;
            assert_eq!(actions[0], "redirect");
            let now = actions.iter().filter(|action| **action == "redirect").count() as u64;
            assert!(now <= 1 + refilled, "{deed:?}: {actions:?}");
            answered += now;
        }
        assert_eq!((program.tally(13), program.tally(14)), (answered, 20 - answered));
    });
}

/// On a thread of its own, which ends with its placement.
fn on_one_core(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        let mut one = nix::sched::CpuSet::new();
        one.set(0).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).unwrap();
        work();
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// A device without ndo_xdp_xmit is reached by way of the program beside XDP, known neighbour or not.
#[test]
fn a_port_that_takes_no_frames_is_reached_through_the_kernel() {
    let mut program = Rows::load();
    program.take_frames(false);
    program.forwarding(2, [0; 2], [0; 2]);
    let sent = frame("198.18.0.9 > 198.19.0.2 ttl=64 udp 5>6");
    let xdp = program.run(Hook::Xdp, Deed::Forward, &sent);
    assert_eq!(said(&xdp, &sent), "pass handed: 198.18.0.9 > 198.19.0.2 ttl=63 udp 5>6");
    let tc = program.run(Hook::Tc, Deed::Forward, &sent);
    assert_eq!(said(&tc, &sent), "redirect onward: 198.18.0.9 > 198.19.0.2 ttl=63 udp 5>6");
}

#[test]
fn a_refusal_is_a_reset_for_tcp_and_a_prohibition_for_the_rest() {
    use Deed::Reject as R;
    check(&[
        (
            R,
            "198.18.0.9 > 198.19.0.2 ttl=9 tcp 5>6 S seq=7",
            "redirect back: 198.19.0.2 > 198.18.0.9 ttl=64 df tcp 6>5 RA ack=8",
        ),
        (
            R,
            "198.18.0.9 > 198.19.0.2 ttl=9 udp 5>6",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/13 quote=28",
        ),
        (
            R,
            "198.18.0.9 > 198.19.0.2 ttl=9 icmp 8/0",
            "redirect back: 198.18.0.1 > 198.18.0.9 ttl=64 df icmp 3/13 quote=28",
        ),
        (
            R,
            "2001:2:0:1::9 > 2001:2:0:2::2 ttl=9 udp 5>6",
            "redirect back: 2001:2:0:1::1 > 2001:2:0:1::9 ttl=64 icmp 1/1 quote=48",
        ),
        (
            R,
            "2001:2:0:1::9 > 2001:2:0:2::2 ttl=9 tcp 5>6 S",
            "redirect back: 2001:2:0:2::2 > 2001:2:0:1::9 ttl=64 tcp 6>5 RA ack=1",
        ),
    ]);
}
