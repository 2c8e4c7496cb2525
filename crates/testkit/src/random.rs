//! Numbers that look random and are the same each time.

/// Numbers of a seed (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). Seeds that follow each other
/// have nothing in common.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ mixed >> 31) * end as u128) >> 64) as usize
    }

    /// True once in `n` times on the average.
    pub fn is_one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
