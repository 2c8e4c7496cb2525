//! Limits of new flows by the book: the reference that a data plane is held against. Slow and exact, with no rounding and
//! whole numbers throughout. Reads no clock: the moment is an argument.

use crate::quantity::Rate;
use std::time::Duration;

const SECOND: u128 = 1_000_000_000;

/// A token bucket: full at first, a token a new flow, filled at the rate up to the burst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    rate: Rate,
    /// Tokens that it holds, in parts of `rate.seconds` times 10^9.
    burst: u128,
    tokens: u128,
    last: Duration,
}

impl Bucket {
    /// A full bucket. Without a burst it holds as many as the rate's number.
    pub fn new(rate: Rate, burst: Option<u32>) -> Self {
        let burst = u128::from(burst.unwrap_or(rate.events).max(1)) * Self::token(rate);
        Self { rate, burst, tokens: burst, last: Duration::ZERO }
    }

    fn token(rate: Rate) -> u128 {
        u128::from(rate.seconds) * SECOND
    }

    /// Whether a new flow fits at a moment, which must not be before the last; takes its token if so.
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

#[cfg(test)]
mod tests {
    use super::*;

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
