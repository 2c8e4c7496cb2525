//! Classes of all fields to the deciding rule: by precomputed tables where they fit, dense ones or in blocks, and by bit
//! vectors otherwise.

use super::blocks::{BLOCK_CLASSES, Blocks, Bounds, classes_of_both, directory_size, first_rows};
use super::vectors::{BLOCK_CHUNKS, CHUNK_WORDS, Store, Vectors};
use rustc_hash::{FxHashMap, FxHashSet};

/// The three classes that are combined in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Class of the source address.
    Source,
    /// Class of the destination address.
    Destination,
    /// Class of the zone pair and the service together.
    PairService,
}

impl Part {
    /// All of them, in the order of arrays that hold one thing for each.
    pub const ALL: [Part; 3] = [Part::Source, Part::Destination, Part::PairService];
}

/// Two tables: the first combines two parts into a class of their own, the last that class with the third part into the
/// deciding row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossed {
    /// The two parts of the first table, then that of the last.
    pub order: [Part; 3],
    /// At `class of order[0] * first_columns + class of order[1]`: the class of both.
    pub first: Vec<u32>,
    /// Number of classes of `order[1]`.
    pub first_columns: u32,
    /// At `class of both * last_columns + class of order[2]`: the deciding row and 1, or 0 where no rule matches.
    pub last: Vec<u32>,
    /// Number of classes of `order[2]`.
    pub last_columns: u32,
}

/// The same two tables in blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The two parts of the first table, then that of the last.
    pub order: [Part; 3],
    /// By the classes of the first two parts: the class of both.
    pub first: Blocks,
    /// By the class of both and that of the third part: the deciding row and 1, or 0 where no rule matches.
    pub last: Blocks,
}

/// For each class of each part the vector of its rows; the deciding row is the first that all vectors have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitVectors {
    /// Chunks of eight words, 512 rows; the first is empty.
    pub chunks: Vec<u64>,
    /// Blocks of sixteen numbers of chunks; the first is empty.
    pub blocks: Vec<u32>,
    /// For each part in the order of [`Part::ALL`], for each class, `width` numbers of blocks.
    pub vectors: [Vec<u32>; 3],
    /// Numbers of blocks that make a vector.
    pub width: u32,
    /// For each part, for each class, `summary_width` words with a bit for each chunk that is not empty.
    pub summaries: [Vec<u64>; 3],
    /// Words of a summary.
    pub summary_width: u32,
}

/// How the classes of a packet's fields lead to its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Combination {
    /// Two loads whatever the rules.
    Crossed(Crossed),
    /// Four loads whatever the rules, from smaller tables.
    Blocked(Blocked),
    /// More work, less memory.
    Vectors(BitVectors),
}

/// How large precomputed tables may become before bit vectors are used instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassLimits {
    /// Entries of the first table.
    pub first: usize,
    /// Entries of the last table.
    pub last: usize,
    /// Entries of both tables together when they are in blocks.
    pub blocks: usize,
}

impl ClassLimits {
    /// What suits a number of rules. More rules may take longer to build, so the limits grow with them: dense tables to 16
    /// MiB each, tables in blocks to 64 MiB together, and to 20 MiB at 10,000 rules.
    pub fn for_rows(rows: usize) -> Self {
        Self {
            first: (rows * 256).clamp(1 << 16, 1 << 22),
            last: (rows * 2048).clamp(1 << 17, 1 << 22),
            blocks: (rows * 512).clamp(1 << 17, 1 << 24),
        }
    }

    /// No tables: always bit vectors.
    pub const NONE: ClassLimits = Self { first: 0, last: 0, blocks: 0 };
    /// Dense tables wherever they fit into 16 MiB each.
    pub const DENSE: ClassLimits = Self { first: 1 << 22, last: 1 << 22, blocks: 0 };
    /// Tables in blocks wherever they fit into 64 MiB.
    pub const BLOCKS: ClassLimits = Self { first: 0, last: 0, blocks: 1 << 24 };
}

/// Combines two fields; `None` when the table would have more entries than the limit.
pub(super) fn cross(
    store: &mut Store,
    a: &Vectors,
    b: &Vectors,
    limit: usize,
) -> Option<(Vec<u32>, Vectors)> {
    if a.len().checked_mul(b.len())? > limit {
        return None;
    }
    let mut table = Vec::with_capacity(a.len() * b.len());
    let mut classes = Vectors::new(store);
    let mut both = Vec::new();
    for x in 0..a.len() as u32 {
        for y in 0..b.len() as u32 {
            store.and(a.get(x), b.get(y), &mut both);
            table.push(classes.number(&both));
        }
    }
    Some((table, classes))
}

/// Chooses the method by size: dense tables if they fit, else tables in blocks if those do, or else vectors.
pub(super) fn choose(store: &mut Store, parts: &[Vectors; 3], limits: ClassLimits) -> Combination {
    if let Some(crossed) = crossed(store, parts, limits) {
        return Combination::Crossed(crossed);
    }
    match blocked(store, parts, limits.blocks) {
        Some(blocked) => Combination::Blocked(blocked),
        None => Combination::Vectors(bit_vectors(store, parts)),
    }
}

/// Two parts to combine first, and the third.
const ORDERS: [[usize; 3]; 3] = [[0, 1, 2], [0, 2, 1], [1, 2, 0]];

/// Dense tables, in the order whose first is the smallest of those that fit.
fn crossed(store: &mut Store, parts: &[Vectors; 3], limits: ClassLimits) -> Option<Crossed> {
    let mut orders = ORDERS;
    orders.sort_by_key(|[a, b, _]| parts[*a].len().saturating_mul(parts[*b].len()));
    for [a, b, c] in orders {
        // The class of both is rarely much coarser than the finer of the two: do not build a table that will be thrown away.
        let hopeless = parts[a].len().max(parts[b].len()).saturating_mul(parts[c].len()) / 16 > limits.last;
        if hopeless {
            continue;
        }
        let (first, classes) = cross(store, &parts[a], &parts[b], limits.first)?;
        if classes.len().saturating_mul(parts[c].len()) > limits.last {
            continue;
        }
        let last = last_table(store, &classes, &parts[c]);
        return Some(Crossed {
            order: [a, b, c].map(|i| Part::ALL[i]),
            first,
            first_columns: parts[b].len() as u32,
            last,
            last_columns: parts[c].len() as u32,
        });
    }
    None
}

/// Classes of each part that are combined to find out which two make the fewest classes together.
const SAMPLE: usize = 48;
/// Steps of building for each entry that tables in blocks may have, in all orders together: what keeps a vain attempt
/// within half of the time that is promised.
const STEPS: usize = 3;

/// Tables in blocks, in the order whose first makes the fewest classes, as far as a sample tells; `None` when they do not fit.
fn blocked(store: &mut Store, parts: &[Vectors; 3], limit: usize) -> Option<Blocked> {
    let mut orders: Vec<(usize, [usize; 3])> = ORDERS
        .into_iter()
        .filter(|order| may_fit(parts, *order, limit))
        .map(|order| (kinds_in_sample(store, &parts[order[0]], &parts[order[1]]), order))
        .collect();
    orders.sort_unstable();
    let mut bounds = Bounds { entries: 0, classes: 0, steps: limit.saturating_mul(STEPS) };
    orders.into_iter().find_map(|(_, order)| blocked_in_order(store, parts, order, limit, &mut bounds))
}

/// Whether directories alone leave room. The class of both is rarely much coarser than the finer of the two.
fn may_fit(parts: &[Vectors; 3], order: [usize; 3], limit: usize) -> bool {
    let [a, b, c] = order.map(|i| parts[i].len());
    directory_size(a, b).saturating_add(directory_size(a.max(b) / 4, c)) < limit
}

/// How many different classes some classes of two parts make.
fn kinds_in_sample(store: &mut Store, a: &Vectors, b: &Vectors) -> usize {
    let sample = |part: &Vectors| (0..part.len() as u32).step_by(part.len().div_ceil(SAMPLE));
    let mut kinds = FxHashSet::default();
    for x in sample(a) {
        for y in sample(b) {
            let mut both = Vec::new();
            store.and(a.get(x), b.get(y), &mut both);
            kinds.insert(both);
        }
    }
    kinds.len()
}

fn blocked_in_order(
    store: &mut Store,
    parts: &[Vectors; 3],
    order: [usize; 3],
    limit: usize,
    bounds: &mut Bounds,
) -> Option<Blocked> {
    let [a, b, c] = order.map(|i| &parts[i]);
    // Each class of both takes entries of the last table's directory.
    bounds.classes = limit / c.len().div_ceil(BLOCK_CLASSES);
    bounds.entries = limit;
    let (first, both) = classes_of_both(store, a, b, bounds)?;
    let last = first_rows(store, &both, c, bounds)?;
    Some(Blocked { order: order.map(|i| Part::ALL[i]), first, last })
}

fn last_table(store: &Store, a: &Vectors, b: &Vectors) -> Vec<u32> {
    let mut table = Vec::with_capacity(a.len() * b.len());
    for x in 0..a.len() as u32 {
        for y in 0..b.len() as u32 {
            table.push(store.first_in_common(a.get(x), b.get(y)).map_or(0, |row| row + 1));
        }
    }
    table
}

/// Copies what the classes use out of the store, which holds intermediate results too.
fn bit_vectors(store: &Store, parts: &[Vectors; 3]) -> BitVectors {
    let mut out = Compact {
        store,
        chunks: vec![0; CHUNK_WORDS],
        blocks: vec![0; BLOCK_CHUNKS],
        chunk_numbers: FxHashMap::from_iter([(0, 0)]),
        block_numbers: FxHashMap::from_iter([(0, 0)]),
    };
    let width = store.width();
    let summary_width = (width * BLOCK_CHUNKS).div_ceil(64);
    let vectors = [0, 1, 2].map(|i| parts[i].blocks.iter().map(|block| out.block(*block)).collect());
    let summaries = [0, 1, 2].map(|i| {
        let classes = 0..parts[i].len() as u32;
        classes.flat_map(|class| summary(store, parts[i].get(class), summary_width)).collect()
    });
    BitVectors {
        chunks: out.chunks,
        blocks: out.blocks,
        vectors,
        width: width as u32,
        summaries,
        summary_width: summary_width as u32,
    }
}

fn summary(store: &Store, vector: &[u32], words: usize) -> Vec<u64> {
    let mut summary = vec![0u64; words];
    for (place, block) in vector.iter().enumerate() {
        for (i, chunk) in store.blocks[*block as usize].iter().enumerate() {
            let bit = place * BLOCK_CHUNKS + i;
            summary[bit / 64] |= u64::from(*chunk != 0) << (bit % 64);
        }
    }
    summary
}

struct Compact<'s> {
    store: &'s Store,
    chunks: Vec<u64>,
    blocks: Vec<u32>,
    chunk_numbers: FxHashMap<u32, u32>,
    block_numbers: FxHashMap<u32, u32>,
}

impl Compact<'_> {
    fn block(&mut self, old: u32) -> u32 {
        if let Some(new) = self.block_numbers.get(&old) {
            return *new;
        }
        let chunks = self.store.blocks[old as usize].map(|chunk| self.chunk(chunk));
        let new = (self.blocks.len() / BLOCK_CHUNKS) as u32;
        self.blocks.extend(chunks);
        self.block_numbers.insert(old, new);
        new
    }

    fn chunk(&mut self, old: u32) -> u32 {
        *self.chunk_numbers.entry(old).or_insert_with(|| {
            let new = (self.chunks.len() / CHUNK_WORDS) as u32;
            self.chunks.extend(self.store.chunks[old as usize]);
            new
        })
    }
}

impl Crossed {
    /// The deciding row and 1, or 0; and how many loads it took.
    pub(super) fn row(&self, classes: [u32; 3]) -> (u32, u32) {
        let [a, b, c] = self.order.map(|part| classes[part as usize]);
        let both = self.first[(a * self.first_columns + b) as usize];
        (self.last[(both * self.last_columns + c) as usize], 2)
    }
}

impl Blocked {
    /// The deciding row and 1, or 0; and how many loads it took.
    pub(super) fn row(&self, classes: [u32; 3]) -> (u32, u32) {
        let [a, b, c] = self.order.map(|part| classes[part as usize]);
        (self.last.get(self.first.get(a, b), c), 4)
    }
}

impl BitVectors {
    /// The most loads that a look-up takes: every chunk of the class that has most.
    pub(super) fn bound(&self) -> u32 {
        let chunks = |summaries: &Vec<u64>| {
            let classes = summaries.chunks(self.summary_width.max(1) as usize);
            classes.map(|words| words.iter().map(|word| word.count_ones()).sum::<u32>()).max().unwrap_or(0)
        };
        3 * self.summary_width + 9 * self.summaries.iter().map(chunks).min().unwrap_or(0)
    }

    /// The deciding row and 1, or 0; and how many loads it took. A chunk is one load: a line of the cache.
    pub(super) fn row(&self, classes: [u32; 3]) -> (u32, u32) {
        let mut loads = 0;
        for word in 0..self.summary_width {
            let mut candidates = u64::MAX;
            for (summary, class) in self.summaries.iter().zip(classes) {
                candidates &= summary[(class * self.summary_width + word) as usize];
            }
            loads += 3;
            while candidates != 0 {
                let chunk = word * 64 + candidates.trailing_zeros();
                candidates &= candidates - 1;
                loads += 9;
                let found = self.first_in_chunk(classes, chunk);
                if found != 0 {
                    return (found, loads);
                }
            }
        }
        (0, loads)
    }

    fn first_in_chunk(&self, classes: [u32; 3], chunk: u32) -> u32 {
        let mut starts = [0usize; 3];
        for ((start, vectors), class) in starts.iter_mut().zip(&self.vectors).zip(classes) {
            let block = vectors[(class * self.width + chunk / BLOCK_CHUNKS as u32) as usize];
            let number = self.blocks[block as usize * BLOCK_CHUNKS + chunk as usize % BLOCK_CHUNKS];
            *start = number as usize * CHUNK_WORDS;
        }
        for word in 0..CHUNK_WORDS {
            let all = starts.iter().fold(u64::MAX, |all, start| all & self.chunks[start + word]);
            if all != 0 {
                return chunk * (CHUNK_WORDS as u32 * 64) + word as u32 * 64 + all.trailing_zeros() + 1;
            }
        }
        0
    }
}
