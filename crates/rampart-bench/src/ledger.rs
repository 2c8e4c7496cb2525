//! Fills the loss ledger of a trial from what was counted where. Adds nothing up that was not counted: what no counter
//! explains stays a residual, and the point does not count.

use crate::rig::Site;
use measure::ledger::Ledger;
use measure::trial::TrialOutcome;
use std::collections::BTreeMap;
use testbed::counters::LinkCounters;
use testbed::dut::Running;
use traffic::{Patrolled, TrialReading};

/// Counters before a trial.
pub(crate) struct Before {
    links: Option<LinkCounters>,
    firewall: BTreeMap<String, u64>,
}

impl Before {
    pub(crate) fn take(site: &Site, running: &dyn Running) -> Self {
        Self { links: site.links(), firewall: running.counters().unwrap_or_default() }
    }
}

/// A ledger with what must be said about it.
pub(crate) struct Account {
    pub(crate) ledger: Ledger,
    pub(crate) fault: Option<String>,
    pub(crate) remarks: Vec<String>,
}

/// Accounts for every frame of a trial, whose datagrams are `fragments` frames each. `opaque`: the firewall is a box that nobody can look
/// into. Of what `patrolled` says, what did not arrive was dropped, as some should be, and to the sinks what arrived is of nobody.
pub(crate) fn account(
    reading: &TrialReading,
    fragments: u32,
    before: Before,
    site: &Site,
    running: &dyn Running,
    opaque: bool,
    patrolled: &Patrolled,
) -> Account {
    let (sent, received) = (reading.sent(), reading.reading.received());
    let mut account = Account { ledger: reading.ledger(), fault: None, remarks: Vec::new() };
    if received > sent {
        account.fault = Some(format!("{received} distinct frames were received, but only {sent} were sent"));
    }
    let lost = account.ledger.residual().max(0) as u64;
    let Some(places) = account.ledger.frames_mut() else { return account };
    let arrived_beside = patrolled.arrived.len() as u64;
    places.beside.foreign = places.beside.foreign.saturating_sub(arrived_beside);
    if lost > 0 && opaque {
        places.not_received += lost;
    } else if lost > 0 {
        // Forbidden frames that went astray are in the same counters as those that should not have: most in the firewall's, and
        // under overload some in the links'.
        let forbidden = places.beside.forbidden_sent.saturating_sub(places.beside.forbidden_arrived);
        let [fewest, most] = patrolled.frames.map(|beside| forbidden + beside.saturating_sub(arrived_beside));
        let by_firewall = running.counters().map(|now| since(now, &before.firewall)).unwrap_or_else(|gone| {
            account.fault = Some(format!("the firewall's counters cannot be read: {gone}"));
            BTreeMap::new()
        });
        let by_links = link_losses(before.links, site);
        let counted = by_firewall
            .values()
            .chain(by_links.values())
            .fold(0, |sum: u64, count| sum.saturating_add(*count));
        // A firewall that reassembles counts a datagram where another counts its fragments.
        let mut forbidden = counted.saturating_sub(lost).clamp(fewest / u64::from(fragments), most);
        places.dropped_by_firewall = less(by_firewall, &mut forbidden);
        places.ring_full = less(by_links, &mut forbidden);
    }
    account
}

/// What the links of a bed lost since `before`; nothing of two interfaces that the user named.
pub(crate) fn link_losses(before: Option<LinkCounters>, site: &Site) -> BTreeMap<String, u64> {
    match (before, site.links()) {
        (Some(before), Some(now)) => now.lost_since(&before),
        _ => BTreeMap::new(),
    }
}

/// What each counter gained; counters that stood still are left out.
fn since(now: BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    now.into_iter()
        .map(|(name, count)| {
            let gained = count.saturating_sub(before.get(&name).copied().unwrap_or(0));
            (name, gained)
        })
        .filter(|(_, gained)| *gained > 0)
        .collect()
}

/// Takes `count` out of the counters, the largest first, and out of `count` what they had.
fn less(counters: BTreeMap<String, u64>, count: &mut u64) -> BTreeMap<String, u64> {
    let mut left: Vec<(String, u64)> = counters.into_iter().collect();
    left.sort_by_key(|(_, counted)| std::cmp::Reverse(*counted));
    for (_, counted) in &mut left {
        let taken = (*count).min(*counted);
        *counted -= taken;
        *count -= taken;
    }
    left.into_iter().filter(|(_, counted)| *counted > 0).collect()
}

/// Enters what the kernel said it freed into a ledger that the other counters left unexplained. The kernel's list has
/// everything, including what the firewall and the links counted themselves, so it takes their place.
pub(crate) fn explain(outcome: &mut TrialOutcome, drops: BTreeMap<String, u64>) {
    outcome.remarks.push(
        "the kernel's drops were counted during this trial, which costs kernel firewalls a few per cent"
            .to_owned(),
    );
    let residual = outcome.ledger.residual();
    let Some(places) = outcome.ledger.frames_mut() else { return };
    if residual <= 0 || drops.is_empty() {
        return;
    }
    let firewall: u64 = places.dropped_by_firewall.values().sum();
    let named = drops.values().sum::<u64>();
    if named >= residual as u64 + firewall {
        // The firewall's verdicts are among the kernel's reasons; what it counted itself is not counted twice.
        places.lost_in_stack = without(drops, firewall);
    } else {
        places.lost_in_stack = drops;
    }
}

/// Takes what the firewall counted itself out of the kernel's netfilter drops.
fn without(drops: BTreeMap<String, u64>, mut counted: u64) -> BTreeMap<String, u64> {
    drops
        .into_iter()
        .map(|(reason, count)| {
            let own = if reason.starts_with("NETFILTER_DROP") { count.min(counted) } else { 0 };
            counted -= own;
            (reason, count - own)
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Which of two trials stands, of which the first lost frames that no counter explained and the second was made to explain them: a trial that
/// loses less explains nothing, and a firewall that does not count what it drops must not have two chances where others have one.
pub(crate) fn that_counts(unexplained: TrialOutcome, again: TrialOutcome) -> TrialOutcome {
    let lost = |outcome: &TrialOutcome| outcome.ledger.sent().saturating_sub(outcome.ledger.received);
    let residual = unexplained.ledger.residual();
    let failed = again.shows_misconduct() || !again.faults.is_empty();
    if failed || residual <= 0 || lost(&again) >= lost(&unexplained) {
        return again;
    }
    let mut first = unexplained;
    if let Some(places) = first.ledger.frames_mut() {
        places.not_received += residual as u64;
        first.remarks.push(format!(
            "{residual} frames vanished between the counters, and fewer did when the kernel's drops were counted in another trial"
        ));
    }
    first
}

/// Where the kernel cannot say what it freed, lost frames are simply not received, and the reader sees that.
pub(crate) fn give_up_explaining(mut outcome: TrialOutcome) -> TrialOutcome {
    let residual = outcome.ledger.residual();
    if let Some(places) = outcome.ledger.frames_mut().filter(|_| residual > 0) {
        places.not_received += residual as u64;
        outcome.remarks.push(format!(
            "{residual} frames vanished between the counters, and this kernel has no tracepoint kfree_skb to tell why"
        ));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, u64)]) -> BTreeMap<String, u64> {
        entries.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    /// A trial of 1,000 frames.
    fn trial(lost: u64, fault: &str) -> TrialOutcome {
        TrialOutcome {
            id: 0,
            seconds: 1.0,
            ledger: Ledger {
                offered: 1000,
                not_sent: 0,
                received: 1000 - lost,
                places: measure::ledger::Places::Frames(measure::ledger::FramePlaces::default()),
            },
            per_second: Vec::new(),
            cpu: measure::results::CpuUse::default(),
            flow_entries: None,
            memory_bytes: None,
            policy_load_seconds: None,
            faults: Some(fault.to_owned()).into_iter().filter(|fault| !fault.is_empty()).collect(),
            remarks: Vec::new(),
            policy_broken: None,
            workload: measure::trial::WorkloadOutcome::Frames(measure::trial::FrameOutcome::default()),
        }
    }

    #[test]
    fn what_a_second_trial_does_not_lose_the_first_has_lost_all_the_same() {
        for (first, again, fault, received, explained) in [
            (7, 0, "", 993, true),
            (7, 3, "", 993, true),
            (7, 7, "", 993, false),
            (7, 20, "", 980, false),
            (7, 0, "it hung", 1000, false),
        ] {
            let stands = that_counts(trial(first, ""), trial(again, fault));
            let found = (stands.ledger.received, stands.ledger.residual() == 0 && !stands.remarks.is_empty());
            assert_eq!(found, (received, explained), "{first} {again} {fault}");
        }
    }

    #[test]
    fn counters_that_stood_still_are_left_out() {
        let before = map(&[("default_drop", 5), ("listed_drop", 1)]);
        let now = map(&[("default_drop", 9), ("listed_drop", 1), ("new", 2)]);
        assert_eq!(since(now, &before), map(&[("default_drop", 4), ("new", 2)]));
    }

    #[test]
    fn forbidden_frames_are_taken_out_of_whatever_lost_them() {
        let counted = map(&[("default_drop", 60), ("invalid_drop", 5)]);
        for (mut forbidden, left, not_found) in [
            (0, map(&[("default_drop", 60), ("invalid_drop", 5)]), 0),
            (60, map(&[("invalid_drop", 5)]), 0),
            (62, map(&[("invalid_drop", 3)]), 0),
            (100, map(&[]), 35),
        ] {
            assert_eq!((less(counted.clone(), &mut forbidden), forbidden), (left, not_found));
        }
    }

    #[test]
    fn the_firewalls_own_drops_are_not_counted_twice() {
        for (drops, counted, left) in [
            (map(&[("NETFILTER_DROP at nf_hook_slow", 10)]), 10, map(&[])),
            (
                map(&[("NETFILTER_DROP at nf_hook_slow", 12), ("NOMEM at x", 1)]),
                10,
                map(&[("NETFILTER_DROP at nf_hook_slow", 2), ("NOMEM at x", 1)]),
            ),
            (map(&[("FULL_RING at veth_xmit", 3)]), 0, map(&[("FULL_RING at veth_xmit", 3)])),
        ] {
            assert_eq!(without(drops, counted), left);
        }
    }
}
