//! What a run prints and what a report shows beside the results.

use crate::failure::Failure;
use measure::results::Results;
use measure::suite::Suite;
use report::Extras;
use report::terminal::{self, Options};
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::OnceLock;

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

/// Why something that was printed is lost, the first time.
static LOST: OnceLock<String> = OnceLock::new();

/// Writes to standard output; whether all of it found its place, [`finish`] says.
pub(crate) fn out(text: &str) {
    out_bytes(text.as_bytes());
}

/// The same of bytes.
pub(crate) fn out_bytes(bytes: &[u8]) {
    note(std::io::stdout().write_all(bytes));
}

/// A reader that went away is no fault of ours; a disk without room is one that the user must know of.
fn note(result: std::io::Result<()>) {
    if let Some(error) = result.err().filter(|error| error.kind() != ErrorKind::BrokenPipe) {
        let _ = LOST.set(error.to_string());
    }
}

/// Hands on what still waits.
///
/// # Errors
/// Something was lost that somebody still reads.
pub(crate) fn finish() -> Result<(), Failure> {
    note(std::io::stdout().flush());
    match LOST.get() {
        None => Ok(()),
        Some(why) => Err(Failure::Machine(format!("what was printed is not whole: {why}"))),
    }
}

/// A value as pretty JSON on standard output.
pub(crate) fn out_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text =
        serde_json::to_string_pretty(value).map_err(|e| Failure::Wrong(format!("cannot write JSON: {e}")))?;
    out(&format!("{text}\n"));
    Ok(())
}
