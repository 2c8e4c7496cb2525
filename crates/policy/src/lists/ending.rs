//! What the text of a list says: entries that are on it for good, and entries that end at a time. Pure: the time is an argument.

use crate::address::AddressSet;
use crate::ranges::RangeSet;
use jiff::Timestamp;
use std::net::IpAddr;

/// The entries of a text or of a compiled list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// On the list as long as its text says so.
    pub lasting: AddressSet,
    /// Those that end: first and last address, and the second since 1970 from which on they are not on the list. Sorted.
    pub(super) v4: Vec<(u32, u32, i64)>,
    pub(super) v6: Vec<(u128, u128, i64)>,
}

impl From<AddressSet> for Contents {
    fn from(lasting: AddressSet) -> Self {
        Self { lasting, ..Self::default() }
    }
}

impl Contents {
    /// Adds entries that end, in any order.
    pub(super) fn with_ending(
        lasting: AddressSet,
        mut v4: Vec<(u32, u32, i64)>,
        mut v6: Vec<(u128, u128, i64)>,
    ) -> Self {
        v4.sort_unstable();
        v6.sort_unstable();
        Self { lasting, v4, v6 }
    }

    /// What is on the list at a moment.
    pub fn at(self, now: Timestamp) -> AddressSet {
        if !self.has_ends() {
            return self.lasting;
        }
        let now = now.as_second();
        let v4 = self.v4.iter().filter(|(.., end)| *end > now).map(|(first, last, _)| (*first, *last));
        let v6 = self.v6.iter().filter(|(.., end)| *end > now).map(|(first, last, _)| (*first, *last));
        let ending = AddressSet { v4: RangeSet::of(v4), v6: RangeSet::of(v6) };
        AddressSet::union([&self.lasting, &ending])
    }

    /// The first moment after `now` at which an entry ends.
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.v4.iter().map(|(.., end)| *end).chain(self.v6.iter().map(|(.., end)| *end));
        ends.filter(|end| *end > now.as_second()).min().and_then(|end| Timestamp::from_second(end).ok())
    }

    /// Whether any entry ends, or has ended.
    pub fn has_ends(&self) -> bool {
        !self.v4.is_empty() || !self.v6.is_empty()
    }

    /// Whether it has no entry at all.
    pub fn is_empty(&self) -> bool {
        self.lasting.is_empty() && !self.has_ends()
    }
}

/// Entries that end, as they are read.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) v4: Vec<(u32, u32, i64)>,
    pub(super) v6: Vec<(u128, u128, i64)>,
}

impl Ending {
    pub(super) fn add(&mut self, entry: (IpAddr, IpAddr), end: i64) {
        match entry {
            (IpAddr::V4(first), IpAddr::V4(last)) => self.v4.push((first.into(), last.into(), end)),
            (IpAddr::V6(first), IpAddr::V6(last)) => self.v6.push((first.into(), last.into(), end)),
            // An entry has one family.
            _ => {}
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.v4.as_slice()) + size_of_val(self.v6.as_slice())
    }
}

/// The second at which an entry ends that ends at this moment, such as `2026-11-24T10:00:00Z`; not before it.
pub(super) fn second_of(moment: &str) -> Option<i64> {
    let moment: Timestamp = moment.parse().ok()?;
    moment.as_second().checked_add(i64::from(moment.subsec_nanosecond() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_end_one_after_the_other() {
        let lasting = AddressSet::parse("192.0.2.0/25").unwrap();
        // The last is on the list for longer as a part of the first.
        let v4 = vec![
            (0xc000_0280, 0xc000_02ff, 100),
            (0xc000_0290, 0xc000_0290, 50),
            (0xc000_0201, 0xc000_0201, 60),
        ];
        let contents = Contents::with_ending(lasting, v4, vec![(1, 2, 70)]);
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        for (now, next, on_it) in [
            (0, Some(50), "192.0.2.0/24 ::1-::2"),
            (49, Some(50), "192.0.2.0/24 ::1-::2"),
            (50, Some(60), "192.0.2.0/24 ::1-::2"),
            (60, Some(70), "192.0.2.0/24 ::1-::2"),
            (70, Some(100), "192.0.2.0/24"),
            (100, None, "192.0.2.0/25"),
        ] {
            let expected: Vec<AddressSet> =
                on_it.split(' ').map(|it| AddressSet::parse(it).unwrap()).collect();
            assert_eq!(contents.clone().at(at(now)), AddressSet::union(&expected), "{now}");
            assert_eq!(contents.next_end(at(now)), next.map(at), "{now}");
        }
    }

    #[test]
    fn ends_are_times_with_a_zone() {
        for (text, expected) in [
            ("1970-01-01T00:01:00Z", Some(60)),
            ("1970-01-01T01:01:00+01:00", Some(60)),
            ("1970-01-01T00:01:00.001Z", Some(61)),
            ("1970-01-01T00:01:00", None),
            ("1970-01-01", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(second_of(text), expected, "{text}");
        }
    }
}
