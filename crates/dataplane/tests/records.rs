//! Records of flows that end or go on, for IPFIX: what each says, which flows have one, and what a flood of them costs. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, POLICY, Side};
use dataplane::{Continuing, Filter, Hook, RecordedFlow, Settings, Tally, Terms};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const RULES: &str = "
[[rules]]
name = 'web'
from = 'inside'
to = 'outside'
service = ['udp/53', 'tcp/80', 'ping']
action = 'allow'
[[rules]]
name = 'no'
from = 'inside'
to = 'outside'
service = 'udp/9'
action = 'deny'
log = true
";
const MASQUERADE: &str = "[[nat]]\nname = 'n'\nfrom = 'inside'\nto = 'outside'\nmasquerade = true\n";
const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];

fn ipfix(rate: u32) -> String {
    format!("[log.ipfix]\nto = 'udp://127.0.0.1:4739'\nrate = {rate}\n")
}

fn policy(rest: &str) -> String {
    let (zones, _) = POLICY.split_once("[[rules]]").unwrap();
    format!("{zones}{RULES}{rest}")
}

fn bed(hook: Hook, rest: &str) -> Bed {
    let bed = Bed::with(hook, &Settings { flows: 4096, rules: 64 }, &policy(rest));
    let none = "::".parse().unwrap();
    for (side, address) in [(Side::In, "198.18.1.1"), (Side::Out, "198.18.2.1")] {
        let index = bed.indices()[side as usize];
        bed.firewall().set_own_addresses(index, address.parse().unwrap(), none).unwrap();
    }
    bed
}

fn words(ended: &RecordedFlow) -> String {
    let flow = &ended.flow;
    let end = |(address, port): (IpAddr, u16)| SocketAddr::new(address, port);
    // Times are whole ticks, of which a second is no multiple.
    let seconds = |time: Duration| (time.as_millis() + 500) / 1_000;
    let alias = |alias: Option<(IpAddr, u16)>| alias.map_or(String::new(), |it| format!(" as {}", end(it)));
    format!(
        "{}: {} {} {}{} > {}{} {:?} {:?} {} > {}, {} s, idle for {} s",
        ended.end,
        flow.rule.as_deref().unwrap_or("-"),
        flow.protocol,
        end(flow.initiator),
        alias(flow.aliases.0),
        end(flow.responder),
        alias(flow.aliases.1),
        flow.packets,
        flow.bytes,
        flow.zones.0,
        flow.zones.1,
        seconds(flow.age),
        seconds(flow.idle)
    )
}

fn records(bed: &Bed) -> Vec<String> {
    bed.firewall().ended.take().unwrap().iter().map(words).collect()
}

fn send(bed: &mut Bed, from: Side, text: &str) {
    let window = if text.contains(" tcp ") { "window=1000 " } else { "" };
    bed.send(from, &testkit::packet::frame(&format!("{window}{text}")));
}

const TCP: [(Side, &str); 6] = [
    (Side::In, "198.18.1.2 > 198.18.2.2 tcp 6000>80 S seq=100"),
    (Side::Out, "198.18.2.2 > 198.18.1.2 tcp 80>6000 SA seq=7 ack=101"),
    (Side::In, "198.18.1.2 > 198.18.2.2 tcp 6000>80 A seq=101 ack=8"),
    (Side::In, "198.18.1.2 > 198.18.2.2 tcp 6000>80 FA seq=101 ack=8"),
    (Side::Out, "198.18.2.2 > 198.18.1.2 tcp 80>6000 FA seq=8 ack=102"),
    (Side::In, "198.18.1.2 > 198.18.2.2 tcp 6000>80 A seq=102 ack=9"),
];
const UDP: [(Side, &str); 2] = [
    (Side::In, "198.18.1.2 > 198.18.2.2 udp 5000>53 data=20"),
    (Side::Out, "198.18.2.2 > 198.18.1.2 udp 53>5000 data=9"),
];

/// What is done to flows at their end.
#[derive(Debug, Clone, Copy)]
enum End {
    /// So many seconds pass, and the table is swept.
    Pass(u64),
    Kill,
    /// A policy that does not allow them, and a packet more.
    Revoke,
}

#[test]
fn needs_root_each_flow_that_ends_is_a_record_with_the_reason() {
    let udp = |end, times: &str| {
        format!("{end}: web 17 198.18.1.2:5000 > 198.18.2.2:53 (1, 1) (48, 37) inside > outside, {times}")
    };
    let tcp = |end, packets: &str, times: &str| {
        format!("{end}: web 6 198.18.1.2:6000 > 198.18.2.2:80 {packets} inside > outside, {times}")
    };
    for hook in HOOKS {
        for (what, frames, end, expected) in [
            ("idle", &UDP[..], End::Pass(400), vec![udp(1, "400 s, idle for 400 s")]),
            ("still open", &UDP, End::Pass(200), vec![]),
            ("nobody answered", &UDP[..1], End::Pass(60), vec![udp(1, "60 s, idle for 60 s").replace("(1, 1) (48, 37)", "(1, 0) (48, 0)")]),
            ("closed by its ends", &TCP, End::Pass(400), vec![tcp(3, "(4, 2) (160, 80)", "400 s, idle for 400 s")]),
            ("a handshake", &TCP[..1], End::Pass(60), vec![tcp(1, "(1, 0) (40, 0)", "60 s, idle for 60 s")]),
            ("established", &TCP[..3], End::Pass(8_000), vec![tcp(1, "(2, 1) (80, 40)", "8000 s, idle for 8000 s")]),
            ("ended by a user", &TCP[..3], End::Kill, vec![tcp(4, "(2, 1) (80, 40)", "0 s, idle for 0 s")]),
            ("ended by a policy", &UDP, End::Revoke, vec![udp(4, "0 s, idle for 0 s")]),
            ("refused", &[(Side::In, "198.18.1.2 > 198.18.2.2 udp 5000>9")], End::Pass(400), vec![]),
            (
                "a ping",
                &[(Side::In, "198.18.1.2 > 198.18.2.2 icmp 8/0 icmpid=77 data=8")],
                End::Kill,
                vec!["4: web 1 198.18.1.2:77 > 198.18.2.2:2048 (1, 0) (36, 0) inside > outside, 0 s, idle for 0 s".to_owned()],
            ),
        ] {
            let mut bed = bed(hook, &ipfix(1_000));
            frames.iter().for_each(|(side, text)| send(&mut bed, *side, text));
            match end {
                End::Pass(seconds) => {
                    bed.pass(Duration::from_secs(seconds));
                    bed.firewall().flows.sweep().unwrap();
                }
                End::Kill => {
                    for flow in bed.flows(&Filter::default()) {
                        assert!(bed.firewall().flows.end(flow.id).unwrap());
                        assert!(!bed.firewall().flows.end(flow.id).unwrap(), "and once");
                    }
                }
                End::Revoke => {
                    bed.apply(&policy(&ipfix(1_000)).replace("'udp/53', ", ""));
                    frames.iter().for_each(|(side, text)| send(&mut bed, *side, text));
                }
            }
            assert_eq!(records(&bed), expected, "{hook:?}: {what}");
            assert_eq!(records(&bed), Vec::<String>::new(), "{hook:?}: {what}, again");
        }
    }
}

/// A translated flow is a record with both of its names, and a flow of the default one without a rule.
#[test]
fn needs_root_a_record_has_the_names_of_a_translated_flow() {
    for hook in HOOKS {
        let mut bed = bed(hook, &format!("{MASQUERADE}{}", ipfix(1_000)));
        send(&mut bed, Side::In, UDP[0].1);
        for flow in bed.flows(&Filter::default()) {
            bed.firewall().flows.end(flow.id).unwrap();
        }
        assert_eq!(
            records(&bed),
            [
                "4: web 17 198.18.1.2:5000 as 198.18.2.1:5000 > 198.18.2.2:53 (1, 0) (48, 0) inside > outside, 0 s, idle for 0 s"
            ],
            "{hook:?}"
        );
    }
}

/// Without records nothing is counted either, and with a lower rate the rest is suppressed.
#[test]
fn needs_root_every_flow_has_a_record_or_is_counted() {
    for (log, recorded, suppressed) in [(String::new(), 0, 0), (ipfix(20), 20, 80), (ipfix(100), 100, 0)] {
        let mut bed = bed(Hook::Tc, &log);
        for port in 1..=100 {
            send(&mut bed, Side::In, &format!("198.18.1.2 > 198.18.2.2 udp {port}>53"));
        }
        for flow in bed.flows(&Filter::default()) {
            assert!(bed.firewall().flows.end(flow.id).unwrap());
        }
        assert_eq!(records(&bed).len(), recorded, "{log}");
        assert_eq!(bed.tally(Tally::RecordsSuppressed), suppressed, "{log}");
        // A flood of flows takes no room from events.
        send(&mut bed, Side::In, "198.18.1.2 > 198.18.2.2 udp 5000>9");
        assert_eq!(bed.firewall().events.take().unwrap().len(), 1, "{log}");
        assert_eq!(bed.tally(Tally::LogSuppressed), 0, "{log}");
    }
}

/// Of a flow that goes on there is a record a minute, if it has carried something, and all of them sum up to what it carried.
#[test]
fn needs_root_a_flow_that_goes_on_is_a_record_each_timeout() {
    let ten_more = |bed: &mut Bed| (0..10).for_each(|_| send(bed, Side::In, UDP[0].1));
    for hook in HOOKS {
        let mut bed = bed(hook, &ipfix(1_000));
        let mut continuing = Continuing::default();
        let terms = Terms { timeout: Duration::from_secs(60), rate: 1_000 };
        let mut next = |bed: &mut Bed, seconds: u64| -> Vec<String> {
            bed.pass(Duration::from_secs(seconds));
            let mut records = bed.firewall().ended.take().unwrap();
            records.iter_mut().for_each(|record| continuing.end(record));
            records.extend(continuing.due(&bed.firewall().flows, &terms, bed.now()).unwrap());
            let began = |it: &RecordedFlow| it.since.map_or(it.flow.age, |since| it.at.saturating_sub(since));
            let words = |it: &RecordedFlow| {
                let began = (began(it).as_millis() + 500) / 1_000;
                format!("{} {:?} {:?} {began} s ago", it.end, it.flow.packets, it.flow.bytes)
            };
            records.iter().map(words).collect()
        };
        assert_eq!(next(&mut bed, 1), [""; 0]);
        UDP.iter().for_each(|(side, text)| send(&mut bed, *side, text));
        assert_eq!(next(&mut bed, 59), [""; 0], "{hook:?}: it is young");
        assert_eq!(next(&mut bed, 10), ["2 (1, 1) (48, 37) 69 s ago"], "{hook:?}");
        ten_more(&mut bed);
        assert_eq!(next(&mut bed, 59), [""; 0], "{hook:?}: not yet again");
        assert_eq!(next(&mut bed, 10), ["2 (10, 0) (480, 0) 138 s ago"], "{hook:?}");
        assert_eq!(next(&mut bed, 70), [""; 0], "{hook:?}: nothing was sent");
        ten_more(&mut bed);
        for flow in bed.flows(&Filter::default()) {
            assert_eq!(flow.packets, (21, 1), "{hook:?}");
            bed.firewall().flows.end(flow.id).unwrap();
        }
        assert_eq!(next(&mut bed, 0), ["4 (10, 0) (480, 0) 139 s ago"], "{hook:?}");
        assert_eq!(next(&mut bed, 70), [""; 0], "{hook:?}");
    }
}
