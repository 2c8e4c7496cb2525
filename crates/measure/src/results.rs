//! The result schema `rampart-bench/1`: what `results.json` holds. Its JSON Schema is generated from these types.
//!
//! Units are in the names or stand beside the value in `unit`. A point is valid, or its marks say why not.

use crate::bulk::BulkOutcome;
use crate::connections::ConnectionOutcome;
use crate::ledger::Ledger;
pub use crate::metric::{Better, Counts, METRICS, Metric, MetricRow};
use crate::shape::Placement;
use crate::trial::{LaneOutcome, SecondSample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema's name and version.
pub const SCHEMA: &str = "rampart-bench/1";

/// One run of one suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Always `rampart-bench/1`.
    pub schema: String,
    /// The suite's name.
    pub suite: String,
    /// `quick`, `standard` or `full`.
    pub profile: String,
    /// Seed of every pseudorandom choice.
    pub seed: u64,
    /// When the run started: RFC 3339, UTC.
    pub started: String,
    /// The command that repeats the run.
    pub command: String,
    /// False while the run goes on, or when it was cut short.
    pub complete: bool,
    /// The machine.
    pub environment: Environment,
    /// The generator and the sink against themselves.
    pub calibration: Vec<Calibration>,
    /// The measured points.
    pub points: Vec<Point>,
    /// Which sections of which standard were met.
    #[serde(default)]
    pub tick_sheet: Vec<Tick>,
}

/// The machine that the figures belong to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Processor model.
    pub cpu: String,
    /// Cores online.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel release and version.
    pub kernel: String,
    /// Clock source in use.
    pub clock: String,
    /// Hypervisor, or `none`.
    pub virtualization: String,
    /// Processor vulnerability to mitigation.
    pub mitigations: BTreeMap<String, String>,
    /// Program to version: `nft`, `iptables`, `clang`, `rampart-bench`, …
    pub versions: BTreeMap<String, String>,
    /// Kernel settings that the run changed or depends on.
    pub settings: BTreeMap<String, String>,
    /// One-minute load average before the run.
    pub load_before: f64,
    /// One-minute load average after the run.
    pub load_after: f64,
    /// Share of processor time stolen by the hypervisor during the run, 0 to 1.
    pub stolen: f64,
    /// What the reader must know about this machine.
    pub remarks: Vec<String>,
}

/// A figure of the bench about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// What was measured, for example `generator and sink, 64 bytes, 1 M flows, 1 core`.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The least (or most) that it should be, where there is such a promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Whether the promise was kept; absent when the interval of the rounds reaches over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

/// One measured value of one firewall under one setting of the factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Test of the suite.
    pub test: String,
    /// Firewall under test.
    pub dut: String,
    /// Where the work was done.
    pub placement: Placement,
    /// Cores used.
    pub cores: u32,
    /// Every other factor and its level, as the suite writes it.
    pub factors: BTreeMap<String, String>,
    /// What was measured.
    pub metric: Metric,
    /// Its unit.
    pub unit: String,
    /// The median over the rounds.
    pub value: f64,
    /// Lower end of the bootstrap 95 % interval of the median.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// The rounds' values behind `value`, in the order of the rounds (index = round: equal indices were interleaved).
    pub rounds: Vec<f64>,
    /// Every trial.
    pub trials: Vec<Trial>,
    /// Whether the value may be used.
    pub valid: bool,
    /// Why it may not, and what else the reader must know.
    pub marks: Vec<Mark>,
    /// Sum over the deciding trials.
    pub ledger: Ledger,
    /// Latency in the deciding trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<LatencySummary>,
    /// Each direction in one deciding trial: that whose latency stands above, where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneOutcome>,
    /// Processor time in the deciding trials.
    pub cpu: CpuUse,
    /// Entries in the firewall's flow table, where it has such a table.
    #[serde(default, rename = "connections", skip_serializing_if = "Option::is_none")]
    pub flow_entries: Option<u64>,
    /// Bytes of memory that the firewall used, where that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Seconds that loading the policy took, where the driver timed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_load_seconds: Option<f64>,
    /// What became of the connections in one deciding trial.
    #[serde(default, rename = "sessions", skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionOutcome>,
    /// What became of the bulk transfers of the deciding trials, together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<BulkOutcome>,
}

/// One trial as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Round that it belongs to, from 0.
    pub round: u32,
    /// Offered frames (or connections, or bytes) a second; for a burst, frames; for a number held open, connections.
    pub offered: f64,
    /// Seconds of sending.
    pub seconds: f64,
    /// Received frames (or completed connections) a second; connections proved, of a number held open.
    pub received: f64,
    /// Share of the offered frames (or connections) that did not arrive.
    pub loss: f64,
    /// Latency, where sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<LatencySummary>,
    /// Copies beyond the first.
    #[serde(default)]
    pub duplicated: u64,
    /// Frames that came after a later one.
    #[serde(default)]
    pub reordered: u64,
    /// Second by second, where the trial lasted longer than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_second: Vec<SecondSample>,
    /// Why this trial must not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

/// A distribution of times in ns, read from histograms with at most 1 % relative error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Samples.
    pub count: u64,
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// Processor time during a trial, as shares of one core, 0 to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// Per core.
    pub cores: Vec<CoreUse>,
    /// The firewall's own share, in cores, where it can be told apart (isolated placement).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firewall: Option<f64>,
}

/// Use of one core, shares of its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreUse {
    /// Core number.
    pub core: u32,
    /// User, nice.
    pub user: f64,
    /// System.
    pub system: f64,
    /// Hard and soft interrupts.
    pub interrupt: f64,
    /// Taken by the hypervisor.
    pub stolen: f64,
    /// Idle and waiting.
    pub idle: f64,
}

/// Something the reader must know about a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// Kind.
    pub kind: MarkKind,
    /// In words.
    pub detail: String,
}

/// Kinds of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// Within 10 % of the `wire` figure for the same frames: the generator may have been the limit.
    GeneratorLimited,
    /// The rounds differ by more than 10 % (EANTC).
    Unstable,
    /// The policy could not be proved; the point is invalid.
    PolicyNotProved,
    /// The ledger does not sum to zero; the point is invalid.
    LedgerUnbalanced,
    /// The generator was behind its schedule; the point is invalid.
    GeneratorBehind,
    /// The firewall changed its mind, stopped or died during the trial; the point is invalid.
    FirewallFailed,
    /// Illegal traffic got through; the point is invalid.
    IllegalGotThrough,
    /// The firewall cannot do what the test asks, so nothing was measured; the point is invalid.
    NotSupported,
    /// The search ended without a lower bound; the point is invalid.
    NoLowerBound,
    /// The search reached the highest load it may offer without loss.
    NoUpperBound,
    /// The hypervisor took time.
    StolenTime,
    /// Anything else.
    Note,
}

impl MarkKind {
    /// Whether a point with such a mark may not be used.
    pub const fn invalidates(self) -> bool {
        matches!(
            self,
            MarkKind::PolicyNotProved
                | MarkKind::LedgerUnbalanced
                | MarkKind::GeneratorBehind
                | MarkKind::FirewallFailed
                | MarkKind::IllegalGotThrough
                | MarkKind::NotSupported
                | MarkKind::NoLowerBound
        )
    }
}

/// One line of the RFC tick sheet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tick {
    /// `RFC 2544 section 26.1`.
    pub section: String,
    /// What it asks for.
    pub asks: String,
    /// Met, deviated or not run.
    pub status: TickStatus,
    /// How, or why not.
    pub detail: String,
}

/// Whether a section was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TickStatus {
    /// As the section asks.
    Met,
    /// Done differently.
    Deviated,
    /// Not part of this run.
    NotRun,
}
