//! The vocabulary of TCP trials: what connections are like, what goes on beside them, and what became of them. Plain
//! values: `traffic` makes connections from them, `testbed` the policy that allows them, `report` figures.
//!
//! Loads are connections a second, the ledger's entries are connections, and a loss is a connection that failed.

use crate::pace::InTime;
use crate::results::{LatencySummary, is_default};
use crate::served::{ServedOutcome, agrees};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The longest body of an answer: with its HTTP headers it still is a message of 64 KiB at most.
pub const MOST_ANSWER_BYTES: u32 = 65_000;

/// What one connection is like. Addresses, client ports and IP version are the traffic's
/// ([`TrafficShape`](crate::shape::TrafficShape)): its `flows` are the pairs of client address and port in use, each of which
/// holds one connection at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionShape {
    /// Requests a connection, one after the other, 0 to 65,535; 0 opens and closes it.
    pub transactions: u16,
    /// Bytes of the body of each answer, 1 to [`MOST_ANSWER_BYTES`]; HTTP headers come besides.
    pub answer_bytes: u32,
    /// How connections end.
    pub close: CloseBy,
    /// The order in which pairs of client address and port are used.
    pub order: TupleOrder,
    /// Seconds that a connection stays idle after its last answer before it is ended; 0 or more.
    pub hold_seconds: f64,
    /// Seconds that a pair of address and port rests after its connection's end, as TIME-WAIT would make it; 0 or more.
    pub reuse_seconds: f64,
    /// Connections that the policy forbids, among the others.
    pub illegal: Option<Illegal>,
}

impl ConnectionShape {
    /// The share of all attempts that the policy allows, above 0 to 1.
    pub fn legal_share(&self) -> f64 {
        1.0 - self.illegal.as_ref().map_or(0.0, |illegal| illegal.share)
    }
}

/// What is asked of a trial of connections. Rates count legal and illegal attempts together; ledgers, samples and the
/// `connections` of [`ConnectionRequest::Held`] count legal connections alone.
#[derive(Debug, Clone, PartialEq)]
pub enum ConnectionRequest {
    /// Connections as fast as the earlier ones make room (closed loop).
    Fastest {
        /// Seconds of load.
        seconds: f64,
        /// A flood beside them.
        attack: Option<Attack>,
    },
    /// Connections at rates that no answer delays.
    Scheduled {
        /// At least one; they follow one another without a pause.
        phases: Vec<RatePhase>,
        /// A flood beside them.
        attack: Option<Attack>,
        /// Replace the firewall's policy by one of other filler rules this many seconds after the start.
        replace_after_seconds: Option<f64>,
    },
    /// So many connections open at once, each proved by a request after all are open.
    Held {
        /// Legal connections; illegal attempts come between them in their share.
        connections: u64,
        /// Attempts a second while they are opened.
        opening_rate: f64,
        /// Seconds that they stay open and idle before the proof.
        hold_seconds: f64,
        /// Resets against them, sent before the proof.
        resets: Option<Resets>,
    },
}

/// A stretch of a trial in which the rate changes evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatePhase {
    /// Length, s.
    pub seconds: f64,
    /// Attempts a second at its beginning.
    pub from: f64,
    /// Attempts a second at its end.
    pub to: f64,
}

impl RatePhase {
    /// A stretch of constant rate.
    pub const fn constant(rate: f64, seconds: f64) -> Self {
        Self { seconds, from: rate, to: rate }
    }
}

impl ConnectionRequest {
    /// One stretch of constant rate, and nothing else.
    pub fn at_rate(rate: f64, seconds: f64) -> Self {
        Self::Scheduled {
            phases: vec![RatePhase::constant(rate, seconds)],
            attack: None,
            replace_after_seconds: None,
        }
    }

    /// The flood beside the connections.
    pub fn attack(&self) -> Option<Attack> {
        match *self {
            Self::Fastest { attack, .. } | Self::Scheduled { attack, .. } => attack,
            Self::Held { .. } => None,
        }
    }

    /// Seconds of load: of connections that are held, idle.
    pub(crate) fn seconds(&self) -> f64 {
        match self {
            Self::Fastest { seconds, .. } | Self::Held { hold_seconds: seconds, .. } => *seconds,
            Self::Scheduled { phases, .. } => phases.iter().map(|phase| phase.seconds).sum(),
        }
    }

    /// The same with opening and resetting.
    pub(crate) fn typical_seconds(&self) -> f64 {
        let Self::Held { connections, opening_rate, resets, .. } = self else { return self.seconds() };
        let connections = *connections as f64;
        let resetting = resets.map_or(0.0, |r| connections * f64::from(r.each) * 2.0 / r.per_second);
        connections / opening_rate + self.seconds() + resetting
    }
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseBy {
    /// The client sends RST after the last answer (Tolly).
    Reset,
    /// The client sends FIN first: three segments.
    Client,
    /// The server sends FIN with its last answer: three segments.
    Server,
    /// The client sends FIN first and the server acknowledges it before sending its own: four segments.
    ClientFourWay,
    /// It stays open until the end of the trial (EANTC), and is then reset.
    Hold,
}

/// The order in which pairs of client address and port are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TupleOrder {
    /// Shuffled by the seed (RFC 4814 section 4).
    Random,
    /// Addresses turn fastest, then ports.
    Sequential,
}

/// Connections that the policy forbids, spread evenly among the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Illegal {
    /// Their share of all attempts, 0 < share < 1. Loads are of legal and illegal attempts together.
    pub share: f64,
    /// What is wrong with them, in turns; at least one.
    pub kinds: Vec<IllegalKind>,
}

/// What is wrong with an illegal attempt. Each is one segment (or packet), and must not reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IllegalKind {
    /// SYN from an address that no rule allows.
    Address,
    /// SYN to a port that no rule allows.
    Port,
    /// A packet of an IP protocol that no rule allows.
    Protocol,
    /// ACK without a connection.
    Ack,
    /// RST without a connection.
    Rst,
    /// FIN without a connection.
    Fin,
    /// Data far outside the window of an open connection.
    OutOfWindow,
    /// SYN from an address on the block list.
    Listed,
}

impl IllegalKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Address,
        Self::Port,
        Self::Protocol,
        Self::Ack,
        Self::Rst,
        Self::Fin,
        Self::OutOfWindow,
        Self::Listed,
    ];

    /// As suites and results write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Port => "port",
            Self::Protocol => "protocol",
            Self::Ack => "ack",
            Self::Rst => "rst",
            Self::Fin => "fin",
            Self::OutOfWindow => "out-of-window",
            Self::Listed => "listed",
        }
    }
}

/// A flood beside the connections: frames of its own, at a rate of their own, for a stretch of the trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attack {
    /// What the frames are.
    pub kind: AttackKind,
    /// Frames a second.
    pub frames_per_second: f64,
    /// Where they come from.
    pub sources: AttackSources,
    /// Seconds from the start of the trial to the first frame.
    pub after_seconds: f64,
    /// Seconds that it lasts.
    pub seconds: f64,
}

/// What the frames of a flood are. All go to the servers' addresses; SYN to the servers' port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttackKind {
    /// TCP SYN.
    Syn,
    /// TCP SYN-ACK without a SYN before.
    SynAck,
    /// TCP ACK without a connection.
    Ack,
    /// TCP RST without a connection.
    Rst,
    /// UDP.
    Udp,
    /// First fragments of IP datagrams that are never completed.
    Fragment,
}

impl AttackKind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Syn, Self::SynAck, Self::Ack, Self::Rst, Self::Udp, Self::Fragment];

    /// As suites and results write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syn => "syn",
            Self::SynAck => "syn-ack",
            Self::Ack => "ack",
            Self::Rst => "rst",
            Self::Udp => "udp",
            Self::Fragment => "fragment",
        }
    }
}

/// Where a flood comes from: addresses of the attackers' range (`10.0.0.0/8`, and a /104 in IPv6), with ports at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackSources {
    /// Any address of the range, at random: 16.7 million.
    Random,
    /// The first so many addresses of the range, at random.
    Distinct(u32),
}

/// Resets against connections that are held open (EANTC 2001). The trial opens the connections, sends the resets, then sends
/// a request on every connection: those that are answered have survived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resets {
    /// What the resets are like.
    pub kind: ResetKind,
    /// Resets sent against each connection and direction; at least 1.
    pub each: u32,
    /// Resets a second, all connections together.
    pub per_second: f64,
}

/// What resets are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResetKind {
    /// Sequence numbers outside the window, in both directions: nothing may close.
    OutsideWindow,
    /// Sequence numbers inside the window but not the next, in both directions: nothing may close (RFC 5961 section 3.2).
    InsideWindow,
    /// The exact next sequence number, from the client: everything must close. Afterwards data is sent on every connection
    /// from the client; what still reaches the server has passed a closed connection.
    Legitimate,
}

impl ResetKind {
    /// As suites and results write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutsideWindow => "outside-window",
            Self::InsideWindow => "inside-window",
            Self::Legitimate => "legitimate",
        }
    }
}

/// What became of a trial's connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionOutcome {
    /// Legal connections attempted.
    pub attempted: u64,
    /// Three-way handshakes done, seen from the client.
    pub established: u64,
    /// Connections whose every answer arrived, complete and right.
    pub completed: u64,
    /// Connections ended as the suite says.
    pub closed: u64,
    /// Connections that ended otherwise, by how: `refused`, `reset`, `peer-closed`, `wrong-data`, `timeout-connect`,
    /// `timeout-answer`, `timeout-close`, `open` (neither ended nor given up).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
    /// Complete answers.
    pub transactions: u64,
    /// Connections that answered a request after all were open; `None` where none was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<u64>,
    /// Segments retransmitted by the client: SYN, requests, FIN; 0 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retransmitted: u64,
    /// Frames that client and server received, attack frames left out.
    pub frames: u64,
    /// Bits of those frames, FCS included.
    pub bits: u64,
    /// Times.
    pub times: ConnectionTimes,
    /// What ended in time; `None` where the load is not constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_time: Option<InTime>,
    /// What both ends counted, where they disagree; also `None` where the server is not the bench's.
    #[serde(default, skip_serializing_if = "agrees")]
    pub served: Option<ServedOutcome>,
    /// Illegal attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub illegal: Option<IllegalOutcome>,
    /// A few attempts that the policy forbids, which the bench adds to a trial whose suite has none: whether the policy holds
    /// under load. They are not among the connections of the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden: Option<IllegalOutcome>,
    /// The flood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<AttackOutcome>,
    /// The resets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets: Option<ResetOutcome>,
    /// The replacement of the policy under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<ReplacementOutcome>,
}

/// Times of connections in ns. All but the last two begin at the intended start, so that a connection which waited for its
/// turn does not hide it (no coordinated omission).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionTimes {
    /// To the SYN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syn_sent_ns: Option<LatencySummary>,
    /// To the SYN-ACK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub established_ns: Option<LatencySummary>,
    /// To the first byte of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ns: Option<LatencySummary>,
    /// To the last byte of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_byte_ns: Option<LatencySummary>,
    /// To the end, of connections closed as the suite says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_ns: Option<LatencySummary>,
    /// First SYN to the acknowledgement of the SYN-ACK (RFC 3511 appendix B).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub establishment_ns: Option<LatencySummary>,
    /// First FIN or RST to the end (RFC 3511 appendix C).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown_ns: Option<LatencySummary>,
}

/// What became of illegal attempts, by what was wrong with them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IllegalOutcome {
    /// Whether the firewall was given a policy that forbids them. A plain forwarder is not, and lets them through by right.
    #[serde(default)]
    pub forbidden: bool,
    /// Sent, by [`IllegalKind::name`].
    pub attempted: BTreeMap<String, u64>,
    /// Those of them that reached the server, or were answered in its name with a SYN-ACK: must be none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub got_through: BTreeMap<String, u64>,
}

impl IllegalOutcome {
    /// How many got through.
    pub fn total_got_through(&self) -> u64 {
        self.got_through.values().sum()
    }
}

/// What became of a flood. Frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttackOutcome {
    /// Due by its schedule.
    pub offered: u64,
    /// Sent.
    pub sent: u64,
    /// Those that reached the server's port.
    pub forwarded: u64,
    /// Answers to attackers that came back to the attacker's port, from the server or from the firewall in its name.
    pub answered: u64,
}

/// What became of resets against open connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResetOutcome {
    /// Connections that were open before.
    pub open: u64,
    /// Resets sent, both directions together.
    pub sent: u64,
    /// Resets that arrived at the other end.
    pub forwarded: u64,
    /// Connections that answered a request afterwards; after legitimate resets, those whose data still reached the server.
    pub alive: u64,
}

/// What became of a policy replaced under load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplacementOutcome {
    /// Seconds that the firewall's own command took.
    pub command_seconds: f64,
    /// Seconds from the start of that command until no packet was judged by the old policy any more; `None` when the old
    /// policy still held at the end of the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds_after_seconds: Option<f64>,
    /// Packets that were judged by neither policy: probes that both allow and that did not arrive, or that both forbid and
    /// that did.
    pub by_neither: u64,
    /// Probes sent.
    pub probes: u64,
}

/// One second of a trial with connections, beside what [`SecondSample`](crate::trial::SecondSample) has: there, `sent` is
/// connections attempted and `received` connections completed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionSecond {
    /// Handshakes done within it.
    pub established: u64,
    /// Connections that failed within it, by how.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
    /// Connections open at its end.
    pub open: u64,
    /// Frames received within it by client and server.
    pub frames: u64,
    /// Bits of those frames, FCS included.
    pub bits: u64,
    /// Intended start to SYN-ACK, of connections established within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub established_ns: Option<LatencySummary>,
    /// Attack frames sent within it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attack_sent: u64,
    /// Attack frames that reached the server's port within it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attack_forwarded: u64,
}
