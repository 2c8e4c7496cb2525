//! Bulk TCP (Check Point 2021): connections send as fast as they can for some time; how many bits a second the receiving
//! applications got. One trial a round: the rounds are the report's sequences.

use super::{BulkSpec, Measured, Method, Step};
use crate::bulk::BulkRequest;
use crate::results::{Mark, Metric};
use crate::trial::{TrialOutcome, TrialRequest};

pub(super) struct Bulk {
    spec: BulkSpec,
    measured: Option<Measured>,
}

impl Bulk {
    pub(super) fn new(spec: BulkSpec) -> Self {
        Self { spec, measured: None }
    }
}

impl Method for Bulk {
    fn next(&mut self) -> Step {
        match &self.measured {
            Some(measured) => Step::Done(vec![measured.clone()]),
            None => Step::Trial(BulkRequest { seconds: self.spec.trial_seconds }.into()),
        }
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        let bits = outcome.received_bits() as f64 / outcome.seconds;
        self.measured = Some(Measured::found(Metric::Goodput, bits, vec![outcome.clone()], Vec::new()));
    }

    fn lower_maximum(&mut self, _rate: f64) -> bool {
        false
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.measured = Some(Measured::lost(Metric::Goodput, marks));
    }
}
