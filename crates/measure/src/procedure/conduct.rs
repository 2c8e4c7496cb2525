//! Whether what arrived is what was sent, where and as often as it should: what a firewall did with frames that no firewall may
//! do. Pure.

use super::mark;
use crate::ledger::{FramePlaces, Ledger};
use crate::results::{Mark, MarkKind};
use crate::served::ServedOutcome;
use crate::trial::TrialOutcome;

/// Frames that arrive more than once, and frames of no trial, are tolerated up to this share of those received: a real
/// network has a little of both, and neither makes up for a loss that could be seen at this size. Damage, alterations, wrong
/// ports and forgeries have no such share: a forwarder does none of them by accident.
pub(super) const REPEATED_TOLERANCE: f64 = 1e-4;
/// So many frames of no trial are always tolerated: what hosts and routers say to each other beside a short trial.
pub(super) const FOREIGN_TOLERANCE: u64 = 20;

/// What costs a trial its value, a mark each.
pub(super) fn misconduct(outcome: &TrialOutcome) -> Vec<Mark> {
    let ledger = &outcome.ledger;
    let Some(places) = ledger.frames() else { return Vec::new() };
    let beside = &places.beside;
    let altered: u64 = places.altered.values().sum();
    let mut marks = Vec::new();
    let mut found = |count: u64, kind, text: String| {
        if count > 0 {
            marks.push(mark(kind, text));
        }
    };
    found(
        beside.forbidden_arrived,
        MarkKind::IllegalGotThrough,
        format!(
            "the policy did not hold under load: {} of {} forbidden frames arrived",
            beside.forbidden_arrived, beside.forbidden_sent
        ),
    );
    let of = |count: u64, what: &str| format!("{count} of {} frames {what}", ledger.sent());
    found(places.wrong_port, MarkKind::WrongPort, of(places.wrong_port, "came out of the wrong port"));
    let fields: Vec<String> =
        places.altered.iter().map(|(field, count)| format!("{field} {count}")).collect();
    found(altered, MarkKind::Altered, of(altered, &format!("arrived altered: {}", fields.join(", "))));
    // Forged frames in the balance are there as damaged; they are said once.
    let damaged = places.corrupted.saturating_sub(beside.forged);
    found(
        damaged,
        MarkKind::Damaged,
        of(damaged, &format!("arrived damaged{}", extrapolated(ledger, places))),
    );
    found(
        beside.forged,
        MarkKind::Forged,
        format!(
            "{} frames arrived with a stamp that the generator did not make: forged or damaged",
            beside.forged
        ),
    );
    let tolerated = REPEATED_TOLERANCE * ledger.received as f64;
    if beside.repeated as f64 > tolerated {
        found(beside.repeated, MarkKind::Repeated, of(beside.repeated, REPEATED));
    }
    if beside.foreign as f64 > tolerated.max(FOREIGN_TOLERANCE as f64) {
        found(beside.foreign, MarkKind::Foreign, format!("{} {FOREIGN}", beside.foreign));
    }
    marks
}

const REPEATED: &str = "arrived again after they had arrived";
const FOREIGN: &str = "frames arrived that are of no trial, or of an earlier one";

/// Where content is compared in some frames only, what that says about all.
fn extrapolated(ledger: &Ledger, places: &FramePlaces) -> String {
    let compared = places.beside.compared;
    if compared == 0 {
        return String::new();
    }
    let all = places.corrupted as f64 * ledger.sent() as f64 / compared as f64;
    format!("; content was compared in {compared}, so it is about {all:.0} of all")
}

/// What a reader should know of trials that count: what was within the tolerances, summed over them.
pub(super) fn remarks(deciding: &[TrialOutcome]) -> Vec<Mark> {
    let sum = Ledger::sum(deciding.iter().map(|trial| &trial.ledger));
    let Some(FramePlaces { beside, .. }) = sum.frames() else { return remarks_of_connections(deciding) };
    let of = |count: u64, what: &str| format!("{count} of {} frames {what}", sum.sent());
    [
        (beside.repeated, of(beside.repeated, REPEATED)),
        (beside.reordered, of(beside.reordered, "arrived after a later one of their flow")),
        (beside.foreign, format!("{} {FOREIGN}", beside.foreign)),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(_, text)| mark(MarkKind::Note, text))
    .collect()
}

fn remarks_of_connections(deciding: &[TrialOutcome]) -> Vec<Mark> {
    let served = deciding.iter().filter_map(|trial| trial.connections()?.served.as_ref());
    ServedOutcome::sum(served).remarks().into_iter().map(|text| mark(MarkKind::Note, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Beside, Places};
    use crate::procedure::simulated::nothing;
    use crate::trial::{FrameOutcome, WorkloadOutcome};

    /// A trial of 100,000 frames, of which `places` are not received.
    fn outcome(places: FramePlaces) -> TrialOutcome {
        let mut outcome = nothing(1.0, WorkloadOutcome::Frames(FrameOutcome::default()));
        outcome.ledger = Ledger { offered: 100_000, places: Places::Frames(places), ..Ledger::default() };
        outcome.ledger.received = outcome.ledger.residual() as u64;
        outcome
    }

    #[test]
    fn what_no_firewall_may_do_costs_the_value_and_the_rest_is_said() {
        let beside = |beside| FramePlaces { beside, ..FramePlaces::default() };
        let altered = [("TTL".to_owned(), 2), ("source port".to_owned(), 1)].into();
        for (places, kind, said) in [
            (
                FramePlaces { wrong_port: 1, ..FramePlaces::default() },
                Some(MarkKind::WrongPort),
                "1 of 100000 frames came out of the wrong port",
            ),
            (
                FramePlaces { altered, ..FramePlaces::default() },
                Some(MarkKind::Altered),
                "3 of 100000 frames arrived altered: TTL 2, source port 1",
            ),
            (
                FramePlaces { corrupted: 1, ..FramePlaces::default() },
                Some(MarkKind::Damaged),
                "1 of 100000 frames arrived damaged",
            ),
            (
                FramePlaces {
                    corrupted: 3,
                    beside: Beside { compared: 10_000, ..Beside::default() },
                    ..FramePlaces::default()
                },
                Some(MarkKind::Damaged),
                "3 of 100000 frames arrived damaged; content was compared in 10000, so it is about 30 of all",
            ),
            (
                beside(Beside { forged: 1, ..Beside::default() }),
                Some(MarkKind::Forged),
                "1 frames arrived with a stamp that the generator did not make: forged or damaged",
            ),
            (
                beside(Beside { forbidden_sent: 200, forbidden_arrived: 3, ..Beside::default() }),
                Some(MarkKind::IllegalGotThrough),
                "the policy did not hold under load: 3 of 200 forbidden frames arrived",
            ),
            (
                beside(Beside { repeated: 11, ..Beside::default() }),
                Some(MarkKind::Repeated),
                "11 of 100000 frames arrived again after they had arrived",
            ),
            (
                beside(Beside { repeated: 10, ..Beside::default() }),
                None,
                "10 of 100000 frames arrived again after they had arrived",
            ),
            (
                beside(Beside { foreign: 21, ..Beside::default() }),
                Some(MarkKind::Foreign),
                "21 frames arrived that are of no trial, or of an earlier one",
            ),
            (
                beside(Beside { foreign: 20, ..Beside::default() }),
                None,
                "20 frames arrived that are of no trial, or of an earlier one",
            ),
            (
                beside(Beside { reordered: 5, ..Beside::default() }),
                None,
                "5 of 100000 frames arrived after a later one of their flow",
            ),
        ] {
            let trial = outcome(places);
            let (found, rest) = (misconduct(&trial), remarks(&[trial]));
            assert_eq!(
                found.iter().map(|m| m.kind).collect::<Vec<_>>(),
                kind.into_iter().collect::<Vec<_>>(),
                "{said}"
            );
            assert!(found.iter().all(|m| m.kind.invalidates() && m.kind.is_misconduct()), "{said}");
            let text = found.iter().chain(&rest).map(|m| m.text.as_str()).next();
            assert_eq!(text, Some(said));
        }
        assert_eq!((misconduct(&outcome(FramePlaces::default())), remarks(&[])), (Vec::new(), Vec::new()));
    }
}
