//! Recovery: after overload (RFC 2544 section 26.5) and after a reset (section 26.6).

use super::load_search::{Found, LoadSearch, Poll};
use super::parameters::{Key, LOSS_RATIO, SEARCH, WIDTH};
use super::{
    Guarded, Measured, Method, Preset, Procedure, ProcedureRow, SearchSpec, Sends, Spec, Step, mark,
};
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::Placement;
use crate::trial::{FrameRequest, Load, Phase, TrialOutcome, TrialRequest, trials};

/// Overload as a multiple of the throughput.
const OVERLOAD: f64 = 1.1;
/// The load after it, as a share of the overload.
const REDUCED: f64 = 0.5;
/// A recovery that takes more than this share of the time in which it could be seen may not have ended.
const NEARLY_ALL: f64 = 0.98;

const OVERLOAD_SECONDS: Key = Key::seconds("overload_seconds");
const RECOVERY_SECONDS: Key = Key::seconds("recovery_seconds");
const RESET_AFTER_SECONDS: Key = Key::seconds("reset_after_seconds");

pub(super) const AFTER_OVERLOAD: ProcedureRow = ProcedureRow {
    name: "overload-recovery",
    older_name: None,
    sends: Sends::Frames,
    factors: &[],
    keys: &[&SEARCH, &LOSS_RATIO, &WIDTH, &OVERLOAD_SECONDS, &RECOVERY_SECONDS],
    make: |asked| {
        let given = asked.given;
        OverloadRecoverySpec {
            overload_seconds: given.number(&OVERLOAD_SECONDS).unwrap_or(given.trial_seconds()),
            recovery_seconds: given.number(&RECOVERY_SECONDS).unwrap_or(given.trial_seconds()),
            search: given.search(Preset::Mlr, asked.link_rate()),
        }
        .into()
    },
};

pub(super) const AFTER_RESET: ProcedureRow = ProcedureRow {
    name: "reset-recovery",
    older_name: None,
    sends: Sends::Frames,
    factors: &[],
    keys: &[&SEARCH, &LOSS_RATIO, &WIDTH, &RECOVERY_SECONDS, &RESET_AFTER_SECONDS],
    make: |asked| {
        let given = asked.given;
        let reset_after_seconds = given.number(&RESET_AFTER_SECONDS).unwrap_or(given.trial_seconds());
        ResetRecoverySpec {
            reset_after_seconds,
            trial_seconds: reset_after_seconds
                + given.number(&RECOVERY_SECONDS).unwrap_or(given.trial_seconds()),
            search: given.search(Preset::Mlr, asked.link_rate()),
        }
        .into()
    },
};

/// System recovery after overload (RFC 2544 section 26.5): 110 % of the throughput, then 50 % of that. Yields `Recovery`.
#[derive(Debug, Clone, PartialEq)]
pub struct OverloadRecoverySpec {
    /// Seconds of overload, > 0; the RFC asks for at least 60.
    pub overload_seconds: f64,
    /// Seconds of reduced load that follow, > 0: the longest recovery that can be seen.
    pub recovery_seconds: f64,
    /// The search for the throughput.
    pub search: SearchSpec,
}

/// Reset (RFC 2544 section 26.6): the firewall is reset under load. Yields `Recovery`.
#[derive(Debug, Clone, PartialEq)]
pub struct ResetRecoverySpec {
    /// Seconds from the start of the trial to the reset, > 0.
    pub reset_after_seconds: f64,
    /// Seconds of the trial in all, longer than `reset_after_seconds` by the longest recovery that can be seen.
    pub trial_seconds: f64,
    /// The search for the throughput, which is the load during the reset.
    pub search: SearchSpec,
}

impl Spec for OverloadRecoverySpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Recovery::new(Kind::Overload(self.clone()), &self.search, placement), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        vec![Measured::lost(Metric::Recovery, marks.to_vec())]
    }

    fn typical_seconds(&self) -> f64 {
        self.search.typical_seconds() + trials(1.0, self.overload_seconds + self.recovery_seconds)
    }
}

impl Spec for ResetRecoverySpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Recovery::new(Kind::Reset(self.clone()), &self.search, placement), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        vec![Measured::lost(Metric::Recovery, marks.to_vec())]
    }

    fn typical_seconds(&self) -> f64 {
        self.search.typical_seconds() + trials(1.0, self.trial_seconds)
    }
}

enum Kind {
    Overload(OverloadRecoverySpec),
    Reset(ResetRecoverySpec),
}

struct Recovery {
    kind: Kind,
    search: LoadSearch,
    measured: Option<Measured>,
}

impl Recovery {
    fn new(kind: Kind, search: &SearchSpec, placement: Placement) -> Self {
        Self { kind, search: LoadSearch::new(search, placement), measured: None }
    }

    fn request(&self, found: &Found) -> TrialRequest {
        let phase = |load, seconds| Phase { load: Load::PerSecond(load), seconds };
        match &self.kind {
            Kind::Overload(spec) => {
                let overload = (found.throughput * OVERLOAD).min(found.max_load);
                FrameRequest::of(vec![
                    phase(overload, spec.overload_seconds),
                    phase(overload * REDUCED, spec.recovery_seconds),
                ])
                .into()
            }
            Kind::Reset(spec) => FrameRequest {
                reset_after_seconds: Some(spec.reset_after_seconds),
                ..FrameRequest::of(vec![phase(found.throughput, spec.trial_seconds)]).for_times()
            }
            .into(),
        }
    }
}

impl Method for Recovery {
    fn next(&mut self) -> Step {
        if let Some(measured) = &self.measured {
            return Step::Done(vec![measured.clone()]);
        }
        match self.search.poll() {
            Poll::Trial(request) => Step::Trial(request),
            Poll::Lost(marks) => Step::Done(vec![Measured::lost(Metric::Recovery, marks)]),
            Poll::Found(found) => Step::Trial(self.request(&found)),
        }
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        if !self.search.takes(outcome) {
            self.measured = Some(match &self.kind {
                Kind::Overload(spec) => overload_recovery(spec, outcome),
                Kind::Reset(spec) => reset_recovery(spec, outcome),
            });
        }
    }

    fn lower_maximum(&mut self, rate: f64) -> bool {
        self.search.lower_maximum(rate)
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        if !self.search.give_up(marks.clone()) {
            self.measured = Some(Measured::lost(Metric::Recovery, marks));
        }
    }
}

/// From the reduction of the load to the last lost frame; 0 when nothing was lost after it.
fn overload_recovery(spec: &OverloadRecoverySpec, outcome: &TrialOutcome) -> Measured {
    let last_loss = outcome.frames().and_then(|frames| frames.last_loss_seconds);
    let value = last_loss.unwrap_or(0.0).max(0.0);
    let mut marks = Vec::new();
    if value >= spec.recovery_seconds * NEARLY_ALL {
        let detail =
            format!("frames were still lost at the end of the {} s of reduced load", spec.recovery_seconds);
        marks.push(mark(MarkKind::NoUpperBound, detail));
    }
    if outcome.ledger.received == outcome.ledger.offered {
        marks.push(mark(MarkKind::Note, "the overload caused no loss, so there was nothing to recover from"));
    }
    Measured::found(Metric::Recovery, value, vec![outcome.clone()], marks)
}

/// The longest silence under load.
fn reset_recovery(spec: &ResetRecoverySpec, outcome: &TrialOutcome) -> Measured {
    let value = outcome.frames().map_or(0.0, |frames| frames.longest_silence_seconds);
    if value >= (spec.trial_seconds - spec.reset_after_seconds) * NEARLY_ALL {
        let detail = format!(
            "nothing was forwarded for {value:.2} s after the reset, which is to the end of the trial"
        );
        return Measured::lost(Metric::Recovery, vec![mark(MarkKind::FirewallFailed, detail)]);
    }
    Measured::found(Metric::Recovery, value, vec![outcome.clone()], Vec::new())
}
