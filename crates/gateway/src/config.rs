//! What a gateway is to do: what its process is given, complete and checked. Rules are those that hold at the moment; when another moment
//! comes, the process is given another set.

use crate::dns::view::View;
use crate::hosts::HostSet;
use crate::http::head;
use crate::users::Users;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// Its name, for pages, events and `Via`.
    pub name: String,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who asks it, and for what.
    pub mode: Mode,
    /// Rules; the first that matches decides, and where none matches the request is refused.
    pub rules: Vec<Rule>,
    /// Hosts of files, which rules share.
    pub host_sets: Vec<Arc<HostSet>>,
    /// Addresses that it may connect to although they are its own machine's, a link's or nobody's.
    pub reach: Addresses,
    /// Ports that requests for `http://`, or clients of FTP, may name.
    pub ports: Vec<u16>,
    /// Ports that `CONNECT` may name.
    pub connect_ports: Vec<u16>,
    /// Name servers; none: those of `/etc/resolv.conf`.
    pub resolvers: Vec<SocketAddr>,
    /// Whether names are looked up at all.
    pub look_up: bool,
    /// Whether names of clients are looked up, for events.
    pub client_names: bool,
    /// How long a decision is kept; zero: each request is decided anew.
    pub decisions: Duration,
    /// Whether servers learn the client's address, by `X-Forwarded-For`.
    pub forwarded_for: bool,
    /// Who may log in; `None`: nobody does, and what clients say of it is none of this gateway's business.
    pub users: Option<Users>,
    /// Limits.
    pub limits: Limits,
}

/// What a gateway speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// FTP.
    Ftp(Ftp),
    /// DNS.
    Dns(Dns),
}

/// What a gateway of DNS knows and keeps. Hosts of its rules are names that are asked for, methods are types of records, and resolvers are whom it asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// Names with their addresses; the first view that has the client counts.
    pub views: Vec<View>,
    /// Zones of which nobody else is asked.
    pub local: Vec<String>,
    /// Names, and `*.` with what names end with, whose addresses rules of the packet filter go by.
    pub domains: Vec<String>,
    /// Bytes of answers that are kept.
    pub cache: usize,
    /// Answers in a second for one client.
    pub rate: u32,
}

/// How a gateway of FTP has data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ftp {
    /// The first and the last port at which it waits for data connections.
    pub data_ports: (u16, u16),
    /// Whether servers connect to it, instead of it to servers.
    pub is_active: bool,
}

/// Who asks, and for what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Clients name this gateway as their proxy.
    Explicit,
    /// Clients do not know of it: what they connect to is the address that they asked for.
    Transparent,
    /// Clients outside ask for servers inside, by name.
    Publish(Vec<Server>),
}

/// A published server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The name, in small letters, that clients know it by.
    pub host: String,
    /// Where it is.
    pub to: SocketAddr,
}

/// What may be asked for, by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// Whether the request passes.
    pub allow: bool,
    /// Clients; `None`: everybody.
    pub source: Option<Addresses>,
    /// Hosts: a name, an address, or `*.` and what a name ends with; none, and no sets of them: every host.
    pub hosts: Vec<String>,
    /// More of them: places in [`Gateway::host_sets`].
    pub host_sets: Vec<usize>,
    /// Paths, in which `*` is anything; none: every path, and `CONNECT` too.
    pub paths: Vec<String>,
    /// Methods; none: every method.
    pub methods: Vec<String>,
    /// Users who have logged in: a name, `@` and a group, or `*`, which is all of them; none: whoever asks.
    pub users: Vec<String>,
    /// Bytes of a request's body at most.
    pub largest_request: Option<u64>,
    /// Bytes of an answer's body at most.
    pub largest_answer: Option<u64>,
    /// Types of an answer's content that pass: `text/html`, `image/*`, and with `!` before them those that do not; none: every type.
    pub content_types: Vec<String>,
    /// Whether what begins in the tunnel of `CONNECT` must be TLS for the host that it names.
    pub server_name: bool,
    /// Of DNS: whether names and addresses of private networks may come from name servers.
    pub private_answers: bool,
    /// Whether requests that pass are recorded. Those that are refused always are.
    pub log: bool,
}

/// Addresses, as ranges with both ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses(pub Vec<(IpAddr, IpAddr)>);

impl Gateway {
    /// Whether a rule of this gateway is about a host, which only the caller knows: about every host, or because a pattern or a set has it.
    pub fn is_about(
        &self,
        rule: &Rule,
        is_it: impl Fn(&str) -> bool,
        has_it: impl Fn(&HostSet) -> bool,
    ) -> bool {
        let is_about_all = rule.hosts.is_empty() && rule.host_sets.is_empty();
        let sets = rule.host_sets.iter().filter_map(|place| self.host_sets.get(*place));
        is_about_all
            || rule.hosts.iter().any(|pattern| is_it(pattern))
            || sets.into_iter().any(|set| has_it(set))
    }
}

impl Addresses {
    /// Whether an address is among them.
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|(first, last)| {
            first.is_ipv4() == address.is_ipv4() && *first <= address && address <= *last
        })
    }
}

/// Limits of time and of size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Connections of clients at once.
    pub connections: u32,
    /// Of them, those of one address.
    pub connections_per_client: u32,
    /// Bytes of a head.
    pub head_bytes: u32,
    /// Fields of a head.
    pub head_fields: u32,
    /// How long a client may take for a head from its first byte on.
    pub head_time: Duration,
    /// How long a connection may wait for the next request, or for the next bytes of a body.
    pub idle: Duration,
    /// How long a server may take to be connected to.
    pub connect_time: Duration,
    /// How long a server may take for the head of its answer once it has the request.
    pub answer_time: Duration,
    /// Connections to servers that are kept open for the next request.
    pub pooled: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connections: 10_000,
            connections_per_client: 256,
            head_bytes: 16 * 1024,
            head_fields: 100,
            head_time: seconds(10),
            idle: seconds(60),
            connect_time: seconds(10),
            answer_time: seconds(60),
            pooled: 256,
        }
    }
}

impl Limits {
    /// Those of a head.
    pub fn head(&self) -> head::Limits {
        head::Limits { bytes: self.head_bytes as usize, fields: self.head_fields as usize }
    }
}
