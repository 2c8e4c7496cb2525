//! Distributions of times in ns, filled from the sink's buckets.

use crate::results::LatencySummary;
use hdrhistogram::Histogram;

/// Shortest time that is kept apart, in ns; shorter ones count as this.
pub const SHORTEST_NS: u64 = 1;
/// Longest time that is kept apart, in ns: 100 s. Longer ones count as this.
pub const LONGEST_NS: u64 = 100_000_000_000;

/// Times with three significant digits from 1 ns to 100 s.
#[derive(Debug, Clone)]
pub struct Distribution {
    histogram: Histogram<u64>,
    /// Sum of the times, for a mean without the buckets' rounding.
    sum: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// Nothing sampled.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, 3)
            .expect("1 ns to 100 s in three digits is a range that the crate takes");
        Self { histogram, sum: 0.0 }
    }

    /// Adds `count` samples of `value_ns`; values outside 1 ns to 100 s count as the nearer end.
    pub fn add(&mut self, value_ns: u64, count: u64) {
        let value = value_ns.clamp(SHORTEST_NS, LONGEST_NS);
        self.histogram.saturating_record_n(value, count);
        self.sum += value as f64 * count as f64;
    }

    /// Adds another distribution's samples.
    pub fn merge(&mut self, other: &Distribution) {
        self.histogram.add(&other.histogram).expect("all distributions have the same range");
        self.sum += other.sum;
    }

    /// Samples.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The summary that results carry; `None` when nothing was sampled.
    pub fn summary(&self) -> Option<LatencySummary> {
        let count = self.count();
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64;
        (count > 0).then(|| LatencySummary {
            count,
            min: self.histogram.min() as f64,
            mean: self.sum / count as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.histogram.max() as f64,
            clock_error: 0.0,
        })
    }
}

impl FromIterator<(u64, u64)> for Distribution {
    /// From buckets of (ns, samples).
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(buckets: I) -> Self {
        let mut distribution = Self::new();
        for (value_ns, count) in buckets {
            distribution.add(value_ns, count);
        }
        distribution
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= expected * 0.001
    }

    #[test]
    fn nothing_sampled_has_no_summary() {
        assert_eq!(Distribution::new().summary(), None);
        assert_eq!(Distribution::from_iter([(5, 0)]).summary(), None);
    }

    #[test]
    fn a_uniform_distribution() {
        let found = Distribution::from_iter((1..=1000).map(|us| (us * 1000, 3))).summary().unwrap();
        assert_eq!(found.count, 3000);
        let rows = [
            (found.min, 1e3),
            (found.mean, 500_500.0),
            (found.p50, 500e3),
            (found.p90, 900e3),
            (found.p99, 990e3),
            (found.p999, 999e3),
            (found.max, 1e6),
        ];
        for (value, expected) in rows {
            assert!(near(value, expected), "{value}, expected {expected}");
        }
    }

    #[test]
    fn values_out_of_range_count_as_the_ends() {
        let found = Distribution::from_iter([(0, 1), (u64::MAX, 1)]).summary().unwrap();
        assert_eq!((found.count, found.min), (2, 1.0));
        assert!(near(found.max, LONGEST_NS as f64));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn merging_is_adding(a in proptest::collection::vec((1..LONGEST_NS, 1u64..1000), 1..40), cut in 0usize..40) {
            let whole = Distribution::from_iter(a.iter().copied());
            let (left, right) = a.split_at(cut.min(a.len()));
            let mut merged = Distribution::from_iter(left.iter().copied());
            merged.merge(&Distribution::from_iter(right.iter().copied()));
            let (merged, whole) = (merged.summary().unwrap(), whole.summary().unwrap());
            prop_assert!(near(merged.mean, whole.mean));
            prop_assert_eq!(LatencySummary { mean: 0.0, ..merged }, LatencySummary { mean: 0.0, ..whole });
        }
    }
}
