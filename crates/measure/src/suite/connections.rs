//! The factors that only connections have, and what of them cannot go together.

use super::setup_problem::SetupProblem;
use crate::connections::{CloseBy, ConnectionShape, Illegal, IllegalKind, TupleOrder};
use crate::procedure::ProcedureKind;

/// One level for every factor of connections.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ConnectionLevels {
    pub(super) transactions: u16,
    pub(super) answer_bytes: u32,
    pub(super) close: CloseBy,
    pub(super) order: TupleOrder,
    pub(super) hold_seconds: f64,
    pub(super) reuse_seconds: f64,
    pub(super) illegal: Option<Illegal>,
}

impl ConnectionLevels {
    /// What a connection is like. Where a trial opens connections and holds them, the load says for how long.
    pub(super) fn shape(&self, kind: ProcedureKind) -> ConnectionShape {
        ConnectionShape {
            transactions: self.transactions,
            answer_bytes: self.answer_bytes,
            close: self.close,
            order: self.order,
            hold_seconds: if kind.holds_open() { 0.0 } else { self.hold_seconds },
            reuse_seconds: self.reuse_seconds,
            illegal: self.illegal.clone(),
        }
    }

    /// `rules`, `stateful` and `listed` are the policy's.
    pub(super) fn check(&self, rules: u32, stateful: bool, listed: u32) -> Result<(), SetupProblem> {
        if self.close == CloseBy::Server && (self.transactions == 0 || self.hold_seconds > 0.0) {
            return Err(SetupProblem::ServerClosesNothing);
        }
        self.check_illegal(rules, stateful, listed)
    }

    fn check_illegal(&self, rules: u32, stateful: bool, listed: u32) -> Result<(), SetupProblem> {
        use IllegalKind::{Ack, Fin, Listed, OutOfWindow, Rst};
        let Some(illegal) = &self.illegal else { return Ok(()) };
        if rules == 0 {
            return Err(SetupProblem::IllegalWithoutRules);
        }
        if illegal.kinds.contains(&Listed) && listed == 0 {
            return Err(SetupProblem::ListedWithoutLists);
        }
        let by_state = |kind: &&IllegalKind| matches!(kind, Ack | Rst | Fin | OutOfWindow);
        match illegal.kinds.iter().find(by_state) {
            Some(kind) if !stateful => Err(SetupProblem::IllegalWithoutState(kind.name())),
            _ => Ok(()),
        }
    }
}
