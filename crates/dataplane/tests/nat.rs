//! Translated packets, byte by byte: `nat/nat.txt` on both hooks; what a pool does when it is used up; and what ends with a flow.
//! Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
#[path = "nat/reference.rs"]
mod reference;

use bed::{Bed, Fate, Side};
use dataplane::{Filter, Hook, Reason, Settings, State};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

const POLICY: &str = include_str!("nat/nat.toml");
const ROWS: &str = include_str!("nat/nat.txt");
const MAPPING_POLICY: &str = include_str!("nat/mapping.toml");
const MAPPING_ROWS: &str = include_str!("nat/mapping.txt");
const PREFIX_POLICY: &str = include_str!("nat/prefix.toml");
const PREFIX_ROWS: &str = include_str!("nat/prefix.txt");
const OVERLAP_POLICY: &str = include_str!("nat/overlap.toml");
const OVERLAP_ROWS: &str = include_str!("nat/overlap.txt");
const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];

/// The bed with the hosts of the rows, and each interface's own address.
fn bed(hook: Hook) -> Bed {
    bed_under(hook, POLICY)
}

fn bed_under(hook: Hook, policy: &str) -> Bed {
    let bed = Bed::with(hook, &Settings { flows: 4096, rules: 1024 }, policy);
    for host in [8, 9, 11, 12, 66, 67, 68, 69, 70] {
        bed.namespace().ip(&format!("neighbour add 198.18.1.{host} lladdr 02:00:00:00:01:02 dev in0"));
    }
    bed.namespace().ip("route add fd01:203:405::/48 via 2001:2:0:1::2
         route add fd02:0:0:7::/64 via 2001:2:0:1::2
         route add fd03::/48 via 2001:2:0:1::2
         route add 2001:db8:1::/48 via 2001:2:0:1::2
         route add 2001:db8:ff::/48 via 2001:2:0:2::2");
    for (side, v4, v6) in
        [(Side::In, "198.18.1.1", "2001:2:0:1::1"), (Side::Out, "198.18.2.1", "2001:2:0:2::1")]
    {
        let index = bed.indices()[side as usize];
        bed.firewall().set_own_addresses(index, v4.parse().unwrap(), v6.parse().unwrap()).unwrap();
    }
    for address in ["fd01:203:405::1", "2001:db8:1:d550::99"] {
        bed.namespace().ip(&format!("address add {address}/128 dev lo nodad"));
        bed.firewall().add_local_address(address.parse().unwrap()).unwrap();
    }
    bed
}

/// The bed of prefixes, with a bridge of two other interfaces, of which one has the first place that the programs know.
fn beside_bridge(hook: Hook) -> Bed {
    let bridged = "
[zones]
left = { interfaces = \"wire0\" }
right = { interfaces = \"wire1\" }
[bridges.wire]
interfaces = [\"wire0\", \"wire1\"]
";
    let mut bed = bed_under(hook, PREFIX_POLICY);
    bed.namespace().ip("link add wire0 index 256 type veth peer name wire1
         link set wire0 up
         link set wire1 up");
    let namespace = Arc::clone(bed.namespace());
    bed.apply(&format!("{PREFIX_POLICY}{bridged}"));
    namespace.within(|| {
        for (interface, zone) in [("wire0", "left"), ("wire1", "right")] {
            bed.firewall_mut().ports.attach(interface, zone, hook).unwrap();
        }
    });
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
        ("up", Fate::Up) | ("cut", Fate::Cut) => left[14..] == frame(wanted)[14..],
        (_, Fate::Sent | Fate::Up | Fate::Cut) => false,
        _ => fate.words() == word && (wanted.is_empty() || left[14..] == frame(wanted)[14..]),
    };
    let shown = || match fate {
        Fate::Sent | Fate::Up | Fate::Cut | Fate::Answered(_) => {
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

/// Runs rows on both hooks; returns the first words of what they say.
fn run_rows(make: impl Fn(Hook) -> Bed, rows: &str) -> BTreeSet<&str> {
    let (mut wrong, mut met) = (Vec::new(), BTreeSet::new());
    for hook in HOOKS {
        let mut bed = make(hook);
        for line in rows.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if line.starts_with("==") {
                forget_flows(&bed);
                continue;
            }
            if let Some(seconds) = line.strip_prefix("wait ") {
                bed.pass(Duration::from_secs(seconds.parse().unwrap()));
                continue;
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [what, from, text, expected] = cells[..] else { panic!("four cells: {line}") };
            wrong.extend(differs(&mut bed, from, text, expected).map(|how| format!("{what}: {how}")));
            met.insert(expected.split(' ').next().unwrap());
        }
        forget_flows(&bed);
        assert_eq!(bed.firewall().flows.half_open() + bed.firewall().flows.unanswered(), 0);
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    met
}

#[test]
fn needs_root_every_row_leaves_as_it_says() {
    let met = run_rows(bed, ROWS);
    assert!(ROWS.lines().count() >= 75 && met.contains("nat-exhausted") && met.contains("untranslatable"));
}

#[test]
fn needs_root_one_to_one_entries_that_overlap_are_as_the_rows_say() {
    run_rows(|hook| bed_under(hook, OVERLAP_POLICY), OVERLAP_ROWS);
}

#[test]
fn needs_root_mappings_are_as_the_rows_say() {
    let met = run_rows(|hook| bed_under(hook, MAPPING_POLICY), MAPPING_ROWS);
    assert!(["no-route!", "nat-exhausted", "rule-deny"].iter().all(|fate| met.contains(fate)), "{met:?}");
}

#[test]
fn needs_root_prefixes_are_as_the_rows_say() {
    let met = run_rows(beside_bridge, PREFIX_ROWS);
    assert!(["untranslatable", "up", "rule-reject!"].iter().all(|fate| met.contains(fate)), "{met:?}");
}

/// RFC 6296 section 2.5: no flow keeps an address outside, so what changes in the policy holds for open flows. None leaves with its inside
/// address that did not before.
#[test]
fn needs_root_prefixes_follow_the_policy_in_force() {
    let entry = "prefix_to = \"2001:db8:1::/48\"";
    let without = PREFIX_POLICY.replacen(
        "prefix_to = \"2001:db8:1::/48\"\n",
        "prefix_to = \"2001:db8:1::/48\"\nenabled = false\n",
        1,
    );
    let (own, outside, other) = ("fd01:203:405:1::2", "2001:db8:1:d550::2", "2001:db8:5:d54c::2");
    for hook in HOOKS {
        let mut bed = bed_under(hook, &without);
        let see = |bed: &mut Bed, port: u16, source: &str, expected: &str| {
            let text = format!("{own} > 2001:2:0:2::2 udp {port}>53");
            let expected = match expected {
                "" => format!("out {source} > 2001:2:0:2::2 udp {port}>53"),
                reason => reason.to_owned(),
            };
            assert_eq!(differs(bed, "in", &text, &expected), None);
        };
        see(&mut bed, 1, own, "");
        bed.apply(PREFIX_POLICY);
        // It was opened by this address, and the other end knows no other.
        see(&mut bed, 1, own, "");
        see(&mut bed, 2, outside, "");
        bed.apply(&PREFIX_POLICY.replace(entry, "prefix_to = \"2001:db8:5::/48\""));
        see(&mut bed, 2, other, "");
        see(&mut bed, 3, other, "");
        let answer = format!("2001:2:0:2::2 > {other} udp 53>2");
        let to_own = format!("in 2001:2:0:2::2 > {own} udp 53>2");
        assert_eq!(differs(&mut bed, "out", &answer, &to_own), None);
        bed.apply(&without);
        see(&mut bed, 2, "", "untranslatable");
        see(&mut bed, 4, own, "");
        bed.apply(PREFIX_POLICY);
        see(&mut bed, 2, outside, "");
        assert_eq!(bed.flows(&Filter::default()).len(), 4, "{hook:?}");
    }
}

/// RFC 4787 REQ-1, where the port has to change: it is the same for all destinations, nobody else has it, and who begins from outside reaches its
/// end. Both end with the mapping's time, and leave nothing behind.
#[test]
fn needs_root_a_mapping_whose_port_has_changed_is_one_for_all() {
    const ENDS: [(u8, u16); 4] = [(2, 5_000), (9, 5_000), (11, 5_000), (9, 4_999)];
    for hook in HOOKS {
        let mut bed = bed_under(hook, MAPPING_POLICY);
        let mut outside = BTreeSet::new();
        for (host, port) in ENDS {
            let mut name = |to: &str| {
                let (fate, left) =
                    bed.send_and_see(Side::In, &frame(&format!("198.18.1.{host} > {to} udp {port}>9")));
                assert_eq!(fate, Fate::Sent, "{hook:?}, host {host}");
                u16::from_be_bytes([left[34], left[35]])
            };
            let first = name("198.18.2.2");
            assert!((5_000..6_000).contains(&first), "{first}");
            assert!((1..9).all(|to| name(&format!("198.51.100.{to}")) == first), "{hook:?}, host {host}");
            assert!(outside.insert(first), "{hook:?}: two ends have the port {first}");
            let stranger = format!("198.51.100.77 > 198.18.2.1 udp 77>{first}");
            let (fate, left) = bed.send_and_see(Side::Out, &frame(&stranger));
            let reached = (left[33], u16::from_be_bytes([left[36], left[37]]));
            assert_eq!((fate, reached), (Fate::Sent, (host, port)), "{hook:?}");
        }
        assert!(outside.contains(&5_000), "the first keeps its port: {outside:?}");
        let mappings = bed.flows(&Filter { state: Some(State::Mapping), ..Filter::default() });
        assert_eq!(mappings.len(), ENDS.len(), "{mappings:?}");
        bed.pass(Duration::from_secs(3_600));
        bed.firewall().flows.sweep().unwrap();
        assert_eq!((bed.flows(&Filter::default()).len(), bed.firewall().flows.unanswered()), (0, 0));
    }
}

/// RFC 5382 REQ-5: a connection may be idle for two hours, and who knows its alias reaches its end all the time.
#[test]
fn needs_root_a_connection_that_is_idle_keeps_its_mapping_until_it_ends() {
    for hook in HOOKS {
        let mut bed = bed_under(hook, MAPPING_POLICY);
        let send = |bed: &mut Bed, side: Side, text: &str| bed.send(side, &frame(text)).words();
        for (side, text) in [
            (Side::In, "198.18.1.12 > 198.18.2.2 tcp 4321>80 S seq=1"),
            (Side::Out, "198.18.2.2 > 192.0.2.20 tcp 80>7000 SA seq=7 ack=2"),
            (Side::In, "198.18.1.12 > 198.18.2.2 tcp 4321>80 A seq=2 ack=8"),
        ] {
            assert_eq!(send(&mut bed, side, text), "pass", "{hook:?}: {text}");
        }
        let mapping = Filter { state: Some(State::Mapping), ..Filter::default() };
        let idle = |bed: &mut Bed, seconds: u64| {
            for _ in 0..seconds / 30 {
                bed.pass(Duration::from_secs(30));
                bed.firewall().flows.sweep().unwrap();
            }
            bed.flows(&mapping).len()
        };
        assert_eq!(idle(&mut bed, 7_080), 1, "{hook:?}");
        let stranger = "198.51.100.7 > 192.0.2.20 tcp 99>7000 S seq=1";
        assert_eq!(send(&mut bed, Side::Out, stranger), "pass", "{hook:?}");
        assert_eq!(send(&mut bed, Side::In, "198.18.1.12 > 198.51.100.7 tcp 4321>99 RA seq=0 ack=2"), "pass");
        assert_eq!(
            send(&mut bed, Side::In, "198.18.1.12 > 198.18.2.2 tcp 4321>80 R seq=2"),
            "pass",
            "{hook:?}"
        );
        assert_eq!(
            (idle(&mut bed, 900), bed.flows(&Filter::default()).len()),
            (0, 0),
            "{hook:?}: it has ended"
        );
    }
}

/// What becomes of mappings when the policy changes: an entry that says something else makes a new one, one that lets nobody begin keeps
/// others out at once, and a lost address ends those that have it.
#[test]
fn needs_root_mappings_follow_the_policy_in_force() {
    let filtered = "filtering = \"endpoint-independent\"";
    for hook in HOOKS {
        let mut bed = bed_under(hook, MAPPING_POLICY);
        let sent = |bed: &mut Bed, side: Side, text: &str| {
            let (fate, left) = bed.send_and_see(side, &frame(text));
            let ports = left
                .get(34..38)
                .map(|p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]])));
            (fate, ports.unwrap_or_default())
        };
        let (inside, stranger) =
            ("198.18.1.12 > 198.18.2.2 udp 1234>53", "198.51.100.7 > 192.0.2.20 udp 99>7000");
        assert_eq!(sent(&mut bed, Side::In, inside), (Fate::Sent, (7_000, 53)));
        bed.apply(&MAPPING_POLICY.replace(filtered, ""));
        assert_eq!(sent(&mut bed, Side::Out, stranger).0, Fate::Answered(Reason::NoRoute), "{hook:?}");
        bed.apply(MAPPING_POLICY);
        assert_eq!(sent(&mut bed, Side::Out, stranger), (Fate::Sent, (99, 1_234)), "{hook:?}");
        // The same end by another port, in new flows.
        bed.apply(&MAPPING_POLICY.replace("ports = \"7000\"", "ports = \"7100\""));
        assert_eq!(
            sent(&mut bed, Side::Out, &stranger.replace("99>", "98>")).0,
            Fate::Answered(Reason::NoRoute)
        );
        assert_eq!(
            sent(&mut bed, Side::In, &inside.replace(">53", ">54")),
            (Fate::Sent, (7_100, 54)),
            "{hook:?}"
        );
        assert_eq!(
            sent(&mut bed, Side::In, inside),
            (Fate::Sent, (7_000, 53)),
            "the open flow stays as it is"
        );
        // Ended by a user, a mapping is made anew.
        let mapping = Filter { state: Some(State::Mapping), ..Filter::default() };
        for found in bed.flows(&mapping) {
            assert!(bed.firewall().flows.end(found.id).unwrap());
        }
        assert_eq!(
            sent(&mut bed, Side::Out, "198.51.100.7 > 192.0.2.20 udp 97>7100").0,
            Fate::Answered(Reason::NoRoute)
        );
        // A masquerade's mapping ends with its address.
        assert_eq!(
            sent(&mut bed, Side::In, "198.18.1.2 > 198.18.2.2 udp 5001>53"),
            (Fate::Sent, (5_001, 53))
        );
        assert_eq!(bed.flows(&mapping).len(), 1);
        bed.firewall().remove_local_address("198.18.2.1".parse().unwrap()).unwrap();
        bed.firewall().flows.sweep().unwrap();
        assert_eq!(bed.flows(&mapping), vec![], "{hook:?}");
    }
}

/// A host that opens flows from all of its ports does not have all ports outside, and leaves none behind.
#[test]
fn needs_root_one_source_does_not_map_all_ports() {
    let mut bed = bed_under(Hook::Tc, MAPPING_POLICY);
    let mut opened = |host: u8, ports: std::ops::Range<u16>| {
        let mut is_sent = |port| {
            bed.send(Side::In, &frame(&format!("198.18.1.{host} > 198.18.2.2 udp {port}>9"))) == Fate::Sent
        };
        ports.filter(|port| is_sent(*port)).count()
    };
    // Two records a flow: its own ports up to half of its quarter, and a quarter at a place of its own.
    let greedy = opened(2, 4_600..6_200);
    assert!((200..=500).contains(&greedy), "{greedy} of 1,000");
    assert_eq!(opened(9, 30_000..30_040), 40, "of another host, after one that wants all");
}

/// Opens a flow of UDP from a host inside, whose port is one of the pool's; what became of it, and the port that it has outside.
fn open(bed: &mut Bed, host: u8, port: u16) -> Result<u16, Fate> {
    let text = format!("198.18.1.{host} > 198.18.2.2 udp {port}>9");
    match bed.send_and_see(Side::In, &frame(&text)) {
        (Fate::Sent, left) => Ok(u16::from_be_bytes([left[34], left[35]])),
        (fate, _) => Err(fate),
    }
}

/// RFC 6864 section 5.2: a host that puts the datagrams of hosts with one address together knows them by their numbers alone. All fragments of a
/// datagram have one, those of a host stay different, and an error quotes the number that its sender knows.
#[test]
fn needs_root_datagrams_of_two_hosts_with_one_number_have_two_outside() {
    const NUMBER: u16 = 9;
    /// For the next link.
    const TOO_LONG: &str = "data=2100";
    for hook in HOOKS {
        let mut bed = bed(hook);
        let mut number = |host: u8, text: &str| {
            let (fate, left) =
                bed.send_and_see(Side::In, &frame(&format!("198.18.1.{host} > 198.18.2.2 {text}")));
            let wanted = if text.contains(TOO_LONG) { Fate::Cut } else { Fate::Sent };
            assert_eq!(
                (fate, &left[26..30]),
                (wanted, &[198, 18, 2, 1][..]),
                "{hook:?}, host {host}, {text}"
            );
            assert_eq!(testkit::packet::checksum(&left[14..34]), 0, "{hook:?}: the sum of the header");
            u16::from_be_bytes([left[18], left[19]])
        };
        let outside = [2, 3, 20].map(|host| {
            let outside = number(host, &format!("id={NUMBER} more udp 5000>53 data=16 says=40"));
            assert_eq!(
                number(host, &format!("id={NUMBER} offset=24 protocol=17 data=16")),
                outside,
                "{hook:?}: its rest"
            );
            let next = number(host, &format!("id={} more udp 5000>53 data=16 says=40", NUMBER + 256));
            assert_ne!(next, outside, "{hook:?}: its next datagram");
            assert_eq!(
                number(host, "id=9 udp 5000>53 data=16"),
                NUMBER,
                "{hook:?}: what is whole keeps its number"
            );
            assert_eq!(
                number(host, &format!("id={NUMBER} udp 5000>53 {TOO_LONG}")),
                outside,
                "{hook:?}: what the kernel makes fragments of"
            );
            outside
        });
        assert_eq!(BTreeSet::from(outside).len(), outside.len(), "{hook:?}: {outside:?}");
        let about = |source: &str, id: u16| {
            format!("about {{ {source} > 198.18.2.2 id={id} more udp 5000>53 data=16 says=40 }}")
        };
        let error = format!("198.51.100.9 > 198.18.2.1 icmp 3/4 {}", about("198.18.2.1", outside[0]));
        let expected = format!("in 198.51.100.9 > 198.18.1.2 icmp 3/4 {}", about("198.18.1.2", NUMBER));
        assert_eq!(differs(&mut bed, "out", &error, &expected), None);
    }
}

/// A server remembers a connection for a while after its end (TIME-WAIT). Who opens another one to it meanwhile from a second host inside has another port, so
/// it meets neither that memory nor what comes late; who had the port has it again.
#[test]
fn needs_root_the_port_of_a_closed_connection_is_nobody_elses_for_a_while() {
    for hook in HOOKS {
        let mut bed = bed(hook);
        let mut port = |side: Side, text: &str| {
            let (fate, left) = bed.send_and_see(side, &frame(text));
            assert_eq!(fate, Fate::Sent, "{hook:?}: {text}");
            u16::from_be_bytes([left[34], left[35]])
        };
        for (side, text) in [
            (Side::In, "198.18.1.2 > 198.18.2.2 tcp 6200>80 S seq=100"),
            (Side::Out, "198.18.2.2 > 198.18.2.1 tcp 80>6200 SA seq=7 ack=101"),
            (Side::In, "198.18.1.2 > 198.18.2.2 tcp 6200>80 FA seq=101 ack=8"),
            (Side::Out, "198.18.2.2 > 198.18.2.1 tcp 80>6200 FA seq=8 ack=102"),
            (Side::In, "198.18.1.2 > 198.18.2.2 tcp 6200>80 A seq=102 ack=9"),
        ] {
            port(side, text);
        }
        assert_ne!(port(Side::In, "198.18.1.12 > 198.18.2.2 tcp 6200>80 S seq=1"), 6200, "{hook:?}");
        assert_eq!(port(Side::In, "198.18.1.2 > 198.18.2.2 tcp 6200>80 S seq=90000"), 6200, "{hook:?}");
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
        // An interface without an address: nothing leaves as it came.
        let index = bed.indices()[Side::Out as usize];
        let none = (Ipv4Addr::UNSPECIFIED, "2001:2:0:2::1".parse().unwrap());
        bed.firewall().set_own_addresses(index, none.0, none.1).unwrap();
        for text in ["udp 5>9", "udp 6>9", "tcp 7>9 S seq=1", "icmp 8/0 icmpid=3", "protocol=47 data=8"] {
            let fate = bed.send(Side::In, &frame(&format!("198.18.1.2 > 198.18.2.2 {text}")));
            assert_eq!(fate, Fate::Dropped(Reason::Untranslatable), "{text}");
        }
    }
}

/// An end that goes on with a connection that ended with the address that it had outside learns that it is over.
#[test]
fn needs_root_a_connection_that_lost_its_address_is_reset_by_what_it_sends() {
    for hook in HOOKS {
        let mut bed = bed(hook);
        let data = frame("198.18.1.2 > 198.18.2.2 tcp 7>9 PA seq=11 ack=21 data=5");
        for (side, text) in [
            (Side::In, "198.18.1.2 > 198.18.2.2 tcp 7>9 S seq=10"),
            (Side::Out, "198.18.2.2 > 198.18.2.1 tcp 9>7 SA seq=20 ack=11"),
        ] {
            assert_eq!(bed.send(side, &frame(text)), Fate::Sent, "{hook:?}: {text}");
        }
        assert_eq!(bed.send(Side::In, &data), Fate::Sent, "{hook:?}");
        assert_eq!(bed.send(Side::In, &frame("198.18.1.2 > 198.18.2.2 udp 7>9")), Fate::Sent, "{hook:?}");
        bed.firewall().remove_local_address("198.18.2.1".parse().unwrap()).unwrap();
        assert_eq!(bed.firewall().flows.sweep().unwrap(), 2, "{hook:?}");
        let (fate, left) = bed.send_and_see(Side::In, &data);
        let reset = frame("198.18.2.2 > 198.18.1.2 id=0 df tcp 9>7 R window=0 seq=21");
        assert_eq!((fate.words().as_str(), &left[14..]), ("tcp-no-flow!", &reset[14..]), "{hook:?}");
    }
    // Without a connection among them nobody gets resets.
    let mut bed = bed(Hook::Tc);
    assert_eq!(bed.send(Side::In, &frame("198.18.1.2 > 198.18.2.2 udp 7>9")), Fate::Sent);
    bed.firewall().remove_local_address("198.18.2.1".parse().unwrap()).unwrap();
    assert_eq!(bed.firewall().flows.sweep().unwrap(), 1);
    let stranger = frame("198.18.1.2 > 198.18.2.2 tcp 7>9 A seq=11 ack=21");
    assert_eq!(bed.send(Side::In, &stranger).words(), "tcp-no-flow");
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
