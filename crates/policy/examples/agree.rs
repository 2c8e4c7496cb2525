//! Compares interpreter and tables, by all methods, on random policies and packets:
//! `cargo run --release -p policy --example agree -- 10000000`. Ends with status 1 at the first difference.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

#[path = "../tests/random/mod.rs"]
mod random;

use policy::Policy;
use policy::interpret::decide;
use policy::tables::{Limits, Tables};
use random::{Choices, MOMENTS, bytes, packet, policy_text};
use std::process::ExitCode;

const PACKETS_A_POLICY: u64 = 2_000;

const METHODS: [Limits; 4] = [Limits::TREES, Limits::DENSE, Limits::BLOCKS, Limits::VECTORS];

fn main() -> ExitCode {
    let packets: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let policies = packets.div_ceil(PACKETS_A_POLICY);
    let start = std::time::Instant::now();
    for seed in 0..policies {
        let choices = bytes(seed, 2_000);
        let text = policy_text(&mut Choices(&choices), (seed % 60) as usize);
        let policy = Policy::parse("random", &text).unwrap();
        let at = MOMENTS[seed as usize % 4].parse().unwrap();
        let tables = METHODS.map(|limits| Tables::build_within(&policy, at, limits).unwrap());
        for chunk in bytes(!seed, PACKETS_A_POLICY as usize * 16).chunks(16) {
            let packet = packet(&mut Choices(chunk), &policy);
            let expected = decide(&policy, &packet, at);
            let found = tables.each_ref().map(|tables| tables.look_up(&packet).0);
            if found != [expected; 4] {
                println!(
                    "seed {seed}: {packet:?}\ninterpreter {expected:?}\ntrees, tables, blocks, vectors {found:?}\n{text}"
                );
                return ExitCode::FAILURE;
            }
        }
    }
    let done = policies * PACKETS_A_POLICY;
    println!(
        "{done} packets under {policies} policies: no difference, in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
