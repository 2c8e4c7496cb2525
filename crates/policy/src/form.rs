//! The intermediate form: the rules that hold at a moment, each field as the number of one of the field's distinct sets. Many
//! rules share sets, so all later steps work on sets and not on rules.

use crate::address::AddressSet;
use crate::model::{Policy, Rule, ZoneSet};
use crate::ranges::RangeSet;
use crate::service::ServicePart;
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// The rules of a policy that hold at a moment, in order, as *rows*. A rule is one row, or a row for each part of its service, which are
/// neighbours: no rule has more than one part unless it names services from different source ports.
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
        let rows: Vec<(u32, &Rule, &ServicePart)> = holding
            .flat_map(|(place, rule)| rule.service.parts().iter().map(move |part| (place, rule, part)))
            .collect();
        let zones = policy.zones.len();
        let pairs = field(rows.iter().map(|(_, rule, _)| (rule.from, rule.to)));
        Self {
            zones,
            rules: rows.iter().map(|(i, ..)| *i).collect(),
            zone_sets: rows.iter().map(|(_, rule, _)| (rule.from, rule.to)).collect(),
            pair: Field {
                sets: pairs.sets.iter().map(|(f, t)| pair_set(zones, *f, *t)).collect(),
                of: pairs.of,
            },
            source: shared_field(rows.iter().map(|(_, rule, _)| &rule.source)),
            destination: shared_field(rows.iter().map(|(_, rule, _)| &rule.destination)),
            service: shared_field(rows.iter().map(|(.., part)| &part.keys)),
            source_port: shared_field(rows.iter().map(|(.., part)| &part.source_ports)),
        }
    }
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
