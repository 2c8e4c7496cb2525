//! Frame loss rate over the load (RFC 2544 section 26.3).

use super::guard::{counted_loss, sent_rate};
use super::parameters::Key;
use super::spec::percent;
use super::{Guarded, Measured, Method, Procedure, ProcedureRow, Sends, Spec, Step};
use crate::results::{Mark, Metric};
use crate::shape::Placement;
use crate::trial::{FrameRequest, Load, TrialOutcome, TrialRequest, trials};

/// The curve ends after this many successive loads without loss.
const LOSSLESS_LOADS: u32 = 2;

const STEP: Key = Key::number("step", 0.01, 0.5);

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "loss-curve",
    older_name: None,
    sends: Sends::Frames,
    factors: &[],
    keys: &[&STEP],
    make: |asked| {
        LossCurveSpec {
            trial_seconds: asked.given.trial_seconds(),
            max_load: asked.link_rate(),
            step: asked.given.number(&STEP).unwrap_or(0.1),
        }
        .into()
    },
};

/// Frame loss rate (RFC 2544 section 26.3): from the maximum rate down in steps, until two successive loads show no
/// loss. Yields one `Loss` a load, with the extra factor `load` (`100%`, `90%`, …).
#[derive(Debug, Clone, PartialEq)]
pub struct LossCurveSpec {
    /// Seconds of each trial, > 0.
    pub trial_seconds: f64,
    /// The rate that is 100 %, in frames/s; `None` takes the most that the generator sends, which with placement inline
    /// differs from firewall to firewall.
    pub max_load: Option<f64>,
    /// Step as a share of the maximum, 0 < step <= 0.5; the RFC asks for 0.1 or finer.
    pub step: f64,
}

impl Spec for LossCurveSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(LossCurve::new(self.clone()), placement)
    }

    /// The first load of the curve, since where it would have ended nobody knows.
    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        vec![Measured::lost(Metric::Loss, marks.to_vec()).at_load(percent(1.0))]
    }

    fn typical_seconds(&self) -> f64 {
        trials(0.6 / self.step, self.trial_seconds)
    }
}

struct LossCurve {
    spec: LossCurveSpec,
    /// The rate that is 100 %; `None` until the first trial has shown it.
    max_load: Option<f64>,
    /// Loads behind us.
    steps: u32,
    lossless: u32,
    measured: Vec<Measured>,
}

impl LossCurve {
    fn new(spec: LossCurveSpec) -> Self {
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

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.lossless = 0;
        self.push(Measured::lost(Metric::Loss, marks));
    }
}
