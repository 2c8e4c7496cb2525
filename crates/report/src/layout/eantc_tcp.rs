//! EANTC's TCP table (2001): connections and addresses down; for each firewall, without rules and with rules, three values:
//! connections established, their share, the mean time. Besides it the most parallel sessions, and resets survived.

use super::{Sheet, printed_caption, printed_value};
use crate::table::{Cell, Head, Row, Table};
use crate::tables;
use crate::units;
use crate::verdict;
use crate::view::{self, Block, Setting, Test, View};
use measure::level::Level;
use measure::published::{self, Published};
use measure::results::{Metric, Reading};
use std::collections::BTreeMap;

/// The tables of a test in EANTC's way, as far as it has their metrics.
pub(super) fn sheets(view: &View<'_>, test: &Test<'_>, published: Option<&Published>) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for block in &test.blocks {
        match block.metric {
            Metric::Established => {
                sheets.extend(rate(view, test, block));
                sheets.extend(published.and_then(printed_rate));
            }
            Metric::ConcurrentConnections => {
                sheets.extend(by_firewall(view, block, "Most parallel sessions, each proved by a request"));
                sheets.extend(published.into_iter().flat_map(printed_sessions));
            }
            Metric::Surviving => {
                sheets.extend(by_firewall(view, block, "Connections surviving resets, share of those open"));
            }
            Metric::ClosedByReset => {
                let caption = "Connections closed by the reset of their own client, share of those open";
                sheets.extend(by_firewall(view, block, caption));
            }
            _ => {}
        }
    }
    sheets
}

/// A row of the table: settings that differ in nothing but the rules.
struct Line<'a, 'b> {
    heads: Vec<String>,
    by_rules: Vec<(Level, &'b Setting<'a>)>,
}

fn rate(view: &View<'_>, test: &Test<'_>, block: &Block<'_>) -> Option<Sheet> {
    let lines = lines(block);
    let mut rules: Vec<Level> =
        lines.iter().flat_map(|l| l.by_rules.iter().map(|(r, _)| r.clone())).collect();
    rules.sort();
    rules.dedup();
    let duts = tables::duts_of(view, block);
    let cells = |line: &Line<'_, '_>| -> Vec<Cell> {
        let cell = |dut: &str, rules: &Level| {
            let setting = line.by_rules.iter().find(|(r, _)| r == rules).map(|(_, s)| *s);
            setting.and_then(|s| Some(three(test, s, &s.point(dut)?))).unwrap_or_else(Cell::none)
        };
        duts.iter().flat_map(|dut| rules.iter().map(move |r| cell(dut, r))).collect()
    };
    let rows: Vec<Row> = lines.iter().map(|l| Row { heads: l.heads.clone(), cells: cells(l) }).collect();
    let points = block.settings.iter().flat_map(|s| s.points.iter().copied());
    (!rows.is_empty()).then(|| Sheet {
        table: Table {
            caption: "Measured here: connections established; in small print their share of those attempted, and the mean time to the SYN-ACK".into(),
            corner: vec!["Connections".into(), "IP clients x connections".into()],
            groups: duts.iter().map(|d| Head::over(*d, rules.len())).collect(),
            head: duts.iter().flat_map(|_| rules.iter().map(|r| Head::one(&r.phrase))).collect(),
            rows,
            notes: tables::notes(points),
        },
        printed: false,
        wide: true,
    })
}

fn lines<'a, 'b>(block: &'b Block<'a>) -> Vec<Line<'a, 'b>> {
    let mut lines: Vec<(BTreeMap<String, Level>, Line<'a, 'b>)> = Vec::new();
    for setting in &block.settings {
        let mut key = setting.levels.clone();
        // What follows from the number of rules differs with it.
        let rules = key.remove("rules").unwrap_or_else(|| Level::read("rules", "0"));
        for follows in ["match", "stateful"] {
            key.remove(follows);
        }
        match lines.iter_mut().find(|(k, _)| *k == key) {
            Some((_, line)) => line.by_rules.push((rules, setting)),
            None => {
                let heads = heads(setting);
                lines.push((key, Line { heads, by_rules: vec![(rules, setting)] }));
            }
        }
    }
    let number = |line: &Line<'_, '_>, at: usize| {
        let digits: String = line.heads[at].chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or(0)
    };
    let mut lines: Vec<Line<'a, 'b>> = lines.into_iter().map(|(_, line)| line).collect();
    lines.sort_by_key(|l| (l.heads[0].contains("illegal"), number(l, 0), number(l, 1)));
    lines
}

/// `4096 legal connections` and `1 x 4096`, as counted by the generator.
fn heads(setting: &Setting<'_>) -> Vec<String> {
    let outcomes = || setting.points.iter().filter_map(|p| p.connections());
    let legal = outcomes().map(|s| s.attempted).max();
    let illegal =
        outcomes().filter_map(|s| s.illegal.as_ref()).map(|i| i.attempted.values().sum::<u64>()).max();
    let written = || {
        let level = ["connections", "load", "flows"].iter().find_map(|f| setting.levels.get(*f));
        level.and_then(|l| l.number).map(|n| n as u64)
    };
    let Some(legal) = legal.or_else(written) else { return vec![verdict::place(setting), "–".into()] };
    let offered = match illegal {
        Some(illegal) if illegal > 0 => format!("{legal} legal at {illegal} illegal connections"),
        _ => format!("{legal} legal connections"),
    };
    let clients = setting.levels.get("clients").and_then(|c| c.number).map_or(1, |c| c as u64).max(1);
    vec![offered, format!("{clients} x {}", legal.div_ceil(clients))]
}

/// Established, share, mean time.
fn three(test: &Test<'_>, setting: &Setting<'_>, point: &Reading<'_>) -> Cell {
    let cell = tables::value_cell(setting, Some(*point), None);
    if !point.valid {
        return cell;
    }
    let attempted = point.connections().map_or(point.ledger().offered, |s| s.attempted);
    let share = (attempted > 0).then(|| units::percent(point.value / attempted as f64));
    let time = mean_time(test, setting, point).map(|ns| units::value("ns", ns));
    let detail: Vec<String> = [share, time].into_iter().flatten().collect();
    Cell { text: format!("{:.0}", point.value), detail: detail.join(" · "), ..cell }
}

fn mean_time(test: &Test<'_>, setting: &Setting<'_>, point: &Reading<'_>) -> Option<f64> {
    let block = test.blocks.iter().find(|b| b.metric == Metric::EstablishmentTime);
    let same = block.and_then(|b| b.settings.iter().find(|s| s.levels == setting.levels));
    let measured = same.and_then(|s| s.point(&point.dut)).filter(|p| p.valid).map(|p| p.value);
    measured.or_else(|| view::times(point).map(|t| t.mean))
}

/// A row a firewall, a column a setting.
fn by_firewall(view: &View<'_>, block: &Block<'_>, caption: &str) -> Option<Sheet> {
    let varying = block.factors();
    let rows: Vec<Row> = tables::duts_of(view, block)
        .into_iter()
        .map(|dut| Row {
            heads: vec![dut.to_string()],
            cells: block.settings.iter().map(|s| counted(s, s.point(dut))).collect(),
        })
        .collect();
    let column = |s: &Setting<'_>| match verdict::place_among(s, &varying) {
        place if place.is_empty() => Head::one(block.metric.row().title.to_lowercase()),
        place => Head::one(place),
    };
    (!rows.is_empty()).then(|| Sheet {
        table: Table {
            caption: format!("Measured here: {}", lower_first(caption)),
            corner: vec!["Firewall".into()],
            head: block.settings.iter().map(column).collect(),
            rows,
            notes: tables::notes(block.settings.iter().flat_map(|s| s.points.iter().copied())),
            ..Table::default()
        },
        printed: false,
        wide: false,
    })
}

/// A value with the counts behind a share.
fn counted(setting: &Setting<'_>, point: Option<Reading<'_>>) -> Cell {
    let cell = tables::value_cell(setting, point, None);
    let resets = point.filter(|p| p.valid).and_then(|p| p.connections()?.resets);
    let Some(r) = resets else { return cell };
    let detail = format!(
        "{} of {}, after {} resets",
        units::count(r.alive),
        units::count(r.open),
        units::count(r.sent)
    );
    Cell { detail, ..cell }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
}

/// The printed table in the same arrangement.
fn printed_rate(published: &Published) -> Option<Sheet> {
    const KEYS: [&str; 2] = ["offered", "clients x connections"];
    let rows: Vec<&published::Row> = published
        .rows
        .iter()
        .filter(|r| r.factors.contains_key("with rules") && r.factors.contains_key(KEYS[1]))
        .collect();
    let first = rows.first()?;
    let distinct = |of: &dyn Fn(&published::Row) -> String| {
        let mut found: Vec<String> = Vec::new();
        for row in &rows {
            let value = of(row);
            if !found.contains(&value) {
                found.push(value);
            }
        }
        found
    };
    let firewalls = distinct(&|r| r.firewall.clone());
    let settings = distinct(&|r| format!("{}|{}", r.factors[KEYS[0]], r.factors[KEYS[1]]));
    let cell = |setting: &str, firewall: &str, rules: &str| {
        let found = |metric: &str| {
            rows.iter().find(|r| {
                r.metric == metric
                    && r.firewall == firewall
                    && r.factors["with rules"] == rules
                    && format!("{}|{}", r.factors[KEYS[0]], r.factors[KEYS[1]]) == setting
            })
        };
        let Some(count) = found("connections") else { return Cell::none() };
        let detail = ["connections-share", "connection-time"]
            .into_iter()
            .filter_map(|m| found(m).map(|r| printed_value(r)))
            .collect::<Vec<_>>();
        Cell {
            class: "printed",
            detail: detail.join(" · "),
            ..Cell::number(count.value.to_string(), count.value)
        }
    };
    let row = |setting: &String| Row {
        heads: setting.split('|').map(str::to_string).collect(),
        cells: firewalls.iter().flat_map(|f| ["no", "yes"].map(|rules| cell(setting, f, rules))).collect(),
    };
    Some(Sheet {
        table: Table {
            caption: printed_caption(published, &firewalls.join(" and "), &first.place),
            corner: vec!["Connections".into(), "IP clients x connections".into()],
            groups: firewalls.iter().map(|f| Head::over(f.clone(), 2)).collect(),
            head: firewalls.iter().flat_map(|_| ["no rules", "with rules"].map(Head::one)).collect(),
            rows: settings.iter().map(row).collect(),
            notes: vec![format!("As printed: {}", first.factors.get("rate").cloned().unwrap_or_default())],
        },
        printed: true,
        wide: true,
    })
}

/// The most parallel sessions as printed.
fn printed_sessions(published: &Published) -> Option<Sheet> {
    let rows: Vec<&published::Row> = published
        .rows
        .iter()
        .filter(|r| r.in_schema().is_some_and(|(m, _)| m == Metric::ConcurrentConnections))
        .collect();
    let first = rows.first()?;
    let row = |r: &&published::Row| {
        let conditions = r.factors.iter().filter(|(name, _)| *name == "run").map(|(_, v)| v.clone());
        Row {
            heads: vec![r.firewall.clone()],
            cells: vec![super::printed_cell(r), Cell::text(conditions.collect::<Vec<_>>().join(", "))],
        }
    };
    Some(Sheet {
        table: Table {
            caption: printed_caption(published, "Most parallel sessions", &first.place),
            corner: vec!["Firewall".into()],
            head: ["printed", "when"].map(Head::one).into(),
            rows: rows.iter().map(row).collect(),
            ..Table::default()
        },
        printed: true,
        wide: false,
    })
}
