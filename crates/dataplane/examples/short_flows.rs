//! Short flows through the programs by the million, from two cores, and races of two cores for the same flows:
//! `cargo run --release -p dataplane --example short_flows -- [FLOWS] [RACES] [RESETS]`, as root; 10 million flows, a million
//! races and a million wrong resets unless said. Ends with an error if a packet was refused, or a flow or a record is lost. The
//! programs are run by `BPF_PROG_TEST_RUN` in a namespace of their own; no packet is sent.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

#[path = "../tests/bed/mod.rs"]
mod bed;
#[path = "../tests/many/mod.rs"]
mod many;

use std::time::Instant;

fn main() {
    let mut counts =
        std::env::args().skip(1).map(|word| word.parse().unwrap_or_else(|_| panic!("{word}: not a number")));
    let [flows, races, resets] =
        [10_000_000, 1_000_000, 1_000_000].map(|usual| counts.next().unwrap_or(usual));
    let begin = Instant::now();
    if flows > 0 {
        let run = many::short::run(flows);
        let account = &run.account;
        println!("{} short flows, {} packets, {} records in the table", run.flows, run.packets, run.table);
        println!("  opened {}, and each packet let through", account.opened);
        println!(
            "  closed {}, expired {}, open at the end {}",
            account.closed, account.expired, account.left
        );
        println!("  refused {}; {:.0} s", account.drops.values().sum::<u64>(), begin.elapsed().as_secs_f64());
    }
    let begin = Instant::now();
    if races > 0 {
        let run = many::races::run(races);
        let account = &run.account;
        println!("{} races of two cores for a flow", run.races);
        println!(
            "  opened {}, closed {}, expired {}, killed {}",
            account.opened, account.closed, account.expired, account.killed
        );
        println!(
            "  data too late for a reset {}; refused otherwise 0; {:.0} s",
            run.late,
            begin.elapsed().as_secs_f64()
        );
    }
    let begin = Instant::now();
    if resets > 0 {
        let run = many::resets::run(resets);
        println!("{} wrong resets at {} connections", run.inexact + run.dropped, run.connections);
        println!(
            "  passed {}, dropped {}, closed by them 0; then each by the right one; {:.0} s",
            run.inexact,
            run.dropped,
            begin.elapsed().as_secs_f64()
        );
    }
}
