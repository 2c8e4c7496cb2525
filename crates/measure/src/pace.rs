//! Whether connections ended as fast as they were opened, or only after the load had ended. A queue of some hundred segments takes in
//! what a slow firewall cannot do in time, and in a short trial that is more than what it did: the rate would be that of the queue.
//!
//! What counts is the slope of the straight line through what had ended at each moment of the load (least squares). The load is moved by the
//! shortest time that a connection took, so that a long way costs nothing: on a path of 50 ms connections are always under way. Where
//! delay is uneven, the line begins when most delays are over, at the middle of the load at the latest. When the firewall handed on its last
//! burst, and whether somebody else had the core just then, says little about a line, unlike about what had ended at the last moment. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Moments at which the line is fitted.
const MOMENTS: u32 = 200;

/// By so much of the load may what ended in time be apart at best and at least.
const MOST_DOUBT: f64 = 0.1;

/// A look at a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Since the start of the load, in ns.
    pub at_ns: u64,
    /// Connections that had done all that was asked of them.
    pub ended: u64,
}

/// What ended in time: within a constant load, as a straight line through the whole of it says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InTime {
    /// Its length.
    pub seconds: f64,
    /// Connections that ended within it. A fraction, because it is the slope of a line.
    pub ended: f64,
}

impl InTime {
    /// At best, as [`Bounds::of`] says.
    pub fn of(rate: f64, seconds: f64, times_seconds: [f64; 2], looks: &[Look]) -> Option<Self> {
        Bounds::of(rate, seconds, times_seconds, looks).map(|bounds| bounds.best)
    }

    /// Connections a second.
    pub fn rate(&self) -> f64 {
        self.ended / self.seconds
    }
}

/// What ended in time at best and at least: what ended between two looks is taken to have ended as suits the firewall most, though never faster than
/// the load, or as suits it least.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// At best.
    pub best: InTime,
    /// At least.
    pub least: InTime,
}

impl Bounds {
    /// `rate` is the load in connections a second, `seconds` its length, `times_seconds` the shortest and the median time from the start of a
    /// connection that was due to its end. `looks` rise, and the last one saw everything. `None` if nobody looked.
    pub fn of(rate: f64, seconds: f64, times_seconds: [f64; 2], looks: &[Look]) -> Option<Self> {
        let [shortest, median] = times_seconds;
        let end = shortest + seconds;
        // As much as the median is beyond the shortest time, the longest is beyond the median.
        let uneven = (2.0 * (median - shortest)).clamp(0.0, seconds / 2.0);
        let length = seconds - uneven;
        let middle = end - length / 2.0;
        let (mut best, mut least, mut squares) = (0.0, 0.0, 0.0);
        for number in 0..MOMENTS {
            let from_middle = ((f64::from(number) + 0.5) / f64::from(MOMENTS) - 0.5) * length;
            let moment = middle + from_middle;
            let between = Between::around(moment, looks)?;
            let (most, fewest) = (between.most_at(moment, rate), between.least_at(moment, rate));
            let (steep, flat) = if from_middle > 0.0 { (most, fewest) } else { (fewest, most) };
            best += from_middle * steep;
            least += from_middle * flat;
            squares += from_middle * from_middle;
        }
        let [best, least] =
            [best, least].map(|products| InTime { seconds, ended: (products / squares * seconds).max(0.0) });
        Some(Self { best, least })
    }

    /// Whether too much of a load of so many is unknown: looks were rare, and less ended between them than the load.
    pub fn are_far_apart(&self, load: f64) -> bool {
        self.best.ended - self.least.ended > MOST_DOUBT * load
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
pub(crate) mod tests {
    use super::*;

    const SECONDS: f64 = 0.2;

    /// When each of the connections of a load ends, in seconds: due at its time, behind what is queued, and later by a delay.
    fn ends(rate: f64, capacity: f64, delay: impl Fn(usize) -> f64) -> Vec<f64> {
        ends_within(SECONDS, rate, capacity, delay)
    }

    pub(crate) fn ends_within(
        seconds: f64,
        rate: f64,
        capacity: f64,
        mut delay: impl FnMut(usize) -> f64,
    ) -> Vec<f64> {
        let mut free_at = 0.0f64;
        let connections = 0..(rate * seconds) as usize;
        connections
            .map(|number| {
                free_at = free_at.max(number as f64 / rate) + 1.0 / capacity;
                free_at + delay(number)
            })
            .collect()
    }

    /// What is held by looks every millisecond, but not between `blind.0` and `blind.1` seconds. The ends are in the order of the starts.
    pub(crate) fn in_time(rate: f64, seconds: f64, ends: &[f64], blind: (f64, f64)) -> InTime {
        let mut times: Vec<f64> =
            ends.iter().enumerate().map(|(number, end)| end - number as f64 / rate).collect();
        let mut ends = ends.to_vec();
        for list in [&mut times, &mut ends] {
            list.sort_by(f64::total_cmp);
        }
        let at = |ms: u64| Look {
            at_ns: ms * 1_000_000,
            ended: ends.partition_point(|end| *end <= ms as f64 / 1e3) as u64,
        };
        let sees = |look: &Look| !(blind.0..blind.1).contains(&super::seconds(look));
        let last = (ends[ends.len() - 1] * 1e3) as u64 + 300;
        let looks: Vec<Look> = (1..=last).map(at).filter(sees).collect();
        InTime::of(rate, seconds, [times[0], times[times.len() / 2]], &looks).unwrap()
    }

    #[test]
    fn a_rate_is_held_if_connections_end_as_fast_as_they_are_opened() {
        let even = |seconds: f64| move |_: usize| seconds;
        // From none to as much as 80 ms, in no order.
        let uneven = |number: usize| (number * 7919 % 101) as f64 / 101.0 * 0.08;
        let fast = 1e6;
        let never = (1.0, 0.0);
        // Nothing ends in these, because somebody else has the core.
        let stalled = |ends: Vec<f64>, from: f64, to: f64| -> Vec<f64> {
            ends.into_iter().map(|end| if (from..to).contains(&end) { to } else { end }).collect()
        };
        let in_bursts = |ends: Vec<f64>, burst: usize| -> Vec<f64> {
            let last = |number: usize| ends[(number / burst * burst + burst - 1).min(ends.len() - 1)];
            (0..ends.len()).map(last).collect()
        };
        // The load; the times of its connections; when nobody looks; what is held, and how exactly.
        let rows: [(&str, f64, Vec<f64>, _, f64, f64); 17] = [
            ("fast", 1000.0, ends(1000.0, fast, even(0.0)), never, 1000.0, 0.005),
            ("fast, far away", 1000.0, ends(1000.0, fast, even(0.05)), never, 1000.0, 0.005),
            ("further than the load is long", 1000.0, ends(1000.0, fast, even(0.7)), never, 1000.0, 0.005),
            ("uneven delay", 1000.0, ends(1000.0, fast, uneven), never, 1000.0, 0.02),
            (
                "fast, nobody looks at the end",
                1000.0,
                ends(1000.0, fast, even(0.0)),
                (0.17, 0.25),
                1000.0,
                0.005,
            ),
            (
                "fast, nobody looks in the middle",
                1000.0,
                ends(1000.0, fast, even(0.0)),
                (0.07, 0.13),
                1000.0,
                0.005,
            ),
            (
                "a stall at the end",
                1000.0,
                stalled(ends(1000.0, fast, even(0.0)), 0.19, 0.21),
                never,
                1000.0,
                0.01,
            ),
            (
                "a stall in the middle",
                1000.0,
                stalled(ends(1000.0, fast, even(0.0)), 0.09, 0.11),
                never,
                1000.0,
                0.02,
            ),
            ("fast, in bursts", 1000.0, in_bursts(ends(1000.0, fast, even(0.0)), 16), never, 1000.0, 0.02),
            ("a queue takes all in", 3050.0, ends(3050.0, 850.0, even(0.0)), never, 850.0, 0.01),
            ("a queue, far away", 3050.0, ends(3050.0, 850.0, even(0.05)), never, 850.0, 0.01),
            ("a queue, a little too fast", 940.0, ends(940.0, 850.0, even(0.0)), never, 850.0, 0.005),
            ("a queue and bursts", 940.0, in_bursts(ends(940.0, 850.0, even(0.0)), 16), never, 850.0, 0.03),
            (
                "the same, nobody looks at the end",
                940.0,
                ends(940.0, 850.0, even(0.0)),
                (0.19, 0.25),
                850.0,
                0.02,
            ),
            ("a queue and uneven delay", 3050.0, ends(3050.0, 850.0, uneven), never, 850.0, 0.05),
            (
                "a queue and a stall",
                940.0,
                stalled(ends(940.0, 850.0, even(0.0)), 0.19, 0.21),
                never,
                850.0,
                0.02,
            ),
            (
                "all but the first end too late",
                1000.0,
                (0..200).map(|n| f64::from(n) * 1e-4 + f64::from(n.min(1))).collect(),
                never,
                5.0,
                1.0,
            ),
        ];
        for (name, rate, ends, blind, held, exactness) in rows {
            let found = in_time(rate, SECONDS, &ends, blind).rate();
            assert!((found - held).abs() <= exactness * rate.min(held), "{name}: {found}");
        }
        assert_eq!(InTime::of(1000.0, SECONDS, [0.0; 2], &[]), None);
    }

    #[test]
    fn what_nobody_saw_is_known_as_far_as_it_keeps_pace() {
        let seen = |every_ms: u64, a_second: u64| -> Vec<Look> {
            let at = |ms: u64| Look { at_ns: ms * 1_000_000, ended: (ms * a_second / 1000).min(200) };
            (1..=600 / every_ms).map(|number| at(number * every_ms)).collect()
        };
        // A load of 1,000 a second for 0.2 s: how often somebody looks, how many end a second, and the share of the load that is unknown.
        for (name, every_ms, a_second, unknown) in [
            ("seen every ms", 1, 1000, 0.0..=0.01),
            ("half as fast, seen every ms", 1, 500, 0.0..=0.02),
            ("half as fast, seen every 20 ms", 20, 500, 0.03..=0.2),
            ("half as fast, seen every 100 ms", 100, 500, 0.3..=0.5),
            ("it keeps pace, seen every 100 ms", 100, 1000, 0.0..=0.01),
        ] {
            let looks = seen(every_ms, a_second);
            let found = Bounds::of(1000.0, SECONDS, [0.0; 2], &looks).unwrap();
            let share = (found.best.ended - found.least.ended) / 200.0;
            assert!(unknown.contains(&share), "{name}: {found:?}");
            assert_eq!(found.are_far_apart(200.0), share > 0.1, "{name}: {found:?}");
        }
    }
}
