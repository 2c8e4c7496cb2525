//! The most connections open at once, each proved by a request after all are open (RFC 3511 section 5.2).

use super::axis::Axis;
use super::load_search::{LoadSearch, Poll};
use super::parameters::{DEFAULT_RATE, Key, LOSS_RATIO, OPENING_RATE, SEARCH, WIDTH};
use super::{Guarded, Measured, Method, Preset, Procedure, ProcedureRow, SearchSpec, Sends, Spec, Step};
use crate::connections::CloseBy;
use crate::results::{Mark, Metric};
use crate::shape::Placement;
use crate::suite::{Factor, MAX_CONNECTIONS as MOST};
use crate::trial::{TrialOutcome, TrialRequest, trials};

pub(super) const MAX_CONNECTIONS: Key = Key::integer("max_connections", 2, MOST as u64);

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "connection-capacity",
    older_name: None,
    sends: Sends::Connections { close: CloseBy::Hold },
    factors: &[Factor::Hold, Factor::Illegal],
    keys: &[&SEARCH, &LOSS_RATIO, &WIDTH, &MAX_CONNECTIONS, &OPENING_RATE],
    make: |asked| {
        let (given, pairs) = (asked.given, u64::from(asked.setup.traffic.flows));
        CapacitySpec {
            search: given.search(Preset::Rfc2544, None),
            max_connections: given.integer(&MAX_CONNECTIONS).map_or(pairs, |most| most.min(pairs)),
            opening_rate: given.number(&OPENING_RATE).unwrap_or(DEFAULT_RATE),
            hold_seconds: asked.beside.hold_seconds,
            legal_share: asked.legal_share(),
        }
        .into()
    },
};

/// The most connections open at once, each proved by a request (RFC 3511 section 5.2). Yields `ConcurrentConnections`.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacitySpec {
    /// The search over numbers of connections; its `max_load` is not used.
    pub search: SearchSpec,
    /// The most that are tried, at least 2.
    pub max_connections: u64,
    /// Attempts a second while they are opened.
    pub opening_rate: f64,
    /// Seconds that they stay open and idle before the proof, 0 or more.
    pub hold_seconds: f64,
    /// The share of all attempts that the policy allows, above 0 to 1; only those are counted in values and ledgers.
    pub legal_share: f64,
}

impl Spec for CapacitySpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        // One number decides about one trial, however long its opening takes: the search's seconds are weights alone.
        let search = SearchSpec { max_load: Some(self.max_connections as f64), ..self.search.clone() };
        let search = LoadSearch::along(Axis::of_capacity(self), &search, placement);
        Guarded::boxed(Capacity { search }, placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        vec![Measured::lost(Metric::ConcurrentConnections, marks.to_vec())]
    }

    /// The first trial asks for the most, and often gets it; another may follow.
    fn typical_seconds(&self) -> f64 {
        let opening = self.max_connections as f64 / self.legal_share / self.opening_rate;
        trials(1.5, opening + self.hold_seconds)
    }
}

struct Capacity {
    search: LoadSearch,
}

/// Its maximum is not lowered: a generator that opens connections too slowly opens fewer of them too slowly as well.
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
            )
            .by(found.search),
        };
        Step::Done(vec![measured])
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        self.search.takes(outcome);
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.search.give_up(marks);
    }
}
