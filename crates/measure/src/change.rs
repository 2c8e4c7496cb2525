//! Whether and where a series of values changed: a test for a change point that assumes nothing of how values are distributed.
//!
//! Values are replaced by their ranks (Pettitt 1979), the series is cut at every place, and the greatest standardized difference of
//! mean ranks is compared with that of the same values in random order. If nothing changed, every order is equally likely, whatever the
//! distribution, heavy tails included; so the share of orders with a difference at least as great is a p-value. What the test does
//! assume is that runs without a change are exchangeable: a slow drift is a change to it.
//!
//! Of several series the false discovery rate is held (Benjamini and Hochberg 1995): if none of them changed, a change is named
//! with a probability of at most the rate.

use crate::stats::{SplitMix, median};

/// Values on each side of a change at least: one odd run is no change.
pub const LEAST_SIDE: usize = 3;

/// Values of a series at least. With fewer, no order is rare enough for [`RATE`]: of 8 values the two best orders of 70 have 0.029.
pub const LEAST_VALUES: usize = 8;

/// The rate of false alarms that reports state: 5 %.
pub const RATE: f64 = 0.05;

/// Random orders at most.
const ORDERS: u32 = 1_999;

/// Orders at least as extreme after which more of them would not change the answer (Besag and Clifford 1991).
const ENOUGH: u32 = 20;

/// Equal series give equal answers.
const SEED: u64 = 1;

/// A change of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first value behind it.
    pub at: usize,
    /// Median from the change before it, or from the start.
    pub before: f64,
    /// Median up to the next change, or to the end.
    pub after: f64,
    /// Share of random orders of the values around it that look as much like a change.
    pub p: f64,
}

/// The changes of several series, one list a series in the order of time. Series shorter than [`LEAST_VALUES`] have none.
///
/// If no series changed, any change is named with a probability of at most `rate`. Once a series has a change, the values on each
/// side of it are tested for another, with a quarter of the rate each, because the values around the first made its place.
pub fn changes(series: &[Vec<f64>], rate: f64) -> Vec<Vec<Change>> {
    let first: Vec<Option<Split>> = series.iter().map(|values| split(values)).collect();
    let rate = discovery_threshold(&first, rate);
    let all = series.iter().zip(first).map(|(values, first)| {
        let mut found = Vec::new();
        if let Some(split) = first {
            divide(values, 0, split, rate, &mut found);
        }
        found.sort_by_key(|(at, _)| *at);
        with_medians(values, found)
    });
    all.collect()
}

/// The best place for a change, and how rare a place as good is.
#[derive(Clone, Copy)]
struct Split {
    at: usize,
    p: f64,
}

/// The p-value up to which changes are named: the largest that is at most its share of the rate, of those in order.
fn discovery_threshold(splits: &[Option<Split>], rate: f64) -> f64 {
    let mut p: Vec<f64> = splits.iter().flatten().map(|split| split.p).collect();
    p.sort_by(f64::total_cmp);
    let tests = p.len() as f64;
    let share = |rank: usize| rate * (rank + 1) as f64 / tests;
    p.iter().enumerate().rev().find(|(rank, p)| **p <= share(*rank)).map_or(0.0, |(rank, _)| share(rank))
}

fn divide(values: &[f64], from: usize, split: Split, rate: f64, found: &mut Vec<(usize, f64)>) {
    if split.p > rate {
        return;
    }
    found.push((from + split.at, split.p));
    let (before, after) = values.split_at(split.at);
    for (part, from) in [(before, from), (after, from + split.at)] {
        if let Some(split) = self::split(part) {
            divide(part, from, split, rate / 4.0, found);
        }
    }
}

fn split(values: &[f64]) -> Option<Split> {
    if values.len() < LEAST_VALUES {
        return None;
    }
    let mut ranks = ranks(values);
    let (at, found) = extreme(&ranks)?;
    let mut random = SplitMix::new(SEED);
    let mut as_extreme = 0;
    for order in 1..=ORDERS {
        shuffle(&mut ranks, &mut random);
        // A hair less, because sums in another order round differently.
        as_extreme += u32::from(extreme(&ranks)?.1 >= found * (1.0 - 1e-12));
        if as_extreme == ENOUGH {
            return Some(Split { at, p: f64::from(ENOUGH) / f64::from(order) });
        }
    }
    Some(Split { at, p: f64::from(as_extreme + 1) / f64::from(ORDERS + 1) })
}

/// Ranks from 1 less their mean, equal values sharing the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let middle = (values.len() + 1) as f64 / 2.0;
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let equal = order[from..].iter().take_while(|i| values[**i] == values[order[from]]).count();
        let rank = from as f64 + (equal + 1) as f64 / 2.0;
        order[from..from + equal].iter().for_each(|i| ranks[*i] = rank - middle);
        from += equal;
    }
    ranks
}

/// The cut with the greatest standardized sum of centred ranks before it: first index behind the cut, and the square of the sum
/// over its variance but for a factor that all cuts share.
fn extreme(ranks: &[f64]) -> Option<(usize, f64)> {
    let mut sum = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for (index, rank) in ranks[..ranks.len() - LEAST_SIDE].iter().enumerate() {
        sum += rank;
        let (before, after) = (index + 1, ranks.len() - index - 1);
        let difference = sum * sum / (before * after) as f64;
        if before >= LEAST_SIDE && best.is_none_or(|(_, most)| difference > most) {
            best = Some((before, difference));
        }
    }
    best
}

fn shuffle(values: &mut [f64], random: &mut SplitMix) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.below(last + 1));
    }
}

fn with_medians(values: &[f64], places: Vec<(usize, f64)>) -> Vec<Change> {
    let middle = |from: usize, to: usize| median(&values[from..to]).unwrap_or(f64::NAN);
    let bound =
        |index: Option<usize>, else_: usize| index.and_then(|i| places.get(i)).map_or(else_, |(at, _)| *at);
    let change = |(index, (at, p)): (usize, &(usize, f64))| Change {
        at: *at,
        before: middle(bound(index.checked_sub(1), 0), *at),
        after: middle(*at, bound(Some(index + 1), values.len())),
        p: *p,
    };
    places.iter().enumerate().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How the values of a simulated firewall scatter around their middle.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Noise {
        /// 3 % of standard deviation.
        Normal,
        /// Student's t with two degrees of freedom, whose variance is infinite.
        HeavyTails,
        /// One run in ten is off by up to ten times.
        Outliers,
        /// Few different values: many ties.
        Coarse,
    }

    const NOISES: [Noise; 4] = [Noise::Normal, Noise::HeavyTails, Noise::Outliers, Noise::Coarse];

    fn normal(random: &mut SplitMix) -> f64 {
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.unit()).cos()
    }

    fn draw(noise: Noise, random: &mut SplitMix) -> f64 {
        0.03 * match noise {
            Noise::Normal => normal(random),
            Noise::HeavyTails => {
                let chi = normal(random).powi(2) + normal(random).powi(2);
                normal(random) / (chi / 2.0).sqrt()
            }
            Noise::Outliers if random.below(10) == 0 => 70.0 * (random.unit() - 0.5),
            Noise::Outliers => normal(random),
            Noise::Coarse => normal(random).round(),
        }
    }

    /// Log ratios of `runs` runs, from the middle on larger by `shift`.
    fn series(noise: Noise, runs: usize, shift: f64, random: &mut SplitMix) -> Vec<f64> {
        (0..runs).map(|run| draw(noise, random) + if run >= runs / 2 { shift } else { 0.0 }).collect()
    }

    fn share(times: usize, mut happens: impl FnMut() -> bool) -> f64 {
        (0..times).filter(|_| happens()).count() as f64 / times as f64
    }

    #[test]
    fn false_alarms_are_at_most_the_stated_rate() {
        let mut random = SplitMix::new(5);
        let times = 300;
        // Three standard errors of a share of 5 %.
        let most = RATE + 3.0 * (RATE * (1.0 - RATE) / times as f64).sqrt();
        for noise in NOISES {
            for runs in [LEAST_VALUES, 20] {
                let alarms = share(times, || {
                    let values = series(noise, runs, 0.0, &mut random);
                    !changes(&[values], RATE)[0].is_empty()
                });
                assert!(alarms <= most, "{noise:?}, {runs} runs: {alarms}");
                // A test that never speaks would pass as well; of 8 values the p-values are coarse.
                assert!(alarms >= if runs > 8 { 0.01 } else { 0.003 }, "{noise:?}, {runs} runs: {alarms}");
            }
        }
    }

    #[test]
    fn of_many_series_without_a_change_any_is_named_at_most_at_the_stated_rate() {
        let mut random = SplitMix::new(6);
        let times = 100;
        let most = RATE + 3.0 * (RATE * (1.0 - RATE) / times as f64).sqrt();
        let alarms = share(times, || {
            let all: Vec<Vec<f64>> = (0..24).map(|i| series(NOISES[i % 4], 16, 0.0, &mut random)).collect();
            changes(&all, RATE).iter().any(|found| !found.is_empty())
        });
        assert!(alarms <= most, "{alarms}");
    }

    /// What `docs/guide/history.md` states of the power.
    #[test]
    fn a_planted_change_is_found_as_often_as_the_guide_says() {
        let mut random = SplitMix::new(7);
        // Noise, runs, size of the change, and the share of series in which it is found.
        let rows = [
            (Noise::Normal, 8, 0.05, 0.38),
            (Noise::Normal, 10, 0.05, 0.42),
            (Noise::Normal, 20, 0.05, 0.79),
            (Noise::Normal, 40, 0.05, 0.98),
            (Noise::Normal, 8, 0.10, 0.86),
            (Noise::Normal, 10, 0.10, 0.93),
            (Noise::Normal, 20, 0.10, 0.99),
            (Noise::HeavyTails, 20, 0.10, 0.87),
            (Noise::Outliers, 20, 0.10, 0.84),
        ];
        let times = 80;
        for (noise, runs, size, stated) in rows {
            let shift = f64::ln(1.0 + size);
            let found = share(times, || {
                let found = changes(&[series(noise, runs, shift, &mut random)], RATE);
                found[0].iter().any(|change| change.after > change.before)
            });
            let least = stated - 3.0 * (stated * (1.0 - stated) / times as f64).sqrt();
            assert!(found >= least, "{noise:?}, {runs} runs, {size}: found {found}, stated {stated}");
        }
    }

    #[test]
    fn a_second_change_is_found_and_a_first_one_does_not_make_more_of_itself() {
        let mut random = SplitMix::new(8);
        let mut two = series(Noise::Normal, 20, 0.2, &mut random);
        two.extend((0..10).map(|_| draw(Noise::Normal, &mut random)));
        let found = &changes(&[two], RATE)[0];
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [10, 20], "{found:?}");
        assert!((found[0].after - found[1].before).abs() < 1e-12 && found[1].after < 0.05, "{found:?}");
        let more =
            share(300, || changes(&[series(Noise::HeavyTails, 40, 0.5, &mut random)], RATE)[0].len() > 1);
        assert!(more <= RATE + 0.065, "{more}");
    }

    #[test]
    fn short_series_and_single_odd_runs_have_no_change() {
        let rows: [&[f64]; 5] = [
            &[],
            &[1.0],
            &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0],
            &[0.0; 30],
            &[0.01, 0.02, 0.03, 0.02, 0.01, 0.03, 0.02, 0.01, 0.02, 9.0],
        ];
        for values in rows {
            assert_eq!(changes(&[values.to_vec()], RATE), [vec![]], "{values:?}");
        }
        let step = [0.0, 0.01, 0.02, 0.03, 1.0, 1.01, 1.02, 1.03];
        let found = changes(&[step.to_vec()], RATE);
        assert_eq!(found[0].iter().map(|c| c.at).collect::<Vec<_>>(), [4], "{found:?}");
        assert_eq!(found, changes(&[step.to_vec()], RATE), "equal series give equal answers");
    }
}
