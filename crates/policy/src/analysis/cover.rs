//! Decides whether some rules together take every packet of a rule.
//!
//! It goes field by field. Rules that have all values of the field stay. The other rules split the values into regions, and in each
//! region some of these rules stay. A region in which none of them stays is the hardest to cover, so if there is such a region, it
//! alone is examined. If no rule is left, a packet was found that no rule takes. If rules are left after the last field, the first
//! of them takes the packets of the region.

use super::{Product, Products, TEST};
use crate::ranges::{Point, RangeSet};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// Steps that a whole policy may take, which is some seconds. A step is one range of one rule.
pub(super) const BUDGET: u64 = 300_000_000;
/// Steps that one rule may take.
const PER_RULE: u64 = 4_000_000;

/// Whether earlier rules take a rule's packets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// These rows, in order, take all of them.
    Complete(Vec<usize>),
    /// Some packet is not taken.
    Partial,
    /// The budget was used up before the answer was found.
    Unknown,
}

/// Whether some earlier rows take every packet of a row, or of a part of one.
pub(super) fn covered(
    products: &Products<'_>,
    product: &Product<'_>,
    earlier: &[usize],
    budget: &mut u64,
) -> Cover {
    *budget = budget.saturating_sub(earlier.len() as u64 * product.test_steps() / TEST);
    // What may match nothing takes nothing.
    let earlier: Vec<usize> =
        earlier.iter().copied().filter(|other| !products.rules[*other].is_listed).collect();
    if let Some(one) = earlier.iter().find(|other| products.rules[**other].covers(product)) {
        return Cover::Complete(vec![*one]);
    }
    let mut search = Search { products, product, steps: PER_RULE.min(*budget), by: BTreeSet::new() };
    let allowed = search.steps;
    let v4 = product.source.v4.is_empty()
        || product.destination.v4.is_empty()
        || search.family(&earlier, Family::V4);
    let v6 = v4
        && (product.source.v6.is_empty()
            || product.destination.v6.is_empty()
            || search.family(&earlier, Family::V6));
    *budget = budget.saturating_sub(allowed - search.steps);
    match (v4 && v6, search.steps) {
        (_, 0) => Cover::Unknown,
        (true, _) => Cover::Complete(search.by.into_iter().collect()),
        (false, _) => Cover::Partial,
    }
}

/// The fields in the order in which they are examined.
#[derive(Clone, Copy)]
enum Step {
    Pairs,
    Moments,
    Service,
    SourcePort,
    Source,
    Destination,
}

#[derive(Clone, Copy, PartialEq)]
enum Family {
    V4,
    V6,
}

struct Search<'a, 'p> {
    products: &'a Products<'p>,
    product: &'a Product<'p>,
    /// Steps that are left. When they are 0, no answer counts.
    steps: u64,
    by: BTreeSet<usize>,
}

impl<'p> Search<'_, 'p> {
    /// Whether some of the rows take every packet of one family.
    fn family(&mut self, earlier: &[usize], family: Family) -> bool {
        self.all_taken(earlier, Step::Pairs, family)
    }

    fn all_taken(&mut self, left: &[usize], step: Step, family: Family) -> bool {
        if left.is_empty() || self.steps == 0 {
            return false;
        }
        let next = match step {
            Step::Pairs => Some(Step::Moments),
            Step::Moments => Some(Step::Service),
            Step::Service => Some(Step::SourcePort),
            Step::SourcePort => Some(Step::Source),
            Step::Source => Some(Step::Destination),
            Step::Destination => None,
        };
        match (step, family) {
            (Step::Pairs, _) => self.split(left, |p| &*p.pairs, next, family),
            (Step::Moments, _) => self.split(left, |p| &p.moments, next, family),
            (Step::Service, _) => self.split(left, |p| &*p.service, next, family),
            (Step::SourcePort, _) => self.split(left, |p| &*p.source_port, next, family),
            (Step::Source, Family::V4) => self.split(left, |p| &p.source.v4, next, family),
            (Step::Source, Family::V6) => self.split(left, |p| &p.source.v6, next, family),
            (Step::Destination, Family::V4) => self.split(left, |p| &p.destination.v4, next, family),
            (Step::Destination, Family::V6) => self.split(left, |p| &p.destination.v6, next, family),
        }
    }

    fn split<T: Point>(
        &mut self,
        left: &[usize],
        field: impl for<'x> Fn(&'x Product<'p>) -> &'x RangeSet<T>,
        next: Option<Step>,
        family: Family,
    ) -> bool {
        let (products, own) = (self.products, field(self.product));
        let set = |row: usize| field(&products.rules[row]);
        let work: usize = left.iter().map(|row| set(*row).ranges().len() + 1).sum();
        self.steps = self.steps.saturating_sub((work + own.ranges().len()) as u64);
        let (whole, part): (Vec<usize>, Vec<usize>) = left.iter().partition(|row| set(**row).covers(own));
        let part: Vec<usize> = part.into_iter().filter(|row| set(*row).meets(own)).collect();
        let part_ranges = part.iter().flat_map(|row| set(*row).ranges().iter().copied());
        if part.is_empty() || !own.without(&RangeSet::of(part_ranges)).is_empty() {
            return self.go_on(&whole, next, family);
        }
        for region in regions(own, &part, &set, &mut self.steps) {
            let mut here = [whole.as_slice(), &region].concat();
            // Both are in order, and a stable sort knows that.
            here.sort();
            self.steps = self.steps.saturating_sub(here.len() as u64);
            if !self.go_on(&here, next, family) {
                return false;
            }
        }
        self.steps > 0
    }

    fn go_on(&mut self, left: &[usize], next: Option<Step>, family: Family) -> bool {
        match (next, left.first()) {
            (_, None) => false,
            (Some(step), _) => self.all_taken(left, step, family),
            (None, Some(first)) => {
                self.by.insert(*first);
                true
            }
        }
    }
}

/// The different selections of rows that have a value of a set, each once, in the order of the values. When the steps run out, some are missing.
fn regions<'s, T: Point + 's>(
    own: &RangeSet<T>,
    rows: &[usize],
    set: &impl Fn(usize) -> &'s RangeSet<T>,
    steps: &mut u64,
) -> Vec<Vec<usize>> {
    let mut boundaries: Vec<(T, usize)> = Vec::new();
    for row in rows {
        for (first, last) in set(*row).ranges() {
            boundaries.push((*first, *row));
            boundaries.extend(last.next().map(|after| (after, *row)));
        }
    }
    // The set's own boundaries belong to no row. It is the greatest number, so it is the last of those that are here.
    const NONE: usize = usize::MAX;
    for (first, last) in own.ranges() {
        boundaries.push((*first, NONE));
        boundaries.extend(last.next().map(|after| (after, NONE)));
    }
    boundaries.sort_unstable();
    let mut here: Vec<usize> = Vec::new();
    let (mut found, mut known) = (Vec::new(), FxHashSet::default());
    for (i, (at, row)) in boundaries.iter().enumerate() {
        match here.binary_search(row) {
            Ok(place) => {
                here.remove(place);
            }
            Err(place) => here.insert(place, *row),
        }
        let complete = boundaries.get(i + 1).is_none_or(|(next, _)| next != at);
        if let [selected @ .., NONE] = here.as_slice()
            && complete
        {
            *steps = steps.saturating_sub(here.len() as u64);
            if *steps == 0 {
                break;
            }
            if !known.contains(selected) {
                known.insert(selected.to_vec());
                found.push(selected.to_vec());
            }
        }
    }
    found
}
