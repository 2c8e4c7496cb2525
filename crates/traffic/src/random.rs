//! The bench's only source of pseudorandom numbers in traffic: seeded, so that a run can be repeated bit for bit; and of secrets,
//! which must not be.

use crate::TrafficError;
use std::fs::File;
use std::io::Read as _;

/// SplitMix64 (Steele, Lea, Flood 2014): one multiplication chain a number, good enough to shuffle.
#[derive(Debug, Clone)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform below `bound`, which is not zero, by Lemire's multiplication (bias below 2^-32 for our bounds).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// A number that nobody else knows, from the kernel: what keeps a firewall under test from speaking in an end's name.
///
/// # Errors
/// There is no `/dev/urandom`.
pub(crate) fn secret() -> Result<u64, TrafficError> {
    let mut bytes = [0; 8];
    let missing =
        |e: std::io::Error| TrafficError::Impossible(format!("a run without a secret: /dev/urandom: {e}"));
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).map_err(missing)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The finaliser of SplitMix64, as a hash.
pub(crate) fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
