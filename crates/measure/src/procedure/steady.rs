//! A fixed rate of connections over time, as the PoliWall report's figures show it, alone or with a flood in the middle.
//! Values are taken from the samples that lie wholly within a stretch of the sustained load, so that neither ramps nor the
//! edges of a flood blur them.

use super::once::{Once, OneTrial};
use super::parameters::{CONNECTION_RATE, DEFAULT_RATE, Key, MAX_SECONDS};
use super::times;
use super::{Flood, Guarded, Measured, Procedure, ProcedureRow, Sends, Spec, mark};
use crate::connections::{CloseBy, ConnectionRequest, RatePhase};
use crate::results::{Mark, MarkKind, Metric};
use crate::shape::{Placement, Setup};
use crate::suite::{Factor, SetupProblem};
use crate::trial::{SecondSample, TrialOutcome, TrialRequest, trials};

/// What every stretch has a value of, in the order in which it is given.
const METRICS: [Metric; 4] =
    [Metric::ConnectionRate, Metric::FrameRate, Metric::EstablishmentTime, Metric::Failures];
/// A sample may reach so many seconds over the edge of a stretch: clocks are read a little late.
const EDGE_SECONDS: f64 = 0.02;
/// A sample with at least this share of the rate asked for, and no failures, has recovered from the flood.
const RECOVERED_SHARE: f64 = 0.99;

/// Seconds of load that must stand before a flood and after it, to compare with.
const SECONDS_BESIDE_FLOOD: f64 = 1.0;

pub(super) const RAMP_UP_SECONDS: Key = Key::number("ramp_up_seconds", 0.0, MAX_SECONDS);
const SUSTAIN_SECONDS: Key = Key::seconds("sustain_seconds");
pub(super) const RAMP_DOWN_SECONDS: Key = Key::number("ramp_down_seconds", 0.0, MAX_SECONDS);
const ATTACK_AFTER_SECONDS: Key = Key::seconds("attack_after_seconds");
const ATTACK_SECONDS: Key = Key::seconds("attack_seconds");

pub(super) const ROW: ProcedureRow = ProcedureRow {
    name: "steady",
    older_name: None,
    sends: Sends::Connections { close: CloseBy::Reset },
    factors: &[Factor::Hold, Factor::Illegal, Factor::Attack],
    keys: &[
        &CONNECTION_RATE,
        &RAMP_UP_SECONDS,
        &SUSTAIN_SECONDS,
        &RAMP_DOWN_SECONDS,
        &ATTACK_AFTER_SECONDS,
        &ATTACK_SECONDS,
    ],
    make: |asked| {
        let given = asked.given;
        let sustain_seconds = given.number(&SUSTAIN_SECONDS).unwrap_or(given.trial_seconds());
        SteadySpec {
            connection_rate: given.number(&CONNECTION_RATE).unwrap_or(DEFAULT_RATE),
            ramp_up_seconds: given.number(&RAMP_UP_SECONDS).unwrap_or(0.0),
            sustain_seconds,
            ramp_down_seconds: given.number(&RAMP_DOWN_SECONDS).unwrap_or(0.0),
            legal_share: asked.legal_share(),
            flood: asked.beside.flood.map(|flood| FloodTime {
                flood,
                after_seconds: given.number(&ATTACK_AFTER_SECONDS).unwrap_or(sustain_seconds / 3.0),
                seconds: given.number(&ATTACK_SECONDS).unwrap_or(sustain_seconds / 3.0),
            }),
        }
        .into()
    },
};

/// A flood and its time, from the start of the sustained load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloodTime {
    /// The flood.
    pub flood: Flood,
    /// Seconds of sustained load before it.
    pub after_seconds: f64,
    /// Seconds that it lasts; the load goes on after it.
    pub seconds: f64,
}

/// A fixed rate over time (PoliWall 2012). Yields `ConnectionRate`, `FrameRate`, `EstablishmentTime`, `Failures`, and, where
/// the firewall can tell, `PolicyLoadTime` and `Memory`; with a flood, the first four by the factor `phase` (`before`,
/// `during`, `after`), and `Recovery`.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadySpec {
    /// Attempts a second.
    pub connection_rate: f64,
    /// Seconds in which the rate rises from 0, 0 or more.
    pub ramp_up_seconds: f64,
    /// Seconds of the rate, > 0.
    pub sustain_seconds: f64,
    /// Seconds in which it falls to 0, 0 or more.
    pub ramp_down_seconds: f64,
    /// The share of all attempts that the policy allows, above 0 to 1; only those are counted in values and ledgers.
    pub legal_share: f64,
    /// A flood during the sustained load.
    pub flood: Option<FloodTime>,
}

impl Spec for SteadySpec {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Once::new(self.clone()), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        let lost = |metric| Measured::lost(metric, marks.to_vec());
        let mut all: Vec<Measured> = stretches(self)
            .into_iter()
            .flat_map(|stretch| METRICS.map(|metric| stretch.named(lost(metric))))
            .collect();
        all.extend(self.flood.map(|_| lost(Metric::Recovery)));
        all
    }

    fn typical_seconds(&self) -> f64 {
        trials(1.0, self.ramp_up_seconds + self.sustain_seconds + self.ramp_down_seconds)
    }

    fn check(&self, setup: &Setup) -> Result<(), SetupProblem> {
        if let Some(FloodTime { after_seconds: after, seconds, .. }) = self.flood {
            let (beside, sustain) = (SECONDS_BESIDE_FLOOD, self.sustain_seconds);
            if after < beside || seconds < beside || after + seconds + beside > sustain {
                return Err(SetupProblem::AttackOutside { after, seconds, sustain });
            }
        }
        let ramps = (self.ramp_up_seconds + self.ramp_down_seconds) / 2.0;
        let rate = self.connection_rate * self.legal_share;
        SetupProblem::if_pairs_run_out(rate, self.sustain_seconds + ramps, setup)
    }

    fn fixes_the_rate(&self) -> bool {
        true
    }
}

impl OneTrial for SteadySpec {
    fn request(&self) -> TrialRequest {
        let rate = self.connection_rate;
        let phases = [
            RatePhase { seconds: self.ramp_up_seconds, from: 0.0, to: rate },
            RatePhase::constant(rate, self.sustain_seconds),
            RatePhase { seconds: self.ramp_down_seconds, from: rate, to: 0.0 },
        ];
        ConnectionRequest::Scheduled {
            phases: phases.into_iter().filter(|phase| phase.seconds > 0.0).collect(),
            attack: self.flood.map(|f| f.flood.during(self.ramp_up_seconds + f.after_seconds, f.seconds)),
            replace_after_seconds: None,
        }
        .into()
    }

    fn values(&self, outcome: &TrialOutcome) -> Vec<Measured> {
        let mut all: Vec<Measured> =
            stretches(self).into_iter().flat_map(|stretch| of_stretch(stretch, outcome)).collect();
        all.extend(self.flood.map(|flood| recovery(self, flood, outcome)));
        all.extend(of_policy(outcome));
        all
    }
}

/// A part of the sustained load, in seconds from the start of the trial.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    name: Option<&'static str>,
    from: f64,
    to: f64,
}

/// The whole of the sustained load; with a flood, what lies before, during and after it.
fn stretches(spec: &SteadySpec) -> Vec<Stretch> {
    let start = spec.ramp_up_seconds;
    let end = start + spec.sustain_seconds;
    let Some(FloodTime { after_seconds, seconds, .. }) = spec.flood else {
        return vec![Stretch { name: None, from: start, to: end }];
    };
    let (begins, ends) = (start + after_seconds, start + after_seconds + seconds);
    vec![
        Stretch { name: Some("before"), from: start, to: begins },
        Stretch { name: Some("during"), from: begins, to: ends },
        Stretch { name: Some("after"), from: ends, to: end },
    ]
}

impl Stretch {
    fn named(self, measured: Measured) -> Measured {
        match self.name {
            Some(name) => measured.at("phase", name),
            None => measured,
        }
    }
}

/// The samples within some seconds of a trial, each with its own length in seconds.
fn samples(outcome: &TrialOutcome, from: f64, to: f64) -> Vec<(f64, &SecondSample)> {
    let mut start = 0.0;
    let mut found = Vec::new();
    for sample in &outcome.per_second {
        let end = sample.at_seconds;
        if start >= from - EDGE_SECONDS && end <= to + EDGE_SECONDS && end > start {
            found.push((end - start, sample));
        }
        start = end;
    }
    found
}

fn of_stretch(stretch: Stretch, outcome: &TrialOutcome) -> [Measured; 4] {
    let samples = samples(outcome, stretch.from, stretch.to);
    let seconds: f64 = samples.iter().map(|(length, _)| length).sum();
    let sum = |count: fn(&SecondSample) -> u64| samples.iter().map(|(_, s)| count(s) as f64).sum::<f64>();
    let per_second = |total: f64| (seconds > 0.0).then(|| total / seconds);
    let (attempted, frames) = (sum(|s| s.sent), sum(|s| s.connections.as_ref().map_or(0, |c| c.frames)));
    let values = [
        (Metric::ConnectionRate, per_second(sum(|s| s.received))),
        (Metric::FrameRate, per_second(frames)),
        (
            Metric::EstablishmentTime,
            times::mean(samples.iter().filter_map(|(_, s)| s.connections.as_ref()?.established_ns)),
        ),
        (
            Metric::Failures,
            match stretch.name {
                // Of the whole trial, so that a connection counts whose failure shows after the load.
                None => Some(outcome.loss_ratio()),
                Some(_) => (attempted > 0.0).then(|| (sum(failed) / attempted).min(1.0)),
            },
        ),
    ];
    values.map(|(metric, value)| {
        let measured = match value {
            Some(value) => Measured::found(metric, value, vec![outcome.clone()], notes(outcome)),
            None => {
                let detail = format!(
                    "no sample of the trial tells it between {} s and {} s",
                    stretch.from, stretch.to
                );
                Measured::lost(metric, vec![mark(MarkKind::Note, detail)])
            }
        };
        stretch.named(measured)
    })
}

fn failed(sample: &SecondSample) -> u64 {
    sample.connections.as_ref().map_or(0, |connections| connections.failed.values().sum())
}

/// What the firewall does not tell is said where the reader looks for it.
fn notes(outcome: &TrialOutcome) -> Vec<Mark> {
    let unsaid = match (outcome.policy_load_seconds, outcome.memory_bytes) {
        (None, None) => "neither how long its policy took to load nor how much memory it takes",
        (None, Some(_)) => "how long its policy took to load",
        (Some(_), None) => "how much memory its policy takes",
        (Some(_), Some(_)) => return Vec::new(),
    };
    let which = if unsaid.starts_with("neither") { "tells" } else { "does not tell" };
    vec![mark(MarkKind::Note, format!("the firewall {which} {unsaid}"))]
}

fn of_policy(outcome: &TrialOutcome) -> Vec<Measured> {
    let values = [
        (Metric::PolicyLoadTime, outcome.policy_load_seconds),
        (Metric::Memory, outcome.memory_bytes.map(|bytes| bytes as f64)),
    ];
    let known = values.into_iter().filter_map(|(metric, value)| Some((metric, value?)));
    known.map(|(metric, value)| Measured::found(metric, value, vec![outcome.clone()], Vec::new())).collect()
}

/// From the end of the flood to the first sample that has recovered.
fn recovery(spec: &SteadySpec, flood: FloodTime, outcome: &TrialOutcome) -> Measured {
    let ends = spec.ramp_up_seconds + flood.after_seconds + flood.seconds;
    let load_ends = spec.ramp_up_seconds + spec.sustain_seconds;
    let rate = spec.connection_rate * spec.legal_share;
    let after = samples(outcome, ends, load_ends);
    let Some((period, _)) = after.first() else {
        let detail = "no sample of the trial lies between the end of the flood and the end of the load";
        return Measured::lost(Metric::Recovery, vec![mark(MarkKind::Note, detail)]);
    };
    let resolution = format!("samples of {period:.2} s bound the resolution");
    let good = after.iter().find(|(length, sample)| {
        failed(sample) == 0 && sample.received as f64 >= rate * length * RECOVERED_SHARE
    });
    let (value, marks) = match good {
        Some((length, sample)) => {
            ((sample.at_seconds - length - ends).max(0.0), vec![mark(MarkKind::Note, resolution)])
        }
        None => {
            let detail = format!("it had not recovered at the end of the load; {resolution}");
            (load_ends - ends, vec![mark(MarkKind::NoUpperBound, detail)])
        }
    };
    Measured::found(Metric::Recovery, value, vec![outcome.clone()], marks)
}
