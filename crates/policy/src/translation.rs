//! Translation of addresses: what an entry of `[[nat]]` says, what it does with a packet, and the rows that the data plane goes
//! through. [`Policy::translate_destination`] and [`Policy::translate_source`] are the reference: they go through the entries one by one.
//!
//! Of a packet that would open a flow the destination is translated first (DNAT); then the packet is routed and judged by where it goes
//! now, and last its source is translated (SNAT).

use crate::address::AddressSet;
use crate::interpret::Packet;
use crate::model::{Policy, SELF, Written, ZoneSet};
use crate::prefix::Prefixes;
use crate::ranges::RangeSet;
use crate::service::{ServiceSet, TCP, UDP};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;

/// The most [`Row`]s of one direction in a policy.
pub const MAX_ROWS: usize = 1024;

/// An entry of `[[nat]]`: which packets, and what becomes of them.
#[derive(Debug, Clone)]
pub struct Translation {
    /// Its name, which no other entry has.
    pub name: String,
    /// A description for people.
    pub description: Option<String>,
    /// Zones that the packet comes from.
    pub from: ZoneSet,
    /// Zones that it goes to; `None` where the text does not say.
    pub to: Option<ZoneSet>,
    /// Its source as it comes.
    pub source: Arc<AddressSet>,
    /// Its destination: as it comes where the destination is translated, and as the rules see it where the source is.
    pub destination: Arc<AddressSet>,
    /// Protocols and destination ports, in the same sense.
    pub service: Arc<ServiceSet>,
    /// What changes.
    pub change: Change,
    /// Where one port outside serves all whom an end inside talks to (RFC 4787 section 4.1): who outside may begin by it. `None`: each
    /// flow has a port of its own.
    pub mapping: Option<Filtering>,
    /// Whether the firewall answers ARP for its addresses; `None`: for those that can be nobody else's.
    pub answer_arp: Option<bool>,
    /// Whether it takes part.
    pub enabled: bool,
    /// Bytes of the text that name it.
    pub span: Range<usize>,
    /// The fields as the text writes them.
    pub written: Written,
}

/// What a translation changes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing, whatever later entries say.
    Exempt,
    /// The source becomes the address of the interface that the packet leaves by, its port one of these.
    Masquerade {
        /// First and last port; `None`: of the same kind as before.
        ports: Option<(u16, u16)>,
    },
    /// The source becomes one of these addresses.
    Source {
        /// The first.
        first: Ipv4Addr,
        /// The last.
        last: Ipv4Addr,
        /// As above.
        ports: Option<(u16, u16)>,
    },
    /// The destination becomes this one.
    Destination {
        /// The address.
        address: Ipv4Addr,
        /// The port; `None`: as before.
        port: Option<u16>,
    },
    /// Each source of the entry, one range, has an address of its own outside, and whoever writes to that is sent to it.
    OneToOne {
        /// The address of the first of the range.
        first: Ipv4Addr,
    },
    /// Each source has an address outside with another prefix of IPv6 (RFC 6296), and whoever writes to that is sent to it.
    Prefix(Prefixes),
}

/// Who may begin a flow to a mapping (RFC 4787 section 5). The rules judge all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filtering {
    /// Nobody: only whom the end inside has sent to reaches it, from the port that it has sent to.
    AddressAndPort,
    /// Whose address the end inside has sent to, from any port.
    Address,
    /// Anybody.
    EndpointIndependent,
}

impl Filtering {
    /// As `filtering` writes them.
    pub const NAMES: [(&str, Self); 3] = [
        ("address-and-port", Self::AddressAndPort),
        ("address", Self::Address),
        ("endpoint-independent", Self::EndpointIndependent),
    ];

    /// As `filtering` writes it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// Where a packet goes whose destination is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationTranslation {
    /// The address.
    pub address: IpAddr,
    /// The port; `None`: as before.
    pub port: Option<u16>,
}

/// Where a packet comes from, for its receiver, once its source is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceTranslation {
    /// The address of the interface that it leaves by.
    Interface,
    /// One of these addresses, always the same one for the same source.
    OneOf(Ipv4Addr, Ipv4Addr),
    /// This one.
    Address(IpAddr),
    /// None, because no flow can come of the packet, or its address has none outside (RFC 6296): it is dropped as `untranslatable`.
    Untranslatable,
}

/// Which way a row looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The destination is translated.
    Destination,
    /// The source is translated.
    Source,
}

/// A part of a translation of IPv4 without holes, as the data plane compares it. All pairs are first and last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its translation's place in [`Policy::translations`].
    pub translation: usize,
    /// Zones that the packet comes from.
    pub from: ZoneSet,
    /// Zones that it goes to.
    pub to: ZoneSet,
    /// Sources.
    pub source: (u32, u32),
    /// Destinations.
    pub destination: (u32, u32),
    /// Services, as [`crate::service::key`]s.
    pub service: (u32, u32),
    /// What changes.
    pub change: Change,
    /// As in [`Translation`].
    pub mapping: Option<Filtering>,
}

impl Translation {
    /// The sets that an entry compares in a direction: zones from and to, source, destination and service; `None` if it says nothing
    /// about that direction.
    pub(crate) fn seen(&self, direction: Direction) -> Option<Seen> {
        let all = ZoneSet::MAX;
        let forward = |to| Seen {
            from: self.from,
            to,
            source: self.source.v4.clone(),
            destination: self.destination.v4.clone(),
            service: keys(&self.service),
            ..Seen::default()
        };
        let exempt = |from, to| Seen {
            from,
            source_v6: self.exempt_v6(&self.source),
            destination_v6: self.exempt_v6(&self.destination),
            ..forward(to)
        };
        match (self.change, direction) {
            (Change::Exempt, Direction::Destination) if self.to.is_some() => None,
            (Change::Exempt, Direction::Destination) => Some(exempt(self.from, all)),
            (Change::Destination { .. }, Direction::Destination) => Some(forward(all)),
            (Change::Exempt, Direction::Source) => {
                Some(exempt(self.from | 1 << SELF, self.to.unwrap_or(all & !(1 << SELF))))
            }
            (Change::Prefix(prefixes), _) => Some(self.seen_of_prefixes(prefixes, direction)),
            (
                Change::Masquerade { .. } | Change::Source { .. } | Change::OneToOne { .. },
                Direction::Source,
            ) => Some(forward(self.to.unwrap_or(0))),
            (Change::OneToOne { .. }, Direction::Destination) => {
                // From those who know it by its address outside.
                let (first, last) = self.outside()?;
                Some(Seen {
                    from: self.to.unwrap_or(0),
                    to: all,
                    source: RangeSet::full(),
                    destination: RangeSet::of([(first, last)]),
                    service: keys(&ServiceSet::any()),
                    ..Seen::default()
                })
            }
            (Change::Destination { .. }, Direction::Source)
            | (Change::Masquerade { .. } | Change::Source { .. }, Direction::Destination) => None,
        }
    }

    /// Of an exemption, what it says about IPv6. Packets of a flow have no service of their own in both directions, and a prefix is
    /// translated by addresses alone, so an exemption of services says nothing.
    fn exempt_v6(&self, set: &AddressSet) -> RangeSet<u128> {
        if *self.service == ServiceSet::any() { set.v6.clone() } else { RangeSet::default() }
    }

    /// From outside, and from inside to the outside address of somebody there (RFC 6296 section 2.3 and RFC 4787 REQ-9): its destination. What
    /// goes out: its source.
    fn seen_of_prefixes(&self, prefixes: Prefixes, direction: Direction) -> Seen {
        let to = self.to.unwrap_or(0);
        let all = RangeSet::full();
        let (from, source_v6, destination_v6) = match direction {
            // Also what the firewall answers by an address inside of its own, to whom asked by its name outside.
            Direction::Source => (self.from | 1 << SELF, RangeSet::of([prefixes.inside()]), all),
            Direction::Destination => (self.from | to, all, RangeSet::of([prefixes.outside()])),
        };
        Seen { from, to, source_v6, destination_v6, service: keys(&ServiceSet::any()), ..Seen::default() }
    }

    /// Of one-to-one: the addresses outside.
    pub fn outside(&self) -> Option<(u32, u32)> {
        let Change::OneToOne { first } = self.change else { return None };
        let (inside_first, inside_last) = *self.source.v4.ranges().first()?;
        Some((first.into(), u32::from(first).checked_add(inside_last - inside_first)?))
    }

    /// Whether others than those that its ends talk to may begin flows by its mappings.
    pub fn lets_others_begin(&self) -> bool {
        self.enabled && matches!(self.mapping, Some(Filtering::Address | Filtering::EndpointIndependent))
    }

    /// Whether it decides about a packet that goes to one of some zones.
    fn matches(&self, direction: Direction, packet: &Packet, to: ZoneSet) -> bool {
        self.enabled
            && self.seen(direction).is_some_and(|seen| {
                let ends = match (packet.source, packet.destination) {
                    (IpAddr::V4(source), IpAddr::V4(destination)) => {
                        seen.source.contains(source.into()) && seen.destination.contains(destination.into())
                    }
                    (IpAddr::V6(source), IpAddr::V6(destination)) => {
                        seen.source_v6.contains(source.into())
                            && seen.destination_v6.contains(destination.into())
                    }
                    _ => false,
                };
                seen.from >> packet.from & 1 != 0
                    && (direction == Direction::Destination || seen.to & to != 0)
                    && ends
                    && seen.service.contains(crate::service::key(packet.protocol, packet.selector))
            })
    }
}

/// The keys of a service, whatever the source ports.
pub(crate) fn keys(service: &ServiceSet) -> RangeSet<u32> {
    RangeSet::of(service.parts().iter().flat_map(|part| part.keys.ranges().iter().copied()))
}

/// What a translation compares in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) from: ZoneSet,
    pub(crate) to: ZoneSet,
    pub(crate) source: RangeSet<u32>,
    pub(crate) destination: RangeSet<u32>,
    pub(crate) source_v6: RangeSet<u128>,
    pub(crate) destination_v6: RangeSet<u128>,
    pub(crate) service: RangeSet<u32>,
}

impl Seen {
    /// Whether every packet of the other is one of this.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.from & !self.from == 0
            && other.to & !self.to == 0
            && (other.source.is_empty()
                || (self.source.covers(&other.source) && self.destination.covers(&other.destination)))
            && (other.source_v6.is_empty()
                || (self.source_v6.covers(&other.source_v6)
                    && self.destination_v6.covers(&other.destination_v6)))
            && self.service.covers(&other.service)
    }

    /// How many rows it takes, and how many of prefixes.
    pub(crate) fn rows(&self) -> [usize; 2] {
        let v4 = [&self.source, &self.destination, &self.service].map(|set| set.ranges().len());
        let v6 = [&self.source_v6, &self.destination_v6].map(|set| set.ranges().len());
        [v4.iter().product(), v6.iter().product()]
    }
}

impl Policy {
    /// The entry that decides about a packet's destination, and where it sends the packet; `None`: as the packet says. Where the
    /// packet goes to is not looked at: it is not known yet. What the firewall itself sends, and what opens no flow, stays as it is.
    pub fn translate_destination(&self, packet: &Packet) -> Option<(usize, Option<DestinationTranslation>)> {
        if packet.from == SELF || !packet.opens_flow() {
            return None;
        }
        let (place, entry) = self.first(Direction::Destination, packet, 0)?;
        let translation = match entry.change {
            Change::Destination { address, port } => Some(DestinationTranslation {
                address: address.into(),
                port: port.filter(|_| matches!(packet.protocol, TCP | UDP)),
            }),
            Change::OneToOne { .. } => {
                let (IpAddr::V4(destination), Some((outside, _))) = (packet.destination, entry.outside())
                else {
                    return None;
                };
                let (inside, _) = entry.source.v4.ranges().first()?;
                let address = Ipv4Addr::from(inside + (u32::from(destination) - outside));
                Some(DestinationTranslation { address: address.into(), port: None })
            }
            Change::Prefix(prefixes) => {
                let IpAddr::V6(destination) = packet.destination else { return None };
                let address = prefixes.map(Direction::Destination).apply(destination)?;
                Some(DestinationTranslation { address: address.into(), port: None })
            }
            Change::Exempt | Change::Masquerade { .. } | Change::Source { .. } => None,
        };
        Some((place, translation))
    }

    /// The entry that decides about a packet's source, once the packet goes where [`Policy::translate_destination`] sends it, and
    /// what that source becomes; `None`: it stays as it is. Packets from and to the firewall itself stay as they are. `asked` is the packet
    /// before that, if it is another: who writes from inside to the outside address of somebody inside has its own outside address there.
    pub fn translate_source(
        &self,
        packet: &Packet,
        asked: Option<&Packet>,
    ) -> Option<(usize, Option<SourceTranslation>)> {
        if packet.from == SELF {
            return None;
        }
        if packet.source.is_ipv6() {
            return self.translate_source_v6(packet, asked);
        }
        if packet.to == SELF {
            return None;
        }
        let (place, entry) = self.first(Direction::Source, packet, 1 << packet.to)?;
        let translation = match entry.change {
            Change::Exempt | Change::Destination { .. } | Change::Prefix(_) => None,
            _ if !packet.opens_flow() => Some(SourceTranslation::Untranslatable),
            Change::Masquerade { .. } => Some(SourceTranslation::Interface),
            Change::Source { first, last, .. } => Some(SourceTranslation::OneOf(first, last)),
            Change::OneToOne { first } => {
                let IpAddr::V4(source) = packet.source else { return None };
                let (inside, _) = entry.source.v4.ranges().first()?;
                Some(SourceTranslation::Address(
                    Ipv4Addr::from(u32::from(first) + (u32::from(source) - inside)).into(),
                ))
            }
        };
        Some((place, translation))
    }

    /// The entry that decides about a packet that goes to one of some zones.
    pub(crate) fn first(
        &self,
        direction: Direction,
        packet: &Packet,
        to: ZoneSet,
    ) -> Option<(usize, &Translation)> {
        self.translations.iter().enumerate().find(|(_, entry)| entry.matches(direction, packet, to))
    }

    /// The rows of a direction, in order.
    pub fn translation_rows(&self, direction: Direction) -> Vec<Row> {
        let mut rows = Vec::new();
        for (translation, entry) in self.translations.iter().enumerate().filter(|(_, entry)| entry.enabled) {
            let Some(seen) = entry.seen(direction) else { continue };
            for source in seen.source.ranges() {
                for destination in seen.destination.ranges() {
                    rows.extend(seen.service.ranges().iter().map(|service| Row {
                        translation,
                        from: seen.from,
                        to: seen.to,
                        source: *source,
                        destination: *destination,
                        service: *service,
                        change: entry.change,
                        mapping: entry.mapping,
                    }));
                }
            }
        }
        rows
    }
}
