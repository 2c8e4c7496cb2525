//! Equivalence classes: values of a field that lie in the same sets are one class. A class is the *set* of all sets that
//! hold the value, so that overlapping prefixes of any length are right by construction. It is kept as the vector of the
//! rows that have one of those sets; no two classes have the same.

use super::vectors::{Changing, Store, Vectors};
use crate::address::AddressSet;
use crate::form::Field;
use crate::ranges::{Point, RangeSet};
use crate::service::{LAST_KEY, LAST_PORT};
use std::sync::Arc;

/// Where a class begins, in order of the values; the first begins at the least value. It reaches to the next one.
pub(crate) type Segments<T> = Vec<(T, u32)>;

/// The classes of zone pairs, and the rows of each.
pub(crate) fn pair_classes(field: &Field<RangeSet<u32>>, store: &mut Store) -> (Segments<u32>, Vectors) {
    let mut sweep = Sweep::new(field, |_| false, store);
    let segments = sweep.segments(RangeSet::ranges, store);
    (segments, sweep.classes)
}

/// The classes of services, and the rows of each.
pub(crate) fn service_classes(
    field: &Field<Arc<RangeSet<u32>>>,
    store: &mut Store,
) -> (Segments<u32>, Vectors) {
    number_classes(field, LAST_KEY, store)
}

/// The classes of source ports, and the rows of each.
pub(crate) fn port_classes(field: &Field<Arc<RangeSet<u32>>>, store: &mut Store) -> (Segments<u32>, Vectors) {
    number_classes(field, LAST_PORT, store)
}

/// The classes of numbers up to a greatest one, and the rows of each.
fn number_classes(
    field: &Field<Arc<RangeSet<u32>>>,
    last: u32,
    store: &mut Store,
) -> (Segments<u32>, Vectors) {
    let mut sweep = Sweep::new(field, |set| set.ranges() == [(0, last)], store);
    let segments = sweep.segments(|set| set.ranges(), store);
    (segments, sweep.classes)
}

/// The classes of addresses of both families, which share their numbers, and the rows of each.
pub(crate) fn address_classes(
    field: &Field<Arc<AddressSet>>,
    store: &mut Store,
) -> (Segments<u32>, Segments<u128>, Vectors) {
    let mut sweep = Sweep::new(field, |set| set.is_any(), store);
    let v4 = sweep.segments(|set| set.v4.ranges(), store);
    let v6 = sweep.segments(|set| set.v6.ranges(), store);
    (v4, v6, sweep.classes)
}

/// Walks the boundaries of ranges and numbers each different vector of rows.
struct Sweep<'f, S> {
    /// The sets that do not hold everything, each with its rows.
    some: Vec<(&'f S, Vec<u32>)>,
    /// The rows whose sets hold everything.
    everywhere: Vec<u32>,
    classes: Vectors,
}

impl<'f, S> Sweep<'f, S> {
    fn new(field: &'f Field<S>, is_any: impl Fn(&S) -> bool, store: &Store) -> Self {
        let (any, some): (Vec<_>, Vec<_>) =
            field.sets.iter().zip(field.rows_of_sets()).partition(|(set, _)| is_any(set));
        let everywhere = any.into_iter().flat_map(|(_, rows)| rows).collect();
        Self { some, everywhere, classes: Vectors::new(store) }
    }

    fn segments<T: Point>(&mut self, ranges: impl Fn(&S) -> &[(T, T)], store: &mut Store) -> Segments<T> {
        let mut boundaries: Vec<(T, u32)> = Vec::new();
        for (number, (set, _)) in (0u32..).zip(&self.some) {
            for (first, last) in ranges(set) {
                boundaries.push((*first, number));
                boundaries.extend(last.next().map(|after| (after, number)));
            }
        }
        // What changes at one value may change in any order.
        boundaries.sort_unstable_by_key(|(at, _)| *at);
        let mut current = Changing::new(store);
        current.flip(&self.everywhere);
        let mut segments: Segments<T> = Vec::new();
        let mut rest = boundaries.as_slice();
        let mut start = T::MIN;
        loop {
            let here = rest.iter().take_while(|(at, _)| *at <= start).count();
            rest[..here].iter().for_each(|(_, number)| current.flip(&self.some[*number as usize].1));
            rest = &rest[here..];
            let class = self.classes.number(current.vector(store));
            if segments.last().is_none_or(|(_, before)| *before != class) {
                segments.push((start, class));
            }
            match rest.first() {
                Some((next, _)) => start = *next,
                None => return segments,
            }
        }
    }
}

/// The classes of some ranges, each once; `None` when there are more than a number.
pub(crate) fn classes_of<T: Point>(
    ranges: &[(T, T)],
    segments: &Segments<T>,
    most: usize,
) -> Option<Vec<u32>> {
    let mut classes = Vec::new();
    for (first, last) in ranges {
        let at = segments.partition_point(|(start, _)| start <= first).saturating_sub(1);
        for (_, class) in segments[at..].iter().take_while(|(start, _)| start <= last) {
            if !classes.contains(class) {
                classes.push(*class);
            }
            if classes.len() > most {
                return None;
            }
        }
    }
    Some(classes)
}
