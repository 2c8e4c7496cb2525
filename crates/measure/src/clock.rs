//! How far the clocks of two hosts are apart: an interval from stamps that the hosts exchanged, and what is known of a time that began by one
//! clock and ended by the other. Nothing is assumed of the network, neither that its two ways take equally long nor that any way is short:
//! a message is not there before it was sent, and that bounds the offset from both sides. Pure.

use crate::results::LatencySummary;
use serde::{Deserialize, Serialize};

/// So much may two clocks drift apart, as a share of the time: NTP changes the pace of a clock by 0.05 % at most (RFC 5905 section 11.3), and
/// the crystals of ordinary machines differ by less than a tenth of that.
pub const MOST_DRIFT: f64 = 0.001;

/// One exchange of messages: the four stamps of RFC 5905 section 8, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// When the question was sent, by the asker's clock.
    pub asked_ns: u64,
    /// When the question arrived, by the other's clock.
    pub heard_ns: u64,
    /// When the answer was sent, by the other's clock.
    pub answered_ns: u64,
    /// When the answer arrived, by the asker's clock.
    pub returned_ns: u64,
}

/// By how much the other's clock is ahead of the asker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The moment that it is of, by the asker's clock, in ns.
    pub at_ns: u64,
    /// The smallest offset that the stamps allow, in ns.
    pub least_ns: i64,
    /// The largest.
    pub most_ns: i64,
}

/// Why nothing is known of two clocks.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClockProblem {
    /// No message came back.
    #[error("the hosts exchanged no stamps")]
    Nothing,
    /// A clock went backwards within an exchange.
    #[error("an answer was stamped before its question: a clock was set back, or stamps are not true")]
    Backwards,
    /// No offset explains all stamps.
    #[error("no offset explains the stamps, by {0} ns: a clock was set meanwhile, or stamps are not true")]
    Contradiction(u64),
    /// The offsets before and after a trial are further apart than clocks drift.
    #[error(
        "the clocks of the hosts moved against each other by at least {moved_ns} ns in {seconds:.3} s, more than clocks drift: one was set, or its \
         host stood still"
    )]
    Moved {
        /// By so much at least, beyond what both intervals allow.
        moved_ns: u64,
        /// Between the two.
        seconds: f64,
    },
}

impl Offset {
    /// What exchanges say together; the more of them, the narrower it is. All count, each less certain the longer ago it was.
    ///
    /// # Errors
    /// No exchange, or some that contradict each other.
    pub fn of(exchanges: &[Exchange]) -> Result<Self, ClockProblem> {
        let at_ns = exchanges.iter().map(|it| it.returned_ns).max().ok_or(ClockProblem::Nothing)?;
        let (mut least, mut most) = (i128::MIN, i128::MAX);
        for it in exchanges {
            if it.returned_ns < it.asked_ns || it.answered_ns < it.heard_ns {
                return Err(ClockProblem::Backwards);
            }
            let drift = ((at_ns - it.asked_ns) as f64 * MOST_DRIFT).ceil() as i128;
            // Neither way takes less than no time.
            most = most.min(i128::from(it.heard_ns) - i128::from(it.asked_ns) + drift);
            least = least.max(i128::from(it.answered_ns) - i128::from(it.returned_ns) - drift);
        }
        if least > most {
            return Err(ClockProblem::Contradiction((least - most) as u64));
        }
        // Clocks count from when their machines began, so that their difference is one of years at most.
        Ok(Self { at_ns, least_ns: least as i64, most_ns: most as i64 })
    }

    /// By how much the asker's clock is ahead of the other's.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { least_ns: -self.most_ns, most_ns: -self.least_ns, ..self }
    }
}

/// Between which offsets two clocks were from one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The smallest, in ns.
    pub least_ns: i64,
    /// The largest.
    pub most_ns: i64,
}

impl Span {
    /// From what was known before and after. Between the two the offset is taken to change in one direction only, as it does when two
    /// crystals differ.
    ///
    /// # Errors
    /// They are further apart than clocks drift.
    pub fn of(before: Offset, after: Offset) -> Result<Self, ClockProblem> {
        let apart = (after.least_ns - before.most_ns).max(before.least_ns - after.most_ns).max(0);
        let between = after.at_ns.abs_diff(before.at_ns);
        if apart as f64 > between as f64 * MOST_DRIFT {
            return Err(ClockProblem::Moved { moved_ns: apart as u64, seconds: between as f64 / 1e9 });
        }
        Ok(Self { least_ns: before.least_ns.min(after.least_ns), most_ns: before.most_ns.max(after.most_ns) })
    }

    /// What latencies are that a sink reckoned with the receiver's clock being ahead by `used_ns`.
    pub fn corrects(self, used_ns: i64) -> Correction {
        let (least, most) = (self.least_ns as f64, self.most_ns as f64);
        Correction { shift_ns: used_ns as f64 - (least + most) / 2.0, error_ns: (most - least) / 2.0 }
    }
}

/// What makes latencies of those that a sink reckoned.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Correction {
    /// To be added to each, in ns.
    pub shift_ns: f64,
    /// How far the sum may still be off, either way, in ns.
    pub error_ns: f64,
}

impl Correction {
    /// Of latencies that have either this or the other correction, nobody knows which.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let shift_ns = f64::midpoint(self.shift_ns, other.shift_ns);
        let error = |it: Self| it.error_ns + (it.shift_ns - shift_ns).abs();
        Self { shift_ns, error_ns: error(self).max(error(other)) }
    }
}

impl LatencySummary {
    /// Latencies as they are, with the error bar of the clocks. None is less than 0.
    #[must_use]
    pub fn corrected(self, by: Correction) -> Self {
        let shifted = |ns: f64| (ns + by.shift_ns).max(0.0);
        Self {
            count: self.count,
            min: shifted(self.min),
            mean: shifted(self.mean),
            p50: shifted(self.p50),
            p90: shifted(self.p90),
            p99: shifted(self.p99),
            p999: shifted(self.p999),
            max: shifted(self.max),
            clock_error: by.error_ns,
        }
    }

    /// Differences of latencies, in which the clocks' offset is not, but how much it may have changed meanwhile.
    #[must_use]
    pub const fn with_clock_error(self, by: Correction) -> Self {
        Self { clock_error: by.error_ns, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two clocks and the network between them.
    #[derive(Debug, Clone, Copy)]
    struct Network {
        /// Of the other's clock at the start, in ns.
        offset: i64,
        /// Of the other's clock against the asker's, as a share.
        drift: f64,
        /// Of each way at least, in ns.
        ways: [u64; 2],
        /// Added to each way by chance, in ns.
        jitter: u64,
    }

    impl Network {
        fn offset_at(&self, ns: u64) -> i64 {
            self.offset + (ns as f64 * self.drift) as i64
        }

        fn other(&self, ns: u64) -> u64 {
            (ns as i64 + self.offset_at(ns)) as u64
        }

        /// Exchanges a millisecond apart from this moment on.
        fn exchanges(&self, from_ns: u64, count: u64, seed: u64) -> Vec<Exchange> {
            let mut state = seed | 1;
            let mut late = |way: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                way + (state >> 33) % (self.jitter + 1)
            };
            let exchange = |number: u64| {
                let asked_ns = from_ns + number * 1_000_000;
                let heard = asked_ns + late(self.ways[0]);
                let answered = heard + 3_000;
                let returned_ns = answered + late(self.ways[1]);
                let (heard_ns, answered_ns) = (self.other(heard), self.other(answered));
                Exchange { asked_ns, heard_ns, answered_ns, returned_ns }
            };
            (0..count).map(exchange).collect()
        }
    }

    const START: u64 = 5_000_000_000_000;

    #[test]
    fn the_true_offset_is_in_the_interval_of_every_network() {
        let near = Network { offset: 0, drift: 0.0, ways: [40_000, 40_000], jitter: 30_000 };
        // The network, and how wide the interval may be: as long as the shortest way there and back, with what the clocks may drift.
        for (name, network, widest) in [
            ("one clock", near, 140_000),
            ("ahead", Network { offset: 700_000_000_000_000, ..near }, 140_000),
            ("behind", Network { offset: -4_999_000_000_000, ..near }, 140_000),
            ("fast", Network { drift: 50e-6, ..near }, 140_000),
            ("as fast as NTP makes it", Network { drift: 500e-6, ..near }, 140_000),
            ("slow", Network { drift: -500e-6, offset: 9, ..near }, 140_000),
            ("uneven ways", Network { ways: [20_000, 900_000], ..near }, 1_000_000),
            ("the other way uneven", Network { ways: [900_000, 20_000], ..near }, 1_000_000),
            ("far", Network { ways: [40_000_000, 60_000_000], jitter: 9_000_000, ..near }, 110_000_000),
            ("loaded", Network { jitter: 20_000_000, ..near }, 9_000_000),
        ] {
            for seed in 0..50 {
                let offset = Offset::of(&network.exchanges(START, 32, seed)).unwrap();
                let truth = network.offset_at(offset.at_ns);
                assert!(
                    (offset.least_ns..=offset.most_ns).contains(&truth),
                    "{name}: {truth} is not in {offset:?}"
                );
                assert!(offset.most_ns - offset.least_ns <= widest, "{name}: {offset:?} is too wide");
            }
        }
    }

    proptest! {
        /// A latency that truly was `latency` is within the error bar of what the sink's figure becomes, whenever in the trial it was.
        #[test]
        fn a_latency_is_within_its_error_bar(
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            drift in -500e-6..500e-6,
            ways in [1_000_u64..5_000_000, 1_000_u64..5_000_000],
            jitter in 0_u64..2_000_000,
            seconds in 0.05..120.0,
            when in 0.0..1.0,
            latency in 0_u64..3_000_000,
            seed: u64,
        ) {
            let network = Network { offset, drift, ways, jitter };
            let before = Offset::of(&network.exchanges(START, 16, seed)).unwrap();
            let end = before.at_ns + (seconds * 1e9) as u64;
            let after = Offset::of(&network.exchanges(end, 16, seed ^ 77)).unwrap();
            let span = Span::of(before, after).unwrap();
            let sent = before.at_ns + (seconds * when * 1e9) as u64;
            // What a sink at the other host makes of it, which takes the clocks to be as they were before.
            let used = before.least_ns;
            let reckoned = network.other(sent + latency) as i64 - used - sent as i64;
            let by = span.corrects(used);
            let found = reckoned as f64 + by.shift_ns;
            prop_assert!((found - latency as f64).abs() <= by.error_ns + 1.0, "{found} is not {latency}: {by:?}");
            let either = by.or(Correction { shift_ns: by.shift_ns + 5_000.0, error_ns: 7.0 });
            prop_assert!((reckoned as f64 + either.shift_ns - latency as f64).abs() <= either.error_ns + 1.0);
        }

        #[test]
        fn both_hosts_find_the_same(least in -1_000_i64..1_000, more in 0_i64..1_000) {
            let offset = Offset { at_ns: 1, least_ns: least, most_ns: least + more };
            prop_assert_eq!(offset.reversed().reversed(), offset);
            let (span, reversed) = (Span::of(offset, offset).unwrap(), Span::of(offset.reversed(), offset.reversed()).unwrap());
            let (by, back) = (span.corrects(0), reversed.corrects(0));
            prop_assert_eq!((by.shift_ns, by.error_ns), (-back.shift_ns, back.error_ns));
        }
    }

    #[test]
    fn stamps_that_cannot_be_are_refused() {
        let network = Network { offset: 1_000, drift: 0.0, ways: [40_000, 40_000], jitter: 0 };
        let true_ones = network.exchanges(START, 4, 1);
        let changed = |change: fn(&mut Exchange)| {
            let mut exchanges = true_ones.clone();
            change(&mut exchanges[2]);
            Offset::of(&exchanges)
        };
        for (name, found, said) in [
            ("none", Offset::of(&[]), "exchanged no stamps"),
            ("asked after", changed(|it| it.asked_ns = it.returned_ns + 1), "before its question"),
            ("answered before", changed(|it| it.answered_ns = it.heard_ns - 1), "before its question"),
            (
                "set ahead",
                changed(|it| {
                    it.heard_ns += 200_000;
                    it.answered_ns += 200_000
                }),
                "no offset explains",
            ),
            (
                "set back",
                changed(|it| {
                    it.heard_ns -= 200_000;
                    it.answered_ns -= 200_000
                }),
                "no offset explains",
            ),
            (
                "of another time",
                changed(|it| {
                    it.heard_ns = 0;
                    it.answered_ns = u64::MAX
                }),
                "no offset explains",
            ),
        ] {
            let error = found.unwrap_err().to_string();
            assert!(error.contains(said), "{name}: {error}");
        }
    }

    #[test]
    fn clocks_that_were_set_during_a_trial_are_found_out() {
        let at =
            |seconds: u64, least_ns, most_ns| Offset { at_ns: seconds * 1_000_000_000, least_ns, most_ns };
        let before = at(10, -50_000, 50_000);
        for (name, after, expected) in [
            ("still", at(12, -40_000, 60_000), Some((-50_000, 60_000))),
            ("drifts as NTP lets it", at(12, 1_000_000, 1_100_000), Some((-50_000, 1_100_000))),
            ("set ahead", at(12, 5_000_000, 5_100_000), None),
            ("set back", at(12, -5_100_000, -5_000_000), None),
            ("stood still in a short trial", at(10, 60_000, 90_000), None),
        ] {
            let span = Span::of(before, after);
            match expected {
                Some((least_ns, most_ns)) => assert_eq!(span, Ok(Span { least_ns, most_ns }), "{name}"),
                None => assert!(span.unwrap_err().to_string().contains("moved against each other"), "{name}"),
            }
        }
    }

    #[test]
    fn latencies_are_never_less_than_nothing_and_say_how_certain_they_are() {
        let raw = LatencySummary {
            count: 3,
            min: 10_000.0,
            mean: 60_000.0,
            p50: 55_000.0,
            max: 99_000.0,
            ..LatencySummary::default()
        };
        let by = Correction { shift_ns: -50_000.0, error_ns: 50_000.0 };
        let found = raw.corrected(by);
        assert_eq!((found.min, found.mean, found.p50, found.max), (0.0, 10_000.0, 5_000.0, 49_000.0));
        assert_eq!((found.clock_error, raw.with_clock_error(by).p50), (50_000.0, 55_000.0));
    }
}
