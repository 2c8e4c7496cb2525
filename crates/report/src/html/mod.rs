//! `report.html`: one file that needs nothing else, readable without script, in light, dark and print.

pub(crate) mod chart;
mod figures;
mod seconds;
mod trials;

use crate::error::ReportError;
use crate::layout;
use crate::table::Table;
use crate::view::{self, Block, Test, View};
use crate::{
    Extras, connections, contrast, differ, expectations, lanes, mixes, questions, searches, tables, verdict,
};
use figures::{Figure, Ids};
use measure::level;
use measure::results::{Metric, Results};
use measure::suite::Layout;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use seconds::Seconds;
use serde::Serialize;
use std::collections::BTreeMap;

const PAGE: &str = include_str!("page.html");
const MACROS: &str = include_str!("macros.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");
/// The style and the script of every page, as they stand in it: a policy can name them by their hashes.
pub const EMBEDDED: [&str; 2] = [STYLE, SCRIPT];
/// Percentile charts that are shown at once; the rest is one click away.
const LADDERS_SHOWN: usize = 4;

#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    script: &'static str,
    run: Run<'a>,
    title: &'a str,
    summary: Option<&'a str>,
    source: Option<&'a str>,
    printed: Option<Table>,
    verdict: verdict::Summary,
    answers: Vec<AnswerPart>,
    trust: Vec<verdict::TrustLine>,
    main_figure: Option<Figure>,
    main_table: Table,
    hints: Vec<&'static str>,
    expected: Vec<expectations::Part>,
    tests: Vec<TestPart>,
    ledgers: Vec<(Option<Figure>, Table)>,
    invalid: Table,
    remarks: Vec<String>,
    calibration: Table,
    ticks: Table,
    machine: Vec<(&'static str, String)>,
}

/// A question of the suite with its answer, and the figure beneath it.
#[derive(Serialize)]
struct AnswerPart {
    ask: String,
    sentence: String,
    figure: Option<Figure>,
    table: Option<Table>,
}

impl AnswerPart {
    fn of(answer: questions::Answer<'_, '_>, view: &View<'_>, ids: &mut Ids) -> Self {
        let figure = answer.setting.and_then(|s| figures::bars(view, s, &verdict::place(s), ids));
        Self { ask: answer.ask.to_owned(), sentence: answer.sentence, figure, table: answer.table }
    }
}

/// The run without its points, which the page gets as tables and charts.
#[derive(Serialize)]
struct Run<'a> {
    schema: &'a str,
    suite: &'a str,
    profile: &'a str,
    seed: String,
    started: &'a str,
    command: &'a str,
    complete: bool,
    points: usize,
    cpu: &'a str,
    versions: &'a BTreeMap<String, String>,
    mitigations: &'a BTreeMap<String, String>,
    settings: &'a BTreeMap<String, String>,
    remarks: &'a [String],
}

impl<'a> Run<'a> {
    fn of(results: &'a Results) -> Self {
        let env = &results.environment;
        Self {
            schema: &results.schema,
            suite: &results.suite,
            profile: &results.profile,
            // As text: templates hold numbers as 64-bit floats in places, and a seed must be exact.
            seed: results.seed.to_string(),
            started: &results.started,
            command: &results.command,
            complete: results.complete,
            points: results.points.len(),
            cpu: &env.cpu,
            versions: &env.versions,
            mitigations: &env.mitigations,
            settings: &env.settings,
            remarks: &env.remarks,
        }
    }
}

#[derive(Serialize)]
struct TestPart {
    id: String,
    name: String,
    title: String,
    constant: String,
    blocks: Vec<BlockPart>,
    connections: Vec<Table>,
    mixes: Vec<Table>,
    curves: Vec<Figure>,
    sheets: Vec<SheetPart>,
    cpu_figure: Option<Figure>,
    cpu_table: Option<Table>,
    searches: Option<Table>,
    trials: Vec<trials::PointTrials>,
}

#[derive(Serialize)]
struct BlockPart {
    name: &'static str,
    sentence: String,
    /// What is the same for all firewalls, in a sentence that stands for `folded`.
    same: Option<String>,
    shown: Option<Body>,
    folded: Option<Body>,
}

/// Charts and tables of a block, or of those settings in which firewalls differ, or do not.
#[derive(Default, Serialize)]
struct Body {
    figures: Vec<Figure>,
    more: Vec<Figure>,
    table: Option<Table>,
    contrasts: Vec<Table>,
    latency: Option<Table>,
    apart: Vec<Table>,
    lanes: Vec<Table>,
    lanes_open: bool,
    seconds: Vec<Seconds>,
}

#[derive(Serialize)]
struct SheetPart {
    table: Table,
    printed: bool,
    wide: bool,
}

/// The page.
///
/// # Errors
/// [`ReportError::Render`] when the template fails, which would be a defect of this program.
pub fn to_string(results: &Results, extras: &Extras) -> Result<String, ReportError> {
    let view = View::new(results, extras.reference.as_deref());
    let defect = |e: minijinja::Error| ReportError::Render(format!("{e:#}"));
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(defect)?;
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("macros.html", MACROS).map_err(defect)?;
    environment.add_template("page.html", PAGE).map_err(defect)?;
    let page = page(results, &view, extras);
    environment.get_template("page.html").and_then(|t| t.render(Serde(page))).map_err(defect)
}

fn page<'a>(results: &'a Results, view: &View<'_>, extras: &'a Extras) -> Page<'a> {
    let mut ids = Ids::default();
    let answers = questions::answers(&extras.questions, view);
    let main = verdict::main_settings(view);
    let main_figure = main.first().and_then(|(_, s)| figures::bars(view, s, &verdict::place(s), &mut ids));
    let tests = view.tests.iter().map(|t| test_part(results, view, t, extras, &mut ids)).collect();
    let ledgers = view
        .tests
        .iter()
        .map(|t| (figures::ledger(view, t.name, &mut ids), tables::ledger(view, t.name)))
        .collect();
    Page {
        style: STYLE,
        script: SCRIPT,
        run: Run::of(results),
        title: extras.title.as_deref().unwrap_or(&results.suite),
        summary: extras.summary.as_deref(),
        source: extras.source.as_deref(),
        printed: extras.published.as_ref().map(layout::all_printed),
        verdict: verdict::summary(results, view),
        answers: answers.into_iter().map(|answer| AnswerPart::of(answer, view, &mut ids)).collect(),
        trust: verdict::trust(results, view),
        main_figure,
        main_table: tables::main(view, &main),
        hints: view::hints(results),
        expected: expectations::judge(&extras.expectations, results).iter().map(Into::into).collect(),
        tests,
        ledgers,
        invalid: tables::invalid(view),
        remarks: tables::remarks(view),
        calibration: crate::about::calibration(results),
        ticks: crate::about::ticks(results),
        machine: crate::about::machine(results),
    }
}

fn test_part(
    results: &Results,
    view: &View<'_>,
    test: &Test<'_>,
    extras: &Extras,
    ids: &mut Ids,
) -> TestPart {
    let rate = |b: &&Block<'_>| matches!(b.metric, Metric::Throughput | Metric::ConnectionRate);
    let cpu_block = test.blocks.iter().find(rate).or(test.blocks.first());
    let cpu_table = cpu_block.map(tables::cpu).filter(|t| !t.rows.is_empty());
    let cpu_figure = cpu_block.and_then(|b| figures::cpu(b, ids));
    let sheets = layout::sheets(view, test, extras);
    TestPart {
        id: slug(test.name),
        name: test.name.into(),
        title: extras.test_title(test.name).unwrap_or_default().into(),
        constant: constant(test),
        blocks: test.blocks.iter().map(|b| block_part(view, b, test, ids)).collect(),
        connections: connections::tables(test),
        mixes: mixes::tables(results, test),
        curves: match extras.layout(test.name) {
            Layout::Poliwall => seconds::poliwall(view, test, ids),
            _ => Vec::new(),
        },
        sheets: sheets
            .into_iter()
            .map(|s| SheetPart { table: s.table, printed: s.printed, wide: s.wide })
            .collect(),
        cpu_figure,
        cpu_table,
        searches: searches::table(test),
        trials: trials::of_test(test),
    }
}

fn constant(test: &Test<'_>) -> String {
    let Some(block) = test.blocks.first() else { return String::new() };
    let constant = block.constant();
    level::phrases(constant.iter().map(|(k, v)| (k.as_str(), v)))
}

fn block_part(view: &View<'_>, block: &Block<'_>, test: &Test<'_>, ids: &mut Ids) -> BlockPart {
    let (together, _) = block.parts();
    let (differs, level) = differ::split(figures::groups(&together), block.metric);
    let same = match verdict::restates(test, block) {
        true => {
            Some(format!("{} says the same as the throughput, in bits a second.", block.metric.row().title))
        }
        false => differ::same(&level),
    };
    let part = |shown, folded| BlockPart {
        name: block.metric.row().title,
        sentence: block.sentence(),
        same: same.clone(),
        shown,
        folded,
    };
    if differs.settings.is_empty() && same.is_some() || verdict::restates(test, block) {
        return part(None, Some(body(view, (block, &together), test, ids)));
    }
    let shown = body(view, (block, &differs), test, ids);
    let folded = same.is_some().then(|| Body {
        figures: figures::of_block(view, &level, test.name, ids),
        table: table_of(view, &level),
        ..Body::default()
    });
    part(Some(shown), folded)
}

fn table_of(view: &View<'_>, block: &Block<'_>) -> Option<Table> {
    (!block.settings.is_empty()).then(|| tables::block(view, block))
}

/// Charts and values of `some` settings of a block, and what else there is to show of all of them.
fn body(view: &View<'_>, (block, some): (&Block<'_>, &Block<'_>), test: &Test<'_>, ids: &mut Ids) -> Body {
    let mut figures = figures::of_block(view, some, test.name, ids);
    let mut more = figures::ladders(view, some, ids);
    figures.extend(more.drain(..more.len().min(LADDERS_SHOWN)));
    Body {
        figures,
        more,
        table: table_of(view, some),
        contrasts: contrast::tables(block),
        latency: tables::latency(block),
        apart: tables::apart(view, block),
        lanes: lanes::tables(view, test, block),
        lanes_open: block.metric == Metric::Latency,
        seconds: seconds::of_block(view, test, block, ids),
    }
}

/// A name that may stand in a link.
fn slug(name: &str) -> String {
    let safe = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    format!("test-{}", safe.collect::<String>())
}
