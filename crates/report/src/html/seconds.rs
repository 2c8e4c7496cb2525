//! Rates over the time of a trial: whether a rate was held, or was the mean of better and worse. Frames received a second; of
//! connections, everything that is counted in a second.

use super::chart::lines::{Dot, Lines, Series};
use super::chart::scale::Span;
use super::figures::{Figure, Ids};
use crate::layout::poliwall::Course;
use crate::seconds::{self, Second};
use crate::table::{Cell, Head, Row, Table};
use crate::view::{Block, Setting, Test, View};
use crate::{units, verdict};
use measure::level;
use measure::results::Reading;
use serde::Serialize;

/// A setting's charts with their table.
#[derive(Debug, Serialize)]
pub(super) struct Seconds {
    figures: Vec<Figure>,
    table: Table,
}

/// More seconds than this are joined, in charts and tables of connections alike.
const MOST_PARTS: usize = 100;

/// Every setting of a block with points whose deciding trial has seconds. Connections are shown once for a trial, in the
/// first block of the test that has it.
pub(super) fn of_block(view: &View<'_>, test: &Test<'_>, block: &Block<'_>, ids: &mut Ids) -> Vec<Seconds> {
    let mut varying = block.factors();
    varying.retain(|name| name != level::PHASE);
    let mut found = Vec::new();
    for setting in &block.settings {
        let place = verdict::place_among(setting, &varying);
        let shown_before = |p: &Reading<'_>| test.shown_before(block, setting, p);
        found.extend(match setting.of_connections() {
            true => connections(view, setting, &place, &shown_before, ids),
            false => frames(view, setting, &place, &shown_before, ids),
        });
    }
    found
}

/// One line over the seconds.
struct Line {
    name: String,
    index: usize,
    /// Second from the start, value; nothing where there is no value.
    values: Vec<(f64, Option<f64>)>,
}

/// A chart over the seconds of a trial; none when no line has two values.
struct Chart<'a> {
    title: String,
    what: &'a str,
    unit: &'a str,
    from_zero: bool,
    shaded: Option<(f64, f64, &'a str)>,
    /// Values that the axis must suit besides those of the lines.
    reach: Vec<Span>,
    lines: Vec<Line>,
}

impl Chart<'_> {
    fn draw(self, ids: &mut Ids) -> Option<Figure> {
        let dot = |&(x, value): &(f64, Option<f64>)| {
            value.map(|v| Dot { x, value: v, low: v, high: v, hollow: false, tip: String::new() })
        };
        let series = self.lines.iter().filter(|l| l.values.len() > 1).map(|l| Series {
            name: l.name.clone(),
            index: l.index,
            dots: l.values.iter().map(dot).collect(),
        });
        let svg = Lines {
            id: ids.next(),
            title: self.title.clone(),
            description: "One line a firewall or setting over the seconds of one deciding trial. Level is steady. The table below has all values.".into(),
            what: self.what,
            unit: self.unit,
            x_name: "Time from the start of the trial, s".into(),
            x_labels: Vec::new(),
            x_unit: "s",
            reach: &self.reach,
            marked: false,
            from_zero: self.from_zero,
            shaded: self.shaded,
            series: series.collect(),
        }
        .draw()?;
        Some(Figure { caption: self.title, svg, notes: Vec::new(), wide: false })
    }
}

fn titled(what: &str, place: &str) -> String {
    if place.is_empty() { what.to_string() } else { format!("{what}: {place}") }
}

fn frames(
    view: &View<'_>,
    setting: &Setting<'_>,
    place: &str,
    shown_before: &dyn Fn(&Reading<'_>) -> bool,
    ids: &mut Ids,
) -> Option<Seconds> {
    let rates = |p: &Reading<'_>| -> Option<Vec<(f64, Option<f64>)>> {
        let samples = &p.typical()?.per_second;
        let rate = |(length, s): (f64, &measure::trial::SecondSample)| {
            (s.at_seconds, Some(s.received as f64 / length))
        };
        Some(seconds::lasting(samples).map(rate).collect())
    };
    let valid = setting.points.iter().filter(|p| p.valid && !shown_before(p));
    let lines: Vec<Line> = valid
        .filter_map(|p| Some(Line { name: p.dut.clone(), index: view.index(&p.dut), values: rates(p)? }))
        .filter(|l| l.values.len() > 1)
        .collect();
    let title = titled("Received frames a second", place);
    let table = frame_table(title.clone(), &lines);
    let reach = Vec::new();
    let chart =
        Chart { title, what: "Received", unit: "frames/s", from_zero: false, shaded: None, reach, lines };
    Some(Seconds { figures: vec![chart.draw(ids)?], table })
}

fn frame_table(caption: String, lines: &[Line]) -> Table {
    let longest = lines.iter().map(|l| l.values.len()).max().unwrap_or(0);
    let cell = |line: &Line, second: usize| {
        line.values.get(second).map_or_else(Cell::none, |(_, rate)| unsorted("frames/s", *rate))
    };
    let rows = (0..longest).map(|second| Row {
        heads: vec![(second + 1).to_string()],
        cells: lines.iter().map(|l| cell(l, second)).collect(),
    });
    Table {
        caption,
        corner: vec!["Second".into()],
        head: lines.iter().map(|l| Head::one(&l.name)).collect(),
        rows: rows.collect(),
        notes: vec!["A last part shorter than half a second is left out.".into()],
        ..Table::default()
    }
}

/// Rows are in the order of time; a key to sort by would make a long table half as large again.
fn unsorted(unit: &str, value: Option<f64>) -> Cell {
    value.map_or_else(Cell::none, |v| Cell { sort: None, ..Cell::number(units::value(unit, v), v) })
}

/// Something that is counted or timed in each second.
struct Measure {
    title: &'static str,
    column: &'static str,
    unit: &'static str,
    of: fn(&Second) -> Option<f64>,
    /// Drawn, not only listed.
    drawn: bool,
}

const fn measure(
    title: &'static str,
    column: &'static str,
    unit: &'static str,
    of: fn(&Second) -> Option<f64>,
) -> Measure {
    Measure { title, column, unit, of, drawn: true }
}

const MEASURES: [Measure; 10] = [
    measure("Connections attempted a second", "attempted", "connections/s", |s| Some(s.attempted)),
    measure("Connections completed a second", "completed", "connections/s", |s| Some(s.completed)),
    measure("Connections failed a second", "failed", "connections/s", |s| Some(s.failed)),
    measure("Connections open", "open", "connections", |s| Some(s.open)),
    measure("Frames received a second", "frames", "frames/s", |s| Some(s.frames)),
    Measure { drawn: false, ..measure("Bits received a second", "bits", "bit/s", |s| Some(s.bits)) },
    measure("Time to the SYN-ACK, median", "SYN-ACK p50", "ns", |s| s.p50_ns),
    measure("Time to the SYN-ACK, 99th percentile", "SYN-ACK p99", "ns", |s| s.p99_ns),
    measure("Attack frames sent a second", "attack sent", "frames/s", |s| Some(s.attack_sent)),
    measure("Attack frames forwarded a second", "attack forwarded", "frames/s", |s| Some(s.attack_forwarded)),
];

fn connections(
    view: &View<'_>,
    setting: &Setting<'_>,
    place: &str,
    shown_before: &dyn Fn(&Reading<'_>) -> bool,
    ids: &mut Ids,
) -> Option<Seconds> {
    let points = setting.points.iter().filter(|p| p.valid && !shown_before(p));
    let courses: Vec<(&str, Vec<Second>, usize)> = points
        .map(|p| (p.dut.as_str(), seconds::of_point(p)))
        .filter(|(_, seconds)| !seconds.is_empty())
        .map(|(dut, all)| (dut, seconds::joined(&all, MOST_PARTS), all.len()))
        .collect();
    if courses.is_empty() {
        return None;
    }
    let shown: Vec<&Measure> = MEASURES.iter().filter(|m| is_measured(m, &courses)).collect();
    let shaded = shade(courses.iter().find_map(|(_, s, _)| seconds::attack(s)));
    let chart = |m: &&Measure| Chart {
        title: titled(m.title, place),
        what: m.title.split(',').next().unwrap_or(m.title).trim_end_matches(" a second"),
        unit: m.unit,
        from_zero: m.unit != "ns",
        shaded,
        reach: Vec::new(),
        lines: courses.iter().map(|(dut, s, _)| line(dut, view.index(dut), s, m.of)).collect(),
    };
    let figures = shown.iter().filter(|m| m.drawn).filter_map(|m| chart(m).draw(ids)).collect();
    Some(Seconds { figures, table: course_table(titled("Second by second", place), &courses, &shown) })
}

/// A line of zeros says nothing, but that a measure was zero throughout is true of the others as well.
fn is_measured(measure: &Measure, courses: &[(&str, Vec<Second>, usize)]) -> bool {
    let always = matches!(measure.column, "attempted" | "completed" | "open" | "frames" | "bits");
    always || courses.iter().flat_map(|(_, s, _)| s).any(|s| (measure.of)(s).is_some_and(|v| v > 0.0))
}

const fn shade(attack: Option<(f64, f64)>) -> Option<(f64, f64, &'static str)> {
    match attack {
        Some((from, to)) => Some((from, to, "flood")),
        None => None,
    }
}

fn line(name: &str, index: usize, seconds: &[Second], of: fn(&Second) -> Option<f64>) -> Line {
    Line { name: name.into(), index, values: seconds.iter().map(|s| (s.at, of(s))).collect() }
}

fn course_table(caption: String, courses: &[(&str, Vec<Second>, usize)], shown: &[&Measure]) -> Table {
    let row = |dut: &str, s: &Second| Row {
        heads: vec![
            dut.into(),
            units::significant(s.at, 4).trim_end_matches('0').trim_end_matches('.').into(),
        ],
        cells: shown.iter().map(|m| unsorted(m.unit, (m.of)(s))).collect(),
    };
    let mut notes = vec![
        "Each row ends at the second that it names. A last part shorter than half a second is left out."
            .into(),
    ];
    if courses.iter().any(|(_, parts, all)| parts.len() < *all) {
        notes.push("Rows are of several seconds: means of the rates, the median of the medians, the largest 99th percentile. results.json has every second.".into());
    }
    Table {
        caption,
        corner: vec!["Firewall".into(), "Until second".into()],
        head: shown.iter().map(|m| Head::one(m.column)).collect(),
        rows: courses.iter().flat_map(|(dut, s, _)| s.iter().map(move |s| row(dut, s))).collect(),
        notes,
        ..Table::default()
    }
}

/// The curves of the PoliWall report: connections, frames and times over the seconds; under a flood, its stretch shaded.
/// Where the lists vary, a chart a firewall with a line for each of them; else one chart with a line a firewall.
pub(super) fn poliwall(view: &View<'_>, test: &Test<'_>, ids: &mut Ids) -> Vec<Figure> {
    let courses = crate::layout::poliwall::courses(view, test);
    let lists = test.varying().iter().any(|f| is_list(f));
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for course in &courses {
        let title = panel_title(test, course, lists);
        match panels.iter_mut().find(|(t, _)| *t == title) {
            Some((_, panel)) => panel.push(course),
            None => panels.push((title, vec![course])),
        }
    }
    CURVES.iter().flat_map(|curve| curve_figures(view, curve, &panels, lists, ids)).collect()
}

/// A title and what is drawn in its charts.
type Panel<'a> = (String, Vec<&'a Course<'a>>);

/// Name, unit, value.
type Curve = (&'static str, &'static str, fn(&Second) -> Option<f64>);

const CURVES: [Curve; 3] = [
    ("TCP connection rate", "connections/s", |s| Some(s.completed)),
    ("Frame rate", "frames/s", |s| Some(s.frames)),
    ("Mean time to the SYN-ACK", "ns", |s| s.mean_ns),
];

/// What tells a panel from others: its firewall, unless firewalls are its lines, and every factor but the lists.
fn panel_title(test: &Test<'_>, course: &Course<'_>, lists: bool) -> String {
    let varying = test.varying();
    let point = course.point;
    let levels = point.levels();
    let telling =
        |k: &str| varying.iter().any(|f| f == k) && !is_list(k) && k != level::PHASE && k != "placement";
    let rest = level::phrases(levels.iter().map(|(k, v)| (k.as_str(), v)).filter(|(k, _)| telling(k)));
    let parts = [point.dut.clone(), rest];
    let named = parts.into_iter().skip(usize::from(!lists)).filter(|p| !p.is_empty());
    named.collect::<Vec<_>>().join(", ")
}

fn is_list(factor: &str) -> bool {
    matches!(factor, "lists" | "countries")
}

/// One curve of every panel, on axes that reach as far as each other's.
fn curve_figures(
    view: &View<'_>,
    &(what, unit, of): &Curve,
    panels: &[Panel<'_>],
    lists: bool,
    ids: &mut Ids,
) -> Vec<Figure> {
    let all = panels.iter().flat_map(|(_, panel)| panel).flat_map(|c| &c.seconds);
    let most = all.filter_map(of).fold(0.0, f64::max);
    let chart = |(title, panel): &Panel<'_>| {
        let lines = panel.iter().enumerate().map(|(i, c)| {
            let seconds = seconds::joined(&c.seconds, MOST_PARTS);
            // The colours of firewalls; where the lines are settings of one firewall, colours that tell these apart.
            let index = if lists { [3, 4, 1, 2, 5, 6, 7, 0][i % 8] } else { view.index(&c.point.dut) };
            line(&line_name(c, lists), index, &seconds, of)
        });
        Chart {
            title: if title.is_empty() { what.into() } else { format!("{what}: {title}") },
            what,
            unit,
            from_zero: true,
            shaded: shade(panel.iter().find_map(|c| seconds::attack(&c.seconds))),
            reach: vec![(most, most, most)],
            lines: lines.collect(),
        }
    };
    panels.iter().filter_map(|panel| chart(panel).draw(ids)).collect()
}

fn line_name(course: &Course<'_>, lists: bool) -> String {
    let levels = course.point.factors();
    if lists { level::phrases(levels.filter(|(k, _)| *k == "lists")) } else { course.point.dut.clone() }
}
