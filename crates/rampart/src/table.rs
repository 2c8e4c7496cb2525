//! Plain columns for a terminal or a file. No colour, no drawing.

use crate::api::AlertCount;
use std::fmt::Write as _;

/// Which side of its column a cell stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Rows under a heading, each column as wide as its widest cell.
pub(crate) struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With a heading.
    pub(crate) fn new(columns: &[(&str, Side)]) -> Self {
        Self {
            sides: columns.iter().map(|(_, side)| *side).collect(),
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
        }
    }

    /// Adds a row: as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, without spaces at their ends.
    pub(crate) fn text(&self) -> String {
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let widths: Vec<usize> = (0..self.sides.len())
            .map(|column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, side), width) in row.iter().zip(&self.sides).zip(&widths) {
                let _ = match side {
                    Side::Left => write!(line, "{cell:<width$}  "),
                    Side::Right => write!(line, "{cell:>width$}  "),
                };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// "1 rule", "2 rules".
pub(crate) fn rules(count: u64) -> String {
    of(count, "rule")
}

/// "1 note", "2,000 notes", "0 notes".
pub(crate) fn of(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// A number with its thousands apart: 1,048,576.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds as people say them: 45s, 12min, 2h4min, 3d.
pub(crate) fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}min"),
        3_600..86_400 if minutes % 60 != 0 => format!("{hours}h{}min", minutes % 60),
        3_600..86_400 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

/// "154 within 1min from 198.51.100.7, more than 100".
pub(crate) fn alert_words(alert: &AlertCount) -> String {
    let side = if alert.per == "destination" { "to" } else { "from" };
    let whom = alert.address.map(|address| format!(" {side} {address}")).unwrap_or_default();
    let than = if alert.count > alert.threshold { "more" } else { "no more" };
    let (count, threshold) = (grouped(alert.count), grouped(alert.threshold));
    format!("{count} within {}{whom}, {than} than {threshold}", span(alert.within_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("name", Side::Left), ("hits", Side::Right), ("why", Side::Left)]);
        table.row(["a-long-name", "7", ""].map(str::to_owned));
        table.row(["ä", "1,000", "x"].map(str::to_owned));
        assert_eq!(table.text(), "name          hits  why\na-long-name      7\nä            1,000  x\n");
    }

    #[test]
    fn numbers_and_spans_are_easy_to_read() {
        for (number, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_048_576, "1,048,576")] {
            assert_eq!(grouped(number), expected);
        }
        for (seconds, expected) in
            [(0, "0s"), (59, "59s"), (60, "1min"), (3_600, "1h"), (7_440, "2h4min"), (90_000, "1d")]
        {
            assert_eq!(span(seconds), expected);
        }
    }
}
