//! `TechGuard`'s figures (2012) as tables: rate, frames and times of the steady seconds, without and with lists; and before,
//! under and after a flood. The curves over time are in the HTML report.

use super::{Sheet, printed_caption, printed_value};
use crate::seconds::{self, Flood, Second, Stretch};
use crate::table::{Cell, Head, Row, Table};
use crate::units;
use crate::verdict;
use crate::view::{Test, View};
use measure::level::{self, Level};
use measure::published::{self, Published};
use measure::results::{MarkKind, Metric, Reading};

/// A point with the seconds of its deciding trial.
pub(crate) struct Course<'a> {
    /// Its setting's place among the others, in words.
    pub(crate) place: String,
    /// The point.
    pub(crate) point: Reading<'a>,
    /// Its seconds.
    pub(crate) seconds: Vec<Second>,
    /// How long the same trial took to recover from its flood.
    recovery: Option<Reading<'a>>,
}

/// Every valid point of a test that has seconds of connections, one for each trial.
pub(crate) fn courses<'a>(view: &View<'_>, test: &'a Test<'_>) -> Vec<Course<'a>> {
    let mut varying = test.varying();
    varying.retain(|f| f != level::PHASE);
    let mut courses: Vec<Course<'a>> = Vec::new();
    for setting in test.blocks.iter().flat_map(|b| &b.settings) {
        for point in setting.points.iter().copied().filter(|p| p.valid) {
            let drawn = |c: &Course<'_>| c.point.shares_trials(&point);
            let seconds = seconds::of_point(&point);
            if !seconds.is_empty() && !courses.iter().any(drawn) {
                let place = verdict::place_among(setting, &varying);
                courses.push(Course { place, point, seconds, recovery: recovery_of(test, &point) });
            }
        }
    }
    courses.sort_by_key(|c| view.duts.iter().position(|d| *d == c.point.dut));
    courses
}

fn recovery_of<'a>(test: &'a Test<'_>, point: &Reading<'_>) -> Option<Reading<'a>> {
    let mut points = test.blocks.iter().flat_map(|b| &b.settings).flat_map(|s| s.points.iter().copied());
    points.find(|p| p.metric == Metric::Recovery && p.valid && p.shares_trials(point))
}

/// The tables of a test in this layout.
pub(super) fn sheets(view: &View<'_>, test: &Test<'_>, published: Option<&Published>) -> Vec<Sheet> {
    let courses = courses(view, test);
    let (floods, calm): (Vec<_>, Vec<_>) =
        courses.iter().map(|c| (c, seconds::flood(&c.seconds))).partition(|(_, f)| f.is_some());
    let mut sheets: Vec<Sheet> = Vec::new();
    let calm: Vec<Row> = calm.iter().filter_map(|(c, _)| steady_row(c)).collect();
    if !calm.is_empty() {
        sheets.push(steady_sheet(calm));
        sheets.extend(published.and_then(printed_lists));
    }
    let floods: Vec<Row> =
        floods.iter().filter_map(|(c, f)| Some(flood_rows(c, f.as_ref()?))).flatten().collect();
    if !floods.is_empty() {
        sheets.push(flood_sheet(floods));
        sheets.extend(published.and_then(printed_flood));
    }
    sheets
}

fn number(unit: &str, value: f64) -> Cell {
    Cell::number(units::value(unit, value), value)
}

fn some(unit: &str, value: Option<f64>) -> Cell {
    value.map_or_else(Cell::none, |v| number(unit, v))
}

fn steady_row(course: &Course<'_>) -> Option<Row> {
    let stretch = seconds::stretch(seconds::steady(&course.seconds))?;
    let mean = stretch.mean;
    let cells = vec![
        number("connections/s", mean.attempted),
        number("connections/s", mean.completed),
        number("ratio", stretch.widest),
        number("frames/s", mean.frames),
        some("ns", mean.mean_ns),
        some("ratio", stretch.time_deviation),
        some("s", course.point.policy_load_seconds()),
        some("bytes", course.point.memory_bytes().map(|b| b as f64)),
    ];
    Some(Row { heads: vec![course.point.dut.clone(), all_or(&course.place)], cells })
}

fn all_or(place: &str) -> String {
    if place.is_empty() { "all".into() } else { place.into() }
}

fn steady_sheet(rows: Vec<Row>) -> Sheet {
    let head = [
        "attempted",
        "connections/s",
        "widest second",
        "frames/s",
        "mean time",
        "its deviation",
        "policy loaded in",
        "memory",
    ];
    Sheet {
        table: Table {
            caption: "Measured here: means over the steady seconds".into(),
            corner: vec!["Firewall".into(), "Setting".into()],
            head: head.map(Head::one).into(),
            rows,
            notes: vec![
                "widest second = largest deviation of a second's connections from their mean".into(),
                "mean time = intended start to SYN-ACK; its deviation = standard deviation of the seconds' means, as a share".into(),
            ],
            ..Table::default()
        },
        printed: false,
        wide: true,
    }
}

/// Three rows a course: before, during, after.
fn flood_rows(course: &Course<'_>, flood: &Flood) -> Vec<Row> {
    let names = ["before", "during", "after"];
    let rows = names.iter().zip(&flood.stretches).enumerate().filter_map(|(i, (name, stretch))| {
        let Stretch { mean, .. } = (*stretch)?;
        let cells = vec![
            number("connections/s", mean.completed),
            if i == 1 { some("ratio", flood.drop()) } else { Cell::none() },
            number("frames/s", mean.frames),
            some("ns", mean.mean_ns),
            some("ns", mean.max_ns),
            if i == 1 { number("frames/s", mean.attack_sent) } else { Cell::none() },
            if i == 1 { number("frames/s", mean.attack_forwarded) } else { Cell::none() },
            if i == 2 { recovered(course) } else { Cell::none() },
        ];
        Some(Row { heads: vec![course.point.dut.clone(), all_or(&course.place), (*name).into()], cells })
    });
    rows.collect()
}

/// As the procedure decided it: a report decides nothing a second time.
fn recovered(course: &Course<'_>) -> Cell {
    match course.recovery {
        None => Cell::none(),
        Some(point) if point.marks.iter().any(|m| m.kind == MarkKind::NoUpperBound) => {
            Cell::text("not before the end")
        }
        Some(point) if point.value <= 0.0 => Cell::text("at once"),
        Some(point) => number("s", point.value),
    }
}

fn flood_sheet(rows: Vec<Row>) -> Sheet {
    let head = [
        "connections/s",
        "drop",
        "frames/s",
        "mean time",
        "longest",
        "attack sent",
        "attack forwarded",
        "recovered after",
    ];
    Sheet {
        table: Table {
            caption: "Measured here: before, during and after the flood, means over the steady seconds".into(),
            corner: vec!["Firewall".into(), "Setting".into(), "Flood".into()],
            head: head.map(Head::one).into(),
            rows,
            notes: vec![
                "drop = share of the connections before that were not made during the flood; recovered = the first second without failures and with 99 % of the rate asked for".into(),
                "time = intended start to SYN-ACK; attack forwarded = reached the server's port".into(),
            ],
            ..Table::default()
        },
        printed: false,
        wide: true,
    }
}

/// Columns of the printed tables.
const PRINTED: [(&str, &str); 6] = [
    ("connection-rate", "connections/s"),
    ("connection-rate-change", "change"),
    ("connection-rate-variance", "widest second"),
    ("frame-rate", "frames/s"),
    ("latency", "frame latency"),
    ("latency-deviation", "its deviation"),
];

fn printed_lists(published: &Published) -> Option<Sheet> {
    printed_table(published, "lists", |r| {
        !r.factors.contains_key("flood") && !r.factors["lists"].contains(' ')
    })
}

fn printed_flood(published: &Published) -> Option<Sheet> {
    printed_table(published, "flood", |r| r.factors.contains_key("lists"))
}

/// Rows of one key, a firewall and level each. The first figure of a metric there is the mean; a later one is its extreme.
fn printed_table(published: &Published, key: &str, keep: fn(&published::Row) -> bool) -> Option<Sheet> {
    let rows: Vec<&published::Row> =
        published.rows.iter().filter(|r| r.factors.contains_key(key)).filter(|r| keep(r)).collect();
    let mut lines: Vec<(String, String, String)> = Vec::new();
    for row in &rows {
        let line = (row.firewall.clone(), row.factors[key].clone(), row.place.clone());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let of = |line: &(String, String, String), metric: &str| {
        let same = |r: &&&published::Row| {
            r.metric == metric && r.firewall == line.0 && r.factors[key] == line.1 && r.place == line.2
        };
        let found: Vec<String> = rows.iter().filter(same).map(|r| printed_value(r)).collect();
        match found.split_first() {
            None => Cell::none(),
            Some((first, rest)) => {
                Cell { text: first.clone(), detail: rest.join(", "), class: "printed", ..Cell::default() }
            }
        }
    };
    let columns: Vec<&(&str, &str)> =
        PRINTED.iter().filter(|(metric, _)| rows.iter().any(|r| r.metric == *metric)).collect();
    let row = |line: &(String, String, String)| Row {
        heads: vec![line.0.clone(), printed_level(key, &line.1)],
        cells: columns.iter().map(|(metric, _)| of(line, metric)).collect(),
    };
    let places: Vec<&str> = lines.iter().map(|l| l.2.as_str()).fold(Vec::new(), |mut all, p| {
        if !all.contains(&p) {
            all.push(p);
        }
        all
    });
    (!lines.is_empty()).then(|| Sheet {
        table: Table {
            caption: printed_caption(published, "PoliWall", &places.join(", ")),
            corner: vec!["Firewall".into(), level::title(if key == "flood" { "attack" } else { key })],
            head: columns.iter().map(|(_, name)| Head::one(*name)).collect(),
            rows: lines.iter().map(row).collect(),
            ..Table::default()
        },
        printed: true,
        wide: true,
    })
}

fn printed_level(key: &str, level: &str) -> String {
    if key == "lists" { Level::read(key, level).phrase } else { level.into() }
}
