//! The fragments that are kept: so many and no more, of each source and in all, and each for so long. No clock and no IO.

use crate::skeleton::types;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// How long a fragment waits for its first. Reordering by networks and cards takes milliseconds; who sends the first one later than this
/// has to repeat the datagram. `EARLY_LIFE_TICKS` in C.
const LIFE: Duration = Duration::from_secs(1);
/// Fragments that are kept: 4 MiB.
const MOST: usize = 2048;
/// Of these, of one source: an IPv4 address, or the first 64 bits of an IPv6 address. Five of the longest datagrams.
const MOST_OF_SOURCE: usize = 256;

/// A datagram: the bytes of `struct datagram_name`.
pub(super) type Name = [u8; size_of::<types::datagram_name>()];
pub(super) const NO_NAME: Name = [0; size_of::<types::datagram_name>()];

/// A fragment that came before its first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// When, on CLOCK_MONOTONIC.
    pub(super) at: Duration,
    pub(super) name: Name,
    pub(crate) ifindex: u32,
    pub(super) is_at_xdp: bool,
    pub(crate) frame: Vec<u8>,
}

type Source = ([u8; 8], u8);

/// The source of a datagram; an IPv4 address leaves the next words 0.
fn source_of(name: &Name) -> Source {
    const FAMILY: usize = std::mem::offset_of!(types::datagram_name, family);
    let mut source = [0; 8];
    source.copy_from_slice(&name[..8]);
    (source, name[FAMILY])
}

/// Kept fragments by the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    next: u64,
    fragments: BTreeMap<u64, Fragment>,
    by_datagram: HashMap<Name, BTreeSet<u64>>,
    by_source: HashMap<Source, BTreeSet<u64>>,
}

impl Kept {
    /// Keeps one more. The oldest one of its source makes room, or the oldest of all. Returns how many are lost by that.
    pub(super) fn keep(&mut self, fragment: Fragment) -> usize {
        let of_source = self.by_source.get(&source_of(&fragment.name));
        let oldest = if of_source.is_some_and(|all| all.len() >= MOST_OF_SOURCE) {
            of_source.and_then(BTreeSet::first).copied()
        } else if self.fragments.len() >= MOST {
            self.fragments.keys().next().copied()
        } else {
            None
        };
        let lost = oldest.and_then(|number| self.take(number));
        let number = self.next;
        self.next += 1;
        self.by_datagram.entry(fragment.name).or_default().insert(number);
        self.by_source.entry(source_of(&fragment.name)).or_default().insert(number);
        self.fragments.insert(number, fragment);
        lost.iter().count()
    }

    /// The fragments of a datagram whose first one has come, in the order in which they came.
    pub(super) fn release(&mut self, name: &Name) -> Vec<Fragment> {
        let numbers = self.by_datagram.get(name).cloned().unwrap_or_default();
        numbers.into_iter().filter_map(|number| self.take(number)).collect()
    }

    /// Gives up those whose time is over. Returns how many.
    pub(super) fn expire(&mut self, now: Duration) -> usize {
        let is_over = |fragment: &Fragment| fragment.at + LIFE <= now;
        let mut lost = 0;
        while let Some((&number, _)) = self.fragments.first_key_value().filter(|(_, it)| is_over(it)) {
            lost += self.take(number).iter().count();
        }
        lost
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    fn take(&mut self, number: u64) -> Option<Fragment> {
        let fragment = self.fragments.remove(&number)?;
        forget(&mut self.by_datagram, &fragment.name, number);
        forget(&mut self.by_source, &source_of(&fragment.name), number);
        Some(fragment)
    }
}

fn forget<K: Eq + std::hash::Hash>(all: &mut HashMap<K, BTreeSet<u64>>, key: &K, number: u64) {
    if let Some(numbers) = all.get_mut(key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            all.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fragment of a datagram of a source at a millisecond. The number of the datagram stands behind the addresses.
    fn fragment(source: u32, datagram: u32, at: u64) -> Fragment {
        let mut name = NO_NAME;
        name[..4].copy_from_slice(&source.to_be_bytes());
        name[32..36].copy_from_slice(&datagram.to_be_bytes());
        Fragment { at: Duration::from_millis(at), name, ifindex: 1, is_at_xdp: true, frame: vec![] }
    }

    fn times(fragments: &[Fragment]) -> Vec<u128> {
        fragments.iter().map(|fragment| fragment.at.as_millis()).collect()
    }

    #[test]
    fn a_datagram_gets_its_own_fragments_once_and_in_their_order() {
        let mut kept = Kept::default();
        for (source, datagram, at) in [(1, 1, 0), (1, 2, 1), (2, 1, 2), (1, 1, 3)] {
            assert_eq!(kept.keep(fragment(source, datagram, at)), 0);
        }
        let first = fragment(1, 1, 4).name;
        assert_eq!(times(&kept.release(&first)), [0, 3]);
        assert_eq!(kept.release(&first), []);
        assert_eq!(times(&kept.release(&fragment(2, 1, 4).name)), [2]);
        assert_eq!(times(&kept.release(&fragment(1, 2, 4).name)), [1]);
        assert!(kept.is_empty() && kept.by_datagram.is_empty() && kept.by_source.is_empty());
    }

    #[test]
    fn each_is_kept_for_a_second() {
        let mut kept = Kept::default();
        for at in [0, 500] {
            kept.keep(fragment(1, 1, at));
        }
        for (now, lost, is_empty) in [(999, 0, false), (1000, 1, false), (1499, 0, false), (1500, 1, true)] {
            assert_eq!(kept.expire(Duration::from_millis(now)), lost, "{now}");
            assert_eq!(kept.is_empty(), is_empty, "{now}");
        }
        assert!(kept.by_datagram.is_empty() && kept.by_source.is_empty());
    }

    #[test]
    fn a_source_displaces_its_own_and_many_sources_the_oldest() {
        let mut kept = Kept::default();
        kept.keep(fragment(7, 1, 0));
        let flood = (1..10_000).map(|at| kept.keep(fragment(1, at as u32, at))).sum::<usize>();
        assert_eq!(flood, 9_999 - MOST_OF_SOURCE);
        assert_eq!(times(&kept.release(&fragment(7, 1, 0).name)), [0], "another source's stays");
        kept.keep(fragment(7, 1, 10_000));
        for at in 0..MOST as u64 {
            kept.keep(fragment(100 + at as u32, 1, 10_001 + at));
        }
        assert_eq!(kept.fragments.len(), MOST);
        assert_eq!(kept.release(&fragment(7, 1, 0).name), [], "the oldest made room");
        assert_eq!(kept.by_source.len(), MOST);
        assert_eq!(kept.expire(Duration::from_secs(60)), MOST);
        assert!(kept.by_datagram.is_empty() && kept.by_source.is_empty());
    }
}
