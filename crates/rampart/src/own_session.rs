//! The SSH session that a command is given in. A policy that would cut it locks out whoever gives it, and is refused.

use crate::failure::Failure;
use jiff::Timestamp;
use nix::sys::socket::SockaddrLike as _;
use nix::sys::socket::SockaddrStorage;
use policy::Policy;
use policy::address::AddressSet;
use policy::interpret::{Decider, Packet, decide_listed};
use policy::lists::{OnLists, refusing};
use policy::model::{Action, SELF, Zone, ZoneId};
use policy::service::TCP;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// What sshd(8) calls its description of a connection to the programs in it: client, its port, server, its port.
const VARIABLE: &str = "SSH_CONNECTION";
/// More ancestors than a command has.
const MOST_ANCESTORS: usize = 64;

/// Both ends of the session's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    client: SocketAddr,
    server: SocketAddr,
}

/// Refuses a policy under which the session of this command could not be opened again, if there is one and its server's address is an
/// interface's of this network namespace.
///
/// # Errors
/// The policy would cut the session.
pub(crate) fn refuse_to_cut(policy: &Policy) -> Result<(), Failure> {
    let Some((session, interface)) =
        Session::here().and_then(|it| Some((it, interface_with(it.server.ip())?)))
    else {
        return Ok(());
    };
    let now = Timestamp::now();
    // What is wrong with a list is for whoever puts it in force to say.
    let lists = || crate::explain::contents(policy, now).unwrap_or_default();
    let Some(why) = cut_by(policy, session, &interface, lists, now) else { return Ok(()) };
    let Session { client, server } = session;
    Err(Failure::Wrong(format!(
        "{}: this policy would cut the SSH session that the command is given in, from {client} to {server} on {interface}: {why}\n  \
         allow it, or say --force if you have another way in",
        policy.file
    )))
}

/// The session of this command as a policy sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Who is at the other end.
    pub(crate) client: IpAddr,
    /// The server's port.
    pub(crate) port: u16,
    /// The interface that has the server's address.
    pub(crate) interface: String,
}

/// The session of this command, if there is one.
pub(crate) fn here() -> Option<Seen> {
    let session = Session::here()?;
    let interface = interface_with(session.server.ip())?;
    Some(Seen { client: session.client.ip(), port: session.server.port(), interface })
}

impl Session {
    /// The session of this process, or of the nearest of its ancestors that has one: sudo(8) hides it from what it starts.
    fn here() -> Option<Self> {
        if let Ok(text) = std::env::var(VARIABLE) {
            return Self::parse(&text);
        }
        let mut process = std::process::id();
        for _ in 0..MOST_ANCESTORS {
            process = parent(process).filter(|parent| *parent > 1)?;
            let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            let texts = environment.split(|byte| *byte == 0).filter_map(|it| std::str::from_utf8(it).ok());
            let mut values = texts.filter_map(|it| it.strip_prefix(VARIABLE)?.strip_prefix('='));
            if let Some(session) = values.find_map(Self::parse) {
                return Some(session);
            }
        }
        None
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let mut end = || {
            let (address, port) = (words.next()?, words.next()?);
            // A link-local address has its interface behind it.
            let address: IpAddr = address.split('%').next()?.parse().ok()?;
            Some(SocketAddr::new(address.to_canonical(), port.parse().ok()?))
        };
        Some(Self { client: end()?, server: end()? })
    }
}

/// proc_pid_stat(5): the command in parentheses, which may hold anything, the state, the parent.
fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The interface that has an address.
fn interface_with(address: IpAddr) -> Option<String> {
    let has_it = |at: &SockaddrStorage| match at.family() {
        Some(nix::sys::socket::AddressFamily::Inet) => at.as_sockaddr_in().map(|it| IpAddr::V4(it.ip())),
        _ => at.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())),
    };
    let mut all = nix::ifaddrs::getifaddrs().ok()?;
    all.find(|it| it.address.as_ref().and_then(has_it) == Some(address)).map(|it| it.interface_name)
}

/// Why the policy would not let the session be opened on the interface; `None` if it would. What arrives on an interface of no zone
/// is not the firewall's to judge.
fn cut_by(
    policy: &Policy,
    session: Session,
    interface: &str,
    lists: impl FnOnce() -> Vec<AddressSet>,
    at: Timestamp,
) -> Option<String> {
    let (from, zone) = zone_of(policy, interface)?;
    let (source, destination) = (session.client.ip(), session.server.ip());
    let packet = Packet {
        from,
        to: SELF,
        source,
        destination,
        source_port: session.client.port(),
        protocol: TCP,
        selector: session.server.port(),
    };
    if let Some((_, Some(translated))) = policy.translate_destination(&packet) {
        return Some(format!("a translation sends it to {}", translated.address));
    }
    if policy.settings.integrity.zones && !zone.networks.contains(source) {
        let other = policy.zones.iter().find(|other| other.networks.contains(source));
        if let Some(other) = other {
            let (other, own) = (&other.name, &zone.name);
            return Some(format!("{source} belongs to the networks of zone `{other}`, not `{own}`"));
        }
    }
    let lists = if policy.lists.is_empty() { Vec::new() } else { lists() };
    if let Some(by) = refusing(&policy.lists, &lists, source, destination) {
        return Some(format!("the list `{}` refuses {}", policy.lists[by.list].name, by.address));
    }
    let verdict = decide_listed(policy, &packet, OnLists::of(&lists, source, destination), at);
    match (verdict.action, verdict.decider) {
        (Action::Allow, _) => None,
        (action, Decider::Rule(rule)) => {
            Some(format!("the rule `{}` says {}", policy.rules[rule].name, action.name()))
        }
        (action, Decider::Default) => {
            let (zone, action) = (&zone.name, action.name());
            Some(format!("no rule matches, and the default from `{zone}` to `self` is {action}"))
        }
    }
}

fn zone_of<'p>(policy: &'p Policy, interface: &str) -> Option<(ZoneId, &'p Zone)> {
    let zone = policy.zone_of_interface(interface)?;
    Some((policy.zone(&zone.name)?, zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_what_its_server_says() {
        for (text, expected) in [
            ("203.0.113.7 50122 198.51.100.1 22", Some(("203.0.113.7:50122", "198.51.100.1:22"))),
            ("2001:db8::7 50122 2001:db8::1 2222", Some(("[2001:db8::7]:50122", "[2001:db8::1]:2222"))),
            ("::ffff:203.0.113.7 1 ::ffff:198.51.100.1 22", Some(("203.0.113.7:1", "198.51.100.1:22"))),
            ("fe80::7%eth0 1 fe80::1%eth0 22", Some(("[fe80::7]:1", "[fe80::1]:22"))),
            ("", None),
            ("203.0.113.7 50122 198.51.100.1", None),
            ("203.0.113.7 70000 198.51.100.1 22", None),
            ("UNKNOWN 65535 UNKNOWN 65535", None),
        ] {
            let expected = expected.map(|(client, server)| Session {
                client: client.parse().unwrap(),
                server: server.parse().unwrap(),
            });
            assert_eq!(Session::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_policy_is_asked_whether_the_session_could_be_opened_again() {
        let zones = "[zones]\nwan = { interfaces = 'e0', networks = '198.51.100.0/24' }\nlan = { interfaces = 'e1', networks = \
            '203.0.113.0/25' }\nmodem = { interfaces = 'ppp*' }\n";
        let ssh = |from: &str, more: &str| {
            format!(
                "[[rules]]\nname = 'ssh'\nfrom = '{from}'\nto = 'self'\nservice = 'ssh'\naction = 'allow'\n{more}\n"
            )
        };
        let deny = "[[rules]]\nname = 'no'\nfrom = 'modem'\nto = 'self'\nsource = '203.0.113.128/25'\naction = 'deny'\n";
        let lost = "[[nat]]\nname = 'away'\nfrom = 'modem'\nservice = 'tcp/22'\ndestination = '198.51.100.1'\ndestination_to = \
            '203.0.113.9'\n";
        let list = "[lists.bad]\nfile = 'bad.txt'\nblock = 'both'\n";
        let session = |client: &str| Session {
            client: format!("{client}:50122").parse().unwrap(),
            server: "198.51.100.1:22".parse().unwrap(),
        };
        for (what, rest, interface, client, why) in [
            (
                "nothing is said",
                String::new(),
                "ppp0",
                "192.0.2.7",
                Some("the default from `modem` to `self`"),
            ),
            ("it is allowed", ssh("modem", ""), "ppp0", "192.0.2.7", None),
            ("it is no zone's", String::new(), "e9", "192.0.2.7", None),
            ("from another zone", ssh("lan", ""), "ppp0", "192.0.2.7", Some("no rule matches")),
            ("from others", ssh("modem", "source = '192.0.2.8'"), "ppp0", "192.0.2.7", Some("no rule")),
            (
                "one above",
                deny.to_owned() + &ssh("modem", ""),
                "ppp0",
                "203.0.113.200",
                Some("`no` says deny"),
            ),
            ("beside it", deny.to_owned() + &ssh("modem", ""), "ppp0", "192.0.2.7", None),
            ("another zone's", ssh("modem", ""), "ppp0", "203.0.113.7", Some("networks of zone `lan`")),
            ("its own", ssh("lan", ""), "e1", "203.0.113.7", None),
            ("translated", lost.to_owned() + &ssh("modem", ""), "ppp0", "192.0.2.7", Some("to 203.0.113.9")),
            ("listed", list.to_owned() + &ssh("modem", ""), "ppp0", "192.0.2.9", Some("`bad` refuses")),
            ("not listed", list.to_owned() + &ssh("modem", ""), "ppp0", "192.0.2.7", None),
        ] {
            let policy =
                Policy::parse("p", &format!("{zones}{rest}")).unwrap_or_else(|e| panic!("{what}: {e}"));
            let lists = || vec![AddressSet::parse("192.0.2.9").unwrap()];
            let found = cut_by(&policy, session(client), interface, lists, Timestamp::UNIX_EPOCH);
            assert_eq!(found.is_some(), why.is_some(), "{what}: {found:?}");
            assert!(found.unwrap_or_default().contains(why.unwrap_or_default()), "{what}");
        }
    }

    #[test]
    fn the_interface_with_an_address_is_found_and_ancestors_are_walked() {
        assert_eq!(interface_with("127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
        assert_eq!(interface_with("192.0.2.77".parse().unwrap()), None);
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }
}
