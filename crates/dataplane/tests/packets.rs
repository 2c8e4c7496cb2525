//! Single packets and what becomes of them, on both hooks: forms, zones, fragments, ICMP errors, the firewall itself. Needs
//! root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
#[path = "packets/fragments.rs"]
mod fragments;
#[path = "packets/full_table.rs"]
mod full_table;

use bed::{Bed, POLICY, Side};
use dataplane::{Filter, Hook, Settings, Tally, Verdict};
use std::sync::Arc;
use std::time::Duration;
use testkit::packet::{ACK, Frame, RST, SYN, Tcp, icmp, icmp_error, udp};

const IN: &str = "198.18.1.2";
const OUT: &str = "198.18.2.2";
const IN6: &str = "2001:2:0:1::2";
const OUT6: &str = "2001:2:0:2::2";
const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];

/// A row: what it is, where it comes in, the packet, what becomes of it.
type Row = (&'static str, Side, Frame, &'static str);

/// Sends rows one after the other, on both hooks.
fn check(rows: &[Row]) {
    for hook in HOOKS {
        let mut bed = Bed::new(hook);
        for (title, side, frame, expected) in rows {
            assert_eq!(bed.send(*side, &frame.bytes()).words(), *expected, "{title}, {hook:?}");
        }
    }
}

fn v4(side: Side, protocol: u8, payload: Vec<u8>) -> Frame {
    let (source, destination) = if side == Side::In { (IN, OUT) } else { (OUT, IN) };
    Frame::new(source, destination, protocol, payload).completed()
}

fn v6(side: Side, protocol: u8, payload: Vec<u8>) -> Frame {
    let (source, destination) = if side == Side::In { (IN6, OUT6) } else { (OUT6, IN6) };
    Frame::new(source, destination, protocol, payload).completed()
}

/// A packet of either version: from where, protocol, payload.
type Make = fn(Side, u8, Vec<u8>) -> Frame;
const VERSIONS: [Make; 2] = [v4, v6];

/// The part of a datagram from an offset on; `more` follow.
fn part(frame: Frame, id: u32, offset: u16, more: bool) -> Frame {
    Frame { fragment: Some((id, offset, more)), ..frame }
}

fn syn(ports: (u16, u16)) -> Vec<u8> {
    Tcp { ports, flags: SYN, sequence: 1, window: 1000, ..Tcp::default() }.bytes()
}

#[test]
fn needs_root_flows_and_the_policy() {
    use Side::{In, Out};
    check(&[
        ("allowed", In, v4(In, 17, udp((5, 6), 18)), "pass"),
        ("its answer", Out, v4(Out, 17, udp((6, 5), 18)), "pass"),
        ("another port is another flow", Out, v4(Out, 17, udp((6, 7), 18)), "default-deny"),
        ("a rule allows it from outside", Out, v4(Out, 17, udp((9, 53), 18)), "pass"),
        ("a rule rejects it", Out, v4(Out, 6, syn((9, 7))), "rule-reject!"),
        ("over IPv6", In, v6(In, 17, udp((5, 6), 18)), "pass"),
        ("its answer", Out, v6(Out, 17, udp((6, 5), 18)), "pass"),
        ("not from outside", Out, v6(Out, 17, udp((6, 8), 18)), "default-deny"),
        ("rejected over IPv6", Out, v6(Out, 6, syn((9, 7))), "rule-reject!"),
        ("a known flow from the wrong zone", Out, v4(In, 17, udp((5, 6), 18)), "flow-zone"),
        ("GRE", In, v4(In, 47, vec![0; 24]), "pass"),
        ("its answer", Out, v4(Out, 47, vec![0; 24]), "pass"),
        ("ESP from outside", Out, v4(Out, 50, vec![0; 24]), "default-deny"),
        ("SCTP", In, v4(In, 132, udp((5, 6), 18)), "pass"),
        ("its answer", Out, v4(Out, 132, udp((6, 5), 18)), "pass"),
        ("SCTP of other ports", Out, v4(Out, 132, udp((6, 9), 18)), "default-deny"),
    ]);
}

/// RFC 2131 section 4.1: an offer may go to the address that is offered, which nobody has yet, and who has no address has no routes.
#[test]
fn needs_root_offers_of_addresses_reach_who_asked_here_and_lead_nowhere_else() {
    let rule = "[[rules]]\nname = \"addresses\"\nfrom = \"outside\"\nto = \"self\"\nservice = \"dhcp\"\naction = \"allow\"\n";
    // Neither has a route here.
    let (server, offered) = ("203.0.113.9", "203.0.113.200");
    for hook in HOOKS {
        let mut bed = Bed::new(hook);
        bed.apply(&format!("{POLICY}{rule}"));
        for (title, source, destination, ports, expected) in [
            ("an offer", server, offered, (67, 68), "up"),
            ("the answer to the request", server, offered, (67, 68), "up"),
            ("an offer to everybody", server, "255.255.255.255", (67, 68), "up"),
            ("an offer by a server on the link", OUT, offered, (67, 68), "up"),
            ("of an address that the way out leads to", server, "198.18.2.77", (67, 68), "up"),
            ("to a host inside", OUT, "198.18.1.9", (67, 68), "default-deny"),
            ("from another port", server, "203.0.113.201", (66, 68), "no-route!"),
            ("to another port", server, "203.0.113.202", (67, 69), "no-route!"),
            ("from this machine's own address", "198.18.1.1", "203.0.113.203", (67, 68), "zone-source"),
        ] {
            let frame = Frame::new(source, destination, 17, udp(ports, 18));
            assert_eq!(bed.send(Side::Out, &frame.bytes()).words(), expected, "{title}, {hook:?}");
        }
        bed.apply(POLICY);
        let frame = Frame::new(server, "203.0.113.204", 17, udp((67, 68), 18));
        assert_eq!(bed.send(Side::Out, &frame.bytes()).words(), "default-deny", "no rule, {hook:?}");
    }
}

#[test]
fn needs_root_forms() {
    use Side::{In, Out};
    let tagged = |tags: Vec<u16>| Frame { tags, ..v4(In, 17, udp((5, 6), 18)) };
    let options = |options: Vec<u8>| Frame { options, ..v4(In, 17, udp((5, 6), 18)) };
    let extensions = |extensions| Frame { extensions, ..v6(In, 17, udp((5, 6), 18)) };
    let long = |number: u8| (number, vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut short = udp((5, 6), 18);
    short[5] = 200;
    check(&[
        ("a VLAN", In, tagged(vec![7]), "vlan"),
        ("a VLAN in another", In, tagged(vec![7, 9]), "vlan"),
        ("a priority", In, tagged(vec![0x6000]), "pass"),
        ("three priorities", In, tagged(vec![0, 0, 0]), "not-ip"),
        ("options", In, options(vec![1; 4]), "pass"),
        ("as many options as there may be", In, options(vec![1; 40]), "pass"),
        ("an extension header", In, extensions(vec![long(0)]), "pass"),
        ("several", In, extensions(vec![long(0), long(60), (43, vec![0; 7]), long(60)]), "pass"),
        (
            "a route that the sender chose",
            In,
            extensions(vec![(43, vec![0, 0, 1, 0, 0, 0, 0])]),
            "extensions",
        ),
        ("too many", In, extensions(vec![long(60); 9]), "extensions"),
        ("the datagram is longer than the packet", In, v4(In, 17, short), "length"),
        ("no room for ports", In, v4(In, 17, vec![0; 4]), "length"),
        ("no room for a TCP header", In, v4(In, 6, vec![0; 12]), "length"),
        ("land", In, Frame::new(OUT, OUT, 17, udp((5, 5), 18)), "land"),
        ("from a loopback address", In, Frame::new("127.0.0.1", OUT, 17, udp((5, 5), 18)), "source"),
        ("from many", In, Frame::new("224.0.0.5", OUT, 17, udp((5, 5), 18)), "source"),
        (
            "from inside's network, outside",
            Out,
            Frame::new("198.18.1.9", IN, 17, udp((5, 53), 18)),
            "zone-source",
        ),
        ("the same over IPv6", Out, Frame::new("2001:2:0:1::9", IN6, 17, udp((5, 53), 18)), "zone-source"),
        ("no route back", Out, Frame::new("203.0.113.9", IN, 17, udp((5, 53), 18)), "reverse-path"),
        ("a route back", Out, Frame::new("198.51.100.9", IN, 17, udp((5, 53), 18)), "pass"),
        ("nowhere to go", In, Frame::new(IN, "203.0.113.9", 17, udp((5, 53), 18)), "no-route!"),
        ("the last hop", In, Frame { ttl: 1, ..v4(In, 17, udp((5, 6), 18)) }, "ttl!"),
    ]);
}

#[test]
fn needs_root_damaged_headers() {
    for hook in HOOKS {
        let mut bed = Bed::new(hook);
        let good = v4(Side::In, 17, udp((5, 6), 18)).bytes();
        let changed = |at: usize, value: u8| {
            let mut frame = good.clone();
            frame[at] = value;
            frame
        };
        for (title, frame, expected) in [
            ("checksum", changed(24, good[24] ^ 1), "checksum"),
            ("version", changed(14, 0x55), "header"),
            ("header of 16 bytes", changed(14, 0x44), "header"),
            ("longer than the frame", changed(16, 0x40), "length"),
            ("not IP", changed(12, 0x88), "not-ip"),
            ("cut", good[..30].to_vec(), "truncated"),
        ] {
            // A test run of TC does not take an IP packet without a whole header.
            if title == "cut" && hook == Hook::Tc {
                continue;
            }
            assert_eq!(bed.send(Side::In, &frame).words(), expected, "{title}, {hook:?}");
        }
        let mut arp = good.clone();
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(bed.send(Side::In, &arp).words(), "up");
    }
}

#[test]
fn needs_root_neighbour_discovery_is_left_to_the_kernel() {
    let ask = |ttl| Frame { ttl, ..Frame::new(OUT6, "2001:2:0:2::1", 58, icmp(135, 0, 0)) };
    check(&[
        ("a neighbour asks", Side::Out, ask(255), "up"),
        ("from beyond the link", Side::Out, ask(254), "default-deny"),
    ]);
}

#[test]
fn needs_root_the_firewall_itself() {
    use Side::{In, Out};
    let to = |source, port| Frame::new(source, "198.18.1.1", 6, syn((999, port)));
    check(&[
        ("a rule allows it", In, to(IN, 22), "up"),
        ("no rule does", In, to(IN, 23), "default-deny"),
        ("not from outside", Out, to(OUT, 22), "default-deny"),
    ]);
}

#[test]
fn needs_root_icmp_queries_and_their_answers() {
    use Side::{In, Out};
    check(&[
        ("an answer to nothing", Out, v4(Out, 1, icmp(0, 0, 77)), "icmp-unasked"),
        ("a question", In, v4(In, 1, icmp(8, 0, 77)), "pass"),
        ("its answer", Out, v4(Out, 1, icmp(0, 0, 77)), "pass"),
        ("an answer of another number", Out, v4(Out, 1, icmp(0, 0, 78)), "icmp-unasked"),
        ("a question of the same number is no answer", Out, v4(Out, 1, icmp(13, 0, 77)), "default-deny"),
        ("time stamps", In, v4(In, 1, icmp(13, 0, 5)), "pass"),
        ("their answer", Out, v4(Out, 1, icmp(14, 0, 5)), "pass"),
        ("over IPv6", In, v6(In, 58, icmp(128, 0, 77)), "pass"),
        ("its answer", Out, v6(Out, 58, icmp(129, 0, 77)), "pass"),
        ("a rule allows questions from outside", Out, v4(Out, 1, icmp(8, 0, 9)), "pass"),
        ("and so the answer", In, v4(In, 1, icmp(0, 0, 9)), "pass"),
    ]);
}

#[test]
fn needs_root_icmp_errors_follow_their_flow() {
    use Side::{In, Out};
    let sent = v4(In, 17, udp((5, 6), 18));
    let tcp = |sequence| {
        v4(In, 6, Tcp { ports: (5, 80), flags: SYN, sequence, window: 9, ..Tcp::default() }.bytes())
    };
    let about = |packet: &Frame, to| Frame::new("198.51.100.1", to, 1, icmp_error(3, 1, &packet.packet()));
    let sent6 = v6(In, 17, udp((5, 6), 18));
    let about6 = Frame::new(OUT6, IN6, 58, icmp_error(1, 0, &sent6.packet()));
    check(&[
        ("about no flow", Out, about(&sent, IN), "default-deny"),
        ("a packet", In, sent.clone(), "pass"),
        ("about it", Out, about(&sent, IN), "pass"),
        ("about it, to somebody else", Out, about(&sent, "198.18.1.3"), "icmp-unrelated"),
        ("about it, from its sender's side", In, about(&sent, IN), "icmp-unrelated"),
        ("a segment", In, tcp(1000), "pass"),
        ("about it", Out, about(&tcp(1000), IN), "pass"),
        ("about a number that was not sent", Out, about(&tcp(90_000), IN), "icmp-unrelated"),
        ("over IPv6", In, sent6.clone(), "pass"),
        ("about it", Out, about6, "pass"),
        ("a ping", In, v4(In, 1, icmp(8, 0, 3)), "pass"),
        ("about it", Out, about(&v4(In, 1, icmp(8, 0, 3)), IN), "pass"),
        ("about another", Out, about(&v4(In, 1, icmp(8, 0, 4)), IN), "default-deny"),
    ]);
}

/// After so long the lower 32 bits of a tick come round.
const ROUND: Duration = Duration::from_nanos(1 << 52);

/// Nobody sweeps: the daemon is dead for months. The ticks come round, and what was over is not young again.
#[test]
fn needs_root_what_is_over_stays_over_for_years() {
    const DAY: Duration = Duration::from_secs(86_400);
    let second = Duration::from_secs(1);
    for (hook, make) in HOOKS.into_iter().flat_map(|hook| VERSIONS.map(|make| (hook, make))) {
        let mut bed = Bed::new(hook);
        for idle in [DAY, 25 * DAY, 27 * DAY, ROUND - second, ROUND, ROUND + second, 3 * ROUND, 400 * DAY] {
            let answer = make(Side::Out, 17, udp((6, 5), 8)).bytes();
            let first = part(make(Side::In, 17, udp((5, 6), 1000)), 1, 0, true).bytes();
            let later = part(make(Side::In, 17, vec![0; 8]), 1, 1008, false).bytes();
            let quoted = make(Side::In, 17, udp((5, 6), 1000));
            let (protocol, kind) = if quoted.source.is_ipv4() { (1, 3) } else { (58, 1) };
            let error = make(Side::Out, protocol, icmp_error(kind, 1, &quoted.packet())).bytes();
            assert_eq!(bed.send(Side::In, &first).words(), "pass");
            assert_eq!(bed.send(Side::Out, &answer).words(), "pass");
            assert_eq!(bed.send(Side::Out, &error).words(), "pass");
            bed.pass(idle);
            let shown = bed.flows(&Filter::default())[0].idle;
            assert!(idle.abs_diff(shown) < second, "{hook:?}, {idle:?}: {shown:?}");
            assert_eq!(bed.send(Side::In, &later).words(), "fragment-unknown", "{hook:?}, {idle:?}");
            assert_eq!(bed.send(Side::Out, &error).words(), "default-deny", "{hook:?}, {idle:?}");
            assert_eq!(bed.send(Side::Out, &answer).words(), "default-deny", "{hook:?}, {idle:?}");
            assert_eq!(bed.firewall().flows.sweep().unwrap(), 0, "it made room already");
        }
    }
}

/// And what is not over goes on, also in the moment in which the ticks come round.
#[test]
fn needs_root_a_flow_goes_on_while_the_ticks_come_round() {
    let tick = Duration::from_nanos(1 << 20);
    for (hook, make) in HOOKS.into_iter().flat_map(|hook| VERSIONS.map(|make| (hook, make))) {
        let mut bed = Bed::new(hook);
        bed.pass(ROUND - bed.now() - 2 * tick);
        for (side, ports) in [(Side::In, (5, 6)), (Side::Out, (6, 5))].into_iter().cycle().take(6) {
            assert_eq!(bed.send(side, &make(side, 17, udp(ports, 8)).bytes()).words(), "pass", "{hook:?}");
            assert_eq!(bed.firewall().flows.sweep().unwrap(), 0);
            bed.pass(tick);
        }
        // Another core's clock may be ahead.
        let earlier = bed.now() - 5 * tick;
        bed.firewall_mut().set_clock(earlier);
        assert_eq!(
            bed.send(Side::Out, &make(Side::Out, 17, udp((6, 5), 8)).bytes()).words(),
            "pass",
            "{hook:?}"
        );
        assert_eq!(bed.firewall().flows.sweep().unwrap(), 0);
        let flows = bed.flows(&Filter::default());
        assert_eq!((flows.len(), flows[0].packets), (1, (3, 4)), "{hook:?}");
    }
}

#[test]
fn needs_root_resets_to_strangers_end_and_do_not_begin_anew() {
    for (hook, make) in HOOKS.into_iter().flat_map(|hook| VERSIONS.map(|make| (hook, make))) {
        let mut bed = Bed::new(hook);
        let stranger = Tcp { ports: (5, 80), flags: ACK, sequence: 1, window: 1000, ..Tcp::default() };
        let stranger = make(Side::In, 6, stranger.bytes()).bytes();
        let now = bed.now();
        bed.firewall_mut().policies.end_strangers(now);
        assert_eq!(bed.send(Side::In, &stranger).words(), "tcp-no-flow!", "{hook:?}");
        for time in [ROUND / 2 - Duration::from_secs(3600), Duration::from_secs(7200), ROUND / 2, ROUND] {
            bed.pass(time);
            assert_eq!(bed.send(Side::In, &stranger).words(), "tcp-no-flow", "{hook:?}, {time:?}");
        }
    }
}

#[test]
fn needs_root_what_is_forwarded_is_what_came_but_for_the_link_and_a_hop() {
    for hook in HOOKS {
        let mut bed = Bed::new(hook);
        let sent = v4(Side::In, 17, udp((5, 6), 18));
        let (_, frame) = bed.send_and_see(Side::In, &sent.bytes());
        let expected = Frame { ttl: 63, ..sent };
        assert_eq!(frame[..12], [2, 0, 0, 0, 2, 2, 2, 0, 0, 0, 2, 1], "{hook:?}");
        assert_eq!(frame[14..], expected.packet(), "{hook:?}");
    }
}

/// What comes to a bridge comes by one of its interfaces, with the bridge's Ethernet address.
#[test]
fn needs_root_an_interface_takes_the_frames_of_its_bridge_as_well() {
    for hook in HOOKS {
        let mut bed = Bed::new(hook);
        let namespace = Arc::clone(bed.namespace());
        let to =
            |last: u8| [&[2, 0, 0, 0, 9, last], &v4(Side::In, 17, udp((5, 6), 18)).bytes()[6..]].concat();
        assert_eq!(bed.send(Side::In, &to(1)).words(), "not-ours", "{hook:?}");
        namespace.ip("link add bridge0 address 02:00:00:00:09:01 type bridge\nlink set in0 master bridge0");
        namespace.within(|| {
            let ports = &mut bed.firewall_mut().ports;
            ports.detach("in0").unwrap();
            ports.attach("in0", "inside", hook).unwrap();
        });
        for (frame, expected) in
            [(to(1), "pass"), (to(2), "not-ours"), (v4(Side::In, 17, udp((5, 6), 18)).bytes(), "pass")]
        {
            assert_eq!(bed.send(Side::In, &frame).words(), expected, "{hook:?}");
        }
    }
}

#[test]
fn needs_root_wrong_resets_close_nothing() {
    const RESETS: u32 = 4000;
    let mut bed = Bed::new(Hook::Xdp);
    let ports = (4000, 80);
    let segment = |flags, sequence, acknowledgement| {
        let tcp = Tcp { ports, flags, sequence, acknowledgement, window: 0xffff, ..Tcp::default() };
        v4(Side::In, 6, tcp.bytes()).bytes()
    };
    let answer = Tcp {
        ports: (80, 4000),
        flags: SYN | ACK,
        sequence: 7,
        acknowledgement: 101,
        window: 0xffff,
        ..Tcp::default()
    };
    bed.send(Side::In, &segment(SYN, 100, 0));
    bed.send(Side::Out, &v4(Side::Out, 6, answer.bytes()).bytes());
    bed.send(Side::In, &segment(ACK, 101, 8));
    for i in 0..RESETS {
        // Spread over all numbers; none is the next one, 101.
        bed.send(Side::In, &segment(RST, 102u32.wrapping_add(i.wrapping_mul(1_073_741)), 0));
        assert_eq!(bed.state(4000), "established", "{i}");
    }
    assert_eq!(bed.send(Side::In, &segment(ACK, 101, 8)).words(), "pass");
    assert_eq!(bed.send(Side::In, &segment(RST, 101, 0)).words(), "pass");
    assert_eq!(bed.state(4000), "reset");
}

#[test]
fn needs_root_a_new_policy_judges_open_flows_again() {
    for hook in HOOKS {
        let mut bed = Bed::new(hook);
        let (asks, answers) =
            (v4(Side::In, 17, udp((5, 53), 8)).bytes(), v4(Side::Out, 17, udp((53, 5), 8)).bytes());
        let other = v4(Side::In, 17, udp((5, 99), 8)).bytes();
        assert_eq!(bed.send(Side::In, &asks).words(), "pass");
        assert_eq!(bed.send(Side::In, &other).words(), "pass");
        let narrower = POLICY.replacen("to = \"outside\"\n", "to = \"outside\"\nservice = \"udp/53\"\n", 1);
        bed.apply(&narrower);
        assert_eq!(bed.send(Side::Out, &answers).words(), "pass", "still allowed, whoever sends first");
        assert_eq!(bed.send(Side::In, &other).words(), "default-deny");
        let flows = bed.flows(&Filter::default());
        assert_eq!(flows.len(), 1, "{flows:?}");
        assert_eq!((bed.tally(Tally::JudgedAgain), bed.tally(Tally::Revoked)), (2, 1));
        bed.apply(POLICY);
        assert_eq!(bed.send(Side::In, &other).words(), "pass");
        // Zones may change places, and some may be gone.
        let moved = POLICY.replace("inside = {", "aside = { interfaces = \"x\" }\ninside = {");
        bed.apply(&moved);
        assert_eq!(bed.send(Side::Out, &answers).words(), "pass");
        let gone = "[zones]\noutside = { interfaces = \"out0\" }\n";
        bed.apply(gone);
        assert_eq!(bed.send(Side::Out, &answers).words(), "default-deny");
    }
}

/// A tunnel goes down, and the route leads elsewhere: what was allowed into it is not allowed everywhere.
#[test]
fn needs_root_a_flow_whose_route_moves_to_another_zone_is_judged_there() {
    const FAR: [(&str, &str, [&str; 2], &str); 2] = [
        (IN, "198.51.100.7", ["198.18.1.2", "198.18.2.2"], "198.51.100.0/24"),
        (IN6, "2001:2:0:5::7", ["2001:2:0:1::2", "2001:2:0:2::2"], "2001:2:0:5::/64"),
    ];
    let inward = format!(
        "{POLICY}\n[[rules]]\nname = \"around\"\nfrom = \"inside\"\nto = \"inside\"\naction = \"allow\"\n"
    );
    for hook in HOOKS {
        for (near, far, gateways, net) in FAR {
            let mut bed = Bed::new(hook);
            let route = |bed: &Bed, gateway: &str| {
                bed.namespace().ip(&format!("route replace {net} via {gateway}"));
                bed.firewall().forget_routes().unwrap();
            };
            let asks = |port| Frame::new(near, far, 17, udp((port, 53), 8)).completed().bytes();
            let answers = |port| Frame::new(far, near, 17, udp((53, port), 8)).completed().bytes();
            let visit = Frame::new(far, near, 17, udp((9, 53), 8)).completed().bytes();
            let reply = Frame::new(near, far, 17, udp((53, 9), 8)).completed().bytes();
            route(&bed, gateways[1]);
            for (side, frame) in [
                (Side::In, asks(1)),
                (Side::Out, answers(1)),
                (Side::In, asks(2)),
                (Side::Out, visit.clone()),
                (Side::In, reply.clone()),
            ] {
                assert_eq!(bed.send(side, &frame).words(), "pass", "{hook:?} {far}");
            }
            // Denied there: the flow is no more, whoever sends into it.
            route(&bed, gateways[0]);
            assert_eq!(bed.send(Side::In, &asks(1)).words(), "default-deny", "{hook:?} {far}");
            assert_eq!(
                bed.send(Side::In, &reply).words(),
                "default-deny",
                "{hook:?} {far}: of the initiator"
            );
            route(&bed, gateways[1]);
            assert_eq!(bed.send(Side::Out, &answers(1)).words(), "default-deny", "{hook:?} {far}: it ended");
            assert_eq!(bed.tally(Tally::Revoked), 2, "{hook:?} {far}");
            // Allowed there: it goes on, and its answers come from there.
            bed.apply(&inward);
            route(&bed, gateways[0]);
            assert_eq!(bed.send(Side::In, &asks(2)).words(), "pass", "{hook:?} {far}");
            assert_eq!(bed.send(Side::In, &answers(2)).words(), "pass", "{hook:?} {far}: from there");
            assert_eq!(bed.send(Side::Out, &answers(2)).words(), "flow-zone", "{hook:?} {far}: from before");
            let judged = bed.tally(Tally::JudgedAgain);
            assert_eq!(bed.send(Side::In, &asks(2)).words(), "pass", "{hook:?} {far}");
            assert_eq!(bed.tally(Tally::JudgedAgain), judged, "{hook:?} {far}: it was judged once");
            let flows = bed.flows(&Filter::default());
            assert_eq!(flows[0].zones, ("inside".to_owned(), "inside".to_owned()), "{flows:?}");
        }
    }
}

#[test]
fn needs_root_flows_are_listed_counted_and_killed() {
    let mut bed = Bed::new(Hook::Xdp);
    let (asks, answers) =
        (v4(Side::In, 17, udp((5, 53), 8)).bytes(), v4(Side::Out, 17, udp((53, 5), 8)).bytes());
    bed.send(Side::In, &asks);
    bed.pass(Duration::from_secs(20));
    bed.send(Side::Out, &answers);
    bed.send(Side::In, &asks);
    bed.send(Side::In, &v4(Side::In, 6, syn((6, 80))).bytes());
    let filter = Filter { address: Some(OUT.parse().unwrap()), protocol: Some(17), ..Filter::default() };
    let flows = bed.flows(&filter);
    let [flow] = &flows[..] else { panic!("{flows:?}") };
    assert_eq!(flow.initiator, (IN.parse().unwrap(), 5));
    assert_eq!(flow.responder, (OUT.parse().unwrap(), 53));
    assert_eq!(flow.zones, ("inside".to_owned(), "outside".to_owned()));
    assert_eq!((flow.packets, flow.bytes), ((2, 1), (72, 36)));
    assert_eq!((flow.rule.as_deref(), flow.state.name()), (Some("out"), "two-way"));
    assert!((19..25).contains(&flow.age.as_secs()) && flow.idle.as_secs() < 5, "{flow:?}");
    assert!(bed.firewall().flows.end(flow.id).unwrap());
    assert!(!bed.firewall().flows.end(flow.id).unwrap(), "it is over");
    assert_eq!(bed.send(Side::Out, &answers).words(), "default-deny");
    assert_eq!(bed.send(Side::Out, &v4(Side::Out, 6, syn((6, 7))).bytes()).words(), "rule-reject!");
    let hits = bed.firewall().counters.rule_hits(["out", "web", "rejected"]).unwrap();
    assert_eq!(hits, [("out", 2), ("web", 0), ("rejected", 1)]);
}

#[test]
fn needs_root_nothing_passes_before_a_policy() {
    let firewall = dataplane::Firewall::load_for(&Settings { flows: 1024, rules: 1 }, &[]).unwrap();
    let packet = policy::interpret::Packet {
        from: 0,
        to: 0,
        source: IN.parse().unwrap(),
        destination: OUT.parse().unwrap(),
        source_port: 40_000,
        protocol: 6,
        selector: 80,
    };
    assert_eq!(firewall.judge(&packet).unwrap(), None);
}
