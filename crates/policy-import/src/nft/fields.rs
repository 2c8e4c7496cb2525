//! What a rule of nftables compares: fields of packets, and values that they should have.

use super::token::Token;
use crate::cube::{Cube, kind, state};
use crate::ruleset::InterfaceTest;
use crate::words;
use policy::address::AddressSet;
use policy::ranges::RangeSet;
use policy::service::{ICMP, ICMPV6, LAST_KEY, SCTP, TCP, UDP, key};

/// A field that this program knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Source {
        v4: bool,
    },
    Destination {
        v4: bool,
    },
    /// The protocol above IP, of one family or of both.
    Protocol {
        v4: Option<bool>,
    },
    /// What the header of IPv6 says that comes next: the protocol, or an extension before it.
    FirstHeader,
    /// A port of a protocol, or of those with ports.
    Port {
        protocol: Option<u8>,
        source: bool,
    },
    IcmpType(u8),
    IcmpCode(u8),
    Family,
    Interface {
        outside: bool,
    },
    State,
    Kind,
}

/// The field at the beginning of some words, and how many words name it.
pub(super) fn field(words: &[Token]) -> Option<(Field, usize)> {
    let word =
        |place: usize| words.get(place).filter(|word| !word.quoted).map_or("", |word| word.text.as_str());
    let start = usize::from(word(0) == "meta");
    let interface = match word(start) {
        "iif" | "iifname" => Some(false),
        "oif" | "oifname" => Some(true),
        _ => None,
    };
    if let Some(outside) = interface {
        return Some((Field::Interface { outside }, start + 1));
    }
    let port = |protocol| match word(1) {
        "sport" => Some((Field::Port { protocol, source: true }, 2)),
        "dport" => Some((Field::Port { protocol, source: false }, 2)),
        _ => None,
    };
    match (word(0), word(1)) {
        ("ip", "saddr") => Some((Field::Source { v4: true }, 2)),
        ("ip6", "saddr") => Some((Field::Source { v4: false }, 2)),
        ("ip", "daddr") => Some((Field::Destination { v4: true }, 2)),
        ("ip6", "daddr") => Some((Field::Destination { v4: false }, 2)),
        ("ip", "protocol") => Some((Field::Protocol { v4: Some(true) }, 2)),
        ("ip6", "nexthdr") => Some((Field::FirstHeader, 2)),
        ("meta", "l4proto") => Some((Field::Protocol { v4: None }, 2)),
        ("tcp", _) => port(Some(TCP)),
        ("udp", _) => port(Some(UDP)),
        ("sctp", _) => port(Some(SCTP)),
        ("th", _) => port(None),
        ("icmp", "type") => Some((Field::IcmpType(ICMP), 2)),
        ("icmpv6", "type") => Some((Field::IcmpType(ICMPV6), 2)),
        ("icmp", "code") => Some((Field::IcmpCode(ICMP), 2)),
        ("icmpv6", "code") => Some((Field::IcmpCode(ICMPV6), 2)),
        ("meta", "nfproto" | "protocol") => Some((Field::Family, 2)),
        ("ct", "state") => Some((Field::State, 2)),
        ("fib", "daddr") if word(2) == "type" => Some((Field::Kind, 3)),
        _ => None,
    }
}

/// What a comparison narrows.
pub(super) struct Narrowed<'n> {
    pub(super) cube: &'n mut Cube,
    pub(super) interfaces: &'n mut Vec<InterfaceTest>,
}

impl Narrowed<'_> {
    /// Takes what has none of the values out, or what has one of them. Returns false if a value is not understood; then nothing but what the
    /// field's own protocol or family says is taken out.
    pub(super) fn narrow(&mut self, field: Field, not: bool, values: &[String]) -> bool {
        let cube = &mut *self.cube;
        match field {
            Field::Source { v4 } => {
                of_family(cube, v4);
                addresses(&mut cube.source, v4, not, values)
            }
            Field::Destination { v4 } => {
                of_family(cube, v4);
                addresses(&mut cube.destination, v4, not, values)
            }
            Field::Protocol { v4 } => {
                if let Some(v4) = v4 {
                    of_family(cube, v4);
                }
                let of = |value: &String| words::protocol(value).map(words::of_protocol);
                keys(cube, not, LAST_KEY, union(values, of))
            }
            Field::FirstHeader => {
                of_family(cube, false);
                let is_extension =
                    |protocol: &u8| matches!(protocol, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140);
                let of = |value: &String| {
                    words::protocol(value).filter(|protocol| !is_extension(protocol)).map(words::of_protocol)
                };
                if let Some(named) = union(values, of).filter(|_| !not) {
                    cube.services = cube.services.common(&named);
                }
                false
            }
            Field::Port { protocol, source } => ports(cube, protocol, source, not, values),
            Field::IcmpType(protocol) => {
                cube.services = cube.services.common(&words::of_protocol(protocol));
                keys(cube, not, LAST_KEY, union(values, |value| words::icmp(protocol, value)))
            }
            Field::IcmpCode(protocol) => {
                cube.services = cube.services.common(&words::of_protocol(protocol));
                // A policy names a code with its type: of all types it would be hundreds of services.
                if cube.services.ranges().iter().any(|(first, last)| last - first > 0xff) {
                    return false;
                }
                keys(cube, not, LAST_KEY, union(values, |value| words::icmp_code(protocol, value)))
            }
            Field::Family => match (values, not) {
                ([one], false) if matches!(one.as_str(), "ipv4" | "ip") => {
                    of_family(cube, true);
                    true
                }
                ([one], false) if matches!(one.as_str(), "ipv6" | "ip6") => {
                    of_family(cube, false);
                    true
                }
                _ => false,
            },
            Field::Interface { outside } => {
                // `iif 2` names an interface by its index; which interface has it, the rule set does not show.
                if values.iter().any(|value| value.bytes().all(|byte| byte.is_ascii_digit())) {
                    return false;
                }
                self.interfaces.push(InterfaceTest { outside, not, names: values.to_vec() });
                true
            }
            Field::State => bits(&mut cube.states, not, state::ALL, values, |value| match value {
                "new" => Some(state::NEW),
                "established" => Some(state::ESTABLISHED),
                "related" => Some(state::RELATED),
                "invalid" => Some(state::INVALID),
                "untracked" => Some(state::UNTRACKED),
                _ => None,
            }),
            Field::Kind => bits(&mut cube.kinds, not, kind::ALL, values, |value| match value {
                "local" => Some(kind::LOCAL),
                "broadcast" => Some(kind::BROADCAST),
                "multicast" => Some(kind::MULTICAST),
                "unicast" => Some(kind::OTHER),
                _ => None,
            }),
        }
    }
}

/// Leaves the packets of one family.
pub(super) fn of_family(cube: &mut Cube, v4: bool) {
    for set in [&mut cube.source, &mut cube.destination] {
        match v4 {
            true => set.v6 = RangeSet::default(),
            false => set.v4 = RangeSet::default(),
        }
    }
}

fn addresses(field: &mut AddressSet, v4: bool, not: bool, values: &[String]) -> bool {
    let sets: Option<Vec<AddressSet>> = values.iter().map(|value| words::addresses(value)).collect();
    let Some(sets) = sets else { return false };
    let named = AddressSet::union(&sets);
    let named = if not { words::family(v4).without(&named) } else { named };
    *field = AddressSet { v4: field.v4.common(&named.v4), v6: field.v6.common(&named.v6) };
    true
}

fn union(values: &[String], of: impl Fn(&String) -> Option<RangeSet<u32>>) -> Option<RangeSet<u32>> {
    let sets: Option<Vec<RangeSet<u32>>> = values.iter().map(of).collect();
    sets.map(|sets| RangeSet::of(sets.iter().flat_map(|set| set.ranges().iter().copied())))
}

fn keys(cube: &mut Cube, not: bool, last: u32, set: Option<RangeSet<u32>>) -> bool {
    let Some(set) = set else { return false };
    let set = if not { RangeSet::of([(0, last)]).without(&set) } else { set };
    cube.services = cube.services.common(&set);
    true
}

fn ports(cube: &mut Cube, protocol: Option<u8>, source: bool, not: bool, values: &[String]) -> bool {
    let protocols: Vec<u8> = match protocol {
        Some(protocol) => vec![protocol],
        // The transport header of what `meta l4proto` has named before.
        None => words::protocols(&cube.services).collect(),
    };
    if let Some(protocol) = protocol {
        cube.services = cube.services.common(&words::of_protocol(protocol));
    } else if !protocols.iter().all(|protocol| words::has_ports(*protocol)) {
        return false;
    }
    let Some(ports) = union(values, |value| words::ports(value, '-').map(|range| RangeSet::of([range])))
    else {
        return false;
    };
    let ports = if not { RangeSet::of([(0, u16::MAX.into())]).without(&ports) } else { ports };
    if source {
        cube.source_ports = cube.source_ports.common(&ports);
        return true;
    }
    let keys = protocols.iter().flat_map(|protocol| {
        ports
            .ranges()
            .iter()
            .map(|(first, last)| (key(*protocol, *first as u16), key(*protocol, *last as u16)))
    });
    cube.services = cube.services.common(&RangeSet::of(keys));
    true
}

fn bits(field: &mut u8, not: bool, all: u8, values: &[String], of: impl Fn(&str) -> Option<u8>) -> bool {
    let Some(named) = values.iter().map(|value| of(value)).try_fold(0, |set, bit| Some(set | bit?)) else {
        return false;
    };
    *field &= if not { all & !named } else { named };
    true
}
