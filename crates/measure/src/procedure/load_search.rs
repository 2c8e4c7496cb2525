//! The search for a throughput, as every procedure uses it that needs one: finds out the highest load worth offering,
//! runs [`Search`] and keeps the outcomes of its trials.

use super::guard::{counted_loss, sent_rate};
use super::{SearchSpec, mark};
use crate::results::{Mark, MarkKind};
use crate::search::{Goal, Search, TrialRecord};
use crate::shape::Placement;
use crate::stats::median;
use crate::trial::{Load, TrialOutcome, TrialRequest};

/// The lowest load that the generator paces, in frames/s.
const MIN_LOAD: f64 = 100.0;

/// Inline, the rate of an unpaced trial is already what the whole pipeline can do. Whatever is offered above it is not
/// sent, and counts as lost, so the search may look this many times higher without a further trial: room enough
/// for a first trial that the machine disturbed.
const INLINE_HEADROOM: f64 = 4.0;

/// A generator that was behind is next asked for a little less than what it had managed.
const LOWERED_SHARE: f64 = 0.99;

/// How often the maximum may be lowered in one search.
const MOST_LOWERINGS: u32 = 3;

/// A throughput that was found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Frames/s forwarded at the relevant lower bound.
    pub(super) throughput: f64,
    /// The highest load that can be offered, in frames/s.
    pub(super) max_load: f64,
    pub(super) deciding: Vec<TrialOutcome>,
    pub(super) marks: Vec<Mark>,
}

/// Where a search stands.
pub(super) enum Poll {
    Trial(TrialRequest),
    Found(Box<Found>),
    Lost(Vec<Mark>),
}

pub(super) struct LoadSearch {
    goal: Goal,
    placement: Placement,
    /// `None` until the maximum load is known.
    search: Option<Search>,
    /// The maximum was measured with an unpaced trial, and is asked for in the same way.
    unpaced_maximum: bool,
    /// The first trial ran unpaced, to measure the maximum.
    first_is_unpaced: bool,
    lowerings: u32,
    /// In the order of the search's trials.
    outcomes: Vec<TrialOutcome>,
    ended: Option<Result<Found, Vec<Mark>>>,
}

impl LoadSearch {
    pub(super) fn new(spec: &SearchSpec, placement: Placement) -> Self {
        let goal = spec.goal();
        let search = spec.max_load.map(|max_load| search_up_to(goal, max_load));
        let first_is_unpaced = search.is_none();
        let unpaced_maximum = first_is_unpaced && placement == Placement::Isolated;
        Self {
            goal,
            placement,
            search,
            unpaced_maximum,
            first_is_unpaced,
            lowerings: 0,
            outcomes: Vec::new(),
            ended: None,
        }
    }

    pub(super) fn poll(&mut self) -> Poll {
        if self.ended.is_none() {
            match self.next_request() {
                Some(request) => return Poll::Trial(request),
                None => self.ended = Some(self.conclude()),
            }
        }
        match &self.ended {
            Some(Ok(found)) => Poll::Found(Box::new(found.clone())),
            Some(Err(marks)) => Poll::Lost(marks.clone()),
            None => Poll::Lost(Vec::new()),
        }
    }

    /// Takes an outcome, if the search has not ended; says whether it did.
    pub(super) fn takes(&mut self, outcome: &TrialOutcome) -> bool {
        if self.ended.is_some() {
            return false;
        }
        if self.search.is_none() {
            self.learn_maximum(outcome);
        }
        let Some(search) = &mut self.search else { return true };
        let Some((load, seconds)) = search.next() else { return true };
        // The unpaced trial offered what it could; measured against the maximum, the rest of it was not sent.
        let loss = if self.outcomes.is_empty() && self.first_is_unpaced {
            counted_loss(outcome).max(1.0 - outcome.forwarding_rate() / load)
        } else {
            counted_loss(outcome)
        };
        search.record(load, seconds, loss, outcome.forwarding_rate());
        self.outcomes.push(outcome.clone());
        true
    }

    /// Restarts below a maximum that the generator can reach; false when it is not searching or was lowered too often.
    pub(super) fn lower_maximum(&mut self, rate: f64) -> bool {
        if self.ended.is_some() || self.lowerings == MOST_LOWERINGS || rate <= 0.0 {
            return false;
        }
        self.lowerings += 1;
        self.unpaced_maximum = false;
        self.first_is_unpaced = false;
        self.search = Some(search_up_to(self.goal, rate * LOWERED_SHARE));
        self.outcomes.clear();
        true
    }

    /// Ends without a throughput; false when the search had ended before.
    pub(super) fn give_up(&mut self, marks: Vec<Mark>) -> bool {
        let searching = self.ended.is_none();
        if searching {
            self.ended = Some(Err(marks));
        }
        searching
    }

    fn next_request(&mut self) -> Option<TrialRequest> {
        let Some(search) = &mut self.search else {
            return Some(TrialRequest::constant(Load::Maximum, self.goal.first_trial_seconds()));
        };
        let max_load = search.max_load();
        search.next().map(|(load, seconds)| {
            let unpaced = self.unpaced_maximum && load >= max_load;
            let load = if unpaced { Load::Maximum } else { Load::PerSecond(load) };
            TrialRequest::constant(load, seconds)
        })
    }

    fn learn_maximum(&mut self, outcome: &TrialOutcome) {
        let headroom = if self.placement == Placement::Inline { INLINE_HEADROOM } else { 1.0 };
        let max_load = sent_rate(outcome) * headroom;
        if max_load > 0.0 {
            self.search = Some(search_up_to(self.goal, max_load));
        } else {
            self.ended = Some(Err(vec![mark(MarkKind::NoLowerBound, "the generator could send no frame")]));
        }
    }

    fn conclude(&self) -> Result<Found, Vec<Mark>> {
        let Some(search) = &self.search else { return Err(Vec::new()) };
        let result = search.result().swap_remove(0);
        let (Some(lower), Some(conditional)) = (result.lower, result.conditional_throughput) else {
            return Err(vec![mark(MarkKind::NoLowerBound, no_lower_bound(&self.goal, search.trials()))]);
        };
        let deciding: Vec<TrialOutcome> = result.deciding.iter().map(|&i| self.outcomes[i].clone()).collect();
        let rates: Vec<f64> = deciding.iter().map(TrialOutcome::forwarding_rate).collect();
        let mut marks = Vec::new();
        if self.lowerings > 0 {
            let detail = format!("the generator could send no more than {:.0} frames/s", search.max_load());
            marks.push(mark(MarkKind::Note, detail));
        }
        if result.upper.is_none() {
            let detail = format!("the goal was still met at the highest load, {lower:.0} frames/s");
            marks.push(mark(MarkKind::NoUpperBound, detail));
        }
        if !result.converged {
            let upper = result.upper.unwrap_or(search.max_load());
            let detail = format!(
                "the search ended after {} trials with the throughput between {lower:.0} and {upper:.0} frames/s",
                search.trials().len()
            );
            marks.push(mark(MarkKind::Note, detail));
        }
        let throughput = median(&rates).map_or(conditional, |rate| rate.min(conditional));
        Ok(Found { throughput, max_load: search.max_load(), deciding, marks })
    }
}

fn search_up_to(goal: Goal, max_load: f64) -> Search {
    Search::new(vec![goal], MIN_LOAD.min(max_load / 2.0), max_load)
}

fn no_lower_bound(goal: &Goal, trials: &[TrialRecord]) -> String {
    let least = trials.iter().min_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
    least.map_or_else(String::new, |t| {
        format!(
            "no load met the goal of {} % loss; the best trial lost {:.4} % at {:.0} frames/s",
            goal.loss_ratio * 100.0,
            t.loss_ratio * 100.0,
            t.load
        )
    })
}
