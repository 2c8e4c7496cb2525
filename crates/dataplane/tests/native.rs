//! The data plane compiled for this machine and run under AddressSanitizer and UndefinedBehaviorSanitizer on packets of its own
//! generator (`fuzz/native`): no byte outside a packet is touched, and the flow table stays whole. `scripts/fuzz-native`
//! does the same with libFuzzer, for as long as one likes. `fuzz/native/hash.c` looks for collisions of the hash.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of a few hundred packets each, for each of two runs side by side.
const INPUTS: &str = "2500";
/// The generator begins here in each run.
const SEEDS: [&str; 2] = ["4", "6"];
/// `enum reason` without what cannot happen there: no policy, more addresses than are counted, several cores.
const REASONS: [u32; 45] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 17, 18, 19, 20, 21, 22, 24, 25, 27, 28, 29, 30, 31, 32, 33,
    40, 41, 42, 43, 44, 45, 14, 48, 49, 50, 51, 58, 59, 60, 61, 62, 63,
];
/// `enum tally` without answers that were suppressed: there is no limit.
const TALLIES: [u32; 25] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 23, 25, 26, 29, 30, 31];

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text.into_owned()
}

/// A program of `fuzz/native`, built; from sources with a fault if there are such (`cargo xtask mutants`).
fn built(what: &str) -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = std::env::var_os("RAMPART_MUTANT_SOURCES").map_or(ours, PathBuf::from);
    let script = sources.join("scripts/fuzz-native");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-native-{what}"));
    said(Command::new(script).arg(what).arg(&program));
    program
}

/// Of ten thousand structured differences between the ends of two flows none makes the hash collide more often than chance, whatever
/// the secret; and each word of the secret moves flows.
#[test]
fn no_difference_collides() {
    let text = said(Command::new(built("hash")).arg("1"));
    let count: u32 = text.split(' ').next().unwrap().parse().unwrap();
    assert!(count > 10_000, "{text}");
}

#[test]
fn no_packet_breaks_the_core() {
    let program = built("build");
    let run = |seed| said(Command::new(&program).args([INPUTS, seed]));
    let text = std::thread::scope(|scope| {
        let runs = SEEDS.map(|seed| scope.spawn(move || run(seed)));
        runs.map(|run| run.join().unwrap()).concat()
    });
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in text.lines().filter_map(|line| line.rsplit_once(' ')) {
        *counts.entry(name).or_default() += count.parse::<u64>().unwrap();
    }
    // What was never reached was not tested.
    let wanted =
        REASONS.map(|n| format!("reason {n}")).into_iter().chain(TALLIES.map(|n| format!("tally {n}")));
    let missing: Vec<String> = wanted.filter(|name| !counts.contains_key(name.as_str())).collect();
    assert!(missing.is_empty(), "never happened: {missing:?}\n{text}");
    let packets: u64 = ["dropped", "up", "sent"].iter().map(|name| counts[*name]).sum();
    assert!(packets > 1_000_000, "{packets} packets");
}
