//! Every trial, one line a point, so that a full suite stays small.

use crate::units;
use crate::view::{self, Test};
use measure::level;
use measure::results::{LoadKind, Reading, Sent, Trial};
use measure::stats;
use serde::Serialize;

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

/// The trials of a test, of each firewall in each cell once.
pub(super) fn of_test(test: &Test<'_>) -> Vec<PointTrials> {
    let mut shown: Vec<Reading<'_>> = Vec::new();
    for point in test.points().filter(|p| !p.trials().is_empty()) {
        if !shown.iter().any(|p| (p.cell.id, &p.dut) == (point.cell.id, &point.dut)) {
            shown.push(point);
        }
    }
    let varying = test.varying();
    shown.iter().map(|p| of_run(p, &varying)).collect()
}

fn of_run(point: &Reading<'_>, varying: &[String]) -> PointTrials {
    let mut rounds: Vec<Round> = Vec::new();
    for trial in point.trials() {
        match rounds.iter_mut().find(|r| r.number == trial.round) {
            Some(round) => round.trials.push(shown(point, trial)),
            None => rounds.push(Round { number: trial.round, trials: vec![shown(point, trial)] }),
        }
    }
    let levels = point.levels();
    let of_cell = |factor: &String| varying.contains(factor) && !point.at.contains_key(factor);
    let named = levels.iter().filter(|(factor, _)| of_cell(factor) && *factor != "placement");
    let setting = level::phrases(named.map(|(factor, level)| (factor.as_str(), level)));
    PointTrials { dut: point.dut.clone(), setting, metric: point.metric.row().title, rounds }
}

/// What may have been lost nevertheless: ` (below 0.75 in a million)`.
fn unseen(point: &Reading<'_>, trial: &Trial) -> String {
    let seconds = if trial.load == LoadKind::Rate { trial.seconds } else { 1.0 };
    let limit =
        stats::loss_limit(0, (trial.received * seconds) as u64).filter(|_| point.sent() != Sent::Bulk);
    limit.map_or_else(String::new, |limit| format!(" (below {})", units::rare(limit)))
}

fn shown(point: &Reading<'_>, trial: &Trial) -> Shown {
    let mut text = units::value(view::load_unit(point.sent(), trial), trial.offered);
    let (none, lost) = match point.sent() {
        Sent::Connections | Sent::Application => ("no failure", "failed"),
        Sent::Frames | Sent::Bulk => ("no loss", "lost"),
    };
    text += &match trial.loss {
        l if l <= 0.0 => format!(" {none}{}", unseen(point, trial)),
        l => format!(" {} {lost}", units::percent(l)),
    };
    for (count, what) in [(trial.duplicated, "duplicated"), (trial.reordered, "reordered")] {
        if count > 0 {
            text += &format!(", {} {what}", units::count(count));
        }
    }
    Shown { text, faults: trial.faults.join("; ") }
}
