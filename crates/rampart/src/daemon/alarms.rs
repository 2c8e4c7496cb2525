//! Alarming reasons for which packets were dropped lately. Reads no clock.

use crate::api::Drop;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long an alarm lasts after its last packet.
const LASTS: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Alarms {
    met: HashMap<u32, Met>,
}

#[derive(Debug, Clone, Copy)]
struct Met {
    packets: u64,
    last: Instant,
}

impl Alarms {
    /// Takes the counts of a moment; returns the alarms that stand then.
    pub(crate) fn take(&mut self, drops: &[Drop], now: Instant) -> Vec<String> {
        for drop in drops.iter().filter(|drop| drop.alarming && drop.packets > 0) {
            let before = self.met.get(&drop.number).map_or(0, |met| met.packets);
            if drop.packets != before {
                self.met.insert(drop.number, Met { packets: drop.packets, last: now });
            }
        }
        let lately = |drop: &&Drop| {
            self.met.get(&drop.number).is_some_and(|met| now.saturating_duration_since(met.last) < LASTS)
        };
        let standing = drops.iter().filter(|drop| drop.alarming).filter(lately);
        standing.map(|drop| format!("packets are dropped, {}: {}", drop.reason, drop.explanation)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_stands_for_a_minute_after_its_last_packet() {
        let drop = |number, packets, alarming| Drop {
            number,
            reason: format!("r{number}"),
            explanation: "why".to_owned(),
            packets,
            alarming,
        };
        let (start, mut alarms) = (Instant::now(), Alarms::default());
        for (seconds, full, expected) in
            [(0, 0, 0), (1, 5, 1), (60, 5, 1), (61, 5, 0), (62, 6, 1), (121, 6, 1), (122, 6, 0)]
        {
            let drops = [drop(24, full, true), drop(1, 100 + seconds, false)];
            let found = alarms.take(&drops, start + Duration::from_secs(seconds));
            assert_eq!(found, vec!["packets are dropped, r24: why"; expected], "at {seconds} s");
        }
    }
}
