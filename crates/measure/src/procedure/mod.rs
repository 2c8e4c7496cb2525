//! Procedures: what is asked of one firewall, trial after trial, until a value is known. Each is the method of one
//! section of a standard. A procedure does no IO and reads no clock: it hands out requests and is told outcomes, so
//! that several firewalls can take turns ([`crate::campaign`]) and tests can run without a network.
//!
//! [`ProcedureSpec`] is plain data that a suite is parsed into; [`ProcedureSpec::start`] makes a fresh procedure.
//! A trial that must not count ([`judge`]) never reaches a procedure's method: it is repeated, up to
//! [`MOST_ATTEMPTS`] in all, and then the value is given up and says why.

mod axis;
mod back_to_back;
mod bulk;
#[cfg(test)]
mod bulk_tests;
mod capacity;
#[cfg(test)]
mod connection_tests;
mod guard;
mod latency;
mod load_search;
mod loss_curve;
mod rate;
mod recovery;
mod replacement;
mod resets;
mod session_rate;
mod session_spec;
#[cfg(test)]
pub(crate) mod simulated;
#[cfg(test)]
pub(crate) mod simulated_connections;
mod spec;
mod steady;
#[cfg(test)]
mod tests;
mod throughput;
mod times;

pub use guard::{BEHIND_TOLERANCE, MOST_ATTEMPTS, counted_loss, judge};
pub use session_spec::{
    CapacitySpec, Flood, FloodTime, RateOf, RateSpec, ReplacementSpec, ResetsSpec, SessionRateSpec,
    SteadySpec,
};
pub use spec::{
    BackToBackSpec, BulkSpec, LatencyLoad, LatencySpec, LossCurveSpec, OverloadRecoverySpec, Preset,
    ProcedureSpec, ResetRecoverySpec, SearchSpec, ThroughputSpec,
};

use crate::results::{Mark, MarkKind, Metric};
use crate::shape::Placement;
use crate::trial::{TrialOutcome, TrialRequest};
use guard::Guarded;
use std::collections::BTreeMap;

/// What a procedure wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Run this trial and [`record`](Procedure::record) its outcome.
    Trial(TrialRequest),
    /// The procedure has ended; this is what it found. At least one value.
    Done(Vec<Measured>),
}

/// One value that a procedure found.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What was measured.
    pub metric: Metric,
    /// Factors that the procedure itself varied, beside the cell's: `load`, `phase`, `resets`.
    pub factors: BTreeMap<String, String>,
    /// The value in the metric's unit; 0 when it is not valid.
    pub value: f64,
    /// Whether the value may be used; if not, the marks say why.
    pub valid: bool,
    /// The trials that the value rests on.
    pub deciding: Vec<TrialOutcome>,
    /// What the reader must know.
    pub marks: Vec<Mark>,
}

impl Measured {
    /// A valid value.
    fn found(metric: Metric, value: f64, deciding: Vec<TrialOutcome>, marks: Vec<Mark>) -> Self {
        Self { metric, factors: BTreeMap::new(), value, valid: true, deciding, marks }
    }

    /// A value that could not be had.
    pub(crate) fn lost(metric: Metric, marks: Vec<Mark>) -> Self {
        Self { metric, factors: BTreeMap::new(), value: 0.0, valid: false, deciding: Vec::new(), marks }
    }

    /// The same at one level of the factor `load`.
    fn at_load(self, level: String) -> Self {
        self.at("load", level)
    }

    /// The same at one level of a factor of the procedure's own.
    fn at(mut self, factor: &str, level: impl Into<String>) -> Self {
        self.factors.insert(factor.into(), level.into());
        self
    }
}

/// A procedure under way. It is asked for a step, the trial is run, its outcome recorded, and so on until it is done.
pub trait Procedure: Send {
    /// The next step. Asked again without a [`record`](Self::record) between, it answers the same.
    fn next(&mut self) -> Step;

    /// Takes the outcome of the trial that [`next`](Self::next) asked for.
    fn record(&mut self, request: &TrialRequest, outcome: &TrialOutcome);
}

impl ProcedureSpec {
    /// A fresh procedure for one firewall and round.
    pub fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        match self.clone() {
            ProcedureSpec::Throughput(s) => {
                Guarded::boxed(throughput::Throughput::new(&s, placement), placement)
            }
            ProcedureSpec::LossCurve(s) => {
                Guarded::boxed(loss_curve::LossCurve::new(s, placement), placement)
            }
            ProcedureSpec::Latency(s) => Guarded::boxed(latency::Latency::new(s, placement), placement),
            ProcedureSpec::BackToBack(s) => {
                Guarded::boxed(back_to_back::BackToBack::new(s, placement), placement)
            }
            ProcedureSpec::OverloadRecovery(s) => {
                Guarded::boxed(recovery::Recovery::after_overload(s, placement), placement)
            }
            ProcedureSpec::ResetRecovery(s) => {
                Guarded::boxed(recovery::Recovery::after_reset(s, placement), placement)
            }
            ProcedureSpec::Rate(s) => Guarded::boxed(rate::Rate::new(&s, placement), placement),
            ProcedureSpec::Capacity(s) => Guarded::boxed(capacity::Capacity::new(&s, placement), placement),
            ProcedureSpec::SessionRate(s) => Guarded::boxed(session_rate::SessionRate::new(s), placement),
            ProcedureSpec::Steady(s) => Guarded::boxed(steady::Steady::new(s), placement),
            ProcedureSpec::Resets(s) => Guarded::boxed(resets::Resets::new(s), placement),
            ProcedureSpec::Replacement(s) => Guarded::boxed(replacement::Replacement::new(s), placement),
            ProcedureSpec::Bulk(s) => Guarded::boxed(bulk::Bulk::new(s), placement),
        }
    }

    /// The values that stand, invalid, for a firewall of which nothing could be measured. Of a loss curve that is
    /// its first load, since where it would have ended nobody knows.
    pub fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        let lost = |metric| Measured::lost(metric, marks.to_vec());
        match self {
            ProcedureSpec::Throughput(_) => vec![lost(Metric::Throughput), lost(Metric::Goodput)],
            ProcedureSpec::LossCurve(_) => vec![lost(Metric::Loss).at_load(spec::percent(1.0))],
            ProcedureSpec::Latency(spec) => {
                spec.loads.iter().map(|load| lost(Metric::Latency).at_load(load.label())).collect()
            }
            ProcedureSpec::BackToBack(_) => vec![lost(Metric::BackToBack), lost(Metric::BufferTime)],
            ProcedureSpec::OverloadRecovery(_) | ProcedureSpec::ResetRecovery(_) => {
                vec![lost(Metric::Recovery)]
            }
            ProcedureSpec::Rate(spec) => rate::metrics(spec.of).iter().copied().map(lost).collect(),
            ProcedureSpec::Capacity(_) => vec![lost(Metric::ConcurrentConnections)],
            ProcedureSpec::SessionRate(_) => session_rate::METRICS.map(lost).into(),
            ProcedureSpec::Steady(spec) => steady::lost(spec, marks),
            ProcedureSpec::Resets(_) => resets::KINDS.map(|kind| resets::lost(kind, marks.to_vec())).into(),
            ProcedureSpec::Replacement(_) => replacement::METRICS.map(lost).into(),
            ProcedureSpec::Bulk(_) => vec![lost(Metric::Goodput)],
        }
    }
}

/// What a procedure does with trials that count. [`Guarded`] makes a [`Procedure`] of it.
trait Method: Send {
    /// The next step.
    fn next(&mut self) -> Step;

    /// Takes the outcome of a trial that counts.
    fn record(&mut self, request: &TrialRequest, outcome: &TrialOutcome);

    /// The generator cannot keep to the schedule asked for; at best it sent `rate` frames/s (legal connections/s). A search that answers
    /// true has lowered its maximum to what can be sent and goes on.
    fn lower_maximum(&mut self, rate: f64) -> bool;

    /// The trial asked for could not be had. The method gives up the value that depends on it, with these marks.
    fn give_up(&mut self, marks: Vec<Mark>);
}

fn mark(kind: MarkKind, detail: impl Into<String>) -> Mark {
    Mark { kind, detail: detail.into() }
}
