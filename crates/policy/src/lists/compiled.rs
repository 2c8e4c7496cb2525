//! A list in a form that is read without being understood line by line: its ranges in order, and a checksum. Numbers are little-endian.
//!
//! ```text
//! "RMPLIST1"  singles u64  ranges u64  ranges of IPv6 u64
//! singles: u32 each    ranges: u32, u32 each    ranges of IPv6: u128, u128 each    checksum u64
//! ```
//!
//! A list with entries that end, each with the second since 1970 of its end:
//!
//! ```text
//! "RMPLIST2"  singles u64  ranges u64  ranges of IPv6 u64  ending ranges u64  ending ranges of IPv6 u64
//! as above, then ending ranges: u32, u32, i64 each    of IPv6: u128, u128, i64 each    checksum u64
//! ```

use super::ending::Contents;
use crate::address::AddressSet;
use crate::ranges::RangeSet;
use std::thread;

/// What a compiled list begins with, and one with entries that end.
const MAGIC: [[u8; 8]; 2] = [*b"RMPLIST1", *b"RMPLIST2"];
/// Bytes by which a compiled list is known.
pub const MARK: usize = 8;
/// Bytes of an entry of each part.
const ENTRY: [u64; 5] = [4, 8, 32, 16, 40];
const CHECKSUM: usize = 8;
/// Bytes from which on another core computes the checksum: some milliseconds, where starting a thread takes none.
const BYTES_OF_THREAD: usize = 4 << 20;

/// Whether a file that begins with these bytes is a compiled list.
pub fn is_compiled(start: &[u8]) -> bool {
    MAGIC.iter().any(|magic| start.starts_with(magic))
}

/// How many parts a compiled list has.
const fn parts(has_ends: bool) -> usize {
    if has_ends { 5 } else { 3 }
}

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
pub fn encode(contents: &Contents) -> Vec<u8> {
    let (list, has_ends) = (&contents.lasting, contents.has_ends());
    let of_v4 = |single: bool| list.v4.ranges().iter().filter(move |(first, last)| (first == last) == single);
    let counts = [
        of_v4(true).count(),
        of_v4(false).count(),
        list.v6.ranges().len(),
        contents.v4.len(),
        contents.v6.len(),
    ];
    let body: u64 = counts.iter().zip(ENTRY).map(|(count, bytes)| *count as u64 * bytes).sum();
    let mut bytes = Vec::with_capacity(MARK + ENTRY.len() * 8 + body as usize + CHECKSUM);
    bytes.extend_from_slice(&MAGIC[usize::from(has_ends)]);
    counts[..parts(has_ends)]
        .iter()
        .for_each(|count| bytes.extend_from_slice(&(*count as u64).to_le_bytes()));
    of_v4(true).for_each(|(address, _)| bytes.extend_from_slice(&address.to_le_bytes()));
    for (first, last) in of_v4(false) {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&last.to_le_bytes());
    }
    for (first, last) in list.v6.ranges() {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&last.to_le_bytes());
    }
    for (first, last, end) in &contents.v4 {
        [first.to_le_bytes(), last.to_le_bytes()].iter().for_each(|number| bytes.extend_from_slice(number));
        bytes.extend_from_slice(&end.to_le_bytes());
    }
    for (first, last, end) in &contents.v6 {
        [first.to_le_bytes(), last.to_le_bytes()].iter().for_each(|number| bytes.extend_from_slice(number));
        bytes.extend_from_slice(&end.to_le_bytes());
    }
    let checksum = checksum(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The list of a compiled form.
///
/// # Errors
/// [`Damaged`].
pub fn decode(bytes: &[u8]) -> Result<Contents, Damaged> {
    let has_ends = MAGIC.iter().position(|magic| bytes.starts_with(magic)).ok_or(Damaged::Length)? == 1;
    let header = MARK + parts(has_ends) * 8;
    let whole =
        bytes.len().checked_sub(CHECKSUM).filter(|length| *length >= header).ok_or(Damaged::Length)?;
    let (body, stated) = bytes.split_at(whole);
    let number =
        |part: usize| body[MARK + part * 8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mut rest = &body[header..];
    let mut part = [rest; ENTRY.len()];
    for (place, (part, bytes)) in part.iter_mut().zip(ENTRY).enumerate() {
        let count = if place < parts(has_ends) { number(place) } else { 0 };
        let length = count.checked_mul(bytes).and_then(|length| usize::try_from(length).ok());
        (*part, rest) = length.and_then(|length| rest.split_at_checked(length)).ok_or(Damaged::Length)?;
    }
    if !rest.is_empty() {
        return Err(Damaged::Length);
    }
    // Whatever the entries are, reading them does no harm.
    let (found, contents) = beside(|| checksum(body), body.len(), || contents_of(part));
    if found.to_le_bytes() != stated { Err(Damaged::Checksum) } else { Ok(contents) }
}

/// Does two things, of which the first is another core's if there is much to do.
fn beside<A: Send, B>(first: impl Fn() -> A + Sync, bytes: usize, second: impl FnOnce() -> B) -> (A, B) {
    if bytes < BYTES_OF_THREAD {
        return (first(), second());
    }
    thread::scope(|scope| {
        // What cannot be had, or does not come to its end, is done here.
        let other = thread::Builder::new().spawn_scoped(scope, &first).ok();
        let second = second();
        (other.and_then(|other| other.join().ok()).unwrap_or_else(&first), second)
    })
}

/// What the parts of a compiled form say.
fn contents_of(part: [&[u8]; ENTRY.len()]) -> Contents {
    let [singles, ranges, v6, ending, ending6] = part;
    let singles = singles.as_chunks().0.iter().map(|bytes| (word(bytes), word(bytes)));
    let ranges =
        ranges.as_chunks::<4>().0.as_chunks::<2>().0.iter().map(|[first, last]| (word(first), word(last)));
    let v6 = v6.as_chunks::<16>().0.as_chunks::<2>().0.iter().map(|[first, last]| (long(first), long(last)));
    let lasting = AddressSet { v4: RangeSet::of(singles.chain(ranges)), v6: RangeSet::of(v6) };
    let ending = ending.as_chunks::<16>().0.iter().map(|entry| {
        let bytes = u128::from_le_bytes(*entry);
        (bytes as u32, (bytes >> 32) as u32, (bytes >> 64) as i64)
    });
    let ending6 = ending6.as_chunks::<40>().0.iter().map(|entry| {
        let [first, last] = [0, 16].map(|at| entry[at..].first_chunk().map_or(0, long));
        (first, last, entry.last_chunk().map_or(0, |end| i64::from_le_bytes(*end)))
    });
    Contents::with_ending(lasting, ending.collect(), ending6.collect())
}

fn word(bytes: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*bytes)
}

fn long(bytes: &[u8; 16]) -> u128 {
    u128::from_le_bytes(*bytes)
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

    fn ending() -> Contents {
        Contents::with_ending(list(), vec![(20, 21, -1), (7, 7, i64::MAX)], vec![(1, 1 << 90, 1_800_000_000)])
    }

    #[test]
    fn what_is_compiled_comes_back() {
        for contents in [list().into(), Contents::default(), AddressSet::any().into(), ending()] {
            assert_eq!(decode(&encode(&contents)), Ok(contents));
        }
        assert!(is_compiled(&encode(&list().into())[..MARK]) && is_compiled(&encode(&ending())));
        assert!(!is_compiled(b"RMPLIST3") && !is_compiled(b"RMP"));
    }

    #[test]
    fn whatever_is_damaged_is_refused() {
        for whole in [encode(&list().into()), encode(&ending())] {
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
}
