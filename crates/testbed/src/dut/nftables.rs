//! nftables, as a practitioner writes it: one `inet` table, known connections accepted first, the rules in order, a
//! counted drop at the end. The rules of each IP version have a chain of their own, so that a frame meets as many
//! rules as the policy has.

use super::kernel::{BOTH, Forwarding, gone, version_of};
use super::nftables_map::VerdictMaps;
use super::sets::{Set, kernel_bytes, sets_of};
use super::{Capabilities, Driver, Replaced, Requirement, Running, admit, check_replacement};
use crate::bed::Bed;
use crate::error::TestbedError;
use crate::layout::{TRANSLATED_V4, TRANSLATED_V6, ZoneAddresses};
use crate::netns::Namespace;
use crate::policy::{Action, PolicySpec, Protocol, Rule};
use measure::shape::{IpVersion, PolicyShape, TestProtocol, Zone};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// nftables in one of the forms that its users give a policy.
pub(super) struct Nftables {
    name: &'static str,
    summary: &'static str,
    form: Form,
}

/// How the rules are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One by one, in the order of the policy.
    Chain,
    /// As the elements of one verdict map.
    Map,
    /// One by one; connections that they allowed leave the chains for the kernel's fast path.
    Flowtable,
}

/// The rules one by one.
pub(super) const CHAIN: Nftables = Nftables {
    name: "nftables",
    summary: "nftables: one inet table, conntrack state, rules in a chain, sets for lists",
    form: Form::Chain,
};

/// The rules as one verdict map.
pub(super) const MAP: Nftables = Nftables {
    name: "nftables-map",
    summary: "nftables with all rules in one verdict map of intervals, as experts write long rule sets",
    form: Form::Map,
};

/// The rules one by one, with the kernel's fast path for connections.
pub(super) const FLOWTABLE: Nftables = Nftables {
    name: "nftables-flowtable",
    summary: "nftables whose established connections take the kernel's flow table (fast path)",
    form: Form::Flowtable,
};

/// The only table that drivers make, read and delete.
pub(super) const TABLE: &str = "rampart_bench";
/// Elements of one `add element` command.
const ELEMENTS_AT_ONCE: usize = 4096;
/// Elements of one run of `nft`, which holds all of its input in memory before it tells the kernel anything.
const ELEMENTS_A_RUN: usize = 1 << 20;
/// Sets below this are lost in what else the kernel allocates meanwhile.
const TELLABLE_BYTES: u64 = 4 << 20;

impl Driver for Nftables {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn requirements(&self) -> &'static [Requirement] {
        match self.form {
            Form::Chain | Form::Map => &[Requirement::Program("nft")],
            Form::Flowtable => &[
                Requirement::Program("nft"),
                Requirement::NftAccepts {
                    table: FLOWTABLE_ALONE,
                    feature: "flow tables (NF_FLOW_TABLE, NFT_FLOW_OFFLOAD)",
                },
            ],
        }
    }

    /// What is in the fast path meets no list and no table of countries any more.
    fn capabilities(&self) -> Capabilities {
        let looks_at_all = self.form != Form::Flowtable;
        Capabilities { lists: looks_at_all, countries: looks_at_all, ..Capabilities::FIREWALL }
    }

    fn versions(&self) -> BTreeMap<String, String> {
        version_of("nft").into_iter().collect()
    }

    fn remark(&self, asked: &PolicyShape) -> Option<String> {
        let skips = self.form == Form::Flowtable && asked.stateful && asked.protocol == TestProtocol::Tcp;
        skips.then(|| {
            "nftables-flowtable does not check connections in its fast path against TCP's windows: the others do".to_owned()
        })
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        if self.form == Form::Flowtable && policy.has_rules() && !policy.shape.stateful {
            let what = "rules without state: only connections have a fast path".to_owned();
            return Err(TestbedError::Unsupported { dut: self.name, what });
        }
        let forwarding = Forwarding::start(bed, self.name, policy)?;
        let mut running = Filter {
            driver: self.name,
            form: self.form,
            devices: forwarding.devices(),
            forwarding,
            policy: policy.clone(),
            set_names: SetNames::default(),
            counted: TableCounters::default(),
            loaded: Loaded::default(),
        };
        running.loaded = running.load()?;
        Ok(Box::new(running))
    }
}

/// Nothing but a flow table, to see whether the kernel has them.
const FLOWTABLE_ALONE: &str = "table inet doctor {\n  flowtable fast { hook ingress priority filter; devices = { lo }; }\n  \
     chain forward { type filter hook forward priority filter; ct state established flow add @fast; }\n}\n";

struct Filter {
    driver: &'static str,
    form: Form,
    /// The firewall's ends of all links.
    devices: Vec<String>,
    forwarding: Forwarding,
    policy: PolicySpec,
    set_names: SetNames,
    counted: TableCounters,
    loaded: Loaded,
}

/// What the table's counters had before they were last read.
#[derive(Debug, Default)]
pub(super) struct TableCounters(Mutex<BTreeMap<String, u64>>);

impl TableCounters {
    /// Reads the counters and sets them back, adding up here. `nft list` reads the whole rule set first, whatever is
    /// listed: 0.8 s with 10,000 rules and 14 s with a million addresses. `nft reset` does not: 4 ms.
    pub(super) fn read(&self, namespace: &Namespace) -> Result<BTreeMap<String, u64>, TestbedError> {
        let text = namespace.run("nft", &["reset", "counters", "table", "inet", TABLE])?;
        let fresh = parse_counters(&text);
        if fresh.is_empty() {
            return Err(gone(format!("the nftables table {TABLE} is not loaded")));
        }
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, packets) in fresh {
            *counted.entry(name).or_default() += packets;
        }
        Ok(counted.clone())
    }
}

/// What loading the policy took.
#[derive(Debug, Clone, Copy, Default)]
struct Loaded {
    seconds: f64,
    /// Kernel memory of the sets, if the kernel shows it.
    set_bytes: Option<u64>,
}

/// What the sets are called now. nftables cannot rename a set, so one that takes another's place has another name.
#[derive(Debug, Clone, Copy, Default)]
struct SetNames {
    replacements: u32,
}

impl SetNames {
    fn of(self, set: &Set) -> String {
        match self.replacements {
            0 => set.name(),
            n => format!("{}_{n}", set.name()),
        }
    }
}

impl Filter {
    fn read_counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        self.counted.read(self.forwarding.namespace())
    }

    /// The rules as the driver writes them.
    fn rules(&self, policy: &PolicySpec) -> Result<Rules, TestbedError> {
        Ok(match self.form {
            _ if !policy.has_rules() => Rules::None,
            Form::Chain => Rules::Chains { fast: String::new() },
            Form::Flowtable => Rules::Chains { fast: self.devices.join(", ") },
            Form::Map => Rules::Maps(VerdictMaps::of(policy, self.driver)?),
        })
    }

    /// Replaces whatever table there was. The rules come last, so that nobody meets half a list.
    fn load(&self) -> Result<Loaded, TestbedError> {
        let (policy, names) = (&self.policy, self.set_names);
        let rules = self.rules(policy)?;
        let started = Instant::now();
        self.feed(|out| {
            writeln!(out, "table inet {TABLE}\ndelete table inet {TABLE}")?;
            declarations(policy, names, out)
        })?;
        let before = kernel_bytes();
        self.fill(&sets_of(policy), names)?;
        let taken = kernel_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));
        self.feed(|out| {
            rules.declare(out)?;
            chains(policy, names, &rules, out)?;
            if policy.shape.nat { translation_chain(out) } else { Ok(()) }
        })?;
        let seconds = started.elapsed().as_secs_f64();
        self.forwarding.inspect_as(policy)?;
        Ok(Loaded { seconds, set_bytes: taken.filter(|bytes| *bytes >= TELLABLE_BYTES) })
    }

    fn feed(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send) -> Result<(), TestbedError> {
        self.forwarding.namespace().feed("nft", &["-f", "-"], write).map(drop)
    }

    fn fill(&self, sets: &[Set], names: SetNames) -> Result<(), TestbedError> {
        for set in sets {
            let (name, mut left) = (names.of(set), set.len() as usize);
            let mut elements = set.elements();
            while left > 0 {
                let now = left.min(ELEMENTS_A_RUN);
                self.feed(|out| add_elements(&name, &mut elements.by_ref().take(now), out))?;
                left -= now;
            }
        }
        Ok(())
    }
}

impl Running for Filter {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        let mut counters = self.read_counters()?;
        counters.insert("ip_discards".to_owned(), self.forwarding.ip_discards()?);
        Ok(counters)
    }

    fn flow_entries(&self) -> Result<Option<u64>, TestbedError> {
        self.forwarding.flow_entries()
    }

    /// Connection entries, and what the kernel allocated while the sets were filled.
    fn memory_bytes(&self) -> Option<u64> {
        self.forwarding.memory_bytes(self.loaded.set_bytes)
    }

    fn policy_load_seconds(&self) -> Option<f64> {
        Some(self.loaded.seconds)
    }

    /// New sets are filled beside the old ones; then one transaction exchanges the rules that name them.
    fn replace(&mut self, policy: &PolicySpec) -> Result<Replaced, TestbedError> {
        check_replacement(&self.policy, policy)?;
        let rules = self.rules(policy)?;
        let started = Instant::now();
        let old_names = self.set_names;
        let (old_sets, new_sets) = (sets_of(&self.policy), sets_of(policy));
        let other_sets = old_sets != new_sets;
        if other_sets {
            self.set_names.replacements += 1;
            self.feed(|out| declare_sets(&new_sets, self.set_names, out))?;
            self.fill(&new_sets, self.set_names)?;
        }
        let names = self.set_names;
        self.feed(|out| {
            writeln!(out, "flush chain inet {TABLE} forward")?;
            for name in BOTH.map(rules_name) {
                writeln!(out, "flush {} inet {TABLE} {name}", rules.kind())?;
            }
            chains(policy, names, &rules, out)?;
            for set in old_sets.iter().filter(|_| other_sets) {
                writeln!(out, "delete set inet {TABLE} {}", old_names.of(set))?;
            }
            Ok(())
        })?;
        let command_seconds = started.elapsed().as_secs_f64();
        self.policy = policy.clone();
        Ok(Replaced { command_seconds })
    }

    fn forget_flows(&mut self) -> Result<(), TestbedError> {
        self.forwarding.forget_flows()
    }

    fn firewall_threads(&self) -> Vec<i32> {
        self.forwarding.threads()
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        self.forwarding.check_alive()?;
        self.read_counters().map(drop)
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        self.forwarding.reset(|| self.load().map(drop))
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // It may never have been loaded, or the namespace may be gone.
        let _ = self.forwarding.namespace().run("nft", &["delete", "table", "inet", TABLE]);
    }
}

/// The table with its counters and empty sets.
fn declarations(policy: &PolicySpec, names: SetNames, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "table inet {TABLE} {{")?;
    for counter in ["default_drop", "listed_drop", "country_drop", "invalid_drop"] {
        writeln!(out, "  counter {counter} {{ }}")?;
    }
    writeln!(out, "}}")?;
    declare_sets(&sets_of(policy), names, out)
}

fn declare_sets(sets: &[Set], names: SetNames, out: &mut dyn Write) -> io::Result<()> {
    for set in sets {
        let form = match set {
            // With the size known, the kernel takes a hash that does not have to grow.
            Set::List(list) => format!("size {};", list.len()),
            Set::Countries(_) => "flags interval;".to_owned(),
        };
        writeln!(out, "add set inet {TABLE} {} {{ type ipv4_addr; {form} }}", names.of(set))?;
    }
    Ok(())
}

/// What filters. A chain on the hook costs every frame something, even an empty one.
fn chains(policy: &PolicySpec, names: SetNames, rules: &Rules, out: &mut dyn Write) -> io::Result<()> {
    if !policy.forbids() {
        return Ok(());
    }
    if let Rules::Maps(maps) = rules {
        for ip in BOTH {
            add_elements(rules_name(ip), &mut maps.elements(ip), out)?;
        }
    }
    writeln!(out, "table inet {TABLE} {{")?;
    if let Rules::Chains { .. } = rules {
        for ip in BOTH {
            rules_chain(policy, ip, out)?;
        }
    }
    forward_chain(policy, names, rules, out)?;
    writeln!(out, "}}")
}

/// The rules of a policy in the driver's form.
enum Rules {
    None,
    /// Chains; with the devices of the fast path, if there is one.
    Chains {
        fast: String,
    },
    Maps(VerdictMaps),
}

impl Rules {
    const fn kind(&self) -> &'static str {
        if matches!(self, Self::Maps(_)) { "map" } else { "chain" }
    }

    /// What must exist before chains name it.
    fn declare(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Maps(maps) => BOTH.into_iter().try_for_each(|ip| {
                writeln!(
                    out,
                    "add map inet {TABLE} {} {{ type {} : verdict; flags interval; }}",
                    rules_name(ip),
                    maps.key_type(ip)
                )
            }),
            Self::Chains { fast } if !fast.is_empty() => writeln!(
                out,
                "add flowtable inet {TABLE} fast {{ hook ingress priority filter; devices = {{ {fast} }}; }}"
            ),
            Self::None | Self::Chains { .. } => Ok(()),
        }
    }

    /// How the forward chain asks them.
    fn ask(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Maps(maps) => BOTH
                .into_iter()
                .try_for_each(|ip| writeln!(out, "    {} vmap @{}", maps.key(ip), rules_name(ip))),
            _ => {
                let (v4, v6) = (rules_name(IpVersion::V4), rules_name(IpVersion::V6));
                writeln!(out, "    meta nfproto vmap {{ ipv4 : jump {v4}, ipv6 : jump {v6} }}")
            }
        }
    }
}

pub(super) fn rules_chain(policy: &PolicySpec, ip: IpVersion, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  chain {} {{", rules_name(ip))?;
    for rule in &policy.rules {
        writeln!(out, "    {}", rule_text(rule, ip))?;
    }
    writeln!(out, "  }}")
}

/// The hook: lists before state, so that a newly listed host loses its connections; then state; then rules.
fn forward_chain(policy: &PolicySpec, names: SetNames, rules: &Rules, out: &mut dyn Write) -> io::Result<()> {
    let default = if policy.has_rules() { "drop" } else { "accept" };
    writeln!(out, "  chain forward {{\n    type filter hook forward priority filter; policy {default};")?;
    for set in sets_of(policy) {
        let name = names.of(&set);
        let (unless, counter) = match set {
            Set::List(_) => ("", "listed_drop"),
            Set::Countries(_) => ("!= ", "country_drop"),
        };
        for field in ["saddr", "daddr"] {
            writeln!(out, "    ip {field} {unless}@{name} counter name {counter} drop")?;
        }
    }
    if policy.has_rules() {
        if policy.shape.stateful {
            if matches!(rules, Rules::Chains { fast } if !fast.is_empty()) {
                writeln!(out, "    meta l4proto {{ tcp, udp }} ct state established flow add @fast")?;
            }
            writeln!(out, "    ct state established,related accept")?;
        }
        if policy.is_strict() {
            writeln!(out, "    ct state invalid counter name invalid_drop drop")?;
        }
        rules.ask(out)?;
        writeln!(out, "    counter name default_drop drop")?;
    }
    writeln!(out, "  }}")
}

/// The private prefix one to one, towards the hostile zone only.
fn translation_chain(out: &mut dyn Write) -> io::Result<()> {
    let (private, hostile) = (ZoneAddresses::of(Zone::Private), ZoneAddresses::of(Zone::Hostile));
    writeln!(out, "table inet {TABLE} {{")?;
    writeln!(out, "  chain postrouting {{\n    type nat hook postrouting priority srcnat; policy accept;")?;
    writeln!(
        out,
        "    ip daddr {} snat ip prefix to ip saddr map {{ {} : {TRANSLATED_V4} }}",
        hostile.v4, private.v4
    )?;
    writeln!(
        out,
        "    ip6 daddr {} snat ip6 prefix to ip6 saddr map {{ {} : {TRANSLATED_V6} }}\n  }}\n}}",
        hostile.v6, private.v6
    )
}

fn add_elements(
    set: &str,
    elements: &mut dyn Iterator<Item = impl Display>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut elements = elements.peekable();
    while elements.peek().is_some() {
        write!(out, "add element inet {TABLE} {set} {{ ")?;
        for element in elements.by_ref().take(ELEMENTS_AT_ONCE) {
            write!(out, "{element}, ")?;
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

/// The chain or the map that has the rules of an IP version.
pub(super) const fn rules_name(ip: IpVersion) -> &'static str {
    match ip {
        IpVersion::V4 => "rules_v4",
        IpVersion::V6 => "rules_v6",
    }
}

/// What nftables calls an IP version.
pub(super) const fn family(ip: IpVersion) -> &'static str {
    match ip {
        IpVersion::V4 => "ip",
        IpVersion::V6 => "ip6",
    }
}

fn rule_text(rule: &Rule, ip: IpVersion) -> String {
    let ([source, destination], protocol) = (rule.networks(ip), rule.protocol.name(ip));
    let family = family(ip);
    let mut text = String::new();
    for (field, network) in [("saddr", source), ("daddr", destination)] {
        if network.prefix_len() > 0 {
            text += &format!("{family} {field} {network} ");
        }
    }
    let ports = [("sport", rule.source_ports), ("dport", rule.destination_ports)];
    if rule.protocol != Protocol::Any && ports.iter().all(|(_, range)| range.is_none()) {
        text += &format!("meta l4proto {protocol} ");
    }
    for (field, range) in ports {
        match range {
            Some((low, high)) if low == high => text += &format!("{protocol} {field} {low} "),
            Some((low, high)) => text += &format!("{protocol} {field} {low}-{high} "),
            None => {}
        }
    }
    text + verdict(rule.action)
}

pub(super) const fn verdict(action: Action) -> &'static str {
    match action {
        Action::Accept => "accept",
        Action::Drop => "drop",
    }
}

/// `counter NAME { packets N bytes M }`, over several lines.
fn parse_counters(text: &str) -> BTreeMap<String, u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .windows(5)
        .filter(|w| w[0] == "counter" && w[2] == "{" && w[3] == "packets")
        .filter_map(|w| Some((w[1].to_owned(), w[4].parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Network;
    use measure::shape::ZoneForm;

    #[test]
    fn counters_are_read() {
        let text = "table inet rampart_bench {\n\tcounter default_drop {\n\t\tpackets 12 bytes 720\n\t}\n\
                    \tcounter listed_drop {\n\t\tpackets 0 bytes 0\n\t}\n}\n";
        let counters = parse_counters(text);
        assert_eq!(counters["default_drop"], 12);
        assert_eq!(counters["listed_drop"], 0);
    }

    #[test]
    fn a_rule_names_only_what_it_asks_for() {
        let of = |source: &str, protocol, source_ports, destination_ports| {
            let network = |v4: &str, v6: &str| Network { v4: v4.parse().unwrap(), v6: v6.parse().unwrap() };
            let (source, destination) = (network(source, "::/0"), network("10.1.0.0/16", "fd00::/8"));
            let rule =
                Rule { protocol, source, destination, source_ports, destination_ports, action: Action::Drop };
            BOTH.map(|ip| rule_text(&rule, ip))
        };
        let rows = [
            (
                of("0.0.0.0/0", Protocol::Any, None, None),
                ["ip daddr 10.1.0.0/16 drop", "ip6 daddr fd00::/8 drop"],
            ),
            (
                of("10.2.0.0/16", Protocol::Icmp, None, None),
                [
                    "ip saddr 10.2.0.0/16 ip daddr 10.1.0.0/16 meta l4proto icmp drop",
                    "ip6 daddr fd00::/8 meta l4proto icmpv6 drop",
                ],
            ),
            (
                of("0.0.0.0/0", Protocol::Udp, Some((1024, 65535)), Some((53, 53))),
                [
                    "ip daddr 10.1.0.0/16 udp sport 1024-65535 udp dport 53 drop",
                    "ip6 daddr fd00::/8 udp sport 1024-65535 udp dport 53 drop",
                ],
            ),
        ];
        for (written, expected) in rows {
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn a_small_policy_reads_as_a_practitioner_writes_it() {
        let shape = PolicyShape {
            rules: 1,
            match_position: 1,
            stateful: true,
            listed_addresses: 1,
            allowed_subnets: 12,
            protocol: TestProtocol::Tcp,
            ..PolicyShape::forward_everything(1)
        };
        let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
        let mut out = Vec::new();
        declarations(&policy, SetNames::default(), &mut out).unwrap();
        chains(&policy, SetNames::default(), &Rules::Chains { fast: String::new() }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rule = "ip saddr 198.18.0.0/16 ip daddr 198.19.0.0/17 tcp dport 1-49151 accept";
        let order = [
            rule,
            "ip daddr @listed_1 counter name listed_drop drop",
            "ip saddr != @countries counter name country_drop drop",
            "ct state established,related accept",
            "ct state invalid counter name invalid_drop drop",
            "jump rules_v4",
            "default_drop drop",
        ];
        let places: Vec<Option<usize>> = order.iter().map(|part| text.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{text}");
    }
}
