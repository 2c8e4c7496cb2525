//! What a suite asks for of procedures with TCP connections. Rates are connections a second, legal and illegal attempts
//! together; `legal_share` is the share of them that the policy allows (above 0 to 1), and only those are counted in
//! values and ledgers. Whoever makes these values checks the ranges.

use super::SearchSpec;
use crate::connections::{Attack, AttackKind, AttackSources};
use crate::trial::trials;

/// A flood, its time left open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flood {
    /// What the frames are.
    pub kind: AttackKind,
    /// Frames a second, > 0.
    pub frames_per_second: f64,
    /// Where they come from.
    pub sources: AttackSources,
}

impl Flood {
    /// The flood for a stretch of a trial.
    pub(super) fn during(self, after_seconds: f64, seconds: f64) -> Attack {
        let Self { kind, frames_per_second, sources } = self;
        Attack { kind, frames_per_second, sources, after_seconds, seconds }
    }
}

/// What is counted at the rate that a search finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateOf {
    /// Connections that did all that was asked of them: `ConnectionRate` and `EstablishmentTime`.
    Connections,
    /// Answers: `TransactionRate`.
    Transactions,
    /// Connections closed: `TeardownRate` and `TeardownTime`.
    Teardowns,
}

/// The highest rate of connections that meets the goal (RFC 3511 sections 5.3, 5.4, 5.7).
#[derive(Debug, Clone, PartialEq)]
pub struct RateSpec {
    /// What is counted.
    pub of: RateOf,
    /// The search; its loss ratio is a share of failed connections, its `max_load` is not used.
    pub search: SearchSpec,
    /// A trial in which the 99th percentile of the establishment time exceeds this many seconds does not pass, whatever
    /// its failures; > 0.
    pub p99_establishment_seconds: Option<f64>,
    /// Pairs of client address and port.
    pub pairs: u32,
    /// Seconds that a connection keeps its pair beside its own time: idle and at rest; 0 or more.
    pub pair_taken_seconds: f64,
    /// See the module.
    pub legal_share: f64,
    /// A flood from the start to the end of every trial.
    pub flood: Option<Flood>,
}

/// The most connections open at once, each proved by a request (RFC 3511 section 5.2). Yields `ConcurrentConnections`.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacitySpec {
    /// The search over numbers of connections; its `max_load` is not used.
    pub search: SearchSpec,
    /// The most that are tried, at least 2.
    pub max_connections: u64,
    /// Attempts a second while they are opened.
    pub opening_rate: f64,
    /// Seconds that they stay open and idle before the proof, 0 or more.
    pub hold_seconds: f64,
    /// See the module.
    pub legal_share: f64,
}

/// A number of connections opened at a rate and held (EANTC 2001). Yields `Established`, `Failures`, `EstablishmentTime`.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRateSpec {
    /// Legal connections.
    pub connections: u64,
    /// Attempts a second.
    pub session_rate: f64,
    /// Seconds that they stay open and idle before the proof, 0 or more.
    pub hold_seconds: f64,
    /// See the module.
    pub legal_share: f64,
}

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
    /// See the module.
    pub legal_share: f64,
    /// A flood during the sustained load.
    pub flood: Option<FloodTime>,
}

/// Resets against open connections (EANTC 2001). Yields `Surviving` with the extra factor `resets` (`outside-window`,
/// `inside-window`), and `ClosedByReset` with `legitimate`.
#[derive(Debug, Clone, PartialEq)]
pub struct ResetsSpec {
    /// Connections.
    pub connections: u64,
    /// Connections a second while they are opened.
    pub opening_rate: f64,
    /// Resets against each connection and direction, at least 1.
    pub each: u32,
    /// Resets a second, all connections together.
    pub resets_per_second: f64,
}

/// The policy replaced under load. Yields `ReplacementTime` and `ReplacementFailures`.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplacementSpec {
    /// Attempts a second.
    pub connection_rate: f64,
    /// Seconds of the trial.
    pub trial_seconds: f64,
    /// Seconds from its start to the replacement, less than `trial_seconds`.
    pub replace_after_seconds: f64,
    /// See the module.
    pub legal_share: f64,
}

impl RateSpec {
    /// Searches over connections need about as many trials as those over frames.
    pub(super) fn typical_seconds(&self) -> f64 {
        self.search.typical_seconds()
    }
}

impl CapacitySpec {
    /// The first trial asks for the most, and often gets it; another may follow.
    pub(super) fn typical_seconds(&self) -> f64 {
        let opening = self.max_connections as f64 / self.legal_share / self.opening_rate;
        trials(1.5, opening + self.hold_seconds)
    }
}

impl SessionRateSpec {
    pub(super) fn typical_seconds(&self) -> f64 {
        trials(1.0, self.connections as f64 / self.legal_share / self.session_rate + self.hold_seconds)
    }
}

impl SteadySpec {
    pub(super) fn typical_seconds(&self) -> f64 {
        trials(1.0, self.ramp_up_seconds + self.sustain_seconds + self.ramp_down_seconds)
    }
}

impl ResetsSpec {
    pub(super) fn typical_seconds(&self) -> f64 {
        let sent = self.connections as f64 * f64::from(self.each) * 2.0;
        trials(3.0, self.connections as f64 / self.opening_rate + sent / self.resets_per_second)
    }
}

impl ReplacementSpec {
    pub(super) fn typical_seconds(&self) -> f64 {
        trials(1.0, self.trial_seconds)
    }
}
