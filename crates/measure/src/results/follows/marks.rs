//! Marks that follow from what is beside them, and so must be there. A mark that is there and would not have to be harms nobody.

use super::super::{Mark, MarkKind, Point, Reading, Results, Trial};
use crate::campaign::WIRE;
use crate::campaign::points::{
    ELSEWHERE_COSTS, FOREIGN, GENERATOR_LIMITED, STOLEN, foreign_load, stolen_time, unstable,
};
use crate::shape::Placement;
use crate::trial::TrialOutcome;

/// Shares of time are kept rounded, and a trial that decided twice is kept once: so close to a limit a mark may be there or not.
const CLOSE: f64 = 0.01;

/// The first mark that must be there and is not.
pub(super) fn missing(
    results: &Results,
    point: &Reading<'_>,
    trials: &[(&Trial, TrialOutcome)],
) -> Option<String> {
    let deciding: Vec<&TrialOutcome> = trials.iter().map(|(_, outcome)| outcome).collect();
    let time = |mark: Option<Mark>, limit: f64| mark.filter(|m| m.share.is_some_and(|s| s > limit + CLOSE));
    let mut due = vec![
        time(stolen_time(&deciding), STOLEN),
        time(foreign_load(&deciding), FOREIGN),
        elsewhere(results, point, &deciding),
    ];
    if point.valid {
        due.push(differ(results, point));
        due.push(limited(results, point));
    }
    let there = |mark: &Mark| point.marks.iter().any(|own| own.kind == mark.kind);
    let missing = due.into_iter().flatten().find(|mark| !there(mark))?;
    Some(format!("the mark is missing that {}", missing.text))
}

/// Rounds that differ more than those of the other firewalls explain.
fn differ(results: &Results, point: &Reading<'_>) -> Option<Mark> {
    if point.metric.row().derived {
        return None;
    }
    let others: Vec<&[f64]> = results
        .points
        .iter()
        .filter(|other| {
            is_beside(point, other) && other.valid && other.dut != point.dut && other.rounds.len() > 1
        })
        .map(|other| &other.rounds[..])
        .collect();
    unstable(point, &others)
}

/// A rate that was searched for and comes near that of `wire`.
fn limited(results: &Results, point: &Reading<'_>) -> Option<Mark> {
    if !point.metric.row().rate || point.dut == WIRE || point.searches().is_empty() {
        return None;
    }
    let wire =
        results.points.iter().find(|other| is_beside(point, other) && other.dut == WIRE && other.valid)?;
    let share = point.value / wire.value;
    let text = format!("its value is {:.0} % of what passes without a firewall", share * 100.0);
    (point.value >= wire.value * GENERATOR_LIMITED).then(|| Mark::new(MarkKind::GeneratorLimited, text))
}

/// Work on cores that the trials did not own, beyond the most that there was without a firewall.
fn elsewhere(results: &Results, point: &Reading<'_>, deciding: &[&TrialOutcome]) -> Option<Mark> {
    if point.cell.placement != Placement::Inline || deciding.is_empty() {
        return None;
    }
    let of_wire = results.runs.iter().filter(|run| run.cell == point.cell.id && run.dut == WIRE);
    let details = of_wire.flat_map(|run| &run.trials).filter_map(|trial| trial.detail.as_deref());
    let without = details.map(|detail| detail.cpu.elsewhere).fold(0.0, f64::max);
    let used = deciding.iter().map(|outcome| outcome.cpu.elsewhere).sum::<f64>() / deciding.len() as f64;
    let text = format!("work on other cores took {:.2} of a core", used - without);
    (used - without > ELSEWHERE_COSTS + CLOSE).then(|| Mark::new(MarkKind::WorkElsewhere, text))
}

/// Whether two points are values of the same.
fn is_beside(point: &Point, other: &Point) -> bool {
    (point.cell, point.metric, &point.at) == (other.cell, other.metric, &other.at)
}
