//! `external`: whatever is between two interfaces that the user names, usually real cards. Nothing of it is set up;
//! it is described so that the generator and the sink can work, and that is all. Its counters are unknown.
//!
//! The firewall must be configured by its owner as the bed's addressing says ([`crate::layout`]): 198.18.0.1 and
//! 2001:2:0:1::1 on the private side, 198.19.0.1 and 2001:2:0:2::1 on the hostile side, and routes to 198.18.0.0/16
//! and 2001:2:0:1::/64 through 198.18.0.2 and 2001:2:0:1::2, to 198.19.0.0/17 and 2001:2:0:2::/64 through
//! 198.19.0.2 and 2001:2:0:2::2. For floods it also routes 10.0.0.0/8 and 2001:2:1::/104, where attackers are, through the
//! private side's. Those last addresses are put on the named interfaces for as long as the bed
//! lives, so that the firewall's neighbour look-ups are answered; nothing else of the host is touched.

use super::{Capabilities, Driver, Requirement, Running, admit};
use crate::bed::{Bed, ifindex};
use crate::error::TestbedError;
use crate::interface::{NamedInterfaces, facts, refused, wait_for_carrier};
use crate::journal::{Change, Journal};
use crate::layout::{BedLayout, Mac, PortEnd, ZoneAddresses, ZonePort};
use crate::netns::Namespace;
use crate::policy::{PolicySpec, Probe, StatedTraffic};
use crate::program;
use measure::shape::{IpVersion, PolicyShape, Setup, TestProtocol, Zone};
use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::str::FromStr;
use std::time::{Duration, Instant};
use toml_reader::printable;

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
    ports: Vec<(Zone, ExternalPort)>,
    _interfaces: NamedInterfaces,
}

impl ExternalPorts {
    /// Whether two interfaces are such that [`ExternalPorts::check`] could take them. Changes nothing, and needs neither root nor the machine.
    ///
    /// # Errors
    /// [`TestbedError::Impossible`] says of the first interface that cannot be used why, and what to do.
    pub fn look_at(private: &ExternalPort, hostile: &ExternalPort, force: bool) -> Result<(), TestbedError> {
        let interfaces = two_of(private, hostile)?;
        NamedInterfaces::look_at(&interfaces, force).map_err(|(_, error)| of_option(error))
    }

    /// Looks at two interfaces of the calling thread's namespace, and brings them up where they are down. `force` takes one through
    /// which the machine is reached as well.
    ///
    /// # Errors
    /// Not root; otherwise [`TestbedError::Impossible`] says of the first interface that cannot be used why, and what to do.
    pub fn check(private: &ExternalPort, hostile: &ExternalPort, force: bool) -> Result<Self, TestbedError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(TestbedError::NotRoot);
        }
        let interfaces = two_of(private, hostile)?;
        let taken = NamedInterfaces::take(&interfaces, force).map_err(|(_, error)| of_option(error))?;
        let ports = vec![(Zone::Private, private.clone()), (Zone::Hostile, hostile.clone())];
        Ok(Self { ports, _interfaces: taken })
    }

    /// The same of one interface, that of a zone, where the other one is at another host.
    ///
    /// # Errors
    /// As of [`ExternalPorts::check`].
    pub fn check_one(zone: Zone, port: &ExternalPort, force: bool) -> Result<Self, TestbedError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(TestbedError::NotRoot);
        }
        let taken =
            NamedInterfaces::take(&[&port.interface], force).map_err(|(_, error)| of_option(error))?;
        Ok(Self { ports: vec![(zone, port.clone())], _interfaces: taken })
    }

    /// The interfaces as a bed.
    ///
    /// # Errors
    /// A firewall that does not answer for its address, or an interface that is gone.
    pub fn bed(&self) -> Result<ExternalBed, TestbedError> {
        let namespace = Namespace::current()?;
        let mut journal = Journal::start()?;
        let mut ports = Vec::new();
        let mut mtu = u16::MAX;
        for (zone, port) in &self.ports {
            wait_for_carrier(&port.interface).map_err(of_option)?;
            let facts = facts(&port.interface).map_err(of_option)?;
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

/// The names of two interfaces, which are not one.
fn two_of<'a>(private: &'a ExternalPort, hostile: &'a ExternalPort) -> Result<[&'a str; 2], TestbedError> {
    if private.interface == hostile.interface {
        let why = "it is named twice: the firewall must be between two interfaces";
        return refused(&private.interface, why).map_err(of_option);
    }
    Ok([private, hostile].map(|port| port.interface.as_str()))
}

/// What is wrong with an interface is wrong with the option that names it.
fn of_option(error: TestbedError) -> TestbedError {
    match error {
        TestbedError::Impossible(why) => TestbedError::Impossible(format!("--ports: {why}")),
        other => other,
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
        Self::unknown()
    }

    /// The same where its interfaces are at other hosts.
    pub fn unknown() -> Box<dyn Running> {
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
pub(super) const NAME: &str = "external";
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

const SEPARATORS: &str = " -_.+/";

/// A name that reports and expressions can carry, or why it is none.
pub(super) fn checked_name(name: &str) -> Result<&str, String> {
    // Other alphabets have letters that look like these.
    let fits = |c: char| c.is_ascii_alphanumeric() || SEPARATORS.contains(c);
    if name.trim() == name && (1..=LONGEST_NAME).contains(&name.chars().count()) && name.chars().all(fits) {
        return Ok(name);
    }
    Err(format!(
        "the name `{}` has not 1 to {LONGEST_NAME} letters from A to Z, digits, spaces and any of - _ . + /",
        printable(name)
    ))
}

/// Whether two names could be taken for each other in a report: they differ in capitals, in what separates words, or in signs that look
/// alike.
pub(super) fn look_alike(one: &str, other: &str) -> bool {
    let seen = |name: &str| -> String {
        // Whether a policy was proved makes no other name.
        let bare = name.split_once(" (").map_or(name, |(bare, _)| bare);
        let plain = bare.to_lowercase().replace(|c| SEPARATORS.contains(c), "");
        let same = plain.replace('0', "o").replace(['1', 'i'], "l").replace('5', "s").replace('8', "b");
        same.replace("rn", "m").replace("vv", "w")
    };
    seen(one) == seen(other)
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
        // The fifth and the sixth have a Cyrillic letter and one without width.
        for wrong in ["", " x", "a,b", "a{b}", "nft\u{430}bles", "nf\u{200b}tables", "tab\t", &"x".repeat(41)]
        {
            let error = External::new(Some(wrong), Stated::Suite, None).err().map(|e| e.to_string());
            let error = error.unwrap_or_default();
            assert!(error.contains("--name") && printable(&error) == error, "{wrong}: {error}");
        }
    }

    #[test]
    fn names_that_could_be_taken_for_each_other_are_alike() {
        for (one, other, alike) in [
            ("nftables", "nftables", true),
            ("nftables", "NFTables", true),
            ("nftables", "nft-ables", true),
            ("nftables", "nftab1es", true),
            ("nftables", "nftables (no policy was proved)", true),
            ("rampart-tc", "rampart.tc", true),
            ("iptables", "lptables", true),
            ("wire", "vvire", true),
            ("external", "extemal", true),
            ("linux", "linux-bridge", false),
            ("nftables", "nftables-map", false),
            ("ACME 3000", "ACME 3100", false),
        ] {
            assert_eq!(look_alike(one, other), alike, "{one} {other}");
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
