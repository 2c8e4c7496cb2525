//! What the figures say in plain words: who is fastest, by how much, and whether to trust it. Generated from the data
//! alone; a loss is said as plainly as a win. Pure.

use crate::level;
use crate::ratio::Ratio;
use crate::units::{self, metric_key};
use crate::view::{self, Role, Setting, View};
use measure::results::{MarkKind, Metric, Point, Results};
use std::cmp::Ordering;

/// The settings that the summary shows: of every test with throughput, the one with the smallest frames, and the one
/// with the largest, each under its first levels of the other factors.
pub(crate) fn main_settings<'a, 'v>(view: &'v View<'a>) -> Vec<(&'a str, &'v Setting<'a>)> {
    let metric = main_metric(view);
    let mut main: Vec<(&str, &Setting<'_>)> = Vec::new();
    for test in &view.tests {
        for block in test.blocks.iter().filter(|b| Some(b.metric) == metric) {
            let most = block.settings.iter().map(|s| s.points.len()).max().unwrap_or(0);
            let full: Vec<&Setting<'_>> = block.settings.iter().filter(|s| s.points.len() == most).collect();
            let by_frame = |a: &&&Setting<'_>, b: &&&Setting<'_>| {
                a.frame_bytes().unwrap_or(f64::MAX).total_cmp(&b.frame_bytes().unwrap_or(f64::MAX))
            };
            // The first of equals is the first in the report's order; max_by would give the last.
            let smallest = full.iter().min_by(by_frame).copied();
            let largest = full.iter().rev().filter(|s| s.frame_bytes().is_some()).max_by(by_frame).copied();
            let largest =
                largest.and_then(|l| full.iter().find(|s| s.frame_bytes() == l.frame_bytes()).copied());
            main.extend(smallest.map(|s| (test.name, s)));
            main.extend(
                largest.filter(|l| smallest.is_none_or(|s| s.levels != l.levels)).map(|s| (test.name, s)),
            );
        }
    }
    main
}

/// Throughput where it was measured, else the first metric of the run.
pub(crate) fn main_metric(view: &View<'_>) -> Option<Metric> {
    let metrics: Vec<Metric> = view.tests.iter().flat_map(|t| t.blocks.iter().map(|b| b.metric)).collect();
    metrics.contains(&Metric::Throughput).then_some(Metric::Throughput).or_else(|| metrics.first().copied())
}

/// Points of a setting from best to worst, invalid ones last.
pub(crate) fn ranking<'a>(setting: &Setting<'a>) -> Vec<&'a Point> {
    let mut points = setting.points.clone();
    points.sort_by(|a, b| match (a.valid, b.valid) {
        (true, true) if units::more_is_better(setting.metric) => b.value.total_cmp(&a.value),
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

/// The sentences of the verdict, most important first.
pub(crate) fn sentences(results: &Results, view: &View<'_>) -> Vec<String> {
    let main = main_settings(view);
    let mut said = Vec::new();
    if results.points.is_empty() {
        return vec!["This run has no points: nothing was measured before it ended.".into()];
    }
    if let Some((_, setting)) = main.first() {
        said.push(fastest(setting));
        if let Some(reference) = view.reference {
            said.extend(view.duts.iter().filter_map(|dut| against(setting, dut, reference)));
        }
    }
    said.extend(tally(view));
    said
}

/// `At 64-byte frames, …: the fastest that enforces the policy is …`
fn fastest(setting: &Setting<'_>) -> String {
    let place = place(setting);
    let usable: Vec<&Point> = ranking(setting).into_iter().filter(|p| p.valid).collect();
    let firewalls: Vec<&Point> =
        usable.iter().copied().filter(|p| Role::of(&p.dut) == Role::Firewall).collect();
    let Some(best) = firewalls.first() else {
        return match usable.first() {
            Some(p) => format!("{place}: no firewall has a valid value; {} reached {}.", p.dut, shown(p)),
            None => format!("{place}: no valid value."),
        };
    };
    let quality = if units::more_is_better(setting.metric) { "highest" } else { "lowest" };
    let what = units::metric_name(setting.metric).to_lowercase();
    let Some(second) = firewalls.get(1) else {
        return format!("{place}: {} is the only firewall with a valid {what}, {}.", best.dut, shown(best));
    };
    let told_apart = crate::ratio::of_points(best, second).is_some_and(|r| r.differs());
    if told_apart {
        format!("{place}: {} has the {quality} {what} of the firewalls, {}.", best.dut, shown(best))
    } else {
        format!(
            "{place}: {} has the {quality} {what} of the firewalls, {}, but cannot be told apart from {} ({}).",
            best.dut,
            shown(best),
            second.dut,
            shown(second)
        )
    }
}

fn shown(point: &Point) -> String {
    let at_least = if view::is_lower_bound(point) { "at least " } else { "" };
    format!("{at_least}{}", units::value(&point.unit, point.value))
}

fn against(setting: &Setting<'_>, dut: &str, reference: &str) -> Option<String> {
    if Role::of(dut) == Role::Calibration || dut == reference {
        return None;
    }
    let point = setting.point(dut)?;
    if !point.valid {
        return Some(format!("{dut} has no valid value there: {}.", view::reason(point)));
    }
    let ratio = setting.ratio(dut, reference)?;
    Some(format!("{dut} {}.", compared(setting.metric, &ratio, reference, view::is_lower_bound(point))))
}

/// `is 2.1 times as fast as nftables (95 % interval 2.0 to 2.2)`.
fn compared(metric: Metric, ratio: &Ratio, reference: &str, lower_bound: bool) -> String {
    let interval = format!(
        "95 % interval {} to {}",
        units::significant(ratio.low, 3),
        units::significant(ratio.high, 3)
    );
    if !ratio.differs() {
        return format!(
            "cannot be told apart from {reference} ({}, {interval}, which includes 1)",
            units::ratio(ratio.value)
        );
    }
    let at_least = if lower_bound { "at least " } else { "" };
    let noun = match metric {
        Metric::Throughput => "the throughput",
        Metric::Latency => "the latency",
        Metric::Goodput => "the goodput",
        Metric::Loss => "the loss",
        Metric::Cost => "the cost",
        Metric::BackToBack => "the burst",
        Metric::BufferTime => "the buffer time",
        Metric::Recovery => "the recovery time",
    };
    let better = (ratio.value > 1.0) == units::more_is_better(metric);
    let word = if better { "better" } else { "worse" };
    format!("has {at_least}{} {noun} of {reference}: {word} ({interval})", units::ratio(ratio.value))
}

/// Over all settings of the main metric: wins, losses and draws against the reference.
fn tally(view: &View<'_>) -> Option<String> {
    let (metric, reference) = (main_metric(view)?, view.reference?);
    let rows: Vec<String> = view
        .duts
        .iter()
        .filter(|d| Role::of(d) == Role::Firewall && **d != reference)
        .filter_map(|dut| tally_of(view, metric, dut, reference))
        .collect();
    (!rows.is_empty()).then(|| {
        format!("Over all settings of {} against {reference}: {}.", metric_key(metric), rows.join("; "))
    })
}

fn tally_of(view: &View<'_>, metric: Metric, dut: &str, reference: &str) -> Option<String> {
    let (mut better, mut worse, mut alike, mut unusable) = (0, 0, 0, 0);
    for (_, setting) in view.settings(metric) {
        if setting.point(dut).is_none() || setting.point(reference).is_none() {
            continue;
        }
        match setting.ratio(dut, reference) {
            None => unusable += 1,
            Some(r) if !r.differs() => alike += 1,
            Some(r) if (r.value > 1.0) == units::more_is_better(metric) => better += 1,
            Some(_) => worse += 1,
        }
    }
    let total = better + worse + alike + unusable;
    (total > 0).then(|| {
        let rest = if unusable > 0 { format!(", {unusable} not comparable") } else { String::new() };
        format!(
            "{dut} better in {better} of {total}, worse in {worse}, not to be told apart in {alike}{rest}"
        )
    })
}

/// Where a setting lies, for the start of a sentence.
pub(crate) fn place(setting: &Setting<'_>) -> String {
    let levels = setting.levels.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let text = level::phrases(levels.filter(|(k, _)| is_telling(k)));
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// Factors that are worth naming in a sentence; the rest stands in the tables.
fn is_telling(factor: &str) -> bool {
    matches!(factor, "frame" | "flows" | "sessions" | "directions" | "rules" | "load" | "cores" | "placement")
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

/// Share of stolen time from which a reader should be careful.
const STOLEN_WORTH_MENTIONING: f64 = 0.01;

/// The answers to "can I trust it".
pub(crate) fn trust(results: &Results) -> Vec<TrustLine> {
    let total = results.points.len();
    let invalid = results.points.iter().filter(|p| !p.valid).count();
    let marked = |kind| results.points.iter().filter(|p| view::has(p, kind)).count();
    let of = |n: usize| format!("{n} of {total} points");
    let mut lines = vec![
        line("Valid points", of(total - invalid), if invalid == 0 && total > 0 { "good" } else { "bad" }),
        counted("Unstable (rounds differ by more than 10 %)", marked(MarkKind::Unstable), total),
        counted("Generator-limited (at least what is shown)", marked(MarkKind::GeneratorLimited), total),
        stolen(results, marked(MarkKind::StolenTime)),
        load(results),
        calibration(results),
    ];
    if !results.complete {
        lines.insert(0, line("Run", "not finished: what is here was measured before it ended".into(), "bad"));
    }
    lines
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
    let points = if marked > 0 { format!(", {marked} points marked") } else { String::new() };
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
    let judged: Vec<bool> = results.calibration.iter().filter_map(|c| c.met).collect();
    let missed = judged.iter().filter(|m| !**m).count();
    let (found, state) = match (judged.len(), missed) {
        (0, _) => ("not part of this run".into(), "careful"),
        (n, 0) => (format!("all {n} targets met"), "good"),
        (n, missed) => (format!("{missed} of {n} targets missed"), "careful"),
    };
    line("Calibration of the generator", found, state)
}
