//! Every trial, one line a point, so that a full suite stays small.

use crate::view::{self, Test};
use crate::{level, units};
use measure::results::{Point, Trial};
use serde::Serialize;
use std::collections::BTreeSet;

/// All trials of a point.
#[derive(Debug, Serialize)]
pub(super) struct PointTrials {
    dut: String,
    setting: String,
    metric: &'static str,
    rounds: Vec<Round>,
}

/// The trials of a round, in order.
#[derive(Debug, Serialize)]
struct Round {
    number: u32,
    trials: Vec<Shown>,
}

#[derive(Debug, Serialize)]
struct Shown {
    text: String,
    faults: String,
}

/// The trials of a test. Points that only restate the trials of an earlier one (goodput, cost) are left out.
pub(super) fn of_test(test: &Test<'_>) -> Vec<PointTrials> {
    let mut shown: Vec<&Point> = Vec::new();
    for point in test.blocks.iter().flat_map(|b| &b.settings).flat_map(|s| &s.points) {
        let repeats = |p: &&Point| p.dut == point.dut && p.trials == point.trials;
        if !point.trials.is_empty() && !shown.iter().any(repeats) {
            shown.push(point);
        }
    }
    let varying = test.varying();
    shown.into_iter().map(|p| of_point(p, &varying)).collect()
}

fn of_point(point: &Point, varying: &BTreeSet<String>) -> PointTrials {
    let mut rounds: Vec<Round> = Vec::new();
    for trial in &point.trials {
        match rounds.iter_mut().find(|r| r.number == trial.round) {
            Some(round) => round.trials.push(shown(point, trial)),
            None => rounds.push(Round { number: trial.round, trials: vec![shown(point, trial)] }),
        }
    }
    // The points of all loads of a cell carry the same trials, so the load is not named.
    let cores = ("cores", point.cores.to_string());
    let factors = point.factors.iter().map(|(k, v)| (k.as_str(), v.as_str())).filter(|(k, _)| *k != "load");
    let levels = factors.chain([(cores.0, cores.1.as_str())]).filter(|(k, _)| varying.contains(*k));
    let setting = level::phrases(levels);
    PointTrials { dut: point.dut.clone(), setting, metric: point.metric.row().title, rounds }
}

fn shown(point: &Point, trial: &Trial) -> Shown {
    let mut text = units::value(view::load_unit(point), trial.offered);
    let (none, lost) =
        if view::of_connections(point) { ("no failure", "failed") } else { ("no loss", "lost") };
    text += &match trial.loss {
        l if l <= 0.0 => format!(" {none}"),
        l => format!(" {} {lost}", units::percent(l)),
    };
    for (count, what) in [(trial.duplicated, "duplicated"), (trial.reordered, "reordered")] {
        if count > 0 {
            text += &format!(", {} {what}", units::count(count));
        }
    }
    Shown { text, faults: trial.faults.join("; ") }
}
