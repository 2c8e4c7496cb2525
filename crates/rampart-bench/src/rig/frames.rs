//! A rig whose trials are of frames: the run's generator sends them, its sink counts them.

use super::hosts::Between;
use super::machine_time::MachineTime;
use super::patrol::{self, Carrier};
use super::station::{Station, lent};
use super::{SEEN_TOO_LITTLE, Shared, Site, broken_traffic, other_workload};
use crate::ledger::{self, Before};
use crate::watcher::{Seen, Watcher};
use agents::Trial;
use measure::clock::Correction;
use measure::shape::{Lane, Placement, Setup, TestProtocol};
use measure::trial::{
    FrameOutcome, FrameRequest, LaneOutcome, Load, Phase, Rig, RigError, TrialOutcome, TrialRequest,
    WorkloadOutcome,
};
use std::cell::OnceCell;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use traffic::{Clock, Engine, Forbidden, Port, TrafficError, TrialPlan, TrialReading, Watch as _};

/// How often somebody who waits looks whether the user asks to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Idle flows are opened again when they are older than this; the kernel's firewalls keep them for ten minutes.
const FLOWS_STALE: Duration = Duration::from_secs(240);
/// Frames a second at which flows are opened where a burst would overrun the firewall.
const OPENING_RATE: f64 = 200_000.0;
/// Attempts to open all flows, each at half the rate of the one before.
const OPENING_ATTEMPTS: u32 = 5;

/// One firewall under test, ready for trials of frames.
pub(crate) struct FrameRig {
    station: Station,
    /// When every flow of the traffic was last known to be open.
    opened: Option<Instant>,
    /// Trials run so far.
    trials: u64,
    /// Of the policy, once they are needed.
    forbidden_sources: OnceCell<Vec<Ipv4Addr>>,
}

impl FrameRig {
    /// Builds the bed and sets the firewall up, or takes the box between two named interfaces.
    pub(crate) fn build(dut: &str, setup: &Setup, shared: &Shared) -> Result<Self, RigError> {
        let mut station = Station::build(dut, setup, false, shared)?;
        station.lend_to_frames()?;
        station.place()?;
        Ok(Self { station, opened: None, trials: 0, forbidden_sources: OnceCell::new() })
    }

    /// Gives the sink's ports back and lets something else use the bed: the private port and the hostile one.
    pub(crate) fn bare<T>(
        mut self,
        run: impl FnOnce(&mut Engine, &Port, &Port) -> Result<T, TrafficError>,
    ) -> Result<T, TrafficError> {
        let ports = self.station.described_ports();
        self.station.take_from_frames();
        let missing = |why: RigError| TrafficError::Impossible(why.to_string());
        let mut engine = self.station.shared.engine().map_err(missing)?.borrow_mut();
        match ports.as_slice() {
            [private, .., hostile] => run(&mut engine, private, hostile),
            _ => Err(TrafficError::Impossible("a bed of one zone".to_owned())),
        }
    }

    fn run(&self, plan: &TrialPlan<'_>, watcher: &mut Watcher<'_>) -> Result<TrialReading, RigError> {
        if let Site::Hosts(hosts) = &self.station.site {
            let interrupted = || self.station.shared.interrupt.asked();
            return Ok(hosts.run(self.between_hosts(plan), &interrupted)?.reading);
        }
        let mut engine = self.station.shared.engine()?.borrow_mut();
        engine.set_traffic(&self.station.setup.traffic).map_err(broken_traffic)?;
        engine.run(lent(&self.station.frame_ports)?, plan, watcher).map_err(broken_traffic)
    }

    fn plan<'a>(
        &'a self,
        phases: &'a [Phase],
        lanes: &'a [(Lane, f64)],
        times_matter: bool,
    ) -> TrialPlan<'a> {
        TrialPlan {
            phases,
            lanes,
            placement: self.station.setup.placement,
            cores: &self.station.cores,
            times_matter,
            settle: self.settle_time(),
            translated: self.station.policy.translated(),
            forbidden: None,
        }
    }

    /// RFC 2544 section 23 waits 2 s for a device behind cables; a bed in memory delivers at once, unless its links
    /// are slow and hold a queue.
    fn settle_time(&self) -> Duration {
        match (&self.station.site, self.station.setup.link_bits_per_second) {
            (Site::Named(_) | Site::Hosts(_), _) => Duration::from_secs(2),
            (_, Some(_)) => Duration::from_millis(500),
            _ => traffic::SETTLE,
        }
    }

    /// Opens every flow before a trial, so that the trial meets established ones, as the reports' did, and so that
    /// answers find theirs.
    fn open_flows(&mut self) -> Result<(), RigError> {
        let tracks = self.station.policy.shape.stateful || self.station.policy.shape.nat;
        if !tracks || self.opened.is_some_and(|when| when.elapsed() < FLOWS_STALE) {
            return Ok(());
        }
        let forward: Vec<Lane> = self
            .station
            .setup
            .lanes()
            .into_iter()
            .map(|(lane, _)| lane)
            .filter(|lane| !lane.is_reverse())
            .collect();
        let lanes: Vec<(Lane, f64)> =
            forward.iter().map(|&lane| (lane, 1.0 / forward.len() as f64)).collect();
        let traffic = &self.station.setup.traffic;
        let frames = u64::from(traffic.flows) * u64::from(traffic.fragments) * lanes.len() as u64;
        for attempt in 0..OPENING_ATTEMPTS {
            let phases = [self.opening_phase(frames, attempt)];
            let plan = self.plan(&phases, &lanes, false);
            let reading = self.run(&plan, &mut Watcher::quiet(&self.station.shared.interrupt))?;
            if reading.sent() >= frames && reading.reading.received() >= reading.sent() {
                break;
            }
        }
        self.opened = Some(Instant::now());
        Ok(())
    }

    fn opening_phase(&self, frames: u64, attempt: u32) -> Phase {
        if self.station.setup.placement == Placement::Inline
            && attempt == 0
            && self.station.setup.link_bits_per_second.is_none()
        {
            return Phase { load: Load::Burst(frames), seconds: 120.0 };
        }
        let setup = &self.station.setup;
        let line = setup
            .link_bits_per_second
            .map_or(f64::INFINITY, |bits| setup.traffic.line_rate_frames_per_second(bits as f64) * 0.8);
        let rate = OPENING_RATE.min(line) / f64::from(1u32 << attempt);
        // One turn more than the flows need, since the last frame of a schedule may fall just after its end.
        Phase {
            load: Load::PerSecond(rate.max(200.0)),
            seconds: (frames as f64 * 1.02 + 2.0) / rate.max(200.0),
        }
    }

    /// What goes along with the next trial and must not arrive.
    fn forbidden(&self) -> Forbidden {
        let policy = &self.station.policy;
        Forbidden {
            ports: self.station.forbidden_ports(TestProtocol::Udp, self.trials),
            sources: self.forbidden_sources.get_or_init(|| policy.forbidden_sources(Clock::now_ns())).clone(),
            answers: policy.forbids_strange_answers(),
        }
    }

    /// The trial's traffic, and the reset that may be asked for in the middle of it.
    fn run_engine(
        &mut self,
        request: &FrameRequest,
        lanes: &[(Lane, f64)],
        forbidden: &Forbidden,
    ) -> Result<(Seen, TrialReading), RigError> {
        let settle = self.settle_time();
        let station = &mut self.station;
        let running = &mut station.running;
        let mut reset_firewall = || running.reset().map_err(|e| e.to_string());
        let reset = request.reset_after_seconds.map(|at| (at, &mut reset_firewall as _));
        let mut watcher = Watcher::new(&station.shared.interrupt, request, reset);
        let mut engine = station.shared.engine()?.borrow_mut();
        engine.set_traffic(&station.setup.traffic).map_err(broken_traffic)?;
        let ports = lent(&station.frame_ports)?;
        let plan = TrialPlan {
            phases: &request.phases,
            lanes,
            placement: station.setup.placement,
            cores: &station.cores,
            times_matter: request.times_matter,
            settle,
            translated: station.policy.translated(),
            forbidden: Some(forbidden),
        };
        let reading = engine.run(ports, &plan, &mut watcher).map_err(broken_traffic)?;
        Ok((watcher.into_seen(), reading))
    }

    /// A trial as both hosts must know it, of which [`Hosts::run`](super::Hosts::run) completes what is its own.
    fn between_hosts(&self, plan: &TrialPlan<'_>) -> Trial {
        Trial {
            number: 0,
            mark: 0,
            traffic: self.station.setup.traffic.clone(),
            phases: plan.phases.to_vec(),
            lanes: plan.lanes.to_vec(),
            placement: plan.placement,
            cores: plan.cores.to_vec(),
            times_matter: plan.times_matter,
            settle_ms: plan.settle.as_millis() as u64,
            translated: plan.translated,
            forbidden: plan.forbidden.cloned(),
            clock_ns: 0,
            patrol: None,
            sample_seconds: 1.0,
        }
    }

    /// The trial where two hosts have the ports: as of one host, but that the firewall cannot be reset, and that two clocks measure times.
    fn run_between_hosts(
        &self,
        request: &FrameRequest,
        forbidden: &Forbidden,
    ) -> Result<TrialOutcome, RigError> {
        let station = &self.station;
        let Site::Hosts(hosts) = &station.site else { return Err(other_workload()) };
        if request.reset_after_seconds.is_some() {
            return Err(RigError::Unsupported(format!("{} cannot do a reset by the bench", station.dut)));
        }
        let lanes = station.setup.lanes();
        let plan = TrialPlan {
            forbidden: Some(forbidden),
            ..self.plan(&request.phases, &lanes, request.times_matter)
        };
        let (probes, kinds) = station.forbidden_between_hosts();
        let every = patrol::seconds_between(plan.phases.iter().map(|phase| phase.seconds).sum());
        let patrol = (!probes.is_empty()).then_some((probes, every));
        let trial = Trial { patrol, ..self.between_hosts(&plan) };
        let interrupt = &station.shared.interrupt;
        let Between { reading, sightings, per_second, clocks, patrolled, cpu, mut faults, mut remarks } =
            hosts.run(trial, &|| interrupt.asked())?;
        let mut watcher = Watcher::new(interrupt, request, None);
        for seen in sightings {
            watcher.tick(seen.at_ns as f64 / 1e9, seen.sent, seen.received);
        }
        let seen = watcher.into_seen_of(per_second);
        let found = patrol::found(patrolled, &kinds);
        let before = Before::take(&station.site, station.running.as_ref());
        let account = ledger::account(
            &reading,
            station.setup.traffic.fragments,
            before,
            &station.site,
            station.running.as_ref(),
            true,
            &found.counted,
        );
        faults.extend(seen.faults.iter().cloned().chain(account.fault).chain(doubt(&reading)));
        remarks.extend(account.remarks);
        remarks.extend(reassembled(&reading));
        remarks.extend(held_back(&reading));
        let clocks = clocks.map(|of| (of, lanes.clone()));
        Ok(TrialOutcome {
            id: 0,
            seconds: reading.seconds,
            ledger: account.ledger,
            policy_broken: found.broken,
            workload: WorkloadOutcome::Frames(FrameOutcome {
                received_bits: reading.received_bits(),
                lanes: by_clocks(reading.lanes(&lanes), clocks.as_ref().map(|(of, _)| of)),
                latency_ns: clocks.and_then(|(of, lanes)| {
                    Some(reading.reading.latency_ns()?.corrected(of_all(&of, &lanes)?))
                }),
                last_loss_seconds: seen.last_loss_seconds(reading.sent(), reading.reading.received()),
                longest_silence_seconds: reading.longest_silence_seconds(),
                on_time_share: on_time_share(request, &reading),
            }),
            per_second: seen.samples,
            cpu,
            flow_entries: None,
            memory_bytes: None,
            policy_load_seconds: None,
            faults,
            remarks,
        })
    }

    /// Sends nothing for so long, unless the user asks to stop.
    fn idle(&self, time: Duration) -> Result<(), RigError> {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            if self.station.shared.interrupt.asked() {
                return Err(RigError::Interrupted);
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
        Ok(())
    }

    fn run_trial(&mut self, request: &FrameRequest, patrols: bool) -> Result<TrialOutcome, RigError> {
        self.idle(Duration::from_secs_f64(request.idle_before_seconds))?;
        let lanes = self.station.setup.lanes();
        let forbidden = self.forbidden();
        self.trials += 1;
        if matches!(self.station.site, Site::Hosts(_)) {
            return self.run_between_hosts(request, &forbidden);
        }
        let before = Before::take(&self.station.site, self.station.running.as_ref());
        let threads = self.station.running.firewall_threads();
        let cpu = self.station.processor_time(&threads)?;
        let begun = MachineTime::now();
        if patrols {
            let seconds = request.phases.iter().map(|phase| phase.seconds).sum();
            self.station.begin_patrol(Carrier::Generator, seconds)?;
        }
        let run = self.run_engine(request, &lanes, &forbidden);
        let patrol = self.station.end_patrol()?;
        let (mut watcher, reading) = run?;
        let cpu_use = self.station.processor_time(&threads)?.since(&cpu);
        let opaque = self.station.site.is_opaque();
        let fragments = self.station.setup.traffic.fragments;
        let found = ledger::account(
            &reading,
            fragments,
            before,
            &self.station.site,
            self.station.running.as_ref(),
            opaque,
            &patrol.counted,
        );
        let mut faults = std::mem::take(&mut watcher.faults);
        faults.extend(found.fault.into_iter().chain(doubt(&reading)));
        if let Err(dead) = self.station.running.check_alive() {
            faults.push(dead.to_string());
        }
        let mut remarks = found.remarks;
        remarks.extend(reassembled(&reading));
        remarks.extend(held_back(&reading));
        let mut outcome = TrialOutcome {
            id: 0,
            seconds: reading.seconds,
            ledger: found.ledger,
            policy_broken: None,
            workload: WorkloadOutcome::Frames(FrameOutcome {
                received_bits: reading.received_bits(),
                lanes: reading.lanes(&lanes),
                latency_ns: reading.reading.latency_ns(),
                last_loss_seconds: watcher.last_loss_seconds(reading.sent(), reading.reading.received()),
                longest_silence_seconds: reading.longest_silence_seconds(),
                on_time_share: on_time_share(request, &reading),
            }),
            per_second: watcher.samples,
            cpu: cpu_use,
            flow_entries: self.station.running.flow_entries().ok().flatten(),
            memory_bytes: self.station.running.memory_bytes(),
            policy_load_seconds: self.station.running.policy_load_seconds(),
            faults,
            remarks,
        };
        self.station.judge_patrol(patrol, Some(patrol::DUE_BESIDE_FRAMES), &mut outcome);
        begun.judge(&mut outcome);
        Ok(outcome)
    }
}

impl Rig for FrameRig {
    fn dut(&self) -> &str {
        &self.station.dut
    }

    fn prove(&mut self) -> Result<(), RigError> {
        self.station.prove()
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        let TrialRequest::Frames(request) = request else { return Err(other_workload()) };
        self.open_flows()?;
        let outcome = self.run_trial(request, true)?;
        if request.reset_after_seconds.is_some() {
            self.opened = None;
        }
        let unexplained = outcome.ledger.residual();
        // What no firewall may do is not forgotten for a trial that explains a loss better.
        if unexplained == 0 || self.station.site.is_opaque() || outcome.shows_misconduct() {
            return Ok(outcome);
        }
        self.explained_trial(request, outcome)
    }
}

impl FrameRig {
    /// Runs a trial again with the kernel's drops counted, because the cheap counters did not explain a loss. Counting
    /// costs kernel firewalls a few per cent, so it is done only then, and the outcome says so.
    fn explained_trial(
        &mut self,
        request: &FrameRequest,
        unexplained: TrialOutcome,
    ) -> Result<TrialOutcome, RigError> {
        let Ok(count) = self.station.shared.engine()?.borrow_mut().count_drops() else {
            return Ok(ledger::give_up_explaining(unexplained));
        };
        // The kernel counts drops of the patrol and of the load together.
        let mut outcome = self.run_trial(request, false)?;
        let drops = self.station.shared.engine()?.borrow().drops(&count).map_err(broken_traffic)?;
        ledger::explain(&mut outcome, drops);
        Ok(ledger::that_counts(unexplained, outcome))
    }
}

fn on_time_share(request: &FrameRequest, reading: &TrialReading) -> Option<f64> {
    (request.is_paced() && reading.sent() > 0)
        .then(|| 1.0 - reading.reading.late as f64 / reading.sent() as f64)
}

/// Each direction with the error bar of the clocks; without its times if nothing is known of them.
fn by_clocks(mut lanes: Vec<LaneOutcome>, clocks: Option<&[Correction; 2]>) -> Vec<LaneOutcome> {
    for lane in &mut lanes {
        let by = clocks.map(|clocks| of_receiver(clocks, lane.lane));
        lane.latency_ns = by.and_then(|by| Some(lane.latency_ns?.corrected(by)));
        lane.pdv_ns = by.and_then(|by| Some(lane.pdv_ns?.with_clock_error(by)));
    }
    lanes
}

/// What the times of a lane are corrected by, which the host took that it ends at.
fn of_receiver(clocks: &[Correction; 2], lane: Lane) -> Correction {
    let ends_at_first = lane.to == super::ZONES[0];
    clocks[usize::from(!ends_at_first)]
}

/// What the times of all lanes together are corrected by.
fn of_all(clocks: &[Correction; 2], lanes: &[(Lane, f64)]) -> Option<Correction> {
    lanes.iter().map(|(lane, _)| of_receiver(clocks, *lane)).reduce(Correction::or)
}

/// What the firewall forwarded only when the trial was over.
fn held_back(reading: &TrialReading) -> Option<String> {
    let held = reading.held_back;
    (held > 0).then(|| {
        format!(
            "{held} frames arrived long after the last was sent, and count as not received: what a firewall holds back, it did not \
             forward at this rate"
        )
    })
}

/// Why it is not known how much the firewall held back.
fn doubt(reading: &TrialReading) -> Option<String> {
    reading.is_doubtful.then(|| SEEN_TOO_LITTLE.to_owned())
}

/// Whether the firewall forwarded whole what was sent in fragments.
fn reassembled(reading: &TrialReading) -> Option<String> {
    let whole: u64 = reading.reading.streams.iter().map(|stream| stream.reassembled).sum();
    (whole > 0).then(|| {
        format!(
            "{whole} datagrams sent in two fragments arrived whole: the firewall reassembled them; each counts as two \
             frames received"
        )
    })
}
