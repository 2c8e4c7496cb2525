//! Resets against connections that are held open (EANTC 2001): those that nobody at the connection's ends can have sent must
//! close nothing, and the client's own must close its connection.

use super::parameters::{DEFAULT_RATE, Key, OPENING_RATE};
use super::{Guarded, Measured, Method, Procedure, ProcedureRow, Sends, Spec, Step, mark};
use crate::connections::{self, CloseBy, ConnectionRequest, ResetKind, ResetOutcome};
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::{Placement, Setup};
use crate::suite::{Factor, SetupProblem};
use crate::trial::{TrialOutcome, TrialRequest, trials};

/// One trial each, in this order.
pub(super) const KINDS: [ResetKind; 3] =
    [ResetKind::OutsideWindow, ResetKind::InsideWindow, ResetKind::Legitimate];

const RESETS_EACH: Key = Key::integer("resets_each", 1, 1000);
const RESETS_RATE: Key = Key::rate("resets_rate");

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "resets",
    older_name: None,
    sends: Sends::Connections { close: CloseBy::Hold },
    factors: &[Factor::Connections],
    keys: &[&OPENING_RATE, &RESETS_EACH, &RESETS_RATE],
    make: |asked| {
        let given = asked.given;
        ResetsSpec {
            connections: asked.beside.connections.into(),
            opening_rate: given.number(&OPENING_RATE).unwrap_or(DEFAULT_RATE),
            each: given.count(&RESETS_EACH),
            resets_per_second: given.number(&RESETS_RATE).unwrap_or(DEFAULT_RATE),
        }
        .into()
    },
};

/// Resets against open connections (EANTC 2001). Yields `Surviving` with the extra factor `resets` (`outside-window`,
/// `inside-window`), and `ClosedByReset` with `legitimate`.
#[derive(Debug, Clone, PartialEq)]
pub struct ResetsSpec {
    /// Connections.
    pub connections: u64,
    /// Connections a second while they are opened.
    pub opening_rate: f64,
    /// Resets against each connection and direction, at least 1.
    pub each: u32,
    /// Resets a second, all connections together.
    pub resets_per_second: f64,
}

impl Spec for ResetsSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Resets { spec: self.clone(), measured: Vec::new() }, placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        KINDS.map(|kind| lost(kind, marks.to_vec())).into()
    }

    fn typical_seconds(&self) -> f64 {
        let sent = self.connections as f64 * f64::from(self.each) * 2.0;
        trials(3.0, self.connections as f64 / self.opening_rate + sent / self.resets_per_second)
    }

    fn check(&self, setup: &Setup) -> Result<(), SetupProblem> {
        SetupProblem::if_too_many_held(self.connections, setup)
    }
}

struct Resets {
    spec: ResetsSpec,
    /// As many as there were trials.
    measured: Vec<Measured>,
}

impl Resets {
    fn request(&self, kind: ResetKind) -> TrialRequest {
        let ResetsSpec { connections, opening_rate, each, resets_per_second } = self.spec;
        let resets = Some(connections::Resets { kind, each, per_second: resets_per_second });
        ConnectionRequest::Held { connections, opening_rate, hold_seconds: 0.0, resets }.into()
    }
}

/// The value of a kind that could not be had.
fn lost(kind: ResetKind, marks: Vec<Mark>) -> Measured {
    Measured::lost(metric(kind), marks).at("resets", kind.name())
}

fn metric(kind: ResetKind) -> Metric {
    if kind == ResetKind::Legitimate { Metric::ClosedByReset } else { Metric::Surviving }
}

impl Method for Resets {
    fn next(&mut self) -> Step {
        match KINDS.get(self.measured.len()) {
            Some(kind) => Step::Trial(self.request(*kind)),
            None => Step::Done(self.measured.clone()),
        }
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        let Some(kind) = KINDS.get(self.measured.len()) else { return };
        self.measured.push(measured(*kind, outcome));
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        if let Some(kind) = KINDS.get(self.measured.len()) {
            self.measured.push(lost(*kind, marks));
        }
    }
}

fn measured(kind: ResetKind, outcome: &TrialOutcome) -> Measured {
    let resets = outcome.connections().and_then(|connections| connections.resets);
    let Some(ResetOutcome { open, sent, forwarded, alive }) = resets.filter(|resets| resets.open > 0) else {
        return lost(kind, vec![mark(MarkKind::Note, "no connection was open when the resets were due")]);
    };
    let surviving = alive as f64 / open as f64;
    let value = if kind == ResetKind::Legitimate { 1.0 - surviving } else { surviving };
    let detail =
        format!("{sent} resets against {open} connections, {forwarded} of which arrived at the other end");
    Measured::found(metric(kind), value, vec![outcome.clone()], vec![mark(MarkKind::Note, detail)])
        .at("resets", kind.name())
}
