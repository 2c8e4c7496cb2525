//! Latency at one or more loads (RFC 2544 section 26.2).

use super::guard::counted_loss;
use super::load_search::{LoadSearch, Poll};
use super::{LatencyLoad, LatencySpec, Measured, Method, Step, mark};
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::Placement;
use crate::stats::median;
use crate::trial::{FrameRequest, Load, TrialOutcome, TrialRequest};

pub(super) struct Latency {
    spec: LatencySpec,
    /// `None` when every load is given in frames/s.
    search: Option<LoadSearch>,
    /// Trials of the present load.
    trials: Vec<TrialOutcome>,
    measured: Vec<Measured>,
}

impl Latency {
    pub(super) fn new(spec: LatencySpec, placement: Placement) -> Self {
        let search = spec.needs_throughput().then(|| LoadSearch::new(&spec.search, placement));
        Self { spec, search, trials: Vec::new(), measured: Vec::new() }
    }

    /// The present load in frames/s; what the search wants first, or why there is none.
    fn load(&mut self, load: LatencyLoad) -> Result<f64, Poll> {
        let share = match load {
            LatencyLoad::FramesPerSecond(rate) => return Ok(rate),
            LatencyLoad::ShareOfThroughput(share) => share,
        };
        match self.search.as_mut().map(LoadSearch::poll) {
            Some(Poll::Found(found)) => Ok(found.throughput * share),
            Some(poll) => Err(poll),
            None => Err(Poll::Lost(Vec::new())),
        }
    }

    fn push(&mut self, measured: Measured) {
        let level = self.spec.loads[self.measured.len()].label();
        self.measured.push(measured.at_load(level));
        self.trials.clear();
    }

    fn searching(&self) -> bool {
        let present = self.spec.loads.get(self.measured.len());
        matches!(present, Some(LatencyLoad::ShareOfThroughput(_)))
    }
}

impl Method for Latency {
    fn next(&mut self) -> Step {
        while let Some(&load) = self.spec.loads.get(self.measured.len()) {
            match self.load(load) {
                Ok(rate) => {
                    let request = FrameRequest::constant(Load::PerSecond(rate), self.spec.trial_seconds);
                    return Step::Trial(request.for_times().into());
                }
                Err(Poll::Trial(request)) => return Step::Trial(request),
                Err(Poll::Lost(marks)) => self.push(Measured::lost(Metric::Latency, marks)),
                Err(Poll::Found(_)) => unreachable!("a throughput that was found gives a load"),
            }
        }
        Step::Done(self.measured.clone())
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        if self.searching() && self.search.as_mut().is_some_and(|search| search.takes(outcome)) {
            return;
        }
        self.trials.push(outcome.clone());
        if self.trials.len() >= self.spec.repeats.max(1) as usize {
            let trials = std::mem::take(&mut self.trials);
            self.push(summarise(trials));
        }
    }

    fn lower_maximum(&mut self, rate: f64) -> bool {
        self.searching() && self.search.as_mut().is_some_and(|search| search.lower_maximum(rate))
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        if self.searching() && self.search.as_mut().is_some_and(|search| search.give_up(marks.clone())) {
            return;
        }
        self.push(Measured::lost(Metric::Latency, marks));
    }
}

/// The median of the trials' medians. Loss does not spoil it, but the reader must know: lost frames have no latency.
fn summarise(trials: Vec<TrialOutcome>) -> Measured {
    let medians: Vec<f64> = trials.iter().filter_map(TrialOutcome::latency_ns).map(|l| l.p50).collect();
    let Some(value) = median(&medians) else {
        return Measured::lost(Metric::Latency, vec![mark(MarkKind::Note, "no latency was sampled")]);
    };
    let worst = trials.iter().map(counted_loss).fold(0.0, f64::max);
    let lossy = format!("up to {:.4} % of the frames were lost at this load", worst * 100.0);
    let marks = if worst > 0.0 { vec![mark(MarkKind::Note, lossy)] } else { Vec::new() };
    Measured::found(Metric::Latency, value, trials, marks)
}
