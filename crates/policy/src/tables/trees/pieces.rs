//! The rules of a form as boxes: one range in each field. A rule with sets is several of them, with the same row.

use crate::form::Form;
use crate::ranges::RangeSet;
use rustc_hash::FxHashMap;

/// Addresses of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// Fields of an IPv4 piece: source, destination, and the four that both families have: service, source port, zone from, zone to.
pub(super) const FIELDS_V4: usize = 6;
/// Fields of an IPv6 piece: four words of each address, and those four.
pub(super) const FIELDS_V6: usize = 12;

/// The number of each field of an IPv4 piece among a packet's keys. Those of an IPv6 piece are in the order of the keys.
pub(super) const NUMBERS_V4: [u32; FIELDS_V4] = [0, 4, 8, 9, 10, 11];
/// The same of an IPv6 piece.
pub(super) const NUMBERS_V6: [u32; FIELDS_V6] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// Pieces with the same addresses that a later one is compared with.
const ALIKE: usize = 64;

/// A box, and the row that it belongs to. Both ends are inside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<const F: usize> {
    pub(super) first: [u32; F],
    pub(super) last: [u32; F],
    pub(super) row: u32,
}

impl<const F: usize> Piece<F> {
    /// First and last of service, source port and zones.
    pub(super) fn rest(&self) -> ([u32; 4], [u32; 4]) {
        let rest = |ends: &[u32; F]| [ends[F - 4], ends[F - 3], ends[F - 2], ends[F - 1]];
        (rest(&self.first), rest(&self.last))
    }
}

type Range = (u32, u32);

/// The words of an IPv6 address, the highest first.
pub(super) fn words(address: u128) -> [u32; 4] {
    [(address >> 96) as u32, (address >> 64) as u32, (address >> 32) as u32, address as u32]
}

/// What a row asks of the fields that both families have, as products of ranges.
fn rests(form: &Form, row: usize) -> Vec<[Range; 4]> {
    let mut rests = Vec::new();
    let services = form.service.sets[form.service.of[row] as usize].ranges();
    let ports = form.source_port.sets[form.source_port.of[row] as usize].ranges();
    let pairs = zone_ranges(form, row);
    for service in services {
        for port in ports {
            rests.extend(pairs.iter().map(|[from, to]| [*service, *port, *from, *to]));
        }
    }
    rests
}

/// The zone pairs of a row as products of ranges of zones from and zones to.
fn zone_ranges(form: &Form, row: usize) -> Vec<[Range; 2]> {
    let (from, to) = form.zone_sets[row];
    let ranges = |set: u64| {
        let zones = (0..form.zones as u32).filter(move |zone| set >> zone & 1 != 0);
        RangeSet::of(zones.map(|zone| (zone, zone)))
    };
    let to = ranges(to);
    let product = |f: &Range| to.ranges().iter().map(|t| [*f, *t]).collect::<Vec<_>>();
    ranges(from).ranges().iter().flat_map(product).collect()
}

/// The pieces of those rows of a family that are to be taken, in the order of the rows; `None` when there are more than a number.
pub(super) fn pieces_v4(
    form: &Form,
    takes: &dyn Fn(usize) -> bool,
    most: usize,
) -> Option<Vec<Piece<FIELDS_V4>>> {
    let mut pieces = Vec::new();
    for row in (0..form.rules.len()).filter(|row| takes(*row)) {
        let sources = form.source.sets[form.source.of[row] as usize].v4.ranges();
        let destinations = form.destination.sets[form.destination.of[row] as usize].v4.ranges();
        if sources.is_empty() || destinations.is_empty() {
            continue;
        }
        let rests = rests(form, row);
        may_add(pieces.len(), [sources.len(), destinations.len(), rests.len()], most)?;
        for source in sources {
            for destination in destinations {
                for [service, port, from, to] in &rests {
                    let ranges = [source, destination, service, port, from, to];
                    let (first, last) = (ranges.map(|range| range.0), ranges.map(|range| range.1));
                    pieces.push(Piece { first, last, row: row as u32 });
                }
            }
        }
    }
    Some(pieces)
}

/// The same of IPv6.
pub(super) fn pieces_v6(
    form: &Form,
    takes: &dyn Fn(usize) -> bool,
    most: usize,
) -> Option<Vec<Piece<FIELDS_V6>>> {
    let mut pieces = Vec::new();
    for row in (0..form.rules.len()).filter(|row| takes(*row)) {
        let sources = form.source.sets[form.source.of[row] as usize].v6.ranges();
        let destinations = form.destination.sets[form.destination.of[row] as usize].v6.ranges();
        if sources.is_empty() || destinations.is_empty() {
            continue;
        }
        let (sources, destinations) = (word_ranges(sources), word_ranges(destinations));
        let rests = rests(form, row);
        may_add(pieces.len(), [sources.len(), destinations.len(), rests.len()], most)?;
        for source in &sources {
            for destination in &destinations {
                for rest in &rests {
                    let mut piece = Piece { first: [0; FIELDS_V6], last: [0; FIELDS_V6], row: row as u32 };
                    let rest = (rest.map(|range| range.0), rest.map(|range| range.1));
                    for (at, (first, last)) in [(0, *source), (4, *destination), (8, rest)] {
                        piece.first[at..at + 4].copy_from_slice(&first);
                        piece.last[at..at + 4].copy_from_slice(&last);
                    }
                    pieces.push(piece);
                }
            }
        }
    }
    Some(pieces)
}

/// First and last of some fields.
type Ends<const F: usize> = ([u32; F], [u32; F]);

/// Drops pieces that an earlier one with the same addresses shadows: rule sets have many, and a cut finds them only where few are left.
pub(super) fn drop_shadowed<const F: usize>(pieces: &mut Vec<Piece<F>>) {
    let mut known: FxHashMap<Ends<F>, Vec<Ends<4>>> = FxHashMap::default();
    pieces.retain(|piece| {
        let (mut first, mut last) = (piece.first, piece.last);
        first[F - 4..].fill(0);
        last[F - 4..].fill(0);
        let earlier = known.entry((first, last)).or_default();
        let (first, last) = piece.rest();
        let is_shadowed = earlier
            .iter()
            .any(|other| (0..4).all(|field| other.0[field] <= first[field] && last[field] <= other.1[field]));
        if !is_shadowed && earlier.len() < ALIKE {
            earlier.push((first, last));
        }
        !is_shadowed
    });
}

fn may_add(pieces: usize, factors: [usize; 3], most: usize) -> Option<()> {
    let more = factors.into_iter().try_fold(1usize, |product, factor| product.checked_mul(factor))?;
    (pieces.checked_add(more)? <= most).then_some(())
}

type Words = [u32; 4];

/// Ranges of IPv6 addresses as products of ranges of words: exact words, then one range, then words that are free.
fn word_ranges(ranges: &[(u128, u128)]) -> Vec<(Words, Words)> {
    let mut found = Vec::new();
    for (first, last) in ranges {
        split(words(*first), words(*last), 0, &mut found);
    }
    found
}

/// The words before `at` are the same in both ends.
fn split(first: Words, last: Words, at: usize, into: &mut Vec<(Words, Words)>) {
    let is_free =
        first[at + 1..].iter().all(|word| *word == 0) && last[at + 1..].iter().all(|word| *word == u32::MAX);
    if at == 3 || is_free {
        into.push((first, last));
        return;
    }
    if first[at] == last[at] {
        split(first, last, at + 1, into);
        return;
    }
    let (mut start, mut end) = (first, last);
    if first[at + 1..].iter().any(|word| *word != 0) {
        let mut to = first;
        to[at + 1..].fill(u32::MAX);
        split(first, to, at + 1, into);
        start[at] += 1;
        start[at + 1..].fill(0);
    }
    let mut upper = None;
    if last[at + 1..].iter().any(|word| *word != u32::MAX) {
        let mut from = last;
        from[at + 1..].fill(0);
        upper = Some(from);
        end[at] -= 1;
        end[at + 1..].fill(u32::MAX);
    }
    if start[at] <= end[at] {
        into.push((start, end));
    }
    if let Some(from) = upper {
        split(from, last, at + 1, into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(words: Words) -> u128 {
        words.into_iter().fold(0, |number, word| number << 32 | u128::from(word))
    }

    fn address() -> impl Strategy<Value = u128> {
        let word = || prop_oneof![Just(0u32), Just(1), Just(u32::MAX), Just(u32::MAX - 1), any::<u32>()];
        [word(), word(), word(), word()].prop_map(number)
    }

    proptest! {
        #[test]
        fn word_ranges_hold_each_address_of_a_range_once(a in address(), b in address()) {
            let (first, last) = (a.min(b), a.max(b));
            let mut next = first;
            let pieces = word_ranges(&[(first, last)]);
            prop_assert!(pieces.len() <= 7);
            for (number_of, (from, to)) in pieces.iter().enumerate() {
                prop_assert_eq!(number(*from), next, "no gap and nothing twice");
                let range_word = (0..3).find(|word| from[*word] != to[*word]).unwrap_or(3);
                prop_assert!((range_word + 1..4).all(|word| (from[word], to[word]) == (0, u32::MAX)));
                if number_of + 1 == pieces.len() {
                    prop_assert_eq!(number(*to), last);
                } else {
                    next = number(*to) + 1;
                }
            }
        }
    }
}
