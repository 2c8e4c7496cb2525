//! The parameters of procedures: how long, how often, how exactly. Each may stand in a profile (for every test), in a
//! test (for every profile), or in a test's own table for one profile; the most particular wins.

use super::levels::line_rate;
use super::problem::{Collector, suggestion};
use super::read::{Section, items, wrong_type};
use crate::procedure::{
    BackToBackSpec, LatencyLoad, LatencySpec, LossCurveSpec, OverloadRecoverySpec, Preset, ProcedureSpec,
    ResetRecoverySpec, SearchSpec, ThroughputSpec,
};
use crate::shape::Setup;
use toml::Spanned;
use toml::de::DeValue;

/// What a test measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcedureKind {
    /// RFC 2544 section 26.1.
    Throughput,
    /// RFC 2544 section 26.2.
    Latency,
    /// RFC 2544 section 26.3.
    LossCurve,
    /// RFC 9004.
    BackToBack,
    /// RFC 2544 section 26.5.
    OverloadRecovery,
    /// RFC 2544 section 26.6.
    ResetRecovery,
}

use ProcedureKind::{BackToBack, Latency, LossCurve, OverloadRecovery, ResetRecovery, Throughput};

/// Those that begin with a search for the throughput.
const SEARCHING: &[ProcedureKind] = &[Throughput, Latency, BackToBack, OverloadRecovery, ResetRecovery];

impl ProcedureKind {
    /// All of them.
    pub const ALL: [ProcedureKind; 6] =
        [Throughput, Latency, LossCurve, BackToBack, OverloadRecovery, ResetRecovery];

    /// As suites write it.
    pub const fn name(self) -> &'static str {
        match self {
            Throughput => "throughput",
            Latency => "latency",
            LossCurve => "loss-curve",
            BackToBack => "back-to-back",
            OverloadRecovery => "overload-recovery",
            ResetRecovery => "reset-recovery",
        }
    }

    /// The procedure of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Every parameter, and the procedures that it means something to.
pub(super) const KEYS: &[(&str, &[ProcedureKind])] = &[
    ("rounds", &ProcedureKind::ALL),
    ("trial_seconds", &ProcedureKind::ALL),
    ("search", SEARCHING),
    ("loss_ratio", SEARCHING),
    ("width", SEARCHING),
    ("step", &[LossCurve]),
    ("loads", &[Latency]),
    ("latency_seconds", &[Latency]),
    ("latency_repeats", &[Latency]),
    ("max_burst", &[BackToBack]),
    ("burst_seconds", &[BackToBack]),
    ("burst_repeats", &[BackToBack]),
    ("overload_seconds", &[OverloadRecovery]),
    ("recovery_seconds", &[OverloadRecovery, ResetRecovery]),
    ("reset_after_seconds", &[ResetRecovery]),
];

/// A load as a suite writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WrittenLoad {
    FramesPerSecond(f64),
    ShareOfThroughput(f64),
    ShareOfLink(f64),
}

/// Parameters that were given; `None` where nothing was said.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Parameters {
    pub(super) rounds: Option<u64>,
    pub(super) trial_seconds: Option<f64>,
    search: Option<Preset>,
    loss_ratio: Option<f64>,
    width: Option<f64>,
    step: Option<f64>,
    pub(super) loads: Option<Vec<WrittenLoad>>,
    latency_seconds: Option<f64>,
    latency_repeats: Option<u64>,
    max_burst: Option<u64>,
    burst_seconds: Option<f64>,
    burst_repeats: Option<u64>,
    overload_seconds: Option<f64>,
    recovery_seconds: Option<f64>,
    reset_after_seconds: Option<f64>,
}

/// A day: longer trials are a slip of the pen.
const MAX_SECONDS: f64 = 86_400.0;
/// Shorter trials are mostly start and stop.
const MIN_SECONDS: f64 = 0.05;

impl Parameters {
    pub(super) fn read(s: &mut Section<'_>, c: &mut Collector<'_>) -> Self {
        let seconds = MIN_SECONDS..=MAX_SECONDS;
        Self {
            rounds: s.integer("rounds", 1..=1000, c),
            trial_seconds: s.number("trial_seconds", seconds.clone(), c),
            search: preset(s, c),
            loss_ratio: s.number("loss_ratio", 0.0..=0.5, c),
            width: s.number("width", 0.0001..=0.5, c),
            step: s.number("step", 0.01..=0.5, c),
            loads: loads(s, c),
            latency_seconds: s.number("latency_seconds", seconds.clone(), c),
            latency_repeats: s.integer("latency_repeats", 1..=1000, c),
            max_burst: s.integer("max_burst", 2..=1_000_000_000, c),
            burst_seconds: s.number("burst_seconds", seconds.clone(), c),
            burst_repeats: s.integer("burst_repeats", 1..=1000, c),
            overload_seconds: s.number("overload_seconds", seconds.clone(), c),
            recovery_seconds: s.number("recovery_seconds", seconds.clone(), c),
            reset_after_seconds: s.number("reset_after_seconds", seconds, c),
        }
    }

    /// These, and where they say nothing, the others.
    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            rounds: self.rounds.or(other.rounds),
            trial_seconds: self.trial_seconds.or(other.trial_seconds),
            search: self.search.or(other.search),
            loss_ratio: self.loss_ratio.or(other.loss_ratio),
            width: self.width.or(other.width),
            step: self.step.or(other.step),
            loads: self.loads.or_else(|| other.loads.clone()),
            latency_seconds: self.latency_seconds.or(other.latency_seconds),
            latency_repeats: self.latency_repeats.or(other.latency_repeats),
            max_burst: self.max_burst.or(other.max_burst),
            burst_seconds: self.burst_seconds.or(other.burst_seconds),
            burst_repeats: self.burst_repeats.or(other.burst_repeats),
            overload_seconds: self.overload_seconds.or(other.overload_seconds),
            recovery_seconds: self.recovery_seconds.or(other.recovery_seconds),
            reset_after_seconds: self.reset_after_seconds.or(other.reset_after_seconds),
        }
    }

    /// Whether some load is a share of the link, which must then have a rate.
    pub(super) fn needs_link(&self) -> bool {
        self.loads.iter().flatten().any(|load| matches!(load, WrittenLoad::ShareOfLink(_)))
    }

    /// The rounds; a suite that was read without problems has them.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.and_then(|rounds| u32::try_from(rounds).ok()).unwrap_or(1)
    }

    /// What is measured in a cell with this setup; defaults filled in.
    pub(super) fn procedure(&self, kind: ProcedureKind, setup: &Setup) -> ProcedureSpec {
        let trial_seconds = self.trial_seconds.unwrap_or(1.0);
        let link_rate = line_rate(setup);
        let search = SearchSpec {
            preset: self.search.unwrap_or(Preset::Mlr),
            trial_seconds,
            loss_ratio: self.loss_ratio,
            width: self.width,
            max_load: link_rate,
        };
        let repeats = |given: Option<u64>| given.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        match kind {
            Throughput => ProcedureSpec::Throughput(ThroughputSpec { search }),
            Latency => ProcedureSpec::Latency(LatencySpec {
                loads: self.loads.iter().flatten().map(|load| load.resolve(link_rate)).collect(),
                trial_seconds: self.latency_seconds.unwrap_or(trial_seconds),
                repeats: repeats(self.latency_repeats),
                search,
            }),
            LossCurve => ProcedureSpec::LossCurve(LossCurveSpec {
                trial_seconds,
                max_load: link_rate,
                step: self.step.unwrap_or(0.1),
            }),
            BackToBack => ProcedureSpec::BackToBack(BackToBackSpec {
                max_burst_frames: self.max_burst.unwrap_or(1_000_000),
                trial_seconds: self.burst_seconds.unwrap_or(2.0),
                repeats: repeats(self.burst_repeats),
                line_rate: link_rate,
                search,
            }),
            OverloadRecovery => ProcedureSpec::OverloadRecovery(OverloadRecoverySpec {
                overload_seconds: self.overload_seconds.unwrap_or(trial_seconds),
                recovery_seconds: self.recovery_seconds.unwrap_or(trial_seconds),
                search,
            }),
            ResetRecovery => {
                let reset_after_seconds = self.reset_after_seconds.unwrap_or(trial_seconds);
                ProcedureSpec::ResetRecovery(ResetRecoverySpec {
                    reset_after_seconds,
                    trial_seconds: reset_after_seconds + self.recovery_seconds.unwrap_or(trial_seconds),
                    search,
                })
            }
        }
    }
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

fn preset(s: &mut Section<'_>, c: &mut Collector<'_>) -> Option<Preset> {
    let name = s.text("search", c)?;
    match name.value.as_str() {
        "mlr" => Some(Preset::Mlr),
        "rfc2544" => Some(Preset::Rfc2544),
        "tst009" => Some(Preset::Tst009),
        other => {
            let help = suggestion(other, ["mlr", "rfc2544", "tst009"]);
            c.report(name.span, format!("no search is called `{other}`"), Some(help));
            None
        }
    }
}

fn loads(s: &mut Section<'_>, c: &mut Collector<'_>) -> Option<Vec<WrittenLoad>> {
    let value = s.value("loads")?;
    let read: Vec<WrittenLoad> = items(value).into_iter().filter_map(|item| load(item, c)).collect();
    if items(value).is_empty() {
        c.report(value.span(), "`loads` is empty", Some("write loads = [\"40%\"]".into()));
    }
    Some(read)
}

fn load(value: &Spanned<DeValue<'_>>, c: &mut Collector<'_>) -> Option<WrittenLoad> {
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
