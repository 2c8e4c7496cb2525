//! The blocks of IPv4 of a table of lists. Millions of ranges are divided into parts, which cores build side by side: a part is a row of
//! whole blocks, so the parts one after the other are what one core would have built.

use super::runs::runs;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::thread;

/// Of an entry: its address alone has the class. `ENTRY_SINGLE` in C.
pub(super) const SINGLE: u32 = 1;

/// Classes that have a number beside so many bits of the index.
pub(super) const fn most_classes(bits: u32) -> usize {
    1 << (bits - 1)
}

/// The blocks of IPv4, and the classes of their entries, as in [`ListTable`](super::ListTable).
pub(super) struct Blocks {
    pub(super) masks: Vec<u32>,
    pub(super) index: Vec<u32>,
    pub(super) entries: Vec<u32>,
}

impl Blocks {
    /// The blocks of some lists, by the upper `bits` of addresses, built by as many threads.
    ///
    /// # Errors
    /// How many classes there are, if they have no numbers beside so many bits.
    pub(super) fn of(lists: &[&[(u32, u32)]], bits: u32, threads: usize) -> Result<Self, usize> {
        let (first, others) = build(lists, bits, threads);
        let mut classes: FxHashMap<u32, u32> = (0..).zip(&first.masks).map(|(n, mask)| (*mask, n)).collect();
        let Part { mut masks, mut index, mut entries, .. } = first;
        for mut part in others {
            let numbers: Vec<u32> =
                part.masks.iter().map(|mask| number(*mask, &mut classes, &mut masks)).collect();
            part.renumber(&numbers);
            let behind = entries.len() as u32;
            index.extend(part.index.iter().map(|at| at + behind));
            entries.append(&mut part.entries);
        }
        index.push(entries.len() as u32);
        if masks.len() > most_classes(bits) { Err(masks.len()) } else { Ok(Self { masks, index, entries }) }
    }
}

/// The parts in order: the first, which has room for all, and the others.
fn build(lists: &[&[(u32, u32)]], bits: u32, threads: usize) -> (Part, Vec<Part>) {
    let mut parts = parts(lists, bits, threads).into_iter();
    let first = parts.next().unwrap_or(0..1 << bits);
    let all: usize = lists.iter().map(|ranges| ranges.len()).sum();
    thread::scope(|scope| {
        let others: Vec<_> = parts
            .map(|blocks| {
                let here = blocks.clone();
                let other = thread::Builder::new().spawn_scoped(scope, || Part::of(lists, bits, blocks, 0));
                (here, other)
            })
            .collect();
        let first = Part::of(lists, bits, first, all);
        // A part whose thread could not be had, or did not come to its end, is built here.
        let others = others.into_iter().map(|(blocks, other)| {
            let built = other.ok().and_then(|thread| thread.join().ok());
            built.unwrap_or_else(|| Part::of(lists, bits, blocks, 0))
        });
        (first, others.collect())
    })
}

/// Divides all blocks into rows that have about as many ranges each.
fn parts(lists: &[&[(u32, u32)]], bits: u32, count: usize) -> Vec<Range<usize>> {
    let longest = lists.iter().max_by_key(|ranges| ranges.len()).copied().unwrap_or_default();
    let inner = (1..count).filter_map(|part| longest.get(longest.len() * part / count));
    let mut bounds = vec![0];
    bounds.extend(inner.map(|(first, _)| block_of(*first, bits)));
    bounds.push(1 << bits);
    bounds.dedup();
    bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

fn block_of(address: u32, bits: u32) -> usize {
    (address >> (32 - bits)) as usize
}

/// The number of a class; of a new one the next.
fn number(mask: u32, classes: &mut FxHashMap<u32, u32>, masks: &mut Vec<u32>) -> u32 {
    *classes.entry(mask).or_insert_with(|| {
        masks.push(mask);
        masks.len() as u32 - 1
    })
}

/// Some blocks while runs are added in order. Its classes have numbers of its own.
struct Part {
    bits: u32,
    /// The first block, and the one behind the last.
    blocks: Range<usize>,
    masks: Vec<u32>,
    index: Vec<u32>,
    entries: Vec<u32>,
    /// Where the run before ends, if it needs an entry to end it and that has not been written yet.
    end: Option<u32>,
}

impl Part {
    /// Builds blocks, with room for at least so many entries.
    fn of(lists: &[&[(u32, u32)]], bits: u32, blocks: Range<usize>, room: usize) -> Self {
        let from = (blocks.start << (32 - bits)) as u32;
        let until = ((blocks.end << (32 - bits)) - 1) as u32;
        let inside: Vec<&[(u32, u32)]> =
            lists.iter().map(|ranges| reaching_into(ranges, from, until)).collect();
        let ranges: usize = inside.iter().map(|ranges| ranges.len()).sum();
        let mut classes = FxHashMap::from_iter([(0, 0)]);
        let mut part = Self {
            bits,
            index: Vec::with_capacity(blocks.len()),
            entries: Vec::with_capacity(room.max(ranges)),
            masks: vec![0],
            blocks,
            end: None,
        };
        // Most addresses are on one list: their classes by the list, 0 until there is one. The first class is of no list.
        let mut of_one_list = [0; 32];
        runs(&inside, |first, last, mask| {
            if last < from || until < first {
                return;
            }
            let one = mask.is_power_of_two().then(|| mask.trailing_zeros() as usize);
            let class = match one.map_or(0, |list| of_one_list[list]) {
                0 => number(mask, &mut classes, &mut part.masks),
                known => known,
            };
            if let Some(list) = one {
                of_one_list[list] = class;
            }
            if class < most_classes(bits) as u32 {
                part.add(first.max(from), last.min(until), class);
            }
        });
        part.finish()
    }

    /// Adds a run behind all that were added before.
    fn add(&mut self, first: u32, last: u32, class: u32) {
        let rest_bits = 32 - self.bits;
        let (mut from, last_block) = (first, block_of(last, self.bits));
        for block in block_of(first, self.bits)..=last_block {
            let until = if block == last_block { last } else { ((block as u32 + 1) << rest_bits) - 1 };
            self.add_piece(block, from, until, class);
            from = until.wrapping_add(1);
        }
    }

    /// A run inside one block.
    fn add_piece(&mut self, block: usize, first: u32, last: u32, class: u32) {
        if self.end != Some(first) {
            self.write_end();
        }
        self.end = None;
        self.begin_blocks(block + 1 - self.blocks.start);
        let single = if first == last { SINGLE } else { 0 };
        self.entries.push(first << self.bits | class << 1 | single);
        let behind = last.wrapping_add(1);
        let is_blocks_end = behind << self.bits == 0;
        self.end = (single == 0 && !is_blocks_end).then_some(behind);
    }

    fn write_end(&mut self) {
        if let Some(end) = self.end.take() {
            self.entries.push(end << self.bits);
        }
    }

    /// So many blocks of the part have begun.
    fn begin_blocks(&mut self, count: usize) {
        if self.index.len() < count {
            self.index.resize(count, self.entries.len() as u32);
        }
    }

    fn finish(mut self) -> Self {
        self.write_end();
        self.begin_blocks(self.blocks.len());
        self
    }

    /// Gives each class another number.
    fn renumber(&mut self, numbers: &[u32]) {
        if (0..).zip(numbers).all(|(before, now)| before == *now) {
            return;
        }
        let class_mask = (1 << self.bits) - 1;
        for entry in &mut self.entries {
            let class = numbers[((*entry & class_mask) >> 1) as usize];
            *entry = *entry & (!class_mask | SINGLE) | class << 1;
        }
    }
}

/// The ranges of a list that have addresses from one to another.
fn reaching_into(ranges: &[(u32, u32)], from: u32, until: u32) -> &[(u32, u32)] {
    let first = ranges.partition_point(|(_, last)| *last < from);
    let behind = ranges.partition_point(|(first, _)| *first <= until);
    &ranges[first..behind]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::RangeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_what_one_core_builds(
            lists in proptest::collection::vec(proptest::collection::vec(any::<[u32; 2]>(), 0..12), 0..6),
            width in 0_u32..32,
            bits in 12_u32..=22,
            threads in 2_usize..9,
        ) {
            let sets: Vec<RangeSet<u32>> = lists
                .iter()
                .map(|list| RangeSet::of(list.iter().map(|[first, more]| (*first, first.saturating_add(more >> width)))))
                .collect();
            let ranges: Vec<&[(u32, u32)]> = sets.iter().map(RangeSet::ranges).collect();
            let [one, many] = [1, threads].map(|threads| Blocks::of(&ranges, bits, threads).ok().unwrap());
            prop_assert_eq!((one.masks, one.index, one.entries), (many.masks, many.index, many.entries));
        }
    }
}
