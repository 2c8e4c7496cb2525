//! What the specs of several procedures have in common.

use crate::connections::{Attack, AttackKind, AttackSources};
use crate::search::Goal;
use crate::trial::trials;

/// Which search finds a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// MLRsearch (RFC 9971): several trials a load, up to half of them may exceed the loss ratio.
    Mlr,
    /// RFC 2544 section 26.1: one trial a load decides, no loss allowed.
    Rfc2544,
    /// ETSI GS NFV-TST 009 clause 12.3.3, binary search with loss verification: a lossy trial is repeated once.
    Tst009,
}

/// How a throughput is searched.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSpec {
    /// The method.
    pub preset: Preset,
    /// Seconds of a deciding trial, > 0: 60 as RFC 2544 asks, 0.25 in a quick run. Everything else scales with it.
    pub trial_seconds: f64,
    /// Allowed loss ratio, 0 <= ratio < 1, instead of the preset's 0. Tolly's 0.001 % is `Some(0.00001)`.
    pub loss_ratio: Option<f64>,
    /// Width of the final interval as a share of its upper end, 0 < width < 1, instead of the preset's 0.01.
    pub width: Option<f64>,
    /// The highest load in frames/s (a link's line rate), or `None` for as much as the generator can send.
    pub max_load: Option<f64>,
}

impl SearchSpec {
    /// The goal that the search is for.
    pub fn goal(&self) -> Goal {
        let goal = match self.preset {
            Preset::Mlr => Goal::mlr(self.trial_seconds),
            Preset::Rfc2544 => Goal::rfc2544(self.trial_seconds),
            Preset::Tst009 => Goal::tst009(self.trial_seconds),
        };
        Goal {
            loss_ratio: self.loss_ratio.unwrap_or(goal.loss_ratio),
            width: self.width.unwrap_or(goal.width),
            ..goal
        }
    }

    /// Seconds that the search usually takes.
    pub(super) fn typical_seconds(&self) -> f64 {
        let goal = self.goal();
        let deciding = match self.preset {
            Preset::Mlr => 5.0,
            Preset::Rfc2544 => 3.0,
            Preset::Tst009 => 4.0,
        };
        trials(4.0, goal.initial_trial_seconds) + trials(deciding, goal.final_trial_seconds)
    }
}

/// A flood, its time left open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flood {
    /// What the frames are.
    pub kind: AttackKind,
    /// Frames a second, > 0.
    pub frames_per_second: f64,
    /// Where they come from.
    pub sources: AttackSources,
}

impl Flood {
    /// The flood for a stretch of a trial.
    pub(super) fn during(self, after_seconds: f64, seconds: f64) -> Attack {
        let Self { kind, frames_per_second, sources } = self;
        Attack { kind, frames_per_second, sources, after_seconds, seconds }
    }
}

/// `40%`, `12.5%`.
pub(super) fn percent(share: f64) -> String {
    format!("{}%", (share * 1e4).round() / 100.0)
}
