//! Resets against open connections: over a bare wire, through connection tracking, and through a firewall that believes
//! any of them. Needs root, iproute2, ethtool, nftables.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot run")]

#[path = "tcp/bed.rs"]
mod bed;
#[path = "tcp/weather.rs"]
mod weather;

use bed::{Bed, PATIENCE};
use measure::connections::{ResetKind, Resets};
use measure::shape::IpVersion;
use std::time::Duration;
use traffic::TrafficError;
use traffic::tcp::{Close, Ends, Engine, Opening, ResetCheck, TcpPhase, TcpPlan};
use weather::{Sky, Weather};

const KINDS: [ResetKind; 3] = [ResetKind::OutsideWindow, ResetKind::InsideWindow, ResetKind::Legitimate];

/// 300 connections, held.
fn plan() -> TcpPlan {
    let mut plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(2000.0, 0.15)]));
    plan.close = Close::Never;
    (plan.grace, plan.settle) = (PATIENCE, PATIENCE);
    plan
}

fn resets(kind: ResetKind) -> Resets {
    Resets { kind, each: 3, per_second: 20_000.0 }
}

/// Three a connection, in both directions unless they are legitimate.
fn sent(kind: ResetKind) -> u64 {
    if kind == ResetKind::Legitimate { 900 } else { 1800 }
}

fn assert_sent(name: &str, kind: ResetKind, check: &ResetCheck) {
    assert_eq!((check.outcome.open, check.outcome.sent), (300, sent(kind)), "{name}: {:?}", check.outcome);
    assert_eq!(check.opened.counts.completed, 300, "{name}: {:?}", check.opened.counts);
}

#[test]
fn neither_client_nor_server_is_moved_by_resets() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for ip in [IpVersion::V4, IpVersion::V6] {
        for kind in KINDS {
            for cores in [vec![0], vec![0, 1]] {
                let name = format!("{kind:?}, {ip:?}, {cores:?}");
                let plan = TcpPlan { ip, cores, ..plan() };
                let check = engine.open_all_reset_and_verify(&ports, &plan, &resets(kind), &mut ()).unwrap();
                assert_sent(&name, kind, &check);
                assert_eq!((check.outcome.forwarded, check.outcome.alive), (sent(kind), 300), "{name}");
                let c = &check.end.counts;
                let (strange, verified) = if kind == ResetKind::Legitimate { (0, 0) } else { (900, 300) };
                assert_eq!(
                    (c.strange_reset, c.verified, c.closed, c.failed()),
                    (strange, verified, 300, 0),
                    "{name}: {c:?}"
                );
                let asked = (kind != ResetKind::Legitimate).then_some(300);
                assert_eq!(check.end.outcome().verified, asked, "{name}");
            }
        }
    }
}

#[test]
fn connection_tracking_believes_exact_resets_alone() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    bed.router().run("sysctl", &["-qw", "net.netfilter.nf_conntrack_tcp_be_liberal=0"]);
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    // After an exact reset conntrack has the connection in its state CLOSE, for ten seconds, in which data still passes as
    // established (Linux 6.18). Only the time left tells that it is over: what is open has days.
    let policy = "chain f { type filter hook forward priority 0 ; policy drop ; ct state invalid drop ; \
        tcp flags & rst == 0 ct state established ct expiration < 11s FATE ; ct state established accept ; \
        tcp dport 80 tcp flags & (fin|syn|rst|ack) == syn ct state new accept ; }";
    for (kind, fate, forwarded, alive) in [
        (ResetKind::OutsideWindow, "drop", Some(0), 300),
        // Which of them pass is the kernel's business: older ones stop more.
        (ResetKind::InsideWindow, "drop", None, 300),
        (ResetKind::Legitimate, "drop", Some(900), 0),
        (ResetKind::Legitimate, "accept", Some(900), 300),
    ] {
        bed.set_rules(&policy.replace("FATE", fate));
        let check = engine.open_all_reset_and_verify(&ports, &plan(), &resets(kind), &mut ()).unwrap();
        let name = format!("{kind:?}, {fate}");
        assert_sent(&name, kind, &check);
        assert_eq!(check.outcome.alive, alive, "{name}: {:?}", check.outcome);
        assert_eq!(check.outcome.forwarded, forwarded.unwrap_or(check.outcome.forwarded), "{name}");
    }
}

#[test]
fn a_firewall_that_believes_any_reset_loses_every_connection() {
    let _turn = testkit::turn();
    for kind in KINDS {
        // A bed each, because that firewall never remembers again.
        let bed = Bed::routed();
        let sky = Sky::over(&bed, Weather::ForgetOnReset);
        let mut engine = Engine::load(70_000).unwrap();
        let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
        let mut plan = plan();
        (plan.retry, plan.retries) = (Duration::from_millis(300), 1);
        let check = engine.open_all_reset_and_verify(&ports, &plan, &resets(kind), &mut ()).unwrap();
        let name = format!("{kind:?}");
        assert_sent(&name, kind, &check);
        // The first closes; neither the others nor requests get through.
        assert_eq!((check.outcome.forwarded, check.outcome.alive, sky.hits()), (300, 0, 300), "{name}");
        let failed = if kind == ResetKind::Legitimate { 0 } else { 300 };
        assert_eq!(check.end.counts.timeout_answer, failed, "{name}: {:?}", check.end.counts);
    }
}

#[test]
fn checks_that_cannot_be_are_refused() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let good = resets(ResetKind::OutsideWindow);
    let closes = TcpPlan { close: Close::Reset, ..plan() };
    let translates = TcpPlan { listens: Some(plan().servers), ..plan() };
    for (plan, resets, said) in [
        (closes, good, "resets against connections that are held open: the plan closes them"),
        (plan(), Resets { each: 0, ..good }, "0 resets a connection and direction: 1 to 1048576"),
        (plan(), Resets { per_second: 0.0, ..good }, "0 resets a second: more than 0 and up to 10^8"),
        (translates, good, "resets in both directions behind a firewall that translates"),
    ] {
        let refused = engine.open_all_reset_and_verify(&ports, &plan, &resets, &mut ()).unwrap_err();
        assert!(matches!(&refused, TrafficError::Impossible(why) if why.starts_with(said)), "{refused}");
    }
}
