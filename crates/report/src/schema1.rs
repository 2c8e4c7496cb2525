//! Reads results and journals of schema `rampart-bench/1`, in which every point carried its setting, its trials and its
//! firewall's name again. What that schema did not say is worked out here as its own reports did: which trial decided, which
//! points share trials, what a firewall is. Nothing writes it any more.

use measure::bulk::BulkOutcome;
use measure::connections::ConnectionOutcome;
use measure::ledger::Ledger;
use measure::level::Level;
use measure::results::{
    self, Calibration, Cell, Counts, CpuUse, Detail, Environment, Firewall, LatencySummary, LoadKind, Mark,
    MarkKind, Metric, Results, Role, Run, SCHEMA, Sent, Tick,
};
use measure::shape::Placement;
use measure::trial::{LaneOutcome, SecondSample};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The schema's name and version.
pub(crate) const SCHEMA_1: &str = "rampart-bench/1";

/// What a reader must know of results that were read from it.
pub(crate) const NOT_COMPUTED: &str = "read from the older schema rampart-bench/1, which keeps too little of the trials to compute the values \
                                       again: one that was changed in the file is not noticed";

/// Firewalls that wrote such results, in the order of their reports.
const KNOWN: [(&str, Role); 9] = [
    ("wire", Role::Calibration),
    ("xdp-redirect", Role::Forwarder),
    ("linux", Role::Forwarder),
    ("nftables", Role::Firewall),
    ("iptables", Role::Firewall),
    ("ipset", Role::Firewall),
    ("rampart", Role::Firewall),
    ("rampart-tc", Role::Firewall),
    ("external", Role::Firewall),
];

/// Factors that procedures varied themselves; the others are the cell's.
const MADE: [&str; 3] = ["load", "phase", "resets"];

/// `results.json`, or the header of a journal, which has neither points nor `complete`.
#[derive(Deserialize)]
pub(crate) struct Results1 {
    suite: String,
    profile: String,
    seed: u64,
    started: String,
    command: String,
    #[serde(default)]
    complete: bool,
    environment: Environment,
    calibration: Vec<Calibration>,
    #[serde(default)]
    points: Vec<Point1>,
    #[serde(default)]
    tick_sheet: Vec<Tick>,
}

#[derive(Deserialize)]
pub(crate) struct Point1 {
    test: String,
    dut: String,
    placement: Placement,
    cores: u32,
    factors: BTreeMap<String, String>,
    metric: Metric,
    unit: String,
    value: f64,
    low: f64,
    high: f64,
    rounds: Vec<f64>,
    trials: Vec<Trial1>,
    valid: bool,
    marks: Vec<Mark1>,
    ledger: Ledger,
    latency_ns: Option<LatencySummary>,
    #[serde(default)]
    lanes: Vec<LaneOutcome>,
    cpu: CpuUse,
    connections: Option<u64>,
    memory_bytes: Option<u64>,
    policy_load_seconds: Option<f64>,
    sessions: Option<ConnectionOutcome>,
    bulk: Option<BulkOutcome>,
}

#[derive(Deserialize, Clone, PartialEq)]
struct Trial1 {
    round: u32,
    offered: f64,
    seconds: f64,
    received: f64,
    loss: f64,
    latency_ns: Option<LatencySummary>,
    #[serde(default)]
    duplicated: u64,
    #[serde(default)]
    reordered: u64,
    #[serde(default)]
    per_second: Vec<SecondSample>,
    #[serde(default)]
    faults: Vec<String>,
}

/// Trials of a run as its points carried them, each list with the identifier of its first.
type Carried = Vec<(u32, Vec<Trial1>)>;

#[derive(Deserialize)]
struct Mark1 {
    kind: MarkKind,
    detail: String,
}

impl Results1 {
    /// The same with the points of a journal.
    pub(crate) fn with(self, points: Vec<Point1>) -> Self {
        Self { points, ..self }
    }
}

impl From<Results1> for Results {
    fn from(old: Results1) -> Self {
        let mut results = Results {
            schema: SCHEMA.into(),
            converted_from: Some(SCHEMA_1.into()),
            suite: old.suite,
            profile: old.profile,
            seed: old.seed,
            started: old.started,
            command: old.command,
            complete: old.complete,
            environment: Environment {
                remarks: old.environment.remarks.into_iter().chain([NOT_COMPUTED.to_owned()]).collect(),
                ..old.environment
            },
            calibration: old.calibration,
            tick_sheet: old.tick_sheet,
            mixes: Vec::new(),
            firewalls: firewalls(&old.points),
            cells: Vec::new(),
            runs: Vec::new(),
            points: Vec::new(),
        };
        let mut carried: Vec<Carried> = Vec::new();
        for point in old.points {
            let cell = cell_of(&mut results.cells, &point);
            let known = results.runs.iter().position(|run| run.cell == cell && run.dut == point.dut);
            let at = known.unwrap_or_else(|| {
                results.runs.push(Run {
                    cell,
                    dut: point.dut.clone(),
                    policy_load_seconds: None,
                    trials: Vec::new(),
                    searches: Vec::new(),
                });
                carried.push(Vec::new());
                results.runs.len() - 1
            });
            let point = converted(point, cell, &mut results.runs[at], &mut carried[at]);
            results.points.push(point);
        }
        results.round();
        results
    }
}

fn firewalls(points: &[Point1]) -> Vec<Firewall> {
    let mut firewalls: Vec<Firewall> = Vec::new();
    for point in points {
        if !firewalls.iter().any(|f| f.name == point.dut) {
            let known = KNOWN.iter().position(|(name, _)| *name == point.dut);
            let order = known.unwrap_or(KNOWN.len()) as u32;
            let role = known.map_or(Role::Firewall, |at| KNOWN[at].1);
            firewalls.push(Firewall { name: point.dut.clone(), role, order });
        }
    }
    firewalls.sort_by(|a, b| (a.order, &a.name).cmp(&(b.order, &b.name)));
    firewalls
}

/// The identifier of a point's cell, which is made when it is the first.
fn cell_of(cells: &mut Vec<Cell>, point: &Point1) -> u32 {
    let workload = match (&point.sessions, &point.bulk, point.metric.row().counts) {
        (Some(_), ..) | (None, None, Counts::Connections) => Sent::Connections,
        (None, Some(_), _) => Sent::Bulk,
        _ => Sent::Frames,
    };
    let factors: BTreeMap<String, Level> = levels(&point.factors, false);
    let same = |cell: &&mut Cell| {
        (&cell.test, cell.placement, cell.cores) == (&point.test, point.placement, point.cores)
            && cell.factors == factors
    };
    if let Some(cell) = cells.iter_mut().find(same) {
        // A value that could be of frames too does not tell what was sent.
        if workload != Sent::Frames {
            cell.workload = workload;
        }
        return cell.id;
    }
    let id = cells.len() as u32;
    let (test, placement, cores) = (point.test.clone(), point.placement, point.cores);
    cells.push(Cell { id, test, placement, cores, workload, factors });
    id
}

fn levels(factors: &BTreeMap<String, String>, made: bool) -> BTreeMap<String, Level> {
    let of = factors.iter().filter(|(factor, _)| MADE.contains(&factor.as_str()) == made);
    of.map(|(factor, text)| (factor.clone(), Level::read(factor, text))).collect()
}

fn converted(old: Point1, cell: u32, run: &mut Run, carried: &mut Carried) -> results::Point {
    run.policy_load_seconds = run.policy_load_seconds.or(old.policy_load_seconds);
    let first = first_trial(&old, run, carried);
    let typical = typical(&old, first, run);
    results::Point {
        cell,
        at: levels(&old.factors, true),
        metric: old.metric,
        unit: old.unit,
        value: old.value,
        low: old.low,
        high: old.high,
        clock_error: 0.0,
        rounds: old.rounds,
        valid: old.valid,
        marks: old.marks.into_iter().map(|m| mark(&old.dut, m)).collect(),
        deciding: typical.into_iter().collect(),
        typical,
        dut: old.dut,
    }
}

fn mark(dut: &str, old: Mark1) -> Mark {
    let rest = old.detail.strip_prefix(dut).filter(|_| old.kind == MarkKind::Note);
    let restates = rest.is_some_and(|rest| rest.starts_with(" only forwards"));
    Mark::new(if restates { MarkKind::Baseline } else { old.kind }, old.detail)
}

/// The identifier of the point's first trial in the run, which takes the trials over when it has not got them yet.
fn first_trial(old: &Point1, run: &mut Run, carried: &mut Carried) -> u32 {
    if let Some((first, _)) = carried.iter().find(|(_, trials)| *trials == old.trials) {
        return *first;
    }
    let first = run.trials.len() as u32;
    let open = matches!(
        old.metric,
        Metric::ConcurrentConnections | Metric::Established | Metric::Surviving | Metric::ClosedByReset
    );
    let load = match old.metric {
        Metric::BackToBack => LoadKind::Burst,
        _ if open => LoadKind::Open,
        _ => LoadKind::Rate,
    };
    for (id, trial) in (first..).zip(&old.trials) {
        run.trials.push(results::Trial {
            id,
            round: trial.round,
            load,
            offered: trial.offered,
            seconds: trial.seconds,
            received: trial.received,
            loss: trial.loss,
            latency_ns: trial.latency_ns,
            duplicated: trial.duplicated,
            reordered: trial.reordered,
            per_second: trial.per_second.clone(),
            faults: trial.faults.clone(),
            detail: None,
        });
    }
    carried.push((first, old.trials.clone()));
    first
}

/// The trial that carries what the point said of all that decided it: the one whose latency it shows; else, of a rate that was
/// searched for, that of the median round with the round's value; else the last of the median round. Values of the same trials
/// said the same of them, so the same sums are the same trial.
fn typical(old: &Point1, first: u32, run: &mut Run) -> Option<u32> {
    let detail = Detail {
        ledger: old.ledger.clone(),
        cpu: old.cpu.clone(),
        flow_entries: old.connections,
        memory_bytes: old.memory_bytes,
        lanes: old.lanes.clone(),
        connections: old.sessions.clone(),
        bulk: old.bulk.clone(),
        application: None,
    };
    if detail.ledger.offered == 0 && old.trials.is_empty() {
        return None;
    }
    let carries = |t: &&results::Trial| t.detail.as_deref() == Some(&detail) && t.id >= first;
    if let Some(trial) = run.trials.iter().take(first as usize + old.trials.len()).find(carries) {
        return Some(trial.id);
    }
    let id = first + deciding(old)? as u32;
    let decided = run.trials.iter().position(|trial| trial.id == id)?;
    let trial = &mut run.trials[decided];
    let same = |trial: &results::Trial| trial.detail.as_deref().is_none_or(|carried| *carried == detail);
    if same(trial) && old.latency_ns.is_none_or(|shown| trial.latency_ns.is_none_or(|own| own == shown)) {
        trial.latency_ns = trial.latency_ns.or(old.latency_ns);
        trial.detail = Some(Box::new(detail));
        return Some(id);
    }
    // Another point carried other sums of that trial, so this one's own trial is not known: it gets one beside it.
    let id = run.trials.len() as u32;
    let own = results::Trial { id, detail: Some(Box::new(detail)), ..run.trials[decided].clone() };
    run.trials.push(results::Trial { latency_ns: old.latency_ns.or(own.latency_ns), ..own });
    Some(id)
}

fn deciding(old: &Point1) -> Option<usize> {
    let good = || old.trials.iter().enumerate().filter(|(_, t)| t.faults.is_empty());
    let shown = |t: &Trial1| old.latency_ns.is_some() && t.latency_ns == old.latency_ns;
    if let Some((at, _)) = good().find(|(_, t)| shown(t)) {
        return Some(at);
    }
    let off = |a: f64| (a - old.value).abs();
    let (round, value) =
        old.rounds.iter().copied().enumerate().min_by(|(_, a), (_, b)| off(*a).total_cmp(&off(*b)))?;
    let mut of_round = good().filter(|(_, t)| t.round as usize == round);
    let searched = old.metric.row().rate || old.metric == Metric::ConcurrentConnections;
    let found = if searched {
        of_round.min_by(|(_, a), (_, b)| (a.offered - value).abs().total_cmp(&(b.offered - value).abs()))
    } else {
        of_round.next_back()
    };
    found.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round, offered load, whether the trial counts, median latency.
    type Row = (u32, f64, bool, Option<f64>);

    fn trial(&(round, offered, counts, p50): &Row) -> Trial1 {
        Trial1 {
            round,
            offered,
            seconds: 1.0,
            received: offered,
            loss: 0.0,
            latency_ns: p50.map(|p50| LatencySummary { p50, ..LatencySummary::default() }),
            duplicated: 0,
            reordered: 0,
            per_second: Vec::new(),
            faults: if counts { Vec::new() } else { vec!["the generator was behind".into()] },
        }
    }

    fn point(metric: Metric, value: f64, rounds: &[f64], shown: Option<f64>, trials: &[Row]) -> Point1 {
        Point1 {
            test: "a test".into(),
            dut: "nftables".into(),
            placement: Placement::Inline,
            cores: 1,
            factors: BTreeMap::new(),
            metric,
            unit: metric.unit().into(),
            value,
            low: value,
            high: value,
            rounds: rounds.into(),
            trials: trials.iter().map(trial).collect(),
            valid: true,
            marks: Vec::new(),
            ledger: Ledger::default(),
            latency_ns: shown.map(|p50| LatencySummary { p50, ..LatencySummary::default() }),
            lanes: Vec::new(),
            cpu: CpuUse::default(),
            connections: None,
            memory_bytes: None,
            policy_load_seconds: None,
            sessions: None,
            bulk: None,
        }
    }

    #[test]
    fn the_trial_that_decided_a_point_is_the_one_that_its_reports_meant() {
        use Metric::{ConcurrentConnections, Latency, Loss, Throughput};
        let search: [Row; 6] = [
            (0, 90.0, true, Some(1.0)),
            (0, 80.0, true, Some(2.0)),
            (1, 99.0, true, Some(3.0)),
            (1, 101.0, true, Some(4.0)),
            (2, 120.0, true, Some(5.0)),
            (2, 110.0, true, Some(6.0)),
        ];
        let mut disturbed = search;
        (disturbed[3].2, disturbed[5].2) = (false, false);
        let three = &[81.0, 100.5, 111.0][..];
        let rows: [(&str, Point1, Option<usize>); 10] = [
            ("the latency shown", point(Throughput, 100.5, three, Some(2.0), &search), Some(1)),
            ("no trial has the latency shown", point(Throughput, 100.5, three, Some(9.0), &search), Some(3)),
            ("not one that must not count", point(Throughput, 100.5, three, Some(4.0), &disturbed), Some(2)),
            ("the nearest of the median round", point(Throughput, 100.5, three, None, &search), Some(3)),
            ("the nearest that counts", point(Throughput, 100.5, three, None, &disturbed), Some(2)),
            (
                "nearest to the round, not to the median of two",
                { point(Throughput, 95.0, &[81.0, 110.0], None, &search) },
                Some(1),
            ),
            (
                "connections open are searched for",
                { point(ConcurrentConnections, 111.0, three, None, &search) },
                Some(5),
            ),
            ("the last of the median round", point(Latency, 100.5, three, None, &search), Some(3)),
            ("the last that counts", point(Loss, 111.0, three, None, &disturbed), Some(4)),
            ("no round", point(Loss, 0.0, &[], None, &search), None),
        ];
        for (why, old, expected) in rows {
            assert_eq!(deciding(&old), expected, "{why}");
        }
    }
}
