//! How nodes and rules lie in lines of 16 words.
//!
//! Inner node: `meta` (the field in the lower four bits, above it two bits for each child: what it is), `base` (the line of child 0, and in
//! the upper four bits the logarithm of the lines that each child takes), the best row below, and 13 separators: the last value of
//! each child but the last. So the child of a value is the number of separators below it.
//!
//! A rule of IPv4 takes eight words: first and last source, first and last destination, first and last service, source ports, zones. A row
//! has 23 bits, eight in the upper part of each service word and seven in that of the zones; the highest bit of the zones ends the leaf.
//! A rule of IPv6 takes a line: each address as its four first words and the last value of the one word that is a range; the words
//! before it are exact, and those after it are free.

use super::pieces::{Family, Piece};
use super::{Keys, LINE_WORDS};

pub(super) type Line = [u32; LINE_WORDS];

/// Separators of a node.
pub(super) const SEPARATORS: usize = 13;
/// Rows are less.
pub(in crate::tables) const NO_ROW: u32 = (1 << 23) - 1;
/// In the zones of a rule: the leaf ends here.
pub(super) const LAST: u32 = 1 << 31;

/// Kinds of children.
pub(super) const EMPTY: u32 = 0;
pub(super) const INNER: u32 = 1;
pub(super) const LEAF: u32 = 2;

const FIELD_BITS: u32 = 4;
const BASE_BITS: u32 = 28;
const KEY_MASK: u32 = (1 << 24) - 1;

/// An inner node.
pub(super) struct Inner<'l>(pub(super) &'l Line);

impl Inner<'_> {
    pub(super) fn of(
        field: u32,
        kinds: &[u32],
        base: u32,
        shift: u32,
        best: u32,
        separators: &[u32],
    ) -> Line {
        let mut line = [u32::MAX; LINE_WORDS];
        line[0] = kinds.iter().rev().fold(0, |meta, kind| meta << 2 | kind) << FIELD_BITS | field;
        line[1] = shift << BASE_BITS | base;
        line[2] = best;
        line[3..3 + separators.len()].copy_from_slice(separators);
        line
    }

    pub(super) fn best(&self) -> u32 {
        self.0[2]
    }

    /// What the child for some keys is, and its line.
    pub(super) fn child(&self, keys: &Keys) -> (u32, u32) {
        let [meta, base, ..] = *self.0;
        let key = keys[(meta & ((1 << FIELD_BITS) - 1)) as usize];
        let child = self.0[3..].iter().filter(|separator| **separator < key).count() as u32;
        let line = (base & ((1 << BASE_BITS) - 1)) + (child << (base >> BASE_BITS));
        (meta >> (FIELD_BITS + 2 * child) & 3, line)
    }
}

/// The row of a rule, by its service words and zones.
pub(super) fn row_of(service: [u32; 2], zones: u32) -> u32 {
    service[0] >> 24 | service[1] >> 24 << 8 | (zones & !LAST) >> 24 << 16
}

/// The first matching row of a line that is better than what was found, or [`NO_ROW`]; and whether the leaf ends here.
pub(super) fn search_leaf(line: &Line, family: usize, keys: &Keys, found: u32) -> (u32, bool) {
    let size = LINE_WORDS >> (1 - family);
    for rule in line.chunks(size) {
        let rest = if family == 0 { &rule[4..] } else { &rule[10..] };
        let row = row_of([rest[0], rest[1]], rest[3]);
        if row >= found {
            return (NO_ROW, true);
        }
        let addresses = if family == 0 {
            (rule[0]..=rule[1]).contains(&keys[0]) && (rule[2]..=rule[3]).contains(&keys[4])
        } else {
            let range_words = rule[14];
            is_inside(&rule[..5], range_words & 3, &keys[..4])
                && is_inside(&rule[5..10], range_words >> 2, &keys[4..8])
        };
        if addresses && rest_matches(rest, keys) {
            return (row, true);
        }
        if rest[3] & LAST != 0 {
            return (NO_ROW, true);
        }
    }
    (NO_ROW, false)
}

fn is_inside(rule: &[u32], range_word: u32, key: &[u32]) -> bool {
    (0..4).all(|word| {
        let last = match word.cmp(&(range_word as usize)) {
            std::cmp::Ordering::Less => rule[word],
            std::cmp::Ordering::Equal => rule[4],
            std::cmp::Ordering::Greater => u32::MAX,
        };
        (rule[word]..=last).contains(&key[word])
    })
}

fn rest_matches(rest: &[u32], keys: &Keys) -> bool {
    let zone = |number: u32| rest[3] >> (6 * number) & 63;
    (rest[0] & KEY_MASK..=rest[1] & KEY_MASK).contains(&keys[8])
        && (rest[2] & 0xffff..=rest[2] >> 16).contains(&keys[9])
        && (zone(0)..=zone(1)).contains(&keys[10])
        && (zone(2)..=zone(3)).contains(&keys[11])
}

/// The lines of a leaf with some rules, in order, at least one.
pub(super) fn leaf<const F: usize>(pieces: impl Iterator<Item = Piece<F>>, family: Family) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut zones_at = 0;
    for (number, piece) in pieces.enumerate() {
        let half = match family {
            Family::V4 => number % 2 * 8,
            Family::V6 => 0,
        };
        if half == 0 {
            lines.push([0; LINE_WORDS]);
        }
        let place = lines.len() - 1;
        let line = &mut lines[place];
        let rest = match family {
            Family::V4 => {
                line[half..half + 4].copy_from_slice(&[
                    piece.first[0],
                    piece.last[0],
                    piece.first[1],
                    piece.last[1],
                ]);
                half + 4
            }
            Family::V6 => {
                let source = put_address(&mut line[..5], &piece.first[..4], &piece.last[..4]);
                let destination = put_address(&mut line[5..10], &piece.first[4..8], &piece.last[4..8]);
                line[14] = source | destination << 2;
                10
            }
        };
        let ([service, port, from, to], [last_service, last_port, last_from, last_to]) = piece.rest();
        let row = piece.row;
        line[rest] = service | (row & 0xff) << 24;
        line[rest + 1] = last_service | (row >> 8 & 0xff) << 24;
        line[rest + 2] = port | last_port << 16;
        line[rest + 3] = from | last_from << 6 | to << 12 | last_to << 18 | (row >> 16) << 24;
        zones_at = rest + 3;
    }
    if let Some(line) = lines.last_mut() {
        line[zones_at] |= LAST;
    }
    lines
}

/// Writes an address's first words and the last value of the word that is a range; returns the place of that word.
fn put_address(line: &mut [u32], first: &[u32], last: &[u32]) -> u32 {
    let word = (0..3).find(|word| first[*word] != last[*word]).unwrap_or(3);
    line[..4].copy_from_slice(first);
    line[4] = last[word];
    word as u32
}
