//! Tables in the layout of the original reports, and the figures that those reports printed, in the same layout.
//! A printed figure belongs to another machine, and every table of them says so. Pure.

mod checkpoint;
mod eantc_tcp;
mod nstl;
mod nstl_runs;
pub(crate) mod poliwall;

use crate::Extras;
use crate::table::{Cell, Head, Row, Table};
use crate::units;
use crate::view::{self, Block, Setting, Test, View};
use measure::level::{self, Level};
use measure::published::{self, Published};
use measure::results::{Metric, Reading};
use measure::suite::Layout;
use std::collections::BTreeMap;

/// Factors of the rows of a layout, of its columns, and the metrics that it shows.
struct Shape {
    rows: &'static [&'static str],
    columns: &'static [&'static str],
    metrics: &'static [Metric],
}

const fn shape(layout: Layout) -> Option<Shape> {
    match layout {
        Layout::Plain
        | Layout::EantcTcp
        | Layout::Poliwall
        | Layout::Checkpoint
        | Layout::Nstl
        | Layout::NstlRuns => None,
        Layout::Eantc => Some(Shape {
            rows: &["frame"],
            columns: &["directions", "rules"],
            metrics: &[Metric::Throughput, Metric::Latency],
        }),
        Layout::Tolly => {
            Some(Shape { rows: &["flows", "frame"], columns: &["cores"], metrics: &[Metric::Throughput] })
        }
        Layout::TollyHttp => {
            Some(Shape { rows: &["match"], columns: &["cores"], metrics: &[Metric::ConnectionRate] })
        }
    }
}

/// A table of one firewall, measured or printed.
pub(crate) struct Sheet {
    /// The table.
    pub(crate) table: Table,
    /// Printed in the original report: another machine's.
    pub(crate) printed: bool,
    /// Needs the whole width of the page.
    pub(crate) wide: bool,
}

/// The tables of a test in its layout: one a metric and firewall, then the printed ones; none in the plain layout.
pub(crate) fn sheets(view: &View<'_>, test: &Test<'_>, extras: &Extras) -> Vec<Sheet> {
    let (layout, published) = (extras.layout(test.name), extras.published.as_ref());
    match layout {
        Layout::EantcTcp => return eantc_tcp::sheets(view, test, published),
        Layout::Poliwall => return poliwall::sheets(view, test, published),
        Layout::Checkpoint => return checkpoint::sheets(view, test, published),
        Layout::Nstl => return nstl::sheets(view, test, published),
        Layout::NstlRuns => return nstl_runs::sheets(view, test, extras.against(test.name), published),
        _ => {}
    }
    let Some(shape) = shape(layout) else { return Vec::new() };
    let mut sheets = Vec::new();
    for metric in shape.metrics {
        let Some(block) = test.blocks.iter().find(|b| b.metric == *metric) else { continue };
        sheets.extend(view.duts.iter().filter_map(|dut| measured(test, block, dut, layout, &shape)));
        sheets.extend(published.map_or_else(Vec::new, |p| printed_sheets(p, test.name, *metric, &shape)));
    }
    sheets
}

fn measured(test: &Test<'_>, block: &Block<'_>, dut: &str, layout: Layout, shape: &Shape) -> Option<Sheet> {
    let levels: Vec<BTreeMap<String, Level>> = block.settings.iter().map(|s| arranged(s, layout)).collect();
    let entries: Vec<(&BTreeMap<String, Level>, Cell)> = block
        .settings
        .iter()
        .zip(&levels)
        .filter_map(|(s, levels)| Some((levels, cell(test, s, &s.point(dut)?, layout))))
        .collect();
    let caption = format!("{dut}, measured here: {}", what(block.metric, layout));
    let points = block.settings.iter().filter_map(|s| s.point(dut));
    let notes = crate::tables::notes(points);
    Some(Sheet { table: Table { notes, ..grid(caption, &entries, shape)? }, printed: false, wide: false })
}

/// A setting's levels as its layout arranges them: Tolly's figure 4 knows only the position of the rule that matches,
/// which is the number of rules where the last one does.
fn arranged(setting: &Setting<'_>, layout: Layout) -> BTreeMap<String, Level> {
    let mut levels = setting.levels.clone();
    if layout == Layout::TollyHttp {
        let rules = levels.get("rules").cloned();
        let position = match levels.get("match").map(|level| level.text.as_str()) {
            Some("first") => Some("1".to_owned()),
            Some("last") | None => rules.as_ref().map(|level| level.text.clone()),
            Some(position) => Some(position.to_owned()),
        };
        if position == rules.map(|level| level.text) {
            levels.remove("rules");
        }
        levels.extend(position.map(|p| ("match".to_string(), Level::read("match", &p))));
    }
    levels
}

fn what(metric: Metric, layout: Layout) -> &'static str {
    match (layout, metric) {
        (Layout::TollyHttp, _) => "connections a second by the position of the rule that allows them",
        (Layout::Tolly, _) => "throughput in Gbit/s (with FCS), frames a second in small print",
        (Layout::Eantc, Metric::Latency) => "latency, median",
        _ => "throughput in frames a second, bits a second (with FCS) in small print",
    }
}

/// The cell of a measured point; bits a second from the goodput of the same setting, or from the frame size.
fn cell(test: &Test<'_>, setting: &Setting<'_>, point: &Reading<'_>, layout: Layout) -> Cell {
    let cell = crate::tables::value_cell(setting, Some(*point), None);
    if !point.valid || point.metric != Metric::Throughput {
        return cell;
    }
    let Some(bits) = goodput(test, setting, point) else { return cell };
    let bits = format!("{}{}", view::bound(point), units::value("bit/s", bits));
    match layout {
        Layout::Tolly => Cell { detail: cell.text, text: bits, ..cell },
        _ => Cell { detail: bits, ..cell },
    }
}

fn goodput(test: &Test<'_>, setting: &Setting<'_>, point: &Reading<'_>) -> Option<f64> {
    let block = test.blocks.iter().find(|b| b.metric == Metric::Goodput);
    let same = block.and_then(|b| b.settings.iter().find(|s| s.levels == setting.levels));
    let measured = same.and_then(|s| s.point(&point.dut)).filter(|p| p.valid).map(|p| p.value);
    measured.or_else(|| setting.bits(point.value))
}

/// The printed figures that belong beside a test's metric, a table for every firewall and place in the report.
fn printed_sheets(published: &Published, test: &str, metric: Metric, shape: &Shape) -> Vec<Sheet> {
    let belongs = |row: &&published::Row| {
        let printed = row.in_schema().map(|(m, _)| if m == Metric::Goodput { Metric::Throughput } else { m });
        // A report has one table of connection rates, whatever the suite calls its test.
        let of_test = row.test.as_deref() == Some(test) || metric == Metric::ConnectionRate;
        of_test && printed == Some(metric) && shape.rows.iter().any(|f| row.arranged().contains_key(*f))
    };
    let mut sources: Vec<(&str, &str)> = Vec::new();
    for row in published.rows.iter().filter(belongs) {
        let source = (row.firewall.as_str(), row.place.as_str());
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    let rows_of = |(firewall, place): (&str, &str)| -> Vec<&published::Row> {
        published.rows.iter().filter(belongs).filter(|r| r.firewall == firewall && r.place == place).collect()
    };
    sources.into_iter().filter_map(|source| printed_sheet(published, &rows_of(source), shape)).collect()
}

fn printed_sheet(published: &Published, rows: &[&published::Row], shape: &Shape) -> Option<Sheet> {
    let first = rows.first()?;
    let arranged: Vec<BTreeMap<String, Level>> = rows.iter().map(|r| read(&r.arranged())).collect();
    let entries: Vec<_> = arranged.iter().zip(rows.iter().map(|r| printed_cell(r))).collect();
    let caption = printed_caption(published, &first.firewall, &first.place);
    let same = |(name, level): &(&String, &String)| rows.iter().all(|r| r.factors.get(*name) == Some(level));
    let conditions: Vec<String> =
        first.factors.iter().filter(same).map(|(k, v)| format!("{}: {v}", k.replace('_', " "))).collect();
    let notes = vec![format!("As printed: {}", conditions.join(", "))];
    Some(Sheet { table: Table { notes, ..grid(caption, &entries, shape)? }, printed: true, wide: false })
}

/// Printed conditions, as far as they are those of factors, as levels.
fn read(printed: &BTreeMap<String, String>) -> BTreeMap<String, Level> {
    printed.iter().map(|(factor, text)| (factor.clone(), Level::read(factor, text))).collect()
}

/// Whose figures a printed table holds.
fn printed_caption(published: &Published, firewall: &str, place: &str) -> String {
    let source = source(published);
    format!(
        "{firewall}, printed in {source} ({place}): another machine, not comparable with what was measured here"
    )
}

/// Publisher and year.
pub(crate) fn source(published: &Published) -> String {
    published.year.map_or_else(
        || published.publisher.clone(),
        |year| match &published.publisher {
            // Some publishers' lines carry a date of their own.
            publisher if publisher.contains(&year.to_string()) => publisher.clone(),
            publisher => format!("{publisher} {year}"),
        },
    )
}

fn printed_cell(row: &published::Row) -> Cell {
    Cell { class: "printed", ..Cell::number(printed_value(row), row.value) }
}

/// The figure as printed, its qualifier included.
pub(crate) fn printed_value(row: &published::Row) -> String {
    let qualifier = row.qualifier.as_deref().map_or_else(String::new, |q| format!("{q} "));
    format!("{qualifier}{} {}", row.value, row.unit)
}

/// Every figure of the report, whether or not something here was measured beside it.
pub(crate) fn all_printed(published: &Published) -> Table {
    let row = |r: &published::Row| {
        let factors: Vec<String> =
            r.factors.iter().map(|(k, v)| format!("{}: {v}", k.replace('_', " "))).collect();
        Row {
            heads: vec![r.firewall.clone()],
            cells: vec![
                Cell::text(r.metric.replace('-', " ")),
                printed_cell(r),
                Cell::text(factors.join(", ")),
                Cell::text(&r.place),
            ],
        }
    };
    Table {
        caption: format!(
            "Every figure printed in {} ({}), measured with {}",
            published.title,
            source(published),
            published.equipment
        ),
        corner: vec!["Firewall".into()],
        head: ["metric", "printed", "under", "where"].map(Head::one).into(),
        rows: published.rows.iter().map(row).collect(),
        notes: published.remarks.clone(),
        ..Table::default()
    }
}

/// Arranges cells by the layout's row and column factors. A factor that no cell has is left out; cells that meet in
/// one place, because they differ in a factor beyond the layout, stand side by side with that factor as a column.
fn grid(caption: String, entries: &[(&BTreeMap<String, Level>, Cell)], shape: &Shape) -> Option<Table> {
    let present = |f: &&&str| entries.iter().any(|(levels, _)| levels.contains_key(**f));
    let row_factors: Vec<&str> = shape.rows.iter().filter(present).copied().collect();
    let mut column_factors: Vec<&str> = shape.columns.iter().filter(present).copied().collect();
    column_factors.extend(beyond(entries, shape));
    let rows = distinct(entries, &row_factors);
    let columns = distinct(entries, &column_factors);
    let find = |row: &[Level], column: &[Level]| {
        entries.iter().find(|(l, _)| key(l, &row_factors) == row && key(l, &column_factors) == column)
    };
    let body = rows.iter().map(|row| Row {
        heads: row.iter().map(|level| level.short().to_owned()).collect(),
        cells: columns
            .iter()
            .map(|c| find(row, c).map_or_else(Cell::none, |(_, cell)| cell.clone()))
            .collect(),
    });
    let (groups, head) = headings(&columns, &column_factors);
    (!rows.is_empty()).then(|| Table {
        caption,
        corner: row_factors
            .iter()
            .map(|f| match *f {
                "frame" => "Frame size".into(),
                "match" => "Position of the matching rule".into(),
                other => level::title(other),
            })
            .collect(),
        groups,
        head,
        rows: body.collect(),
        notes: Vec::new(),
    })
}

/// Factors that vary among the cells and that the layout does not name.
fn beyond<'a>(entries: &[(&'a BTreeMap<String, Level>, Cell)], shape: &Shape) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (levels, _) in entries {
        for (name, level) in *levels {
            let named = shape.rows.contains(&name.as_str()) || shape.columns.contains(&name.as_str());
            let varies = entries.iter().any(|(l, _)| l.get(name) != Some(level));
            if !named && varies && !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    names
}

fn key(levels: &BTreeMap<String, Level>, factors: &[&str]) -> Vec<Level> {
    factors.iter().map(|f| levels.get(*f).cloned().unwrap_or_else(|| Level::read(f, "–"))).collect()
}

fn distinct(entries: &[(&BTreeMap<String, Level>, Cell)], factors: &[&str]) -> Vec<Vec<Level>> {
    let mut keys: Vec<Vec<Level>> = Vec::new();
    for (levels, _) in entries {
        let key = key(levels, factors);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort();
    keys
}

/// Headings of the columns: the first factor as groups when there are several.
fn headings(columns: &[Vec<Level>], factors: &[&str]) -> (Vec<Head>, Vec<Head>) {
    let phrases = |column: &Vec<Level>, from: usize| {
        let words = column.iter().skip(from).map(|level| level.phrase.as_str());
        let text = words.collect::<Vec<_>>().join(", ");
        Head::one(if text.is_empty() { "value".into() } else { text })
    };
    if factors.len() < 2 {
        return (Vec::new(), columns.iter().map(|c| phrases(c, 0)).collect());
    }
    let mut groups: Vec<Head> = Vec::new();
    for column in columns {
        let text = column[0].phrase.clone();
        match groups.last_mut() {
            Some(last) if last.text == text => last.span += 1,
            _ => groups.push(Head::over(text, 1)),
        }
    }
    (groups, columns.iter().map(|c| phrases(c, 1)).collect())
}
