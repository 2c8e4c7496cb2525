//! What a search is to find: a goal, its presets, and the levels by which it is approached.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Width of the final interval unless a suite says otherwise.
const DEFAULT_WIDTH: f64 = 0.01;

/// Each level is as wide as so many of the one after it, in ratios: its loads are loads of the next one too.
const LEVEL_STEPS: i32 = 2;

/// First trials of a search are a tenth of the final ones, but not shorter than this many seconds (or the final
/// trial, if that is shorter): setting a trial up costs tens of milliseconds, whatever its length.
const SHORTEST_INITIAL_SECONDS: f64 = 1.0;

/// A search goal, with the attributes of RFC 9971.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goal {
    /// A trial with more loss than this exceeds the goal: 0 <= ratio < 1.
    pub loss_ratio: f64,
    /// Seconds of a full-length trial, > 0.
    pub final_trial_seconds: f64,
    /// Seconds of the first, coarse trials; at most `final_trial_seconds`.
    pub initial_trial_seconds: f64,
    /// Full-length trials at one load are repeated until they sum up to this many seconds, or until the rest could
    /// not change the verdict; at least `final_trial_seconds`.
    pub duration_sum_seconds: f64,
    /// Share of the summed duration that may exceed the loss ratio: 0 <= ratio < 1.
    pub exceed_ratio: f64,
    /// The search ends when (upper - lower) / upper is no more than this: 0 < width < 1.
    pub width: f64,
    /// Factor by which the step grows while one of the bounds is missing, > 1.
    pub expansion: f64,
}

impl Goal {
    /// MLRsearch: three full trials a load, of which one may exceed the loss ratio.
    pub fn mlr(trial_seconds: f64) -> Self {
        Self { duration_sum_seconds: 3.0 * trial_seconds, exceed_ratio: 0.5, ..Self::rfc2544(trial_seconds) }
    }

    /// RFC 2544 section 26.1 as RFC 9971 writes it: one full trial without loss makes a load a lower bound, any lossy
    /// one an upper bound.
    pub fn rfc2544(trial_seconds: f64) -> Self {
        let initial = (trial_seconds / 10.0).max(SHORTEST_INITIAL_SECONDS).min(trial_seconds);
        Self {
            loss_ratio: 0.0,
            final_trial_seconds: trial_seconds,
            initial_trial_seconds: initial,
            duration_sum_seconds: trial_seconds,
            exceed_ratio: 0.0,
            width: DEFAULT_WIDTH,
            expansion: 2.0,
        }
    }

    /// ETSI GS NFV-TST 009 clause 12.3.3, binary search with loss verification, as RFC 9971 writes it for `r = 2`:
    /// a lossy trial is repeated once, and one trial without loss is enough.
    pub fn tst009(trial_seconds: f64) -> Self {
        Self { duration_sum_seconds: 2.0 * trial_seconds, exceed_ratio: 0.5, ..Self::rfc2544(trial_seconds) }
    }

    /// Seconds of the first trial of a search for this goal alone.
    pub(crate) fn first_trial_seconds(&self) -> f64 {
        self.levels()[0].trial_seconds
    }

    /// The levels from the coarsest to the goal itself. Durations grow geometrically, widths halve.
    pub(super) fn levels(&self) -> Vec<Level> {
        let growth = self.duration_sum_seconds / self.initial_trial_seconds;
        let before_last: i32 = match growth {
            g if g <= 2.0 => 0,
            g if g <= 4.0 => 1,
            _ => 2,
        };
        let level = |steps_to_last: i32| {
            let share =
                if before_last == 0 { 0.0 } else { f64::from(steps_to_last) / f64::from(before_last) };
            let duration_sum = self.duration_sum_seconds / growth.powf(share);
            Level {
                loss_ratio: self.loss_ratio,
                exceed_ratio: self.exceed_ratio,
                trial_seconds: self.final_trial_seconds.min(duration_sum),
                duration_sum,
                width: 1.0 - (1.0 - self.width).powi(LEVEL_STEPS.pow(steps_to_last as u32)),
                expansion: self.expansion,
            }
        };
        (0..=before_last).rev().map(level).collect()
    }
}

/// One level on the way to a goal: the draft implementation's "target".
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level {
    pub(super) loss_ratio: f64,
    pub(super) exceed_ratio: f64,
    pub(super) trial_seconds: f64,
    pub(super) duration_sum: f64,
    pub(super) width: f64,
    pub(super) expansion: f64,
}
