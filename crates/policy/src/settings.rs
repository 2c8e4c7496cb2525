//! Settings of the firewall as a whole: the flow table, timeouts, integrity checks.

use std::time::Duration;

/// Settings, each with its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Flows that the table holds: [`FLOWS`].
    pub flows: u32,
    /// Of these, how many may be half-open.
    pub half_open: u32,
    /// Whether the route back to a source must be the way it came.
    pub reverse_path: ReversePath,
    /// Log events a second at most, over all rules.
    pub log_rate: u32,
    /// When flows are forgotten.
    pub timeouts: Timeouts,
    /// What is checked of every packet besides the rules.
    pub integrity: Integrity,
}

/// Least and greatest size of the flow table, in flows.
pub const FLOWS: (u32, u32) = (1_024, 16_777_216);

/// How far RFC 3704's reverse-path check goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReversePath {
    /// No check.
    Off,
    /// There must be a route back to the source (RFC 3704 section 2.4).
    Loose,
    /// The route back must go out where the packet came in (RFC 3704 section 2.2).
    Strict,
}

impl ReversePath {
    /// All of them, as policies write them.
    pub const NAMES: [(&'static str, ReversePath); 3] =
        [("off", ReversePath::Off), ("loose", ReversePath::Loose), ("strict", ReversePath::Strict)];
}

/// How long a flow without packets stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP before the handshake is done.
    pub tcp_opening: Duration,
    /// TCP with data flowing. RFC 5382 REQ-5: not below 2 hours and 4 minutes by default.
    pub tcp_established: Duration,
    /// TCP after a FIN. RFC 5382 REQ-5: 4 minutes.
    pub tcp_closing: Duration,
    /// TCP after a reset that closed it.
    pub tcp_reset: Duration,
    /// UDP. RFC 4787 REQ-5: not below 2 minutes; 5 are recommended.
    pub udp: Duration,
    /// ICMP queries. RFC 5508 REQ-2: not below 60 seconds.
    pub icmp: Duration,
    /// Every other protocol.
    pub other: Duration,
}

/// Checks of every packet. The lengths of headers are always checked: nothing can be read past them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integrity {
    /// IPv4 header checksums.
    pub checksums: bool,
    /// TCP flags that no sender sets: SYN with FIN, SYN with RST, none at all, all at once.
    pub tcp_flags: bool,
    /// Source and destination the same, "land".
    pub land: bool,
    /// A source that belongs to the networks of another zone.
    pub zones: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flows: 1_048_576,
            half_open: 131_072,
            reverse_path: ReversePath::Loose,
            log_rate: 1_000,
            timeouts: Timeouts::default(),
            integrity: Integrity { checksums: true, tcp_flags: true, land: true, zones: true },
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            tcp_opening: seconds(30),
            tcp_established: seconds(7_440),
            tcp_closing: seconds(240),
            tcp_reset: seconds(10),
            udp: seconds(300),
            icmp: seconds(60),
            other: seconds(600),
        }
    }
}
