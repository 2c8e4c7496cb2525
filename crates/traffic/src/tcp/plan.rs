//! What a TCP run does: who opens how many connections to whom, what is said on them, and how they end.

use super::illegal::IllegalPlan;
use super::message::Message;
use measure::connections::Attack;
use measure::shape::IpVersion;
use std::time::Duration;

/// A stretch of a run. The rate changes evenly from `from` to `to`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TcpPhase {
    /// Length, s.
    pub seconds: f64,
    /// Connections opened a second at its beginning, over all cores; 0 to 10^8.
    pub from: f64,
    /// The same at its end.
    pub to: f64,
}

impl TcpPhase {
    /// A stretch of constant rate.
    pub fn constant(rate: f64, seconds: f64) -> Self {
        Self { seconds, from: rate, to: rate }
    }

    /// A stretch of constant rate with exactly so many starts, 1 to ten million. It ends between the last of them and the next,
    /// so that no rounding decides whether one more is due.
    pub fn counted(starts: u64, rate: f64) -> Self {
        Self::constant(rate, (starts as f64 - 0.5) / rate)
    }
}

/// When connections are opened.
#[derive(Debug, Clone, PartialEq)]
pub enum Opening {
    /// On a schedule that no answer delays.
    Scheduled(Vec<TcpPhase>),
    /// On a schedule, but never more than so many open at once: a start that is due waits for an end.
    KeepOpen(u32, Vec<TcpPhase>),
    /// As fast as the cores can for so many seconds. For calibration: times then begin when the first SYN goes out.
    Fastest(f64),
}

/// Addresses and ports of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Host number of the first address within the zone's prefix.
    pub first_host: u32,
    /// Addresses, 1 to 65,536.
    pub hosts: u32,
    /// First port.
    pub first_port: u16,
    /// Ports, at least 1.
    pub ports: u32,
}

/// The order in which tuples are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Addresses turn fastest, then ports.
    Sequential,
    /// Shuffled by the plan's seed (RFC 4814 section 4).
    Random,
}

/// TCP options that a SYN offers and a SYN-ACK accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: bool,
    /// Window scale, with this shift.
    pub window_scale: Option<u8>,
    /// Selective acknowledgements permitted. None is ever sent.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
}

impl Options {
    /// What Linux offers.
    pub const LINUX: Self = Self { mss: true, window_scale: Some(7), sack: true, timestamps: true };
    /// The MSS alone.
    pub const MSS: Self = Self { mss: true, window_scale: None, sack: false, timestamps: false };
}

/// What the client expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Exactly these bytes; the server of this bench sends them.
    Exactly(Message),
    /// Anything until the server closes.
    UntilFin,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// The client resets it after the last answer.
    Reset,
    /// The client sends FIN first.
    ClientFin,
    /// The server sends FIN with the end of its last answer.
    ServerFin,
    /// It is held open until all phases are over, then reset.
    Never,
}

/// A TCP run.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpPlan {
    /// IP version.
    pub ip: IpVersion,
    /// Cores that open connections.
    pub cores: Vec<usize>,
    /// When.
    pub opening: Opening,
    /// Addresses and ports that connections come from.
    pub clients: Side,
    /// Addresses and ports that they go to.
    pub servers: Side,
    /// Where the server listens, when a firewall between translates destinations; else where connections go to.
    pub listens: Option<Side>,
    /// Whether a firewall between may give connections other client addresses and ports. Where it may not, the server counts
    /// those that it did give ([`TcpCounts::server_other_source`](super::TcpCounts::server_other_source)).
    pub translates: bool,
    /// Distinct client addresses and ports in use, at most addresses times ports and the engine's capacity. Each holds
    /// one connection at a time.
    pub tuples: u32,
    /// Their order.
    pub order: Order,
    /// Decides the order, the client's initial sequence numbers, and what goes on beside the connections. The server's numbers and
    /// the proofs differ from run to run.
    pub seed: u64,
    /// Options.
    pub options: Options,
    /// The client's request.
    pub request: Message,
    /// The server's answer.
    pub answer: Answer,
    /// Requests a connection, one after the other; 0: none, the connection is opened and closed.
    pub transactions: u16,
    /// How connections end.
    pub close: Close,
    /// Whoever is closed upon acknowledges the FIN before sending its own.
    pub four_way: bool,
    /// How long a connection stays idle after its last answer before the client ends it.
    pub hold: Duration,
    /// How long a tuple rests after its connection's end, as TIME-WAIT would make it.
    pub reuse: Duration,
    /// Time until the first retransmission; doubles with each (RFC 6298 section 5.5).
    pub retry: Duration,
    /// Retransmissions before a connection is given up, 0 to 15.
    pub retries: u8,
    /// How long after the last phase starts that were due within it are still made. What is then still due is left out:
    /// `offered` exceeds `attempted`, and the generator was the limit.
    pub grace: Duration,
    /// Longest wait without any progress for open connections to end after the last phase.
    pub settle: Duration,
    /// A flood beside the connections, within the phases.
    pub attack: Option<Attack>,
    /// Illegal attempts among the starts.
    pub illegal: Option<IllegalPlan>,
}

impl TcpPlan {
    /// One core, one address and every port on each side, a small HTTP transaction closed by reset: to be changed.
    pub fn new(opening: Opening) -> Self {
        Self {
            ip: IpVersion::V4,
            cores: vec![0],
            opening,
            clients: Side { first_host: 256, hosts: 1, first_port: 1024, ports: 64_512 },
            servers: Side { first_host: 256, hosts: 1, first_port: 80, ports: 1 },
            listens: None,
            translates: false,
            tuples: 64_512,
            order: Order::Random,
            seed: 1,
            options: Options::LINUX,
            request: Message::http_get("/"),
            answer: Answer::Exactly(Message::http_answer(1)),
            transactions: 1,
            close: Close::Reset,
            four_way: false,
            hold: Duration::ZERO,
            reuse: Duration::ZERO,
            retry: Duration::from_secs(1),
            retries: 5,
            grace: Duration::from_millis(100),
            settle: Duration::from_secs(2),
            attack: None,
            illegal: None,
        }
    }

    /// The phases; for [`Opening::Fastest`] a single one of its length.
    pub fn phases(&self) -> Vec<TcpPhase> {
        match &self.opening {
            Opening::Scheduled(phases) | Opening::KeepOpen(_, phases) => phases.clone(),
            Opening::Fastest(seconds) => vec![TcpPhase::constant(0.0, *seconds)],
        }
    }

    /// Length of all phases, s.
    pub fn seconds(&self) -> f64 {
        self.phases().iter().fold(0.0, |sum, p| sum + p.seconds)
    }

    /// Bytes of one segment's payload: what the path of 1,500-byte packets takes.
    pub fn segment_bytes(&self) -> u32 {
        self.mss() - if self.options.timestamps { 12 } else { 0 }
    }

    /// The MSS offered.
    pub(crate) fn mss(&self) -> u32 {
        match self.ip {
            IpVersion::V4 => 1460,
            IpVersion::V6 => 1440,
        }
    }
}
