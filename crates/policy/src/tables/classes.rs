//! Equivalence classes: values of a field that lie in the same sets are one class. A class is the *set* of all sets that
//! hold the value, so that overlapping prefixes of any length are right by construction.

use super::vectors::{Changing, Store, Vectors};
use crate::address::AddressSet;
use crate::form::Field;
use crate::ranges::{Point, RangeSet};
use crate::service::ServiceSet;
use std::sync::Arc;

/// Where a class begins, in order of the values; the first begins at the least value. It reaches to the next one.
pub(crate) type Segments<T> = Vec<(T, u32)>;

/// The classes of a field that has one kind of values.
#[derive(Debug)]
pub(crate) struct Classes<T> {
    pub(crate) segments: Segments<T>,
    /// For each class, the sets that hold it, in order, but for the sets that hold everything.
    pub(crate) sets: Vec<Vec<u32>>,
    /// The sets that hold everything.
    pub(crate) everywhere: Vec<u32>,
}

/// The classes of addresses: both families share their numbers.
#[derive(Debug)]
pub(crate) struct AddressClasses {
    pub(crate) v4: Segments<u32>,
    pub(crate) v6: Segments<u128>,
    pub(crate) sets: Vec<Vec<u32>>,
    pub(crate) everywhere: Vec<u32>,
}

impl Classes<u32> {
    pub(crate) fn of_pairs(sets: &[RangeSet<u32>]) -> Self {
        let mut sweep = Sweep::new(sets.len());
        let segments = sweep.segments((0u32..).zip(sets.iter().map(RangeSet::ranges)));
        Self { segments, sets: sweep.sets(), everywhere: Vec::new() }
    }

    pub(crate) fn of_services(sets: &[Arc<ServiceSet>]) -> Self {
        let mut sweep = Sweep::new(sets.len());
        let some = (0u32..).zip(sets).filter(|(_, s)| !s.is_any()).map(|(i, s)| (i, s.0.ranges()));
        let segments = sweep.segments(some);
        Self { segments, sets: sweep.sets(), everywhere: everywhere(sets, |set| set.is_any()) }
    }
}

impl AddressClasses {
    pub(crate) fn of(sets: &[Arc<AddressSet>]) -> Self {
        let mut sweep = Sweep::new(sets.len());
        let some = || (0u32..).zip(sets).filter(|(_, s)| !s.is_any());
        let v4 = sweep.segments(some().map(|(i, s)| (i, s.v4.ranges())));
        let v6 = sweep.segments(some().map(|(i, s)| (i, s.v6.ranges())));
        Self { v4, v6, sets: sweep.sets(), everywhere: everywhere(sets, |set| set.is_any()) }
    }
}

fn everywhere<S>(sets: &[Arc<S>], is_any: impl Fn(&S) -> bool) -> Vec<u32> {
    (0u32..).zip(sets).filter(|(_, set)| is_any(set)).map(|(i, _)| i).collect()
}

/// Walks the boundaries of ranges and numbers each different set of sets.
struct Sweep {
    store: Store,
    classes: Vectors,
}

impl Sweep {
    fn new(sets: usize) -> Self {
        let store = Store::new(sets);
        let classes = Vectors::new(&store);
        Self { store, classes }
    }

    fn segments<'a, T: Point + 'a>(
        &mut self,
        sets: impl Iterator<Item = (u32, &'a [(T, T)])>,
    ) -> Segments<T> {
        let mut boundaries: Vec<(T, u32)> = Vec::new();
        for (set, ranges) in sets {
            for (first, last) in ranges {
                boundaries.push((*first, set));
                boundaries.extend(last.next().map(|after| (after, set)));
            }
        }
        boundaries.sort_unstable();
        let mut current = Changing::new(&self.store);
        let mut segments: Segments<T> = Vec::new();
        let mut rest = boundaries.as_slice();
        let mut start = T::MIN;
        loop {
            let here = rest.partition_point(|(at, _)| *at <= start);
            rest[..here].iter().for_each(|(_, set)| current.flip(*set));
            rest = &rest[here..];
            let class = self.classes.number(current.vector(&mut self.store));
            if segments.last().is_none_or(|(_, before)| *before != class) {
                segments.push((start, class));
            }
            match rest.first() {
                Some((next, _)) => start = *next,
                None => return segments,
            }
        }
    }

    fn sets(&self) -> Vec<Vec<u32>> {
        (0..self.classes.len() as u32)
            .map(|class| {
                let mut sets = Vec::new();
                self.store.bits_of(self.classes.get(class), &mut sets);
                sets
            })
            .collect()
    }
}

/// For each class, the vector of the rows that have a set which holds it.
pub(crate) fn row_vectors<S>(
    field: &Field<S>,
    sets: &[Vec<u32>],
    everywhere: &[u32],
    store: &mut Store,
) -> Vectors {
    let rows_of = field.rows_of_sets();
    let gather = |sets: &[u32]| {
        let mut rows: Vec<u32> = sets.iter().flat_map(|set| rows_of[*set as usize].iter().copied()).collect();
        rows.sort_unstable();
        rows
    };
    let nothing = vec![0; store.width()];
    let base = store.with_bits(&nothing, &gather(everywhere));
    let mut vectors = Vectors::new(store);
    for sets in sets {
        let vector = store.with_bits(&base, &gather(sets));
        vectors.push(&vector);
    }
    vectors
}
