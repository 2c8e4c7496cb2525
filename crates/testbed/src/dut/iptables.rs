//! iptables, alone and with ipset. Both load the same rules in the same order as nftables does; a list of addresses is
//! a set of ipset, which plain iptables does not have.
//!
//! The variant is what `iptables` is on the machine (`nf_tables` on Debian); where that cannot load the rules,
//! `iptables-legacy`. The results' versions say which.

use super::kernel::{BOTH, Forwarding, gone, version_of};
use super::sets::{Set, sets_of};
use super::{Capabilities, Driver, Replaced, Requirement, Running, admit, check_replacement};
use crate::bed::Bed;
use crate::error::TestbedError;
use crate::layout::{TRANSLATED_V4, TRANSLATED_V6, ZoneAddresses};
use crate::netns::Namespace;
use crate::policy::{Action, PolicySpec, Rule};
use measure::shape::{IpVersion, Zone};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::time::Instant;

pub(super) struct Iptables;
pub(super) struct Ipset;

/// Chains whose rules count what they drop: a chain of its own is listed in no time, however long the others are.
const DEFAULT_DROP: &str = "default_drop";
const LISTED_DROP: &str = "listed_drop";
const COUNTRY_DROP: &str = "country_drop";
const INVALID_DROP: &str = "invalid_drop";
/// What the names of all sets begin with.
const SET_PREFIX: &str = "rampart_bench_";

impl Driver for Iptables {
    fn name(&self) -> &'static str {
        "iptables"
    }

    fn summary(&self) -> &'static str {
        "iptables: conntrack state, rules in the FORWARD chain"
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[Requirement::Program("iptables-restore"), Requirement::Program("ip6tables-restore")]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { lists: false, countries: false, ..Capabilities::FIREWALL }
    }

    fn versions(&self) -> BTreeMap<String, String> {
        version_of("iptables").into_iter().collect()
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        start(self.name(), bed, policy)
    }
}

impl Driver for Ipset {
    fn name(&self) -> &'static str {
        "ipset"
    }

    fn summary(&self) -> &'static str {
        "iptables with lists in ipset (hash:ip, hash:net)"
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[
            Requirement::Program("iptables-restore"),
            Requirement::Program("ip6tables-restore"),
            Requirement::Program("ipset"),
        ]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FIREWALL
    }

    fn versions(&self) -> BTreeMap<String, String> {
        ["iptables", "ipset"].into_iter().flat_map(version_of).collect()
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        start(self.name(), bed, policy)
    }
}

fn start(dut: &'static str, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
    let forwarding = Forwarding::start(bed, dut, policy)?;
    let mut running =
        Filter { forwarding, policy: policy.clone(), variant: Variant::System, load_seconds: 0.0 };
    let started = Instant::now();
    for set in sets_of(policy) {
        load_set(running.namespace(), &set, &set_name(&set))?;
    }
    if let Err(error) = running.load() {
        unload(running.namespace(), Variant::System);
        running.variant = Variant::Legacy;
        // The first message is about the program that the user has; the second only says that the way out is closed.
        running.load().map_err(|_| error)?;
    }
    running.load_seconds = started.elapsed().as_secs_f64();
    Ok(Box::new(running))
}

/// Which of the two implementations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    System,
    Legacy,
}

impl Variant {
    fn program(self, ip: IpVersion, restore: bool) -> &'static str {
        match (self, ip, restore) {
            (Variant::System, IpVersion::V4, false) => "iptables",
            (Variant::System, IpVersion::V4, true) => "iptables-restore",
            (Variant::System, IpVersion::V6, false) => "ip6tables",
            (Variant::System, IpVersion::V6, true) => "ip6tables-restore",
            (Variant::Legacy, IpVersion::V4, false) => "iptables-legacy",
            (Variant::Legacy, IpVersion::V4, true) => "iptables-legacy-restore",
            (Variant::Legacy, IpVersion::V6, false) => "ip6tables-legacy",
            (Variant::Legacy, IpVersion::V6, true) => "ip6tables-legacy-restore",
        }
    }
}

struct Filter {
    forwarding: Forwarding,
    policy: PolicySpec,
    variant: Variant,
    load_seconds: f64,
}

impl Filter {
    fn namespace(&self) -> &Namespace {
        self.forwarding.namespace()
    }

    fn load(&self) -> Result<(), TestbedError> {
        for ip in BOTH {
            let text = render(&self.policy, ip);
            self.namespace().run_with_input(self.variant.program(ip, true), &[], &text)?;
        }
        self.forwarding.inspect_as(&self.policy)
    }

    fn dropped(&self, ip: IpVersion, chain: &str) -> Result<u64, TestbedError> {
        let program = self.variant.program(ip, false);
        let text = self.namespace().run(program, &["-w", "-xvnL", chain])?;
        parse_dropped(&text).ok_or_else(|| gone(format!("the chain {chain} of {program} has no rule")))
    }

    /// What ipset says about all sets.
    fn set_bytes(&self) -> Option<u64> {
        let sets = sets_of(&self.policy);
        (!sets.is_empty()).then(|| sets.iter().map(|set| self.bytes_of(set)).sum()).flatten()
    }

    fn bytes_of(&self, set: &Set) -> Option<u64> {
        let text = self.namespace().run("ipset", &["list", "-t", &set_name(set)]).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Size in memory: "))?.trim().parse().ok()
    }
}

impl Running for Filter {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        let mut counters = BTreeMap::from([("ip_discards".to_owned(), self.forwarding.ip_discards()?)]);
        for (chain, ip) in counting_chains(&self.policy) {
            *counters.entry(chain.to_owned()).or_default() += self.dropped(ip, chain)?;
        }
        Ok(counters)
    }

    fn flow_entries(&self) -> Result<Option<u64>, TestbedError> {
        self.forwarding.flow_entries()
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.forwarding.memory_bytes(self.set_bytes())
    }

    fn forget_flows(&mut self) -> Result<(), TestbedError> {
        self.forwarding.forget_flows()
    }

    fn firewall_threads(&self) -> Vec<i32> {
        self.forwarding.threads()
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        self.forwarding.check_alive()?;
        // A flush empties the chain that counts, and reading it then fails.
        self.counters().map(drop)?;
        if !self.policy.has_rules() {
            return Ok(());
        }
        for ip in BOTH {
            let policy =
                self.namespace().run(self.variant.program(ip, false), &["-w", "-S", "FORWARD", "1"])?;
            if policy.trim().is_empty() {
                return Err(gone("the FORWARD chain of iptables is empty".to_owned()));
            }
        }
        Ok(())
    }

    fn policy_load_seconds(&self) -> Option<f64> {
        Some(self.load_seconds)
    }

    /// The sets stay as they are, as across a restart of iptables.
    fn reset(&mut self) -> Result<(), TestbedError> {
        self.forwarding.reset(|| self.load())
    }

    /// New sets are filled beside the old ones and swapped. Each table is replaced in one step, IPv4 first.
    fn replace(&mut self, policy: &PolicySpec) -> Result<Replaced, TestbedError> {
        check_replacement(&self.policy, policy)?;
        let started = Instant::now();
        let old = sets_of(&self.policy);
        for set in sets_of(policy).iter().filter(|set| !old.contains(set)) {
            let (name, fresh) = (set_name(set), format!("{}_new", set_name(set)));
            load_set(self.namespace(), set, &fresh)?;
            self.namespace().run("ipset", &["swap", &fresh, &name])?;
            self.namespace().run("ipset", &["destroy", &fresh])?;
        }
        for ip in BOTH {
            let text = replacement(policy, ip);
            // Without a flush of everything: the chains that count keep their counts.
            self.namespace().run_with_input(self.variant.program(ip, true), &["--noflush"], &text)?;
        }
        let command_seconds = started.elapsed().as_secs_f64();
        self.policy = policy.clone();
        Ok(Replaced { command_seconds })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        unload(self.namespace(), self.variant);
        for set in sets_of(&self.policy) {
            let _ = self.namespace().run("ipset", &["destroy", &set_name(&set)]);
        }
    }
}

/// Empty tables that forward everything, as before. What cannot be emptied goes with the namespace.
fn unload(namespace: &Namespace, variant: Variant) {
    const EMPTY: &str = "*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n";
    for ip in BOTH {
        let _ = namespace.run_with_input(variant.program(ip, true), &[], EMPTY);
    }
}

fn set_name(set: &Set) -> String {
    format!("{SET_PREFIX}{}", set.name())
}

/// A hash with room for its elements from the start: growing while loading is slow.
fn load_set(namespace: &Namespace, set: &Set, name: &str) -> Result<(), TestbedError> {
    let count = set.len();
    let heads = (count / 4).next_power_of_two().max(1024);
    let kind = match set {
        Set::List(_) => "hash:ip",
        Set::Countries(_) => "hash:net",
    };
    let mut elements = set.elements();
    namespace
        .feed("ipset", &["restore"], move |out: &mut dyn Write| {
            writeln!(out, "create {name} {kind} family inet hashsize {heads} maxelem {count}")?;
            elements.try_for_each(|element| writeln!(out, "add {name} {element}"))
        })
        .map(drop)
}

/// The chains that count, by IP version.
fn counting_chains(policy: &PolicySpec) -> Vec<(&'static str, IpVersion)> {
    let mut chains = Vec::new();
    if !policy.listed.is_empty() {
        chains.push((LISTED_DROP, IpVersion::V4));
    }
    if !policy.countries.is_empty() {
        chains.push((COUNTRY_DROP, IpVersion::V4));
    }
    if policy.is_strict() {
        chains.extend(BOTH.map(|ip| (INVALID_DROP, ip)));
    }
    if policy.has_rules() {
        chains.extend(BOTH.map(|ip| (DEFAULT_DROP, ip)));
    }
    chains
}

/// The tables of one IP version in the format of `iptables-restore`, which replaces them in one step.
fn render(policy: &PolicySpec, ip: IpVersion) -> String {
    // A table in use costs every frame something, even an empty one.
    let mut text = if policy.forbids() { filter_table(policy, ip) } else { String::new() };
    if policy.shape.nat {
        text += &translation_table(ip);
    }
    text
}

fn filter_table(policy: &PolicySpec, ip: IpVersion) -> String {
    let default = if policy.has_rules() { "DROP" } else { "ACCEPT" };
    let mut text = format!("*filter\n:FORWARD {default} [0:0]\n");
    let counting: Vec<&str> =
        counting_chains(policy).into_iter().filter(|(_, of)| *of == ip).map(|(chain, _)| chain).collect();
    for chain in &counting {
        text += &format!(":{chain} - [0:0]\n");
    }
    for chain in &counting {
        text += &format!("-A {chain} -j DROP\n");
    }
    text += &forward_rules(policy, ip);
    text + "COMMIT\n"
}

/// Only the rules anew, for `--noflush`.
fn replacement(policy: &PolicySpec, ip: IpVersion) -> String {
    format!("*filter\n-F FORWARD\n{}COMMIT\n", forward_rules(policy, ip))
}

fn forward_rules(policy: &PolicySpec, ip: IpVersion) -> String {
    let mut text = String::new();
    for set in sets_of(policy).iter().filter(|_| ip == IpVersion::V4) {
        let (unless, chain) = match set {
            Set::List(_) => ("", LISTED_DROP),
            Set::Countries(_) => ("! ", COUNTRY_DROP),
        };
        for field in ["src", "dst"] {
            text += &format!("-A FORWARD -m set {unless}--match-set {} {field} -j {chain}\n", set_name(set));
        }
    }
    if policy.has_rules() {
        if policy.shape.stateful {
            text += "-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n";
        }
        if policy.is_strict() {
            text += &format!("-A FORWARD -m conntrack --ctstate INVALID -j {INVALID_DROP}\n");
        }
        for rule in &policy.rules {
            append_rule(&mut text, rule, ip);
        }
        text += &format!("-A FORWARD -j {DEFAULT_DROP}\n");
    }
    text
}

fn append_rule(text: &mut String, rule: &Rule, ip: IpVersion) {
    let ([source, destination], protocol) = (rule.networks(ip), rule.protocol.name(ip));
    let action = match rule.action {
        Action::Accept => "ACCEPT",
        Action::Drop => "DROP",
    };
    let mut ports = String::new();
    for (option, range) in [("--sport", rule.source_ports), ("--dport", rule.destination_ports)] {
        if let Some((low, high)) = range {
            // Writing to a String cannot fail.
            let _ = write!(ports, " {option} {low}:{high}");
        }
    }
    let _ = writeln!(text, "-A FORWARD -s {source} -d {destination} -p {protocol}{ports} -j {action}");
}

/// The private prefix one to one, towards the hostile zone only.
fn translation_table(ip: IpVersion) -> String {
    let (private, hostile) = (ZoneAddresses::of(Zone::Private), ZoneAddresses::of(Zone::Hostile));
    let (from, to, as_) = match ip {
        IpVersion::V4 => (private.v4.to_string(), hostile.v4.to_string(), TRANSLATED_V4.to_string()),
        IpVersion::V6 => (private.v6.to_string(), hostile.v6.to_string(), TRANSLATED_V6.to_string()),
    };
    format!("*nat\n-A POSTROUTING -s {from} -d {to} -j NETMAP --to {as_}\nCOMMIT\n")
}

/// Packets of a chain's only rule, in a listing with `-xvnL`: two lines of headings, then the rule.
fn parse_dropped(listing: &str) -> Option<u64> {
    listing.lines().nth(2)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::shape::{PolicyShape, ZoneForm};

    #[test]
    fn drops_are_read() {
        let listing = "Chain default_drop (1 references)\n    pkts      bytes target     prot opt in     out\n\
                       \x20     12      720 DROP       all  --  *      *       0.0.0.0/0            0.0.0.0/0\n";
        assert_eq!(parse_dropped(listing), Some(12));
        assert_eq!(parse_dropped("Chain default_drop (0 references)\n    pkts bytes\n"), None);
    }

    #[test]
    fn rules_stand_in_order() {
        let shape = PolicyShape { rules: 5, match_position: 3, ..PolicyShape::forward_everything(1) };
        let text = render(&PolicySpec::generate(&shape, ZoneForm::Two).unwrap(), IpVersion::V6);
        let rules: Vec<&str> = text.lines().filter(|line| line.starts_with("-A FORWARD -s")).collect();
        assert_eq!(rules.len(), 6);
        assert_eq!(
            rules[2],
            "-A FORWARD -s 2001:2:0:1::/64 -d 2001:2:0:2::/64 -p udp --dport 1:49151 -j ACCEPT"
        );
        assert_eq!(
            rules[3],
            "-A FORWARD -s 2001:2:0:2::/64 -d 2001:2:0:1::/64 -p udp --sport 1:49151 -j ACCEPT"
        );
    }
}
