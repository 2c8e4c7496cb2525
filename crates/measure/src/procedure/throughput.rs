//! Throughput and goodput (RFC 2544 section 26.1; goodput in bits received, RFC 2647 section 3.17).

use super::load_search::{LoadSearch, Poll};
use super::parameters::{LOSS_RATIO, SEARCH, WIDTH};
use super::{
    Guarded, Measured, Method, Preset, Procedure, ProcedureRow, SearchSpec, Sends, Spec, Step, all_lost,
};
use crate::results::{Mark, Metric};
use crate::shape::Placement;
use crate::stats::median;
use crate::trial::{TrialOutcome, TrialRequest};

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "throughput",
    older_name: None,
    sends: Sends::Frames,
    factors: &[],
    keys: &[&SEARCH, &LOSS_RATIO, &WIDTH],
    make: |asked| ThroughputSpec { search: asked.given.search(Preset::Mlr, asked.link_rate()) }.into(),
};

/// Throughput and goodput (RFC 2544 section 26.1): yields [`Metric::Throughput`] and `Goodput`.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputSpec {
    /// The search.
    pub search: SearchSpec,
}

const METRICS: [Metric; 2] = [Metric::Throughput, Metric::Goodput];

impl Spec for ThroughputSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Throughput { search: LoadSearch::new(&self.search, placement) }, placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        all_lost(&METRICS, marks)
    }

    fn typical_seconds(&self) -> f64 {
        self.search.typical_seconds()
    }
}

struct Throughput {
    search: LoadSearch,
}

impl Method for Throughput {
    fn next(&mut self) -> Step {
        match self.search.poll() {
            Poll::Trial(request) => Step::Trial(request),
            Poll::Lost(marks) => Step::Done(all_lost(&METRICS, &marks)),
            Poll::Found(found) => {
                let bits = found.deciding.iter().map(|o| o.received_bits() as f64 / o.seconds);
                let goodput = median(&bits.collect::<Vec<f64>>()).unwrap_or(0.0);
                let measured = |metric, value| {
                    Measured::found(metric, value, found.deciding.clone(), found.marks.clone())
                };
                Step::Done(vec![
                    measured(Metric::Throughput, found.throughput).by(found.search),
                    measured(Metric::Goodput, goodput),
                ])
            }
        }
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        self.search.takes(outcome);
    }

    fn lower_maximum(&mut self, rate: f64) -> bool {
        self.search.lower_maximum(rate)
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.search.give_up(marks);
    }
}
