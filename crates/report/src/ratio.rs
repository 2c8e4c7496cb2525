//! How many times as much: the ratio of two values with its 95 % interval. Points of one run were interleaved, so they
//! are compared round by round; points of two runs were not, and get the wider interval of their ends. Pure.

use measure::results::Point;
use measure::stats;

/// Equal runs give equal intervals, so the resampling has one seed.
const SEED: u64 = 1;

/// What nobody would choose a firewall by: with paced loads intervals are so narrow that they would tell firewalls apart
/// by one connection in ten thousand.
const LEAST_DIFFERENCE: f64 = 0.005;

/// An interval that holds 1 and reaches farther than this says neither who is ahead nor that nobody is.
const OPEN: f64 = 0.1;

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
    /// Whether the interval leaves 1 out by half a per cent at least: one of the two is ahead.
    pub fn differs(&self) -> bool {
        self.low > 1.0 + LEAST_DIFFERENCE || self.high < 1.0 - LEAST_DIFFERENCE
    }

    /// Whether the comparison holds: it is known which of the two is ahead, or that they differ by less than a tenth.
    pub(crate) fn holds(&self) -> bool {
        self.differs() || (self.low >= 1.0 - OPEN && self.high <= 1.0 + OPEN)
    }

    /// Whether 1 is in the interval.
    pub(crate) fn holds_one(&self) -> bool {
        (self.low..=self.high).contains(&1.0)
    }
}

/// The ratio of two points of one run, paired within rounds; `None` when either is invalid or has no finite ratio.
/// Shares of lost frames and failed connections have no ratio worth showing: next to nothing over next to nothing can be anything. Nor has a
/// cost that was below zero in a round: it is lost in the noise, and a ratio of the other rounds would be of those
/// where the noise made it large.
pub(crate) fn of_points(point: &Point, reference: &Point) -> Option<Ratio> {
    if !point.valid || !reference.valid || !point.metric.row().ratio {
        return None;
    }
    if point.rounds.iter().chain(&reference.rounds).any(|r| *r < 0.0) {
        return None;
    }
    let (a, b): (Vec<f64>, Vec<f64>) = pairs(point, reference).unzip();
    match stats::paired_ratio(&a, &b, SEED) {
        Some(e) => finite(Ratio { value: e.value, low: e.low, high: e.high }),
        None => {
            unpaired((point.value, point.low, point.high), (reference.value, reference.low, reference.high))
        }
    }
}

/// The values of two points round by round. A round without a value stands as 0 in the schema; it is no pair.
fn pairs(point: &Point, reference: &Point) -> impl Iterator<Item = (f64, f64)> {
    point.rounds.iter().copied().zip(reference.rounds.iter().copied()).filter(|(a, b)| *a > 0.0 && *b > 0.0)
}

/// The ratio in each round that has both values.
pub(crate) fn per_round(point: &Point, reference: &Point) -> impl Iterator<Item = f64> {
    pairs(point, reference).map(|(a, b)| a / b)
}

/// The ratio of two values with intervals that were measured apart: the interval reaches from the least to the most
/// that both intervals allow. Nothing over nothing is 1: nothing changed.
pub(crate) fn unpaired(new: (f64, f64, f64), old: (f64, f64, f64)) -> Option<Ratio> {
    let over = |a: f64, b: f64| if a == b { 1.0 } else { a / b };
    finite(Ratio { value: over(new.0, old.0), low: over(new.1, old.2), high: over(new.2, old.1) })
}

fn finite(ratio: Ratio) -> Option<Ratio> {
    (ratio.value.is_finite() && ratio.low.is_finite() && ratio.high.is_finite()).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn what_differs_is_worth_telling() {
        for (low, high, differs, holds_one, holds) in [
            (0.9, 1.1, false, true, true),
            (0.8, 1.05, false, true, false),
            (1.0002, 1.0004, false, false, true),
            (0.997, 0.999, false, false, true),
            (1.02, 1.5, true, false, true),
            (0.9, 0.99, true, false, true),
        ] {
            let ratio = Ratio { value: (low + high) / 2.0, low, high };
            let found = (ratio.differs(), ratio.holds_one(), ratio.holds());
            assert_eq!(found, (differs, holds_one, holds), "{low} to {high}");
        }
    }

    #[test]
    fn ratios_are_paired_within_rounds() {
        let mut run = sample::demo();
        let [mut a, mut b] = [run.points.remove(0), run.points.remove(0)];
        (a.valid, b.valid) = (true, true);
        b.rounds = vec![100.0, 200.0, 50.0, 400.0, 0.0];
        a.rounds = b.rounds.iter().map(|r| r * 2.0).collect();
        let ratio = of_points(&a, &b).unwrap();
        // The rounds differ eightfold, but each pair differs twofold; the round without a value does not count.
        assert_eq!((ratio.value, ratio.low, ratio.high), (2.0, 2.0, 2.0));
        assert!(ratio.differs());
        a.rounds[1] = -1.0;
        assert_eq!(
            of_points(&a, &b),
            None,
            "a value that the noise drove below zero is not left out but no value"
        );
        a.rounds[1] = 400.0;
        b.valid = false;
        assert_eq!(of_points(&a, &b), None, "no ratio with an invalid point");
    }

    #[test]
    fn runs_apart_get_the_wide_interval() {
        let ratio = unpaired((10.0, 9.0, 12.0), (5.0, 4.0, 6.0)).unwrap();
        assert_eq!((ratio.value, ratio.low, ratio.high), (2.0, 1.5, 3.0));
        assert_eq!(unpaired((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)).unwrap().value, 1.0);
        assert_eq!(unpaired((1.0, 1.0, 1.0), (0.0, 0.0, 0.0)), None);
    }
}
