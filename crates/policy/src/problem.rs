//! What is wrong with a text: where, what, and what would be right. Several problems are told at once.
//!
//! The bench's suites have a type of the same kind in `measure`. They are two on purpose: the firewall knows nothing of
//! the bench, and forty lines are not worth a crate between them.

use miette::{Diagnostic, NamedSource, SourceSpan};
use std::fmt;
use std::ops::Range;

/// One thing wrong with a text, or worth a warning.
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
    /// Bytes of the text that it is about.
    #[label("here")]
    pub span: SourceSpan,
}

/// Everything wrong with a text, in the order of the text; never empty.
#[derive(Debug, Clone, thiserror::Error, Diagnostic)]
pub struct Problems {
    #[source_code]
    source_text: NamedSource<String>,
    #[related]
    list: Vec<Problem>,
}

impl Problems {
    /// The problems.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
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

/// Problems told of one text. Beyond it a text is hardly a policy, and searching for what each of a hundred thousand words
/// might have meant would take minutes.
pub(crate) const MAX_PROBLEMS: usize = 200;

/// Collects the problems of one text while it is read.
pub(crate) struct Collector<'t> {
    places: Places<'t>,
    list: Vec<Problem>,
}

impl<'t> Collector<'t> {
    pub(crate) fn new(file: &'t str, text: &'t str) -> Self {
        Self { places: Places::new(file, text), list: Vec::new() }
    }

    /// Whether so much is wrong that reading on would not help anyone: see [`MAX_PROBLEMS`].
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MAX_PROBLEMS
    }

    /// Tells a problem; the one past [`MAX_PROBLEMS`] says that there may be more, and those after it are not kept.
    pub(crate) fn report(&mut self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
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

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn into_problems(mut self) -> Problems {
        self.list.sort_by_key(|p| p.span.offset());
        let source_text = NamedSource::new(self.places.file, self.places.text.to_owned());
        Problems { source_text, list: self.list }
    }
}

/// Turns bytes of a text into lines and columns.
pub(crate) struct Places<'t> {
    file: &'t str,
    text: &'t str,
    line_starts: Vec<usize>,
}

impl<'t> Places<'t> {
    pub(crate) fn new(file: &'t str, text: &'t str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Self { file, text, line_starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    pub(crate) fn problem(&self, span: Range<usize>, message: String, help: Option<String>) -> Problem {
        let (line, column) = self.line_and_column(span.start);
        Problem { file: self.file.to_owned(), line, column, message, help, span: span.into() }
    }

    /// Line and column, both from 1, of a byte. A byte beyond the end, or inside a character, counts as the nearest place
    /// before it.
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

/// What other firewalls call things, and what they are called here.
const ELSEWHERE: [(&str, &str); 14] = [
    ("src", "source"),
    ("dst", "destination"),
    ("dest", "destination"),
    ("drop", "deny"),
    ("block", "deny"),
    ("accept", "allow"),
    ("pass", "allow"),
    ("permit", "allow"),
    ("port", "service"),
    ("ports", "service"),
    ("protocol", "service"),
    ("comment", "description"),
    ("local", "self"),
    ("all", "any"),
];

/// "did you mean …", or the whole choice when nothing is near.
pub(crate) fn suggestion<'a>(word: &str, choice: impl IntoIterator<Item = &'a str>) -> String {
    let choice: Vec<&str> = choice.into_iter().collect();
    let here = ELSEWHERE.iter().find(|(other, here)| *other == word && choice.contains(here));
    if let Some((_, here)) = here {
        return format!("did you mean `{here}`?");
    }
    // A word of more than a line is no slip of the finger, and its distances would cost its length squared.
    let near = choice.iter().filter(|_| word.len() <= 100);
    let distance = |c: &&str| (strsim::damerau_levenshtein(word, c), c.chars().next() != word.chars().next());
    let nearest = near.map(|c| (distance(c), *c)).min();
    match nearest {
        Some(((distance, _), c)) if distance <= 1 + word.chars().count() / 4 => {
            format!("did you mean `{c}`?")
        }
        _ if choice.is_empty() => "there are none".to_owned(),
        _ if choice.len() > 40 => {
            format!("there are {}, among them: {}", choice.len(), choice[..12].join(", "))
        }
        _ => format!("there are: {}", choice.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn near_words_are_suggested_and_others_listed() {
        assert_eq!(suggestion("sorce", ["source", "to"]), "did you mean `source`?");
        assert_eq!(suggestion("xyz", ["source", "to"]), "there are: source, to");
        assert_eq!(suggestion("x", []), "there are none");
    }
}
