//! `report.md`: the whole report as GitHub-flavoured Markdown, for a repository or a ticket. No charts; every table.

use crate::layout;
use crate::table::md;
use crate::view::{self, View};
use crate::{
    Extras, about, connections, contrast, differ, expectations, lanes, mixes, questions, searches, tables,
    verdict,
};
use measure::level;
use measure::results::{Metric, Results};
use std::fmt::Write as _;

/// The report as Markdown.
pub fn to_string(results: &Results, extras: &Extras) -> String {
    let view = View::new(results, extras.reference.as_deref());
    let mut out = String::new();
    head(&mut out, results, extras);
    summary(&mut out, results, &view, extras);
    for test in &view.tests {
        test_section(&mut out, results, &view, test, extras);
    }
    let expected = expectations::judge(&extras.expectations, results);
    if !expected.is_empty() {
        let _ = writeln!(out, "\n## Expectations\n\n{}", expectations::table(&expected).markdown());
    }
    if let Some(published) = &extras.published {
        let _ = writeln!(
            out,
            "\n## Printed in the original report\n\n{}",
            layout::all_printed(published).markdown()
        );
    }
    ledger(&mut out, &view);
    machine(&mut out, results);
    out
}

fn head(out: &mut String, results: &Results, extras: &Extras) {
    let _ = writeln!(out, "# {}\n", md(extras.title.as_deref().unwrap_or(&results.suite)));
    for text in [&extras.summary, &extras.source].into_iter().flatten() {
        let _ = writeln!(out, "{}\n", md(text.trim()));
    }
    let _ = writeln!(
        out,
        "Suite {}, profile {}, started {}, on {}.\n",
        md(&results.suite),
        md(&results.profile),
        md(&results.started),
        md(&results.environment.cpu)
    );
    if !results.complete {
        let _ = writeln!(out, "> **This run did not finish.** What is here was measured before it ended.\n");
    }
}

fn summary(out: &mut String, results: &Results, view: &View<'_>, extras: &Extras) {
    let _ = writeln!(out, "## Summary\n");
    let said = verdict::summary(results, view);
    let _ = writeln!(out, "**{}**\n", md(&said.headline));
    if !said.setting.is_empty() {
        let _ = writeln!(out, "<sub>{}</sub>\n", md(&said.setting));
    }
    for sentence in said.firewalls.iter().chain(&said.more) {
        let _ = writeln!(out, "- {}", md(sentence));
    }
    for answer in questions::answers(&extras.questions, view) {
        let _ = writeln!(out, "\n### {}\n\n**{}**", md(answer.ask), md(&answer.sentence));
        if let Some(table) = answer.table {
            let _ = writeln!(out, "\n{}", table.markdown());
        }
    }
    let _ = writeln!(out, "\n### Can I trust it?\n\n| | | |\n|---|---|---|");
    for line in verdict::trust(results, view) {
        let _ = writeln!(out, "| {} | {} | {} |", md(line.what), md(&line.found), line.state);
    }
    let main = verdict::main_settings(view);
    if !main.is_empty() {
        let _ = writeln!(out, "\n{}", tables::main(view, &main).markdown());
    }
    let _ = writeln!(out, "\n{}", view::hints(results).join("\n"));
}

fn test_section(
    out: &mut String,
    results: &Results,
    view: &View<'_>,
    test: &view::Test<'_>,
    extras: &Extras,
) {
    let _ = writeln!(out, "\n## {}\n", md(test.name));
    if let Some(title) = extras.test_title(test.name) {
        let _ = writeln!(out, "{}\n", md(title));
    }
    for block in &test.blocks {
        let _ = writeln!(out, "### {}\n\n{}\n", block.metric.row().title, block.sentence());
        let constant = block.constant();
        let levels = level::phrases(constant.iter().map(|(k, v)| (k.as_str(), v)));
        if !levels.is_empty() {
            let _ = writeln!(out, "The same in every point: {}.\n", md(&levels));
        }
        let (together, _) = block.parts();
        let same = differ::same(&together);
        if let Some(same) = &same {
            let _ =
                writeln!(out, "**{}**\n\n<details><summary>Tables of what is the same</summary>\n", md(same));
        }
        if !together.settings.is_empty() {
            let _ = writeln!(out, "{}", tables::block(view, &together).markdown());
        }
        for table in contrast::tables(block) {
            let _ = writeln!(out, "{}", table.markdown());
        }
        if let Some(table) = tables::latency(block) {
            let _ = writeln!(out, "{}", table.markdown());
        }
        for table in tables::apart(view, block) {
            let _ = writeln!(out, "{}", table.markdown());
        }
        for table in lanes::tables(view, test, block).iter().filter(|_| block.metric == Metric::Latency) {
            let _ = writeln!(out, "{}", table.markdown());
        }
        if same.is_some() {
            let _ = writeln!(out, "</details>\n");
        }
    }
    let mixes = mixes::tables(results, test);
    if !mixes.is_empty() {
        let _ = writeln!(out, "### The parts of the mix\n");
    }
    for table in mixes {
        let _ = writeln!(out, "{}", table.markdown());
    }
    if let Some(table) = searches::table(test) {
        let _ = writeln!(out, "{}", table.markdown());
    }
    let connections = connections::tables(test);
    if !connections.is_empty() {
        let _ = writeln!(out, "### Connections of the deciding trials\n");
    }
    for table in connections {
        let _ = writeln!(out, "{}", table.markdown());
    }
    let sheets = layout::sheets(view, test, extras);
    if !sheets.is_empty() {
        let _ = writeln!(out, "### In the layout of the original report\n");
    }
    for sheet in sheets {
        let _ = writeln!(out, "{}", sheet.table.markdown());
    }
}

fn ledger(out: &mut String, view: &View<'_>) {
    let _ = writeln!(out, "## Loss ledger\n");
    for test in &view.tests {
        let _ = writeln!(out, "{}", tables::ledger(view, test.name).markdown());
    }
    let _ = writeln!(out, "## Invalid points and remarks\n");
    let invalid = tables::invalid(view);
    if invalid.rows.is_empty() {
        let _ = writeln!(out, "Every point is valid.\n");
    } else {
        let _ = writeln!(out, "{}", invalid.markdown());
    }
    for remark in tables::remarks(view) {
        let _ = writeln!(out, "- {}", md(&remark));
    }
}

fn machine(out: &mut String, results: &Results) {
    let env = &results.environment;
    let _ = writeln!(out, "## The machine\n\n| | |\n|---|---|");
    for (name, value) in about::machine(results) {
        let _ = writeln!(out, "| {name} | {} |", md(&value));
    }
    for map in [&env.versions, &env.settings, &env.mitigations] {
        for (name, value) in map {
            let _ = writeln!(out, "| {} | {} |", md(name), md(value));
        }
    }
    for remark in &env.remarks {
        let _ = writeln!(out, "\n{}", md(remark));
    }
    if !results.calibration.is_empty() {
        let _ = writeln!(out, "\n{}", about::calibration(results).markdown());
    }
    if !results.tick_sheet.is_empty() {
        let _ = writeln!(out, "\n## Standards\n\n{}", about::ticks(results).markdown());
    }
    let _ = writeln!(out, "\n## How to repeat it\n\n```\n{}\n```\n\nSeed {}.", results.command, results.seed);
}
