//! Statistics for a handful of rounds: medians with Student's t intervals, ratios paired within rounds, ratios of runs apart,
//! rounds that no noise explains, and the losses that a count cannot exclude. Nothing here is drawn by chance but what a
//! seed was given for.

/// An interval misses the truth in this share of all cases, half of it on each side: intervals are 95 % intervals.
pub const ERROR: f64 = 0.05;

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, good enough for simulations. Never for secrets.
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

/// On which scale noise is the same whatever the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// In per cent of the value: rates, times, and ratios of them. Intervals are of the logarithms, where all values are above
    /// 0; with a value that is not, they are as for `Difference`.
    Ratio,
    /// In the unit of the value: shares, and differences.
    Difference,
}

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// Lower end of the interval; without bound (0 on the scale of ratios) when there is only one value, of whose noise nothing
    /// is known.
    pub low: f64,
    /// Upper end of it; without bound (infinite) when there is only one value.
    pub high: f64,
    /// Values behind it, at least 1.
    pub count: usize,
}

impl Estimate {
    /// The median of the rounds' values and the interval of what they scatter about, which misses that in the share `error` of
    /// all cases; `None` without values. Exact where the noise is normal on the scale; the design page says what it is
    /// otherwise.
    pub fn of(values: &[f64], scale: Scale, error: f64) -> Option<Self> {
        let value = median(values)?;
        let (scaled, back) = scaled(values, scale);
        let reach = student(error, scaled.len() - 1) * (squares(&scaled) / dof(&scaled)).sqrt();
        Some(Self::around(value, mean(&scaled), reach / (scaled.len() as f64).sqrt(), back, scaled.len()))
    }

    /// How many times `a` is of `b`, from the ratios within the rounds (equal indices were interleaved): what disturbed a whole
    /// round cancels out. Rounds in which either is not above 0 are left out; `None` when no round is left.
    pub fn paired_ratio(a: &[f64], b: &[f64]) -> Option<Self> {
        let pairs = a.iter().zip(b).filter(|&(&a, &b)| a > 0.0 && b > 0.0);
        Self::of(&pairs.map(|(a, b)| a / b).collect::<Vec<f64>>(), Scale::Ratio, ERROR)
    }

    /// How many times `new` is of `old` (by how much it is more, on the scale of differences), where the rounds of both were
    /// not interleaved: Welch's interval, its degrees of freedom rounded down. `None` when either has no value, or on the
    /// scale of ratios one that is not above 0.
    pub fn apart(new: &[f64], old: &[f64], scale: Scale) -> Option<Self> {
        if scale == Scale::Ratio && new.iter().chain(old).any(|v| *v <= 0.0) {
            return None;
        }
        let (middles, (new, back), (old, _)) =
            ((median(new)?, median(old)?), scaled(new, scale), scaled(old, scale));
        let value = if scale == Scale::Ratio { middles.0 / middles.1 } else { middles.0 - middles.1 };
        let variance = |v: &[f64]| squares(v) / dof(v) / v.len() as f64;
        let (a, b) = (variance(&new), variance(&old));
        let freedom = (a + b).powi(2) / (a * a / dof(&new) + b * b / dof(&old));
        let count = new.len().min(old.len());
        // Without any scatter the degrees of freedom are 0 / 0, and every number of them gives the same.
        let freedom = if freedom.is_nan() { count - 1 } else { freedom as usize };
        let freedom = if count == 1 { 0 } else { freedom.max(1) };
        let reach = student(ERROR, freedom) * (a + b).sqrt();
        Some(Self::around(value, mean(&new) - mean(&old), reach, back, count))
    }

    /// The interval, unless there was only one value.
    pub fn interval(&self) -> Option<(f64, f64)> {
        (self.count > 1).then_some((self.low, self.high))
    }

    /// The median may lie beyond an interval of many values, which is about their mean: then the interval reaches to it.
    fn around(value: f64, middle: f64, reach: f64, back: fn(f64) -> f64, count: usize) -> Self {
        let (low, high) = match reach {
            r if r.is_nan() => (back(f64::NEG_INFINITY), f64::INFINITY),
            0.0 => (value, value),
            r => (back(middle - r).min(value), back(middle + r).max(value)),
        };
        Self { value, low, high, count }
    }
}

/// The values on a scale, and the way back.
fn scaled(values: &[f64], scale: Scale) -> (Vec<f64>, fn(f64) -> f64) {
    if scale == Scale::Ratio && values.iter().all(|v| *v > 0.0) {
        (values.iter().map(|v| v.ln()).collect(), f64::exp)
    } else {
        (values.to_vec(), |v| v)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sum of the squared distances from the mean; 0 for equal values, whatever rounding does to their mean.
fn squares(values: &[f64]) -> f64 {
    if values.iter().all(|v| *v == values[0]) {
        return 0.0;
    }
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum()
}

fn dof(values: &[f64]) -> f64 {
    values.len() as f64 - 1.0
}

/// The number that Student's t exceeds, on either side, in the share `error` of all cases; infinite without degrees of freedom.
/// By the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
pub fn student(error: f64, freedom: usize) -> f64 {
    use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};
    if freedom == 0 {
        return f64::INFINITY;
    }
    let odd = freedom % 2;
    let within = |angle: f64| {
        let (sine, cosine) = angle.sin_cos();
        let (mut sum, mut term) = (0.0, if odd == 1 { cosine } else { 1.0 });
        for power in (odd..freedom.saturating_sub(1)).step_by(2) {
            sum += term;
            term *= cosine * cosine * (power + 1) as f64 / (power + 2) as f64;
        }
        if odd == 1 { FRAC_2_PI * (angle + sine * sum) } else { sine * sum }
    };
    let (mut least, mut most) = (0.0, FRAC_PI_2);
    for _ in 0..60 {
        let middle = f64::midpoint(least, most);
        *(if within(middle) < 1.0 - error { &mut least } else { &mut most }) = middle;
    }
    (freedom as f64).sqrt() * least.tan()
}

/// The round that lies farthest from the mean of its firewall's, when the rounds of the other firewalls do not explain it: they scatter so little that equal noise
/// would put any round of a firewall that far out in less than the share `error` of all cases. `None` when noise explains it,
/// when there are fewer than two rounds, or when no other firewall has two.
pub fn outlier(own: &[f64], others: &[&[f64]], scale: Scale, error: f64) -> Option<usize> {
    // All on one scale, or their distances could not be compared.
    let positive = own.iter().chain(others.iter().copied().flatten()).all(|v| *v > 0.0);
    let scale = if positive { scale } else { Scale::Difference };
    let others: Vec<Vec<f64>> = others.iter().map(|values| scaled(values, scale).0).collect();
    let others = || others.iter().filter(|values| values.len() > 1);
    let freedom: usize = others().map(|values| values.len() - 1).sum();
    let (own, _) = scaled(own, scale);
    if freedom == 0 || own.len() < 2 {
        return None;
    }
    let noise = others().map(|values| squares(values)).sum::<f64>() / freedom as f64;
    let middle = mean(&own);
    let distance = |(_, v): &(usize, &f64)| (*v - middle).abs();
    let (round, farthest) = own.iter().enumerate().max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let residual = (noise * (1.0 - 1.0 / own.len() as f64)).sqrt();
    // Each of the rounds could have been the farthest.
    let explained = student(error / own.len() as f64, freedom) * residual;
    ((farthest - middle).abs() > explained).then_some(round)
}

/// The largest share of losses, of which `lost` of `count` would show as few or fewer in 5 % of all cases: what was seen does
/// not exclude it. Of no loss in n frames, 3.0 / n. `None` without a count.
pub fn loss_limit(lost: u64, count: u64) -> Option<f64> {
    let limit = if lost > FEW {
        // The square root of a count is normal.
        ((lost as f64 + 1.0).sqrt() + 0.823).powi(2)
    } else {
        let (mut least, mut most) = (lost as f64, 3.0 * lost as f64 + 6.0);
        for _ in 0..60 {
            let middle = f64::midpoint(least, most);
            *(if poisson(middle, lost) > 0.05 { &mut least } else { &mut most }) = middle;
        }
        least
    };
    (count > 0).then(|| (limit / count as f64).min(1.0))
}

/// How many losses a firewall may show by chance that loses `mean` of so many frames on the average: more in one trial of a
/// thousand.
pub fn most_losses(mean: f64) -> u64 {
    let most = (mean + 3.1 * mean.sqrt() + 1.0) as u64;
    if most > FEW { most } else { (0..=most + 3).find(|n| poisson(mean, *n) >= 0.999).unwrap_or(most) }
}

/// Counts for which a Poisson distribution is summed up; larger ones are normal enough.
const FEW: u64 = 100;

/// The share of a Poisson distribution that is `most` or less.
fn poisson(mean: f64, most: u64) -> f64 {
    let mut term = (-mean).exp();
    let mut sum = term;
    for n in 1..=most {
        term *= mean / n as f64;
        sum += term;
    }
    sum
}

/// The middle value, or the mean of the two middle ones; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
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

#[cfg(test)]
mod tests;
