//! A number of connections opened at a rate and held (EANTC 2001): how many are established, what share fails, and how long
//! establishing takes. Failures are the result, not the end of it.

use super::once::{Once, OneTrial};
use super::parameters::{DEFAULT_RATE, Key};
use super::times;
use super::{Guarded, Measured, Procedure, ProcedureRow, Sends, Spec, all_lost, mark};
use crate::connections::{CloseBy, ConnectionRequest};
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::{Placement, Setup};
use crate::suite::{Factor, SetupProblem};
use crate::trial::{TrialOutcome, TrialRequest, trials};

const METRICS: [Metric; 3] = [Metric::Established, Metric::Failures, Metric::EstablishmentTime];

pub(super) const ESTABLISHMENT_RATE: Key = Key::rate("establishment_rate").formerly("session_rate");

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "connection-establishment",
    older_name: Some("session-rate"),
    sends: Sends::Connections { close: CloseBy::Hold },
    factors: &[Factor::Hold, Factor::Illegal, Factor::Connections],
    keys: &[&ESTABLISHMENT_RATE],
    make: |asked| {
        EstablishmentSpec {
            connections: asked.beside.connections.into(),
            opening_rate: asked.given.number(&ESTABLISHMENT_RATE).unwrap_or(DEFAULT_RATE),
            hold_seconds: asked.beside.hold_seconds,
            legal_share: asked.legal_share(),
        }
        .into()
    },
};

/// A number of connections opened at a rate and held (EANTC 2001). Yields `Established`, `Failures`, `EstablishmentTime`.
#[derive(Debug, Clone, PartialEq)]
pub struct EstablishmentSpec {
    /// Legal connections.
    pub connections: u64,
    /// Attempts a second.
    pub opening_rate: f64,
    /// Seconds that they stay open and idle before the proof, 0 or more.
    pub hold_seconds: f64,
    /// The share of all attempts that the policy allows, above 0 to 1; only those are counted in values and ledgers.
    pub legal_share: f64,
}

impl Spec for EstablishmentSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Once::new(self.clone()), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        all_lost(&METRICS, marks)
    }

    fn typical_seconds(&self) -> f64 {
        trials(1.0, self.connections as f64 / self.legal_share / self.opening_rate + self.hold_seconds)
    }

    fn check(&self, setup: &Setup) -> Result<(), SetupProblem> {
        SetupProblem::if_too_many_held(self.connections, setup)
    }
}

impl OneTrial for EstablishmentSpec {
    fn request(&self) -> TrialRequest {
        let Self { connections, opening_rate, hold_seconds, .. } = *self;
        ConnectionRequest::Held { connections, opening_rate, hold_seconds, resets: None }.into()
    }

    fn values(&self, outcome: &TrialOutcome) -> Vec<Measured> {
        let trial = vec![outcome.clone()];
        let established = outcome.connections().map(|connections| connections.established as f64);
        let values = [established, Some(outcome.loss_ratio()), times::establishment(&trial)];
        let measured = |(metric, value): (Metric, Option<f64>)| match value {
            Some(value) => Measured::found(metric, value, trial.clone(), Vec::new()),
            None => Measured::lost(metric, vec![mark(MarkKind::Note, "no connection was established")]),
        };
        METRICS.into_iter().zip(values).map(measured).collect()
    }
}
