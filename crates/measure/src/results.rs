//! The result schema `rampart-bench/2`: what `results.json` holds. Its JSON Schema is generated from these types.
//!
//! Each fact stands once and is named by its identifier elsewhere: a point names its cell, its firewall and the trials that
//! decided it, and [`Reading`] follows these names. Units are in the names of fields or stand beside the value in `unit`.

mod digits;
mod follows;
mod reading;

pub use follows::Misfit;
pub use reading::Reading;

use crate::application::ApplicationOutcome;
use crate::bulk::BulkOutcome;
use crate::connections::ConnectionOutcome;
use crate::ledger::Ledger;
use crate::level::Level;
pub use crate::mark::{MARKS, Mark, MarkKind, MarkRow};
pub use crate::metric::{Better, Counts, METRICS, Metric, MetricRow};
pub use crate::mix::{StatedMix, StatedPart};
use crate::search::Goal;
use crate::shape::{Placement, Workload};
use crate::trial::{LaneOutcome, SecondSample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema's name and version.
pub const SCHEMA: &str = "rampart-bench/2";

/// One run of one suite.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Always `rampart-bench/2`.
    pub schema: String,
    /// The older schema that these were read from, for example `rampart-bench/1`: what they keep of their trials is too little to compute
    /// the values again. Absent of what a run wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converted_from: Option<String>,
    /// The suite's name, for example `demo`.
    pub suite: String,
    /// `quick`, `standard` or `full`.
    pub profile: String,
    /// Seed of every pseudorandom choice, for example 1.
    pub seed: u64,
    /// When the run started: RFC 3339, UTC, for example `2026-11-21T10:15:00Z`.
    pub started: String,
    /// The command that repeats the run, for example `rampart-bench run demo --profile quick`.
    pub command: String,
    /// False while the run goes on, or when it was cut short.
    pub complete: bool,
    /// The machine.
    pub environment: Environment,
    /// The generator and the sink against themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<Calibration>,
    /// Which sections of which standard were met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tick_sheet: Vec<Tick>,
    /// The mixes of applications that cells carried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixes: Vec<StatedMix>,
    /// The firewalls compared, in the order of the reports.
    pub firewalls: Vec<Firewall>,
    /// The settings under which they were measured.
    pub cells: Vec<Cell>,
    /// Every trial, by cell and firewall.
    pub runs: Vec<Run>,
    /// The measured values.
    pub points: Vec<Point>,
}

/// A firewall under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Firewall {
    /// Its name, as suites and `--dut` write it, for example `nftables`.
    pub name: String,
    /// What it is to the reader.
    pub role: Role,
    /// Its place among all firewalls that the bench knows, from 0: the order of reports, and its colour in charts.
    pub order: u32,
}

/// What a firewall under test is to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Nothing between generator and sink: the ceiling of this bench, not a firewall.
    Calibration,
    /// Forwards without a policy: what a firewall's policy costs is the distance to it.
    Forwarder,
    /// Enforces the policy.
    Firewall,
}

/// A test under one level of every factor: what makes points comparable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Its identifier, from 0.
    pub id: u32,
    /// Test of the suite, for example `throughput`.
    pub test: String,
    /// Where the work was done.
    pub placement: Placement,
    /// Cores used, for example 2.
    pub cores: u32,
    /// What was sent, and so what loads, ledgers and losses count.
    pub workload: Sent,
    /// Every other factor and its level, for example `frame`.
    pub factors: BTreeMap<String, Level>,
}

/// What was sent through the firewalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sent {
    /// Frames of UDP: loads and ledgers count frames.
    Frames,
    /// TCP connections: loads and ledgers count connections.
    Connections,
    /// Bulk transfers over the kernel's own TCP: loads and ledgers count bytes.
    Bulk,
    /// Virtual clients that fetch files over the kernel's own TCP: loads and ledgers count transactions.
    Application,
}

impl Sent {
    /// What a setup's workload sends.
    pub const fn of(workload: &Workload) -> Self {
        match workload {
            Workload::Frames => Sent::Frames,
            Workload::Connections(_) => Sent::Connections,
            Workload::Bulk(_) => Sent::Bulk,
            Workload::Application(_) => Sent::Application,
        }
    }
}

/// All trials of one firewall in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The cell's identifier.
    pub cell: u32,
    /// The firewall's name.
    pub dut: String,
    /// Seconds that loading the policy took, where the driver timed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_load_seconds: Option<f64>,
    /// The trials, in the order in which they were run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
    /// The goal and the result of every search, in the order of the rounds; none where no search decides a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<SearchOutcome>,
}

/// What a search was for and what it found, as RFC 9971 wants it reported. Loads are offered ones: frames or connections a
/// second over all directions together, or connections held open.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchOutcome {
    /// Round that it belongs to, from 0.
    pub round: u32,
    /// The search goal: every attribute of it.
    pub goal: Goal,
    /// Relevant lower bound: the highest load, below the upper bound, that met the goal.
    pub lower: f64,
    /// Relevant upper bound: the lowest load that missed it; absent when even the highest load met it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<f64>,
    /// Conditional throughput: what is typically forwarded at the lower bound.
    pub conditional_throughput: f64,
    /// Whether the result is regular: it has both bounds, and they are as close as the goal asks.
    pub regular: bool,
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

/// One measured value of one firewall in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The cell's identifier.
    pub cell: u32,
    /// The firewall's name.
    pub dut: String,
    /// Factors that the procedure itself varied, beside the cell's: `load`, `phase` or `resets`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Level>,
    /// What was measured.
    pub metric: Metric,
    /// Its unit, for example `frames/s`.
    pub unit: String,
    /// The median over the rounds.
    pub value: f64,
    /// Lower end of its 95 % interval (Student's t over the rounds); of one round, which has no interval, the value.
    pub low: f64,
    /// Upper end of it; of one round, the value.
    pub high: f64,
    /// How far the value may be off either way because two hosts have two clocks, in its unit; both ends of the interval have it in them. 0,
    /// and absent, of one host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock_error: f64,
    /// The rounds' values behind `value`, in the order of the rounds (index = round: equal indices were interleaved).
    pub rounds: Vec<f64>,
    /// Whether the value may be used.
    pub valid: bool,
    /// Why it may not, and what else the reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Identifiers of the trials that the value rests on, among those of the same cell and firewall. None of a value that was
    /// computed from other points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deciding: Vec<u32>,
    /// The one of them whose median time is the middle one, which stands for all where distributions cannot be added; the last
    /// where no times were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical: Option<u32>,
}

impl Point {
    /// The 95 % interval; none of one round, nor when so few of several have a value that no interval was made of them.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let made = self.low < self.high || self.rounds.iter().all(|round| *round == self.value);
        let enough = self.rounds.len() > 1 || self.clock_error > 0.0;
        (enough && made).then_some((self.low, self.high))
    }
}

/// One trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Its identifier, from 0 within its run.
    pub id: u32,
    /// Round that it belongs to, from 0.
    pub round: u32,
    /// What `offered` and `received` are: a rate unless it says otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub load: LoadKind,
    /// Offered frames, connections or bytes a second; of a burst, frames; of a number held open, connections.
    pub offered: f64,
    /// Seconds of sending.
    pub seconds: f64,
    /// Received frames, completed connections or bytes a second; connections proved, of a number held open.
    pub received: f64,
    /// Share of the offered frames or connections that did not arrive, 0 to 1; 0 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub loss: f64,
    /// One-way latency of frames, where it was sampled, of a trial that decided a point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<LatencySummary>,
    /// Copies beyond the first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub duplicated: u64,
    /// Frames that came after a later one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reordered: u64,
    /// Second by second, of a trial that decided a point and lasted longer than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_second: Vec<SecondSample>,
    /// Why this trial must not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// More of a trial that decided a point; the others only showed the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
}

/// What the load of a trial is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// So many a second.
    #[default]
    Rate,
    /// So many back to back.
    Burst,
    /// So many open at once.
    Open,
}

/// Where the load of a deciding trial went, and what that took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// Where every frame, connection or byte went.
    #[schemars(with = "crate::ledger::Entries")]
    pub ledger: Ledger,
    /// Processor time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpu: CpuUse,
    /// Entries in the firewall's flow table at the end, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_entries: Option<u64>,
    /// Bytes of memory that the firewall used, where its driver can find out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Each direction, of frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneOutcome>,
    /// What became of the connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionOutcome>,
    /// What became of the bulk transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<BulkOutcome>,
    /// What became of the application traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationOutcome>,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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
    /// How far each of these may be off either way because they were measured between two hosts, whose clocks differ by what is known of them
    /// only so well; 0, and absent, of one host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock_error: f64,
}

/// Processor time during a trial, as shares of one core, 0 to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// Per core.
    pub cores: Vec<CoreUse>,
    /// The firewall's own share, in cores, where it can be measured apart (isolated placement).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firewall: Option<f64>,
    /// By programs that run in the firewall's namespace, in cores, for example 0.9 of one that forwards in user space; 0 when
    /// absent, like the next two.
    #[serde(default, skip_serializing_if = "is_default")]
    pub programs: f64,
    /// By kernel threads, interrupts and the firewall's programs on cores that the trial does not own, in cores.
    #[serde(default, skip_serializing_if = "is_default")]
    pub elsewhere: f64,
    /// By programs that are neither the bench's nor the firewall's, in cores.
    #[serde(default, skip_serializing_if = "is_default")]
    pub foreign: f64,
}

impl CpuUse {
    /// Processor time of other programs, in cores, from which on a trial says nothing of the firewall.
    const FOREIGN: f64 = 0.10;
    /// The same of what the hypervisor takes, as a share of the trial's cores. A tick is 3 % of 0.3 s.
    const STOLEN: f64 = 0.05;

    /// Share of the cores that the hypervisor took, 0 to 1.
    #[must_use]
    pub fn stolen(&self) -> f64 {
        self.cores.iter().map(|core| core.stolen).sum::<f64>() / self.cores.len().max(1) as f64
    }

    /// Whether other programs or the hypervisor took so much that a trial should be made again.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        self.foreign > Self::FOREIGN || self.stolen() > Self::STOLEN
    }
}

/// Use of one core, shares of its time; 0 where absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreUse {
    /// Core number.
    pub core: u32,
    /// User, nice.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user: f64,
    /// System.
    #[serde(default, skip_serializing_if = "is_default")]
    pub system: f64,
    /// Hard and soft interrupts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interrupt: f64,
    /// Taken by the hypervisor.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stolen: f64,
    /// Idle and waiting.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle: f64,
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
