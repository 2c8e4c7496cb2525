//! MLRsearch (RFC 9971): finds, for several goals at once, the highest load that a firewall
//! forwards with no more loss than the goal allows.
//!
//! The first trial offers the maximum, and its forwarding rate is the first guess. From there each goal passes
//! through levels, from short trials and a wide interval to its final trial duration and width. A level steps away
//! from its guess in growing steps until it has a lower and an upper bound, and then halves the interval.
//! Loads are compared by ratio, so the search does not depend on the unit.
//!
//! Sans-IO: [`Search::next`] says what to try, [`Search::record`] takes the outcome. It never measures anything.

mod goal;
mod load;
#[cfg(test)]
mod tests;

pub use goal::Goal;

use goal::Level;
use load::{Class, Stat};

/// A search that has not ended after this many trials for each of its goals ends unconverged, and says so.
/// A search of 1 % width over six decades needs about sixty in the worst case without noise.
pub const MAX_TRIALS_PER_GOAL: usize = 200;

/// A second trial that loses more than this share is run again: on a shared machine it is more likely that somebody
/// else had the processor than that the first trial promised so much too much. Widths are steps: 5 % too low are
/// five of them, and each costs a trial.
const DOUBTFUL_LOSS: f64 = 0.05;

/// The first guess is lower than the rate that it comes from by this share of a width: enough for the grain of rates, and all
/// that an answer without noise is too low.
const BELOW_THE_RATE: f64 = 0.1;

/// Loads whose relative distance is this close to the width count as within it: rounding in the last digits.
const WIDTH_SLACK: f64 = 1.0 + 1e-9;

/// One finished trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialRecord {
    /// Load asked for, in frames/s.
    pub load: f64,
    /// Seconds asked for.
    pub seconds: f64,
    /// Share of the offered frames that counts as lost, 0 to 1.
    pub loss_ratio: f64,
    /// Frames/s received.
    pub forwarding_rate: f64,
}

/// The loads below and above the answer, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bounds {
    lower: Option<f64>,
    upper: Option<f64>,
}

/// What a search found for one goal.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// Relevant lower bound in frames/s: the highest load, below the upper bound, that met the goal.
    pub lower: Option<f64>,
    /// Relevant upper bound: the lowest load that missed it; `None` when even the maximum load met it.
    pub upper: Option<f64>,
    /// Conditional throughput in frames/s: what is typically forwarded at the lower bound.
    pub conditional_throughput: Option<f64>,
    /// Indices (in order of recording) of the full-length trials at the lower bound.
    pub deciding: Vec<usize>,
    /// Whether the bounds are as close as the goal asks, or one of them lies at an end of the range.
    pub converged: bool,
}

/// The search.
#[derive(Debug, Clone)]
pub struct Search {
    goals: Vec<(Goal, Vec<Level>)>,
    min_load: f64,
    max_load: f64,
    trials: Vec<TrialRecord>,
    /// The level and the load that the last trial was for: stayed with until it is classified.
    current: Option<(Level, f64)>,
}

impl Search {
    /// A search for `goals` between two loads in frames/s.
    ///
    /// # Panics
    /// When there is no goal, or the loads are not 0 < `min_load` < `max_load` and finite.
    pub fn new(goals: Vec<Goal>, min_load: f64, max_load: f64) -> Self {
        assert!(!goals.is_empty(), "a search needs a goal");
        assert!(
            0.0 < min_load && min_load < max_load && max_load.is_finite(),
            "bad range of loads: {min_load} to {max_load}"
        );
        let goals = goals.into_iter().map(|goal| (goal, goal.levels())).collect();
        Self { goals, min_load, max_load, trials: Vec::new(), current: None }
    }

    /// The load in frames/s and the seconds of the next trial, or `None` when the search has ended. Asked again
    /// without a [`record`](Self::record) between, it answers the same.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would promise an item that no trial has filled"
    )]
    pub fn next(&mut self) -> Option<(f64, f64)> {
        if self.trials.is_empty() {
            return Some((self.max_load, self.first_seconds()));
        }
        if self.trials.len() >= MAX_TRIALS_PER_GOAL * self.goals.len() {
            return None;
        }
        if let Some(doubted) = self.doubted() {
            return Some((doubted.load, doubted.seconds));
        }
        if let Some((level, load)) = self.current
            && self.classify(&level, load) == Class::Undecided
        {
            return Some((load, level.trial_seconds));
        }
        self.current = self.nominate();
        self.current.map(|(level, load)| (load, level.trial_seconds))
    }

    /// Takes the outcome of a trial: the load and seconds that were asked for, the share of frames lost (0 to 1),
    /// and the frames/s received.
    pub fn record(&mut self, load: f64, seconds: f64, loss_ratio: f64, forwarding_rate: f64) {
        self.trials.push(TrialRecord { load, seconds, loss_ratio, forwarding_rate });
    }

    /// Every trial so far, in order.
    pub fn trials(&self) -> &[TrialRecord] {
        &self.trials
    }

    /// The highest load that the search may offer, in frames/s.
    pub fn max_load(&self) -> f64 {
        self.max_load
    }

    /// What is known of each goal, in the order given; final once [`next`](Self::next) has said `None`.
    pub fn result(&self) -> Vec<GoalResult> {
        self.goals.iter().map(|(goal, levels)| self.goal_result(goal, levels)).collect()
    }

    fn goal_result(&self, goal: &Goal, levels: &[Level]) -> GoalResult {
        let last = levels[levels.len() - 1];
        let bounds = self.bounds(&last);
        let deciding = bounds.lower.map_or_else(Vec::new, |lower| {
            let decides = |t: &TrialRecord| t.load == lower && t.seconds >= goal.final_trial_seconds;
            (0..self.trials.len()).filter(|&i| decides(&self.trials[i])).collect()
        });
        GoalResult {
            goal: *goal,
            lower: bounds.lower,
            upper: bounds.upper,
            conditional_throughput: bounds
                .lower
                .map(|load| load * (1.0 - self.stat(&last, load).quantile_loss(&last))),
            deciding,
            converged: self.is_done(&last, bounds),
        }
    }

    /// The longest of the goals' first trials, so that the one trial at the maximum serves them all.
    fn first_seconds(&self) -> f64 {
        self.goals.iter().map(|(_, levels)| levels[0].trial_seconds).fold(0.0, f64::max)
    }

    /// The second trial, at the first guess, when it is to be run again.
    fn doubted(&self) -> Option<TrialRecord> {
        let [_, second] = self.trials[..] else { return None };
        (second.loss_ratio > DOUBTFUL_LOSS).then_some(second)
    }

    /// The trial that brings the goals on: the shortest, then the lowest load, that any goal asks for.
    fn nominate(&self) -> Option<(Level, f64)> {
        let candidates = self.goals.iter().filter_map(|(_, levels)| self.nominate_for(levels));
        candidates.min_by(|a, b| a.0.trial_seconds.total_cmp(&b.0.trial_seconds).then(a.1.total_cmp(&b.1)))
    }

    /// The first level that is not done, and the load that it wants tried. Loads are rungs of one ladder, so that trials of an
    /// earlier level count for the next one as well.
    fn nominate_for(&self, levels: &[Level]) -> Option<(Level, f64)> {
        let bounds: Vec<Bounds> = levels.iter().map(|level| self.bounds(level)).collect();
        let index = (0..levels.len()).find(|&i| !self.is_done(&levels[i], bounds[i]))?;
        let first_guess = self.first_guess(levels);
        let rung = |load: f64| {
            let step = (1.0 - levels[levels.len() - 1].width).ln();
            let steps = ((load / first_guess).ln() / step).round();
            (first_guess * (steps * step).exp()).clamp(self.min_load, self.max_load)
        };
        let guess = match index.checked_sub(1).map(|before| bounds[before]) {
            None => first_guess,
            // The answer is between them; whichever bound the middle becomes, the other one is mostly known already.
            Some(Bounds { lower: Some(lower), upper: Some(upper) }) => rung((lower * upper).sqrt()),
            Some(Bounds { lower, .. }) => lower.unwrap_or(self.min_load),
        };
        let (level, Bounds { lower, upper }) = (levels[index], bounds[index]);
        let load = self.step(&level, bounds[index], guess);
        let rung = rung(load);
        let between = lower.is_none_or(|lower| lower < rung) && upper.is_none_or(|upper| rung < upper);
        Some((level, if between { rung } else { load }))
    }

    fn is_done(&self, level: &Level, bounds: Bounds) -> bool {
        match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) => (upper - lower) / upper <= level.width * WIDTH_SLACK,
            (Some(lower), None) => lower >= self.max_load,
            (None, Some(upper)) => upper <= self.min_load,
            (None, None) => false,
        }
    }

    /// Where the forwarding rates of the first two trials point, of the second the better one if it was run again:
    /// the load at which the goal's loss ratio would be reached if everything above that rate were lost, a little lower so
    /// that the answer lies inside the first interval, at its lower end. Later rates do not move the guess: a firewall that
    /// loses a little at every load would pull it down by that little each time.
    fn first_guess(&self, levels: &[Level]) -> f64 {
        let last = levels[levels.len() - 1];
        let aim = |t: &TrialRecord| {
            (t.forwarding_rate / (1.0 - last.loss_ratio)).min(t.load) * (1.0 - last.width * BELOW_THE_RATE)
        };
        let mut guess = self.max_load;
        let second = self.trials.iter().skip(1).take(2).filter(|t| t.load == self.trials[1].load);
        let second = second.max_by(|a, b| a.forwarding_rate.total_cmp(&b.forwarding_rate));
        for trial in self.trials.first().into_iter().chain(second) {
            let lossy = trial.loss_ratio > last.loss_ratio && trial.load <= guess;
            if lossy && aim(trial) < trial.load * (1.0 - levels[0].width) {
                guess = aim(trial);
            }
        }
        guess.clamp(self.min_load, self.max_load)
    }

    /// The next load of a level that is not done: its guess, then away from the guess in growing steps, never past
    /// the middle of the bounds, so that the interval at least halves.
    fn step(&self, level: &Level, bounds: Bounds, guess: f64) -> f64 {
        let middle = bounds.lower.zip(bounds.upper).map(|(lower, upper)| (lower * upper).sqrt());
        match bounds {
            Bounds { lower: Some(lower), .. } if lower >= guess => {
                let stride = self.stride(level, |load, class| class == Class::Lower && load >= guess);
                (lower / stride).min(middle.unwrap_or(self.max_load))
            }
            Bounds { upper: Some(upper), .. } if upper <= guess => {
                let stride = self.stride(level, |load, class| class == Class::Upper && load <= guess);
                (upper * stride).max(middle.unwrap_or(self.min_load))
            }
            _ => guess,
        }
    }

    /// The ratio of the next step: one width for the first, then growing with each load that was already passed.
    fn stride(&self, level: &Level, passed: impl Fn(f64, Class) -> bool) -> f64 {
        let count = self.loads().into_iter().filter(|&load| passed(load, self.classify(level, load))).count();
        let widths = level.expansion.powi(count.saturating_sub(1).min(32) as i32);
        (1.0 - level.width).powf(widths)
    }

    fn stat(&self, level: &Level, load: f64) -> Stat {
        Stat::of(level, self.trials.iter().filter(|t| t.load == load))
    }

    fn classify(&self, level: &Level, load: f64) -> Class {
        self.stat(level, load).class(level)
    }

    /// Every load tried, ascending, each once.
    fn loads(&self) -> Vec<f64> {
        let mut loads: Vec<f64> = self.trials.iter().map(|t| t.load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        loads
    }

    /// The relevant bounds: the lowest upper bound, and the highest lower bound below it. A load that met the goal
    /// above one that missed it does not count (loss inversion).
    fn bounds(&self, level: &Level) -> Bounds {
        let mut bounds = Bounds::default();
        for load in self.loads() {
            match self.classify(level, load) {
                Class::Lower => bounds.lower = Some(load),
                Class::Upper => return Bounds { upper: Some(load), ..bounds },
                Class::Undecided => {}
            }
        }
        bounds
    }
}
