//! Reading the log-linear histograms of `bpf/traffic/histogram.h`.

use measure::latency::Distribution;
use measure::results::LatencySummary;
use serde::{Deserialize, Serialize};

/// As in `bpf/abi/traffic.h`, to which each engine's skeleton holds them.
pub(crate) const BUCKET_BITS: u32 = 7;
pub(crate) const BUCKETS: usize = 4096;

/// Times that the programs entered, at one moment or between two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Sparse", into = "Sparse")]
pub struct Histogram {
    counts: Vec<u64>,
    /// Sum of all times, ns.
    pub sum_ns: u64,
    /// Smallest time since the start of the run, ns; 0: nothing was timed.
    pub min_ns: u64,
    /// Largest time since the start of the run, ns.
    pub max_ns: u64,
}

/// A histogram without its empty buckets: the form in which it goes from host to host.
#[derive(Serialize, Deserialize)]
struct Sparse {
    /// Number and count of each bucket that is not empty.
    buckets: Vec<(u16, u64)>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl From<Histogram> for Sparse {
    fn from(full: Histogram) -> Self {
        let Histogram { counts, sum_ns, min_ns, max_ns } = full;
        let buckets = (0..).zip(counts).filter(|(_, count)| *count > 0).collect();
        Self { buckets, sum_ns, min_ns, max_ns }
    }
}

impl TryFrom<Sparse> for Histogram {
    type Error = String;

    fn try_from(sparse: Sparse) -> Result<Self, String> {
        let Sparse { buckets, sum_ns, min_ns, max_ns } = sparse;
        let mut made = Self { sum_ns, min_ns, max_ns, ..Self::default() };
        for (bucket, count) in buckets {
            let place = made.counts.get_mut(usize::from(bucket));
            *place.ok_or_else(|| format!("there is no bucket {bucket}: a histogram has {BUCKETS}"))? = count;
        }
        Ok(made)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], sum_ns: 0, min_ns: 0, max_ns: 0 }
    }
}

impl Histogram {
    /// Adds another core's part: its buckets, and sum, smallest and largest time in ns.
    pub(crate) fn add(&mut self, bucket: impl Fn(usize) -> u64, (sum, min, max): (u64, u64, u64)) {
        for (number, count) in self.counts.iter_mut().enumerate() {
            *count += bucket(number);
        }
        self.sum_ns += sum;
        if min > 0 && (self.min_ns == 0 || min < self.min_ns) {
            self.min_ns = min;
        }
        self.max_ns = self.max_ns.max(max);
    }

    /// Adds what another one holds.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.add(|bucket| other.counts[bucket], (other.sum_ns, other.min_ns, other.max_ns));
    }

    /// What was entered after `earlier`. The smallest and the largest time stay this histogram's.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.saturating_sub(*then));
        Self { counts: counts.collect(), sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns), ..*self }
    }

    /// How many times were entered.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// (time in ns, how often), rising. A time is the middle of its bucket, at most 0.4 % away.
    pub fn entries(&self) -> Vec<(u64, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| (middle_ns(bucket), *count)).collect()
    }

    /// Statistics in ns, of which the mean is exact and the others are of buckets' middles; `None` when nothing was timed.
    pub(crate) fn summary(&self) -> Option<LatencySummary> {
        Some(LatencySummary { mean: self.mean_ns(), ..summary(self.entries())? })
    }

    pub(crate) fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count().max(1) as f64
    }
}

/// Statistics of (time in ns, how often).
pub(crate) fn summary(entries: impl IntoIterator<Item = (u64, u64)>) -> Option<LatencySummary> {
    let mut distribution = Distribution::new();
    for (ns, count) in entries {
        distribution.add(ns, count);
    }
    distribution.summary()
}

/// The time in ns that stands for a bucket: its middle, at most 0.4 % from every time in it.
fn middle_ns(bucket: usize) -> u64 {
    let low = lowest_ns(bucket);
    low + (lowest_ns(bucket + 1) - low) / 2
}

/// The smallest time that falls into a bucket.
fn lowest_ns(bucket: usize) -> u64 {
    let within = 1 << BUCKET_BITS;
    if bucket < within {
        return bucket as u64;
    }
    let shift = (bucket >> BUCKET_BITS) - 1;
    ((within + (bucket & (within - 1))) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        for bucket in 0..BUCKETS - 1 {
            let (low, next) = (lowest_ns(bucket), lowest_ns(bucket + 1));
            assert!(next > low);
            if low >= 100 {
                let worst = (next - low) as f64 / 2.0 / low as f64;
                assert!(worst <= 0.01, "bucket {bucket} from {low} ns is {worst} off");
            }
        }
        assert!(lowest_ns(BUCKETS - 1) > 10_000_000_000, "10 s and more have a bucket");
    }

    /// Runs the C function of `bpf/traffic/histogram.h` on one value.
    fn bucket_in_c(program: &libbpf_rs::ProgramMut<'_>, value: u64) -> usize {
        let mut frame = [0u8; 64];
        frame[..8].copy_from_slice(&value.to_ne_bytes());
        let input = libbpf_rs::ProgramInput { data_in: Some(&frame), ..Default::default() };
        program.test_run(input).unwrap().return_value as usize
    }

    #[test]
    fn needs_root_both_languages_have_the_same_buckets() {
        testkit::must_be_root();
        let path = testkit::filter::WEATHER;
        let object = libbpf_rs::ObjectBuilder::default().open_file(path).unwrap().load().unwrap();
        let program = object.progs_mut().find(|program| program.name() == "bucket").unwrap();
        for bucket in 0..BUCKETS {
            let (low, next) = (lowest_ns(bucket), lowest_ns(bucket + 1));
            for value in [low, middle_ns(bucket), next - 1] {
                assert_eq!(bucket_in_c(&program, value), bucket, "{value} ns");
            }
        }
        for value in [lowest_ns(BUCKETS), 1 << 40, u64::MAX] {
            assert_eq!(
                bucket_in_c(&program, value),
                BUCKETS - 1,
                "{value} ns: the last bucket holds the rest"
            );
        }
    }
}
