//! What the trials at one load say about it (RFC 9971, appendix A "Load Classification" and appendix B
//! "Conditional Throughput").

use super::TrialRecord;
use super::goal::Level;

/// Durations that differ by less than this share are equal: sums of the same trials in another order.
const SUM_SLACK: f64 = 1e-9;

/// What a load is for one level of one goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// It meets the goal whatever further trials would say.
    Lower,
    /// It misses the goal whatever further trials would say.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Seconds of trials at one load, sorted by length and loss.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Stat {
    good_long: f64,
    bad_long: f64,
    good_short: f64,
    bad_short: f64,
    /// Loss ratio and seconds of every full-length trial.
    long: Vec<(f64, f64)>,
}

impl Stat {
    pub(super) fn of<'a>(level: &Level, trials: impl Iterator<Item = &'a TrialRecord>) -> Self {
        let mut stat = Self::default();
        for trial in trials {
            let long = trial.seconds >= level.trial_seconds * (1.0 - SUM_SLACK);
            let sum = match (long, trial.loss_ratio <= level.loss_ratio) {
                (true, true) => &mut stat.good_long,
                (true, false) => &mut stat.bad_long,
                (false, true) => &mut stat.good_short,
                (false, false) => &mut stat.bad_short,
            };
            *sum += trial.seconds;
            if long {
                stat.long.push((trial.loss_ratio, trial.seconds));
            }
        }
        stat.long.sort_by(|a, b| a.0.total_cmp(&b.0));
        stat
    }

    /// A load is decided when the trials still missing, all good or all bad, could not change the verdict.
    /// Short good trials only make up for short bad ones; they never make a lower bound by themselves.
    pub(super) fn class(&self, level: &Level) -> Class {
        let forgiven = self.good_short * level.exceed_ratio / (1.0 - level.exceed_ratio);
        let excess = self.bad_long + (self.bad_short - forgiven).max(0.0);
        let whole = (self.good_long + excess).max(level.duration_sum);
        let allowed = whole * level.exceed_ratio + level.duration_sum * SUM_SLACK;
        if whole - self.good_long <= allowed {
            Class::Lower
        } else if excess > allowed {
            Class::Upper
        } else {
            Class::Undecided
        }
    }

    /// The loss ratio that `1 - exceed_ratio` of the duration sum stays within, where trials not run count as lost
    /// altogether.
    pub(super) fn quantile_loss(&self, level: &Level) -> f64 {
        let whole = (self.good_long + self.bad_long).max(level.duration_sum);
        let mut remaining = whole * (1.0 - level.exceed_ratio) - level.duration_sum * SUM_SLACK;
        for &(loss, seconds) in &self.long {
            remaining -= seconds;
            if remaining <= 0.0 {
                return loss;
            }
        }
        1.0
    }
}
