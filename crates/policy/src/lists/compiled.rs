//! A list in a form that is read without being understood line by line: its ranges in order, and a checksum. Numbers are little-endian.
//!
//! ```text
//! "RMPLIST1"  singles u64  ranges u64  ranges of IPv6 u64
//! singles: u32 each    ranges: u32, u32 each    ranges of IPv6: u128, u128 each    checksum u64
//! ```

use crate::address::AddressSet;
use crate::ranges::RangeSet;

/// What a compiled list begins with.
pub const MAGIC: [u8; 8] = *b"RMPLIST1";
const HEADER: usize = MAGIC.len() + 3 * 8;
const CHECKSUM: usize = 8;

/// A file begins like a compiled list and is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// It is shorter or longer than it says.
    #[error("the compiled list is not whole")]
    Length,
    /// Something in it has changed.
    #[error("the checksum of the compiled list is wrong")]
    Checksum,
}

/// The compiled form of a list.
pub fn encode(list: &AddressSet) -> Vec<u8> {
    let of_v4 = |single: bool| list.v4.ranges().iter().filter(move |(first, last)| (first == last) == single);
    let counts = [of_v4(true).count(), of_v4(false).count(), list.v6.ranges().len()];
    let mut bytes = Vec::with_capacity(HEADER + counts[0] * 4 + counts[1] * 8 + counts[2] * 32 + CHECKSUM);
    bytes.extend_from_slice(&MAGIC);
    counts.iter().for_each(|count| bytes.extend_from_slice(&(*count as u64).to_le_bytes()));
    of_v4(true).for_each(|(address, _)| bytes.extend_from_slice(&address.to_le_bytes()));
    for (first, last) in of_v4(false) {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&last.to_le_bytes());
    }
    for (first, last) in list.v6.ranges() {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&last.to_le_bytes());
    }
    let checksum = checksum(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The list of a compiled form.
///
/// # Errors
/// [`Damaged`].
pub fn decode(bytes: &[u8]) -> Result<AddressSet, Damaged> {
    let whole =
        bytes.len().checked_sub(CHECKSUM).filter(|length| *length >= HEADER).ok_or(Damaged::Length)?;
    let (body, stated) = bytes.split_at(whole);
    let number = |at: usize| body[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let [singles, ranges, v6] = [8, 16, 24].map(number);
    let parts = [(singles, 4u64), (ranges, 8), (v6, 32)].map(|(count, bytes)| count.checked_mul(bytes));
    let stated_length = parts.iter().try_fold(HEADER as u64, |sum, part| sum.checked_add((*part)?));
    if body[..MAGIC.len()] != MAGIC || stated_length != Some(whole as u64) {
        return Err(Damaged::Length);
    }
    if checksum(body).to_le_bytes() != stated {
        return Err(Damaged::Checksum);
    }
    // It fits into memory, because it is in memory.
    let (singles, rest) = body[HEADER..].split_at(singles as usize * 4);
    let (ranges, v6) = rest.split_at(ranges as usize * 8);
    let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    let singles = singles.as_chunks().0.iter().map(|bytes| (word(bytes), word(bytes)));
    let ranges =
        ranges.as_chunks::<4>().0.as_chunks::<2>().0.iter().map(|[first, last]| (word(first), word(last)));
    let long = |bytes: &[u8; 16]| u128::from_le_bytes(*bytes);
    let v6 = v6.as_chunks::<16>().0.as_chunks::<2>().0.iter().map(|[first, last]| (long(first), long(last)));
    Ok(AddressSet { v4: RangeSet::of(singles.chain(ranges)), v6: RangeSet::of(v6) })
}

/// FNV-1a over words of 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    let hash = words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> AddressSet {
        let v4 = [(1, 1), (5, 9), (11, 11), (100, u32::MAX)];
        AddressSet { v4: RangeSet::of(v4), v6: RangeSet::of([(3, 3), (1 << 100, u128::MAX)]) }
    }

    #[test]
    fn what_is_compiled_comes_back() {
        for list in [list(), AddressSet::default(), AddressSet::any()] {
            assert_eq!(decode(&encode(&list)), Ok(list));
        }
    }

    #[test]
    fn whatever_is_damaged_is_refused() {
        let whole = encode(&list());
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), Err(Damaged::Length), "{length} bytes");
        }
        assert_eq!(decode(&[&whole[..], &[0]].concat()), Err(Damaged::Length));
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
        let mut endless = whole.clone();
        endless[8..16].fill(0xff);
        assert_eq!(decode(&endless), Err(Damaged::Length));
    }
}
