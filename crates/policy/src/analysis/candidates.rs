//! Which rules may overlap a rule, without comparing every rule with every other.

use crate::address::AddressSet;
use crate::form::{Field, Form};
use crate::tables::{AddressClasses, Classes, Store, Vectors, row_vectors};
use std::sync::Arc;

/// A set of more classes than this is wide: looking at each would take longer than looking at every rule.
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
        let narrow = self.fields.iter().filter_map(|field| {
            let classes = field.few[field.of[row] as usize].as_ref()?;
            Some((field, classes))
        });
        let mut best: Option<Vec<u32>> = None;
        let mut bits = Vec::new();
        for (field, classes) in narrow {
            let mut rows = Vec::new();
            for class in classes {
                self.store.bits_of(field.rows.get(*class), &mut bits);
                rows.extend_from_slice(&bits);
            }
            if best.as_ref().is_none_or(|best| rows.len() < best.len()) {
                best = Some(rows);
            }
        }
        let mut found: Vec<usize> = match best {
            Some(rows) => rows.into_iter().map(|other| other as usize).filter(|other| *other != row && test(*other)).collect(),
            None => (0..self.rows).filter(|other| *other != row && test(*other)).collect(),
        };
        found.sort_unstable();
        found.dedup();
        found
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
    Classed { of: field.of.clone(), few, rows: row_vectors(field, class_sets, everywhere, store) }
}
