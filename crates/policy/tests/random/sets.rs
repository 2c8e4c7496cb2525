//! Rule sets as they are in use (`crates/rule-sets`) in Rampart's language, and sets that are hard to search, out of a seed.

use policy::Policy;
use policy::address::AddressSet;
use policy::interpret::Packet;
use rule_sets::{Base, Family, Filter, PortRange, Prefix, Protocol, Random, source_ports};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

/// A rule's fields as the language has them.
pub(crate) struct Fields {
    pub(crate) source: String,
    pub(crate) destination: String,
    pub(crate) service: String,
}

/// Where the families' addresses lie.
const BASE: Base = Base { source: 10, destination: 140 };

/// The rule of a number.
type Rule = fn(u64, &mut Random) -> Fields;

/// What is hard to search, or was.
const HARD: [(&str, Rule); 6] = [
    ("LAN to host", |i, _| {
        let host = |network: u64| Ipv4Addr::from((network + i) as u32).to_string();
        let lan = |third: u64| format!("10.{}.0.0/16", i % third);
        let (source, destination) =
            if i.is_multiple_of(2) { (lan(40), host(0xac10_0000)) } else { (host(0xc0a8_0000), lan(60)) };
        Fields { source, destination, service: "tcp/443".into() }
    }),
    ("object groups", |i, random| {
        let group = |random: &mut Random, base: u32| {
            let hosts = (0..3).map(|_| {
                let host = Ipv4Addr::from(base | random.below(1 << 18) as u32);
                format!("\"{host}\"")
            });
            format!("[{}]", hosts.collect::<Vec<_>>().join(", "))
        };
        let service = format!("[\"tcp/{}\", \"udp/{}\"]", 1 + i % 500, 1 + i % 300);
        let (source, destination) = (group(random, 0x0a00_0000), group(random, 0xac10_0000));
        Fields { source, destination, service }
    }),
    ("deep nesting", |_, random| {
        let nested =
            |random: &mut Random| v4(0x0a0b_0c0d ^ random.below(2) as u32, 1 + random.below(32) as u32);
        let (source, destination) = (nested(random), nested(random));
        Fields { source, destination, service: format!("tcp/{}", random.below(2000)) }
    }),
    ("exact in some fields", |_, random| {
        let fields = random.below(7) + 1;
        let word = |bit: u64, exact: String| if fields & bit == 0 { "any".to_owned() } else { exact };
        let (source, destination) = (random.next() as u32, random.next() as u32);
        Fields {
            source: word(1, v4(source, 32)),
            destination: word(2, v4(destination, 32)),
            service: word(4, format!("tcp/{}", random.below(65_536))),
        }
    }),
    ("free ranges of 1 %", |_, random| Fields {
        source: free_range(random, 100),
        destination: free_range(random, 100),
        service: "any".into(),
    }),
    ("wide free ranges", |_, random| {
        let first = random.below(60_000);
        Fields {
            source: free_range(random, 10),
            destination: free_range(random, 10),
            service: format!("tcp/{first}-{}", first + 1 + random.below(5_000)),
        }
    }),
];

/// All names of sets.
pub(crate) fn names() -> Vec<&'static str> {
    Family::all().map(Family::name).chain(HARD.iter().map(|(name, _)| *name)).collect()
}

/// The names of the families.
pub(crate) fn families() -> Vec<&'static str> {
    Family::all().map(Family::name).collect()
}

/// What a set is made with besides its name.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) rules: usize,
    pub(crate) seed: u64,
    /// IPv6 prefixes in the place of IPv4 ones, in the families.
    pub(crate) v6: bool,
    /// Rules between three zones, not all from one to one.
    pub(crate) zones: bool,
    /// Some rules ask for source ports.
    pub(crate) source_ports: bool,
}

/// The policy of a set.
pub(crate) fn set(name: &str, how: How) -> String {
    let mut random = Random(how.seed ^ 0x5eed);
    let mut text = String::from(
        "[zones]\nin = { interfaces = \"e0\" }\nout = { interfaces = \"e1\" }\ndmz = { interfaces = \"e2\" }\n",
    );
    let family = Family::named(name);
    let hard = HARD.iter().find(|(known, _)| *known == name);
    for i in 0..how.rules as u64 {
        let fields = match (family, hard) {
            (Some(family), _) => fields(&family.filter(&mut random, how.rules, BASE), how.v6),
            (_, Some((_, rule))) => rule(i, &mut random),
            _ => panic!("there is no set {name}"),
        };
        let pairs =
            [("in", "out"), ("in", "dmz"), ("out", "dmz"), ("any", "dmz"), ("dmz", "any"), ("any", "any")];
        let (from, to) = if how.zones { pairs[random.below(6) as usize] } else { pairs[0] };
        let action = ["allow", "deny"][random.below(2) as usize];
        write!(
            text,
            "[[rules]]\nname = \"r{i}\"\nfrom = \"{from}\"\nto = \"{to}\"\nsource = {}\ndestination = {}\n\
             service = {}\naction = \"{action}\"\n",
            value(&fields.source),
            value(&fields.destination),
            value(&fields.service),
        )
        .unwrap();
        if how.source_ports && is_with_ports(&fields.service) {
            let percent = family.map_or(30, Family::percent_with_source_ports);
            if let Some(ports) = source_ports(how.seed, i, percent) {
                writeln!(text, "source_port = \"{}\"", range(ports)).unwrap();
            }
        }
    }
    text
}

/// Whether a service has source ports that a rule can ask for.
fn is_with_ports(service: &str) -> bool {
    ["tcp", "udp"].iter().any(|protocol| service.starts_with(protocol))
}

/// A filter's fields in one IP version.
fn fields(filter: &Filter, v6: bool) -> Fields {
    let network = |prefix: Prefix| match (prefix.is_any(), v6) {
        (true, _) => "any".to_owned(),
        (_, false) => prefix.to_string(),
        (_, true) => {
            let (address, length) = prefix.v6(0x2001_0db8);
            format!("{address}/{length}")
        }
    };
    let name = match filter.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Icmp => "icmp",
        Protocol::Any => "any",
    };
    let ports = filter.destination_ports.map(range);
    let service = ports.map_or_else(|| name.to_owned(), |ports| format!("{name}/{ports}"));
    Fields { source: network(filter.source), destination: network(filter.destination), service }
}

/// Ports as the language has them.
fn range((first, last): PortRange) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

fn v4(address: u32, length: u32) -> String {
    format!("{}/{length}", Ipv4Addr::from(address >> (32 - length) << (32 - length)))
}

/// A range of at most one part of some of all addresses.
fn free_range(random: &mut Random, parts: u64) -> String {
    let length = 1 + random.below((1 << 32) / parts);
    let first = random.below((1 << 32) - length);
    format!("{}-{}", Ipv4Addr::from(first as u32), Ipv4Addr::from((first + length) as u32))
}

/// As the language has it: a list, or a word in quotes.
fn value(text: &str) -> String {
    if text.starts_with(['[', '"']) { text.to_owned() } else { format!("\"{text}\"") }
}

/// A packet at the boundaries of some rules: mostly in one rule, in some fields like another, sometimes one beside.
pub(crate) fn probe(policy: &Policy, random: &mut Random) -> Packet {
    let some = |random: &mut Random| &policy.rules[random.below(policy.rules.len() as u64) as usize];
    let rule = some(random);
    let like = |random: &mut Random| if random.below(5) == 0 { some(random) } else { rule };
    let (source, destination) = (like(random).source.clone(), like(random).destination.clone());
    let v6 = source.v4.is_empty() || destination.v4.is_empty();
    let address = |set: &AddressSet, random: &mut Random| match v6 {
        false => IpAddr::V4((inside(set.v4.ranges(), random).unwrap_or(0)).into()),
        true => IpAddr::V6((inside(set.v6.ranges(), random).unwrap_or(0)).into()),
    };
    let (source, destination) = (address(&source, random), address(&destination, random));
    let parts = like(random).service.parts();
    let part = &parts[random.below(parts.len() as u64) as usize];
    let key = inside(part.keys.ranges(), random).unwrap_or(0).min(policy::service::LAST_KEY);
    let source_port = inside(part.source_ports.ranges(), random).unwrap_or(0) as u16;
    let zone = |set: u64, random: &mut Random| {
        let zones: Vec<u8> = (0..policy.zones.len() as u8).filter(|zone| set >> zone & 1 != 0).collect();
        zones[random.below(zones.len() as u64) as usize]
    };
    let (from, to) = (zone(rule.from, random), zone(rule.to, random));
    let (protocol, selector) = ((key >> 16) as u8, key as u16);
    Packet { from, to, source, destination, source_port, protocol, selector }
}

/// A value of some ranges: an end, one beside an end, or between.
fn inside<T: Copy + TryFrom<u128> + Into<u128>>(ranges: &[(T, T)], random: &mut Random) -> Option<T> {
    let (first, last) = ranges.get(random.below(ranges.len().max(1) as u64) as usize)?;
    let (first, last): (u128, u128) = ((*first).into(), (*last).into());
    let between = u128::from(random.next()) << 64 | u128::from(random.next());
    let value = match random.below(8) {
        0 | 1 => first,
        2 | 3 => last,
        4 => last.wrapping_add(1),
        5 => first.wrapping_sub(1),
        _ => (last - first).checked_add(1).map_or(between, |size| first + between % size),
    };
    T::try_from(value).ok().or_else(|| T::try_from(first).ok())
}
