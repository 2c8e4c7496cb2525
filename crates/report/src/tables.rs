//! The tables of a report: values by setting and firewall, the ledger, processor time, invalid points. Pure.

use crate::table::{Cell, Head, Row, Table};
use crate::view::{self, Block, Setting, View};
use crate::{units, verdict};
use measure::ledger::Ledger;
use measure::level;
use measure::results::{Mark, MarkKind, Metric, Point, Reading, Sent};
use std::collections::BTreeSet;

/// Letter of a mark in tables.
pub(crate) const fn letter(kind: MarkKind) -> char {
    match kind {
        MarkKind::GeneratorLimited => 'g',
        MarkKind::Unstable => 'u',
        MarkKind::PolicyNotProved => 'p',
        MarkKind::LedgerUnbalanced => 'l',
        MarkKind::GeneratorBehind => 'b',
        MarkKind::FirewallFailed => 'f',
        MarkKind::IllegalGotThrough => 'i',
        MarkKind::NotSupported => 'c',
        MarkKind::NoLowerBound => 'o',
        MarkKind::NoUpperBound => 'm',
        MarkKind::StolenTime => 's',
        MarkKind::Baseline | MarkKind::Note => 'n',
    }
}

/// What a mark's letter means.
pub(crate) const fn meaning(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::GeneratorLimited => {
            "generator-limited: within 10 % of the figure with nothing between, so the firewall may be faster"
        }
        MarkKind::Unstable => {
            "unstable: the absolute value does not hold, because the rounds differ by more than 10 %; whether its ratio holds, the ratio's own interval tells"
        }
        MarkKind::PolicyNotProved => "invalid: the policy could not be proved",
        MarkKind::LedgerUnbalanced => "invalid: the ledger does not sum to zero",
        MarkKind::GeneratorBehind => "invalid: the generator was behind its schedule",
        MarkKind::FirewallFailed => "invalid: the firewall changed, stopped or died during a trial",
        MarkKind::IllegalGotThrough => "invalid: traffic that the policy forbids got through",
        MarkKind::NotSupported => "no value: the firewall cannot do what the test asks",
        MarkKind::NoLowerBound => "invalid: the search found no load that passes",
        MarkKind::NoUpperBound => {
            "the search reached the highest load that it may offer: the firewall may be faster"
        }
        MarkKind::StolenTime => "the hypervisor took processor time during the point",
        MarkKind::Baseline | MarkKind::Note => "a note, in the list of remarks",
    }
}

/// The letters of a point's marks.
pub(crate) fn letters(point: &Point) -> String {
    view::shown_kinds(point).collect::<BTreeSet<_>>().into_iter().map(letter).collect()
}

/// Explanations of every letter that the points' cells show.
pub(crate) fn notes<'a>(points: impl Iterator<Item = Reading<'a>>) -> Vec<String> {
    let kinds: BTreeSet<MarkKind> = points.flat_map(|p| view::shown_kinds(p.point)).collect();
    kinds.into_iter().map(|k| format!("{} = {}", letter(k), meaning(k))).collect()
}

/// The cell of a point: value, interval, ratio to the reference, marks.
pub(crate) fn value_cell(setting: &Setting<'_>, point: Option<Reading<'_>>, reference: Option<&str>) -> Cell {
    let Some(point) = point else { return Cell::none() };
    if !point.valid {
        return Cell { text: "invalid".into(), marks: letters(&point), class: "invalid", ..Cell::default() };
    }
    let text = format!("{}{}", view::bound(&point), units::value(&point.unit, point.value));
    let mut detail = units::interval(&point.unit, point.value, point.low, point.high);
    if let Some(ratio) = reference.and_then(|r| setting.ratio(&point.dut, r)) {
        let open = if ratio.holds() { "" } else { " open" };
        detail += &format!("; {}{open}", units::ratio(ratio.value));
    }
    Cell { marks: letters(&point), ..Cell::number(text, point.value).with_detail(detail) }
}

/// All values of a block: a row a setting, a column a firewall.
pub(crate) fn block(view: &View<'_>, block: &Block<'_>) -> Table {
    let mut factors: Vec<String> = block.varying().into_iter().map(|(name, _)| name).collect();
    factors.sort_by_key(|f| level::column(f));
    let duts = duts_of(view, block);
    let rows = block
        .settings
        .iter()
        .map(|setting| Row {
            heads: row_heads(setting, &factors),
            cells: duts.iter().map(|d| value_cell(setting, setting.point(d), view.reference)).collect(),
        })
        .collect();
    Table {
        caption: caption(view, block.metric),
        corner: if factors.is_empty() {
            vec!["Setting".into()]
        } else {
            factors.iter().map(|f| level::title(f)).collect()
        },
        groups: Vec::new(),
        head: duts.iter().map(|d| Head::one(*d)).collect(),
        rows,
        notes: notes(block.settings.iter().flat_map(|s| s.points.iter().copied())),
    }
}

fn caption(view: &View<'_>, metric: Metric) -> String {
    let name = metric.row().title;
    match view.reference {
        Some(reference) => {
            format!(
                "{name}: median; in small print its 95 % interval and the ratio to {reference}, paired by round"
            )
        }
        None => format!("{name}: median; in small print its 95 % interval"),
    }
}

pub(crate) fn row_heads(setting: &Setting<'_>, factors: &[String]) -> Vec<String> {
    if factors.is_empty() {
        return vec!["all".into()];
    }
    factors.iter().map(|f| view::short(setting.levels.get(f))).collect()
}

/// Firewalls that have points in a block.
pub(crate) fn duts_of<'a>(view: &View<'a>, block: &Block<'_>) -> Vec<&'a str> {
    view.duts.iter().copied().filter(|d| block.settings.iter().any(|s| s.point(d).is_some())).collect()
}

/// The summary: a row a firewall, a column a main setting.
pub(crate) fn main(view: &View<'_>, main: &[(&str, &Setting<'_>)]) -> Table {
    let rows = view
        .duts
        .iter()
        .map(|dut| Row {
            heads: vec![(*dut).into(), view::role_sentence(view.role(dut)).into()],
            cells: main.iter().map(|(_, s)| main_cell(s, dut, view.reference)).collect(),
        })
        .collect();
    let (varying, shared) = verdict::differences(main);
    let column = |(test, s): &(&str, &Setting<'_>)| match verdict::place_among(s, &varying) {
        place if place.is_empty() => Head::one(*test),
        place => Head::one(format!("{test}: {place}")),
    };
    let ratio =
        view.reference.map_or_else(String::new, |r| format!(", and the ratio to {r} with its own interval"));
    Table {
        caption: format!("The main settings ({shared}): median, its 95 % interval{ratio}"),
        corner: vec!["Firewall".into(), "What it is".into()],
        groups: Vec::new(),
        head: main.iter().map(column).collect(),
        rows,
        notes: notes(main.iter().flat_map(|(_, s)| s.points.iter().copied())),
    }
}

fn main_cell(setting: &Setting<'_>, dut: &str, reference: Option<&str>) -> Cell {
    let mut cell = value_cell(setting, setting.point(dut), None);
    if let Some(ratio) = reference.and_then(|r| setting.ratio(dut, r)) {
        cell.detail += &format!("; {}", ratio_text(&ratio));
    }
    cell
}

/// `2.05× (2.01–2.08)`, and `open` behind it where that says neither who is ahead nor that nobody is.
pub(crate) fn ratio_text(ratio: &crate::ratio::Ratio) -> String {
    let digits = |v| units::significant(v, 3);
    let open = if ratio.holds() { "" } else { " open" };
    format!("{} ({}–{}){open}", units::ratio(ratio.value), digits(ratio.low), digits(ratio.high))
}

/// Names of the ledger's places, in the order of [`ledger_parts`].
pub(crate) const LEDGER_PARTS: [&str; 10] = [
    "received",
    "dropped by the firewall",
    "ring full",
    "lost in the stack",
    "not sent",
    "corrupted",
    "not received",
    "unexplained",
    "failed",
    "under way",
];

/// The same of a ledger of connections.
pub(crate) const CONNECTION_PARTS: [&str; 10] = [
    "completed",
    "dropped by the firewall",
    "ring full",
    "lost in the stack",
    "not attempted",
    "corrupted",
    "not completed",
    "unexplained",
    "failed",
    "under way",
];

/// The names of a ledger's places, by what is counted.
pub(crate) const fn ledger_names(counted: Sent) -> &'static [&'static str; 10] {
    match counted {
        Sent::Frames | Sent::Bulk => &LEDGER_PARTS,
        Sent::Connections => &CONNECTION_PARTS,
    }
}

/// Frames, connections or bytes by place, in the order of [`LEDGER_PARTS`].
pub(crate) fn ledger_parts(ledger: &Ledger) -> [u64; 10] {
    let sum = |m: &std::collections::BTreeMap<String, u64>| m.values().sum::<u64>();
    [
        ledger.received,
        sum(&ledger.dropped_by_firewall),
        sum(&ledger.ring_full),
        sum(&ledger.lost_in_stack),
        ledger.not_sent,
        ledger.corrupted,
        ledger.not_received,
        ledger.residual().unsigned_abs(),
        sum(&ledger.failed),
        ledger.under_way,
    ]
}

/// Sum of the ledgers of a firewall in a test: of every trial that decided a value, once.
pub(crate) fn ledger_of(view: &View<'_>, test: &str, dut: &str) -> Option<Ledger> {
    let tests = view.tests.iter().filter(|t| t.name == test);
    let mut told: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut sum = None;
    for point in tests.flat_map(view::Test::points).filter(|p| p.dut == dut) {
        for trial in point.deciding().filter(|trial| told.insert((point.cell.id, trial.id))) {
            if let Some(detail) = &trial.detail {
                sum.get_or_insert_with(Ledger::default).add(&detail.ledger);
            }
        }
    }
    sum
}

/// What a test counts.
pub(crate) fn counted(view: &View<'_>, test: &str) -> Sent {
    view.tests.iter().find(|t| t.name == test).map_or(Sent::Frames, view::Test::sent)
}

/// The ledger of one test, in frames, connections or bytes: a row a firewall, a column a place, named losses in small print.
pub(crate) fn ledger(view: &View<'_>, test: &str) -> Table {
    let counted = counted(view, test);
    let ledgers: Vec<Ledger> = view.duts.iter().filter_map(|dut| ledger_of(view, test, dut)).collect();
    let shown = ledger_columns(counted, &ledgers);
    let rows = view
        .duts
        .iter()
        .filter_map(|dut| {
            let ledger = ledger_of(view, test, dut)?;
            Some(Row { heads: vec![(*dut).into()], cells: ledger_cells(&ledger, &shown) })
        })
        .collect();
    let names = ledger_names(counted);
    let caption = match counted {
        Sent::Connections => "connections of the deciding trials, by what became of them",
        Sent::Frames => "frames of the deciding trials, by where they went",
        Sent::Bulk => {
            "bytes of the deciding trials: written by the client's application, read by the server's, and under way at the end"
        }
    };
    let mut head = vec![Head::one("offered")];
    head.extend(shown.iter().map(|p| Head::one(names[*p])));
    Table {
        caption: format!("{test}: {caption}; the row sums to zero or the point is invalid"),
        corner: vec!["Firewall".into()],
        head,
        rows,
        ..Table::default()
    }
}

/// The places that a ledger's table has columns for: of frames all; of connections those that they have, and others
/// only where something is in them.
fn ledger_columns(counted: Sent, ledgers: &[Ledger]) -> Vec<usize> {
    match counted {
        Sent::Frames => return (0..8).collect(),
        Sent::Bulk => return vec![0, 9, 7],
        Sent::Connections => {}
    }
    let used = |place: &usize| ledgers.iter().any(|l| ledger_parts(l)[*place] > 0);
    [0, 8, 4].into_iter().chain([1, 2, 3, 5, 6].into_iter().filter(used)).chain([7]).collect()
}

fn ledger_cells(ledger: &Ledger, shown: &[usize]) -> Vec<Cell> {
    let number = |n: u64| Cell::number(units::count(n), n as f64);
    let named = |m: &std::collections::BTreeMap<String, u64>| {
        m.iter()
            .filter(|(_, n)| **n > 0)
            .map(|(k, n)| format!("{k} {}", units::count(*n)))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let parts = ledger_parts(ledger);
    let cell = |place: &usize| {
        let mut cell = number(parts[*place]);
        cell.detail = match place {
            1 => named(&ledger.dropped_by_firewall),
            2 => named(&ledger.ring_full),
            3 => named(&ledger.lost_in_stack),
            8 => named(&ledger.failed),
            _ => String::new(),
        };
        if *place == 7 && parts[7] > 0 {
            cell.class = "invalid";
        }
        cell
    };
    std::iter::once(number(ledger.offered)).chain(shown.iter().map(cell)).collect()
}

/// Every invalid point with its reason.
pub(crate) fn invalid(view: &View<'_>) -> Table {
    let mut rows = Vec::new();
    for test in &view.tests {
        let varying: Vec<String> = test.varying().into_iter().collect();
        for setting in test.blocks.iter().flat_map(|b| &b.settings) {
            let place = verdict::place_among(setting, &varying);
            for point in setting.points.iter().filter(|p| !p.valid) {
                rows.push(Row {
                    heads: vec![point.dut.clone()],
                    cells: vec![
                        Cell::text(test.name),
                        Cell::text(point.metric.row().title),
                        Cell::text(&place),
                        Cell { class: "invalid", ..Cell::text(view::reason(point)) },
                    ],
                });
            }
        }
    }
    Table {
        caption: "Points without a value, and why".into(),
        corner: vec!["Firewall".into()],
        head: ["Test", "Metric", "Setting", "Reason"].map(Head::one).into(),
        rows,
        ..Table::default()
    }
}

/// Remarks of points that are valid, in the run's own words; equal ones are said once, with the number of points.
/// What a firewall is does not depend on the test: that is said once a firewall.
pub(crate) fn remarks(view: &View<'_>) -> Vec<String> {
    let mut said: Vec<(String, usize)> = Vec::new();
    for test in &view.tests {
        let points = test.blocks.iter().flat_map(|b| &b.settings).flat_map(|s| &s.points).filter(|p| p.valid);
        for point in points {
            let told = |m: &&Mark| matches!(m.kind, MarkKind::Note | MarkKind::Baseline);
            for mark in point.marks.iter().filter(told) {
                let role = mark.kind == MarkKind::Baseline;
                let text = match role {
                    true => mark.text.clone(),
                    false => format!("{}, {}: {}", test.name, point.dut, mark.text),
                };
                match said.iter_mut().find(|(t, _)| *t == text) {
                    Some((_, count)) => *count += usize::from(!role),
                    None => said.push((text, 1)),
                }
            }
        }
    }
    said.into_iter()
        .map(|(text, count)| if count > 1 { format!("{text} ({count} points)") } else { text })
        .collect()
}

/// Processor time of the deciding trials, as shares of one core: a row a setting and firewall.
pub(crate) fn cpu(block: &Block<'_>) -> Table {
    let mut factors: Vec<String> = block.varying().into_iter().map(|(name, _)| name).collect();
    factors.sort_by_key(|f| level::column(f));
    let mut rows = Vec::new();
    for setting in &block.settings {
        for point in setting.points.iter().filter(|p| !p.cpu().cores.is_empty()) {
            let mut heads = vec![point.dut.clone()];
            heads.extend(row_heads(setting, &factors).into_iter().filter(|_| !factors.is_empty()));
            rows.push(Row { heads, cells: cpu_cells(point) });
        }
    }
    let mut corner = vec!["Firewall".to_string()];
    corner.extend(factors.iter().map(|f| level::title(f)));
    Table {
        caption: "Processor time of the deciding trials, mean over the cores of the bench".into(),
        corner,
        head: CPU_PARTS
            .iter()
            .copied()
            .chain(["busy cores", "the firewall's own, in cores"])
            .map(Head::one)
            .collect(),
        rows,
        ..Table::default()
    }
}

/// Parts of processor time, in the order of [`cpu_shares`].
pub(crate) const CPU_PARTS: [&str; 5] = ["interrupts", "system", "user", "stolen", "idle"];

/// Mean shares over a point's cores, in the order of [`CPU_PARTS`].
pub(crate) fn cpu_shares(point: &Reading<'_>) -> [f64; 5] {
    let cores = point.cpu().cores.len().max(1) as f64;
    let mut sums = [0.0; 5];
    for core in &point.cpu().cores {
        for (sum, share) in
            sums.iter_mut().zip([core.interrupt, core.system, core.user, core.stolen, core.idle])
        {
            *sum += share / cores;
        }
    }
    sums
}

fn cpu_cells(point: &Reading<'_>) -> Vec<Cell> {
    let mut cells: Vec<Cell> =
        cpu_shares(point).into_iter().map(|s| Cell::number(units::percent(s), s)).collect();
    let busy = crate::csv::busy_cores(&point.cpu());
    cells.push(Cell::number(units::significant(busy, 3), busy));
    cells.push(point.cpu().firewall.map_or_else(Cell::none, |f| Cell::number(units::significant(f, 3), f)));
    cells
}

/// Percentiles of latency: a row a setting and firewall.
pub(crate) fn latency(block: &Block<'_>) -> Option<Table> {
    let mut factors: Vec<String> = block.varying().into_iter().map(|(name, _)| name).collect();
    factors.sort_by_key(|f| level::column(f));
    let mut rows = Vec::new();
    for setting in &block.settings {
        // Connections have several times each, in a table of their own.
        for point in setting.points.iter().filter(|p| p.valid && !(p.sent() == Sent::Connections)) {
            let Some(l) = point.latency_ns() else { continue };
            let mut heads = vec![point.dut.clone()];
            heads.extend(row_heads(setting, &factors).into_iter().filter(|_| !factors.is_empty()));
            let time = |ns: f64| Cell::number(units::value("ns", ns), ns);
            let mut cells: Vec<Cell> = [l.min, l.mean, l.p50, l.p90, l.p99, l.p999, l.max].map(time).into();
            cells.push(Cell::number(units::count(l.count), l.count as f64));
            rows.push(Row { heads, cells });
        }
    }
    let mut corner = vec!["Firewall".to_string()];
    corner.extend(factors.iter().map(|f| level::title(f)));
    (!rows.is_empty()).then(|| Table {
        caption:
            "Latency in the deciding trials: percentiles from histograms with at most 1 % relative error"
                .into(),
        corner,
        head: ["min", "mean", "p50", "p90", "p99", "p99.9", "max", "samples"].map(Head::one).into(),
        rows,
        ..Table::default()
    })
}
