//! Procedures of one trial, whose outcome is the result.

use super::{Measured, Method, Spec, Step};
use crate::results::Mark;
use crate::trial::{TrialOutcome, TrialRequest};

/// A spec that one trial answers.
pub(super) trait OneTrial: Spec {
    fn request(&self) -> TrialRequest;

    fn values(&self, outcome: &TrialOutcome) -> Vec<Measured>;
}

pub(super) struct Once<S> {
    spec: S,
    measured: Option<Vec<Measured>>,
}

impl<S: OneTrial> Once<S> {
    pub(super) const fn new(spec: S) -> Self {
        Self { spec, measured: None }
    }
}

impl<S: OneTrial> Method for Once<S> {
    fn next(&mut self) -> Step {
        match &self.measured {
            Some(measured) => Step::Done(measured.clone()),
            None => Step::Trial(self.spec.request()),
        }
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        self.measured = Some(self.spec.values(outcome));
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.measured = Some(self.spec.lost(&marks));
    }
}
