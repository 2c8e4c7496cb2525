//! What a connection costs, against the stateless loop in the same run. Needs root; takes some seconds; run by hand:
//! `cargo test -p traffic --test tcp_speed -- --ignored --nocapture`.

#[path = "tcp/bed.rs"]
mod bed;

use bed::Bed;
use traffic::tcp::{Ends, Engine};

/// Seconds that this process has kept a core busy: on a shared machine the clock on the wall tells of others.
fn busy_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

#[test]
#[ignore = "a measurement, not a check: it depends on what else the machine does"]
fn engine_against_the_stateless_loop() {
    let bed = Bed::wire();
    let mut engine = Engine::load(65_536).unwrap();
    let mut plan = Engine::calibration_plan(1.0);
    if let Ok(tuples) = std::env::var("TUPLES") {
        plan.tuples = tuples.parse().unwrap();

    }
    for _ in 0..4 {
        let busy = busy_seconds();
        let bare = engine.run_bare(&bed.client, &bed.server, &plan).unwrap();
        let bare_busy = busy_seconds() - busy;
        let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
        let busy = busy_seconds();
        let reading = engine.run(&ports, &plan, &mut ()).unwrap();
        let engine_busy = busy_seconds() - busy;
        drop(ports);
        let closed = reading.counts.closed as f64;
        println!(
            "stateless {bare:.0}/s, engine {:.0}/s, ratio {:.2}; a busy second: {:.0} and {:.0}, ratio {:.2}",
            closed / plan.seconds(),
            closed / plan.seconds() / bare,
            bare * plan.seconds() / bare_busy,
            closed / engine_busy,
            closed / engine_busy / (bare * plan.seconds() / bare_busy)
        );
        assert_eq!(reading.counts.closed, reading.counts.opened, "{:?}", reading.counts);
    }
}
