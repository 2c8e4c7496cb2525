//! Policies that nobody writes by hand, and packets at and beside every boundary that a text names.

use crate::reading::{Asked, Reading};
use rule_sets::Random;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use toml::{Table, Value};

type Text = fn(&mut Random) -> String;

/// What is odd about each, and how it is made.
pub(crate) const ODD: [(&str, Text); 8] = [
    ("objects by the hundred, with groups of groups", groups),
    ("exceptions of exceptions", exceptions),
    ("as many zones as there can be", zones),
    ("ranges of ports of every width", ports),
    ("source and destination ports", both_ports),
    ("protocols by number, and kinds of ICMP", protocols),
    ("rules that contradict each other", contradictions),
    ("hosts one by one", hosts),
];

fn some<'a, T>(random: &mut Random, of: &'a [T]) -> &'a T {
    &of[random.below(of.len() as u64) as usize]
}

/// Words as TOML has them.
fn quoted(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "))
}

fn many(random: &mut Random, most: u64, one: &mut dyn FnMut(&mut Random) -> String) -> String {
    let count = 1 + random.below(most);
    quoted(&(0..count).map(|_| one(random)).collect::<Vec<_>>())
}

/// A network, range or host of either family, close to others.
fn literal(random: &mut Random) -> String {
    let (v4, v6) = (0x0a00_0000 | random.next() as u32 & 0x3_ffff, random.next() as u32 & 0x3_ffff);
    let v6 = 0x2001_0db8 << 96 | u128::from(v6) << 56 | u128::from(random.next() & 0xff);
    let bits = random.below(24) as u32;
    match random.below(8) {
        0 | 1 => Ipv4Addr::from(v4).to_string(),
        2 | 3 => format!("{}/{}", Ipv4Addr::from(v4 >> bits << bits), 32 - bits),
        4 => format!("{}-{}", Ipv4Addr::from(v4), Ipv4Addr::from(v4 + random.below(70_000) as u32)),
        5 => Ipv6Addr::from(v6).to_string(),
        6 => format!("{}/{}", Ipv6Addr::from(v6 >> (bits + 40) << (bits + 40)), 88 - bits),
        _ => format!(
            "{}-{}",
            Ipv6Addr::from(v6),
            Ipv6Addr::from(v6 + (u128::from(random.next()) << random.below(40)))
        ),
    }
}

fn service(random: &mut Random) -> String {
    let first = random.below(65_536);
    let last = first + random.below(65_536 - first);
    let words = ["any", "tcp", "udp", "icmp", "icmpv6", "sctp", "dns", "ping", "ssh", "https", "smtp"];
    match random.below(6) {
        0 => format!("{}/{first}-{last}", some(random, &["tcp", "udp", "sctp"])),
        1 | 2 => format!("{}/{}", some(random, &["tcp", "udp"]), first % 1024),
        _ => (*some(random, &words)).to_owned(),
    }
}

fn action(random: &mut Random) -> &'static str {
    ["allow", "deny", "reject"][random.below(3) as usize]
}

fn three_zones() -> String {
    "[zones]\na = { interfaces = \"e0\" }\nb = { interfaces = \"e1\" }\nc = { interfaces = \"e2\" }\n"
        .to_owned()
}

/// A rule between some of the three zones, with these lines.
fn rule(text: &mut String, number: usize, random: &mut Random, lines: &str) {
    let pairs = [("a", "b"), ("any", "any"), ("self", "a"), ("b", "self"), ("any", "c"), ("c", "any")];
    let ((from, to), action) = (*some(random, &pairs), action(random));
    writeln!(
        text,
        "[[rules]]\nname = \"r{number}\"\nfrom = \"{from}\"\nto = \"{to}\"\naction = \"{action}\"\n{lines}"
    )
    .unwrap();
}

fn groups(random: &mut Random) -> String {
    const OBJECTS: u64 = 120;
    // A group names one of the level below, and there may be 16 levels.
    const LEVELS: u64 = 15;
    let mut text = three_zones() + "[objects]\n";
    for i in 0..OBJECTS {
        let members = many(random, 12, &mut literal);
        let group = format!(", \"o{}\"]", i.saturating_sub(1));
        let members = if i % LEVELS == 0 { members } else { members.replace(']', &group) };
        writeln!(text, "o{i} = {members}").unwrap();
    }
    for i in 0..300 {
        let mut object = |random: &mut Random| format!("o{}", random.below(OBJECTS));
        let (source, destination) = (many(random, 4, &mut object), many(random, 4, &mut object));
        let services = many(random, 3, &mut service);
        rule(
            &mut text,
            i,
            random,
            &format!("source = {source}\ndestination = {destination}\nservice = {services}"),
        );
    }
    text
}

fn exceptions(random: &mut Random) -> String {
    let mut text = three_zones() + "[objects]\n";
    for chain in 0..12 {
        writeln!(text, "x{chain}-0 = {}", many(random, 6, &mut literal)).unwrap();
        for level in 1..14 {
            // Each level takes the one below out of something wider, so every other level has it again. The last address is in none of the others.
            let members = many(random, 6, &mut literal)
                .replace(']', ", \"203.0.113.LEVEL\"]")
                .replace("LEVEL", &level.to_string());
            let wide = if level % 3 == 0 { members.replacen('[', "[\"10.0.0.0/14\", ", 1) } else { members };
            writeln!(text, "x{chain}-{level} = {{ members = {wide}, except = \"x{chain}-{}\" }}", level - 1)
                .unwrap();
        }
    }
    for i in 0..300 {
        let mut object = |random: &mut Random| format!("x{}-{}", random.below(12), random.below(14));
        let (source, destination) = (many(random, 2, &mut object), many(random, 2, &mut object));
        rule(&mut text, i, random, &format!("source = {source}\ndestination = {destination}"));
    }
    text
}

fn zones(random: &mut Random) -> String {
    const ZONES: u64 = 63;
    let zones = (0..ZONES).map(|i| format!("z{i} = {{ interfaces = \"e{i}\" }}\n"));
    let mut text = format!("[zones]\n{}", zones.collect::<String>());
    for i in 0..250 {
        let mut zone = |random: &mut Random| match random.below(40) {
            0 => "any".to_owned(),
            n => format!("z{}", (n * 7 + random.below(20)) % ZONES),
        };
        let (from, to) = (many(random, 30, &mut zone), many(random, 30, &mut zone));
        let to = if i % 9 == 0 { to.replacen('[', "[\"self\", ", 1) } else { to };
        let (services, action) = (many(random, 3, &mut service), action(random));
        writeln!(
            text,
            "[[rules]]\nname = \"r{i}\"\nfrom = {from}\nto = {to}\nservice = {services}\naction = \"{action}\""
        )
        .unwrap();
    }
    text += "[[defaults]]\nfrom = [\"z1\", \"z2\"]\nto = \"any\"\naction = \"reject\"\n";
    text += "[[defaults]]\nfrom = \"z3\"\nto = [\"self\", \"z4\"]\naction = \"allow\"\n";
    text
}

fn range(random: &mut Random) -> String {
    let ends = [0, 1, 1023, 1024, 32_767, 32_768, 65_534, 65_535];
    let end = |random: &mut Random| match random.below(3) {
        0 => random.below(65_536),
        _ => *some(random, &ends),
    };
    let (one, other) = (end(random), end(random));
    if one == other { one.to_string() } else { format!("{}-{}", one.min(other), one.max(other)) }
}

fn ports(random: &mut Random) -> String {
    let mut text = three_zones();
    for i in 0..400 {
        let mut service =
            |random: &mut Random| format!("{}/{}", some(random, &["tcp", "udp", "sctp"]), range(random));
        let services = many(random, 5, &mut service);
        rule(&mut text, i, random, &format!("service = {services}"));
    }
    text
}

fn both_ports(random: &mut Random) -> String {
    let mut text = three_zones() + "[services]\n";
    for i in 0..30 {
        let mut member = |random: &mut Random| match random.below(4) {
            0 if i > 0 => format!("s{}", i - 1 - random.below(i.min(3))),
            _ => format!("{}/{}", some(random, &["tcp", "udp"]), range(random)),
        };
        let members = many(random, 3, &mut member);
        if i % 16 == 0 {
            writeln!(text, "s{i} = {}", quoted(&["tcp".into(), "udp/0-4000".into()])).unwrap();
        } else {
            let ports = many(random, 2, &mut range);
            // Port 7 is in all, so that no service is empty.
            let (members, ports) = (members.replace(']', ", \"tcp/7\"]"), ports.replace(']', ", \"7\"]"));
            writeln!(text, "s{i} = {{ members = {members}, source_port = {ports} }}").unwrap();
        }
    }
    for i in 0..300 {
        let services = many(random, 2, &mut |random| format!("s{}", random.below(30)));
        let mut lines = format!("service = {services}");
        if i % 3 == 0 {
            write!(lines, "\nsource_port = {}", many(random, 2, &mut range).replace(']', ", \"7\"]"))
                .unwrap();
        }
        if i % 5 == 0 {
            write!(lines, "\nsource = {}", many(random, 2, &mut literal)).unwrap();
        }
        rule(&mut text, i, random, &lines);
    }
    text
}

fn protocols(random: &mut Random) -> String {
    let mut text = three_zones();
    for i in 0..400 {
        let mut service = |random: &mut Random| {
            let (first, kind) = (random.below(256), random.below(256));
            match random.below(7) {
                0 => format!("protocol/{first}"),
                1 => format!("protocol/{first}-{}", first + random.below(256 - first)),
                2 => format!("icmp/{kind}/{first}"),
                3 => format!("icmpv6/{kind}"),
                4 => (*some(random, &["icmp/echo-request", "icmp/unreachable/4", "icmpv6/too-big", "ping"]))
                    .to_owned(),
                5 => (*some(random, &["esp", "ah", "gre", "igmp", "neighbour-discovery"])).to_owned(),
                _ => format!("icmp/{kind}-{}", kind + random.below(256 - kind)),
            }
        };
        let services = many(random, 4, &mut service);
        rule(&mut text, i, random, &format!("service = {services}"));
    }
    text
}

fn contradictions(random: &mut Random) -> String {
    let mut text = three_zones();
    for i in 0..200 {
        // Few words, so most are said before, with another action.
        let network = format!("10.{}.0.0/{}", random.below(2), 15 + random.below(2));
        let network = if network.contains(".1.") { "10.1.0.0/16".to_owned() } else { network };
        let service = some(random, &["tcp/80", "tcp/0-65535", "any", "tcp/79-81", "udp"]);
        let is_enabled = random.below(7) > 0;
        rule(
            &mut text,
            i,
            random,
            &format!("source = \"{network}\"\nservice = \"{service}\"\nenabled = {is_enabled}"),
        );
    }
    text
}

fn hosts(random: &mut Random) -> String {
    let mut text = three_zones();
    for i in 0..500 {
        let host = |random: &mut Random| match random.below(5) {
            0 => format!("2001:db8::{:x}", random.below(600)),
            _ => format!("10.0.{}.{}", random.below(3), random.below(256)),
        };
        let key = some(random, &["source", "destination"]);
        let line = format!("{key} = \"{}\"\nservice = \"{}\"", host(random), service(random));
        rule(&mut text, i, random, &line);
    }
    text
}

/// Every boundary that a text names: addresses, and numbers of ports, protocols and kinds; and those of each rule.
pub(crate) struct Boundaries {
    all: Named,
    zones: Vec<String>,
    rules: Vec<OfRule>,
}

/// What some words name.
#[derive(Default)]
struct Named {
    addresses: Vec<IpAddr>,
    numbers: Vec<u16>,
    protocols: Vec<u8>,
    zones: Vec<String>,
}

struct OfRule {
    from: Named,
    to: Named,
    source: Named,
    destination: Named,
    service: Named,
    source_port: Named,
}

impl Boundaries {
    pub(crate) fn of(text: &str, reading: &Reading) -> Self {
        let mut all = Named {
            addresses: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            numbers: vec![0, 65_535],
            protocols: vec![1, 6, 6, 17, 17, 58, 132, 47],
            zones: Vec::new(),
        };
        let document: Table = text.parse().unwrap();
        for key in ["objects", "services", "rules"] {
            document.get(key).into_iter().for_each(|value| all.add(value));
        }
        let named = |rule: &Value, key: &str| {
            let mut named = Named::default();
            rule.get(key).into_iter().for_each(|value| named.add(value));
            named
        };
        let of_rule = |rule: &Value| OfRule {
            from: named(rule, "from"),
            to: named(rule, "to"),
            source: named(rule, "source"),
            destination: named(rule, "destination"),
            service: named(rule, "service"),
            source_port: named(rule, "source_port"),
        };
        Self { all, zones: reading.zones(), rules: reading.rules().iter().map(of_rule).collect() }
    }

    /// A packet whose every field is at, beside or between what a rule names, or sometimes what another one does.
    pub(crate) fn packet(&self, random: &mut Random) -> Asked {
        let rule = some(random, &self.rules);
        let source = self.address(random, &rule.source, None);
        let destination = self.address(random, &rule.destination, Some(source.is_ipv4()));
        let protocols = pick(random, &rule.service.protocols, &self.all.protocols);
        let protocol = *some(random, protocols);
        let number = |random: &mut Random, of: &Named| {
            let numbers = pick(random, &of.numbers, &self.all.numbers);
            some(random, numbers).wrapping_add(*some(random, &[0, 0, 1, u16::MAX]))
        };
        let selector = match protocol {
            6 | 17 | 132 => number(random, &rule.service),
            1 | 58 => number(random, &rule.service) << 8 | number(random, &rule.service) & 0xff,
            _ => 0,
        };
        let has_ports = matches!(protocol, 6 | 17 | 132);
        let source_port = if has_ports { number(random, &rule.source_port) } else { 0 };
        let zone = |random: &mut Random, of: &Named| {
            let zones = pick(random, &of.zones, &self.zones);
            match some(random, zones).as_str() {
                "any" => some(random, &self.zones).clone(),
                zone => zone.to_owned(),
            }
        };
        let (from, to) = (zone(random, &rule.from), zone(random, &rule.to));
        Asked { from, to, source, destination, source_port, protocol, selector }
    }

    /// An address, perhaps of one family.
    fn address(&self, random: &mut Random, of: &Named, is_ipv4: Option<bool>) -> IpAddr {
        let fits = |address: &IpAddr| is_ipv4.is_none_or(|is_ipv4| address.is_ipv4() == is_ipv4);
        let own: Vec<IpAddr> = of.addresses.iter().copied().filter(fits).collect();
        let all: Vec<IpAddr> = if own.is_empty() {
            self.all.addresses.iter().copied().filter(fits).collect()
        } else {
            Vec::new()
        };
        let others = if own.is_empty() { &all } else { &self.all.addresses };
        loop {
            let among = pick(random, &own, others);
            let chosen = *some(random, among);
            if fits(&chosen) {
                return beside(chosen, random);
            }
        }
    }
}

/// Mostly the first of two, if it has anything.
fn pick<'a, T>(random: &mut Random, own: &'a [T], all: &'a [T]) -> &'a [T] {
    if own.is_empty() || random.below(8) == 0 { all } else { own }
}

impl Named {
    fn add(&mut self, value: &Value) {
        match value {
            Value::String(word) => self.add_word(word),
            Value::Array(values) => values.iter().for_each(|value| self.add(value)),
            Value::Table(table) => table.values().for_each(|value| self.add(value)),
            _ => {}
        }
    }

    fn add_word(&mut self, word: &str) {
        self.zones.push(word.to_owned());
        if let Some((network, length)) = word.split_once('/')
            && let (Ok(first), Ok(length)) = (network.parse::<IpAddr>(), length.parse::<u32>())
        {
            self.addresses.push(first);
            self.addresses.push(match first {
                IpAddr::V4(v4) => {
                    Ipv4Addr::from(u32::from(v4) | u32::MAX.checked_shr(length).unwrap_or(0)).into()
                }
                IpAddr::V6(v6) => {
                    Ipv6Addr::from(u128::from(v6) | u128::MAX.checked_shr(length).unwrap_or(0)).into()
                }
            });
            return;
        }
        self.addresses.extend(word.split('-').filter_map(|part| part.parse::<IpAddr>().ok()));
        let numbers: Vec<u16> = word.split(['/', '-']).filter_map(|part| part.parse().ok()).collect();
        self.protocols.extend(match word.split('/').next() {
            Some("tcp" | "ssh" | "https" | "smtp") => vec![6],
            Some("udp") => vec![17],
            Some("sctp") => vec![132],
            Some("dns") => vec![6, 17],
            Some("icmp") => vec![1],
            Some("icmpv6" | "neighbour-discovery") => vec![58],
            Some("ping") => vec![1, 58],
            Some("protocol") => numbers.iter().map(|number| *number as u8).collect(),
            _ => vec![],
        });
        self.numbers.extend(numbers);
    }
}

fn beside(address: IpAddr, random: &mut Random) -> IpAddr {
    let step = *some(random, &[0, 0, 0, 1, u128::MAX]);
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4).wrapping_add(step as u32)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6).wrapping_add(step)).into(),
    }
}
