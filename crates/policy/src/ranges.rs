//! Sets of numbers as sorted ranges: the form of addresses, services and zone pairs.

use std::fmt::Debug;
use std::hash::Hash;

/// A number that ranges are made of.
pub trait Point: Copy + Ord + Hash + Debug {
    /// The least.
    const MIN: Self;
    /// The greatest.
    const MAX: Self;
    /// The next number; `None` after the greatest.
    fn next(self) -> Option<Self>;
    /// The number before; `None` before the least.
    fn previous(self) -> Option<Self>;
}

impl Point for u32 {
    const MIN: Self = 0;
    const MAX: Self = u32::MAX;
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

impl Point for u128 {
    const MIN: Self = 0;
    const MAX: Self = u128::MAX;
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

/// A set of numbers: ranges with both ends inside, sorted, neither overlapping nor touching, so that equal sets are equal
/// values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RangeSet<T>(Vec<(T, T)>);

impl<T> Default for RangeSet<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Point> RangeSet<T> {
    /// Every number.
    pub fn full() -> Self {
        Self(vec![(T::MIN, T::MAX)])
    }

    /// The numbers of some ranges. The ranges may come in any order and may overlap; a range whose first number is above its last is
    /// empty.
    pub fn of(ranges: impl IntoIterator<Item = (T, T)>) -> Self {
        let given = ranges.into_iter();
        // Millions of them would move a dozen times while they grow.
        let mut ranges = Vec::with_capacity(given.size_hint().0);
        ranges.extend(given.filter(|(first, last)| first <= last));
        // A stable sort only merges what comes as a few rows in order: compiled lists of millions do.
        ranges.sort_by_key(|(first, _)| *first);
        ranges.dedup_by(|(first, last), before| {
            let is_joined = before.1.next().is_none_or(|after| *first <= after);
            if is_joined {
                before.1 = before.1.max(*last);
            }
            is_joined
        });
        Self(ranges)
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[(T, T)] {
        &self.0
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set has every number.
    pub fn is_full(&self) -> bool {
        self.0 == [(T::MIN, T::MAX)]
    }

    /// Whether the set has a number. It looks at each range in turn, which is slow and obvious.
    pub fn contains(&self, point: T) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&point))
    }

    /// Whether the two sets have a number in common.
    pub fn meets(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if x.1 < y.0 {
                a.next();
            } else if y.1 < x.0 {
                b.next();
            } else {
                return true;
            }
        }
        false
    }

    /// Whether this set has every number of the other.
    pub fn covers(&self, other: &Self) -> bool {
        let mut outer = self.0.iter().peekable();
        other.0.iter().all(|(first, last)| {
            while outer.next_if(|range| range.1 < *first).is_some() {}
            outer.peek().is_some_and(|range| range.0 <= *first && *last <= range.1)
        })
    }

    /// The numbers that both sets have.
    pub fn common(&self, other: &Self) -> Self {
        self.without(&self.without(other))
    }

    /// The numbers of this set that the other does not have.
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Vec::with_capacity(self.0.len());
        let mut holes = other.0.iter().copied().peekable();
        for &(first, last) in &self.0 {
            let mut first = Some(first);
            while holes.next_if(|hole| Some(hole.1) < first).is_some() {}
            while let (Some(start), Some(&(hole_first, hole_last))) = (first, holes.peek()) {
                if hole_first > last {
                    break;
                }
                if let Some(end) = hole_first.previous().filter(|end| start <= *end) {
                    left.push((start, end));
                }
                first = hole_last.next().filter(|next| *next <= last);
                if hole_last <= last {
                    holes.next();
                }
            }
            left.extend(first.map(|start| (start, last)));
        }
        Self(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small() -> impl Strategy<Value = (Vec<(u32, u32)>, [bool; 32])> {
        // The top of the number space too, where `next` ends.
        proptest::collection::vec((0u32..32, 0u32..32), 0..6).prop_map(|ranges| {
            let mut inside = [false; 32];
            for (first, last) in &ranges {
                for i in *first..=*last {
                    inside[i as usize] = true;
                }
            }
            let up = |i: u32| if i == 31 { u32::MAX } else { i };
            (ranges.into_iter().map(|(a, b)| (up(a), up(b))).filter(|(a, b)| a <= b).collect(), inside)
        })
    }

    proptest! {
        #[test]
        fn sets_agree_with_a_row_of_flags((a, in_a) in small(), (b, in_b) in small()) {
            // Between 30 and the top there is a gap that a range reaching the top also fills: compare below it.
            let (set_a, set_b) = (RangeSet::of(a), RangeSet::of(b));
            let (left, common) = (set_a.without(&set_b), set_a.common(&set_b));
            for i in 0..31u32 {
                prop_assert_eq!(set_a.contains(i), in_a[i as usize]);
                prop_assert_eq!(left.contains(i), in_a[i as usize] && !in_b[i as usize]);
                prop_assert_eq!(common.contains(i), in_a[i as usize] && in_b[i as usize]);
            }
            prop_assert_eq!(set_b.covers(&set_a), left.is_empty());
            prop_assert_eq!(set_a.meets(&set_b), set_a.without(&left) != RangeSet::default());
            for pair in left.ranges().windows(2) {
                prop_assert!(pair[0].1.next().is_some_and(|after| after < pair[1].0));
            }
            prop_assert_eq!(RangeSet::of(left.ranges().iter().copied()), left);
        }
    }

    #[test]
    fn touching_ranges_become_one() {
        assert_eq!(RangeSet::of([(5u32, 9), (0, 4), (10, 10)]).ranges(), [(0, 10)]);
        assert!(RangeSet::of([(1, u32::MAX), (0, 0)]).is_full());
        assert!(RangeSet::<u32>::full().without(&RangeSet::full()).is_empty());
    }
}
