//! What a gateway tells whoever started it.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// A request that was refused, that failed, or that a rule with `log` carried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Whether it came in a datagram.
    pub is_datagram: bool,
    /// The client.
    pub client: SocketAddr,
    /// Its name, if the gateway looks names of clients up and it has one.
    pub client_name: Option<String>,
    /// Where it was connected to.
    pub at: SocketAddr,
    /// The rule, if one has decided.
    pub rule: Option<String>,
    /// Why it was refused or failed, a short identifier; `None`: it was carried.
    pub reason: Option<String>,
    /// The user: who has logged in, or whom somebody said to be who was refused for that.
    pub user: Option<String>,
    /// The method, or the type of records, if the request was understood.
    pub method: Option<String>,
    /// Host and port that it was for, or the name.
    pub host: Option<String>,
    /// The path, without its query: queries may have what is secret.
    pub path: Option<String>,
    /// The status that the client got, of DNS the response code; 0 if it got none.
    pub status: u16,
    /// Bytes of the request's body, and of the answer's.
    pub bytes: [u64; 2],
}

/// What a name stands for that rules of the packet filter go by: somebody is about to hear it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// By which it is said that the packet filter has it ([`crate::serve::Server::acknowledged`]).
    pub number: u64,
    /// The name, in small letters.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// For how many seconds it holds.
    pub lifetime: u32,
}

/// How much a gateway has done since its process was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections of clients that are open.
    pub open: u64,
    /// Connections of clients in all.
    pub connections: u64,
    /// Of them, those that were turned away because there were too many.
    pub turned_away: u64,
    /// Requests that were carried to their end.
    pub carried: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that a rule allowed and that failed.
    pub failed: u64,
    /// Connections to servers.
    pub to_servers: u64,
    /// Requests that went over a connection to a server that was open already.
    pub reused: u64,
    /// Events that were not sent, because there were too many.
    pub suppressed: u64,
}
