//! The most connections open at once, each proved by a request after all are open (RFC 3511 section 5.2).

use super::axis::Axis;
use super::load_search::{LoadSearch, Poll};
use super::{CapacitySpec, Measured, Method, SearchSpec, Step};
use crate::results::{Mark, Metric};
use crate::shape::Placement;
use crate::trial::{TrialOutcome, TrialRequest};

pub(super) struct Capacity {
    search: LoadSearch,
}

impl Capacity {
    pub(super) fn new(spec: &CapacitySpec, placement: Placement) -> Self {
        // One number decides about one trial, however long its opening takes: the search's seconds are weights alone.
        let search = SearchSpec { max_load: Some(spec.max_connections as f64), ..spec.search.clone() };
        Self { search: LoadSearch::along(Axis::of_capacity(spec), &search, placement) }
    }
}

impl Method for Capacity {
    fn next(&mut self) -> Step {
        let measured = match self.search.poll() {
            Poll::Trial(request) => return Step::Trial(request),
            Poll::Lost(marks) => Measured::lost(Metric::ConcurrentConnections, marks),
            Poll::Found(found) => Measured::found(
                Metric::ConcurrentConnections,
                found.throughput.floor(),
                found.deciding,
                found.marks,
            ),
        };
        Step::Done(vec![measured])
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        self.search.takes(outcome);
    }

    /// A generator that opens connections too slowly opens fewer of them too slowly as well.
    fn lower_maximum(&mut self, _rate: f64) -> bool {
        false
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.search.give_up(marks);
    }
}
