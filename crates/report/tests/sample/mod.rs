//! Made-up but plausible results for the tests of this crate and for looking at pages: shapes and orders of
//! magnitude as on a small machine, every awkward case included. Deterministic: the same call gives the same run.
//! Nothing in here was measured, and the environment says so.
//!
//! The runs are made in the form of schema 1, where a point carries everything, and read by the reader of old results: what
//! it works out of them (which trial decided, which points share trials) is what a run of today says itself.
#![allow(dead_code, reason = "each test binary that includes this module uses its own part of it")]

mod connections;
mod machine;

#[allow(unused_imports, reason = "each test binary that includes this module uses its own part of it")]
pub(crate) use connections::{eantc_tcp, poliwall, tolly_http};
use machine::{calibration, environment, tick_sheet};

use measure::bulk::BulkOutcome;
use measure::connections::ConnectionOutcome;
use measure::ledger::{BulkPlaces, FramePlaces, Ledger, Places};
use measure::results::{
    self, Calibration, CoreUse, CpuUse, Environment, LatencySummary, MarkKind, Metric, Reading, Results, Tick,
};
use measure::shape::{Lane, Placement, Zone};
use measure::trial::{LaneOutcome, SecondSample};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A value of one valid round of the first run.
pub(crate) fn of_one_round(cell: u32, dut: &str, metric: Metric, value: f64) -> results::Point {
    results::Point {
        cell,
        dut: dut.into(),
        at: BTreeMap::new(),
        metric,
        unit: metric.unit().into(),
        value,
        low: value,
        high: value,
        clock_error: 0.0,
        rounds: vec![value],
        valid: true,
        marks: Vec::new(),
        deciding: vec![0],
        typical: Some(0),
    }
}

/// A run as schema 1 wrote it.
#[derive(Clone, Serialize)]
struct Run1 {
    schema: String,
    suite: String,
    profile: String,
    seed: u64,
    started: String,
    command: String,
    complete: bool,
    environment: Environment,
    calibration: Vec<Calibration>,
    points: Vec<Point>,
    tick_sheet: Vec<Tick>,
}

/// A point of it.
#[derive(Clone, Serialize)]
struct Point {
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
    trials: Vec<Trial>,
    valid: bool,
    marks: Vec<Mark>,
    ledger: Ledger,
    latency_ns: Option<LatencySummary>,
    lanes: Vec<LaneOutcome>,
    cpu: CpuUse,
    #[serde(rename = "connections")]
    flow_entries: Option<u64>,
    memory_bytes: Option<u64>,
    policy_load_seconds: Option<f64>,
    #[serde(rename = "sessions")]
    connections: Option<ConnectionOutcome>,
    bulk: Option<BulkOutcome>,
}

/// A trial of it.
#[derive(Clone, Serialize)]
struct Trial {
    round: u32,
    offered: f64,
    seconds: f64,
    received: f64,
    loss: f64,
    latency_ns: Option<LatencySummary>,
    duplicated: u64,
    reordered: u64,
    per_second: Vec<SecondSample>,
    faults: Vec<String>,
}

/// A mark of it.
#[derive(Clone, Serialize)]
struct Mark {
    kind: MarkKind,
    detail: String,
}

/// All firewalls that the sample knows, with ns a 64-byte frame on one core and the slope with flows.
const DUTS: [(&str, f64, f64); 8] = [
    ("wire", 68.0, 0.02),
    ("xdp-redirect", 118.0, 0.03),
    ("linux", 550.0, 0.02),
    ("nftables", 806.0, 0.35),
    ("iptables", 905.0, 0.38),
    ("ipset", 870.0, 0.36),
    ("rampart", 206.0, 0.12),
    ("external", 1490.0, 0.10),
];

/// Levels that a point has when its test does not set them: results name every factor.
const DEFAULTS: [(&str, &str); 14] = [
    ("frame", "64"),
    ("flows", "1000"),
    ("clients", "20"),
    ("servers", "10"),
    ("directions", "one-way"),
    ("zones", "two"),
    ("ip", "4"),
    ("rules", "4"),
    ("match", "last"),
    ("stateful", "true"),
    ("nat", "false"),
    ("lists", "0"),
    ("link", "none"),
    ("udp_checksum", "zero"),
];

/// A small deterministic source of noise, -1 to 1 (SplitMix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The demo: five firewalls, two frame sizes, two flow counts, latency at one load.
pub(crate) fn demo() -> Results {
    let mut run = Builder::new("demo", "quick");
    for dut in ["wire", "xdp-redirect", "linux", "nftables", "iptables"] {
        for frame in ["64", "1518"] {
            for flows in ["1000", "100000"] {
                run.rate("throughput", dut, 1, &[("frame", frame), ("flows", flows), ("rules", "100")]);
            }
        }
        run.latency("latency", dut, &[("frame", "64"), ("load", "40%"), ("rules", "100")]);
    }
    run.finish()
}

/// The EANTC layout: seven sizes, one- and two-way, with and without rules, `duts` firewalls (1 to 8).
pub(crate) fn eantc(duts: usize) -> Results {
    let mut run = Builder::new("eantc-ip", "standard");
    for (dut, ..) in DUTS.iter().take(duts) {
        for frame in ["64", "80", "128", "256", "512", "1024", "1518"] {
            for directions in ["one-way", "two-way"] {
                for rules in ["0", "100"] {
                    let factors = [("frame", frame), ("directions", directions), ("rules", rules)];
                    run.rate("throughput", dut, 1, &factors);
                    run.latency("latency", dut, &factors);
                }
            }
        }
    }
    run.finish()
}

/// The Tolly layout: three packet sizes, four session counts, one and two cores.
pub(crate) fn tolly(duts: usize) -> Results {
    let mut run = Builder::new("tolly-udp", "standard");
    for (dut, ..) in DUTS.iter().take(duts) {
        for frame in ["64", "imix:tolly", "1518"] {
            for flows in ["2", "100000", "500000", "1000000"] {
                for cores in [1, 2] {
                    let factors = [("frame", frame), ("flows", flows)];
                    run.rate("udp-throughput", dut, cores, &factors);
                    run.goodput("udp-throughput", dut, cores, &factors);
                }
            }
        }
    }
    run.finish()
}

/// The Check Point article's series: bulk transfers by connections, in five sequences.
pub(crate) fn checkpoint(duts: &[&str]) -> Results {
    let mut run = Builder::new("checkpoint", "standard");
    for dut in duts {
        for connections in ["1", "10", "50", "100"] {
            let bits = 1.0e13 / (800.0 + run.nanoseconds(dut, 1, &[]));
            let mut point =
                run.point("x", dut, 1, &[("connections", connections)], Metric::Goodput, bits, 0.02);
            point.factors =
                [("connections", connections), ("rules", "1")].map(|(k, v)| (k.into(), v.into())).into();
            let received_bytes = (bits * 5.0 / 8.0) as u64;
            let bulk = BulkOutcome {
                connections: connections.parse().expect("a number"),
                sent_bytes: received_bytes + 131_072,
                received_bytes,
                retransmitted: 8_628,
                segment_bytes: 1448,
                idle_round_trip_ns: Some(20_000),
                loaded_round_trip_ns: Some(500_000),
                congestion_control: "cubic".into(),
            };
            point.ledger = Ledger {
                offered: bulk.sent_bytes,
                not_sent: 0,
                received: received_bytes,
                places: Places::Bulk(BulkPlaces { under_way: 131_072 }),
            };
            for trial in &mut point.trials {
                trial.loss = 0.0;
            }
            point.bulk = Some(bulk);
            for (metric, value) in [
                (Metric::TcpEfficiency, 0.998),
                (Metric::BufferDelay, 24.0),
                (Metric::TransferTimeRatio, 1.25),
            ] {
                let unit = metric.unit().to_owned();
                let rounds = vec![value; point.rounds.len()];
                let other = Point { metric, unit, value, low: value, high: value, rounds, ..point.clone() };
                if metric != Metric::TransferTimeRatio || *dut != "wire" {
                    run.results.points.push(other);
                }
            }
            run.results.points.push(point);
        }
    }
    run.finish()
}

/// Every procedure of RFC 2544, isolated.
pub(crate) fn rfc2544() -> Results {
    let mut run = Builder::new("rfc2544", "standard");
    run.placement = Placement::Isolated;
    for dut in ["xdp-redirect", "linux", "nftables", "iptables", "rampart"] {
        for frame in ["64", "512", "1518"] {
            run.rate("throughput", dut, 1, &[("frame", frame)]);
            for load in [10, 20, 30, 40, 50, 60, 70, 80, 90, 100] {
                run.loss("frame-loss", dut, frame, load);
            }
            run.burst("back-to-back", dut, frame);
        }
        run.recovery("system-recovery", dut);
    }
    run.finish()
}

struct Builder {
    noise: Noise,
    placement: Placement,
    results: Run1,
}

impl Builder {
    fn new(suite: &str, profile: &str) -> Self {
        let results = Run1 {
            schema: "rampart-bench/1".into(),
            suite: suite.into(),
            profile: profile.into(),
            seed: 42,
            started: "2026-11-21T10:15:00Z".into(),
            command: format!("rampart-bench run {suite} --profile {profile} --seed 42"),
            complete: true,
            environment: environment(),
            calibration: calibration(),
            points: Vec::new(),
            tick_sheet: tick_sheet(),
        };
        Self { noise: Noise(7), placement: Placement::Inline, results }
    }

    fn finish(mut self) -> Results {
        spoil(&mut self.results.points);
        let text = serde_json::to_string(&self.results).expect("numbers and text");
        report::json::from_str(&text, Path::new("sample")).expect("results of schema 1")
    }

    fn nanoseconds(&self, dut: &str, cores: u32, factors: &[(&str, &str)]) -> f64 {
        let (_, base, slope) = DUTS.iter().copied().find(|d| d.0 == dut).expect("a known firewall");
        let level = |name: &str| factors.iter().find(|f| f.0 == name).map(|f| f.1);
        let bytes = match level("frame") {
            Some("imix:tolly") => 362.0,
            Some(size) => size.parse::<f64>().expect("a size"),
            None => 64.0,
        };
        let flows: f64 = level("flows").map_or(1000.0, |f| f.parse().expect("a count"));
        let rules: f64 = level("rules").map_or(0.0, |r| r.parse().expect("a count"));
        let rule_cost = if matches!(dut, "nftables" | "iptables" | "external") { rules * 6.5 } else { 0.0 };
        let two_way = if level("directions") == Some("two-way") { 1.06 } else { 1.0 };
        let one_core = base * (1.0 + slope * flows.log10() / 4.0) * two_way + rule_cost + bytes * 0.02;
        one_core / (1.0 + 0.62 * f64::from(cores - 1))
    }

    fn rate(&mut self, test: &str, dut: &str, cores: u32, factors: &[(&str, &str)]) {
        let rate = 1e9 / self.nanoseconds(dut, cores, factors);
        let mut point = self.point(test, dut, cores, factors, Metric::Throughput, rate, 0.02);
        // Some throughputs have long deciding trials with latencies, as in a standard run.
        if factors.contains(&("flows", "1000")) {
            let summary = latency(9_000.0 + 8.0 * 1e9 / rate);
            (point.latency_ns, point.lanes) = (Some(summary), lanes(&point, summary));
            let (round, value) = (median_round(&point), point.value);
            for trial in &mut point.trials {
                lengthen(trial, 10);
                let deciding = trial.round == round && trial.offered == value;
                trial.latency_ns = Some(latency(if deciding { summary.p50 } else { summary.p50 * 1.02 }));
            }
        }
        self.results.points.push(point);
        if dut != "wire" {
            let wire = 1e9 / self.nanoseconds("wire", cores, factors);
            let mut cost = self.point(test, dut, cores, factors, Metric::Cost, 1e9 / rate - 1e9 / wire, 0.03);
            cost.trials.clear();
            self.results.points.push(cost);
        }
    }

    fn goodput(&mut self, test: &str, dut: &str, cores: u32, factors: &[(&str, &str)]) {
        let bytes = match factors[0].1 {
            "imix:tolly" => 362.0,
            size => size.parse::<f64>().expect("a size"),
        };
        let bits = 8.0 * bytes * 1e9 / self.nanoseconds(dut, cores, factors);
        let mut point = self.point(test, dut, cores, factors, Metric::Goodput, bits, 0.02);
        point.trials.clear();
        self.results.points.push(point);
    }

    fn latency(&mut self, test: &str, dut: &str, factors: &[(&str, &str)]) {
        let median = 4_000.0 + 6.0 * self.nanoseconds(dut, 1, factors);
        let mut point = self.point(test, dut, 1, factors, Metric::Latency, median, 0.05);
        let summary = latency(point.value);
        (point.latency_ns, point.lanes) = (Some(summary), lanes(&point, summary));
        let load = 0.4 * 1e9 / self.nanoseconds(dut, 1, factors);
        let rounds = point.rounds.iter().zip(0..);
        point.trials = rounds
            .map(|(p50, round)| {
                let latency_ns = Some(latency(*p50));
                let mut trial = Trial { latency_ns, ..trials(round, load).swap_remove(1) };
                lengthen(&mut trial, 10);
                trial
            })
            .collect();
        self.results.points.push(point);
    }

    fn loss(&mut self, test: &str, dut: &str, frame: &str, load: u32) {
        let factors = [("frame", frame), ("load", &*format!("{load}%"))];
        let capacity = 1e9 / self.nanoseconds(dut, 1, &factors[..1]) / 1.3;
        let offered = 8e6 * f64::from(load) / 100.0;
        let lost = (1.0 - capacity / offered).max(0.0);
        let mut point = self.point(test, dut, 1, &factors, Metric::Loss, lost, 0.01);
        // As the bench keeps it: every load of a curve carries the trials of the whole curve.
        let at = |share: u32| 8e6 * f64::from(share) / 100.0;
        let one = point.trials[0].clone();
        point.trials = (0..5)
            .flat_map(|round| (1..=10).rev().map(move |step| (round, at(step * 10))))
            .map(|(round, offered)| {
                let loss = (1.0 - capacity / offered).max(0.0);
                Trial { round, offered, received: offered * (1.0 - loss), loss, ..one.clone() }
            })
            .collect();
        point.ledger = ledger(offered as u64 * 10, lost, dut);
        self.results.points.push(point);
    }

    fn burst(&mut self, test: &str, dut: &str, frame: &str) {
        let frames = 256.0 * 6.0e5 / self.nanoseconds(dut, 1, &[("frame", frame)]);
        let point = self.point(test, dut, 1, &[("frame", frame)], Metric::BackToBack, frames.round(), 0.04);
        self.results.points.push(point);
        let point = self.point(test, dut, 1, &[("frame", frame)], Metric::BufferTime, 256.0 * 1.1e-6, 0.04);
        self.results.points.push(point);
    }

    fn recovery(&mut self, test: &str, dut: &str) {
        let seconds = self.nanoseconds(dut, 1, &[]) * 2e-6;
        let mut point = self.point(test, dut, 1, &[("frame", "64")], Metric::Recovery, seconds, 0.04);
        let summary = latency(20_000.0);
        (point.latency_ns, point.lanes) = (Some(summary), lanes(&point, summary));
        let rate = 1e9 / self.nanoseconds(dut, 1, &[]);
        for trial in &mut point.trials {
            *trial = Trial { latency_ns: Some(summary), ..trials(trial.round, rate).swap_remove(1) };
            lengthen(trial, 10);
            // Overload, then half the load that the firewall can forward.
            for (second, sample) in trial.per_second.iter_mut().enumerate() {
                sample.sent = if second < 5 { (rate * 1.1) as u64 } else { (rate / 2.0) as u64 };
                sample.received = sample.received.min(sample.sent);
            }
        }
        self.results.points.push(point);
    }

    #[allow(clippy::too_many_arguments, reason = "a row of sample data")]
    fn point(
        &mut self,
        test: &str,
        dut: &str,
        cores: u32,
        factors: &[(&str, &str)],
        metric: Metric,
        value: f64,
        spread: f64,
    ) -> Point {
        let rounds: Vec<f64> = (0..5).map(|_| value * (1.0 + spread * self.noise.next())).collect();
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let trials =
            rounds.iter().enumerate().flat_map(|(round, &rate)| trials(round as u32, rate)).collect();
        Point {
            test: test.into(),
            dut: dut.into(),
            placement: self.placement,
            cores,
            factors: DEFAULTS.iter().chain(factors).map(|&(k, v)| (k.into(), v.into())).collect(),
            metric,
            unit: metric.unit().into(),
            value: sorted[2],
            low: sorted[0],
            high: sorted[4],
            rounds,
            trials,
            valid: true,
            marks: Vec::new(),
            ledger: ledger((value.clamp(1e3, 1e8) * 10.0) as u64, 0.0, dut),
            latency_ns: None,
            lanes: Vec::new(),
            cpu: cpu(cores),
            flow_entries: matches!(dut, "nftables" | "iptables").then_some(65_536),
            memory_bytes: None,
            policy_load_seconds: None,
            connections: None,
            bulk: None,
        }
    }
}

/// Puts another run's points behind those of a run.
pub(crate) fn append(run: &mut Results, other: Results) {
    let offset = run.cells.len() as u32;
    run.cells.extend(other.cells.into_iter().map(|c| measure::results::Cell { id: c.id + offset, ..c }));
    run.runs.extend(other.runs.into_iter().map(|r| measure::results::Run { cell: r.cell + offset, ..r }));
    run.points.extend(other.points.into_iter().map(|p| results::Point { cell: p.cell + offset, ..p }));
    for firewall in other.firewalls {
        if !run.firewalls.contains(&firewall) {
            run.firewalls.push(firewall);
        }
    }
    run.firewalls.sort_by_key(|firewall| firewall.order);
}

/// The trial that a point shows, to be changed.
pub(crate) fn typical(run: &mut Results, point: usize) -> &mut measure::results::Trial {
    let point = run.points[point].clone();
    let of = run.runs.iter_mut().find(|r| (r.cell, &r.dut) == (point.cell, &point.dut)).expect("a run");
    of.trials.iter_mut().find(|trial| Some(trial.id) == point.typical).expect("a typical trial")
}

/// Places of the points that these are.
pub(crate) fn places(run: &Results, are: impl Fn(&Reading<'_>) -> bool) -> Vec<usize> {
    let all = run.readings().enumerate();
    all.filter(|(_, reading)| are(reading)).map(|(place, _)| place).collect()
}

/// Whether a point's factor has that level.
pub(crate) fn is_at(point: &Reading<'_>, factor: &str, level: &str) -> bool {
    point.level(factor).is_some_and(|l| l.text == level)
}

/// Leaves only the points that these are.
pub(crate) fn retain(run: &mut Results, are: impl Fn(&Reading<'_>) -> bool) {
    let kept = places(run, are);
    run.points = kept.into_iter().map(|place| run.points[place].clone()).collect();
}

/// Two trials of one round of a search: one above and one at the bound.
fn trials(round: u32, rate: f64) -> Vec<Trial> {
    let trial = |offered: f64, loss: f64| Trial {
        round,
        offered,
        seconds: 1.0,
        received: offered * (1.0 - loss),
        loss,
        latency_ns: None,
        duplicated: 0,
        reordered: 0,
        per_second: Vec::new(),
        faults: Vec::new(),
    };
    vec![trial(rate * 1.08, 0.031), trial(rate, 0.0)]
}

fn median_round(point: &Point) -> u32 {
    point.rounds.iter().zip(0..).find(|(r, _)| **r == point.value).expect("a median is a round").1
}

fn lengthen(trial: &mut Trial, seconds: u32) {
    trial.seconds = f64::from(seconds);
    trial.per_second = per_second(trial.offered, trial.latency_ns, seconds);
}

/// That many seconds of a trial, with a dip in the seventh.
pub(crate) fn per_second(
    offered: f64,
    latency_ns: Option<LatencySummary>,
    seconds: u32,
) -> Vec<SecondSample> {
    let mut noise = Noise(offered as u64);
    let sample = |second| {
        let dip = if second == 7 { 0.86 } else { 1.0 };
        let sent = offered as u64;
        let received = sent - (offered * 0.02 * noise.next().abs() + offered * (1.0 - dip)) as u64;
        SecondSample { at_seconds: f64::from(second), sent, received, latency_ns, connections: None }
    };
    (1..=seconds).map(sample).collect()
}

/// One direction, or two where the point has two-way traffic: the way back is a little slower and loses frames.
fn lanes(point: &Point, latency_ns: LatencySummary) -> Vec<LaneOutcome> {
    let two_way = point.factors.get("directions").is_some_and(|d| d == "two-way");
    directions(point.ledger.offered - point.ledger.not_sent, two_way, latency_ns)
}

/// The same of so many frames sent.
pub(crate) fn directions(sent: u64, two_way: bool, latency_ns: LatencySummary) -> Vec<LaneOutcome> {
    let sent = sent / if two_way { 2 } else { 1 };
    let times = |scale: f64| Some(latency(latency_ns.p50 * scale));
    let forward = LaneOutcome {
        lane: Lane { from: Zone::Private, to: Zone::Hostile },
        sent,
        received: sent,
        duplicated: 0,
        reordered: 3,
        corrupted: 0,
        latency_ns: Some(latency_ns),
        pdv_ns: times(0.21),
        ipdv_ns: times(0.13),
    };
    let back = LaneOutcome {
        lane: Lane { from: Zone::Hostile, to: Zone::Private },
        received: sent - sent / 1000,
        duplicated: 1,
        corrupted: 2,
        latency_ns: times(1.12),
        pdv_ns: times(0.34),
        ..forward.clone()
    };
    if two_way { vec![forward, back] } else { vec![forward] }
}

pub(crate) fn latency(median: f64) -> LatencySummary {
    LatencySummary {
        count: 99_871,
        min: median * 0.8,
        mean: median * 1.1,
        p50: median,
        p90: median * 1.4,
        p99: median * 2.9,
        p999: median * 9.0,
        max: median * 31.0,
        clock_error: 0.0,
    }
}

fn ledger(offered: u64, loss: f64, dut: &str) -> Ledger {
    let lost = (offered as f64 * loss) as u64;
    let ring = lost * 7 / 10;
    let dropped = lost / 10;
    let mut ledger = Ledger { offered, not_sent: offered / 100_000, ..Ledger::default() };
    if lost > 0 {
        ledger.places = Places::Frames(FramePlaces {
            ring_full: [("firewall-private".into(), ring)].into(),
            dropped_by_firewall: [(format!("{dut} drop counter"), dropped)].into(),
            lost_in_stack: [("CPU_BACKLOG".into(), lost - ring - dropped)].into(),
            ..FramePlaces::default()
        });
    }
    ledger.received = offered - ledger.not_sent - lost;
    ledger
}

fn cpu(cores: u32) -> CpuUse {
    let cores = (0..cores)
        .map(|core| CoreUse { core, user: 0.01, system: 0.16, interrupt: 0.79, stolen: 0.01, idle: 0.03 })
        .collect();
    CpuUse { cores, ..CpuUse::default() }
}

fn mark(point: &mut Point, kind: MarkKind, detail: &str) {
    point.valid &= !kind.invalidates();
    point.marks.push(Mark { kind, detail: detail.into() });
}

/// Gives some points the troubles that real runs have.
fn spoil(points: &mut [Point]) {
    for (index, point) in points.iter_mut().enumerate() {
        match (point.dut.as_str(), point.metric) {
            ("xdp-redirect", Metric::Throughput) if index % 3 == 1 => mark(
                point,
                MarkKind::GeneratorLimited,
                "within 10 % of the wire figure for the same frames: the generator may have been the limit",
            ),
            ("linux", Metric::Throughput) if index % 7 == 3 => {
                mark(point, MarkKind::Unstable, "the rounds differ by 14 % (more than 10 %)");
            }
            ("iptables", Metric::Throughput) if point.factors.get("frame").is_some_and(|f| f == "1518") => {
                mark(
                    point,
                    MarkKind::PolicyNotProved,
                    "probe «hostile to private, no state» arrived although the policy forbids it",
                );
            }
            ("xdp-redirect" | "linux" | "wire", Metric::Latency) => {
                let detail = format!("{} only forwards: it stands here without the policy", point.dut);
                mark(point, MarkKind::Note, &detail);
            }
            // Noise as on a busy machine: an interval that says nothing.
            ("xdp-redirect", Metric::Cost) if point.factors.get("frame").is_some_and(|f| f == "1518") => {
                let (low, high) = (point.low, point.high);
                (point.low, point.high) = (-58.0, 416_841.0);
                for round in &mut point.rounds {
                    *round = match *round {
                        r if r == low => point.low,
                        r if r == high => point.high,
                        r => r,
                    };
                }
            }
            ("nftables", Metric::Latency) => {
                mark(point, MarkKind::StolenTime, "the hypervisor took 3.1 % of the time during this point");
            }
            _ => {}
        }
    }
}
