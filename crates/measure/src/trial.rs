//! One trial: what is asked of a rig, and what it answers. A rig is a bed with a firewall, a generator and a
//! sink; the bench has real ones, the tests have simulated ones.

use crate::bulk::BulkOutcome;
use crate::ledger::Ledger;
use crate::results::{CpuUse, LatencySummary};
use crate::sessions::{Attack, Resets, SessionOutcome, SessionSecond};
use crate::shape::Lane;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many frames are offered; with sessions, how many connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Frames or connections a second over all lanes and cores together.
    PerSecond(f64),
    /// Connections a second, changing evenly over the phase. Sessions only.
    Ramp {
        /// At the beginning of the phase.
        from: f64,
        /// At its end.
        to: f64,
    },
    /// So many connections open at once, opened at `per_second`, each proved by a request after all are open. The only
    /// phase of its trial; its seconds are how long the connections stay open and idle before the proof. Sessions only.
    Open {
        /// Connections.
        connections: u64,
        /// Connections a second while they are opened.
        per_second: f64,
    },
    /// As fast as the generator can; connections, as fast as the earlier ones make room (closed loop).
    Maximum,
    /// This many frames over all lanes and cores, back to back, then silence (RFC 9004).
    Burst(u64),
}

/// A stretch of constant load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// Offered load.
    pub load: Load,
    /// Seconds; for a burst, the longest it may take.
    pub seconds: f64,
}

/// What a rig is asked to do. Phases follow one another without a pause.
///
/// Procedures with sessions send these requests, and no others. Loads count legal and illegal attempts together, but
/// `connections` of [`Load::Open`] legal ones alone: while they are opened at `per_second` attempts of both kinds, illegal
/// ones come between them in their share. Ledgers and samples count legal connections alone.
///
/// | procedure | phases | besides |
/// |---|---|---|
/// | `connection-rate`, `transaction-rate`, `teardown-rate` | first [`Load::Maximum`], closed loop: as fast as answers come; then [`Load::PerSecond`] | `attack` from 0 to the end, where the suite has one |
/// | `connection-capacity` | [`Load::Open`] of ever another number, `max_connections` first; its seconds are the factor `hold` | |
/// | `session-rate` | one [`Load::Open`] of `connections` at `session_rate`; its seconds are the factor `hold` | |
/// | `steady` | [`Load::Ramp`] from 0, [`Load::PerSecond`], [`Load::Ramp`] to 0, each only if it lasts longer than 0 s | `attack`, its time counted from the start of the trial |
/// | `resets` | [`Load::Open`] of `connections` at `opening_rate` for 0 s, once for each kind of reset, on fresh connections | `resets` |
/// | `replacement` | one [`Load::PerSecond`] | `replace_after_seconds` |
///
/// The procedure `bulk` sends one [`Load::Maximum`] of whole seconds: the number of connections is the setup's.
///
/// `steady` reads its values from `per_second`, whose samples should begin at the start of the trial and be 1 s long or an
/// even part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRequest {
    /// At least one phase; recovery tests have two.
    pub phases: Vec<Phase>,
    /// Reset the firewall this many seconds after the start (RFC 2544 section 26.6).
    pub reset_after_seconds: Option<f64>,
    /// Whether the trial is about when frames arrive rather than how many: the generator then hands frames over in
    /// small batches, which costs rate and saves each frame the wait for the others.
    pub times_matter: bool,
    /// A flood beside the connections. Sessions only.
    pub attack: Option<Attack>,
    /// Resets against connections that are held open; the only phase is then [`Load::Open`]. Sessions only.
    pub resets: Option<Resets>,
    /// Replace the firewall's policy by one of other filler rules this many seconds after the start. Sessions only.
    pub replace_after_seconds: Option<f64>,
}

impl TrialRequest {
    /// One phase of constant load.
    pub fn constant(load: Load, seconds: f64) -> Self {
        Self::of(vec![Phase { load, seconds }])
    }

    /// These phases and nothing else.
    pub fn of(phases: Vec<Phase>) -> Self {
        Self {
            phases,
            reset_after_seconds: None,
            times_matter: false,
            attack: None,
            resets: None,
            replace_after_seconds: None,
        }
    }
}

impl TrialRequest {
    /// The same trial for the sake of its latencies.
    pub fn for_times(self) -> Self {
        Self { times_matter: true, ..self }
    }
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
    /// Copies beyond the first.
    pub duplicated: u64,
    /// Frames that arrived after a later one (RFC 4737 section 3).
    pub reordered: u64,
    /// Frames with our mark but wrong content.
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
    /// Frames sent within it; connections attempted, with sessions.
    pub sent: u64,
    /// Frames received within it; connections completed, with sessions.
    pub received: u64,
    /// Latency of the frames received within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<LatencySummary>,
    /// More of a second with sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionSecond>,
}

/// What a rig answers.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialOutcome {
    /// Seconds of sending, measured.
    pub seconds: f64,
    /// Where every frame went.
    pub ledger: Ledger,
    /// Bits of received frames, FCS included; of a bulk transfer, bits that the server's application read.
    pub received_bits: u64,
    /// Per lane.
    pub lanes: Vec<LaneOutcome>,
    /// Latency over all lanes.
    pub latency_ns: Option<LatencySummary>,
    /// Per second.
    pub per_second: Vec<SecondSample>,
    /// Processor time.
    pub cpu: CpuUse,
    /// Entries in the firewall's connection table at the end, where it has one.
    pub connections: Option<u64>,
    /// Bytes of memory that the firewall used, where that can be told.
    pub memory_bytes: Option<u64>,
    /// Seconds that loading the policy took when the firewall was set up, where the driver timed it.
    pub policy_load_seconds: Option<f64>,
    /// What became of connections; `Some` exactly when the setup has sessions.
    pub sessions: Option<SessionOutcome>,
    /// What became of a bulk transfer; `Some` exactly when the setup has one.
    pub bulk: Option<BulkOutcome>,
    /// When the last loss was seen, in seconds from the start of the last phase.
    pub last_loss_seconds: Option<f64>,
    /// The longest time without a received frame, in seconds.
    pub longest_silence_seconds: f64,
    /// Share of the frames that went out within 5 us of their due time; `None` where there was no schedule.
    pub on_time_share: Option<f64>,
    /// Why this trial must not count, in the user's words; empty for a good trial.
    pub faults: Vec<String>,
    /// What is worth knowing but does not make the trial worthless.
    pub remarks: Vec<String>,
}

impl TrialOutcome {
    /// Share of the offered frames that did not arrive, whatever the reason: 0 to 1. Bytes that were under way at the end
    /// are not lost.
    pub fn loss_ratio(&self) -> f64 {
        if self.ledger.offered == 0 {
            return 0.0;
        }
        1.0 - (self.ledger.received + self.ledger.under_way) as f64 / self.ledger.offered as f64
    }

    /// Received frames (connections, bytes) a second.
    pub fn forwarding_rate(&self) -> f64 {
        if self.seconds <= 0.0 { 0.0 } else { self.ledger.received as f64 / self.seconds }
    }
}

/// Why a rig could not run a trial.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RigError {
    /// The point is lost, the run goes on.
    #[error("{0}")]
    Broken(String),
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
