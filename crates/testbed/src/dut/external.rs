//! `external`: whatever is between two interfaces that the user names, usually real cards. Nothing of it is set up;
//! it is described so that the generator and the sink can work, and that is all. Its counters are unknown.
//!
//! The firewall must be configured by its owner as the bed's addressing says ([`crate::layout`]): 198.18.0.1 and
//! 2001:2:0:1::1 on the private side, 198.19.0.1 and 2001:2:0:2::1 on the hostile side, and routes to 198.18.0.0/16
//! and 2001:2:0:1::/64 through 198.18.0.2 and 2001:2:0:1::2, to 198.19.0.0/17 and 2001:2:0:2::/64 through
//! 198.19.0.2 and 2001:2:0:2::2. For floods it also routes 10.0.0.0/8 and 2001:2:1::/104, where attackers are, through the
//! private side's. Those last addresses are put on the named interfaces for as long as the bed
//! lives, so that the firewall's neighbour look-ups are answered; nothing else of the host is touched.

use super::{Capabilities, Driver, Requirement, Running, admit, xdp_redirect};
use crate::bed::{Bed, ifindex};
use crate::error::TestbedError;
use crate::journal::{Change, Journal};
use crate::layout::{BedLayout, Mac, PortEnd, ZoneAddresses, ZonePort};
use crate::netns::Namespace;
use crate::policy::{PolicySpec, Probe, StatedTraffic};
use crate::{doctor, environment, program};
use measure::shape::{IpVersion, PolicyShape, Setup, TestProtocol, Zone};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// One interface that the user named: `eth1`, or `eth1=02:00:00:00:01:01` with the Ethernet address of the
/// firewall's port behind it. Without that address it is asked for by ARP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalPort {
    /// The interface, in the namespace that the bench runs in.
    pub interface: String,
    /// The firewall's Ethernet address on that side.
    pub gateway_mac: Option<Mac>,
}

impl FromStr for ExternalPort {
    type Err = TestbedError;

    fn from_str(text: &str) -> Result<Self, TestbedError> {
        let (interface, mac) = match text.split_once('=') {
            Some((interface, mac)) => (interface, Some(mac)),
            None => (text, None),
        };
        let wrong = |what: &str| {
            TestbedError::Impossible(format!(
                "--ports: {what} in `{text}`: write an interface, such as eth1, or one with the Ethernet address of \
                 the firewall behind it, such as eth1=02:00:00:00:01:01"
            ))
        };
        if interface.is_empty() || interface.len() > 15 || interface.contains(['/', ' ']) {
            return Err(wrong("there is no interface name"));
        }
        let gateway_mac =
            mac.map(|mac| Mac::parse(mac).ok_or_else(|| wrong("no Ethernet address"))).transpose()?;
        Ok(Self { interface: interface.to_owned(), gateway_mac })
    }
}

/// Two interfaces that were looked at before a run and can be used. Dropping it takes down again what it brought up.
#[derive(Debug)]
pub struct ExternalPorts {
    ports: [(Zone, ExternalPort); 2],
    _journal: Journal,
}

impl ExternalPorts {
    /// Looks at two interfaces of the calling thread's namespace, and brings them up where they are down. `force` takes one through
    /// which the machine is reached as well.
    ///
    /// # Errors
    /// Not root; otherwise [`TestbedError::Impossible`] says of the first interface that cannot be used why, and what to do.
    pub fn check(private: &ExternalPort, hostile: &ExternalPort, force: bool) -> Result<Self, TestbedError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(TestbedError::NotRoot);
        }
        if private.interface == hostile.interface {
            return refused(
                &private.interface,
                "it is named twice: the firewall must be between two interfaces",
            );
        }
        let mut journal = Journal::start()?;
        let ports = [(Zone::Private, private.clone()), (Zone::Hostile, hostile.clone())];
        let interfaces = ports.each_ref().map(|(_, port)| port.interface.as_str());
        for interface in interfaces {
            check_free(interface, force)?;
        }
        for interface in interfaces {
            bring_up(interface, &mut journal)?;
        }
        for interface in interfaces {
            wait_for_carrier(interface)?;
            check_redirect(interface)?;
        }
        Ok(Self { ports, _journal: journal })
    }

    /// The interfaces' names, private first.
    pub fn interfaces(&self) -> [&str; 2] {
        self.ports.each_ref().map(|(_, port)| port.interface.as_str())
    }

    /// The two interfaces as a bed.
    ///
    /// # Errors
    /// A firewall that does not answer for its address, or an interface that is gone.
    pub fn bed(&self) -> Result<ExternalBed, TestbedError> {
        let namespace = Namespace::current()?;
        let mut journal = Journal::start()?;
        let mut ports = Vec::new();
        let mut mtu = u16::MAX;
        for (zone, port) in &self.ports {
            wait_for_carrier(&port.interface)?;
            let facts = facts(&port.interface)?;
            mtu = mtu.min(facts.mtu);
            let addresses = ZoneAddresses::of(*zone);
            take_addresses(&addresses, &port.interface, &mut journal)?;
            let gateway_mac = match port.gateway_mac {
                Some(mac) => mac,
                None => ask_for_gateway(&addresses, &port.interface)?,
            };
            let end = PortEnd {
                ifindex: ifindex(&namespace, &port.interface)?,
                namespace: namespace.clone(),
                device: port.interface.clone(),
                mac: facts.mac,
            };
            ports.push(ZonePort { zone: *zone, addresses, end, firewall: None, gateway_mac });
        }
        Ok(ExternalBed { layout: BedLayout { ports, mtu }, _journal: journal })
    }
}

/// The two interfaces as a bed: private first, hostile second. Dropping it takes its addresses off them.
#[derive(Debug)]
pub struct ExternalBed {
    layout: BedLayout,
    _journal: Journal,
}

impl ExternalBed {
    /// Addresses and interfaces of the two zones.
    pub fn layout(&self) -> &BedLayout {
        &self.layout
    }

    /// A firewall of which nothing is known but that it is there.
    pub fn running(&self) -> Box<dyn Running> {
        Box::new(Unknown)
    }
}

/// What the owner of a box says of its policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stated {
    /// Nothing: no policy can be proved, only that the test's traffic passes.
    Nothing,
    /// The suite's policy was loaded.
    Suite,
    /// Some traffic must pass, and other traffic must not.
    Traffic(Vec<StatedTraffic>),
}

/// A box between two interfaces, with what its owner says of it.
pub struct External {
    name: &'static str,
    stated: Stated,
    /// Where it stands, if other firewalls are measured beside it.
    beside_others: Option<String>,
}

/// What no one said anything about.
pub(super) static UNKNOWN: External = External { name: NAME, stated: Stated::Nothing, beside_others: None };
const NAME: &str = "external";
const LONGEST_NAME: usize = 40;
/// Part of the name of a box whose owner states nothing, so that it is read wherever the box is: in headlines, tables and files.
const UNPROVED: &str = "no policy was proved";

impl External {
    /// A box with the name that its owner gives it. In a report with other firewalls `interfaces` says where it stands.
    ///
    /// # Errors
    /// [`TestbedError::Impossible`]: not a name that reports and expressions can carry.
    pub fn new(
        name: Option<&str>,
        stated: Stated,
        interfaces: Option<[&str; 2]>,
    ) -> Result<Self, TestbedError> {
        let name = checked_name(name.unwrap_or(NAME))
            .map_err(|why| TestbedError::Impossible(format!("--name: {why}, for example \"ACME 3000\"")))?;
        let name = if stated == Stated::Nothing { format!("{name} ({UNPROVED})") } else { name.to_owned() };
        let beside_others = interfaces.map(|[private, hostile]| {
            format!(
                "it stands between the interfaces {private} and {hostile}, and the others on virtual links of this machine: their beds \
                 differ"
            )
        });
        // Names of firewalls live as long as the program.
        Ok(Self { name: name.leak(), stated, beside_others })
    }

    /// Its name in results.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What a suite's policy is for it.
    ///
    /// # Errors
    /// As [`PolicySpec::generate`].
    pub fn policy(&self, setup: &Setup) -> Result<PolicySpec, TestbedError> {
        match self.stated {
            Stated::Suite => PolicySpec::generate(&setup.policy, setup.zones),
            Stated::Nothing | Stated::Traffic(_) => Ok(PolicySpec::forward_everything(setup.zones)),
        }
    }

    /// Ports to which, by its owner's word, nothing of this protocol passes from the private side.
    pub fn forbidden_ports(&self, tested: TestProtocol) -> Vec<u16> {
        match &self.stated {
            Stated::Traffic(stated) => {
                stated.iter().filter_map(|traffic| traffic.forbidden_port(tested)).collect()
            }
            Stated::Nothing | Stated::Suite => Vec::new(),
        }
    }

    /// What must be shown of it before it is measured, in the IP version of the test.
    pub fn probes(&self, policy: &PolicySpec, setup: &Setup) -> Vec<Probe> {
        let lanes = setup.lanes();
        let ip: IpVersion = setup.traffic.ip;
        let mut probes = policy.probes();
        probes.retain(|probe| probe.ip() == ip);
        if self.stated != Stated::Suite {
            let sends = |probe: &Probe| lanes.iter().any(|(lane, _)| *lane == probe.lane);
            probes.retain(|probe| probe.allowed_by_every_policy() && sends(probe));
        }
        if let Stated::Traffic(stated) = &self.stated {
            probes.extend(stated.iter().map(|traffic| traffic.probe(ip)));
        }
        probes
    }
}

/// A name that reports and expressions can carry, or why it is none.
pub(super) fn checked_name(name: &str) -> Result<&str, String> {
    let fits = |c: char| c.is_alphanumeric() || " -_.+/".contains(c);
    if name.trim() == name && (1..=LONGEST_NAME).contains(&name.chars().count()) && name.chars().all(fits) {
        return Ok(name);
    }
    Err(format!("the name `{name}` has not 1 to {LONGEST_NAME} letters, digits, spaces and any of - _ . + /"))
}

impl Driver for External {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        "whatever is between the two interfaces of --ports; configured by its owner"
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[]
    }

    /// Its owner may have given it any policy; the probes will tell.
    fn capabilities(&self) -> Capabilities {
        Capabilities { three_zones: false, replacement: false, ..Capabilities::FIREWALL }
    }

    fn remark(&self, _asked: &PolicyShape) -> Option<String> {
        let proved = match &self.stated {
            Stated::Nothing => {
                format!(
                    "{UNPROVED}: its owner stated none, and only that the test's traffic passes was shown"
                )
            }
            Stated::Suite => {
                "the suite's policy is loaded by its owner; as with the others, no value stands unless probes proved it"
                    .to_owned()
            }
            Stated::Traffic(stated) => {
                let listed = |passes| {
                    let of = stated.iter().filter(|traffic| traffic.passes == passes);
                    of.map(ToString::to_string).collect::<Vec<_>>().join(", ")
                };
                format!(
                    "not the suite's policy: no value stands unless probes proved what its owner stated, that {} passes and {} does not",
                    [listed(true).as_str(), "the test's traffic"]
                        .into_iter()
                        .filter(|t| !t.is_empty())
                        .collect::<Vec<_>>()
                        .join(", "),
                    listed(false)
                )
            }
        };
        Some([Some(proved), self.beside_others.clone()].into_iter().flatten().collect::<Vec<_>>().join("; "))
    }

    fn set_up(&self, _bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        Err(TestbedError::Impossible(
            "an external firewall is between two interfaces: name them with --ports".to_owned(),
        ))
    }
}

struct Unknown;

impl Running for Unknown {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        Ok(BTreeMap::new())
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        Ok(())
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        Err(TestbedError::Unsupported { dut: NAME, what: "a reset by the bench".to_owned() })
    }
}

struct Facts {
    mac: Mac,
    mtu: u16,
}

fn refused<T>(interface: &str, why: &str) -> Result<T, TestbedError> {
    Err(TestbedError::Impossible(format!("--ports: {interface} cannot be used: {why}")))
}

/// An interface as `ip -j` describes it.
fn described(interface: &str) -> Result<Value, TestbedError> {
    let Ok(text) = program::run("ip", &["-d", "-j", "link", "show", "dev", interface]) else {
        return refused(
            interface,
            "there is no such interface here: `ip -br link` shows those that there are",
        );
    };
    let list: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(list[0].clone())
}

fn facts(interface: &str) -> Result<Facts, TestbedError> {
    let link = described(interface)?;
    let mac = link["address"].as_str().and_then(Mac::parse).filter(|_| link["link_type"] == "ether");
    match (mac, link["mtu"].as_u64().and_then(|mtu| u16::try_from(mtu).ok())) {
        (Some(mac), Some(mtu)) => Ok(Facts { mac, mtu }),
        _ => refused(interface, "it is no Ethernet interface"),
    }
}

/// It is an Ethernet interface that nobody needs for something else.
fn check_free(interface: &str, force: bool) -> Result<(), TestbedError> {
    facts(interface)?;
    let link = described(interface)?;
    if let Some(program) = link.get("xdp") {
        let number = &program["prog"]["id"];
        return refused(
            interface,
            &format!(
                "the XDP program {number} is on it, of another run or another tool: wait for its end, or take it off with `ip link set \
                 {interface} xdp off`"
            ),
        );
    }
    match needed_for(interface)? {
        Some(why) if !force => refused(
            interface,
            &format!("{why}, so a test would cut this machine off: name another interface, or add --force"),
        ),
        _ => Ok(()),
    }
}

/// Why this machine needs an interface to be reached, if it does: itself, or what is made of it (a bridge, a bond, a VLAN).
fn needed_for(interface: &str) -> Result<Option<String>, TestbedError> {
    let all: Value = serde_json::from_str(&program::run("ip", &["-j", "link", "show"])?).unwrap_or_default();
    let mut upper = BTreeSet::from([interface.to_owned()]);
    loop {
        let before = upper.len();
        for link in all.as_array().into_iter().flatten() {
            let text = |key: &str| link[key].as_str().unwrap_or_default();
            if upper.contains(text("ifname")) && !text("master").is_empty() {
                upper.insert(text("master").to_owned());
            }
            if upper.contains(text("link")) {
                upper.insert(text("ifname").to_owned());
            }
        }
        if upper.len() == before {
            break;
        }
    }
    let is_ours = |route: &str| device_of(route).is_some_and(|device| upper.contains(device));
    for version in ["-4", "-6"] {
        let routes = program::run("ip", &[version, "route", "show", "default"])?;
        if routes.lines().any(is_ours) {
            return Ok(Some("it has the machine's default route".to_owned()));
        }
    }
    for peer in ssh_peers() {
        if program::run("ip", &["-o", "route", "get", &peer]).is_ok_and(|route| is_ours(&route)) {
            return Ok(Some(format!("an SSH connection from {peer} comes through it")));
        }
    }
    Ok(None)
}

fn device_of(route: &str) -> Option<&str> {
    route.split_whitespace().skip_while(|word| *word != "dev").nth(1)
}

/// Addresses from which somebody is logged in.
fn ssh_peers() -> BTreeSet<String> {
    let own = std::env::var("SSH_CONNECTION").unwrap_or_default();
    // Without `ss` the routes still tell most.
    let table = program::run("ss", &["-H", "-t", "-n", "-p", "state", "established"]).unwrap_or_default();
    let of_ssh = table.lines().filter_map(ssh_peer);
    own.split_whitespace().next().map(str::to_owned).into_iter().chain(of_ssh).collect()
}

/// The peer in a line of `ss`: two queues, local and remote end, the process.
fn ssh_peer(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip(2);
    let (local, remote) = (words.next()?, words.next()?);
    let server = local.ends_with(":22") || ["\"sshd", "\"dropbear\""].iter().any(|name| line.contains(name));
    let address = remote.rsplit_once(':')?.0.trim_matches(['[', ']']);
    let address = address.strip_prefix("::ffff:").unwrap_or(address);
    server.then(|| address.split('%').next().unwrap_or(address).to_owned())
}

fn bring_up(interface: &str, journal: &mut Journal) -> Result<(), TestbedError> {
    let link = described(interface)?;
    if has_flag(&link, "UP") {
        return Ok(());
    }
    journal.record(Change::LinkUp(interface.to_owned()))?;
    match program::run("ip", &["link", "set", "dev", interface, "up"]) {
        Ok(_) => Ok(()),
        Err(error) => refused(interface, &format!("it is down and cannot be brought up: {error}")),
    }
}

fn has_flag(link: &Value, wanted: &str) -> bool {
    link["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == wanted))
}

/// A card takes some seconds until it has agreed with its peer. One end of a veth pair has its carrier as soon as the other end is up.
fn wait_for_carrier(interface: &str) -> Result<(), TestbedError> {
    const OF_A_CARD: Duration = Duration::from_secs(5);
    const OF_A_VETH: Duration = Duration::from_millis(500);
    let begun = Instant::now();
    loop {
        let link = described(interface)?;
        if has_flag(&link, "LOWER_UP") {
            return Ok(());
        }
        let patience = if is_veth(&link) { OF_A_VETH } else { OF_A_CARD };
        if begun.elapsed() > patience {
            return refused(
                interface,
                "it is up but has no carrier: plug its cable in, and bring the firewall's end up",
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a link is one end of a veth pair.
fn is_veth(link: &Value) -> bool {
    link["linkinfo"]["info_kind"] == "veth"
}

/// The generator sends by XDP redirect. Many drivers say that they can do it only while an XDP program is on.
fn check_redirect(interface: &str) -> Result<(), TestbedError> {
    const BASIC: u64 = 1;
    const TRANSMIT: u64 = 4;
    let index = ifindex(&Namespace::current()?, interface)?;
    let features = match xdp_redirect::features_with_a_program(index) {
        Ok(features) => features,
        Err(error) => return refused(interface, &format!("no XDP program can be put on it: {error}")),
    };
    wait_for_carrier(interface)?;
    // Older kernels do not say (Linux 6.3); there the proof tells.
    if !doctor::kernel_at_least(&environment::kernel_release(), 6, 3)
        || features & (BASIC | TRANSMIT) == BASIC | TRANSMIT
    {
        return Ok(());
    }
    let remedy = if is_veth(&described(interface)?) {
        "if it is one end of a veth pair, the other end needs GRO: `ethtool -K OTHER-END gro on` where that is"
    } else {
        "use a card whose driver can, for example of Intel (igb, ixgbe, i40e, ice) or NVIDIA (mlx5)"
    };
    refused(interface, &format!("its driver cannot send what XDP redirects: {remedy}"))
}

/// Puts the zone's own addresses on the interface, so that the firewall's look-ups of them are answered.
fn take_addresses(
    addresses: &ZoneAddresses,
    interface: &str,
    journal: &mut Journal,
) -> Result<(), TestbedError> {
    let own = [format!("{}/32", addresses.own_v4()), format!("{}/128", addresses.own_v6())];
    let present = program::run("ip", &["-o", "address", "show", "dev", interface])?;
    for address in own.iter().filter(|address| !present.contains(&format!(" {address} "))) {
        journal.record(Change::Address { interface: interface.to_owned(), address: address.clone() })?;
        let mut arguments = vec!["address", "add", address, "dev", interface];
        if address.contains(':') {
            arguments.push("nodad");
        }
        program::run("ip", &arguments)?;
    }
    Ok(())
}

/// The firewall's Ethernet address, from the kernel's neighbour table after one datagram to it.
fn ask_for_gateway(addresses: &ZoneAddresses, interface: &str) -> Result<Mac, TestbedError> {
    let gateway = IpAddr::from(addresses.gateway_v4()).to_string();
    let own = addresses.own_v4().to_string();
    // `replace`, and with the interface named: no other route of the host is touched, and it goes with the address.
    program::run("ip", &["route", "replace", &gateway, "dev", interface, "src", &own])?;
    let answer = resolve(&gateway, &own, interface);
    program::run("ip", &["route", "del", &gateway, "dev", interface])?;
    answer
}

/// Waits until the neighbour's state is final: an answer, or the kernel's own three requests without one.
fn resolve(gateway: &str, own: &str, interface: &str) -> Result<Mac, TestbedError> {
    let silent = || {
        TestbedError::Impossible(format!(
            "--ports: no firewall is found behind {interface}: nothing there answers for {gateway}. Give the firewall that address, or \
             write its Ethernet address as {interface}=02:00:00:00:01:01"
        ))
    };
    let socket = UdpSocket::bind((own, 0)).map_err(TestbedError::io("bind to", own))?;
    socket.send_to(&[0], (gateway, 9)).map_err(|_| silent())?;
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        let text = program::run("ip", &["neighbour", "show", gateway, "dev", interface])?;
        let words: Vec<&str> = text.split_whitespace().collect();
        if let Some(mac) =
            words.iter().skip_while(|word| **word != "lladdr").nth(1).and_then(|m| Mac::parse(m))
        {
            return Ok(mac);
        }
        if words.contains(&"FAILED") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(silent())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_that_no_policy_was_proved() {
        let named = |name, stated| External::new(Some(name), stated, None).unwrap().name();
        assert_eq!(named("ACME 3000", Stated::Nothing), "ACME 3000 (no policy was proved)");
        assert_eq!(named("ACME 3000", Stated::Suite), "ACME 3000");
        for wrong in ["", " x", "a,b", "a{b}", "tab\t", &"x".repeat(41)] {
            let error = External::new(Some(wrong), Stated::Suite, None).err().map(|e| e.to_string());
            assert!(error.is_some_and(|error| error.contains("--name")), "{wrong}");
        }
    }

    #[test]
    fn who_is_logged_in_is_read() {
        let rows = [
            ("0 0 10.0.0.5:22 10.0.0.9:51122 users:((\"sshd\",pid=7,fd=4))", Some("10.0.0.9")),
            (
                "0 0 [fe80::1%eth0]:2222 [fe80::2%eth0]:4 users:((\"sshd-session\",pid=7,fd=4))",
                Some("fe80::2"),
            ),
            ("0 0 [::ffff:10.0.0.5]:22 [::ffff:10.0.0.9]:5", Some("10.0.0.9")),
            ("0 0 10.0.0.5:51122 10.0.0.9:443 users:((\"curl\",pid=7,fd=4))", None),
            ("", None),
        ];
        for (line, peer) in rows {
            assert_eq!(ssh_peer(line).as_deref(), peer, "{line}");
        }
    }

    #[test]
    fn ports_are_read() {
        let port: ExternalPort = "eth1=02:00:00:00:01:01".parse().unwrap();
        assert_eq!((port.interface.as_str(), port.gateway_mac), ("eth1", Some(Mac([2, 0, 0, 0, 1, 1]))));
        assert_eq!("eth1".parse::<ExternalPort>().unwrap().gateway_mac, None);
        for wrong in ["", "=02:00:00:00:01:01", "eth1=", "eth1=x", "a/b", "a-name-that-is-too-long"] {
            let error = wrong.parse::<ExternalPort>().unwrap_err().to_string();
            assert!(error.contains("--ports"), "{error}");
        }
    }
}
