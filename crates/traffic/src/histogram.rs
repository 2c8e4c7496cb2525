//! Reading the log-linear histograms of `bpf/traffic/histogram.h`.

use crate::skeleton::BUCKET_BITS;

/// The time in ns that stands for a bucket: its middle, at most 0.4 % from every time in it.
pub(crate) fn middle_ns(bucket: usize) -> u64 {
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
    use crate::skeleton::BUCKETS;

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
}
