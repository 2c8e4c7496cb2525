//! A policy as flat arrays of u32 and u64: the deciding rule of a packet by array loads alone, with a bounded number of
//! them. The BPF program does exactly what [`Tables::look_up`] does. `docs/design/tables.md` describes the layout.

mod address;
mod blocks;
mod classes;
mod combine;
mod counters;
mod vectors;

pub use address::{DEEPER, MAX_LEVELS, NODE_KEYS, Tree6, Trie4, WHOLE};
pub use blocks::{BLOCK_CLASSES, Blocks};
pub use combine::{BitVectors, Blocked, Crossed, Limits, Method, Part};
pub use counters::Counters;
pub use vectors::{BLOCK_BITS, BLOCK_CHUNKS, CHUNK_BITS, CHUNK_WORDS};

pub(crate) use classes::{address_classes, classes_of, pair_classes, service_classes};
pub(crate) use vectors::{Store, Vectors};

use crate::form::Form;
use crate::interpret::{Decider, Packet, Verdict};
use crate::model::{Action, Policy};
use classes::Segments;
use jiff::Timestamp;
use std::net::IpAddr;

/// In an entry of [`Tables::protocols`]: the rest is the number of a block of ports, not a class.
pub const BY_PORT: u32 = 1 << 31;

/// Entries of the table of zone pairs and services at most: 64 MiB.
const PAIR_SERVICE_LIMIT: usize = 1 << 24;

/// The classes of all sets of one address field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressTables {
    /// Of IPv4 addresses.
    pub v4: Trie4,
    /// Of IPv6 addresses.
    pub v6: Tree6,
    /// How many classes there are.
    pub classes: u32,
}

/// The tables of a policy at a moment; they hold until [`Policy::next_change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Number of zones.
    pub zones: u32,
    /// At `from * zones + to`: the class of the pair.
    pub pairs: Vec<u32>,
    /// At the protocol: the class of the service, or [`BY_PORT`] with the number of a block.
    pub protocols: Vec<u32>,
    /// Blocks of 65,536 classes, by destination port, or ICMP type and code.
    pub ports: Vec<u32>,
    /// At `class of the pair * services + class of the service`: the class of both.
    pub pair_service: Vec<u32>,
    /// Number of classes of services.
    pub services: u32,
    /// Classes of sources.
    pub source: AddressTables,
    /// Classes of destinations.
    pub destination: AddressTables,
    /// From classes to the deciding row.
    pub method: Method,
    /// For each row, the place of the rule in the policy.
    pub rules: Vec<u32>,
    /// For each row, the action: its place in [`Action::NAMES`].
    pub actions: Vec<u32>,
    /// At `from * zones + to`: the action where no rule matches.
    pub defaults: Vec<u32>,
}

/// Why tables cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Zone pairs times services are too many.
    #[error(
        "the rules tell {pairs} kinds of zone pairs and {services} kinds of services apart: together more than {} \
         combinations; use fewer zones, or group services that the same rules name",
        PAIR_SERVICE_LIMIT
    )]
    TooManyServices {
        /// Classes of zone pairs.
        pairs: usize,
        /// Classes of services.
        services: usize,
    },
}

impl Tables {
    /// Builds the tables of a policy at a moment.
    ///
    /// # Errors
    /// [`BuildError`]: zone pairs and services that cannot be combined within bounds.
    pub fn build(policy: &Policy, at: Timestamp) -> Result<Self, BuildError> {
        let form = Form::of(policy, at);
        let limits = Limits::for_rows(form.rules.len());
        Self::of_form(policy, form, limits)
    }

    /// Builds tables with limits of one's own: what [`Tables::build`] chooses suits most.
    ///
    /// # Errors
    /// As [`Tables::build`].
    pub fn build_within(policy: &Policy, at: Timestamp, limits: Limits) -> Result<Self, BuildError> {
        Self::of_form(policy, Form::of(policy, at), limits)
    }

    fn of_form(policy: &Policy, form: Form, limits: Limits) -> Result<Self, BuildError> {
        let mut store = Store::new(form.rules.len());
        let (pair_segments, pair_vectors) = pair_classes(&form.pair, &mut store);
        let (service_segments, service_vectors) = service_classes(&form.service, &mut store);
        let (pairs, services) = (pair_vectors.len(), service_vectors.len());
        let (pair_service, both) =
            combine::cross(&mut store, &pair_vectors, &service_vectors, PAIR_SERVICE_LIMIT)
                .ok_or(BuildError::TooManyServices { pairs, services })?;
        let (source, sources) = address_tables(&form.source, &mut store);
        let (destination, destinations) = address_tables(&form.destination, &mut store);
        let method = combine::choose(&mut store, &[sources, destinations, both], limits);
        let (protocols, ports) = service_tables(&service_segments);
        Ok(Self {
            zones: form.zones as u32,
            pairs: spread(&pair_segments, form.zones * form.zones),
            protocols,
            ports,
            pair_service,
            services: services as u32,
            source,
            destination,
            method,
            actions: form
                .rules
                .iter()
                .map(|i| action_number(policy.rules[*i as usize].effect.action))
                .collect(),
            rules: form.rules,
            defaults: policy.defaults.iter().map(|default| action_number(default.action)).collect(),
        })
    }

    /// The verdict on a packet, and how many memory accesses it took: a number, or 64 bytes that lie together (a node, a
    /// chunk), is one.
    pub fn look_up(&self, packet: &Packet) -> (Verdict, u32) {
        let pair = usize::from(packet.from) * self.zones as usize + usize::from(packet.to);
        let (service, service_loads) = self.service_class(packet.protocol, packet.selector);
        let pair_service = self.pair_service[(self.pairs[pair] * self.services + service) as usize];
        let (source, source_loads) = self.source.class(packet.source);
        let (destination, destination_loads) = self.destination.class(packet.destination);
        let classes = [source, destination, pair_service];
        let (row, row_loads) = match &self.method {
            Method::Crossed(crossed) => crossed.row(classes),
            Method::Blocked(blocked) => blocked.row(classes),
            Method::Vectors(vectors) => vectors.row(classes),
        };
        // The pair's class, the class of pair and service, and the action at the end.
        let loads = 3 + service_loads + source_loads + destination_loads + row_loads;
        let (decider, action) = match row.checked_sub(1) {
            Some(row) => (Decider::Rule(self.rules[row as usize] as usize), self.actions[row as usize]),
            None => (Decider::Default, self.defaults[pair]),
        };
        (Verdict { decider, action: Action::NAMES[action as usize].1 }, loads)
    }

    fn service_class(&self, protocol: u8, selector: u16) -> (u32, u32) {
        let entry = self.protocols[usize::from(protocol)];
        if entry & BY_PORT == 0 {
            return (entry, 1);
        }
        (self.ports[((entry & !BY_PORT) << 16 | u32::from(selector)) as usize], 2)
    }

    /// What each table takes, in bytes.
    pub fn sizes(&self) -> Vec<(&'static str, usize)> {
        let address = |t: &AddressTables| {
            let v6 = t.v6.keys.len() * 8 + t.v6.leaves.len() * 12 + t.v6.lows.len() * 12;
            (t.v4.roots.len() + t.v4.blocks.len()) * 4 + v6
        };
        let combination = match &self.method {
            Method::Crossed(c) => (c.first.len() + c.last.len()) * 4,
            Method::Blocked(b) => (b.first.size() + b.last.size()) * 4,
            Method::Vectors(v) => {
                let numbers = v.blocks.len() + v.vectors.iter().map(Vec::len).sum::<usize>();
                numbers * 4 + (v.chunks.len() + v.summaries.iter().map(Vec::len).sum::<usize>()) * 8
            }
        };
        vec![
            ("zone pairs", (self.pairs.len() + self.defaults.len()) * 4),
            ("services", (self.protocols.len() + self.ports.len()) * 4),
            ("zone pairs x services", self.pair_service.len() * 4),
            ("sources", address(&self.source)),
            ("destinations", address(&self.destination)),
            ("combination", combination),
            ("rules", (self.rules.len() + self.actions.len()) * 4),
        ]
    }
}

impl AddressTables {
    /// The class of an address, and how many loads it took.
    pub fn class(&self, address: IpAddr) -> (u32, u32) {
        match address {
            IpAddr::V4(v4) => self.v4.class(v4.into()),
            IpAddr::V6(v6) => self.v6.class(v6.into()),
        }
    }
}

fn action_number(action: Action) -> u32 {
    (0..).zip(Action::NAMES).find(|(_, (_, a))| *a == action).map_or(0, |(i, _)| i)
}

fn address_tables(
    field: &crate::form::Field<std::sync::Arc<crate::address::AddressSet>>,
    store: &mut Store,
) -> (AddressTables, Vectors) {
    let (v4, v6, vectors) = address_classes(field, store);
    let tables = AddressTables { v4: Trie4::of(&v4), v6: Tree6::of(&v6), classes: vectors.len() as u32 };
    (tables, vectors)
}

/// The class of every value below a bound.
fn spread(segments: &Segments<u32>, values: usize) -> Vec<u32> {
    let mut classes = vec![0; values];
    for (i, (first, class)) in segments.iter().enumerate() {
        let end = segments.get(i + 1).map_or(values, |(next, _)| values.min(*next as usize));
        classes[values.min(*first as usize)..end].fill(*class);
    }
    classes
}

/// Tables by protocol and by port.
fn service_tables(segments: &Segments<u32>) -> (Vec<u32>, Vec<u32>) {
    let mut protocols = vec![0; 256];
    let mut ports: Vec<u32> = Vec::new();
    let mut at = 0;
    for protocol in 0..256u32 {
        let (first, last) = (protocol << 16, protocol << 16 | 0xffff);
        while segments.get(at + 1).is_some_and(|(next, _)| *next <= first) {
            at += 1;
        }
        let Some((next, _)) = segments.get(at + 1).filter(|(next, _)| *next <= last) else {
            protocols[protocol as usize] = segments[at].1;
            continue;
        };
        protocols[protocol as usize] = BY_PORT | (ports.len() >> 16) as u32;
        let start = ports.len();
        ports.resize(start + (1 << 16), segments[at].1);
        let mut next = *next;
        while next <= last {
            at += 1;
            let end = segments.get(at + 1).map_or(last, |(end, _)| last.min(end - 1));
            ports[start + (next & 0xffff) as usize..=start + (end & 0xffff) as usize].fill(segments[at].1);
            next = end + 1;
        }
    }
    (protocols, ports)
}
