//! What a run prints and what a report shows beside the results.

use crate::failure::Failure;
use measure::results::Results;
use measure::suite::Suite;
use report::Extras;
use report::terminal::{self, Options};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

/// Columns where the terminal does not say.
const WIDTH: u16 = 110;

/// Titles, layouts and printed figures that a suite brings along.
pub(crate) fn extras(suite: &Suite) -> Result<Extras, Failure> {
    Extras::of_suite(suite).map_err(|e| Failure::Wrong(e.to_string()))
}

/// Those of the suite that a run names, where it is a built-in one.
pub(crate) fn extras_of(results: &Results) -> Extras {
    let text = measure::suite::builtin(&results.suite);
    let suite = text.and_then(|text| Suite::parse(&results.suite, text).ok());
    suite.and_then(|suite| extras(&suite).ok()).unwrap_or_default()
}

/// How wide the terminal is, and whether it takes colour.
pub(crate) fn terminal_options() -> Options {
    let terminal = std::io::stdout().is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none();
    let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(WIDTH);
    Options { colour, width, reference: None }
}

/// The end of a run: its table, or its results as JSON, and where the files are.
pub(crate) fn print(results: &Results, paths: &[PathBuf], json: bool) {
    if json {
        if let Ok(text) = report::json::to_string(results) {
            out(&text);
        }
        return;
    }
    out(&terminal::table(results, &terminal_options()));
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
    let text =
        serde_json::to_string_pretty(value).map_err(|e| Failure::Wrong(format!("cannot write JSON: {e}")))?;
    out(&format!("{text}\n"));
    Ok(())
}
