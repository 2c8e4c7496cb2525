//! A second reading of policies, by the guide and not by the crate: the text as TOML, every name looked up when a packet asks for it, every range compared
//! one by one. It knows no sets, no order but that of the rules, and nothing that is prepared.

use std::collections::HashMap;
use std::net::IpAddr;
use toml::{Table, Value};

const GUIDE: &str = include_str!("../../../../docs/guide/policy.md");
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const TYPES: [(&str, u8); 10] = [
    ("echo-reply", 0),
    ("unreachable", 3),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];
const TYPES_V6: [(&str, u8); 8] = [
    ("unreachable", 1),
    ("too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("router-advertisement", 134),
    ("neighbour-solicitation", 135),
];

/// What rules compare of a packet.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) protocol: u8,
    pub(crate) selector: u16,
}

/// A policy as text.
pub(crate) struct Reading {
    text: Table,
    built_in: HashMap<&'static str, Vec<&'static str>>,
}

impl Reading {
    pub(crate) fn of(text: &str) -> Self {
        Self { text: text.parse().unwrap(), built_in: built_in() }
    }

    fn section(&self, key: &str) -> Option<&Table> {
        self.text.get(key).and_then(Value::as_table)
    }

    fn entries(&self, key: &str) -> &[Value] {
        self.text.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn rules(&self) -> &[Value] {
        self.entries("rules")
    }

    /// The names of all zones, `self` first.
    pub(crate) fn zones(&self) -> Vec<String> {
        let named = self.section("zones").into_iter().flat_map(Table::keys).cloned();
        ["self".to_owned()].into_iter().chain(named).collect()
    }

    /// The action, and the name of the rule that decides; `-` is none.
    pub(crate) fn verdict(&self, asked: &Asked) -> (String, String) {
        let word = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
        if let Some(rule) = self.rules().iter().find(|rule| self.matches(rule, asked)) {
            return (word(rule, "action"), word(rule, "name"));
        }
        let is_it =
            |default: &&Value| is_zone(&default["from"], &asked.from) && is_zone(&default["to"], &asked.to);
        let default = self.entries("defaults").iter().find(is_it);
        (default.map_or("deny".to_owned(), |default| word(default, "action")), "-".to_owned())
    }

    fn matches(&self, rule: &Value, asked: &Asked) -> bool {
        let address = |key: &str, address: IpAddr| {
            rule.get(key).is_none_or(|value| words(value).any(|word| self.is_in(word, address)))
        };
        let service = |value: &Value| words(value).any(|word| self.is_of(word, asked));
        rule.get("enabled").and_then(Value::as_bool) != Some(false)
            && is_zone(&rule["from"], &asked.from)
            && is_zone(&rule["to"], &asked.to)
            && address("source", asked.source)
            && address("destination", asked.destination)
            && rule.get("service").is_none_or(service)
            && rule.get("source_port").is_none_or(|ports| is_among(ports, asked.source_port))
    }

    /// Whether a literal or an object has an address.
    fn is_in(&self, word: &str, address: IpAddr) -> bool {
        if word == "any" {
            return true;
        }
        match self.section("objects").and_then(|objects| objects.get(word)) {
            None => is_in_literal(word, address),
            Some(Value::Table(table)) => {
                let has = |key: &str| {
                    table.get(key).is_some_and(|value| words(value).any(|word| self.is_in(word, address)))
                };
                has("members") && !has("except")
            }
            Some(value) => words(value).any(|word| self.is_in(word, address)),
        }
    }

    /// Whether a literal or a service has what a packet asks for.
    fn is_of(&self, word: &str, asked: &Asked) -> bool {
        if word == "any" {
            return true;
        }
        if let Some(parts) = self.built_in.get(word) {
            return parts.iter().any(|part| self.is_of(part, asked));
        }
        match self.section("services").and_then(|services| services.get(word)) {
            None => is_of_literal(word, asked),
            Some(Value::Table(table)) => {
                words(&table["members"]).any(|word| self.is_of(word, asked))
                    && table.get("source_port").is_none_or(|ports| is_among(ports, asked.source_port))
            }
            Some(value) => words(value).any(|word| self.is_of(word, asked)),
        }
    }
}

/// The services that the guide lists as built in.
fn built_in() -> HashMap<&'static str, Vec<&'static str>> {
    let (_, table) = GUIDE.split_once("**Built-in services**").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let cells = |line: &'static str| -> Option<(&'static str, Vec<&'static str>)> {
        let (name, parts) = line.strip_prefix("| `")?.split_once("` | ")?;
        // What is no literal is a sentence.
        parts.starts_with('`').then(|| (name, parts.split('`').skip(1).step_by(2).collect()))
    };
    let found: HashMap<_, _> = table.lines().filter_map(cells).collect();
    assert!(found.len() > 30 && found["dns"] == ["udp/53", "tcp/53"], "{found:?}");
    found
}

fn words(value: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match value {
        Value::String(word) => Box::new(std::iter::once(word.as_str())),
        Value::Array(words) => Box::new(words.iter().map(|word| word.as_str().unwrap())),
        other => panic!("neither a word nor words: {other}"),
    }
}

fn is_zone(value: &Value, zone: &str) -> bool {
    words(value).any(|word| word == zone || (word == "any" && zone != "self"))
}

fn is_among(ports: &Value, port: u16) -> bool {
    words(ports).any(|word| is_between(word, port))
}

/// Whether a number is `80`, or in `80-90`.
fn is_between(word: &str, number: u16) -> bool {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    (first.parse::<u16>().unwrap()..=last.parse().unwrap()).contains(&number)
}

fn is_in_literal(word: &str, address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => v6.into(),
    };
    let read = |text: &str| -> IpAddr { text.parse().unwrap_or_else(|_| panic!("{text} is no address")) };
    if let Some((first, last)) = word.split_once('-') {
        let (first, last) = (read(first), read(last));
        return first.is_ipv4() == address.is_ipv4() && (bits(first)..=bits(last)).contains(&bits(address));
    }
    let (network, length) = word.split_once('/').unwrap_or((word, "128"));
    let network = read(network);
    let width = if network.is_ipv4() { 32 } else { 128 };
    let rest = width - length.parse::<u32>().unwrap().min(width);
    let above = |address: IpAddr| bits(address).checked_shr(rest).unwrap_or(0);
    network.is_ipv4() == address.is_ipv4() && above(network) == above(address)
}

fn is_of_literal(word: &str, asked: &Asked) -> bool {
    let (protocol, rest) = word.split_once('/').unwrap_or((word, "0-65535"));
    let (kind, code) = ((asked.selector >> 8) as u8, asked.selector & 0xff);
    let number = match protocol {
        "tcp" => 6,
        "udp" => 17,
        "sctp" => 132,
        "protocol" => return is_between(rest, asked.protocol.into()),
        "icmp" => return asked.protocol == ICMP && is_of_type(rest, &TYPES, kind, code),
        "icmpv6" => return asked.protocol == ICMPV6 && is_of_type(rest, &TYPES_V6, kind, code),
        other => panic!("there is no service {other}"),
    };
    asked.protocol == number && is_between(rest, asked.selector)
}

fn is_of_type(rest: &str, names: &[(&str, u8)], kind: u8, code: u16) -> bool {
    let (wanted, wanted_code) = rest.split_once('/').unwrap_or((rest, "0-255"));
    let is_kind = match names.iter().find(|(name, _)| *name == wanted) {
        Some((_, number)) => *number == kind,
        None => is_between(wanted, kind.into()),
    };
    is_kind && is_between(wanted_code, code)
}
