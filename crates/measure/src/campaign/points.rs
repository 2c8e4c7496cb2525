//! Makes points of what the rounds measured: medians, intervals, marks, and what follows from a comparison with `wire`.

use super::{Cell, Track, WIRE};
use crate::level::Level;
use crate::mark::{NOT_MEASURED, NOT_MEASURED_BELOW};
use crate::procedure::Measured;
use crate::results::{Counts, Mark, MarkKind, Metric, Point, Run, SearchOutcome, Sent};
use crate::shape::Placement;
use crate::stats::{ERROR, Estimate, outlier, spread};
use crate::trial::TrialOutcome;
use std::collections::BTreeMap;

/// Rounds that differ by more than this share of their median (EANTC) are unstable, if the noise of the run does not explain it.
const UNSTABLE: f64 = 0.10;
/// The share of points, of firewalls that are as steady as the others of their cell, that may be called unstable nevertheless.
const UNSTABLE_ERROR: f64 = 0.01;
/// A figure of at least this share of `wire`'s may be the generator's, not the firewall's.
const GENERATOR_LIMITED: f64 = 0.90;
/// Time taken by the hypervisor, as a share of the cores used, that the reader must know of.
pub(crate) const STOLEN: f64 = 0.02;

/// Time that other programs took, in cores, that the reader must know of.
pub(crate) const FOREIGN: f64 = 0.05;
/// Work on cores that the trial does not own, in cores, that the reader must know of.
const ELSEWHERE_SAID: f64 = 0.05;
/// The same, from which on the value is not what it is said to be.
pub(crate) const ELSEWHERE_COSTS: f64 = 0.25;
/// Whose work that is.
const ELSEWHERE: &str = "kernel threads, interrupts and the firewall's programs on other cores";

/// What tells a firewall's values apart.
type Key = (Metric, BTreeMap<String, Level>);

/// A metric that follows from another one of a firewall and of `wire`.
pub(crate) struct AgainstWire {
    pub(crate) metric: Metric,
    pub(crate) from: Metric,
    /// Of the firewall's value and that of `wire`.
    pub(crate) value: fn(f64, f64) -> f64,
}

/// What the firewall adds to each frame: the difference of the reciprocal rates.
pub(crate) const COST: AgainstWire =
    AgainstWire { metric: Metric::Cost, from: Metric::Throughput, value: |dut, wire| 1e9 / dut - 1e9 / wire };
/// Of bulk transfers only: what applications get depends on much beside the way.
pub(crate) const TRANSFER_TIME_RATIO: AgainstWire =
    AgainstWire { metric: Metric::TransferTimeRatio, from: Metric::Goodput, value: |dut, wire| wire / dut };

/// The points of a campaign: firewall by firewall, then what follows from a comparison with `wire`.
pub(super) fn of(cell: &Cell, tracks: &[Track]) -> Vec<Point> {
    let wire = tracks.iter().find(|track| track.dut == WIRE);
    let without_firewall = wire.map_or(0.0, |wire| elsewhere(&deciding_of(wire)));
    let mut points: Vec<Point> =
        tracks.iter().flat_map(|track| points_of(cell, track, without_firewall)).collect();
    mark_unstable(&mut points);
    mark_generator_limited(cell, &mut points);
    if wire.is_some() {
        let derived = if cell.workload == Sent::Bulk { TRANSFER_TIME_RATIO } else { COST };
        let sources = points.iter().filter(|p| p.metric == derived.from && p.dut != WIRE);
        let compared: Vec<Point> =
            sources.map(|point| against_wire(cell, &derived, point, &points)).collect();
        points.extend(compared);
    }
    points.iter_mut().for_each(Point::round);
    points
}

/// A firewall's trials. What led to a deciding trial keeps its load and its loss, and no more.
pub(super) fn run(cell: &Cell, track: Track, points: &[Point]) -> Run {
    let decided = |id: &u32| points.iter().any(|p| p.dut == track.dut && p.deciding.contains(id));
    let mut trials = track.trials;
    for trial in trials.iter_mut().filter(|trial| !decided(&trial.id)) {
        (trial.latency_ns, trial.detail) = (None, None);
        trial.per_second.clear();
    }
    let found = |(round, measured): (usize, &Vec<Measured>)| {
        let search = measured.iter().find_map(|m| m.search)?;
        Some(SearchOutcome { round: round as u32, ..search })
    };
    let searches = track.rounds.iter().enumerate().filter_map(found).collect();
    let (cell, dut, policy_load_seconds) = (cell.id, track.dut, track.policy_load_seconds);
    let mut run = Run { cell, dut, policy_load_seconds, trials, searches };
    run.round();
    run
}

fn points_of(cell: &Cell, track: &Track, without_firewall: f64) -> Vec<Point> {
    if let Some(why) = &track.broken {
        let lost = cell.procedure.lost(std::slice::from_ref(why));
        return lost.iter().map(|measured| lost_point(cell, track, measured)).collect();
    }
    keys(&track.rounds).iter().map(|key| point(cell, track, without_firewall, key)).collect()
}

/// The keys of all rounds in the order in which they were measured.
fn keys(rounds: &[Vec<Measured>]) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for measured in rounds.iter().flatten() {
        let key = (measured.metric, measured.at.clone());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn point(cell: &Cell, track: &Track, without_firewall: f64, key: &Key) -> Point {
    let rounds: Vec<Option<&Measured>> =
        track.rounds.iter().map(|round| round.iter().find(|m| is(m, key))).collect();
    let measured: Vec<&Measured> = rounds.iter().copied().flatten().collect();
    let valid = measured.iter().all(|m| m.valid);
    let values: Vec<f64> = measured.iter().filter(|m| m.valid).map(|m| m.value).collect();
    let deciding: Vec<&TrialOutcome> = measured.iter().flat_map(|m| &m.deciding).collect();

    let mut marks = round_marks(&rounds);
    marks.extend(marks_of_values(cell, &values, rounds.len()));
    marks.extend(stolen_time(&deciding));
    marks.extend(foreign_load(&deciding));
    marks.extend(work_elsewhere(cell, &deciding, without_firewall));
    let mut point = empty_point(cell, &track.dut, key);
    set_estimate(&mut point, if valid { &values } else { &[] });
    widen_by_clocks(&mut point, &deciding);
    point.rounds = rounds.iter().map(|m| m.map_or(0.0, |m| m.value)).collect();
    point.valid = valid && !marks.iter().any(|m| m.kind.invalidates());
    point.marks = marks;
    point.deciding = ids(&deciding);
    point.typical = typical(&deciding).map(|outcome| outcome.id);
    point
}

fn is(measured: &Measured, key: &Key) -> bool {
    measured.metric == key.0 && measured.at == key.1
}

fn lost_point(cell: &Cell, track: &Track, measured: &Measured) -> Point {
    let mut point = empty_point(cell, &track.dut, &(measured.metric, measured.at.clone()));
    point.marks.clone_from(&measured.marks);
    point
}

fn empty_point(cell: &Cell, dut: &str, (metric, at): &Key) -> Point {
    Point {
        cell: cell.id,
        dut: dut.into(),
        at: at.clone(),
        metric: *metric,
        unit: metric.unit().into(),
        value: 0.0,
        low: 0.0,
        high: 0.0,
        clock_error: 0.0,
        rounds: Vec::new(),
        valid: false,
        marks: Vec::new(),
        deciding: Vec::new(),
        typical: None,
    }
}

/// The median of the values and its interval; of one value, which has none, the value itself.
fn set_estimate(point: &mut Point, values: &[f64]) {
    if let Some(known) = estimated(values, point.metric) {
        (point.value, point.low, point.high) = known;
    }
}

/// The median of the rounds' values with the ends of its interval; `None` without values.
pub(crate) fn estimated(values: &[f64], metric: Metric) -> Option<(f64, f64, f64)> {
    let known = Estimate::of(values, metric.scale(), ERROR)?;
    let (low, high) = known.interval().unwrap_or((known.value, known.value));
    Some((known.value, low, high))
}

/// The same with what is not known of the clocks of two hosts.
pub(crate) fn widened((value, low, high): (f64, f64, f64), clock_error: f64) -> (f64, f64, f64) {
    (value, (low - clock_error).max(0.0), high + clock_error)
}

/// Adds to the interval of a latency what is not known of the clocks of two hosts.
fn widen_by_clocks(point: &mut Point, deciding: &[&TrialOutcome]) {
    let of_times = deciding.iter().filter_map(|outcome| outcome.latency_ns()).map(|times| times.clock_error);
    let error = of_times.fold(0.0, f64::max);
    if point.metric == Metric::Latency && error > 0.0 {
        (point.value, point.low, point.high) = widened((point.value, point.low, point.high), error);
        point.clock_error = error;
    }
}

/// The rounds' own marks, each with its round when there are several, and rounds that have no such value.
fn round_marks(rounds: &[Option<&Measured>]) -> Vec<Mark> {
    let mut marks = Vec::new();
    let is_loss = rounds.iter().flatten().all(|measured| measured.metric == Metric::Loss);
    for (round, measured) in rounds.iter().enumerate() {
        let of_round = match measured {
            Some(measured) => measured.marks.clone(),
            None if is_loss => vec![Mark::new(MarkKind::NotMeasured, NOT_MEASURED_BELOW)],
            None => vec![Mark::new(MarkKind::NotMeasured, NOT_MEASURED)],
        };
        for mut mark in of_round {
            if rounds.len() > 1 {
                mark.round = Some(round as u32);
                mark.text = format!("round {}: {}", round + 1, mark.text);
            }
            marks.push(mark);
        }
    }
    marks
}

fn marks_of_values(cell: &Cell, values: &[f64], finished: usize) -> Vec<Mark> {
    let mut marks = Vec::new();
    if finished < cell.rounds as usize {
        marks.push(note(format!("interrupted after {finished} of {} rounds", cell.rounds)));
    }
    if values.len() == 1 {
        marks.push(note("one round: no interval".into()));
    }
    marks
}

/// Marks points whose rounds differ, and one of whose rounds lies farther out than the rounds of the other firewalls explain.
/// What a busy machine does to all of them is in the intervals and says nothing of one firewall. Where there is no other
/// firewall, nothing is known of the machine's noise, and the difference alone decides. What was computed from other
/// metrics has their noise many times over.
fn mark_unstable(points: &mut [Point]) {
    let mut marks = Vec::new();
    for (place, point) in points.iter().enumerate() {
        marks.extend(unstable(point, points).map(|mark| (place, mark)));
    }
    for (place, mark) in marks {
        points[place].marks.push(mark);
    }
}

/// Whether two points are values of the same, of whatever firewalls.
fn is_beside(point: &Point, other: &Point) -> bool {
    (point.cell, point.metric, &point.at) == (other.cell, other.metric, &other.at)
}

/// Of a valid value, beside those of the other firewalls among `points`. A share of lost frames or connections has a scale of its own: 0.1 %
/// against 0.2 % is no instability, 10 % against 25 % is.
pub(crate) fn unstable(point: &Point, points: &[Point]) -> Option<Mark> {
    if !point.valid || point.metric.row().derived {
        return None;
    }
    let peers = points.iter().filter(|other| {
        is_beside(point, other) && other.valid && other.dut != point.dut && other.rounds.len() > 1
    });
    let others: Vec<&[f64]> = peers.map(|other| &other.rounds[..]).collect();
    let values = &point.rounds;
    let of = match (point.metric.unit(), point.metric.row().counts) {
        ("ratio", Counts::Connections) => Some("connections"),
        ("ratio", _) => Some("frames"),
        _ => None,
    };
    let difference = match of {
        Some(_) => values.iter().copied().fold(0.0, f64::max) - values.iter().copied().fold(1.0, f64::min),
        None => spread(values),
    };
    let far = outlier(values, &others, point.metric.scale(), UNSTABLE_ERROR);
    if difference <= UNSTABLE || (far.is_none() && !others.is_empty()) {
        return None;
    }
    let mut text = match of {
        Some(of) => format!("the rounds differ by {:.1} % of the {of}", difference * 100.0),
        None if difference.is_infinite() => "the rounds differ, and their median is 0".into(),
        None => format!("the rounds differ by {:.1} % of their median", difference * 100.0),
    };
    if let Some(round) = far {
        text += &format!("; round {} lies farther out than the other firewalls' rounds explain", round + 1);
    }
    Some(Mark { share: Some(difference).filter(|d| d.is_finite()), ..Mark::new(MarkKind::Unstable, text) })
}

pub(crate) fn stolen_time(deciding: &[&TrialOutcome]) -> Option<Mark> {
    let mean = mean(deciding, |outcome| outcome.cpu.stolen());
    let text = format!("the hypervisor took {:.1} % of the processors' time", mean * 100.0);
    (mean > STOLEN).then(|| Mark::new(MarkKind::StolenTime, text).with_share(mean))
}

pub(crate) fn foreign_load(deciding: &[&TrialOutcome]) -> Option<Mark> {
    let used = mean(deciding, |outcome| outcome.cpu.foreign);
    let text = format!("other programs used {used:.2} of a core");
    (used > FOREIGN).then(|| Mark::new(MarkKind::ForeignLoad, text).with_share(used))
}

/// What the firewall had others do, beyond what the same trials take without a firewall. It costs the value where the value is
/// said to be of so many cores: inline. What the firewall's own programs do on the trial's cores is known, and only said.
fn work_elsewhere(cell: &Cell, deciding: &[&TrialOutcome], without_firewall: f64) -> Vec<Mark> {
    if cell.placement != Placement::Inline {
        return Vec::new();
    }
    let hidden = elsewhere(deciding) - without_firewall;
    let programs = mean(deciding, |outcome| outcome.cpu.programs);
    let mut marks = Vec::new();
    if hidden > ELSEWHERE_COSTS {
        let text = format!(
            "{ELSEWHERE} used {hidden:.2} of a core more than without a firewall: the value is not one of {} core(s){}",
            cell.cores,
            kernel_work_of_others(deciding)
        );
        marks.push(Mark::new(MarkKind::WorkElsewhere, text).with_share(hidden));
    } else if hidden > ELSEWHERE_SAID {
        marks.push(note(format!("{ELSEWHERE} used {hidden:.2} of a core more than without a firewall")));
    }
    if programs > ELSEWHERE_SAID {
        marks.push(note(format!(
            "the firewall's own programs used {programs:.2} of a core beside the trial's"
        )));
    }
    marks
}

/// What to think of work elsewhere where others worked too: what the kernel does for them looks like what it does for a firewall, and no
/// value may rest on the difference.
fn kernel_work_of_others(deciding: &[&TrialOutcome]) -> String {
    match mean(deciding, |outcome| outcome.cpu.foreign) {
        used if used > FOREIGN => format!(
            ", unless the kernel worked for the other programs, which used {used:.2} of a core: run it again without them"
        ),
        _ => String::new(),
    }
}

pub(crate) fn elsewhere(deciding: &[&TrialOutcome]) -> f64 {
    mean(deciding, |outcome| outcome.cpu.elsewhere)
}

/// The trials that any value of a firewall rests on.
fn deciding_of(track: &Track) -> Vec<&TrialOutcome> {
    track.rounds.iter().flatten().flat_map(|measured| &measured.deciding).collect()
}

fn mean(of: &[&TrialOutcome], used: fn(&TrialOutcome) -> f64) -> f64 {
    of.iter().map(|outcome| used(outcome)).sum::<f64>() / of.len().max(1) as f64
}

/// Each once: a value may rest on a trial of several rounds of a search.
fn ids(deciding: &[&TrialOutcome]) -> Vec<u32> {
    let mut ids: Vec<u32> = Vec::with_capacity(deciding.len());
    for outcome in deciding {
        if !ids.contains(&outcome.id) {
            ids.push(outcome.id);
        }
    }
    ids
}

/// The trial whose median latency (or establishment time) is the middle one: summaries cannot be merged, and one that was measured is better than
/// a made-up mixture. Where no latency was sampled, the last.
fn typical<'a>(deciding: &[&'a TrialOutcome]) -> Option<&'a TrialOutcome> {
    let mut timed: Vec<(f64, &TrialOutcome)> =
        deciding.iter().filter_map(|o| Some((o.latency_ns()?.p50, *o))).collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    timed.get(timed.len().saturating_sub(1) / 2).map(|(_, outcome)| *outcome).or(deciding.last().copied())
}

/// Marks rates that come near those of `wire`. Inline this says that the pipeline without a firewall is as slow.
fn mark_generator_limited(cell: &Cell, points: &mut [Point]) {
    if cell.procedure.fixes_the_rate() {
        return;
    }
    let wires: Vec<Point> = points.iter().filter(|p| p.dut == WIRE).cloned().collect();
    for point in points {
        let mark = generator_limited(point, &wires);
        point.marks.extend(mark);
    }
}

/// Of a valid rate that nobody fixed, beside that of `wire` among `points`.
pub(crate) fn generator_limited(point: &Point, points: &[Point]) -> Option<Mark> {
    if !point.valid || !point.metric.row().rate || point.dut == WIRE {
        return None;
    }
    let wire = points.iter().find(|other| is_beside(point, other) && other.dut == WIRE && other.valid)?;
    let share = point.value / wire.value;
    let text = format!("{:.0} % of what passes without a firewall", share * 100.0);
    (point.value >= wire.value * GENERATOR_LIMITED)
        .then(|| Mark::new(MarkKind::GeneratorLimited, text).with_share(share))
}

/// What follows from a firewall's value and that of `wire`, round by round. Trials decided the values that it is derived from, not
/// this one.
fn against_wire(cell: &Cell, derived: &AgainstWire, source: &Point, points: &[Point]) -> Point {
    let is_wire = |p: &&Point| p.dut == WIRE && p.metric == derived.from && p.at == source.at;
    let mut point = empty_point(cell, &source.dut, &(derived.metric, source.at.clone()));
    let Some(wire) = points.iter().find(is_wire) else {
        point.marks.push(note(format!("`{WIRE}` was not measured in this cell")));
        return point;
    };
    for (name, of) in [(source.dut.as_str(), source), (WIRE, wire)] {
        let carried = of.marks.iter().filter(|m| !of.valid || m.kind == MarkKind::GeneratorLimited);
        point.marks.extend(carried.map(|m| Mark { text: format!("{name}: {}", m.text), ..m.clone() }));
    }
    if source.valid && wire.valid {
        let pairs = source.rounds.iter().zip(&wire.rounds);
        point.rounds = pairs.map(|(dut, wire)| (derived.value)(*dut, *wire)).collect();
        let rounds = point.rounds.clone();
        set_estimate(&mut point, &rounds);
        point.marks.extend(marks_of_values(cell, &rounds, rounds.len()));
        if derived.metric == Metric::Cost && point.low <= 0.0 {
            point.marks.push(note("the interval reaches to 0: the cost is lost in the noise".into()));
        }
        point.valid = true;
    }
    point
}

fn note(text: String) -> Mark {
    Mark::new(MarkKind::Note, text)
}
