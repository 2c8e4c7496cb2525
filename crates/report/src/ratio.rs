//! How much faster: the ratio of two firewalls' values with its 95 % interval. Points of one run were interleaved,
//! so they are compared round by round; points of two runs were not, and get the wider interval of their ends. Pure.

use measure::results::Point;

/// A ratio and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median ratio.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
}

impl Ratio {
    /// Whether the interval leaves 1 out: the two can be told apart.
    pub fn differs(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// The ratio of two points of one run, paired within rounds; `None` when either is invalid or has no finite ratio.
pub(crate) fn of_points(point: &Point, reference: &Point) -> Option<Ratio> {
    if !point.valid || !reference.valid {
        return None;
    }
    let pairs: Vec<f64> = point.rounds.iter().zip(&reference.rounds).map(|(a, b)| a / b).collect();
    if pairs.is_empty() || point.rounds.len() != reference.rounds.len() {
        return unpaired(
            (point.value, point.low, point.high),
            (reference.value, reference.low, reference.high),
        );
    }
    finite(bootstrap(&pairs))
}

/// The ratio of two values with intervals that were measured apart: the interval reaches from the least to the most
/// that both intervals allow.
pub(crate) fn unpaired(new: (f64, f64, f64), old: (f64, f64, f64)) -> Option<Ratio> {
    finite(Ratio { value: new.0 / old.0, low: new.1 / old.2, high: new.2 / old.1 })
}

fn finite(ratio: Ratio) -> Option<Ratio> {
    (ratio.value.is_finite() && ratio.low.is_finite() && ratio.high.is_finite()).then_some(ratio)
}

/// Percentile bootstrap of the median with a fixed seed: the same rounds always give the same interval.
fn bootstrap(pairs: &[f64]) -> Ratio {
    const RESAMPLES: usize = 2000;
    let mut state = 1u64;
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| median((0..pairs.len()).map(|_| pairs[draw(&mut state, pairs.len())]).collect()))
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[((RESAMPLES - 1) as f64 * share).round() as usize];
    Ratio { value: median(pairs.to_vec()), low: at(0.025), high: at(0.975) }
}

/// SplitMix64, reduced to `0..len`.
fn draw(state: &mut u64, len: usize) -> usize {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) % len as u64) as usize
}

/// The median; 0 of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}
