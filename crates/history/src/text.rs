//! Tables and sparklines for a terminal. Texts may come from folders of others, so nothing that could steer a terminal gets through.

use crate::live::Live;
use crate::overlay::Overlay;
use crate::store::{RunRow, StoredPoint};
use crate::trend::{Change, Group, Series, Trends, Value};
use measure::change::LEAST_VALUES;
use measure::level;
use measure::results::Point;
use report::units;
use std::fmt::Write as _;

/// Signs of a sparkline at most; a longer series has the median of several runs in one sign.
const SPARKS: usize = 48;
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Changes by less than this share of the value are drawn flat, because a sparkline that fills its height with noise looks like a change.
const FLAT: f64 = 0.02;

/// A column of a table.
struct Column {
    title: &'static str,
    right: bool,
}

const fn left(title: &'static str) -> Column {
    Column { title, right: false }
}

const fn right(title: &'static str) -> Column {
    Column { title, right: true }
}

/// Rows under their titles, two spaces between columns, in widths that fit.
fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([columns[at].title.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().enumerate().map(|(at, cell)| {
            let space = " ".repeat(widths[at] - cell.chars().count());
            if columns[at].right { format!("{space}{cell}") } else { format!("{cell}{space}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let head = line(columns.iter().map(|column| column.title).collect());
    rows.iter().fold(head, |text, row| text + &line(row.iter().map(String::as_str).collect()))
}

/// The text without what a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '·' } else { c }).collect()
}

/// A series as one line of signs, on a scale of logarithms where all values allow it.
pub(crate) fn sparkline(values: &[f64]) -> String {
    let all_positive = values.iter().all(|value| *value > 0.0);
    let scaled: Vec<f64> = values.iter().map(|v| if all_positive { v.ln() } else { *v }).collect();
    let each = values.len().div_ceil(SPARKS).max(1);
    let values: Vec<f64> = scaled.chunks(each).filter_map(measure::stats::median).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let size = if all_positive { 1.0 } else { high.abs().max(low.abs()) };
    let sign = |value: &f64| {
        if high - low <= FLAT * size {
            return HEIGHTS[3];
        }
        let place = (value - low) / (high - low) * (HEIGHTS.len() - 1) as f64;
        HEIGHTS[(place.round() as usize).min(HEIGHTS.len() - 1)]
    };
    values.iter().map(sign).collect()
}

/// Runs as a table, with those that go on or were cut off below it.
pub fn runs(runs: &[RunRow], live: &[Live]) -> String {
    let columns = [
        right("run"),
        left("started"),
        left("suite"),
        left("profile"),
        left("machine"),
        left("kernel"),
        right("points"),
        left(""),
        left("folder"),
    ];
    let row = |run: &RunRow| {
        vec![
            run.id.to_string(),
            run.started.clone(),
            run.suite.clone(),
            run.profile.clone(),
            run.machine.clone(),
            run.kernel.split(' ').next().unwrap_or_default().to_owned(),
            run.points.to_string(),
            if run.complete { String::new() } else { "cut short".to_owned() },
            run.path.clone(),
        ]
    };
    let mut text = table(&columns, &runs.iter().map(row).collect::<Vec<_>>());
    for one in live {
        let state = if one.goes_on() {
            "goes on since"
        } else {
            "was ended from outside; `rampart-bench history import` its folder takes what it measured; begun"
        };
        let _ = writeln!(text, "{} {state} {}: {}", plain(&one.suite), plain(&one.started), plain(&one.path));
    }
    text
}

/// What is known of a run, each with its name.
pub(crate) fn facts(run: &RunRow) -> Vec<(&'static str, String)> {
    let versions: Vec<String> = run.versions.iter().map(|(name, v)| format!("{name}: {v}")).collect();
    let stolen = run.stolen * 100.0;
    vec![
        ("run", run.id.to_string()),
        ("suite", format!("{} ({})", run.suite, run.profile)),
        ("hash of the suite", run.suite_hash.clone().unwrap_or_else(|| "not known (imported)".to_owned())),
        ("seed", run.seed.clone()),
        ("started", run.started.clone()),
        ("ended", if run.complete { "as planned" } else { "cut short" }.to_owned()),
        ("folder", run.path.clone()),
        ("command", run.command.clone()),
        ("machine", format!("{}: {}", run.machine, run.hardware)),
        ("kernel", run.kernel.clone()),
        ("versions", versions.join("; ")),
        ("load", format!("{:.2} before; the hypervisor took {stolen:.1} % of the time", run.load_before)),
    ]
}

/// A point's value, or that it has none.
pub(crate) fn value(point: &Point) -> String {
    if point.valid { units::measured(point) } else { "invalid".to_owned() }
}

/// A valid point's interval.
pub(crate) fn interval(point: &Point) -> String {
    if point.valid { units::interval(&point.unit, point.value, point.low, point.high) } else { String::new() }
}

/// One run with its points.
pub fn run(run: &RunRow, points: &[StoredPoint]) -> String {
    let mut text = String::new();
    for (name, value) in facts(run) {
        let _ = writeln!(text, "{name:<18} {}", plain(&value));
    }
    let row = |stored: &StoredPoint| {
        let levels = stored.levels.iter().map(|(factor, level)| (factor.as_str(), level));
        vec![
            stored.test.clone(),
            stored.point.dut.clone(),
            stored.point.metric.row().key.to_owned(),
            value(&stored.point),
            interval(&stored.point),
            level::phrases(levels.filter(|(factor, _)| level::is_telling(factor))),
        ]
    };
    let columns =
        [left("test"), left("firewall"), left("metric"), right("value"), left("interval"), left("setting")];
    text + "\n" + &table(&columns, &points.iter().map(row).collect::<Vec<_>>())
}

/// What is followed, as printed: a ratio or a value.
pub(crate) fn shown(series: &Series, value: f64) -> String {
    match series.reference {
        Some(_) => format!("{}×", units::times(value)),
        None => units::value(&series.unit, value),
    }
}

/// Series in one line each; a single one with its runs.
pub fn trends(trends: &Trends) -> String {
    let mut text = String::new();
    let mut group = String::new();
    let mut lines: Vec<Vec<String>> = Vec::new();
    let columns = [
        left("test"),
        left("firewall"),
        left("metric"),
        right("runs"),
        left("trend"),
        right("first"),
        right("last"),
        left("setting"),
    ];
    for series in &trends.series {
        let heading = heading(trends, series);
        if heading != group {
            if !lines.is_empty() {
                text += &table(&columns, &std::mem::take(&mut lines));
            }
            let _ = write!(text, "{}{heading}\n\n", if text.is_empty() { "" } else { "\n" });
            group = heading;
        }
        let values = series.followed();
        let end = |value: Option<&f64>| value.map_or_else(String::new, |value| shown(series, *value));
        lines.push(vec![
            series.test.clone(),
            series.dut.clone(),
            series.metric.row().key.to_owned(),
            values.len().to_string(),
            sparkline(&values),
            end(values.first()),
            end(values.last()),
            series.setting.clone(),
        ]);
    }
    text += &table(&columns, &lines);
    if let [only] = trends.series.as_slice() {
        text = text + "\n" + &values(trends, only);
    }
    text + "\n" + &said_of_changes(trends)
}

fn heading(trends: &Trends, series: &Series) -> String {
    let run = series.values.first().and_then(|value| trends.runs.get(&value.run));
    let hardware = run.map_or("", |run| run.hardware.as_str());
    let what = match &series.reference {
        Some(reference) => format!("ratios to {reference} of the same run"),
        None => "values as measured".to_owned(),
    };
    plain(&format!("{} ({}), machine {}: {hardware}; {what}", series.suite, series.profile, series.machine))
}

/// The interval of what is followed.
pub(crate) fn between(series: &Series, value: &Value) -> String {
    match value.ratio {
        Some(ratio) => format!("{}–{}", units::times(ratio.low), units::times(ratio.high)),
        None => units::interval(&series.unit, value.value, value.low, value.high),
    }
}

fn values(trends: &Trends, series: &Series) -> String {
    let columns = [
        right("run"),
        left("started"),
        left("commit or version"),
        left("kernel"),
        right("value"),
        right("ratio"),
        left("95 % interval"),
        left(""),
    ];
    let row = |value: &Value| {
        let run = &trends.runs[&value.run];
        let changed = series.changes.iter().any(|change| change.at_run == value.run);
        vec![
            value.run.to_string(),
            run.started.clone(),
            run.version_of(&series.dut),
            run.kernel.split(' ').next().unwrap_or_default().to_owned(),
            units::value(&series.unit, value.value),
            value.ratio.map_or_else(String::new, |ratio| format!("{}×", units::times(ratio.value))),
            between(series, value),
            if changed { "← changed here" } else { "" }.to_owned(),
        ]
    };
    table(&columns, &series.values.iter().map(row).collect::<Vec<_>>())
}

/// A change in a sentence.
pub(crate) fn change(series: &Series, change: &Change) -> String {
    let setting = if series.setting.is_empty() { String::new() } else { format!(", {}", series.setting) };
    let times = change.after / change.before;
    let size =
        if times.is_finite() { format!(", {} times as much", units::times(times)) } else { String::new() };
    let differs = match change.differs.as_slice() {
        [] => "Nothing else that is recorded differs between these two runs.".to_owned(),
        some => format!("Between these two runs differ: {}.", some.join("; ")),
    };
    let of = format!("{} of {} ({}{setting})", series.metric.row().title, series.dut, series.test);
    plain(&format!(
        "{of} changed between run {} and run {}: {} before, {} behind{size} (p = {:.4}). {differs}",
        change.after_run,
        change.at_run,
        shown(series, change.before),
        shown(series, change.after),
        change.p
    ))
}

fn said_of_changes(trends: &Trends) -> String {
    let mut text = String::new();
    for series in &trends.series {
        for one in &series.changes {
            let _ = writeln!(text, "{}", change(series, one));
        }
    }
    let _ = writeln!(text, "{}", error_rate(trends));
    let left_out = trends.without_reference;
    if left_out > 0 {
        let _ = writeln!(
            text,
            "{left_out} series are left out because no run has a reference to divide by: --absolute shows them."
        );
    }
    text
}

/// What is to be known of the changes that are named, and of those that are not.
pub(crate) fn error_rate(trends: &Trends) -> String {
    let rate = trends.false_alarms * 100.0;
    let tested = trends.series.iter().filter(|series| series.values.len() >= LEAST_VALUES).count();
    let short = trends.series.len() - tested;
    let found = trends.series.iter().filter(|series| !series.changes.is_empty()).count();
    let mut text = match (tested, found) {
        (0, _) => String::new(),
        (1, 0) => "No change was found. ".to_owned(),
        (_, 0) => format!("No change was found in {tested} series. "),
        (1, _) => String::new(),
        (_, _) => format!("{found} of {tested} series changed. "),
    };
    let within: usize = trends.series.iter().map(|series| series.within_clocks).sum();
    if within > 0 {
        let (is, it) = if within == 1 { (" is", "it is") } else { ("s are", "they are") };
        let _ = write!(
            text,
            "{within} change{is} not named: {it} no larger than what is not known of the two hosts' clocks. "
        );
    }
    if tested > 0 {
        let _ = write!(
            text,
            "If none had changed, one would be named with a probability of at most {rate:.0} %, if runs differ by chance alone."
        );
    }
    if short > 0 {
        let _ = write!(
            text,
            "{}{short} series {} fewer than {LEAST_VALUES} runs, which are too few to find a change.",
            if tested > 0 { " " } else { "" },
            if short == 1 { "has" } else { "have" }
        );
    }
    text
}

/// Groups of runs, one a line.
pub fn groups(groups: &[Group]) -> String {
    let columns = [
        left("suite"),
        left("machine"),
        left("test"),
        left("firewall"),
        left("metric"),
        left("commit or version"),
        right("runs"),
        right("median"),
        left("least and most"),
        left("setting"),
    ];
    let value = |group: &Group, value: f64| match group.reference {
        Some(_) => format!("{}×", units::times(value)),
        None => units::value(&group.unit, value),
    };
    let row = |group: &Group| {
        let of = group.reference.as_ref().map_or_else(String::new, |reference| format!(" / {reference}"));
        vec![
            format!("{} ({})", group.suite, group.profile),
            group.machine.clone(),
            group.test.clone(),
            format!("{}{of}", group.dut),
            group.metric.row().key.to_owned(),
            group.version.clone().unwrap_or_else(|| "all".to_owned()),
            group.runs.to_string(),
            value(group, group.median),
            format!("{} to {}", value(group, group.least), value(group, group.most)),
            group.setting.clone(),
        ]
    };
    table(&columns, &groups.iter().map(row).collect::<Vec<_>>())
}

/// A run in one line.
pub(crate) fn run_line(run: &RunRow) -> String {
    format!(
        "run {}: {} ({}) of {}, machine {}: {}",
        run.id, run.suite, run.profile, run.started, run.machine, run.hardware
    )
}

/// Runs laid over each other.
pub fn overlay(overlay: &Overlay) -> String {
    let mut text = String::new();
    for run in &overlay.runs {
        let _ = writeln!(text, "{}", plain(&run_line(run)));
    }
    let titles: Vec<String> = overlay.runs.iter().map(|run| format!("run {}", run.id)).collect();
    let mut rows = Vec::new();
    for row in &overlay.rows {
        let series = &row.series;
        let cell = |value: &Option<Value>| match value {
            None => "—".to_owned(),
            Some(value) => shown(series, value.ratio.map_or(value.value, |ratio| ratio.value)),
        };
        let of = match &series.reference {
            Some(reference) => format!("{} / {reference}", series.dut),
            None => series.dut.clone(),
        };
        let mut cells = vec![series.test.clone(), of, series.metric.row().key.to_owned()];
        cells.extend(row.values.iter().map(cell));
        cells.push(series.setting.clone());
        rows.push(cells);
    }
    // The runs' columns have titles of their own, which stand in the first row.
    let mut columns = vec![left("test"), left("firewall"), left("metric")];
    columns.extend(overlay.runs.iter().map(|_| right("")));
    columns.push(left("setting"));
    let mut first = vec![String::new(); 3];
    first.extend(titles);
    first.push(String::new());
    rows.insert(0, first);
    text + "\n" + &table(&columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_show_changes_and_no_noise() {
        let rows: [(&[f64], &str); 5] = [
            (&[], ""),
            (&[1.0, 1.001, 0.999], "▄▄▄"),
            (&[1.0, 2.0, 4.0], "▁▅█"),
            (&[0.0, 1.0], "▁█"),
            (&[0.0, 0.0], "▄▄"),
        ];
        for (values, expected) in rows {
            assert_eq!(sparkline(values), expected, "{values:?}");
        }
        assert!(sparkline(&[1.0; 500]).chars().count() <= SPARKS);
    }

    #[test]
    fn texts_of_others_do_not_steer_the_terminal() {
        let text = table(&[left("a"), right("b")], &[vec!["x\u{1b}[2J".into(), "1\n2".into()]]);
        assert_eq!(text, "a        b\nx·[2J  1·2\n");
    }
}
