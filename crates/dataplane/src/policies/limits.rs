//! Limits and alerts of rules as the numbers that `bpf/firewall/limit.h` and `alert.h` count by. The terms of a generation are
//! written beside those of the one in force, which packets go on using until the swap; what was counted stays with the rule's
//! slot, and so its name.

use super::Policies;
use crate::DataplaneError;
use crate::notes::LimitNotes;
use crate::shared::{bytes_of, from_bytes};
use crate::skeleton::types::{self, sizes};
use libbpf_rs::{MapCore, MapFlags};
use policy::model::{Effect, Policy};
use policy::tables::Counters as Slots;
use std::collections::HashMap;

/// Epochs that a flow's mark can hold.
const EPOCHS: u32 = types::mark_bits::MARK_EPOCHS.0 + 1;
/// A second in moments.
pub(super) const SECOND: u64 = 1_000_000_000 << sizes::MOMENT_SHIFT.0;

/// Whose count is in which row.
#[derive(Default)]
pub(crate) struct Limited {
    /// The generation in force has its terms in the second half of the map.
    second: bool,
    /// By slot: the rule whose count it is, and the epoch of that.
    owners: HashMap<u32, (String, u32)>,
}

impl Limited {
    pub(super) fn notes(&self) -> LimitNotes {
        let owners = self.owners.iter().map(|(slot, (rule, epoch))| (*slot, rule.clone(), *epoch));
        LimitNotes { second: self.second, owners: owners.collect() }
    }

    pub(super) fn of(notes: &LimitNotes) -> Self {
        let owners = notes.owners.iter().map(|(slot, rule, epoch)| (*slot, (rule.clone(), *epoch)));
        Self { second: notes.second, owners: owners.collect() }
    }
}

/// The limits of a generation that is not in force yet.
pub(super) struct NewLimits {
    pub(super) limited: Limited,
    /// By the rule's place in the policy, what names its terms: `EXTRA_TERMS` in C.
    pub(super) numbers: HashMap<usize, u32>,
    /// Rows that begin anew: slot and epoch.
    fresh: Vec<(u32, u32)>,
}

/// Whether a rule has terms.
fn is_limited(effect: &Effect) -> bool {
    effect.limit.rate.is_some() || effect.limit.connections.is_some() || effect.alert.is_some()
}

/// The terms of a limit. An interval is rounded up to a sixteenth of a nanosecond, so a rate is never exceeded.
fn terms(effect: &Effect, epoch: u32) -> types::limit_terms {
    let Effect { limit, alert, .. } = effect;
    let (interval, slack) = limit.rate.map_or((0, 0), |rate| {
        let interval = (u64::from(rate.seconds) * SECOND).div_ceil(rate.events.into());
        let burst = limit.burst.unwrap_or(rate.events).max(1);
        // `policy` allows no burst that takes longer than ten years to fill, which are less than 2^63 moments.
        (interval, interval.saturating_mul(u64::from(burst) - 1))
    });
    types::limit_terms {
        interval,
        slack,
        connections: limit.connections.unwrap_or(0),
        epoch,
        // In C they have the numbers that they have here.
        limit_per: limit.per as u32,
        alert_per: alert.map_or(0, |alert| alert.per as u32),
        // A day at most.
        window: alert.map_or(0, |alert| alert.within.as_secs() * SECOND),
        threshold: alert.map_or(0, |alert| alert.count),
        ..Default::default()
    }
}

impl Policies {
    /// Writes the terms of a policy's limits where no packet looks yet.
    ///
    /// # Errors
    /// There are too many, or the kernel does not take them.
    pub(super) fn write_limits(
        &self,
        policy: &Policy,
        slots: &Slots,
        fresh_slots: &[u32],
    ) -> Result<NewLimits, DataplaneError> {
        let most = sizes::MAX_LIMITED.0;
        let limited = policy.rules.iter().enumerate().filter(|(_, rule)| is_limited(&rule.effect));
        let count = limited.clone().count() as u32;
        if count > most {
            let rule = limited.clone().nth(most as usize).map_or("", |(_, rule)| &rule.name);
            return Err(DataplaneError::TooManyLimits { rule: rule.to_owned(), rules: count, most });
        }
        let second = !self.limited.second;
        let first = if second { most } else { 0 };
        let (mut numbers, mut fresh) = (HashMap::new(), Vec::new());
        let mut owners = self.limited.owners.clone();
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (number, (place, rule)) in (first..).zip(limited) {
            // Every rule has a slot.
            let Some(slot) = slots.slot(&rule.name) else { continue };
            let before = owners.get(&slot);
            let same = before.is_some_and(|(name, _)| *name == rule.name)
                && fresh_slots.binary_search(&slot).is_err();
            let epoch = match before {
                Some((_, epoch)) if same => *epoch,
                Some((_, epoch)) => (epoch + 1) % EPOCHS,
                None => 0,
            };
            if !same {
                fresh.push((slot, epoch));
                owners.insert(slot, (rule.name.clone(), epoch));
            }
            numbers.insert(place, number + 1);
            keys.extend_from_slice(&number.to_ne_bytes());
            values.extend_from_slice(bytes_of(&terms(&rule.effect, epoch)));
        }
        if count > 0 {
            self.limit_terms
                .update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)
                .map_err(DataplaneError::bpf("writing the rules' limits"))?;
        }
        Ok(NewLimits { limited: Limited { second, owners }, numbers, fresh })
    }

    /// Empties the rows of rules that begin to count.
    ///
    /// # Errors
    /// The kernel does not do it.
    pub(super) fn begin_limits(&self, new: &NewLimits) -> Result<(), DataplaneError> {
        for (slot, epoch) in &new.fresh {
            let row = types::limit_row { epoch: *epoch, ..Default::default() };
            self.limit_rows
                .update(&slot.to_ne_bytes(), bytes_of(&row), MapFlags::ANY)
                .map_err(DataplaneError::bpf("clearing the rules' limits"))?;
        }
        Ok(())
    }

    /// Packets that each rule of the policy in force would have allowed and dropped because of its limit, by name; rules
    /// without a limit are missing.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn limited_packets(&self) -> Result<HashMap<String, u64>, DataplaneError> {
        let now = self.names.now();
        let mut counts = HashMap::new();
        for (slot, (name, _)) in &self.limited.owners {
            if now.slots().slot(name) == Some(*slot)
                && let Some(row) = self.limit_row(*slot)?
            {
                counts.insert(name.clone(), row.refused);
            }
        }
        Ok(counts)
    }

    /// Concurrent flows of a rule as a whole; `None` for a rule without a limit.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn concurrent_flows(&self, rule: &str) -> Result<Option<u32>, DataplaneError> {
        let Some(slot) = self.names.now().slots().slot(rule) else { return Ok(None) };
        let owned = self.limited.owners.get(&slot).is_some_and(|(name, _)| name == rule);
        if !owned {
            return Ok(None);
        }
        Ok(self.limit_row(slot)?.map(|row| row.quota.concurrent))
    }

    fn limit_row(&self, slot: u32) -> Result<Option<types::limit_row>, DataplaneError> {
        let found = self.limit_rows.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.map_err(DataplaneError::bpf("reading the rules' limits"))?;
        Ok(bytes.and_then(|bytes| from_bytes(&bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::model::{Action, Limit, Log, Per};
    use policy::quantity::Rate;

    const EFFECT: Effect = Effect {
        action: Action::Allow,
        log: Log::Nothing,
        limit: Limit { rate: None, burst: None, connections: None, per: Per::Rule },
        alert: None,
        gateway: None,
        syn_proxy: None,
    };

    #[test]
    fn terms_never_exceed_the_rate() {
        for (events, seconds, burst, interval, slack) in [
            (1, 1, None, SECOND, 0),
            (200, 1, Some(400), SECOND / 200, SECOND / 200 * 399),
            (3, 1, None, SECOND / 3 + 1, (SECOND / 3 + 1) * 2),
            (10, 3_600, Some(1), SECOND * 360, 0),
            (u32::MAX, 1, Some(1), 4, 0),
        ] {
            let limit = Limit { rate: Some(Rate { events, seconds }), burst, ..Limit::default() };
            let terms = terms(&Effect { limit, ..EFFECT }, 3);
            assert_eq!((terms.interval, terms.slack), (interval, slack), "{events} in {seconds} s");
            assert!(
                u128::from(terms.interval) * u128::from(events) >= u128::from(SECOND) * u128::from(seconds)
            );
        }
        let limit = Limit { connections: Some(7), ..Limit::default() };
        assert_eq!(terms(&Effect { limit, ..EFFECT }, 0).interval, 0);
    }
}
