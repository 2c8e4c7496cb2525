//! What a run prints and what a report shows beside the results.

use crate::failure::Failure;
use measure::published;
use measure::results::Results;
use measure::suite::{Layout as SuiteLayout, Suite};
use report::terminal::{self, Options};
use report::{Extras, Layout, Printed};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

/// Columns where the terminal does not say.
const WIDTH: u16 = 110;

/// Titles, layout and printed figures that a suite brings along.
pub(crate) fn extras(suite: &Suite) -> Extras {
    let layout = suite.tests.iter().find_map(|test| match test.layout {
        SuiteLayout::Eantc => Some(Layout::Eantc),
        SuiteLayout::Tolly => Some(Layout::Tolly),
        SuiteLayout::Plain => None,
    });
    Extras {
        layout,
        printed: suite.published.as_deref().map(printed).unwrap_or_default(),
        titles: suite.tests.iter().map(|t| (t.name.clone(), t.title.clone())).collect(),
        reference: None,
    }
}

/// Those of the suite that a run names, where it is a built-in one.
pub(crate) fn extras_of(results: &Results) -> Extras {
    let text = measure::suite::builtin(&results.suite);
    let suite = text.and_then(|text| Suite::parse(&results.suite, text).ok());
    suite.as_ref().map(extras).unwrap_or_default()
}

fn printed(name: &str) -> Vec<Printed> {
    let Ok(published) = published::load(name) else { return Vec::new() };
    let title = match published.year {
        Some(year) => format!("{} ({}, {year})", published.title, published.publisher),
        None => format!("{} ({})", published.title, published.publisher),
    };
    published
        .rows
        .iter()
        .filter(|row| row.test.is_some())
        .filter_map(|row| {
            let (metric, value) = row.in_schema()?;
            Some(Printed {
                report: title.clone(),
                firewall: row.firewall.clone(),
                place: row.place.clone(),
                factors: row.arranged(),
                metric,
                value,
                unit: metric.unit().to_owned(),
            })
        })
        .collect()
}

/// How wide the terminal is, and whether it takes colour.
pub(crate) fn terminal_options() -> Options {
    let terminal = std::io::stdout().is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none();
    let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(WIDTH);
    Options { colour, width, reference: None }
}

/// The end of a run: its table, or its results as JSON, and where the files are.
pub(crate) fn print(results: &Results, extras: &Extras, paths: &[PathBuf], json: bool) {
    if json {
        if let Ok(text) = report::json::to_string(results) {
            out(&text);
        }
        return;
    }
    let options = Options { reference: extras.reference.clone(), ..terminal_options() };
    out(&terminal::table(results, &options));
    for path in paths {
        out(&format!("{}\n", path.display()));
    }
}

/// Writes to standard output; a reader that went away is no fault of ours.
pub(crate) fn out(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// A value as pretty JSON on standard output.
pub(crate) fn out_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::Wrong(format!("cannot write JSON: {e}")))?;
    out(&format!("{text}\n"));
    Ok(())
}
