//! The Check Point article's series (bulk TCP with iperf3): connections down, and below each its sequences, which are our
//! rounds; firewalls across, the one without a firewall first. Then what RFC 6349 asks of such transfers, and the use of each core.

use super::{Sheet, printed_caption, printed_cell};
use crate::table::{Cell, Head, Row, Table};
use crate::tables;
use crate::units;
use crate::view::{Block, Setting, Test, View};
use measure::level;
use measure::published::{self, Published};
use measure::results::{Metric, Reading};
use std::collections::BTreeSet;

/// What the article varies.
const CONNECTIONS: &str = "connections";

/// The tables of a test in the article's way, as far as it has bulk transfers.
pub(super) fn sheets(view: &View<'_>, test: &Test<'_>, published: Option<&Published>) -> Vec<Sheet> {
    let Some(block) = test.blocks.iter().find(|b| b.metric == Metric::Goodput) else { return Vec::new() };
    let mut sheets: Vec<Sheet> =
        [measured(view, block), transfers(view, test, block)].into_iter().flatten().collect();
    sheets.extend(published.and_then(|p| printed(p, test.name)));
    sheets
}

fn measured(view: &View<'_>, block: &Block<'_>) -> Option<Sheet> {
    let factors = factors(block);
    let duts = tables::duts_of(view, block);
    let rows: Vec<Row> = block.settings.iter().flat_map(|s| of_setting(s, &duts, &factors)).collect();
    let mut corner: Vec<String> = factors.iter().map(|f| level::title(f)).collect();
    corner.push("Sequence".into());
    (!rows.is_empty()).then(|| Sheet {
        table: Table {
            caption: "Measured here: what the receiving applications got, each sequence and their median; in small print the \
                      segments that were sent again in all of them"
                .into(),
            corner,
            head: duts.iter().map(|dut| Head::one(*dut)).collect(),
            rows,
            notes: notes(block),
            ..Table::default()
        },
        printed: false,
        wide: false,
    })
}

/// Metrics of RFC 6349, in its order.
const OF_RFC_6349: [Metric; 3] = [Metric::TransferTimeRatio, Metric::TcpEfficiency, Metric::BufferDelay];

/// How the transfers went, firewall by firewall below each setting.
fn transfers(view: &View<'_>, test: &Test<'_>, block: &Block<'_>) -> Option<Sheet> {
    let factors = factors(block);
    let duts = tables::duts_of(view, block);
    let metrics: Vec<&Block<'_>> =
        OF_RFC_6349.iter().filter_map(|metric| test.blocks.iter().find(|b| b.metric == *metric)).collect();
    let points = || block.settings.iter().flat_map(|s| s.points.iter().filter(|point| point.valid));
    let cores: BTreeSet<u32> = points().flat_map(|p| p.cpu().cores).map(|core| core.core).collect();
    let row = |setting: &Setting<'_>, dut: &str| -> Option<Row> {
        let point = setting.point(dut)?;
        let mut heads = tables::row_heads(setting, &factors);
        heads.push(dut.to_owned());
        let figure = |block: &&Block<'_>| {
            let same = block.settings.iter().find(|s| s.levels == setting.levels);
            same.and_then(|s| s.point(dut)).map_or_else(Cell::none, |point| figure(&point))
        };
        let mut cells: Vec<Cell> = metrics.iter().map(figure).collect();
        cells.push(point.bulk().map_or_else(Cell::none, |bulk| {
            Cell::number(units::count(bulk.retransmitted), bulk.retransmitted as f64)
        }));
        let used = point.cpu().cores;
        cells.extend(cores.iter().map(|number| {
            let core = used.iter().find(|core| core.core == *number);
            core.map_or_else(Cell::none, |core| share(1.0 - core.idle))
        }));
        Some(Row { heads, cells })
    };
    let rows: Vec<Row> = block
        .settings
        .iter()
        .flat_map(|s| duts.iter().filter_map(|dut| row(s, dut)).collect::<Vec<_>>())
        .collect();
    let mut corner: Vec<String> = factors.iter().map(|f| level::title(f)).collect();
    corner.push("Firewall".into());
    let titles =
        metrics.iter().map(|b| b.metric.row().title.to_owned()).chain(["Segments sent again".to_owned()]);
    let busy = cores.iter().map(|core| format!("Core {core} busy"));
    (!rows.is_empty()).then(|| Sheet {
        table: Table {
            caption: "Measured here: the transfers by RFC 6349, medians of the sequences; segments sent again in all of them; the share of \
                      each core's time that was used"
                .into(),
            corner,
            head: titles.chain(busy).map(Head::one).collect(),
            rows,
            notes: metrics.iter().map(|b| format!("{}: {}", b.metric.row().title, b.metric.row().sentence())).collect(),
            ..Table::default()
        },
        printed: false,
        wide: true,
    })
}

fn figure(point: &Reading<'_>) -> Cell {
    if point.valid { Cell::number(units::value(&point.unit, point.value), point.value) } else { Cell::none() }
}

fn share(of_time: f64) -> Cell {
    Cell::number(units::value("ratio", of_time), of_time)
}

/// The article's factor first.
fn factors(block: &Block<'_>) -> Vec<String> {
    let others = block.factors().into_iter().filter(|name| name != CONNECTIONS);
    std::iter::once(CONNECTIONS.to_owned()).chain(others).collect()
}

/// What the marks' letters mean, and how the client's kernel decided what to send.
fn notes(block: &Block<'_>) -> Vec<String> {
    let points = || block.settings.iter().flat_map(|s| s.points.iter().copied());
    let mut notes = tables::notes(points());
    let kinds: BTreeSet<String> =
        points().filter_map(|p| p.bulk()).map(|bulk| bulk.congestion_control).collect();
    let kinds: Vec<String> = kinds.into_iter().filter(|kind| !kind.is_empty()).collect();
    if !kinds.is_empty() {
        notes.push(format!("The client's congestion control: {}", kinds.join(", ")));
    }
    notes
}

/// The sequences of a setting, and their median.
fn of_setting(setting: &Setting<'_>, duts: &[&str], factors: &[String]) -> Vec<Row> {
    let sequences = setting.points.iter().map(|p| p.rounds.len()).max().unwrap_or(0);
    let row = |what: String, cell: &dyn Fn(&Reading<'_>) -> Cell| {
        let mut heads = tables::row_heads(setting, factors);
        heads.push(what);
        let cells = duts.iter().map(|dut| setting.point(dut).map_or_else(Cell::none, |point| cell(&point)));
        Row { heads, cells: cells.collect() }
    };
    let mut rows: Vec<Row> =
        (0..sequences).map(|at| row((at + 1).to_string(), &|point| sequence(point, at))).collect();
    rows.push(row("median".into(), &|point| median(setting, point)));
    rows
}

/// A round that has no value stands as 0.
fn sequence(point: &Reading<'_>, at: usize) -> Cell {
    match point.rounds.get(at) {
        Some(value) if *value > 0.0 => Cell::number(units::value(&point.unit, *value), *value),
        _ => Cell::none(),
    }
}

fn median(setting: &Setting<'_>, point: &Reading<'_>) -> Cell {
    let cell = tables::value_cell(setting, Some(*point), None);
    match point.bulk().filter(|_| point.valid) {
        Some(bulk) => cell.with_detail(format!("{} sent again", units::count(bulk.retransmitted))),
        None => cell,
    }
}

/// The printed figures of the same test, a row for each place in the article.
fn printed(published: &Published, test: &str) -> Option<Sheet> {
    let of_test = |row: &&published::Row| row.test.as_deref() == Some(test);
    let rows: Vec<&published::Row> = published.rows.iter().filter(of_test).collect();
    let first = rows.first()?;
    let mut metrics: Vec<&str> = Vec::new();
    for row in &rows {
        if !metrics.contains(&row.metric.as_str()) {
            metrics.push(&row.metric);
        }
    }
    let firewalls = rows.chunk_by(|a, b| a.firewall == b.firewall && a.place == b.place);
    let line = |of_one: &[&published::Row]| {
        let figure = |metric: &&str| of_one.iter().find(|r| r.metric == *metric).map(|r| printed_cell(r));
        let connections = of_one[0].factors.get(CONNECTIONS).cloned().unwrap_or_default();
        let mut cells: Vec<Cell> = metrics.iter().map(|m| figure(m).unwrap_or_else(Cell::none)).collect();
        cells.push(Cell::text(&of_one[0].place));
        Row { heads: vec![connections, of_one[0].firewall.clone()], cells }
    };
    let lines: Vec<Row> = firewalls.map(line).collect();
    let seconds = first.factors.get("seconds").map(|s| format!("As printed: one sequence of {s} s each"));
    Some(Sheet {
        table: Table {
            caption: printed_caption(published, "A lab without a firewall", "sections 2 and 3"),
            corner: vec!["Connections".into(), "Firewall".into()],
            head: metrics.iter().map(|m| Head::one(*m)).chain([Head::one("where")]).collect(),
            rows: lines,
            notes: seconds.into_iter().chain(published.remarks.clone()).collect(),
            ..Table::default()
        },
        printed: true,
        wide: false,
    })
}
