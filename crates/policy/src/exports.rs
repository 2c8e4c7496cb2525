//! Where a policy sends what happens: events to collectors of syslog and to journald, records of flows to collectors of IPFIX. Only says so;
//! who sends knows nothing of policies.

use crate::model::{Action, Policy, Rule, SELF};
use crate::service::{TCP, UDP};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The most collectors of one kind.
pub const MOST_COLLECTORS: usize = 4;

/// Where journald listens, where a policy says no other place.
pub const JOURNALD: &str = "/run/systemd/journal/socket";

/// A port that a program sends from, where a rule asks for one.
const ANY_PORT: u16 = 49_152;

/// `[log]`: nothing leaves the machine unless the policy says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exports {
    /// Socket of journald; `None`: nothing is sent to it.
    pub journald: Option<PathBuf>,
    /// Collectors of syslog, [`MOST_COLLECTORS`] at most.
    pub syslog: Vec<Collector>,
    /// Facility of syslog messages (RFC 5424 section 6.2.1), a place in [`FACILITIES`].
    pub facility: u8,
    /// The user's private enterprise number, 1 to 2^32 - 1, under which names of our own are sent.
    pub enterprise: Option<u32>,
    /// Records of flows.
    pub ipfix: Option<Ipfix>,
    /// How collectors by TLS and the firewall know each other; `None`: there are no such collectors.
    pub tls: Option<Tls>,
}

/// `[log.tls]`: files in PEM, as they are written; nobody reads them here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificates, one of which has signed the collectors'.
    pub ca: String,
    /// The name in the collectors' certificates; `None`: each one's address is in its own.
    pub name: Option<String>,
    /// The firewall's certificate and its key, for collectors that want one.
    pub own: Option<(String, String)>,
}

/// `[log.ipfix]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ipfix {
    /// Collectors, one to [`MOST_COLLECTORS`].
    pub collectors: Vec<Collector>,
    /// Observation domain (RFC 7011 section 3.1), 1 to 2^32 - 1.
    pub domain: u32,
    /// The most flows a second of whose end there is a record, 1 to 1,000,000.
    pub rate: u32,
    /// How often templates are sent again over UDP, 1 s to 1 d.
    pub templates: Duration,
    /// How often a flow that goes on has a record, 1 s to 7 d; `None`: only at its end.
    pub active_timeout: Option<Duration>,
}

/// Who collects what is sent over the network.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collector {
    /// How it is reached.
    pub transport: Transport,
    /// Where it listens.
    pub address: SocketAddr,
}

/// How a collector is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams, of which some may be lost on the way without anybody's notice.
    Udp,
    /// A connection.
    Tcp,
    /// A connection that is encrypted, to a collector that proves who it is.
    Tls,
}

impl Transport {
    /// All of them, as policies write them.
    pub const NAMES: [(&'static str, Transport); 3] =
        [("udp", Transport::Udp), ("tcp", Transport::Tcp), ("tls", Transport::Tls)];

    /// As policies write it.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
        }
    }

    /// Its protocol number.
    const fn protocol(self) -> u8 {
        match self {
            Transport::Udp => UDP,
            Transport::Tcp | Transport::Tls => TCP,
        }
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.transport.name(), self.address)
    }
}

/// Names of facilities, each at the place of its number: RFC 5424 table 1, with the names of rsyslog and syslog-ng.
pub const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

impl Default for Exports {
    fn default() -> Self {
        Self { journald: None, syslog: Vec::new(), facility: 16, enterprise: None, ipfix: None, tls: None }
    }
}

impl Exports {
    /// Every collector on the network.
    pub fn collectors(&self) -> impl Iterator<Item = &Collector> {
        self.syslog.iter().chain(self.ipfix.iter().flat_map(|ipfix| &ipfix.collectors))
    }
}

impl Policy {
    /// Collectors that the firewall's own packets do not reach, whatever its routes are: no rule and no default lets them out. Each once.
    pub fn unreachable_collectors(&self) -> Vec<&Collector> {
        let mut found: Vec<&Collector> = Vec::new();
        for collector in self.settings.exports.collectors() {
            if !found.contains(&collector) && !self.lets_out(collector) {
                found.push(collector);
            }
        }
        found
    }

    fn lets_out(&self, collector: &Collector) -> bool {
        let Collector { transport, address } = collector;
        // What stays on the machine passes no program of ours.
        if address.ip().is_loopback() {
            return true;
        }
        let lets_out = |rule: &&Rule| {
            rule.enabled
                && rule.effect.action == Action::Allow
                && rule.from & 1 << SELF != 0
                && (rule.destination.contains(address.ip()) || rule.destination_lists != 0)
                && rule.service.contains(transport.protocol(), ANY_PORT, address.port())
        };
        let from_self = usize::from(SELF) * self.zones.len();
        let defaults = &self.defaults[from_self..from_self + self.zones.len()];
        self.rules.iter().any(|rule| lets_out(&rule))
            || defaults.iter().any(|default| default.action == Action::Allow)
    }
}
