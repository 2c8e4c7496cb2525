//! What rules that share large objects cost: how long they take to read, to look through for warnings and to build, and how much memory all of it
//! takes at most. `cargo run --release -p policy --example large_objects -- [RULES [OBJECTS [ADDRESSES]]]`: each rule names two objects, or the
//! only one, of so many random addresses at each end.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

use policy::{Policy, Tables};
use rule_sets::Random;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Instant;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse().unwrap());
    let mut next = |otherwise| numbers.next().unwrap_or(otherwise);
    let (rules, objects, addresses) = (next(5_000), next(200), next(1_000));
    let text = text(rules, objects, addresses);
    let start = Instant::now();
    let policy = Policy::parse("generated", &text).unwrap();
    let read = start.elapsed();
    let warnings = policy.warnings().len();
    let looked_through = start.elapsed() - read;
    let tables = Tables::build(&policy, jiff::Timestamp::UNIX_EPOCH).unwrap();
    let built = start.elapsed() - read - looked_through;
    println!(
        "{rules} rules, {objects} objects of {addresses} addresses: read in {:.2} s, {warnings} warnings in {:.2} s, {} in {:.2} s; {} MB at most",
        read.as_secs_f64(),
        looked_through.as_secs_f64(),
        tables.method.words(),
        built.as_secs_f64(),
        peak_bytes() / 1_000_000
    );
}

fn text(rules: u64, objects: u64, addresses: u64) -> String {
    let random = &mut Random(1);
    let mut text = String::from("[zones]\na = { interfaces = 'e0' }\nb = { interfaces = 'e1' }\n[objects]\n");
    for object in 0..objects {
        let hosts = (0..addresses).map(|_| format!("'{}'", Ipv4Addr::from(random.next() as u32)));
        writeln!(text, "o{object} = [{}]", hosts.collect::<Vec<_>>().join(", ")).unwrap();
    }
    for i in 0..rules {
        let mut two = || format!("['o{}', 'o{}']", random.below(objects), random.below(objects));
        let (source, destination) = (two(), two());
        let action = ["allow", "deny"][i as usize % 2];
        write!(
            text,
            "[[rules]]\nname = 'r{i}'\nfrom = 'a'\nto = 'b'\nsource = {source}\ndestination = {destination}\n\
             service = 'tcp/{}'\naction = '{action}'\n",
            [22, 80, 443, 8080][random.below(4) as usize]
        )
        .unwrap();
    }
    text
}

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1024 * peak.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap()
}
