//! What all firewalls inside the Linux kernel share: forwarding, the connection table, resets.

use crate::bed::{Bed, FirewallSide};
use crate::error::TestbedError;
use crate::netns::Namespace;
use crate::policy::PolicySpec;
use crate::program;
use measure::shape::IpVersion;
use std::fs;

/// Rules are loaded for both.
pub(super) const BOTH: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];

/// A firewall namespace that forwards. Dropping it stops forwarding.
#[derive(Debug)]
pub(super) struct Forwarding {
    side: FirewallSide,
    /// Whether the policy needs the connection table.
    tracks_connections: bool,
}

impl Forwarding {
    pub(super) fn start(bed: &Bed, dut: &'static str, policy: &PolicySpec) -> Result<Self, TestbedError> {
        Self::with(bed, dut, policy.tracks_connections())
    }

    /// Of a firewall that remembers connections whatever its policy.
    pub(super) fn that_tracks(bed: &Bed, dut: &'static str) -> Result<Self, TestbedError> {
        Self::with(bed, dut, true)
    }

    fn with(bed: &Bed, dut: &'static str, tracks_connections: bool) -> Result<Self, TestbedError> {
        let started = Self { side: bed.firewall_side(dut)?, tracks_connections };
        started.turn_on()?;
        Ok(started)
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.side.namespace
    }

    /// The names of its interfaces.
    pub(super) fn devices(&self) -> Vec<String> {
        self.side.ends().map(|end| end.device.clone()).collect()
    }

    pub(super) fn threads(&self) -> Vec<i32> {
        self.side.threads()
    }

    /// Frames that the namespace's IP layer gave up on: expired, without a route, or malformed.
    pub(super) fn ip_discards(&self) -> Result<u64, TestbedError> {
        let (v4, v6) = self.side.namespace.enter(|| {
            (
                fs::read_to_string("/proc/thread-self/net/snmp"),
                fs::read_to_string("/proc/thread-self/net/snmp6"),
            )
        })?;
        let v4 = v4.map_err(TestbedError::io("read", "/proc/net/snmp"))?;
        let v6 = v6.map_err(TestbedError::io("read", "/proc/net/snmp6"))?;
        Ok(discards_v4(&v4) + discards_v6(&v6))
    }

    /// Entries of the connection table of this namespace alone; `None` where nobody needs it.
    pub(super) fn flow_entries(&self) -> Result<Option<u64>, TestbedError> {
        if !self.tracks_connections {
            return Ok(None);
        }
        let text = self.side.namespace.setting("netfilter/nf_conntrack_count")?;
        let read = text.parse().map(Some);
        read.map_err(|_| TestbedError::Impossible(format!("nf_conntrack_count reads {text:?}")))
    }

    /// Empties that table.
    pub(super) fn forget_flows(&self) -> Result<(), TestbedError> {
        if self.tracks_connections { self.side.namespace.run("conntrack", &["-F"]).map(drop) } else { Ok(()) }
    }

    /// Memory of those entries and of the sets beside them, as far as the kernel shows it. The table of heads, which all namespaces
    /// share, is not counted.
    pub(super) fn memory_bytes(&self, set_bytes: Option<u64>) -> Option<u64> {
        match (self.connection_bytes(), set_bytes) {
            (None, None) => None,
            (connections, sets) => Some(connections.unwrap_or(0) + sets.unwrap_or(0)),
        }
    }

    fn connection_bytes(&self) -> Option<u64> {
        let slabs = fs::read_to_string("/proc/slabinfo").ok()?;
        Some(self.flow_entries().ok()?? * connection_entry_bytes(&slabs)?)
    }

    /// Has the connection table, where it is needed, inspect TCP as strictly as the policy says.
    pub(super) fn inspect_as(&self, policy: &PolicySpec) -> Result<(), TestbedError> {
        if self.tracks_connections { self.pick_up_midstream(!policy.is_strict()) } else { Ok(()) }
    }

    /// The same, as strictly as can be.
    pub(super) fn inspect_strictly(&self) -> Result<(), TestbedError> {
        self.pick_up_midstream(false)
    }

    /// Whether the connection table takes a TCP segment that is no SYN for the beginning of a connection, as it does by
    /// default after a restart. Where it does not, such segments are invalid to it.
    fn pick_up_midstream(&self, picks_up: bool) -> Result<(), TestbedError> {
        let value = if picks_up { "1" } else { "0" };
        self.side.namespace.set(&[("netfilter/nf_conntrack_tcp_loose", value)])
    }

    /// Forwarding on, links up.
    pub(super) fn check_alive(&self) -> Result<(), TestbedError> {
        for (setting, version) in [("ipv4/ip_forward", "IPv4"), ("ipv6/conf/all/forwarding", "IPv6")] {
            if self.side.namespace.setting(setting)? != "1" {
                return Err(gone(format!("{version} forwarding was turned off")));
            }
        }
        check_links(&self.side, "")
    }

    /// Links down, connections forgotten, `reload`, links up: frames are lost meanwhile, as in a restart.
    pub(super) fn reset(
        &self,
        reload: impl FnOnce() -> Result<(), TestbedError>,
    ) -> Result<(), TestbedError> {
        self.side.links_down()?;
        self.forget_flows()?;
        reload()?;
        self.turn_on()?;
        self.side.links_up()
    }

    fn turn_on(&self) -> Result<(), TestbedError> {
        self.side.namespace.set(&[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")])
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        // The namespace may be gone already; then it forwards nothing.
        let _ = self.side.namespace.set(&[("ipv4/ip_forward", "0"), ("ipv6/conf/all/forwarding", "0")]);
        // Without connection tracking there is no such setting.
        let _ = self.pick_up_midstream(true);
    }
}

/// Every link of the firewall is there, up, and shows `mark` in its listing.
pub(super) fn check_links(side: &FirewallSide, mark: &str) -> Result<(), TestbedError> {
    let listing = side.namespace.run("ip", &["-o", "link"])?;
    for end in side.ends() {
        let line = listing.lines().find(|line| line.contains(&format!(": {}@", end.device)));
        if !line.is_some_and(|line| line.contains(mark) && line.contains(",UP")) {
            let what =
                if mark.is_empty() { String::new() } else { format!(", or has no{mark}program any more") };
            return Err(gone(format!("the link {} is gone or down{what}", end.device)));
        }
    }
    Ok(())
}

/// The firewall is not what was set up any more.
pub(super) fn gone(what: String) -> TestbedError {
    TestbedError::Impossible(format!("the firewall changed by itself: {what}"))
}

/// First line of a program's version, for `Driver::versions`.
pub(super) fn version_of(name: &str) -> Vec<(String, String)> {
    let argument = match name {
        "ipset" => "--version",
        "haproxy" | "squid" => "-v",
        _ => "-V",
    };
    program::version_line(name, argument).map(|line| (name.to_owned(), line)).into_iter().collect()
}

/// Sum of the input discards in `/proc/net/snmp`, whose lines come in pairs of names and values.
fn discards_v4(snmp: &str) -> u64 {
    const NAMES: [&str; 4] = ["InHdrErrors", "InAddrErrors", "InDiscards", "OutNoRoutes"];
    let mut lines = snmp.lines().filter(|line| line.starts_with("Ip:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    names
        .split_whitespace()
        .zip(values.split_whitespace())
        .filter(|(name, _)| NAMES.contains(name))
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .sum()
}

fn discards_v6(snmp6: &str) -> u64 {
    const NAMES: [&str; 5] =
        ["Ip6InHdrErrors", "Ip6InAddrErrors", "Ip6InDiscards", "Ip6InNoRoutes", "Ip6OutNoRoutes"];
    snmp6
        .lines()
        .filter_map(|line| line.split_once(char::is_whitespace))
        .filter(|(name, _)| NAMES.contains(name))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

/// The object size in `/proc/slabinfo`'s row of connections.
fn connection_entry_bytes(slabinfo: &str) -> Option<u64> {
    let row = slabinfo.lines().find(|line| line.split_whitespace().next() == Some("nf_conntrack"))?;
    row.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discards_are_summed() {
        let snmp = "Ip: Forwarding InReceives InHdrErrors InAddrErrors InDiscards OutNoRoutes\nIp: 1 9 1 2 3 4\n\
                    Icmp: InMsgs\nIcmp: 7\n";
        assert_eq!(discards_v4(snmp), 10);
        assert_eq!(discards_v4(""), 0);
        assert_eq!(discards_v6("Ip6InReceives  \t5\nIp6InHdrErrors \t 2\nIp6InNoRoutes\t1\n"), 3);
    }

    #[test]
    fn the_entry_size_is_read() {
        let slabinfo = "# name\nnf_conntrack_expect 0 0 208 19 1 :\nnf_conntrack 0 0 256 16 1 : tunables 0\n";
        assert_eq!(connection_entry_bytes(slabinfo), Some(256));
        assert_eq!(connection_entry_bytes("x 1 2 3"), None);
    }
}
