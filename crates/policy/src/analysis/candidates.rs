//! Finds the rules that may overlap a rule, without comparing every rule with every other.

use crate::address::AddressSet;
use crate::form::{Field, Form};
use crate::tables::{Store, Vectors, address_classes, classes_of, service_classes};
use std::sync::Arc;

/// A set of more classes than this is wide, because a look at each class would take longer than a look at every rule. The same
/// number bounds the combinations of classes of several fields.
const FEW: usize = 32;

/// For each row of a form, the rows that share a class with it in every field where the row has few classes.
pub(super) struct Candidates {
    store: Store,
    fields: Vec<Classed>,
    rows: usize,
}

/// One field: the classes of each row's set if they are few, and the rows of each class.
struct Classed {
    of: Vec<u32>,
    few: Vec<Option<Vec<u32>>>,
    rows: Vectors,
    /// For each class, the number of its rows.
    counts: Vec<u64>,
}

impl Classed {
    /// A combination of vectors, with that of each of some classes besides.
    fn with<'s>(&'s self, vectors: &[&'s [u32]], classes: &[u32]) -> Vec<Vec<&'s [u32]>> {
        classes.iter().map(|class| [vectors, &[self.rows.get(*class)]].concat()).collect()
    }
}

impl Candidates {
    pub(super) fn of(form: &Form) -> Self {
        let mut store = Store::new(form.rules.len());
        let (segments, vectors) = service_classes(&form.service, &mut store);
        let few = form.service.sets.iter().map(|set| classes_of(set.ranges(), &segments, FEW));
        let service = classed(&form.service, few.collect(), vectors, &store);
        let source = classed_addresses(&form.source, &mut store);
        let destination = classed_addresses(&form.destination, &mut store);
        let fields = vec![source, destination, service];
        Self { store, fields, rows: form.rules.len() }
    }

    /// The other rows that pass a test and may overlap a row, in order. Each test takes so many steps of the budget.
    pub(super) fn of_row(
        &self,
        row: usize,
        test_steps: u64,
        budget: &mut u64,
        test: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut narrow: Vec<(u64, &Classed, &[u32])> = Vec::new();
        for field in &self.fields {
            if let Some(classes) = &field.few[field.of[row] as usize] {
                let rows = classes.iter().map(|class| field.counts[*class as usize]).sum();
                narrow.push((rows, field, classes));
            }
        }
        narrow.sort_by_key(|(rows, _, _)| *rows);
        let mut combinations: Vec<Vec<&[u32]>> = vec![Vec::new()];
        for (_, field, classes) in narrow {
            if combinations.len() * classes.len() <= FEW {
                combinations = combinations.iter().flat_map(|c| field.with(c, classes)).collect();
            }
        }
        let passes = |other: &usize| *other != row && test(*other);
        // An empty combination has every row.
        if combinations.iter().any(Vec::is_empty) {
            *budget = budget.saturating_sub(test_steps * self.rows as u64);
            return (0..self.rows).filter(passes).collect();
        }
        let rows = self.in_common(&combinations);
        *budget = budget.saturating_sub(test_steps * rows.len() as u64);
        rows.into_iter().filter(passes).collect()
    }

    /// The rows that all vectors of at least one combination have, in order.
    fn in_common(&self, combinations: &[Vec<&[u32]>]) -> Vec<usize> {
        let mut found = Vec::new();
        for vectors in combinations {
            self.store.bits_in_common(vectors, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|row| row as usize).collect()
    }
}

fn classed_addresses(field: &Field<Arc<AddressSet>>, store: &mut Store) -> Classed {
    let (v4, v6, vectors) = address_classes(field, store);
    let few = field.sets.iter().map(|set| {
        let mut classes = classes_of(set.v4.ranges(), &v4, FEW)?;
        classes.extend(classes_of(set.v6.ranges(), &v6, FEW)?);
        classes.sort_unstable();
        classes.dedup();
        (classes.len() <= FEW).then_some(classes)
    });
    classed(field, few.collect(), vectors, store)
}

fn classed<S>(field: &Field<S>, few: Vec<Option<Vec<u32>>>, rows: Vectors, store: &Store) -> Classed {
    let counts = (0..rows.len() as u32).map(|class| store.count(rows.get(class))).collect();
    Classed { of: field.of.clone(), few, rows, counts }
}
