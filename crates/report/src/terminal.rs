//! The table at the end of a run: per test and metric, firewalls as rows, settings as columns. Knows no terminal:
//! the caller says how wide it is and whether it takes colour.

use crate::view::{self, Block, Setting, View};
use crate::{differ, questions, ratio, table, tables, units, verdict};
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table, presets};
use measure::level::{self, Level};
use measure::results::{MarkKind, Point, Results, Role, Sent};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// How to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Colour for the reference and for invalid points; only ever beside words that say the same.
    pub colour: bool,
    /// Columns of the terminal; tables with more settings than fit are continued below.
    pub width: u16,
    /// Firewall that others are compared with; nftables, where measured, when none is named.
    pub reference: Option<String>,
    /// What the suite asks.
    pub questions: Vec<questions::Question>,
}

impl Default for Options {
    fn default() -> Self {
        Self { colour: false, width: 100, reference: None, questions: Vec::new() }
    }
}

/// Columns that one setting takes at most: `≥ 8.52 Mpps` and `12.3× (12.1–12.5)`.
const COLUMN: usize = 22;

/// All of a run: its tables with their footnotes, and the answers.
pub fn table(results: &Results, options: &Options) -> String {
    let view = View::new(results, options.reference.as_deref());
    tables_of(results, &view, options) + &ending_of(results, &view, options)
}

/// All tables of a run, each with its footnotes, ending in a line feed.
pub fn tables(results: &Results, options: &Options) -> String {
    tables_of(results, &View::new(results, options.reference.as_deref()), options)
}

fn tables_of(results: &Results, view: &View<'_>, options: &Options) -> String {
    let mut out = String::new();
    if !results.complete {
        out += "This run did not finish: what follows was measured before it ended.\n\n";
    }
    for test in &view.tests {
        for block in test.blocks.iter().filter(|b| !verdict::restates(test, b)) {
            block_tables(&mut out, view, test.name, block, options);
        }
    }
    footnotes(&mut out, results);
    out
}

/// What stands last, where somebody looks when the run ends: the suite's questions with their answers, a sentence for each
/// firewall, and whether ratios and absolute rates may be used.
pub fn ending(results: &Results, options: &Options) -> String {
    ending_of(results, &View::new(results, options.reference.as_deref()), options)
}

fn ending_of(results: &Results, view: &View<'_>, options: &Options) -> String {
    let mut out = String::new();
    for answer in questions::answers(&options.questions, view) {
        let _ = write!(out, "\n{}\n  {}\n", answer.ask, answer.sentence);
    }
    let said = verdict::summary(results, view);
    let _ = writeln!(out, "\n{}", said.headline);
    if !said.setting.is_empty() {
        let _ = writeln!(out, "  {}", said.setting);
    }
    for sentence in &said.firewalls {
        let _ = writeln!(out, "  {sentence}");
    }
    let verdicts = verdict::ratios(view).into_iter().chain([verdict::rates(results)]);
    let lines: Vec<String> = verdicts.map(|l| format!("{}: {}.", l.what, l.verdict())).collect();
    let _ = writeln!(out, "{}\n", lines.join(" "));
    out
}

/// A point in one line: `rampart: throughput 2.55 Mpps (2.51–2.58)`.
pub fn point(point: &Point) -> String {
    let title = point.metric.row().title.to_lowercase();
    let levels: Vec<&str> = point.at.values().map(|level| level.phrase.as_str()).collect();
    let at = if levels.is_empty() { String::new() } else { format!(" ({})", levels.join(", ")) };
    let found = match point.valid {
        true => {
            let interval = units::interval(&point.unit, point.value, point.low, point.high);
            format!("{} ({interval})", value(point))
        }
        false => format!("no value: {}", view::reason(point)),
    };
    format!("{}: {title}{at} {found}", point.dut)
}

/// A table of the crate's own kind for a terminal, with its caption and notes.
pub(crate) fn plain(source: &table::Table, options: &Options) -> String {
    let mut table = empty(options);
    table.set_header(source.corner.iter().cloned().chain(source.head.iter().map(|h| h.text.clone())));
    for row in &source.rows {
        let cells = row.cells.iter().map(|c| {
            let marks = if c.marks.is_empty() { String::new() } else { format!(" [{}]", c.marks) };
            let right = matches!(c.class, "num" | "invalid" | "none");
            let cell = Cell::new(format!("{}{marks}", c.text));
            let cell = cell.set_alignment(if right { CellAlignment::Right } else { CellAlignment::Left });
            paint(cell, c.class == "invalid", Color::Red, options)
        });
        table.add_row(row.heads.iter().map(Cell::new).chain(cells));
    }
    format!("{}\n{table}\n", source.caption)
}

/// A table with lines only around its head.
fn empty(options: &Options) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')))
        .set_content_arrangement(ContentArrangement::Disabled);
    if options.colour {
        // The caller knows whether somebody sees this; the library would look at this process' own output.
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

fn block_tables(out: &mut String, view: &View<'_>, test: &str, block: &Block<'_>, options: &Options) {
    let constant = block.constant();
    let shared = constant.iter().map(|(k, v)| (k.as_str(), v));
    let telling = level::phrases(shared.filter(|(k, _)| level::rank(k) != level::LATE));
    let better = if block.metric.more_is_better() { "" } else { "; lower is better" };
    let load = block.load().map_or_else(String::new, |load| format!("; measured {load}"));
    let _ = writeln!(out, "{test}: {} ({telling}{load}{better})", block.metric.row().title.to_lowercase());
    let (together, apart) = block.parts();
    if let Some(same) = differ::same(&together) {
        let _ = writeln!(out, "  {same}\n");
        return;
    }
    let longest = |name: String| name.lines().map(str::len).max().unwrap_or(0);
    let names = tables::duts_of(view, block).into_iter().map(|d| longest(name(view, d))).max().unwrap_or(0);
    let room = usize::from(options.width).saturating_sub(names + 4) / (COLUMN + 3);
    for part in together.settings.chunks(room.max(1)) {
        let _ = writeln!(out, "{}\n", part_table(view, block, part, options));
    }
    times_apart(out, block, &apart);
}

/// Times at loads of the firewalls' own, a line each: no table puts them side by side.
fn times_apart(out: &mut String, block: &Block<'_>, apart: &Block<'_>) {
    if apart.settings.is_empty() {
        return;
    }
    let factors = block.factors();
    out.push_str("  each firewall at its own load, not comparable with one another:\n");
    for setting in &apart.settings {
        for point in setting.points.iter().filter(|p| p.valid) {
            let place = verdict::place_among(setting, &factors);
            let place = if place.is_empty() { place } else { format!(", {place}") };
            let load = view::at_load(point).unwrap_or_default();
            let _ = writeln!(out, "  {}{place}: {} {load}", point.dut, value(point));
        }
    }
    out.push('\n');
}

fn part_table(view: &View<'_>, block: &Block<'_>, part: &[Setting<'_>], options: &Options) -> Table {
    let varying: Vec<String> = block.varying().into_iter().map(|(name, _)| name).collect();
    let mut table = empty(options);
    let mut head = vec![Cell::new("firewall")];
    head.extend(part.iter().map(|s| Cell::new(heading(s, &varying)).set_alignment(CellAlignment::Right)));
    table.set_header(head);
    for dut in tables::duts_of(view, block) {
        let mut row =
            vec![paint(Cell::new(name(view, dut)), view.reference == Some(dut), Color::Cyan, options)];
        row.extend(part.iter().map(|s| cell(view, s, dut, options)));
        table.add_row(row);
    }
    table
}

/// A firewall's name; below it, that it stands here without the policy.
fn name(view: &View<'_>, dut: &str) -> String {
    match view.role(dut) {
        Role::Forwarder => format!("{dut}\nno policy"),
        _ => dut.into(),
    }
}

/// The levels that tell a column from the others, a line each.
fn heading(setting: &Setting<'_>, varying: &[String]) -> String {
    let mut levels: Vec<(&String, &Level)> =
        setting.levels.iter().filter(|(k, _)| varying.contains(k)).collect();
    levels.sort_by_key(|(name, _)| level::rank(name));
    let lines: Vec<&str> = levels.iter().map(|(_, level)| level.phrase.as_str()).collect();
    if lines.is_empty() { setting.metric.row().title.to_lowercase() } else { lines.join("\n") }
}

fn cell(view: &View<'_>, setting: &Setting<'_>, dut: &str, options: &Options) -> Cell {
    let Some(point) = setting.point(dut) else {
        return Cell::new("–").set_alignment(CellAlignment::Right);
    };
    let marks = tables::letters(&point);
    let marks = if marks.is_empty() { String::new() } else { format!(" [{marks}]") };
    if !point.valid {
        let cell = Cell::new(format!("invalid{marks}")).set_alignment(CellAlignment::Right);
        return paint(cell, true, Color::Red, options);
    }
    let bits = setting.bits(point.value).map_or_else(String::new, |bits| units::value("bit/s", bits) + "\n");
    let text = format!("{}{marks}\n{bits}{}", value(&point), comparison(view, setting, dut));
    Cell::new(text.trim_end()).set_alignment(CellAlignment::Right)
}

fn value(point: &Point) -> String {
    format!("{}{}", view::bound(point), units::measured(point))
}

fn comparison(view: &View<'_>, setting: &Setting<'_>, dut: &str) -> String {
    let ratio: Option<ratio::Ratio> = view.reference.and_then(|r| setting.ratio(dut, r));
    match ratio {
        Some(ratio) => tables::ratio_text(&ratio),
        None if view.reference == Some(dut) => "reference".into(),
        None if view.role(dut) == Role::Calibration => "nothing between".into(),
        None => String::new(),
    }
}

fn paint(cell: Cell, when: bool, colour: Color, options: &Options) -> Cell {
    if when && options.colour { cell.fg(colour) } else { cell }
}

fn footnotes(out: &mut String, results: &Results) {
    let sized = results.readings().any(|p| p.sent() != Sent::Connections && p.level("frame").is_some());
    if sized {
        out.push_str("Frame sizes count the 4-byte FCS. ");
    }
    out.push_str("Ratios are to the reference, with their 95 % interval; one that says neither who is ahead nor that both are level stands as open.\n");
    let kinds: BTreeSet<MarkKind> = results.points.iter().flat_map(view::shown_kinds).collect();
    for kind in kinds {
        let _ = writeln!(out, "[{}] {}", kind.row().letter, kind.row().meaning);
    }
    reasons(out, results);
}

/// Why points are invalid, each reason once with the firewalls that it stopped.
fn reasons(out: &mut String, results: &Results) {
    let mut said: Vec<(String, usize)> = Vec::new();
    for point in results.points.iter().filter(|p| !p.valid) {
        let text = format!("{}: {}", point.dut, view::reason(point));
        match said.iter_mut().find(|(t, _)| *t == text) {
            Some((_, count)) => *count += 1,
            None => said.push((text, 1)),
        }
    }
    for (text, count) in said {
        let _ = writeln!(out, "invalid, {count} {}: {text}", if count == 1 { "point" } else { "points" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_firewall_and_setting_is_there_at_any_width() {
        let run = sample::tolly(8);
        for width in [40, 80, 200] {
            let text = table(&run, &Options { width, ..Options::default() });
            for needle in
                ["rampart", "wire", "IMIX tolly frames", "1 M flows", "2 cores", "reference", "Mpps", "ns"]
            {
                assert!(text.contains(needle), "{needle} at {width}");
            }
            if width > 60 {
                let widest =
                    text.lines().filter(|l| l.contains('─') || l.contains("pps")).map(|l| l.chars().count());
                assert!(widest.max().unwrap() <= usize::from(width), "fits {width}");
            }
        }
    }

    #[test]
    fn invalid_points_show_no_number_and_their_reason() {
        let mut run = sample::demo();
        run.points.retain(|p| p.dut == "iptables" && !p.valid);
        let text = table(&run, &Options::default());
        assert!(text.contains("invalid [p]") && text.contains("although the policy forbids it"), "{text}");
        assert!(!text.contains("Mpps"), "{text}");
    }

    #[test]
    fn colour_only_where_asked_for() {
        let run = sample::demo();
        assert!(!table(&run, &Options::default()).contains('\u{1b}'));
    }
}
