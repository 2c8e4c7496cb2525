//! The intermediate form: the rules that hold at a moment, each field as the number of one of the field's distinct sets. Many
//! rules share sets, so all later steps work on sets and not on rules.

use crate::address::AddressSet;
use crate::lists::ListSet;
use crate::model::{Policy, Rule, ZoneSet};
use crate::ranges::RangeSet;
use crate::service::ServicePart;
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// The rules of a policy that hold at a moment, in order, as *rows*. A rule is one row, or a row for each part of its service, which are
/// neighbours: no rule has more than one part unless it names services from different source ports. A rule that names lists of addresses has
/// such rows for its other addresses, and for each list or pair of lists.
#[derive(Debug, Clone)]
pub struct Form {
    /// How many zones the policy has, with `self`.
    pub zones: usize,
    /// For each row, the rule's place in [`Policy::rules`].
    pub rules: Vec<u32>,
    /// For each row the zones that packets come from and go to.
    pub zone_sets: Vec<(ZoneSet, ZoneSet)>,
    /// Pairs of zones that the rules name, each as the number `from * zones + to`.
    pub pair: Field<RangeSet<u32>>,
    /// Source addresses.
    pub source: Field<Arc<AddressSet>>,
    /// Destination addresses.
    pub destination: Field<Arc<AddressSet>>,
    /// Protocols with destination ports, or ICMP types and codes.
    pub service: Field<Arc<RangeSet<u32>>>,
    /// Source ports.
    pub source_port: Field<Arc<RangeSet<u32>>>,
    /// For each row, the list that must have the source and the one that must have the destination; a row that asks for a list has every
    /// address in the field.
    pub asked_lists: Vec<AskedLists>,
}

/// The lists that must have the source and the destination; `None` where none need have it.
pub type AskedLists = [Option<u8>; 2];

/// A row while the form is made.
struct Row<'p> {
    place: u32,
    rule: &'p Rule,
    part: &'p ServicePart,
    source: Arc<AddressSet>,
    destination: Arc<AddressSet>,
    asked: AskedLists,
}

/// Addresses of a field or, in their place, a list.
type End = (Arc<AddressSet>, Option<u8>);

/// What rows of a rule have in one field: its own addresses, if there are any, and each list.
fn ends(own: &Arc<AddressSet>, lists: ListSet, any: &Arc<AddressSet>) -> Vec<End> {
    let own = (lists == 0 || !own.is_empty()).then(|| (own.clone(), None));
    let lists = (0..ListSet::BITS as u8).filter(|list| lists >> list & 1 != 0);
    own.into_iter().chain(lists.map(|list| (any.clone(), Some(list)))).collect()
}

/// The pairs of lists that a rule asks for.
pub(crate) fn asked_lists(rule: &Rule) -> impl Iterator<Item = AskedLists> {
    let any = Arc::new(AddressSet::any());
    let destinations = ends(&rule.destination, rule.destination_lists, &any);
    let sources = ends(&rule.source, rule.source_lists, &any);
    let pairs = sources
        .into_iter()
        .flat_map(move |(_, source)| destinations.clone().into_iter().map(move |(_, to)| [source, to]));
    pairs.filter(|asked| *asked != [None; 2])
}

/// One field of all rows: the distinct sets, and which of them each row has.
#[derive(Debug, Clone)]
pub struct Field<S> {
    /// The distinct sets.
    pub sets: Vec<S>,
    /// For each row, the place of its set in `sets`.
    pub of: Vec<u32>,
}

impl<S> Field<S> {
    /// For each set, the rows that have the set, in order.
    pub(crate) fn rows_of_sets(&self) -> Vec<Vec<u32>> {
        let mut rows = vec![Vec::new(); self.sets.len()];
        for (row, set) in (0u32..).zip(&self.of) {
            rows[*set as usize].push(row);
        }
        rows
    }
}

impl Form {
    /// The form of a policy at a moment.
    pub fn of(policy: &Policy, at: Timestamp) -> Self {
        let holds: Vec<bool> = policy.schedules.iter().map(|s| s.holds(at)).collect();
        Self::with(policy, |rule| rule.enabled && rule.schedule.is_none_or(|s| holds[s]))
    }

    /// The form of those rules of a policy for which `takes_part` is true.
    pub(crate) fn with(policy: &Policy, takes_part: impl Fn(&Rule) -> bool) -> Self {
        let holding = (0u32..).zip(&policy.rules).filter(|(_, rule)| takes_part(rule));
        let any = Arc::new(AddressSet::any());
        let rows: Vec<Row<'_>> = holding.flat_map(|(place, rule)| rows_of(place, rule, &any)).collect();
        let zones = policy.zones.len();
        let pairs = field(rows.iter().map(|row| (row.rule.from, row.rule.to)));
        Self {
            zones,
            rules: rows.iter().map(|row| row.place).collect(),
            zone_sets: rows.iter().map(|row| (row.rule.from, row.rule.to)).collect(),
            pair: Field {
                sets: pairs.sets.iter().map(|(f, t)| pair_set(zones, *f, *t)).collect(),
                of: pairs.of,
            },
            source: shared_field(rows.iter().map(|row| &row.source)),
            destination: shared_field(rows.iter().map(|row| &row.destination)),
            service: shared_field(rows.iter().map(|row| &row.part.keys)),
            source_port: shared_field(rows.iter().map(|row| &row.part.source_ports)),
            asked_lists: rows.iter().map(|row| row.asked).collect(),
        }
    }

    /// Whether any row asks for a list.
    pub(crate) fn has_listed(&self) -> bool {
        self.asked_lists.iter().any(|asked| *asked != [None; 2])
    }

    /// Whether a row asks for a list.
    pub(crate) fn is_listed(&self, row: usize) -> bool {
        self.asked_lists[row] != [None; 2]
    }

    /// The same rows, of which those that ask for lists match no packet.
    pub(crate) fn without_listed(mut self) -> Self {
        let none = self.source.sets.len() as u32;
        self.source.sets.push(Arc::default());
        for (set, asked) in self.source.of.iter_mut().zip(&self.asked_lists) {
            if *asked != [None; 2] {
                *set = none;
            }
        }
        self
    }
}

/// A rule that names no lists has a row for each part of its service.
fn rows_of<'p>(place: u32, rule: &'p Rule, any: &Arc<AddressSet>) -> Vec<Row<'p>> {
    let sources = ends(&rule.source, rule.source_lists, any);
    let destinations = ends(&rule.destination, rule.destination_lists, any);
    let mut rows = Vec::with_capacity(rule.service.parts().len());
    for (source, from) in &sources {
        for (destination, to) in &destinations {
            rows.extend(rule.service.parts().iter().map(|part| Row {
                place,
                rule,
                part,
                source: source.clone(),
                destination: destination.clone(),
                asked: [*from, *to],
            }));
        }
    }
    rows
}

fn pair_set(zones: usize, from: ZoneSet, to: ZoneSet) -> RangeSet<u32> {
    let pairs = (0..zones).flat_map(|f| (0..zones).map(move |t| (f, t)));
    let inside = pairs.filter(|(f, t)| from & 1 << f != 0 && to & 1 << t != 0);
    RangeSet::of(inside.map(|(f, t)| (f * zones + t) as u32).map(|pair| (pair, pair)))
}

fn field<S: Hash + Eq + Clone>(values: impl Iterator<Item = S>) -> Field<S> {
    let mut numbers: FxHashMap<S, u32> = FxHashMap::default();
    let mut sets = Vec::new();
    let of = values
        .map(|value| {
            *numbers.entry(value).or_insert_with_key(|value| {
                sets.push(value.clone());
                sets.len() as u32 - 1
            })
        })
        .collect();
    Field { sets, of }
}

/// Gives equal sets one number. Sets of the same allocation are equal, so their ranges are not compared.
fn shared_field<'a, S: Hash + Eq + 'a>(values: impl Iterator<Item = &'a Arc<S>>) -> Field<Arc<S>> {
    let mut by_place: FxHashMap<usize, u32> = FxHashMap::default();
    let mut by_value: FxHashMap<Arc<S>, u32> = FxHashMap::default();
    let mut sets: Vec<Arc<S>> = Vec::new();
    let of = values
        .map(|value| {
            *by_place.entry(Arc::as_ptr(value) as usize).or_insert_with(|| {
                *by_value.entry(value.clone()).or_insert_with(|| {
                    sets.push(value.clone());
                    sets.len() as u32 - 1
                })
            })
        })
        .collect();
    Field { sets, of }
}
