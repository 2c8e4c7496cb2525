//! A firewall on paper, with its generator and sink: what it forwards follows from a few numbers, and a script may
//! spoil any trial or proof.

use crate::ledger::{FramePlaces, Ledger, Places};
use crate::results::{CoreUse, CpuUse, LatencySummary};
use crate::shape::Placement;
use crate::trial::{
    FrameOutcome, FrameRequest, Load, Phase, Rig, RigError, TrialOutcome, TrialRequest, WorkloadOutcome,
};
use std::sync::{Arc, Mutex};

type TrialScript = Box<dyn FnMut(usize, &FrameRequest, TrialOutcome) -> Result<TrialOutcome, RigError>>;
type ProofScript = Box<dyn FnMut(usize) -> Result<(), RigError>>;

pub(crate) struct Simulated {
    pub(crate) name: String,
    pub(crate) placement: Placement,
    /// Frames/s that the firewall (inline: the whole pipeline) can do.
    pub(crate) capacity: f64,
    /// Frames/s that the generator can send when it does not share its core.
    pub(crate) generator: f64,
    /// Frames that the firewall's buffer holds.
    pub(crate) buffer: u64,
    /// Changes or refuses the outcome of the n-th trial, from 0.
    pub(crate) trial_script: TrialScript,
    /// Refuses the n-th proof, from 0.
    pub(crate) proof_script: ProofScript,
    /// Names of the rigs in the order of their proofs (`name?`) and trials (`name`).
    pub(crate) journal: Arc<Mutex<Vec<String>>>,
    trials: usize,
    proofs: usize,
}

pub(crate) const FRAME_BITS: u64 = 512;

impl Simulated {
    pub(crate) fn new(name: &str, placement: Placement, capacity: f64) -> Self {
        Self {
            name: name.into(),
            placement,
            capacity,
            generator: 10e6,
            buffer: 256,
            trial_script: Box::new(|_, _, outcome| Ok(outcome)),
            proof_script: Box::new(|_| Ok(())),
            journal: Arc::default(),
            trials: 0,
            proofs: 0,
        }
    }

    pub(crate) fn boxed(self) -> Box<dyn Rig> {
        Box::new(self)
    }

    fn answer(&self, request: &FrameRequest) -> TrialOutcome {
        let seconds = request.phases.iter().map(|p| p.seconds).sum();
        let mut outcome = nothing(seconds, WorkloadOutcome::Frames(FrameOutcome::default()));
        for phase in &request.phases {
            let (ledger, seconds) = self.phase(phase);
            outcome.ledger = Ledger::sum([&outcome.ledger, &ledger]);
            if let Load::Burst(_) = phase.load {
                outcome.seconds = seconds;
            }
        }
        let lost = outcome.ledger.received < outcome.ledger.offered;
        outcome.workload = WorkloadOutcome::Frames(FrameOutcome {
            received_bits: outcome.ledger.received * FRAME_BITS,
            latency_ns: Some(LatencySummary { count: 10, p50: 2_000.0, ..LatencySummary::default() }),
            last_loss_seconds: (request.phases.len() > 1 && lost).then_some(0.3),
            longest_silence_seconds: if request.reset_after_seconds.is_some() { 0.7 } else { 0.0 },
            ..FrameOutcome::default()
        });
        outcome
    }

    fn phase(&self, phase: &Phase) -> (Ledger, f64) {
        let most = if self.placement == Placement::Inline { self.capacity } else { self.generator };
        match phase.load {
            Load::Burst(frames) => {
                let seconds = frames as f64 / most;
                let forwarded = self.capacity * seconds;
                (ledger(frames, frames, (self.buffer as f64 + forwarded) as u64), seconds)
            }
            Load::Maximum => self.sent(most, most, phase.seconds),
            Load::PerSecond(rate) => self.sent(rate, rate.min(most), phase.seconds),
        }
    }

    fn sent(&self, offered: f64, sent: f64, seconds: f64) -> (Ledger, f64) {
        let frames = |rate: f64| (rate * seconds).floor() as u64;
        (ledger(frames(offered), frames(sent), frames(sent.min(self.capacity))), seconds)
    }
}

fn ledger(offered: u64, sent: u64, capacity: u64) -> Ledger {
    let received = sent.min(capacity);
    let places = FramePlaces { not_received: sent - received, ..FramePlaces::default() };
    Ledger { offered, not_sent: offered - sent, received, places: Places::Frames(places) }
}

/// An outcome of so many seconds in which nothing was sent.
pub(crate) fn nothing(seconds: f64, workload: WorkloadOutcome) -> TrialOutcome {
    let core = CoreUse { core: 0, system: 0.2, interrupt: 0.5, idle: 0.3, ..CoreUse::default() };
    TrialOutcome {
        id: 0,
        seconds,
        ledger: Ledger::default(),
        per_second: Vec::new(),
        cpu: CpuUse { cores: vec![core], ..CpuUse::default() },
        flow_entries: Some(1000),
        memory_bytes: None,
        policy_load_seconds: None,
        faults: Vec::new(),
        remarks: Vec::new(),
        policy_broken: None,
        workload,
    }
}

impl Rig for Simulated {
    fn dut(&self) -> &str {
        &self.name
    }

    fn prove(&mut self) -> Result<(), RigError> {
        self.journal.lock().unwrap().push(format!("{}?", self.name));
        self.proofs += 1;
        (self.proof_script)(self.proofs - 1)
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        self.journal.lock().unwrap().push(self.name.clone());
        self.trials += 1;
        let TrialRequest::Frames(frames) = request else { panic!("this rig has frames alone: {request:?}") };
        let answer = self.answer(frames);
        (self.trial_script)(self.trials - 1, frames, answer)
    }
}
