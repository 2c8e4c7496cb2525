//! Tables by classes: each field leads to a class of its values, and the classes together to the deciding row.

use super::address::{Tree6, Trie4};
use super::classes::{Segments, address_classes, pair_classes, port_classes, service_classes};
use super::combine::{self, ClassLimits, Combination};
use super::vectors::{Store, Vectors};
use crate::address::AddressSet;
use crate::form::{Field, Form};
use crate::interpret::Packet;
use std::net::IpAddr;
use std::sync::Arc;

/// In an entry of [`Classed::protocols`]: the rest is the number of a block of ports, not a class.
pub const BY_PORT: u32 = 1 << 31;

/// Entries of the table of zone pairs and services at most: 64 MiB.
pub(super) const PAIR_SERVICE_LIMIT: usize = 1 << 24;

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

/// Tables by classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classed {
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
    /// At the source port: its class. Empty if no rule asks for source ports.
    pub source_ports: Vec<u32>,
    /// At `class of pair and service * port_classes + class of the source port`: the class of all three. Empty as well.
    pub with_source_port: Vec<u32>,
    /// Number of classes of source ports.
    pub port_classes: u32,
    /// Classes of sources.
    pub source: AddressTables,
    /// Classes of destinations.
    pub destination: AddressTables,
    /// From classes to the deciding row.
    pub combination: Combination,
}

/// Zone pairs times services are too many: how many classes there are of each.
pub(super) struct TooManyServices {
    pub(super) pairs: usize,
    pub(super) services: usize,
}

impl Classed {
    pub(super) fn of(form: &Form, limits: ClassLimits) -> Result<Self, TooManyServices> {
        let mut store = Store::new(form.rules.len());
        let (pair_segments, pair_vectors) = pair_classes(&form.pair, &mut store);
        let (service_segments, service_vectors) = service_classes(&form.service, &mut store);
        let (pairs, services) = (pair_vectors.len(), service_vectors.len());
        let (pair_service, both) =
            combine::cross(&mut store, &pair_vectors, &service_vectors, PAIR_SERVICE_LIMIT)
                .ok_or(TooManyServices { pairs, services })?;
        let (ports_segments, port_vectors) = port_classes(&form.source_port, &mut store);
        let asks_for_ports = ports_segments.len() > 1;
        let (with_source_port, both) = if asks_for_ports {
            combine::cross(&mut store, &both, &port_vectors, PAIR_SERVICE_LIMIT)
                .ok_or(TooManyServices { pairs, services })?
        } else {
            (Vec::new(), both)
        };
        let (source, sources) = address_tables(&form.source, &mut store);
        let (destination, destinations) = address_tables(&form.destination, &mut store);
        let combination = combine::choose(&mut store, &[sources, destinations, both], limits);
        let (protocols, ports) = service_tables(&service_segments);
        Ok(Self {
            pairs: spread(&pair_segments, form.zones * form.zones),
            protocols,
            ports,
            pair_service,
            services: services as u32,
            source_ports: if asks_for_ports { spread(&ports_segments, 1 << 16) } else { Vec::new() },
            with_source_port,
            port_classes: port_vectors.len() as u32,
            source,
            destination,
            combination,
        })
    }

    /// The deciding row of a packet between a pair of zones and 1, or 0; and how many accesses it took.
    pub(super) fn look_up(&self, packet: &Packet, pair: usize) -> (u32, u32) {
        let (service, service_loads) = self.service_class(packet.protocol, packet.selector);
        let pair_service = self.pair_service[(self.pairs[pair] * self.services + service) as usize];
        let (whole_service, port_loads) = self.with_source_port(pair_service, packet.source_port);
        let (source, source_loads) = self.source.class(packet.source);
        let (destination, destination_loads) = self.destination.class(packet.destination);
        let classes = [source, destination, whole_service];
        let (row, row_loads) = match &self.combination {
            Combination::Crossed(crossed) => crossed.row(classes),
            Combination::Blocked(blocked) => blocked.row(classes),
            Combination::Vectors(vectors) => vectors.row(classes),
        };
        // The pair's class, and the class of pair and service.
        (row, 2 + service_loads + port_loads + source_loads + destination_loads + row_loads)
    }

    fn service_class(&self, protocol: u8, selector: u16) -> (u32, u32) {
        let entry = self.protocols[usize::from(protocol)];
        if entry & BY_PORT == 0 {
            return (entry, 1);
        }
        (self.ports[((entry & !BY_PORT) << 16 | u32::from(selector)) as usize], 2)
    }

    /// The class of zone pair, service and source port.
    fn with_source_port(&self, pair_service: u32, port: u16) -> (u32, u32) {
        let Some(port_class) = self.source_ports.get(usize::from(port)) else {
            return (pair_service, 0);
        };
        (self.with_source_port[(pair_service * self.port_classes + port_class) as usize], 2)
    }

    /// The most accesses that a packet of IPv4 and one of IPv6 can take.
    pub(super) fn bounds(&self) -> [u32; 2] {
        let services =
            2 + if self.ports.is_empty() { 1 } else { 2 } + if self.source_ports.is_empty() { 0 } else { 2 };
        let combination = match &self.combination {
            Combination::Crossed(_) => 2,
            Combination::Blocked(_) => 4,
            Combination::Vectors(vectors) => vectors.bound(),
        };
        let fields = [&self.source, &self.destination];
        let v4: u32 = fields.iter().map(|field| field.v4.bound()).sum();
        let v6: u32 = fields.iter().map(|field| field.v6.bound()).sum();
        [v4, v6].map(|addresses| services + addresses + combination)
    }

    /// What each table takes, in bytes.
    pub(super) fn sizes(&self) -> Vec<(&'static str, usize)> {
        let address = |t: &AddressTables| {
            let v6 = t.v6.keys.len() * 8 + t.v6.leaves.len() * 12 + t.v6.lows.len() * 12;
            (t.v4.roots.len() + t.v4.blocks.len()) * 4 + v6
        };
        let combination = match &self.combination {
            Combination::Crossed(c) => (c.first.len() + c.last.len()) * 4,
            Combination::Blocked(b) => (b.first.size() + b.last.size()) * 4,
            Combination::Vectors(v) => {
                let numbers = v.blocks.len() + v.vectors.iter().map(Vec::len).sum::<usize>();
                numbers * 4 + (v.chunks.len() + v.summaries.iter().map(Vec::len).sum::<usize>()) * 8
            }
        };
        vec![
            ("zone pairs", self.pairs.len() * 4),
            ("services", (self.protocols.len() + self.ports.len()) * 4),
            ("zone pairs x services", self.pair_service.len() * 4),
            ("source ports", (self.source_ports.len() + self.with_source_port.len()) * 4),
            ("sources", address(&self.source)),
            ("destinations", address(&self.destination)),
            ("combination", combination),
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

fn address_tables(field: &Field<Arc<AddressSet>>, store: &mut Store) -> (AddressTables, Vectors) {
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
