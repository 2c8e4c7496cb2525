//! The vocabulary of application traffic: virtual clients that fetch files from servers, one or several over a connection.
//! In a closed loop each begins its next transaction when the one before has ended; in an open loop ([`crate::open_loop`]) connections
//! begin at their times; or connections are kept open together ([`crate::held_open`]). Plain values.
//!
//! The ledger's entries are transactions: begun, completed, and failed by how.

use crate::held_open::{HeldOpen, HeldOutcome};
use crate::ledger::{Ledger, Named, Places};
use crate::mix::{Mix, MixOutcome};
use crate::open_loop::{OpenLoop, Sustained};
use crate::results::LatencySummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most virtual clients that one trial may have.
pub const MOST_CLIENTS: u32 = 1024;
/// Machines that virtual clients share, each with an address of its own: the NSTL bed's `client01` to `client08`.
pub const CLIENT_MACHINES: u32 = 8;
/// Servers, each with an address of its own: the NSTL bed's `server01` to `server06`.
pub const SERVERS: u32 = 6;
/// Their names, which requests carry.
pub const SERVER_NAMES: [&str; SERVERS as usize] =
    ["server01", "server02", "server03", "server04", "server05", "server06"];
/// Ports that the connections of a client machine come from.
pub const PORTS_OF_MACHINE: u32 = 8192;
/// The most transactions of a connection.
pub const MOST_TRANSACTIONS: u32 = 1000;
/// The largest file that may be asked for, in KB of 1,024 bytes.
pub const MOST_OBJECT_KB: u32 = 1024;
/// Pairs of addresses and ports that a trial can have: what a firewall that remembers ended connections has to hold.
pub const PAIRS: u32 = CLIENT_MACHINES * PORTS_OF_MACHINE * SERVERS;

/// Bytes of a KB of files.
pub const KIB: usize = 1024;
/// Bytes of the NSTL benchmark's HTML files, 1 to 80 KB (Compaq 1997).
pub const HTML_BYTES: [usize; 8] = [KIB, 2 * KIB, 4 * KIB, 8 * KIB, 10 * KIB, 20 * KIB, 40 * KIB, 80 * KIB];
/// Bytes of its GIF files, 512 bytes to 208 KB.
pub const GIF_BYTES: [usize; 9] =
    [KIB / 2, KIB, 2 * KIB, 4 * KIB, 10 * KIB, 26 * KIB, 52 * KIB, 104 * KIB, 208 * KIB];
/// Bytes of its ZIP files, which are transferred by FTP.
pub const ZIP_BYTES: [usize; 4] = [32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB];
/// RFC 9411 section 7.3.3.2, table 4: 0.2, 6, 8, 9, 10, 25, 26, 35, 59 and 347 KB, each as often as another.
pub const MIXED_BYTES: [usize; 10] =
    [205, 6 * KIB, 8 * KIB, 9 * KIB, 10 * KIB, 25 * KIB, 26 * KIB, 35 * KIB, 59 * KIB, 347 * KIB];

/// What a transaction speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.0 (RFC 1945).
    Http10,
    /// HTTP/1.1 (RFC 9112).
    Http11,
    /// HTTP/1.1 over TLS 1.3 (RFC 8446), every connection with a handshake of its own.
    Https,
    /// HTTP/2 (RFC 9113) over TLS 1.3, agreed upon in the handshake (ALPN `h2`), one stream after the other.
    Http2,
    /// FTP (RFC 959, RFC 2428): login, a file, and the end of the session.
    Ftp(FtpTransfer),
}

/// Every protocol by the name that suites and results have for it.
pub const PROTOCOLS: [(&str, Protocol); 8] = [
    ("http/1.0", Protocol::Http10),
    ("http/1.1", Protocol::Http11),
    ("https", Protocol::Https),
    ("http/2", Protocol::Http2),
    ("ftp:get", ftp(FtpMode::Passive, FtpVerb::Get)),
    ("ftp:put", ftp(FtpMode::Passive, FtpVerb::Put)),
    ("ftp:active-get", ftp(FtpMode::Active, FtpVerb::Get)),
    ("ftp:active-put", ftp(FtpMode::Active, FtpVerb::Put)),
];

const fn ftp(mode: FtpMode, verb: FtpVerb) -> Protocol {
    Protocol::Ftp(FtpTransfer { mode, verb })
}

impl Protocol {
    /// Its name in [`PROTOCOLS`].
    pub fn name(self) -> &'static str {
        PROTOCOLS.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }

    /// Whether it goes over TLS.
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Https | Self::Http2)
    }

    /// Whether a connection may have several transactions.
    pub const fn keeps_alive(self) -> bool {
        matches!(self, Self::Http11 | Self::Https | Self::Http2)
    }

    /// Whether its answers have a first and a last byte.
    pub const fn is_http(self) -> bool {
        !matches!(self, Self::Ftp(_))
    }

    /// Whether servers open connections to clients.
    pub const fn calls_back(self) -> bool {
        matches!(self, Self::Ftp(FtpTransfer { mode: FtpMode::Active, .. }))
    }
}

/// How FTP transfers a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FtpTransfer {
    /// Who opens the data connection.
    pub mode: FtpMode,
    /// Which way the file goes.
    pub verb: FtpVerb,
}

/// Who opens a data connection of FTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FtpMode {
    /// The client, to a port that the server names.
    Passive,
    /// The server, to a port that the client names.
    Active,
}

/// Which way a file goes by FTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FtpVerb {
    /// To the client.
    Get,
    /// To the server, which compares it with its own.
    Put,
}

/// What the transactions of a trial speak.
#[derive(Debug, Clone, PartialEq)]
pub enum ProtocolMix {
    /// All the same.
    Only(Protocol),
    /// HTTP/1.0 and FTP, passive, each as often with a server as the NSTL benchmark has it.
    Nstl,
    /// What a suite states, in its shares.
    Stated(Arc<Mix>),
}

impl ProtocolMix {
    /// What transactions of the mix speak, each protocol once.
    pub fn protocols(&self) -> Vec<Protocol> {
        match self {
            Self::Only(protocol) => vec![*protocol],
            Self::Nstl => vec![Protocol::Http10, ftp(FtpMode::Passive, FtpVerb::Get)],
            Self::Stated(mix) => {
                let mut found: Vec<Protocol> = Vec::new();
                for part in &mix.parts {
                    if !found.contains(&part.protocol) {
                        found.push(part.protocol);
                    }
                }
                found
            }
        }
    }

    /// The mix that a suite states, if it is one.
    pub const fn stated(&self) -> Option<&Arc<Mix>> {
        match self {
            Self::Stated(mix) => Some(mix),
            _ => None,
        }
    }

    /// Whether servers open connections to clients.
    pub fn calls_back(&self) -> bool {
        self.protocols().into_iter().any(Protocol::calls_back)
    }

    /// What of it goes over TLS.
    pub fn over_tls(&self) -> Vec<Protocol> {
        self.protocols().into_iter().filter(|protocol| protocol.is_tls()).collect()
    }

    /// Whether a connection may have as many transactions as the factor `transactions` says.
    pub const fn keeps_alive(&self) -> bool {
        match self {
            Self::Only(protocol) => protocol.keeps_alive(),
            _ => false,
        }
    }

    /// Whether some files come by HTTP, whose answers have a first and a last byte.
    pub fn has_http(&self) -> bool {
        self.protocols().into_iter().any(Protocol::is_http)
    }

    /// Whether it fetches files by HTTP alone, so that their sizes can be chosen by the factor `object`.
    pub const fn is_http(&self) -> bool {
        match self {
            Self::Only(protocol) => protocol.is_http(),
            _ => false,
        }
    }
}

/// Which files are fetched by HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    /// Those of the NSTL benchmark, each as often as another.
    Nstl,
    /// One of so many KB of 1,024 bytes, 1 to [`MOST_OBJECT_KB`].
    Kb(u32),
    /// Ten objects, each as often as another: RFC 9411's mixed traffic profile for throughput (section 7.3.3.2, table 4).
    Mixed,
}

/// What application traffic is like.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationShape {
    /// Virtual clients at work at once, 1 to [`MOST_CLIENTS`].
    pub clients: u32,
    /// How they fetch files.
    pub protocol: ProtocolMix,
    /// Which files they fetch by HTTP.
    pub object: Object,
    /// Transactions of a connection, one after the other: 1 to [`MOST_TRANSACTIONS`]. Of a mix that a suite states, each part has its own.
    pub transactions: u32,
}

impl ApplicationShape {
    /// Transactions of a connection on the average.
    pub fn transactions_a_connection(&self) -> f64 {
        match self.protocol.stated() {
            Some(mix) => mix.transactions_a_connection(),
            None => f64::from(self.transactions),
        }
    }
}

/// What is asked of a trial of application traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ApplicationRequest {
    /// Seconds in which transactions begin. Those that are under way then may end.
    pub seconds: f64,
    /// Seconds from its SYN after which a transaction has failed.
    pub limit_seconds: f64,
    /// When connections begin. Its phases sum up to `seconds`.
    pub arrivals: Arrivals,
}

/// When the connections of a trial begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// In a closed loop: a virtual client begins the next when the one before has ended.
    ClosedLoop,
    /// At their times, whatever becomes of the others.
    OpenLoop(OpenLoop),
    /// At their times, and they stay open together.
    Held(HeldOpen),
}

impl Arrivals {
    /// The open loop, if it is one.
    pub const fn open_loop(&self) -> Option<OpenLoop> {
        match self {
            Self::OpenLoop(open) => Some(*open),
            _ => None,
        }
    }
}

/// How a transaction failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// The connection was refused by a reset.
    Refused,
    /// No answer to the SYN in time.
    ConnectTimeout,
    /// An ICMP error said that there is no way.
    Unreachable,
    /// Connected, and the TLS handshake did not end in time.
    HandshakeTimeout,
    /// Reset during the TLS handshake.
    HandshakeReset,
    /// The TLS handshake ended otherwise: by an alert, early, or because what came is no TLS 1.3.
    Handshake,
    /// The answer did not come from the holder of the server's certificate and key.
    Certificate,
    /// The TLS handshake did not agree upon the protocol that the client speaks behind it (ALPN).
    Alpn,
    /// Connected, and then not all came in time.
    Timeout,
    /// Reset after it was connected.
    Reset,
    /// The other end of HTTP/2 ended the request's stream (RST_STREAM).
    StreamReset,
    /// The other end of HTTP/2 said that it answers no more (GOAWAY).
    GoAway,
    /// The answer ended before it was whole.
    Short,
    /// The answer is not what the file holds.
    Content,
    /// The answer was not made for its request: it has not the server's seal.
    Seal,
    /// A TLS record is not as its sender sealed it.
    Record,
    /// Something else than the protocol came back.
    Protocol,
    /// The answer has another status than 200, or an FTP reply another code than the one that goes on.
    Status,
}

impl Failure {
    /// All of them.
    pub const ALL: [Failure; 18] = [
        Failure::Refused,
        Failure::ConnectTimeout,
        Failure::Unreachable,
        Failure::HandshakeTimeout,
        Failure::HandshakeReset,
        Failure::Handshake,
        Failure::Certificate,
        Failure::Alpn,
        Failure::Timeout,
        Failure::Reset,
        Failure::StreamReset,
        Failure::GoAway,
        Failure::Short,
        Failure::Content,
        Failure::Seal,
        Failure::Record,
        Failure::Protocol,
        Failure::Status,
    ];

    /// As ledgers name it.
    pub const fn name(self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::ConnectTimeout => "connect-timeout",
            Failure::Unreachable => "unreachable",
            Failure::HandshakeTimeout => "handshake-timeout",
            Failure::HandshakeReset => "handshake-reset",
            Failure::Handshake => "handshake",
            Failure::Certificate => "certificate",
            Failure::Alpn => "alpn",
            Failure::Timeout => "timeout",
            Failure::Reset => "reset",
            Failure::StreamReset => "stream-reset",
            Failure::GoAway => "goaway",
            Failure::Short => "short",
            Failure::Content => "content",
            Failure::Seal => "seal",
            Failure::Record => "record",
            Failure::Protocol => "protocol",
            Failure::Status => "status",
        }
    }

    /// What a firewall did that answers in a server's name; `None` where it may have been openly in the way.
    const fn as_lie(self) -> Option<&'static str> {
        match self {
            Failure::Short => Some("files ended early, though they were sent whole"),
            Failure::Content => Some("files came otherwise than they were sent"),
            Failure::Seal => {
                Some("answers had not the server's seal for their request: somebody else answered")
            }
            Failure::Record => Some("TLS records came otherwise than they were sealed"),
            Failure::Certificate => {
                Some("TLS connections were answered without the server's key: the firewall answered itself")
            }
            Failure::Protocol => Some("answers were not of the protocol that the servers speak"),
            _ => None,
        }
    }
}

/// What became of a trial's application traffic.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationOutcome {
    /// Virtual clients at work at once.
    pub clients: u32,
    /// Transactions completed within the seconds of load; those that were under way at the end completed after it.
    pub in_time: u64,
    /// Bytes of files that these brought.
    pub bytes_in_time: u64,
    /// Requests that reached the servers.
    pub requests: u64,
    /// Answers that the servers wrote whole.
    pub answers: u64,
    /// Bytes of files that the clients read in completed transactions.
    pub client_bytes: u64,
    /// Bytes of files in the servers' whole answers.
    pub server_bytes: u64,
    /// From the SYN to the end of the connection, of completed transactions. Of several over a connection: from the SYN, or from the
    /// request, to the end of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_ns: Option<LatencySummary>,
    /// To the first byte of the answer (TTFB): from the SYN, of later transactions of a connection from their request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ns: Option<LatencySummary>,
    /// To the last byte of the answer (TTLB), from the same moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_byte_ns: Option<LatencySummary>,
    /// What became of the sustained load; of an open loop alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<Box<Sustained>>,
    /// What became of connections that were to be open at once; of a trial that holds them alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Box<HeldOutcome>>,
    /// What became of each part of a mix; of a mix that the suite states alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Box<MixOutcome>>,
}

impl ApplicationOutcome {
    /// What clients and servers do not agree about, in words; nothing for an honest firewall.
    pub fn disagreements(&self, ledger: &Ledger) -> Vec<String> {
        let Places::Application(places) = &ledger.places else { return Vec::new() };
        let count = |failure: Failure| places.failed.get(failure.name()).copied().unwrap_or(0);
        let lies = Failure::ALL.into_iter().filter_map(|failure| Some((count(failure), failure.as_lie()?)));
        let of_begun = |(count, what)| format!("{count} of {} {what}", ledger.sent());
        let mut found: Vec<String> = lies.filter(|(count, _)| *count > 0).map(of_begun).collect();
        let completed = ledger.received;
        if completed > self.answers {
            found.push(format!(
                "clients read {completed} whole answers and the servers wrote {}: somebody else answered",
                self.answers
            ));
        }
        if self.requests > ledger.sent() {
            found.push(format!(
                "{} requests reached the servers and the clients made {}",
                self.requests,
                ledger.sent()
            ));
        }
        // An answer that the client gave up is in the servers' sum alone.
        let differ = self.client_bytes != self.server_bytes && completed == self.answers;
        if differ || self.client_bytes > self.server_bytes {
            found.push(format!(
                "clients read {} bytes of files and the servers wrote {}",
                self.client_bytes, self.server_bytes
            ));
        }
        found.extend(self.held.iter().flat_map(|held| held.disagreements()));
        found
    }

    /// Adds another trial of the same setup. Times and rates, which cannot be added, go.
    pub(crate) fn add(&mut self, other: &Self) {
        self.in_time += other.in_time;
        self.bytes_in_time += other.bytes_in_time;
        self.requests += other.requests;
        self.answers += other.answers;
        self.client_bytes += other.client_bytes;
        self.server_bytes += other.server_bytes;
        self.times_ns = None;
        self.first_byte_ns = None;
        self.last_byte_ns = None;
        self.sustained = None;
        self.held = None;
        self.mix = None;
    }
}

/// Where transactions went that did not complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationPlaces {
    /// Failed, by [`Failure::name`].
    pub failed: Named,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten transactions of 100 bytes, of which these failed.
    fn outcome(failed: &[(Failure, u64)]) -> (ApplicationOutcome, Ledger) {
        let failed: Named = failed.iter().map(|(f, count)| (f.name().to_owned(), *count)).collect();
        let completed = 10 - failed.values().sum::<u64>();
        let outcome = ApplicationOutcome {
            clients: 2,
            in_time: completed,
            bytes_in_time: completed * 100,
            requests: 10,
            answers: completed,
            client_bytes: completed * 100,
            server_bytes: completed * 100,
            ..ApplicationOutcome::default()
        };
        let places = Places::Application(ApplicationPlaces { failed });
        (outcome, Ledger { offered: 10, not_sent: 0, received: completed, places })
    }

    #[test]
    fn what_somebody_between_did_in_a_servers_name_is_named() {
        type Row = (&'static [(Failure, u64)], fn(&mut ApplicationOutcome), &'static str);
        let rows: [Row; 14] = [
            (&[], |_| (), ""),
            (&[(Failure::Timeout, 2), (Failure::Status, 1), (Failure::Refused, 1)], |_| (), ""),
            (&[(Failure::Alpn, 1), (Failure::StreamReset, 1), (Failure::GoAway, 1)], |_| (), ""),
            // The servers wrote what the clients gave up.
            (&[(Failure::Timeout, 2)], |o| (o.answers, o.server_bytes) = (10, 1000), ""),
            (&[(Failure::Content, 1)], |_| (), "1 of 10 files came otherwise than they were sent"),
            (&[(Failure::Short, 3)], |_| (), "3 of 10 files ended early, though they were sent whole"),
            (
                &[(Failure::Handshake, 1), (Failure::HandshakeReset, 1), (Failure::HandshakeTimeout, 1)],
                |_| (),
                "",
            ),
            (
                &[(Failure::Seal, 2)],
                |o| (o.answers, o.server_bytes) = (10, 1000),
                "2 of 10 answers had not the server's seal for their request: somebody else answered",
            ),
            (&[(Failure::Record, 1)], |_| (), "1 of 10 TLS records came otherwise than they were sealed"),
            (
                &[(Failure::Certificate, 3)],
                |_| (),
                "3 of 10 TLS connections were answered without the server's key: the firewall answered itself",
            ),
            (
                &[(Failure::Protocol, 3)],
                |_| (),
                "3 of 10 answers were not of the protocol that the servers speak",
            ),
            (
                &[],
                |o| (o.answers, o.server_bytes, o.client_bytes) = (4, 400, 400),
                "clients read 10 whole answers and the servers wrote 4: somebody else answered",
            ),
            (&[], |o| o.requests = 11, "11 requests reached the servers and the clients made 10"),
            (&[], |o| o.server_bytes = 999, "clients read 1000 bytes of files and the servers wrote 999"),
        ];
        for (failed, change, said) in rows {
            let (mut outcome, ledger) = outcome(failed);
            change(&mut outcome);
            assert_eq!(ledger.residual(), 0);
            assert_eq!(outcome.disagreements(&ledger).join("; "), said, "{outcome:?}");
        }
    }
}
