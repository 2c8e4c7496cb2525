//! The highest rate at which connections are opened, used and closed with no more failures than the goal allows
//! (RFC 3511 sections 5.3, 5.4 and 5.7).

use super::axis::Axis;
use super::load_search::{Found, LoadSearch, Poll};
use super::times;
use super::{Measured, Method, RateOf, RateSpec, Step, mark};
use crate::connections::ConnectionOutcome;
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::Placement;
use crate::stats::median;
use crate::trial::{TrialOutcome, TrialRequest};

pub(super) struct Rate {
    of: RateOf,
    search: LoadSearch,
}

impl Rate {
    pub(super) fn new(spec: &RateSpec, placement: Placement) -> Self {
        Self { of: spec.of, search: LoadSearch::along(Axis::of_rate(spec), &spec.search, placement) }
    }

    fn measured(&self, found: Found) -> Vec<Measured> {
        let counted = |count: fn(&ConnectionOutcome) -> u64| {
            let rates = found
                .deciding
                .iter()
                .filter_map(|outcome| Some(count(outcome.connections()?) as f64 / outcome.seconds));
            median(&rates.collect::<Vec<f64>>())
        };
        let values = match self.of {
            RateOf::Connections => vec![Some(found.throughput), times::establishment(&found.deciding)],
            RateOf::Transactions => vec![counted(|connections| connections.transactions)],
            RateOf::Teardowns => {
                vec![counted(|connections| connections.closed), times::teardown(&found.deciding)]
            }
        };
        let measured = |(metric, value): (&Metric, Option<f64>)| match value {
            Some(value) => Measured::found(*metric, value, found.deciding.clone(), found.marks.clone()),
            None => {
                Measured::lost(*metric, vec![mark(MarkKind::Note, "the trials told nothing of connections")])
            }
        };
        metrics(self.of).iter().zip(values).map(measured).collect()
    }
}

/// What is measured, in the order in which it is given.
pub(super) const fn metrics(of: RateOf) -> &'static [Metric] {
    match of {
        RateOf::Connections => &[Metric::ConnectionRate, Metric::EstablishmentTime],
        RateOf::Transactions => &[Metric::TransactionRate],
        RateOf::Teardowns => &[Metric::TeardownRate, Metric::TeardownTime],
    }
}

impl Method for Rate {
    fn next(&mut self) -> Step {
        match self.search.poll() {
            Poll::Trial(request) => Step::Trial(request),
            Poll::Lost(marks) => {
                let lost = |metric: &Metric| Measured::lost(*metric, marks.clone());
                Step::Done(metrics(self.of).iter().map(lost).collect())
            }
            Poll::Found(found) => Step::Done(self.measured(*found)),
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
