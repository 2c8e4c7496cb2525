//! Which trials count, and which of their lost frames.

use super::conduct::{misconduct, remarks};
use super::{Method, Procedure, Step, mark};
use crate::connections::IllegalOutcome;
use crate::results::{Mark, MarkKind};
use crate::shape::Placement;
use crate::trial::{TrialOutcome, TrialRequest, WorkloadOutcome};

/// A generator that leaves out more than this share of the offered frames is behind its schedule.
pub const BEHIND_TOLERANCE: f64 = 0.001;

/// How often a trial is tried in all before its value is given up.
pub const MOST_ATTEMPTS: u32 = 3;

/// Why a trial must not count; empty for a good trial.
///
/// A generator behind its schedule is such a reason only where it does not share its core with the firewall
/// ([`Placement::Isolated`], and real cards): inline, being behind is what the firewall costs, and [`counted_loss`]
/// counts it.
///
/// Illegal traffic that got through, connections that the server did not serve, and frames that did not arrive as they were sent, are the
/// firewall's failure, so such a trial
/// is not even repeated.
pub fn judge(request: &TrialRequest, outcome: &TrialOutcome, placement: Placement) -> Vec<Mark> {
    let mut marks: Vec<Mark> =
        outcome.faults.iter().map(|fault| mark(MarkKind::Note, format!("trial failed: {fault}"))).collect();
    let ledger = &outcome.ledger;
    let what = counted(outcome);
    if ledger.residual() != 0 {
        let detail =
            format!("{} of {} offered {what} are unaccounted for", ledger.residual(), ledger.offered);
        marks.push(mark(MarkKind::LedgerUnbalanced, detail));
    }
    if ledger.offered == 0 {
        marks.push(mark(
            MarkKind::Note,
            format!("trial failed: no {} was offered", what.trim_end_matches('s')),
        ));
    }
    if placement == Placement::Isolated && request.is_paced() && is_behind(outcome) {
        let detail = format!("{} of {} {what} were not sent in time", ledger.not_sent, ledger.offered);
        marks.push(mark(MarkKind::GeneratorBehind, detail));
    }
    marks.extend(all_misconduct(outcome));
    marks
}

/// What the firewall did that no firewall may do, of whatever the trial was.
fn all_misconduct(outcome: &TrialOutcome) -> Vec<Mark> {
    let mut marks = got_through(outcome);
    marks.extend(outcome.policy_broken.clone());
    marks.extend(disagreements(outcome));
    marks.extend(misconduct(outcome));
    marks
}

impl TrialOutcome {
    /// Whether the firewall did what no firewall may do, which costs the value whatever disturbed the trial.
    pub fn shows_misconduct(&self) -> bool {
        !all_misconduct(self).is_empty()
    }
}

/// What the ledger counts.
fn counted(outcome: &TrialOutcome) -> &'static str {
    match outcome.workload {
        WorkloadOutcome::Frames(_) => "frames",
        WorkloadOutcome::Connections(_) => "connections",
        WorkloadOutcome::Bulk(_) => "bytes",
        WorkloadOutcome::Application(_) => "transactions",
    }
}

/// What clients and servers do not agree about.
fn disagreements(outcome: &TrialOutcome) -> Vec<Mark> {
    let served = outcome.connections().and_then(|connections| connections.served);
    let found = served.map(|served| served.disagreements()).unwrap_or_default();
    let of_application = outcome.application().map(|application| application.disagreements(&outcome.ledger));
    found
        .into_iter()
        .chain(of_application.unwrap_or_default())
        .map(|text| mark(MarkKind::NotServed, text))
        .collect()
}

/// `7 of 4000 illegal attempts got through: address 5, port 2`, and the same of those that the bench adds by itself.
fn got_through(outcome: &TrialOutcome) -> Vec<Mark> {
    let Some(connections) = outcome.connections() else { return Vec::new() };
    let suite = connections.illegal.as_ref().and_then(|illegal| passed(illegal, ""));
    let own = connections.forbidden.as_ref();
    let own = own.and_then(|forbidden| passed(forbidden, "the policy did not hold under load: "));
    suite.into_iter().chain(own).collect()
}

fn passed(illegal: &IllegalOutcome, lead: &str) -> Option<Mark> {
    let total = illegal.total_got_through();
    if total == 0 || !illegal.forbidden {
        return None;
    }
    let attempted: u64 = illegal.attempted.values().sum();
    let kinds: Vec<String> = illegal
        .got_through
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    let detail = format!("{lead}{total} of {attempted} illegal attempts got through: {}", kinds.join(", "));
    Some(mark(MarkKind::IllegalGotThrough, detail))
}

/// The share of the offered frames that counts as lost, 0 to 1. Frames not sent count (RFC 9971's forwarding ratio is of
/// the frames intended; it recommends to turn a severe difference between intended and offered load into loss) once they are more than
/// [`BEHIND_TOLERANCE`]: fewer are the grain of the generator's clock, not the firewall's doing.
pub fn counted_loss(outcome: &TrialOutcome) -> f64 {
    let ledger = &outcome.ledger;
    let offered = if is_behind(outcome) { ledger.offered } else { ledger.sent() };
    if offered == 0 { 0.0 } else { (1.0 - ledger.received as f64 / offered as f64).max(0.0) }
}

/// Frames/s handed to the link.
pub(super) fn sent_rate(outcome: &TrialOutcome) -> f64 {
    if outcome.seconds > 0.0 { outcome.ledger.sent() as f64 / outcome.seconds } else { 0.0 }
}

pub(super) fn is_behind(outcome: &TrialOutcome) -> bool {
    outcome.ledger.not_sent as f64 > BEHIND_TOLERANCE * outcome.ledger.offered as f64
}

/// Stands between the rig and a method: repeats trials that must not count, and gives up after [`MOST_ATTEMPTS`].
pub(super) struct Guarded<M> {
    method: M,
    placement: Placement,
    failed_attempts: u32,
    /// The highest rate sent in the failed attempts.
    best_rate: f64,
}

impl<M: Method + 'static> Guarded<M> {
    pub(super) fn boxed(method: M, placement: Placement) -> Box<dyn Procedure> {
        Box::new(Self { method, placement, failed_attempts: 0, best_rate: 0.0 })
    }

    fn failed(&mut self, outcome: &TrialOutcome, marks: Vec<Mark>) {
        self.failed_attempts += 1;
        self.best_rate = self.best_rate.max(sent_rate(outcome));
        let firewalls_fault = marks.iter().any(|m| m.kind.is_misconduct());
        if self.failed_attempts < MOST_ATTEMPTS && !firewalls_fault {
            return;
        }
        let behind_only = marks.iter().all(|m| m.kind == MarkKind::GeneratorBehind);
        if !(behind_only && self.method.lower_maximum(self.best_rate)) {
            self.method.give_up(marks);
        }
        self.start_over();
    }

    fn start_over(&mut self) {
        self.failed_attempts = 0;
        self.best_rate = 0.0;
    }
}

impl<M: Method + 'static> Procedure for Guarded<M> {
    fn next(&mut self) -> Step {
        let mut step = self.method.next();
        if let Step::Done(values) = &mut step {
            for value in values {
                value.marks.extend(remarks(&value.deciding));
            }
        }
        step
    }

    fn record(&mut self, request: &TrialRequest, outcome: &TrialOutcome) {
        let marks = judge(request, outcome, self.placement);
        if marks.is_empty() {
            self.start_over();
            self.method.record(request, outcome);
        } else {
            self.failed(outcome, marks);
        }
    }
}
