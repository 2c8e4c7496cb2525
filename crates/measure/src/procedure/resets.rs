//! Resets against connections that are held open (EANTC 2001): those that nobody at the connection's ends can have sent must
//! close nothing, and the client's own must close its connection.

use super::{Measured, Method, ResetsSpec, Step, mark};
use crate::connections::{self, ConnectionRequest, ResetKind, ResetOutcome};
use crate::results::{Mark, MarkKind, Metric};
use crate::trial::{TrialOutcome, TrialRequest};

/// One trial each, in this order.
pub(super) const KINDS: [ResetKind; 3] =
    [ResetKind::OutsideWindow, ResetKind::InsideWindow, ResetKind::Legitimate];

pub(super) struct Resets {
    spec: ResetsSpec,
    /// As many as there were trials.
    measured: Vec<Measured>,
}

impl Resets {
    pub(super) fn new(spec: ResetsSpec) -> Self {
        Self { spec, measured: Vec::new() }
    }

    fn request(&self, kind: ResetKind) -> TrialRequest {
        let ResetsSpec { connections, opening_rate, each, resets_per_second } = self.spec;
        let resets = Some(connections::Resets { kind, each, per_second: resets_per_second });
        ConnectionRequest::Held { connections, opening_rate, hold_seconds: 0.0, resets }.into()
    }
}

/// The value of a kind that could not be had.
pub(super) fn lost(kind: ResetKind, marks: Vec<Mark>) -> Measured {
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

    fn lower_maximum(&mut self, _rate: f64) -> bool {
        false
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
