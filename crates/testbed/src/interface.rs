//! Interfaces of this machine that the user named: whether they can be used, what they are, and bringing them up. Of an interface that
//! somebody needs for something else, nothing is changed.

use crate::bed::ifindex;
use crate::dut::xdp_redirect;
use crate::error::TestbedError;
use crate::journal::{Change, Journal};
use crate::layout::{Mac, PortEnd};
use crate::netns::Namespace;
use crate::{doctor, environment, program};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Interfaces that were looked at and can be used, for traffic that somebody else describes. They are brought up; dropping it takes down
/// again what was down.
#[derive(Debug)]
pub struct NamedInterfaces {
    ends: Vec<(PortEnd, u16)>,
    _journal: Journal,
}

impl NamedInterfaces {
    /// Whether interfaces of the calling thread's namespace are such that they could be taken once nobody else measures. Changes nothing,
    /// and is no matter of what a run that goes on has on them.
    ///
    /// # Errors
    /// Which of them, by its place, and why.
    pub fn look_at(interfaces: &[&str], force: bool) -> Result<(), (usize, TestbedError)> {
        let mut all = interfaces.iter().enumerate();
        all.try_for_each(|(at, name)| check_fit(name, force).map_err(|error| (at, error)))
    }

    /// Looks at interfaces of the calling thread's namespace. `force` takes one through which the machine is reached as well.
    ///
    /// # Errors
    /// Which of them, by its place, and why: not root, an interface that is not there, in use, or without carrier or XDP.
    pub fn take(interfaces: &[&str], force: bool) -> Result<Self, (usize, TestbedError)> {
        let mut journal = Journal::start().map_err(|error| (0, error))?;
        let namespace = Namespace::current().map_err(|error| (0, error))?;
        let each = |work: &mut dyn FnMut(&str) -> Result<(), TestbedError>| {
            interfaces.iter().enumerate().try_for_each(|(at, name)| work(name).map_err(|error| (at, error)))
        };
        each(&mut |name| check_fit(name, force).and_then(|()| check_free(name)))?;
        each(&mut |name| bring_up(name, &mut journal))?;
        // One end of a veth pair has its carrier when the other is up, so all are brought up before.
        each(&mut |name| wait_for_carrier(name).and_then(|()| check_redirect(name)))?;
        let mut ends = Vec::new();
        each(&mut |name| {
            let Facts { mac, mtu } = facts(name)?;
            let ifindex = ifindex(&namespace, name)?;
            ends.push((PortEnd { namespace: namespace.clone(), device: name.to_owned(), ifindex, mac }, mtu));
            Ok(())
        })?;
        Ok(Self { ends, _journal: journal })
    }

    /// The interfaces in their order, each with its MTU.
    pub fn ends(&self) -> &[(PortEnd, u16)] {
        &self.ends
    }
}

/// Whether an interface of the calling thread's namespace has a carrier.
///
/// # Errors
/// It is gone.
pub fn has_carrier(interface: &str) -> Result<bool, TestbedError> {
    Ok(has_flag(&described(interface)?, "LOWER_UP"))
}

/// Brings an interface of the calling thread's namespace up or down.
///
/// # Errors
/// It is gone, or the caller may not.
pub fn set_link(interface: &str, up: bool) -> Result<(), TestbedError> {
    program::run("ip", &["link", "set", "dev", interface, if up { "up" } else { "down" }]).map(drop)
}

pub(crate) struct Facts {
    pub(crate) mac: Mac,
    pub(crate) mtu: u16,
}

pub(crate) fn refused<T>(interface: &str, why: &str) -> Result<T, TestbedError> {
    Err(TestbedError::Impossible(format!("{interface} cannot be used: {why}")))
}

/// An interface as `ip -j` describes it.
fn described(interface: &str) -> Result<Value, TestbedError> {
    let text = match program::run("ip", &["-d", "-j", "link", "show", "dev", interface]) {
        Ok(text) => text,
        Err(TestbedError::ProgramFailed { .. }) => {
            return refused(
                interface,
                "there is no such interface here: `ip -br link` shows those that there are",
            );
        }
        Err(error) => return Err(error),
    };
    let list: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(list[0].clone())
}

pub(crate) fn facts(interface: &str) -> Result<Facts, TestbedError> {
    let link = described(interface)?;
    let mac = link["address"].as_str().and_then(Mac::parse).filter(|_| link["link_type"] == "ether");
    match (mac, link["mtu"].as_u64().and_then(|mtu| u16::try_from(mtu).ok())) {
        (Some(mac), Some(mtu)) => Ok(Facts { mac, mtu }),
        _ => refused(interface, "it is no Ethernet interface"),
    }
}

/// It is an Ethernet interface through which nobody reaches this machine.
fn check_fit(interface: &str, force: bool) -> Result<(), TestbedError> {
    facts(interface)?;
    match needed_for(interface)? {
        Some(why) if !force => refused(
            interface,
            &format!("{why}, so a test would cut this machine off: name another interface, or add --force"),
        ),
        _ => Ok(()),
    }
}

/// No XDP program is on it.
fn check_free(interface: &str) -> Result<(), TestbedError> {
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
    Ok(())
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
pub(crate) fn wait_for_carrier(interface: &str) -> Result<(), TestbedError> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
