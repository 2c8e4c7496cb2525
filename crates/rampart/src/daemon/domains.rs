//! Domains that rules name: what gateways announce of them comes into force at once, and ends in its time. A gateway's client gets its answer when this
//! has been done.

use super::log::Kind;
use super::{Daemon, Moment, Refused};
use crate::api::Lists;
use crate::domains::allows_private;
use gateway::event::Learned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How often it is looked what has ended.
const LOOK: Duration = Duration::from_millis(500);
/// What is taken together at most: tables are exchanged once for all of it.
const AT_ONCE: usize = 256;
/// How often what is known is written to disk, if it has changed; and how often it is reported that something was not taken.
const KEEP: Duration = Duration::from_secs(5);
const REPORT: Duration = Duration::from_secs(60);

/// What was said and not taken, until it is reported.
#[derive(Debug, Default)]
pub(super) struct NotTaken {
    count: u64,
    name: String,
    reported: Option<Instant>,
}

/// What the domains of the policy in force need besides their table.
#[derive(Debug, Default)]
pub(super) struct DomainsInForce {
    /// The kernel has older tables than these.
    is_behind: bool,
    /// The disk has.
    is_unwritten: bool,
    written: Option<Instant>,
    not_taken: NotTaken,
    /// Why the kernel has older tables.
    pub(super) trouble: Option<String>,
}

/// Takes what gateways announce, until the firewall is down.
pub(crate) fn watch(daemon: &Arc<Daemon>) {
    let Some(learned) = daemon.gateways.as_ref().ok().and_then(|gateways| gateways.learned()) else { return };
    let daemon = Arc::clone(daemon);
    std::thread::spawn(move || {
        loop {
            let mut heard = Vec::new();
            match learned.recv_timeout(LOOK) {
                Ok(first) => heard.extend(std::iter::once(first).chain(learned.try_iter()).take(AT_ONCE)),
                Err(RecvTimeoutError::Timeout) => {}
                // The keeper has ended; what is known ends all the same.
                Err(RecvTimeoutError::Disconnected) => std::thread::park_timeout(LOOK),
            }
            if !daemon.learn(&heard, Moment::now()) {
                return;
            }
        }
    });
}

impl Daemon {
    /// Takes what gateways announce, and lets them know. False once the firewall is down.
    pub(crate) fn learn(&self, heard: &[(String, Learned)], now: Moment) -> bool {
        let mut slot = self.running();
        let Some(running) = slot.as_mut() else { return false };
        let policy = Arc::clone(&running.policy);
        let (domains, state) = (&mut running.attachments.domains, &mut running.domains);
        state.is_behind |= domains.end(now.steady);
        let mut taken: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (gateway, Learned { number, name, addresses, lifetime }) in heard {
            let said = (name.as_str(), addresses.as_slice(), *lifetime);
            let is_allowed = allows_private(&policy, gateway, name);
            let (is_other, not_taken) = domains.hear(said, is_allowed, (now.wall, now.steady));
            state.is_behind |= is_other;
            state.not_taken.add(name, not_taken);
            taken.entry(gateway).or_default().push(*number);
        }
        state.is_unwritten |= state.is_behind || !heard.is_empty();
        if state.is_behind {
            let done = running.attachments.exchange_domains(&policy);
            let state = &mut running.domains;
            state.is_behind = done.is_err();
            state.trouble = done.err().map(|error| {
                format!("what domains stand for could not be put in force, and is tried again: {error}")
            });
        }
        let is_in_force = !running.domains.is_behind;
        let report = running.domains.not_taken.due(now);
        let is_due = running.domains.written.is_none_or(|at| now.steady.duration_since(at) >= KEEP);
        let is_written = running.domains.is_unwritten && is_due;
        drop(slot);
        if is_in_force
            && !taken.is_empty()
            && let Ok(gateways) = &self.gateways
        {
            gateways
                .acknowledge(taken.into_iter().map(|(name, numbers)| (name.to_owned(), numbers)).collect());
        }
        report.into_iter().for_each(|what| self.report(now.wall, Kind::Trouble, what));
        if is_written {
            self.keep_domains(now);
        }
        true
    }

    /// Writes down what domains stand for, so that a restart goes on with it.
    pub(super) fn keep_domains(&self, now: Moment) {
        let Some(state) = &self.state else { return };
        let mut slot = self.running();
        let Some(running) = slot.as_mut() else { return };
        (running.domains.is_unwritten, running.domains.written) = (false, Some(now.steady));
        if running.policy.lists.iter().all(|list| list.domain().is_none()) {
            return;
        }
        let kept = running.attachments.domains.kept(now.wall, now.steady);
        drop(slot);
        // What is not written is asked for again after a restart.
        let _ = state.keep_domains(&kept);
    }

    /// The lists with their counters, and what domains stand for.
    pub(crate) fn lists(&self, now: Moment) -> Result<Lists, Refused> {
        self.with(|running| {
            let hits = running.attachments.plane.rule_hits(&running.policy)?;
            let mut lists = running.lists.shown(&running.policy, &hits);
            let domains = &running.attachments.domains;
            for (shown, list) in lists.lists.iter_mut().zip(&running.policy.lists) {
                let Some(name) = list.domain() else { continue };
                (shown.domain, shown.not_taken) = domains.shown(name, now.wall, now.steady);
                shown.ipv4_addresses = shown.domain.iter().filter(|it| it.address.is_ipv4()).count() as u64;
                shown.ipv6_ranges = shown.domain.len() as u64 - shown.ipv4_addresses;
                shown.next_end = shown.domain.iter().map(|it| it.until).min();
            }
            Ok(lists)
        })
    }
}

impl NotTaken {
    fn add(&mut self, name: &str, count: u64) {
        if count > 0 {
            self.count += count;
            name.clone_into(&mut self.name);
        }
    }

    /// What is to be reported by now.
    fn due(&mut self, now: Moment) -> Option<String> {
        let is_due = self.reported.is_none_or(|at| now.steady.duration_since(at) >= REPORT);
        if self.count == 0 || !is_due {
            return None;
        }
        self.reported = Some(now.steady);
        let count = std::mem::take(&mut self.count);
        Some(format!(
            "{count} addresses of domains were not taken, the last of `{}`: a domain has {} at once, and none of a private network unless a rule \
             or a view of the gateway lets it",
            crate::worker_stream::one_line(&self.name),
            crate::domains::MOST_ADDRESSES
        ))
    }
}
