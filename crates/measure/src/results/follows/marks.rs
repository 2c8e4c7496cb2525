//! Marks that follow from what is beside them, and so must be there. A mark that is there and would not have to be harms nobody.

use super::super::{Mark, MarkKind, Reading, Results, Trial};
use crate::campaign::WIRE;
use crate::campaign::points::{
    self, ELSEWHERE_COSTS, FOREIGN, STOLEN, foreign_load, generator_limited, stolen_time, unstable,
};
use crate::procedure::shares_off;
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
    due.push(unstable(point, &results.points));
    due.push(deciding.iter().filter(|_| point.valid).find_map(|outcome| shares_off(point.metric, outcome)));
    // Other rates may have been fixed, and a file does not say by what procedure.
    due.push(generator_limited(point, &results.points).filter(|_| !point.searches().is_empty()));
    let there = |mark: &Mark| point.marks.iter().any(|own| own.kind == mark.kind);
    let missing = due.into_iter().flatten().find(|mark| !there(mark))?;
    Some(format!("the mark is missing that {}", missing.text))
}

/// Work on cores that the trials did not own, beyond the most that there was without a firewall.
fn elsewhere(results: &Results, point: &Reading<'_>, deciding: &[&TrialOutcome]) -> Option<Mark> {
    if point.cell.placement != Placement::Inline || deciding.is_empty() {
        return None;
    }
    let of_wire = results.runs.iter().filter(|run| run.cell == point.cell.id && run.dut == WIRE);
    let details = of_wire.flat_map(|run| &run.trials).filter_map(|trial| trial.detail.as_deref());
    let without = details.map(|detail| detail.cpu.elsewhere).fold(0.0, f64::max);
    let hidden = points::elsewhere(deciding) - without;
    let text = format!("work on other cores took {hidden:.2} of a core");
    (hidden > ELSEWHERE_COSTS + CLOSE).then(|| Mark::new(MarkKind::WorkElsewhere, text))
}
