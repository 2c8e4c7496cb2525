//! The rules that ask for lists of addresses: for each pair of lists that some rows ask for, trees of these rows alone. A packet searches the
//! trees whose lists have its ends, so one on no list searches none; and what is on the lists may change while the tables stay.

use super::trees::{self, LINE_WORDS, Limits, Series};
use crate::form::{AskedLists, Form};
use crate::interpret::Packet;
use crate::lists::{ListSet, OnLists};

/// The most pairs of lists that rules may ask for: each has a bit.
pub const MAX_SERIES: usize = 64;

/// Trees of rows that ask for lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// The number of the first line, behind those of the other rules' trees.
    pub first_line: u32,
    /// Inner nodes and leaves.
    pub lines: Vec<[u32; LINE_WORDS]>,
    /// In no order that matters.
    pub series: Vec<ListedSeries>,
    /// For each row, the place of its series and 1; or 0. Empty if no row asks for a list.
    pub of_rows: Vec<u32>,
}

/// The trees of the rows that ask for the same lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedSeries {
    /// The lists that must have the source and the destination; `None` where none need have it.
    pub asked: AskedLists,
    /// Of IPv4 and of IPv6 packets.
    pub trees: [Series; 2],
}

impl ListedSeries {
    /// The list of each end as a bit; 0 where none need have it.
    pub fn bits(&self) -> [ListSet; 2] {
        self.asked.map(|list| list.map_or(0, |list| 1 << list))
    }

    fn holds(&self, on: OnLists) -> bool {
        self.bits()
            .into_iter()
            .zip([on.source, on.destination])
            .all(|(asked, on)| asked == 0 || asked & on != 0)
    }
}

impl Listed {
    /// The trees of a form's rows that ask for lists. `None` when some need more than a look-up may read, or the pairs are too many.
    pub(super) fn of(form: &Form, first_line: u32) -> Option<Self> {
        let mut pairs: Vec<AskedLists> = Vec::new();
        for asked in form.asked_lists.iter().filter(|asked| **asked != [None; 2]) {
            if !pairs.contains(asked) {
                pairs.push(*asked);
            }
        }
        if pairs.is_empty() {
            return Some(Self { first_line, ..Self::default() });
        }
        if pairs.len() > MAX_SERIES {
            return None;
        }
        let mut lines = trees::Lines { first: first_line, lines: Vec::new() };
        let mut work = Limits::WIDE.work;
        let mut series = Vec::with_capacity(pairs.len());
        for pair in &pairs {
            let takes = |row: usize| form.asked_lists[row] == *pair;
            let trees = trees::series_of(form, &takes, &Limits::WIDE, &mut work, &mut lines)?;
            series.push(ListedSeries { asked: *pair, trees });
        }
        let place =
            |asked: &AskedLists| pairs.iter().position(|pair| pair == asked).map_or(0, |at| at as u32 + 1);
        Some(Self {
            first_line,
            lines: lines.lines,
            series,
            of_rows: form.asked_lists.iter().map(place).collect(),
        })
    }

    /// The best row and 1, or 0, of one that was found (likewise) and those whose lists have the packet's ends; and how many lines it took.
    pub(super) fn look_up(&self, packet: &Packet, on: OnLists, row: u32) -> (u32, u32) {
        let mut found = row.checked_sub(1).unwrap_or(trees::NO_ROW);
        let mut loads = 0;
        for series in self.series.iter().filter(|series| series.holds(on)) {
            let (row, lines) = trees::search(&self.lines, self.first_line, &series.trees, packet, found);
            found = row;
            loads += lines;
        }
        (if found == trees::NO_ROW { 0 } else { found + 1 }, loads)
    }

    /// The lists that a row asks for.
    pub fn asked_by(&self, row: u32) -> AskedLists {
        let place = self.of_rows.get(row as usize).and_then(|place| place.checked_sub(1));
        place.map_or([None; 2], |place| self.series[place as usize].asked)
    }

    /// The most lines that a packet of each family reads: one on all lists.
    pub fn bounds(&self) -> [u32; 2] {
        [0, 1].map(|family| self.series.iter().map(|series| series.trees[family].bound).sum())
    }
}
