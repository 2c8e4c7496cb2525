//! What the figures say in plain words: who is fastest, by how much, and whether to trust it: the ratios, and apart from
//! them the absolute rates. Generated from the data alone; a loss is said as plainly as a win. Pure.

use crate::differ::{self, Difference};
use crate::ratio::{self, Ratio, Standing};
use crate::units;
use crate::view::{self, Block, Setting, Test, View};
use measure::connections::IllegalOutcome;
use measure::level;
use measure::results::{MarkKind, Metric, Point, Reading, Results, Role, Trial};
use measure::stats::{Scale, median, spread};
use std::cmp::Ordering;

/// The settings that the summary shows: of every test with throughput, the one with the smallest frames, and the one
/// with the largest, each under its first levels of the other factors; of a test without frame sizes, the first and
/// the last.
pub(crate) fn main_settings<'a, 'v>(view: &'v View<'a>) -> Vec<(&'a str, &'v Setting<'a>)> {
    let metric = main_metric(view);
    let mut main: Vec<(&str, &Setting<'_>)> = Vec::new();
    for test in &view.tests {
        for block in test.blocks.iter().filter(|b| Some(b.metric) == metric) {
            let most = block.settings.iter().map(|s| s.points.len()).max().unwrap_or(0);
            let full = |s: &&Setting<'_>| s.points.len() == most && !s.is_apart();
            let full: Vec<&Setting<'_>> = block.settings.iter().filter(full).collect();
            let by_frame = |a: &&&Setting<'_>, b: &&&Setting<'_>| {
                a.frame_bytes().unwrap_or(f64::MAX).total_cmp(&b.frame_bytes().unwrap_or(f64::MAX))
            };
            // The first of equals is the first in the report's order; max_by would give the last.
            let smallest = full.iter().min_by(by_frame).copied();
            let largest = full.iter().rev().filter(|s| s.frame_bytes().is_some()).max_by(by_frame).copied();
            let largest = match largest {
                Some(l) if !l.of_connections() => {
                    full.iter().find(|s| s.frame_bytes() == l.frame_bytes()).copied()
                }
                // Connections have no frame size to tell the ends of a test by: its last setting is the hardest.
                _ => full.last().copied(),
            };
            main.extend(smallest.map(|s| (test.name, s)));
            main.extend(
                largest.filter(|l| smallest.is_none_or(|s| s.levels != l.levels)).map(|s| (test.name, s)),
            );
        }
    }
    main
}

/// What the run is about: throughput where it was measured and tells firewalls apart, else what tells them apart most.
pub(crate) fn main_metric(view: &View<'_>) -> Option<Metric> {
    let blocks = || view.tests.iter().flat_map(|t| &t.blocks);
    let tells = |b: &&Block<'_>| matches!(differ::of_block(b), Difference::By(_));
    let of_frames = || blocks().filter(|b| b.metric == Metric::Throughput);
    let found = of_frames().find(tells).or_else(|| blocks().find(tells)).or_else(|| of_frames().next());
    found.or_else(|| blocks().next()).map(|b| b.metric)
}

/// Points of a setting from best to worst, invalid ones last.
pub(crate) fn ranking<'a>(setting: &Setting<'a>) -> Vec<Reading<'a>> {
    let mut points = setting.points.clone();
    points.sort_by(|a, b| match (a.valid, b.valid) {
        (true, true) if setting.metric.more_is_better() => b.value.total_cmp(&a.value),
        (true, true) => a.value.total_cmp(&b.value),
        (false, false) => Ordering::Equal,
        (valid, _) => {
            if valid {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
    });
    points
}

/// What a run says.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Summary {
    /// The answer, in one sentence: `Rampart forwards 2.55 million frames a second: 5.5 times nftables.`
    pub(crate) headline: String,
    /// The setting that it is about, in small print.
    pub(crate) setting: String,
    /// A sentence for each firewall.
    pub(crate) firewalls: Vec<String>,
    /// What else there is to say, a sentence each.
    pub(crate) more: Vec<String>,
}

/// The answer and what goes with it.
pub(crate) fn summary(results: &Results, view: &View<'_>) -> Summary {
    let said = |headline: &str| Summary { headline: headline.into(), ..Summary::default() };
    if results.points.is_empty() {
        return said("Nothing was measured before the run ended.");
    }
    let main = main_settings(view);
    let differs = |(_, s): &&(&str, &Setting<'_>)| matches!(s.difference, Difference::By(_));
    let Some((_, setting)) = main.iter().find(differs).or(main.first()) else {
        return said("Nothing was measured at one load for all firewalls.");
    };
    let headline = headline(setting, view.reference);
    let sentences = view.duts.iter().filter_map(|dut| sentence(setting, dut, view.reference));
    // What the headline says is not said again.
    let firewalls =
        sentences.filter(|sentence| !headline.starts_with(sentence.trim_end_matches('.'))).collect();
    Summary { headline, setting: place(setting), firewalls, more: tallies(view) }
}

/// One firewall in one sentence.
fn sentence(setting: &Setting<'_>, dut: &str, reference: Option<&str>) -> Option<String> {
    let point = setting.point(dut).filter(|p| p.role != Role::Calibration)?;
    match reference {
        Some(reference) if reference != dut => {
            against(setting, dut, reference).or_else(|| Some(format!("{}.", does(&point, Some(setting)))))
        }
        _ if !point.valid => {
            Some(format!("{} has no valid value there: {}.", name(dut), view::reason(&point)))
        }
        None => Some(format!("{}.", does(&point, Some(setting)))),
        Some(_) => Some(format!("{}; the others are compared with it.", does(&point, Some(setting)))),
    }
}

/// What the best of the firewalls does, and how it compares.
pub(crate) fn headline(setting: &Setting<'_>, reference: Option<&str>) -> String {
    let usable: Vec<Reading<'_>> = ranking(setting).into_iter().filter(|p| p.valid).collect();
    let firewalls: Vec<&Reading<'_>> = usable.iter().filter(|p| p.role == Role::Firewall).collect();
    let Some(best) = firewalls.first() else {
        return match usable.iter().find(|p| p.role == Role::Forwarder).or(usable.first()) {
            Some(p) => format!("No firewall has a valid value; {}.", does(p, Some(setting))),
            None => "There is no valid value.".into(),
        };
    };
    let next = firewalls.get(1).copied();
    let ahead = firewalls.iter().take_while(|p| view::distinguished(best, p) != Some(true)).count();
    if ahead > 1 {
        let names: Vec<&str> = firewalls[..ahead].iter().map(|p| name(&p.dut)).collect();
        let (names, values) = (listed(&names), together(&firewalls[..ahead]));
        // No round more would tell apart who met the most that was tried.
        if firewalls[..ahead].iter().all(|p| view::has(p, MarkKind::NoUpperBound) && p.value == best.value) {
            return format!("{names} reach the most that was tried: {values}.");
        }
        let level = |p: &&Reading<'_>| ratio::standing(best, p) == Some(Standing::Level);
        if firewalls[1..ahead].iter().all(level) {
            return format!("{names} are level: {values}.");
        }
        return format!("Who of {names} is ahead is open ({}): {values}.", ratio::too_few(best.rounds.len()));
    }
    // The reference itself is compared with the firewall that comes next, or with what only forwards.
    let forwarder = || usable.iter().rev().find(|p| p.role == Role::Forwarder);
    let other = match reference {
        Some(reference) if reference != best.dut => Some(reference),
        _ => next.or_else(forwarder).map(|p| p.dut.as_str()),
    };
    let Some((ratio, other)) = other.and_then(|other| Some((setting.ratio(&best.dut, other)?, other))) else {
        // To a value of 0 there is no ratio.
        let other = other.and_then(|other| setting.point(other)).filter(|p| p.valid);
        let beside = other.map_or(String::new(), |p| format!(", {} {}", name(&p.dut), shown(&p)));
        return format!("{}{beside}.", does(best, Some(setting)));
    };
    let bare = if setting.point(other).is_some_and(|p| p.role == Role::Forwarder) {
        ", which has no policy"
    } else {
        ""
    };
    format!("{}: {} times {}{bare}.", does(best, Some(setting)), units::times(ratio.value), name(other))
}

/// `nftables, iptables and ipset`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => names.concat(),
    }
}

/// The values of several firewalls that are level: `2.5 and 2.4 million frames a second`, `1,000 connections each`.
fn together(points: &[&Reading<'_>]) -> String {
    let values: Vec<String> = points.iter().map(|p| shown(p)).collect();
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return String::new() };
    if values.iter().all(|v| v == first) {
        return format!("{first} each");
    }
    // What both end in is said once.
    let same = first.rsplit(' ').zip(last.rsplit(' ')).take_while(|(a, b)| a == b).count();
    let number: Vec<&str> = first.split(' ').collect();
    let number = number[..number.len() - same].join(" ");
    let joint = if points.len() == 2 { "and" } else { "to" };
    format!("{number} {joint} {last}")
}

/// A firewall as a sentence names it.
pub(crate) fn name(dut: &str) -> &str {
    match dut {
        "rampart" => "Rampart",
        "rampart-tc" => "Rampart at TC",
        "rampart-kernel" => "Rampart at netfilter",
        "rampart-bridge" => "Rampart as a bridge",
        "rampart-tc-bridge" => "Rampart as a bridge at TC",
        other => other,
    }
}

/// `Rampart forwards at least 2.55 million frames a second (1.31 Gbit/s)`; of a time also the load.
pub(crate) fn does(point: &Reading<'_>, setting: Option<&Setting<'_>>) -> String {
    let row = point.metric.row();
    let bits =
        setting.and_then(|s| s.bits(point.value)).map(|bits| format!(" ({})", units::words("bit/s", bits)));
    let timed = setting.is_some_and(Setting::is_timed);
    let load = view::at_load(point).filter(|_| timed).map(|at| format!(" {at}"));
    let value = format!("{}{}", shown(point), bits.unwrap_or_default());
    format!("{} {}{}", name(&point.dut), row.does.replace("{}", &value), load.unwrap_or_default())
}

fn shown(point: &Point) -> String {
    let bound = match view::bound(point) {
        "" => "",
        "≤ " => "at most ",
        _ => "at least ",
    };
    let error = units::clock_error(&point.unit, point.clock_error);
    format!("{bound}{}{error}", units::words(&point.unit, point.value))
}

fn against(setting: &Setting<'_>, dut: &str, reference: &str) -> Option<String> {
    let point = setting.point(dut).filter(|p| p.role != Role::Calibration && dut != reference)?;
    let role = if point.role == Role::Forwarder { ", without a policy," } else { "" };
    let subject = format!("{}{role}", name(dut));
    if !point.valid {
        return Some(format!("{subject} has no valid value there: {}.", view::reason(&point)));
    }
    let ratio = setting.ratio(dut, reference)?;
    Some(compared(setting, &subject, &ratio, reference, view::is_bound(&point)))
}

/// `Rampart is better than nftables: 5.5x its throughput (95 % interval 5.4x to 6.4x).`
fn compared(setting: &Setting<'_>, subject: &str, ratio: &Ratio, reference: &str, bound: bool) -> String {
    let times = units::times(ratio.value);
    let reference = name(reference);
    let Some((low, high)) = ratio.interval() else {
        return format!("{subject} and {reference}: {times}x in one round, which has no interval.");
    };
    let interval = format!("(95 % interval {}x to {}x)", units::times(low), units::times(high));
    match ratio.standing() {
        Standing::Open => {
            return format!(
                "{subject} and {reference}: {times}x {interval}, but {} who is ahead.",
                ratio.too_few()
            );
        }
        Standing::Level => {
            let why = if low <= 1.0 && high >= 1.0 { "includes 1" } else { "begins within 0.5 % of 1" };
            return format!("{subject} and {reference} are level: {times}x {interval} {why}.");
        }
        Standing::More | Standing::Less => {}
    }
    let noun = setting.metric.row().title.to_lowercase();
    let at_least = if bound { "at least " } else { "" };
    let better = (ratio.value > 1.0) == setting.metric.more_is_better();
    let word = if better { "better" } else { "worse" };
    format!("{subject} is {word} than {reference}: {at_least}{times}x its {noun} {interval}.")
}

/// Over all settings of the main metric: wins, losses and draws against the reference, a sentence a firewall.
fn tallies(view: &View<'_>) -> Vec<String> {
    let (Some(metric), Some(reference)) = (main_metric(view), view.reference) else { return Vec::new() };
    // With one setting there is nothing to count that was not said.
    if view.settings(metric).count() < 2 {
        return Vec::new();
    }
    view.duts
        .iter()
        .filter(|d| view.role(d) == Role::Firewall && **d != reference)
        .filter_map(|dut| tally(view, metric, dut, reference))
        .collect()
}

fn tally(view: &View<'_>, metric: Metric, dut: &str, reference: &str) -> Option<String> {
    let (mut better, mut worse, mut alike, mut open, mut unusable) = (0, 0, 0, 0, 0);
    for (_, setting) in view.settings(metric) {
        let (Some(point), Some(other)) = (setting.point(dut), setting.point(reference)) else { continue };
        match ratio::standing(&point, &other) {
            None => unusable += 1,
            Some(Standing::Level) => alike += 1,
            Some(Standing::Open) => open += 1,
            Some(standing) if (standing == Standing::More) == setting.metric.more_is_better() => better += 1,
            Some(_) => worse += 1,
        }
    }
    let total = better + worse + alike + open + unusable;
    let parts: Vec<String> = [
        (better, "better"),
        (worse, "worse"),
        (alike, "level"),
        (open, "open"),
        (unusable, "not comparable, because a point is invalid"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{what} in {count}"))
    .collect();
    let noun = metric.row().title.to_lowercase();
    (total > 0).then(|| {
        format!(
            "Over all {total} {noun} settings, {} against {}: {}.",
            name(dut),
            name(reference),
            parts.join("; ")
        )
    })
}

/// Where a setting lies, in words.
pub(crate) fn place(setting: &Setting<'_>) -> String {
    let levels = setting.levels.iter().map(|(k, v)| (k.as_str(), v));
    level::phrases(levels.filter(|(k, _)| level::is_telling(k)))
}

/// The levels in which a setting differs from others, in words.
pub(crate) fn place_among(setting: &Setting<'_>, varying: &[String]) -> String {
    let levels = setting.levels.iter().filter(|(k, _)| varying.contains(k));
    level::phrases(levels.map(|(k, v)| (k.as_str(), v)))
}

/// Factors in which settings differ, and what they share, in words.
pub(crate) fn differences(settings: &[(&str, &Setting<'_>)]) -> (Vec<String>, String) {
    let Some((_, first)) = settings.first() else { return (Vec::new(), String::new()) };
    let varying = view::differing(settings.iter().map(|(_, s)| &s.levels));
    let shared = first.levels.iter().filter(|(k, _)| !varying.contains(k) && level::is_telling(k));
    let shared = level::phrases(shared.map(|(k, v)| (k.as_str(), v)));
    (varying, shared)
}

/// One line of the trust box.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct TrustLine {
    /// What was checked.
    pub(crate) what: &'static str,
    /// What was found.
    pub(crate) found: String,
    /// `good`, `careful` or `bad`: also said by a sign and a word, never by colour alone.
    pub(crate) state: &'static str,
}

impl TrustLine {
    /// What was found, without why.
    pub(crate) fn verdict(&self) -> &str {
        self.found.split(" (").next().unwrap_or(&self.found)
    }
}

/// A goodput beside a throughput says the same in another unit, which stands beside each throughput.
pub(crate) fn restates(test: &Test<'_>, block: &Block<'_>) -> bool {
    block.metric == Metric::Goodput && test.blocks.iter().any(|b| b.metric == Metric::Throughput)
}

/// Share of stolen time from which a reader should be careful.
const STOLEN_WORTH_MENTIONING: f64 = 0.01;

/// The answers to "can I trust it".
pub(crate) fn trust(results: &Results, view: &View<'_>) -> Vec<TrustLine> {
    let total = results.points.len();
    let invalid = results.points.iter().filter(|p| !p.valid).count();
    let marked = |kind| results.points.iter().filter(|p| view::has(p, kind)).count();
    let of = |n: usize| format!("{n} of {total} points");
    let mut lines = vec![
        line("Valid points", of(total - invalid), validity(invalid, total)),
        rates(results),
        counted(
            "Limited by the generator (at least what is shown)",
            marked(MarkKind::GeneratorLimited),
            total,
        ),
        stolen(results, marked(MarkKind::StolenTime)),
        counted("Disturbed by other programs", marked(MarkKind::ForeignLoad), total),
        load(results),
        calibration(results),
    ];
    lines.splice(1..1, ratios(view));
    lines.extend(illegal(results));
    if !results.complete {
        lines.insert(0, line("Run", "not finished: what is here was measured before it ended".into(), "bad"));
    }
    lines
}

/// Whether the comparisons with the reference hold, however the machine's speed changed between the rounds.
pub(crate) fn ratios(view: &View<'_>) -> Option<TrustLine> {
    let reference = view.reference?;
    let settings = view.tests.iter().flat_map(|t| &t.blocks).flat_map(|b| &b.settings);
    let of = |s: &Setting<'_>| view.duts.iter().filter_map(|d| s.ratio(d, reference)).collect::<Vec<_>>();
    let all: Vec<Ratio> = settings.flat_map(of).collect();
    let open = all.iter().filter(|r| !r.holds()).count();
    let (total, to) = (all.len(), name(reference));
    let (found, state) = match open {
        0 => (format!("usable (all {total} comparisons with {to} hold)"), "good"),
        open if open * 2 <= total => {
            (format!("usable, but {open} of {total} comparisons with {to} are open"), "careful")
        }
        open => (format!("hardly usable ({open} of {total} comparisons with {to} are open)"), "bad"),
    };
    (total > 0).then(|| line("Ratios", found, state))
}

/// Rounds that differ by no more than this share of their median are steady (EANTC).
const STEADY: f64 = 0.1;

/// Whether the rounds agree, so that a rate stands for itself: by the rounds, because `unstable` marks only what the noise of the
/// run does not explain. That the machine was busy is said only where somebody else's processor time was measured at half of the points
/// whose rounds differ: rounds of a firewall differ on an idle machine as well.
pub(crate) fn rates(results: &Results) -> TrustLine {
    let measured = results.points.iter().filter(|p| p.valid && !p.metric.row().derived);
    let measured: Vec<&Point> = measured.filter(|p| p.metric.scale() == Scale::Ratio).collect();
    let unsteady: Vec<&Point> = measured.iter().copied().filter(|p| spread(&p.rounds) > STEADY).collect();
    let typical = median(&unsteady.iter().map(|p| spread(&p.rounds)).collect::<Vec<f64>>()).unwrap_or(0.0);
    let disturbed = unsteady.iter().filter(|p| DISTURBED.iter().any(|kind| view::has(p, *kind))).count();
    let (count, total) = (unsteady.len(), measured.len());
    let differ = format!(
        "the rounds of the same point differ by more than 10 % at {count} of {total} points, there by {:.0} % in the median",
        typical * 100.0
    );
    let (found, state) = match count {
        _ if total == 0 => ("none was measured".into(), "careful"),
        0 => ("steady (the rounds differ by 10 % at most)".into(), "good"),
        _ if disturbed * 2 >= count => (format!("this machine was busy ({differ})"), "careful"),
        _ => (
            format!(
                "unsteady at {count} of {total} points ({differ}; others took no time at {})",
                count - disturbed
            ),
            "careful",
        ),
    };
    line("Absolute rates", found, state)
}

/// Marks that measured time which others took.
const DISTURBED: [MarkKind; 2] = [MarkKind::ForeignLoad, MarkKind::StolenTime];

/// Whether what the policy forbids was stopped; nothing where nothing forbidden was sent. Attempts through a firewall that was
/// given no policy do not count. Several values may rest on one trial, whose attempts are counted once.
fn illegal(results: &Results) -> Option<TrustLine> {
    let mut counted: Vec<(u32, &str, &Trial)> = Vec::new();
    for point in results.readings() {
        let Some(trial) = point.typical() else { continue };
        if !counted
            .iter()
            .any(|(cell, dut, t)| (*cell, *dut, t.id) == (point.cell.id, &point.point.dut, trial.id))
        {
            counted.push((point.cell.id, &point.point.dut, trial));
        }
    }
    let connections = counted.iter().filter_map(|(.., trial)| trial.detail.as_deref()?.connections.as_ref());
    let outcomes: Vec<&IllegalOutcome> =
        connections.flat_map(|c| c.illegal.iter().chain(&c.forbidden)).filter(|o| o.forbidden).collect();
    let outcomes = || outcomes.iter().copied();
    let attempted: u64 = outcomes().flat_map(|i| i.attempted.values()).sum();
    let through: u64 = outcomes().map(IllegalOutcome::total_got_through).sum();
    let (found, state) = match through {
        0 => (format!("none of {} attempts got through", units::count(attempted)), "good"),
        n => (format!("{} of {} attempts got through", units::count(n), units::count(attempted)), "bad"),
    };
    (attempted > 0).then(|| line("Illegal traffic", found, state))
}

/// Invalid points are never used, so a few of them harm no other; many mean that something is wrong with the run.
fn validity(invalid: usize, total: usize) -> &'static str {
    match (invalid, total) {
        (_, 0) => "bad",
        (0, _) => "good",
        (invalid, total) if invalid * 5 > total => "bad",
        _ => "careful",
    }
}

const fn line(what: &'static str, found: String, state: &'static str) -> TrustLine {
    TrustLine { what, found, state }
}

fn counted(what: &'static str, count: usize, total: usize) -> TrustLine {
    line(what, format!("{count} of {total} points"), if count == 0 { "good" } else { "careful" })
}

fn stolen(results: &Results, marked: usize) -> TrustLine {
    let share = results.environment.stolen;
    let careful = share >= STOLEN_WORTH_MENTIONING || marked > 0;
    let points = if marked > 0 { format!(", points marked: {marked}") } else { String::new() };
    line(
        "Time stolen by the hypervisor",
        format!("{}{points}", units::percent(share)),
        if careful { "careful" } else { "good" },
    )
}

fn load(results: &Results) -> TrustLine {
    let env = &results.environment;
    // The bench itself loads the machine while it runs, so only what was there before counts against the run.
    let careful = env.load_before > 0.25 * f64::from(env.cores.max(1));
    line(
        "Load of the machine",
        format!("{:.2} before, {:.2} after, {} cores", env.load_before, env.load_after, env.cores),
        if careful { "careful" } else { "good" },
    )
}

fn calibration(results: &Results) -> TrustLine {
    let promised: Vec<Option<bool>> =
        results.calibration.iter().filter(|c| c.target.is_some()).map(|c| c.met).collect();
    let count = |met| promised.iter().filter(|m| **m == met).count();
    let (found, state) = match (promised.len(), count(Some(false)), count(None)) {
        (0, ..) => ("not part of this run".into(), "careful"),
        (n, 0, 0) => (format!("all {n} targets met"), "good"),
        (n, 0, undecided) => (format!("{undecided} of {n} targets undecided"), "careful"),
        (n, missed, _) => (format!("{missed} of {n} targets missed"), "careful"),
    };
    line("Calibration of the generator", found, state)
}
