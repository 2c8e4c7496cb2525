//! What is wrong with a text: where, what, and what would be right. Several problems are told at once.

use miette::{Diagnostic, NamedSource, SourceSpan};
use std::fmt;
use std::ops::Range;

/// One thing wrong with a text.
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
    /// One problem at some bytes of a text.
    pub fn one(file: &str, text: &str, span: Range<usize>, message: String, help: Option<String>) -> Self {
        let mut collector = Collector::new(file, text);
        collector.report(span, message, help);
        collector.into_problems()
    }

    /// Each problem as a report with the text that it points into: for a terminal that shows snippets. [`Display`]
    /// tells the same in plain lines.
    ///
    /// [`Display`]: fmt::Display
    pub fn reports(&self) -> impl Iterator<Item = miette::Report> {
        self.list.iter().map(|problem| {
            let text = NamedSource::new(&problem.file, self.source_text.inner().clone());
            miette::Report::new(problem.clone()).with_source_code(text)
        })
    }

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

/// Collects the problems of one text while it is read.
pub(crate) struct Collector<'t> {
    file: &'t str,
    text: &'t str,
    list: Vec<Problem>,
}

impl<'t> Collector<'t> {
    pub(crate) fn new(file: &'t str, text: &'t str) -> Self {
        Self { file, text, list: Vec::new() }
    }

    pub(crate) fn report(&mut self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        let (line, column) = line_and_column(self.text, span.start);
        self.list.push(Problem {
            file: self.file.to_owned(),
            line,
            column,
            message: message.into(),
            help,
            span: span.into(),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn into_problems(mut self) -> Problems {
        self.list.sort_by_key(|p| p.span.offset());
        Problems { source_text: NamedSource::new(self.file, self.text.to_owned()), list: self.list }
    }
}

/// Line and column, both from 1, of a byte of a text. A byte beyond the end, or inside a character, counts as the
/// nearest place before it.
pub(crate) fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let mut end = byte.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// "did you mean …", or the whole choice when nothing is near.
pub(crate) fn suggestion<'a>(word: &str, choice: impl IntoIterator<Item = &'a str>) -> String {
    let choice: Vec<&str> = choice.into_iter().collect();
    let nearest = choice.iter().map(|c| (strsim::damerau_levenshtein(word, c), *c)).min();
    match nearest {
        Some((distance, c)) if distance <= 1 + word.chars().count() / 4 => format!("did you mean `{c}`?"),
        _ => format!("there are: {}", choice.join(", ")),
    }
}
