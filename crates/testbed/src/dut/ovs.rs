//! Open vSwitch with connection tracking: its userspace datapath on packet sockets of the firewall's ends, with daemons and a
//! database of its own in a folder of its own, so that an Open vSwitch of the machine is not touched. It routes by flows; the kernel's
//! forwarding stays off, and its stack does not have the frames a second time.
//!
//! Table 0 sends frames through connection tracking, table 1 has the rules in the order of their priorities, table 2 routes. A range
//! of ports is as many flows as it has aligned blocks, because OpenFlow matches ports under masks.
//!
//! Connection tracking puts fragments together to look at them, and hands each on as it came. The flows behind it therefore see ports in
//! first fragments alone, and the others meet no rule about ports.

use super::kernel::{BOTH, check_links, gone, version_of};
use super::{Capabilities, Driver, Replaced, Requirement, Running, admit, check_replacement, packet_sockets};
use crate::bed::{Bed, FirewallSide};
use crate::error::TestbedError;
use crate::guest::{Guest, resident_bytes, threads_of};
use crate::journal::Journal;
use crate::layout::{Mac, behind};
use crate::policy::{Action, PolicySpec, Protocol, Rule};
use ipnet::IpNet;
use measure::shape::{IpVersion, PolicyShape, Setup};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) struct Ovs;

const PATIENCE: Duration = Duration::from_secs(10);
/// Where Debian has the schema of the database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The priority of the first rule; the second has one less. OpenFlow's priorities end at 65,535.
const FIRST_RULE: usize = 65_000;
/// Connections that its table holds by itself.
const CONNECTIONS: u64 = 3_000_000;
/// How long an idle UDP flow is remembered, as the beds of kernel firewalls have it.
const FLOW_SECONDS: u32 = 600;
/// What flows that drop are known by, and the counter's name.
const DROPS: [(&str, &str); 4] =
    [("0x1", "default_drop"), ("0x2", "invalid_drop"), ("0x3", "no_route"), ("0x4", "other")];
/// The flow of what no other flow is for: of frames that are not IP, and of all frames until the others are loaded.
const OTHERS: &str = "table=0,priority=0,cookie=0x4,actions=drop";

impl Driver for Ovs {
    fn name(&self) -> &'static str {
        "ovs"
    }

    fn summary(&self) -> &'static str {
        "Open vSwitch: userspace datapath on packet sockets, connection tracking, rules as flows"
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[
            Requirement::Program("ovs-vswitchd"),
            Requirement::Program("ovsdb-server"),
            Requirement::KernelFile {
                path: "/dev/net/tun",
                feature: "tap devices, which its datapath makes",
            },
        ]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::RULES
    }

    fn versions(&self) -> BTreeMap<String, String> {
        version_of("ovs-vswitchd").into_iter().collect()
    }

    fn remark(&self, _asked: &PolicyShape) -> Option<String> {
        Some(
            "ovs forwards in a program: inline, that takes turns with the generator on the same core, and its sockets overflow while it \
             waits; isolated, it has cores of its own"
                .to_owned(),
        )
    }

    fn cannot_handle(&self, setup: &Setup) -> Option<String> {
        (setup.traffic.fragments > 1 && setup.policy.rules > 0)
            .then(|| "rules about ports for fragments".to_owned())
    }

    fn hands_on_later(&self) -> bool {
        true
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        if policy.rules.len() > FIRST_RULE {
            let what = format!("more than {FIRST_RULE} rules: OpenFlow has no more priorities");
            return Err(TestbedError::Unsupported { dut: self.name(), what });
        }
        let side = bed.firewall_side(self.name())?;
        let mut journal = Journal::start()?;
        let folder = journal.folder(self.name())?;
        let mut running = Switch {
            daemons: None,
            side,
            cores: bed.spec().cores.firewall.iter().map(|&core| core as usize).collect(),
            folder,
            policy: policy.clone(),
            dropped_before: BTreeMap::new(),
            flows: 0,
            load_seconds: 0.0,
            _journal: journal,
        };
        running.start()?;
        running.load_timed()?;
        Ok(Box::new(running))
    }
}

/// Fields are dropped in order: the daemons end before the journal removes their folder.
struct Switch {
    daemons: Option<Daemons>,
    side: FirewallSide,
    cores: Vec<usize>,
    folder: PathBuf,
    policy: PolicySpec,
    /// What the switch before the last reset counted.
    dropped_before: BTreeMap<String, u64>,
    /// Flows that were loaded.
    flows: u64,
    load_seconds: f64,
    _journal: Journal,
}

/// The switch, and the database that it must not outlive.
struct Daemons {
    switch: Guest,
    database: Guest,
}

impl Switch {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, TestbedError> {
        self.side.namespace.run(program, arguments)
    }

    /// Asks the switch itself.
    fn ask(&self, arguments: &[&str]) -> Result<String, TestbedError> {
        let control = self.path("switch");
        self.run("ovs-appctl", &[&["-t", &control], arguments].concat())
    }

    /// Asks for flows by OpenFlow.
    fn flows(&self, question: &str, of: &str) -> Result<String, TestbedError> {
        let bridge = format!("unix:{}", self.path("br.mgmt"));
        self.run("ovs-ofctl", &["-O", "OpenFlow14", question, &bridge, of])
    }

    /// From now on it drops everything, and counts it, until flows are loaded.
    fn start(&mut self) -> Result<(), TestbedError> {
        let (file, socket) = (self.path("database"), self.path("database.socket"));
        // After a reset there is one.
        let _ = std::fs::remove_file(&file);
        self.run("ovsdb-tool", &["create", &file, SCHEMA])?;
        let (remote, control) = (format!("--remote=punix:{socket}"), format!("--unixctl={file}.control"));
        let quiet = ["-vconsole:err", "-vsyslog:off", "-vfile:off"];
        let mut database =
            self.daemon("ovsdb-server", &[&[file.as_str(), &remote, &control], &quiet[..]].concat())?;
        database.wait_until("open its socket", PATIENCE, || Path::new(&socket).exists())?;
        let (server, control) = (format!("unix:{socket}"), format!("--unixctl={}", self.path("switch")));
        let mut switch = self.daemon("ovs-vswitchd", &[&[server.as_str(), &control], &quiet[..]].concat())?;
        let control = self.path("switch");
        switch.wait_until("open its socket", PATIENCE, || Path::new(&control).exists())?;
        self.daemons = Some(Daemons { switch, database });
        self.configure(&server)?;
        packet_sockets::have_frames_alone(&self.side)
    }

    fn daemon(&self, program: &str, arguments: &[&str]) -> Result<Guest, TestbedError> {
        let folder = self.folder.to_string_lossy();
        Guest::start_with(&self.side.namespace, program, arguments, &self.cores, &[("OVS_RUNDIR", &folder)])
    }

    /// The bridge with the firewall's ends as its ports, numbered in their order from 1.
    fn configure(&self, server: &str) -> Result<(), TestbedError> {
        let timeout = format!("{FLOW_SECONDS}");
        let mut words: Vec<String> = format!(
            "--db={server} --timeout={} init -- --id=@d create Datapath datapath_version=0 -- set Open_vSwitch . \
             datapaths:netdev=@d other_config:userspace-tso-enable=false -- add-zone-tp netdev zone=0 udp_first={timeout} \
             udp_single={timeout} udp_multiple={timeout} -- add-br br -- set bridge br datapath_type=netdev fail_mode=secure \
             protocols=OpenFlow14",
            PATIENCE.as_secs()
        )
        .split_whitespace()
        .map(str::to_owned)
        .collect();
        for (number, end) in (1..).zip(self.side.ends()) {
            let port = format!("-- add-port br {0} -- set interface {0} ofport_request={number}", end.device);
            words.extend(port.split_whitespace().map(str::to_owned));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.run("ovs-vsctl", &words)?;
        let bridge = format!("unix:{}", self.path("br.mgmt"));
        self.run("ovs-ofctl", &["-O", "OpenFlow14", "add-flow", &bridge, OTHERS])?;
        let connections = crate::tables::with_room(self.policy.connections.into());
        if connections > CONNECTIONS {
            self.ask(&["dpctl/ct-set-maxconns", &connections.to_string()])?;
        }
        Ok(())
    }

    fn load_timed(&mut self) -> Result<(), TestbedError> {
        let begun = Instant::now();
        self.load()?;
        self.load_seconds = begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// Replaces all flows in one step. Those that stay keep their counts.
    fn load(&mut self) -> Result<(), TestbedError> {
        let bridge = format!("unix:{}", self.path("br.mgmt"));
        let words = ["-O", "OpenFlow14", "--bundle", "replace-flows", &bridge, "-"];
        let (policy, side) = (&self.policy, &self.side);
        side.namespace.feed("ovs-ofctl", &words, |out| flows(policy, side, out))?;
        self.flows = self.loaded()?;
        Ok(())
    }

    fn loaded(&self) -> Result<u64, TestbedError> {
        let text = self.flows("dump-aggregate", "")?;
        number_after(&text, "flow_count=").ok_or_else(|| gone(format!("ovs-ofctl says {text:?}")))
    }

    fn stop(&mut self) {
        if let Some(Daemons { switch, database }) = self.daemons.take() {
            switch.end(PATIENCE);
            database.end(PATIENCE);
        }
    }
}

impl Running for Switch {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        // The datapath's counts reach the flows when these are looked at again, twice a second or now.
        self.ask(&["revalidator/wait"])?;
        let mut counters = self.dropped_before.clone();
        for (cookie, name) in DROPS {
            let text = self.flows("dump-flows", &format!("cookie={cookie}/-1"))?;
            let packets: u64 = text.lines().filter_map(|line| number_after(line, "n_packets=")).sum();
            *counters.entry(name.to_owned()).or_default() += packets;
        }
        let text = self.ask(&["dpctl/show"])?;
        *counters.entry("upcall_lost".to_owned()).or_default() += number_after(&text, "lost:").unwrap_or(0);
        *counters.entry("socket_full".to_owned()).or_default() += packet_sockets::lost(&self.side)?;
        Ok(counters)
    }

    fn flow_entries(&self) -> Result<Option<u64>, TestbedError> {
        if !self.policy.tracks_connections() {
            return Ok(None);
        }
        let text = self.ask(&["dpctl/ct-get-nconns"])?;
        let read = text.trim().parse().map(Some);
        read.map_err(|_| gone(format!("ovs-appctl says {text:?} of its connections")))
    }

    /// What the switch has of the machine's memory.
    fn memory_bytes(&self) -> Option<u64> {
        resident_bytes(self.daemons.as_ref()?.switch.pid())
    }

    fn policy_load_seconds(&self) -> Option<f64> {
        Some(self.load_seconds)
    }

    fn replace(&mut self, policy: &PolicySpec) -> Result<Replaced, TestbedError> {
        check_replacement(&self.policy, policy)?;
        self.policy = policy.clone();
        let begun = Instant::now();
        self.load()?;
        Ok(Replaced { command_seconds: begun.elapsed().as_secs_f64() })
    }

    fn forget_flows(&mut self) -> Result<(), TestbedError> {
        self.ask(&["dpctl/flush-conntrack"]).map(drop)
    }

    /// The switch's own threads work beside those that receive.
    fn firewall_threads(&self) -> Vec<i32> {
        let mut threads = self.side.threads();
        if let (false, Some(daemons)) = (threads.is_empty(), &self.daemons) {
            threads.extend(threads_of(daemons.switch.pid()));
        }
        threads
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        check_links(&self.side, "")?;
        let loaded = self.loaded()?;
        if loaded == self.flows {
            return Ok(());
        }
        Err(gone(format!("Open vSwitch has {loaded} flows instead of {}", self.flows)))
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        // What it sends to a link that is down it loses without counting it. So the private end goes first, from which one-way
        // traffic comes, and what has come in goes out by the others.
        for end in self.side.ends() {
            self.run("ip", &["link", "set", "dev", &end.device, "down"])?;
            packet_sockets::wait_until_empty(&self.side, PATIENCE)?;
        }
        self.dropped_before = self.counters()?;
        self.stop();
        packet_sockets::have_frames_no_more(&self.side)?;
        self.start()?;
        self.side.links_up()?;
        self.load_timed()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// All flows of a policy.
fn flows(policy: &PolicySpec, side: &FirewallSide, out: &mut dyn Write) -> io::Result<()> {
    let tracks = policy.tracks_connections();
    let first = match (policy.has_rules(), tracks) {
        (false, _) => "resubmit(,2)",
        (true, false) => "resubmit(,1)",
        (true, true) => "ct(table=1)",
    };
    writeln!(out, "{OTHERS}")?;
    for ip in BOTH {
        let family = family(ip);
        writeln!(out, "table=0,priority=1,{family},actions={first}")?;
        if policy.has_rules() {
            if tracks {
                known_connections(policy, ip, out)?;
            }
            for (index, rule) in policy.rules.iter().enumerate() {
                rule_flows(rule, ip, FIRST_RULE - index, tracks, out)?;
            }
            writeln!(out, "table=1,priority=0,cookie=0x1,{family},actions=drop")?;
        }
        routes(side, ip, out)?;
    }
    writeln!(out, "table=2,priority=0,cookie=0x3,actions=drop")
}

fn known_connections(policy: &PolicySpec, ip: IpVersion, out: &mut dyn Write) -> io::Result<()> {
    let family = family(ip);
    if policy.is_strict() {
        let tcp = protocol(Protocol::Tcp, ip);
        writeln!(out, "table=1,priority=65535,cookie=0x2,{family},ct_state=+trk+inv,actions=drop")?;
        writeln!(
            out,
            "table=1,priority=65533,cookie=0x2,{tcp},ct_state=+trk+new,tcp_flags=-syn,actions=drop"
        )?;
    }
    for state in ["est", "rel"] {
        writeln!(out, "table=1,priority=65534,{family},ct_state=+trk+{state},actions=resubmit(,2)")?;
    }
    Ok(())
}

fn rule_flows(
    rule: &Rule,
    ip: IpVersion,
    priority: usize,
    tracks: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (protocol, [source, destination]) = (protocol(rule.protocol, ip), rule.networks(ip));
    let fields = match ip {
        IpVersion::V4 => ["nw_src", "nw_dst"],
        IpVersion::V6 => ["ipv6_src", "ipv6_dst"],
    };
    let actions = match (rule.action, tracks) {
        (Action::Drop, _) => "drop",
        (Action::Accept, true) => "ct(commit),resubmit(,2)",
        (Action::Accept, false) => "resubmit(,2)",
    };
    for sport in port_matches("tp_src", rule.source_ports) {
        for dport in port_matches("tp_dst", rule.destination_ports) {
            writeln!(
                out,
                "table=1,priority={priority},{protocol},{}={source},{}={destination}{sport}{dport},actions={actions}",
                fields[0], fields[1]
            )?;
        }
    }
    Ok(())
}

/// A frame to a zone, or to what is behind it, leaves with new Ethernet addresses and one hop less.
fn routes(side: &FirewallSide, ip: IpVersion, out: &mut dyn Write) -> io::Result<()> {
    let field = match ip {
        IpVersion::V4 => "nw_dst",
        IpVersion::V6 => "ipv6_dst",
    };
    let ends = side.ports.iter().filter_map(|port| Some((port, port.firewall.as_ref()?.mac)));
    for (number, (port, own)) in (1..).zip(ends) {
        let own_networks = (port.addresses.v4, port.addresses.v6);
        for (v4, v6) in std::iter::once(own_networks).chain(behind(port.zone)) {
            let network: IpNet = match ip {
                IpVersion::V4 => v4.into(),
                IpVersion::V6 => v6.into(),
            };
            writeln!(
                out,
                "table=2,priority=1,{},{field}={network},actions={}",
                family(ip),
                hop(own, port.end.mac, number)
            )?;
        }
    }
    Ok(())
}

fn hop(from: Mac, to: Mac, port: u32) -> String {
    format!("mod_dl_src:{from},mod_dl_dst:{to},dec_ttl,output:{port}")
}

const fn family(ip: IpVersion) -> &'static str {
    match ip {
        IpVersion::V4 => "ip",
        IpVersion::V6 => "ipv6",
    }
}

fn protocol(protocol: Protocol, ip: IpVersion) -> String {
    if protocol == Protocol::Any {
        return family(ip).to_owned();
    }
    let suffix = if ip == IpVersion::V6 { "6" } else { "" };
    format!("{}{suffix}", protocol.name(IpVersion::V4))
}

/// The ports of a rule as matches under masks; one empty match for any port.
fn port_matches(field: &str, ports: Option<(u16, u16)>) -> Vec<String> {
    let Some((low, high)) = ports else { return vec![String::new()] };
    let (mut from, high) = (u32::from(low), u32::from(high));
    let mut matches = Vec::new();
    while from <= high {
        // The largest aligned block that begins here and does not go too far.
        let mut size = 1u32 << from.trailing_zeros().min(16);
        while from + size - 1 > high {
            size /= 2;
        }
        matches.push(format!(",{field}={from}/{:#x}", (0x1_0000 - size) & 0xffff));
        from += size;
    }
    matches
}

/// The number that follows a word in a text.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let rest = text.split(word).nth(1)?.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports_become_blocks_that_cover_them_and_no_more() {
        assert_eq!(port_matches("tp_dst", None), [""]);
        assert_eq!(port_matches("tp_dst", Some((53, 53))), [",tp_dst=53/0xffff"]);
        for (low, high) in [(0, u16::MAX), (1, 49151), (1024, 49151), (1500, 3500), (65535, 65535)] {
            let matches = port_matches("", Some((low, high)));
            let covers = |port: u16| {
                matches.iter().filter(move |text| {
                    let (value, mask) = text[2..].split_once("/0x").unwrap();
                    port & u16::from_str_radix(mask, 16).unwrap() == value.parse::<u16>().unwrap()
                })
            };
            for port in 0..=u16::MAX {
                let wanted = usize::from((low..=high).contains(&port));
                assert_eq!(covers(port).count(), wanted, "{port} of {low} to {high}: {matches:?}");
            }
        }
    }

    #[test]
    fn numbers_are_read() {
        assert_eq!(number_after(" cookie=0x1, n_packets=42, n_bytes=0", "n_packets="), Some(42));
        assert_eq!(number_after("lost:\t   1200 \n", "lost:"), Some(1200));
        assert_eq!(number_after("nothing", "lost:"), None);
    }
}
