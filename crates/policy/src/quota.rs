//! The reference for limits and thresholds, which tests compare with the data plane. It is slow and exact, and has whole numbers
//! only. It reads no clock; the moment is an argument.

use crate::quantity::Rate;
use std::time::Duration;

const SECOND: u128 = 1_000_000_000;

/// A token bucket. It is full at first, each new flow takes a token, and it fills at the rate up to the burst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    rate: Rate,
    /// Tokens that it holds, in parts of `rate.seconds` times 10^9.
    burst: u128,
    tokens: u128,
    last: Duration,
}

impl Bucket {
    /// A full bucket. Without a burst it holds as many tokens as the rate's number.
    pub fn new(rate: Rate, burst: Option<u32>) -> Self {
        let burst = u128::from(burst.unwrap_or(rate.events).max(1)) * Self::token(rate);
        Self { rate, burst, tokens: burst, last: Duration::ZERO }
    }

    fn token(rate: Rate) -> u128 {
        u128::from(rate.seconds) * SECOND
    }

    /// Whether a new flow may open at a moment, which must not be before the last one. If so, the flow takes a token.
    pub fn take(&mut self, at: Duration) -> bool {
        // In a nanosecond a token of `seconds` * 10^9 parts grows by `events` of them.
        let grown = at.saturating_sub(self.last).as_nanos() * u128::from(self.rate.events);
        self.tokens = (self.tokens + grown).min(self.burst);
        self.last = self.last.max(at);
        let rest = self.tokens.checked_sub(Self::token(self.rate));
        self.tokens = rest.unwrap_or(self.tokens);
        rest.is_some()
    }
}

/// Counts what came within a sliding time, by two windows: all of the current one, and of the one before it the part that still
/// lies within the time, as if its events had come evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sliding {
    /// The time, a second at least.
    pub window: Duration,
    /// When the current window began.
    pub since: Duration,
    /// Events in the current window.
    pub count: u64,
    /// Events in the window before.
    pub before: u64,
}

impl Sliding {
    /// Windows without events; the first one begins now.
    pub fn new(window: Duration, at: Duration) -> Self {
        Self { window, since: at, count: 0, before: 0 }
    }

    /// The windows as they are at a later moment if no event comes.
    fn rolled(self, at: Duration) -> Self {
        let gone = at.saturating_sub(self.since);
        if gone >= self.window * 2 {
            Self::new(self.window, at)
        } else if gone >= self.window {
            Self { since: self.since + self.window, before: self.count, count: 0, ..self }
        } else {
            self
        }
    }

    /// How many events came within the time before a moment, rounded down. The window before counts by parts of 2^16, rounded up,
    /// as in the data plane, which has no wider numbers.
    pub fn estimate(self, at: Duration) -> u64 {
        let Self { window, since, count, before } = self.rolled(at);
        let left = window.saturating_sub(at.saturating_sub(since)).as_nanos();
        let parts = (left << 16).div_ceil(window.as_nanos().max(1));
        // `parts` is 2^16 at most.
        count + ((u128::from(before) * parts) >> 16) as u64
    }

    /// Counts one more event, and returns how many came within the time, that one included.
    pub fn rise(&mut self, at: Duration) -> u64 {
        *self = self.rolled(at);
        self.count += 1;
        self.estimate(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_within_a_time_fades_with_it() {
        let mut sliding = Sliding::new(Duration::from_secs(60), Duration::from_secs(100));
        // Seconds, how many come then, and what is estimated after the last of them.
        for (at, comes, expected) in [
            (100, 10, 10),
            (159, 10, 20),
            (160, 0, 20),
            (175, 0, 15),
            (190, 6, 16),
            (219, 0, 6),
            (220, 0, 6),
            (250, 0, 3),
            (280, 0, 0),
            (900, 1, 1),
        ] {
            let at = Duration::from_secs(at);
            for _ in 0..comes {
                sliding.rise(at);
            }
            assert_eq!(sliding.estimate(at), expected, "at {at:?}");
        }
    }

    #[test]
    fn a_bucket_lets_through_its_burst_and_then_its_rate() {
        let rate = Rate { events: 6, seconds: 60 };
        let mut bucket = Bucket::new(rate, Some(3));
        // Seconds, and whether a flow fits then.
        for (at, expected) in [
            (100, true),
            (100, true),
            (100, true),
            (100, false),
            (109, false),
            (110, true),
            (110, false),
            (125, true),
            (129, false),
            (130, true),
            (1_000, true),
            (1_000, true),
            (1_000, true),
            (1_000, false),
        ] {
            assert_eq!(bucket.take(Duration::from_secs(at)), expected, "at {at} s");
        }
        let mut as_many_as_the_number = Bucket::new(rate, None);
        let taken = (0..10).filter(|_| as_many_as_the_number.take(Duration::from_secs(1))).count();
        assert_eq!(taken, 6);
    }
}
