//! Addresses that the same sets have are alike, and sets are compared with nothing but one another: a number may stand for all addresses that
//! are alike. Of rules that share objects of thousands of addresses, each set becomes a few numbers.

use crate::address::AddressSet;
use crate::form::Field;
use crate::ranges::{Point, RangeSet};
use crate::tables::{Segments, Store, Vectors, address_classes};
use std::sync::Arc;

/// Sets that have fewer ranges than this on the average are compared fast enough as they are.
const MANY: usize = 16;

/// Puts numbers in the place of the addresses of a field and of other sets that are compared with it, where that makes them much smaller.
pub(super) fn number(field: &mut Field<Arc<AddressSet>>, others: &mut [AddressSet]) {
    let ranges: usize = field.sets.iter().map(|set| set.v4.ranges().len() + set.v6.ranges().len()).sum();
    if ranges < MANY * field.sets.len() {
        return;
    }
    let others_as_sets = others.iter().cloned().map(Arc::new);
    let sets: Vec<Arc<AddressSet>> = field.sets.iter().cloned().chain(others_as_sets).collect();
    let count = sets.len();
    let mut store = Store::new(count);
    let (v4, v6, classes) = address_classes(&Field { sets, of: (0..count as u32).collect() }, &mut store);
    let held: u64 = (0..classes.len() as u32).map(|class| store.count(classes.get(class))).sum();
    if 2 * held > ranges as u64 {
        return;
    }
    let v4 = numbers(&v4, &classes, &store, count);
    let v6 = numbers(&v6, &classes, &store, count);
    let mut numbered = v4.into_iter().zip(v6).map(|(v4, v6)| AddressSet { v4, v6 });
    field.sets.iter_mut().zip(&mut numbered).for_each(|(set, numbers)| *set = Arc::new(numbers));
    others.iter_mut().zip(&mut numbered).for_each(|(set, numbers)| *set = numbers);
}

/// For each set, the numbers of the classes of one family that it has. The last class has all numbers that are left, so that the sets which hold
/// every address hold every number.
fn numbers<T: Point + From<u32>>(
    segments: &Segments<T>,
    classes: &Vectors,
    store: &Store,
    sets: usize,
) -> Vec<RangeSet<T>> {
    let mut of_family: Vec<u32> = segments.iter().map(|(_, class)| *class).collect();
    of_family.sort_unstable();
    of_family.dedup();
    let mut numbers: Vec<Vec<(T, T)>> = vec![Vec::new(); sets];
    let mut holding = Vec::new();
    for (number, class) in (0u32..).zip(&of_family) {
        let is_last = number as usize + 1 == of_family.len();
        let range = (number.into(), if is_last { T::MAX } else { number.into() });
        holding.clear();
        store.bits_in_common(&[classes.get(*class)], &mut holding);
        holding.iter().for_each(|set| numbers[*set as usize].push(range));
    }
    numbers.into_iter().map(RangeSet::of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sets that share objects of addresses far apart, as far as the ends of the number space.
    fn sets() -> impl Strategy<Value = Vec<AddressSet>> {
        let object = (0u32..4, 1u32..3, 20u32..60, any::<bool>()).prop_map(|(start, step, count, is_v6)| {
            let hosts = (0..count).map(move |at| start + 2 * step * at);
            let v4 = RangeSet::of(hosts.clone().map(|host| (u32::MAX - host, u32::MAX - host)));
            let v6 = RangeSet::of(hosts.filter(|_| is_v6).map(|host| (u128::from(host), u128::from(host))));
            AddressSet { v4, v6 }
        });
        let objects = proptest::collection::vec(object, 3);
        let chosen = proptest::collection::vec((0u32..8, any::<bool>()), 12);
        (objects, chosen).prop_map(|(objects, chosen)| {
            let union = |which: u32| {
                AddressSet::union(
                    objects.iter().zip(0..).filter(|(_, at)| which >> at & 1 == 1).map(|(o, _)| o),
                )
            };
            let set = |(which, is_inverse)| {
                if is_inverse { AddressSet::any().without(&union(which)) } else { union(which) }
            };
            chosen.into_iter().map(set).collect()
        })
    }

    proptest! {
        #[test]
        fn numbers_compare_as_the_addresses_do(sets in sets()) {
            let (of_field, others) = sets.split_at(9);
            let mut field = Field { sets: of_field.iter().cloned().map(Arc::new).collect(), of: (0..9).collect() };
            let mut numbered_others = others.to_vec();
            let before: usize = sets.iter().map(|set| set.v4.ranges().len()).sum();
            number(&mut field, &mut numbered_others);
            let numbered: Vec<&AddressSet> = field.sets.iter().map(Arc::as_ref).chain(&numbered_others).collect();
            let after: usize = numbered.iter().map(|set| set.v4.ranges().len()).sum();
            prop_assert!(after <= before);
            for (a, x) in sets.iter().zip(&numbered) {
                prop_assert_eq!([a.v4.is_full(), a.v6.is_full()], [x.v4.is_full(), x.v6.is_full()]);
                prop_assert_eq!([a.v4.is_empty(), a.v6.is_empty()], [x.v4.is_empty(), x.v6.is_empty()]);
                for (b, y) in sets.iter().zip(&numbered) {
                    prop_assert_eq!([a.v4.meets(&b.v4), a.v6.meets(&b.v6)], [x.v4.meets(&y.v4), x.v6.meets(&y.v6)]);
                    prop_assert_eq!([a.v4.covers(&b.v4), a.v6.covers(&b.v6)], [x.v4.covers(&y.v4), x.v6.covers(&y.v6)]);
                    let (together, as_numbers) = (AddressSet::union([a, b]), AddressSet::union([*x, *y]));
                    for (c, z) in sets.iter().zip(&numbered) {
                        prop_assert_eq!(together.v4.covers(&c.v4), as_numbers.v4.covers(&z.v4));
                        prop_assert_eq!(together.v6.covers(&c.v6), as_numbers.v6.covers(&z.v6));
                    }
                }
            }
        }
    }
}
