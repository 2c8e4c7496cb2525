//! TCP connections segment by segment: `tcp.txt`, on all hooks. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod segment;

use bed::Bed;
use dataplane::Hook;
use segment::{frame, segment};
use std::time::Duration;

fn run(hook: Hook, v6: bool) {
    let mut bed = Bed::new(hook);
    let mut port = 20_000;
    let mut title = "";
    let mut rows = 0;
    for line in include_str!("tcp.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(words) = line.strip_prefix("== ") {
            (title, port) = (words, port + 1);
            continue;
        }
        if let Some(seconds) = line.strip_prefix("wait ") {
            bed.pass(Duration::from_secs(seconds.parse().unwrap()));
            continue;
        }
        let (given, expected) = line.split_once("->").unwrap();
        let segment = segment(given, port);
        // A kernel that forwards sees to these itself, and asks nobody.
        if hook == Hook::Netfilter && segment.ttl <= 1 {
            continue;
        }
        let fate = bed.send(segment.side, &frame(&segment, v6));
        let seen = format!("{} {}", fate.words(), bed.state(port));
        assert_eq!(seen, expected.trim(), "{title}: {line}");
        rows += 1;
    }
    assert!(rows > 140, "{rows}");
}

#[test]
fn needs_root_segments_by_xdp() {
    run(Hook::Xdp, false);
    run(Hook::Xdp, true);
}

#[test]
fn needs_root_segments_by_tc() {
    run(Hook::Tc, false);
    run(Hook::Tc, true);
}

#[test]
fn needs_root_connections_are_followed_by_netfilter() {
    run(Hook::Netfilter, false);
    run(Hook::Netfilter, true);
}

/// A checksum that somebody behind us may still fill in. In a test run nobody does, and TC sees that; XDP cannot, and lets it pass
/// without closing anything.
#[test]
fn needs_root_what_has_no_checksum_yet_closes_nothing() {
    for (hook, expected) in [(Hook::Xdp, "pass established"), (Hook::Tc, "tcp-checksum established")] {
        let mut bed = Bed::new(hook);
        for (v6, port) in [(false, 20_000), (true, 20_001)] {
            for (line, expected) in [
                ("> S seq=1000 win=65535", "pass syn-sent"),
                ("< SA seq=5000 ack=1001 win=65535", "pass syn-received"),
                ("> A seq=1001 ack=5001 win=65535", "pass established"),
                ("> R seq=1001 win=0 no-sum", expected),
                ("< FA seq=5001 ack=1001 win=65535 len=600 no-sum", expected),
                ("< A seq=5001 ack=1001 win=65535 len=600 no-sum", "pass established"),
            ] {
                let segment = segment(line, port);
                let fate = bed.send(segment.side, &frame(&segment, v6));
                assert_eq!(format!("{} {}", fate.words(), bed.state(port)), expected, "{hook:?}: {line}");
            }
        }
    }
}
