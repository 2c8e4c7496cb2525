//! Procedures with TCP connections on simulated firewalls.

use super::simulated_connections::{FRAMES, SimulatedConnections};
use super::*;
use crate::connections::{AttackKind, AttackSources, ConnectionRequest, RatePhase, ReplacementOutcome};
use crate::ledger::{ConnectionPlaces, Places};
use crate::pace::InTime;
use crate::trial::{Rig, WorkloadOutcome};
use Placement::{Inline, Isolated};

fn search() -> SearchSpec {
    SearchSpec { preset: Preset::Mlr, trial_seconds: 0.25, loss_ratio: None, width: None, max_load: None }
}

pub(super) fn rate(of: RateOf) -> RateSpec {
    RateSpec {
        of,
        search: search(),
        p99_establishment_seconds: None,
        pairs: 64_512,
        pair_taken_seconds: 0.0,
        legal_share: 1.0,
        flood: None,
    }
}

fn flood(frames_per_second: f64) -> Flood {
    Flood { kind: AttackKind::Syn, frames_per_second, sources: AttackSources::Random }
}

pub(super) fn run(
    spec: &ProcedureSpec,
    rig: &mut SimulatedConnections,
) -> (Vec<Measured>, Vec<ConnectionRequest>) {
    let mut procedure = spec.start(rig.placement);
    let mut requests = Vec::new();
    loop {
        let step = procedure.next();
        assert_eq!(step, procedure.next(), "asking twice changes nothing");
        match step {
            Step::Done(measured) => return (measured, requests),
            Step::Trial(request) => {
                assert!(requests.len() < 500, "no end");
                let outcome = rig.trial(&request).unwrap();
                procedure.record(&request, &outcome);
                let TrialRequest::Connections(request) = request else { panic!("{request:?}") };
                requests.push(request);
            }
        }
    }
}

fn held(connections: u64, opening_rate: f64, hold_seconds: f64) -> ConnectionRequest {
    ConnectionRequest::Held { connections, opening_rate, hold_seconds, resets: None }
}

fn near(value: f64, expected: f64, share: f64) -> bool {
    (value - expected).abs() <= expected * share
}

fn kinds(measured: &Measured) -> Vec<MarkKind> {
    measured.marks.iter().map(|m| m.kind).collect()
}

fn values(measured: &[Measured]) -> Vec<(Metric, f64)> {
    measured.iter().map(|m| (m.metric, m.value)).collect()
}

#[test]
fn rates_of_connections() {
    // What; where; what is asked; the rate found; marks; the most trials.
    let of = || rate(RateOf::Connections);
    let late = RateSpec { p99_establishment_seconds: Some(0.000_5), ..of() };
    let rows = [
        ("inline", Inline, of(), 2e5, vec![], 8),
        ("isolated", Isolated, of(), 2e5, vec![], 12),
        ("a fifth is legal", Inline, RateSpec { legal_share: 0.2, ..of() }, 4e4, vec![], 8),
        // At half the capacity, connections are established in half the time of 1 ms.
        ("too late above half the rate", Isolated, late, 1e5, vec![], 20),
        (
            "64,512 pairs, each taken for half a second",
            Inline,
            RateSpec { pair_taken_seconds: 0.5, ..of() },
            129_024.0,
            vec![MarkKind::NoUpperBound],
            4,
        ),
        ("beside a flood", Inline, RateSpec { flood: Some(flood(1e5)), ..of() }, 1e5, vec![], 12),
    ];
    for (name, placement, spec, expected, marks, most_trials) in rows {
        let mut rig = SimulatedConnections::new(placement, 2e5);
        rig.legal_share = spec.legal_share;
        rig.cost_of_flood = 1.0;
        let (measured, requests) = run(&ProcedureSpec::from(spec.clone()), &mut rig);
        let [found, time] = &measured[..] else { panic!("{name}: {measured:?}") };
        assert_eq!(
            [found.metric, time.metric],
            [Metric::ConnectionRate, Metric::EstablishmentTime],
            "{name}"
        );
        assert!(found.valid && time.valid, "{name}: {measured:?}");
        assert!(near(found.value, expected, 0.011), "{name}: {}", found.value);
        assert_eq!(time.value, 5e3, "{name}");
        assert_eq!(kinds(found), marks, "{name}: {:?}", found.marks);
        assert!(requests.len() <= most_trials, "{name}: {} trials", requests.len());
        assert!(matches!(requests[0], ConnectionRequest::Fastest { .. }), "{name}");
        for request in &requests {
            let whole = request.attack().map(|attack| (attack.after_seconds, attack.seconds));
            assert_eq!(whole, spec.flood.map(|_| (0.0, request.seconds())), "{name}");
        }
    }
}

#[test]
fn a_rate_that_is_only_caught_up_on_is_not_held() {
    let mut rig = SimulatedConnections::new(Inline, 2e5);
    rig.script = Box::new(|_, outcome| {
        // What was not sent in time is sent, and succeeds, after the end of the schedule.
        let ledger = &mut outcome.ledger;
        outcome.seconds *= ledger.offered as f64 / ledger.received as f64;
        (ledger.received, ledger.not_sent) = (ledger.offered, 0);
    });
    let (measured, requests) = run(&ProcedureSpec::from(rate(RateOf::Connections)), &mut rig);
    assert!(measured[0].valid && near(measured[0].value, 2e5, 0.011), "{:?}", measured[0].value);
    let fastest = requests.iter().filter_map(|request| match request {
        ConnectionRequest::Scheduled { phases, .. } => Some(phases[0].from),
        _ => None,
    });
    assert!(fastest.fold(0.0, f64::max) < 2.6e5, "the search stays near what is held");
}

#[test]
fn a_rate_that_only_a_queue_takes_in_is_not_held() {
    let counted = [
        (RateOf::Connections, Metric::ConnectionRate, 850.0),
        (RateOf::Transactions, Metric::TransactionRate, 2550.0),
        (RateOf::Teardowns, Metric::TeardownRate, 850.0),
    ];
    for (of, metric, expected) in counted {
        let mut rig = SimulatedConnections::new(Isolated, 850.0);
        rig.script = Box::new(|_, outcome| {
            // All that is offered succeeds, some of it after the end of the load.
            let in_time = InTime { seconds: outcome.seconds, ended: outcome.ledger.received as f64 };
            let ledger = &mut outcome.ledger;
            let more = ledger.offered as f64 / ledger.received as f64;
            (ledger.received, ledger.places) =
                (ledger.offered, Places::Connections(ConnectionPlaces::default()));
            let WorkloadOutcome::Connections(connections) = &mut outcome.workload else {
                panic!("{outcome:?}")
            };
            connections.failed.clear();
            connections.in_time = Some(in_time);
            for count in [&mut connections.transactions, &mut connections.closed] {
                *count = (*count as f64 * more) as u64;
            }
        });
        let (measured, requests) = run(&ProcedureSpec::from(rate(of)), &mut rig);
        let found = &measured[0];
        assert!(found.valid && found.metric == metric, "{found:?}");
        assert!(near(found.value, expected, 0.011), "{metric:?}: {}", found.value);
        let fastest = requests.iter().filter_map(|request| match request {
            ConnectionRequest::Scheduled { phases, .. } => Some(phases[0].from),
            _ => None,
        });
        assert!(fastest.fold(0.0, f64::max) < 1500.0, "the search stays near what is held: {requests:?}");
    }
}

#[test]
fn a_rate_that_ports_limit_says_so() {
    let spec = RateSpec { pair_taken_seconds: 0.5, ..rate(RateOf::Connections) };
    let (measured, _) = run(&ProcedureSpec::from(spec), &mut SimulatedConnections::new(Inline, 2e5));
    assert_eq!(
        measured[0].marks[0].text,
        "the goal was still met at the highest load, 129024 connections/s: 64512 pairs of client address and port, each \
         taken for 0.5 s, allow no more"
    );
}

#[test]
fn transactions_and_tear_downs_are_counted_at_the_rate_of_connections() {
    let rows = [
        (RateOf::Transactions, vec![(Metric::TransactionRate, 6e5)]),
        (RateOf::Teardowns, vec![(Metric::TeardownRate, 2e5), (Metric::TeardownTime, 7e3)]),
    ];
    for (of, expected) in rows {
        let spec = ProcedureSpec::from(rate(of));
        let (measured, _) = run(&spec, &mut SimulatedConnections::new(Isolated, 2e5));
        assert_eq!(measured.len(), expected.len());
        for (found, (metric, value)) in measured.iter().zip(expected) {
            assert!(found.valid && found.metric == metric, "{found:?}");
            assert!(near(found.value, value, 0.011), "{metric:?}: {}", found.value);
        }
    }
}

#[test]
fn a_goal_that_no_rate_meets_is_said_in_words() {
    let spec = RateSpec { p99_establishment_seconds: Some(1e-9), ..rate(RateOf::Connections) };
    let (measured, _) = run(&ProcedureSpec::from(spec), &mut SimulatedConnections::new(Inline, 2e5));
    assert!(measured.iter().all(|m| !m.valid && kinds(m) == [MarkKind::NoLowerBound]), "{measured:?}");
    assert!(
        measured[0].marks[0].text.starts_with(
            "no load met the goal of 0 % failures and a 99th percentile of the establishment time of 0.000000001 s"
        ),
        "{:?}",
        measured[0].marks
    );
}

#[test]
fn illegal_traffic_that_gets_through_costs_the_value_at_once() {
    let connections = 1000;
    let specs = [
        ProcedureSpec::from(RateSpec { legal_share: 0.5, ..rate(RateOf::Connections) }),
        ProcedureSpec::from(EstablishmentSpec {
            connections,
            opening_rate: 5e3,
            hold_seconds: 0.0,
            legal_share: 0.5,
        }),
        ProcedureSpec::from(SteadySpec { legal_share: 0.5, ..steady(None) }),
    ];
    for spec in specs {
        let mut rig = SimulatedConnections::new(Inline, 2e5);
        (rig.legal_share, rig.leaks) = (0.5, 7);
        let (measured, requests) = run(&spec, &mut rig);
        assert_eq!(requests.len(), 1, "{spec:?}");
        for found in measured {
            assert!(!found.valid && kinds(&found) == [MarkKind::IllegalGotThrough], "{found:?}");
            assert_eq!(found.marks[0].text, "7 of 1000 illegal attempts got through: port 7");
        }
    }
}

#[test]
fn capacities() {
    // Connections that fit; the most tried; what is found; whether the most was met; the most trials.
    let rows = [
        (u64::MAX, 140_000, 140_000, true, 1),
        (65_000, 140_000, 65_000, false, 12),
        (103, 140_000, 103, false, 40),
        (1, 2, 1, false, 4),
    ];
    for (fit, max_connections, expected, most_met, most_trials) in rows {
        let spec = ProcedureSpec::from(CapacitySpec {
            search: SearchSpec { preset: Preset::Rfc2544, ..search() },
            max_connections,
            opening_rate: 2500.0,
            hold_seconds: 3.0,
            legal_share: 1.0,
        });
        let mut rig = SimulatedConnections::new(Inline, 2e5);
        rig.most_open = fit;
        let (measured, requests) = run(&spec, &mut rig);
        let [found] = &measured[..] else { panic!("{measured:?}") };
        assert!(found.valid && found.value == found.value.floor(), "{found:?}");
        assert!(
            found.value <= expected as f64 && near(found.value, expected as f64, 0.011),
            "{}",
            found.value
        );
        assert_eq!(kinds(found).contains(&MarkKind::NoUpperBound), most_met, "{:?}", found.marks);
        assert!(requests.len() <= most_trials, "{fit}: {} trials", requests.len());
        assert_eq!(requests[0], held(max_connections, 2500.0, 3.0));
    }
}

#[test]
fn an_establishment_keeps_failures_as_its_result() {
    let spec = ProcedureSpec::from(EstablishmentSpec {
        connections: 4096,
        opening_rate: 5000.0,
        hold_seconds: 1.0,
        legal_share: 1.0,
    });
    let mut rig = SimulatedConnections::new(Inline, 2e5);
    rig.most_open = 1024;
    let (measured, requests) = run(&spec, &mut rig);
    assert_eq!(requests, [held(4096, 5000.0, 1.0)]);
    let expected =
        [(Metric::Established, 1024.0), (Metric::Failures, 0.75), (Metric::EstablishmentTime, 5e3)];
    assert_eq!(values(&measured), expected);
    assert!(measured.iter().all(|m| m.valid && m.marks.is_empty()));
}

fn steady(flood: Option<FloodTime>) -> SteadySpec {
    SteadySpec {
        connection_rate: 1e4,
        ramp_up_seconds: 2.0,
        sustain_seconds: 12.0,
        ramp_down_seconds: 1.0,
        legal_share: 1.0,
        flood,
    }
}

#[test]
fn a_steady_rate_is_read_from_the_sustained_load_alone() {
    let mut rig = SimulatedConnections::new(Inline, 2e5);
    (rig.policy_load_seconds, rig.memory_bytes) = (Some(1.5), Some(1 << 20));
    let (measured, requests) = run(&ProcedureSpec::from(steady(None)), &mut rig);
    let phases = vec![
        RatePhase { seconds: 2.0, from: 0.0, to: 1e4 },
        RatePhase::constant(1e4, 12.0),
        RatePhase { seconds: 1.0, from: 1e4, to: 0.0 },
    ];
    assert_eq!(
        requests,
        [ConnectionRequest::Scheduled { phases, attack: None, replace_after_seconds: None }]
    );
    let expected = [
        (Metric::ConnectionRate, 1e4),
        (Metric::FrameRate, 1e4 * FRAMES as f64),
        (Metric::EstablishmentTime, 5e3),
        (Metric::Failures, 0.0),
        (Metric::PolicyLoadTime, 1.5),
        (Metric::Memory, f64::from(1 << 20)),
    ];
    assert_eq!(values(&measured), expected);
    assert!(measured.iter().all(|m| m.valid && m.marks.is_empty() && m.at.is_empty()), "{measured:?}");
}

#[test]
fn a_steady_rate_says_what_the_firewall_does_not_tell() {
    let (measured, requests) = run(
        &ProcedureSpec::from(SteadySpec { ramp_up_seconds: 0.0, ramp_down_seconds: 0.0, ..steady(None) }),
        &mut SimulatedConnections::new(Inline, 2e5),
    );
    assert_eq!(requests, [ConnectionRequest::at_rate(1e4, 12.0)], "no ramps of no length");
    assert_eq!(measured.len(), 4);
    let text = "the firewall tells neither how long its policy took to load nor how much memory it takes";
    assert!(measured.iter().all(|m| m.marks[0].text == text), "{measured:?}");
}

#[test]
fn a_flood_is_seen_before_during_and_after() {
    // Seconds that the flood hurts on after its end; the recovery; its mark.
    let rows = [(0.0, 0.0, MarkKind::Note), (2.0, 2.0, MarkKind::Note), (60.0, 5.0, MarkKind::NoUpperBound)];
    for (aftermath, recovery, kind) in rows {
        let time = FloodTime { flood: flood(66_485.0), after_seconds: 4.0, seconds: 3.0 };
        let mut rig = SimulatedConnections::new(Isolated, 3e4);
        (rig.cost_of_flood, rig.aftermath) = (25_000.0 / 66_485.0, aftermath);
        let (measured, requests) = run(&ProcedureSpec::from(steady(Some(time))), &mut rig);
        assert_eq!(requests[0].attack(), Some(flood(66_485.0).during(6.0, 3.0)), "after the ramp");
        let of = |metric, phase: &str| {
            let is = |m: &&Measured| m.metric == metric && m.at.get("phase").is_some_and(|p| p.text == phase);
            measured.iter().find(is).unwrap().value
        };
        let rates = ["before", "during", "after"].map(|phase| of(Metric::ConnectionRate, phase));
        assert!(near(rates[0], 1e4, 1e-6) && near(rates[1], 5e3, 1e-6), "{rates:?}");
        assert!(near(rates[2], 1e4 - 5e3 * f64::min(aftermath, 5.0) / 5.0, 1e-6), "{rates:?}");
        assert_eq!([of(Metric::Failures, "before"), of(Metric::Failures, "during")], [0.0, 0.5]);
        let found = measured.iter().find(|m| m.metric == Metric::Recovery).unwrap();
        assert!(found.valid && (found.value - recovery).abs() < 1e-9, "{found:?}");
        assert_eq!(kinds(found), [kind]);
        assert!(found.marks[0].text.contains("samples of 1.00 s bound the resolution"), "{found:?}");
        assert_eq!(measured.len(), 13);
    }
}

#[test]
fn resets_forged_and_legitimate() {
    let spec = ResetsSpec { connections: 1000, opening_rate: 5e3, each: 2, resets_per_second: 1e4 };
    let mut rig = SimulatedConnections::new(Inline, 2e5);
    rig.forgeable = 0.25;
    let (measured, requests) = run(&ProcedureSpec::from(spec.clone()), &mut rig);
    let found: Vec<(&str, Metric, f64)> =
        measured.iter().map(|m| (m.at["resets"].text.as_str(), m.metric, m.value)).collect();
    let expected = [
        ("outside-window", Metric::Surviving, 0.75),
        ("inside-window", Metric::Surviving, 0.75),
        ("legitimate", Metric::ClosedByReset, 1.0),
    ];
    assert_eq!(found, expected);
    assert!(measured[0].marks[0].text.starts_with("4000 resets against 1000 connections"));
    for (request, kind) in requests.iter().zip(resets::KINDS) {
        let resets = Some(crate::connections::Resets { kind, each: 2, per_second: 1e4 });
        let expected =
            ConnectionRequest::Held { connections: 1000, opening_rate: 5e3, hold_seconds: 0.0, resets };
        assert_eq!(*request, expected);
    }
    // Where nothing opens, there is nothing to reset.
    rig.most_open = 0;
    let (measured, _) = run(&ProcedureSpec::from(spec), &mut rig);
    assert!(measured.iter().all(|m| !m.valid && m.at.contains_key("resets")), "{measured:?}");
}

#[test]
fn replacements() {
    let spec = ProcedureSpec::from(ReplacementSpec {
        connection_rate: 1e4,
        trial_seconds: 6.0,
        replace_after_seconds: 2.0,
        legal_share: 1.0,
    });
    let done = |holds_after_seconds| ReplacementOutcome {
        command_seconds: 0.125,
        holds_after_seconds,
        by_neither: 3,
        probes: 100,
    };
    let text = "the firewall's command took 0.125 s; 3 of 100 probes were judged by neither policy";
    // What the rig tells; the time; its mark.
    let rows = [
        (Some(done(Some(0.25))), Some(0.25), text),
        (Some(done(None)), None, "the old policy still held 4 s after the order to replace it"),
        (None, None, "the policy was not replaced"),
    ];
    for (replacement, time, mark) in rows {
        let mut rig = SimulatedConnections::new(Isolated, 2e5);
        rig.replacement.clone_from(&replacement);
        rig.script = Box::new(|_, outcome| {
            outcome.ledger.received -= 5;
            let places = ConnectionPlaces { failed: [("reset".into(), 5)].into() };
            outcome.ledger.places = Places::Connections(places);
        });
        let (measured, requests) = run(&spec, &mut rig);
        let expected = ConnectionRequest::Scheduled {
            phases: vec![RatePhase::constant(1e4, 6.0)],
            attack: None,
            replace_after_seconds: Some(2.0),
        };
        assert_eq!(requests[0], expected);
        let [found, failures] = &measured[..] else { panic!("{measured:?}") };
        assert_eq!(found.valid.then_some(found.value), time, "{found:?}");
        assert_eq!(found.marks[0].text, mark);
        assert_eq!(failures.valid.then_some(failures.value), replacement.map(|_| 5.0));
    }
}

#[test]
fn trials_that_must_not_count_are_repeated_and_then_given_up() {
    let spec = ProcedureSpec::from(steady(None));
    for (failing, valid) in [(2, true), (3, false)] {
        let mut rig = SimulatedConnections::new(Isolated, 2e5);
        rig.script = Box::new(move |n, outcome| {
            if n < failing {
                outcome.ledger.received -= 1;
            }
        });
        let (measured, requests) = run(&spec, &mut rig);
        assert_eq!(requests.len(), 3);
        assert!(measured.iter().all(|m| m.valid == valid), "{measured:?}");
        if !valid {
            assert!(measured[0].marks[0].text.ends_with("offered connections are unaccounted for"));
        }
    }
}

#[test]
fn a_value_that_is_lost_stands_where_it_would_have_stood() {
    let time = FloodTime { flood: flood(1e4), after_seconds: 4.0, seconds: 3.0 };
    let specs = [
        ProcedureSpec::from(rate(RateOf::Connections)),
        ProcedureSpec::from(rate(RateOf::Transactions)),
        ProcedureSpec::from(rate(RateOf::Teardowns)),
        ProcedureSpec::from(EstablishmentSpec {
            connections: 10,
            opening_rate: 5e3,
            hold_seconds: 0.0,
            legal_share: 1.0,
        }),
        ProcedureSpec::from(steady(None)),
        ProcedureSpec::from(steady(Some(time))),
        ProcedureSpec::from(ResetsSpec {
            connections: 10,
            opening_rate: 5e3,
            each: 1,
            resets_per_second: 1e4,
        }),
    ];
    for spec in specs {
        let (measured, _) = run(&spec, &mut SimulatedConnections::new(Inline, 2e5));
        let keys = |all: &[Measured]| -> Vec<(Metric, BTreeMap<String, Level>)> {
            all.iter().map(|m| (m.metric, m.at.clone())).collect()
        };
        let lost = spec.lost(&[mark(MarkKind::FirewallFailed, "gone")]);
        assert_eq!(keys(&lost), keys(&measured), "{spec:?}");
        assert!(lost.iter().all(|m| !m.valid));
    }
}
