//! Mixes that a suite states, over loopback: every part has its turns, its files and its counts, and together they are the whole.

use super::tests::{load, side};
use super::*;
use crate::app::nstl::{CLIENT_MACHINES, SERVERS};
use measure::application::{Arrivals, PROTOCOLS, ProtocolMix};
use measure::mix::{Mix, MixOutcome, Part, PartFiles, SharesOf};
use measure::open_loop::OpenLoop;
use std::sync::Arc;

fn mix(shares: SharesOf, parts: &[(&str, PartFiles, u32, f64)]) -> Arc<Mix> {
    let part = |(name, files, transactions, share): &(&str, PartFiles, u32, f64)| Part {
        name: (*name).into(),
        protocol: PROTOCOLS.iter().find(|(known, _)| known == name).unwrap().1,
        files: files.clone(),
        transactions: *transactions,
        share: *share,
    };
    let parts = parts.iter().map(part).collect();
    Arc::new(Mix { name: "m".into(), title: "M".into(), source: None, shares, parts })
}

fn run_mix(test: u8, load: &Load, mix: &Mix) -> (Outcome, MixOutcome) {
    let (clients, servers) = (side(test, 1, CLIENT_MACHINES), side(test, 101, SERVERS));
    let files = Arc::new(FileSet::of_mix(mix, 7));
    let outcome = run(&clients, &servers, load, &files, &|| false).unwrap();
    let carried = *outcome.application.mix.clone().unwrap();
    (outcome, carried)
}

/// However slow the machine is: nothing here depends on how many transactions there were.
fn check(outcome: &Outcome, carried: &MixOutcome) {
    let (ledger, application) = (&outcome.ledger, &outcome.application);
    assert_eq!((&outcome.fault, ledger.residual()), (&None, 0), "{ledger:?}");
    assert_eq!((ledger.received, application.answers), (ledger.offered, ledger.offered), "{carried:?}");
    assert_eq!(application.disagreements(ledger), [""; 0]);
    let sum = |of: fn(&measure::mix::PartOutcome) -> u64| carried.parts.iter().map(of).sum::<u64>();
    assert_eq!((sum(|p| p.begun), sum(|p| p.completed)), (ledger.offered, ledger.received));
    assert_eq!(
        (sum(|p| p.in_time), sum(|p| p.bytes), sum(|p| p.bytes_in_time)),
        (application.in_time, application.client_bytes, application.bytes_in_time)
    );
    assert_eq!((carried.off(), carried.worst()), (Vec::new(), Vec::new()), "{carried:?}");
    let seconds = outcome.per_second.iter().map(|second| second.sent).sum::<u64>();
    assert_eq!(seconds, ledger.offered);
    for part in &carried.parts {
        assert_eq!(
            part.completed % u64::from(part.each),
            0,
            "connections are carried to their ends: {part:?}"
        );
        let timed = part.times_ns.map_or(0, |times| times.count);
        let answered = part.first_byte_ns.map_or(0, |times| times.count);
        let by_http = if part.name.starts_with("ftp") { 0 } else { part.completed };
        assert_eq!((timed, answered), (part.completed, by_http), "{part:?}");
    }
}

const KB: fn(u32) -> PartFiles = |kb| PartFiles::Kb(vec![kb]);

/// Transactions in which each part of the mixes here has had its turn.
const ENOUGH: u64 = 100;

#[test]
fn all_protocols_go_together_in_a_closed_loop() {
    let parts = [
        ("http/1.0", PartFiles::Nstl, 1, 0.3),
        ("http/1.1", KB(4), 5, 0.2),
        ("https", PartFiles::Mixed, 2, 0.1),
        ("http/2", PartFiles::Kb(vec![1, 16]), 3, 0.1),
        ("ftp:get", PartFiles::Nstl, 1, 0.15),
        ("ftp:put", KB(32), 1, 0.15),
    ];
    for (test, cores) in [(40, vec![0]), (41, vec![0, 0])] {
        let mix = mix(SharesOf::Transactions, &parts);
        let run_for = |seconds| {
            let load = Load { cores: cores.clone(), seconds, ..load(12, ProtocolMix::Stated(mix.clone())) };
            run_mix(test, &load, &mix)
        };
        // A machine that is busy with other tests may begin a transaction or two in so short a time, and each part is to have its turn.
        let (outcome, carried) = [0.2, 2.0]
            .into_iter()
            .map(run_for)
            .find(|(outcome, _)| outcome.ledger.offered >= ENOUGH)
            .unwrap_or_else(|| run_for(20.0));
        check(&outcome, &carried);
        assert!(carried.parts.iter().all(|part| part.sustained.is_none()));
    }
}

#[test]
fn connections_of_an_open_loop_have_their_parts() {
    let parts = [("http/1.1", KB(1), 10, 0.8), ("ftp:get", KB(100), 1, 0.1), ("https", KB(8), 1, 0.1)];
    for (test, shares) in [(42, SharesOf::Transactions), (43, SharesOf::Bytes)] {
        let mix = mix(shares, &parts);
        let open = OpenLoop {
            connection_rate: 200.0,
            ramp_up_seconds: 0.05,
            sustain_seconds: 0.3,
            ramp_down_seconds: 0.05,
        };
        let load = Load {
            arrivals: Arrivals::OpenLoop(open),
            seconds: open.seconds(),
            ..load(1, ProtocolMix::Stated(mix.clone()))
        };
        let (outcome, carried) = run_mix(test, &load, &mix);
        let (ledger, connections) = (&outcome.ledger, mix.connection_shares());
        assert_eq!((ledger.residual(), ledger.not_sent, ledger.received), (0, 0, ledger.offered));
        assert_eq!(carried.off(), [""; 0], "{carried:?}");
        for (part, share) in carried.parts.iter().zip(&connections) {
            let made = part.begun as f64 / f64::from(part.each);
            let asked = open.connections() as f64 * share;
            assert!((made - asked).abs() < 2.0, "{}: {made} connections of {asked}", part.name);
            let sustained = part.sustained.as_ref().unwrap();
            assert!((sustained.due as f64 - 60.0 * share).abs() < 3.0, "{}: {sustained:?}", part.name);
        }
    }
}
