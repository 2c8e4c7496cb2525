//! How many connections are opened when: phases, a number kept open, capacity proved on every connection. Needs root.

#[path = "tcp/bed.rs"]
mod bed;

use bed::{Bed, PATIENCE};
use std::time::Duration;
use traffic::tcp::{Close, Ends, Engine, Opening, Side, TcpPhase, TcpPlan, TcpReading, TcpTime};
use traffic::{TrafficError, Watch};

/// Keeps every sample.
#[derive(Default)]
struct Samples(Vec<(f64, TcpReading)>);

impl Watch<TcpReading> for Samples {
    fn sample_every(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn sample(&mut self, at_seconds: f64, reading: &TcpReading) {
        self.0.push((at_seconds, reading.clone()));
    }
}

#[test]
fn phases_open_what_they_ask_for_and_samples_add_up() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for cores in [vec![0], vec![0, 1]] {
        let plan = TcpPlan {
            cores,
            grace: PATIENCE,
            settle: PATIENCE,
            ..TcpPlan::new(Opening::Scheduled(vec![
                TcpPhase { seconds: 0.2, from: 0.0, to: 20_000.0 },
                TcpPhase::constant(20_000.0, 0.2),
                TcpPhase { seconds: 0.2, from: 20_000.0, to: 0.0 },
                TcpPhase::constant(0.0, 0.1),
            ]))
        };
        let mut samples = Samples::default();
        let reading = engine.run(&ports, &plan, &mut samples).unwrap();
        assert_eq!(reading.counts.attempted, reading.offered);
        assert!(reading.offered.abs_diff(8000) < 100, "{}", reading.offered);
        assert_eq!(
            (reading.counts.closed, reading.counts.open()),
            (reading.offered, 0),
            "{:?}",
            reading.counts
        );
        // The schedule ends by itself, not because nobody waits any longer.
        assert!(samples.0.len() > 1);
        let seconds = samples.0.last().map(|(seconds, _)| *seconds);
        assert!(seconds >= Some(0.7), "{seconds:?}");
        let mut sum = 0;
        let mut last: Option<&TcpReading> = None;
        for (_, now) in &samples.0 {
            sum += last.map_or_else(|| now.clone(), |last| now.since(last)).counts.closed;
            last = Some(now);
        }
        assert_eq!(sum, reading.counts.closed);
        let closed = reading.time_ns(TcpTime::Closed).unwrap();
        let first = reading.time_ns(TcpTime::SynSent).unwrap();
        assert!(first.min <= closed.min && first.mean < closed.mean, "{first:?} {closed:?}");
    }
}

/// No connection waits for its turn unnoticed: while the generator is late, times grow by what it is late.
#[test]
fn times_count_from_the_intended_start() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    // No machine opens 50 M a second, so at the end the last start is late by nearly all the time it took. Long enough for a
    // generator that waits for its core.
    let mut plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(5e7, 0.2)]));
    plan.clients.hosts = 2;
    plan.grace = Duration::ZERO;
    let reading = engine.run(&ports, &plan, &mut ()).unwrap();
    assert!(
        reading.counts.attempted < reading.offered,
        "what is not due any more is left out: {:?}",
        reading.counts
    );
    assert_eq!(reading.counts.open(), 0, "{:?}", reading.counts);
    let late = reading.time_ns(TcpTime::SynSent).unwrap();
    assert!(late.max > 1e6 && reading.largest_lag_ns > 1_000_000, "{late:?}, {}", reading.largest_lag_ns);
}

#[test]
fn a_number_is_kept_open() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for cores in [vec![0], vec![0, 1]] {
        let mut plan = TcpPlan::new(Opening::KeepOpen(100, vec![TcpPhase::constant(50_000.0, 1.0)]));
        plan.cores = cores;
        plan.hold = Duration::from_millis(40);
        let mut samples = Samples::default();
        let reading = engine.run(&ports, &plan, &mut samples).unwrap();
        let c = &reading.counts;
        assert!(samples.0.iter().all(|(_, r)| r.counts.open() <= 100), "{c:?}");
        assert!(samples.0.iter().any(|(_, r)| r.counts.open() == 100), "{c:?}");
        assert!(c.closed > 200 && c.open() == 0 && c.closed == c.opened, "{c:?}");
    }
}

#[test]
fn capacity_is_proved_on_every_connection() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(100_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for transactions in [0, 1] {
        let mut plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(200_000.0, 0.5)]));
        plan.clients = Side { first_host: 256, hosts: 16, first_port: 1024, ports: 10_000 };
        plan.tuples = 100_000;
        plan.close = Close::Never;
        plan.transactions = transactions;
        (plan.grace, plan.settle) = (PATIENCE, PATIENCE);
        let (all, end) = engine.open_all_and_verify(&ports, &plan, &mut ()).unwrap();
        assert_eq!((all.counts.open(), all.counts.established), (100_000, 100_000), "{:?}", all.counts);
        assert_eq!((end.counts.verified, end.counts.closed), (100_000, 100_000), "{:?}", end.counts);
        assert_eq!(end.counts.failed() + end.counts.request_again, 0, "{:?}", end.counts);
    }
}

#[test]
fn tuples_in_use_are_not_used_again() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(100).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let mut plan = TcpPlan::new(Opening::KeepOpen(100, vec![TcpPhase::constant(1000.0, 0.3)]));
    plan.tuples = 100;
    plan.reuse = Duration::from_secs(30);
    (plan.grace, plan.settle) = (PATIENCE, PATIENCE);
    let c = engine.run(&ports, &plan, &mut ()).unwrap().counts;
    assert_eq!((c.opened, c.closed), (100, 100), "{c:?}");
    assert_eq!((c.no_tuple, c.attempted), (200, 300), "{c:?}");
}

#[test]
fn an_interrupted_run_ends() {
    let _turn = testkit::turn();
    struct Stop;
    impl Watch<TcpReading> for Stop {
        fn interrupted(&self) -> bool {
            true
        }
    }
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(10.0, 1000.0)]));
    assert!(matches!(engine.run(&ports, &plan, &mut Stop), Err(TrafficError::Interrupted)));
}
