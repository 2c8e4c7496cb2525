//! What became of the connections of a test's deciding trials, and of what went on beside them: a table each for their
//! fate, their times, illegal traffic, floods, resets, replaced policies, and what the policy took. Pure.

use crate::table::{Cell, Head, Row, Table};
use crate::view::{self, Setting, Test};
use crate::{tables, units};
use measure::connections::{ConnectionOutcome, ConnectionTimes};
use measure::level;
use measure::results::{LatencySummary, Metric, Reading};
use std::collections::{BTreeMap, BTreeSet};

/// One point with the words that tell it from the others.
struct Entry<'a> {
    heads: Vec<String>,
    point: Reading<'a>,
    outcome: &'a ConnectionOutcome,
}

/// The tables of a test; none where no point has connections.
pub(crate) fn tables(test: &Test<'_>) -> Vec<Table> {
    let (corner, all) = entries(test);
    let valid: Vec<&Entry<'_>> = all.iter().filter(|e| e.point.valid).collect();
    let every: Vec<&Entry<'_>> = all.iter().collect();
    let beside = [illegal(&every), attack(&valid), resets(&valid), replacement(&valid), policy(&valid)]
        .into_iter()
        .flatten();
    let all = fate(&valid).into_iter().chain(times(&valid)).chain(beside);
    all.map(|mut table| {
        table.corner.splice(0..0, corner.iter().cloned());
        table
    })
    .collect()
}

/// Points with connections; several metrics of one trial are one entry.
fn entries<'a>(test: &Test<'a>) -> (Vec<String>, Vec<Entry<'a>>) {
    let mut kept: Vec<(&Setting<'a>, Reading<'a>, &'a ConnectionOutcome)> = Vec::new();
    for setting in test.blocks.iter().flat_map(|b| &b.settings) {
        for point in setting.points.iter().copied() {
            let Some(outcome) = point.connections() else { continue };
            let trial = |p: &Reading<'_>| (p.cell.id, p.dut.clone(), p.typical);
            if !kept.iter().any(|(_, p, _)| trial(p) == trial(&point)) {
                kept.push((setting, point, outcome));
            }
        }
    }
    let mut factors = view::differing(kept.iter().map(|(s, ..)| &s.levels));
    factors.retain(|name| name != level::PHASE);
    let metrics: BTreeSet<Metric> = kept.iter().map(|(s, ..)| s.metric).collect();
    let mut corner = tables::corner(&factors);
    corner.extend((metrics.len() > 1).then(|| "Of".to_string()));
    let entry = |(setting, point, outcome): (&Setting<'a>, Reading<'a>, &'a ConnectionOutcome)| {
        let mut heads = tables::heads(&point.dut, setting, &factors);
        heads.extend((metrics.len() > 1).then(|| setting.metric.row().title.to_string()));
        Entry { heads, point, outcome }
    };
    (corner, kept.into_iter().map(entry).collect())
}

fn table(caption: &str, head: &[&str], rows: Vec<Row>) -> Option<Table> {
    (!rows.is_empty()).then(|| Table {
        caption: caption.into(),
        head: head.iter().map(|h| Head::one(*h)).collect(),
        rows,
        ..Table::default()
    })
}

fn count(n: u64) -> Cell {
    Cell::number(units::count(n), n as f64)
}

fn some_count(n: Option<u64>) -> Cell {
    n.map_or_else(Cell::none, count)
}

fn value(unit: &str, value: Option<f64>) -> Cell {
    value.map_or_else(Cell::none, |v| Cell::number(units::value(unit, v), v))
}

/// A sum, with its parts by name in small print.
fn named(counts: &BTreeMap<String, u64>) -> Cell {
    let parts: Vec<String> = counts
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(name, n)| format!("{name} {}", units::count(*n)))
        .collect();
    count(counts.values().sum()).with_detail(parts.join("; "))
}

fn fate(entries: &[&Entry<'_>]) -> Option<Table> {
    let row = |e: &&Entry<'_>| {
        let s = e.outcome;
        let mut cells: Vec<Cell> = [s.attempted, s.established, s.completed, s.closed].map(count).into();
        cells.extend([named(&s.failed), count(s.transactions), some_count(s.verified)]);
        cells.extend([s.retransmitted, s.frames].map(count));
        Row { heads: e.heads.clone(), cells }
    };
    let head = [
        "attempted",
        "established",
        "completed",
        "closed",
        "failed",
        "answers",
        "proved open",
        "retransmitted",
        "frames",
    ];
    let mut table = table(
        "What became of the connections of one deciding trial",
        &head,
        entries.iter().map(row).collect(),
    )?;
    table.notes = vec![
        "completed = every answer arrived, complete and right; closed = ended as the suite asks".into(),
        "proved open = answered a request after all were open".into(),
        "retransmitted = segments sent again by the client: SYN, requests, FIN".into(),
    ];
    Some(table)
}

type Time = fn(&ConnectionTimes) -> Option<LatencySummary>;

/// The times with their names, in the order in which they happen.
const TIMES: [(&str, Time); 7] = [
    ("to the SYN", |t| t.syn_sent_ns),
    ("to the SYN-ACK", |t| t.established_ns),
    ("to the first byte", |t| t.first_byte_ns),
    ("to the last byte", |t| t.last_byte_ns),
    ("to the end", |t| t.closed_ns),
    ("establishment", |t| t.establishment_ns),
    ("teardown", |t| t.teardown_ns),
];

/// A table a firewall, each with the load: times at different loads are not to be compared.
fn times(entries: &[&Entry<'_>]) -> Vec<Table> {
    let mut of_dut: Vec<(&str, Vec<Row>)> = Vec::new();
    for entry in entries {
        let dut = entry.point.dut.as_str();
        let rows = times_of(entry);
        match of_dut.iter_mut().find(|(name, _)| *name == dut) {
            Some((_, known)) => known.extend(rows),
            None => of_dut.push((dut, rows)),
        }
    }
    let table = |(dut, rows): (&str, Vec<Row>)| {
        let head: Vec<&str> = std::iter::once("load").chain(tables::PERCENTILES).collect();
        let caption = format!("{dut}: times of the connections of one deciding trial; lower is better");
        table(&caption, &head, rows).map(|table| Table { corner: vec!["Time".into()], ..table })
    };
    let mut tables: Vec<Table> = of_dut.into_iter().filter_map(table).collect();
    if let Some(last) = tables.last_mut() {
        last.notes = TIMES_NOTES.map(Into::into).into();
    }
    tables
}

const TIMES_NOTES: [&str; 2] = [
    "The first five begin at the intended start, so that a connection which waited for its turn does not hide it",
    "establishment = first SYN to the acknowledgement of the SYN-ACK (RFC 3511 appendix B); teardown = first FIN or RST to the end (appendix C)",
];

fn times_of(entry: &Entry<'_>) -> Vec<Row> {
    let load = Cell::text(view::at_load(&entry.point).unwrap_or_default());
    let row = |(name, of): &(&str, Time)| {
        let times = tables::percentiles(&of(&entry.outcome.times)?);
        let heads = entry.heads.iter().cloned().chain([(*name).to_owned()]).collect();
        Some(Row { heads, cells: std::iter::once(load.clone()).chain(times).collect() })
    };
    TIMES.iter().filter_map(row).collect()
}

/// Invalid points are here too: what got through is why they are invalid, not their value.
fn illegal(entries: &[&Entry<'_>]) -> Option<Table> {
    let mut rows = Vec::new();
    for entry in entries {
        let Some(illegal) = &entry.outcome.illegal else { continue };
        for (kind, attempted) in &illegal.attempted {
            let through = illegal.got_through.get(kind).copied().unwrap_or(0);
            let mut heads = entry.heads.clone();
            heads.push(kind.clone());
            let mut cells = vec![count(*attempted), count(through)];
            if through > 0 {
                cells[1].class = "invalid";
            }
            rows.push(Row { heads, cells });
        }
    }
    let mut table = table("Illegal traffic: what the policy forbids", &["attempted", "got through"], rows)?;
    table.corner = vec!["What is wrong with it".into()];
    table.notes = vec![
        "got through = reached the server, or was answered in its name with a SYN-ACK: must be none".into(),
    ];
    Some(table)
}

fn attack(entries: &[&Entry<'_>]) -> Option<Table> {
    let row = |e: &&Entry<'_>| {
        let a = e.outcome.attack?;
        let share =
            |n: u64| if a.sent == 0 { String::new() } else { units::percent(n as f64 / a.sent as f64) };
        let cells = vec![
            count(a.offered),
            count(a.sent),
            count(a.forwarded).with_detail(share(a.forwarded)),
            count(a.answered).with_detail(share(a.answered)),
        ];
        Some(Row { heads: e.heads.clone(), cells })
    };
    let mut table = table(
        "The flood, in frames",
        &["offered", "sent", "forwarded", "answered"],
        entries.iter().filter_map(row).collect(),
    )?;
    table.notes = vec![
        "forwarded = reached the server's port; answered = answers that came back to the attackers, from the server or from the firewall in its name; in small print their share of the frames sent".into(),
    ];
    Some(table)
}

fn resets(entries: &[&Entry<'_>]) -> Option<Table> {
    let row = |e: &&Entry<'_>| {
        let r = e.outcome.resets?;
        let share = if r.open == 0 { None } else { Some(r.alive as f64 / r.open as f64) };
        let cells =
            vec![count(r.open), count(r.sent), count(r.forwarded), count(r.alive), value("ratio", share)];
        Some(Row { heads: e.heads.clone(), cells })
    };
    let mut table = table(
        "Resets against open connections",
        &["open before", "resets sent", "resets forwarded", "connections alive", "share alive"],
        entries.iter().filter_map(row).collect(),
    )?;
    table.notes = vec![
        "alive = answered a request afterwards; after legitimate resets, those whose data still reached the server".into(),
    ];
    Some(table)
}

fn replacement(entries: &[&Entry<'_>]) -> Option<Table> {
    let row = |e: &&Entry<'_>| {
        let r = e.outcome.replacement.as_ref()?;
        let held = match r.holds_after_seconds {
            Some(seconds) => value("s", Some(seconds)),
            None => Cell { text: "the old policy still held".into(), class: "text", ..Cell::default() },
        };
        let cells = vec![value("s", Some(r.command_seconds)), held, count(r.by_neither), count(r.probes)];
        Some(Row { heads: e.heads.clone(), cells })
    };
    let mut table = table(
        "A policy replaced while connections ran",
        &["its command took", "new policy holds after", "judged by neither", "probes"],
        entries.iter().filter_map(row).collect(),
    )?;
    table.notes = vec![
        "judged by neither = probes that both policies allow and that did not arrive, or that both forbid and that did".into(),
    ];
    Some(table)
}

fn policy(entries: &[&Entry<'_>]) -> Option<Table> {
    let has_entries = |p: &Reading<'_>| {
        p.policy_load_seconds().is_some() || p.memory_bytes().is_some() || p.flow_entries().is_some()
    };
    let row = |e: &&Entry<'_>| Row {
        heads: e.heads.clone(),
        cells: vec![
            value("s", e.point.policy_load_seconds()),
            value("bytes", e.point.memory_bytes().map(|b| b as f64)),
            some_count(e.point.flow_entries()),
        ],
    };
    table(
        "What policy and connections took",
        &["policy loaded in", "memory", "connection-table entries"],
        entries.iter().filter(|e| has_entries(&e.point)).map(row).collect(),
    )
}
