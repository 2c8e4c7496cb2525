//! The highest rate at which connections are opened, used and closed with no more failures than the goal allows
//! (RFC 3511 sections 5.3, 5.4 and 5.7).

use super::axis::Axis;
use super::load_search::{Found, LoadSearch, Poll};
use super::parameters::{Key, LOSS_RATIO, SEARCH, WIDTH};
use super::times;
use super::{
    Asked, Flood, Guarded, Measured, Method, Preset, Procedure, ProcedureRow, ProcedureSpec, SearchSpec,
    Sends, Spec, Step, all_lost, mark,
};
use crate::connections::{CloseBy, ConnectionOutcome};
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::{Placement, Setup};
use crate::stats::median;
use crate::suite::{Factor, SetupProblem};
use crate::trial::{TrialOutcome, TrialRequest};

const P99_ESTABLISHMENT: Key = Key::number("p99_establishment", 0.000_001, 60.0);

pub(super) const OF_CONNECTIONS: ProcedureRow =
    row("connection-rate", CloseBy::Reset, |asked| spec(RateOf::Connections, asked));
pub(super) const OF_TRANSACTIONS: ProcedureRow =
    row("transaction-rate", CloseBy::Reset, |asked| spec(RateOf::Transactions, asked));
pub(super) const OF_TEARDOWNS: ProcedureRow =
    row("teardown-rate", CloseBy::Client, |asked| spec(RateOf::Teardowns, asked));

const fn row(name: &'static str, close: CloseBy, make: fn(&Asked<'_>) -> ProcedureSpec) -> ProcedureRow {
    ProcedureRow {
        name,
        older_name: None,
        sends: Sends::Connections { close },
        factors: &[Factor::Hold, Factor::Illegal, Factor::Attack],
        keys: &[&SEARCH, &LOSS_RATIO, &WIDTH, &P99_ESTABLISHMENT],
        make,
    }
}

fn spec(of: RateOf, asked: &Asked<'_>) -> ProcedureSpec {
    RateSpec {
        of,
        search: asked.given.search(Preset::Mlr, None),
        p99_establishment_seconds: asked.given.number(&P99_ESTABLISHMENT),
        pairs: asked.setup.traffic.flows,
        pair_taken_seconds: asked.setup.connections().map_or(0.0, |c| c.hold_seconds + c.reuse_seconds),
        legal_share: asked.legal_share(),
        flood: asked.beside.flood,
    }
    .into()
}

/// What is counted at the rate that a search finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateOf {
    /// Connections that did all that was asked of them: `ConnectionRate` and `EstablishmentTime`.
    Connections,
    /// Answers: `TransactionRate`.
    Transactions,
    /// Connections closed: `TeardownRate` and `TeardownTime`.
    Teardowns,
}

/// The highest rate of connections that meets the goal (RFC 3511 sections 5.3, 5.4, 5.7).
#[derive(Debug, Clone, PartialEq)]
pub struct RateSpec {
    /// What is counted.
    pub of: RateOf,
    /// The search; its loss ratio is a share of failed connections, its `max_load` is not used.
    pub search: SearchSpec,
    /// A trial in which the 99th percentile of the establishment time exceeds this many seconds does not pass, whatever
    /// its failures; > 0.
    pub p99_establishment_seconds: Option<f64>,
    /// Pairs of client address and port.
    pub pairs: u32,
    /// Seconds that a connection keeps its pair beside its own time: idle and at rest; 0 or more.
    pub pair_taken_seconds: f64,
    /// The share of all attempts that the policy allows, above 0 to 1; only those are counted in values and ledgers.
    pub legal_share: f64,
    /// A flood from the start to the end of every trial.
    pub flood: Option<Flood>,
}

impl Spec for RateSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        let search = LoadSearch::along(Axis::of_rate(self), &self.search, placement);
        Guarded::boxed(Rate { of: self.of, search }, placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        all_lost(metrics(self.of), marks)
    }

    /// Searches over connections need about as many trials as those over frames.
    fn typical_seconds(&self) -> f64 {
        self.search.typical_seconds()
    }

    fn check(&self, setup: &Setup) -> Result<(), SetupProblem> {
        let Some(shape) = setup.connections() else { return Ok(()) };
        let fin = matches!(shape.close, CloseBy::Client | CloseBy::ClientFourWay | CloseBy::Server);
        match self.of {
            RateOf::Transactions if shape.transactions == 0 => Err(SetupProblem::NoTransactions),
            RateOf::Teardowns if !fin => Err(SetupProblem::TornDownWithoutFin),
            _ => Ok(()),
        }
    }
}

struct Rate {
    of: RateOf,
    search: LoadSearch,
}

impl Rate {
    fn measured(&self, found: Found) -> Vec<Measured> {
        let counted = |count: fn(&ConnectionOutcome) -> u64| {
            let rates = found
                .deciding
                .iter()
                .filter_map(|outcome| Some(held(count(outcome.connections()?), outcome)));
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
            Some(value) => {
                Measured::found(*metric, value, found.deciding.clone(), found.marks.clone()).by(found.search)
            }
            None => Measured::lost(*metric, vec![mark(MarkKind::Note, "the trials have no connections")]),
        };
        metrics(self.of).iter().zip(values).map(measured).collect()
    }
}

/// A count a second at the rate that the firewall holds, which is lower than that of the trial where a queue took connections in.
pub(crate) fn held(count: u64, outcome: &TrialOutcome) -> f64 {
    count as f64 * outcome.held_rate() / outcome.ledger.received.max(1) as f64
}

/// What is measured, in the order in which it is given.
const fn metrics(of: RateOf) -> &'static [Metric] {
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
            Poll::Lost(marks) => Step::Done(all_lost(metrics(self.of), &marks)),
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
