//! A number of connections opened at a rate and held (EANTC 2001): how many are established, what share fails, and how long
//! establishing takes. Failures are the result, not the end of it.

use super::times;
use super::{Measured, Method, SessionRateSpec, Step, mark};
use crate::results::{Mark, MarkKind, Metric};
use crate::trial::{Load, TrialOutcome, TrialRequest};

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
        let SessionRateSpec { connections, session_rate: per_second, hold_seconds, .. } = self.spec;
        Step::Trial(TrialRequest::constant(Load::Open { connections, per_second }, hold_seconds))
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        let trial = vec![outcome.clone()];
        let established = outcome.sessions.as_ref().map(|sessions| sessions.established as f64);
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
