//! What the policy's tables cost a new connection that matches the last rule, by `BPF_PROG_TEST_RUN` of the program `judge`
//! on the rule sets of the bench: `cargo bench -p dataplane --bench lookup [-- RULES...]`. Needs root.
//!
//! Other packets come in random order, one run each. "Beside nothing": the tables have the caches for themselves. "Beside other memory": 2 MiB
//! are written between two runs, as flows and frames would, so tables come from the cache behind. What a question without an
//! answer costs, the clock above all, is taken off. All numbers of rules take turns, so a disturbance meets each.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a measurement, not a library")]

#[path = "../../policy/tests/random/mod.rs"]
mod random;

use dataplane::{Firewall, Settings};
use policy::Policy;
use policy::interpret::Packet;
use policy::tables::{Limits, Tables};
use random::fillers::{filled_policy, matching_packet};
use std::hint::black_box;

const ROUNDS: usize = 7;
const PACKETS: u64 = 1_000;
/// Bytes written between two runs.
const OTHER_MEMORY: usize = 2 << 20;

struct Candidate {
    rules: u64,
    method: &'static str,
    mebibytes: f64,
    firewall: Firewall,
    /// For each round: beside nothing, and beside other memory.
    costs: [Vec<f64>; 2],
}

impl Candidate {
    /// By each method that holds so many rules.
    fn of(rules: u64) -> Vec<Self> {
        let policy = Policy::parse("filled", &filled_policy(rules)).unwrap();
        let at = jiff::Timestamp::UNIX_EPOCH;
        let mut candidates: Vec<Self> = Vec::new();
        for limits in [Limits::TREES, Limits::DENSE, Limits::BLOCKS, Limits::VECTORS] {
            let tables = Tables::build_within(&policy, at, limits).unwrap();
            if candidates.iter().all(|candidate| candidate.method != tables.method.name()) {
                candidates.push(Self::new(rules, &policy, &tables));
            }
        }
        candidates
    }

    fn new(rules: u64, policy: &Policy, tables: &Tables) -> Self {
        let mut firewall = Firewall::load(&Settings { flows: 1024, rules: 1 << 17 }).unwrap();
        firewall.policies.apply(tables, policy).unwrap();
        let method = tables.method.name();
        for number in 0..100 {
            let row = firewall.judge(&matching_packet(number)).unwrap().unwrap().row;
            assert_eq!(row, Some(rules as u32 - 1), "the last rule decides");
        }
        let bytes: usize = tables.sizes().iter().map(|(_, bytes)| bytes).sum();
        let mebibytes = bytes as f64 / 1_048_576.0;
        Self { rules, method, mebibytes, firewall, costs: Default::default() }
    }

    fn measure(&mut self, round: u64, memory: &mut [u8]) {
        let packets: Vec<Packet> = (0..PACKETS).map(|i| matching_packet(round * PACKETS + i)).collect();
        for (costs, memory) in self.costs.iter_mut().zip([&mut [][..], memory]) {
            let nothing: Vec<Packet> = packets.iter().map(|p| Packet { from: 200, ..*p }).collect();
            let base = middle(&self.firewall, &nothing, memory);
            costs.push(middle(&self.firewall, &packets, memory) - base);
        }
    }
}

/// The mean of the middle half, in nanoseconds: interrupts and other work on the machine are not the program's.
fn middle(firewall: &Firewall, packets: &[Packet], memory: &mut [u8]) -> f64 {
    let mut costs: Vec<u32> = Vec::with_capacity(packets.len());
    for (number, packet) in packets.iter().enumerate() {
        memory.fill(number as u8);
        black_box(&memory);
        costs.push(firewall.judge_time(packet, 1).unwrap().as_nanos() as u32);
    }
    costs.sort_unstable();
    let middle = &costs[costs.len() / 4..costs.len() * 3 / 4];
    middle.iter().map(|cost| f64::from(*cost)).sum::<f64>() / middle.len() as f64
}

fn main() {
    let asked: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![1, 1_000, 10_000] } else { asked };
    let mut candidates: Vec<Candidate> = sizes.into_iter().flat_map(Candidate::of).collect();
    let mut memory = vec![0u8; OTHER_MEMORY];
    for round in 0..ROUNDS as u64 {
        candidates.iter_mut().for_each(|candidate| candidate.measure(round, &mut memory));
    }
    println!("| rules | method | tables MiB | beside nothing: ns, least to most | beside other memory |");
    println!("|---|---|---|---|---|");
    for Candidate { rules, method, mebibytes, costs, .. } in &mut candidates {
        let [alone, beside] = costs.each_mut().map(|costs| {
            costs.sort_unstable_by(f64::total_cmp);
            format!("{:.0} ({:.0} to {:.0})", costs[costs.len() / 2], costs[0], costs[costs.len() - 1])
        });
        println!("| {rules} | {method} | {mebibytes:.1} | {alone} | {beside} |");
    }
}
