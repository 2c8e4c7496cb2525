//! Application gateways of a policy: who may ask for what through which of them. Only says so; the gateways themselves know nothing of policies.

use crate::address::AddressSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The most gateways of a policy.
pub const MOST_GATEWAYS: usize = 16;
/// The most rules of a gateway.
pub const MOST_RULES: usize = 4096;
/// The most files of hosts of a rule.
pub const MOST_FILES: usize = 16;
/// The most words of one key of a rule.
pub const MOST_WORDS: usize = 4096;

/// `[gateways.NAME]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Its name.
    pub name: String,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who asks it, and for what.
    pub mode: Mode,
    /// Rules; the first that matches decides.
    pub rules: Vec<GatewayRule>,
    /// Addresses of the machine, of a link or of nobody that may be connected to all the same.
    pub reach: AddressSet,
    /// Ports of `http://`, or of servers of FTP.
    pub ports: Vec<u16>,
    /// Ports of `CONNECT`.
    pub connect_ports: Vec<u16>,
    /// Name servers; none: the machine's.
    pub resolvers: Vec<SocketAddr>,
    /// Whether names are looked up.
    pub look_up: bool,
    /// Whether names of clients are, for events.
    pub client_names: bool,
    /// How long a decision is kept; zero is not at all.
    pub decisions: Duration,
    /// Whether servers learn the client's address.
    pub forwarded_for: bool,
    /// The file of those who may log in, as it is written; `None`: nobody does.
    pub users_file: Option<String>,
    /// Limits.
    pub limits: GatewayLimits,
}

/// What a gateway speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP.
    Http,
    /// FTP.
    Ftp {
        /// The first and the last port at which it waits for data connections.
        data_ports: (u16, u16),
        /// Whether servers connect to it for data, instead of it to servers.
        is_active: bool,
    },
    /// DNS. Hosts of its rules are names, methods are types of records, and resolvers are whom it asks.
    Dns(Dns),
}

/// What is a gateway of DNS's alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// Names with their addresses; the first view that has the client counts.
    pub views: Vec<View>,
    /// Zones of which nobody else is asked.
    pub local: Vec<String>,
    /// Bytes of answers that are kept.
    pub cache: u64,
    /// Answers in a second for one client.
    pub rate: u32,
}

/// `[[gateways.NAME.views]]`: names as some clients know them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Clients; `None`: everybody.
    pub source: Option<AddressSet>,
    /// Files in the form of `/etc/hosts`, as they are written here; what an earlier one says of a name, a later one does not change.
    pub files: Vec<String>,
    /// Addresses with their names, as the policy itself has them: before the files.
    pub entries: Vec<HostEntry>,
}

/// An address with its names, in small letters.
pub type HostEntry = (IpAddr, Vec<String>);

impl Protocol {
    /// The word of the policy, which reasons of events begin with too.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Ftp { .. } => "ftp",
            Self::Dns(_) => "dns",
        }
    }
}

/// Commands of FTP that rules of a gateway are about.
pub const FTP_METHODS: [&str; 12] =
    ["RETR", "LIST", "NLST", "STOR", "STOU", "APPE", "DELE", "RMD", "MKD", "RNFR", "RNTO", "MFMT"];

/// Types of records that rules of a gateway of DNS are about, beside numbers (`TYPE65280`).
pub const DNS_TYPES: [&str; 27] = [
    "A",
    "AAAA",
    "ANY",
    "CAA",
    "CERT",
    "CNAME",
    "DNAME",
    "DNSKEY",
    "DS",
    "HINFO",
    "HTTPS",
    "LOC",
    "MX",
    "NAPTR",
    "NS",
    "OPENPGPKEY",
    "PTR",
    "RP",
    "SOA",
    "SPF",
    "SRV",
    "SSHFP",
    "SVCB",
    "SMIMEA",
    "TLSA",
    "TXT",
    "URI",
];

/// Who asks a gateway, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Clients name the gateway as their proxy.
    Explicit,
    /// Clients do not know of it: rules of the packet filter hand it their connections.
    Transparent,
    /// Published servers by the names that clients outside know.
    Publish(Vec<(String, SocketAddr)>),
}

impl Gateway {
    /// Whether rules of the packet filter hand it connections.
    pub fn is_transparent(&self) -> bool {
        self.mode == Mode::Transparent
    }
}

/// A rule of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayRule {
    /// Its name.
    pub name: String,
    /// Whether the request passes.
    pub allow: bool,
    /// Clients; `None`: everybody.
    pub source: Option<AddressSet>,
    /// Hosts; none, and no files of them: every host.
    pub hosts: Vec<String>,
    /// Files of more hosts, as they are written; nobody reads them here.
    pub host_files: Vec<String>,
    /// Paths; none: every path.
    pub paths: Vec<String>,
    /// Methods; none: every method.
    pub methods: Vec<String>,
    /// Users who have logged in: a name, `@` and a group, or `*`, which is all of them; none: whoever asks.
    pub users: Vec<String>,
    /// When it holds: a place in [`crate::Policy::schedules`]; `None` is always.
    pub schedule: Option<usize>,
    /// Bytes of a request's body at most.
    pub largest_request: Option<u64>,
    /// Bytes of an answer's body at most.
    pub largest_answer: Option<u64>,
    /// Types of an answer's content that pass, and with `!` before them those that do not; none: every type.
    pub content_types: Vec<String>,
    /// Whether tunnels must be TLS for the host that they name.
    pub server_name: bool,
    /// Of DNS: whether names and addresses of private networks may come from name servers.
    pub private_answers: bool,
    /// Whether requests that pass are recorded.
    pub log: bool,
    /// Whether it takes part.
    pub enabled: bool,
}

/// Limits of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Connections of clients at once, 1 to 100,000.
    pub connections: u32,
    /// Of them, those of one client.
    pub connections_per_client: u32,
    /// Bytes of a head, 1,024 to 65,536.
    pub head_bytes: u32,
    /// Fields of a head, 1 to 200.
    pub head_fields: u32,
    /// How long a head may take, 1 s to 10 min.
    pub head_time: Duration,
    /// How long nothing may come, 1 s to 1 h.
    pub idle: Duration,
    /// How long it may take to connect to a server, 1 s to 10 min.
    pub connect_time: Duration,
    /// How long a server may take for an answer, 1 s to 1 h.
    pub answer_time: Duration,
    /// Connections to servers that are kept open, 0 to 10,000.
    pub pooled: u32,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connections: 10_000,
            connections_per_client: 256,
            head_bytes: 16_384,
            head_fields: 100,
            head_time: seconds(10),
            idle: seconds(60),
            connect_time: seconds(10),
            answer_time: seconds(60),
            pooled: 256,
        }
    }
}
