//! What a suite asks for: one plain value a procedure, with the units and ranges of every field. Whoever makes these
//! values checks the ranges; the procedures take them at their word.

use super::session_spec::{CapacitySpec, RateSpec, ReplacementSpec, ResetsSpec, SessionRateSpec, SteadySpec};
use crate::search::Goal;
use crate::trial::trials;

/// Which search finds a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// MLRsearch (draft-ietf-bmwg-mlrsearch): several trials a load, up to half of them may exceed the loss ratio.
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

/// Throughput and goodput (RFC 2544 section 26.1): yields [`Metric::Throughput`](crate::results::Metric) and `Goodput`.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputSpec {
    /// The search.
    pub search: SearchSpec,
}

/// Frame loss rate (RFC 2544 section 26.3): from the maximum rate down in steps, until two successive loads show no
/// loss. Yields one `Loss` a load, with the extra factor `load` (`100%`, `90%`, …).
#[derive(Debug, Clone, PartialEq)]
pub struct LossCurveSpec {
    /// Seconds of each trial, > 0.
    pub trial_seconds: f64,
    /// The rate that is 100 %, in frames/s; `None` takes the most that the generator sends, which with placement inline
    /// differs from firewall to firewall.
    pub max_load: Option<f64>,
    /// Step as a share of the maximum, 0 < step <= 0.5; the RFC asks for 0.1 or finer.
    pub step: f64,
}

/// A load at which latency is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LatencyLoad {
    /// Frames a second over all lanes and cores.
    FramesPerSecond(f64),
    /// A share of the throughput which the same procedure searches for first, 0 < share <= 1.
    ShareOfThroughput(f64),
}

/// Latency at one or more loads (RFC 2544 section 26.2). Yields one `Latency` a load, with the extra factor `load`
/// (`40%` of the throughput, or `100000/s`).
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySpec {
    /// At least one.
    pub loads: Vec<LatencyLoad>,
    /// Seconds of each latency trial, > 0; the RFC asks for 120.
    pub trial_seconds: f64,
    /// Trials a load, at least 1; the RFC asks for 20. The value is the median of their medians.
    pub repeats: u32,
    /// The search for the throughput; used only when a load is a share of it.
    pub search: SearchSpec,
}

/// Back-to-back frames (RFC 9004). Yields `BackToBack` and `BufferTime`.
#[derive(Debug, Clone, PartialEq)]
pub struct BackToBackSpec {
    /// The longest burst to try, in frames, at least 2.
    pub max_burst_frames: u64,
    /// The longest time a burst may take, in seconds, > 0.
    pub trial_seconds: f64,
    /// Searches whose results are averaged, at least 1; the RFC asks for 50 or more.
    pub repeats: u32,
    /// The link's rate for these frames in frames/s, the RFC's "maximum theoretical frame rate"; `None` on links
    /// without a rate, where the rate at which the bursts really left stands in for it.
    pub line_rate: Option<f64>,
    /// The search for the throughput that corrects the buffer time (section 6.4).
    pub search: SearchSpec,
}

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

/// Bulk TCP (Check Point 2021). Yields `Goodput`, of what applications received.
#[derive(Debug, Clone, PartialEq)]
pub struct BulkSpec {
    /// Seconds of each trial, a whole number of at least 1.
    pub trial_seconds: f64,
}

/// What is measured in a cell, and how.
#[derive(Debug, Clone, PartialEq)]
pub enum ProcedureSpec {
    /// RFC 2544 section 26.1.
    Throughput(ThroughputSpec),
    /// RFC 2544 section 26.3.
    LossCurve(LossCurveSpec),
    /// RFC 2544 section 26.2.
    Latency(LatencySpec),
    /// RFC 9004, which replaces RFC 2544 section 26.4.
    BackToBack(BackToBackSpec),
    /// RFC 2544 section 26.5.
    OverloadRecovery(OverloadRecoverySpec),
    /// RFC 2544 section 26.6.
    ResetRecovery(ResetRecoverySpec),
    /// RFC 3511 sections 5.3, 5.4, 5.7.
    Rate(RateSpec),
    /// RFC 3511 section 5.2.
    Capacity(CapacitySpec),
    /// EANTC 2001: a number of connections at a rate.
    SessionRate(SessionRateSpec),
    /// PoliWall 2012: a rate over time.
    Steady(SteadySpec),
    /// EANTC 2001: resets against open connections.
    Resets(ResetsSpec),
    /// The policy replaced under load.
    Replacement(ReplacementSpec),
    /// Check Point 2021: bulk transfers through the kernel's own TCP.
    Bulk(BulkSpec),
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

impl LatencyLoad {
    /// The level of the factor `load`: `40%` or `100000/s`.
    pub fn label(self) -> String {
        match self {
            LatencyLoad::FramesPerSecond(rate) => format!("{rate:.0}/s"),
            LatencyLoad::ShareOfThroughput(share) => percent(share),
        }
    }
}

impl ProcedureSpec {
    /// Roughly how many seconds one run of it takes on one firewall: for showing progress, no promise.
    pub fn typical_seconds(&self) -> f64 {
        match self {
            ProcedureSpec::Throughput(spec) => spec.search.typical_seconds(),
            ProcedureSpec::LossCurve(spec) => trials(0.6 / spec.step, spec.trial_seconds),
            ProcedureSpec::Latency(spec) => {
                let search = if spec.needs_throughput() { spec.search.typical_seconds() } else { 0.0 };
                search + trials(spec.loads.len() as f64 * f64::from(spec.repeats), spec.trial_seconds)
            }
            // See `typical_trial_seconds`: most of a burst's trial is its setting up.
            ProcedureSpec::BackToBack(spec) => {
                spec.search.typical_seconds() + trials(15.0 * f64::from(spec.repeats), 0.0)
            }
            ProcedureSpec::OverloadRecovery(spec) => {
                spec.search.typical_seconds() + trials(1.0, spec.overload_seconds + spec.recovery_seconds)
            }
            ProcedureSpec::ResetRecovery(spec) => {
                spec.search.typical_seconds() + trials(1.0, spec.trial_seconds)
            }
            ProcedureSpec::Rate(spec) => spec.typical_seconds(),
            ProcedureSpec::Capacity(spec) => spec.typical_seconds(),
            ProcedureSpec::SessionRate(spec) => spec.typical_seconds(),
            ProcedureSpec::Steady(spec) => spec.typical_seconds(),
            ProcedureSpec::Resets(spec) => spec.typical_seconds(),
            ProcedureSpec::Replacement(spec) => spec.typical_seconds(),
            ProcedureSpec::Bulk(spec) => trials(1.0, spec.trial_seconds),
        }
    }
}

impl LatencySpec {
    /// Whether a load is a share of the throughput, so that it has to be searched for.
    pub(super) fn needs_throughput(&self) -> bool {
        self.loads.iter().any(|load| matches!(load, LatencyLoad::ShareOfThroughput(_)))
    }
}

/// `40%`, `12.5%`.
pub(super) fn percent(share: f64) -> String {
    format!("{}%", (share * 1e4).round() / 100.0)
}
