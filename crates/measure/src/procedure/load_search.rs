//! The search for a throughput, or for a rate or number of connections, as every procedure uses it that needs one: finds
//! out the highest load worth offering, runs [`Search`] and keeps the outcomes of its trials.

use super::axis::Axis;
use super::guard::is_behind;
use super::{SearchSpec, mark, parts};
use crate::mix::MixOutcome;
use crate::results::{Mark, MarkKind, SearchOutcome};
use crate::search::{Goal, Search, TrialRecord};
use crate::shape::Placement;
use crate::stats::{loss_limit, median, most_losses};
use crate::trial::{TrialOutcome, TrialRequest};

/// A generator that was behind is next asked for a little less than what it had managed.
const LOWERED_SHARE: f64 = 0.99;

/// Losses of no more than this share are rare: Tolly, among others, calls them none. Which trials meet one frame of a million
/// is luck, so a goal that allows no more than this takes a trial whose losses are this rare for one without loss, says so,
/// and reports this as the goal's loss ratio. Nothing that overload does is as rare: 0.01 % too much load loses ten times as much.
const RARE: f64 = 1e-5;

/// How often the maximum may be lowered in one search.
const MOST_LOWERINGS: u32 = 3;

/// A throughput that was found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Frames/s forwarded at the relevant lower bound; or legal connections/s, or connections.
    pub(super) throughput: f64,
    /// The highest load that can be offered, in the same unit.
    pub(super) max_load: f64,
    pub(super) deciding: Vec<TrialOutcome>,
    pub(super) marks: Vec<Mark>,
    pub(super) search: SearchOutcome,
}

/// Where a search stands.
pub(super) enum Poll {
    Trial(TrialRequest),
    Found(Box<Found>),
    Lost(Vec<Mark>),
}

pub(super) struct LoadSearch {
    axis: Axis,
    goal: Goal,
    placement: Placement,
    /// `None` until the maximum load is known.
    search: Option<Search>,
    /// The maximum was measured with an unpaced trial, and is asked for in the same way.
    unpaced_maximum: bool,
    /// The first trial ran unpaced, to measure the maximum.
    first_is_unpaced: bool,
    lowerings: u32,
    /// A trial with rare losses was taken for one without.
    rare: bool,
    /// In the order of the search's trials.
    outcomes: Vec<TrialOutcome>,
    ended: Option<Result<Found, Vec<Mark>>>,
}

impl LoadSearch {
    /// A search for a throughput.
    pub(super) fn new(spec: &SearchSpec, placement: Placement) -> Self {
        Self::along(Axis::Frames, spec, placement)
    }

    pub(super) fn along(axis: Axis, spec: &SearchSpec, placement: Placement) -> Self {
        let goal = spec.goal();
        let search = axis.known_maximum(spec).map(|max_load| search_up_to(&axis, goal, max_load));
        let first_is_unpaced = search.is_none();
        let unpaced_maximum = first_is_unpaced && axis.maximum_is_a_load(placement);
        Self {
            axis,
            goal,
            placement,
            search,
            unpaced_maximum,
            first_is_unpaced,
            lowerings: 0,
            rare: false,
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
        let achieved = self.axis.achieved(outcome);
        let mut loss = self.axis.counted_loss(load, outcome);
        if matches!(self.axis, Axis::Frames) && self.goal.loss_ratio <= RARE && is_rare(outcome) {
            self.rare |= loss > self.goal.loss_ratio;
            loss = loss.min(self.goal.loss_ratio);
        }
        if self.outcomes.is_empty() && self.first_is_unpaced {
            // The unpaced trial offered what it could; measured against the maximum, the rest of it was not sent.
            loss = loss.max(1.0 - achieved / load);
        }
        search.record(load, seconds, loss, achieved);
        self.outcomes.push(outcome.clone());
        true
    }

    /// Restarts below a maximum that the generator can reach (`rate` as ledgers count it); false when it is not searching or
    /// was lowered too often.
    pub(super) fn lower_maximum(&mut self, rate: f64) -> bool {
        if self.ended.is_some() || self.lowerings == MOST_LOWERINGS || rate <= 0.0 {
            return false;
        }
        self.lowerings += 1;
        self.unpaced_maximum = false;
        self.first_is_unpaced = false;
        let max_load = self.axis.whole(rate) * LOWERED_SHARE;
        self.search = Some(search_up_to(&self.axis, self.goal, max_load));
        self.outcomes.clear();
        true
    }

    /// Begins again below what the bench itself can offer, for this reason.
    pub(super) fn bound_by_bench(&mut self, max_load: f64, why: String) {
        self.axis.bound_by(why);
        self.search = Some(search_up_to(&self.axis, self.goal, max_load));
        self.outcomes.clear();
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
        while self.knows_next() {}
        let Some(search) = &mut self.search else {
            return Some(self.axis.unpaced(self.goal.first_trial_seconds()));
        };
        let max_load = search.max_load();
        search.next().map(|(load, seconds)| {
            let unpaced = self.unpaced_maximum && load >= max_load;
            if unpaced { self.axis.unpaced(seconds) } else { self.axis.request(load, seconds) }
        })
    }

    /// Loads that come to the same whole number are the same trial, which need not be run again; true when one was.
    fn knows_next(&mut self) -> bool {
        let Some(search) = &mut self.search else { return false };
        let Some((load, seconds)) = search.next() else { return false };
        let request = self.axis.request(load, seconds);
        let same = |t: &TrialRecord| t.load != load && self.axis.request(t.load, t.seconds) == request;
        let Some(known) = search.trials().iter().position(same) else { return false };
        let (loss, achieved) = (search.trials()[known].loss_ratio, search.trials()[known].forwarding_rate);
        search.record(load, seconds, loss, achieved);
        self.outcomes.push(self.outcomes[known].clone());
        true
    }

    fn learn_maximum(&mut self, outcome: &TrialOutcome) {
        let max_load = self.axis.learnt_maximum(outcome, self.placement);
        if max_load > 0.0 {
            self.search = Some(search_up_to(&self.axis, self.goal, max_load));
        } else {
            let detail = match self.axis {
                Axis::Frames => "the generator could send no frame",
                _ => "the generator could open no connection",
            };
            self.ended = Some(Err(vec![mark(MarkKind::NoLowerBound, detail)]));
        }
    }

    fn conclude(&self) -> Result<Found, Vec<Mark>> {
        let Some(search) = &self.search else { return Err(Vec::new()) };
        let result = search.result().swap_remove(0);
        let (Some(lower), Some(conditional)) = (result.lower, result.conditional_throughput) else {
            return Err(vec![mark(MarkKind::NoLowerBound, self.no_lower_bound(search.trials()))]);
        };
        let deciding: Vec<TrialOutcome> = result.deciding.iter().map(|&i| self.outcomes[i].clone()).collect();
        let values: Vec<f64> = deciding.iter().map(|outcome| self.axis.value(outcome)).collect();
        let unit = self.axis.unit();
        let mut marks = Vec::new();
        if self.lowerings > 0 {
            let detail = format!("the generator could send no more than {:.0} {unit}", search.max_load());
            marks.push(mark(MarkKind::Note, detail));
        }
        if result.upper.is_none() {
            let why =
                self.axis.why_no_more(search.max_load()).map_or(String::new(), |why| format!(": {why}"));
            let detail = format!("the goal was still met at the highest load, {lower:.0} {unit}{why}");
            marks.push(mark(MarkKind::NoUpperBound, detail));
        }
        if !result.converged {
            let upper = result.upper.unwrap_or(search.max_load());
            let detail = format!(
                "the search ended after {} trials with the answer between {lower:.0} and {upper:.0} {unit}",
                search.trials().len()
            );
            marks.push(mark(MarkKind::Note, detail));
        }
        marks.extend(self.rare_loss(&deciding));
        let mut goal = self.goal;
        goal.loss_ratio = if self.rare { goal.loss_ratio.max(RARE) } else { goal.loss_ratio };
        let search_outcome = SearchOutcome {
            round: 0,
            goal,
            lower,
            upper: result.upper,
            conditional_throughput: conditional,
            regular: result.converged && result.upper.is_some(),
        };
        let conditional = self.axis.legal(conditional);
        let throughput = median(&values).map_or(conditional, |value| value.min(conditional));
        let max_load = self.axis.legal(search.max_load());
        Ok(Found { throughput, max_load, deciding, marks, search: search_outcome })
    }

    /// The frames that were lost where none should be: how many, and how many there may be.
    fn rare_loss(&self, deciding: &[TrialOutcome]) -> Option<Mark> {
        let (lost, sent) = deciding.iter().map(losses).fold((0, 0), |sum, l| (sum.0 + l.0, sum.1 + l.1));
        let limit = loss_limit(lost, sent).filter(|_| self.rare && lost > 0)?;
        let text = format!(
            "{lost} of {sent} frames were lost at the load found: {:.2} in a million, at most {:.1} (95 %); \
             up to {:.0} in a million count as none, because which trials meet one is luck",
            lost as f64 / sent as f64 * 1e6,
            limit * 1e6,
            RARE * 1e6
        );
        Some(mark(MarkKind::RareLoss, text).with_share(lost as f64 / sent as f64))
    }

    /// Which parts of a mix are to blame, as the end of a sentence: in this trial, or, where it shows none, in the first one that does. A
    /// closed loop waits for what is held up.
    fn worst_parts(&self, trial: usize) -> String {
        let this = self.outcomes.get(trial).into_iter();
        let worst = |outcome| parts::mix_of(outcome).map_or_else(Vec::new, MixOutcome::worst);
        let found = this.chain(&self.outcomes).map(worst).find(|worst| !worst.is_empty());
        found.unwrap_or_default().into_iter().map(|part| format!("; {part}")).collect()
    }

    fn no_lower_bound(&self, trials: &[TrialRecord]) -> String {
        let least = trials.iter().enumerate().min_by(|(_, a), (_, b)| a.loss_ratio.total_cmp(&b.loss_ratio));
        least.map_or_else(String::new, |(place, t)| {
            format!(
                "no load met the goal of {}; the best trial lost {:.4} % at {:.0} {}{}",
                self.axis.goal(&self.goal),
                t.loss_ratio * 100.0,
                t.load,
                self.axis.unit(),
                self.worst_parts(place)
            )
        })
    }
}

/// Frames lost of those sent, and those sent.
fn losses(outcome: &TrialOutcome) -> (u64, u64) {
    let sent = outcome.ledger.sent();
    (sent.saturating_sub(outcome.ledger.received), sent)
}

/// Whether chance explains the losses of a trial through a firewall that loses no more than [`RARE`]; frames that the generator
/// did not send count as lost where they are more than the grain of its clock.
fn is_rare(outcome: &TrialOutcome) -> bool {
    let (lost, sent) = losses(outcome);
    !is_behind(outcome) && lost <= most_losses(RARE * sent as f64)
}

fn search_up_to(axis: &Axis, goal: Goal, max_load: f64) -> Search {
    Search::new(vec![goal], axis.least(max_load), max_load)
}
