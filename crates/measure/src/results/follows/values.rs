//! The values of rounds, computed again from the trials that decided them. What a metric takes from what results do not keep (the times of
//! losses, samples that a procedure chose) has no row here, and stands as it is written.

use super::super::{Metric, Point, Reading, Results, SearchOutcome, Sent, Trial};
use super::near;
use crate::campaign::WIRE;
use crate::campaign::points::AgainstWire;
use crate::mix::MixOutcome;
use crate::open_loop::Sustained;
use crate::procedure::{counted_loss, held, mean};
use crate::stats::median;
use crate::trial::TrialOutcome;

/// Seconds in a minute, of transactions a minute.
const MINUTE: f64 = 60.0;

/// What the trials of a round say of its value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    /// It is this.
    Value(f64),
    /// It lies between these two, ends included.
    Between(f64, f64),
}

impl Expected {
    /// What does not fit, as the end of a sentence.
    fn misfit(self, value: f64) -> Option<String> {
        match self {
            Self::Value(expected) => (!near(value, expected, expected))
                .then(|| format!("is {value}, and of its trials {expected}")),
            Self::Between(least, most) => {
                let within = value >= least || near(value, least, least);
                let within = within && (value <= most || near(value, most, most));
                (!within).then(|| format!("is {value}, and its trials allow {least} to {most}"))
            }
        }
    }
}

/// The first round whose value does not follow from its trials.
pub(super) fn of_rounds(point: &Reading<'_>, trials: &[(&Trial, TrialOutcome)]) -> Option<String> {
    let mut seen = 0;
    for (round, value) in point.rounds.iter().enumerate() {
        let of_round = || trials.iter().filter(|(trial, _)| trial.round as usize == round);
        let (kept, outcomes): (Vec<&Trial>, Vec<&TrialOutcome>) =
            of_round().map(|(trial, outcome)| (*trial, outcome)).unzip();
        if outcomes.is_empty() && *value != 0.0 {
            return Some(format!("round {} has a value and no trial", round + 1));
        }
        seen += outcomes.len();
        let found = expected(point, round, &kept, &outcomes).filter(|_| !outcomes.is_empty());
        if let Some(why) = found.and_then(|expected| expected.misfit(*value)) {
            return Some(format!("round {} {why}", round + 1));
        }
    }
    (seen < trials.len()).then(|| "it rests on a trial of a round that it does not have".into())
}

/// What the deciding trials of a round say of its value; `None` where results keep too little.
fn expected(
    point: &Reading<'_>,
    round: usize,
    trials: &[&Trial],
    outcomes: &[&TrialOutcome],
) -> Option<Expected> {
    let search = point.searches().iter().find(|search| search.round as usize == round);
    let middle = |of: &dyn Fn(&TrialOutcome) -> Option<f64>| {
        median(&outcomes.iter().filter_map(|outcome| of(outcome)).collect::<Vec<f64>>())
    };
    let exactly = |of: &dyn Fn(&TrialOutcome) -> Option<f64>| middle(of).map(Expected::Value);
    if let Some(part) = point.part_name() {
        return exactly(&|o| of_part(point, o, o.application()?.mix.as_deref()?, part));
    }
    let times = |outcome: &TrialOutcome| outcome.application()?.times_ns;
    match (point.metric, point.sent()) {
        (Metric::Throughput, _) => searched(point, search, middle(&|o| Some(o.forwarding_rate()))?),
        (Metric::Latency, _) => exactly(&|o| Some(o.latency_ns()?.p50)),
        (Metric::Loss, _) => exactly(&|o| Some(counted_loss(o))),
        (Metric::Goodput, Sent::Frames) => {
            let bits = frame_bits(point)?;
            exactly(&|o| Some(o.ledger.received as f64 * bits / o.seconds))
        }
        (Metric::Goodput | Metric::TcpEfficiency | Metric::BufferDelay, Sent::Bulk) => exactly(&|o| {
            let bulk = o.bulk()?;
            match point.metric {
                Metric::TcpEfficiency => bulk.efficiency(),
                Metric::BufferDelay => bulk.buffer_delay(),
                _ => Some(o.received_bits() as f64 / o.seconds),
            }
        }),
        (Metric::ConnectionRate, Sent::Connections) if search.is_some() => {
            searched(point, search, middle(&|o| Some(o.held_rate()))?)
        }
        (Metric::TransactionRate, Sent::Connections) => {
            exactly(&|o| Some(held(o.connections()?.transactions, o)))
        }
        (Metric::TeardownRate, Sent::Connections) => exactly(&|o| Some(held(o.connections()?.closed, o))),
        // A fixed rate has the mean of its samples.
        (Metric::EstablishmentTime, _) if search.is_some() => {
            mean(outcomes.iter().filter_map(|o| o.connections()?.times.established_ns)).map(Expected::Value)
        }
        (Metric::TeardownTime, _) => {
            mean(outcomes.iter().filter_map(|o| o.connections()?.times.teardown_ns)).map(Expected::Value)
        }
        (Metric::ConnectionRate, Sent::Application) => {
            searched(point, search, middle(&|o| Some(sustained(o)?.held_rate()))?)
        }
        (Metric::TransactionRate | Metric::Goodput, Sent::Application)
            if search.is_some() && !point.at.contains_key("load") =>
        {
            let of = |s: &Sustained| {
                if point.metric == Metric::Goodput { s.bytes as f64 * 8.0 } else { s.transactions as f64 }
            };
            exactly(&|o| sustained(o).map(|s| of(s) * s.held_rate() / s.connections.max(1) as f64))
        }
        (Metric::Goodput, Sent::Application) => {
            exactly(&|o| Some(o.application()?.bytes_in_time as f64 * 8.0 / o.seconds))
        }
        (Metric::TransactionsPerMinute, _) => {
            exactly(&|o| Some(o.application()?.in_time as f64 / o.seconds * MINUTE))
        }
        (Metric::FailedTransactions, _) => exactly(&|o| Some(o.loss_ratio())),
        (Metric::TransactionTime, _) => exactly(&|o| Some(times(o)?.p50)),
        (Metric::TransactionTimeP99, _) => exactly(&|o| Some(times(o)?.p99)),
        (Metric::TimeToFirstByte, _) => exactly(&|o| match sustained(o) {
            Some(sustained) => Some(sustained.first_byte_ns?.p50),
            None => Some(o.application()?.first_byte_ns?.p50),
        }),
        (Metric::TimeToLastByte, _) => exactly(&|o| match sustained(o) {
            Some(sustained) => Some(sustained.last_byte_ns?.p50),
            None => Some(o.application()?.last_byte_ns?.p50),
        }),
        // Of a stretch of a trial, failures are those of its samples.
        (Metric::Failures, _) if point.at.is_empty() => exactly(&|o| Some(o.loss_ratio())),
        (Metric::Established, _) => exactly(&|o| Some(o.connections()?.established as f64)),
        (Metric::Surviving | Metric::ClosedByReset, _) => exactly(&|o| {
            let resets = o.connections()?.resets.filter(|resets| resets.open > 0)?;
            let alive = resets.alive as f64 / resets.open as f64;
            Some(if point.metric == Metric::ClosedByReset { 1.0 - alive } else { alive })
        }),
        (Metric::ReplacementTime, _) => {
            exactly(&|o| o.connections()?.replacement.as_ref()?.holds_after_seconds)
        }
        (Metric::ReplacementFailures, _) => {
            exactly(&|o| Some(o.ledger.offered.saturating_sub(o.ledger.received) as f64))
        }
        (Metric::Memory, _) => exactly(&|o| o.memory_bytes.map(|bytes| bytes as f64)),
        // A trial of two loads that come to the same number decides twice and is kept once, so its weight is not known.
        (Metric::ConcurrentConnections, _) => {
            let of: Vec<f64> = outcomes.iter().filter_map(|outcome| open(outcome)).collect();
            let least = of.iter().copied().fold(f64::INFINITY, f64::min);
            let most = of.iter().copied().fold(0.0, f64::max);
            let conditional = search.map_or(f64::INFINITY, |search| search.conditional_throughput);
            Some(Expected::Between(least.min(conditional).floor(), most.min(conditional)))
        }
        // The mean of the longest bursts of several repeats.
        (Metric::BackToBack, _) => {
            Some(Expected::Between(1.0, trials.iter().map(|trial| trial.offered).fold(0.0, f64::max)))
        }
        _ => None,
    }
}

/// The value of one part of a mix in a trial.
fn of_part(point: &Reading<'_>, outcome: &TrialOutcome, mix: &MixOutcome, name: &str) -> Option<f64> {
    let part = mix.part(name)?;
    let held = |count: u64, of: &Sustained| count as f64 * of.held_rate() / of.connections.max(1) as f64;
    let sustained = part.sustained.as_deref();
    match (point.metric, sustained) {
        (Metric::TrafficShare, _) => mix.came_out(part, mix.shares),
        (Metric::TransactionRate, Some(of)) => Some(held(of.transactions, of)),
        (Metric::Goodput, Some(of)) => Some(held(of.bytes, of) * 8.0),
        (Metric::Goodput, None) => Some(part.bytes_in_time as f64 * 8.0 / outcome.seconds),
        (Metric::TransactionsPerMinute, _) => Some(part.in_time as f64 / outcome.seconds * MINUTE),
        (Metric::FailedTransactions, _) => Some(part.loss_ratio()),
        (Metric::TransactionTime, _) => Some(part.times_ns?.p50),
        (Metric::TransactionTimeP99, _) => Some(part.times_ns?.p99),
        (Metric::TimeToFirstByte, of) => Some(of.map_or(part.first_byte_ns, |of| of.first_byte_ns)?.p50),
        (Metric::TimeToLastByte, of) => Some(of.map_or(part.last_byte_ns, |of| of.last_byte_ns)?.p50),
        _ => None,
    }
}

/// A value that a search found: what came of its trials, and no more than what it says is typical at its lower bound. Where a part of all
/// attempts is illegal, results do not say how large the legal part is.
fn searched(point: &Reading<'_>, search: Option<&SearchOutcome>, came: f64) -> Option<Expected> {
    let typical = search?.conditional_throughput;
    let all_legal = point.level("illegal").is_none_or(|level| level.text == "none");
    let most = came.min(typical);
    Some(if all_legal { Expected::Value(most) } else { Expected::Between(0.0, most) })
}

/// Bits of each frame, where all of a cell are of one size.
fn frame_bits(point: &Reading<'_>) -> Option<f64> {
    let level = point.level("frame")?;
    level.text.parse::<u32>().ok().map(|bytes| f64::from(bytes) * 8.0)
}

fn sustained(outcome: &TrialOutcome) -> Option<&Sustained> {
    outcome.application()?.sustained.as_deref()
}

/// Connections that were open together and proved it.
fn open(outcome: &TrialOutcome) -> Option<f64> {
    match outcome.application() {
        Some(application) => Some(application.held.as_deref()?.alive as f64),
        None => Some(outcome.ledger.received as f64),
    }
}

/// What does not follow from the firewall's value and that of `wire`, round by round.
pub(super) fn against_wire(results: &Results, point: &Reading<'_>, derived: &AgainstWire) -> Option<String> {
    let of = |dut: &str| -> Option<&Point> {
        let is = |p: &&Point| {
            (p.cell, &*p.dut, p.metric, &p.at) == (point.point.cell, dut, derived.from, &point.at)
        };
        results.points.iter().find(is)
    };
    let from = derived.from.row().key;
    let (Some(own), Some(wire)) = (of(&point.dut), of(WIRE)) else {
        return Some(format!("the {from} that it is computed from is not there"));
    };
    if !(own.valid && wire.valid) {
        return Some(format!("it is valid, and the {from} that it is computed from is not"));
    }
    let expected: Vec<f64> =
        own.rounds.iter().zip(&wire.rounds).map(|(own, wire)| (derived.value)(*own, *wire)).collect();
    if expected.len() != point.rounds.len() {
        return Some(format!("it has {} rounds, and the {from} {}", point.rounds.len(), expected.len()));
    }
    // A difference of two numbers is as exact as the larger of them.
    let size =
        |round: usize| (derived.value)(own.rounds[round], f64::INFINITY).abs().max(expected[round].abs());
    let wrong = (0..expected.len()).find(|round| {
        let size = size(*round);
        !near(point.rounds[*round], expected[*round], if size.is_finite() { size } else { expected[*round] })
    });
    wrong.map(|round| {
        format!("round {} is {}, and of the {from} {}", round + 1, point.rounds[round], expected[round])
    })
}
