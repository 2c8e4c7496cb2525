//! Address to class by array loads: a trie of strides 16, 8 and 8 for IPv4, and a search tree of eight keys a node for
//! IPv6. Neither knows of prefixes: both hold the boundaries of classes.

use super::classes::Segments;

/// In a trie's entry: the rest is the number of a block, not a class.
pub const DEEPER: u32 = 1 << 31;
/// Keys of a node of the IPv6 tree: 64 bytes.
pub const NODE_KEYS: usize = 8;
/// No low half matters: the whole /64 is one class.
pub const WHOLE: u32 = u32::MAX;

/// IPv4 address to class: at most 3 loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trie4 {
    /// By the first 16 bits: a class, or [`DEEPER`] with the number of a block.
    pub roots: Vec<u32>,
    /// Blocks of 256 entries by the next 8 bits, of the same kind.
    pub blocks: Vec<u32>,
}

impl Trie4 {
    pub(crate) fn of(segments: &Segments<u32>) -> Self {
        let mut trie = Self { roots: vec![0; 1 << 16], blocks: Vec::new() };
        for (i, (first, class)) in segments.iter().enumerate() {
            let last = segments.get(i + 1).map_or(u32::MAX, |(next, _)| next - 1);
            trie.fill(*first, last, *class);
        }
        trie
    }

    fn fill(&mut self, first: u32, last: u32, class: u32) {
        for root in first >> 16..=last >> 16 {
            let (low, high) = within(first, last, root, 16);
            if high - low == 0xffff {
                self.roots[root as usize] = class;
                continue;
            }
            let block = deeper(&mut self.roots[root as usize], &mut self.blocks);
            for middle in (low & 0xffff) >> 8..=(high & 0xffff) >> 8 {
                let (low, high) = within(low, high, root << 8 | middle, 8);
                let entry = block + middle as usize;
                if high - low == 0xff {
                    self.blocks[entry] = class;
                    continue;
                }
                let mut value = self.blocks[entry];
                let block = deeper(&mut value, &mut self.blocks);
                self.blocks[entry] = value;
                let (low, high) = (block + (low & 0xff) as usize, block + (high & 0xff) as usize);
                self.blocks[low..=high].fill(class);
            }
        }
    }

    /// The most loads that a look-up takes.
    pub(super) fn bound(&self) -> u32 {
        if self.blocks.is_empty() { 1 } else { 3 }
    }

    /// The class of an address, and how many loads it took.
    pub fn class(&self, address: u32) -> (u32, u32) {
        let entry = self.roots[(address >> 16) as usize];
        if entry & DEEPER == 0 {
            return (entry, 1);
        }
        let entry = self.blocks[((entry & !DEEPER) << 8 | address >> 8 & 0xff) as usize];
        if entry & DEEPER == 0 {
            return (entry, 2);
        }
        (self.blocks[((entry & !DEEPER) << 8 | address & 0xff) as usize], 3)
    }
}

/// The part of a range that shares its upper bits with a prefix.
fn within(first: u32, last: u32, prefix: u32, low_bits: u32) -> (u32, u32) {
    let start = prefix << low_bits;
    (first.max(start), last.min(start | ((1 << low_bits) - 1)))
}

/// The first entry of the block under an entry; a new block when there is none, which holds what the entry held.
fn deeper(entry: &mut u32, blocks: &mut Vec<u32>) -> usize {
    if *entry & DEEPER == 0 {
        let before = std::mem::replace(entry, DEEPER | (blocks.len() >> 8) as u32);
        blocks.resize(blocks.len() + 256, before);
    }
    ((*entry & !DEEPER) as usize) << 8
}

/// IPv6 address to class. The upper 64 bits are searched in a tree of 8 keys a node; the lower 64 only where some
/// boundary lies inside that /64, by halving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree6 {
    /// Keys of all levels, the root's level first, each level filled up to whole nodes with `u64::MAX`.
    pub keys: Vec<u64>,
    /// For each level, the first of its keys and how many it has without the filling; at most [`MAX_LEVELS`].
    pub levels: Vec<(u32, u32)>,
    /// For each key of the last level: the class after its lower boundaries, where they are (or [`WHOLE`]), how many.
    pub leaves: Vec<[u32; 3]>,
    /// Lower halves of boundaries; those of one /64 together, in order, the first 0.
    pub lows: Vec<u64>,
    /// The class from each of these on.
    pub low_classes: Vec<u32>,
}

/// Levels of the IPv6 tree at most: 8^8 boundaries.
pub const MAX_LEVELS: usize = 8;

impl Tree6 {
    pub(crate) fn of(segments: &Segments<u128>) -> Self {
        let mut tree =
            Self { keys: vec![], levels: vec![], leaves: vec![], lows: vec![], low_classes: vec![] };
        let mut highs: Vec<u64> = Vec::new();
        let mut rest = segments.as_slice();
        let mut before = 0;
        while let Some((first, _)) = rest.first() {
            let high = (first >> 64) as u64;
            let here = rest.partition_point(|(start, _)| (start >> 64) as u64 == high);
            highs.push(high);
            tree.push_leaf(&rest[..here], before);
            before = rest[here - 1].1;
            rest = &rest[here..];
        }
        tree.build_levels(highs);
        tree
    }

    /// The boundaries of one /64, and the class that reaches into it from before.
    fn push_leaf(&mut self, boundaries: &[(u128, u32)], before: u32) {
        let last = boundaries[boundaries.len() - 1];
        if boundaries.len() == 1 && last.0 as u64 == 0 {
            self.leaves.push([last.1, WHOLE, 0]);
            return;
        }
        let start = self.lows.len() as u32;
        if boundaries[0].0 as u64 != 0 {
            self.lows.push(0);
            self.low_classes.push(before);
        }
        self.lows.extend(boundaries.iter().map(|(at, _)| *at as u64));
        self.low_classes.extend(boundaries.iter().map(|(_, class)| *class));
        self.leaves.push([last.1, start, self.lows.len() as u32 - start]);
    }

    fn build_levels(&mut self, highs: Vec<u64>) {
        let mut levels = vec![highs];
        while levels[0].len() > NODE_KEYS {
            levels.insert(0, levels[0].iter().copied().step_by(NODE_KEYS).collect());
        }
        for level in levels {
            self.levels.push((self.keys.len() as u32, level.len() as u32));
            let filled = level.len().next_multiple_of(NODE_KEYS);
            self.keys.extend(level.iter().copied().chain(std::iter::repeat(u64::MAX)).take(filled));
        }
    }

    /// The most loads that a look-up takes.
    pub(super) fn bound(&self) -> u32 {
        let most = self
            .leaves
            .iter()
            .map(|[_, start, count]| if *start == WHOLE { 0 } else { *count })
            .max()
            .unwrap_or(0);
        // Halving takes as many steps as the number has bits, and a load for the class.
        let halvings = if most == 0 { 0 } else { (most - 1).checked_ilog2().map_or(0, |bits| bits + 1) + 1 };
        self.levels.len() as u32 + 1 + halvings
    }

    /// The class of an address, and how many loads it took; a node of eight keys is one.
    pub fn class(&self, address: u128) -> (u32, u32) {
        let (high, low) = ((address >> 64) as u64, address as u64);
        let mut node = 0u32;
        let mut place = 0u32;
        for (start, keys) in &self.levels {
            let first = (start + node * NODE_KEYS as u32) as usize;
            let below = self.keys[first..first + NODE_KEYS].iter().filter(|key| **key <= high).count() as u32;
            // The least key of a level is 0 or was the way here, so at least one is below; the filling is not a key.
            place = (node * NODE_KEYS as u32 + below - 1).min(keys - 1);
            node = place;
        }
        let [after, start, count] = self.leaves[place as usize];
        let loads = self.levels.len() as u32 + 1;
        if start == WHOLE {
            return (after, loads);
        }
        let (key_start, _) = self.levels[self.levels.len() - 1];
        if self.keys[(key_start + place) as usize] != high {
            return (after, loads);
        }
        self.low_class(low, start, count, loads)
    }

    fn low_class(&self, low: u64, start: u32, count: u32, mut loads: u32) -> (u32, u32) {
        let (mut first, mut size) = (start, count);
        while size > 1 {
            let half = size / 2;
            loads += 1;
            if self.lows[(first + half) as usize] <= low {
                first += half;
            }
            size -= half;
        }
        (self.low_classes[first as usize], loads + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class_of<T: Copy + PartialOrd>(segments: &Segments<T>, point: T) -> u32 {
        segments.iter().rev().find(|(start, _)| *start <= point).unwrap().1
    }

    proptest! {
        #[test]
        fn the_trie_agrees_with_the_segments(
            starts in proptest::collection::btree_set(prop_oneof![any::<u32>(), 0x0a00_0000u32..0x0a00_0300, 0xffff_ff00..=u32::MAX], 0..40),
            others in proptest::collection::vec(any::<u32>(), 20),
        ) {
            let starts = std::iter::once(0).chain(starts.into_iter().filter(|s| *s != 0));
            let segments: Segments<u32> = starts.zip((0u32..7).cycle()).collect();
            let trie = Trie4::of(&segments);
            let near = segments.iter().flat_map(|(s, _)| [*s, s.wrapping_sub(1), s.wrapping_add(1)]);
            for point in near.chain(others) {
                prop_assert_eq!(trie.class(point).0, class_of(&segments, point), "{}", point);
            }
        }

        #[test]
        fn the_tree_agrees_with_the_segments(
            starts in proptest::collection::btree_set(
                (prop_oneof![Just(u64::MAX), Just(0), 0u64..40, any::<u64>()], prop_oneof![Just(0u64), 0u64..5, Just(u64::MAX), any::<u64>()])
                    .prop_map(|(high, low)| u128::from(high) << 64 | u128::from(low)),
                0..200,
            ),
            others in proptest::collection::vec(any::<u128>(), 20),
        ) {
            let starts = std::iter::once(0).chain(starts.into_iter().filter(|s| *s != 0));
            let segments: Segments<u128> = starts.zip((0u32..7).cycle()).collect();
            let tree = Tree6::of(&segments);
            prop_assert!(tree.levels.len() <= MAX_LEVELS);
            let near = segments.iter().flat_map(|(s, _)| [*s, s.wrapping_sub(1), s.wrapping_add(1), s ^ (1 << 64)]);
            for point in near.chain(others).chain([u128::MAX]) {
                prop_assert_eq!(tree.class(point).0, class_of(&segments, point), "{:x}", point);
            }
        }
    }
}
