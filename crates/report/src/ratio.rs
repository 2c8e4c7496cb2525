//! How many times as much: the ratio of two values with its 95 % interval, and what may be said of it. Points of one run were
//! interleaved, so they are compared round by round; points of two runs were not. Pure.
//!
//! The error rate is that of one comparison: of firewalls that are equal, at most one comparison in twenty says that one is
//! ahead, whether a report has one comparison or a hundred. That two are level is wrong in at most one of forty.

use measure::results::Point;
use measure::stats::{ERROR, Estimate, Scale};

/// What nobody would choose a firewall by: with paced loads intervals are so narrow that they would tell firewalls apart
/// by one connection in ten thousand.
const LEAST_DIFFERENCE: f64 = 0.005;

/// Values are level when the interval says that they differ by less than this.
const LEVEL: f64 = 0.1;

/// The same of losses and failures, which have no ratio: a hundredth of all frames or connections.
const LEVEL_SHARE: f64 = 0.01;

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// More than the other.
    More,
    /// Less than the other.
    Less,
    /// They differ by less than a tenth, if at all.
    Level,
    /// Neither is known: there were too few rounds for the noise.
    Open,
}

/// A ratio and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median ratio.
    pub value: f64,
    /// Lower end of the 95 % interval; 0 with one round.
    pub low: f64,
    /// Upper end of it; infinite with one round.
    pub high: f64,
    /// Rounds behind it; of two runs, those of the run with fewer.
    pub rounds: usize,
}

impl Ratio {
    /// What it says: an interval that leaves out 1 by half a per cent at least tells who has more.
    pub fn standing(&self) -> Standing {
        match self {
            _ if self.low > 1.0 + LEAST_DIFFERENCE => Standing::More,
            _ if self.high < 1.0 - LEAST_DIFFERENCE => Standing::Less,
            _ if self.low >= 1.0 - LEVEL && self.high <= 1.0 + LEVEL => Standing::Level,
            _ => Standing::Open,
        }
    }

    /// Whether one of the two is ahead.
    pub fn differs(&self) -> bool {
        matches!(self.standing(), Standing::More | Standing::Less)
    }

    /// Whether it is known which of the two is ahead, or that they are level.
    pub(crate) fn holds(&self) -> bool {
        self.standing() != Standing::Open
    }

    /// The interval; none of one round.
    pub fn interval(&self) -> Option<(f64, f64)> {
        (self.rounds > 1).then_some((self.low, self.high))
    }

    /// Why nothing is known: `3 rounds are too few to say`.
    pub fn too_few(&self) -> String {
        too_few(self.rounds)
    }

    fn of(estimate: Estimate) -> Option<Self> {
        let Estimate { value, low, high, count } = estimate;
        value.is_finite().then_some(Self { value, low, high, rounds: count })
    }

    /// The ratio of two points with what is not known of the clocks that either was measured by.
    fn between_clocks(self, of: &Point, to: &Point) -> Self {
        let ends = |point: &Point| {
            [point.value - point.clock_error, point.value + point.clock_error]
                .map(|end| (end / point.value).max(0.0))
        };
        if of.clock_error.max(to.clock_error) <= 0.0 {
            return self;
        }
        let ([least, most], [least_to, most_to]) = (ends(of), ends(to));
        // An end at 0 bounds nothing, nor does one of a value that is 0.
        let end = |end: f64, none: f64| if end.is_finite() { end } else { none };
        Self {
            low: end(self.low * least / most_to, 0.0),
            high: end(self.high * most / least_to, f64::INFINITY),
            ..self
        }
    }
}

/// `one round: no interval`, `2 rounds are too few to say`.
pub(crate) fn too_few(rounds: usize) -> String {
    match rounds {
        0 | 1 => "one round: no interval".into(),
        n => format!("{n} rounds are too few to say"),
    }
}

/// The ratio of two points of one run, paired within rounds; `None` when either is invalid or has no finite ratio.
/// Shares of lost frames and failed connections have no ratio worth showing: next to nothing over next to nothing can be anything. Nor has a
/// cost that was below zero in a round: it is lost in the noise, and a ratio of the other rounds would be of those
/// where the noise made it large.
pub fn of_points(point: &Point, reference: &Point) -> Option<Ratio> {
    if !point.valid || !reference.valid || !point.metric.row().ratio {
        return None;
    }
    if point.rounds.iter().chain(&reference.rounds).any(|r| *r < 0.0) {
        return None;
    }
    let ratio = Estimate::paired_ratio(&point.rounds, &reference.rounds).and_then(Ratio::of);
    ratio.map(|ratio| ratio.between_clocks(point, reference))
}

/// What the comparison of two points of one run says: by their ratio, or, where a metric has none, by their difference within
/// rounds; `None` when either has no value.
pub(crate) fn standing(a: &Point, b: &Point) -> Option<Standing> {
    if !a.valid || !b.valid {
        return None;
    }
    if let Some(ratio) = of_points(a, b) {
        return Some(ratio.standing());
    }
    if a.clock_error.max(b.clock_error) > 0.0 {
        return Some(Standing::Open);
    }
    let differences: Vec<f64> = a.rounds.iter().zip(&b.rounds).map(|(a, b)| a - b).collect();
    let estimate = Estimate::of(&differences, Scale::Difference, ERROR);
    Some(estimate.map_or(Standing::Open, |e| of_difference(&e)))
}

/// What a difference of two losses, failures or costs says.
fn of_difference(difference: &Estimate) -> Standing {
    match difference {
        e if e.low > 0.0 => Standing::More,
        e if e.high < 0.0 => Standing::Less,
        e if e.low >= -LEVEL_SHARE && e.high <= LEVEL_SHARE => Standing::Level,
        _ => Standing::Open,
    }
}

/// The ratio in each round that has both values. A round without a value stands as 0 in the schema; it is no pair.
pub(crate) fn per_round(point: &Point, reference: &Point) -> impl Iterator<Item = f64> {
    let pairs = point.rounds.iter().zip(&reference.rounds).filter(|(a, b)| **a > 0.0 && **b > 0.0);
    pairs.map(|(a, b)| a / b)
}

/// The ratio new / old of the same point in two runs, whose rounds were not interleaved (Welch's interval); `None` when either
/// is invalid or was 0 in a round. Where both were 0 throughout, nothing changed, and it is 1.
pub(crate) fn of_runs(new: &Point, old: &Point) -> Option<Ratio> {
    let usable = new.valid && old.valid && !new.rounds.is_empty() && !old.rounds.is_empty();
    let equal = new.rounds.iter().chain(&old.rounds).all(|round| *round == 0.0);
    match usable {
        false => None,
        true if equal => {
            Some(Ratio { value: 1.0, low: 1.0, high: 1.0, rounds: new.rounds.len().min(old.rounds.len()) })
        }
        true => Estimate::apart(&new.rounds, &old.rounds, Scale::Ratio)
            .and_then(Ratio::of)
            .map(|ratio| ratio.between_clocks(new, old)),
    }
}

/// What the comparison of the same point in two runs says; `None` when either has no value.
pub(crate) fn standing_of_runs(new: &Point, old: &Point) -> Option<Standing> {
    if !new.valid || !old.valid {
        return None;
    }
    let ratio = if new.metric.row().ratio { of_runs(new, old) } else { None };
    let by_clocks = new.clock_error.max(old.clock_error) > 0.0;
    let difference = || Estimate::apart(&new.rounds, &old.rounds, Scale::Difference);
    Some(match ratio {
        Some(ratio) => ratio.standing(),
        None if by_clocks => Standing::Open,
        None => difference().map_or(Standing::Open, |e| of_difference(&e)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use measure::stats::SplitMix;

    #[test]
    fn an_interval_says_who_is_ahead_that_both_are_level_or_nothing() {
        for (low, high, standing) in [
            (0.9, 1.1, Standing::Level),
            (0.8, 1.05, Standing::Open),
            (1.0002, 1.0004, Standing::Level),
            (0.997, 0.999, Standing::Level),
            (1.02, 1.5, Standing::More),
            (0.9, 0.99, Standing::Less),
            (0.0, f64::INFINITY, Standing::Open),
        ] {
            let ratio = Ratio { value: 1.0, low, high, rounds: 3 };
            assert_eq!(ratio.standing(), standing, "{low} to {high}");
        }
    }

    #[test]
    fn between_two_hosts_the_clocks_decide_what_is_known() {
        let mut run = sample::demo();
        let [mut a, mut b] = [run.points.remove(0), run.points.remove(0)];
        for (point, value) in [(&mut a, 40_000.0), (&mut b, 20_000.0)] {
            (point.value, point.valid, point.rounds) = (value, true, vec![value; 5]);
        }
        for (errors, standing) in [
            ([0.0, 0.0], Standing::More),
            ([1_000.0, 1_000.0], Standing::More),
            ([9_000.0, 12_000.0], Standing::Open),
            ([62_000.0, 0.0], Standing::Open),
            ([0.0, 62_000.0], Standing::Open),
        ] {
            [a.clock_error, b.clock_error] = errors;
            for ratio in [of_points(&a, &b), of_runs(&a, &b)] {
                let ratio = ratio.unwrap();
                assert_eq!((ratio.value, ratio.standing()), (2.0, standing), "{errors:?}: {ratio:?}");
            }
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
        assert_eq!((ratio.value, ratio.low, ratio.high, ratio.rounds), (2.0, 2.0, 2.0, 4));
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
    fn one_round_and_two_noisy_ones_decide_nothing() {
        let mut run = sample::demo();
        let [mut a, mut b] = [run.points.remove(0), run.points.remove(0)];
        (a.valid, b.valid) = (true, true);
        (a.rounds, b.rounds) = (vec![500.0], vec![100.0]);
        let ratio = of_points(&a, &b).unwrap();
        assert_eq!((ratio.value, ratio.interval(), ratio.standing()), (5.0, None, Standing::Open));
        assert_eq!(ratio.too_few(), "one round: no interval");
        (a.rounds, b.rounds) = (vec![500.0, 600.0], vec![300.0, 200.0]);
        let ratio = of_points(&a, &b).unwrap();
        assert_eq!(
            (ratio.standing(), ratio.too_few().as_str()),
            (Standing::Open, "2 rounds are too few to say")
        );
    }

    #[test]
    fn runs_apart_are_not_paired() {
        let mut run = sample::demo();
        let [mut new, mut old] = [run.points.remove(0), run.points.remove(0)];
        (new.valid, old.valid) = (true, true);
        (new.rounds, old.rounds) = (vec![20.0, 40.0, 30.0], vec![10.0, 20.0, 15.0]);
        let ratio = of_runs(&new, &old).unwrap();
        assert!(ratio.value == 2.0 && ratio.low < 1.0 && ratio.standing() == Standing::Open, "{ratio:?}");
        (new.rounds, old.rounds) = (vec![0.0; 3], vec![0.0; 3]);
        assert_eq!(of_runs(&new, &old).map(|r| (r.value, r.standing())), Some((1.0, Standing::Level)));
        old.rounds = vec![1.0; 3];
        assert_eq!((of_runs(&new, &old), standing_of_runs(&new, &old)), (None, Some(Standing::Less)));
    }

    /// Sums of twelve are normal for all purposes here.
    fn normal(random: &mut SplitMix) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn of_equal_firewalls_at_most_one_comparison_in_twenty_names_one_that_is_ahead() {
        let run = sample::demo();
        let mut random = SplitMix::new(7);
        for rounds in [2, 3, 5, 9] {
            let (mut ahead, mut level_though_apart, runs) = (0, 0, 1000);
            for _ in 0..runs {
                // Eight firewalls, all compared with the first; every second one is a tenth faster than it.
                let points: Vec<Point> = (0..16)
                    .map(|n| {
                        let rate = if n % 2 == 1 { 111.0 } else { 100.0 };
                        let mut point = Point { valid: true, ..run.points[0].clone() };
                        point.rounds =
                            (0..rounds).map(|_| rate * (0.03 * normal(&mut random)).exp()).collect();
                        point
                    })
                    .collect();
                for (n, point) in points.iter().enumerate().skip(1) {
                    let ratio = of_points(point, &points[0]).unwrap();
                    ahead += usize::from(n % 2 == 0 && ratio.differs());
                    level_though_apart += usize::from(n % 2 == 1 && ratio.standing() == Standing::Level);
                }
            }
            let share = |count: usize, of: usize| count as f64 / (runs * of) as f64;
            assert!(share(ahead, 7) <= 0.05, "{rounds} rounds: {} of equal ones", share(ahead, 7));
            assert!(ahead > 0, "{rounds} rounds: a test that finds nothing shows nothing");
            assert!(share(level_though_apart, 8) <= 0.025, "{rounds} rounds: {level_though_apart}");
        }
    }
}
