//! Results as readers look at them: tests, then settings (everything that makes two points comparable but the
//! firewall), then firewalls. The Markdown, HTML and terminal reports are all written from this. Pure.

use crate::level::{self, Level};
use crate::ratio::{self, Ratio};
use measure::connections::{ConnectionOutcome, ConnectionTimes};
use measure::results::{Counts, LatencySummary, Mark, MarkKind, Metric, Point, Results};
use measure::shape::Placement;
use std::collections::{BTreeMap, BTreeSet};

/// The firewall that others are compared with, where it was measured.
pub(crate) const DEFAULT_REFERENCE: &str = "nftables";

/// Firewalls in the order in which reports list them; others follow by name.
const KNOWN: [&str; 8] =
    ["wire", "xdp-redirect", "linux", "nftables", "iptables", "ipset", "rampart", "external"];

/// What a firewall under test is to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Nothing between generator and sink: the ceiling of this bench, not a firewall.
    Calibration,
    /// Forwards without a policy: what a firewall's policy costs is the distance to it.
    Forwarder,
    /// Enforces the policy.
    Firewall,
}

impl Role {
    /// The role of a firewall by its name in suites.
    pub(crate) fn of(dut: &str) -> Self {
        match dut {
            "wire" => Role::Calibration,
            "xdp-redirect" | "linux" => Role::Forwarder,
            _ => Role::Firewall,
        }
    }

    /// In words.
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Role::Calibration => "calibration: nothing between generator and sink",
            Role::Forwarder => "forwards without a policy",
            Role::Firewall => "enforces the policy",
        }
    }
}

/// One setting of the factors with the points of all firewalls measured there.
#[derive(Debug, Clone)]
pub(crate) struct Setting<'a> {
    /// Metric of all points.
    pub(crate) metric: Metric,
    /// Factors, with `cores` and `placement` among them.
    pub(crate) levels: BTreeMap<String, String>,
    /// Firewalls in the order of the report.
    pub(crate) points: Vec<&'a Point>,
}

impl<'a> Setting<'a> {
    /// The point of a firewall.
    pub(crate) fn point(&self, dut: &str) -> Option<&'a Point> {
        self.points.iter().copied().find(|p| p.dut == dut)
    }

    /// A firewall's value divided by the reference's, with its interval; none when either may not be used, and for
    /// the calibration, which is no firewall.
    pub(crate) fn ratio(&self, dut: &str, reference: &str) -> Option<Ratio> {
        if dut == reference || Role::of(dut) == Role::Calibration {
            return None;
        }
        ratio::of_points(self.point(dut)?, self.point(reference)?)
    }

    /// Whether its points are of connections, not of frames.
    pub(crate) fn of_connections(&self) -> bool {
        self.points.iter().any(|p| of_connections(p))
    }

    /// Frame size that comes first among settings: the number, or nothing for a mix.
    pub(crate) fn frame_bytes(&self) -> Option<f64> {
        self.levels.get("frame").and_then(|f| f.parse().ok())
    }
}

/// All points of one test and one metric.
#[derive(Debug, Clone)]
pub(crate) struct Block<'a> {
    /// Metric of all settings.
    pub(crate) metric: Metric,
    /// Settings, in natural order of their levels.
    pub(crate) settings: Vec<Setting<'a>>,
}

impl Block<'_> {
    /// Factors that take more than one level here, with their levels in natural order.
    pub(crate) fn varying(&self) -> Vec<(String, Vec<String>)> {
        self.levels().into_iter().filter(|(_, levels)| levels.len() > 1).collect()
    }

    /// Factors that have the same level everywhere here.
    pub(crate) fn constant(&self) -> Vec<(String, String)> {
        self.levels()
            .into_iter()
            .filter(|(_, levels)| levels.len() == 1)
            .map(|(name, mut levels)| (name, levels.remove(0)))
            .collect()
    }

    fn levels(&self) -> Vec<(String, Vec<String>)> {
        let names: BTreeSet<&String> = self.settings.iter().flat_map(|s| s.levels.keys()).collect();
        names
            .into_iter()
            .map(|name| {
                let mut levels: Vec<String> = Vec::new();
                for setting in &self.settings {
                    let level = setting.levels.get(name).cloned().unwrap_or_else(|| "–".into());
                    if !levels.contains(&level) {
                        levels.push(level);
                    }
                }
                levels.sort_by_key(|l| Level::of(name, l));
                (name.clone(), levels)
            })
            .collect()
    }
}

/// One test of the suite.
#[derive(Debug, Clone)]
pub(crate) struct Test<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// By metric.
    pub(crate) blocks: Vec<Block<'a>>,
}

impl Test<'_> {
    /// All its points, block by block.
    pub(crate) fn points(&self) -> impl Iterator<Item = &Point> {
        self.blocks.iter().flat_map(|b| &b.settings).flat_map(|s| s.points.iter().copied())
    }

    /// Whether it counts connections, not frames.
    pub(crate) fn of_connections(&self) -> bool {
        self.points().any(of_connections)
    }

    /// What it counts.
    pub(crate) fn counted(&self) -> Counted {
        match self {
            _ if self.of_connections() => Counted::Connections,
            _ if self.points().any(|p| p.bulk.is_some()) => Counted::Bytes,
            _ => Counted::Frames,
        }
    }

    /// Names of the factors that differ anywhere in the test: what tells its points apart.
    pub(crate) fn varying(&self) -> BTreeSet<String> {
        let settings = || self.blocks.iter().flat_map(|b| &b.settings);
        let names: BTreeSet<&String> = settings().flat_map(|s| s.levels.keys()).collect();
        let differs = |name: &&String| {
            let levels: BTreeSet<Option<&String>> = settings().map(|s| s.levels.get(*name)).collect();
            levels.len() > 1
        };
        names.into_iter().filter(differs).cloned().collect()
    }
}

/// All of it.
#[derive(Debug, Clone)]
pub(crate) struct View<'a> {
    /// In the order of the suite.
    pub(crate) tests: Vec<Test<'a>>,
    /// Firewalls in the order of the report: calibration, forwarders, firewalls.
    pub(crate) duts: Vec<&'a str>,
    /// The firewall that the others are compared with; none when there is only one.
    pub(crate) reference: Option<&'a str>,
}

impl<'a> View<'a> {
    /// Arranges the points. `reference` is taken when it was measured, else nftables, else the first firewall.
    pub(crate) fn new(results: &'a Results, reference: Option<&str>) -> Self {
        let duts = duts(results);
        let reference = pick_reference(&duts, reference);
        let mut names: Vec<&str> = Vec::new();
        for point in &results.points {
            if !names.contains(&point.test.as_str()) {
                names.push(&point.test);
            }
        }
        let tests = names.into_iter().map(|name| test(results, name, &duts)).collect();
        Self { tests, duts, reference }
    }

    /// A firewall's colour, marker and dash in every chart: its own where it is known, the same in all reports, and a
    /// free one otherwise.
    pub(crate) fn index(&self, dut: &str) -> usize {
        let known = |d: &str| KNOWN.iter().position(|k| *k == d);
        known(dut).unwrap_or_else(|| {
            let free: Vec<usize> =
                (0..KNOWN.len()).rev().filter(|i| !self.duts.contains(&KNOWN[*i])).collect();
            let unknown =
                self.duts.iter().filter(|d| known(d).is_none()).position(|d| *d == dut).unwrap_or(0);
            free.get(unknown).copied().unwrap_or(unknown)
        })
    }

    /// All settings of a metric, with their test's name.
    pub(crate) fn settings(&self, metric: Metric) -> impl Iterator<Item = (&'a str, &Setting<'a>)> {
        self.tests.iter().flat_map(move |test| {
            test.blocks
                .iter()
                .filter(move |b| b.metric == metric)
                .flat_map(move |b| b.settings.iter().map(|s| (test.name, s)))
        })
    }
}

fn duts(results: &Results) -> Vec<&str> {
    let mut duts: Vec<&str> =
        results.points.iter().map(|p| p.dut.as_str()).collect::<BTreeSet<_>>().into_iter().collect();
    duts.sort_by_key(|d| KNOWN.iter().position(|k| k == d).unwrap_or(KNOWN.len()));
    duts
}

fn pick_reference<'a>(duts: &[&'a str], wanted: Option<&str>) -> Option<&'a str> {
    if duts.len() < 2 {
        return None;
    }
    let find = |name: &str| duts.iter().copied().find(|d| *d == name);
    wanted
        .and_then(find)
        .or_else(|| find(DEFAULT_REFERENCE))
        .or_else(|| duts.iter().copied().find(|d| Role::of(d) == Role::Firewall))
        .or_else(|| duts.iter().copied().find(|d| Role::of(d) == Role::Forwarder))
}

fn test<'a>(results: &'a Results, name: &'a str, duts: &[&'a str]) -> Test<'a> {
    let mut by_metric: BTreeMap<Metric, Vec<Setting<'a>>> = BTreeMap::new();
    for point in results.points.iter().filter(|p| p.test == name) {
        let levels = all_levels(point);
        let settings = by_metric.entry(point.metric).or_default();
        match settings.iter_mut().find(|s| s.levels == levels) {
            Some(setting) => setting.points.push(point),
            None => settings.push(Setting { metric: point.metric, levels, points: vec![point] }),
        }
    }
    let blocks = by_metric
        .into_iter()
        .map(|(metric, mut settings)| {
            settings.sort_by_key(|s| level::order(&s.levels));
            for setting in &mut settings {
                setting.points.sort_by_key(|p| duts.iter().position(|d| *d == p.dut));
            }
            Block { metric, settings }
        })
        .collect();
    Test { name, blocks }
}

fn all_levels(point: &Point) -> BTreeMap<String, String> {
    let mut levels = point.factors.clone();
    levels.insert("cores".into(), point.cores.to_string());
    levels.insert("placement".into(), placement_name(point.placement).into());
    levels
}

/// The placement's name in suites and results.
pub(crate) const fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::Inline => "inline",
        Placement::Isolated => "isolated",
    }
}

/// What a placement means for the reader, in one sentence.
pub(crate) const fn placement_sentence(placement: Placement) -> &'static str {
    match placement {
        Placement::Inline => {
            "Inline: generator, firewall and sink share each core, so a rate is the cost of the whole pipeline, \
             and the firewall's own share is the difference to the run with nothing between."
        }
        Placement::Isolated => {
            "Isolated: the firewall's receive work has cores of its own, so overload and loss are real, and moving \
             frames between cores is part of the figure."
        }
    }
}

/// What a reader must know before the figures: how frames and times are counted, and what the placements mean.
pub(crate) fn hints(results: &Results) -> Vec<&'static str> {
    let mut hints: Vec<&'static str> = Vec::new();
    let of_frames = |p: &Point| !of_connections(p) && p.bulk.is_none();
    if results.points.is_empty() || results.points.iter().any(of_frames) {
        hints.push("Frame sizes count the 4-byte frame check sequence, as RFC 1242 and RFC 2544 count them.");
    }
    if results.points.iter().any(of_connections) {
        hints.push(
            "Rates of connections are a second; times begin at the intended start of a connection, so that one that \
             waited for its turn does not hide it.",
        );
    }
    if results.points.iter().any(|p| p.bulk.is_some()) {
        hints.push(
            "Bits of bulk transfers are those that the receiving applications read, headers and what was sent again left out.",
        );
    }
    for point in &results.points {
        let sentence = placement_sentence(point.placement);
        if !hints.contains(&sentence) {
            hints.push(sentence);
        }
    }
    hints
}

/// A mark's kind in few words, for footnotes.
pub(crate) const fn mark_name(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::GeneratorLimited => "generator-limited",
        MarkKind::Unstable => "unstable",
        MarkKind::PolicyNotProved => "policy not proved",
        MarkKind::LedgerUnbalanced => "ledger unbalanced",
        MarkKind::GeneratorBehind => "generator behind schedule",
        MarkKind::FirewallFailed => "firewall failed",
        MarkKind::IllegalGotThrough => "illegal traffic got through",
        MarkKind::NotSupported => "not supported",
        MarkKind::NoLowerBound => "no lower bound found",
        MarkKind::NoUpperBound => "no upper bound found",
        MarkKind::StolenTime => "stolen time",
        MarkKind::Note => "note",
    }
}

/// Whether a point has a mark of a kind.
pub(crate) fn has(point: &Point, kind: MarkKind) -> bool {
    point.marks.iter().any(|m| m.kind == kind)
}

/// `≥ ` before a valid value when something else than the firewall ended the search, so that the firewall may be
/// faster; `≤ ` before a cost derived from such a rate; nothing before other values.
pub(crate) fn bound(point: &Point) -> &'static str {
    let open = has(point, MarkKind::GeneratorLimited) || has(point, MarkKind::NoUpperBound);
    match (open, point.metric) {
        (false, _) => "",
        (true, Metric::Cost) => "≤ ",
        (true, _) => "≥ ",
    }
}

/// Whether a value is an end of what is possible, not the value itself.
pub(crate) fn is_bound(point: &Point) -> bool {
    !bound(point).is_empty()
}

/// Whether a mark says no more than what a firewall that only forwards is: the reports say so beside its name.
pub(crate) fn restates_role(dut: &str, mark: &Mark) -> bool {
    mark.kind == MarkKind::Note
        && mark.detail.strip_prefix(dut).is_some_and(|rest| rest.starts_with(" only forwards"))
}

/// Kinds of marks that a point's cell shows.
pub(crate) fn shown_kinds(point: &Point) -> impl Iterator<Item = MarkKind> {
    point.marks.iter().filter(|m| !restates_role(&point.dut, m)).map(|m| m.kind)
}

/// Whether a metric has trials of its own; the others are computed from those of another point.
pub(crate) const fn has_own_trials(metric: Metric) -> bool {
    !matches!(metric, Metric::Cost | Metric::Goodput | Metric::BufferTime)
}

/// What the loads, ledgers and losses of a test are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Frames,
    Connections,
    /// Of a bulk transfer.
    Bytes,
}

/// Whether a point's loads, ledger and losses are of connections, not of frames.
pub(crate) const fn of_connections(point: &Point) -> bool {
    point.connections.is_some() || matches!(point.metric.row().counts, Counts::Connections)
}

/// Whether two firewalls can be told apart: by their ratio, or, where a metric has none, by intervals that do not touch;
/// none when either has no value.
pub(crate) fn told_apart(a: &Point, b: &Point) -> Option<bool> {
    if !a.valid || !b.valid {
        return None;
    }
    let apart = a.low > b.high || b.low > a.high;
    Some(ratio::of_points(a, b).map_or(apart, |r| r.differs()))
}

/// The factor that tells stretches of one trial apart: before, during and after a flood.
pub(crate) const PHASE: &str = "phase";

/// Whether two points were measured in the same rounds: in the same cell, where firewalls take turns, whatever stretch or
/// step of the procedure each tells of.
pub(crate) fn same_cell(a: &Point, b: &Point) -> bool {
    let own = |name: &&String| !matches!(name.as_str(), PHASE | "load" | "resets");
    let level = |p: &Point, name: &String| p.factors.get(name).cloned();
    let names = |p: &Point| p.factors.keys().filter(own).cloned().collect::<BTreeSet<String>>();
    (&a.test, a.cores, a.placement) == (&b.test, b.cores, b.placement)
        && names(a) == names(b)
        && names(a).iter().all(|name| level(a, name) == level(b, name))
}

/// Whether two points of a firewall tell of the same trials: several metrics may come from one, and several stretches.
pub(crate) fn same_trials(a: &Point, b: &Point) -> bool {
    let factors = |p: &'_ Point| -> Vec<(String, String)> {
        let told = p.factors.iter().filter(|(name, _)| *name != PHASE);
        told.map(|(name, level)| (name.clone(), level.clone())).collect()
    };
    (&a.dut, a.cores, a.placement) == (&b.dut, b.cores, b.placement)
        && a.ledger == b.ledger
        && factors(a) == factors(b)
        && a.trials == b.trials
}

/// Unit of the loads that a point's trials offered.
pub(crate) fn load_unit(point: &Point) -> &'static str {
    let held = |s: &ConnectionOutcome| s.verified.is_some();
    match point.metric {
        Metric::BackToBack => "frames",
        Metric::ConcurrentConnections | Metric::Established | Metric::Surviving | Metric::ClosedByReset => {
            "connections"
        }
        _ if point.connections.as_ref().is_some_and(held) => "connections",
        _ if of_connections(point) => "connections/s",
        _ if point.bulk.is_some() => "bytes/s",
        _ => "frames/s",
    }
}

/// The times that belong to a point's value: of connections, from the intended start to the SYN-ACK, or the teardown.
pub(crate) fn times(point: &Point) -> Option<LatencySummary> {
    let of = |times: fn(&ConnectionTimes) -> Option<LatencySummary>| {
        point.connections.as_ref().and_then(|s| times(&s.times))
    };
    match point.metric {
        Metric::TeardownTime => of(|t| t.teardown_ns).or(point.latency_ns),
        Metric::Latency => point.latency_ns.or_else(|| of(|t| t.established_ns)),
        _ => of(|t| t.established_ns).or(point.latency_ns),
    }
}

/// Why a point may not be used, in words.
pub(crate) fn reason(point: &Point) -> String {
    let said: Vec<String> = point.marks.iter().filter(|m| m.kind.invalidates()).map(mark_text).collect();
    match (said.is_empty(), point.marks.is_empty()) {
        (false, _) => said.join("; "),
        (true, false) => point.marks.iter().map(mark_text).collect::<Vec<_>>().join("; "),
        (true, true) => "the run gave no reason".into(),
    }
}

/// A mark in words.
pub(crate) fn mark_text(mark: &Mark) -> String {
    match (mark.kind, mark.detail.is_empty()) {
        (MarkKind::Note, _) => mark.detail.clone(),
        (kind, true) => mark_name(kind).into(),
        (kind, false) => format!("{}: {}", mark_name(kind), mark.detail),
    }
}
