//! `[[nat]]`: which addresses are translated.

mod prefix;

use super::names::{Addresses, Names};
use super::rules::{Words, is_rule_name, or_any, words, written, zone_set};
use crate::address::AddressSet;
use crate::model::{SELF, Written, Zone, ZoneSet};
use crate::prefix::MAX_PREFIX_ROWS;
use crate::schema;
use crate::service::{ServiceSet, TCP, UDP, key};
use crate::settings::Forwarding;
use crate::translation::{Change, Direction, Filtering, MAX_ROWS, Translation, keys};
use rustc_hash::FxHashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use toml_reader::{Collector, Located, Section, shortened};

/// The keys that say what changes, of which an entry has one.
const CHANGES: [&str; 6] = ["masquerade", "source_to", "destination_to", "one_to_one", "prefix_to", "exempt"];

pub(super) fn read<'t>(
    root: &Section<'t>,
    forwarding: Forwarding,
    zones: &[(Zone, Range<usize>)],
    objects: &mut Names<'t, Addresses>,
    services: &mut Names<'t, ServiceSet>,
    c: &mut Collector<'_>,
) -> Vec<Translation> {
    let sections = schema::NAT.sections(root, "nat", c);
    if forwarding == Forwarding::Kernel && !sections.is_empty() {
        let help = "take `[[nat]]` out and translate with nftables: its rules keep working under forwarding = \"kernel\"";
        let message = "where the kernel forwards, it also translates";
        c.report(root.key_span("nat"), message, Some(help.to_owned()));
        return Vec::new();
    }
    let mut names: FxHashMap<&str, usize> = FxHashMap::default();
    let mut entries = Vec::new();
    for (i, section) in sections.iter().enumerate() {
        if c.is_full() {
            c.stop(section.span.clone());
            break;
        }
        let name = section.value("name").and_then(|value| Some((value.get_ref().as_str()?, value.span())));
        if let Some((name, span)) = name
            && let Some(first) = names.insert(name, i)
        {
            let message = format!("translation number {} is called `{}` too", first + 1, shortened(name));
            c.report(span, message, Some("give each translation a name of its own".to_owned()));
        }
        entries.extend(entry(section, zones, objects, services, c));
    }
    check_number(&entries, c);
    entries
}

/// The data plane goes through the rows one by one.
fn check_number(entries: &[Translation], c: &mut Collector<'_>) {
    // Exemptions of everything are about IPv6 only where that is translated.
    let has_prefixes = entries.iter().any(|entry| entry.enabled && matches!(entry.change, Change::Prefix(_)));
    for direction in [Direction::Destination, Direction::Source] {
        let mut rows = [0_usize; 2];
        let most = [MAX_ROWS, if has_prefixes { MAX_PREFIX_ROWS } else { usize::MAX }];
        for entry in entries.iter().filter(|entry| entry.enabled) {
            let more = entry.seen(direction).map_or([0; 2], |seen| seen.rows());
            rows = [rows[0].saturating_add(more[0]), rows[1].saturating_add(more[1])];
            if let Some(family) = (0..2).find(|family| rows[*family] > most[*family]) {
                let (name, most) = (["IPv4", "IPv6"][family], most[family]);
                let message =
                    format!("the translations up to `{}` take more than {most} rows of {name}", entry.name);
                let help = "each combination of a source range, a destination range and a service range takes one: use networks \
                            and ranges without holes";
                c.report(entry.span.clone(), message, Some(help.to_owned()));
                break;
            }
        }
    }
}

/// The sets of an entry.
struct Fields<'t> {
    from: ZoneSet,
    to: Option<ZoneSet>,
    source: std::sync::Arc<AddressSet>,
    destination: std::sync::Arc<AddressSet>,
    service: std::sync::Arc<ServiceSet>,
    words: [Words<'t>; 5],
}

fn entry<'t>(
    section: &Section<'t>,
    zones: &[(Zone, Range<usize>)],
    objects: &mut Names<'t, Addresses>,
    services: &mut Names<'t, ServiceSet>,
    c: &mut Collector<'_>,
) -> Option<Translation> {
    let name = section.required_text("name", "\"lan-out\"", c);
    if let Some(name) = name.as_ref().filter(|name| !is_rule_name(name.value)) {
        let help =
            "letters from A to Z, digits and - _ . : / +, no spaces, a letter or digit first, at most 63"
                .to_owned();
        let message = format!("`{}` cannot be the name of a translation", shortened(name.value));
        c.report(name.span.clone(), message, Some(help));
    }
    let fields = fields(section, zones, objects, services, c);
    let change = change(section, c);
    let enabled = section.flag("enabled", c).unwrap_or(true);
    let description = section.text("description", c).map(|d| d.value.to_owned());
    let (name, fields, change) = (name?, fields?, change?);
    check(section, &fields, change, c)?;
    let answer_arp = answer_arp(section, change, c)?;
    let mapping = mapping(section, change, c)?;
    let [from, to, source, destination, service] = fields.words.each_ref().map(written);
    Some(Translation {
        name: name.value.to_owned(),
        description,
        from: fields.from,
        to: fields.to,
        source: fields.source,
        destination: fields.destination,
        service: fields.service,
        change,
        mapping,
        answer_arp,
        enabled,
        span: name.span,
        written: Written { from, to, source, destination, service, source_port: "any".to_owned() },
    })
}

/// One port outside for all whom an end inside talks to, or one a flow.
#[derive(Clone, Copy, PartialEq)]
enum Mapping {
    EndpointIndependent,
    ByFlow,
}

/// Whether an entry keeps mappings, and who may begin by them; inner `None`: it keeps none.
fn mapping(section: &Section<'_>, change: Change, c: &mut Collector<'_>) -> Option<Option<Filtering>> {
    const MAPPINGS: [(&str, Mapping); 2] =
        [("endpoint-independent", Mapping::EndpointIndependent), ("address-and-port", Mapping::ByFlow)];
    let has = |key: &'static str| section.value(key).is_some();
    let mut wrong = |key: &'static str, message: String, help: &str| {
        c.report(section.key_span(key), message, Some(help.to_owned()));
    };
    let ports = match change {
        Change::Masquerade { ports } | Change::Source { ports, .. } => ports,
        Change::Exempt | Change::Destination { .. } | Change::OneToOne { .. } | Change::Prefix(_) => {
            let Some(key) = ["mapping", "filtering"].into_iter().find(|key| has(key)) else {
                return Some(None);
            };
            wrong(
                key,
                format!("`{key}` goes with `masquerade` and `source_to` alone"),
                "take it out: no port is chosen here",
            );
            return None;
        }
    };
    let mapping = if has("mapping") { section.choice("mapping", &MAPPINGS, c)? } else { Mapping::ByFlow };
    let filtering = if has("filtering") {
        section.choice("filtering", &Filtering::NAMES, c)?
    } else {
        Filtering::AddressAndPort
    };
    let mut wrong = |key: &'static str, message: &str, help: &str| {
        c.report(section.key_span(key), message, Some(help.to_owned()));
        None
    };
    if filtering != Filtering::AddressAndPort && mapping == Mapping::ByFlow {
        let help = "write mapping = \"endpoint-independent\" beside it, or take `filtering` out";
        return wrong("filtering", "without a mapping others have no port to begin by", help);
    }
    // The firewall's own programs may listen on these addresses.
    if filtering != Filtering::AddressAndPort && ports.is_none() {
        let help = "name ports on which nothing of the firewall itself listens, for example ports = \"16384-32767\": a host inside may \
                    have each of them, and gets what is sent to it";
        return wrong(
            "filtering",
            "`filtering` lets others begin, and `ports` does not say by which ports",
            help,
        );
    }
    Some((mapping == Mapping::EndpointIndependent).then_some(filtering))
}

fn fields<'t>(
    section: &Section<'t>,
    zones: &[(Zone, Range<usize>)],
    objects: &mut Names<'t, Addresses>,
    services: &mut Names<'t, ServiceSet>,
    c: &mut Collector<'_>,
) -> Option<Fields<'t>> {
    if section.value("from").is_none() {
        section.missing("from", "\"any\", or the name of a zone", c);
    }
    let all = ["from", "to", "source", "destination", "service"].map(|key| words(section, key, c));
    let zones_of = |place: usize, key: &'static str, c: &mut Collector<'_>| {
        let words = all[place].as_ref()?;
        let set = zone_set(zones, words, c)?;
        if set & 1 << SELF != 0 {
            let help = "name the zones that packets come from and go to; what the firewall itself sends and gets is not translated";
            c.report(section.key_span(key), format!("`{key}` has the zone `self`"), Some(help.to_owned()));
            return None;
        }
        Some(set)
    };
    let from = zones_of(0, "from", c);
    let to = zones_of(1, "to", c);
    let source = all[2].as_ref().and_then(|words| objects.written_out(or_any(words), c));
    let destination = all[3].as_ref().and_then(|words| objects.written_out(or_any(words), c));
    let service = all[4].as_ref().and_then(|words| services.set(or_any(words), c));
    let has_to = section.value("to").is_some();
    let [a, b, d, e, f] = all;
    Some(Fields {
        from: from.filter(|_| section.value("from").is_some())?,
        to: to.map(|to| has_to.then_some(to))?,
        source: source?,
        destination: destination?,
        service: service?,
        words: [a?, b?, d?, e?, f?],
    })
}

/// What an entry changes. One of the keys that say so must be there, and no other.
fn change(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Change> {
    let said: Vec<&'static str> = CHANGES.into_iter().filter(|key| section.value(key).is_some()).collect();
    let [what] = said[..] else {
        let help = "write one of masquerade = true, source_to = \"203.0.113.7\", destination_to = \"10.0.0.5:8080\", one_to_one = \
                    \"203.0.113.0/28\", prefix_to = \"2001:db8:1::/48\" or exempt = true";
        let message = match said[..] {
            [] => "the translation does not say what it changes".to_owned(),
            _ => format!("the translation changes several things: {}", said.join(", ")),
        };
        c.report(section.span.clone(), message, Some(help.to_owned()));
        return None;
    };
    let ports = ports(section, what, c)?;
    match what {
        "masquerade" => flag(section, what, c).map(|()| Change::Masquerade { ports }),
        "exempt" => flag(section, what, c).map(|()| Change::Exempt),
        "destination_to" => destination_to(&section.text(what, c)?, c),
        "source_to" => {
            let (first, last) = addresses(&section.text(what, c)?, c)?;
            Some(Change::Source { first, last, ports })
        }
        "prefix_to" => prefix::change(section, c),
        _ => addresses(&section.text(what, c)?, c).map(|(first, _)| Change::OneToOne { first }),
    }
}

/// `true`, because `false` would be an entry that says nothing.
fn flag(section: &Section<'_>, key: &'static str, c: &mut Collector<'_>) -> Option<()> {
    let is_set = section.flag(key, c)?;
    if !is_set {
        let help =
            format!("write {key} = true, or take the translation out; enabled = false keeps it for later");
        c.report(section.key_span(key), format!("`{key}` is false"), Some(help));
    }
    is_set.then_some(())
}

/// Whether ARP is answered; inner `None`: the text does not say.
fn answer_arp(section: &Section<'_>, change: Change, c: &mut Collector<'_>) -> Option<Option<bool>> {
    if section.value("answer_arp").is_none() {
        return Some(None);
    }
    let what = match change {
        Change::Masquerade { .. } => "masquerade",
        Change::Exempt => "exempt",
        Change::Prefix(_) => "prefix_to",
        _ => return section.flag("answer_arp", c).map(Some),
    };
    let help = match change {
        Change::Prefix(_) => {
            "take it out: ARP is of IPv4, and the prefix has to be routed to this machine".to_owned()
        }
        _ => "take it out: the entry has no addresses of its own".to_owned(),
    };
    c.report(section.key_span("answer_arp"), format!("`answer_arp` does not go with `{what}`"), Some(help));
    None
}

/// The ports that a source may have outside; inner `None`: the text does not say.
fn ports(section: &Section<'_>, what: &str, c: &mut Collector<'_>) -> Option<Option<(u16, u16)>> {
    if section.value("ports").is_none() {
        return Some(None);
    }
    if !matches!(what, "masquerade" | "source_to") {
        let help =
            "take `ports` out; the port of a destination is written behind its address: \"10.0.0.5:8080\""
                .to_owned();
        c.report(section.key_span("ports"), format!("`ports` does not go with `{what}`"), Some(help));
        return None;
    }
    let text = section.text("ports", c)?;
    let (first, last) = text.value.split_once('-').unwrap_or((text.value, text.value));
    match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Some(Some((first, last))),
        _ => {
            let help = "write the first and the last, 1 to 65535: \"1024-65535\"".to_owned();
            c.report(text.span, format!("`{}` is not a range of ports", shortened(text.value)), Some(help));
            None
        }
    }
}

fn only_ipv4<T>(text: &Located<&str>, c: &mut Collector<'_>) -> Option<T> {
    let help = "write IPv4 addresses, or translate a whole prefix of IPv6: prefix_to = \"2001:db8:1::/48\"";
    let message = format!("`{}` is of IPv6, of which only prefixes are translated", shortened(text.value));
    c.report(text.span.clone(), message, Some(help.to_owned()));
    None
}

/// One address, one network or one range.
fn addresses(text: &Located<&str>, c: &mut Collector<'_>) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let set = match AddressSet::parse(text.value) {
        Ok(set) => set,
        Err((message, help)) => {
            c.report(text.span.clone(), message, help);
            return None;
        }
    };
    let Some((first, last)) = set.v4.ranges().first().copied() else { return only_ipv4(text, c) };
    let (first, last) = (Ipv4Addr::from(first), Ipv4Addr::from(last));
    [first, last].into_iter().all(|address| is_a_hosts(address, text, c)).then_some((first, last))
}

/// Whether a host can have an address.
fn is_a_hosts(address: Ipv4Addr, text: &Located<&str>, c: &mut Collector<'_>) -> bool {
    let no_host = address.octets()[0] == 0 || address.is_loopback() || address.octets()[0] >= 224;
    if no_host {
        let message = format!("no host can have the address {address}");
        let help = "write the address of a host, of this machine or routed to it".to_owned();
        c.report(text.span.clone(), message, Some(help));
    }
    !no_host
}

/// `10.0.0.5`, or with a port `10.0.0.5:8080`.
fn destination_to(text: &Located<&str>, c: &mut Collector<'_>) -> Option<Change> {
    let (address, port) = match text.value.rsplit_once(':').filter(|(address, _)| !address.contains(':')) {
        Some((address, port)) => (address, Some(port)),
        None => (text.value, None),
    };
    let port = match port.map(str::parse::<u16>) {
        None => None,
        Some(Ok(port)) if port > 0 => Some(port),
        Some(_) => return not_a_destination(text, c),
    };
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            is_a_hosts(address, text, c).then_some(Change::Destination { address, port })
        }
        Ok(IpAddr::V6(_)) => only_ipv4(text, c),
        Err(_) => not_a_destination(text, c),
    }
}

fn not_a_destination<T>(text: &Located<&str>, c: &mut Collector<'_>) -> Option<T> {
    let message = format!("`{}` is not a destination", shortened(text.value));
    let help = "write an address, or an address and a port: \"10.0.0.5\", \"10.0.0.5:8080\"".to_owned();
    c.report(text.span.clone(), message, Some(help));
    None
}

/// What does not go together.
fn check(section: &Section<'_>, fields: &Fields<'_>, change: Change, c: &mut Collector<'_>) -> Option<()> {
    let mut wrong = |key: &'static str, message: String, help: &str| {
        let span = if section.value(key).is_some() { section.key_span(key) } else { section.span.clone() };
        c.report(span, message, Some(help.to_owned()));
        None
    };
    if let Change::Prefix(_) = change {
        return prefix::check(section, fields, wrong);
    }
    let is_of_all = *fields.service == ServiceSet::any();
    for (key, set) in [("source", &fields.source), ("destination", &fields.destination)] {
        let is_exempt = change == Change::Exempt && is_of_all && !set.v6.is_empty();
        if set.v4.is_empty() && !is_exempt {
            let help = match change {
                Change::Exempt => "an exemption of some services is one of IPv4; of IPv6 leave `service` out",
                _ => "only IPv4 is translated like this, and of IPv6 whole prefixes, with `prefix_to`",
            };
            return wrong(key, format!("`{key}` has no address of IPv4"), help);
        }
    }
    if fields.service.asks_for_source_ports() {
        let help = "name services without source ports; translations do not ask for them in this version";
        return wrong("service", "`service` asks for source ports".to_owned(), help);
    }
    let has = |key: &'static str| section.value(key).is_some();
    match change {
        Change::Exempt => {}
        Change::Masquerade { .. } | Change::Source { .. } | Change::OneToOne { .. }
            if fields.to.is_none() =>
        {
            section.missing("to", "\"outside\"", c);
            return None;
        }
        Change::Masquerade { .. } | Change::Source { .. } | Change::Prefix(_) => {}
        Change::Destination { port, .. } => {
            if has("to") {
                let help = "take `to` out: the route to the new destination says which zone it goes to, and the rules name that zone";
                return wrong("to", "a translation of destinations has no `to`".to_owned(), help);
            }
            if !has("destination") {
                let help = "name the address that is translated, for example destination = \"203.0.113.7\"";
                return wrong("destination_to", "the translation has no `destination`".to_owned(), help);
            }
            let ported = [TCP, UDP].map(|protocol| (key(protocol, 0), key(protocol, u16::MAX)));
            let has_ports = crate::ranges::RangeSet::of(ported).covers(&keys(&fields.service));
            if port.is_some() && !has_ports {
                let help = "name services of TCP and UDP alone, for example service = \"tcp/443\"";
                return wrong(
                    "service",
                    "`destination_to` has a port, and `service` has services without ports".to_owned(),
                    help,
                );
            }
        }
        Change::OneToOne { .. } => return check_one_to_one(section, fields, wrong),
    }
    Some(())
}

/// What translates all of something has no keys for a part of the traffic.
fn refuse_parts(
    section: &Section<'_>,
    whole: &str,
    help: &str,
    mut wrong: impl FnMut(&'static str, String, &str) -> Option<()>,
) -> Option<()> {
    match ["destination", "service"].into_iter().find(|key| section.value(key).is_some()) {
        Some(key) => wrong(key, format!("`{key}` does not go with {whole}"), help),
        None => Some(()),
    }
}

fn check_one_to_one(
    section: &Section<'_>,
    fields: &Fields<'_>,
    mut wrong: impl FnMut(&'static str, String, &str) -> Option<()>,
) -> Option<()> {
    let help = "take it out, or use source_to and destination_to for a part of the traffic";
    refuse_parts(section, "`one_to_one`, which translates all of an address", help, &mut wrong)?;
    let outside =
        section.value("one_to_one").and_then(|value| AddressSet::parse(value.get_ref().as_str()?).ok());
    let size = |range: &(u32, u32)| range.1 - range.0;
    match (fields.source.v4.ranges(), outside.as_ref().map(|set| set.v4.ranges())) {
        ([inside], Some([outside])) if size(inside) == size(outside) => Some(()),
        _ => {
            let help = "write one network or range of the same size, for example source = \"10.0.0.0/28\", one_to_one = \"203.0.113.0/28\"";
            wrong(
                "source",
                "`source` and `one_to_one` are not as many addresses, one beside the other".to_owned(),
                help,
            )
        }
    }
}
