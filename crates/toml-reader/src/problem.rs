//! What is wrong with a text: where, what, and what would be right.

use crate::words::{printable, suggestion_from};
use miette::{Diagnostic, NamedSource, SourceSpan};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// One mistake in a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error("{file}:{line}:{column}: {message}")]
pub struct Problem {
    /// File as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    #[help]
    pub help: Option<String>,
    /// The bytes of the text that are wrong.
    #[label("here")]
    pub span: SourceSpan,
}

/// Every mistake in a text, in the order of the text; never empty, and at most [`MAX_PROBLEMS`] and one that says so.
#[derive(Debug, Clone, thiserror::Error, Diagnostic)]
pub struct Problems {
    #[source_code]
    source_text: NamedSource<String>,
    #[related]
    list: Vec<Problem>,
}

impl Problems {
    /// One problem at some bytes of a text.
    pub fn one(file: &str, text: &str, span: Range<usize>, message: String, help: Option<String>) -> Self {
        let mut collector = Collector::new(file, text);
        collector.report(span, message, help);
        collector.into_problems()
    }

    /// The problems as miette's reports, each with the text, for a terminal that draws the lines in question. [`Display`]
    /// writes the same problems as plain lines.
    ///
    /// [`Display`]: fmt::Display
    pub fn reports(&self) -> impl Iterator<Item = miette::Report> {
        let text = drawn(self.source_text.inner());
        self.list.iter().map(move |problem| {
            let report = miette::Report::new(problem.clone());
            match is_drawable(&text, problem.line) {
                true => report.with_source_code(NamedSource::new(&problem.file, text.clone())),
                false => report,
            }
        })
    }

    /// The problems.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
}

/// The longest line that is drawn, in bytes. A file on a single line, which somebody gave by mistake, would fill the terminal with itself.
const MAX_DRAWN: usize = 400;

/// Whether the lines that are drawn for a problem on this one, from 1, are such as a person reads: it and its neighbours.
fn is_drawable(text: &str, line: usize) -> bool {
    text.split('\n').skip(line.saturating_sub(2)).take(3).all(|line| line.len() <= MAX_DRAWN)
}

/// A text for a terminal, with every byte where it was: what would move the cursor is another character of the same length.
fn drawn(text: &str) -> String {
    let stand_in = |c: char| match c {
        '\n' | '\t' => c,
        _ if c.is_control() => {
            if c.len_utf8() == 1 {
                '?'
            } else {
                '·'
            }
        }
        _ => c,
    };
    text.chars().map(stand_in).collect()
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
            if let Some(help) = &problem.help {
                write!(f, "\n  {help}")?;
            }
        }
        Ok(())
    }
}

/// The most problems that are reported of one text. A text with more is hardly a suite or a policy, and the search for what
/// each of a hundred thousand wrong words might have meant would take minutes.
pub const MAX_PROBLEMS: usize = 200;

/// Where a key belongs that stands in a table, as messages call that, which does not have it: `None` where it belongs nowhere.
pub type Home = fn(key: &str, table: &str) -> Option<String>;

/// Collects the problems of one text while the text is read.
pub struct Collector<'t> {
    places: Places<'t>,
    elsewhere: &'static [(&'static str, &'static str)],
    home: Home,
    list: Vec<Problem>,
    refused: BTreeSet<String>,
}

impl<'t> Collector<'t> {
    /// A collector without problems. `file` is how messages call the text.
    pub fn new(file: &'t str, text: &'t str) -> Self {
        Self::knowing(&[], file, text)
    }

    /// A collector that also suggests by a table of words: what other programs call something, and what it is called here.
    pub fn knowing(elsewhere: &'static [(&'static str, &'static str)], file: &'t str, text: &'t str) -> Self {
        let places = Places::new(file, text);
        Self { places, elsewhere, home: |_, _| None, list: Vec::new(), refused: BTreeSet::new() }
    }

    /// The same collector, which says of a key in the wrong table where it belongs.
    pub fn with_home(self, home: Home) -> Self {
        Self { home, ..self }
    }

    pub(crate) fn text(&self) -> &'t str {
        self.places.text
    }

    /// Whether there are [`MAX_PROBLEMS`] already, so that there is no use in reading on.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_PROBLEMS
    }

    /// Says that nothing is read from here on, because there are [`MAX_PROBLEMS`].
    pub fn stop(&mut self, span: Range<usize>) {
        self.report(span, String::new(), None);
    }

    /// Adds a problem. The one after [`MAX_PROBLEMS`] is replaced by a problem that says so, and later ones are not kept.
    pub fn report(&mut self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        if self.list.len() > MAX_PROBLEMS {
            return;
        }
        if self.list.len() == MAX_PROBLEMS {
            let message = format!("{MAX_PROBLEMS} problems were found, and there may be more");
            let help = Some("the rest of the text was not checked: correct these first".to_owned());
            self.list.push(self.places.problem(span, message, help));
            return;
        }
        self.list.push(self.places.problem(span, message.into(), help));
    }

    /// Remembers a name whose definition was refused, so that whatever names it need not be refused for that as well.
    pub fn refuse(&mut self, name: &str) {
        self.refused.insert(name.to_owned());
    }

    /// Whether the text defines such a name, in a way that was refused where it stands.
    pub fn has_refused(&self, name: &str) -> bool {
        self.refused.contains(name)
    }

    /// What a wrong word probably means: see [`suggestion_from`]. `None` when the collector is full, because a suggestion
    /// takes time and nobody would read it.
    pub fn suggestion<'a>(&self, word: &str, choice: impl IntoIterator<Item = &'a str>) -> Option<String> {
        (!self.is_full()).then(|| suggestion_from(self.elsewhere, word, choice))
    }

    /// What to do about a key that a table does not have: another program's word has its own here, a key of another table belongs there,
    /// and any other word is probably one of those that are `known`.
    pub(crate) fn about_key(&self, key: &str, table: &str, known: &[&str]) -> Option<String> {
        let has_word = self.elsewhere.iter().any(|(other, here)| *other == key && known.contains(here));
        let home = if has_word || self.is_full() { None } else { (self.home)(key, table) };
        home.or_else(|| self.suggestion(key, known.iter().copied()))
    }

    /// Whether nothing has been reported.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The problems in the order of the text.
    pub fn into_problems(mut self) -> Problems {
        self.list.sort_by_key(|p| p.span.offset());
        let source_text = NamedSource::new(self.places.file, self.places.text.to_owned());
        Problems { source_text, list: self.list }
    }
}

/// Turns bytes of a text into lines and columns, by an index of the lines.
pub struct Places<'t> {
    file: &'t str,
    text: &'t str,
    line_starts: Vec<usize>,
}

impl<'t> Places<'t> {
    /// The places of a text. `file` is how problems call the text.
    pub fn new(file: &'t str, text: &'t str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Self { file, text, line_starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// A problem at some bytes of the text. A byte beyond the end, or inside a character, counts as the nearest place before
    /// it. Words of the text in the message, which may be hostile, begin no line and move no cursor.
    pub fn problem(&self, span: Range<usize>, message: String, help: Option<String>) -> Problem {
        let (line, column) = self.line_and_column(span.start);
        let (file, message, help) =
            (printable(self.file), printable(&message), help.as_deref().map(printable));
        Problem { file, line, column, message, help, span: span.into() }
    }

    fn line_and_column(&self, byte: usize) -> (usize, usize) {
        let mut end = byte.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let line = self.line_starts.partition_point(|start| *start <= end);
        let start = self.line_starts[line - 1];
        (line, self.text[start..end].chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_words_begin_no_line_and_move_no_cursor() {
        let text = "\u{1b}[31m\u{85}x\ny";
        let help = Some("did you mean `\u{202e}`?".to_owned());
        let problems = Problems::one("a\nb", text, 0..1, format!("`{text}` is wrong"), help);
        let shown = problems.to_string();
        assert_eq!(shown, "a\\u{a}b:1:1: `\\u{1b}[31m\\u{85}x\\u{a}y` is wrong\n  did you mean `\\u{202e}`?");
        for report in problems.reports() {
            assert!(!format!("{report:?}").contains(['\u{1b}', '\u{85}', '\u{202e}']), "{report:?}");
        }
        assert_eq!(drawn(text).len(), text.len());
    }

    #[test]
    fn lines_that_nobody_reads_are_not_drawn() {
        let long = "x".repeat(MAX_DRAWN + 1);
        for (text, at, drawn) in [
            ("a\nb\nc", 2, true),
            (&*format!("a\nb\nc\n{long}"), 2, true),
            (&*format!("a\nb\n{long}"), 2, false),
            (&*format!("{long}\nb"), MAX_DRAWN + 2, false),
            (&*format!("{long}{long}"), MAX_DRAWN, false),
        ] {
            let problems = Problems::one("f", text, at..at + 1, "wrong".to_owned(), None);
            let lines: Vec<_> = problems.reports().map(|report| report.source_code().is_some()).collect();
            assert_eq!(lines, [drawn], "{} bytes", text.len());
        }
    }

    #[test]
    fn places_count_characters_and_never_fall_outside() {
        let places = Places::new("f", "äb\ncd\n");
        for (byte, expected) in
            [(0, (1, 1)), (1, (1, 1)), (2, (1, 2)), (4, (2, 1)), (6, (2, 3)), (7, (3, 1)), (99, (3, 1))]
        {
            assert_eq!(places.line_and_column(byte), expected, "byte {byte}");
        }
    }

    #[test]
    fn problems_beyond_the_most_are_summed_up_in_one() {
        let text = "x".repeat(MAX_PROBLEMS + 5);
        let mut c = Collector::new("f", &text);
        for byte in 0..text.len() {
            assert_eq!(c.suggestion("sorce", ["source"]).is_some(), byte < MAX_PROBLEMS);
            c.report(byte..byte + 1, "wrong", None);
        }
        let problems = c.into_problems();
        let messages: Vec<&str> = problems.list().iter().map(|p| p.message.as_str()).collect();
        assert_eq!(messages[..MAX_PROBLEMS], ["wrong"; MAX_PROBLEMS]);
        assert_eq!(messages[MAX_PROBLEMS..], ["200 problems were found, and there may be more"]);
    }
}
