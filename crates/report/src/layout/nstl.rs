//! The NSTL benchmark's appendix B (Compaq 1997): virtual clients down, transactions a minute and the share that failed across,
//! here for each firewall and there for each run of one.

use super::{Sheet, printed_caption, printed_cell};
use crate::table::{Cell, Head, Row, Table};
use crate::tables;
use crate::units;
use crate::view::{Block, Setting, Test, View};
use measure::level;
use measure::published::{self, Published};
use measure::results::{Metric, Reading};

/// What the report varies.
pub(super) const CLIENTS: &str = "clients";
/// The printed metrics.
pub(super) const RATE: &str = "transaction-rate";
const FAILURES: &str = "failures";

/// The tables of a test in the report's way, as far as it has transactions.
pub(super) fn sheets(view: &View<'_>, test: &Test<'_>, published: Option<&Published>) -> Vec<Sheet> {
    let Some(block) = test.blocks.iter().find(|b| b.metric == Metric::TransactionsPerMinute) else {
        return Vec::new();
    };
    let mut sheets: Vec<Sheet> = measured(view, test, block).into_iter().collect();
    sheets.extend(published.and_then(|p| printed(p, test.name)));
    sheets
}

fn measured(view: &View<'_>, test: &Test<'_>, block: &Block<'_>) -> Option<Sheet> {
    let mut factors = vec![CLIENTS.to_string()];
    factors.extend(block.factors().into_iter().filter(|name| name != CLIENTS));
    let duts = tables::duts_of(view, block);
    let row = |setting: &Setting<'_>| Row {
        heads: tables::row_heads(setting, &factors),
        cells: duts
            .iter()
            .map(|dut| setting.point(dut).map_or_else(Cell::none, |point| cell(test, setting, &point)))
            .collect(),
    };
    let rows: Vec<Row> = block.settings.iter().map(row).collect();
    (!rows.is_empty()).then(|| Sheet {
        table: Table {
            caption:
                "Measured here: transactions a minute; in small print the share of transactions that failed"
                    .into(),
            corner: factors.iter().map(|f| level::title(f)).collect(),
            head: duts.iter().map(|dut| Head::one(*dut)).collect(),
            rows,
            notes: tables::notes(block.settings.iter().flat_map(|s| s.points.iter().copied())),
            ..Table::default()
        },
        printed: false,
        wide: true,
    })
}

fn cell(test: &Test<'_>, setting: &Setting<'_>, point: &Reading<'_>) -> Cell {
    let cell = tables::value_cell(setting, Some(*point), None);
    let block = test.blocks.iter().find(|b| b.metric == Metric::FailedTransactions);
    let same = block.and_then(|b| b.settings.iter().find(|s| s.levels == setting.levels));
    match same.and_then(|s| s.point(&point.dut)).filter(|p| p.valid && point.valid) {
        Some(failed) => cell.with_detail(format!("{} failed", units::percent(failed.value))),
        None => cell,
    }
}

/// The printed runs of the same test, side by side.
fn printed(published: &Published, test: &str) -> Option<Sheet> {
    let of_test = |row: &&published::Row| row.test.as_deref() == Some(test);
    let rows: Vec<&published::Row> = published.rows.iter().filter(of_test).collect();
    let first = rows.first()?;
    let distinct = |of: fn(&published::Row) -> Option<&String>| {
        let mut found: Vec<&String> = Vec::new();
        for text in rows.iter().filter_map(|row| of(row)) {
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    };
    let traffic = first.factors.get("traffic").map_or("", String::as_str);
    let changes = distinct(|row| row.factors.get("change"));
    let figure = |clients: &str, change: &str, metric: &str| {
        rows.iter().find(|row| {
            let is = |factor: &str, level: &str| row.factors.get(factor).is_some_and(|l| l == level);
            row.metric == metric && is(CLIENTS, clients) && is("change", change)
        })
    };
    let cell = |clients: &str, change: &str| {
        let Some(rate) = figure(clients, change, RATE) else { return Cell::none() };
        let failed = figure(clients, change, FAILURES).map(|row| format!("{} % failed", row.value));
        Cell { detail: failed.unwrap_or_default(), ..printed_cell(rate) }
    };
    let line = |clients: &String| Row {
        heads: vec![clients.clone()],
        cells: changes.iter().map(|change| cell(clients, change)).collect(),
    };
    let lines: Vec<Row> = distinct(|row| row.factors.get(CLIENTS)).into_iter().map(line).collect();
    Some(Sheet {
        table: Table {
            caption: printed_caption(published, &first.firewall, &format!("appendix B, {traffic}")),
            corner: vec![level::title(CLIENTS)],
            head: changes.iter().map(|change| Head::one(change.as_str())).collect(),
            rows: lines,
            notes: vec!["As printed: each client made 100 requests through an application gateway".into()],
            ..Table::default()
        },
        printed: true,
        wide: true,
    })
}
