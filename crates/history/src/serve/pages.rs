//! The pages: what is asked for, as HTML. Templates escape every text; what goes in unescaped is charts alone, which escape theirs.

use super::chart::{Chart, Line};
use super::http::{Answer, Request};
use crate::error::HistoryError;
use crate::live::Live;
use crate::overlay;
use crate::place::Place;
use crate::query::Query;
use crate::store::{RunRow, Store, StoredPoint};
use crate::text;
use crate::trend::{self, Options, Series, Trends};
use measure::level;
use measure::results::{METRICS, Metric, Results};
use minijinja::Environment;
use minijinja::value::Serde;
use report::{Extras, Format, units};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const TEMPLATES: [(&str, &str); 6] = [
    ("base.html", include_str!("base.html")),
    ("live.html", include_str!("live.html")),
    ("runs.html", include_str!("runs.html")),
    ("run.html", include_str!("run.html")),
    ("trend.html", include_str!("trend.html")),
    ("overlay.html", include_str!("overlay.html")),
];

/// Runs on a page; older ones are one click away.
const RUNS: usize = 100;

/// Series with their charts on a page.
const SERIES: usize = 24;

/// Latest points of a run that goes on.
const LATEST: usize = 12;

/// Runs that are laid over each other at most.
const OVERLAID: usize = 12;

/// What is answered to a request. What is wrong with the file of the runs is said on the page.
pub(super) fn answer(place: &Place, request: &Request) -> Answer {
    let parts: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    let page = match parts.as_slice() {
        [""] => runs(place, request),
        ["style.css"] => return Answer::new(200, "text/css; charset=utf-8", STYLE.to_owned()),
        ["script.js"] => return Answer::new(200, "text/javascript; charset=utf-8", SCRIPT.to_owned()),
        ["trend"] => trends(place, request),
        ["overlay"] => overlaid(place, request),
        ["runs", id] => with_id(id, |id| run(place, id)),
        ["runs", id, "report"] => with_id(id, |id| run_report(place, id)),
        _ => return Answer::text(404, "there is no such page"),
    };
    page.unwrap_or_else(|error| match error {
        HistoryError::NoRun(_) => Answer::text(404, &error.to_string()),
        error => Answer::text(500, &error.to_string()),
    })
}

/// A number as a path has it: nothing else of a path is ever looked up.
fn with_id(text: &str, page: impl Fn(i64) -> Result<Answer, HistoryError>) -> Result<Answer, HistoryError> {
    match text.parse() {
        Ok(id) => page(id),
        Err(_) => Ok(Answer::text(404, "there is no such page")),
    }
}

fn render(name: &str, context: &serde_json::Value) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    let all = TEMPLATES.iter().try_for_each(|(name, text)| environment.add_template(name, text));
    let page = all.and_then(|()| environment.get_template(name)?.render(Serde(context)));
    // The templates are ours and tested; a defect of theirs shows nothing that was not escaped.
    page.unwrap_or_else(|error| format!("a page could not be made, which is a defect: {}", error.kind()))
}

fn page(name: &str, context: &serde_json::Value) -> Answer {
    Answer::new(200, "text/html; charset=utf-8", render(name, context))
}

fn value_of<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request.query.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, value)| value.as_str())
}

fn values_of(request: &Request, name: &str) -> Vec<String> {
    let named = request.query.iter().filter(|(n, _)| n == name).flat_map(|(_, value)| value.split(','));
    named.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned).collect()
}

#[derive(Serialize)]
struct LivePart {
    suite: String,
    profile: String,
    started: String,
    path: String,
    goes_on: bool,
    done: usize,
    cells: u32,
    minutes: u64,
    points: Vec<PointPart>,
}

#[derive(Serialize)]
struct PointPart {
    test: String,
    dut: String,
    metric: &'static str,
    value: String,
    interval: String,
    setting: String,
}

fn setting<'a>(levels: impl Iterator<Item = (&'a str, &'a level::Level)>) -> String {
    level::phrases(levels.filter(|(factor, _)| level::is_telling(factor)))
}

impl LivePart {
    fn of(live: Live) -> Self {
        let goes_on = live.goes_on();
        let so_far = live.so_far().ok();
        let points = so_far.as_ref().map(latest).unwrap_or_default();
        Self {
            goes_on,
            done: so_far.map_or(0, |results| results.cells.len()),
            cells: live.cells,
            minutes: (live.seconds / 60.0).ceil() as u64,
            points,
            suite: live.suite,
            profile: live.profile,
            started: live.started,
            path: live.path,
        }
    }
}

/// The latest points of a run that goes on, newest first.
fn latest(results: &Results) -> Vec<PointPart> {
    let readings: Vec<_> = results.readings().collect();
    let part = |reading: &measure::results::Reading<'_>| PointPart {
        test: reading.test().to_owned(),
        dut: reading.dut.clone(),
        metric: reading.metric.row().key,
        value: if reading.valid { units::value(&reading.unit, reading.value) } else { "invalid".to_owned() },
        interval: String::new(),
        setting: setting(reading.factors()),
    };
    readings.iter().rev().take(LATEST).map(part).collect()
}

/// The part of the first page that shows the runs that go on.
pub(super) fn live_part(place: &Place) -> String {
    // Journals are read with the user's rights, as long as the file is open.
    let store = Store::read(place);
    let live = store.as_ref().ok().and_then(|store| store.live().ok()).unwrap_or_default();
    let live: Vec<LivePart> = live.into_iter().map(LivePart::of).collect();
    render("live.html", &json!({ "live": live }))
}

#[derive(Serialize)]
struct RunPart {
    id: i64,
    started: String,
    suite: String,
    profile: String,
    machine: String,
    kernel: String,
    commit: String,
    points: u32,
    complete: bool,
    path: String,
}

fn runs(place: &Place, request: &Request) -> Result<Answer, HistoryError> {
    let store = match Store::read(place) {
        Err(error @ HistoryError::None { .. }) => {
            let context = json!({ "title": "Runs", "script": true, "remark": error.to_string() });
            return Ok(page("runs.html", &context));
        }
        store => store?,
    };
    let live: Vec<LivePart> = store.live()?.into_iter().map(LivePart::of).collect();
    let before = value_of(request, "before").and_then(|id| id.parse::<i64>().ok());
    let all = store.runs()?;
    let until = before.and_then(|id| all.iter().position(|run| run.id == id)).unwrap_or(all.len());
    let shown: Vec<RunPart> = all[..until].iter().rev().take(RUNS).map(run_part).collect();
    let older = if until > RUNS { shown.last().map(|run| run.id) } else { None };
    let remark = all.is_empty().then_some("No run was kept yet.");
    Ok(page(
        "runs.html",
        &json!({ "title": "Runs", "script": true, "live": live, "runs": shown, "older": older, "remark": remark }),
    ))
}

fn run_part(run: &RunRow) -> RunPart {
    RunPart {
        id: run.id,
        started: run.started.clone(),
        suite: run.suite.clone(),
        profile: run.profile.clone(),
        machine: run.machine.clone(),
        kernel: run.kernel.split(' ').next().unwrap_or_default().to_owned(),
        commit: run.versions.get("commit").cloned().unwrap_or_default(),
        points: run.points,
        complete: run.complete,
        path: run.path.clone(),
    }
}

fn run(place: &Place, id: i64) -> Result<Answer, HistoryError> {
    let store = Store::read(place)?;
    let (run, points) = (store.run(id)?, store.points(Some(id))?);
    let part = |stored: &StoredPoint| PointPart {
        test: stored.test.clone(),
        dut: stored.point.dut.clone(),
        metric: stored.point.metric.row().key,
        value: text::value(&stored.point),
        interval: text::interval(&stored.point),
        setting: setting(stored.levels.iter().map(|(factor, level)| (factor.as_str(), level))),
    };
    let points: Vec<PointPart> = points.iter().map(part).collect();
    let title = format!("Run {id}: {} ({})", run.suite, run.profile);
    Ok(page(
        "run.html",
        &json!({ "title": title, "run": run_part(&run), "facts": text::facts(&run), "points": points }),
    ))
}

/// The report of a run, made anew from its folder. Its style and script stand in the page, so the policy names them by their hashes.
fn run_report(place: &Place, id: i64) -> Result<Answer, HistoryError> {
    let store = Store::read(place)?;
    let run = store.run(id)?;
    let results = report::load(std::path::Path::new(&run.path));
    let html = results.and_then(|results| {
        let suite = measure::suite::builtin(&results.suite);
        let suite = suite.and_then(|text| measure::suite::Suite::parse(&results.suite, text).ok());
        let extras = suite.and_then(|suite| Extras::of_suite(&suite).ok()).unwrap_or_default();
        report::render(&results, Format::Html, &extras)
    });
    let html = match html {
        Ok(html) => html,
        Err(error) => {
            return Ok(Answer::text(404, &format!("the folder of run {id} has no report to show: {error}")));
        }
    };
    let mut answer = Answer::new(200, "text/html; charset=utf-8", html);
    answer.policy = report_policy();
    Ok(answer)
}

fn report_policy() -> String {
    let [style, script] = report::html::EMBEDDED.map(sha256_base64);
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

fn sha256_base64(text: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(text.as_bytes()))
}

#[derive(Serialize)]
struct Field {
    name: &'static str,
    title: &'static str,
    value: String,
    known: BTreeSet<String>,
}

fn fields(request: &Request, runs: &[RunRow]) -> Vec<Field> {
    let field = |name, title, known: BTreeSet<String>| {
        let value = values_of(request, name).join(",");
        Field { name, title, value, known }
    };
    let of = |value: fn(&RunRow) -> &String| runs.iter().map(|run| value(run).clone()).collect();
    vec![
        field("suite", "Suite", of(|run| &run.suite)),
        field("profile", "Profile", of(|run| &run.profile)),
        field("machine", "Machine", of(|run| &run.machine)),
        field("test", "Test", BTreeSet::new()),
        field("dut", "Firewall", BTreeSet::new()),
        field("metric", "Metric", METRICS.iter().map(|(_, row)| row.key.to_owned()).collect()),
        field("set", "Level, as in frame=64", BTreeSet::new()),
        field("reference", "Ratio to", BTreeSet::new()),
    ]
}

fn options(request: &Request) -> Result<Options, String> {
    let mut query = Query {
        suites: values_of(request, "suite"),
        profiles: values_of(request, "profile"),
        machines: values_of(request, "machine"),
        tests: values_of(request, "test"),
        duts: values_of(request, "dut"),
        ..Query::default()
    };
    for key in values_of(request, "metric") {
        query.metrics.push(Metric::named(&key).ok_or_else(|| format!("there is no metric named {key}"))?);
    }
    for levels in request.query.iter().filter(|(name, value)| name == "set" && !value.is_empty()) {
        query.with_levels(&levels.1)?;
    }
    let reference = value_of(request, "reference").map(str::to_owned);
    Ok(Options { query, reference, absolute: value_of(request, "absolute").is_some() })
}

#[derive(Serialize)]
struct SeriesPart {
    title: String,
    subtitle: String,
    chart: String,
    rows: Vec<RowPart>,
}

#[derive(Serialize)]
struct RowPart {
    run: i64,
    started: String,
    version: String,
    kernel: String,
    value: String,
    ratio: String,
    interval: String,
    changed: &'static str,
}

fn trends(place: &Place, request: &Request) -> Result<Answer, HistoryError> {
    let store = Store::read(place)?;
    let fields = fields(request, &store.runs()?);
    let absolute = value_of(request, "absolute").is_some();
    let title = "Trends";
    let found =
        options(request).map_err(HistoryError::Nothing).and_then(|options| trend::trends(&store, &options));
    let found = match found {
        Err(HistoryError::Nothing(remark)) => {
            return Ok(page(
                "trend.html",
                &json!({ "title": title, "fields": fields, "absolute": absolute, "remark": remark }),
            ));
        }
        found => found?,
    };
    let from = value_of(request, "from").and_then(|from| from.parse::<usize>().ok()).unwrap_or(0);
    let to = from.saturating_add(SERIES).min(found.series.len());
    let shown = found.series.get(from..to).unwrap_or_default();
    let parts: Vec<SeriesPart> = shown.iter().map(|series| series_part(&found, series)).collect();
    let next = (to < found.series.len()).then(|| next_page(request, to));
    let changes: Vec<String> =
        found.series.iter().flat_map(|s| s.changes.iter().map(|change| text::change(s, change))).collect();
    let context = json!({ "title": title, "fields": fields, "absolute": absolute, "changes": changes, "next": next, "series": parts, "error_rate": text::error_rate(&found) });
    Ok(page("trend.html", &context))
}

fn next_page(request: &Request, from: usize) -> String {
    let kept = request.query.iter().filter(|(name, _)| name != "from");
    let encoded = |text: &str| -> String {
        let byte =
            |b: u8| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") };
        text.bytes().map(byte).collect()
    };
    let pairs: Vec<String> =
        kept.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    format!("/trend?{}&from={from}", pairs.join("&"))
}

fn series_part(trends: &Trends, series: &Series) -> SeriesPart {
    let of = series.reference.as_ref().map_or_else(String::new, |reference| format!(" / {reference}"));
    let setting = if series.setting.is_empty() { String::new() } else { format!(", {}", series.setting) };
    let title = format!("{} of {}{of}, {}{setting}", series.metric.row().title, series.dut, series.test);
    let hardware = trends.runs.get(&series.values[0].run).map_or("", |run| run.hardware.as_str());
    let points = series.values.iter().map(|value| match value.ratio {
        Some(ratio) => Some((ratio.value, ratio.low, ratio.high)),
        None => Some((value.value, value.low, value.high)),
    });
    let place = |run: i64| format!("run {run}, {}", trends.runs[&run].started.get(..10).unwrap_or_default());
    let chart = Chart {
        description: format!("{} runs. {}", series.values.len(), text::sparkline(&series.followed())),
        places: series.values.iter().map(|value| place(value.run)).collect(),
        lines: vec![Line { name: title.clone(), values: points.collect() }],
        changes: (0..series.values.len())
            .filter(|at| series.changes.iter().any(|change| change.at_run == series.values[*at].run))
            .collect(),
        title: title.clone(),
    };
    let rows = series.values.iter().map(|value| {
        let run = &trends.runs[&value.run];
        RowPart {
            run: value.run,
            started: run.started.clone(),
            version: run.version_of(&series.dut),
            kernel: run.kernel.split(' ').next().unwrap_or_default().to_owned(),
            value: units::value(&series.unit, value.value),
            ratio: value.ratio.map_or_else(String::new, |ratio| format!("{}×", units::times(ratio.value))),
            interval: text::between(series, value),
            changed: if series.changes.iter().any(|c| c.at_run == value.run) { "changed here" } else { "" },
        }
    });
    SeriesPart {
        subtitle: format!("{} ({}) on machine {}: {hardware}", series.suite, series.profile, series.machine),
        chart: chart.svg(|value| text::shown(series, value)),
        rows: rows.collect(),
        title,
    }
}

#[derive(Serialize)]
struct OverlayPart {
    title: String,
    chart: String,
    rows: Vec<OverlayRow>,
}

#[derive(Serialize)]
struct OverlayRow {
    setting: String,
    cells: Vec<String>,
}

fn overlaid(place: &Place, request: &Request) -> Result<Answer, HistoryError> {
    let title = "Runs laid over each other";
    let ids: Vec<i64> = values_of(request, "run").iter().filter_map(|id| id.parse().ok()).collect();
    if ids.is_empty() || ids.len() > OVERLAID {
        let remark = format!("Mark one to {OVERLAID} runs on the page of runs.");
        return Ok(page("overlay.html", &json!({ "title": title, "remark": remark })));
    }
    let store = Store::read(place)?;
    let found = options(request)
        .map_err(HistoryError::Nothing)
        .and_then(|options| overlay::overlay(&store, &ids, &options));
    let found = match found {
        Err(HistoryError::Nothing(remark)) => {
            return Ok(page("overlay.html", &json!({ "title": title, "remark": remark })));
        }
        found => found?,
    };
    let runs: Vec<String> = found.runs.iter().map(text::run_line).collect();
    let columns: Vec<String> = found.runs.iter().map(|run| format!("run {}", run.id)).collect();
    let same = |a: &overlay::Row, b: &overlay::Row| {
        let of = |row: &overlay::Row| (row.series.test.clone(), row.series.dut.clone(), row.series.metric);
        of(a) == of(b)
    };
    let mut rows = found.rows;
    rows.sort_by_key(|row| (row.series.test.clone(), row.series.metric, row.series.dut.clone()));
    let parts: Vec<OverlayPart> = rows.chunk_by(same).map(|rows| overlay_part(rows, &columns)).collect();
    Ok(page("overlay.html", &json!({ "title": title, "runs": runs, "columns": columns, "parts": parts })))
}

fn overlay_part(rows: &[overlay::Row], columns: &[String]) -> OverlayPart {
    let series = &rows[0].series;
    let of = series.reference.as_ref().map_or_else(String::new, |reference| format!(" / {reference}"));
    let title = format!("{} of {}{of}, {}", series.metric.row().title, series.dut, series.test);
    let number = |value: &trend::Value| match value.ratio {
        Some(ratio) => (ratio.value, ratio.low, ratio.high),
        None => (value.value, value.low, value.high),
    };
    let line = |(at, name): (usize, &String)| Line {
        name: name.clone(),
        values: rows.iter().map(|row| row.values[at].as_ref().map(number)).collect(),
    };
    let cell = |value: &Option<trend::Value>| {
        value.as_ref().map_or_else(|| "—".to_owned(), |value| text::shown(series, number(value).0))
    };
    let chart = Chart {
        title: title.clone(),
        description: format!("{} at {} settings", columns.join(", "), rows.len()),
        places: rows.iter().map(|row| row.series.setting.clone()).collect(),
        lines: columns.iter().enumerate().map(line).collect(),
        changes: Vec::new(),
    };
    OverlayPart {
        chart: chart.svg(|value| text::shown(series, value)),
        rows: rows
            .iter()
            .map(|row| OverlayRow {
                setting: row.series.setting.clone(),
                cells: row.values.iter().map(cell).collect(),
            })
            .collect(),
        title,
    }
}
