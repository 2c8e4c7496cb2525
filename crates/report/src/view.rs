//! Results as readers look at them: tests, then settings (everything that makes two points comparable but the
//! firewall), then firewalls. The Markdown, HTML and terminal reports are all written from this. Pure.

use crate::differ::{self, Difference};
use crate::ratio::{self, Ratio, Standing};
use measure::connections::ConnectionTimes;
use measure::level::{self, Level};
use measure::results::{
    Firewall, LatencySummary, LoadKind, Mark, MarkKind, Metric, Point, Reading, Results, Role, Sent, Trial,
};
use measure::shape::Placement;
use std::collections::{BTreeMap, BTreeSet};

/// The firewall that others are compared with, where it was measured.
pub(crate) const DEFAULT_REFERENCE: &str = "nftables";

/// Colours of the charts.
const COLOURS: usize = 8;

/// What a firewall under test is to the reader, in words.
pub(crate) const fn role_sentence(role: Role) -> &'static str {
    match role {
        Role::Calibration => "calibration: nothing between generator and sink",
        Role::Forwarder => "forwards without a policy",
        Role::Firewall => "enforces the policy",
    }
}

/// One setting of the factors with the points of all firewalls measured there.
#[derive(Debug, Clone)]
pub(crate) struct Setting<'a> {
    /// Metric of all points.
    pub(crate) metric: Metric,
    /// Factors, with `cores` and `placement` among them.
    pub(crate) levels: BTreeMap<String, Level>,
    /// Points of the firewalls in the order of the report.
    pub(crate) points: Vec<Reading<'a>>,
    /// How the firewalls differ in it.
    pub(crate) difference: Difference,
}

impl<'a> Setting<'a> {
    /// The point of a firewall.
    pub(crate) fn point(&self, dut: &str) -> Option<Reading<'a>> {
        self.points.iter().copied().find(|p| p.dut == dut)
    }

    /// A firewall's value divided by the reference's, with its interval; none when either may not be used, and for
    /// the calibration, which is no firewall.
    pub(crate) fn ratio(&self, dut: &str, reference: &str) -> Option<Ratio> {
        let point = self.point(dut).filter(|p| p.role != Role::Calibration && dut != reference)?;
        if self.is_apart() {
            return None;
        }
        ratio::of_points(&point, self.point(reference)?.point)
    }

    /// Whether its values are times that the firewalls took at loads of their own, each at its highest rate or at a share of
    /// it. Such times say nothing of who is faster, and no report puts them side by side.
    pub(crate) fn is_apart(&self) -> bool {
        const SAME: f64 = 1.05;
        let loads = || self.points.iter().filter(|p| p.valid).filter_map(offered);
        let (least, most) = loads().fold((f64::INFINITY, 0.0_f64), |(l, m), load| (l.min(load), m.max(load)));
        self.is_timed() && most > least * SAME
    }

    /// Whether its values are times that depend on the load.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(
            self.metric,
            Metric::Latency | Metric::EstablishmentTime | Metric::TeardownTime | Metric::Recovery
        )
    }

    /// Bits a second of a frame rate, frame check sequence included; none where frames have no size.
    pub(crate) fn bits(&self, frames: f64) -> Option<f64> {
        let size = self.levels.get("frame").and_then(|level| level.number.or(level.order));
        size.filter(|_| self.metric == Metric::Throughput).map(|bytes| frames * bytes * 8.0)
    }

    /// Whether its points are of connections, not of frames.
    pub(crate) fn of_connections(&self) -> bool {
        self.points.iter().any(|p| p.sent() == Sent::Connections)
    }

    /// Frame size that comes first among settings: the number, or nothing for a mix.
    pub(crate) fn frame_bytes(&self) -> Option<f64> {
        self.levels.get("frame").and_then(|level| level.number)
    }
}

/// Names of the factors that differ among the levels of settings, in the order of a table's columns. A factor that only some
/// of them have differs.
pub(crate) fn differing<'l>(
    levels: impl Iterator<Item = &'l BTreeMap<String, Level>> + Clone,
) -> Vec<String> {
    let names: BTreeSet<&String> = levels.clone().flat_map(BTreeMap::keys).collect();
    let differs = |name: &&String| {
        let first = levels.clone().next().and_then(|l| l.get(*name));
        levels.clone().any(|l| l.get(*name) != first)
    };
    let mut names: Vec<String> = names.into_iter().filter(differs).cloned().collect();
    names.sort_by_key(|name| level::column(name));
    names
}

/// All points of one test and one metric.
#[derive(Debug, Clone)]
pub(crate) struct Block<'a> {
    /// Metric of all settings.
    pub(crate) metric: Metric,
    /// Settings, in natural order of their levels.
    pub(crate) settings: Vec<Setting<'a>>,
}

impl<'a> Block<'a> {
    /// Names of the factors that take more than one level here, in the order of a table's columns.
    pub(crate) fn factors(&self) -> Vec<String> {
        differing(self.settings.iter().map(|s| &s.levels))
    }

    /// Factors that take more than one level here, with their levels in natural order.
    pub(crate) fn varying(&self) -> Vec<(String, Vec<Option<Level>>)> {
        self.levels().into_iter().filter(|(_, levels)| levels.len() > 1).collect()
    }

    /// Factors that have the same level everywhere here.
    pub(crate) fn constant(&self) -> Vec<(String, Level)> {
        let same = |(name, mut levels): (String, Vec<Option<Level>>)| match levels.len() {
            1 => Some((name, levels.remove(0)?)),
            _ => None,
        };
        self.levels().into_iter().filter_map(same).collect()
    }

    /// Its settings that may be put side by side, and those that may not.
    pub(crate) fn parts(&self) -> (Self, Self) {
        let (apart, together) = self.settings.iter().cloned().partition(Setting::is_apart);
        let of = |settings| Block { metric: self.metric, settings };
        (of(together), of(apart))
    }

    /// What is measured, which way is better, and at which load times were measured.
    pub(crate) fn sentence(&self) -> String {
        let better = if self.metric.more_is_better() { "Higher is better." } else { "Lower is better." };
        let at = self.load().map_or_else(String::new, |at| format!(" Measured {at}."));
        format!("{} {better}{at}", self.metric.row().sentence())
    }

    /// The load at which times were measured, where all have the same: `at 100 kpps`.
    pub(crate) fn load(&self) -> Option<String> {
        let mut loads =
            self.settings.iter().filter(|s| s.is_timed()).flat_map(|s| &s.points).filter_map(at_load);
        let first = loads.next()?;
        loads.all(|load| load == first).then_some(first)
    }

    fn levels(&self) -> Vec<(String, Vec<Option<Level>>)> {
        let names: BTreeSet<&String> = self.settings.iter().flat_map(|s| s.levels.keys()).collect();
        names
            .into_iter()
            .map(|name| {
                let levels: BTreeSet<Option<Level>> =
                    self.settings.iter().map(|s| s.levels.get(name).cloned()).collect();
                (name.clone(), levels.into_iter().collect())
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

impl<'a> Test<'a> {
    /// All its points, block by block.
    pub(crate) fn points(&self) -> impl Iterator<Item = Reading<'a>> {
        self.blocks.iter().flat_map(|b| &b.settings).flat_map(|s| s.points.iter().copied())
    }

    /// Whether a valid point of an earlier block, or of an earlier setting of this one, rests on the same trials.
    pub(crate) fn shown_before(&self, block: &Block<'_>, setting: &Setting<'_>, point: &Reading<'_>) -> bool {
        let blocks = self.blocks.iter().take_while(|b| b.metric != block.metric);
        let settings = block.settings.iter().take_while(|s| s.levels != setting.levels);
        let mut before = blocks.flat_map(|b| &b.settings).chain(settings).flat_map(|s| &s.points);
        before.any(|p| p.valid && p.shares_trials(point))
    }

    /// What it counts.
    pub(crate) fn sent(&self) -> Sent {
        self.points().next().map_or(Sent::Frames, |p| p.sent())
    }

    /// Names of the factors that differ anywhere in the test: what tells its points apart.
    pub(crate) fn varying(&self) -> Vec<String> {
        differing(self.blocks.iter().flat_map(|b| &b.settings).map(|s| &s.levels))
    }
}

/// All of it.
#[derive(Debug, Clone)]
pub(crate) struct View<'a> {
    /// What differs most comes first; what is the same for all firewalls last, in the order of the suite.
    pub(crate) tests: Vec<Test<'a>>,
    /// Firewalls in the order of the report.
    pub(crate) duts: Vec<&'a str>,
    firewalls: Vec<&'a Firewall>,
    /// The firewall that the others are compared with; none when there is only one.
    pub(crate) reference: Option<&'a str>,
}

impl<'a> View<'a> {
    /// Arranges the points. `reference` is taken when it was measured, else nftables, else the first firewall.
    pub(crate) fn new(results: &'a Results, reference: Option<&str>) -> Self {
        let firewalls = firewalls(results);
        let duts: Vec<&str> = firewalls.iter().map(|firewall| firewall.name.as_str()).collect();
        let reference = pick_reference(&firewalls, reference);
        let readings: Vec<Reading<'_>> = results.readings().collect();
        let mut names: Vec<&str> = Vec::new();
        for point in &readings {
            if !names.contains(&point.test()) {
                names.push(point.test());
            }
        }
        let mut tests: Vec<Test<'_>> = names.into_iter().map(|name| test(&readings, name, &duts)).collect();
        differ::sort(&mut tests);
        Self { tests, duts, firewalls, reference }
    }

    /// What a firewall is to the reader.
    pub(crate) fn role(&self, dut: &str) -> Role {
        self.firewalls.iter().find(|f| f.name == dut).map_or(Role::Firewall, |f| f.role)
    }

    /// A firewall's colour, marker and dash in every chart: its own while there are colours, the same in all reports, and a
    /// free one otherwise.
    pub(crate) fn index(&self, dut: &str) -> usize {
        let order = |f: &Firewall| Some(f.order as usize).filter(|order| *order < COLOURS);
        let own = self.firewalls.iter().find(|f| f.name == dut).and_then(|f| order(f));
        own.unwrap_or_else(|| {
            let taken = |i: &usize| self.firewalls.iter().any(|f| order(f) == Some(*i));
            let free: Vec<usize> = (0..COLOURS).rev().filter(|i| !taken(i)).collect();
            let late = self.firewalls.iter().filter(|f| order(f).is_none());
            let place = late.map(|f| f.name.as_str()).position(|name| name == dut).unwrap_or(0);
            free.get(place).copied().unwrap_or(place)
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

/// Those that have points, in their order.
fn firewalls(results: &Results) -> Vec<&Firewall> {
    let measured: BTreeSet<&str> = results.points.iter().map(|p| p.dut.as_str()).collect();
    let mut firewalls: Vec<&Firewall> =
        results.firewalls.iter().filter(|f| measured.contains(f.name.as_str())).collect();
    firewalls.sort_by_key(|f| f.order);
    firewalls
}

fn pick_reference<'a>(firewalls: &[&'a Firewall], wanted: Option<&str>) -> Option<&'a str> {
    if firewalls.len() < 2 {
        return None;
    }
    let named = |name: &str| firewalls.iter().copied().find(|f| f.name == name);
    let is = |role: Role| firewalls.iter().copied().find(|f| f.role == role);
    let found = wanted
        .and_then(named)
        .or_else(|| named(DEFAULT_REFERENCE))
        .or_else(|| is(Role::Firewall))
        .or_else(|| is(Role::Forwarder));
    found.map(|f| f.name.as_str())
}

fn test<'a>(readings: &[Reading<'a>], name: &'a str, duts: &[&'a str]) -> Test<'a> {
    let mut by_metric: BTreeMap<Metric, Vec<Setting<'a>>> = BTreeMap::new();
    for point in readings.iter().copied().filter(|p| p.test() == name) {
        let levels = point.levels();
        let settings = by_metric.entry(point.metric).or_default();
        match settings.iter_mut().find(|s| s.levels == levels) {
            Some(setting) => setting.points.push(point),
            None => settings.push(Setting {
                metric: point.metric,
                levels,
                points: vec![point],
                difference: Difference::Unknown,
            }),
        }
    }
    let blocks = by_metric
        .into_iter()
        .map(|(metric, mut settings)| {
            settings.sort_by_cached_key(|s| order(&s.levels));
            for setting in &mut settings {
                setting.points.sort_by_key(|p| duts.iter().position(|d| *d == p.dut));
                setting.difference = differ::of_setting(setting);
            }
            Block { metric, settings }
        })
        .collect();
    Test { name, blocks }
}

/// A sort key over all levels, in the order of a table's columns.
fn order(levels: &BTreeMap<String, Level>) -> Vec<(usize, Level)> {
    let mut key: Vec<(usize, Level)> =
        levels.iter().map(|(name, level)| (level::column(name), level.clone())).collect();
    key.sort_by_key(|(rank, _)| *rank);
    key
}

/// A level short enough for an axis; a dash where there is none.
pub(crate) fn short(level: Option<&Level>) -> String {
    level.map_or_else(|| "–".into(), |level| level.short().to_owned())
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
    let any = |sent: Sent| results.readings().any(|p| p.sent() == sent);
    if results.points.is_empty() || any(Sent::Frames) {
        hints.push("Frame sizes count the 4-byte frame check sequence, as RFC 1242 and RFC 2544 count them.");
        // RFC 9971, under "Trial", has every difference from RFC 2544's trial reported.
        hints.push(
            "Trials differ from those of RFC 2544 section 23 in what they wait for: in place of learning frames the neighbours are \
             known and the flows that a firewall keeps are open before a trial, and it ends when every frame has arrived or none \
             came for 60 ms (500 ms on links of a set speed, 2 s between network cards), without 5 s of rest after it.",
        );
    }
    if any(Sent::Connections) {
        hints.push(
            "Rates of connections are a second; times begin at the intended start of a connection, so that one that \
             waited for its turn does not hide it.",
        );
    }
    if any(Sent::Bulk) {
        hints.push(
            "Bits of bulk transfers are those that the receiving applications read, headers and what was sent again left out.",
        );
    }
    if any(Sent::Application) {
        hints.push(
            "A transaction asks for a file, which is read and compared byte by byte with the server's, over a connection of its own \
             unless the factor `transactions` has more. Clients begin the next one when the one before has ended, so a slow firewall is \
             asked less often; where a rate of connections is measured, connections begin at their times instead, and times count from there.",
        );
    }
    for point in results.readings() {
        let sentence = placement_sentence(point.cell.placement);
        if !hints.contains(&sentence) {
            hints.push(sentence);
        }
    }
    hints
}

/// Whether a point has a mark of a kind.
pub(crate) fn has(point: &Point, kind: MarkKind) -> bool {
    point.marks.iter().any(|m| m.kind == kind)
}

/// `≥ ` before a valid value when something else than the firewall ended the search, so that the firewall may be
/// faster; `≤ ` before a cost derived from such a rate; nothing before other values, for example a time.
pub(crate) fn bound(point: &Point) -> &'static str {
    let open = has(point, MarkKind::GeneratorLimited) || has(point, MarkKind::NoUpperBound);
    match (open, point.metric) {
        (true, Metric::Cost) => "≤ ",
        (true, metric) if metric.more_is_better() => "≥ ",
        _ => "",
    }
}

/// Whether a value is an end of what is possible, not the value itself.
pub(crate) fn is_bound(point: &Point) -> bool {
    !bound(point).is_empty()
}

/// Kinds of marks that a point's cell shows: what a firewall is stands beside its name.
pub(crate) fn shown_kinds(point: &Point) -> impl Iterator<Item = MarkKind> {
    point.marks.iter().map(|m| m.kind).filter(|kind| *kind != MarkKind::Baseline)
}

/// Whether two firewalls can be distinguished: by their ratio, or, where a metric has none, by their difference; none when
/// either has no value.
pub(crate) fn distinguished(a: &Point, b: &Point) -> Option<bool> {
    ratio::standing(a, b).map(|s| matches!(s, Standing::More | Standing::Less))
}

/// The load that a point's deciding trials offered, the median of them, in the unit of [`load_unit`].
pub(crate) fn offered(point: &Reading<'_>) -> Option<f64> {
    let loads: Vec<f64> = point.deciding().map(|trial| trial.offered).filter(|load| *load > 0.0).collect();
    measure::stats::median(&loads)
}

/// That load in words: `at 2.55 Mpps`.
pub(crate) fn at_load(point: &Reading<'_>) -> Option<String> {
    let unit = load_unit(point.sent(), point.deciding().next()?);
    Some(format!("at {}", crate::units::value(unit, offered(point)?)))
}

/// Unit of the load that a trial offered.
pub(crate) const fn load_unit(sent: Sent, trial: &Trial) -> &'static str {
    match (sent, trial.load) {
        (Sent::Frames, LoadKind::Rate) => "frames/s",
        (Sent::Frames, _) => "frames",
        (Sent::Connections, LoadKind::Rate) => "connections/s",
        (Sent::Connections, _) => "connections",
        (Sent::Bulk, _) => "bytes/s",
        (Sent::Application, LoadKind::Rate) => "connections/s",
        (Sent::Application, _) => "transactions/s",
    }
}

/// The times that belong to a point's value: of transactions from SYN to close, of connections from the intended start to the
/// SYN-ACK, or the teardown.
pub(crate) fn times(point: &Reading<'_>) -> Option<LatencySummary> {
    let of = |times: fn(&ConnectionTimes) -> Option<LatencySummary>| {
        point.connections().and_then(|s| times(&s.times))
    };
    if point.part_name().is_some() {
        return times_of_part(point);
    }
    match point.metric {
        Metric::TeardownTime => of(|t| t.teardown_ns),
        Metric::TransactionTime | Metric::TransactionTimeP99 => point.application_times(|a| a.times_ns),
        Metric::TimeToFirstByte => {
            point.application_times(|a| a.sustained.as_ref().map_or(a.first_byte_ns, |s| s.first_byte_ns))
        }
        Metric::TimeToLastByte => {
            point.application_times(|a| a.sustained.as_ref().map_or(a.last_byte_ns, |s| s.last_byte_ns))
        }
        _ => point.latency_ns().or_else(|| of(|t| t.established_ns)),
    }
}

/// The same of a part of a mix.
fn times_of_part(point: &Reading<'_>) -> Option<LatencySummary> {
    let part = point.part()?;
    let sustained = part.sustained.as_deref();
    match point.metric {
        Metric::TransactionTime | Metric::TransactionTimeP99 => part.times_ns,
        Metric::TimeToFirstByte => sustained.map_or(part.first_byte_ns, |of| of.first_byte_ns),
        Metric::TimeToLastByte => sustained.map_or(part.last_byte_ns, |of| of.last_byte_ns),
        _ => None,
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
    match (mark.kind, mark.text.is_empty()) {
        (MarkKind::Note | MarkKind::NotMeasured | MarkKind::Baseline, _) => mark.text.clone(),
        (kind, true) => kind.row().name.into(),
        (kind, false) => format!("{}: {}", kind.row().name, mark.text),
    }
}
