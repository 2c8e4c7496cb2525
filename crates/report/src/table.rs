//! A table as data, so that Markdown and HTML say the same. Pure.

use serde::Serialize;

/// A heading cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Head {
    /// Text.
    pub(crate) text: String,
    /// Columns that it spans.
    pub(crate) span: usize,
}

impl Head {
    pub(crate) fn one(text: impl Into<String>) -> Self {
        Self { text: text.into(), span: 1 }
    }

    pub(crate) fn over(text: impl Into<String>, span: usize) -> Self {
        Self { text: text.into(), span }
    }
}

/// A cell of the body.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Cell {
    /// The figure.
    pub(crate) text: String,
    /// Small print: an interval, a ratio, a reason.
    pub(crate) detail: String,
    /// Letters of the marks, explained below the table.
    pub(crate) marks: String,
    /// `num`, `invalid`, `printed`, `text` or `none`.
    pub(crate) class: &'static str,
    /// What the cell sorts by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sort: Option<f64>,
}

impl Cell {
    pub(crate) fn number(text: impl Into<String>, sort: f64) -> Self {
        Self { text: text.into(), class: "num", sort: Some(sort), ..Self::default() }
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), class: "text", ..Self::default() }
    }

    /// Not measured.
    pub(crate) fn none() -> Self {
        Self { text: "–".into(), class: "none", ..Self::default() }
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }
}

/// One row: headings of the row, then cells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Headings of the row.
    pub(crate) heads: Vec<String>,
    /// Cells.
    pub(crate) cells: Vec<Cell>,
}

/// A table with one or two rows of headings.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Table {
    /// What it shows, with the units.
    pub(crate) caption: String,
    /// Names of the columns of row headings.
    pub(crate) corner: Vec<String>,
    /// Headings over groups of columns; empty when there are no groups.
    pub(crate) groups: Vec<Head>,
    /// Headings of the columns.
    pub(crate) head: Vec<Head>,
    /// Body.
    pub(crate) rows: Vec<Row>,
    /// Explanations below.
    pub(crate) notes: Vec<String>,
}

impl Table {
    /// As GitHub-flavoured Markdown; groups are joined into the column headings.
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        if !self.caption.is_empty() {
            out += &format!("**{}**\n\n", md(&self.caption));
        }
        let columns = self.corner.iter().cloned().chain(self.joined_heads());
        out += &line(columns.map(|c| md(&c)));
        let rights = vec!["---:".to_string(); self.head.len()];
        out += &line(self.corner.iter().map(|_| "---".to_string()).chain(rights));
        for row in &self.rows {
            out += &line(row.heads.iter().map(|h| md(h)).chain(row.cells.iter().map(cell)));
        }
        for note in &self.notes {
            out += &format!("\n{}\n", md(note));
        }
        out
    }

    fn joined_heads(&self) -> Vec<String> {
        let groups: Vec<&str> =
            self.groups.iter().flat_map(|g| std::iter::repeat_n(g.text.as_str(), g.span)).collect();
        self.head
            .iter()
            .enumerate()
            .map(|(i, head)| match groups.get(i) {
                Some(group) if !group.is_empty() => format!("{group}: {}", head.text),
                _ => head.text.clone(),
            })
            .collect()
    }
}

fn cell(cell: &Cell) -> String {
    let mut text = md(&cell.text);
    if !cell.marks.is_empty() {
        text += &format!(" [{}]", cell.marks);
    }
    if !cell.detail.is_empty() {
        text += &format!(" ({})", md(&cell.detail));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// Text that Markdown leaves as it is.
pub(crate) fn md(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '<' | '>' | '\\' | '[' | ']' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
