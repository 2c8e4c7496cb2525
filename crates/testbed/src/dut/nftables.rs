//! nftables, as a practitioner writes it: one `inet` table, known connections accepted first, the rules in order, a
//! counted drop at the end. The rules of each IP version have a chain of their own, so that a frame meets as many
//! rules as the policy has.

use super::kernel::{Forwarding, gone, version_of};
use super::{Capabilities, Driver, Requirement, Running, admit};
use crate::bed::Bed;
use crate::error::TestbedError;
use crate::layout::{TRANSLATED_V4, TRANSLATED_V6, ZoneAddresses};
use crate::policy::{Action, PolicySpec, Protocol, Rule};
use measure::shape::{IpVersion, Zone};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

pub(super) struct Nftables;

/// The only table that this driver makes, reads and deletes.
const TABLE: &str = "rampart_bench";
/// Elements of one `add element` command: nft holds a whole command in memory.
const ELEMENTS_AT_ONCE: usize = 4096;

impl Driver for Nftables {
    fn name(&self) -> &'static str {
        "nftables"
    }

    fn summary(&self) -> &'static str {
        "nftables: one inet table, conntrack state, rules in a chain, sets for lists"
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[Requirement::Program("nft")]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FIREWALL
    }

    fn versions(&self) -> BTreeMap<String, String> {
        version_of("nft").into_iter().collect()
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        let running = Filter {
            forwarding: Forwarding::start(bed, self.name())?,
            policy: policy.clone(),
            counted: Mutex::default(),
        };
        running.load()?;
        Ok(Box::new(running))
    }
}

struct Filter {
    forwarding: Forwarding,
    policy: PolicySpec,
    /// What the table's counters had before they were last read.
    counted: Mutex<BTreeMap<String, u64>>,
}

impl Filter {
    /// Reads the counters and sets them back, adding up here. `nft list` reads the whole rule set first, whatever is
    /// listed: 0.8 s with 10,000 rules and 14 s with a million addresses. `nft reset` does not: 4 ms.
    fn read_counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        let text = self.forwarding.namespace().run("nft", &["reset", "counters", "table", "inet", TABLE])?;
        let fresh = parse_counters(&text);
        if fresh.is_empty() {
            return Err(gone(format!("the nftables table {TABLE} is not loaded")));
        }
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, packets) in fresh {
            *counted.entry(name).or_default() += packets;
        }
        Ok(counted.clone())
    }

    fn load(&self) -> Result<(), TestbedError> {
        let policy = &self.policy;
        self.forwarding.namespace().feed("nft", &["-f", "-"], |out| render(policy, out)).map(drop)
    }

    fn tracks_connections(&self) -> bool {
        (self.policy.shape.stateful && self.policy.has_rules()) || self.policy.shape.nat
    }
}

impl Running for Filter {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        let mut counters = self.read_counters()?;
        counters.insert("ip_discards".to_owned(), self.forwarding.ip_discards()?);
        Ok(counters)
    }

    fn connections(&self) -> Result<Option<u64>, TestbedError> {
        self.tracks_connections().then(|| self.forwarding.connections()).transpose()
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.tracks_connections().then(|| self.forwarding.connection_bytes())?
    }

    fn firewall_threads(&self) -> Vec<i32> {
        self.forwarding.threads()
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        self.forwarding.check_alive()?;
        self.read_counters().map(drop)
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        self.forwarding.reset(self.tracks_connections(), || self.load())
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // It may never have been loaded, or the namespace may be gone.
        let _ = self.forwarding.namespace().run("nft", &["delete", "table", "inet", TABLE]);
    }
}

/// The whole rule set as one transaction, which replaces an older one of the same name.
fn render(policy: &PolicySpec, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{")?;
    writeln!(out, "  counter default_drop {{ }}\n  counter listed_drop {{ }}")?;
    if !policy.listed.is_empty() {
        writeln!(out, "  set listed {{ type ipv4_addr; size {}; }}", policy.listed.len())?;
    }
    if policy.has_rules() {
        for ip in [IpVersion::V4, IpVersion::V6] {
            rules_chain(policy, ip, out)?;
        }
    }
    // A chain on the hook costs every frame something, even an empty one.
    if policy.has_rules() || !policy.listed.is_empty() {
        forward_chain(policy, out)?;
    }
    if policy.shape.nat {
        translation_chain(out)?;
    }
    writeln!(out, "}}")?;
    list_elements(policy, out)
}

fn rules_chain(policy: &PolicySpec, ip: IpVersion, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  chain {} {{", chain(ip))?;
    for rule in &policy.rules {
        writeln!(out, "    {}", rule_text(rule, ip))?;
    }
    writeln!(out, "  }}")
}

/// The hook: lists before state, so that a newly listed host loses its connections; then state; then rules.
fn forward_chain(policy: &PolicySpec, out: &mut dyn Write) -> io::Result<()> {
    let default = if policy.has_rules() { "drop" } else { "accept" };
    writeln!(out, "  chain forward {{\n    type filter hook forward priority filter; policy {default};")?;
    if !policy.listed.is_empty() {
        for field in ["saddr", "daddr"] {
            writeln!(out, "    ip {field} @listed counter name listed_drop drop")?;
        }
    }
    if policy.has_rules() {
        if policy.shape.stateful {
            writeln!(out, "    ct state established,related accept")?;
        }
        let (v4, v6) = (chain(IpVersion::V4), chain(IpVersion::V6));
        writeln!(out, "    meta nfproto vmap {{ ipv4 : jump {v4}, ipv6 : jump {v6} }}")?;
        writeln!(out, "    counter name default_drop drop")?;
    }
    writeln!(out, "  }}")
}

/// The private prefix one to one, towards the hostile zone only.
fn translation_chain(out: &mut dyn Write) -> io::Result<()> {
    let (private, hostile) = (ZoneAddresses::of(Zone::Private), ZoneAddresses::of(Zone::Hostile));
    writeln!(out, "  chain postrouting {{\n    type nat hook postrouting priority srcnat; policy accept;")?;
    writeln!(
        out,
        "    ip daddr {} snat ip prefix to ip saddr map {{ {} : {TRANSLATED_V4} }}",
        hostile.v4, private.v4
    )?;
    writeln!(
        out,
        "    ip6 daddr {} snat ip6 prefix to ip6 saddr map {{ {} : {TRANSLATED_V6} }}\n  }}",
        hostile.v6, private.v6
    )
}

fn list_elements(policy: &PolicySpec, out: &mut dyn Write) -> io::Result<()> {
    let mut addresses = policy.listed.addresses().peekable();
    while addresses.peek().is_some() {
        write!(out, "add element inet {TABLE} listed {{ ")?;
        for address in addresses.by_ref().take(ELEMENTS_AT_ONCE) {
            write!(out, "{address}, ")?;
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

const fn chain(ip: IpVersion) -> &'static str {
    match ip {
        IpVersion::V4 => "rules_v4",
        IpVersion::V6 => "rules_v6",
    }
}

fn rule_text(rule: &Rule, ip: IpVersion) -> String {
    let (family, source, destination) = match ip {
        IpVersion::V4 => ("ip", rule.source.v4.to_string(), rule.destination.v4.to_string()),
        IpVersion::V6 => ("ip6", rule.source.v6.to_string(), rule.destination.v6.to_string()),
    };
    let protocol = match (rule.protocol, ip) {
        (Protocol::Udp, _) => "udp",
        (Protocol::Tcp, _) => "tcp",
        (Protocol::Icmp, IpVersion::V4) => "icmp",
        (Protocol::Icmp, IpVersion::V6) => "icmpv6",
    };
    let mut text = format!("{family} saddr {source} {family} daddr {destination}");
    let ports = [("sport", rule.source_ports), ("dport", rule.destination_ports)];
    if ports.iter().all(|(_, range)| range.is_none()) {
        text += &format!(" meta l4proto {protocol}");
    }
    for (field, range) in ports {
        match range {
            Some((low, high)) if low == high => text += &format!(" {protocol} {field} {low}"),
            Some((low, high)) => text += &format!(" {protocol} {field} {low}-{high}"),
            None => {}
        }
    }
    let action = match rule.action {
        Action::Accept => "accept",
        Action::Drop => "drop",
    };
    format!("{text} {action}")
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
    use measure::shape::{PolicyShape, ZoneForm};

    #[test]
    fn counters_are_read() {
        let text = "table inet rampart_bench {\n\tcounter default_drop {\n\t\tpackets 12 bytes 720\n\t}\n\
                    \tcounter listed_drop {\n\t\tpackets 0 bytes 0\n\t}\n}\n";
        let counters = parse_counters(text);
        assert_eq!(counters["default_drop"], 12);
        assert_eq!(counters["listed_drop"], 0);
    }

    #[test]
    fn a_small_policy_reads_as_a_practitioner_writes_it() {
        let shape = PolicyShape {
            rules: 1,
            match_position: 1,
            stateful: true,
            listed_addresses: 1,
            ..PolicyShape::forward_everything(1)
        };
        let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
        let mut out = Vec::new();
        render(&policy, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rule = "ip saddr 198.18.0.0/16 ip daddr 198.19.0.0/17 udp dport 1-49151 accept";
        let order =
            [rule, "@listed", "ct state established,related accept", "jump rules_v4", "default_drop drop"];
        let places: Vec<Option<usize>> = order.iter().map(|part| text.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{text}");
    }
}
