//! Mixes of applications: what each was, and what became of each of its parts in one deciding trial, so that no sum hides a part that a
//! firewall dropped or held up. Pure.

use crate::table::{Cell, Head, Row, Table};
use crate::view::{self, Setting, Test};
use crate::{tables, units};
use measure::mix::{MixOutcome, PART, PREFIX, PartOutcome, SharesOf};
use measure::results::{LatencySummary, Reading, Results, StatedMix};
use std::collections::BTreeSet;

/// The tables of a test; none where no cell carried a mix that its suite stated.
pub(crate) fn tables(results: &Results, test: &Test<'_>) -> Vec<Table> {
    let carried: BTreeSet<&str> =
        test.points().filter_map(|point| point.level("protocol")?.text.strip_prefix(PREFIX)).collect();
    let stated = results.mixes.iter().filter(|mix| carried.contains(mix.name.as_str()));
    stated.map(what_it_is).chain(what_became_of_it(test)).collect()
}

/// What RFC 9411 section 7.1 has reported of a mix.
fn what_it_is(mix: &StatedMix) -> Table {
    let rows = mix.parts.iter().map(|part| Row {
        heads: vec![part.name.clone()],
        cells: vec![
            Cell::text(&part.protocol),
            Cell::text(&part.object),
            count(part.transactions.into()),
            share(Some(part.share)),
        ],
    });
    let encrypted: f64 =
        mix.parts.iter().filter(|part| is_encrypted(&part.protocol)).map(|part| part.share).sum();
    let mut notes = vec![if encrypted > 0.0 {
        format!(
            "{} of the {} go over TLS 1.3, with a certificate of P-256 made for the trial",
            units::percent(encrypted),
            mix.shares.name()
        )
    } else {
        "Nothing of it is encrypted".to_owned()
    }];
    notes.extend(mix.source.iter().map(|source| format!("The shares are from: {source}")));
    Table {
        caption: format!("The mix {}: {}", mix.name, mix.title),
        corner: vec!["Part".into()],
        head: [
            "protocol".to_owned(),
            "objects, KB".to_owned(),
            "transactions a connection".to_owned(),
            format!("share of the {}", mix.shares.name()),
        ]
        .map(Head::one)
        .into(),
        rows: rows.collect(),
        notes,
        ..Table::default()
    }
}

fn is_encrypted(protocol: &str) -> bool {
    measure::application::PROTOCOLS.iter().any(|(name, of)| *name == protocol && of.is_tls())
}

/// A trial that carried a mix, with the words by which it differs from the others.
struct Entry<'a> {
    heads: Vec<String>,
    mix: &'a MixOutcome,
}

fn what_became_of_it(test: &Test<'_>) -> Option<Table> {
    let mut kept: Vec<(&Setting<'_>, Reading<'_>, &MixOutcome)> = Vec::new();
    for setting in test.blocks.iter().flat_map(|block| &block.settings) {
        for point in setting.points.iter().copied().filter(|point| point.part_name().is_none()) {
            let Some(mix) = point.mix() else { continue };
            let trial = |p: &Reading<'_>| (p.cell.id, p.dut.clone(), p.typical);
            if !kept.iter().any(|(_, other, _)| trial(other) == trial(&point)) {
                kept.push((setting, point, mix));
            }
        }
    }
    let mut factors = view::differing(kept.iter().map(|(setting, ..)| &setting.levels));
    factors.retain(|name| name != PART);
    let entries = kept
        .iter()
        .map(|(setting, point, mix)| Entry { heads: tables::heads(&point.dut, setting, &factors), mix });
    let rows: Vec<Row> = entries.flat_map(|entry| rows(&entry)).collect();
    let mut corner = tables::corner(&factors);
    corner.push("Part".into());
    (!rows.is_empty()).then(|| Table {
        caption: "What became of each part of the mix in one deciding trial".into(),
        corner,
        head: HEADS.map(Head::one).into(),
        rows,
        notes: NOTES.map(str::to_owned).into(),
        ..Table::default()
    })
}

const HEADS: [&str; 8] = [
    "share asked",
    "of transactions",
    "of bytes",
    "begun",
    "failed",
    "time",
    "to the first byte",
    "to the last byte",
];
const NOTES: [&str; 3] = [
    "share asked = of the transactions; of a mix that is stated in bytes it is reckoned from the sizes of its files. Beside it are the shares of the completed transactions and of their bytes that came out",
    "A share that is off costs the whole mix its values: what fails is over sooner, so a sum without its slow part looks better",
    "Times are medians, in small print the 99th percentile; of answers by FTP nobody takes those to the first and the last byte",
];

fn rows(entry: &Entry<'_>) -> Vec<Row> {
    let is_off = !entry.mix.off().is_empty();
    let row = |part: &PartOutcome| {
        let came = |of| share(entry.mix.came_out(part, of));
        let answers = |of: fn(&PartOutcome) -> Option<LatencySummary>| times(of(part));
        let mut failed = named(part);
        failed.class = if is_off && part.loss_ratio() > 0.0 { "invalid" } else { failed.class };
        Row {
            heads: entry.heads.iter().cloned().chain([part.name.clone()]).collect(),
            cells: vec![
                share(Some(part.expected)),
                came(SharesOf::Transactions),
                came(SharesOf::Bytes),
                count(part.begun),
                failed,
                answers(|part| part.times_ns),
                answers(|part| part.sustained.as_ref().map_or(part.first_byte_ns, |of| of.first_byte_ns)),
                answers(|part| part.sustained.as_ref().map_or(part.last_byte_ns, |of| of.last_byte_ns)),
            ],
        }
    };
    entry.mix.parts.iter().map(row).collect()
}

fn count(n: u64) -> Cell {
    Cell::number(units::count(n), n as f64)
}

fn share(share: Option<f64>) -> Cell {
    share.map_or_else(Cell::none, |share| Cell::number(units::percent(share), share))
}

/// Failures, in small print by how.
fn named(part: &PartOutcome) -> Cell {
    let ways: Vec<String> =
        part.failed.iter().map(|(name, n)| format!("{name} {}", units::count(*n))).collect();
    count(part.failed.values().sum()).with_detail(ways.join("; "))
}

fn times(times: Option<LatencySummary>) -> Cell {
    let ns = |ns| units::value("ns", ns);
    times.map_or_else(Cell::none, |t| Cell::number(ns(t.p50), t.p50).with_detail(ns(t.p99)))
}
