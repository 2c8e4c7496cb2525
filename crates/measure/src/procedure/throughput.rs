//! Throughput and goodput (RFC 2544 section 26.1; goodput in bits received, RFC 2647 section 3.17).

use super::load_search::{LoadSearch, Poll};
use super::{Measured, Method, Step, ThroughputSpec};
use crate::results::{Mark, Metric};
use crate::shape::Placement;
use crate::stats::median;
use crate::trial::{TrialOutcome, TrialRequest};

pub(super) struct Throughput {
    search: LoadSearch,
}

impl Throughput {
    pub(super) fn new(spec: &ThroughputSpec, placement: Placement) -> Self {
        Self { search: LoadSearch::new(&spec.search, placement) }
    }
}

impl Method for Throughput {
    fn next(&mut self) -> Step {
        match self.search.poll() {
            Poll::Trial(request) => Step::Trial(request),
            Poll::Lost(marks) => Step::Done(
                [Metric::Throughput, Metric::Goodput]
                    .map(|metric| Measured::lost(metric, marks.clone()))
                    .into(),
            ),
            Poll::Found(found) => {
                let bits = found.deciding.iter().map(|o| o.received_bits() as f64 / o.seconds);
                let goodput = median(&bits.collect::<Vec<f64>>()).unwrap_or(0.0);
                let measured = |metric, value| {
                    Measured::found(metric, value, found.deciding.clone(), found.marks.clone())
                };
                Step::Done(vec![
                    measured(Metric::Throughput, found.throughput),
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
