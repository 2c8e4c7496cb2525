//! What the bench and its agents say to each other.

use measure::clock::Exchange;
use measure::results::CpuUse;
use measure::shape::{Lane, Placement, TrafficShape, Zone};
use measure::trial::{Phase, SecondSample};
use serde::{Deserialize, Serialize};
use traffic::{Arrival, Forbidden, PartReading, PatrolledPart, ProbeFrame};

/// Of what both sides say. Bench and agent of different ones refuse each other.
pub(crate) const PROTOCOL: u32 = 1;
/// Of the programs that send and count, which both hosts must have alike.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Bytes of the largest message that is read at all.
pub(crate) const LARGEST: usize = 1 << 20;

/// Where an agent listens for orders.
pub(crate) fn orders_of(agent: &str) -> String {
    format!("rampart-bench.agent.{agent}")
}

/// Where an agent says what its clock shows.
pub(crate) fn clock_of(agent: &str) -> String {
    format!("rampart-bench.clock.{agent}")
}

/// Before a session: a leader asks for a number that nobody can have known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) protocol: u32,
    pub(crate) version: String,
    /// The leader's own number.
    pub(crate) nonce: String,
}

/// What an agent answers to a greeting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Welcome {
    /// The agent's own number.
    Nonce(String),
    /// It will not do.
    Refused(String),
}

/// What an agent is asked to do. The first of a session takes the port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Take the port, as that of a zone.
    Take {
        /// The leader, for messages.
        leader: String,
        /// The zone.
        zone: Zone,
        /// Flows for which there is to be room.
        flows: u32,
    },
    /// The port of the other zone is this one.
    Meet {
        /// Where it is.
        other: Place,
        /// What questions for the clock are sealed with, beside the key.
        ticket: String,
    },
    /// Exchange stamps with another agent that has the same ticket.
    Compare {
        /// The other agent's name.
        with: String,
        /// The ticket.
        ticket: String,
        /// How often.
        times: u32,
    },
    /// Look out for probes with this mark.
    AwaitProbes(u16),
    /// Send those of the probes that enter here.
    SendProbes {
        /// Their mark.
        mark: u16,
        /// All of a proof.
        probes: Vec<ProbeFrame>,
    },
    /// Say which of so many probes arrived.
    Arrivals(usize),
    /// Prepare a trial, and wait for its beginning.
    Prepare(Box<Trial>),
    /// The trial begins at this moment of the agent's clock, in ns.
    Begin(u64),
    /// So many frames arrive at most.
    Expect(u64),
    /// Say how the trial is.
    Look,
    /// End the trial.
    Stop,
    /// Be at rest.
    Leave,
}

/// A port, as the other host must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its zone.
    pub zone: Zone,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// A trial, as both hosts must know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's number within the session: its secrets are drawn from that and the key, and so never sent.
    pub number: u64,
    /// The mark of its frames.
    pub mark: u16,
    /// What is sent.
    pub traffic: TrafficShape,
    /// Load over time.
    pub phases: Vec<Phase>,
    /// All lanes with their shares.
    pub lanes: Vec<(Lane, f64)>,
    /// Where the work is done.
    pub placement: Placement,
    /// Cores that generate.
    pub cores: Vec<usize>,
    /// Whether the trial is about when frames arrive.
    pub times_matter: bool,
    /// Longest wait for frames under way, in ms.
    pub settle_ms: u64,
    /// Prefixes that the firewall is asked to put in the place of the private zone's.
    pub translated: Option<(u32, [u8; 16])>,
    /// What goes along and must not arrive.
    pub forbidden: Option<Forbidden>,
    /// By how much the sender's clock is ahead of the agent's, in ns, as far as is known.
    pub clock_ns: i64,
    /// What goes beside it and must not arrive, and the seconds between two of these.
    pub patrol: Option<(Vec<ProbeFrame>, f64)>,
    /// Seconds between two samples.
    pub sample_seconds: f64,
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It is done.
    Done,
    /// The port is taken.
    Taken(Box<Facts>),
    /// Stamps.
    Stamps(Vec<Exchange>),
    /// Probes that arrived.
    Arrivals(Vec<Option<Arrival>>),
    /// A trial is under way.
    UnderWay(Progress),
    /// A trial has ended.
    Ended(Box<Outcome>),
    /// It will not be done.
    Refused(String),
}

/// A host and its port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The interface.
    pub interface: String,
    /// Its number.
    pub ifindex: u32,
    /// The port's own Ethernet address.
    pub mac: [u8; 6],
    /// The firewall's.
    pub gateway_mac: [u8; 6],
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Cores that can generate.
    pub cores: Vec<u32>,
    /// In words, for the report: `host zurich, Linux 6.12.1, 4 cores of …`.
    pub machine: String,
}

/// How far a trial is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Whether it waits for its beginning.
    pub ready: bool,
    /// Frames sent from here, once no more will be.
    pub sent: Option<u64>,
    /// The agent's clock, in ns.
    pub now_ns: u64,
}

/// What a host saw of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Frames.
    pub part: PartReading,
    /// Second by second.
    pub per_second: Vec<SecondSample>,
    /// Forbidden frames beside the load.
    pub patrol: PatrolledPart,
    /// Processor time.
    pub cpu: CpuUse,
    /// Why the trial must not count.
    pub faults: Vec<String>,
    /// What is worth knowing.
    pub remarks: Vec<String>,
}
