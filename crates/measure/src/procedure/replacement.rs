//! A policy replaced under load: how long until the new one holds, and how many connections fail meanwhile.

use super::once::{Once, OneTrial};
use super::parameters::{CONNECTION_RATE, DEFAULT_RATE, Key};
use super::{Guarded, Measured, Procedure, ProcedureRow, Sends, Spec, all_lost, mark};
use crate::connections::{CloseBy, ConnectionRequest, RatePhase, ReplacementOutcome};
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::{Placement, Setup};
use crate::suite::{Factor, SetupProblem};
use crate::trial::{TrialOutcome, TrialRequest, trials};

const REPLACE_AFTER_SECONDS: Key = Key::seconds("replace_after_seconds");

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "replacement",
    older_name: None,
    sends: Sends::Connections { close: CloseBy::Reset },
    factors: &[Factor::Hold, Factor::Illegal],
    keys: &[&CONNECTION_RATE, &REPLACE_AFTER_SECONDS],
    make: |asked| {
        let (given, trial_seconds) = (asked.given, asked.given.trial_seconds());
        ReplacementSpec {
            connection_rate: given.number(&CONNECTION_RATE).unwrap_or(DEFAULT_RATE),
            trial_seconds,
            replace_after_seconds: given.number(&REPLACE_AFTER_SECONDS).unwrap_or(trial_seconds / 3.0),
            legal_share: asked.legal_share(),
        }
        .into()
    },
};

/// The policy replaced under load. Yields `ReplacementTime` and `ReplacementFailures`.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplacementSpec {
    /// Attempts a second.
    pub connection_rate: f64,
    /// Seconds of the trial.
    pub trial_seconds: f64,
    /// Seconds from its start to the replacement, less than `trial_seconds`.
    pub replace_after_seconds: f64,
    /// The share of all attempts that the policy allows, above 0 to 1; only those are counted in values and ledgers.
    pub legal_share: f64,
}

impl Spec for ReplacementSpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Once::new(self.clone()), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        all_lost(&[Metric::ReplacementTime, Metric::ReplacementFailures], marks)
    }

    fn typical_seconds(&self) -> f64 {
        trials(1.0, self.trial_seconds)
    }

    fn check(&self, setup: &Setup) -> Result<(), SetupProblem> {
        let (after, trial) = (self.replace_after_seconds, self.trial_seconds);
        if after >= trial {
            return Err(SetupProblem::ReplacedTooLate { after, trial });
        }
        SetupProblem::if_pairs_run_out(self.connection_rate * self.legal_share, trial, setup)
    }

    fn replaces_the_policy(&self) -> bool {
        true
    }
}

impl OneTrial for ReplacementSpec {
    fn request(&self) -> TrialRequest {
        ConnectionRequest::Scheduled {
            phases: vec![RatePhase::constant(self.connection_rate, self.trial_seconds)],
            attack: None,
            replace_after_seconds: Some(self.replace_after_seconds),
        }
        .into()
    }

    fn values(&self, outcome: &TrialOutcome) -> Vec<Measured> {
        let replacement = outcome.connections().and_then(|connections| connections.replacement.as_ref());
        let Some(replacement) = replacement else {
            return self.lost(&[mark(MarkKind::Note, "the policy was not replaced")]);
        };
        let note = mark(MarkKind::Note, described(replacement));
        let time = match replacement.holds_after_seconds {
            Some(seconds) => {
                Measured::found(Metric::ReplacementTime, seconds, vec![outcome.clone()], vec![note.clone()])
            }
            None => {
                let seen = self.trial_seconds - self.replace_after_seconds;
                let detail = format!("the old policy still held {seen} s after the order to replace it");
                Measured::lost(Metric::ReplacementTime, vec![mark(MarkKind::FirewallFailed, detail)])
            }
        };
        let failed = outcome.ledger.offered.saturating_sub(outcome.ledger.received) as f64;
        let failures =
            Measured::found(Metric::ReplacementFailures, failed, vec![outcome.clone()], vec![note]);
        vec![time, failures]
    }
}

fn described(replacement: &ReplacementOutcome) -> String {
    format!(
        "the firewall's command took {:.3} s; {} of {} probes were judged by neither policy",
        replacement.command_seconds, replacement.by_neither, replacement.probes
    )
}
