//! What rules with `log` tell of single packets, on both hooks. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, POLICY, Side};
use dataplane::{DataplaneError, Event, EventKind, Filter, Hook, Settings, Tally};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use testkit::packet::{Frame, SYN, Tcp, icmp, udp};

const IN: &str = "198.18.1.2";
const OUT: &str = "198.18.2.2";
const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];

/// A policy of rules for UDP ports from inside to outside: name, port, the rest; and a default from outside.
fn policy(rules: &[(&str, u16, &str)], settings: &str) -> String {
    let (zones, _) = POLICY.split_once("[[rules]]").unwrap();
    let rules = rules.iter().map(|(name, port, rest)| {
        format!(
            "[[rules]]\nname = '{name}'\nfrom = 'inside'\nto = 'outside'\nservice = ['udp/{port}', 'tcp/{port}']\n{rest}\n"
        )
    });
    let default = "[[defaults]]\nfrom = 'outside'\nto = ['inside', 'self']\naction = 'deny'\nlog = true\n";
    format!("{zones}{}{default}{settings}", rules.collect::<String>())
}

fn bed(hook: Hook, policy: &str) -> Bed {
    Bed::with(hook, &Settings { flows: 4096, rules: 64 }, policy)
}

fn udp_to(port: u16) -> Frame {
    Frame::new(IN, OUT, 17, udp((5, port), 18))
}

fn words(event: &Event) -> String {
    let what = match event.kind {
        EventKind::Opened => "opened".to_owned(),
        EventKind::Refused(reason) => format!("refused {}", reason.name()),
        EventKind::Alert { .. } => "alert".to_owned(),
        EventKind::Scan { .. } => "scan".to_owned(),
        EventKind::Closed { state, packets, bytes, .. } => {
            format!("closed {} {packets:?} {bytes:?}", state.name())
        }
    };
    let end = |(address, port): (IpAddr, u16)| SocketAddr::new(address, port);
    format!(
        "{what}: {} {} {} > {} {} > {}",
        event.rule.as_deref().unwrap_or("-"),
        event.protocol,
        end(event.source),
        end(event.destination),
        event.zones.0,
        event.zones.1.as_deref().unwrap_or("?")
    )
}

fn recorded(bed: &Bed) -> Vec<String> {
    bed.firewall().events.take().unwrap().iter().map(words).collect()
}

#[test]
fn needs_root_what_each_packet_records() {
    let rules = [
        ("quiet", 1, "action = 'allow'"),
        ("open", 2, "action = 'allow'\nlog = 'open'"),
        ("both", 3, "action = 'allow'\nlog = 'both'"),
        ("close", 4, "action = 'allow'\nlog = 'close'"),
        ("deny", 5, "action = 'deny'\nlog = true"),
        ("reject", 6, "action = 'reject'\nlog = true"),
        ("quiet-deny", 7, "action = 'deny'"),
    ];
    let out = |what: &str, port| format!("{what} 17 {IN}:5 > {OUT}:{port} inside > outside");
    let syn = Tcp { ports: (9, 2), flags: SYN, sequence: 1, window: 1000, ..Tcp::default() }.bytes();
    for hook in HOOKS {
        let mut bed = bed(hook, &policy(&rules, ""));
        for (frame, side, expected) in [
            (udp_to(1), Side::In, vec![]),
            (udp_to(2), Side::In, vec![out("opened: open", 2)]),
            (udp_to(2), Side::In, vec![]),
            (Frame::new(OUT, IN, 17, udp((2, 5), 18)), Side::Out, vec![]),
            (udp_to(3), Side::In, vec![out("opened: both", 3)]),
            (udp_to(4), Side::In, vec![]),
            (udp_to(5), Side::In, vec![out("refused rule-deny: deny", 5)]),
            (udp_to(5), Side::In, vec![out("refused rule-deny: deny", 5)]),
            (udp_to(6), Side::In, vec![out("refused rule-reject: reject", 6)]),
            (udp_to(7), Side::In, vec![]),
            (udp_to(8), Side::In, vec![]),
            (
                Frame::new(IN, OUT, 6, syn.clone()),
                Side::In,
                vec![format!("opened: open 6 {IN}:9 > {OUT}:2 inside > outside")],
            ),
            (
                Frame::new(OUT, IN, 17, udp((7, 8), 18)),
                Side::Out,
                vec![format!("refused default-deny: - 17 {OUT}:7 > {IN}:8 outside > inside")],
            ),
            (
                Frame::new(OUT, "198.18.1.1", 1, icmp(8, 0, 77)),
                Side::Out,
                vec![format!("refused default-deny: - 1 {OUT}:77 > 198.18.1.1:2048 outside > self")],
            ),
        ] {
            bed.send(side, &frame.bytes());
            assert_eq!(recorded(&bed), expected, "{hook:?}");
        }
        // Killed, and expired: recorded once each, with the counts.
        let both = Filter { port: Some(3), ..Filter::default() };
        for flow in bed.flows(&both) {
            assert!(bed.firewall().flows.end(flow.id).unwrap());
            assert!(!bed.firewall().flows.end(flow.id).unwrap());
        }
        assert_eq!(recorded(&bed), [out("closed one-way (1, 0) (46, 0): both", 3)]);
        bed.pass(Duration::from_secs(400));
        bed.firewall().flows.sweep().unwrap();
        bed.firewall().flows.sweep().unwrap();
        assert_eq!(recorded(&bed), [out("closed one-way (1, 0) (46, 0): close", 4)]);
    }
}

#[test]
fn needs_root_a_flow_is_recorded_by_the_rule_that_it_is_under() {
    let with = |name, rest: &'static str| policy(&[(name, 1, rest)], "");
    for (title, before, after, expected) in [
        (
            "the end is logged from now on",
            with("a", "action = 'allow'"),
            with("a", "action = 'allow'\nlog = 'close'"),
            "closed: a",
        ),
        ("and no more", with("a", "action = 'allow'\nlog = 'close'"), with("a", "action = 'allow'"), ""),
        (
            "under another rule",
            with("a", "action = 'allow'\nlog = 'close'"),
            with("b", "action = 'allow'\nlog = 'close'"),
            "closed: b",
        ),
        (
            "it is ended by the new policy, and the packet refused",
            with("a", "action = 'allow'\nlog = 'close'"),
            with("b", "action = 'deny'\nlog = true"),
            "closed: a, refused: b",
        ),
    ] {
        let mut bed = bed(Hook::Xdp, &before);
        bed.send(Side::In, &udp_to(1).bytes());
        bed.apply(&after);
        bed.send(Side::In, &udp_to(1).bytes());
        for flow in bed.flows(&Filter::default()) {
            bed.firewall().flows.end(flow.id).unwrap();
        }
        let recorded: Vec<String> = bed
            .firewall()
            .events
            .take()
            .unwrap()
            .iter()
            .map(|event| {
                let what = words(event);
                format!(
                    "{}: {}",
                    what.split([' ', ':']).next().unwrap(),
                    event.rule.as_deref().unwrap_or("-")
                )
            })
            .collect();
        assert_eq!(recorded.join(", "), expected, "{title}");
    }
}

#[test]
fn needs_root_names_are_those_of_the_policy_that_recorded() {
    let deny = "action = 'deny'\nlog = true";
    let mut bed = bed(Hook::Tc, &policy(&[("first", 1, deny)], ""));
    bed.send(Side::In, &udp_to(1).bytes());
    bed.apply(&policy(&[("second", 1, deny)], ""));
    bed.send(Side::In, &udp_to(1).bytes());
    let names: Vec<_> = bed.firewall().events.take().unwrap().into_iter().map(|event| event.rule).collect();
    assert_eq!(names, [Some("first".to_owned()), Some("second".to_owned())]);
}

/// A firewall that has met so many packets at once. The kernel ends that early if the process is stopped or frozen meanwhile, and says not how many
/// there were: then another firewall meets them.
fn met(frame: &[u8], packets: u32, policy: &str) -> Bed {
    loop {
        let bed = bed(Hook::Xdp, policy);
        let run = bed.within(Side::In, |firewall, index| {
            firewall.test_run_times(&Side::In.addressed(frame), index, Hook::Xdp, packets)
        });
        match run {
            Err(DataplaneError::System { source, .. }) if source.kind() == ErrorKind::Interrupted => {}
            run => {
                run.unwrap();
                return bed;
            }
        }
    }
}

/// What is not recorded is counted, whether it is too fast or nobody reads.
#[test]
fn needs_root_every_event_is_recorded_or_counted() {
    const PACKETS: u32 = 50_000;
    let deny = [("deny", 1, "action = 'deny'\nlog = true")];
    for (settings, tally, least, most, next) in [
        ("[settings]\nlog_rate = 0\n", Tally::LogSuppressed, 0, 0, 0),
        ("[settings]\nlog_rate = 20\n", Tally::LogSuppressed, 20, 20, 1),
        ("[settings]\nlog_rate = 1_000_000\n", Tally::LogLost, 30_000, 40_000, 2),
    ] {
        let frame = udp_to(1).bytes();
        let mut bed = met(&frame, PACKETS, &policy(&deny, settings));
        let recorded = bed.firewall().events.take().unwrap().len() as u64;
        assert_eq!(
            recorded + bed.tally(Tally::LogSuppressed) + bed.tally(Tally::LogLost),
            u64::from(PACKETS)
        );
        assert!((least..=most).contains(&recorded), "{settings}: {recorded}");
        assert!(bed.tally(tally) > 0, "{settings}");
        assert_eq!(bed.firewall().events.take().unwrap(), []);
        // A twentieth of a second is time for one more, at 20 a second.
        bed.pass(Duration::from_millis(50));
        for _ in 0..2 {
            bed.send(Side::In, &frame);
        }
        assert_eq!(bed.firewall().events.take().unwrap().len() as u64, next, "{settings}");
    }
}
