//! The NSTL benchmark's graphs 2 to 10 (Compaq 1997): a run with one change from a base run, and what the change makes of the
//! transactions a minute in percent, here for each firewall and there as printed.

use super::{Sheet, nstl};
use crate::ratio::{self, Ratio};
use crate::table::{Cell, Head, Row, Table};
use crate::tables;
use crate::view::{Block, Setting, Test, View};
use measure::level;
use measure::published::{self, Published};
use measure::results::{Metric, Reading};

/// The tables of a test: against the test that its suite names, or of itself alone.
pub(super) fn sheets(
    view: &View<'_>,
    test: &Test<'_>,
    against: Option<&str>,
    published: Option<&Published>,
) -> Vec<Sheet> {
    let base = against.and_then(|name| view.tests.iter().find(|t| t.name == name));
    match base {
        Some(base) => difference(view, test, base, published).into_iter().collect(),
        None => nstl::sheets(view, test, None),
    }
}

fn rates<'v, 'a>(test: &'v Test<'a>) -> Option<&'v Block<'a>> {
    test.blocks.iter().find(|b| b.metric == Metric::TransactionsPerMinute)
}

fn difference(
    view: &View<'_>,
    test: &Test<'_>,
    base: &Test<'_>,
    published: Option<&Published>,
) -> Option<Sheet> {
    let (block, of_base) = (rates(test)?, rates(base)?);
    let mut factors = vec![nstl::CLIENTS.to_owned()];
    factors.extend(block.factors().into_iter().filter(|name| name != nstl::CLIENTS));
    let duts = tables::duts_of(view, block);
    let printed = published.and_then(|p| Printed::of(p, test.name, base.name));
    let mut columns: Vec<Column> = duts.iter().map(|_| Column::default()).collect();
    let mut in_print = Column::default();
    let mut rows = Vec::new();
    for setting in &block.settings {
        let clients = setting.levels.get(nstl::CLIENTS)?;
        let same = of_base.settings.iter().find(|s| s.levels.get(nstl::CLIENTS) == Some(clients));
        let mut cells: Vec<Cell> = duts
            .iter()
            .zip(&mut columns)
            .map(|(dut, column)| column.take(change(setting, same, dut)))
            .collect();
        if let Some(printed) = &printed {
            cells.push(in_print.take(printed.change(&clients.text).map(|share| (share, String::new()))));
        }
        rows.push(Row { heads: tables::row_heads(setting, &factors), cells });
    }
    if printed.is_some() {
        columns.push(in_print);
    }
    rows.push(Row {
        heads: std::iter::once("mean".to_owned())
            .chain(factors.iter().skip(1).map(|_| String::new()))
            .collect(),
        cells: columns.iter().map(Column::mean).collect(),
    });
    let mut head: Vec<Head> = duts.iter().map(|dut| Head::one(*dut)).collect();
    head.extend(printed.as_ref().map(|p| Head::one(format!("{}, as printed: another machine", p.firewall))));
    let mut notes = tables::notes(block.settings.iter().flat_map(|s| s.points.iter().copied()));
    notes.push(
        "In small print the 95 % interval. Both tests were measured one after the other, not in turns: a machine that became \
         busier or quieter between them shows as a difference."
            .into(),
    );
    notes.extend(printed.map(|p| format!("The printed change: {}", p.change)));
    Some(Sheet {
        table: Table {
            caption: format!("Transactions a minute against those of {}, in percent", base.name),
            corner: factors.iter().map(|f| level::title(f)).collect(),
            head,
            rows,
            notes,
            ..Table::default()
        },
        printed: false,
        wide: true,
    })
}

/// By how much a firewall's rate differs from the base's, as a share of that, and the interval in words.
fn change(setting: &Setting<'_>, base: Option<&Setting<'_>>, dut: &str) -> Option<(f64, String)> {
    let (new, old): (Reading<'_>, Reading<'_>) = (setting.point(dut)?, base?.point(dut)?);
    let found: Ratio = ratio::of_runs(&new, &old)?;
    let interval = match found.interval() {
        Some((low, high)) => format!("{} to {}", percent(low - 1.0), percent(high - 1.0)),
        None => found.too_few(),
    };
    Some((found.value - 1.0, interval))
}

/// `+12 %`, `-0.4 %`, `0 %`.
fn percent(share: f64) -> String {
    let digits = usize::from(share.abs() < 0.0995);
    match format!("{:+.digits$} %", share * 100.0) {
        nothing if nothing.trim_start_matches(['+', '-']).starts_with("0.0 ") => "0 %".into(),
        text => text,
    }
}

/// The differences of one column, for their mean.
#[derive(Default)]
struct Column(Vec<f64>);

impl Column {
    fn take(&mut self, change: Option<(f64, String)>) -> Cell {
        let Some((share, interval)) = change else { return Cell::none() };
        self.0.push(share);
        Cell::number(percent(share), share).with_detail(interval)
    }

    fn mean(&self) -> Cell {
        if self.0.is_empty() {
            return Cell::none();
        }
        let mean = self.0.iter().sum::<f64>() / self.0.len() as f64;
        Cell::number(percent(mean), mean)
    }
}

/// A printed run and its base run.
struct Printed<'p> {
    firewall: &'p str,
    /// What differs between the two, in the report's words.
    change: &'p str,
    rates: Vec<&'p published::Row>,
    base: Vec<&'p published::Row>,
}

impl<'p> Printed<'p> {
    /// Tests are called as the report's runs: `run-14` and `run-14-gateway` are its run 14.
    fn of(published: &'p Published, test: &str, base: &str) -> Option<Self> {
        let of_run = |name: &str| -> Vec<&'p published::Row> {
            let Some(run) = name.strip_prefix("run-") else { return Vec::new() };
            let number = run.split('-').next();
            let is_of_run = |row: &&published::Row| {
                row.metric == nstl::RATE
                    && row.factors.get("run").is_some_and(|run| Some(run.as_str()) == number)
            };
            published.rows.iter().filter(is_of_run).collect()
        };
        let (rates, base) = (of_run(test), of_run(base));
        let first = rates.first()?;
        let change = first.factors.get("change").map_or("", String::as_str);
        let firewall = first.firewall.as_str();
        (!base.is_empty()).then_some(Self { firewall, change, rates, base })
    }

    fn change(&self, clients: &str) -> Option<f64> {
        let rate = |rows: &[&published::Row]| {
            rows.iter()
                .find(|row| row.factors.get(nstl::CLIENTS).is_some_and(|c| c == clients))
                .map(|row| row.value)
        };
        Some(rate(&self.rates)? / rate(&self.base)? - 1.0)
    }
}
