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
    let variable = |name: &str| std::env::var(name).ok();
    let terminal = takes_commands(std::io::stdout().is_terminal(), variable("TERM").as_deref());
    let colour = terminal && variable("NO_COLOR").is_none_or(|set| set.is_empty());
    Options { colour, width: columns().unwrap_or(WIDTH), ..Options::default() }
}

/// How wide the terminal is, if there is one or somebody says so.
pub(crate) fn columns() -> Option<u16> {
    let set = || std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let seen = console::Term::stdout().size_checked().map(|(_, columns)| columns);
    seen.or_else(set)
}

/// Whether colours and movements of the cursor are understood: not in a file, and not by a terminal that says so (`TERM=dumb`), such as
/// that of an editor.
pub(crate) fn takes_commands(is_terminal: bool, kind: Option<&str>) -> bool {
    is_terminal && kind.is_some_and(|kind| !kind.is_empty() && kind != "dumb")
}

/// What a run measured: its tables, or its results as JSON, and where the files are.
pub(crate) fn print(results: &Results, paths: &[PathBuf], json: bool) {
    if json {
        if let Ok(text) = report::json::to_string(results) {
            out_bytes(text.as_bytes());
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

/// Writes to standard output; whether all of it found its place, [`finish`] says. Results may be somebody else's, so nothing in them
/// reaches the terminal as a command.
pub(crate) fn out(text: &str) {
    out_bytes(harmless(text).as_bytes());
}

/// A text for a terminal, of which it shows every character but executes none: only our own colours stay, and ends of lines.
pub(crate) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| !matches!(c, '\n' | '\t') && toml_reader::is_harmful(c)) {
        let colour = colour(&rest[at..]);
        let harmful = rest[at..].chars().next().map_or(0, char::len_utf8);
        let end = at + colour.max(harmful);
        out += &rest[..at];
        match colour {
            0 => out += &toml_reader::printable(&rest[at..end]),
            _ => out += &rest[at..end],
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Bytes of the colour that a text begins with: ESC, `[`, numbers, `m`. None where it begins with something else.
fn colour(text: &str) -> usize {
    let inner = text.strip_prefix("\u{1b}[").unwrap_or_default();
    let numbers = inner.bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
    if inner[numbers..].starts_with('m') { "\u{1b}[".len() + numbers + 1 } else { 0 }
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
    out_bytes(format!("{text}\n").as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_understands_nothing_is_a_file() {
        for (is_terminal, kind, expected) in [
            (true, Some("xterm-256color"), true),
            (true, Some("linux"), true),
            (true, Some("dumb"), false),
            (true, Some(""), false),
            (true, None, false),
            (false, Some("xterm"), false),
        ] {
            assert_eq!(takes_commands(is_terminal, kind), expected, "{is_terminal} {kind:?}");
        }
    }

    #[test]
    fn a_terminal_gets_colours_and_ends_of_lines_and_no_other_command() {
        let rows = [
            ("plain \u{1b}[1;31mred\u{1b}[0m 1.5×\n", "plain \u{1b}[1;31mred\u{1b}[0m 1.5×\n"),
            ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
            ("\u{1b}[2J\u{1b}[", r"\u{1b}[2J\u{1b}["),
            ("\u{1b}[31", r"\u{1b}[31"),
            ("a\rb\u{9b}2J\u{202e}c\0", r"a\u{d}b\u{9b}2J\u{202e}c\u{0}"),
            ("", ""),
        ];
        for (text, shown) in rows {
            assert_eq!(harmless(text), shown);
        }
    }
}
