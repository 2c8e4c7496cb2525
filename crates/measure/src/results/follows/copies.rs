//! Trials that stand in the place of others. Who takes the trial that pleases most for those of all rounds, or of all firewalls, has values that
//! follow from it; but no two trials take the same times to the last digit.

use super::super::{LatencySummary, Results, Run, Trial};
use super::Misfit;

/// Of fewer times two trials may have the same ones.
const TIMES: u64 = 100;

/// Each trial that is the copy of one before it in its cell, of whichever firewall.
pub(super) fn copies(results: &Results) -> Vec<Misfit> {
    let mut found = Vec::new();
    for (at, run) in results.runs.iter().enumerate() {
        let before = results.runs[..at].iter().filter(|other| other.cell == run.cell);
        let of_others: Vec<(&Run, &Trial)> =
            before.flat_map(|other| other.trials.iter().map(move |trial| (other, trial))).collect();
        for (place, trial) in run.trials.iter().enumerate().filter(|(_, trial)| has_times(trial)) {
            let own = run.trials[..place].iter().map(|trial| (run, trial));
            let original = own.chain(of_others.iter().copied()).find(|(_, other)| is_copy(trial, other));
            found.extend(original.map(|(other, original)| Misfit {
                place: format!("runs[{at}] ({} in cell {})", run.dut, run.cell),
                why: format!("trial {} is trial {} of {} again", trial.id, original.id, other.dut),
            }));
        }
    }
    found
}

/// Whether a trial keeps times enough to be distinguished from all others.
fn has_times(trial: &Trial) -> bool {
    let Some(detail) = trial.detail.as_deref() else { return false };
    let of_application = detail.application.as_ref().and_then(|application| application.times_ns);
    let of_connections = detail.connections.as_ref().and_then(|connections| connections.times.established_ns);
    let enough = |times: &LatencySummary| times.count >= TIMES;
    [trial.latency_ns, of_application, of_connections].iter().flatten().any(enough)
}

fn is_copy(trial: &Trial, other: &Trial) -> bool {
    (trial.latency_ns, &trial.per_second, &trial.detail)
        == (other.latency_ns, &other.per_second, &other.detail)
}
