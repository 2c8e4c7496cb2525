//! Rates of connections that the search finds for firewalls with a queue that takes everything in, against what they can do.

use super::connection_tests::{rate, run};
use super::simulated_connections::SimulatedConnections;
use super::*;
use crate::ledger::{ConnectionPlaces, Places};
use crate::pace::tests::{ends_within, in_time};
use crate::stats::SplitMix;
use crate::trial::WorkloadOutcome;

/// A firewall on paper: whatever comes waits in its queue until it is done.
#[derive(Clone, Copy)]
struct Queue {
    /// Connections that are handed on at once.
    burst: f64,
    /// Seconds that a connection takes beyond its turn, at most; any time up to it is as likely.
    uneven_seconds: f64,
    /// Of ten trials, so many lose the core for a tenth of their time.
    stalls: u64,
}

impl Queue {
    /// When the connections of a load end.
    fn ends(&self, rate: f64, seconds: f64, capacity: f64, seed: u64) -> Vec<f64> {
        let mut random = SplitMix::new(seed);
        let mut ends = ends_within(seconds, rate, capacity, |_| random.unit() * self.uneven_seconds);
        let period = self.burst / capacity;
        let phase = random.unit() * period;
        if self.burst > 1.0 {
            ends.iter_mut().for_each(|end| *end = ((*end - phase) / period).ceil() * period + phase);
        }
        if (random.below(10) as u64) < self.stalls {
            let from = random.unit() * seconds * 1.1;
            let to = from + seconds / 10.0;
            ends.iter_mut().filter(|end| (from..to).contains(*end)).for_each(|end| *end = to);
        }
        ends
    }

    /// The load that met the goal and the value, as shares of the capacity, and how many trials the search took.
    fn found(&self, capacity: f64, trial_seconds: f64, seed: u64) -> (f64, f64, usize) {
        let mut rig = SimulatedConnections::new(Placement::Isolated, capacity);
        let mut trial = seed * 1000;
        let queue = *self;
        rig.script = Box::new(move |_, outcome| {
            trial += 1;
            let (offered, seconds) = (outcome.ledger.offered, outcome.seconds);
            let rate = offered as f64 / seconds;
            let ends = queue.ends(rate, seconds, capacity, trial);
            let WorkloadOutcome::Connections(connections) = &mut outcome.workload else {
                panic!("{outcome:?}")
            };
            connections.failed.clear();
            connections.in_time = Some(in_time(rate, seconds, &ends, (1.0, 0.0)));
            outcome.ledger.received = offered;
            outcome.ledger.places = Places::Connections(ConnectionPlaces::default());
        });
        let of = rate(RateOf::Connections);
        let search = SearchSpec { trial_seconds, ..of.search.clone() };
        let spec = ProcedureSpec::from(RateSpec { search, ..of });
        let (measured, requests) = run(&spec, &mut rig);
        let lower = measured[0].search.as_ref().map_or(0.0, |search| search.lower);
        (lower / capacity, measured[0].value / capacity, requests.len())
    }
}

#[test]
fn held_table() {
    let page = include_str!("../../../../docs/design/search.md");
    let queues = [
        ("one by one", 1.0, 0.0, 0),
        ("one by one, some 20 ms later than others", 1.0, 0.02, 0),
        ("in bursts of a fiftieth of the trial", 0.02, 0.0, 0),
        ("in bursts of a fifth of the trial", 0.2, 0.0, 0),
        ("one by one, three trials in ten stalled", 1.0, 0.0, 3),
    ];
    let mut others = String::new();
    for (capacity, seconds) in [(1000.0, 0.25), (1000.0, 2.0)] {
        for (name, burst, uneven_seconds, stalls) in queues {
            let burst = if burst < 1.0 { burst * capacity * seconds } else { burst };
            let queue = Queue { burst, uneven_seconds, stalls };
            let seeds = 0..41;
            let (mut loads, mut values, mut trials) = (Vec::new(), Vec::new(), 0);
            for seed in seeds {
                let (load, value, count) = queue.found(capacity, seconds, seed);
                loads.push(load);
                values.push(value);
                trials += count;
            }
            for list in [&mut loads, &mut values] {
                list.sort_by(f64::total_cmp);
            }
            let shown = |list: &[f64]| {
                let [low, middle, high] = [2, 20, 38].map(|at| list[at]);
                format!("{middle:.3} ({low:.3} to {high:.3})")
            };
            let row = format!(
                "| {capacity} in {seconds} s | {} | {} | {} | {:.1} |\n",
                name,
                shown(&loads),
                shown(&values),
                f64::from(trials as u32) / 41.0
            );
            if !page.contains(&row) {
                others += &row;
            }
        }
    }
    assert!(others.is_empty(), "{others}");
}
