//! The state of a running firewall: the policy in force, and what is due.

use super::alarms::Alarms;
use super::alerts::Alerts;
use super::attachments::Attachments;
use super::domains::DomainsInForce;
use super::gateways::Allowance;
use super::list_facts::ListsInForce;
use super::log::Kind;
use super::past::Past;
use super::recorder::Recorder;
use super::{Daemon, Moment};
use crate::api::{Interface, PolicyStatus};
use crate::plane::{Attached, PlaneError, Tampering};
use jiff::Timestamp;
use policy::Policy;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long something that was put right is shown.
const SHOWN: Duration = Duration::from_secs(60);

pub(super) struct Running {
    pub(super) attachments: Attachments,
    pub(super) policy: Arc<Policy>,
    pub(super) generation: u64,
    pub(super) applied_at: Timestamp,
    /// When the tables were built, and until when they hold.
    pub(super) built_at: Timestamp,
    pub(super) next_change: Option<Timestamp>,
    pub(super) unconfirmed: Option<Unconfirmed>,
    /// What was due and failed, and when it is tried again.
    pub(super) failed: Option<(String, Instant)>,
    /// What the last look at the data plane found wrong.
    pub(super) troubles: Vec<String>,
    /// What somebody did to the programs at interfaces and goes on.
    pub(super) tampered: Vec<String>,
    /// The same, put right, and when.
    pub(super) mended: Vec<(Instant, String)>,
    /// Why the policy in force is not the one that the firewall would come up with.
    pub(super) not_kept: Option<String>,
    pub(super) lists: ListsInForce,
    pub(super) domains: DomainsInForce,
    pub(super) alarms: Alarms,
    pub(super) alerts: Alerts,
    /// When expired flows were swept last.
    pub(super) swept: Option<Instant>,
    /// Why the event log could not be read the last time.
    pub(super) events_trouble: Option<String>,
    /// How many events of gateways may be recorded.
    pub(super) gateway_events: Allowance,
}

/// A policy that waits to be confirmed.
#[derive(Clone)]
pub(super) struct Unconfirmed {
    /// The last that was confirmed; if there is none, the firewall goes down.
    pub(super) previous: Option<Arc<Policy>>,
    pub(super) until: Instant,
    pub(super) rolls_back_at: Timestamp,
    /// Of its entry in the history.
    pub(super) number: Option<u64>,
}

/// A policy that is due.
pub(super) struct Due {
    pub(super) policy: Arc<Policy>,
    /// Because nobody confirmed the one in force.
    pub(super) back: bool,
}

impl Running {
    pub(super) fn new(attachments: Attachments, policy: Policy, generation: u64, at: Timestamp) -> Self {
        Self {
            attachments,
            generation,
            applied_at: at,
            built_at: at,
            next_change: policy.next_change(at),
            policy: Arc::new(policy),
            unconfirmed: None,
            failed: None,
            troubles: Vec::new(),
            tampered: Vec::new(),
            mended: Vec::new(),
            not_kept: None,
            lists: ListsInForce::default(),
            domains: DomainsInForce::default(),
            alarms: Alarms::default(),
            alerts: Alerts::default(),
            swept: None,
            events_trouble: None,
            gateway_events: Allowance::default(),
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
            waiting: self.unconfirmed.as_ref().and_then(|waiting| waiting.number),
        }
    }

    pub(super) fn interfaces(&self) -> Vec<Interface> {
        let interface = |at: &Attached| Interface {
            name: at.interface.clone(),
            zone: at.zone.clone(),
            hook: at.hook,
            note: at.note.clone(),
        };
        self.attachments.attached.iter().map(interface).collect()
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

    /// Sweeps expired flows, and reports troubles when they begin and end.
    pub(super) fn maintain(&mut self, now: Moment, daemon: &Daemon) {
        let mut found = self.find_troubles(now, daemon).unwrap_or_else(|error| vec![error.to_string()]);
        found.extend(daemon.recorder.as_ref().and_then(Recorder::trouble));
        found.extend(daemon.past.as_ref().and_then(Past::trouble));
        found.extend(daemon.export_troubles(&self.policy));
        found.extend(daemon.gateway_troubles(&self.policy));
        for trouble in found.iter().filter(|trouble| !self.troubles.contains(trouble)) {
            daemon.report(now.wall, Kind::Trouble, trouble);
        }
        for over in self.troubles.iter().filter(|trouble| !found.contains(trouble)) {
            daemon.report(now.wall, Kind::Over, over);
        }
        self.troubles = found;
    }

    fn find_troubles(&mut self, now: Moment, daemon: &Daemon) -> Result<Vec<String>, PlaneError> {
        self.attachments.plane.sweep()?;
        self.swept = Some(now.steady);
        let policy = Arc::clone(&self.policy);
        for (kind, what) in self.attachments.follow(&policy) {
            daemon.report(now.wall, kind, what);
        }
        let mut found = self.attachments.plane.check_interfaces()?;
        found.extend(self.attachments.troubles.iter().cloned());
        found.extend(self.alarms.take(&self.attachments.plane.drops()?, now.steady));
        found.extend(self.events_trouble.clone());
        found.extend(self.lists.troubles(&policy));
        found.extend(self.domains.trouble.clone());
        found.extend(self.alerts.trouble());
        found.extend(self.tampered.clone());
        self.mended.retain(|(at, _)| now.steady.saturating_duration_since(*at) < SHOWN);
        found.extend(self.mended.iter().map(|(_, what)| what.clone()));
        found.extend(self.not_kept.clone());
        Ok(found)
    }

    /// Puts programs back that somebody took away.
    pub(super) fn check_programs(&mut self, now: Moment) {
        let Tampering { mended, standing, moved } = self.attachments.plane.check_programs();
        for (interface, hook, why) in moved {
            if let Some(attached) = self.attachments.attached.iter_mut().find(|it| it.interface == interface)
            {
                (attached.hook, attached.note) = (hook, Some(why));
            }
        }
        // Whoever does it again and again is reported once.
        self.mended.retain(|(_, what)| !mended.contains(what));
        self.mended.extend(mended.into_iter().map(|what| (now.steady, what)));
        self.tampered = standing;
    }

    pub(super) fn due(&self, now: Moment) -> Option<Due> {
        if self.failed.as_ref().is_some_and(|(_, again)| now.steady < *again) {
            return None;
        }
        let waiting = self.unconfirmed.as_ref().filter(|waiting| now.steady >= waiting.until);
        if let Some(previous) = waiting.and_then(|waiting| waiting.previous.as_ref()) {
            return Some(Due { policy: Arc::clone(previous), back: true });
        }
        // A clock that was put back may have put a schedule back too.
        let over = self.next_change.is_some_and(|change| now.wall >= change) || now.wall < self.built_at;
        over.then(|| Due { policy: Arc::clone(&self.policy), back: false })
    }

    /// Notes that what was due is in force; returns what happened.
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
    let changes =
        policy.schedules.iter().filter_map(|schedule| match (schedule.holds(before), schedule.holds(now)) {
            (false, true) => Some(format!("`{}` began", schedule.name)),
            (true, false) => Some(format!("`{}` ended", schedule.name)),
            _ => None,
        });
    let changes: Vec<String> = changes.collect();
    if changes.is_empty() { "the clock was set".to_owned() } else { changes.join(", ") }
}
