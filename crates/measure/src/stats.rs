//! Statistics for a handful of values: medians and their bootstrap intervals, spreads, paired ratios.
//! Deterministic: whoever asks for a resample gives the seed.

/// Resamples behind an interval; enough that its ends move by well under the spread from seed to seed.
const RESAMPLES: usize = 2000;

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, good enough for resampling. Never for secrets.
#[derive(Debug, Clone)]
pub struct SplitMix {
    state: u64,
}

impl SplitMix {
    /// Equal seeds give equal sequences.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; `bound` must not be 0. The bias is below 2^-32 for any bound below 2^32.
    pub const fn below(&mut self, bound: usize) -> usize {
        ((self.next_u64() as u128 * bound as u128) >> 64) as usize
    }

    /// A number in 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A median with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// Lower end of the bootstrap 95 % interval of the median.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// Values behind it. With one value `low` and `high` are that value, and nothing is known of its spread; with two
    /// or three they are the smallest and the largest, which is all that so few values can say.
    pub count: usize,
}

/// The middle value, or the mean of the two middle ones; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

/// The median and its percentile-bootstrap 95 % interval; `None` without values.
pub fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    let value = median(values)?;
    let mut random = SplitMix::new(seed);
    let mut resample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            resample.fill_with(|| values[random.below(values.len())]);
            median_in_place(&mut resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    Some(Estimate { value, low: medians[tail], high: medians[RESAMPLES - 1 - tail], count: values.len() })
}

/// Largest minus smallest as a share of the median's size; 0 for fewer than two values or equal ones, infinite when
/// values differ around a median of 0.
pub fn spread(values: &[f64]) -> f64 {
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match median(values) {
        Some(middle) if largest > smallest => (largest - smallest) / middle.abs(),
        _ => 0.0,
    }
}

/// How many times `a` is of `b`, from the ratios within the rounds (equal indices were interleaved): what disturbed a
/// whole round cancels out. Rounds that one of them lacks, or in which `b` is not above 0, are left out; `None` when
/// no round is left.
pub fn paired_ratio(a_rounds: &[f64], b_rounds: &[f64], seed: u64) -> Option<Estimate> {
    let pairs = a_rounds.iter().zip(b_rounds).filter(|&(_, &b)| b > 0.0);
    let ratios: Vec<f64> = pairs.map(|(a, b)| a / b).collect();
    estimate(&ratios, seed)
}

fn median_in_place(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        let rows: [(&[f64], Option<f64>, f64); 6] = [
            (&[], None, 0.0),
            (&[7.0], Some(7.0), 0.0),
            (&[3.0, 1.0], Some(2.0), 1.0),
            (&[10.0, 9.0, 11.0], Some(10.0), 0.2),
            (&[4.0, 4.0, 4.0, 4.0], Some(4.0), 0.0),
            (&[0.0, 0.0, 1.0], Some(0.0), f64::INFINITY),
        ];
        for (values, middle, width) in rows {
            assert_eq!(median(values), middle, "{values:?}");
            assert_eq!(spread(values), width, "{values:?}");
        }
    }

    #[test]
    fn intervals_of_few_values() {
        // Values; then the low end, the median and the high end that they must give.
        let rows: [(&[f64], [f64; 3]); 4] = [
            (&[5.0], [5.0, 5.0, 5.0]),
            (&[5.0, 7.0], [5.0, 6.0, 7.0]),
            (&[5.0, 9.0, 6.0], [5.0, 6.0, 9.0]),
            (&[2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0]),
        ];
        for (values, expected) in rows {
            for seed in 0..20 {
                let found = estimate(values, seed).unwrap();
                assert_eq!([found.low, found.value, found.high], expected, "{values:?}, seed {seed}");
                assert_eq!(found.count, values.len());
            }
        }
        assert_eq!(estimate(&[], 1), None);
    }

    #[test]
    fn the_interval_holds_the_true_median_about_as_often_as_it_says() {
        let mut random = SplitMix::new(11);
        let holds = (0..400)
            .filter(|&seed| {
                let values: Vec<f64> = (0..15).map(|_| random.unit()).collect();
                let found = estimate(&values, seed).unwrap();
                found.low <= 0.5 && 0.5 <= found.high
            })
            .count();
        assert!((360..=396).contains(&holds), "{holds} of 400");
    }

    #[test]
    fn equal_seeds_give_equal_intervals() {
        let values = [1.0, 2.0, 4.0, 8.0, 16.0, 3.0, 5.0];
        assert_eq!(estimate(&values, 3), estimate(&values, 3));
    }

    #[test]
    fn ratios_within_rounds_cancel_what_hurt_the_round() {
        let b = [100.0, 50.0, 80.0, 10.0];
        let a = b.map(|rate| 3.0 * rate);
        let found = paired_ratio(&a, &b, 1).unwrap();
        assert_eq!((found.low, found.value, found.high), (3.0, 3.0, 3.0));
        assert_eq!(
            paired_ratio(&[1.0, 2.0], &[0.0, 1.0, 5.0], 1).map(|r| (r.value, r.count)),
            Some((2.0, 1))
        );
        assert_eq!(paired_ratio(&[1.0], &[0.0], 1), None);
    }

    #[test]
    fn splitmix_is_splitmix64() {
        // First outputs for seed 1234567, as published with the reference implementation's tests.
        let mut random = SplitMix::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }
}
