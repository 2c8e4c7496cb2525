//! A rig of real parts: a bed, a firewall under test in it, and the run's generator and sink. It answers the campaign's
//! trials and proofs; what it observes goes into the outcome and is judged elsewhere.

use crate::interrupt::Interrupt;
use crate::ledger::{self, Before};
use crate::watcher::Watcher;
use measure::shape::{Lane, Placement, Setup};
use measure::trial::{Load, Phase, Rig, RigError, TrialOutcome, TrialRequest};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use testbed::bed::{Bed, BedSpec, CoreSplit};
use testbed::counters::LinkCounters;
use testbed::cpu::CpuSnapshot;
use testbed::dut::{self, ExternalBed, Running};
use testbed::layout::{BedLayout, ZonePort};
use testbed::policy::{Expect, PolicySpec, Probe, Protocol};
use traffic::{
    Arrival, Clock, Engine, Port, Ports, ProbeFrame, TrafficError, Transport, TrialPlan, TrialReading,
};

/// Firewalls that only forward: they stand beside the others as the limits of what a firewall could reach.
const BASELINES: [&str; 3] = ["wire", "xdp-redirect", "linux"];
/// Whatever is between two named interfaces.
const EXTERNAL: &str = "external";
/// Idle sessions are opened again when they are older than this; the kernel's firewalls keep them for
/// [`SESSION_SECONDS`].
const SESSIONS_STALE: Duration = Duration::from_secs(240);
/// How long the beds' kernel firewalls remember an idle UDP flow. Their own 30 s would let flows expire in the middle
/// of a trial with many sessions and a low rate, and the trial would measure something else.
const SESSION_SECONDS: &str = "600";
/// Frames a second at which sessions are opened where a burst would overrun the firewall.
const OPENING_RATE: f64 = 200_000.0;
/// Attempts to open all sessions, each at half the rate of the one before.
const OPENING_ATTEMPTS: u32 = 5;
/// A wall clock that moves against the monotonic one by more than this was set by somebody.
const CLOCK_STEP_NS: i64 = 5_000_000;

/// What the firewall stands in.
pub(crate) enum Site {
    Built(Bed),
    /// Two interfaces that the user named.
    Named(ExternalBed),
}

impl Site {
    /// What its links lost so far, where that can be read.
    pub(crate) fn links(&self) -> Option<LinkCounters> {
        match self {
            Site::Built(bed) => LinkCounters::read(bed).ok(),
            Site::Named(_) => None,
        }
    }

    fn layout(&self) -> &BedLayout {
        match self {
            Site::Built(bed) => bed.layout(),
            Site::Named(external) => external.layout(),
        }
    }
}

/// What all rigs of a run share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) engine: Rc<RefCell<Engine>>,
    pub(crate) interrupt: Interrupt,
}

/// One firewall under test, ready for trials. Fields are dropped in order: the firewall before its bed.
pub(crate) struct RealRig {
    dut: String,
    shared: Shared,
    ports: Option<Ports>,
    running: Box<dyn Running>,
    site: Site,
    setup: Setup,
    policy: PolicySpec,
    cores: Vec<usize>,
    /// When every session of the traffic was last known to be open.
    opened: Option<Instant>,
}

/// How a rig differs from what the suite asked for, in words for the report; empty when it does not.
pub(crate) fn baseline_note(dut: &str, setup: &Setup) -> Option<String> {
    if dut == EXTERNAL {
        return Some(
            "the policy of an external firewall is its owner's: only that the test traffic passes was proved"
                .to_owned(),
        );
    }
    let asked = setup.policy.rules > 0 || setup.policy.nat || setup.policy.listed_addresses > 0;
    (BASELINES.contains(&dut) && asked)
        .then(|| format!("{dut} only forwards: it stands here without the policy"))
}

impl RealRig {
    /// Builds the bed and sets the firewall up.
    pub(crate) fn build(dut: &str, setup: &Setup, shared: &Shared) -> Result<Self, RigError> {
        let driver = dut::driver(dut).map_err(broken)?;
        let split = cores_for(setup)?;
        let spec = BedSpec {
            zones: setup.zones,
            wiring: driver.wiring(),
            largest_frame: setup.traffic.frame.largest(),
            placement: setup.placement,
            cores: split.clone(),
            link_bits_per_second: setup.link_bits_per_second,
        };
        let bed = Bed::build(&spec).map_err(broken)?;
        let policy = policy_for(dut, setup)?;
        let running = driver.set_up(&bed, &policy).map_err(broken)?;
        keep_sessions(&bed, setup);
        let cores = split.generator.iter().map(|&core| core as usize).collect();
        let rig = Self::assemble(dut, setup, shared, Site::Built(bed), running, policy, cores)?;
        rig.place()?;
        Ok(rig)
    }

    /// Takes two named interfaces and whatever is between them.
    pub(crate) fn external(bed: ExternalBed, setup: &Setup, shared: &Shared) -> Result<Self, RigError> {
        let policy = PolicySpec::forward_everything(setup.zones);
        let running = bed.running();
        // The box may look for every test host itself.
        shared.engine.borrow_mut().set_answer_neighbours(true);
        let cores = (0..setup.traffic.cores as usize).collect();
        Self::assemble(EXTERNAL, setup, shared, Site::Named(bed), running, policy, cores)
    }

    fn assemble(
        dut: &str,
        setup: &Setup,
        shared: &Shared,
        site: Site,
        running: Box<dyn Running>,
        policy: PolicySpec,
        cores: Vec<usize>,
    ) -> Result<Self, RigError> {
        let ports: Vec<Port> = site.layout().ports.iter().map(port).collect();
        let attached = shared.engine.borrow_mut().attach(&ports).map_err(broken_traffic)?;
        Ok(Self {
            dut: dut.to_owned(),
            shared: shared.clone(),
            ports: Some(attached),
            running,
            site,
            setup: setup.clone(),
            policy,
            cores,
            opened: None,
        })
    }

    /// Gives the sink's ports back and lets something else use the bed: the private port and the hostile one.
    pub(crate) fn bare<T>(
        mut self,
        run: impl FnOnce(&mut Engine, &Port, &Port) -> Result<T, TrafficError>,
    ) -> Result<T, TrafficError> {
        let ports: Vec<Port> = self.site.layout().ports.iter().map(port).collect();
        let mut engine = self.shared.engine.borrow_mut();
        if let Some(own) = self.ports.take() {
            engine.detach(own);
        }
        match ports.as_slice() {
            [private, .., hostile] => run(&mut engine, private, hostile),
            _ => Err(TrafficError::Impossible("a bed of one zone".to_owned())),
        }
    }

    /// Pins receive work again: a port that got its first XDP program has new threads.
    fn place(&self) -> Result<(), RigError> {
        match &self.site {
            Site::Built(bed) => bed.place().map_err(broken),
            Site::Named(_) => Ok(()),
        }
    }

    fn ports(&self) -> Result<&Ports, RigError> {
        self.ports.as_ref().ok_or_else(|| RigError::Broken("the ports were given back already".to_owned()))
    }

    fn run(&self, plan: &TrialPlan<'_>, watcher: &mut Watcher<'_>) -> Result<TrialReading, RigError> {
        let mut engine = self.shared.engine.borrow_mut();
        engine.set_traffic(&self.setup.traffic).map_err(broken_traffic)?;
        engine.run(self.ports()?, plan, watcher).map_err(broken_traffic)
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
            placement: self.setup.placement,
            cores: &self.cores,
            times_matter,
            settle: self.settle_time(),
        }
    }

    /// RFC 2544 section 23 waits 2 s for a device behind cables; a bed in memory delivers at once, unless its links
    /// are slow and hold a queue.
    fn settle_time(&self) -> Duration {
        match (&self.site, self.setup.link_bits_per_second) {
            (Site::Named(_), _) => Duration::from_secs(2),
            (_, Some(_)) => Duration::from_millis(500),
            _ => traffic::SETTLE,
        }
    }

    /// Opens every session before a trial, so that the trial meets established ones, as the reports' did, and so that
    /// answers find theirs.
    fn open_sessions(&mut self) -> Result<(), RigError> {
        let tracks = self.policy.shape.stateful || self.policy.shape.nat;
        if !tracks || self.opened.is_some_and(|when| when.elapsed() < SESSIONS_STALE) {
            return Ok(());
        }
        let forward: Vec<Lane> =
            self.setup.lanes().into_iter().map(|(lane, _)| lane).filter(|lane| !lane.is_reverse()).collect();
        let lanes: Vec<(Lane, f64)> =
            forward.iter().map(|&lane| (lane, 1.0 / forward.len() as f64)).collect();
        let traffic = &self.setup.traffic;
        let frames = u64::from(traffic.flows) * u64::from(traffic.fragments) * lanes.len() as u64;
        for attempt in 0..OPENING_ATTEMPTS {
            let phases = [self.opening_phase(frames, attempt)];
            let plan = self.plan(&phases, &lanes, false);
            let reading = self.run(&plan, &mut Watcher::quiet(&self.shared.interrupt))?;
            if reading.sent() >= frames && reading.reading.received() >= reading.sent() {
                break;
            }
        }
        self.opened = Some(Instant::now());
        Ok(())
    }

    fn opening_phase(&self, frames: u64, attempt: u32) -> Phase {
        if self.setup.placement == Placement::Inline
            && attempt == 0
            && self.setup.link_bits_per_second.is_none()
        {
            return Phase { load: Load::Burst(frames), seconds: 120.0 };
        }
        let line = self
            .setup
            .link_bits_per_second
            .map_or(f64::INFINITY, |bits| self.setup.traffic.line_rate_frames_per_second(bits as f64) * 0.8);
        let rate = OPENING_RATE.min(line) / f64::from(1u32 << attempt);
        // One turn more than the flows need, since the last frame of a schedule may fall just after its end.
        Phase {
            load: Load::FramesPerSecond(rate.max(200.0)),
            seconds: (frames as f64 * 1.02 + 2.0) / rate.max(200.0),
        }
    }

    /// What must be shown. The policy of a box that somebody else configured is its owner's: there it is only that the
    /// traffic of the test passes.
    fn probes(&self) -> Vec<Probe> {
        let mut probes = self.policy.probes();
        if matches!(self.site, Site::Named(_)) {
            let lanes = self.setup.lanes();
            let sends = |probe: &Probe| lanes.iter().any(|(lane, _)| *lane == probe.lane);
            probes.retain(|p| p.ip() == self.setup.traffic.ip && p.allowed_by_every_policy() && sends(p));
        }
        probes
    }

    fn check_probes(&self, probes: &[Probe]) -> Result<(), RigError> {
        let frames: Vec<ProbeFrame> = probes.iter().map(probe_frame).collect();
        let expected = probes.iter().filter(|p| p.expect == Expect::Arrives).count();
        let arrivals = self
            .shared
            .engine
            .borrow_mut()
            .probe(self.ports()?, &frames, expected)
            .map_err(broken_traffic)?;
        let wrong: Vec<String> = probes
            .iter()
            .zip(&arrivals)
            .filter_map(|(probe, arrival)| self.misbehaviour(probe, arrival.as_ref()))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(RigError::Broken(wrong.join("; "))) }
    }

    /// What is wrong with what became of a probe, if anything.
    fn misbehaviour(&self, probe: &Probe, arrival: Option<&Arrival>) -> Option<String> {
        let name = &probe.name;
        let arrival = match (probe.expect, arrival) {
            (Expect::Arrives, None) => return Some(format!("probe «{name}» did not arrive")),
            (Expect::Dropped, Some(_)) => {
                return Some(format!("probe «{name}» arrived, but the policy forbids it"));
            }
            (Expect::Dropped, None) => return None,
            (Expect::Arrives, Some(arrival)) => arrival,
        };
        let zone =
            self.site.layout().ports.iter().find(|p| p.end.mac.0 == arrival.destination_mac).map(|p| p.zone);
        if zone != Some(probe.lane.to) {
            return Some(format!("probe «{name}» arrived at the wrong port"));
        }
        let (source, destination) = (probe.source_on_arrival, probe.destination_on_arrival);
        // A translation may choose another port when the one that the host used is taken.
        let same = arrival.source.ip() == source.ip() && arrival.destination == destination;
        (!same).then(|| {
            format!(
                "probe «{name}» arrived as {} to {} instead of {source} to {destination}",
                arrival.source, arrival.destination
            )
        })
    }

    fn run_trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        let lanes = self.setup.lanes();
        let settle = self.settle_time();
        let before = Before::take(&self.site, self.running.as_ref());
        let threads = self.running.firewall_threads();
        let cpu = CpuSnapshot::take(&threads).map_err(broken)?;
        let clocks = (Clock::wall_ns(), Clock::now_ns());
        let (mut watcher, reading) = {
            let reset = request.reset_after_seconds;
            let running = &mut self.running;
            let mut reset_firewall = || running.reset().map_err(|e| e.to_string());
            let mut watcher =
                Watcher::new(&self.shared.interrupt, request, reset.map(|at| (at, &mut reset_firewall as _)));
            let mut engine = self.shared.engine.borrow_mut();
            engine.set_traffic(&self.setup.traffic).map_err(broken_traffic)?;
            let ports = self.ports.as_ref().ok_or_else(|| RigError::Broken("no ports".to_owned()))?;
            let plan = TrialPlan {
                phases: &request.phases,
                lanes: &lanes,
                placement: self.setup.placement,
                cores: &self.cores,
                times_matter: request.times_matter,
                settle,
            };
            let reading = engine.run(ports, &plan, &mut watcher).map_err(broken_traffic)?;
            (watcher.into_seen(), reading)
        };
        let cpu_use = CpuSnapshot::take(&threads).map_err(broken)?.since(&cpu);
        let opaque = matches!(self.site, Site::Named(_));
        let found = ledger::account(&reading, before, &self.site, self.running.as_ref(), opaque);
        let mut faults = std::mem::take(&mut watcher.faults);
        faults.extend(found.fault);
        if let Err(dead) = self.running.check_alive() {
            faults.push(dead.to_string());
        }
        let mut remarks = found.remarks;
        remarks.extend(clock_step(clocks));
        remarks.extend(reassembled(&reading));
        Ok(TrialOutcome {
            seconds: reading.seconds,
            ledger: found.ledger,
            received_bits: reading.received_bits(),
            lanes: reading.lanes(&lanes),
            latency_ns: reading.reading.latency_ns(),
            last_loss_seconds: watcher.last_loss_seconds(reading.sent(), reading.reading.received()),
            longest_silence_seconds: reading.longest_silence_seconds(),
            on_time_share: on_time_share(request, &reading),
            per_second: watcher.samples,
            cpu: cpu_use,
            connections: self.running.connections().ok().flatten(),
            memory_bytes: self.running.memory_bytes(),
            faults,
            remarks,
        })
    }
}

impl Rig for RealRig {
    fn dut(&self) -> &str {
        &self.dut
    }

    fn prove(&mut self) -> Result<(), RigError> {
        if self.shared.interrupt.asked() {
            return Err(RigError::Interrupted);
        }
        let probes = self.probes();
        let together = self.setup.placement == Placement::Inline && matches!(self.site, Site::Built(_));
        if together && self.check_probes(&probes).is_ok() {
            return Ok(());
        }
        // Where the ways are not one core's, an answer could overtake what it answers: one direction at a time.
        for direction in probes.chunk_by(|a, b| a.lane == b.lane) {
            self.check_probes(direction)?;
        }
        self.running.check_alive().map_err(broken)
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        self.open_sessions()?;
        let outcome = self.run_trial(request)?;
        if request.reset_after_seconds.is_some() {
            self.opened = None;
        }
        let unexplained = outcome.ledger.residual();
        if unexplained == 0 || matches!(self.site, Site::Named(_)) {
            return Ok(outcome);
        }
        self.explained_trial(request, outcome)
    }
}

impl RealRig {
    /// Runs a trial again with the kernel's drops counted, because the cheap counters did not explain a loss. Counting
    /// costs kernel firewalls a few per cent, so it is done only then, and the outcome says so.
    fn explained_trial(
        &mut self,
        request: &TrialRequest,
        unexplained: TrialOutcome,
    ) -> Result<TrialOutcome, RigError> {
        let Ok(count) = self.shared.engine.borrow_mut().count_drops() else {
            return Ok(ledger::give_up_explaining(unexplained));
        };
        let mut outcome = self.run_trial(request)?;
        let drops = self.shared.engine.borrow().drops(&count).map_err(broken_traffic)?;
        ledger::explain(&mut outcome, drops);
        Ok(outcome)
    }
}

impl Drop for RealRig {
    fn drop(&mut self) {
        if let Some(ports) = self.ports.take()
            && let Ok(mut engine) = self.shared.engine.try_borrow_mut()
        {
            engine.detach(ports);
        }
    }
}

fn broken(error: testbed::TestbedError) -> RigError {
    RigError::Broken(error.to_string())
}

fn broken_traffic(error: TrafficError) -> RigError {
    match error {
        TrafficError::Interrupted => RigError::Interrupted,
        other => RigError::Broken(other.to_string()),
    }
}

/// The first cores generate. Inline they are the firewall's too; isolated, the firewall gets all the others.
fn cores_for(setup: &Setup) -> Result<CoreSplit, RigError> {
    let generating = setup.traffic.cores;
    if setup.placement == Placement::Inline {
        return CoreSplit::of(Placement::Inline, generating).map_err(broken);
    }
    let online = testbed::placement::cores_online();
    let (generator, firewall) = online.split_at(online.len().min(generating as usize));
    if firewall.is_empty() {
        return Err(RigError::Broken(format!(
            "isolated placement needs a core for the firewall beside {generating} that generate, and there are {}",
            online.len()
        )));
    }
    Ok(CoreSplit { generator: generator.to_vec(), firewall: firewall.to_vec() })
}

/// The policy of a setup, or none for a firewall that only forwards.
fn policy_for(dut: &str, setup: &Setup) -> Result<PolicySpec, RigError> {
    if BASELINES.contains(&dut) {
        return Ok(PolicySpec::forward_everything(setup.zones));
    }
    PolicySpec::generate(&setup.policy, setup.zones).map_err(broken)
}

fn keep_sessions(bed: &Bed, setup: &Setup) {
    if !(setup.policy.stateful || setup.policy.nat) {
        return;
    }
    let Some(firewall) = bed.firewall() else { return };
    for name in ["nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"] {
        // A firewall without connection tracking has no such setting.
        let _ = firewall.set(&[(&format!("net.netfilter.{name}"), SESSION_SECONDS)]);
    }
}

pub(crate) fn port(zone: &ZonePort) -> Port {
    Port {
        zone: zone.zone,
        namespace: Some(zone.end.namespace.path()),
        ifindex: zone.end.ifindex,
        mac: zone.end.mac.0,
        next_hop_mac: zone.gateway_mac.0,
        v4_prefix: u32::from(zone.addresses.v4.network()),
        v6_prefix: zone.addresses.v6.network().octets(),
    }
}

fn probe_frame(probe: &Probe) -> ProbeFrame {
    ProbeFrame {
        from: probe.lane.from,
        source: probe.source.ip(),
        destination: probe.destination.ip(),
        transport: match probe.protocol {
            Protocol::Tcp => Transport::TcpSyn,
            _ => Transport::Udp,
        },
        source_port: probe.source.port(),
        destination_port: probe.destination.port(),
    }
}

fn on_time_share(request: &TrialRequest, reading: &TrialReading) -> Option<f64> {
    let paced = request.phases.iter().all(|p| matches!(p.load, Load::FramesPerSecond(_)));
    (paced && reading.sent() > 0).then(|| 1.0 - reading.reading.late as f64 / reading.sent() as f64)
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

/// Whether somebody set the wall clock meanwhile. All measuring is on the monotonic clock, so it is only a remark.
fn clock_step((wall, monotonic): (u64, u64)) -> Option<String> {
    let moved = (Clock::wall_ns() as i64 - wall as i64) - (Clock::now_ns() as i64 - monotonic as i64);
    (moved.abs() > CLOCK_STEP_NS).then(|| {
        format!(
            "the wall clock was moved by {:.3} s during a trial; times are of the monotonic clock",
            moved as f64 / 1e9
        )
    })
}
