//! One trial: what is asked of a rig, and what it answers. A rig is a bed with a firewall, a generator and a
//! sink; the bench has real ones, the tests have simulated ones.
//!
//! Each workload has a request and an outcome of its own. What every trial has, whatever it carries, is in [`TrialOutcome`].

use crate::application::{ApplicationOutcome, ApplicationRequest, Arrivals};
use crate::bulk::{BulkOutcome, BulkRequest};
use crate::connections::{ConnectionOutcome, ConnectionRequest, ConnectionSecond};
use crate::ledger::{Ledger, Places};
use crate::mark::Mark;
use crate::results::{CpuUse, LatencySummary, is_default};
use crate::shape::Lane;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many frames are offered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Load {
    /// Frames a second over all lanes and cores together.
    PerSecond(f64),
    /// As fast as the generator can.
    Maximum,
    /// This many frames over all lanes and cores, back to back, then silence (RFC 9004).
    Burst(u64),
}

/// A stretch of constant load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Offered load.
    pub load: Load,
    /// Seconds; for a burst, the longest it may take.
    pub seconds: f64,
}

/// What a rig is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialRequest {
    /// Send frames.
    Frames(FrameRequest),
    /// Open TCP connections.
    Connections(ConnectionRequest),
    /// Transfer as many bytes as the connections can carry.
    Bulk(BulkRequest),
    /// Let virtual clients fetch files.
    Application(ApplicationRequest),
}

/// A trial of frames. Phases follow one another without a pause.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameRequest {
    /// At least one phase; recovery tests have two.
    pub phases: Vec<Phase>,
    /// Idle time before the first frame, in seconds: nothing is sent that a buffer would still hold (RFC 9004 section 6.3).
    pub idle_before_seconds: f64,
    /// Reset the firewall this many seconds after the start (RFC 2544 section 26.6).
    pub reset_after_seconds: Option<f64>,
    /// Whether the trial is about when frames arrive rather than how many: the generator then hands frames over in
    /// small batches, which costs rate and saves each frame the wait for the others.
    pub times_matter: bool,
}

impl FrameRequest {
    /// One phase of constant load.
    pub fn constant(load: Load, seconds: f64) -> Self {
        Self::of(vec![Phase { load, seconds }])
    }

    /// These phases and nothing else.
    pub fn of(phases: Vec<Phase>) -> Self {
        Self { phases, idle_before_seconds: 0.0, reset_after_seconds: None, times_matter: false }
    }

    /// The same trial after so much idle time, in seconds.
    pub fn after_idle(self, idle_before_seconds: f64) -> Self {
        Self { idle_before_seconds, ..self }
    }

    /// The same trial for the sake of its latencies.
    pub fn for_times(self) -> Self {
        Self { times_matter: true, ..self }
    }

    /// Whether every frame has a time at which it is due.
    pub fn is_paced(&self) -> bool {
        self.phases.iter().all(|phase| matches!(phase.load, Load::PerSecond(_)))
    }
}

impl From<FrameRequest> for TrialRequest {
    fn from(request: FrameRequest) -> Self {
        Self::Frames(request)
    }
}

impl From<ConnectionRequest> for TrialRequest {
    fn from(request: ConnectionRequest) -> Self {
        Self::Connections(request)
    }
}

impl From<BulkRequest> for TrialRequest {
    fn from(request: BulkRequest) -> Self {
        Self::Bulk(request)
    }
}

impl From<ApplicationRequest> for TrialRequest {
    fn from(request: ApplicationRequest) -> Self {
        Self::Application(request)
    }
}

/// Seconds to set a trial up and to collect what it counted.
const SETTING_UP_SECONDS: f64 = 0.1;

impl TrialRequest {
    /// Seconds of load, all phases together.
    pub fn seconds(&self) -> f64 {
        match self {
            Self::Frames(frames) => frames.phases.iter().map(|phase| phase.seconds).sum(),
            Self::Connections(connections) => connections.seconds(),
            Self::Bulk(bulk) => bulk.seconds,
            Self::Application(application) => application.seconds,
        }
    }

    /// Seconds that the trial usually takes.
    pub(crate) fn typical_seconds(&self) -> f64 {
        // A burst is over long before the time that it may take.
        let bursts = |phase: &&Phase| matches!(phase.load, Load::Burst(_));
        let load = match self {
            Self::Frames(frames) => {
                let bursts: f64 = frames.phases.iter().filter(bursts).map(|phase| phase.seconds).sum();
                frames.idle_before_seconds + self.seconds() - bursts
            }
            Self::Connections(connections) => connections.typical_seconds(),
            Self::Bulk(_) | Self::Application(_) => self.seconds(),
        };
        trials(1.0, load)
    }

    /// Whether the firewall is reset, or its policy replaced, during the trial.
    pub(crate) fn changes_the_firewall(&self) -> bool {
        match self {
            Self::Frames(frames) => frames.reset_after_seconds.is_some(),
            Self::Connections(ConnectionRequest::Scheduled { replace_after_seconds, .. }) => {
                replace_after_seconds.is_some()
            }
            Self::Connections(_) | Self::Bulk(_) | Self::Application(_) => false,
        }
    }

    /// Whether every frame or connection has a time at which it is due, so that the generator can be behind.
    pub(crate) fn is_paced(&self) -> bool {
        match self {
            Self::Frames(frames) => frames.is_paced(),
            Self::Connections(connections) => !matches!(connections, ConnectionRequest::Fastest { .. }),
            Self::Application(application) => application.arrivals != Arrivals::ClosedLoop,
            Self::Bulk(_) => false,
        }
    }
}

/// Seconds of some trials, the time to set them up included.
pub(crate) fn trials(count: f64, seconds: f64) -> f64 {
    count * (seconds + SETTING_UP_SECONDS)
}

/// What happened on one lane, all cores together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaneOutcome {
    /// The lane.
    pub lane: Lane,
    /// Frames handed to the link.
    pub sent: u64,
    /// Distinct frames received intact.
    pub received: u64,
    /// Copies beyond the first; 0 when absent, like the next two.
    #[serde(default, skip_serializing_if = "is_default")]
    pub duplicated: u64,
    /// Frames that arrived after a later one (RFC 4737 section 3).
    #[serde(default, skip_serializing_if = "is_default")]
    pub reordered: u64,
    /// Frames with our mark but wrong content.
    #[serde(default, skip_serializing_if = "is_default")]
    pub corrupted: u64,
    /// One-way latency; `None` when nothing was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<LatencySummary>,
    /// Packet delay variation: latency minus the smallest (RFC 5481 section 4.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdv_ns: Option<LatencySummary>,
    /// Inter-packet delay variation, absolute (RFC 5481 section 4.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipdv_ns: Option<LatencySummary>,
}

/// One second (or the last part of one) of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondSample {
    /// Seconds from the start of the trial to the end of this sample.
    pub at_seconds: f64,
    /// Frames sent within it; connections attempted; transactions begun.
    pub sent: u64,
    /// Frames received within it; connections or transactions completed.
    pub received: u64,
    /// Latency of the frames received within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<LatencySummary>,
    /// More of a second with connections.
    #[serde(default, alias = "sessions", skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionSecond>,
}

/// What a rig answers.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialOutcome {
    /// Which trial of its run it was, from 0: the campaign counts, a rig leaves 0.
    pub id: u32,
    /// Seconds of load, measured.
    pub seconds: f64,
    /// Where every frame, connection, byte or transaction went.
    pub ledger: Ledger,
    /// Per second; empty for a bulk transfer.
    pub per_second: Vec<SecondSample>,
    /// Processor time.
    pub cpu: CpuUse,
    /// Entries in the firewall's flow table at the end, where it has one.
    pub flow_entries: Option<u64>,
    /// Bytes of memory that the firewall used, where its driver can find out.
    pub memory_bytes: Option<u64>,
    /// Seconds that loading the policy took when the firewall was set up, where the driver timed it.
    pub policy_load_seconds: Option<f64>,
    /// Why this trial must not count, in the user's words; empty for a good trial.
    pub faults: Vec<String>,
    /// What is worth knowing but does not make the trial worthless.
    pub remarks: Vec<String>,
    /// How the firewall broke its policy meanwhile, where that stands in no ledger.
    pub policy_broken: Option<Mark>,
    /// What only this workload has.
    pub workload: WorkloadOutcome,
}

/// What became of the frames, the connections, the transfer or the transactions of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkloadOutcome {
    /// Of frames.
    Frames(FrameOutcome),
    /// Of TCP connections.
    Connections(Box<ConnectionOutcome>),
    /// Of a bulk transfer.
    Bulk(BulkOutcome),
    /// Of application traffic.
    Application(ApplicationOutcome),
}

/// What became of the frames of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FrameOutcome {
    /// Bits of received frames, FCS included.
    pub received_bits: u64,
    /// Per lane.
    pub lanes: Vec<LaneOutcome>,
    /// Latency over all lanes.
    pub latency_ns: Option<LatencySummary>,
    /// When the last loss was seen, in seconds from the start of the last phase.
    pub last_loss_seconds: Option<f64>,
    /// The longest time without a received frame, in seconds.
    pub longest_silence_seconds: f64,
    /// Share of the frames that went out within 5 us of their due time; `None` where there was no schedule.
    pub on_time_share: Option<f64>,
}

impl TrialOutcome {
    /// What became of the frames; `None` of another workload.
    pub fn frames(&self) -> Option<&FrameOutcome> {
        match &self.workload {
            WorkloadOutcome::Frames(frames) => Some(frames),
            _ => None,
        }
    }

    /// What became of the connections; `None` of another workload.
    pub fn connections(&self) -> Option<&ConnectionOutcome> {
        match &self.workload {
            WorkloadOutcome::Connections(connections) => Some(connections),
            _ => None,
        }
    }

    /// What became of the bulk transfer; `None` of another workload.
    pub fn bulk(&self) -> Option<&BulkOutcome> {
        match &self.workload {
            WorkloadOutcome::Bulk(bulk) => Some(bulk),
            _ => None,
        }
    }

    /// What became of the application traffic; `None` of another workload.
    pub fn application(&self) -> Option<&ApplicationOutcome> {
        match &self.workload {
            WorkloadOutcome::Application(application) => Some(application),
            _ => None,
        }
    }

    /// Bits received: of frames, FCS included; of a bulk transfer, those that the server's application read; of files, those of
    /// completed transactions.
    pub fn received_bits(&self) -> u64 {
        match &self.workload {
            WorkloadOutcome::Frames(frames) => frames.received_bits,
            WorkloadOutcome::Connections(connections) => connections.bits,
            WorkloadOutcome::Bulk(bulk) => bulk.received_bytes * 8,
            WorkloadOutcome::Application(application) => application.client_bytes * 8,
        }
    }

    /// One-way latency of frames, establishment time of connections, times of transactions, where they were sampled.
    pub fn latency_ns(&self) -> Option<LatencySummary> {
        match &self.workload {
            WorkloadOutcome::Frames(frames) => frames.latency_ns,
            WorkloadOutcome::Connections(connections) => connections.times.established_ns,
            WorkloadOutcome::Bulk(_) => None,
            WorkloadOutcome::Application(application) => application.times_ns,
        }
    }

    /// Share of the offered frames that did not arrive, whatever the reason: 0 to 1. Bytes that were under way at the end
    /// are not lost.
    pub fn loss_ratio(&self) -> f64 {
        if self.ledger.offered == 0 {
            return 0.0;
        }
        let under_way = match &self.ledger.places {
            Places::Bulk(places) => places.under_way,
            _ => 0,
        };
        1.0 - (self.ledger.received + under_way) as f64 / self.ledger.offered as f64
    }

    /// Received frames (connections, bytes) a second.
    pub fn forwarding_rate(&self) -> f64 {
        if self.seconds <= 0.0 { 0.0 } else { self.ledger.received as f64 / self.seconds }
    }

    /// The same without connections that a queue took in and that ended after the load ([`InTime`](crate::pace::InTime)).
    pub fn held_rate(&self) -> f64 {
        let in_time = self.connections().and_then(|connections| connections.in_time);
        in_time.map_or(f64::INFINITY, |in_time| in_time.rate()).min(self.forwarding_rate())
    }
}

/// Why a rig could not run a trial.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RigError {
    /// The point is lost, the run goes on.
    #[error("{0}")]
    Broken(String),
    /// The firewall could not be set up: its points have no value.
    #[error("could not be set up: {0}")]
    NotSetUp(String),
    /// The firewall cannot do what the test asks: its points have no value, and that is no fault of it.
    #[error("{0}")]
    Unsupported(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Something trials can be run on.
pub trait Rig {
    /// Name of the firewall under test, as suites write it.
    fn dut(&self) -> &str;

    /// Shows that allowed traffic passes and forbidden traffic does not, and that the firewall is the one asked for.
    ///
    /// # Errors
    /// [`RigError::Broken`] names the probe that failed.
    fn prove(&mut self) -> Result<(), RigError>;

    /// Runs one trial.
    ///
    /// # Errors
    /// See [`RigError`]. A trial that ran but must not count is an outcome with faults, not an error.
    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError>;
}
