//! Points over runs. A series is one point of a suite, under one profile, on one machine: values of other machines are other
//! series. What is followed is the ratio to a reference firewall of the same run, because the absolute rates of two runs differ by
//! what else the machine did; absolute values are shown when they are asked for.

use crate::error::HistoryError;
use crate::query::Query;
use crate::store::{RunRow, Store, StoredPoint, key};
use measure::change::{self, RATE};
use measure::level::{self, Level};
use measure::results::{Metric, Point, Role};
use measure::stats;
use report::ratio;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What is followed, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Which points.
    pub query: Query,
    /// The firewall whose value others are divided by; nftables where it was measured, when none is named.
    pub reference: Option<String>,
    /// Values as they were measured instead of ratios.
    pub absolute: bool,
}

/// A value of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Value {
    /// Number of the run.
    pub run: i64,
    /// As it was measured, in the unit of the metric.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// How many times the reference's value it is.
    pub ratio: Option<Ratio>,
    /// What the reader must know of it.
    pub marks: Vec<String>,
    /// Between which two what is followed may lie because two hosts have two clocks; both are the value itself of one host.
    #[serde(skip)]
    clocks: (f64, f64),
}

/// A ratio with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
}

/// A change of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The last run before it.
    pub after_run: i64,
    /// The first run behind it.
    pub at_run: i64,
    /// Median before it.
    pub before: f64,
    /// Median behind it.
    pub after: f64,
    /// Share of random orders of the runs that look as much like a change.
    pub p: f64,
    /// What else differs between the two runs: versions, kernel, suite.
    pub differs: Vec<String>,
}

/// One point over runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Suite.
    pub suite: String,
    /// Profile.
    pub profile: String,
    /// Identifier of the machine.
    pub machine: String,
    /// Test of the suite.
    pub test: String,
    /// Firewall.
    pub dut: String,
    /// Metric.
    pub metric: Metric,
    /// Its unit.
    pub unit: String,
    /// Every factor and its level, as text.
    pub levels: BTreeMap<String, String>,
    /// The setting in words: what differs among the series that are shown.
    pub setting: String,
    /// The firewall whose value was divided by; none where the values themselves are followed.
    pub reference: Option<String>,
    /// In the order of the runs' starts.
    pub values: Vec<Value>,
    /// Runs whose value may not be used.
    pub invalid: usize,
    /// Runs in which the reference has no value that could be divided by.
    pub without_reference: usize,
    /// Changes, in the order of time.
    pub changes: Vec<Change>,
    /// Changes that are no larger than what is not known of the clocks of two hosts: those are not named.
    pub within_clocks: usize,
}

impl Series {
    /// What is followed: ratios, or values.
    pub fn followed(&self) -> Vec<f64> {
        self.values.iter().map(|value| followed(value, self.reference.is_some())).collect()
    }
}

fn followed(value: &Value, ratios: bool) -> f64 {
    if ratios { value.ratio.map_or(f64::NAN, |ratio| ratio.value) } else { value.value }
}

/// Several series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trends {
    /// The runs that have values in them, by number.
    pub runs: BTreeMap<i64, RunRow>,
    /// The series: by suite, machine, test, metric and setting.
    pub series: Vec<Series>,
    /// Probability at most with which a change is named although no series changed.
    pub false_alarms: f64,
    /// Series that were left out because no run has a reference to divide by.
    pub without_reference: usize,
}

/// Follows points over runs and finds their changes.
///
/// # Errors
/// [`HistoryError::Nothing`] when nothing is meant by the filters, or what is wrong with the file.
pub fn trends(store: &Store, options: &Options) -> Result<Trends, HistoryError> {
    let runs: BTreeMap<i64, RunRow> = store
        .runs()?
        .into_iter()
        .filter(|run| options.query.takes_run(run))
        .map(|run| (run.id, run))
        .collect();
    let points = store.points(None)?.into_iter();
    let points: Vec<StoredPoint> =
        points.filter(|point| runs.contains_key(&point.run) && options.query.takes_setting(point)).collect();
    let mut trends = arrange(runs, &points, options);
    if trends.series.is_empty() {
        return Err(HistoryError::Nothing(nothing(&trends, points.is_empty())));
    }
    find_changes(&mut trends);
    name_settings(&mut trends.series, &points);
    Ok(trends)
}

/// The points of one run, each a series of one value.
pub(crate) fn of_run(store: &Store, run: &RunRow, options: &Options) -> Result<Vec<Series>, HistoryError> {
    let points = store.points(Some(run.id))?.into_iter();
    let points: Vec<StoredPoint> = points.filter(|point| options.query.takes_setting(point)).collect();
    let mut found = arrange([(run.id, run.clone())].into(), &points, options);
    name_settings(&mut found.series, &points);
    Ok(found.series)
}

fn nothing(trends: &Trends, no_points: bool) -> String {
    if no_points {
        return "no recorded run has such a point: `rampart-bench history list` shows the runs, `history show ID` their points"
            .to_owned();
    }
    if trends.without_reference > 0 {
        return "no run has a second firewall to divide by, so there are no ratios: --reference names another one, and --absolute \
                shows the values themselves"
            .to_owned();
    }
    "no run has a valid value of such a point".to_owned()
}

/// What a series is known by, beside the key of its points: suite, profile, machine.
type Kind<'a> = (&'a str, &'a str, &'a str);

fn arrange(runs: BTreeMap<i64, RunRow>, points: &[StoredPoint], options: &Options) -> Trends {
    let mut by_run: BTreeMap<(i64, String), &StoredPoint> = BTreeMap::new();
    let mut by_series: BTreeMap<(Kind<'_>, String), Vec<&StoredPoint>> = BTreeMap::new();
    let mut measured: BTreeMap<Kind<'_>, BTreeSet<(&str, Role)>> = BTreeMap::new();
    for point in points {
        let run = &runs[&point.run];
        let group = (run.suite.as_str(), run.profile.as_str(), run.machine.as_str());
        let of = |dut: &str| key(&point.test, dut, point.point.metric, &point.levels);
        let own = of(&point.point.dut);
        measured.entry(group).or_default().insert((&point.point.dut, point.role));
        by_run.insert((point.run, own.clone()), point);
        if options.query.takes_point(point) {
            by_series.entry((group, own)).or_default().push(point);
        }
    }
    let mut without_reference = 0;
    let mut series = Vec::new();
    for ((group, _), mut points) in by_series {
        points.sort_by(|a, b| order(&runs[&a.run]).cmp(&order(&runs[&b.run])));
        let first = points[0];
        let ratios = !options.absolute && first.point.metric.row().ratio;
        let reference =
            if ratios { reference(&measured[&group], options.reference.as_deref()) } else { None };
        if ratios && reference.is_none() {
            without_reference += 1;
            continue;
        }
        if reference == Some(first.point.dut.as_str()) {
            continue;
        }
        let divisor = |point: &StoredPoint| {
            let key = key(&point.test, reference?, point.point.metric, &point.levels);
            by_run.get(&(point.run, key)).map(|found| &found.point)
        };
        let made = one(group, &points, reference, divisor);
        if !made.values.is_empty() {
            series.push(made);
        } else if made.without_reference > 0 {
            without_reference += 1;
        }
    }
    let used: BTreeSet<i64> = series.iter().flat_map(|s| s.values.iter().map(|v| v.run)).collect();
    let runs = runs.into_iter().filter(|(id, _)| used.contains(id)).collect();
    Trends { runs, series, false_alarms: RATE, without_reference }
}

fn order(run: &RunRow) -> (&str, i64) {
    (&run.started, run.id)
}

/// The same for all runs of a group, so that a series does not change with who else was measured.
fn reference<'a>(measured: &BTreeSet<(&'a str, Role)>, wanted: Option<&str>) -> Option<&'a str> {
    let named = |name: &str| measured.iter().find(|(dut, _)| *dut == name).map(|(dut, _)| *dut);
    if let Some(wanted) = wanted {
        return named(wanted);
    }
    if measured.len() < 2 {
        return None;
    }
    let is = |role: Role| measured.iter().find(|(_, r)| *r == role).map(|(dut, _)| *dut);
    named("nftables").or_else(|| is(Role::Firewall)).or_else(|| is(Role::Forwarder))
}

fn one<'a>(
    group: Kind<'_>,
    points: &[&'a StoredPoint],
    reference: Option<&str>,
    divisor: impl Fn(&StoredPoint) -> Option<&'a Point>,
) -> Series {
    let first = points[0];
    let (suite, profile, machine) = group;
    let mut series = Series {
        suite: suite.to_owned(),
        profile: profile.to_owned(),
        machine: machine.to_owned(),
        test: first.test.clone(),
        dut: first.point.dut.clone(),
        metric: first.point.metric,
        unit: first.point.unit.clone(),
        levels: first.levels.iter().map(|(factor, level)| (factor.clone(), level.text.clone())).collect(),
        setting: String::new(),
        reference: reference.map(str::to_owned),
        values: Vec::new(),
        invalid: 0,
        without_reference: 0,
        changes: Vec::new(),
        within_clocks: 0,
    };
    for stored in points {
        let point = &stored.point;
        if !point.valid {
            series.invalid += 1;
            continue;
        }
        let divided = divisor(stored).and_then(|of| Some((ratio::of_points(point, of)?, of)));
        let divided = divided.filter(|(ratio, _)| ratio.value > 0.0);
        let ratio = divided.map(|(ratio, _)| ratio);
        if reference.is_some() && ratio.is_none() {
            series.without_reference += 1;
            continue;
        }
        series.values.push(Value {
            run: stored.run,
            value: point.value,
            low: point.low,
            high: point.high,
            ratio: ratio.map(|r| Ratio { value: r.value, low: r.low, high: r.high }),
            marks: point.marks.iter().map(|mark| mark.text.clone()).collect(),
            clocks: match divided {
                Some((ratio, of)) if reference.is_some() => {
                    let (own, to) = (by_clocks(point), by_clocks(of));
                    (ratio.value * own.0 / to.1, ratio.value * own.1 / to.0)
                }
                _ => (point.value * by_clocks(point).0, point.value * by_clocks(point).1),
            },
        });
    }
    series
}

/// How many times its value a point may be, at least and at most, because two hosts have two clocks.
fn by_clocks(point: &Point) -> (f64, f64) {
    if point.clock_error <= 0.0 {
        return (1.0, 1.0);
    }
    let share = point.clock_error / point.value;
    ((1.0 - share).max(0.0), 1.0 + share)
}

fn find_changes(trends: &mut Trends) {
    // Differences of logarithms are ratios: a halving weighs as much as a doubling. Shares may be 0 and are taken as they are.
    let scaled = |series: &Series| {
        let values = series.followed();
        let positive = values.iter().all(|value| *value > 0.0);
        if positive { values.iter().map(|value| value.ln()).collect() } else { values }
    };
    let all: Vec<Vec<f64>> = trends.series.iter().map(scaled).collect();
    for (series, found) in trends.series.iter_mut().zip(change::changes(&all, trends.false_alarms)) {
        let middle = |from: usize, to: usize| {
            let values: Vec<f64> = series.followed()[from..to].to_vec();
            stats::median(&values).unwrap_or(f64::NAN)
        };
        let bounds: Vec<usize> = found.iter().map(|change| change.at).collect();
        let changes = found.iter().enumerate().map(|(index, change)| {
            let from = index.checked_sub(1).map_or(0, |before| bounds[before]);
            let to = bounds.get(index + 1).copied().unwrap_or(series.values.len());
            let (after_run, at_run) = (series.values[change.at - 1].run, series.values[change.at].run);
            Change {
                after_run,
                at_run,
                before: middle(from, change.at),
                after: middle(change.at, to),
                p: change.p,
                differs: differences(&trends.runs[&after_run], &trends.runs[&at_run]),
            }
        });
        let all: Vec<Change> = changes.collect();
        let (named, within): (Vec<_>, Vec<_>) =
            all.into_iter().zip(beyond_clocks(series, &bounds)).partition(|(_, beyond)| *beyond);
        series.changes = named.into_iter().map(|(change, _)| change).collect();
        series.within_clocks = within.len();
    }
}

/// Of each change, whether it is more than what is not known of the clocks: the medians of both sides may be off by their error bars, and
/// what lies within these says nothing of the firewall.
fn beyond_clocks(series: &Series, bounds: &[usize]) -> Vec<bool> {
    let ends: Vec<usize> = [0].iter().chain(bounds).chain(&[series.values.len()]).copied().collect();
    let range = |part: &[usize]| {
        let end = |of: fn(&Value) -> f64| {
            let ends: Vec<f64> = series.values[part[0]..part[1]].iter().map(of).collect();
            stats::median(&ends).unwrap_or(f64::NAN)
        };
        (end(|value| value.clocks.0), end(|value| value.clocks.1))
    };
    let ranges: Vec<(f64, f64)> = ends.windows(2).map(range).collect();
    let of_one_host = series.values.iter().all(|value| value.clocks.0 == value.clocks.1);
    let apart = |sides: &[(f64, f64)]| of_one_host || sides[0].1 < sides[1].0 || sides[1].1 < sides[0].0;
    ranges.windows(2).map(apart).collect()
}

/// What else differs between two runs.
fn differences(before: &RunRow, after: &RunRow) -> Vec<String> {
    let mut differs = Vec::new();
    let mut look = |what: &str, before: &str, after: &str| {
        if before != after {
            let shown = |text: &str| if text.is_empty() { "not known".to_owned() } else { text.to_owned() };
            differs.push(format!("{what}: {} before, {} after", shown(before), shown(after)));
        }
    };
    let programs: BTreeSet<&String> = before.versions.keys().chain(after.versions.keys()).collect();
    for program in programs {
        let version = |run: &RunRow| run.versions.get(program).cloned().unwrap_or_default();
        let what = if program == "commit" { program.clone() } else { format!("version of {program}") };
        look(&what, &version(before), &version(after));
    }
    look("kernel", &before.kernel, &after.kernel);
    look("seed", &before.seed, &after.seed);
    if let (Some(before), Some(after)) = (&before.suite_hash, &after.suite_hash) {
        look("text of the suite", &before[..8.min(before.len())], &after[..8.min(after.len())]);
    }
    differs
}

/// Names the levels that differ among the series of a test and metric.
fn name_settings(series: &mut [Series], points: &[StoredPoint]) {
    let mut seen: BTreeMap<(String, Metric, String), BTreeSet<String>> = BTreeMap::new();
    for one in series.iter() {
        for (factor, text) in &one.levels {
            seen.entry((one.test.clone(), one.metric, factor.clone())).or_default().insert(text.clone());
        }
    }
    let words: BTreeMap<(&str, &str), &Level> = points
        .iter()
        .flat_map(|point| &point.levels)
        .map(|(factor, level)| ((factor.as_str(), level.text.as_str()), level))
        .collect();
    for one in series {
        let telling = one.levels.iter().filter_map(|(factor, text)| {
            let varies = seen[&(one.test.clone(), one.metric, factor.clone())].len() > 1;
            let level = *words.get(&(factor.as_str(), text.as_str()))?;
            varies.then_some((factor.as_str(), level))
        });
        one.setting = level::phrases(telling);
    }
}

/// The runs of a series that belong together: of one commit or version, or of one machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Suite.
    pub suite: String,
    /// Profile.
    pub profile: String,
    /// Identifier of the machine.
    pub machine: String,
    /// Commit or version; none where runs are grouped by machine.
    pub version: Option<String>,
    /// Test of the suite.
    pub test: String,
    /// Firewall.
    pub dut: String,
    /// Metric.
    pub metric: Metric,
    /// Unit of the values; of ratios, that of the values that were divided.
    pub unit: String,
    /// The setting in words: what differs among the series.
    pub setting: String,
    /// The firewall whose value was divided by; none of values themselves.
    pub reference: Option<String>,
    /// Number of runs.
    pub runs: usize,
    /// Median of the ratios or values.
    pub median: f64,
    /// The smallest of them.
    pub least: f64,
    /// The largest of them.
    pub most: f64,
}

/// The series by commit or version, in the order in which these first ran.
pub fn by_version(trends: &Trends) -> Vec<Group> {
    let mut groups = Vec::new();
    for series in &trends.series {
        let mut versions: Vec<(String, Vec<f64>)> = Vec::new();
        for (value, followed) in series.values.iter().zip(series.followed()) {
            let version = trends.runs[&value.run].version_of(&series.dut);
            match versions.iter_mut().find(|(name, _)| *name == version) {
                Some((_, values)) => values.push(followed),
                None => versions.push((version, vec![followed])),
            }
        }
        groups.extend(versions.iter().map(|(version, values)| group(series, Some(version), values)));
    }
    groups
}

/// The series by machine, those of one point beside each other.
pub fn by_machine(trends: &Trends) -> Vec<Group> {
    let mut groups: Vec<Group> =
        trends.series.iter().map(|series| group(series, None, &series.followed())).collect();
    let order = |g: &Group| {
        let of = |text: &String| text.clone();
        (of(&g.suite), of(&g.profile), of(&g.test), g.metric, of(&g.dut), of(&g.setting), of(&g.machine))
    };
    groups.sort_by_key(order);
    groups
}

fn group(series: &Series, version: Option<&String>, values: &[f64]) -> Group {
    Group {
        suite: series.suite.clone(),
        profile: series.profile.clone(),
        machine: series.machine.clone(),
        version: version.cloned(),
        test: series.test.clone(),
        dut: series.dut.clone(),
        metric: series.metric,
        unit: series.unit.clone(),
        setting: series.setting.clone(),
        reference: series.reference.clone(),
        runs: values.len(),
        median: stats::median(values).unwrap_or(f64::NAN),
        least: values.iter().copied().fold(f64::INFINITY, f64::min),
        most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}
