//! `report` and `compare`: everything about runs that are over.

use crate::cli::FormatName;
use crate::failure::Failure;
use crate::output;
use report::expr::{self, Mode};
use report::{Format, compare};
use std::path::Path;

/// `report DIR`.
pub(crate) fn report(dir: &Path, format: Option<FormatName>) -> Result<(), Failure> {
    let results = report::load(dir)?;
    let extras = output::extras_of(&results);
    match format {
        Some(format) => output::out(&report::render(&results, named(format), &extras)?),
        None => {
            for path in report::write_all(dir, &results, &extras)? {
                output::out(&format!("{}\n", path.display()));
            }
        }
    }
    Ok(())
}

const fn named(format: FormatName) -> Format {
    match format {
        FormatName::Html => Format::Html,
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

/// `compare OLD NEW`.
pub(crate) fn compare(old: &Path, new: &Path, fail_if: Option<&str>, json: bool) -> Result<(), Failure> {
    let condition =
        fail_if.map(expr::parse).transpose().map_err(|e| Failure::Wrong(format!("--fail-if: {e}")))?;
    let (old, new) = (report::load(old)?, report::load(new)?);
    let comparison = compare::compare(&old, &new);
    if json {
        let pairs: Vec<Pair<'_>> = comparison
            .matched
            .iter()
            .map(|m| Pair {
                cell: m.new.cell,
                old: m.old.point,
                new: m.new.point,
                ratio: m.ratio().map(|r| r.value),
                intervals_overlap: m.overlap(),
            })
            .collect();
        output::out_json(&pairs)?;
    } else {
        output::out(&comparison.text(&output::terminal_options()));
    }
    let Some(condition) = condition else { return Ok(()) };
    let outcome = expr::evaluate(&condition, &comparison.subjects(), Mode::Any)
        .map_err(|e| Failure::Wrong(format!("--fail-if: {e}")))?;
    for case in &outcome.unusable {
        crate::say(&format!("not judged: {case}"));
    }
    if outcome.holds() {
        return Err(Failure::Expectation(format!(
            "--fail-if {} is true:\n  {}",
            condition.text(),
            outcome.because.join("\n  ")
        )));
    }
    Ok(())
}
