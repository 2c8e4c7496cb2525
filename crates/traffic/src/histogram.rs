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

    /// Runs the C function of `bpf/traffic/histogram.h` on one value.
    fn bucket_in_c(program: &libbpf_rs::ProgramMut<'_>, value: u64) -> usize {
        let mut frame = [0u8; 64];
        frame[..8].copy_from_slice(&value.to_ne_bytes());
        let input = libbpf_rs::ProgramInput { data_in: Some(&frame), ..Default::default() };
        program.test_run(input).unwrap().return_value as usize
    }

    #[test]
    fn needs_root_both_languages_have_the_same_buckets() {
        assert!(nix::unistd::geteuid().is_root(), "this test loads BPF: run it as root");
        let path = concat!(env!("OUT_DIR"), "/weather.bpf.o");
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
