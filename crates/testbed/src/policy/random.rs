//! Seeded pseudorandom numbers for policies: the same seed gives the same policy on every machine and for ever, which
//! is why no library's generator is used.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is small here: the bias of the remainder does not matter.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seeded order of all 32-bit numbers: a Feistel network of four rounds, so no number comes twice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    keys: [u64; 4],
}

impl Permutation {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6c69_7374);
        Self { keys: std::array::from_fn(|_| random.next()) }
    }

    pub(crate) fn at(&self, index: u32) -> u32 {
        let (mut left, mut right) = ((index >> 16) as u16, index as u16);
        for key in self.keys {
            let round = mix(u64::from(right) ^ key) as u16;
            (left, right) = (right, left ^ round);
        }
        u32::from(left) << 16 | u32::from(right)
    }
}
