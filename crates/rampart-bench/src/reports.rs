//! `report` and `compare`: everything about runs that are over.

use crate::cli::FormatName;
use crate::failure::Failure;
use crate::output;
use report::compare::{self, Comparison, Matched, Several};
use report::expr::{self, Mode};
use report::{Extras, Format};
use std::path::{Path, PathBuf};

/// `report DIR`.
pub(crate) fn report(dir: &Path, format: Option<FormatName>, json: bool) -> Result<(), Failure> {
    let results = report::load(dir)?;
    let extras = Extras::of_results(&results);
    match format {
        Some(FormatName::Pdf) => {
            crate::pdf::print(dir, &report::render(&results, Format::Html, &extras)?)?;
        }
        Some(format) => output::out_bytes(report::render(&results, named(format), &extras)?.as_bytes()),
        None => {
            let written = report::write_all(dir, &results, &extras)?;
            if json {
                return output::out_json(&serde_json::json!({ "files": written }));
            }
            for path in written {
                output::out(&format!("{}\n", path.display()));
            }
        }
    }
    Ok(())
}

const fn named(format: FormatName) -> Format {
    match format {
        FormatName::Html | FormatName::Pdf => Format::Html,
        FormatName::Md => Format::Markdown,
        FormatName::Csv => Format::Csv,
        FormatName::Json => Format::Json,
    }
}

/// One pair of points, for `--json`.
#[derive(serde::Serialize)]
struct Pair<'a> {
    /// What both were measured under.
    cell: &'a measure::results::Cell,
    old: &'a measure::results::Point,
    new: &'a measure::results::Point,
    /// New / old; absent when a point is invalid.
    ratio: Option<f64>,
    intervals_overlap: Option<bool>,
}

/// One run against the reference, for `--json`: a list of these, also of two runs.
#[derive(serde::Serialize)]
struct Against<'a> {
    reference: &'a str,
    run: &'a str,
    pairs: Vec<Pair<'a>>,
}

/// `compare REFERENCE RUN…`: `--fail-if` looks at each run against the reference.
pub(crate) fn compare(
    runs: &[PathBuf],
    reference: Option<&Path>,
    fail_if: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    let condition =
        fail_if.map(expr::parse).transpose().map_err(|e| Failure::Wrong(format!("--fail-if: {e}")))?;
    let reference = reference.unwrap_or(&runs[0]);
    // A run that is named as the reference may stand among the others, and is not compared with itself.
    let first = runs.iter().position(|run| run == reference);
    let others: Vec<&PathBuf> =
        runs.iter().enumerate().filter(|(at, _)| Some(*at) != first).map(|(_, run)| run).collect();
    let old = report::load(reference)?;
    let new = others.iter().map(|run| report::load(run)).collect::<Result<Vec<_>, _>>()?;
    let named = others.iter().map(|run| run.display().to_string());
    let compared = named.zip(&new).map(|(name, new)| (name, compare::compare(&old, new))).collect();
    let several = Several { reference: reference.display().to_string(), others: compared };
    if json {
        let against = |(run, comparison): &'_ (String, Comparison<'_>)| {
            json_of(&Against { reference: &several.reference, run, pairs: pairs(comparison) })
        };
        output::out_json(&several.others.iter().map(against).collect::<Result<Vec<_>, _>>()?)?;
    } else {
        output::out(&several.text(&output::terminal_options()));
    }
    let Some(condition) = condition else { return Ok(()) };
    let mut because = Vec::new();
    for (name, comparison) in &several.others {
        let of = if several.others.len() > 1 { format!("{name}: ") } else { String::new() };
        let outcome = expr::evaluate(&condition, &comparison.subjects(), Mode::Any)
            .map_err(|e| Failure::Wrong(format!("--fail-if: {of}{e}")))?;
        for case in &outcome.unusable {
            crate::say(&format!("not judged: {of}{case}"));
        }
        if outcome.holds() {
            because.extend(outcome.because.iter().map(|case| format!("{of}{case}")));
        }
    }
    if because.is_empty() {
        return Ok(());
    }
    Err(Failure::Expectation(format!("--fail-if {} is true:\n  {}", condition.text(), because.join("\n  "))))
}

fn pairs<'a>(comparison: &'a Comparison<'_>) -> Vec<Pair<'a>> {
    let pair = |m: &'a Matched<'_>| Pair {
        cell: m.new.cell,
        old: m.old.point,
        new: m.new.point,
        ratio: m.ratio().map(|r| r.value),
        intervals_overlap: m.overlap(),
    };
    comparison.matched.iter().map(pair).collect()
}

fn json_of(value: &impl serde::Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(value).map_err(|e| Failure::Wrong(format!("cannot write JSON: {e}")))
}
