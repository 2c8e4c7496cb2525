//! The parameters of procedures: how long, how often, how exactly. Each may stand in a profile (for every test), in a
//! test (for every profile), or in a test's own table for one profile; the most particular wins.

use super::levels::{Beside, MAX_CONNECTIONS, line_rate};
use crate::connections::ConnectionShape;
use crate::procedure::{
    BackToBackSpec, BulkSpec, CapacitySpec, FloodTime, LatencyLoad, LatencySpec, LossCurveSpec,
    OverloadRecoverySpec, Preset, ProcedureSpec, RateOf, RateSpec, ReplacementSpec, ResetRecoverySpec,
    ResetsSpec, SearchSpec, SessionRateSpec, SteadySpec, ThroughputSpec,
};
use crate::shape::Setup;
use toml_reader::{Collector, DeValue, Section, Value, items, wrong_type};

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
    /// RFC 3511 section 5.3.
    ConnectionRate,
    /// RFC 3511 section 5.7.
    TransactionRate,
    /// RFC 3511 section 5.4.
    TeardownRate,
    /// RFC 3511 section 5.2.
    ConnectionCapacity,
    /// EANTC 2001: a number of connections, opened at a rate.
    SessionRate,
    /// PoliWall 2012: a fixed rate over time, with or without a flood.
    Steady,
    /// EANTC 2001: resets against open connections.
    Resets,
    /// A policy replaced under load.
    Replacement,
    /// Check Point 2021: bulk transfers through the kernel's own TCP.
    Bulk,
}

use ProcedureKind::{
    BackToBack, Bulk, ConnectionCapacity, ConnectionRate, Latency, LossCurve, OverloadRecovery, Replacement,
    ResetRecovery, Resets, SessionRate, Steady, TeardownRate, Throughput, TransactionRate,
};

/// Those that begin with a search.
const SEARCHING: &[ProcedureKind] = &[
    Throughput,
    Latency,
    BackToBack,
    OverloadRecovery,
    ResetRecovery,
    ConnectionRate,
    TransactionRate,
    TeardownRate,
    ConnectionCapacity,
];

/// Those that search for a rate of connections.
const RATES: &[ProcedureKind] = &[ConnectionRate, TransactionRate, TeardownRate];

impl ProcedureKind {
    /// All of them.
    pub const ALL: [ProcedureKind; 15] = [
        Throughput,
        Latency,
        LossCurve,
        BackToBack,
        OverloadRecovery,
        ResetRecovery,
        ConnectionRate,
        TransactionRate,
        TeardownRate,
        ConnectionCapacity,
        SessionRate,
        Steady,
        Resets,
        Replacement,
        Bulk,
    ];

    /// As suites write it.
    pub const fn name(self) -> &'static str {
        match self {
            Throughput => "throughput",
            Latency => "latency",
            LossCurve => "loss-curve",
            BackToBack => "back-to-back",
            OverloadRecovery => "overload-recovery",
            ResetRecovery => "reset-recovery",
            ConnectionRate => "connection-rate",
            TransactionRate => "transaction-rate",
            TeardownRate => "teardown-rate",
            ConnectionCapacity => "connection-capacity",
            SessionRate => "session-rate",
            Steady => "steady",
            Resets => "resets",
            Replacement => "replacement",
            Bulk => "bulk",
        }
    }

    /// Whether it makes TCP connections instead of sending frames.
    pub const fn has_sessions(self) -> bool {
        !self.sends_frames() && !matches!(self, Bulk)
    }

    /// Whether it sends frames of its own.
    pub const fn sends_frames(self) -> bool {
        matches!(self, Throughput | Latency | LossCurve | BackToBack | OverloadRecovery | ResetRecovery)
    }

    /// Whether its connections are opened and held open until the end of the trial.
    pub const fn holds_open(self) -> bool {
        matches!(self, ConnectionCapacity | SessionRate | Resets)
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
    ("p99_establishment", RATES),
    ("max_connections", &[ConnectionCapacity]),
    ("opening_rate", &[ConnectionCapacity, Resets]),
    ("session_rate", &[SessionRate]),
    ("connection_rate", &[Steady, Replacement]),
    ("ramp_up_seconds", &[Steady]),
    ("sustain_seconds", &[Steady]),
    ("ramp_down_seconds", &[Steady]),
    ("attack_after_seconds", &[Steady]),
    ("attack_seconds", &[Steady]),
    ("resets_each", &[Resets]),
    ("resets_rate", &[Resets]),
    ("replace_after_seconds", &[Replacement]),
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
    p99_establishment: Option<f64>,
    max_connections: Option<u64>,
    opening_rate: Option<f64>,
    session_rate: Option<f64>,
    pub(super) connection_rate: Option<f64>,
    ramp_up_seconds: Option<f64>,
    sustain_seconds: Option<f64>,
    ramp_down_seconds: Option<f64>,
    attack_after_seconds: Option<f64>,
    attack_seconds: Option<f64>,
    resets_each: Option<u64>,
    resets_rate: Option<f64>,
    replace_after_seconds: Option<f64>,
}

/// A day: longer trials are a slip of the pen.
const MAX_SECONDS: f64 = 86_400.0;
/// Shorter trials are mostly start and stop.
const MIN_SECONDS: f64 = 0.05;
/// Connections or resets a second; more is a slip of the pen.
const RATE: std::ops::RangeInclusive<f64> = 1.0..=100_000_000.0;
/// Connections a second unless the suite says otherwise: EANTC's.
const DEFAULT_RATE: f64 = 5000.0;

impl Parameters {
    pub(super) fn read(s: &Section<'_>, c: &mut Collector<'_>) -> Self {
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
            reset_after_seconds: s.number("reset_after_seconds", seconds.clone(), c),
            p99_establishment: s.number("p99_establishment", 0.000_001..=60.0, c),
            max_connections: s.integer("max_connections", 2..=u64::from(MAX_CONNECTIONS), c),
            opening_rate: s.number("opening_rate", RATE, c),
            session_rate: s.number("session_rate", RATE, c),
            connection_rate: s.number("connection_rate", RATE, c),
            ramp_up_seconds: s.number("ramp_up_seconds", 0.0..=MAX_SECONDS, c),
            sustain_seconds: s.number("sustain_seconds", seconds.clone(), c),
            ramp_down_seconds: s.number("ramp_down_seconds", 0.0..=MAX_SECONDS, c),
            attack_after_seconds: s.number("attack_after_seconds", seconds.clone(), c),
            attack_seconds: s.number("attack_seconds", seconds.clone(), c),
            resets_each: s.integer("resets_each", 1..=1000, c),
            resets_rate: s.number("resets_rate", RATE, c),
            replace_after_seconds: s.number("replace_after_seconds", seconds, c),
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
            p99_establishment: self.p99_establishment.or(other.p99_establishment),
            max_connections: self.max_connections.or(other.max_connections),
            opening_rate: self.opening_rate.or(other.opening_rate),
            session_rate: self.session_rate.or(other.session_rate),
            connection_rate: self.connection_rate.or(other.connection_rate),
            ramp_up_seconds: self.ramp_up_seconds.or(other.ramp_up_seconds),
            sustain_seconds: self.sustain_seconds.or(other.sustain_seconds),
            ramp_down_seconds: self.ramp_down_seconds.or(other.ramp_down_seconds),
            attack_after_seconds: self.attack_after_seconds.or(other.attack_after_seconds),
            attack_seconds: self.attack_seconds.or(other.attack_seconds),
            resets_each: self.resets_each.or(other.resets_each),
            resets_rate: self.resets_rate.or(other.resets_rate),
            replace_after_seconds: self.replace_after_seconds.or(other.replace_after_seconds),
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
    pub(super) fn procedure(&self, kind: ProcedureKind, beside: &Beside, setup: &Setup) -> ProcedureSpec {
        if kind.has_sessions() {
            return self.session_procedure(kind, beside, setup);
        }
        let trial_seconds = self.trial_seconds();
        let link_rate = line_rate(setup);
        let search = self.search(Preset::Mlr, link_rate);
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
            Bulk => ProcedureSpec::Bulk(BulkSpec { trial_seconds }),
            _ => unreachable!("a procedure with sessions was made above"),
        }
    }

    fn session_procedure(&self, kind: ProcedureKind, beside: &Beside, setup: &Setup) -> ProcedureSpec {
        let legal_share = setup.connections().map_or(1.0, ConnectionShape::legal_share);
        let taken = setup.connections().map_or(0.0, |s| s.hold_seconds + s.reuse_seconds);
        let pairs = setup.traffic.flows;
        let opening_rate = self.opening_rate.unwrap_or(DEFAULT_RATE);
        let connections = u64::from(beside.connections);
        match kind {
            ConnectionCapacity => ProcedureSpec::Capacity(CapacitySpec {
                search: self.search(Preset::Rfc2544, None),
                max_connections: self.max_connections.unwrap_or(u64::MAX).min(u64::from(pairs)),
                opening_rate,
                hold_seconds: beside.hold_seconds,
                legal_share,
            }),
            SessionRate => ProcedureSpec::SessionRate(SessionRateSpec {
                connections,
                session_rate: self.session_rate.unwrap_or(DEFAULT_RATE),
                hold_seconds: beside.hold_seconds,
                legal_share,
            }),
            Resets => ProcedureSpec::Resets(ResetsSpec {
                connections,
                opening_rate,
                each: self.resets_each.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
                resets_per_second: self.resets_rate.unwrap_or(DEFAULT_RATE),
            }),
            Steady => ProcedureSpec::Steady(self.steady(beside, legal_share)),
            Replacement => ProcedureSpec::Replacement(ReplacementSpec {
                connection_rate: self.connection_rate.unwrap_or(DEFAULT_RATE),
                trial_seconds: self.trial_seconds(),
                replace_after_seconds: self.replace_after_seconds.unwrap_or(self.trial_seconds() / 3.0),
                legal_share,
            }),
            _ => ProcedureSpec::Rate(RateSpec {
                of: match kind {
                    TransactionRate => RateOf::Transactions,
                    TeardownRate => RateOf::Teardowns,
                    _ => RateOf::Connections,
                },
                search: self.search(Preset::Mlr, None),
                p99_establishment_seconds: self.p99_establishment,
                pairs,
                pair_taken_seconds: taken,
                legal_share,
                flood: beside.flood,
            }),
        }
    }

    fn steady(&self, beside: &Beside, legal_share: f64) -> SteadySpec {
        let sustain_seconds = self.sustain_seconds.unwrap_or(self.trial_seconds());
        SteadySpec {
            connection_rate: self.connection_rate.unwrap_or(DEFAULT_RATE),
            ramp_up_seconds: self.ramp_up_seconds.unwrap_or(0.0),
            sustain_seconds,
            ramp_down_seconds: self.ramp_down_seconds.unwrap_or(0.0),
            legal_share,
            flood: beside.flood.map(|flood| FloodTime {
                flood,
                after_seconds: self.attack_after_seconds.unwrap_or(sustain_seconds / 3.0),
                seconds: self.attack_seconds.unwrap_or(sustain_seconds / 3.0),
            }),
        }
    }

    fn trial_seconds(&self) -> f64 {
        self.trial_seconds.unwrap_or(1.0)
    }

    fn search(&self, preset: Preset, max_load: Option<f64>) -> SearchSpec {
        SearchSpec {
            preset: self.search.unwrap_or(preset),
            trial_seconds: self.trial_seconds(),
            loss_ratio: self.loss_ratio,
            width: self.width,
            max_load,
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

fn preset(s: &Section<'_>, c: &mut Collector<'_>) -> Option<Preset> {
    let name = s.text("search", c)?;
    match name.value {
        "mlr" => Some(Preset::Mlr),
        "rfc2544" => Some(Preset::Rfc2544),
        "tst009" => Some(Preset::Tst009),
        other => {
            let help = c.suggestion(other, ["mlr", "rfc2544", "tst009"]);
            c.report(name.span, format!("no search is called `{other}`"), help);
            None
        }
    }
}

fn loads(s: &Section<'_>, c: &mut Collector<'_>) -> Option<Vec<WrittenLoad>> {
    let value = s.value("loads")?;
    let read: Vec<WrittenLoad> = items(value).into_iter().filter_map(|item| load(item, c)).collect();
    if items(value).is_empty() {
        c.report(value.span(), "`loads` is empty", Some("write loads = [\"40%\"]".into()));
    }
    Some(read)
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
