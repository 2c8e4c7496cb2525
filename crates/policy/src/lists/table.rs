//! All lists of a policy as one table: from an address to the lists that have it. The BPF program does exactly what
//! [`ListTable::look_up`] does (`bpf/firewall/lists.h`).
//!
//! IPv4: the upper bits of an address choose a block, whose entries are sorted. An entry says that from its address on the lists of its
//! class have all addresses until the next entry, or that they have its address alone. IPv6: starts of the same kind, all in one row.

use super::{List, OnLists, bound};
use crate::address::AddressSet;
use crate::ranges::Point;
use rustc_hash::FxHashMap;
use std::net::IpAddr;

/// Upper bits of an IPv4 address by which its block is found: the fewest and the most.
const INDEX_BITS: (u32, u32) = (12, 22);
/// Ranges of lists that a block may have on the average before blocks are made smaller: eight entries, half a line of the cache, where no
/// two lists overlap.
const RANGES_OF_BLOCK: u64 = 4;
/// Of an entry: its address alone has the class. `ENTRY_SINGLE` in C.
const SINGLE: u32 = 1;

/// From addresses to the lists that have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTable {
    /// Upper bits of an IPv4 address by which its block is found.
    pub index_bits: u32,
    /// Where the entries of each block begin, and where the last one's end.
    pub index: Vec<u32>,
    /// The rest of the address `<< index_bits | class << 1 |` whether it is a single address; sorted in each block.
    pub entries: Vec<u32>,
    /// By class, the lists that have its addresses: a bit each. The first class is of no list.
    pub masks: Vec<u32>,
    /// Of IPv6: sorted; the first is the least address, if there is any.
    pub starts: Vec<Start6>,
}

/// From this address on, these lists have all addresses; until the next start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start6 {
    /// The address.
    pub first: u128,
    /// The lists: a bit each.
    pub lists: u32,
}

/// Why a table cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There could be more entries than numbers for them.
    #[error("the table of the lists could have more than {most} entries")]
    TooManyEntries {
        /// The most.
        most: u64,
    },
    /// The lists overlap in too many ways.
    #[error("the lists overlap in {found} ways, and the tables can hold {most}: bind fewer lists")]
    TooManyClasses {
        /// Sets of lists that some address has.
        found: usize,
        /// The most.
        most: usize,
    },
}

/// What is on the lists of a policy that are domains', for all lists in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainTables {
    /// By which new flows are judged.
    pub now: ListTable,
    /// By which flows are judged that are open when a policy comes into force: with what the domains stood for before.
    pub known: ListTable,
}

impl ListTable {
    /// Builds the table of some lists, at most 32, in their order.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(lists: &[&AddressSet]) -> Result<Self, BuildError> {
        let v4: Vec<&[(u32, u32)]> = lists.iter().map(|set| set.v4.ranges()).collect();
        let v6: Vec<&[(u128, u128)]> = lists.iter().map(|set| set.v6.ranges()).collect();
        // Runs are known only once they are found; lists that have no address in common have as many as ranges.
        let ranges: u64 = v4.iter().map(|ranges| ranges.len() as u64).sum();
        // `n` ranges make `2 n` runs at most. A run takes two entries, and one more in each block that it covers.
        let most = u64::from(u32::MAX >> 1);
        if ranges * 4 + (1 << INDEX_BITS.1) > most {
            return Err(BuildError::TooManyEntries { most });
        }
        let mut index_bits = index_bits(ranges, 1)?;
        let (masks, blocks) = loop {
            match blocks_of(&v4, index_bits, ranges as usize) {
                Ok(built) => break built,
                // Rare: the lists overlap in thousands of ways.
                Err(classes) => index_bits = self::index_bits(ranges, classes)?,
            }
        };
        let (index, entries) = blocks.finish();
        Ok(Self { index_bits, index, entries, masks, starts: starts(&v6) })
    }

    /// The lists that have an address: a bit each, in the order in which they were given.
    pub fn look_up(&self, address: IpAddr) -> u32 {
        match address {
            IpAddr::V4(v4) => self.masks[self.class(v4.into()) as usize],
            IpAddr::V6(v6) => {
                let behind = self.starts.partition_point(|start| start.first <= v6.into());
                behind.checked_sub(1).map_or(0, |at| self.starts[at].lists)
            }
        }
    }

    /// The lists that have the ends of a packet.
    pub fn on_lists(&self, source: IpAddr, destination: IpAddr) -> OnLists {
        OnLists { source: self.look_up(source), destination: self.look_up(destination) }
    }

    /// The place of the first list that refuses a new flow, of the lists that the table was built of.
    pub fn refusing(&self, lists: &[List], source: IpAddr, destination: IpAddr) -> Option<usize> {
        let (source, destination) = (self.look_up(source), self.look_up(destination));
        let [block_source, block_destination] = bound(lists, |list| list.block);
        let [require_source, require_destination] = bound(lists, |list| list.require);
        let on = (source & block_source) | (destination & block_destination);
        let refusing = on | (!source & require_source) | (!destination & require_destination);
        (refusing != 0).then(|| refusing.trailing_zeros() as usize)
    }

    fn class(&self, address: u32) -> u32 {
        let class_mask = (1 << self.index_bits) - 1;
        let block = (address >> (32 - self.index_bits)) as usize;
        let key = address << self.index_bits | class_mask;
        let entries = &self.entries[self.index[block] as usize..self.index[block + 1] as usize];
        let behind = entries.partition_point(|entry| *entry <= key);
        match behind.checked_sub(1).map(|at| entries[at]) {
            Some(entry) if entry & SINGLE == 0 || (entry ^ key) & !class_mask == 0 => {
                (entry & class_mask) >> 1
            }
            _ => 0,
        }
    }

    /// Bytes that it takes in the kernel, about.
    pub fn bytes(&self) -> usize {
        (self.index.len() + self.entries.len() + self.masks.len()) * 4 + self.starts.len() * 32
    }
}

/// The classes' lists, and the blocks of IPv4.
///
/// # Errors
/// How many classes there are, if they have no numbers beside so many bits.
fn blocks_of(lists: &[&[(u32, u32)]], bits: u32, ranges: usize) -> Result<(Vec<u32>, Blocks), usize> {
    let mut classes = FxHashMap::from_iter([(0, 0)]);
    let mut masks = vec![0];
    let mut blocks = Blocks::new(bits, ranges);
    runs(lists, |first, last, mask| {
        let class = *classes.entry(mask).or_insert_with(|| {
            masks.push(mask);
            masks.len() as u32 - 1
        });
        if class < most_classes(bits) as u32 {
            blocks.add(first, last, class);
        }
    });
    if masks.len() > most_classes(bits) { Err(masks.len()) } else { Ok((masks, blocks)) }
}

/// Classes that have a number beside so many bits of the index.
const fn most_classes(bits: u32) -> usize {
    1 << (bits - 1)
}

/// So that blocks are small and every class has a number.
fn index_bits(ranges: u64, classes: usize) -> Result<u32, BuildError> {
    let (least, most) = INDEX_BITS;
    let for_ranges = (least..most).find(|bits| ranges <= RANGES_OF_BLOCK << bits).unwrap_or(most);
    (for_ranges..=most)
        .find(|bits| classes <= most_classes(*bits))
        .ok_or(BuildError::TooManyClasses { found: classes - 1, most: most_classes(most) - 1 })
}

/// Shows every run of addresses that the same lists have, in order: first, last, and the lists. What is on no list is left out.
fn runs<T: Point>(lists: &[&[(T, T)]], mut each: impl FnMut(T, T, u32)) {
    let mut rest: Vec<&[(T, T)]> = lists.to_vec();
    let mut from = T::MIN;
    loop {
        let (mut mask, mut last, mut next) = (0, T::MAX, None::<T>);
        for (list, ranges) in rest.iter_mut().enumerate() {
            while let [(_, end), behind @ ..] = ranges
                && *end < from
            {
                *ranges = behind;
            }
            match ranges.first() {
                Some((first, end)) if *first <= from => {
                    mask |= 1 << list;
                    last = last.min(*end);
                }
                Some((first, _)) => next = Some(next.map_or(*first, |next| next.min(*first))),
                None => {}
            }
        }
        if mask == 0 {
            let Some(next) = next else { return };
            from = next;
            continue;
        }
        let last = next.and_then(Point::previous).map_or(last, |before| last.min(before));
        each(from, last, mask);
        match last.next() {
            Some(behind) => from = behind,
            None => return,
        }
    }
}

fn starts(lists: &[&[(u128, u128)]]) -> Vec<Start6> {
    let mut starts: Vec<Start6> = Vec::new();
    let mut behind = Some(0);
    runs(lists, |first, last, mask| {
        if behind.is_some_and(|behind| behind < first) {
            starts.push(Start6 { first: behind.unwrap_or(0), lists: 0 });
        }
        starts.push(Start6 { first, lists: mask });
        behind = last.checked_add(1);
    });
    if let Some(behind) = behind.filter(|_| !starts.is_empty()) {
        starts.push(Start6 { first: behind, lists: 0 });
    }
    starts
}

/// The blocks of IPv4 while runs are added in order.
struct Blocks {
    bits: u32,
    index: Vec<u32>,
    entries: Vec<u32>,
    /// Where the run before ends, if it needs an entry to end it and that has not been written yet.
    end: Option<u32>,
}

impl Blocks {
    fn new(bits: u32, ranges: usize) -> Self {
        Self {
            bits,
            index: Vec::with_capacity((1 << bits) + 1),
            entries: Vec::with_capacity(ranges),
            end: None,
        }
    }

    fn block_of(&self, address: u32) -> usize {
        (address >> (32 - self.bits)) as usize
    }

    /// Adds a run behind all that were added before.
    fn add(&mut self, first: u32, last: u32, class: u32) {
        let rest_bits = 32 - self.bits;
        let (mut from, last_block) = (first, self.block_of(last));
        for block in self.block_of(first)..=last_block {
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
        self.begin_blocks(block);
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

    /// All blocks up to this one have begun.
    fn begin_blocks(&mut self, block: usize) {
        if self.index.len() <= block {
            self.index.resize(block + 1, self.entries.len() as u32);
        }
    }

    fn finish(mut self) -> (Vec<u32>, Vec<u32>) {
        self.write_end();
        self.begin_blocks(1 << self.bits);
        (self.index, self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::RangeSet;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Holds a table against the sets, at and around all ends.
    fn hold(sets: &[AddressSet]) -> Result<(), TestCaseError> {
        let table = ListTable::build(&sets.iter().collect::<Vec<_>>()).unwrap();
        let expected = |address: IpAddr| {
            (0..).zip(sets).fold(0, |mask, (i, set)| mask | u32::from(set.contains(address)) << i)
        };
        let around = |end: u32| {
            [end.wrapping_sub(1), end, end.wrapping_add(1)].map(|it| IpAddr::V4(Ipv4Addr::from(it)))
        };
        let around6 = |end: u128| {
            [end.wrapping_sub(1), end, end.wrapping_add(1)].map(|it| IpAddr::V6(Ipv6Addr::from(it)))
        };
        let v4 = sets.iter().flat_map(|set| set.v4.ranges()).flat_map(|(a, b)| [around(*a), around(*b)]);
        let v6 = sets.iter().flat_map(|set| set.v6.ranges()).flat_map(|(a, b)| [around6(*a), around6(*b)]);
        for address in v4.chain(v6).flatten().chain([around(0), around6(0)].concat()) {
            prop_assert_eq!(table.look_up(address), expected(address), "{}", address);
        }
        Ok(())
    }

    fn set(v4: Vec<(u32, u32)>, v6: Vec<(u128, u128)>) -> AddressSet {
        AddressSet { v4: RangeSet::of(v4), v6: RangeSet::of(v6) }
    }

    /// Ranges that often touch, overlap, and begin or end at blocks' ends.
    fn ends() -> impl Strategy<Value = (u32, u32)> {
        let near =
            prop_oneof![0u32..8, (1u32 << 20) - 4..(1u32 << 20) + 4, u32::MAX - 4..=u32::MAX, any::<u32>()];
        let length = prop_oneof![
            Just(0u32),
            0u32..4,
            (1u32 << 20) - 2..(1u32 << 20) + 2,
            Just(1u32 << 24),
            Just(u32::MAX)
        ];
        (near, length).prop_map(|(first, length)| (first, first.saturating_add(length)))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
        #[test]
        fn tables_agree_with_the_sets(lists in proptest::collection::vec(proptest::collection::vec(ends(), 0..12), 1..6)) {
            let sets: Vec<AddressSet> = lists
                .into_iter()
                .map(|ranges| {
                    let wide = ranges.iter().map(|(a, b)| (u128::from(*a) << 96, u128::from(*b) << 96 | u128::MAX >> 32));
                    let wide = wide.collect();
                    set(ranges, wide)
                })
                .collect();
            hold(&sets)?;
        }
    }

    #[test]
    fn ends_of_the_address_space() {
        for (what, v4, v6) in [
            ("nothing", vec![], vec![]),
            ("everything", vec![(0, u32::MAX)], vec![(0, u128::MAX)]),
            ("the first", vec![(0, 0)], vec![(0, 0)]),
            ("the last", vec![(u32::MAX, u32::MAX)], vec![(u128::MAX, u128::MAX)]),
            ("all but the last", vec![(0, u32::MAX - 1)], vec![(0, u128::MAX - 1)]),
        ] {
            hold(&[set(v4, v6)]).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let empty = ListTable::build(&[]).unwrap();
        assert_eq!(empty.look_up(Ipv4Addr::LOCALHOST.into()), 0);
    }

    #[test]
    fn many_addresses_take_small_blocks_and_four_bytes_each() {
        // A full cycle through all numbers: no two are the same.
        let some =
            |from: u32, count: u32| (from..from + count).map(|i| i.wrapping_mul(0x9e37_79b1)).map(|a| (a, a));
        let sets = [0u32, 100_000, 300_000].map(|from| set(some(from, from + 100_000).collect(), vec![]));
        let table = ListTable::build(&sets.each_ref()).unwrap();
        assert_eq!(table.index_bits, 18);
        assert!(table.entries.len() <= 700_000, "{}", table.entries.len());
        let longest = table.index.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(16), "{longest:?}");
        for (list, (from, count)) in (0..).zip([(0, 100_000), (100_000, 200_000), (300_000, 400_000)]) {
            for (address, _) in some(from, count) {
                assert_eq!(table.look_up(IpAddr::V4(address.into())), 1 << list);
            }
        }
        assert_eq!(table.look_up(IpAddr::V4(700_001u32.wrapping_mul(0x9e37_79b1).into())), 0);
    }

    #[test]
    fn classes_take_bits_from_the_blocks() {
        // Every pair of 32 lists: 496 ways, in as many runs; and more ways than the fewest bits can distinguish.
        let sets: Vec<AddressSet> = (0..32u32)
            .map(|list| {
                set(
                    (0..1 << 12)
                        .filter(|i: &u32| i.wrapping_mul(0x9e37_79b1) >> list & 1 == 1)
                        .map(|i| (i * 2, i * 2))
                        .collect(),
                    vec![],
                )
            })
            .collect();
        let table = ListTable::build(&sets.iter().collect::<Vec<_>>()).unwrap();
        assert!(table.masks.len() > 2048, "{}", table.masks.len());
        assert!(table.masks.len() <= 1 << (table.index_bits - 1));
        for i in 0..1u32 << 12 {
            let expected =
                (0..32).fold(0, |mask, list| mask | (i.wrapping_mul(0x9e37_79b1) >> list & 1) << list);
            assert_eq!(table.look_up(IpAddr::V4((i * 2).into())), expected);
        }
        assert_eq!(
            index_bits(1, (1 << 21) + 1),
            Err(BuildError::TooManyClasses { found: 1 << 21, most: (1 << 21) - 1 })
        );
    }
}
