//! Rule sets as they are in use and sets that are hard to search, out of a seed.
//!
//! The twelve families have the traits that D. Taylor and J. Turner published of real filter sets ("ClassBench", IEEE/ACM Transactions
//! on Networking 15(3), 2007): which prefix lengths come together, how skewed the addresses below a prefix are, which classes of ports
//! (any, below 1024, from 1024 on, a range, one port) and which protocols occur. The weights are our own, rounded; what the authors'
//! generator makes of their seeds is not here. Source ports are an option: real sets have them in some rules of firewalls and
//! chains, and in few of access lists.

use super::fillers::Random;
use policy::Policy;
use policy::address::AddressSet;
use policy::interpret::Packet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A rule's fields as the language has them.
pub(crate) struct Fields {
    pub(crate) source: String,
    pub(crate) destination: String,
    pub(crate) service: String,
}

/// A weight and what has it.
type Weighted<T> = &'static [(u32, T)];

#[derive(Clone, Copy)]
enum Ports {
    Any,
    Low,
    High,
    Range,
    One,
}
use Ports::{Any, High, Low, One, Range};

struct Family {
    name: &'static str,
    /// Lengths of source and destination prefixes.
    lengths: Weighted<(u32, u32)>,
    ports: Weighted<Ports>,
    /// TCP, UDP, ICMP, any.
    protocols: [u32; 4],
    /// Networks of /16 that sources and destinations of 1,000 rules lie in; of more rules they are more, by the square root.
    networks: [u32; 2],
}

const SOME: Weighted<Ports> = &[(55, Any), (12, High), (3, Low), (8, Range), (22, One)];
const SERVICES: Weighted<Ports> = &[(15, Any), (4, High), (16, Range), (65, One)];
const MIXED: Weighted<Ports> = &[(40, Any), (12, High), (2, Low), (10, Range), (36, One)];

const FAMILIES: [Family; 12] = [
    Family {
        name: "acl1",
        lengths: &[
            (30, (32, 32)),
            (25, (24, 32)),
            (15, (0, 32)),
            (12, (28, 32)),
            (10, (21, 28)),
            (8, (32, 24)),
        ],
        ports: SERVICES,
        protocols: [75, 15, 5, 5],
        networks: [60, 12],
    },
    Family {
        name: "acl2",
        lengths: &[
            (22, (0, 32)),
            (20, (32, 32)),
            (18, (16, 32)),
            (15, (32, 0)),
            (13, (24, 24)),
            (12, (8, 28)),
        ],
        ports: MIXED,
        protocols: [55, 20, 8, 17],
        networks: [25, 20],
    },
    Family {
        name: "acl3",
        lengths: &[
            (30, (32, 32)),
            (14, (0, 32)),
            (18, (24, 32)),
            (12, (32, 24)),
            (14, (16, 24)),
            (12, (30, 30)),
        ],
        ports: SERVICES,
        protocols: [65, 20, 6, 9],
        networks: [200, 150],
    },
    Family {
        name: "acl4",
        lengths: &[
            (24, (32, 32)),
            (20, (24, 32)),
            (18, (16, 32)),
            (14, (0, 32)),
            (12, (24, 24)),
            (12, (32, 16)),
        ],
        ports: SERVICES,
        protocols: [62, 22, 8, 8],
        networks: [150, 100],
    },
    Family {
        name: "acl5",
        lengths: &[(60, (32, 32)), (20, (24, 32)), (10, (30, 32)), (10, (32, 28))],
        ports: &[(10, Any), (30, Range), (60, One)],
        protocols: [80, 14, 6, 0],
        networks: [10, 8],
    },
    Family {
        name: "fw1",
        lengths: &[
            (28, (0, 32)),
            (24, (32, 0)),
            (16, (32, 32)),
            (12, (16, 32)),
            (10, (0, 24)),
            (8, (24, 0)),
            (2, (0, 0)),
        ],
        ports: MIXED,
        protocols: [60, 22, 6, 12],
        networks: [30, 30],
    },
    Family {
        name: "fw2",
        lengths: &[(45, (32, 0)), (25, (24, 0)), (12, (32, 32)), (10, (16, 32)), (8, (0, 32))],
        ports: &[(85, Any), (5, Range), (10, One)],
        protocols: [55, 25, 8, 12],
        networks: [40, 20],
    },
    Family {
        name: "fw3",
        lengths: &[(36, (0, 32)), (20, (32, 0)), (18, (32, 32)), (14, (0, 28)), (10, (24, 32)), (2, (0, 0))],
        ports: MIXED,
        protocols: [65, 20, 5, 10],
        networks: [20, 20],
    },
    Family {
        name: "fw4",
        lengths: &[(26, (0, 32)), (22, (32, 0)), (20, (16, 16)), (16, (24, 24)), (14, (32, 32)), (2, (0, 0))],
        ports: SOME,
        protocols: [50, 25, 8, 17],
        networks: [12, 12],
    },
    Family {
        name: "fw5",
        lengths: &[(30, (0, 32)), (26, (32, 0)), (14, (24, 32)), (16, (32, 24)), (12, (32, 32)), (2, (0, 0))],
        ports: MIXED,
        protocols: [60, 20, 8, 12],
        networks: [18, 18],
    },
    Family {
        name: "ipc1",
        lengths: &[
            (28, (32, 32)),
            (16, (24, 24)),
            (14, (0, 32)),
            (12, (32, 0)),
            (16, (16, 32)),
            (14, (24, 32)),
        ],
        ports: MIXED,
        protocols: [55, 25, 8, 12],
        networks: [80, 80],
    },
    Family {
        name: "ipc2",
        lengths: &[(40, (32, 32)), (25, (0, 32)), (25, (32, 0)), (10, (0, 0))],
        ports: &[(100, Any)],
        protocols: [20, 10, 5, 65],
        networks: [50, 50],
    },
];

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
    FAMILIES.iter().map(|family| family.name).chain(HARD.iter().map(|(name, _)| *name)).collect()
}

/// The names of the families.
pub(crate) fn families() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family.name).collect()
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
    let family = FAMILIES.iter().find(|family| family.name == name);
    let hard = HARD.iter().find(|(known, _)| *known == name);
    for i in 0..how.rules as u64 {
        let fields = match (family, hard) {
            (Some(family), _) => family.rule(&mut random, how),
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
        if how.source_ports {
            // Other random numbers, so that the sets are the same otherwise.
            let mut random = Random(how.seed ^ i << 20 ^ 0x50);
            let share = if name.starts_with("acl") { 5 } else { 30 };
            if random.below(100) < share && is_with_ports(&fields.service) {
                let class = *pick(&mut random, &[(10, Low), (35, High), (15, Range), (40, One)]);
                let ports = ports(&mut random, class).unwrap_or_default();
                writeln!(text, "source_port = \"{ports}\"").unwrap();
            }
        }
    }
    text
}

/// Whether a service has source ports that a rule can ask for.
fn is_with_ports(service: &str) -> bool {
    ["tcp", "udp"].iter().any(|protocol| service.starts_with(protocol))
}

impl Family {
    fn rule(&self, random: &mut Random, how: How) -> Fields {
        let (source, destination) = *pick(random, self.lengths);
        // From any to any there are single ports alone, or everything behind such a rule would be shadowed.
        let is_anywhere = (source, destination) == (0, 0);
        let growth = (how.rules as f64 / 1000.0).sqrt().max(1.0);
        let [sources, destinations] = self.networks.map(|networks| (f64::from(networks) * growth) as u32);
        let source = skewed(random, source, sources, 10, how.v6);
        let destination = skewed(random, destination, destinations, 140, how.v6);
        let mut at = random.below(self.protocols.iter().sum::<u32>().into()) as u32;
        let mut protocol = 0;
        while at >= self.protocols[protocol] {
            at -= self.protocols[protocol];
            protocol += 1;
        }
        if is_anywhere {
            protocol %= 2;
        }
        let name = ["tcp", "udp", "icmp", "any"][protocol];
        if protocol > 1 {
            return Fields { source, destination, service: name.to_owned() };
        }
        let class = if is_anywhere { One } else { *pick(random, self.ports) };
        let ports = ports(random, class);
        let service = ports.map_or_else(|| name.to_owned(), |ports| format!("{name}/{ports}"));
        Fields { source, destination, service }
    }
}

fn pick<'w, T>(random: &mut Random, weighted: &'w [(u32, T)]) -> &'w T {
    let mut at = random.below(weighted.iter().map(|(weight, _)| u64::from(*weight)).sum()) as u32;
    for (weight, value) in weighted {
        if at < *weight {
            return value;
        }
        at -= weight;
    }
    &weighted[0].1
}

/// `None` is any.
fn ports(random: &mut Random, class: Ports) -> Option<String> {
    const KNOWN: [u16; 24] = [
        20, 21, 22, 23, 25, 53, 67, 80, 110, 123, 135, 137, 139, 143, 161, 389, 443, 445, 993, 1433, 1521,
        3306, 3389, 8080,
    ];
    match class {
        Any => None,
        Low => Some("0-1023".to_owned()),
        High => Some("1024-65535".to_owned()),
        One if random.below(3) > 0 => Some(KNOWN[random.below(24) as usize].to_string()),
        One => Some(random.below(65_536).to_string()),
        Range => {
            let first = random.below(60_000);
            let bits = random.below(13);
            Some(format!("{first}-{}", first + 1 + random.below(1 << bits)))
        }
    }
}

/// A prefix below one of some networks of /16; near ones are more likely than far ones, at each byte.
fn skewed(random: &mut Random, length: u32, networks: u32, first: u32, v6: bool) -> String {
    if length == 0 {
        return "any".to_owned();
    }
    let near =
        |random: &mut Random, values: u64| (random.below(values) * random.below(values) / values) as u32;
    let second = near(random, networks.into());
    let address =
        (first + second / 256) << 24 | (second % 256) << 16 | near(random, 256) << 8 | near(random, 256);
    if !v6 {
        return v4(address, length);
    }
    // A /16 becomes a /48, a host a /128 with random words before.
    let high = 0x2001_0db8u128 << 96 | u128::from(address) << 64;
    let length = if length == 32 { 128 } else { length + 32 };
    let host = if length == 128 { u128::from(address & 0xffff) } else { 0 };
    format!("{}/{length}", Ipv6Addr::from((high | host) >> (128 - length) << (128 - length)))
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
