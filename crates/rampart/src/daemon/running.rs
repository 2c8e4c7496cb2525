//! The state of a running firewall: the policy in force, and what is to happen to it by itself.

use super::alarms::Alarms;
use super::hold::Hold;
use super::log::Kind;
use super::surges::Surges;
use super::{Daemon, Moment};
use crate::api::{Interface, PolicyStatus};
use crate::plane::{Attached, PlaneError};
use jiff::Timestamp;
use policy::Policy;
use std::sync::Arc;
use std::time::Instant;

/// What is in force.
pub(super) struct Running {
    pub(super) hold: Hold,
    pub(super) policy: Arc<Policy>,
    pub(super) generation: u64,
    pub(super) applied_at: Timestamp,
    /// When the tables were built, and until when they hold.
    pub(super) built_at: Timestamp,
    pub(super) next_change: Option<Timestamp>,
    pub(super) unconfirmed: Option<Unconfirmed>,
    /// What failed by itself, and when it is tried again.
    pub(super) failed: Option<(String, Instant)>,
    /// What the last look at the data plane found wrong.
    pub(super) troubles: Vec<String>,
    pub(super) alarms: Alarms,
    pub(super) surges: Surges,
    /// Why what rules tell could not be heard the last time.
    pub(super) deaf: Option<String>,
}

/// A policy that waits to be confirmed.
#[derive(Clone)]
pub(super) struct Unconfirmed {
    /// The last that was confirmed.
    pub(super) previous: Arc<Policy>,
    pub(super) until: Instant,
    pub(super) rolls_back_at: Timestamp,
}

/// A policy that is to be put in force by itself.
pub(super) struct Due {
    pub(super) policy: Arc<Policy>,
    /// Because nobody confirmed the one in force.
    pub(super) back: bool,
}

impl Running {
    /// A policy that has just come into force.
    pub(super) fn new(hold: Hold, policy: Policy, generation: u64, at: Timestamp) -> Self {
        Self {
            hold,
            generation,
            applied_at: at,
            built_at: at,
            next_change: policy.next_change(at),
            policy: Arc::new(policy),
            unconfirmed: None,
            failed: None,
            troubles: Vec::new(),
            alarms: Alarms::default(),
            surges: Surges::default(),
            deaf: None,
        }
    }

    pub(super) fn policy_status(&self) -> PolicyStatus {
        PolicyStatus {
            file: self.policy.file.clone(),
            rules: self.policy.rules.len(),
            generation: self.generation,
            applied_at: self.applied_at,
            next_change: self.next_change,
            rolls_back_at: self.unconfirmed.as_ref().map(|waiting| waiting.rolls_back_at),
        }
    }

    pub(super) fn interfaces(&self) -> Vec<Interface> {
        let interface = |at: &Attached| Interface {
            name: at.interface.clone(),
            zone: at.zone.clone(),
            hook: at.hook,
            note: at.note.clone(),
        };
        self.hold.attached.iter().map(interface).collect()
    }

    pub(super) fn troubles(&self) -> Vec<String> {
        self.failed.iter().map(|(message, _)| message.clone()).chain(self.troubles.iter().cloned()).collect()
    }

    /// Notes that tables have come into force.
    pub(super) fn in_force(&mut self, generation: u64, at: Timestamp, next_change: Option<Timestamp>) {
        self.generation = generation;
        self.built_at = at;
        self.next_change = next_change;
        self.failed = None;
    }

    /// Forgets what has expired, and tells troubles when they begin and end.
    pub(super) fn look(&mut self, now: Moment, daemon: &Daemon) {
        let found = self.look_closer(now).unwrap_or_else(|error| vec![error.to_string()]);
        for trouble in found.iter().filter(|trouble| !self.troubles.contains(trouble)) {
            daemon.tell(now.wall, Kind::Trouble, trouble);
        }
        for over in self.troubles.iter().filter(|trouble| !found.contains(trouble)) {
            daemon.tell(now.wall, Kind::Over, over);
        }
        self.troubles = found;
    }

    fn look_closer(&mut self, now: Moment) -> Result<Vec<String>, PlaneError> {
        self.hold.plane.sweep()?;
        let mut found = self.hold.plane.tend()?;
        found.extend(self.alarms.heed(&self.hold.plane.drops()?, now.steady));
        found.extend(self.deaf.clone());
        found.extend(self.surges.trouble());
        Ok(found)
    }

    pub(super) fn due(&self, now: Moment) -> Option<Due> {
        if self.failed.as_ref().is_some_and(|(_, again)| now.steady < *again) {
            return None;
        }
        if let Some(waiting) = self.unconfirmed.as_ref().filter(|waiting| now.steady >= waiting.until) {
            return Some(Due { policy: Arc::clone(&waiting.previous), back: true });
        }
        // A clock that was put back may have put a schedule back too.
        let over = self.next_change.is_some_and(|change| now.wall >= change) || now.wall < self.built_at;
        over.then(|| Due { policy: Arc::clone(&self.policy), back: false })
    }

    /// Notes that what was due is in force; tells what happened.
    pub(super) fn switch(
        &mut self,
        due: &Due,
        generation: u64,
        now: Moment,
        next_change: Option<Timestamp>,
    ) -> String {
        let built_at = self.built_at;
        self.in_force(generation, now.wall, next_change);
        if !due.back {
            return format!(
                "generation {generation}: {}",
                schedules_between(&due.policy, built_at, now.wall)
            );
        }
        self.unconfirmed = None;
        self.applied_at = now.wall;
        let gone = std::mem::replace(&mut self.policy, Arc::clone(&due.policy));
        format!(
            "{} was not confirmed: {} is in force again, as generation {generation}",
            gone.file, due.policy.file
        )
    }
}

/// Which schedules began and ended between two moments.
fn schedules_between(policy: &Policy, before: Timestamp, now: Timestamp) -> String {
    let told =
        policy.schedules.iter().filter_map(|schedule| match (schedule.holds(before), schedule.holds(now)) {
            (false, true) => Some(format!("`{}` began", schedule.name)),
            (true, false) => Some(format!("`{}` ended", schedule.name)),
            _ => None,
        });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "the clock was set".to_owned() } else { told.join(", ") }
}
