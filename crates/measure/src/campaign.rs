//! Runs one cell of a plan on the firewalls compared, in rounds: in each round every firewall has a fresh procedure,
//! and their trials take turns, so that a noisy machine hurts them alike and equal rounds can be compared as pairs.
//!
//! A firewall is proved before its first trial of a round and after its last. One that breaks loses its points and the
//! others go on; an interruption ends the campaign with the rounds that were finished. No IO of its own: rigs do that.

#[cfg(test)]
mod connection_tests;
pub(crate) mod points;
#[cfg(test)]
pub(crate) mod tests;

use crate::application::Arrivals;
use crate::connections::{ConnectionRequest, RatePhase};
use crate::level::Level;
use crate::procedure::{Measured, Procedure, ProcedureSpec, Step, judge};
use crate::results::{self, Detail, LoadKind, Mark, MarkKind, Misfit, Point, Results, Run, Sent, Trial};
use crate::shape::Placement;
use crate::trial::{FrameRequest, Load, Phase, Rig, RigError, TrialOutcome, TrialRequest};
use std::collections::BTreeMap;

/// Name of the firewall that is none: nothing between generator and sink.
pub const WIRE: &str = "wire";

/// A round that takes longer than usual is shown as no further than this until it has ended.
const MOST_SHOWN_OF_A_ROUND: f64 = 0.95;

/// One cell of a plan: the same test under the same levels of all factors, for every firewall compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its identifier in the results, from 0.
    pub id: u32,
    /// Test of the suite.
    pub test: String,
    /// Every factor but placement and cores, and its level.
    pub factors: BTreeMap<String, Level>,
    /// Cores used.
    pub cores: u32,
    /// Where the work is done. A firewall between two real cards is [`Placement::Isolated`]: it has a machine of its own.
    pub placement: Placement,
    /// What is sent.
    pub workload: Sent,
    /// What is measured.
    pub procedure: ProcedureSpec,
    /// How often everything is measured, at least 1.
    pub rounds: u32,
    /// How often a trial that other programs or the hypervisor disturb is made again.
    pub repeats: u32,
}

impl Cell {
    fn record(&self) -> results::Cell {
        results::Cell {
            id: self.id,
            test: self.test.clone(),
            placement: self.placement,
            cores: self.cores,
            workload: self.workload,
            factors: self.factors.clone(),
        }
    }

    /// Roughly how many seconds the cell takes on this many firewalls: for showing progress, no promise.
    pub fn typical_seconds(&self, firewalls: usize) -> f64 {
        self.procedure.typical_seconds() * f64::from(self.rounds) * firewalls as f64
    }
}

/// Where a campaign is: shown before a trial and after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// Firewall under test.
    pub dut: &'a str,
    /// Round, from 0.
    pub round: u32,
    /// Rounds in all.
    pub rounds: u32,
    /// Trial of this firewall in this round, from 1.
    pub trial: u32,
    /// What the trial is asked for.
    pub request: &'a TrialRequest,
    /// Share of the frames lost; `None` before the trial.
    pub loss: Option<f64>,
    /// Estimated share of the cell that is done, 0 to 1; it never falls.
    pub share_done: f64,
}

/// Whoever shows progress.
pub trait Observer {
    /// A trial is about to run, or has run.
    fn trial(&mut self, progress: &Progress<'_>);

    /// A firewall has lost its points.
    fn lost(&mut self, dut: &str, why: &Mark);
}

/// Nobody looks.
impl Observer for () {
    fn trial(&mut self, _progress: &Progress<'_>) {}

    fn lost(&mut self, _dut: &str, _why: &Mark) {}
}

/// What a campaign brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The cell, as results keep it.
    pub cell: results::Cell,
    /// The trials, firewall by firewall in the order of the rigs.
    pub runs: Vec<Run>,
    /// The points, firewall by firewall in the order of the rigs, costs last. After an interruption, only those of
    /// firewalls that finished a round.
    pub points: Vec<Point>,
    /// The user asked to stop.
    pub interrupted: bool,
}

impl Outcome {
    /// What would be refused of these as a file.
    fn misfits(&self) -> Vec<Misfit> {
        let (cells, runs, points) = (vec![self.cell.clone()], self.runs.clone(), self.points.clone());
        Results { complete: !self.interrupted, cells, runs, points, ..Results::default() }.misfits()
    }
}

#[cfg(test)]
impl Outcome {
    /// The points with what they name.
    pub(crate) fn readings(&self) -> Vec<results::Reading<'_>> {
        let run = |p: &Point| self.runs.iter().find(|run| run.dut == p.dut);
        self.points
            .iter()
            .map(|point| results::Reading {
                point,
                cell: &self.cell,
                role: results::Role::Firewall,
                run: run(point),
            })
            .collect()
    }
}

/// Runs a cell on the rigs, one for each firewall compared.
pub fn run(cell: &Cell, rigs: &mut [Box<dyn Rig>], observer: &mut dyn Observer) -> Outcome {
    let tracks = rigs.iter().map(|rig| Track::new(rig.dut())).collect();
    let mut campaign = Campaign { cell, tracks, observer, never_quiet: false };
    let interrupted = (0..cell.rounds).try_for_each(|round| campaign.round(round, rigs)).is_err();
    let points = points::of(cell, &campaign.tracks);
    let runs = campaign.tracks.into_iter().map(|track| points::run(cell, track, &points)).collect();
    let outcome = Outcome { cell: cell.record(), runs, points, interrupted };
    debug_assert_eq!(outcome.misfits(), [], "what a campaign computed follows from what it keeps");
    outcome
}

/// What is known of one firewall so far.
struct Track {
    dut: String,
    /// What each finished round measured.
    rounds: Vec<Vec<Measured>>,
    /// Every trial, those of unfinished rounds included.
    trials: Vec<Trial>,
    policy_load_seconds: Option<f64>,
    /// Why its points are lost.
    broken: Option<Mark>,
    /// Rounds done, the present one in part.
    rounds_done: f64,
}

impl Track {
    fn new(dut: &str) -> Self {
        Self {
            dut: dut.into(),
            rounds: Vec::new(),
            trials: Vec::new(),
            policy_load_seconds: None,
            broken: None,
            rounds_done: 0.0,
        }
    }
}

/// One firewall's part in a round.
struct Turn {
    rig: usize,
    round: u32,
    procedure: Box<dyn Procedure>,
    trials: u32,
    seconds: f64,
}

struct Interrupted;

struct Campaign<'a> {
    cell: &'a Cell,
    /// In the order of the rigs.
    tracks: Vec<Track>,
    observer: &'a mut dyn Observer,
    /// Running trials again did not help: until one is quiet by itself the run goes on, and its values say what it went on beside.
    never_quiet: bool,
}

impl Campaign<'_> {
    fn round(&mut self, round: u32, rigs: &mut [Box<dyn Rig>]) -> Result<(), Interrupted> {
        let mut turns = Vec::new();
        for place in 0..rigs.len() {
            // Another firewall starts each round, so that none has the freshly disturbed machine every time.
            let rig = (place + round as usize) % rigs.len();
            if self.tracks[rig].broken.is_none() && self.proves(rig, rigs, MarkKind::PolicyNotProved)? {
                let procedure = self.cell.procedure.start(self.cell.placement);
                turns.push(Turn { rig, round, procedure, trials: 0, seconds: 0.0 });
            }
        }
        while !turns.is_empty() {
            let mut going_on = Vec::with_capacity(turns.len());
            for mut turn in turns {
                if self.take(&mut turn, rigs)? {
                    going_on.push(turn);
                }
            }
            turns = going_on;
        }
        Ok(())
    }

    /// One step of one firewall; false when its round has ended.
    fn take(&mut self, turn: &mut Turn, rigs: &mut [Box<dyn Rig>]) -> Result<bool, Interrupted> {
        match turn.procedure.next() {
            Step::Trial(request) => self.trial(turn, &request, rigs),
            Step::Done(measured) => {
                if self.proves(turn.rig, rigs, MarkKind::FirewallFailed)? {
                    let track = &mut self.tracks[turn.rig];
                    track.rounds.push(measured);
                    track.rounds_done = track.rounds.len() as f64;
                }
                Ok(false)
            }
        }
    }

    fn trial(
        &mut self,
        turn: &mut Turn,
        request: &TrialRequest,
        rigs: &mut [Box<dyn Rig>],
    ) -> Result<bool, Interrupted> {
        turn.trials += 1;
        self.show(turn, request, None);
        let mut outcome = match self.undisturbed(request, rigs[turn.rig].as_mut()) {
            Ok(outcome) => outcome,
            Err(RigError::Interrupted) => return Err(Interrupted),
            Err(why) => {
                self.lose(turn.rig, lost(why, MarkKind::FirewallFailed));
                return Ok(false);
            }
        };
        turn.seconds += request.typical_seconds();
        let share = turn.seconds / self.cell.procedure.typical_seconds();
        let track = &mut self.tracks[turn.rig];
        track.rounds_done = track.rounds.len() as f64 + share.min(MOST_SHOWN_OF_A_ROUND);
        outcome.id = track.trials.len() as u32;
        track.policy_load_seconds = track.policy_load_seconds.or(outcome.policy_load_seconds);
        track.trials.push(kept(turn.round, request, &outcome, self.cell.placement));
        turn.procedure.record(request, &outcome);
        self.show(turn, request, Some(outcome.loss_ratio()));
        Ok(true)
    }

    /// Runs a trial, and runs it again while other programs or the hypervisor disturb it. One that changes the firewall is not run again, because
    /// the second would meet another firewall than the first; nor is one in which the firewall did what no firewall may do.
    fn undisturbed(&mut self, request: &TrialRequest, rig: &mut dyn Rig) -> Result<TrialOutcome, RigError> {
        let mut outcome = rig.trial(request)?;
        for _ in 0..self.cell.repeats {
            let must_stand = request.changes_the_firewall() || outcome.shows_misconduct();
            if !outcome.cpu.is_disturbed() || self.never_quiet || must_stand {
                break;
            }
            outcome = rig.trial(request)?;
        }
        self.never_quiet = outcome.cpu.is_disturbed();
        Ok(outcome)
    }

    /// Whether the firewall can be proved; if not, it loses its points with a mark of this kind.
    fn proves(
        &mut self,
        rig: usize,
        rigs: &mut [Box<dyn Rig>],
        otherwise: MarkKind,
    ) -> Result<bool, Interrupted> {
        match rigs[rig].prove() {
            Ok(()) => Ok(true),
            Err(RigError::Interrupted) => Err(Interrupted),
            Err(why) => {
                self.lose(rig, lost(why, otherwise));
                Ok(false)
            }
        }
    }

    fn lose(&mut self, rig: usize, why: Mark) {
        let track = &mut self.tracks[rig];
        self.observer.lost(&track.dut, &why);
        track.broken = Some(why);
        track.rounds_done = f64::from(self.cell.rounds);
    }

    fn show(&mut self, turn: &Turn, request: &TrialRequest, loss: Option<f64>) {
        let done: f64 = self.tracks.iter().map(|track| track.rounds_done).sum();
        self.observer.trial(&Progress {
            dut: &self.tracks[turn.rig].dut,
            round: turn.round,
            rounds: self.cell.rounds,
            trial: turn.trials,
            request,
            loss,
            share_done: done / (self.tracks.len() as f64 * f64::from(self.cell.rounds)),
        });
    }
}

/// Why a firewall's points are lost: `broken` says how, unless it cannot do what the test asks or is not there at all.
fn lost(why: RigError, broken: MarkKind) -> Mark {
    let kind = match why {
        RigError::Unsupported(_) => MarkKind::NotSupported,
        RigError::NotSetUp(_) => MarkKind::FirewallFailed,
        RigError::Broken(_) | RigError::Interrupted => broken,
    };
    Mark::new(kind, why.to_string())
}

/// A trial as results keep it.
fn kept(round: u32, request: &TrialRequest, outcome: &TrialOutcome, placement: Placement) -> Trial {
    let lanes = outcome.frames().map_or(&[][..], |frames| &frames.lanes);
    let load = load(request);
    Trial {
        id: outcome.id,
        round,
        load: load.map_or(LoadKind::Rate, |(kind, _)| kind),
        offered: load.map_or_else(|| rate(outcome), |(_, offered)| offered),
        seconds: outcome.seconds,
        received: match load {
            Some((LoadKind::Open, _)) => outcome.ledger.received as f64,
            _ => outcome.forwarding_rate(),
        },
        loss: outcome.loss_ratio(),
        latency_ns: outcome.frames().and_then(|frames| frames.latency_ns),
        duplicated: lanes.iter().map(|lane| lane.duplicated).sum(),
        reordered: lanes.iter().map(|lane| lane.reordered).sum(),
        per_second: if outcome.per_second.len() > 1 { outcome.per_second.clone() } else { Vec::new() },
        faults: judge(request, outcome, placement).into_iter().map(|mark| mark.text).collect(),
        detail: Some(Box::new(detail(outcome))),
    }
}

fn detail(outcome: &TrialOutcome) -> Detail {
    Detail {
        ledger: outcome.ledger.clone(),
        cpu: outcome.cpu.clone(),
        flow_entries: outcome.flow_entries,
        memory_bytes: outcome.memory_bytes,
        lanes: outcome.frames().map_or_else(Vec::new, |frames| frames.lanes.clone()),
        connections: outcome.connections().cloned(),
        bulk: outcome.bulk().cloned(),
        application: outcome.application().cloned(),
    }
}

/// The load of a trial that has only one: a rate, the length of a burst, or a number of connections.
fn load(request: &TrialRequest) -> Option<(LoadKind, f64)> {
    match request {
        TrialRequest::Frames(FrameRequest { phases, .. }) => match phases[..] {
            [Phase { load: Load::PerSecond(rate), .. }] => Some((LoadKind::Rate, rate)),
            [Phase { load: Load::Burst(frames), .. }] => Some((LoadKind::Burst, frames as f64)),
            _ => None,
        },
        TrialRequest::Connections(ConnectionRequest::Scheduled { phases, .. }) => match phases[..] {
            [RatePhase { from, to, .. }] if from == to => Some((LoadKind::Rate, from)),
            _ => None,
        },
        TrialRequest::Connections(ConnectionRequest::Held { connections, .. }) => {
            Some((LoadKind::Open, *connections as f64))
        }
        TrialRequest::Application(application) => match application.arrivals {
            Arrivals::ClosedLoop => None,
            Arrivals::OpenLoop(open) => Some((LoadKind::Rate, open.connection_rate)),
            Arrivals::Held(held) => Some((LoadKind::Open, held.connections as f64)),
        },
        TrialRequest::Connections(ConnectionRequest::Fastest { .. }) | TrialRequest::Bulk(_) => None,
    }
}

/// Frames (connections, bytes, transactions) offered a second, on the average of all phases.
fn rate(outcome: &TrialOutcome) -> f64 {
    if outcome.seconds > 0.0 { outcome.ledger.offered as f64 / outcome.seconds } else { 0.0 }
}
