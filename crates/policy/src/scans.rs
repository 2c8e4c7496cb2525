//! Scans: sources that ask in vain for many ports or hosts within a time. What a policy says about them, and the arithmetic of the sketch
//! by which the data plane counts different things: a bit each, found by a hash with a secret. Several things may share a bit, so what is
//! counted is never more than there is. Pure: it counts nothing itself.

use crate::address::AddressSet;
use std::time::Duration;

/// Bits of a sketch: `SCAN_WORDS` words of 64 in `bpf/abi/firewall.h`.
pub const SKETCH_BITS: u32 = 512;
/// How many different ports or hosts may be asked for: fewer say nothing, and more do not fit the sketch.
pub const DIFFERENT: (u32, u32) = (5, 1_000);
/// The time in which they are counted.
pub const WINDOW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));
/// How long a source is blocked.
pub const BLOCK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30 * 86_400));

/// What is a scan, and what comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scans {
    /// So many different ports are a scan, within [`DIFFERENT`]; `None`: ports are not counted.
    pub ports: Option<u32>,
    /// So many different hosts are one; `None`: hosts are not counted.
    pub hosts: Option<u32>,
    /// The time in which they are counted, within [`WINDOW`]. Up to twice as long may have passed between the first and the last of them.
    pub window: Duration,
    /// How long the source opens no flow then, within [`BLOCK`]; `None`: the scan is recorded alone.
    pub block: Option<Duration>,
    /// Sources that are never counted or blocked.
    pub except: AddressSet,
}

/// How many bits of a sketch make a scan of so many different things. So many things set three standard deviations more on the average,
/// so that one scan in a thousand is missed at that number, and found a little later. Fewer things than bits never set them.
pub fn bits_of(different: u32) -> u32 {
    let (bits, load) = (f64::from(SKETCH_BITS), f64::from(different) / f64::from(SKETCH_BITS));
    let free = (-load).exp();
    // The number of occupied cells of m in which balls were thrown at random (Whang and others, "A linear-time probabilistic counting
    // algorithm", 1990).
    let (mean, variance) = (bits * (1.0 - free), bits * free * (1.0 - (1.0 + load) * free));
    let wanted = mean - 3.0 * variance.max(0.0).sqrt();
    // Between 1 and 512.
    (wanted.floor() as u32).clamp(1, SKETCH_BITS)
}

/// How many different things have set so many bits, most likely. A full sketch says so many at least.
pub fn estimate(bits: u32) -> u32 {
    let all = f64::from(SKETCH_BITS);
    let free = f64::from(SKETCH_BITS.saturating_sub(bits).max(1));
    // At most 512 times ln 512, 3,194.
    (-all * (free / all).ln()).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random: splitmix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// How many different things it takes until a sketch has so many bits.
    fn things_until(bits: u32, state: &mut u64) -> u32 {
        let (mut sketch, mut set, mut things) = ([0u64; 8], 0, 0);
        while set < bits {
            let hash = next(state) >> 55;
            let (word, mask) = (usize::try_from(hash >> 6).unwrap(), 1 << (hash & 63));
            set += u32::from(sketch[word] & mask == 0);
            sketch[word] |= mask;
            things += 1;
        }
        things
    }

    #[test]
    fn a_scan_is_found_before_its_number_and_not_long_before() {
        let mut state = 1;
        for different in [5, 10, 20, 50, 100, 200, 500, 1_000] {
            let bits = bits_of(different);
            let mut found: Vec<u32> = (0..2_000).map(|_| things_until(bits, &mut state)).collect();
            found.sort_unstable();
            let late = found.iter().filter(|things| **things > different).count();
            assert!(late <= 20, "{different}: {late} of 2,000 scans were found late");
            assert!(found[0] >= bits, "{different}: fewer things than bits");
            assert!(found[10] * 10 >= different * 7, "{different}: found at {} already", found[10]);
        }
    }

    #[test]
    fn bits_and_estimates_go_together() {
        for (different, bits) in [(5, 4), (10, 8), (100, 82), (500, 298), (1_000, 419)] {
            assert_eq!(bits_of(different), bits, "{different}");
        }
        for (bits, different) in
            [(0, 0), (1, 1), (10, 10), (100, 111), (256, 355), (512, 3_194), (9_999, 3_194)]
        {
            assert_eq!(estimate(bits), different, "{bits}");
        }
        let all = DIFFERENT.0..DIFFERENT.1;
        assert!(all.clone().all(|n| bits_of(n) <= bits_of(n + 1) && bits_of(n) <= n));
    }
}
