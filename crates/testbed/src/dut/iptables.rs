//! iptables, alone and with ipset. Both load the same rules in the same order as nftables does; a list of addresses is
//! a set of ipset, which plain iptables does not have.
//!
//! The variant is what `iptables` is on the machine (`nf_tables` on Debian); where that cannot load the rules,
//! `iptables-legacy`. The results' versions say which.

use super::kernel::{Forwarding, gone, version_of};
use super::{Capabilities, Driver, Requirement, Running, admit};
use crate::bed::Bed;
use crate::error::TestbedError;
use crate::layout::{TRANSLATED_V4, TRANSLATED_V6, ZoneAddresses};
use crate::netns::Namespace;
use crate::policy::{Action, PolicySpec, Protocol, Rule};
use measure::shape::{IpVersion, Zone};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

pub(super) struct Iptables;
pub(super) struct Ipset;

/// Chains whose rules count what they drop: a chain of its own is listed in no time, however long the others are.
const DEFAULT_DROP: &str = "default_drop";
const LISTED_DROP: &str = "listed_drop";
const SET: &str = "rampart_bench";
const BOTH: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];

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
        Capabilities { lists: false, ..Capabilities::FIREWALL }
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
        "iptables with lists in ipset (hash:ip)"
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
    let forwarding = Forwarding::start(bed, dut)?;
    let mut running = Filter { forwarding, policy: policy.clone(), variant: Variant::System };
    load_set(running.namespace(), policy)?;
    if let Err(error) = running.load() {
        unload(running.namespace(), Variant::System);
        running.variant = Variant::Legacy;
        // The first message is about the program that the user has; the second only says that the way out is closed.
        running.load().map_err(|_| error)?;
    }
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
        Ok(())
    }

    fn dropped(&self, ip: IpVersion, chain: &str) -> Result<u64, TestbedError> {
        let program = self.variant.program(ip, false);
        let text = self.namespace().run(program, &["-w", "-xvnL", chain])?;
        parse_dropped(&text).ok_or_else(|| gone(format!("the chain {chain} of {program} has no rule")))
    }

    fn tracks_connections(&self) -> bool {
        (self.policy.shape.stateful && self.policy.has_rules()) || self.policy.shape.nat
    }

    fn set_bytes(&self) -> Option<u64> {
        let text = self.namespace().run("ipset", &["list", "-t", SET]).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Size in memory: "))?.trim().parse().ok()
    }
}

impl Running for Filter {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        let mut counters = BTreeMap::from([("ip_discards".to_owned(), self.forwarding.ip_discards()?)]);
        if self.policy.has_rules() {
            let both =
                self.dropped(IpVersion::V4, DEFAULT_DROP)? + self.dropped(IpVersion::V6, DEFAULT_DROP)?;
            counters.insert(DEFAULT_DROP.to_owned(), both);
        }
        if !self.policy.listed.is_empty() {
            counters.insert(LISTED_DROP.to_owned(), self.dropped(IpVersion::V4, LISTED_DROP)?);
        }
        Ok(counters)
    }

    fn connections(&self) -> Result<Option<u64>, TestbedError> {
        self.tracks_connections().then(|| self.forwarding.connections()).transpose()
    }

    fn memory_bytes(&self) -> Option<u64> {
        let connections = self.tracks_connections().then(|| self.forwarding.connection_bytes()).flatten();
        let set = (!self.policy.listed.is_empty()).then(|| self.set_bytes()).flatten();
        match (connections, set) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        }
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

    fn reset(&mut self) -> Result<(), TestbedError> {
        self.forwarding.reset(self.tracks_connections(), || self.load())
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        unload(self.namespace(), self.variant);
        if !self.policy.listed.is_empty() {
            let _ = self.namespace().run("ipset", &["destroy", SET]);
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

/// The list as a hash with room for its elements from the start: growing while loading is slow.
fn load_set(namespace: &Namespace, policy: &PolicySpec) -> Result<(), TestbedError> {
    if policy.listed.is_empty() {
        return Ok(());
    }
    let count = policy.listed.len();
    let heads = (count / 4).next_power_of_two().max(1024);
    let listed = policy.listed;
    namespace
        .feed("ipset", &["restore"], move |out: &mut dyn Write| {
            writeln!(out, "create {SET} hash:ip family inet hashsize {heads} maxelem {count}")?;
            listed.addresses().try_for_each(|address| writeln!(out, "add {SET} {address}"))
        })
        .map(drop)
}

/// The tables of one IP version in the format of `iptables-restore`, which replaces them in one step.
fn render(policy: &PolicySpec, ip: IpVersion) -> String {
    // A table in use costs every frame something, even an empty one.
    let filters = policy.has_rules() || !policy.listed.is_empty();
    let mut text = if filters { filter_table(policy, ip) } else { String::new() };
    if policy.shape.nat {
        text += &translation_table(ip);
    }
    text
}

fn filter_table(policy: &PolicySpec, ip: IpVersion) -> String {
    let default = if policy.has_rules() { "DROP" } else { "ACCEPT" };
    let mut text =
        format!("*filter\n:FORWARD {default} [0:0]\n:{DEFAULT_DROP} - [0:0]\n:{LISTED_DROP} - [0:0]\n");
    if !policy.listed.is_empty() && ip == IpVersion::V4 {
        for field in ["src", "dst"] {
            text += &format!("-A FORWARD -m set --match-set {SET} {field} -j {LISTED_DROP}\n");
        }
        text += &format!("-A {LISTED_DROP} -j DROP\n");
    }
    if policy.has_rules() {
        if policy.shape.stateful {
            text += "-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n";
        }
        for rule in &policy.rules {
            append_rule(&mut text, rule, ip);
        }
        text += &format!("-A FORWARD -j {DEFAULT_DROP}\n-A {DEFAULT_DROP} -j DROP\n");
    }
    text + "COMMIT\n"
}

fn append_rule(text: &mut String, rule: &Rule, ip: IpVersion) {
    let (source, destination) = match ip {
        IpVersion::V4 => (rule.source.v4.to_string(), rule.destination.v4.to_string()),
        IpVersion::V6 => (rule.source.v6.to_string(), rule.destination.v6.to_string()),
    };
    let protocol = match (rule.protocol, ip) {
        (Protocol::Udp, _) => "udp",
        (Protocol::Tcp, _) => "tcp",
        (Protocol::Icmp, IpVersion::V4) => "icmp",
        (Protocol::Icmp, IpVersion::V6) => "ipv6-icmp",
    };
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
