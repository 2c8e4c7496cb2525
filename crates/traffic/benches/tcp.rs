//! What a connection costs, against the stateless loop in the same run; how many can be held; how evenly they start. Needs
//! root, 1 GB and two minutes: `cargo bench -p traffic --bench tcp`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement prints, and fails where it cannot be made"
)]

#[path = "../tests/tcp/bed.rs"]
mod bed;

use bed::Bed;
use std::time::{Duration, Instant};
use traffic::tcp::{Close, Ends, Engine, Opening, Options, Order, Side, TcpPhase, TcpPlan, TcpTime};

fn main() {
    if wanted("ten-million") {
        ten_million_connections_are_held_and_verified();
    }
    if wanted("even") {
        ten_thousand_a_second();
    }
    on_a_wire();
    through_the_kernel();
}

/// Whether the command line names this part, or none.
fn wanted(part: &str) -> bool {
    let mut named = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|word| word == part)
}

/// Prints the rate of the stateless loop and of the engine, per second and per second that the core worked for us.
fn compare(name: &str, bed: &Bed, engine: &mut Engine, plan: &TcpPlan) {
    if !wanted(name) {
        return;
    }
    let seen = engine.compare_with_bare(&bed.client, &bed.server, plan, 1.0).unwrap();
    let c = &seen.reading.counts;
    println!(
        "{name}: stateless {:.0}/s, engine {:.0}/s; a busy second: {:.0} and {:.0}, ratio {:.3}; again {} failed {}",
        seen.bare.a_second,
        seen.engine.a_second,
        seen.bare.a_busy_second,
        seen.engine.a_busy_second,
        seen.ratio(),
        c.syn_again + c.request_again,
        c.failed()
    );
    assert_eq!(c.open(), 0, "{c:?}");
}

const ROUNDS: usize = 4;

fn on_a_wire() {
    let mut engine = Engine::load(65_536).unwrap();
    let plan = Engine::calibration_plan();
    let random = TcpPlan { order: Order::Random, ..plan.clone() };
    let every_option = TcpPlan { options: Options::LINUX, ..plan.clone() };
    let wire = Bed::wire();
    for _ in 0..ROUNDS {
        compare("in-order", &wire, &mut engine, &plan);
        compare("random", &wire, &mut engine, &random);
        compare("all-options", &wire, &mut engine, &every_option);
    }
}

fn through_the_kernel() {
    let mut engine = Engine::load(65_536).unwrap();
    let plan = Engine::calibration_plan();
    let routed = Bed::routed();
    for _ in 0..ROUNDS {
        routed.set_rules("");
        compare("linux", &routed, &mut engine, &plan);
        routed.set_rules(
            "chain f { type filter hook forward priority 0 ; ct state established accept ; \
                          tcp dport 80 accept ; drop ; }",
        );
        compare("nftables", &routed, &mut engine, &plan);
    }
}

fn free_kib() -> i64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = info.lines().find(|line| line.starts_with("MemAvailable")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn ten_million_connections_are_held_and_verified() {
    let bed = Bed::wire();
    let before = free_kib();
    let mut engine = Engine::load(10_000_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let mut plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(400_000.0, 25.0)]));
    plan.clients = Side { first_host: 256, hosts: 256, first_port: 1024, ports: 40_000 };
    plan.tuples = 10_000_000;
    plan.close = Close::Never;
    plan.transactions = 0;
    plan.settle = Duration::from_secs(20);
    plan.grace = Duration::from_secs(60);
    let begun = Instant::now();
    let (all, end) = engine.open_all_and_verify(&ports, &plan, &mut ()).unwrap();
    println!(
        "{:.1} s in all, {} MiB, {:?}",
        begun.elapsed().as_secs_f64(),
        (before - free_kib()) / 1024,
        end.counts
    );
    assert_eq!((all.counts.open(), end.counts.verified), (10_000_000, 10_000_000), "{:?}", all.counts);
}

fn ten_thousand_a_second() {
    let bed = Bed::wire();
    let mut engine = Engine::load(65_536).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let even = engine.evenness(&ports, 10_000.0, 60, &mut ()).unwrap();
    println!("even: opened each second {:?}; at most {:.4} off", even.each_second, even.largest_deviation());
    println!("established after {:?} ns", even.reading.time_ns(TcpTime::Established));
    println!("at most {} ns behind; {:?}", even.reading.largest_lag_ns, even.reading.counts);
    assert_eq!((even.reading.counts.attempted, even.reading.counts.closed), (600_000, 600_000));
}
