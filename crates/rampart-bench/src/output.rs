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

/// How wide the terminal is, and whether it takes colour.
pub(crate) fn terminal_options() -> Options {
    let terminal = std::io::stdout().is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none();
    let set = || std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let seen = console::Term::stdout().size_checked().map(|(_, columns)| columns);
    let width = seen.or_else(set).unwrap_or(WIDTH);
    Options { colour, width, ..Options::default() }
}

/// What a run measured: its tables, or its results as JSON, and where the files are.
pub(crate) fn print(results: &Results, paths: &[PathBuf], json: bool) {
    if json {
        if let Ok(text) = report::json::to_string(results) {
            out(&text);
        }
        return;
    }
    out(&terminal::tables(results, &terminal_options()));
    for path in paths {
        out(&format!("{}\n", path.display()));
    }
}

/// The end of a run: its answers.
pub(crate) fn print_ending(results: &Results, extras: Extras, json: bool) {
    if !json {
        let options = Options { questions: extras.questions, ..terminal_options() };
        out(&terminal::ending(results, &options));
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
