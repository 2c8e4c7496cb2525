//! Latency at one or more loads (RFC 2544 section 26.2).

use super::guard::counted_loss;
use super::load_search::{LoadSearch, Poll};
use super::parameters::{Given, Key, LOSS_RATIO, SEARCH, WIDTH};
use super::spec::percent;
use super::{
    Guarded, Measured, Method, Preset, Procedure, ProcedureRow, SearchSpec, Sends, Spec, Step, mark,
};
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::Placement;
use crate::stats::median;
use crate::trial::{FrameRequest, Load, TrialOutcome, TrialRequest, trials};
use toml_reader::{Collector, DeValue, Section, Value, items, wrong_type};

pub(super) const LOADS: Key = Key::other("loads", loads)
    .needed("write loads = [\"40%\"]: shares of the throughput, or frames a second");
const LATENCY_SECONDS: Key = Key::seconds("latency_seconds");
const LATENCY_REPEATS: Key = Key::integer("latency_repeats", 1, 1000);

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "latency",
    older_name: None,
    sends: Sends::Frames,
    factors: &[],
    keys: &[&SEARCH, &LOSS_RATIO, &WIDTH, &LOADS, &LATENCY_SECONDS, &LATENCY_REPEATS],
    make: |asked| {
        let (given, link_rate) = (asked.given, asked.link_rate());
        LatencySpec {
            loads: given.loads().iter().map(|load| load.resolve(link_rate)).collect(),
            trial_seconds: given.number(&LATENCY_SECONDS).unwrap_or(given.trial_seconds()),
            repeats: given.count(&LATENCY_REPEATS),
            search: given.search(Preset::Mlr, link_rate),
        }
        .into()
    },
};

/// A load at which latency is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LatencyLoad {
    /// Frames a second over all lanes and cores.
    FramesPerSecond(f64),
    /// A share of the throughput which the same procedure searches for first, 0 < share <= 1.
    ShareOfThroughput(f64),
}

/// Latency at one or more loads (RFC 2544 section 26.2). Yields one `Latency` a load, with the extra factor `load`
/// (`40%` of the throughput, or `100000/s`).
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySpec {
    /// At least one.
    pub loads: Vec<LatencyLoad>,
    /// Seconds of each latency trial, > 0; the RFC asks for 120.
    pub trial_seconds: f64,
    /// Trials a load, at least 1; the RFC asks for 20. The value is the median of their medians.
    pub repeats: u32,
    /// The search for the throughput; used only when a load is a share of it.
    pub search: SearchSpec,
}

impl LatencyLoad {
    /// The level of the factor `load`: `40%` or `100000/s`.
    pub fn label(self) -> String {
        match self {
            LatencyLoad::FramesPerSecond(rate) => format!("{rate:.0}/s"),
            LatencyLoad::ShareOfThroughput(share) => percent(share),
        }
    }
}

impl LatencySpec {
    /// Whether a load is a share of the throughput, so that it has to be searched for.
    fn needs_throughput(&self) -> bool {
        self.loads.iter().any(|load| matches!(load, LatencyLoad::ShareOfThroughput(_)))
    }
}

impl Spec for LatencySpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Latency::new(self.clone(), placement), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        let lost = |load: &LatencyLoad| Measured::lost(Metric::Latency, marks.to_vec()).at_load(load.label());
        self.loads.iter().map(lost).collect()
    }

    fn typical_seconds(&self) -> f64 {
        let search = if self.needs_throughput() { self.search.typical_seconds() } else { 0.0 };
        search + trials(self.loads.len() as f64 * f64::from(self.repeats), self.trial_seconds)
    }
}

struct Latency {
    spec: LatencySpec,
    /// `None` when every load is given in frames/s.
    search: Option<LoadSearch>,
    /// Trials of the present load.
    trials: Vec<TrialOutcome>,
    measured: Vec<Measured>,
}

impl Latency {
    fn new(spec: LatencySpec, placement: Placement) -> Self {
        let search = spec.needs_throughput().then(|| LoadSearch::new(&spec.search, placement));
        Self { spec, search, trials: Vec::new(), measured: Vec::new() }
    }

    /// The present load in frames/s; what the search wants first, or why there is none.
    fn load(&mut self, load: LatencyLoad) -> Result<f64, Poll> {
        let share = match load {
            LatencyLoad::FramesPerSecond(rate) => return Ok(rate),
            LatencyLoad::ShareOfThroughput(share) => share,
        };
        match self.search.as_mut().map(LoadSearch::poll) {
            Some(Poll::Found(found)) => Ok(found.throughput * share),
            Some(poll) => Err(poll),
            None => Err(Poll::Lost(Vec::new())),
        }
    }

    fn push(&mut self, measured: Measured) {
        let level = self.spec.loads[self.measured.len()].label();
        self.measured.push(measured.at_load(level));
        self.trials.clear();
    }

    fn searching(&self) -> bool {
        let present = self.spec.loads.get(self.measured.len());
        matches!(present, Some(LatencyLoad::ShareOfThroughput(_)))
    }
}

impl Method for Latency {
    fn next(&mut self) -> Step {
        while let Some(&load) = self.spec.loads.get(self.measured.len()) {
            match self.load(load) {
                Ok(rate) => {
                    let request = FrameRequest::constant(Load::PerSecond(rate), self.spec.trial_seconds);
                    return Step::Trial(request.for_times().into());
                }
                Err(Poll::Trial(request)) => return Step::Trial(request),
                Err(Poll::Lost(marks)) => self.push(Measured::lost(Metric::Latency, marks)),
                Err(Poll::Found(_)) => unreachable!("a throughput that was found gives a load"),
            }
        }
        Step::Done(self.measured.clone())
    }

    fn record(&mut self, _request: &TrialRequest, outcome: &TrialOutcome) {
        if self.searching() && self.search.as_mut().is_some_and(|search| search.takes(outcome)) {
            return;
        }
        self.trials.push(outcome.clone());
        if self.trials.len() >= self.spec.repeats.max(1) as usize {
            let trials = std::mem::take(&mut self.trials);
            self.push(summarise(trials));
        }
    }

    fn lower_maximum(&mut self, rate: f64) -> bool {
        self.searching() && self.search.as_mut().is_some_and(|search| search.lower_maximum(rate))
    }

    fn give_up(&mut self, marks: Vec<Mark>) {
        if self.searching() && self.search.as_mut().is_some_and(|search| search.give_up(marks.clone())) {
            return;
        }
        self.push(Measured::lost(Metric::Latency, marks));
    }
}

/// The median of the trials' medians. Loss does not spoil it, but the reader must know: lost frames have no latency.
fn summarise(trials: Vec<TrialOutcome>) -> Measured {
    let medians: Vec<f64> = trials.iter().filter_map(TrialOutcome::latency_ns).map(|l| l.p50).collect();
    let Some(value) = median(&medians) else {
        return Measured::lost(Metric::Latency, vec![mark(MarkKind::Note, "no latency was sampled")]);
    };
    let worst = trials.iter().map(counted_loss).fold(0.0, f64::max);
    let lossy = format!("up to {:.4} % of the frames were lost at this load", worst * 100.0);
    let marks = if worst > 0.0 { vec![mark(MarkKind::Note, lossy)] } else { Vec::new() };
    Measured::found(Metric::Latency, value, trials, marks)
}

/// A load as a suite writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WrittenLoad {
    FramesPerSecond(f64),
    ShareOfThroughput(f64),
    ShareOfLink(f64),
}

impl WrittenLoad {
    /// A share of a link without a rate was refused when the suite was read; should one come through, its share of
    /// the throughput is the nearest meaning.
    fn resolve(self, link_rate: Option<f64>) -> LatencyLoad {
        match (self, link_rate) {
            (Self::FramesPerSecond(rate), _) => LatencyLoad::FramesPerSecond(rate),
            (Self::ShareOfLink(share), Some(rate)) => LatencyLoad::FramesPerSecond(share * rate),
            (Self::ShareOfThroughput(share) | Self::ShareOfLink(share), _) => {
                LatencyLoad::ShareOfThroughput(share)
            }
        }
    }
}

fn loads(s: &Section<'_>, c: &mut Collector<'_>) -> Option<Given> {
    let value = s.value(LOADS.name)?;
    let mut read: Vec<WrittenLoad> = Vec::new();
    for item in items(value) {
        let Some(load) = load(item, c) else { continue };
        if read.contains(&load) {
            // Two points would have the same name, and the report one of them.
            let help = "take one of them out; `latency_repeats` repeats trials";
            c.report(item.span(), "`loads` has this load twice", Some(help.into()));
        }
        read.push(load);
    }
    if items(value).is_empty() {
        c.report(value.span(), "`loads` is empty", Some("write loads = [\"40%\"]".into()));
    }
    Some(Given::Loads(read))
}

fn load(value: &Value<'_>, c: &mut Collector<'_>) -> Option<WrittenLoad> {
    let read = match value.get_ref() {
        DeValue::Integer(n) => n.as_str().parse().ok().and_then(rate),
        DeValue::Float(n) => n.as_str().parse().ok().and_then(rate),
        DeValue::String(text) => percentage(text),
        other => return wrong_type(c, "loads", value.span(), other, "a list of loads"),
    };
    if read.is_none() {
        let help = "a load is frames a second from 1 (100000), a share of the throughput (\"40%\") or of the link \
                    (\"40% of link\"), above 0 % and up to 100 %";
        c.report(value.span(), "this is no load", Some(help.into()));
    }
    read
}

fn rate(frames_per_second: f64) -> Option<WrittenLoad> {
    (1.0..=1e10).contains(&frames_per_second).then_some(WrittenLoad::FramesPerSecond(frames_per_second))
}

fn percentage(text: &str) -> Option<WrittenLoad> {
    let (percent, of_link) = match text.strip_suffix("% of link") {
        Some(percent) => (percent, true),
        None => (text.strip_suffix('%')?, false),
    };
    let share = percent.trim().parse::<f64>().ok().map(|p| p / 100.0).filter(|s| *s > 0.0 && *s <= 1.0)?;
    Some(if of_link { WrittenLoad::ShareOfLink(share) } else { WrittenLoad::ShareOfThroughput(share) })
}
