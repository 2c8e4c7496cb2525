//! How connections come to a proxy: nftables marks what is for one of its ports and names the proxy's socket (TPROXY), and a route of its
//! own takes what is marked for this machine's. The policy's rules see such packets at the input hook as they were sent.

use crate::dut::kernel::{BOTH, gone};
use crate::dut::nftables::{TABLE, rules_chain, rules_name};
use crate::error::TestbedError;
use crate::netns::Namespace;
use crate::policy::PolicySpec;
use measure::shape::IpVersion;
use std::io::{self, Write};

/// The mark of packets that are a proxy's, and the routing table for them.
const MARK: &str = "0x1";
const ROUTES: &str = "100";

/// What the kernel must be able to do, to be loaded by itself.
pub(super) const INTERCEPTION_ALONE: &str = "table inet doctor {\n  chain intercept { type filter hook prerouting priority mangle; \
     fib daddr type != local tcp dport 80 tproxy to :3129 meta mark set 0x1 accept; }\n}\n";
/// What that is called.
pub(super) const INTERCEPTION: &str = "transparent interception (NFT_TPROXY)";

/// Connections that a proxy takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    /// The servers' port.
    pub(super) port: u16,
    /// Where the proxy listens for them.
    pub(super) proxy_port: u16,
}

/// The whole table. It replaces one that is there.
pub(super) fn table(
    policy: &PolicySpec,
    takes: &[Taken],
    devices: &[String],
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{")?;
    for counter in ["default_drop", "invalid_drop", "past_the_proxy_drop"] {
        writeln!(out, "  counter {counter} {{ }}")?;
    }
    if policy.has_rules() {
        for ip in BOTH {
            rules_chain(policy, ip, out)?;
        }
    }
    let devices = devices.join(", ");
    writeln!(out, "  chain intercept {{\n    type filter hook prerouting priority mangle; policy accept;")?;
    for Taken { port, proxy_port } in takes {
        // What the proxy itself sends to this machine is not handed to it again.
        writeln!(
            out,
            "    iifname {{ {devices} }} fib daddr type != local tcp dport {port} tproxy to :{proxy_port} meta mark set {MARK} accept"
        )?;
    }
    writeln!(out, "  }}")?;
    input_chain(policy, &devices, out)?;
    forward_chain(policy, takes, out)?;
    writeln!(out, "}}")
}

/// What is for this machine: answers to the proxy, and what was handed over, if the policy allows it. The proxy's own ports are nobody's.
fn input_chain(policy: &PolicySpec, devices: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  chain input {{\n    type filter hook input priority filter; policy accept;")?;
    writeln!(out, "    iifname != {{ {devices} }} accept\n    meta l4proto != tcp accept")?;
    known_connections(out)?;
    if policy.has_rules() {
        writeln!(out, "    meta mark {MARK} {}", ask_rules())?;
    } else {
        writeln!(out, "    meta mark {MARK} accept")?;
    }
    writeln!(out, "    counter name default_drop drop\n  }}")
}

fn forward_chain(policy: &PolicySpec, takes: &[Taken], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  chain forward {{\n    type filter hook forward priority filter; policy accept;")?;
    let ports: Vec<String> = takes.iter().map(|taken| taken.port.to_string()).collect();
    writeln!(out, "    tcp dport {{ {} }} counter name past_the_proxy_drop drop", ports.join(", "))?;
    known_connections(out)?;
    if policy.has_rules() {
        writeln!(out, "    {}\n    counter name default_drop drop", ask_rules())?;
    }
    writeln!(out, "  }}")
}

fn known_connections(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "    ct state established,related accept\n    ct state invalid counter name invalid_drop drop"
    )
}

fn ask_rules() -> String {
    let [v4, v6] = [IpVersion::V4, IpVersion::V6].map(rules_name);
    format!("meta nfproto vmap {{ ipv4 : jump {v4}, ipv6 : jump {v6} }}")
}

/// Has the kernel take what is marked for its own.
pub(super) fn hand_over(namespace: &Namespace) -> Result<(), TestbedError> {
    hand_over_no_more(namespace);
    namespace.run("ip", &["link", "set", "dev", "lo", "up"])?;
    for family in ["-4", "-6"] {
        namespace.run("ip", &[family, "rule", "add", "fwmark", MARK, "lookup", ROUTES])?;
        namespace.run("ip", &[family, "route", "add", "local", "default", "dev", "lo", "table", ROUTES])?;
    }
    Ok(())
}

/// Undoes it, as far as it was done.
pub(super) fn hand_over_no_more(namespace: &Namespace) {
    for family in ["-4", "-6"] {
        let _ = namespace.run("ip", &[family, "rule", "del", "fwmark", MARK, "lookup", ROUTES]);
        let _ = namespace.run("ip", &[family, "route", "flush", "table", ROUTES]);
    }
    let _ = namespace.run("ip", &["link", "set", "dev", "lo", "down"]);
}

/// Whether what is marked still goes to the proxy.
pub(super) fn check(namespace: &Namespace) -> Result<(), TestbedError> {
    for family in ["-4", "-6"] {
        let rules = namespace.run("ip", &[family, "rule", "show", "fwmark", MARK])?;
        // An empty table is an error of its own.
        let routes = namespace.run("ip", &[family, "route", "show", "table", ROUTES]).unwrap_or_default();
        if !rules.contains(ROUTES) || !routes.contains("local default") {
            return Err(gone("connections are not handed to the proxy any more".to_owned()));
        }
    }
    Ok(())
}
