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
use crate::journal::{Change, Journal};
use crate::layout::{BedLayout, Mac, PortEnd, ZoneAddresses, ZonePort};
use crate::netns::Namespace;
use crate::policy::PolicySpec;
use crate::program;
use measure::shape::{PolicyShape, Zone};
use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::str::FromStr;

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

/// The two interfaces as a bed: private first, hostile second. Dropping it takes its addresses off them.
#[derive(Debug)]
pub struct ExternalBed {
    layout: BedLayout,
    _journal: Journal,
}

impl ExternalBed {
    /// Describes two interfaces of the calling thread's namespace.
    ///
    /// # Errors
    /// Not root, no such interface, one that is down, or a firewall that does not answer for its address.
    pub fn describe(private: &ExternalPort, hostile: &ExternalPort) -> Result<Self, TestbedError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(TestbedError::NotRoot);
        }
        if private.interface == hostile.interface {
            return Err(TestbedError::Impossible(format!(
                "--ports names {} twice: the firewall must be between two interfaces",
                private.interface
            )));
        }
        let namespace = Namespace::current()?;
        let mut journal = Journal::start()?;
        let mut ports = Vec::new();
        let mut mtu = u16::MAX;
        for (zone, port) in [(Zone::Private, private), (Zone::Hostile, hostile)] {
            let facts = interface_facts(&port.interface)?;
            mtu = mtu.min(facts.mtu);
            let addresses = ZoneAddresses::of(zone);
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
            ports.push(ZonePort { zone, addresses, end, firewall: None, gateway_mac });
        }
        Ok(Self { layout: BedLayout { ports, mtu }, _journal: journal })
    }

    /// Addresses and interfaces of the two zones.
    pub fn layout(&self) -> &BedLayout {
        &self.layout
    }

    /// A firewall of which nothing is known but that it is there.
    pub fn running(&self) -> Box<dyn Running> {
        Box::new(Unknown)
    }
}

pub(super) struct External;

pub(super) const REMARK: &str =
    "the policy of an external firewall is its owner's: only that the test traffic passes was proved";

impl Driver for External {
    fn name(&self) -> &'static str {
        "external"
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
        Some(REMARK.to_owned())
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
        Err(TestbedError::Unsupported { dut: "external", what: "a reset by the bench".to_owned() })
    }
}

struct Facts {
    mac: Mac,
    mtu: u16,
}

fn interface_facts(interface: &str) -> Result<Facts, TestbedError> {
    let text = program::run("ip", &["-j", "link", "show", "dev", interface])?;
    let odd = || TestbedError::Impossible(format!("--ports: {interface} is no Ethernet interface"));
    let list: serde_json::Value = serde_json::from_str(&text).map_err(|_| odd())?;
    let link = list.get(0).ok_or_else(odd)?;
    let mac = link["address"].as_str().and_then(Mac::parse).ok_or_else(odd)?;
    let mtu = link["mtu"].as_u64().and_then(|mtu| u16::try_from(mtu).ok()).ok_or_else(odd)?;
    let up = link["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "LOWER_UP"));
    if !up {
        return Err(TestbedError::MachineCannot {
            what: format!("send through {interface}"),
            remedy: format!("it is down or has no carrier: plug it in and run `ip link set {interface} up`"),
        });
    }
    Ok(Facts { mac, mtu })
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
    let silent = || TestbedError::MachineCannot {
        what: format!("find the firewall behind {interface}"),
        remedy: format!(
            "nothing there answers for {gateway}: give the firewall that address, or write its Ethernet address as \
             {interface}=02:00:00:00:01:01"
        ),
    };
    let socket = UdpSocket::bind((own, 0)).map_err(TestbedError::io("bind to", own))?;
    socket.send_to(&[0], (gateway, 9)).map_err(|_| silent())?;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while std::time::Instant::now() < deadline {
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
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Err(silent())
}

#[cfg(test)]
mod tests {
    use super::*;

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
