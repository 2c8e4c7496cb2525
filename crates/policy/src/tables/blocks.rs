//! Tables of two fields' classes in blocks: what a dense table would hold, with what it repeats kept once.
//!
//! A table of thousands by thousands of classes says the same nearly everywhere: two hosts of one network are distinguished
//! by a few rules, and only at the destinations that these name. So the classes of the second field are cut into blocks of 64;
//! in each block most classes of the first field are alike, and are worked out once. Never goes through the whole product:
//! ranges of blocks are looked at first, and inside one only classes that it distinguishes.

use super::vectors::{Store, Union, Vectors};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Classes of the second field in a block.
pub const BLOCK_CLASSES: usize = 64;
/// Parts into which a range of classes is cut on the way to blocks.
const PARTS: u32 = 16;

type Block = [u32; BLOCK_CLASSES];

/// A table by the classes of two fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    /// At `second / 64 * height + first`: the number of a block.
    pub directory: Vec<u32>,
    /// Number of classes of the first field.
    pub height: u32,
    /// Blocks of 64 entries by `second % 64`, each different one once.
    pub entries: Vec<u32>,
}

impl Blocks {
    /// The entry of two classes: two loads.
    pub fn get(&self, first: u32, second: u32) -> u32 {
        let (column, place) = (second as usize / BLOCK_CLASSES, second as usize % BLOCK_CLASSES);
        let block = self.directory[column * self.height as usize + first as usize] as usize;
        self.entries[block * BLOCK_CLASSES + place]
    }

    /// Entries of directory and blocks.
    pub fn size(&self) -> usize {
        self.directory.len() + self.entries.len()
    }
}

/// What tables may cost. Each takes its part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Entries of directory and blocks.
    pub(super) entries: usize,
    /// Classes of both fields together, where these are the entries.
    pub(super) classes: usize,
    /// Steps of 10 to 30 nanoseconds to build them; vain attempts take them too.
    pub(super) steps: usize,
}

/// Entries of a directory.
pub(super) fn directory_size(first: usize, second: usize) -> usize {
    first.saturating_mul(second.div_ceil(BLOCK_CLASSES))
}

/// The table whose entries are classes of both fields, and these; `None` beyond the bounds. Leaves what is left of them.
pub(super) fn classes_of_both(
    store: &mut Store,
    first: &Vectors,
    second: &Vectors,
    bounds: &mut Bounds,
) -> Option<(Blocks, Vectors)> {
    let mut classes = Vectors::new(store);
    // Number 0: no rows in common, as an untouched entry says.
    classes.number(&vec![0; store.width()]);
    let (blocks, entry) = Builder::new(store, first, second, Entry::Class(classes), bounds)?.built()?;
    match entry {
        Entry::Class(classes) => Some((blocks, classes)),
        Entry::FirstRow => None,
    }
}

/// The table whose entries are the first row that both classes have and 1, or 0; `None` beyond the bounds.
pub(super) fn first_rows(
    store: &mut Store,
    first: &Vectors,
    second: &Vectors,
    bounds: &mut Bounds,
) -> Option<Blocks> {
    Some(Builder::new(store, first, second, Entry::FirstRow, bounds)?.built()?.0)
}

/// What an entry says.
enum Entry {
    /// The class of both, among those that are known so far.
    Class(Vectors),
    FirstRow,
}

struct Builder<'b> {
    store: &'b mut Store,
    first: &'b Vectors,
    second: &'b Vectors,
    entry: Entry,
    bounds: &'b mut Bounds,
    entries: Vec<u32>,
    numbers: FxHashMap<Block, u32>,
    /// For each row, a bit for each class of the block at hand that has it.
    columns: Vec<u64>,
    /// What the class at hand has in common with the range at hand: the place of a word's first bit, and the word.
    common: Vec<(u32, u64)>,
}

impl<'b> Builder<'b> {
    /// Takes the directory's entries from the bounds.
    fn new(
        store: &'b mut Store,
        first: &'b Vectors,
        second: &'b Vectors,
        entry: Entry,
        bounds: &'b mut Bounds,
    ) -> Option<Self> {
        bounds.entries = bounds.entries.checked_sub(directory_size(first.len(), second.len()))?;
        let columns = vec![0; store.bits()];
        let (entries, numbers, common) = (Vec::new(), FxHashMap::default(), Vec::new());
        Some(Self { store, first, second, entry, bounds, entries, numbers, columns, common })
    }

    fn built(mut self) -> Option<(Blocks, Entry)> {
        let (height, width) = (self.first.len() as u32, self.second.len() as u32);
        let mut size = BLOCK_CLASSES as u32;
        while size < width {
            size *= PARTS;
        }
        let all: Vec<u32> = (0..height).collect();
        let directory = self.range(&all, 0..width, size)?;
        Some((Blocks { directory, height, entries: self.entries }, self.entry))
    }

    /// For each block of a range of the second field's classes, for each of some classes of the first: the block's number.
    fn range(&mut self, firsts: &[u32], range: Range<u32>, size: u32) -> Option<Vec<u32>> {
        if size as usize <= BLOCK_CLASSES {
            return self.blocks(firsts, range);
        }
        let size = size / PARTS;
        let mut numbers = Vec::new();
        for start in range.clone().step_by(size as usize) {
            let part = start..range.end.min(start + size);
            let (few, of) = self.distinguished(firsts, part.clone())?;
            let found = self.range(&few, part, size)?;
            for block in found.chunks(few.len()) {
                numbers.extend(of.iter().map(|place| block[*place as usize]));
            }
        }
        Some(numbers)
    }

    /// One of each kind of classes that a range distinguishes, and for each class the place of its own kind.
    fn distinguished(&mut self, firsts: &[u32], range: Range<u32>) -> Option<(Vec<u32>, Vec<u32>)> {
        let union = self.union(range);
        let mut known: FxHashMap<Box<[(u32, u64)]>, u32> = FxHashMap::default();
        let mut few = Vec::new();
        let mut of = Vec::with_capacity(firsts.len());
        for class in firsts {
            self.meet(*class, &union)?;
            let place = known.get(self.common.as_slice()).copied().unwrap_or_else(|| {
                few.push(*class);
                known.insert(self.common.as_slice().into(), few.len() as u32 - 1);
                few.len() as u32 - 1
            });
            of.push(place);
        }
        Some((few, of))
    }

    /// The numbers of one block for each of some classes.
    fn blocks(&mut self, firsts: &[u32], range: Range<u32>) -> Option<Vec<u32>> {
        let union = self.union(range.clone());
        self.mark_columns(range.clone());
        let mut known: FxHashMap<Box<[(u32, u64)]>, u32> = FxHashMap::default();
        let mut numbers = Vec::with_capacity(firsts.len());
        for class in firsts {
            self.meet(*class, &union)?;
            let number = match known.get(self.common.as_slice()) {
                Some(number) => *number,
                None => {
                    let number = self.block(*class, range.clone())?;
                    known.insert(self.common.as_slice().into(), number);
                    number
                }
            };
            numbers.push(number);
        }
        Some(numbers)
    }

    fn union(&self, range: Range<u32>) -> Union {
        self.store.union(range.map(|class| self.second.get(class)))
    }

    fn mark_columns(&mut self, range: Range<u32>) {
        self.columns.fill(0);
        let mut rows = Vec::new();
        for (bit, class) in range.enumerate() {
            rows.clear();
            self.store.bits_in_common(&[self.second.get(class)], &mut rows);
            rows.iter().for_each(|row| self.columns[*row as usize] |= 1 << bit);
        }
    }

    /// Sets `common` for a class.
    fn meet(&mut self, class: u32, union: &Union) -> Option<()> {
        self.common.clear();
        let common = &mut self.common;
        self.store.meet(self.first.get(class), union, |base, word| common.push((base, word)));
        self.spend(2 + self.common.len())
    }

    /// The number of the block of a class that has `common` rows with it.
    fn block(&mut self, class: u32, range: Range<u32>) -> Option<u32> {
        let block = match self.entry {
            Entry::Class(_) => self.block_of_classes(class, range.start)?,
            Entry::FirstRow => self.block_of_rows(range.len())?,
        };
        if let Some(number) = self.numbers.get(&block) {
            return Some(*number);
        }
        self.bounds.entries = self.bounds.entries.checked_sub(BLOCK_CLASSES)?;
        let number = (self.entries.len() / BLOCK_CLASSES) as u32;
        self.entries.extend(block);
        self.numbers.insert(block, number);
        Some(number)
    }

    fn block_of_classes(&mut self, class: u32, start: u32) -> Option<Block> {
        let mut touched = bits(&self.common).fold(0, |columns, row| columns | self.columns[row as usize]);
        self.spend(touched.count_ones() as usize * 8)?;
        let Entry::Class(classes) = &mut self.entry else { return None };
        let mut block = [0; BLOCK_CLASSES];
        let mut both = Vec::new();
        while touched != 0 {
            let column = touched.trailing_zeros();
            touched &= touched - 1;
            self.store.and(self.first.get(class), self.second.get(start + column), &mut both);
            block[column as usize] = classes.number(&both);
        }
        (classes.len() <= self.bounds.classes).then_some(block)
    }

    fn block_of_rows(&mut self, classes: usize) -> Option<Block> {
        let mut block = [0; BLOCK_CLASSES];
        let mut open = u64::MAX >> (BLOCK_CLASSES - classes);
        let mut rows = 0;
        for row in bits(&self.common) {
            let mut here = self.columns[row as usize] & open;
            open &= !here;
            while here != 0 {
                block[here.trailing_zeros() as usize] = row + 1;
                here &= here - 1;
            }
            rows += 1;
            if open == 0 {
                break;
            }
        }
        self.spend(rows)?;
        Some(block)
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.bounds.steps = self.bounds.steps.checked_sub(steps)?;
        Some(())
    }
}

/// The bits of words, each with the place of its first.
fn bits(words: &[(u32, u64)]) -> impl Iterator<Item = u32> {
    words.iter().flat_map(|(base, word)| {
        let mut word = *word;
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| base + word.trailing_zeros());
            word &= word.wrapping_sub(1);
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::vectors::Changing;
    use proptest::prelude::*;

    const ROWS: u32 = 700;

    /// A field of many classes: a few wide sets, and hosts of their own.
    fn field(store: &mut Store, wide: &[(u32, u32)], classes: u32, salt: u32) -> Vectors {
        let mut vectors = Vectors::new(store);
        for class in 0..classes {
            let mut rows: Vec<u32> = (0u32..)
                .zip(wide)
                .filter(|(_, (from, to))| (*from..*to).contains(&class))
                .map(|(i, _)| i)
                .collect();
            rows.push(100 + (class.wrapping_mul(salt) % (ROWS - 100)));
            let mut changing = Changing::new(store);
            changing.flip(&rows);
            let vector = changing.vector(store).to_vec();
            vectors.number(&vector);
        }
        vectors
    }

    const ENOUGH: Bounds = Bounds { entries: 1 << 20, classes: 1 << 20, steps: 1 << 30 };

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn blocks_hold_what_a_dense_table_would(
            wide in proptest::collection::vec((0u32..1300, 0u32..1300), 0..90),
            sizes in (1u32..200, prop_oneof![Just(1u32), Just(63), Just(64), Just(65), Just(1300)]),
            salts in (any::<u32>(), any::<u32>()),
        ) {
            let mut store = Store::new(ROWS as usize);
            let a = field(&mut store, &wide, sizes.0, salts.0);
            let b = field(&mut store, &wide, sizes.1, salts.1);
            let (table, classes) = classes_of_both(&mut store, &a, &b, &mut ENOUGH.clone()).unwrap();
            let rows = first_rows(&mut store, &a, &b, &mut ENOUGH.clone()).unwrap();
            let mut both = Vec::new();
            for x in 0..a.len() as u32 {
                for y in 0..b.len() as u32 {
                    store.and(a.get(x), b.get(y), &mut both);
                    prop_assert_eq!(classes.get(table.get(x, y)), &both[..], "{} {}", x, y);
                    let first = store.first_in_common(a.get(x), b.get(y)).map_or(0, |row| row + 1);
                    prop_assert_eq!(rows.get(x, y), first, "{} {}", x, y);
                }
            }
        }
    }

    #[test]
    fn every_bound_ends_the_building() {
        for (bounds, built) in [
            (ENOUGH, true),
            (Bounds { entries: 20, ..ENOUGH }, false),
            (Bounds { entries: 200, ..ENOUGH }, false),
            (Bounds { classes: 3, ..ENOUGH }, false),
            (Bounds { steps: 100, ..ENOUGH }, false),
        ] {
            let mut store = Store::new(ROWS as usize);
            let a = field(&mut store, &[(0, 40), (20, 60)], 60, 7);
            let b = field(&mut store, &[(0, 40), (20, 60)], 60, 11);
            let table = classes_of_both(&mut store, &a, &b, &mut bounds.clone());
            assert_eq!(table.is_some(), built, "{bounds:?}");
        }
    }
}
