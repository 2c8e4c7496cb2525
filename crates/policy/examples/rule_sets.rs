//! What rule sets as they are in use cost: how long they take to read and to build, how large the tables are, and how many lines a look-up
//! reads, at most and as packets near the rules do. `cargo run --release -p policy --example rule_sets -- [RULES] [v6] [zones] [ports] [SET...]`.
//! Packets are held against the interpreter; ends with status 1 at a difference.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

#[path = "../tests/random/mod.rs"]
mod random;

use policy::Policy;
use policy::interpret::decide;
use policy::tables::Tables;
use random::sets::{How, names, probe, set};
use rule_sets::Random;
use std::process::ExitCode;
use std::time::Instant;

/// Packets whose lines are counted.
const PACKETS: usize = 20_000;
/// Rules that the interpreter may go through for all packets that it judges.
const WORK: usize = 30_000_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = |word: &str| words.iter().any(|given| given == word);
    let rules = words.iter().find_map(|word| word.parse().ok()).unwrap_or(10_000);
    let seed = words.iter().find_map(|word| word.strip_prefix("seed=")?.parse().ok()).unwrap_or(1);
    let how = How { rules, seed, v6: asked("v6"), zones: asked("zones"), source_ports: asked("ports") };
    let named: Vec<&str> = names().into_iter().filter(|name| asked(name)).collect();
    println!("| set | rules | read | build | method | bound | lines: median, p99, most | MiB |");
    println!("|---|---|---|---|---|---|---|---|");
    for name in if named.is_empty() { names() } else { named } {
        let text = set(name, how);
        let start = Instant::now();
        let policy = Policy::parse(name, &text).unwrap();
        let read = start.elapsed();
        let start = Instant::now();
        let tables = Tables::build(&policy, jiff::Timestamp::UNIX_EPOCH).unwrap();
        let built = start.elapsed();
        let Some(lines) = counted(&policy, &tables) else { return ExitCode::FAILURE };
        let bytes: usize = tables.sizes().iter().map(|(_, bytes)| bytes).sum();
        println!(
            "| {name} | {rules} | {:.0} ms | {:.0} ms | {} | {} | {}, {}, {} | {:.1} |",
            read.as_secs_f64() * 1e3,
            built.as_secs_f64() * 1e3,
            tables.method.name(),
            tables.bounds()[usize::from(how.v6)],
            lines[lines.len() / 2],
            lines[lines.len() * 99 / 100],
            lines[lines.len() - 1],
            bytes as f64 / 1_048_576.0
        );
    }
    ExitCode::SUCCESS
}

/// The lines that look-ups took, in order; `None` when one was wrong.
fn counted(policy: &Policy, tables: &Tables) -> Option<Vec<u32>> {
    let random = &mut Random(7);
    let judged = (WORK / policy.rules.len().max(1)).min(PACKETS);
    let mut lines = Vec::with_capacity(PACKETS);
    for number in 0..PACKETS {
        let packet = probe(policy, random);
        let (verdict, accesses) = tables.look_up(&packet);
        let expected = (number < judged).then(|| decide(policy, &packet, jiff::Timestamp::UNIX_EPOCH));
        if expected.is_some_and(|expected| expected != verdict) {
            println!("{packet:?}: {verdict:?}, the interpreter {expected:?}");
            return None;
        }
        lines.push(accesses);
    }
    lines.sort_unstable();
    Some(lines)
}
