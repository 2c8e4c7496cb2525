//! Frame loss rate over the load (RFC 2544 section 26.3).

use super::guard::{counted_loss, sent_rate};
use super::spec::percent;
use super::{LossCurveSpec, Measured, Method, Step};
use crate::results::{Mark, Metric};
use crate::shape::Placement;
use crate::trial::{FrameRequest, Load, TrialOutcome, TrialRequest};

/// The curve ends after this many successive loads without loss.
const LOSSLESS_LOADS: u32 = 2;

pub(super) struct LossCurve {
    spec: LossCurveSpec,
    /// The rate that is 100 %; `None` until the first trial has shown it.
    max_load: Option<f64>,
    /// Loads behind us.
    steps: u32,
    lossless: u32,
    measured: Vec<Measured>,
}

impl LossCurve {
    pub(super) fn new(spec: LossCurveSpec, _placement: Placement) -> Self {
        let max_load = spec.max_load;
        Self { spec, max_load, steps: 0, lossless: 0, measured: Vec::new() }
    }

    /// The present load as a share of the maximum; rounded, so that ten steps of a tenth end at 0.
    fn share(&self) -> f64 {
        let share = 1.0 - f64::from(self.steps) * self.spec.step;
        (share * 1e9).round() / 1e9
    }

    fn push(&mut self, measured: Measured) {
        self.measured.push(measured.at_load(percent(self.share())));
        self.steps += 1;
    }
}

impl Method for LossCurve {
    fn next(&mut self) -> Step {
        let share = self.share();
        let maximum_unknown = self.max_load.is_none() && self.steps > 0;
        if share <= 0.0 || self.lossless == LOSSLESS_LOADS || maximum_unknown {
            return Step::Done(self.measured.clone());
        }
        let load = self.max_load.map_or(Load::Maximum, |max| Load::PerSecond(max * share));
        Step::Trial(FrameRequest::constant(load, self.spec.trial_seconds).into())
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        self.max_load.get_or_insert_with(|| sent_rate(outcome));
        let loss = counted_loss(outcome);
        self.lossless = if loss > 0.0 { 0 } else { self.lossless + 1 };
        self.push(Measured::found(Metric::Loss, loss, vec![outcome.clone()], Vec::new()));
    }

    fn lower_maximum(&mut self, _rate: f64) -> bool {
        false
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.lossless = 0;
        self.push(Measured::lost(Metric::Loss, marks));
    }
}
