//! Bit vectors that share what they have in common.
//!
//! A vector of up to millions of bits is cut into chunks of 512 bits, and chunks into blocks of 16. Each different chunk
//! and each different block is stored once, so that 100,000 classes of addresses whose vectors differ in a few bits take
//! a few hundred bytes each, and equal vectors are found by comparing a few numbers. Number 0 is the empty chunk, and the
//! empty block.

use rustc_hash::FxHashMap;

/// Words of a chunk: 64 bytes, a line of the cache.
pub const CHUNK_WORDS: usize = 8;
/// Bits of a chunk.
pub const CHUNK_BITS: usize = CHUNK_WORDS * 64;
/// Chunks of a block: their numbers too are 64 bytes.
pub const BLOCK_CHUNKS: usize = 16;
/// Bits of a block.
pub const BLOCK_BITS: usize = CHUNK_BITS * BLOCK_CHUNKS;

type Chunk = [u64; CHUNK_WORDS];
type Block = [u32; BLOCK_CHUNKS];

/// Chunks and blocks, each stored once.
#[derive(Debug)]
pub(crate) struct Store {
    bits: usize,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) blocks: Vec<Block>,
    /// For each block, a bit for each chunk that is not empty.
    masks: Vec<u16>,
    chunk_numbers: FxHashMap<Chunk, u32>,
    block_numbers: FxHashMap<Block, u32>,
    /// What two blocks have in common, once computed.
    common: FxHashMap<(u32, u32), u32>,
    chunks_in_common: FxHashMap<(u32, u32), u32>,
}

/// Vectors of one field's classes: `width` block numbers each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vectors {
    pub(crate) width: usize,
    pub(crate) blocks: Vec<u32>,
    numbers: FxHashMap<Box<[u32]>, u32>,
}

impl Vectors {
    pub(crate) fn new(store: &Store) -> Self {
        Self { width: store.width(), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len() / self.width
    }

    pub(crate) fn get(&self, class: u32) -> &[u32] {
        &self.blocks[class as usize * self.width..][..self.width]
    }

    /// The number of a vector; a new one when it is not there yet.
    pub(crate) fn number(&mut self, vector: &[u32]) -> u32 {
        if let Some(number) = self.numbers.get(vector) {
            return *number;
        }
        let number = self.len() as u32;
        self.blocks.extend_from_slice(vector);
        self.numbers.insert(vector.into(), number);
        number
    }
}

impl Store {
    /// For vectors of a number of bits.
    pub(crate) fn new(bits: usize) -> Self {
        let mut store = Self {
            bits,
            chunks: Vec::new(),
            blocks: Vec::new(),
            masks: Vec::new(),
            chunk_numbers: FxHashMap::default(),
            block_numbers: FxHashMap::default(),
            common: FxHashMap::default(),
            chunks_in_common: FxHashMap::default(),
        };
        store.chunk([0; CHUNK_WORDS]);
        store.block([0; BLOCK_CHUNKS]);
        store
    }

    /// Bits of a vector.
    pub(crate) fn bits(&self) -> usize {
        self.bits
    }

    /// Block numbers of a vector, at least 1.
    pub(crate) fn width(&self) -> usize {
        self.bits.div_ceil(BLOCK_BITS).max(1)
    }

    pub(crate) fn chunk(&mut self, chunk: Chunk) -> u32 {
        let next = self.chunks.len() as u32;
        let number = *self.chunk_numbers.entry(chunk).or_insert(next);
        if number == next {
            self.chunks.push(chunk);
        }
        number
    }

    pub(crate) fn block(&mut self, block: Block) -> u32 {
        let next = self.blocks.len() as u32;
        let number = *self.block_numbers.entry(block).or_insert(next);
        if number == next {
            self.masks.push((0..).zip(block).fold(0, |mask, (i, chunk)| mask | u16::from(chunk != 0) << i));
            self.blocks.push(block);
        }
        number
    }

    /// What two vectors have in common.
    pub(crate) fn and(&mut self, a: &[u32], b: &[u32], into: &mut Vec<u32>) {
        into.clear();
        for (x, y) in a.iter().zip(b) {
            let both = self.and_blocks(*x, *y);
            into.push(both);
        }
    }

    /// The first bit that two vectors have in common.
    pub(crate) fn first_in_common(&self, a: &[u32], b: &[u32]) -> Option<u32> {
        let mut first = None;
        self.words_in_common(&[a, b], |base, word| {
            first = Some(base + word.trailing_zeros());
            false
        });
        first
    }

    /// Every bit that some vectors have in common, in order, after what is there already.
    pub(crate) fn bits_in_common(&self, vectors: &[&[u32]], into: &mut Vec<u32>) {
        self.words_in_common(vectors, |base, mut word| {
            while word != 0 {
                into.push(base + word.trailing_zeros());
                word &= word - 1;
            }
            true
        });
    }

    /// Visits the words, not 0, that some vectors have in common, each with its first bit, until asked to stop. Nothing is
    /// kept, so this is for what is asked once.
    fn words_in_common(&self, vectors: &[&[u32]], mut visit: impl FnMut(u32, u64) -> bool) {
        for place in 0..self.width() {
            let blocks = vectors.iter().map(|vector| vector[place] as usize);
            let mut mask = blocks.fold(u16::MAX, |mask, block| mask & self.masks[block]);
            while mask != 0 {
                let at = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let mut words = [u64::MAX; CHUNK_WORDS];
                for vector in vectors {
                    let chunk = &self.chunks[self.blocks[vector[place] as usize][at] as usize];
                    words.iter_mut().zip(chunk).for_each(|(word, other)| *word &= other);
                }
                for (i, word) in words.iter().enumerate().filter(|(_, word)| **word != 0) {
                    if !visit((place * BLOCK_BITS + at * CHUNK_BITS + i * 64) as u32, *word) {
                        return;
                    }
                }
            }
        }
    }

    fn and_blocks(&mut self, x: u32, y: u32) -> u32 {
        if x == 0 || y == 0 || x == y {
            return if x == y { x } else { 0 };
        }
        let key = (x.min(y), x.max(y));
        if let Some(known) = self.common.get(&key) {
            return *known;
        }
        let (a, b) = (self.blocks[x as usize], self.blocks[y as usize]);
        let mut both = [0; BLOCK_CHUNKS];
        for ((into, x), y) in both.iter_mut().zip(a).zip(b) {
            *into = self.and_chunks(x, y);
        }
        let number = self.block(both);
        self.common.insert(key, number);
        number
    }

    fn and_chunks(&mut self, x: u32, y: u32) -> u32 {
        if x == 0 || y == 0 || x == y {
            return if x == y { x } else { 0 };
        }
        let key = (x.min(y), x.max(y));
        if let Some(known) = self.chunks_in_common.get(&key) {
            return *known;
        }
        let (mut a, b) = (self.chunks[x as usize], self.chunks[y as usize]);
        a.iter_mut().zip(b).for_each(|(a, b)| *a &= b);
        let number = self.chunk(a);
        self.chunks_in_common.insert(key, number);
        number
    }

    /// The bits that any of some vectors has.
    pub(crate) fn union<'v>(&self, vectors: impl Iterator<Item = &'v [u32]>) -> Union {
        let mut union = Union {
            chunks: vec![[0; CHUNK_WORDS]; self.width() * BLOCK_CHUNKS],
            masks: vec![0; self.width()],
        };
        for vector in vectors {
            for (place, block) in vector.iter().enumerate() {
                let mut mask = self.masks[*block as usize];
                union.masks[place] |= mask;
                while mask != 0 {
                    let at = mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    let chunk = &self.chunks[self.blocks[*block as usize][at] as usize];
                    let into = &mut union.chunks[place * BLOCK_CHUNKS + at];
                    into.iter_mut().zip(chunk).for_each(|(word, other)| *word |= other);
                }
            }
        }
        union
    }

    /// Visits the words, not 0, that a vector and a union have in common, each with its first bit, in order.
    pub(crate) fn meet(&self, vector: &[u32], union: &Union, mut visit: impl FnMut(u32, u64)) {
        for (place, block) in vector.iter().enumerate() {
            let mut mask = self.masks[*block as usize] & union.masks[place];
            while mask != 0 {
                let at = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let chunk = &self.chunks[self.blocks[*block as usize][at] as usize];
                let number = place * BLOCK_CHUNKS + at;
                for (i, (word, other)) in chunk.iter().zip(&union.chunks[number]).enumerate() {
                    if word & other != 0 {
                        visit((number * CHUNK_BITS + i * 64) as u32, word & other);
                    }
                }
            }
        }
    }

    /// How many bits a vector has.
    pub(crate) fn count(&self, vector: &[u32]) -> u64 {
        let mut count = 0;
        self.words_in_common(&[vector], |_, word| {
            count += u64::from(word.count_ones());
            true
        });
        count
    }
}

/// The bits that any of some vectors has, flat.
#[derive(Debug)]
pub(crate) struct Union {
    chunks: Vec<Chunk>,
    /// For each block, a bit for each chunk that is not empty.
    masks: Vec<u16>,
}

/// A vector whose bits are turned on and off: what a sweep over boundaries needs.
#[derive(Debug)]
pub(crate) struct Changing {
    words: Vec<u64>,
    vector: Vec<u32>,
    /// Chunks in which bits were flipped since the vector was last asked for, each once.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
}

impl Changing {
    pub(crate) fn new(store: &Store) -> Self {
        let chunks = store.width() * BLOCK_CHUNKS;
        Self {
            words: vec![0; chunks * CHUNK_WORDS],
            vector: vec![0; store.width()],
            changed: Vec::new(),
            is_changed: vec![false; chunks],
        }
    }

    pub(crate) fn flip(&mut self, bits: &[u32]) {
        for bit in bits {
            self.words[*bit as usize / 64] ^= 1 << (bit % 64);
            let chunk = *bit as usize / CHUNK_BITS;
            if !self.is_changed[chunk] {
                self.is_changed[chunk] = true;
                self.changed.push(chunk as u32);
            }
        }
    }

    /// The vector as it stands.
    pub(crate) fn vector(&mut self, store: &mut Store) -> &[u32] {
        self.changed.sort_unstable();
        self.changed.iter().for_each(|chunk| self.is_changed[*chunk as usize] = false);
        let mut rest = self.changed.as_slice();
        while let Some(&first) = rest.first() {
            let place = first as usize / BLOCK_CHUNKS;
            let here = rest.partition_point(|chunk| *chunk as usize / BLOCK_CHUNKS == place);
            let mut block = store.blocks[self.vector[place] as usize];
            for chunk in &rest[..here] {
                let mut words = [0; CHUNK_WORDS];
                words.copy_from_slice(&self.words[*chunk as usize * CHUNK_WORDS..][..CHUNK_WORDS]);
                block[*chunk as usize % BLOCK_CHUNKS] = store.chunk(words);
            }
            self.vector[place] = store.block(block);
            rest = &rest[here..];
        }
        self.changed.clear();
        &self.vector
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const BITS: u32 = 20_000;

    fn bits() -> impl Strategy<Value = BTreeSet<u32>> {
        proptest::collection::btree_set(prop_oneof![0u32..130, 500u32..530, 0..BITS], 0..40)
    }

    fn vector_of(store: &mut Store, bits: &[u32]) -> Vec<u32> {
        let mut changing = Changing::new(store);
        changing.flip(bits);
        changing.vector(store).to_vec()
    }

    proptest! {
        #[test]
        fn vectors_agree_with_sets(a in bits(), b in bits()) {
            let mut store = Store::new(BITS as usize);
            let list = |set: &BTreeSet<u32>| set.iter().copied().collect::<Vec<_>>();
            let (x, y) = (vector_of(&mut store, &list(&a)), vector_of(&mut store, &list(&b)));
            let (mut both, mut found) = (Vec::new(), Vec::new());
            store.and(&x, &y, &mut both);
            store.bits_in_common(&[&both], &mut found);
            let expected: Vec<u32> = a.intersection(&b).copied().collect();
            prop_assert_eq!(store.first_in_common(&x, &y), expected.first().copied());
            prop_assert_eq!(&found, &expected);
            let mut changing = Changing::new(&store);
            changing.flip(&list(&a));
            changing.flip(&list(&b));
            changing.flip(&expected);
            let union: Vec<u32> = a.union(&b).copied().collect();
            prop_assert_eq!(changing.vector(&mut store).to_vec(), vector_of(&mut store, &union), "equal sets are equal numbers");
        }
    }
}
