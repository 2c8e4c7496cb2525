//! Means of times over several trials or samples: summaries cannot be merged, but their means can.

use crate::results::LatencySummary;
use crate::trial::TrialOutcome;

/// The mean of all samples behind some summaries in ns; `None` where there are none.
pub(crate) fn mean(summaries: impl Iterator<Item = LatencySummary>) -> Option<f64> {
    let (mut count, mut sum) = (0.0, 0.0);
    for summary in summaries {
        count += summary.count as f64;
        sum += summary.count as f64 * summary.mean;
    }
    (count > 0.0).then(|| sum / count)
}

/// The mean of the time from the intended start to the SYN-ACK over some trials, ns.
pub(super) fn establishment(trials: &[TrialOutcome]) -> Option<f64> {
    mean(trials.iter().filter_map(|o| o.connections()?.times.established_ns))
}

/// The mean of the time from the first FIN or RST to the end over some trials, ns.
pub(super) fn teardown(trials: &[TrialOutcome]) -> Option<f64> {
    mean(trials.iter().filter_map(|o| o.connections()?.times.teardown_ns))
}
