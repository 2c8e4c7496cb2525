//! The values of a mix's parts beside those of the whole, and what they cost where they are off. A part that a firewall drops makes the sum
//! look better, because what fails is over sooner: so the whole has no value unless its parts came out with their shares.

use super::Measured;
use crate::level::Level;
use crate::mix::{ALL, MixOutcome, PART, PartOutcome};
use crate::results::{Mark, MarkKind, Metric};
use crate::trial::TrialOutcome;

/// What became of the mix of a trial, if it carried one.
pub(super) fn mix_of(outcome: &TrialOutcome) -> Option<&MixOutcome> {
    outcome.application()?.mix.as_deref()
}

/// What became of a part in a trial.
pub(super) fn part_of<'a>(outcome: &'a TrialOutcome, name: &str) -> Option<&'a PartOutcome> {
    mix_of(outcome)?.part(name)
}

/// The level of the whole mix.
pub(super) fn whole() -> Level {
    level(0, ALL)
}

/// The level of a part by its place in the mix, from 0.
pub(super) fn of_place(place: usize, name: &str) -> Level {
    level(place + 1, name)
}

/// Parts come in the order of the suite, behind the whole.
fn level(order: usize, name: &str) -> Level {
    Level { order: Some(order as f64), ..Level::read(PART, name) }
}

/// The same values at one level of the factor `part`.
pub(super) fn at(values: Vec<Measured>, level: &Level) -> Vec<Measured> {
    let at = |mut value: Measured| {
        value.at.insert(PART.to_owned(), level.clone());
        value
    };
    values.into_iter().map(at).collect()
}

/// The share that a part came out with in one trial.
pub(super) fn share(outcome: &TrialOutcome, part: &PartOutcome) -> Measured {
    let came = mix_of(outcome).and_then(|mix| mix.came_out(part, mix.shares));
    match came {
        Some(share) => Measured::found(Metric::TrafficShare, share, vec![outcome.clone()], Vec::new()),
        None => {
            Measured::lost(Metric::TrafficShare, vec![Mark::new(MarkKind::Note, "no transaction completed")])
        }
    }
}

/// Why a value of a trial may not be used whose parts did not have their shares: it is one of another mix. What failed and which shares came out
/// may be used all the same, because they say so.
pub(crate) fn shares_off(metric: Metric, outcome: &TrialOutcome) -> Option<Mark> {
    if matches!(metric, Metric::FailedTransactions | Metric::TrafficShare) {
        return None;
    }
    let off = mix_of(outcome)?.off();
    (!off.is_empty()).then(|| Mark::new(MarkKind::SharesOff, off.join("; ")))
}

/// The values, those marked that may not be used.
pub(super) fn judged(values: Vec<Measured>) -> Vec<Measured> {
    let judge = |mut value: Measured| {
        let metric = value.metric;
        let mark = value.deciding.iter().find_map(|outcome| shares_off(metric, outcome));
        value.marks.extend(mark);
        value
    };
    values.into_iter().map(judge).collect()
}
