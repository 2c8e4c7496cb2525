//! The policy's text.

use crate::Source;
use crate::answers::Written;
use crate::cube::Cube;
use crate::fates::Fates;
use crate::flatten::{self, Decider, Row, Way};
use crate::report::{Kind, Report, printable};
use crate::ruleset::{ChainId, Place, RuleId, Ruleset};
use crate::translation::{Change, Entry, Translations};
use crate::words;
use crate::zones::Zones;
use policy::address::AddressSet;
use policy::model::Action;
use policy::ranges::RangeSet;
use policy::service::{ICMP, ICMP_TYPES, ICMPV6, ICMPV6_TYPES, any_port};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Addresses that a rule names one by one; more get a name.
const MOST_INLINE: usize = 6;

/// Characters of an original's line that a comment shows.
const SHOWN: usize = 300;

/// A policy as it is written.
struct Policy<'p, 's> {
    ruleset: &'p Ruleset,
    zones: &'p Zones,
    sources: &'s [Source],
    rules: String,
    names: BTreeSet<String>,
    objects: HashMap<AddressSet, String>,
    object_lines: String,
    /// Rules with a limit that are written, by their chains and numbers.
    limited: HashSet<(ChainId, usize)>,
    /// Services with a name, and what they are.
    services: BTreeMap<&'static str, Vec<String>>,
    fates: &'p mut Fates,
}

/// Writes all ways.
pub(crate) fn policy(
    ruleset: &Ruleset,
    zones: &Zones,
    ways: &[Written],
    translations: &Translations,
    sources: &[Source],
    fates: &mut Fates,
    report: &mut Report<'_>,
) -> String {
    let mut policy = Policy {
        ruleset,
        zones,
        sources,
        rules: String::new(),
        names: BTreeSet::new(),
        objects: HashMap::new(),
        object_lines: String::new(),
        limited: HashSet::new(),
        services: BTreeMap::new(),
        fates,
    };
    for written in ways {
        policy.way(written, report);
    }
    let rules = std::mem::take(&mut policy.rules);
    policy.translations(translations);
    policy.rules.push_str(&rules);
    let mut text = String::from("# Imported from ");
    let names: Vec<String> = sources.iter().map(|source| printable(&source.name)).collect();
    let _ = writeln!(text, "{}. Above each rule stands the line that it comes from.\n", names.join(", "));
    for zone in &zones.0 {
        let interfaces: Vec<String> = zone.interfaces.iter().map(|name| quoted(name)).collect();
        let _ = writeln!(text, "[zones.{}]\ninterfaces = [{}]\n", zone.name, interfaces.join(", "));
    }
    if !policy.object_lines.is_empty() {
        let _ = writeln!(text, "[objects]\n{}", policy.object_lines);
    }
    if !policy.services.is_empty() {
        text.push_str(
            "# ICMP that conntrack calls invalid where no flow asked for it: all but queries.\n[services]\n",
        );
        for (name, services) in &policy.services {
            let _ = writeln!(text, "{name} = {}", list(services));
        }
        text.push('\n');
    }
    text + &policy.rules
}

impl Policy<'_, '_> {
    fn way(&mut self, written: &Written, report: &mut Report<'_>) {
        let title = match written.way {
            Way::Through => "What passes through this machine.",
            Way::In => "What comes to this machine.",
            Way::Out => "What this machine sends.",
        };
        let _ = writeln!(self.rules, "# {title}\n");
        for (i, row) in written.rows.iter().enumerate() {
            let is_last = i + 1 == written.rows.len();
            match row.decider {
                Decider::Policy(_) | Decider::Nobody if is_last && row.action == Action::Deny => {
                    self.comment(row);
                    self.rules.push_str("# What no rule allows is denied.\n\n");
                }
                Decider::Policy(_) | Decider::Nobody if is_last && self.is_all(row, written.way) => {
                    self.comment(row);
                    let (from, to) = self.ends(&row.cubes[0], written.way);
                    let _ =
                        writeln!(self.rules, "[[defaults]]\nfrom = {from}\nto = {to}\naction = \"allow\"\n");
                }
                _ => self.row(row, written.way, report),
            }
        }
    }

    /// `[[nat]]`, in the order of the original.
    fn translations(&mut self, translations: &Translations) {
        if !translations.entries.is_empty() {
            self.rules.push_str("# What is translated, the first entry that matches deciding.\n\n");
        }
        for entry in &translations.entries {
            entry.trail.iter().chain([&(entry.chain, entry.at)]).for_each(|id| self.rule_line(*id));
            self.translation(entry);
        }
    }

    fn translation(&mut self, entry: &Entry) {
        let (cube, name) = (&entry.cube, self.name(Decider::Rule(entry.chain, entry.at), Way::Through));
        let (from, to) = self.ends(cube, Way::Through);
        let _ = writeln!(self.rules, "[[nat]]\nname = {}", quoted(&name));
        if let Some(comment) = &self.ruleset.chains[entry.chain].rules[entry.at].comment {
            let _ = writeln!(self.rules, "description = {}", quoted(comment));
        }
        let _ = writeln!(self.rules, "from = {from}");
        if entry.is_of_source {
            let _ = writeln!(self.rules, "to = {to}");
        }
        let must = matches!(entry.change, Some(Change::Destination { .. }));
        let v4 = |set: &AddressSet| AddressSet { v4: set.v4.clone(), v6: RangeSet::default() };
        for (key, set, must) in [("source", &cube.source, false), ("destination", &cube.destination, must)] {
            if must || !set.v4.is_full() {
                let words = self.address_words(&v4(set));
                let _ = writeln!(self.rules, "{key} = {words}");
            }
        }
        if let Some(services) = services(&cube.services) {
            let _ = writeln!(self.rules, "service = {}", list(&services));
        }
        let changed = match entry.change {
            None => "exempt = true".to_owned(),
            Some(Change::Masquerade { ports }) => format!("masquerade = true{}", port_words(ports)),
            Some(Change::Source { addresses: (first, last), ports }) => {
                format!("source_to = \"{}\"{}", range(&first, &last), port_words(ports))
            }
            Some(Change::Destination { address, port }) => {
                let port = port.map_or_else(String::new, |port| format!(":{port}"));
                format!("destination_to = \"{address}{port}\"")
            }
        };
        let _ = writeln!(self.rules, "{changed}\n");
    }

    fn is_all(&self, row: &Row, way: Way) -> bool {
        let all = Cube::all();
        let [cube] = &row.cubes[..] else { return false };
        let inside = way == Way::Out || self.zones.is_all(cube.inside);
        let outside = way == Way::In || self.zones.is_all(cube.outside);
        inside && outside && Cube { inside: all.inside, outside: all.outside, ..cube.clone() } == all
    }

    fn row(&mut self, row: &Row, way: Way, report: &mut Report<'_>) {
        // Elements of a set are rules of their own here, and had one limit together.
        let number = |(chain, at): RuleId| (chain, self.ruleset.chains[chain].rules[at].number);
        if let (Some(_), Decider::Rule(chain, at)) = (&row.limit, row.decider)
            && (row.cubes.len() > 1 || !self.limited.insert(number((chain, at))))
        {
            let why = "it would take several rules, each with a limit of its own, and so allow more";
            flatten::add(self.ruleset, report, row.decider, Kind::LeftOut, why.to_owned());
            return;
        }
        self.comment(row);
        for cube in &row.cubes {
            self.rule(row, cube, way);
        }
    }

    /// The original's lines: those that lead to the one that decided, and itself.
    fn comment(&mut self, row: &Row) {
        row.trail.iter().for_each(|id| self.rule_line(*id));
        match row.decider {
            Decider::Rule(chain, at) => self.rule_line((chain, at)),
            Decider::Policy(base) => {
                let base = &self.ruleset.bases[base];
                self.line(base.place, &base.text);
            }
            Decider::Nobody => self.rules.push_str("# No chain sees these packets.\n"),
        }
    }

    fn rule_line(&mut self, id: RuleId) {
        let rule = &self.ruleset.chains[id.0].rules[id.1];
        self.fates.written.insert(id);
        self.line(rule.place, &rule.text);
    }

    fn line(&mut self, place: Place, text: &str) {
        let text = printable(text.trim());
        let shown: String = text.chars().take(SHOWN).collect();
        let more = if shown.len() < text.len() { " …" } else { "" };
        let file = match self.sources {
            [_] => "line ".to_owned(),
            all => {
                let name = all
                    .get(place.source)
                    .map_or("", |source| source.name.rsplit('/').next().unwrap_or_default());
                format!("{}:", printable(name))
            }
        };
        let _ = writeln!(self.rules, "# {file}{}: {shown}{more}", place.line);
    }

    fn rule(&mut self, row: &Row, cube: &Cube, way: Way) {
        let name = self.name(row.decider, way);
        let (from, to) = self.ends(cube, way);
        let _ = writeln!(self.rules, "[[rules]]\nname = {}", quoted(&name));
        if let Decider::Rule(chain, at) = row.decider
            && let Some(comment) = &self.ruleset.chains[chain].rules[at].comment
        {
            let _ = writeln!(self.rules, "description = {}", quoted(comment));
        }
        let _ = writeln!(self.rules, "from = {from}\nto = {to}");
        let (source, destination) = self.addresses(cube);
        for (key, value) in [("source", source), ("destination", destination)] {
            if let Some(value) = value {
                let _ = writeln!(self.rules, "{key} = {value}");
            }
        }
        let source_ports = (cube.source_ports != any_port()).then_some(&cube.source_ports);
        if let Some(services) = self.services(cube) {
            let _ = writeln!(self.rules, "service = {}", list(&services));
        }
        if let Some(ports) = source_ports {
            let ports: Vec<String> = ports.ranges().iter().map(|(a, b)| range(a, b)).collect();
            let _ = writeln!(self.rules, "source_port = {}", list(&ports));
        }
        let _ = writeln!(self.rules, "action = \"{}\"", row.action.name());
        if row.logs {
            self.rules.push_str("log = true\n");
        }
        if let Some(limit) = &row.limit {
            let per = limit.per.map_or_else(String::new, |per| format!(", per = \"{per}\""));
            let _ = writeln!(
                self.rules,
                "limit = {{ rate = {}, burst = {}{per} }}",
                quoted(&limit.rate),
                limit.burst
            );
        }
        self.rules.push('\n');
    }

    /// Services; what conntrack calls invalid of ICMP has a name, because it is hundreds of types.
    fn services(&mut self, cube: &Cube) -> Option<Vec<String>> {
        let mut set = cube.services.clone();
        let mut names = Vec::new();
        for (protocol, name) in [(ICMP, "icmp-no-query"), (ICMPV6, "icmpv6-no-query")] {
            let of = words::of_protocol(protocol);
            if !set.meets(&of) {
                continue;
            }
            let [invalid, _] = words::unlike_new();
            let types = invalid.common(&of);
            if set.common(&of) == types {
                set = set.without(&of);
                names.push(name.to_owned());
                self.services.entry(name).or_insert_with(|| services(&types).unwrap_or_default());
            }
        }
        let mut all = services(&set)?;
        all.extend(names);
        Some(all)
    }

    /// A name that no other rule has: of the chain, and the rule's number in it.
    fn name(&mut self, decider: Decider, way: Way) -> String {
        let (chain, number) = match decider {
            Decider::Rule(chain, at) => {
                let chain = &self.ruleset.chains[chain];
                (chain.name.as_str(), chain.rules[at].number.to_string())
            }
            Decider::Policy(base) => {
                (self.ruleset.chains[self.ruleset.bases[base].chain].name.as_str(), "policy".to_owned())
            }
            Decider::Nobody => (way.words(), "unseen".to_owned()),
        };
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.+".contains(c) { c } else { '-' };
        let mut chain: String = chain.chars().map(plain).take(40).collect();
        if !chain.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            chain.insert(0, 'c');
        }
        words::unique(&format!("{chain}/{number}"), ":", &mut self.names)
    }

    fn ends(&self, cube: &Cube, way: Way) -> (String, String) {
        let zones = |interfaces| {
            if self.zones.is_all(interfaces) {
                return "\"any\"".to_owned();
            }
            list(&self.zones.named(interfaces).into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        match way {
            Way::In => (zones(cube.inside), "\"self\"".to_owned()),
            Way::Through => (zones(cube.inside), zones(cube.outside)),
            Way::Out => ("\"self\"".to_owned(), zones(cube.outside)),
        }
    }

    /// Source and destination; a family that one of them lacks is not asked for twice.
    fn addresses(&mut self, cube: &Cube) -> (Option<String>, Option<String>) {
        let v4 = !cube.source.v4.is_empty() && !cube.destination.v4.is_empty();
        let v6 = !cube.source.v6.is_empty() && !cube.destination.v6.is_empty();
        let is_all = |set: &AddressSet| (!v4 || set.v4.is_full()) && (!v6 || set.v6.is_full());
        let (all_sources, all_destinations) = (is_all(&cube.source), is_all(&cube.destination));
        let one_family = !(v4 && v6) && all_sources && all_destinations;
        let mut side = |set: &AddressSet, is_all: bool, must: bool| {
            if is_all && !must {
                return None;
            }
            let mut set = set.clone();
            if !v4 {
                set.v4 = RangeSet::default();
            }
            if !v6 {
                set.v6 = RangeSet::default();
            }
            Some(self.address_words(&set))
        };
        (side(&cube.source, all_sources, false), side(&cube.destination, all_destinations, one_family))
    }

    fn address_words(&mut self, set: &AddressSet) -> String {
        let literals = literals(set);
        if literals.len() <= MOST_INLINE {
            return list(&literals);
        }
        if let Some(name) = self.objects.get(set) {
            return quoted(name);
        }
        let name = format!("addresses-{}", self.objects.len() + 1);
        let _ = writeln!(self.object_lines, "{name} = {}", list(&literals));
        let words = quoted(&name);
        self.objects.insert(set.clone(), name);
        words
    }
}

/// The ports that an entry of `[[nat]]` names.
fn port_words(ports: Option<(u16, u16)>) -> String {
    ports.map_or_else(String::new, |(first, last)| format!("\nports = \"{}\"", range(&first, &last)))
}

/// A string of TOML, whatever is in it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in printable(text).chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

/// One string, or several in brackets.
fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    if let [one] = &words[..] { one.clone() } else { format!("[{}]", words.join(", ")) }
}

fn range<T: PartialEq + ToString>(first: &T, last: &T) -> String {
    if first == last { first.to_string() } else { format!("{}-{}", first.to_string(), last.to_string()) }
}

/// Addresses as policies write them: networks where a range is one.
fn literals(set: &AddressSet) -> Vec<String> {
    let v4 = set.v4.ranges().iter().map(|(first, last)| {
        let size = u64::from(last - first) + 1;
        match size.is_power_of_two() && u64::from(*first) % size == 0 {
            true if size > 1 => format!("{}/{}", Ipv4Addr::from(*first), 32 - size.trailing_zeros()),
            _ => range(&Ipv4Addr::from(*first), &Ipv4Addr::from(*last)),
        }
    });
    let v6 = set.v6.ranges().iter().map(|(first, last)| {
        let hosts = last - first;
        // Of all addresses the size does not fit into the number.
        let is_network = hosts & hosts.wrapping_add(1) == 0 && first & hosts == 0;
        match is_network && hosts > 0 {
            true => format!("{}/{}", Ipv6Addr::from(*first), hosts.leading_zeros()),
            false => range(&Ipv6Addr::from(*first), &Ipv6Addr::from(*last)),
        }
    });
    v4.chain(v6).collect()
}

/// Services as policies write them; `None` for all.
fn services(set: &RangeSet<u32>) -> Option<Vec<String>> {
    if *set == Cube::all().services {
        return None;
    }
    let mut all = Vec::new();
    // All of several protocols in a row are one range, as what `! -p tcp` leaves.
    let is_whole = |protocol: u8| words::of_protocol(protocol).without(set).is_empty();
    let mut rows: Vec<(u8, u8)> = Vec::new();
    for protocol in words::protocols(set) {
        match rows.last_mut() {
            Some((first, last))
                if last.checked_add(1) == Some(protocol) && is_whole(*first) && is_whole(protocol) =>
            {
                *last = protocol
            }
            _ => rows.push((protocol, protocol)),
        }
    }
    for (protocol, last) in rows {
        if last - protocol > 1 {
            all.push(format!("protocol/{}", range(&protocol, &last)));
            continue;
        }
        (protocol..=last).for_each(|protocol| all.extend(of_protocol(set, protocol)));
    }
    Some(all)
}

/// Services of one protocol.
fn of_protocol(set: &RangeSet<u32>, protocol: u8) -> Vec<String> {
    let mut all = Vec::new();
    let of = set.common(&words::of_protocol(protocol));
    let name = match protocol {
        policy::service::TCP => "tcp",
        policy::service::UDP => "udp",
        policy::service::SCTP => "sctp",
        ICMP => "icmp",
        ICMPV6 => "icmpv6",
        _ => "",
    };
    let is_whole = of == words::of_protocol(protocol);
    for (first, last) in of.ranges() {
        let (first, last) = (first & 0xffff, last & 0xffff);
        match protocol {
            _ if is_whole && !name.is_empty() => all.push(name.to_owned()),
            ICMP | ICMPV6 => all.extend(icmp_types(name, first, last)),
            _ if name.is_empty() => all.push(format!("protocol/{protocol}")),
            _ => all.push(format!("{name}/{}", range(&first, &last))),
        }
    }
    all
}

/// Whole types where all codes are meant, one by name if it has one, several in a row as a range.
fn icmp_types(name: &str, first: u32, last: u32) -> Vec<String> {
    let mut all = Vec::new();
    let names = if name == "icmp" { ICMP_TYPES } else { ICMPV6_TYPES };
    let of = |kind: u32| {
        let known = names.iter().find(|(_, number)| u32::from(*number) == kind);
        known.map_or_else(|| kind.to_string(), |(known, _)| (*known).to_owned())
    };
    let mut at = first;
    while at <= last {
        let whole = if at & 0xff == 0 { (last + 1 - at) >> 8 } else { 0 };
        if whole > 0 {
            let (kind, end) = (at >> 8, (at >> 8) + whole - 1);
            all.push(format!("{name}/{}", if whole == 1 { of(kind) } else { range(&kind, &end) }));
            at += whole << 8;
        } else {
            all.push(format!("{name}/{}/{}", at >> 8, at & 0xff));
            at += 1;
        }
    }
    all
}
