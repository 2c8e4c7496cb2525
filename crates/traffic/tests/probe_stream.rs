//! A stream of probes while client and server have the ports: what the rules between forbid does not arrive, and the moment
//! at which the rules change is seen. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tcp/bed.rs"]
mod bed;

use bed::{Bed, CLIENTS, SERVERS};
use measure::shape::Zone;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use traffic::tcp::{Ends, Engine};
use traffic::{Clock, ProbeFrame, ProbeStream, StreamedProbe, Transport};

/// A probe is stamped just before it goes out, and its sender may be kept from its core in between: those so shortly before
/// the change may meet either rules. The receiver may be kept from its core as long.
const MARGIN: Duration = Duration::from_secs(1);
/// Longer than a stream takes to send a few probes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn probe(destination_port: u16) -> ProbeFrame {
    ProbeFrame {
        from: Zone::Private,
        source: Ipv4Addr::from(CLIENTS | 300).into(),
        destination: Ipv4Addr::from(SERVERS | 300).into(),
        transport: Transport::Udp,
        source_port: 0,
        destination_port,
    }
}

/// Rules that allow one port, and always 3000, whose frames they count.
fn rules(allowed: u16) -> String {
    format!(
        "chain forward {{ type filter hook forward priority 0; policy drop; udp dport {allowed} accept; \
         udp dport 3000 counter accept; }}"
    )
}

/// Waits until so many more frames to port 3000 came to the present rules.
fn wait_for_frames(bed: &Bed, count: u64) {
    let counted = || {
        let listed = bed.router().run("nft", &["list", "chain", "ip", "t", "forward"]);
        let packets = listed.split("counter packets ").nth(1).unwrap().split(' ').next().unwrap();
        packets.parse::<u64>().unwrap()
    };
    let (before, begun) = (counted(), Instant::now());
    while counted() < before + count {
        assert!(begun.elapsed() < PATIENCE, "no probes come");
    }
}

/// Arrived and sent, of the probe with this number.
fn counts(probes: &[&StreamedProbe], which: usize) -> (usize, usize) {
    let of = |wanted: &dyn Fn(&&&StreamedProbe) -> bool| probes.iter().filter(wanted).count();
    (of(&|p| p.which == which && p.arrived), of(&|p| p.which == which))
}

#[test]
fn a_stream_sees_when_rules_change() {
    let bed = Bed::routed();
    let mut engine = Engine::load(10).unwrap();
    let _ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    bed.set_rules(&rules(1000));
    let probes = [probe(1000), probe(2000), probe(3000), probe(4000)];
    let stream = ProbeStream::start(&bed.client, &bed.server, &probes, Duration::from_millis(1)).unwrap();
    wait_for_frames(&bed, 20);
    std::thread::sleep(MARGIN);
    let before = Clock::now_ns();
    bed.set_rules(&rules(2000));
    let after = Clock::now_ns();
    wait_for_frames(&bed, 20);
    let end = Clock::now_ns();
    std::thread::sleep(MARGIN);
    let seen = stream.finish().unwrap();
    let margin_ns = MARGIN.as_nanos() as u64;
    let old: Vec<_> = seen.iter().filter(|p| p.sent_ns + margin_ns < before).collect();
    let new: Vec<_> = seen.iter().filter(|p| p.sent_ns > after && p.sent_ns < end).collect();
    for (rules, allowed, forbidden) in [(&old, 0, 1), (&new, 1, 0)] {
        let (arrived, sent) = counts(rules, allowed);
        assert!(sent > 0 && arrived == sent, "allowed: {arrived} of {sent}");
        assert_eq!(counts(rules, forbidden).0, 0, "forbidden");
        let (arrived, sent) = counts(rules, 2);
        assert_eq!(arrived, sent, "what both allow always arrives");
        assert_eq!(counts(rules, 3).0, 0, "what both forbid never does");
    }
}
