//! A seeded order of numbers: the same seed gives the same lists on every machine and for ever.

use rule_sets::{Random, mix};

/// A seeded order of all 32-bit numbers: a Feistel network of four rounds, so no number comes twice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    keys: [u64; 4],
}

impl Permutation {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x6c69_7374);
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
