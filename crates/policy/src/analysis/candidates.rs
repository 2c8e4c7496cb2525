//! Which rules may overlap a rule, without comparing every rule with every other.

use crate::address::AddressSet;
use crate::form::{Field, Form};
use crate::tables::{AddressClasses, Classes, Store, Vectors, row_vectors};
use std::sync::Arc;

/// A set of more classes than this is wide: looking at each would take longer than looking at every rule. It bounds the
/// combinations of classes of several fields too.
const FEW: usize = 32;

/// For the rows of a form, the rows that share a class with them in every field where theirs are few.
pub(super) struct Candidates {
    store: Store,
    fields: Vec<Classed>,
    rows: usize,
}

/// One field: the classes of each row's set where they are few, and the rows of each class.
struct Classed {
    of: Vec<u32>,
    few: Vec<Option<Vec<u32>>>,
    rows: Vectors,
    /// How many rows each class has.
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
        let service = Classes::of_services(&form.service.sets);
        let fields = vec![
            classed_addresses(&form.source, &mut store),
            classed_addresses(&form.destination, &mut store),
            classed(&form.service, &service.sets, &service.everywhere, &mut store),
        ];
        Self { store, fields, rows: form.rules.len() }
    }

    /// The other rows that pass a test and may overlap a row, in order.
    pub(super) fn of_row(&self, row: usize, test: impl Fn(usize) -> bool) -> Vec<usize> {
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
        self.in_common(&combinations).into_iter().filter(|other| *other != row && test(*other)).collect()
    }

    /// The rows that all vectors of any combination have, in order; every row when a combination is empty.
    fn in_common(&self, combinations: &[Vec<&[u32]>]) -> Vec<usize> {
        let mut found = Vec::new();
        for vectors in combinations {
            if vectors.is_empty() {
                return (0..self.rows).collect();
            }
            self.store.bits_in_common(vectors, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|row| row as usize).collect()
    }
}

fn classed_addresses(field: &Field<Arc<AddressSet>>, store: &mut Store) -> Classed {
    let classes = AddressClasses::of(&field.sets);
    classed(field, &classes.sets, &classes.everywhere, store)
}

fn classed<S>(field: &Field<S>, class_sets: &[Vec<u32>], everywhere: &[u32], store: &mut Store) -> Classed {
    let mut few: Vec<Option<Vec<u32>>> = vec![Some(Vec::new()); field.sets.len()];
    everywhere.iter().for_each(|set| few[*set as usize] = None);
    for (class, sets) in (0u32..).zip(class_sets) {
        for set in sets {
            let classes = &mut few[*set as usize];
            match classes {
                Some(list) if list.len() < FEW => list.push(class),
                _ => *classes = None,
            }
        }
    }
    let rows = row_vectors(field, class_sets, everywhere, store);
    let counts = (0..rows.len() as u32).map(|class| store.count(rows.get(class))).collect();
    Classed { of: field.of.clone(), few, rows, counts }
}
