//! What a search raises and lowers: frames a second, connections a second, or connections open at once. Of connections,
//! loads count legal and illegal attempts together, and values only the legal ones.

use super::guard::{counted_loss, sent_rate};
use super::parts;
use super::{ApplicationCapacitySpec, ApplicationRateSpec, CapacitySpec, Flood, RateSpec, SearchSpec};
use crate::application::{ApplicationRequest, Arrivals};
use crate::connections::{ConnectionRequest, RatePhase};
use crate::held_open::{HeldOpen, HeldOutcome};
use crate::mix::PartOutcome;
use crate::open_loop::OpenLoop;
use crate::search::Goal;
use crate::shape::Placement;
use crate::trial::{FrameRequest, Load, TrialOutcome, TrialRequest};

/// The lowest loads that a search goes down to.
const LEAST_FRAMES: f64 = 100.0;
const LEAST_CONNECTIONS: f64 = 10.0;

/// The rate of a trial that runs as fast as it can is already what the whole path can do, where generator and firewall
/// share a core, or where connections wait for their answers. Whatever is offered above it is not sent, or fails, so the
/// search may look this many times higher without a further trial: room enough for a first trial that the machine disturbed.
const HEADROOM: f64 = 4.0;

/// A generator that catches up on late connections after the end of its schedule fails none of them, nor does a firewall whose queue
/// takes them in, but the rate is not held. So much less than the load is how far the line of [`InTime`](crate::pace::InTime) is off; more counts
/// as failed. With less, connections that are handed on in bursts would fail at loads that are held (`held_table` in `held_tests.rs`).
const TAIL_SHARE: f64 = 0.02;

/// Of few connections that one by one end in time, a line misses up to this many.
const TAIL_CONNECTIONS: f64 = 1.5;

/// What a search varies.
#[derive(Debug, Clone)]
pub(super) enum Axis {
    /// Frames a second.
    Frames,
    /// Connections a second.
    Connections {
        legal_share: f64,
        p99_establishment_seconds: Option<f64>,
        flood: Option<Flood>,
        /// The most that the pairs of client address and port allow, and the arithmetic.
        most: Option<(f64, String)>,
    },
    /// Connections open at once.
    Open { opening_rate: f64, hold_seconds: f64 },
    /// Connections of applications a second.
    Applications {
        ramp_up_seconds: f64,
        ramp_down_seconds: f64,
        limit_seconds: f64,
        /// Of a connection, on the average.
        transactions: f64,
    },
    /// Connections of applications open at once.
    HeldApplications {
        opening_rate: f64,
        hold_seconds: f64,
        think_seconds: Option<f64>,
        limit_seconds: f64,
        /// Why no more are tried.
        why_no_more: String,
    },
}

impl Axis {
    pub(super) fn of_rate(spec: &RateSpec) -> Self {
        let taken = spec.pair_taken_seconds;
        let most = (taken > 0.0).then(|| {
            let why = format!(
                "{} pairs of client address and port, each taken for {taken} s, allow no more",
                spec.pairs
            );
            (f64::from(spec.pairs) / taken / spec.legal_share, why)
        });
        Self::Connections {
            legal_share: spec.legal_share,
            p99_establishment_seconds: spec.p99_establishment_seconds,
            flood: spec.flood,
            most,
        }
    }

    pub(super) fn of_capacity(spec: &CapacitySpec) -> Self {
        Self::Open { opening_rate: spec.opening_rate, hold_seconds: spec.hold_seconds }
    }

    pub(super) fn of_applications(spec: &ApplicationRateSpec) -> Self {
        Self::Applications {
            ramp_up_seconds: spec.ramp_up_seconds,
            ramp_down_seconds: spec.ramp_down_seconds,
            limit_seconds: spec.limit_seconds,
            transactions: spec.transactions,
        }
    }

    pub(super) fn of_held_applications(spec: &ApplicationCapacitySpec) -> Self {
        Self::HeldApplications {
            opening_rate: spec.opening_rate,
            hold_seconds: spec.hold_seconds,
            think_seconds: spec.think_seconds,
            limit_seconds: spec.limit_seconds,
            why_no_more: spec.why_no_more(),
        }
    }

    /// The highest load, where it is known before the first trial.
    pub(super) fn known_maximum(&self, search: &SearchSpec) -> Option<f64> {
        match self {
            Axis::Frames | Axis::Open { .. } | Axis::HeldApplications { .. } => search.max_load,
            Axis::Connections { .. } | Axis::Applications { .. } => None,
        }
    }

    /// The lowest load below a highest one.
    pub(super) fn least(&self, max_load: f64) -> f64 {
        let least = match self {
            Axis::Frames => LEAST_FRAMES,
            Axis::Connections { .. } | Axis::Applications { .. } => LEAST_CONNECTIONS,
            Axis::Open { .. } | Axis::HeldApplications { .. } => 1.0,
        };
        least.min(max_load / 2.0)
    }

    /// The highest load worth offering, after an unpaced trial.
    pub(super) fn learnt_maximum(&self, outcome: &TrialOutcome, placement: Placement) -> f64 {
        let sent = self.sent(outcome);
        match self {
            Axis::Frames if placement == Placement::Isolated => sent,
            Axis::Connections { most: Some((most, _)), .. } => (sent * HEADROOM).min(*most),
            _ => sent * HEADROOM,
        }
    }

    /// Whether an unpaced trial offers all that the generator has: frames do not wait for answers.
    pub(super) fn maximum_is_a_load(&self, placement: Placement) -> bool {
        matches!(self, Axis::Frames) && placement == Placement::Isolated
    }

    /// The trial at a load.
    pub(super) fn request(&self, load: f64, seconds: f64) -> TrialRequest {
        match self {
            Axis::Frames => FrameRequest::constant(Load::PerSecond(load), seconds).into(),
            Axis::Connections { flood, .. } => ConnectionRequest::Scheduled {
                phases: vec![RatePhase::constant(load, seconds)],
                attack: flood.map(|flood| flood.during(0.0, seconds)),
                replace_after_seconds: None,
            }
            .into(),
            Axis::Open { opening_rate, hold_seconds } => ConnectionRequest::Held {
                connections: (load.floor() as u64).max(1),
                opening_rate: *opening_rate,
                hold_seconds: *hold_seconds,
                resets: None,
            }
            .into(),
            Axis::Applications { ramp_up_seconds, ramp_down_seconds, limit_seconds, .. } => {
                let open = OpenLoop {
                    connection_rate: load,
                    ramp_up_seconds: *ramp_up_seconds,
                    sustain_seconds: seconds,
                    ramp_down_seconds: *ramp_down_seconds,
                };
                let limit_seconds = *limit_seconds;
                let arrivals = Arrivals::OpenLoop(open);
                ApplicationRequest { seconds: open.seconds(), limit_seconds, arrivals }.into()
            }
            Axis::HeldApplications { opening_rate, hold_seconds, think_seconds, limit_seconds, .. } => {
                let held = HeldOpen {
                    connections: (load.floor() as u64).max(1),
                    opening_rate: *opening_rate,
                    hold_seconds: *hold_seconds,
                    think_seconds: *think_seconds,
                };
                let (limit_seconds, arrivals) = (*limit_seconds, Arrivals::Held(held));
                ApplicationRequest { seconds: held.seconds(), limit_seconds, arrivals }.into()
            }
        }
    }

    /// The trial at as much as the generator can.
    pub(super) fn unpaced(&self, seconds: f64) -> TrialRequest {
        match self {
            Axis::Connections { flood, .. } => {
                let attack = flood.map(|flood| flood.during(0.0, seconds));
                ConnectionRequest::Fastest { seconds, attack }.into()
            }
            Axis::Applications { limit_seconds, .. } => {
                let arrivals = Arrivals::ClosedLoop;
                ApplicationRequest { seconds, limit_seconds: *limit_seconds, arrivals }.into()
            }
            _ => FrameRequest::constant(Load::Maximum, seconds).into(),
        }
    }

    /// The share of a load that counts as lost: everything where connections were established too late.
    pub(super) fn counted_loss(&self, load: f64, outcome: &TrialOutcome) -> f64 {
        let lost = counted_loss(outcome);
        match self {
            _ if self.is_late(outcome) => 1.0,
            Axis::Connections { .. } | Axis::Applications { .. } => {
                let missing = 1.0 - self.achieved(outcome) / load;
                let few = TAIL_CONNECTIONS / outcome.ledger.offered.max(1) as f64;
                let lost = if missing > TAIL_SHARE.max(few) { lost.max(missing) } else { lost };
                lost.max(most_behind(outcome))
            }
            // A connection that does not hold is one, however many transactions it had.
            Axis::HeldApplications { .. } => held(outcome).map_or(1.0, |held| held.lost_share()),
            _ => lost,
        }
    }

    fn is_late(&self, outcome: &TrialOutcome) -> bool {
        let Axis::Connections { p99_establishment_seconds: Some(limit), .. } = self else { return false };
        let times = outcome.connections().and_then(|connections| connections.times.established_ns);
        times.is_none_or(|times| times.p99 > limit * 1e9)
    }

    /// What came of a trial, as values are given: frames or connections a second, or connections.
    pub(super) fn value(&self, outcome: &TrialOutcome) -> f64 {
        match self {
            Axis::Open { .. } => outcome.ledger.received as f64,
            Axis::Applications { transactions, .. } => applications(outcome, *transactions),
            Axis::HeldApplications { .. } => held(outcome).map_or(0.0, |held| held.alive as f64),
            _ => outcome.held_rate(),
        }
    }

    /// A load as a value: without its illegal part. Numbers of connections count legal ones alone.
    pub(super) fn legal(&self, load: f64) -> f64 {
        match self {
            Axis::Connections { legal_share, .. } => load * legal_share,
            _ => load,
        }
    }

    /// A value as a load: with its illegal part.
    pub(super) fn whole(&self, value: f64) -> f64 {
        match self {
            Axis::Connections { legal_share, .. } => value / legal_share,
            _ => value,
        }
    }

    /// What came of a trial, as loads are given.
    pub(super) fn achieved(&self, outcome: &TrialOutcome) -> f64 {
        self.whole(self.value(outcome))
    }

    /// What was sent in a trial, as loads are given.
    pub(super) fn sent(&self, outcome: &TrialOutcome) -> f64 {
        match self {
            Axis::Applications { transactions, .. } => sent_rate(outcome) / transactions,
            _ => self.whole(sent_rate(outcome)),
        }
    }

    /// What loads are of.
    pub(super) const fn unit(&self) -> &'static str {
        match self {
            Axis::Frames => "frames/s",
            Axis::Connections { .. } | Axis::Applications { .. } => "connections/s",
            Axis::Open { .. } | Axis::HeldApplications { .. } => "connections",
        }
    }

    /// The goal in words.
    pub(super) fn goal(&self, goal: &Goal) -> String {
        let percent = goal.loss_ratio * 100.0;
        match self {
            Axis::Frames => format!("{percent} % loss"),
            Axis::Connections { p99_establishment_seconds: Some(limit), .. } => {
                format!("{percent} % failures and a 99th percentile of the establishment time of {limit} s")
            }
            _ => format!("{percent} % failures"),
        }
    }

    /// Takes another reason why no more connections are tried.
    pub(super) fn bound_by(&mut self, why: String) {
        if let Axis::HeldApplications { why_no_more, .. } = self {
            *why_no_more = why;
        }
    }

    /// Why no more than the highest load was offered, where the axis itself is the reason.
    pub(super) fn why_no_more(&self, max_load: f64) -> Option<&str> {
        match self {
            Axis::Connections { most: Some((most, why)), .. } if *most <= max_load => Some(why),
            Axis::HeldApplications { why_no_more, .. } => Some(why_no_more),
            _ => None,
        }
    }
}

fn held(outcome: &TrialOutcome) -> Option<&HeldOutcome> {
    outcome.application()?.held.as_deref()
}

/// By how much the part of a mix that is held up most is behind: a load is held only if every part is. A few connections of a small part
/// would be lost among those of the others.
fn most_behind(outcome: &TrialOutcome) -> f64 {
    let parts = parts::mix_of(outcome).map_or(&[][..], |mix| &mix.parts);
    parts.iter().filter_map(PartOutcome::behind).fold(0.0, f64::max)
}

/// Connections of applications a second: those that the sustained load held, or, of a closed loop, those that ended within it.
fn applications(outcome: &TrialOutcome, transactions: f64) -> f64 {
    let Some(application) = outcome.application() else { return 0.0 };
    match &application.sustained {
        Some(sustained) => sustained.held_rate(),
        None if outcome.seconds > 0.0 => application.in_time as f64 / transactions / outcome.seconds,
        None => 0.0,
    }
}
