//! Known figures, and simulations of what the intervals promise: `cargo test -p measure coverage`.

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
fn student_is_the_table_in_every_book() {
    let rows = [
        (0.05, 1, 12.706),
        (0.05, 2, 4.303),
        (0.05, 3, 3.182),
        (0.05, 4, 2.776),
        (0.05, 8, 2.306),
        (0.05, 9, 2.262),
        (0.05, 120, 1.980),
        (0.01, 1, 63.657),
        (0.01, 5, 4.032),
        (0.001, 2, 31.599),
        (0.5, 3, 0.765),
    ];
    for (error, freedom, expected) in rows {
        let found = student(error, freedom);
        assert!((found / expected - 1.0).abs() < 5e-4, "{error} {freedom}: {found}");
    }
    assert_eq!(student(0.05, 0), f64::INFINITY);
}

fn near(found: f64, expected: f64) -> bool {
    found == expected || (found / expected - 1.0).abs() < 1e-3
}

#[test]
fn intervals_of_few_values() {
    // Values and scale; then the low end, the median and the high end that they must give.
    let rows: [(&[f64], Scale, [f64; 3]); 7] = [
        (&[5.0], Scale::Ratio, [0.0, 5.0, f64::INFINITY]),
        (&[5.0], Scale::Difference, [f64::NEG_INFINITY, 5.0, f64::INFINITY]),
        // 1 is half of what lies between, and t is 12.706.
        (&[5.0, 7.0], Scale::Difference, [6.0 - 12.706, 6.0, 6.0 + 12.706]),
        (&[5.0, 9.0, 7.0], Scale::Difference, [7.0 - 4.969, 7.0, 7.0 + 4.969]),
        (&[100.0, 121.0, 110.0], Scale::Ratio, [86.81, 110.0, 139.4]),
        (&[2.0, 2.0, 2.0, 2.0, 2.0], Scale::Ratio, [2.0, 2.0, 2.0]),
        // A logarithm of 0 there is none.
        (&[0.0, 0.0], Scale::Ratio, [0.0, 0.0, 0.0]),
    ];
    for (values, scale, expected) in rows {
        let found = Estimate::of(values, scale, ERROR).unwrap();
        let ends = [found.low, found.value, found.high];
        assert!(ends.iter().zip(expected).all(|(f, e)| near(*f, e)), "{values:?}: {found:?}");
        assert_eq!((found.count, found.interval().is_some()), (values.len(), values.len() > 1));
    }
    assert_eq!(Estimate::of(&[], Scale::Ratio, ERROR), None);
    let skewed = [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0];
    assert_eq!(Estimate::of(&skewed, Scale::Difference, ERROR).unwrap().low, 1.0, "the median is inside");
}

#[test]
fn ratios_within_rounds_cancel_what_hurt_the_round() {
    let b = [100.0, 50.0, 80.0, 10.0];
    let a = b.map(|rate| 3.0 * rate);
    let found = Estimate::paired_ratio(&a, &b).unwrap();
    assert_eq!((found.low, found.value, found.high), (3.0, 3.0, 3.0));
    let one = Estimate::paired_ratio(&[1.0, 2.0], &[0.0, 1.0, 5.0]);
    assert_eq!(one.map(|r| (r.value, r.count, r.interval())), Some((2.0, 1, None)));
    assert_eq!(Estimate::paired_ratio(&[1.0], &[0.0]), None);
}

#[test]
fn runs_apart() {
    let e = std::f64::consts::E;
    // Welch on logarithms: 1 and 3, variance 2 / 2 each, so 2 degrees of freedom of (0, 2) against (-1, 1).
    let found = Estimate::apart(&[e, e.powi(3)], &[1.0 / e, e], Scale::Ratio).unwrap();
    assert!(
        near(found.low.ln(), 2.0 - 4.303 * 2f64.sqrt()) && near(found.high.ln(), 2.0 + 4.303 * 2f64.sqrt())
    );
    let same = Estimate::apart(&[4.0, 4.0], &[2.0, 2.0], Scale::Ratio).unwrap();
    assert_eq!((same.low, same.value, same.high), (2.0, 2.0, 2.0));
    let once = Estimate::apart(&[4.0], &[2.0, 2.1, 1.9], Scale::Ratio).unwrap();
    assert_eq!((once.value, once.interval(), once.high), (2.0, None, f64::INFINITY));
    assert_eq!(Estimate::apart(&[4.0], &[0.0], Scale::Ratio), None);
    assert_eq!(Estimate::apart(&[0.5, 0.5], &[0.0, 0.0], Scale::Difference).unwrap().high, 0.5);
}

#[test]
fn an_outlier_is_one_among_quieter_firewalls_only() {
    let quiet: [&[f64]; 2] = [&[100.0, 101.0, 99.0], &[50.0, 50.5, 50.2]];
    let busy: [&[f64]; 2] = [&[100.0, 140.0, 90.0], &[50.0, 30.0, 52.0]];
    let own = [100.0, 100.0, 70.0];
    assert_eq!(outlier(&own, &quiet, Scale::Ratio, 0.01), Some(2));
    assert_eq!(outlier(&own, &busy, Scale::Ratio, 0.01), None, "others scatter as much");
    assert_eq!(outlier(&own, &[], Scale::Ratio, 0.01), None, "nothing is known of the noise");
    assert_eq!(outlier(&own, &[&[1.0]], Scale::Ratio, 0.01), None);
    assert_eq!(outlier(&[5.0], &quiet, Scale::Ratio, 0.01), None);
    assert_eq!(outlier(&[0.0, 0.2], &[&[0.0, 0.0]], Scale::Difference, 0.01), Some(1));
}

#[test]
fn losses_that_a_count_does_not_exclude() {
    // One-sided limits of a Poisson mean, as in Gehrels (1986), table 1.
    let rows = [
        (0, 2.996),
        (1, 4.744),
        (2, 6.296),
        (10, 16.962),
        (50, 63.29),
        (100, 118.08),
        (101, 119.2),
        (10_000, 10_167.0),
    ];
    for (lost, expected) in rows {
        let found = loss_limit(lost, 1_000_000).unwrap() * 1e6;
        assert!((found / expected - 1.0).abs() < 2e-3, "{lost}: {found}");
    }
    assert_eq!((loss_limit(0, 0), loss_limit(0, 1)), (None, Some(1.0)));
}

#[test]
fn losses_that_chance_explains() {
    // The mean; then the count that a Poisson distribution of it exceeds in a thousandth of the cases.
    let rows =
        [(0.0005, 0), (0.0045, 1), (0.04, 1), (0.05, 2), (1.0, 5), (2.5, 9), (10.0, 21), (10_000.0, 10_311)];
    for (mean, expected) in rows {
        assert_eq!(most_losses(mean), expected, "{mean}");
    }
}

/// Rounds of a simulation.
const ROUNDS: [usize; 4] = [2, 3, 5, 9];
const RUNS: usize = 20_000;

type Noise = fn(&mut SplitMix) -> f64;

/// Box and Muller.
fn normal(random: &mut SplitMix) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

/// Student's t with 3 degrees of freedom: ten times as many values beyond four deviations as the normal.
fn heavy(random: &mut SplitMix) -> f64 {
    let chi: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
    normal(random) / (chi / 3.0).sqrt()
}

/// One round in ten was disturbed and is slower by ten deviations: what a busy machine does.
fn stalled(random: &mut SplitMix) -> f64 {
    normal(random) - if random.unit() < 0.1 { 10.0 } else { 0.0 }
}

/// Rounds of a firewall of the rate 1 whose logarithms scatter by 3 % about it.
fn rounds(noise: Noise, count: usize, random: &mut SplitMix) -> Vec<f64> {
    (0..count).map(|_| (0.03 * noise(random)).exp()).collect()
}

/// Losses of rounds, as shares of what is lost on average: so many frames of a great number.
fn losses(mean: f64, count: usize, random: &mut SplitMix) -> Vec<f64> {
    let mut one = || {
        let (mut left, mut lost) = ((-mean).exp(), 0);
        let mut chance = random.unit();
        while chance > left {
            lost += 1;
            chance -= left;
            left *= mean / f64::from(lost);
        }
        f64::from(lost) / mean
    };
    (0..count).map(|_| one()).collect()
}

/// The share of the runs in which `interval` holds 1.
fn coverage(mut interval: impl FnMut(&mut SplitMix) -> Estimate) -> f64 {
    let mut random = SplitMix::new(11);
    let holds = (0..RUNS).filter(|_| {
        let found = interval(&mut random);
        found.low <= 1.0 && 1.0 <= found.high
    });
    holds.count() as f64 / RUNS as f64
}

/// The table in `docs/design/search.md` is what the intervals do; a failure prints the rows as they would be.
#[test]
fn coverage_is_what_the_intervals_name() {
    let page = include_str!("../../../../docs/design/search.md");
    let noises: [(&str, Noise); 3] = [
        ("normal", normal),
        ("heavy tails (t with 3 degrees of freedom)", heavy),
        ("one round in ten slower by ten deviations", stalled),
    ];
    let mut others = String::new();
    for (name, noise) in noises {
        let values =
            ROUNDS.map(|n| coverage(|r| Estimate::of(&rounds(noise, n, r), Scale::Ratio, ERROR).unwrap()));
        let paired = ROUNDS.map(|n| {
            coverage(|r| Estimate::paired_ratio(&rounds(noise, n, r), &rounds(noise, n, r)).unwrap())
        });
        let apart = ROUNDS.map(|n| {
            coverage(|r| Estimate::apart(&rounds(noise, n, r), &rounds(noise, n, r), Scale::Ratio).unwrap())
        });
        for (what, shares) in
            [("a value", values), ("a ratio within rounds", paired), ("a ratio of two runs", apart)]
        {
            // Welch's degrees of freedom are rounded down, and errors of few rounds cancel: it may hold more often.
            let most = if name == "normal" && !what.ends_with("runs") { 0.955 } else { 1.0 };
            assert!(shares.iter().all(|s| (0.945..=most).contains(s)), "{name}, {what}: {shares:?}");
            let cells = shares.map(|s| format!("{:.1} %", s * 100.0)).join(" | ");
            let row = format!("| {name} | {what} | {cells} |\n");
            if !page.contains(&row) {
                others += &row;
            }
        }
    }
    for mean in [2.0, 20.0, 200.0] {
        let shares = ROUNDS
            .map(|n| coverage(|r| Estimate::of(&losses(mean, n, r), Scale::Difference, ERROR).unwrap()));
        let cells = shares.map(|s| format!("{:.1} %", s * 100.0)).join(" | ");
        let row = format!("| {mean} frames lost a round on average | a share of losses | {cells} |\n");
        if !page.contains(&row) {
            others += &row;
        }
    }
    assert!(others.is_empty(), "{others}");
}
