//! The TCP client and server against each other over a bare wire, and against the kernel's TCP. Needs root.

#[path = "tcp/bed.rs"]
mod bed;

use bed::Bed;
use traffic::tcp::{Engine, Opening, TcpPhase, TcpPlan};

fn at(rate: f64, seconds: f64) -> TcpPlan {
    TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(rate, seconds)]))
}

#[test]
fn connections_complete_over_a_bare_wire() {
    let bed = Bed::wire();
    let mut engine = Engine::load(100_000).unwrap();
    let ports = engine.attach(Some(&bed.client), Some(&bed.server)).unwrap();
    let reading = engine.run(&ports, &at(1000.0, 0.2), &mut ()).unwrap();
    println!("{reading:?}");
    assert_eq!(reading.counts.closed, 200);
}
