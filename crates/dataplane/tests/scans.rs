//! Scans: who is found, who is not, what a block refuses and what ends it, packet by packet. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, Fate, POLICY, Side};
use dataplane::{EventKind, Hook, Reason, Settings, Tally};
use std::time::Duration;
use testkit::packet::{ACK, Frame, RST, SYN, Tcp, icmp, udp};

const IN: &str = "198.18.1.2";
const OUT: &str = "198.18.2.2";
const HOOKS: [Hook; 3] = [Hook::Xdp, Hook::Tc, Hook::Netfilter];
/// At the hooks that ask for the way back themselves.
const FAST: [Hook; 2] = [Hook::Xdp, Hook::Tc];

/// Twenty ports or hosts in ten seconds; fewer than seventeen never are a scan, and twice as many always are.
const SCANS: &str = "[scans]\nports = 20\nhosts = 20\nwindow = '10s'\n";
const BLOCK: &str = "block = '10min'\n";
const SURE: u16 = 40;
const NEVER: u16 = 16;

fn policy(scans: &str) -> String {
    format!("{POLICY}{scans}")
}

fn blocking() -> String {
    policy(&format!("{SCANS}{BLOCK}except = ['198.18.2.9', '2001:2:0:2:9::/80']\n"))
}

fn bed(hook: Hook, policy: &str) -> Bed {
    Bed::with(hook, &Settings { flows: 4096, rules: 64 }, policy)
}

fn segment(source: &str, destination: &str, ports: (u16, u16), flags: u8) -> Vec<u8> {
    let ack = u32::from(flags & ACK != 0);
    let tcp = Tcp { ports, flags, sequence: 1, acknowledgement: ack * 2, window: 1000, ..Tcp::default() };
    Frame::new(source, destination, 6, tcp.bytes()).completed().bytes()
}

fn datagram(source: &str, destination: &str, ports: (u16, u16)) -> Vec<u8> {
    Frame::new(source, destination, 17, udp(ports, 18)).completed().bytes()
}

/// The frame that a number stands for.
type Numbered = fn(u16) -> Vec<u8>;

/// Sends frames in from outside, one for each number.
fn send(bed: &mut Bed, frame: Numbered, numbers: impl IntoIterator<Item = u16>) {
    for number in numbers {
        bed.send(Side::Out, &frame(number));
    }
}

/// Who is blocked: address, prefix and zone.
fn blocked(bed: &Bed) -> Vec<String> {
    let blocked = bed.firewall().scans.blocked(bed.now()).unwrap();
    blocked.iter().map(|it| format!("{}/{} {}", it.source, it.prefix, it.zone)).collect()
}

fn to_port(number: u16) -> Vec<u8> {
    segment(OUT, IN, (5, 1000 + number), SYN)
}

/// A flow that the rule `web` allows.
fn web(source: &str, port: u16) -> Vec<u8> {
    segment(source, IN, (port, 80), SYN)
}

const DROPPED: Fate = Fate::Dropped(Reason::ScanBlocked);

#[test]
fn needs_root_who_scans_and_who_does_not() {
    const OUTSIDE: &[&str] = &["198.18.2.2/32 outside"];
    /// What it is, at which hooks, its frames, how many, and who is blocked then.
    type Row = (&'static str, &'static [Hook], Numbered, u16, &'static [&'static str]);
    let rows: Vec<Row> = vec![
        ("ports of a host", &HOOKS, to_port, SURE, OUTSIDE),
        ("a few ports", &HOOKS, to_port, NEVER, &[]),
        ("a port again and again", &HOOKS, |_| to_port(1), 3 * SURE, &[]),
        ("ports of UDP", &HOOKS, |n| datagram(OUT, IN, (5000, 1000 + n)), SURE, OUTSIDE),
        ("hosts", &HOOKS, |n| segment(OUT, &format!("198.18.1.{}", 10 + n), (5, 23), SYN), SURE, OUTSIDE),
        (
            "few ports of few hosts",
            &HOOKS,
            |n| segment(OUT, &format!("198.18.1.{}", 10 + n % 7), (5, 20 + n % 11), SYN),
            99,
            &[],
        ),
        (
            "hosts that are asked for their time",
            &HOOKS,
            |n| Frame::new(OUT, &format!("198.18.1.{}", 10 + n), 1, icmp(13, 0, 7)).bytes(),
            SURE,
            OUTSIDE,
        ),
        ("answers that come late", &HOOKS, |n| datagram(OUT, IN, (53, 40_000 + n)), SURE, &[]),
        ("from port 53 to services", &HOOKS, |n| datagram(OUT, IN, (53, 100 + n)), SURE, OUTSIDE),
        ("segments of no connection", &HOOKS, |n| segment(OUT, IN, (80, 1000 + n), SYN | ACK), SURE, &[]),
        (
            "ICMP errors",
            &HOOKS,
            |n| Frame::new(OUT, &format!("198.18.1.{}", 10 + n), 1, icmp(3, 1, 0)).bytes(),
            SURE,
            &[],
        ),
        ("groups", &FAST, |n| datagram(OUT, &format!("239.0.0.{}", 10 + n), (5000, 5353)), SURE, &[]),
        ("one who is excepted", &HOOKS, |n| segment("198.18.2.9", IN, (5, 1000 + n), SYN), SURE, &[]),
        ("a forged address of inside", &HOOKS, |n| segment(IN, "198.18.1.3", (5, 1000 + n), SYN), SURE, &[]),
        (
            "a forged address of the firewall",
            &FAST,
            |n| segment("198.18.2.1", IN, (5, 1000 + n), SYN),
            SURE,
            &[],
        ),
        (
            "an address that no route leads to",
            &FAST,
            |n| segment("203.0.113.5", IN, (5, 1000 + n), SYN),
            SURE,
            &[],
        ),
        (
            "a link's own address",
            &FAST,
            |n| datagram("fe80::5", "2001:2:0:2::1", (5000, 1000 + n)),
            SURE,
            &[],
        ),
        (
            "addresses of one network",
            &HOOKS,
            |n| segment(&format!("2001:2:0:2::{:x}", 0x1000 + n), "2001:2:0:1::2", (5, 1000 + n), SYN),
            SURE,
            &["2001:2:0:2::/64 outside"],
        ),
        (
            "addresses of one network, excepted",
            &HOOKS,
            |n| segment(&format!("2001:2:0:2:9::{:x}", 0x1000 + n), "2001:2:0:1::2", (5, 1000 + n), SYN),
            SURE,
            &[],
        ),
        (
            "as many sources",
            &HOOKS,
            |n| segment(&format!("198.18.2.{}", 10 + n), IN, (5, 1000 + n), SYN),
            SURE,
            &[],
        ),
        ("what is allowed", &HOOKS, |n| datagram(OUT, IN, (5000 + n, 53)), SURE, &[]),
    ];
    for hook in HOOKS {
        let mut bed = bed(hook, &blocking());
        for (what, _, frame, count, expected) in rows.iter().filter(|(_, hooks, ..)| hooks.contains(&hook)) {
            let before = bed.tally(Tally::Scans);
            send(&mut bed, *frame, 0..*count);
            assert_eq!(blocked(&bed), *expected, "{what}, {hook:?}");
            assert_eq!(bed.tally(Tally::Scans) - before, expected.len() as u64, "{what}, {hook:?}");
            // Long enough for everything to be over.
            bed.pass(Duration::from_secs(10_000));
            assert_eq!(blocked(&bed), [""; 0], "{what}, {hook:?}");
        }
    }
}

#[test]
fn needs_root_a_block_refuses_new_flows_alone() {
    for hook in HOOKS {
        let mut bed = bed(hook, &blocking());
        let known = segment(OUT, IN, (7, 80), SYN);
        assert_eq!(bed.send(Side::Out, &known), Fate::Sent);
        assert_eq!(bed.send(Side::In, &segment(IN, OUT, (80, 7), SYN | ACK)), Fate::Sent);
        send(&mut bed, to_port, 0..SURE);
        let of_inside = segment(IN, OUT, (9, 443), SYN);
        for (what, side, frame, expected) in [
            ("a new flow", Side::Out, web(OUT, 8), DROPPED),
            ("a ping", Side::Out, Frame::new(OUT, IN, 1, icmp(8, 0, 7)).bytes(), DROPPED),
            ("what is refused anyway", Side::Out, to_port(1), DROPPED),
            ("the flow that it has", Side::Out, segment(OUT, IN, (7, 80), ACK), Fate::Sent),
            ("the flow that it has, the other way", Side::In, segment(IN, OUT, (80, 7), ACK), Fate::Sent),
            ("a flow to it", Side::In, of_inside, Fate::Sent),
            ("its answer", Side::Out, segment(OUT, IN, (443, 9), SYN | ACK), Fate::Sent),
            ("another source", Side::Out, web("198.18.2.3", 8), Fate::Sent),
        ] {
            assert_eq!(bed.send(side, &frame), expected, "{what}, {hook:?}");
        }
        // By its time, which what it asks for meanwhile does not make longer.
        bed.pass(Duration::from_secs(599));
        send(&mut bed, to_port, 0..SURE);
        assert_eq!(bed.send(Side::Out, &web(OUT, 10)), DROPPED, "{hook:?}");
        bed.pass(Duration::from_secs(2));
        assert_eq!(bed.send(Side::Out, &web(OUT, 11)), Fate::Sent, "its time is over, {hook:?}");
        assert_eq!(blocked(&bed), [""; 0]);
        send(&mut bed, to_port, 0..NEVER);
        assert_eq!(bed.send(Side::Out, &web(OUT, 12)), Fate::Sent, "it begins anew, {hook:?}");
        send(&mut bed, to_port, 0..SURE);
        assert_eq!(bed.send(Side::Out, &web(OUT, 13)), DROPPED, "it goes on, {hook:?}");
    }
}

#[test]
fn needs_root_a_user_ends_a_block() {
    let mut bed = bed(Hook::Tc, &blocking());
    send(&mut bed, to_port, 0..SURE);
    let found = bed.firewall().scans.blocked(bed.now()).unwrap();
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert!((17..=22).contains(&one.ports) && one.hosts == 1, "{one:?}");
    assert!(one.left > Duration::from_secs(599) && one.age < Duration::from_secs(1), "{one:?}");
    let scans = &bed.firewall().scans;
    assert_eq!([scans.end(one.key ^ 2).unwrap(), scans.end(0).unwrap()], [false, false], "nobody");
    assert_eq!([scans.end(one.key).unwrap(), scans.end(one.key).unwrap()], [true, false]);
    assert_eq!(bed.send(Side::Out, &web(OUT, 8)), Fate::Sent);
    send(&mut bed, to_port, 0..NEVER);
    assert_eq!(blocked(&bed), [""; 0], "it begins anew");
}

#[test]
fn needs_root_a_policy_says_whether_blocks_hold() {
    let mut bed = bed(Hook::Tc, &blocking());
    send(&mut bed, to_port, 0..SURE);
    let excepting = policy(&format!("{SCANS}{BLOCK}except = '198.18.2.0/30'\n"));
    for (what, text, expected) in [
        ("another policy that blocks", policy(&format!("{SCANS}{BLOCK}")), DROPPED),
        ("no scans", POLICY.to_owned(), Fate::Sent),
        ("scans without a block", policy(SCANS), Fate::Sent),
        ("an exception", excepting, Fate::Sent),
        ("as before", blocking(), DROPPED),
    ] {
        bed.apply(&text);
        // Known flows would go on.
        for flow in bed.flows(&dataplane::Filter::default()) {
            bed.firewall().flows.end(flow.id).unwrap();
        }
        assert_eq!(bed.send(Side::Out, &web(OUT, 8)), expected, "{what}");
    }
}

#[test]
fn needs_root_the_window_moves() {
    for (what, pause, again, is_found) in [
        ("at once", 0, SURE, true),
        ("within the window", 9, SURE, true),
        ("within two windows", 12, SURE, true),
        ("the same ports again", 9, 0, false),
        ("slower than two windows", 21, SURE, false),
        ("much slower", 1_000, SURE, false),
    ] {
        let mut bed = bed(Hook::Tc, &blocking());
        send(&mut bed, to_port, 0..NEVER);
        bed.pass(Duration::from_secs(pause));
        // Others, of which there are too few alone.
        send(&mut bed, to_port, again..again + NEVER);
        assert_eq!(!blocked(&bed).is_empty(), is_found, "{what}");
    }
}

#[test]
fn needs_root_without_a_block_a_scan_is_recorded_once_a_window() {
    for (text, is_blocked, expected) in
        [(policy(SCANS), false, 2), (blocking(), true, 1), (POLICY.to_owned(), false, 0)]
    {
        let mut bed = bed(Hook::Tc, &text);
        let mut events = Vec::new();
        for second in 0..11 {
            send(&mut bed, to_port, second * 50..second * 50 + 50);
            events.extend(bed.firewall().events.take().unwrap());
            bed.pass(Duration::from_secs(1));
        }
        assert_eq!(events.len(), expected, "{events:?}");
        for event in &events {
            let EventKind::Scan { ports, hosts, is_blocked: blocked } = event.kind else {
                panic!("{event:?}")
            };
            assert!(ports >= 17 && hosts == 1 && blocked == is_blocked, "{event:?}");
            assert_eq!((event.source.0.to_string(), event.rule.as_deref()), (OUT.to_owned(), None));
            assert_eq!(event.zones, ("outside".to_owned(), Some("inside".to_owned())));
        }
        assert_eq!(bed.send(Side::Out, &web(OUT, 8)), if is_blocked { DROPPED } else { Fate::Sent });
    }
}

/// What the policy allows and nobody answers is found when it is swept; what is answered never is.
#[test]
fn needs_root_flows_that_nobody_answers_are_counted_as_they_end() {
    type Answer = fn(u16) -> Option<Vec<u8>>;
    let rows: [(&str, Numbered, Answer, bool); 6] = [
        ("datagrams without an answer", |n| datagram(IN, OUT, (5000, 1000 + n)), |_| None, true),
        (
            "datagrams with one",
            |n| datagram(IN, OUT, (5000, 1000 + n)),
            |n| Some(datagram(OUT, IN, (1000 + n, 5000))),
            false,
        ),
        ("SYNs without an answer", |n| segment(IN, OUT, (5000, 1000 + n), SYN), |_| None, true),
        (
            "SYNs that resets answer",
            |n| segment(IN, OUT, (5000, 1000 + n), SYN),
            |n| Some(segment(OUT, IN, (1000 + n, 5000), RST | ACK)),
            true,
        ),
        (
            "handshakes that do not end",
            |n| segment(IN, OUT, (5000, 1000 + n), SYN),
            |n| Some(segment(OUT, IN, (1000 + n, 5000), SYN | ACK)),
            true,
        ),
        ("datagrams to one port", |n| datagram(IN, OUT, (5000 + n, 53)), |_| None, false),
    ];
    for (what, frame, answer, is_found) in rows {
        let mut bed = bed(Hook::Tc, &blocking());
        for number in 0..SURE {
            assert_eq!(bed.send(Side::In, &frame(number)), Fate::Sent, "{what}");
            if let Some(answer) = answer(number) {
                assert_eq!(bed.send(Side::Out, &answer), Fate::Sent, "{what}");
            }
        }
        assert_eq!(blocked(&bed), [""; 0], "{what}: nobody knows yet");
        // Longer than anything waits, and than a second of grace.
        bed.pass(Duration::from_secs(302));
        assert_eq!(bed.firewall().flows.sweep().unwrap(), u32::from(SURE), "{what}");
        let expected: &[&str] = if is_found { &["198.18.1.2/32 inside"] } else { &[] };
        assert_eq!(blocked(&bed), expected, "{what}");
    }
}

#[test]
fn needs_root_a_connection_that_was_one_is_no_scan() {
    let mut bed = bed(Hook::Tc, &blocking());
    for n in 0..SURE {
        let (out, back) = ((5000, 1000 + n), (1000 + n, 5000));
        let tcp = |ports, flags, sequence, acknowledgement| Tcp {
            ports,
            flags,
            sequence,
            acknowledgement,
            window: 1000,
            ..Tcp::default()
        };
        for (side, from, to, tcp) in [
            (Side::In, IN, OUT, tcp(out, SYN, 1, 0)),
            (Side::Out, OUT, IN, tcp(back, SYN | ACK, 7, 2)),
            (Side::In, IN, OUT, tcp(out, ACK, 2, 8)),
            (Side::Out, OUT, IN, tcp(back, ACK, 8, 2)),
            (Side::In, IN, OUT, tcp(out, RST, 2, 0)),
        ] {
            let frame = Frame::new(from, to, 6, tcp.bytes()).completed().bytes();
            assert_eq!(bed.send(side, &frame), Fate::Sent);
        }
    }
    bed.pass(Duration::from_secs(302));
    assert_eq!(bed.firewall().flows.sweep().unwrap(), u32::from(SURE));
    assert_eq!(blocked(&bed), [""; 0]);
}

/// More sources than there is room for: who is blocked stays so, and who is forgotten is counted.
#[test]
fn needs_root_many_forged_sources_end_no_block() {
    // These addresses have no route back.
    let mut bed = bed(Hook::Tc, &format!("{}[settings]\nreverse_path = 'off'\n", blocking()));
    send(&mut bed, to_port, 0..SURE);
    for n in 0..30_000u32 {
        let source = format!("10.7.{}.{}", n >> 8, n & 255);
        assert_eq!(
            bed.send(Side::Out, &segment(&source, IN, (5, 23), SYN)),
            Fate::Dropped(Reason::DefaultDeny)
        );
    }
    assert!(bed.tally(Tally::ScanUncounted) > 10_000, "there was room for all");
    assert_eq!(blocked(&bed), ["198.18.2.2/32 outside"]);
    assert_eq!(bed.send(Side::Out, &web(OUT, 8)), DROPPED);
    // Who asks for more keeps the place of one who asked once.
    let from = |n: u16| segment("10.8.0.1", IN, (5, 1000 + n), SYN);
    for n in 0..SURE {
        bed.send(Side::Out, &from(n));
    }
    assert_eq!(blocked(&bed).len(), 2);
}
