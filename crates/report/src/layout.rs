//! Tables in the layout of the original reports, and the figures that those reports printed, in the same layout.
//! A printed figure belongs to another machine, and every table of them says so. Pure.

use crate::level::{self, Level};
use crate::table::{Cell, Head, Row, Table};
use crate::units;
use crate::view::{self, Block, Setting, Test, View};
use measure::results::{Metric, Point};
use std::collections::BTreeMap;

/// A figure printed in an original report.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    /// Title of the report.
    pub report: String,
    /// Firewall as the report names it.
    pub firewall: String,
    /// Where in the report: `Figure 3`, `table of results, p. 2`.
    pub place: String,
    /// Factors, as suites write them.
    pub factors: BTreeMap<String, String>,
    /// What was measured.
    pub metric: Metric,
    /// The value.
    pub value: f64,
    /// Its unit, as in the schema: `bit/s`, `frames/s`, `ns`.
    pub unit: String,
}

/// Whose layout the tables of a suite take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// EANTC 2001: rows by frame size, columns by direction and rules.
    Eantc,
    /// Tolly 2007: rows by sessions and packet size, columns by cores.
    Tolly,
}

impl Layout {
    /// The layout that a suite names with `layout = "eantc"` or `"tolly"`; none for any other name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "eantc" => Some(Layout::Eantc),
            "tolly" => Some(Layout::Tolly),
            _ => None,
        }
    }

    const fn rows(self) -> &'static [&'static str] {
        match self {
            Layout::Eantc => &["frame"],
            Layout::Tolly => &["flows", "frame"],
        }
    }

    const fn columns(self) -> &'static [&'static str] {
        match self {
            Layout::Eantc => &["directions", "rules"],
            Layout::Tolly => &["cores"],
        }
    }

    const fn metrics(self) -> &'static [Metric] {
        match self {
            Layout::Eantc => &[Metric::Throughput, Metric::Latency],
            Layout::Tolly => &[Metric::Throughput],
        }
    }
}

/// A table of one firewall, measured or printed.
pub(crate) struct Sheet {
    /// The table.
    pub(crate) table: Table,
    /// Printed in the original report: another machine's.
    pub(crate) printed: bool,
}

/// The tables of a test in a layout: one a metric and firewall, then the printed ones.
pub(crate) fn sheets(view: &View<'_>, test: &Test<'_>, layout: Layout, printed: &[Printed]) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for metric in layout.metrics() {
        let Some(block) = test.blocks.iter().find(|b| b.metric == *metric) else { continue };
        sheets.extend(view.duts.iter().filter_map(|dut| measured(test, block, dut, layout)));
        sheets.extend(printed_sheets(printed, *metric, layout));
    }
    sheets
}

fn measured(test: &Test<'_>, block: &Block<'_>, dut: &str, layout: Layout) -> Option<Sheet> {
    let entries: Vec<(&BTreeMap<String, String>, Cell)> = block
        .settings
        .iter()
        .filter_map(|s| Some((&s.levels, cell(test, s, s.point(dut)?, layout))))
        .collect();
    let caption = format!("{dut}, measured: {}", what(block.metric, layout));
    let points = block.settings.iter().filter_map(|s| s.point(dut));
    let notes = crate::tables::notes(points);
    Some(Sheet { table: Table { notes, ..grid(caption, &entries, layout)? }, printed: false })
}

fn what(metric: Metric, layout: Layout) -> &'static str {
    match (layout, metric) {
        (Layout::Tolly, _) => "throughput in Gbit/s (with FCS), frames a second in small print",
        (Layout::Eantc, Metric::Latency) => "latency, median",
        (Layout::Eantc, _) => "throughput in frames a second, bits a second (with FCS) in small print",
    }
}

/// The cell of a measured point; bits a second from the goodput of the same setting, or from the frame size.
fn cell(test: &Test<'_>, setting: &Setting<'_>, point: &Point, layout: Layout) -> Cell {
    let cell = crate::tables::value_cell(setting, Some(point), None);
    if !point.valid || point.metric != Metric::Throughput {
        return cell;
    }
    let Some(bits) = goodput(test, setting, point) else { return cell };
    let at_least = if view::is_lower_bound(point) { "≥ " } else { "" };
    let bits = format!("{at_least}{}", units::value("bit/s", bits));
    match layout {
        Layout::Tolly => Cell { detail: cell.text, text: bits, ..cell },
        Layout::Eantc => Cell { detail: bits, ..cell },
    }
}

fn goodput(test: &Test<'_>, setting: &Setting<'_>, point: &Point) -> Option<f64> {
    let block = test.blocks.iter().find(|b| b.metric == Metric::Goodput);
    let same = block.and_then(|b| b.settings.iter().find(|s| s.levels == setting.levels));
    let measured = same.and_then(|s| s.point(&point.dut)).filter(|p| p.valid).map(|p| p.value);
    measured.or_else(|| setting.frame_bytes().map(|bytes| point.value * bytes * 8.0))
}

/// The printed figures of a metric, a table for every firewall that was in a report.
fn printed_sheets(printed: &[Printed], metric: Metric, layout: Layout) -> Vec<Sheet> {
    let matches = |p: &&Printed| {
        let same = p.metric == metric || (metric == Metric::Throughput && p.metric == Metric::Goodput);
        same && layout.rows().iter().all(|f| p.factors.contains_key(*f))
    };
    let mut sources: Vec<(&str, &str, &str)> = Vec::new();
    for p in printed.iter().filter(matches) {
        let source = (p.report.as_str(), p.firewall.as_str(), p.place.as_str());
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    sources
        .into_iter()
        .filter_map(|(report, firewall, place)| {
            let of_source = printed.iter().filter(matches);
            let of_source = of_source.filter(|p| p.report == report && p.firewall == firewall && p.place == place);
            let entries: Vec<_> = of_source.map(|p| (&p.factors, printed_cell(p))).collect();
            let caption = format!("{firewall}, printed in {report} ({place}): another machine, not comparable with the figures measured here");
            Some(Sheet { table: grid(caption, &entries, layout)?, printed: true })
        })
        .collect()
}

fn printed_cell(printed: &Printed) -> Cell {
    Cell { class: "printed", ..Cell::number(units::value(&printed.unit, printed.value), printed.value) }
}

/// Arranges cells by the layout's row and column factors. A factor that no cell has is left out; cells that meet in
/// one place, because they differ in a factor beyond the layout, stand side by side with that factor as a column.
fn grid(caption: String, entries: &[(&BTreeMap<String, String>, Cell)], layout: Layout) -> Option<Table> {
    let present = |f: &&&str| entries.iter().any(|(levels, _)| levels.contains_key(**f));
    let row_factors: Vec<&str> = layout.rows().iter().filter(present).copied().collect();
    let mut column_factors: Vec<&str> = layout.columns().iter().filter(present).copied().collect();
    column_factors.extend(beyond(entries, layout));
    let rows = distinct(entries, &row_factors);
    let columns = distinct(entries, &column_factors);
    let find = |row: &[String], column: &[String]| {
        entries.iter().find(|(l, _)| key(l, &row_factors) == row && key(l, &column_factors) == column)
    };
    let body = rows.iter().map(|row| Row {
        heads: row.iter().zip(&row_factors).map(|(l, f)| level::short(f, l)).collect(),
        cells: columns
            .iter()
            .map(|c| find(row, c).map_or_else(Cell::none, |(_, cell)| cell.clone()))
            .collect(),
    });
    let (groups, head) = headings(&columns, &column_factors);
    (!rows.is_empty()).then(|| Table {
        caption,
        corner: row_factors.iter().map(|f| level::name(f)).collect(),
        groups,
        head,
        rows: body.collect(),
        notes: Vec::new(),
    })
}

/// Factors that vary among the cells and that the layout does not name.
fn beyond<'a>(entries: &[(&'a BTreeMap<String, String>, Cell)], layout: Layout) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (levels, _) in entries {
        for (name, level) in *levels {
            let named = layout.rows().contains(&name.as_str()) || layout.columns().contains(&name.as_str());
            let varies = entries.iter().any(|(l, _)| l.get(name) != Some(level));
            if !named && varies && !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    names
}

fn key(levels: &BTreeMap<String, String>, factors: &[&str]) -> Vec<String> {
    factors.iter().map(|f| levels.get(*f).cloned().unwrap_or_else(|| "–".into())).collect()
}

fn distinct(entries: &[(&BTreeMap<String, String>, Cell)], factors: &[&str]) -> Vec<Vec<String>> {
    let mut keys: Vec<Vec<String>> = Vec::new();
    for (levels, _) in entries {
        let key = key(levels, factors);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort_by_key(|k| k.iter().map(|l| Level::of(l)).collect::<Vec<_>>());
    keys
}

/// Headings of the columns: the first factor as groups when there are several.
fn headings(columns: &[Vec<String>], factors: &[&str]) -> (Vec<Head>, Vec<Head>) {
    let phrases = |column: &Vec<String>, from: usize| {
        let words = column.iter().zip(factors).skip(from).map(|(l, f)| level::phrase(f, l));
        let text = words.collect::<Vec<_>>().join(", ");
        Head::one(if text.is_empty() { "value".into() } else { text })
    };
    if factors.len() < 2 {
        return (Vec::new(), columns.iter().map(|c| phrases(c, 0)).collect());
    }
    let mut groups: Vec<Head> = Vec::new();
    for column in columns {
        let text = level::phrase(factors[0], &column[0]);
        match groups.last_mut() {
            Some(last) if last.text == text => last.span += 1,
            _ => groups.push(Head::over(text, 1)),
        }
    }
    (groups, columns.iter().map(|c| phrases(c, 1)).collect())
}
