//! Searches on simulated firewalls.

use super::*;
use crate::stats::SplitMix;
use proptest::prelude::*;

const MIN: f64 = 100.0;
const MAX: f64 = 10_000_000.0;

/// A firewall that tells how many frames/s of a load it forwards.
type Firewall<'a> = &'a mut dyn FnMut(f64) -> f64;

/// Runs a search to its end; gives the results and the number of trials.
fn search(goals: Vec<Goal>, firewall: Firewall<'_>) -> (Vec<GoalResult>, usize) {
    let search = finished(goals, firewall);
    for result in search.result() {
        let lower = result.lower.unwrap_or(0.0);
        let long = result.goal.final_trial_seconds;
        let deciding = result.deciding.iter().map(|&i| search.trials()[i]);
        assert!(deciding.into_iter().all(|t| t.load == lower && t.seconds >= long), "{result:?}");
    }
    (search.result(), search.trials().len())
}

fn finished(goals: Vec<Goal>, firewall: Firewall<'_>) -> Search {
    let mut search = Search::new(goals, MIN, MAX);
    while let Some((load, seconds)) = search.next() {
        assert!((MIN..=MAX).contains(&load), "load {load} out of range");
        assert_eq!(search.next(), Some((load, seconds)), "asking twice changes nothing");
        let rate = firewall(load);
        search.record(load, seconds, 1.0 - rate / load, rate);
    }
    search
}

/// Overload costs the firewall nothing.
fn ideal(capacity: f64) -> impl FnMut(f64) -> f64 {
    move |load| load.min(capacity)
}

/// Every trial finds a capacity of its own, a few percent around the true one.
fn noisy(capacity: f64, spread: f64, seed: u64) -> impl FnMut(f64) -> f64 {
    let mut random = SplitMix::new(seed);
    move |load| load.min(capacity * (1.0 + spread * (random.unit() + random.unit() - 1.0)))
}

/// Now and then the hypervisor stalls a trial, which then loses a tenth of its frames.
fn stalled(capacity: f64, share: f64, seed: u64) -> impl FnMut(f64) -> f64 {
    let mut random = SplitMix::new(seed);
    move |load| load.min(capacity) * if random.unit() < share { 0.9 } else { 1.0 }
}

/// Under overload the firewall forwards less the more is offered.
fn livelock(capacity: f64) -> impl FnMut(f64) -> f64 {
    move |load| if load <= capacity { load } else { capacity * (capacity / load).sqrt() }
}

/// Unpaced, at the maximum load, the generator costs less, so the first trial promises too much.
fn cheaper_unpaced(capacity: f64) -> impl FnMut(f64) -> f64 {
    move |load| if load == MAX { 1.5 * capacity } else { load.min(capacity) }
}

/// Loses one frame in a thousand at every load.
fn leaky(capacity: f64) -> impl FnMut(f64) -> f64 {
    move |load| load.min(capacity) * 0.999
}

/// Lossy below a load (say, a timer that evicts idle flows), clean above it.
fn lossy_when_idle(threshold: f64, capacity: f64) -> impl FnMut(f64) -> f64 {
    move |load| if load < threshold { load * 0.99 } else { load.min(capacity) }
}

/// Clean, lossy in a band, clean again, lossy.
fn banded(capacity: f64) -> impl FnMut(f64) -> f64 {
    move |load| {
        if (0.3..0.5).contains(&(load / capacity)) { load * 0.98 } else { load.min(capacity) }
    }
}

struct Row<'a> {
    name: &'a str,
    goal: Goal,
    firewall: Box<dyn FnMut(f64) -> f64>,
    /// The lower bound lies between these.
    lower: std::ops::RangeInclusive<f64>,
    upper: bool,
    most_trials: usize,
}

#[test]
fn each_firewall_is_found() {
    let row = |name, goal, firewall, lower, upper, most_trials| Row {
        name,
        goal,
        firewall,
        lower,
        upper,
        most_trials,
    };
    let (mlr, strict, verify) = (Goal::mlr(0.25), Goal::rfc2544(0.25), Goal::tst009(0.25));
    let tolly = Goal { loss_ratio: 1e-5, ..mlr };
    let lenient = Goal { loss_ratio: 0.005, ..mlr };
    let narrow = Goal { width: 0.005, ..mlr };
    let rows = [
        row("ideal, mlr", mlr, Box::new(ideal(1.2e6)) as Box<_>, 1.188e6..=1.2e6, true, 7),
        row("ideal, narrow", narrow, Box::new(ideal(1.2e6)), 1.194e6..=1.2e6, true, 7),
        row("ideal, rfc2544", strict, Box::new(ideal(1.2e6)), 1.188e6..=1.2e6, true, 4),
        row("ideal, rfc2544 at 60 s", Goal::rfc2544(60.0), Box::new(ideal(1.2e6)), 1.188e6..=1.2e6, true, 7),
        row("ideal, mlr at 60 s", Goal::mlr(60.0), Box::new(ideal(1.2e6)), 1.188e6..=1.2e6, true, 10),
        row("ideal, tst009", verify, Box::new(ideal(1.2e6)), 1.188e6..=1.2e6, true, 6),
        row("ideal, 0.001 %", tolly, Box::new(ideal(1.2e6)), 1.188e6..=1.2001e6, true, 7),
        row("slow", mlr, Box::new(ideal(5_000.0)), 4_950.0..=5_000.0, true, 7),
        row("slowest", mlr, Box::new(ideal(100.0)), 100.0..=100.0, true, 10),
        row("faster than the maximum", mlr, Box::new(ideal(2.0 * MAX)), MAX..=MAX, false, 2),
        row(
            "cap just below the maximum",
            mlr,
            Box::new(ideal(0.999 * MAX)),
            0.989 * MAX..=0.999 * MAX,
            true,
            8,
        ),
        row("noisy, mlr", mlr, Box::new(noisy(1.2e6, 0.03, 1)), 1.12e6..=1.26e6, true, 25),
        row("noisy, tst009", verify, Box::new(noisy(1.2e6, 0.03, 2)), 1.12e6..=1.26e6, true, 25),
        row("stalled, mlr", mlr, Box::new(stalled(1.2e6, 0.1, 3)), 1.14e6..=1.2e6, true, 25),
        row("livelock", mlr, Box::new(livelock(1.2e6)), 1.188e6..=1.2e6, true, 30),
        row("leaky, 0.5 % allowed", lenient, Box::new(leaky(1.2e6)), 1.188e6..=1.21e6, true, 9),
        row("cheaper unpaced", mlr, Box::new(cheaper_unpaced(1.2e6)), 1.188e6..=1.2e6, true, 8),
        row("lossy when idle", mlr, Box::new(lossy_when_idle(1e4, 1.2e6)), 1.188e6..=1.2e6, true, 7),
        row("banded", mlr, Box::new(banded(1.2e6)), 1.188e6..=1.2e6, true, 7),
    ];
    for mut row in rows {
        let (results, trials) = search(vec![row.goal], &mut *row.firewall);
        let result = &results[0];
        let lower = result.lower.unwrap_or_else(|| panic!("{}: no lower bound", row.name));
        assert!(row.lower.contains(&lower), "{}: lower bound {lower}, {trials} trials", row.name);
        assert_eq!(result.upper.is_some(), row.upper, "{}", row.name);
        assert!(trials <= row.most_trials, "{}: {trials} trials", row.name);
        assert!(result.converged && !result.deciding.is_empty(), "{}", row.name);
        let typical = result.conditional_throughput.unwrap();
        let least = lower * (1.0 - row.goal.loss_ratio) - 1e-6;
        assert!((least..=lower).contains(&typical), "{}: {typical} at {lower}", row.name);
    }
}

#[test]
fn no_load_is_good_enough() {
    for goal in [Goal::mlr(0.25), Goal::rfc2544(60.0), Goal::tst009(1.0)] {
        let (results, trials) = search(vec![goal], &mut leaky(1.2e6));
        assert_eq!(results[0].lower, None);
        assert_eq!(results[0].upper, Some(MIN));
        assert_eq!(results[0].conditional_throughput, None);
        assert!(results[0].converged && trials < 60, "{trials} trials");
    }
}

#[test]
fn a_load_that_passes_above_one_that_fails_is_no_bound() {
    let mut search = Search::new(vec![Goal::rfc2544(1.0)], MIN, MAX);
    for (load, loss) in [(5e6, 0.2), (2e6, 0.0), (1e6, 0.1), (5e5, 0.0), (4e5, 0.0)] {
        search.record(load, 1.0, loss, load * (1.0 - loss));
    }
    let result = &search.result()[0];
    assert_eq!((result.lower, result.upper), (Some(5e5), Some(1e6)));
    assert_eq!((result.deciding.as_slice(), result.converged), ([3].as_slice(), false));
    let (next, _) = search.next().unwrap();
    assert!((5e5..1e6).contains(&next), "{next}");
}

#[test]
fn several_goals_share_their_trials() {
    let strict = Goal::mlr(0.25);
    let lenient = Goal { loss_ratio: 0.05, ..strict };
    let (both, shared) = search(vec![strict, lenient], &mut ideal(1.2e6));
    let alone = search(vec![strict], &mut ideal(1.2e6)).1 + search(vec![lenient], &mut ideal(1.2e6)).1;
    assert!(shared < alone, "{shared} trials together, {alone} alone");
    assert_eq!([both[0].goal, both[1].goal], [strict, lenient]);
    assert!((1.188e6..=1.2e6).contains(&both[0].lower.unwrap()), "{both:?}");
    assert!((1.25e6..=1.2e6 / 0.95).contains(&both[1].lower.unwrap()), "{both:?}");
    assert!((1.188e6..=1.2e6 * 1.001).contains(&both[1].conditional_throughput.unwrap()), "{both:?}");
}

#[test]
fn typical_searches_take_five_to_nine_trials_despite_noise() {
    let trials = |seed| search(vec![Goal::mlr(0.25)], &mut noisy(1.2e6, 0.01, seed)).1;
    let mut counts: Vec<usize> = (0..101).map(trials).collect();
    counts.sort_unstable();
    assert!((5..=9).contains(&counts[50]), "median {}, {counts:?}", counts[50]);
}

#[test]
fn a_load_is_classified_as_the_draft_says() {
    let level = Goal::mlr(1.0).levels()[1];
    // (good long, bad long, good short, bad short) in trials of 1 s and of 0.5 s, duration sum 3 s, half may exceed.
    let rows = [
        ((0, 0, 0, 0), Class::Undecided),
        ((1, 0, 0, 0), Class::Undecided),
        ((2, 0, 0, 0), Class::Lower),
        ((2, 1, 0, 0), Class::Lower),
        ((1, 1, 0, 0), Class::Undecided),
        ((0, 1, 0, 0), Class::Undecided),
        ((0, 2, 0, 0), Class::Upper),
        ((1, 2, 0, 0), Class::Upper),
        ((0, 0, 9, 0), Class::Undecided),
        ((0, 0, 0, 3), Class::Undecided),
        ((0, 0, 0, 4), Class::Upper),
        ((0, 0, 1, 4), Class::Undecided),
        ((2, 0, 4, 4), Class::Lower),
        ((0, 2, 9, 0), Class::Upper),
    ];
    for ((good_long, bad_long, good_short, bad_short), class) in rows {
        let trials = |n: usize, seconds, loss_ratio| {
            (0..n).map(move |_| TrialRecord { load: 1.0, seconds, loss_ratio, forwarding_rate: 1.0 })
        };
        let all: Vec<_> = trials(good_long, 1.0, 0.0)
            .chain(trials(bad_long, 1.0, 0.1))
            .chain(trials(good_short, 0.5, 0.0))
            .chain(trials(bad_short, 0.5, 0.1))
            .collect();
        let found = Stat::of(&level, all.iter()).class(&level);
        assert_eq!(found, class, "{good_long} {bad_long} {good_short} {bad_short}");
    }
}

#[test]
fn one_lossy_full_trial_of_three_is_forgiven_and_shows_in_no_bound() {
    let level = Goal::mlr(1.0).levels()[1];
    let losses = [0.0, 0.3, 0.0];
    let trials =
        losses.map(|loss_ratio| TrialRecord { load: 1.0, seconds: 1.0, loss_ratio, forwarding_rate: 1.0 });
    assert_eq!(Stat::of(&level, trials.iter()).quantile_loss(&level), 0.0);
    assert_eq!(Stat::of(&level, trials[1..].iter()).quantile_loss(&level), 0.3);
    assert_eq!(Stat::of(&level, trials[..1].iter()).quantile_loss(&level), 1.0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bounds_bracket_the_truth(
        capacity in 101.0..MAX * 0.99,
        preset in 0..3,
        seconds in 0.1..60.0,
        width in 0.002..0.1,
    ) {
        let goal = match preset { 0 => Goal::mlr(seconds), 1 => Goal::rfc2544(seconds), _ => Goal::tst009(seconds) };
        let goal = Goal { width, ..goal };
        for firewall in [&mut ideal(capacity) as Firewall<'_>, &mut livelock(capacity)] {
            let (results, trials) = search(vec![goal], firewall);
            let (lower, upper) = (results[0].lower.unwrap(), results[0].upper.unwrap());
            prop_assert!(lower <= capacity && capacity < upper, "{} {} {}", lower, capacity, upper);
            prop_assert!((upper - lower) / upper <= width * 1.000001);
            prop_assert!(results[0].converged && trials <= 80, "{} trials", trials);
        }
    }

    #[test]
    fn every_search_ends(seed in any::<u64>(), clean in 0.0..1.0, goals in 1usize..4) {
        let mut random = SplitMix::new(seed);
        let mut dice = |load: f64| if random.unit() < clean { load } else { load * random.unit() };
        let goals: Vec<Goal> = [Goal::mlr(1.0), Goal { loss_ratio: 0.1, ..Goal::mlr(30.0) }, Goal::tst009(2.0)]
            .into_iter().take(goals).collect();
        let most = goals.len() * MAX_TRIALS_PER_GOAL;
        let (results, trials) = search(goals, &mut dice);
        prop_assert!(trials <= most);
        prop_assert!(trials == most || results.iter().all(|r| r.converged));
    }
}

/// The table in `docs/design/search.md` is what the search does today; a failure prints the rows as they would be.
#[test]
fn search_table() {
    let page = include_str!("../../../../docs/design/search.md");
    let presets = [
        ("mlr", Goal::mlr(0.25)),
        ("rfc2544", Goal::rfc2544(0.25)),
        ("tst009", Goal::tst009(0.25)),
        // What FD.io's library takes when nothing else is said: 21 trials of a second.
        ("CSIT", Goal { duration_sum_seconds: 21.0, width: 0.005, ..Goal::mlr(1.0) }),
        ("mlr, 10 s", Goal::mlr(10.0)),
        ("rfc2544, 60 s", Goal::rfc2544(60.0)),
    ];
    let noises = [
        ("none", 0.0, 0.0),
        ("within 1 %", 0.01, 0.0),
        ("within 3 %", 0.03, 0.0),
        ("within 10 %", 0.1, 0.0),
        ("one trial in ten stalled", 0.0, 0.1),
        ("within 1 %, one in five stalled", 0.01, 0.2),
    ];
    let mut others = String::new();
    for (preset, goal) in presets {
        let noises = if goal.final_trial_seconds < 1.0 { &noises[..] } else { &noises[..4] };
        for (noise, spread, stalls) in noises {
            let (mut seconds, mut values) = (Vec::new(), Vec::new());
            for seed in 0..101 {
                let mut capacity = noisy(1.2e6, *spread, seed);
                let mut stall = stalled(f64::INFINITY, *stalls, seed + 1000);
                let search = finished(vec![goal], &mut |load| stall(capacity(load)));
                seconds.push(search.trials().iter().map(|t| t.seconds).sum::<f64>());
                values.push(search.result()[0].conditional_throughput.unwrap_or(0.0) / 1.2e6);
            }
            seconds.sort_by(f64::total_cmp);
            values.sort_by(f64::total_cmp);
            let [t, v] = [&seconds, &values].map(|sorted| [5, 50, 95].map(|i| sorted[i]));
            let error = (values.iter().map(|v| (v - 1.0).powi(2)).sum::<f64>() / 101.0).sqrt() * 100.0;
            let mean = seconds.iter().sum::<f64>() / 101.0;
            let row = format!(
                "| `{preset}` | {noise} | {mean:.1} ({:.1}, {:.1}, {:.1}) | {:.3}, {:.3}, {:.3} | {error:.1} % |\n",
                t[0], t[1], t[2], v[0], v[1], v[2]
            );
            if !page.contains(&row) {
                others += &row;
            }
        }
    }
    assert!(others.is_empty(), "{others}");
}
