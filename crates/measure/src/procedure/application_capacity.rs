//! The most connections of applications that are open at once and still carry transactions (RFC 9411 sections 7.5 and 7.9): each has one
//! when it is opened, others after its think times, and a last one after all were open.

use super::axis::Axis;
use super::capacity::MAX_CONNECTIONS;
use super::load_search::{LoadSearch, Poll};
use super::parameters::{Key, LOSS_RATIO, OPENING_RATE, SEARCH, WIDTH};
use super::transactions::{DEFAULT_LIMIT_SECONDS, TRANSACTION_LIMIT};
use super::{Guarded, Measured, Method, Preset, Procedure, ProcedureRow, SearchSpec, Sends, Spec, Step};
use crate::application::PAIRS;
use crate::held_open::{HeldOpen, HeldOutcome};
use crate::results::{Mark, Metric};
use crate::shape::{Placement, Setup, Workload};
use crate::suite::{Factor, SetupProblem};
use crate::trial::{TrialOutcome, TrialRequest, trials};

/// Connections that are tried unless the suite says otherwise: what two cores hold at both ends in some seconds.
const DEFAULT_CONNECTIONS: u64 = 10_000;
/// Connections a second while they are opened, unless the suite says otherwise: what one core opens at both ends by HTTPS.
const DEFAULT_OPENING_RATE: f64 = 500.0;

const THINK_SECONDS: Key = Key::seconds("think_seconds");

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "application-capacity",
    older_name: None,
    sends: Sends::Application,
    factors: &[Factor::Protocol, Factor::Object, Factor::Offloads],
    keys: &[
        &SEARCH,
        &LOSS_RATIO,
        &WIDTH,
        &MAX_CONNECTIONS,
        &OPENING_RATE,
        &THINK_SECONDS,
        &TRANSACTION_LIMIT,
    ],
    make: |asked| {
        let given = asked.given;
        ApplicationCapacitySpec {
            search: given.search(Preset::Rfc2544, None),
            max_connections: given.integer(&MAX_CONNECTIONS).unwrap_or(DEFAULT_CONNECTIONS),
            opening_rate: given.number(&OPENING_RATE).unwrap_or(DEFAULT_OPENING_RATE),
            hold_seconds: given.trial_seconds(),
            think_seconds: given.number(&THINK_SECONDS),
            limit_seconds: given.number(&TRANSACTION_LIMIT).unwrap_or(DEFAULT_LIMIT_SECONDS),
        }
        .into()
    },
};

/// The most connections of applications open at once, each proved by a transaction after all were open. Yields `ConcurrentConnections`.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationCapacitySpec {
    /// The search over numbers of connections; its `max_load` is not used.
    pub search: SearchSpec,
    /// The most that are tried, 2 to [`PAIRS`].
    pub max_connections: u64,
    /// Connections a second while they are opened and closed.
    pub opening_rate: f64,
    /// Seconds in which all are open.
    pub hold_seconds: f64,
    /// Seconds between two transactions of a connection; `None`: a tenth of opening and holding.
    pub think_seconds: Option<f64>,
    /// Seconds after which a transaction has failed, > 0.
    pub limit_seconds: f64,
}

impl ApplicationCapacitySpec {
    /// Why no more connections are tried: the firewall holds at least as many, and nobody asked further.
    pub(super) fn why_no_more(&self) -> String {
        if self.max_connections == u64::from(PAIRS) {
            "the bench's clients have no more addresses and ports".to_owned()
        } else {
            "the suite asks for no more (`max_connections`)".to_owned()
        }
    }

    fn at_most(&self) -> HeldOpen {
        HeldOpen {
            connections: self.max_connections,
            opening_rate: self.opening_rate,
            hold_seconds: self.hold_seconds,
            think_seconds: self.think_seconds,
        }
    }
}

impl Spec for ApplicationCapacitySpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        // One number decides about one trial: the search's seconds are weights alone.
        let search = SearchSpec { max_load: Some(self.max_connections as f64), ..self.search.clone() };
        let search = LoadSearch::along(Axis::of_held_applications(self), &search, placement);
        Guarded::boxed(ApplicationCapacity { search }, placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        vec![Measured::lost(Metric::ConcurrentConnections, marks.to_vec())]
    }

    /// The first trial asks for the most, and often gets it; another may follow.
    fn typical_seconds(&self) -> f64 {
        trials(1.5, self.at_most().seconds())
    }

    fn check(&self, setup: &Setup) -> Result<(), SetupProblem> {
        if self.max_connections > u64::from(PAIRS) {
            return Err(SetupProblem::HeldBeyondPorts(self.max_connections));
        }
        match &setup.workload {
            Workload::Application(shape) if !shape.protocol.keeps_alive() => Err(SetupProblem::NotHeldOpen),
            _ => Ok(()),
        }
    }
}

struct ApplicationCapacity {
    search: LoadSearch,
}

/// Its maximum is not lowered for a late trial: a machine that opens connections too slowly opens fewer of them too slowly as well.
impl Method for ApplicationCapacity {
    fn next(&mut self) -> Step {
        let metric = Metric::ConcurrentConnections;
        let measured = match self.search.poll() {
            Poll::Trial(request) => return Step::Trial(request),
            Poll::Lost(marks) => Measured::lost(metric, marks),
            Poll::Found(found) => {
                Measured::found(metric, found.throughput.floor(), found.deciding, found.marks)
                    .by(found.search)
            }
        };
        Step::Done(vec![measured])
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        let held = outcome.application().and_then(|application| application.held.as_deref());
        // A trial of fewer than were asked for is one of as many as this machine can have.
        if let Some(HeldOutcome { asked, limited_by: Some(why), .. }) = held {
            self.search.bound_by_bench(*asked as f64, why.clone());
        }
        self.search.takes(outcome);
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.search.give_up(marks);
    }
}
