//! All lists of a policy as one table: from an address to the lists that have it. The BPF program does exactly what
//! [`ListTable::look_up`] does (`bpf/firewall/lists.h`).
//!
//! IPv4: the upper bits of an address choose a block, whose entries are sorted. An entry says that from its address on the lists of its
//! class have all addresses until the next entry, or that they have its address alone. IPv6: starts of the same kind, all in one row.

use super::blocks::{Blocks, SINGLE, most_classes};
use super::runs::runs;
use super::{List, OnLists, bound};
use crate::address::AddressSet;
use std::net::IpAddr;
use std::num::NonZero;
use std::thread::available_parallelism;

/// Upper bits of an IPv4 address by which its block is found: the fewest and the most.
const INDEX_BITS: (u32, u32) = (12, 22);
/// Ranges of lists that a block may have on the average before blocks are made smaller: eight entries, half a line of the cache, where no
/// two lists overlap.
const RANGES_OF_BLOCK: u64 = 4;
/// Ranges from which on more than one core builds the blocks: it takes a few hundredths of a second, where starting threads takes none.
const RANGES_OF_THREAD: u64 = 1 << 20;
/// Memory and not cores would be what more of them wait for.
const MOST_THREADS: u64 = 8;

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
        let Blocks { masks, index, entries } = loop {
            match Blocks::of(&v4, index_bits, threads(ranges)) {
                Ok(built) => break built,
                // Rare: the lists overlap in thousands of ways.
                Err(classes) => index_bits = self::index_bits(ranges, classes)?,
            }
        };
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

/// So that blocks are small and every class has a number.
fn index_bits(ranges: u64, classes: usize) -> Result<u32, BuildError> {
    let (least, most) = INDEX_BITS;
    let for_ranges = (least..most).find(|bits| ranges <= RANGES_OF_BLOCK << bits).unwrap_or(most);
    (for_ranges..=most)
        .find(|bits| classes <= most_classes(*bits))
        .ok_or(BuildError::TooManyClasses { found: classes - 1, most: most_classes(most) - 1 })
}

/// How many cores build the blocks of so many ranges.
fn threads(ranges: u64) -> usize {
    let cores = available_parallelism().map_or(1, NonZero::get);
    cores.min((ranges / RANGES_OF_THREAD).clamp(1, MOST_THREADS) as usize)
}

/// The table of IPv6.
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
