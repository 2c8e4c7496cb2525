//! Seeded pseudorandom numbers: the same seed gives the same rules on every machine and for ever, which is why no library's
//! generator is used.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014), from its state.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it has no end, so it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is small here: the bias of the remainder does not matter.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// One of some values, by their weights.
    pub(crate) fn pick<'w, T>(&mut self, weighted: &'w [(u32, T)]) -> &'w T {
        let mut at = self.below(weighted.iter().map(|(weight, _)| u64::from(*weight)).sum()) as u32;
        for (weight, value) in weighted {
            if at < *weight {
                return value;
            }
            at -= weight;
        }
        &weighted[0].1
    }
}

/// A number that looks unlike its argument, and no other's (SplitMix64's last step).
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// Of the authors' own program with the seed 1234567.
    #[test]
    fn numbers_are_those_of_the_paper() {
        let mut random = Random(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_| random.next()), expected);
    }
}
