//! Whether connections ended as fast as they were opened, or only after the load had ended. A queue of some hundred segments takes in
//! what a slow firewall cannot do in time, and in a short trial that is more than what it did: the rate would be that of the queue.
//!
//! What counts is what had ended by the end of the load. That moment is moved by the shortest time that a connection took, so that a long
//! way costs nothing: on a path of 50 ms connections are always under way. Nor does uneven delay: the second half of the load, both ends
//! of which are moved, has as many late connections of the first half as are missing of its own. Of the two the better one counts. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A look at a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Since the start of the load, in ns.
    pub at_ns: u64,
    /// Connections that had done all that was asked of them.
    pub ended: u64,
}

/// What ended in time: in a whole constant load or in its second half, whichever is more a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InTime {
    /// Their length.
    pub seconds: f64,
    /// Connections that ended within it. A fraction where nobody looked at the moment itself.
    pub ended: f64,
}

impl InTime {
    /// `rate` is the load in connections a second, `seconds` its length, `shortest_seconds` the shortest time from the start of a connection
    /// that was due to its end. `looks` rise, and the last one saw everything. `None` if nobody looked.
    pub fn of(rate: f64, seconds: f64, shortest_seconds: f64, looks: &[Look]) -> Option<Self> {
        let (half, end) = (seconds / 2.0 + shortest_seconds, seconds + shortest_seconds);
        let at_end = Between::around(end, looks)?.most_at(end, rate);
        let at_half = Between::around(half, looks)?.least_at(half, rate);
        let whole = Self { seconds, ended: at_end };
        let second_half = Self { seconds: seconds / 2.0, ended: at_end - at_half };
        Some(if second_half.rate() > whole.rate() { second_half } else { whole })
    }

    /// Connections a second.
    pub fn rate(&self) -> f64 {
        self.ended / self.seconds
    }
}

/// The looks before and after a moment: seconds, and what had ended. On a busy machine they are far apart, and what ended at which moment
/// between them is not known. A firewall that keeps pace ends no more than the load then, so no more is taken for granted.
struct Between {
    before: (f64, f64),
    after: (f64, f64),
}

impl Between {
    fn around(moment: f64, looks: &[Look]) -> Option<Self> {
        let next = looks.partition_point(|look| seconds(look) <= moment);
        let seen = |look: &Look| (seconds(look), look.ended as f64);
        let before = next.checked_sub(1).map_or((0.0, 0.0), |earlier| seen(&looks[earlier]));
        Some(Self { before, after: seen(looks.get(next).or(looks.last())?) })
    }

    fn most_at(&self, moment: f64, rate: f64) -> f64 {
        (self.before.1 + rate * (moment - self.before.0)).min(self.after.1)
    }

    fn least_at(&self, moment: f64, rate: f64) -> f64 {
        (self.after.1 - rate * (self.after.0 - moment)).max(self.before.1)
    }
}

fn seconds(look: &Look) -> f64 {
    look.at_ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: f64 = 0.2;

    /// When each of the connections of a load ends, in seconds: due at its time, behind what is queued, and later by a delay.
    fn ends(rate: f64, capacity: f64, delay: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut free_at = 0.0f64;
        let mut ends = Vec::new();
        for number in 0..(rate * SECONDS) as usize {
            free_at = free_at.max(number as f64 / rate) + 1.0 / capacity;
            ends.push(free_at + delay(number));
        }
        ends.sort_by(f64::total_cmp);
        ends
    }

    /// Looks every millisecond, but not between `blind.0` and `blind.1` seconds.
    fn looks(ends: &[f64], blind: (f64, f64)) -> Vec<Look> {
        let at = |ms: u64| Look {
            at_ns: ms * 1_000_000,
            ended: ends.partition_point(|end| *end <= ms as f64 / 1e3) as u64,
        };
        let sees = |look: &Look| !(blind.0..blind.1).contains(&seconds(look));
        (1..3000).map(at).filter(sees).collect()
    }

    #[test]
    fn a_rate_is_held_if_connections_end_as_fast_as_they_are_opened() {
        let even = |seconds: f64| move |_: usize| seconds;
        // From none to as much as 80 ms, in no order.
        let uneven = |number: usize| (number * 7919 % 101) as f64 / 101.0 * 0.08;
        let fast = 1e6;
        let never = (1.0, 0.0);
        // The load; the times of its connections; when nobody looks; what is held, and how exactly.
        let rows: [(&str, f64, Vec<f64>, _, f64, f64); 12] = [
            ("fast", 1000.0, ends(1000.0, fast, even(0.0)), never, 1000.0, 0.011),
            ("fast, far away", 1000.0, ends(1000.0, fast, even(0.05)), never, 1000.0, 0.011),
            ("further than the load is long", 1000.0, ends(1000.0, fast, even(0.7)), never, 1000.0, 0.011),
            ("uneven delay", 1000.0, ends(1000.0, fast, uneven), never, 1000.0, 0.05),
            (
                "fast, nobody looks at the end",
                1000.0,
                ends(1000.0, fast, even(0.0)),
                (0.17, 0.25),
                1000.0,
                0.011,
            ),
            (
                "fast, nobody looks in the middle",
                1000.0,
                ends(1000.0, fast, even(0.0)),
                (0.07, 0.13),
                1000.0,
                0.011,
            ),
            ("a queue takes all in", 3050.0, ends(3050.0, 850.0, even(0.0)), never, 850.0, 0.02),
            ("a queue, far away", 3050.0, ends(3050.0, 850.0, even(0.05)), never, 850.0, 0.02),
            ("a queue, a little too fast", 940.0, ends(940.0, 850.0, even(0.0)), never, 850.0, 0.02),
            (
                "the same, nobody looks at the end",
                940.0,
                ends(940.0, 850.0, even(0.0)),
                (0.19, 0.25),
                850.0,
                0.04,
            ),
            ("a queue and uneven delay", 3050.0, ends(3050.0, 850.0, uneven), never, 850.0, 0.06),
            (
                "all but the first end too late",
                1000.0,
                (0..200).map(|n| f64::from(n) * 1e-4 + f64::from(n.min(1))).collect(),
                never,
                5.0,
                0.01,
            ),
        ];
        for (name, rate, ends, blind, held, exactness) in rows {
            let in_time = InTime::of(rate, SECONDS, ends[0], &looks(&ends, blind)).unwrap();
            assert!(
                (in_time.rate() - held).abs() <= exactness * rate.min(held),
                "{name}: {}",
                in_time.rate()
            );
        }
        assert_eq!(InTime::of(1000.0, SECONDS, 0.0, &[]), None);
    }
}
