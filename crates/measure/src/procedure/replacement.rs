//! A policy replaced under load: how long until the new one holds, and how many connections fail meanwhile.

use super::{Measured, Method, ReplacementSpec, Step, mark};
use crate::connections::{ConnectionRequest, RatePhase, ReplacementOutcome};
use crate::results::{Mark, MarkKind, Metric};
use crate::trial::{TrialOutcome, TrialRequest};

pub(super) const METRICS: [Metric; 2] = [Metric::ReplacementTime, Metric::ReplacementFailures];

pub(super) struct Replacement {
    spec: ReplacementSpec,
    measured: Option<Vec<Measured>>,
}

impl Replacement {
    pub(super) fn new(spec: ReplacementSpec) -> Self {
        Self { spec, measured: None }
    }
}

impl Method for Replacement {
    fn next(&mut self) -> Step {
        if let Some(measured) = &self.measured {
            return Step::Done(measured.clone());
        }
        let request = ConnectionRequest::Scheduled {
            phases: vec![RatePhase::constant(self.spec.connection_rate, self.spec.trial_seconds)],
            attack: None,
            replace_after_seconds: Some(self.spec.replace_after_seconds),
        };
        Step::Trial(request.into())
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        let replacement = outcome.connections().and_then(|connections| connections.replacement.as_ref());
        let Some(replacement) = replacement else {
            return self.give_up(vec![mark(MarkKind::Note, "the policy was not replaced")]);
        };
        let note = mark(MarkKind::Note, described(replacement));
        let time = match replacement.holds_after_seconds {
            Some(seconds) => {
                Measured::found(Metric::ReplacementTime, seconds, vec![outcome.clone()], vec![note.clone()])
            }
            None => {
                let seen = self.spec.trial_seconds - self.spec.replace_after_seconds;
                let detail = format!("the old policy still held {seen} s after the order to replace it");
                Measured::lost(Metric::ReplacementTime, vec![mark(MarkKind::FirewallFailed, detail)])
            }
        };
        let failed = outcome.ledger.offered.saturating_sub(outcome.ledger.received) as f64;
        let failures =
            Measured::found(Metric::ReplacementFailures, failed, vec![outcome.clone()], vec![note]);
        self.measured = Some(vec![time, failures]);
    }

    fn lower_maximum(&mut self, _rate: f64) -> bool {
        false
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        self.measured = Some(METRICS.map(|metric| Measured::lost(metric, marks.clone())).into());
    }
}

fn described(replacement: &ReplacementOutcome) -> String {
    format!(
        "the firewall's command took {:.3} s; {} of {} probes were judged by neither policy",
        replacement.command_seconds, replacement.by_neither, replacement.probes
    )
}
