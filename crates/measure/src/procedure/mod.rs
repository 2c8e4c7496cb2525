//! Procedures: what is asked of one firewall, trial after trial, until a value is known. Each is the method of one
//! section of a standard. A procedure does no IO and reads no clock: it hands out requests and takes outcomes, so
//! that several firewalls can take turns ([`crate::campaign`]) and tests can run without a network.
//!
//! [`PROCEDURES`] has one row a procedure, and a procedure is one file: its row says what it is called, what it sends and
//! which parameters it takes; its [`Spec`] is what a suite asked for, and [`Spec::start`] makes a fresh procedure of that.
//! A trial that must not count ([`judge`]) never reaches a procedure's method: it is repeated, up to
//! [`MOST_ATTEMPTS`] in all, and then the value is given up and says why.

mod application_capacity;
#[cfg(test)]
mod application_capacity_tests;
mod application_rate;
#[cfg(test)]
mod application_rate_tests;
mod axis;
mod back_to_back;
mod bulk;
#[cfg(test)]
mod bulk_tests;
mod capacity;
mod conduct;
#[cfg(test)]
mod connection_tests;
mod establishment;
mod guard;
#[cfg(test)]
mod held_tests;
mod latency;
mod load_search;
mod loss_curve;
mod once;
mod parameters;
mod parts;
#[cfg(test)]
mod parts_tests;
mod rate;
mod recovery;
mod replacement;
mod resets;
#[cfg(test)]
mod row_tests;
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
mod transactions;
#[cfg(test)]
mod transactions_tests;

pub use application_capacity::ApplicationCapacitySpec;
pub use application_rate::ApplicationRateSpec;
pub use back_to_back::BackToBackSpec;
pub use bulk::BulkSpec;
pub use capacity::CapacitySpec;
pub use establishment::EstablishmentSpec;
pub use guard::{BEHIND_TOLERANCE, MOST_ATTEMPTS, counted_loss, judge};
pub use latency::{LatencyLoad, LatencySpec};
pub use loss_curve::LossCurveSpec;
pub use parameters::Key;
pub(crate) use parameters::{Parameters, keys, own_keys};
pub(crate) use parts::shares_off;
pub(crate) use rate::held;
pub use rate::{RateOf, RateSpec};
pub use recovery::{OverloadRecoverySpec, ResetRecoverySpec};
pub use replacement::ReplacementSpec;
pub use resets::ResetsSpec;
pub use spec::{Flood, Preset, SearchSpec};
pub use steady::{FloodTime, SteadySpec};
pub use throughput::ThroughputSpec;
pub(crate) use times::mean;
pub use transactions::TransactionsSpec;

use crate::connections::{CloseBy, ConnectionShape};
use crate::level::Level;
use crate::results::{Mark, MarkKind, Metric, SearchOutcome};
use crate::shape::{Placement, Setup};
use crate::suite::{Beside, Factor, SetupProblem, line_rate};
use crate::trial::{TrialOutcome, TrialRequest};
use guard::Guarded;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Every procedure, in the order in which messages list them.
pub static PROCEDURES: [&ProcedureRow; 18] = [
    &throughput::ROW,
    &latency::ROW,
    &loss_curve::ROW,
    &back_to_back::ROW,
    &recovery::AFTER_OVERLOAD,
    &recovery::AFTER_RESET,
    &rate::OF_CONNECTIONS,
    &rate::OF_TRANSACTIONS,
    &rate::OF_TEARDOWNS,
    &capacity::ROW,
    &establishment::ROW,
    &steady::ROW,
    &resets::ROW,
    &replacement::ROW,
    &bulk::ROW,
    &transactions::ROW,
    &application_rate::ROW,
    &application_capacity::ROW,
];

/// A procedure: what suites call it, what it sends, and which parameters it takes.
pub struct ProcedureRow {
    /// As suites write it.
    pub name: &'static str,
    /// What it was called before; suites may still write it.
    pub older_name: Option<&'static str>,
    /// What its trials are of.
    pub sends: Sends,
    /// Factors that it varies beside those of everything that sends the same: of `hold`, `illegal`, `attack` and
    /// `connections`.
    pub factors: &'static [Factor],
    /// Parameters that mean something to it beside `rounds` and `trial_seconds`.
    pub keys: &'static [&'static Key],
    /// What is measured in one cell; defaults filled in.
    make: fn(&Asked<'_>) -> ProcedureSpec,
}

/// A row of [`PROCEDURES`].
pub type ProcedureKind = &'static ProcedureRow;

/// What the trials of a procedure are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    /// Frames.
    Frames,
    /// TCP connections.
    Connections {
        /// How they end unless the suite says otherwise. Connections that are held are held whatever it says.
        close: CloseBy,
    },
    /// Bulk transfers.
    Bulk,
    /// Application traffic.
    Application,
}

/// What a suite asks of a procedure in one cell.
pub(crate) struct Asked<'a> {
    pub(crate) given: &'a Parameters,
    pub(crate) beside: &'a Beside,
    pub(crate) setup: &'a Setup,
}

impl Asked<'_> {
    /// The share of all attempts that the policy allows.
    fn legal_share(&self) -> f64 {
        self.setup.connections().map_or(1.0, ConnectionShape::legal_share)
    }

    /// Frames a second that fill the links, where they have a rate.
    fn link_rate(&self) -> Option<f64> {
        line_rate(self.setup)
    }
}

impl ProcedureRow {
    /// The procedure of a name, or of an older name.
    pub fn named(name: &str) -> Option<ProcedureKind> {
        PROCEDURES.into_iter().find(|row| row.name == name || row.older_name == Some(name))
    }

    /// Whether it makes TCP connections of its own.
    pub const fn has_connections(&self) -> bool {
        matches!(self.sends, Sends::Connections { .. })
    }

    /// Whether virtual clients fetch files.
    pub const fn has_virtual_clients(&self) -> bool {
        matches!(self.sends, Sends::Application)
    }

    /// Whether it sends frames of its own.
    pub const fn sends_frames(&self) -> bool {
        matches!(self.sends, Sends::Frames)
    }

    /// Whether its connections are opened and held open until the end of the trial.
    pub const fn holds_open(&self) -> bool {
        matches!(self.sends, Sends::Connections { close: CloseBy::Hold })
    }

    pub(crate) fn make(&self, asked: &Asked<'_>) -> ProcedureSpec {
        (self.make)(asked)
    }
}

impl PartialEq for ProcedureRow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ProcedureRow {}

impl fmt::Debug for ProcedureRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What a suite asks of a procedure, with the units and ranges of every field in the type that implements it. Whoever
/// makes such a value checks the ranges; the procedures take them at their word.
pub trait Spec: Any + fmt::Debug + Send + Sync {
    /// A fresh procedure for one firewall and round.
    fn start(&self, placement: Placement) -> Box<dyn Procedure>;

    /// The values that stand, invalid, for a firewall of which nothing could be measured.
    fn lost(&self, marks: &[Mark]) -> Vec<Measured>;

    /// Roughly how many seconds one run of it takes on one firewall: for showing progress, no promise.
    fn typical_seconds(&self) -> f64;

    /// Whether it can be carried out in this setup.
    ///
    /// # Errors
    /// [`SetupProblem`]: why not, with the arithmetic.
    fn check(&self, _setup: &Setup) -> Result<(), SetupProblem> {
        Ok(())
    }

    /// Whether the suite fixed the rate, so that it is the same everywhere and says nothing of the generator.
    fn fixes_the_rate(&self) -> bool {
        false
    }

    /// Whether the firewall's policy is replaced meanwhile, so that probes can distinguish it from its successor.
    fn replaces_the_policy(&self) -> bool {
        false
    }
}

/// What is measured in a cell, and how.
#[derive(Debug, Clone)]
pub struct ProcedureSpec(Arc<dyn Spec>);

impl ProcedureSpec {
    /// As the spec of one procedure; `None` of another.
    pub fn of<S: Spec>(&self) -> Option<&S> {
        let any: &dyn Any = self.0.as_ref();
        any.downcast_ref()
    }
}

impl<S: Spec> From<S> for ProcedureSpec {
    fn from(spec: S) -> Self {
        Self(Arc::new(spec))
    }
}

impl Deref for ProcedureSpec {
    type Target = dyn Spec;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

/// Specs are plain data, and their `Debug` names every field.
impl PartialEq for ProcedureSpec {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

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
    pub at: BTreeMap<String, Level>,
    /// The value in the metric's unit; 0 when it is not valid.
    pub value: f64,
    /// Whether the value may be used; if not, the marks say why.
    pub valid: bool,
    /// The trials that the value rests on.
    pub deciding: Vec<TrialOutcome>,
    /// What the reader must know.
    pub marks: Vec<Mark>,
    /// The search that found it, of the first value that it found; the round is not known to it.
    pub search: Option<SearchOutcome>,
}

impl Measured {
    /// A valid value.
    fn found(metric: Metric, value: f64, deciding: Vec<TrialOutcome>, marks: Vec<Mark>) -> Self {
        Self { metric, at: BTreeMap::new(), value, valid: true, deciding, marks, search: None }
    }

    /// A value that could not be had.
    pub(crate) fn lost(metric: Metric, marks: Vec<Mark>) -> Self {
        Self {
            metric,
            at: BTreeMap::new(),
            value: 0.0,
            valid: false,
            deciding: Vec::new(),
            marks,
            search: None,
        }
    }

    /// The same, found by a search.
    fn by(self, search: SearchOutcome) -> Self {
        Self { search: Some(search), ..self }
    }

    /// The same at one level of the factor `load`.
    fn at_load(self, level: String) -> Self {
        self.at("load", &level)
    }

    /// The same at one level of a factor of the procedure's own.
    fn at(mut self, factor: &str, level: &str) -> Self {
        self.at.insert(factor.into(), Level::read(factor, level));
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

/// What a procedure does with trials that count. [`Guarded`] makes a [`Procedure`] of it.
trait Method: Send {
    /// The next step.
    fn next(&mut self) -> Step;

    /// Takes the outcome of a trial that counts.
    fn record(&mut self, request: &TrialRequest, outcome: &TrialOutcome);

    /// The generator cannot keep to the schedule asked for; at best it sent `rate` frames/s (legal connections/s). A search
    /// that answers true has lowered its maximum to what can be sent and goes on.
    fn lower_maximum(&mut self, _rate: f64) -> bool {
        false
    }

    /// The trial asked for could not be had. The method gives up the value that depends on it, with these marks.
    fn give_up(&mut self, marks: Vec<Mark>);
}

/// These metrics, lost.
fn all_lost(metrics: &[Metric], marks: &[Mark]) -> Vec<Measured> {
    metrics.iter().map(|metric| Measured::lost(*metric, marks.to_vec())).collect()
}

fn mark(kind: MarkKind, detail: impl Into<String>) -> Mark {
    Mark::new(kind, detail)
}
