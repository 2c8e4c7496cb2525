//! A number of connections opened at a rate and held (EANTC 2001): how many are established, what share fails, and how long
//! establishing takes. Failures are the result, not the end of it.

use super::times;
use super::{Measured, Method, SessionRateSpec, Step, mark};
use crate::connections::ConnectionRequest;
use crate::results::{Mark, MarkKind, Metric};
use crate::trial::{TrialOutcome, TrialRequest};

pub(super) const METRICS: [Metric; 3] = [Metric::Established, Metric::Failures, Metric::EstablishmentTime];

pub(super) struct SessionRate {
    spec: SessionRateSpec,
    measured: Option<Vec<Measured>>,
}

impl SessionRate {
    pub(super) fn new(spec: SessionRateSpec) -> Self {
        Self { spec, measured: None }
    }
}

impl Method for SessionRate {
    fn next(&mut self) -> Step {
        if let Some(measured) = &self.measured {
            return Step::Done(measured.clone());
        }
        let SessionRateSpec { connections, session_rate: opening_rate, hold_seconds, .. } = self.spec;
        let request = ConnectionRequest::Held { connections, opening_rate, hold_seconds, resets: None };
        Step::Trial(request.into())
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        let trial = vec![outcome.clone()];
        let established = outcome.connections().map(|connections| connections.established as f64);
        let values = [established, Some(outcome.loss_ratio()), times::establishment(&trial)];
        let measured = |(metric, value): (Metric, Option<f64>)| match value {
            Some(value) => Measured::found(metric, value, trial.clone(), Vec::new()),
            None => Measured::lost(metric, vec![mark(MarkKind::Note, "no connection was established")]),
        };
        self.measured = Some(METRICS.into_iter().zip(values).map(measured).collect());
    }

    fn lower_maximum(&mut self, _rate: f64) -> bool {
        false
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.measured = Some(METRICS.map(|metric| Measured::lost(metric, marks.clone())).into());
    }
}
