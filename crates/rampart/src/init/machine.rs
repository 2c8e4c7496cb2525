//! What `rampart init` sees of the machine: interfaces with their addresses, the way out, and how it is managed.

use crate::own_session;
use dataplane::routes;
use ipnet::IpNet;
use nix::sys::socket::{AddressFamily, SockaddrLike as _, SockaddrStorage};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Where the kernel names interfaces.
const LINKS: &str = "/sys/class/net";

/// What there is to be seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    pub(super) links: Vec<Link>,
    /// Where packets to nowhere else go.
    pub(super) way_out: Vec<String>,
    /// The SSH session that the command is given in: who is at its other end, and the interface by which it comes.
    pub(super) session: Option<(IpAddr, String)>,
    /// Ports of SSH.
    pub(super) ssh: BTreeSet<u16>,
    /// What is worth knowing before the policy is put in force.
    pub(super) notes: Vec<String>,
}

/// An interface that could be in a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) networks: Vec<IpNet>,
}

impl Machine {
    pub(super) fn look() -> io::Result<Self> {
        let interfaces = routes::interfaces().map_err(|error| io::Error::other(error.to_string()))?;
        let addresses = addresses()?;
        let in_zones =
            interfaces.iter().filter(|it| !it.is_loopback() && it.unfit().is_none() && !is_port(&it.name));
        let (named, unnamed): (Vec<_>, Vec<_>) = in_zones.partition(|it| can_be_named(&it.name));
        let links: Vec<Link> = named
            .into_iter()
            .map(|it| Link {
                name: it.name.clone(),
                networks: addresses
                    .iter()
                    .filter(|(name, _)| *name == it.name)
                    .map(|(_, net)| *net)
                    .collect(),
            })
            .collect();
        let session = own_session::here();
        let mut ssh = configured_ports(Path::new("/etc/ssh"));
        ssh.extend(session.as_ref().map(|it| it.port));
        if ssh.is_empty() {
            ssh.insert(22);
        }
        let others = dataplane::others::found().unwrap_or_default();
        let notes = others
            .into_iter()
            .map(|what| format!("the firewall would forward past what is set up here: {what}"));
        let unnamed = unnamed.into_iter().map(|it| {
            format!("the interface `{}` is in no zone: in a policy `*` stands for any name, so give it another one", it.name)
        });
        Ok(Self {
            way_out: way_out(
                &std::fs::read_to_string("/proc/net/route").unwrap_or_default(),
                &std::fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default(),
            ),
            session: session.map(|it| (it.client, it.interface)),
            ssh,
            notes: notes.chain(unnamed).collect(),
            links,
        })
    }

    pub(super) fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// Networks behind some interfaces.
    pub(super) fn networks(&self, names: &[String]) -> Vec<IpNet> {
        let of =
            names.iter().filter_map(|name| self.link(name)).flat_map(|link| link.networks.iter().copied());
        of.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Whether a policy can name an interface and mean it alone.
pub(super) fn can_be_named(name: &str) -> bool {
    !name.contains('*')
}

/// Whether an interface is a part of a bridge or a bond, whose packets belong to that.
fn is_port(name: &str) -> bool {
    let link = Path::new(LINKS).join(name);
    // A VRF is a master too, and its interfaces are ordinary ones.
    link.join("brport").exists() || link.join("bonding_slave").exists()
}

/// The networks of interfaces, but for those that every link has.
fn addresses() -> io::Result<Vec<(String, IpNet)>> {
    let all = nix::ifaddrs::getifaddrs()?;
    let net = |it: nix::ifaddrs::InterfaceAddress| {
        let (address, mask) = (ip(it.address.as_ref()?)?, ip(it.netmask.as_ref()?)?);
        let net = IpNet::with_netmask(address, mask).ok()?.trunc();
        let is_of_every_link = matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
        (!is_of_every_link).then_some((it.interface_name, net))
    };
    Ok(all.filter_map(net).collect())
}

fn ip(at: &SockaddrStorage) -> Option<IpAddr> {
    match at.family()? {
        AddressFamily::Inet => at.as_sockaddr_in().map(|it| IpAddr::V4(it.ip())),
        AddressFamily::Inet6 => at.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())),
        _ => None,
    }
}

/// Interfaces of default routes, in the tables of /proc/net: destination and mask of nothing but zeros.
pub(super) fn way_out(ipv4: &str, ipv6: &str) -> Vec<String> {
    let ipv4 = ipv4.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_default = words.get(1) == Some(&"00000000") && words.get(7) == Some(&"00000000");
        words.first().filter(|_| is_default).map(|name| (*name).to_owned())
    });
    let ipv6 = ipv6.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_default = words.first()?.bytes().all(|digit| digit == b'0') && *words.get(1)? == "00";
        // The kernel's own route for what has none goes to the loopback interface.
        words.get(9).filter(|name| is_default && **name != "lo").map(|name| (*name).to_owned())
    });
    let mut found = Vec::new();
    for name in ipv4.chain(ipv6) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The ports that sshd's configuration names, if it names any (sshd_config(5)).
pub(super) fn configured_ports(folder: &Path) -> BTreeSet<u16> {
    let more = std::fs::read_dir(folder.join("sshd_config.d"));
    let more = more.into_iter().flatten().flatten().map(|entry| entry.path());
    let files = more
        .filter(|path| path.extension().is_some_and(|it| it == "conf"))
        .chain([folder.join("sshd_config")]);
    let texts: Vec<String> = files.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let port = |line: &str| {
        let (key, value) = line.trim().split_once(|c: char| c.is_ascii_whitespace() || c == '=')?;
        if key.eq_ignore_ascii_case("port") { value.trim().parse().ok() } else { None }
    };
    texts.iter().flat_map(|text| text.lines()).filter_map(port).collect()
}
