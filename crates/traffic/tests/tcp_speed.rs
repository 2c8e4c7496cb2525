//! What a connection costs, against the stateless loop in the same run. Needs root; takes some seconds; run by hand:
//! `cargo test -p traffic --test tcp_speed -- --ignored --nocapture`.

#[path = "tcp/bed.rs"]
mod bed;

use bed::Bed;
use traffic::tcp::Engine;

#[test]
#[ignore = "a measurement, not a check: it depends on what else the machine does"]
fn engine_against_the_stateless_loop() {
    let bed = Bed::wire();
    let mut engine = Engine::load(65_536).unwrap();
    let plan = Engine::calibration_plan(1.0);
    for _ in 0..3 {
        let bare = engine.run_bare(&bed.client, &bed.server, &plan).unwrap();
        let ports = engine.attach(Some(&bed.client), Some(&bed.server)).unwrap();
        let reading = engine.run(&ports, &plan, &mut ()).unwrap();
        drop(ports);
        let rate = reading.counts.closed as f64 / plan.seconds();
        println!("stateless {bare:.0}/s, engine {rate:.0}/s, ratio {:.2}", rate / bare);
        println!("{:?}", reading.counts);
    }
}
