//! Which charts a test gets: lines over the factor with the most levels, one chart for every combination of the
//! others; bars where there are too few levels for a line; percentiles for latency.

use super::chart::bars::{Bar, Bars};
use super::chart::cuts_off;
use super::chart::ladder::{self, Ladder};
use super::chart::lines::{Dot, Lines, Series};
use super::chart::scale::Span;
use super::chart::stack::{Part, Stack};
use crate::tables;
use crate::view::{Block, Setting, View};
use crate::{units, verdict, view};
use measure::level::{self, Level};
use measure::results::{Metric, Point, Reading, Role, Sent};
use serde::Serialize;
use std::collections::BTreeMap;

/// A chart with what stands around it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// What it shows.
    pub(crate) caption: String,
    /// The drawing.
    pub(crate) svg: String,
    /// What is not drawn, and why.
    pub(crate) notes: Vec<String>,
    /// Needs the whole width of the page.
    pub(crate) wide: bool,
}

/// Fewer levels than this are drawn as bars.
const LEVELS_FOR_A_LINE: usize = 3;

/// Numbers the charts of a page, because every one needs an id of its own.
#[derive(Debug, Default)]
pub(crate) struct Ids(usize);

impl Ids {
    pub(crate) fn next(&mut self) -> String {
        self.0 += 1;
        format!("c{}", self.0)
    }
}

/// The charts of a block.
pub(crate) fn of_block(view: &View<'_>, block: &Block<'_>, test: &str, ids: &mut Ids) -> Vec<Figure> {
    match x_factor(block) {
        Some(x) => {
            let reach = reach(block);
            panels(block, &x).iter().filter_map(|p| lines(view, p, &x, &reach, test, ids)).collect()
        }
        None => {
            let varying = block.factors();
            let place = |s| place_or(test, verdict::place_among(s, &varying));
            block.settings.iter().filter_map(|s| bars(view, s, &place(s), ids)).collect()
        }
    }
}

/// The factor along the horizontal axis: the one with the most numeric levels, the frame size among equals.
fn x_factor(block: &Block<'_>) -> Option<String> {
    let candidates = block.varying().into_iter().filter(|(_, levels)| levels.len() >= LEVELS_FOR_A_LINE);
    let wanted = if block.metric == Metric::Loss { "load" } else { "frame" };
    candidates
        .max_by_key(|(name, levels)| (name == "load" && wanted == "load", levels.len(), name == wanted))
        .map(|(name, _)| name)
}

/// Settings that one chart shows.
pub(crate) fn groups<'a, 'b>(block: &'b Block<'a>) -> Vec<Vec<&'b Setting<'a>>> {
    match x_factor(block) {
        Some(x) => panels(block, &x).into_iter().map(|panel| panel.settings).collect(),
        None => block.settings.iter().map(|s| vec![s]).collect(),
    }
}

/// Settings that share every level but that of `x`, in the report's order.
fn panels<'a, 'b>(block: &'b Block<'a>, x: &str) -> Vec<Panel<'a, 'b>> {
    let mut varying = block.factors();
    varying.retain(|name| name != x);
    let mut panels: Vec<Panel<'a, 'b>> = Vec::new();
    for setting in &block.settings {
        let key: BTreeMap<String, Level> =
            varying.iter().filter_map(|n| setting.levels.get(n).map(|l| (n.clone(), l.clone()))).collect();
        match panels.iter_mut().find(|p| p.levels == key) {
            Some(panel) => panel.settings.push(setting),
            None => panels.push(Panel { levels: key, metric: block.metric, settings: vec![setting] }),
        }
    }
    for panel in &mut panels {
        panel.settings.sort_by_cached_key(|s| s.levels.get(x).cloned());
    }
    panels
}

struct Panel<'a, 'b> {
    levels: BTreeMap<String, Level>,
    metric: Metric,
    settings: Vec<&'b Setting<'a>>,
}

impl Panel<'_, '_> {
    fn title(&self, test: &str) -> String {
        let what = self.metric.row().title;
        let levels = level::phrases(self.levels.iter().map(|(k, v)| (k.as_str(), v)));
        format!("{what}: {}", place_or(test, levels))
    }
}

/// All valid values of a block, for an axis that its charts share.
fn reach(block: &Block<'_>) -> Vec<Span> {
    let valid = block.settings.iter().flat_map(|s| &s.points).filter(|p| p.valid);
    valid.map(|p| (p.value, p.low, p.high)).collect()
}

fn lines(
    view: &View<'_>,
    panel: &Panel<'_, '_>,
    x: &str,
    reach: &[Span],
    test: &str,
    ids: &mut Ids,
) -> Option<Figure> {
    let by_load = panel.metric == Metric::Loss && x == "load";
    let labels: Vec<String> = panel.settings.iter().map(|s| view::short(s.levels.get(x))).collect();
    let series: Vec<Series> = view.duts.iter().filter_map(|d| one_line(view, panel, d, by_load)).collect();
    let title = panel.title(test);
    let svg = Lines {
        id: ids.next(),
        description: describe(panel, &labels, x),
        title: title.clone(),
        what: panel.metric.row().title,
        unit: panel.metric.unit(),
        x_name: if by_load { "Offered load, Mpps".into() } else { level::title(x) },
        x_labels: if by_load { Vec::new() } else { labels },
        x_unit: "frames/s",
        reach,
        marked: true,
        from_zero: false,
        shaded: None,
        series,
    }
    .draw()?;
    let mut notes = not_drawn(&panel.settings, x);
    notes.extend(cut_off(&svg, &panel.settings));
    Some(Figure { caption: title, svg, notes, wide: false })
}

/// What a chart shows only the beginning of, in words.
fn cut_off(svg: &str, settings: &[&Setting<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    if cuts_off(svg) {
        notes.push("An arrow: the interval reaches beyond the chart; the table has its ends.".into());
    }
    let valid = || settings.iter().flat_map(|s| &s.points).filter(|p| p.valid);
    if valid().any(|p| p.value < 0.0) {
        let below = valid().filter(|p| p.value < 0.0);
        let values: Vec<String> =
            below.map(|p| format!("{} {}", p.dut, units::value(&p.unit, p.value))).collect();
        notes.push(format!("Below zero, drawn at zero: {}.", values.join(", ")));
    }
    notes
}

fn one_line(view: &View<'_>, panel: &Panel<'_, '_>, dut: &str, by_load: bool) -> Option<Series> {
    let dots: Vec<Option<Dot>> = panel
        .settings
        .iter()
        .enumerate()
        .map(|(i, s)| {
            let point = s.point(dut).filter(|p| p.valid)?;
            Some(dot(&point, if by_load { offered(&point)? } else { i as f64 }))
        })
        .collect();
    dots.iter().any(Option::is_some).then(|| Series { name: dut.into(), index: view.index(dut), dots })
}

/// The load of a point of a loss curve in frames/s: a rate as written, or a share of the most that was offered.
fn offered(point: &Reading<'_>) -> Option<f64> {
    let level = point.level("load")?;
    if level.text.ends_with("/s") {
        return level.number;
    }
    let share = level.number.filter(|_| level.text.ends_with('%'))? / 100.0;
    // A curve begins with the highest load, so the most that a round offered is its 100 %.
    let mut highest: BTreeMap<u32, f64> = BTreeMap::new();
    for trial in point.trials() {
        let most = highest.entry(trial.round).or_default();
        *most = most.max(trial.offered);
    }
    let rates: Vec<f64> = highest.into_values().collect();
    measure::stats::median(&rates).map(|most| most * share)
}

fn dot(point: &Point, x: f64) -> Dot {
    Dot {
        x,
        value: point.value,
        low: point.low,
        high: point.high,
        hollow: view::is_bound(point),
        tip: format!("{}: {} ({})", point.dut, units::measured(point), tables::interval_text(point)),
    }
}

fn describe(panel: &Panel<'_, '_>, labels: &[String], x: &str) -> String {
    let better = if panel.metric.more_is_better() { "Higher is better" } else { "Lower is better" };
    let ends = match (labels.first(), labels.last()) {
        (Some(first), Some(last)) => format!(" from {first} to {last}"),
        _ => String::new(),
    };
    format!(
        "One line a firewall over {}{ends}. {better}. Vertical bars are 95 % intervals. The table below has all values.",
        level::title(x).to_lowercase()
    )
}

/// Points that a chart leaves out, in words.
fn not_drawn(settings: &[&Setting<'_>], x: &str) -> Vec<String> {
    let mut by_dut: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for setting in settings {
        for point in setting.points.iter().filter(|p| !p.valid) {
            let level = view::short(setting.levels.get(x));
            by_dut.entry(point.dut.as_str()).or_default().push(level);
        }
    }
    let invalid = by_dut
        .into_iter()
        .map(|(dut, levels)| format!("Not drawn, because invalid: {dut} at {}.", levels.join(", ")));
    let hollow = settings.iter().flat_map(|s| &s.points).any(|p| p.valid && view::is_bound(p));
    invalid.chain(hollow.then(|| "A hollow marker is a bound: the firewall may be faster.".into())).collect()
}

fn place_or(test: &str, place: String) -> String {
    if place.is_empty() { test.into() } else { place }
}

/// One setting as bars, in the order of the ranking.
pub(crate) fn bars(view: &View<'_>, setting: &Setting<'_>, place: &str, ids: &mut Ids) -> Option<Figure> {
    let title = format!("{}: {place}", setting.metric.row().title);
    let better = if setting.metric.more_is_better() { "longer is better" } else { "shorter is better" };
    let svg = Bars {
        id: ids.next(),
        title: title.clone(),
        description: format!(
            "One bar a firewall, best first; {better}. The black line is the 95 % interval."
        ),
        what: setting.metric.row().title,
        unit: setting.metric.unit(),
        bars: verdict::ranking(setting).iter().map(|p| bar(view, setting, p)).collect(),
    }
    .draw()?;
    let notes = cut_off(&svg, &[setting]);
    Some(Figure { caption: title, svg, notes, wide: true })
}

fn bar(view: &View<'_>, setting: &Setting<'_>, point: &Reading<'_>) -> Bar {
    let role = match point.role {
        Role::Calibration => "nothing between",
        Role::Forwarder => "no policy",
        Role::Firewall => "",
    };
    let ratio = view.reference.and_then(|r| setting.ratio(&point.dut, r).map(|ratio| (r, ratio)));
    let detail = match (ratio, view.reference) {
        (Some((reference, ratio)), _) => format!("{} {reference}", tables::ratio_text(&ratio)),
        (None, Some(reference)) if reference == point.dut => "reference".into(),
        _ => String::new(),
    };
    Bar {
        name: point.dut.clone(),
        note: role.into(),
        index: view.index(&point.dut),
        value: point.valid.then_some((point.value, point.low, point.high)),
        text: if point.valid {
            let bits = setting.bits(point.value).map(|bits| format!(", {}", units::value("bit/s", bits)));
            let value = units::measured(point);
            format!("{}{value}{}", view::bound(point), bits.unwrap_or_default())
        } else {
            format!("no value, invalid: {}", kinds(point))
        },
        detail: if point.valid { detail } else { String::new() },
    }
}

fn kinds(point: &Point) -> String {
    let names: Vec<&str> =
        point.marks.iter().filter(|m| m.kind.invalidates()).map(|m| m.kind.row().name).collect();
    names.join(", ")
}

/// Percentiles of every setting of a block of times, which are of one load for all firewalls.
pub(crate) fn ladders(view: &View<'_>, block: &Block<'_>, ids: &mut Ids) -> Vec<Figure> {
    let varying = block.factors();
    block
        .settings
        .iter()
        .filter_map(|s| ladder_of(view, s, &verdict::place_among(s, &varying), ids))
        .collect()
}

fn ladder_of(view: &View<'_>, setting: &Setting<'_>, place: &str, ids: &mut Ids) -> Option<Figure> {
    let rows: Vec<ladder::Row> = setting
        .points
        .iter()
        .filter(|p| p.valid)
        .filter_map(|p| {
            Some(ladder::Row { name: p.dut.clone(), index: view.index(&p.dut), latency: view::times(p)? })
        })
        .collect();
    let (what, time) = match setting.metric {
        Metric::Latency => ("Latency percentiles", "One-way latency"),
        Metric::TeardownTime => ("Teardown time percentiles", "Time from the first FIN or RST to the end"),
        Metric::EstablishmentTime => {
            ("Establishment time percentiles", "Time from the intended start to the SYN-ACK")
        }
        _ => return None,
    };
    let title = if place.is_empty() { what.into() } else { format!("{what}: {place}") };
    let svg = Ladder {
        id: ids.next(),
        title: title.clone(),
        description: format!(
            "One row a firewall with percentiles on a logarithmic axis: {}. Further left is better.",
            time.to_lowercase()
        ),
        time,
        rows,
    }
    .draw()?;
    Some(Figure { caption: title, svg, notes: not_drawn(&[setting], "frame"), wide: false })
}

/// Where the frames, connections, bytes or transactions of a test went, a row a firewall.
pub(crate) fn ledger(view: &View<'_>, test: &str, ids: &mut Ids) -> Option<Figure> {
    let counted = tables::counted(view, test);
    let names = tables::ledger_names(counted);
    let (title, what) = match counted {
        Sent::Connections => ("What became of the connections", "attempted connections"),
        Sent::Frames => ("Where the frames went", "offered frames"),
        Sent::Bulk => ("Where the bytes went", "bytes sent"),
        Sent::Application => ("What became of the transactions", "transactions begun"),
    };
    let rows = view
        .duts
        .iter()
        .filter_map(|dut| {
            let ledger = tables::ledger_of(view, test, dut).filter(|l| l.offered > 0)?;
            let parts = tables::ledger_parts(&ledger);
            let part = |(kind, count): (usize, u64)| Part {
                kind,
                share: count as f64 / ledger.offered as f64,
                tip: format!("{dut}: {} {}", names[kind], units::count(count)),
            };
            Some(((*dut).to_string(), parts.into_iter().enumerate().map(part).collect()))
        })
        .collect();
    let title = format!("{title}: {test}");
    let svg = Stack {
        id: ids.next(),
        title: title.clone(),
        description: format!(
            "One row a firewall; the parts are shares of the {what} and are listed in the table below."
        ),
        legend: names,
        rows,
    }
    .draw()?;
    Some(Figure { caption: title, svg, notes: Vec::new(), wide: true })
}

/// What the processor did in the first setting of a block, a row a firewall.
pub(crate) fn cpu(block: &Block<'_>, ids: &mut Ids) -> Option<Figure> {
    let setting = block.settings.first()?;
    let rows: Vec<(String, Vec<Part>)> = setting
        .points
        .iter()
        .filter(|p| !p.cpu().cores.is_empty())
        .map(|p| {
            let part = |(kind, share): (usize, f64)| Part {
                kind: kind + CPU_PATTERNS,
                share,
                tip: format!("{}: {} {}", p.dut, tables::CPU_PARTS[kind], units::percent(share)),
            };
            (p.dut.clone(), tables::cpu_shares(p).into_iter().enumerate().map(part).collect())
        })
        .collect();
    let title = format!("Processor time: {}", verdict::place(setting));
    let mut legend = vec![""; CPU_PATTERNS];
    legend.extend(tables::CPU_PARTS);
    let svg = Stack {
        id: ids.next(),
        title: title.clone(),
        description: "One row a firewall: shares of processor time, mean over the cores of the bench. The table below has every setting.".into(),
        legend: &legend,
        rows,
    }
    .draw()?;
    Some(Figure { caption: title, svg, notes: Vec::new(), wide: true })
}

/// Patterns of the style sheet below this one belong to the ledger.
const CPU_PATTERNS: usize = 10;
