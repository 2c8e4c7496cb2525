//! What the firewall counted over the last hour, asked for at times: its API has sums alone. Kept in memory. Pure: the time is given.

use jiff::Timestamp;
use rampart_client::api::Drops;
use std::collections::{BTreeMap, VecDeque};

/// Seconds between two samples.
pub const EVERY: u64 = 15;

/// Minutes that are kept.
pub const MINUTES: i64 = 60;

/// Dropped packets by reason within a minute.
type Minute = BTreeMap<String, u64>;

/// Dropped packets by minute.
#[derive(Debug, Default)]
pub struct Samples {
    /// By the number of the minute since 1970, the oldest first.
    minutes: VecDeque<(i64, Minute)>,
    /// The sums of the last sample.
    last: Option<BTreeMap<String, u64>>,
}

fn minute(at: Timestamp) -> i64 {
    at.as_second().div_euclid(60)
}

impl Samples {
    /// Takes the sums at a moment. What is new since the last sample counts for the moment's minute. Sums that went down are those of a
    /// firewall that began anew.
    pub fn take(&mut self, drops: &Drops, at: Timestamp) {
        let sums: BTreeMap<String, u64> =
            drops.drops.iter().map(|drop| (drop.reason.clone(), drop.packets)).collect();
        let last = self.last.replace(sums.clone());
        let now = minute(at);
        self.minutes.retain(|(known, _)| (now - MINUTES + 1..=now).contains(known));
        let Some(last) = last else { return };
        if self.minutes.back().is_none_or(|(known, _)| *known != now) {
            self.minutes.push_back((now, Minute::new()));
        }
        let Some((_, counts)) = self.minutes.back_mut() else { return };
        for (reason, sum) in sums {
            let before = last.get(&reason).copied().unwrap_or(0);
            let new = if sum >= before { sum - before } else { sum };
            *counts.entry(reason).or_default() += new;
        }
    }

    /// Dropped packets in each of the last minutes, the oldest first: of a reason, or of all. A minute that was not sampled has `None`.
    pub fn history(&self, reason: Option<&str>, at: Timestamp) -> Vec<(Timestamp, Option<u64>)> {
        let now = minute(at);
        let count = |minute: i64| {
            let (_, counts) = self.minutes.iter().find(|(known, _)| *known == minute)?;
            Some(match reason {
                Some(reason) => counts.get(reason).copied().unwrap_or(0),
                None => counts.values().sum(),
            })
        };
        let start = |minute: i64| Timestamp::from_second(minute * 60).unwrap_or(at);
        (now - MINUTES + 1..=now).map(|minute| (start(minute), count(minute))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_client::api::Drop;

    #[test]
    fn samples_become_minutes() {
        let drops = |rule: u64, window: u64| {
            let drop = |number, reason: &str, packets| Drop {
                number,
                reason: reason.to_owned(),
                explanation: String::new(),
                packets,
                alarming: false,
            };
            Drops { drops: vec![drop(1, "rule-deny", rule), drop(2, "tcp-window", window)] }
        };
        let at = |seconds: i64| Timestamp::from_second(6_000 + seconds).unwrap();
        let mut samples = Samples::default();
        // Seconds, sums, and what the newest minutes have afterwards.
        for (seconds, sums, all, one) in [
            (0, (100, 5), vec![None], vec![None]),
            (15, (110, 5), vec![Some(10)], vec![Some(0)]),
            (45, (110, 7), vec![Some(12)], vec![Some(2)]),
            (60, (111, 7), vec![Some(12), Some(1)], vec![Some(2), Some(0)]),
            // Nobody asked for two minutes, and the firewall was started again meanwhile.
            (200, (4, 0), vec![Some(12), Some(1), None, Some(4)], vec![Some(2), Some(0), None, Some(0)]),
            (4_000, (5, 0), vec![None, Some(1)], vec![None, Some(0)]),
        ] {
            samples.take(&drops(sums.0, sums.1), at(seconds));
            for (reason, expected) in [(None, all), (Some("tcp-window"), one)] {
                let history = samples.history(reason, at(seconds));
                assert_eq!(history.len(), 60);
                let counts: Vec<_> = history.iter().map(|(_, count)| *count).collect();
                assert_eq!(counts[60 - expected.len()..], expected, "{seconds} {reason:?}");
            }
        }
        assert_eq!(samples.minutes.len(), 1);
    }
}
