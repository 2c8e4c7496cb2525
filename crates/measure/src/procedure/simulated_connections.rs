//! A firewall on paper for TCP connections, with its clients and servers: what becomes of them follows from a few numbers,
//! and a script may spoil any trial.

use super::simulated::nothing;
use crate::connections::{
    Attack, ConnectionOutcome, ConnectionRequest, ConnectionSecond, IllegalOutcome, RatePhase,
    ReplacementOutcome, ResetKind, ResetOutcome,
};
use crate::ledger::{ConnectionPlaces, Ledger, Named, Places};
use crate::results::LatencySummary;
use crate::shape::Placement;
use crate::trial::{Rig, RigError, SecondSample, TrialOutcome, TrialRequest, WorkloadOutcome};

/// Frames of one connection, both ends together.
pub(crate) const FRAMES: u64 = 7;

type Script = Box<dyn FnMut(usize, &mut TrialOutcome)>;

pub(crate) struct SimulatedConnections {
    pub(crate) name: String,
    pub(crate) placement: Placement,
    /// Attempts a second that the firewall (inline: the whole pipeline) can do.
    pub(crate) capacity: f64,
    /// Attempts a second that each attack frame a second takes away.
    pub(crate) cost_of_flood: f64,
    /// Seconds after a flood for which it still takes them away.
    pub(crate) aftermath: f64,
    /// Connections that it holds.
    pub(crate) most_open: u64,
    pub(crate) legal_share: f64,
    /// The 99th percentile of the establishment time at the capacity, ns; at lower loads it falls in proportion.
    pub(crate) p99_at_capacity: f64,
    /// Illegal attempts that get through in each trial.
    pub(crate) leaks: u64,
    /// Share of the connections that a forged reset closes.
    pub(crate) forgeable: f64,
    pub(crate) replacement: Option<ReplacementOutcome>,
    pub(crate) policy_load_seconds: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
    /// Changes the outcome of the n-th trial, from 0.
    pub(crate) script: Script,
    trials: usize,
}

impl SimulatedConnections {
    pub(crate) fn new(placement: Placement, capacity: f64) -> Self {
        Self {
            name: "dut".into(),
            placement,
            capacity,
            cost_of_flood: 0.0,
            aftermath: 0.0,
            most_open: u64::MAX,
            legal_share: 1.0,
            p99_at_capacity: 1e6,
            leaks: 0,
            forgeable: 0.0,
            replacement: None,
            policy_load_seconds: None,
            memory_bytes: None,
            script: Box::new(|_, _| {}),
            trials: 0,
        }
    }

    fn answer(&self, request: &ConnectionRequest) -> TrialOutcome {
        let (mut outcome, mut connections) = match *request {
            ConnectionRequest::Held { connections, opening_rate, .. } => {
                self.opened(connections, opening_rate)
            }
            _ => self.rate(request),
        };
        if self.legal_share < 1.0 {
            let count = |n: u64| [("port".to_owned(), n)].into();
            connections.illegal = Some(IllegalOutcome {
                forbidden: true,
                attempted: count(1000),
                got_through: count(self.leaks),
            });
        }
        if let ConnectionRequest::Held { resets: Some(resets), .. } = request {
            let open = outcome.ledger.received;
            let closing = if resets.kind == ResetKind::Legitimate { 1.0 } else { self.forgeable };
            let alive = open - (open as f64 * closing) as u64;
            let sent = open * u64::from(resets.each) * 2;
            connections.resets = Some(ResetOutcome { open, sent, forwarded: 0, alive });
        }
        if let ConnectionRequest::Scheduled { replace_after_seconds: Some(_), .. } = request {
            connections.replacement.clone_from(&self.replacement);
        }
        outcome.policy_load_seconds = self.policy_load_seconds;
        outcome.memory_bytes = self.memory_bytes;
        outcome.workload = WorkloadOutcome::Connections(Box::new(connections));
        outcome
    }

    fn opened(&self, connections: u64, per_second: f64) -> (TrialOutcome, ConnectionOutcome) {
        let received = connections.min(self.most_open);
        let mut outcome = no_connections(connections as f64 / per_second);
        outcome.ledger = failing(connections, 0, received);
        let connections = self.connections(&outcome.ledger, per_second);
        (outcome, connections)
    }

    /// Second by second.
    fn rate(&self, request: &ConnectionRequest) -> (TrialOutcome, ConnectionOutcome) {
        let mut outcome = no_connections(request.seconds());
        let mut at = 0.0;
        let unpaced = [RatePhase::constant(f64::NAN, request.seconds())];
        let phases = match request {
            ConnectionRequest::Scheduled { phases, .. } => &phases[..],
            _ => &unpaced,
        };
        for phase in phases {
            let mut done = 0.0;
            while phase.seconds - done > 1e-9 {
                let length = f64::min(1.0, phase.seconds - done);
                let middle = (done + length / 2.0) / phase.seconds;
                let wanted = phase.from + (phase.to - phase.from) * middle;
                self.second(
                    request.attack(),
                    (!wanted.is_nan()).then_some(wanted),
                    (at, length),
                    &mut outcome,
                );
                (at, done) = (at + length, done + length);
            }
        }
        let load = outcome.ledger.offered as f64 / outcome.seconds / self.legal_share;
        let connections = self.connections(&outcome.ledger, load);
        (outcome, connections)
    }

    fn second(
        &self,
        attack: Option<Attack>,
        wanted: Option<f64>,
        (at, length): (f64, f64),
        outcome: &mut TrialOutcome,
    ) {
        let flooded =
            attack.filter(|a| at >= a.after_seconds && at < a.after_seconds + a.seconds + self.aftermath);
        let capacity =
            self.capacity - flooded.map_or(0.0, |attack| attack.frames_per_second * self.cost_of_flood);
        let wanted = wanted.unwrap_or(capacity);
        let count = |rate: f64| (rate * self.legal_share * length).floor() as u64;
        let (offered, received) = (count(wanted), count(wanted.min(capacity)));
        // Inline, what cannot be done is not even begun; a flood makes begun connections fail.
        let not_sent =
            if self.placement == Placement::Inline && flooded.is_none() { offered - received } else { 0 };
        let ledger = failing(offered, not_sent, received);
        let connections = ConnectionSecond {
            failed: failed(&ledger),
            frames: received * FRAMES,
            established_ns: Some(self.times(wanted)),
            ..ConnectionSecond::default()
        };
        outcome.per_second.push(SecondSample {
            at_seconds: at + length,
            sent: ledger.sent(),
            received,
            latency_ns: None,
            connections: Some(connections),
        });
        outcome.ledger = Ledger::sum([&ledger, &outcome.ledger]);
    }

    fn connections(&self, ledger: &Ledger, load: f64) -> ConnectionOutcome {
        let mut connections = ConnectionOutcome {
            attempted: ledger.sent(),
            established: ledger.received,
            completed: ledger.received,
            closed: ledger.received,
            failed: failed(ledger),
            transactions: ledger.received * 3,
            ..ConnectionOutcome::default()
        };
        connections.times.established_ns = Some(self.times(load));
        connections.times.teardown_ns = Some(LatencySummary { count: 10, mean: 7e3, ..self.times(load) });
        connections
    }

    fn times(&self, load: f64) -> LatencySummary {
        let p99 = self.p99_at_capacity * load / self.capacity;
        LatencySummary { count: 10, mean: 5e3, p99, ..LatencySummary::default() }
    }
}

fn no_connections(seconds: f64) -> TrialOutcome {
    nothing(seconds, WorkloadOutcome::Connections(Box::default()))
}

fn failing(offered: u64, not_sent: u64, received: u64) -> Ledger {
    let lost = offered - not_sent - received;
    let failed = if lost > 0 { [("timeout-connect".to_owned(), lost)].into() } else { Default::default() };
    Ledger { offered, not_sent, received, places: Places::Connections(ConnectionPlaces { failed }) }
}

fn failed(ledger: &Ledger) -> Named {
    match &ledger.places {
        Places::Connections(places) => places.failed.clone(),
        other => panic!("a ledger of connections: {other:?}"),
    }
}

impl Rig for SimulatedConnections {
    fn dut(&self) -> &str {
        &self.name
    }

    fn prove(&mut self) -> Result<(), RigError> {
        Ok(())
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        let TrialRequest::Connections(connections) = request else {
            panic!("this rig has connections alone: {request:?}")
        };
        let mut outcome = self.answer(connections);
        (self.script)(self.trials, &mut outcome);
        self.trials += 1;
        Ok(outcome)
    }
}
