//! Settings of the firewall as a whole: the flow table, timeouts, integrity checks.

use crate::exports::Exports;
use std::time::Duration;

/// Settings, each with its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Who forwards the packets that are allowed.
    pub forwarding: Forwarding,
    /// Flows that the flow table holds, within [`FLOWS`].
    pub flows: u32,
    /// How many of these flows may be half-open, 64 to `flows`.
    pub half_open: u32,
    /// How many of these flows may be other than TCP and not answered yet, 64 to `flows`.
    pub unanswered: u32,
    /// Whether SYNs are answered with cookies in the name of the servers that they are for.
    pub syn_proxy: SynProxy,
    /// How the route back to the source of a new flow is checked.
    pub reverse_path: ReversePath,
    /// The most events of rules with `log` that are recorded in a second, over all rules; 0 to 1,000,000.
    pub log_rate: u32,
    /// When flows expire.
    pub timeouts: Timeouts,
    /// What is checked of every packet, besides the rules.
    pub integrity: Integrity,
    /// How long a domain has an address when its lifetime is over, within [`GRACE`].
    pub grace: Duration,
    /// Where events and records of flows are sent.
    pub exports: Exports,
}

/// Least and greatest grace of addresses of domains.
pub const GRACE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3600));

/// Least and greatest size of the flow table, in flows.
pub const FLOWS: (u32, u32) = (1_024, 16_777_216);

/// Who forwards the packets that are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forwarding {
    /// The firewall, past most of the kernel.
    Fast,
    /// The kernel, which also translates addresses and delivers; the firewall says what may pass.
    Kernel,
}

impl Forwarding {
    /// All of them, as policies write them.
    pub const NAMES: [(&'static str, Forwarding); 2] =
        [("fast", Forwarding::Fast), ("kernel", Forwarding::Kernel)];

    /// As policies write it.
    pub const fn name(self) -> &'static str {
        match self {
            Forwarding::Fast => "fast",
            Forwarding::Kernel => "kernel",
        }
    }
}

/// Whether the firewall completes the handshake of a connection before it asks the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynProxy {
    /// Never: SYNs pass.
    Off,
    /// Of every connection that is allowed.
    On,
    /// While half-open connections fill half of their budget.
    WhenFull,
}

impl SynProxy {
    /// All of them, as policies write them.
    pub const NAMES: [(&'static str, SynProxy); 3] =
        [("off", SynProxy::Off), ("on", SynProxy::On), ("when-full", SynProxy::WhenFull)];
}

/// The reverse-path check of RFC 3704.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReversePath {
    /// No check.
    Off,
    /// There must be a route back to the source (RFC 3704 section 2.4).
    Loose,
    /// The route back must leave by the zone that the packet came from (RFC 3704 section 2.2).
    Strict,
}

impl ReversePath {
    /// All of them, as policies write them.
    pub const NAMES: [(&'static str, ReversePath); 3] =
        [("off", ReversePath::Off), ("loose", ReversePath::Loose), ("strict", ReversePath::Strict)];
}

/// How long a flow lives after its last packet, 1 s to 30 d each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP while the handshake is not complete.
    pub tcp_opening: Duration,
    /// TCP that is established. RFC 5382 REQ-5: not below 2 hours and 4 minutes by default.
    pub tcp_established: Duration,
    /// TCP after a FIN. RFC 5382 REQ-5: 4 minutes.
    pub tcp_closing: Duration,
    /// TCP after a reset that closed the connection.
    pub tcp_reset: Duration,
    /// UDP. RFC 4787 REQ-5: not below 2 minutes; 5 are recommended.
    pub udp: Duration,
    /// ICMP queries. RFC 5508 REQ-2: not below 60 seconds.
    pub icmp: Duration,
    /// Every other protocol.
    pub other: Duration,
    /// All but TCP as long as nothing came back, if that is shorter. A half, a quarter, an eighth of it as the table fills.
    pub unanswered: Duration,
}

/// Checks of every packet. The lengths of headers are always checked, because nothing may be read beyond the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integrity {
    /// IPv4 header checksums, and TCP checksums of resets and FINs.
    pub checksums: bool,
    /// TCP flags that no sender sets together: SYN with FIN, SYN with RST, no flag, all flags.
    pub tcp_flags: bool,
    /// Source and destination address are the same ("land").
    pub land: bool,
    /// The source belongs to the networks of another zone.
    pub zones: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            forwarding: Forwarding::Fast,
            flows: 1_048_576,
            half_open: 131_072,
            unanswered: 262_144,
            syn_proxy: SynProxy::Off,
            reverse_path: ReversePath::Loose,
            log_rate: 1_000,
            timeouts: Timeouts::default(),
            integrity: Integrity { checksums: true, tcp_flags: true, land: true, zones: true },
            grace: Duration::from_secs(60),
            exports: Exports::default(),
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
            unanswered: seconds(30),
        }
    }
}
