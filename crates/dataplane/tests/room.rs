//! No table that one host can fill: flows that nobody answers have budgets, hosts have shares, and what both ends take part in never goes.
//! Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, POLICY, Side};
use dataplane::{Filter, Hook, Reason, Settings, Tally};
use std::time::Duration;
use testkit::packet::{ACK, Frame, SYN, Tcp, icmp, udp};

const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];
/// Flows that the table has room for, but where a test says another number.
const TABLE: u32 = 1024;
const SECOND: Duration = Duration::from_secs(1);

/// Who floods, who else is there, and whom they talk to.
struct Hosts {
    flood: &'static str,
    other: &'static str,
    server: &'static str,
}

const V4: Hosts = Hosts { flood: "198.18.1.2", other: "198.18.1.3", server: "198.18.2.2" };
/// The other one's network of 64 bits is another one.
const V6: Hosts = Hosts { flood: "2001:2:0:1::2", other: "2001:2:0:3::2", server: "2001:2:0:2::2" };

fn bed(hook: Hook, settings: &str) -> Bed {
    // Inside are more networks than the zone's own.
    let policy = POLICY.replace(", networks = [\"198.18.1.0/24\", \"2001:2:0:1::/64\"]", "");
    let sizes = Settings { flows: TABLE, rules: 64 };
    with_hosts(Bed::with(hook, &sizes, &format!("[settings]\n{settings}\n{policy}")))
}

/// Inside are many hosts, whose Ethernet addresses are known.
fn with_hosts(bed: Bed) -> Bed {
    let host = |n| format!("neighbour add 198.18.1.{n} lladdr 02:00:00:00:01:02 dev in0\n");
    let hosts: String = (3..255).map(host).collect();
    bed.namespace().ip(&format!("{hosts}route add 2001:2:0:3::/64 via 2001:2:0:1::2"));
    bed.firewall().forget_routes().unwrap();
    bed
}

fn datagram(from: &str, to: &str, ports: (u16, u16)) -> Vec<u8> {
    Frame::new(from, to, 17, udp(ports, 18)).bytes()
}

fn syn(from: &str, to: &str, port: u16) -> Vec<u8> {
    let tcp = Tcp { ports: (port, 80), flags: SYN, sequence: 1, window: 999, ..Tcp::default() };
    Frame::new(from, to, 6, tcp.bytes()).bytes()
}

/// Opens so many flows that the server answers. They are open then.
fn open_answered(bed: &mut Bed, from: &str, to: &str, ports: std::ops::Range<u16>) {
    for port in ports {
        assert_eq!(bed.send(Side::In, &datagram(from, to, (port, 53))).words(), "pass", "{port}");
        assert_eq!(bed.send(Side::Out, &datagram(to, from, (53, port))).words(), "pass", "{port}");
    }
}

fn flows_in(bed: &Bed, state: &str) -> usize {
    bed.flows(&Filter::default()).iter().filter(|flow| flow.state.name() == state).count()
}

/// A packet of UDP, a ping, or one of SCTP, by its number: all have one budget.
fn unanswered(from: &str, to: &str, number: u16) -> Vec<u8> {
    let (protocol, question) = if from.contains(':') { (58, 128) } else { (1, 8) };
    match number % 3 {
        0 => datagram(from, to, (number, 53)),
        1 => Frame::new(from, to, protocol, icmp(question, 0, number)).bytes(),
        _ => Frame::new(from, to, 132, [&number.to_be_bytes()[..], &[0, 53], &[0; 8]].concat()).bytes(),
    }
}

/// A frame from one address to another, with a number.
type Frames<'a> = dyn Fn(&str, &str, u16) -> Vec<u8> + 'a;

/// A flood of one host, of either kind: its flows make room for the first flow of another host at once, and not for its own.
#[test]
fn needs_root_a_host_that_floods_alone_keeps_nobody_out() {
    let kinds: [(&str, &Frames<'_>); 2] =
        [("unanswered-full", &unanswered), ("half-open-full", &|from, to, port| syn(from, to, port))];
    for hook in HOOKS {
        for hosts in [V4, V6] {
            for (full, frame) in kinds {
                let mut bed = bed(hook, "half_open = 128\nunanswered = 128");
                open_answered(&mut bed, hosts.flood, hosts.server, 1..201);
                for port in 1000..1128 {
                    assert_eq!(bed.send(Side::In, &frame(hosts.flood, hosts.server, port)).words(), "pass");
                }
                for port in 2000..2100 {
                    assert_eq!(bed.send(Side::In, &frame(hosts.flood, hosts.server, port)).words(), full);
                }
                // The other one's share is 8 of 128, and what it has stays.
                for port in 3000..3009 {
                    let fate = bed.send(Side::In, &frame(hosts.other, hosts.server, port)).words();
                    assert_eq!(fate, "pass", "{hook:?} {full} {port}");
                }
                assert_eq!(bed.send(Side::In, &frame(hosts.other, hosts.server, 3009)).words(), full);
                assert_eq!(bed.tally(Tally::Evicted), 9, "{hook:?} {full}");
                let others = Filter { address: Some(hosts.other.parse().unwrap()), ..Filter::default() };
                assert_eq!(bed.flows(&others).len(), 9, "{hook:?} {full}");
                // After a second also its own make room, and the other kind never did.
                bed.pass(2 * SECOND);
                assert_eq!(bed.send(Side::In, &frame(hosts.flood, hosts.server, 2000)).words(), "pass");
                assert_eq!(flows_in(&bed, "two-way"), 200, "{hook:?} {full}");
                let flows = &bed.firewall().flows;
                let spent = if full == "half-open-full" { flows.half_open() } else { flows.unanswered() };
                assert_eq!(spent, 128, "{hook:?} {full}");
            }
        }
    }
}

/// More than a million datagrams from one host, each of a flow of its own, into a table of the usual size.
#[test]
fn needs_root_a_million_datagrams_of_one_host_leave_room_for_another() {
    const DATAGRAMS: u32 = 1_100_000;
    let settings = Settings { flows: 1 << 20, rules: 64 };
    let mut bed = with_hosts(Bed::with(Hook::Xdp, &settings, POLICY));
    open_answered(&mut bed, V4.other, V4.server, 1..101);
    let mut frame = Side::In.addressed(&datagram(V4.flood, V4.server, (0, 0)));
    bed.within(Side::In, |firewall, index| {
        for n in 0..DATAGRAMS {
            frame[34..38].copy_from_slice(&(1 + n).to_be_bytes());
            firewall.test_run(&frame, index, Hook::Xdp).unwrap();
        }
    });
    assert_eq!(bed.firewall().flows.unanswered(), 262_144);
    let refused = bed.firewall().counters.drops().unwrap()[&Reason::UnansweredFull];
    assert_eq!(refused, u64::from(DATAGRAMS - 262_144));
    for port in 2000..2100 {
        assert_eq!(bed.send(Side::In, &datagram(V4.other, V4.server, (port, 53))).words(), "pass", "{port}");
    }
    assert_eq!(bed.send(Side::In, &syn(V4.flood, V4.server, 9)).words(), "pass", "another kind");
}

/// Five packets a second of one host, for a minute, beside another that asks once a second.
#[test]
fn needs_root_a_few_packets_a_second_do_not_keep_a_table_full() {
    for hook in HOOKS {
        let mut bed = bed(hook, "unanswered = 64");
        let mut port = 1000;
        for second in 0..60 {
            for _ in 0..5 {
                port += 1;
                let fate = bed.send(Side::In, &datagram(V4.flood, V4.server, (port, 53))).words();
                assert_eq!(fate, "pass", "{hook:?} {second}");
            }
            let fate = bed.send(Side::In, &datagram(V4.other, V4.server, (1 + second, 53))).words();
            assert_eq!(fate, "pass", "{hook:?} {second}");
            bed.pass(SECOND);
        }
        assert!(bed.firewall().flows.unanswered() <= 64);
    }
}

/// Sources that nobody can tell apart from honest ones: what is open stays, and after a second there is room again.
#[test]
fn needs_root_a_flood_of_forged_sources_evicts_itself() {
    for hook in HOOKS {
        let mut bed = bed(hook, "half_open = 100\nunanswered = 100");
        open_answered(&mut bed, V4.other, V4.server, 1..201);
        let forged = |n: u16| format!("198.18.1.{}", 10 + n % 200);
        for n in 0..100 {
            assert_eq!(bed.send(Side::In, &datagram(&forged(n), V4.server, (9, n))).words(), "pass");
        }
        assert_eq!(
            bed.send(Side::In, &datagram(&forged(100), V4.server, (9, 100))).words(),
            "unanswered-full"
        );
        bed.pass(2 * SECOND);
        for n in 100..200 {
            assert_eq!(bed.send(Side::In, &datagram(&forged(n), V4.server, (9, n))).words(), "pass");
        }
        assert_eq!(bed.firewall().flows.unanswered(), 100, "{hook:?}");
        assert_eq!(flows_in(&bed, "two-way"), 200, "{hook:?}");
    }
}

/// One host with all addresses of a /64 is one source: of budgets, and of a rule's limit.
#[test]
fn needs_root_a_network_of_64_bits_is_one_source() {
    let of = |n: u16| format!("2001:2:0:1:{n:x}::{n:x}");
    for hook in HOOKS {
        let mut bed = bed(hook, "unanswered = 128");
        for n in 1..129 {
            assert_eq!(bed.send(Side::In, &datagram(&of(n), V6.server, (9, n))).words(), "pass");
        }
        assert_eq!(bed.send(Side::In, &datagram(&of(300), V6.server, (9, 9))).words(), "unanswered-full");
        assert_eq!(bed.send(Side::In, &datagram(V6.other, V6.server, (9, 9))).words(), "pass");
        let limited = POLICY.replacen(
            "action = \"allow\"",
            "action = \"allow\"\nlimit = { rate = \"1/h\", burst = 2, per = \"source\" }",
            1,
        );
        bed.apply(&limited.replace(", networks = [\"198.18.1.0/24\", \"2001:2:0:1::/64\"]", ""));
        let fates = [400, 401, 402].map(|n| bed.send(Side::In, &datagram(&of(n), V6.server, (7, 7))).words());
        assert_eq!(fates, ["pass", "pass", "rate"], "{hook:?}");
        assert_eq!(bed.send(Side::In, &datagram(V6.other, V6.server, (7, 7))).words(), "pass");
    }
}

/// A table that is full of what nobody answered makes room after a second; what is open never goes.
#[test]
fn needs_root_a_full_table_evicts_what_nobody_answered() {
    for hook in HOOKS {
        let mut bed = bed(hook, "");
        let host = |n: u16| format!("198.18.1.{}", 10 + n % 100);
        for n in 1..513 {
            open_answered(&mut bed, &host(n), V4.server, n..n + 1);
        }
        for n in 513..1025 {
            assert_eq!(bed.send(Side::In, &datagram(&host(n), V4.server, (n, 53))).words(), "pass");
        }
        assert_eq!(bed.send(Side::In, &syn(V4.other, V4.server, 9)).words(), "table-full", "all are young");
        bed.pass(2 * SECOND);
        for n in 2000..2600 {
            let fate = bed.send(Side::In, &datagram(&host(n), V4.server, (n, 53))).words();
            assert_eq!(fate, if n < 2512 { "pass" } else { "table-full" }, "{hook:?} {n}");
        }
        assert_eq!((flows_in(&bed, "two-way"), bed.tally(Tally::Evicted)), (512, 512), "{hook:?}");
    }
}

/// A source that has more than a quarter of a table gets nothing of its last sixteenth, unless in the place of what is closed.
#[test]
fn needs_root_the_last_of_a_table_is_for_others() {
    for hook in HOOKS {
        let mut bed = bed(hook, "");
        open_answered(&mut bed, V4.flood, V4.server, 1..961);
        assert_eq!(bed.send(Side::In, &datagram(V4.flood, V4.server, (2000, 53))).words(), "source-full");
        open_answered(&mut bed, V4.other, V4.server, 1..65);
        assert_eq!(bed.send(Side::In, &datagram(V4.other, V4.server, (99, 53))).words(), "table-full");
        bed.pass(Duration::from_secs(310));
        assert_eq!(
            bed.send(Side::In, &datagram(V4.flood, V4.server, (2000, 53))).words(),
            "pass",
            "{hook:?}"
        );
    }
}

/// How long a flow lives that nobody answers, by how full the table is: 30 s, a half, a quarter, an eighth of it.
#[test]
fn needs_root_what_nobody_answers_expires_sooner_as_the_table_fills() {
    for hook in HOOKS {
        for (others, lives, is_over) in [(0, 28, 31), (511, 28, 31), (513, 14, 16), (769, 7, 8), (897, 3, 4)]
        {
            let mut bed = bed(hook, "");
            for n in 0..others {
                open_answered(&mut bed, &format!("198.18.1.{}", 10 + n % 100), V4.server, n + 1..n + 2);
            }
            let answers = datagram(V4.server, V4.flood, (53, 7));
            for (seconds, expected) in [(lives, "pass"), (is_over, "default-deny")] {
                let opened = datagram(V4.flood, V4.server, (7, 53));
                assert_eq!(bed.send(Side::In, &opened).words(), "pass");
                bed.pass(seconds * SECOND);
                assert_eq!(
                    bed.send(Side::Out, &answers).words(),
                    expected,
                    "{hook:?}: {others}, {seconds} s"
                );
                if expected == "pass" {
                    // An answered one lives as long as any.
                    bed.pass(100 * SECOND);
                    assert_eq!(bed.send(Side::Out, &answers).words(), "pass", "{hook:?}: {others}");
                    for flow in bed.flows(&Filter { port: Some(7), ..Filter::default() }) {
                        assert!(bed.firewall().flows.end(flow.id).unwrap());
                    }
                }
            }
        }
    }
}

/// Who tries all addresses of a network makes the kernel look for 32 neighbours a second, and others may look for theirs.
#[test]
fn needs_root_a_source_looks_for_few_neighbours_a_second() {
    for (hook, sent) in [(Hook::Tc, "pass"), (Hook::Xdp, "up")] {
        let mut bed = bed(hook, "");
        let to = |n: u32| format!("198.18.2.{}", 10 + n);
        let fates = |bed: &mut Bed, from: &str, first: u32| -> usize {
            let ask = |n| bed.send(Side::In, &datagram(from, &to(n), (9, 9))).words();
            let fates: Vec<String> = (first..first + 60).map(ask).collect();
            assert!(fates.iter().all(|fate| fate == sent || fate == "neighbours"), "{hook:?}: {fates:?}");
            fates.iter().filter(|fate| *fate == sent).count()
        };
        assert_eq!(fates(&mut bed, V4.flood, 0), 32, "{hook:?}");
        assert_eq!(fates(&mut bed, V4.other, 0), 32, "{hook:?}: another source");
        bed.pass(2 * SECOND);
        assert_eq!(fates(&mut bed, V4.flood, 60), 32, "{hook:?}: later");
        // A neighbour that is known is asked for by nobody.
        assert_eq!(bed.send(Side::In, &datagram(V4.flood, V4.server, (9, 9))).words(), "pass", "{hook:?}");
    }
}

/// Handshakes that end, and flows that are answered, leave their budgets, whichever way they go.
#[test]
fn needs_root_budgets_hold_what_is_not_finished() {
    for hook in HOOKS {
        let mut bed = bed(hook, "");
        let spent = |bed: &Bed| [bed.firewall().flows.half_open(), bed.firewall().flows.unanswered()];
        let answer = Tcp {
            ports: (80, 5),
            flags: SYN | ACK,
            sequence: 7,
            acknowledgement: 2,
            window: 999,
            ..Tcp::default()
        };
        let ack = Tcp {
            ports: (5, 80),
            flags: ACK,
            sequence: 2,
            acknowledgement: 8,
            window: 999,
            ..Tcp::default()
        };
        for (side, frame, expected) in [
            (Side::In, syn(V4.flood, V4.server, 5), [1, 0]),
            (Side::In, datagram(V4.flood, V4.server, (5, 53)), [1, 1]),
            (Side::In, datagram(V4.flood, V4.server, (6, 53)), [1, 2]),
            (Side::Out, Frame::new(V4.server, V4.flood, 6, answer.bytes()).bytes(), [1, 2]),
            (Side::In, Frame::new(V4.flood, V4.server, 6, ack.bytes()).bytes(), [0, 2]),
            (Side::Out, datagram(V4.server, V4.flood, (53, 5)), [0, 1]),
            (Side::In, datagram(V4.flood, V4.server, (5, 53)), [0, 1]),
        ] {
            assert_eq!(bed.send(side, &frame).words(), "pass");
            assert_eq!(spent(&bed), expected, "{hook:?}");
        }
        bed.pass(32 * SECOND);
        assert_eq!(bed.firewall().flows.sweep().unwrap(), 1);
        assert_eq!(spent(&bed), [0, 0], "{hook:?}");
        let events = bed.firewall().occupancy().unwrap();
        assert_eq!((events.flows, events.half_open, events.unanswered), (2, 0, 0));
    }
}
