//! Whether the values of a run follow from the trials that they name. A file of results can be edited: what the bench computed when it
//! measured is computed again from what the file keeps, and what does not fit is named with its place.
//!
//! It finds a value, an interval, a trial or a mark that was changed or taken out. It does not find a file that was written anew as a
//! whole (`docs/design/trust.md`). Pure.

mod copies;
mod marks;
#[cfg(test)]
mod tests;
mod values;

use super::{Mark, MarkKind, Metric, Point, Reading, Results, Run, Sent, Trial};
use crate::campaign::points::{COST, TRANSFER_TIME_RATIO, estimated, widened};
use crate::trial::{FrameOutcome, TrialOutcome, WorkloadOutcome};
use std::collections::BTreeSet;
use std::fmt;

/// Kept numbers are rounded to six digits and more, so nothing that was rounded is farther off than this share.
const ROUNDED: f64 = 2e-5;

/// Something that does not follow from what is beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Where, by its place in the lists, and what that is: `points[3] (throughput of nftables in cell 0)`.
    pub place: String,
    /// What does not fit, as the end of a sentence.
    pub why: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

impl Results {
    /// What does not follow from the trials, in the order of the runs and then of the points; empty of a file as a run writes it. Results that
    /// were read from an older schema keep too little to be computed again.
    pub fn misfits(&self) -> Vec<Misfit> {
        if self.converted_from.is_some() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (at, run) in self.runs.iter().enumerate() {
            let place = || format!("runs[{at}] ({} in cell {})", run.dut, run.cell);
            found.extend(self.of_run(run).map(|why| Misfit { place: place(), why }));
        }
        found.extend(copies::copies(self));
        for (at, reading) in self.readings().enumerate() {
            found.extend(self.of_point(&reading).map(|why| Misfit { place: place(at, &reading), why }));
        }
        found
    }

    fn of_run(&self, run: &Run) -> Option<String> {
        let sent = self.cells.iter().find(|cell| cell.id == run.cell)?.workload;
        let missing = (0..).zip(&run.trials).find(|(id, trial)| trial.id != *id);
        if let Some((id, _)) = missing {
            return Some(format!("trial {id} is missing"));
        }
        let of_run = self.points.iter().filter(|p| (p.cell, &p.dut) == (run.cell, &run.dut));
        let named: BTreeSet<u32> = of_run.flat_map(|point| &point.deciding).copied().collect();
        if let Some(trial) = run.trials.iter().find(|t| t.detail.is_some() && !named.contains(&t.id)) {
            return Some(format!("trial {} decided a point that is not there", trial.id));
        }
        run.trials.iter().find_map(|trial| {
            let why = of_trial(trial, &outcome(trial, sent)?)?;
            Some(format!("trial {}: {why}", trial.id))
        })
    }

    fn of_point(&self, point: &Reading<'_>) -> Option<String> {
        if point.valid {
            let invalid = point.marks.iter().find(|mark| mark.kind.invalidates());
            if let Some(mark) = invalid {
                return Some(format!("it is valid beside a mark that says otherwise: {}", mark.text));
            }
            if point.rounds.is_empty() {
                return Some("it is valid and has no round".into());
            }
            if let Some(rounds) = self.rounds_of(point.cell.id).filter(|rounds| *rounds != point.rounds.len())
            {
                return Some(format!("it has {} rounds, and its cell {rounds}", point.rounds.len()));
            }
        } else if !says_why(point) {
            return Some("it is invalid and does not say why".into());
        }
        let trials = trials_of(point);
        measured_after_all(point, &trials)
            .or_else(|| estimate(point, &trials))
            .or_else(|| point.valid.then(|| self.decided(point, &trials)).flatten())
            .or_else(|| marks::missing(self, point, &trials))
    }

    /// Rounds of a cell, which all of its firewalls have alike; `None` of one that was cut short, or of which no trial is known.
    fn rounds_of(&self, cell: u32) -> Option<usize> {
        let trials = self.runs.iter().filter(|run| run.cell == cell).flat_map(|run| &run.trials);
        trials.map(|trial| trial.round as usize + 1).max().filter(|_| self.complete)
    }

    /// Whether the rounds' values follow from what they rest on.
    fn decided(&self, point: &Reading<'_>, trials: &[(&Trial, TrialOutcome)]) -> Option<String> {
        let derived = [COST, TRANSFER_TIME_RATIO].into_iter().find(|derived| derived.metric == point.metric);
        if let Some(derived) = derived {
            return values::against_wire(self, point, &derived);
        }
        if point.deciding.is_empty() {
            return Some("it is valid and rests on no trial".into());
        }
        if point.run.is_none() {
            return self.complete.then(|| "the trials that it rests on are not there".into());
        }
        if trials.len() < point.deciding.len() {
            return Some("a trial that it rests on has no ledger".into());
        }
        trials
            .iter()
            .find_map(|(trial, outcome)| {
                if let Some(fault) = trial.faults.first() {
                    return Some(format!("it rests on trial {}, which must not count: {fault}", trial.id));
                }
                let misconduct = outcome.shows_misconduct();
                misconduct
                    .then(|| format!("it rests on trial {}, whose ledger shows what costs a value", trial.id))
            })
            .or_else(|| values::of_rounds(point, trials))
    }
}

/// Whether an invalid point has a reason. One that keeps its value was given up for a mark that costs it.
fn says_why(point: &Point) -> bool {
    let costs = |mark: &Mark| mark.kind.invalidates();
    let is_said = |mark: &Mark| matches!(mark.kind, MarkKind::Note | MarkKind::NotMeasured);
    let explains = |mark: &Mark| costs(mark) || (is_said(mark) && point.value == 0.0);
    point.marks.iter().any(explains)
}

/// What a point is, for its reader.
fn place(at: usize, point: &Reading<'_>) -> String {
    let setting: Vec<String> =
        point.at.iter().map(|(factor, level)| format!(", {factor}={}", level.text)).collect();
    let metric = point.metric.row().key;
    format!("points[{at}] ({metric} of {} in cell {}{})", point.dut, point.cell.id, setting.concat())
}

/// The deciding trials with what became of them.
fn trials_of<'a>(point: &Reading<'a>) -> Vec<(&'a Trial, TrialOutcome)> {
    point.deciding().filter_map(|trial| Some((trial, outcome(trial, point.sent())?))).collect()
}

/// A trial as procedures met it, without what results do not keep; `None` of one that only showed the way.
fn outcome(trial: &Trial, sent: Sent) -> Option<TrialOutcome> {
    let detail = trial.detail.as_deref()?;
    let workload = match sent {
        Sent::Frames => WorkloadOutcome::Frames(FrameOutcome {
            lanes: detail.lanes.clone(),
            latency_ns: trial.latency_ns,
            ..FrameOutcome::default()
        }),
        Sent::Connections => WorkloadOutcome::Connections(Box::new(detail.connections.clone()?)),
        Sent::Bulk => WorkloadOutcome::Bulk(detail.bulk.clone()?),
        Sent::Application => WorkloadOutcome::Application(detail.application.clone()?),
    };
    Some(TrialOutcome {
        id: trial.id,
        seconds: trial.seconds,
        ledger: detail.ledger.clone(),
        per_second: trial.per_second.clone(),
        cpu: detail.cpu.clone(),
        flow_entries: detail.flow_entries,
        memory_bytes: detail.memory_bytes,
        policy_load_seconds: None,
        faults: Vec::new(),
        remarks: Vec::new(),
        policy_broken: None,
        workload,
    })
}

/// Whether a trial's rate and loss are those of its ledger.
fn of_trial(trial: &Trial, outcome: &TrialOutcome) -> Option<String> {
    if outcome.ledger.residual() != 0 && trial.faults.is_empty() {
        return Some("its ledger does not come out".into());
    }
    let received = match trial.load {
        super::LoadKind::Open => outcome.ledger.received as f64,
        super::LoadKind::Rate | super::LoadKind::Burst => outcome.forwarding_rate(),
    };
    let rows = [("received", trial.received, received), ("loss", trial.loss, outcome.loss_ratio())];
    rows.into_iter()
        .find(|(_, kept, computed)| !near(*kept, *computed, *computed))
        .map(|(what, kept, computed)| format!("its {what} is {kept}, and of its ledger {computed}"))
}

/// Whether value and interval are those of the rounds.
fn estimate(point: &Point, trials: &[(&Trial, TrialOutcome)]) -> Option<String> {
    let (low, high) = (point.low, point.high);
    if !point.valid && [point.value, low].iter().all(|v| *v == 0.0) {
        return None;
    }
    let measured = measured_rounds(point);
    let size = measured.iter().copied().map(f64::abs).fold(0.0, f64::max);
    let mut expected = estimated(&measured, point.metric)?;
    if point.clock_error > 0.0 || point.metric == Metric::Latency {
        let error = trials.iter().filter_map(|(_, outcome)| outcome.latency_ns()).map(|t| t.clock_error);
        let error = error.fold(0.0, f64::max);
        if !trials.is_empty() && !near(point.clock_error, error, error) {
            return Some(format!("its clock error is {}, that of its trials {error}", point.clock_error));
        }
        expected = widened(expected, point.clock_error);
    }
    let rows =
        [("value", point.value, expected.0), ("low end", low, expected.1), ("high end", high, expected.2)];
    rows.into_iter()
        .find(|(_, kept, computed)| !near(*kept, *computed, size.max(computed.abs())))
        .map(|(what, kept, computed)| format!("its {what} is {kept}, and of its rounds {computed}"))
}

/// The rounds that have a value. One that was not measured stands there as 0.
fn measured_rounds(point: &Point) -> Vec<f64> {
    let rounds = point.rounds.iter().enumerate();
    rounds.filter(|(round, _)| !is_marked_not_measured(point, *round)).map(|(_, value)| *value).collect()
}

fn is_marked_not_measured(point: &Point, round: usize) -> bool {
    let is_about = |mark: &Mark| mark.round.map_or(point.rounds.len() == 1, |of| of as usize == round);
    point.marks.iter().any(|mark| mark.kind == MarkKind::NotMeasured && is_about(mark))
}

/// A round that is said not to have been measured, and has a value or a trial all the same: a value that does not please could be left out so.
fn measured_after_all(point: &Reading<'_>, trials: &[(&Trial, TrialOutcome)]) -> Option<String> {
    let has_trial = |round: usize| trials.iter().any(|(trial, _)| trial.round as usize == round);
    // What a search looks for, each of them has.
    let is_searched = matches!(point.metric, Metric::Throughput | Metric::ConnectionRate);
    let was_searched =
        |round: usize| is_searched && point.searches().iter().any(|search| search.round as usize == round);
    let of = (0..point.rounds.len()).filter(|round| is_marked_not_measured(point, *round));
    let mut wrong =
        of.filter(|round| point.rounds[*round] != 0.0 || has_trial(*round) || was_searched(*round));
    wrong.next().map(|round| format!("round {} is marked as not measured and was", round + 1))
}

/// Whether two numbers are equal but for digits that results do not keep, beside numbers of this size.
fn near(a: f64, b: f64, size: f64) -> bool {
    (a - b).abs() <= ROUNDED * size.abs() + f64::EPSILON
}
