//! The tables of a report: values by setting and firewall, the ledger, processor time, invalid points. Pure.

use crate::table::{Cell, Head, Row, Table};
use crate::view::{self, Block, Setting, View};
use crate::{ratio, units, verdict};
use measure::ledger::{Entries, Ledger, Named};
use measure::level;
use measure::results::{LatencySummary, Mark, MarkKind, Metric, Point, Reading, Sent};
use measure::stats::loss_limit;
use std::collections::BTreeSet;

/// The letters of a point's marks.
pub(crate) fn letters(point: &Point) -> String {
    view::shown_kinds(point).collect::<BTreeSet<_>>().into_iter().map(|kind| kind.row().letter).collect()
}

/// Explanations of every letter that the points' cells show.
pub(crate) fn notes<'a>(points: impl Iterator<Item = Reading<'a>>) -> Vec<String> {
    let kinds: BTreeSet<MarkKind> = points.flat_map(|p| view::shown_kinds(p.point)).collect();
    kinds.into_iter().map(|k| format!("{} = {}", k.row().letter, k.row().meaning)).collect()
}

/// The cell of a point: value, interval, ratio to the reference, marks.
pub(crate) fn value_cell(setting: &Setting<'_>, point: Option<Reading<'_>>, reference: Option<&str>) -> Cell {
    let Some(point) = point else { return Cell::none() };
    if !point.valid {
        return Cell { text: "invalid".into(), marks: letters(&point), class: "invalid", ..Cell::default() };
    }
    let text = format!("{}{}", view::bound(&point), units::measured(&point));
    let mut detail = interval_text(&point);
    if let Some(bits) = setting.bits(point.value) {
        detail = format!("{}; {detail}", units::value("bit/s", bits));
    }
    if let Some(limit) = unseen(&point).filter(|_| point.value == 0.0 && is_loss(point.metric)) {
        detail += &format!("; below {}", units::rare(limit));
    }
    if let Some(ratio) = reference.and_then(|r| setting.ratio(&point.dut, r)) {
        let open = if ratio.holds() { "" } else { " open" };
        detail += &format!("; {}{open}", units::ratio(ratio.value));
    }
    Cell { marks: letters(&point), ..Cell::number(text, point.value).with_detail(detail) }
}

/// The share that may have been lost where nothing was: more would have shown in 95 of 100 such trials. None where something was
/// lost, or nothing is known of the trials.
fn unseen(point: &Reading<'_>) -> Option<f64> {
    let ledger = point.ledger();
    loss_limit(0, ledger.sent()).filter(|_| point.valid && ledger.received >= ledger.sent())
}

fn is_loss(metric: Metric) -> bool {
    matches!(metric, Metric::Loss | Metric::Failures)
}

/// Under rates at which nothing may be lost: how much of it the trials could not have seen.
fn unseen_note(block: &Block<'_>) -> Option<String> {
    let points = || block.settings.iter().flat_map(|s| &s.points);
    let most = points().filter_map(unseen).reduce(f64::max)?;
    let counted = if points().next()?.sent() == Sent::Connections { "connections" } else { "frames" };
    let rate = block.metric.row().rate && block.metric != Metric::Goodput;
    rate.then(|| {
        format!(
            "Where no {counted} were lost, more than {} would have shown in 95 of 100 such trials: what is rarer, trials of this length do not see",
            units::rare(most)
        )
    })
}

/// `1.21–1.27`, or why there is none.
pub(crate) fn interval_text(point: &Point) -> String {
    point
        .interval()
        .map_or_else(|| ratio::too_few(1), |(low, high)| units::interval(&point.unit, point.value, low, high))
}

/// All values of a block: a row a setting, a column a firewall.
pub(crate) fn block(view: &View<'_>, block: &Block<'_>) -> Table {
    let factors = block.factors();
    let duts = duts_of(view, block);
    let rows = block
        .settings
        .iter()
        .map(|setting| Row {
            heads: if factors.is_empty() { vec!["all".into()] } else { row_heads(setting, &factors) },
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
        notes: notes(block.settings.iter().flat_map(|s| s.points.iter().copied()))
            .into_iter()
            .chain(unseen_note(block))
            .collect(),
    }
}

fn caption(view: &View<'_>, metric: Metric) -> String {
    let better = if metric.more_is_better() { "higher" } else { "lower" };
    let name = format!("{} ({better} is better)", metric.row().title);
    match view.reference {
        Some(reference) => {
            format!(
                "{name}: median; in small print its 95 % interval and the ratio to {reference}, paired by round"
            )
        }
        None => format!("{name}: median; in small print its 95 % interval"),
    }
}

/// Names of the columns in which rows of firewalls and settings begin.
pub(crate) fn corner(factors: &[String]) -> Vec<String> {
    std::iter::once("Firewall".to_owned()).chain(factors.iter().map(|f| level::title(f))).collect()
}

/// How a row of a firewall and a setting begins.
pub(crate) fn heads(dut: &str, setting: &Setting<'_>, factors: &[String]) -> Vec<String> {
    std::iter::once(dut.to_owned()).chain(row_heads(setting, factors)).collect()
}

/// The levels of a setting, as a table's columns have them.
pub(crate) fn row_heads(setting: &Setting<'_>, factors: &[String]) -> Vec<String> {
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

/// `2.05× (2.01–2.08)`, and `open` behind it where that says neither who is ahead nor that both are level.
pub(crate) fn ratio_text(ratio: &ratio::Ratio) -> String {
    let digits = |v| units::significant(v, 3);
    let open = if ratio.holds() { "" } else { " open" };
    let interval = ratio.interval().map_or_else(
        || format!(" ({})", ratio.too_few()),
        |(low, high)| format!(" ({}–{}){open}", digits(low), digits(high)),
    );
    format!("{}{interval}", units::ratio(ratio.value))
}

/// Names of the ledger's places, in the order of [`ledger_parts`].
pub(crate) const LEDGER_PARTS: [&str; 10] = [
    "received",
    "dropped by the firewall",
    "ring full",
    "lost in the stack",
    "not sent",
    "not as sent",
    "not received",
    "unexplained",
    "failed",
    "under way",
];

/// The same of a ledger of connections or transactions.
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
        Sent::Connections | Sent::Application => &CONNECTION_PARTS,
    }
}

/// Frames, connections or bytes by place, in the order of [`LEDGER_PARTS`].
pub(crate) fn ledger_parts(ledger: &Ledger) -> [u64; 10] {
    let entries = Entries::from(ledger);
    let sum = |m: &std::collections::BTreeMap<String, u64>| m.values().sum::<u64>();
    [
        ledger.received,
        sum(&entries.dropped_by_firewall),
        sum(&entries.ring_full),
        sum(&entries.lost_in_stack),
        ledger.not_sent,
        entries.corrupted + entries.wrong_port + sum(&entries.altered),
        entries.not_received,
        ledger.residual().unsigned_abs(),
        sum(&entries.failed),
        entries.under_way,
    ]
}

/// Sum of the ledgers of a firewall in a test: of every trial that decided a value, once.
pub(crate) fn ledger_of(view: &View<'_>, test: &str, dut: &str) -> Option<Ledger> {
    let tests = view.tests.iter().filter(|t| t.name == test);
    let mut listed: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut ledgers = Vec::new();
    for point in tests.flat_map(view::Test::points).filter(|p| p.dut == dut) {
        for trial in point.deciding().filter(|trial| listed.insert((point.cell.id, trial.id))) {
            if let Some(detail) = &trial.detail {
                ledgers.push(&detail.ledger);
            }
        }
    }
    (!ledgers.is_empty()).then(|| Ledger::sum(ledgers))
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
        Sent::Application => "transactions of the deciding trials, by what became of them",
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
        Sent::Connections | Sent::Application => {}
    }
    let used = |place: &usize| ledgers.iter().any(|l| ledger_parts(l)[*place] > 0);
    [0, 8, 4].into_iter().chain([1, 2, 3, 5, 6].into_iter().filter(used)).chain([7]).collect()
}

/// How frames arrived otherwise than they were sent.
fn not_as_sent(entries: &Entries) -> Named {
    let mut found = entries.altered.clone();
    found.insert("damaged".to_owned(), entries.corrupted);
    found.insert("wrong port".to_owned(), entries.wrong_port);
    found
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
    let (parts, entries) = (ledger_parts(ledger), Entries::from(ledger));
    let cell = |place: &usize| {
        let mut cell = number(parts[*place]);
        cell.detail = match place {
            1 => named(&entries.dropped_by_firewall),
            2 => named(&entries.ring_full),
            3 => named(&entries.lost_in_stack),
            5 => named(&not_as_sent(&entries)),
            8 => named(&entries.failed),
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
        let varying = test.varying();
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
            let is_remark =
                |m: &&Mark| matches!(m.kind, MarkKind::Note | MarkKind::NotMeasured | MarkKind::Baseline);
            for mark in point.marks.iter().filter(is_remark) {
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
    let factors = block.factors();
    let mut rows = Vec::new();
    for setting in &block.settings {
        for point in setting.points.iter().filter(|p| !p.cpu().cores.is_empty()) {
            let heads = heads(&point.dut, setting, &factors);
            rows.push(Row { heads, cells: cpu_cells(point) });
        }
    }
    Table {
        caption: "Processor time of the deciding trials, mean over the cores of the bench".into(),
        corner: corner(&factors),
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
    let (together, _) = block.parts();
    let factors = block.factors();
    let mut rows = Vec::new();
    for setting in together.settings.iter().filter(|s| s.is_timed()) {
        for point in timed(setting) {
            let cells = point.latency_ns().map(|l| percentiles(&l)).unwrap_or_default();
            rows.push(Row { heads: heads(&point.dut, setting, &factors), cells });
        }
    }
    (!rows.is_empty()).then(|| Table {
        caption:
            "Latency in the deciding trials: percentiles from histograms with at most 1 % relative error"
                .into(),
        corner: corner(&factors),
        head: PERCENTILES.map(Head::one).into(),
        rows,
        ..Table::default()
    })
}

/// Times at loads of a firewall's own, a table a firewall, because they are not to be compared with one another: of a search for
/// the highest rate, the latency there.
pub(crate) fn apart(view: &View<'_>, block: &Block<'_>) -> Vec<Table> {
    let factors = block.factors();
    let settings = || block.settings.iter().filter(|s| !s.is_timed() || s.is_apart());
    let row = |(setting, point): (&Setting<'_>, Reading<'_>)| {
        let mut cells = vec![Cell::text(view::at_load(&point).unwrap_or_default())];
        if setting.is_timed() {
            cells.push(value_cell(setting, Some(point), None));
        }
        match view::times(&point).filter(|_| setting.is_timed()).or(point.latency_ns()) {
            Some(times) => cells.extend(percentiles(&times)),
            None => cells.extend(PERCENTILES.map(|_| Cell::none())),
        }
        Row { heads: heads(&point.dut, setting, &factors), cells }
    };
    let table = |dut: &&str| {
        let of_dut = |s| timed(s).filter(|p| p.dut == *dut).map(move |p| row((s, p)));
        let rows: Vec<Row> = settings().flat_map(of_dut).collect();
        let value = settings().any(Setting::is_timed).then_some(block.metric.row().title);
        let head = std::iter::once("load").chain(value).chain(PERCENTILES).map(Head::one);
        (!rows.is_empty()).then(|| Table {
            caption: format!("{dut}: times at its own load, not comparable with those of another firewall"),
            corner: corner(&factors),
            head: head.collect(),
            rows,
            ..Table::default()
        })
    };
    view.duts.iter().filter_map(table).collect()
}

/// Valid points that have times: of connections only where the value is a time, because they have several, in a table of their
/// own.
fn timed<'s, 'a>(setting: &'s Setting<'a>) -> impl Iterator<Item = Reading<'a>> + 's {
    let has = |p: &Reading<'_>| match p.sent() {
        Sent::Connections | Sent::Application => setting.is_timed() && setting.is_apart(),
        Sent::Frames | Sent::Bulk => p.latency_ns().is_some() || setting.is_timed() && setting.is_apart(),
    };
    setting.points.iter().copied().filter(move |p| p.valid && has(p))
}

/// The columns of a distribution of times.
pub(crate) const PERCENTILES: [&str; 8] = ["min", "mean", "p50", "p90", "p99", "p99.9", "max", "samples"];

/// Its cells.
pub(crate) fn percentiles(l: &LatencySummary) -> Vec<Cell> {
    let error = units::clock_error("ns", l.clock_error);
    let time = |ns: f64| Cell::number(format!("{}{error}", units::value("ns", ns)), ns);
    let mut cells: Vec<Cell> = [l.min, l.mean, l.p50, l.p90, l.p99, l.p999, l.max].map(time).into();
    cells.push(Cell::number(units::count(l.count), l.count as f64));
    cells
}
