//! `agent`: this host's part of trials that are led from elsewhere. The port, the programs and the patrol are taken when a session begins and
//! given back when it ends.

use crate::cli::AgentArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::rig::{MachineTime, port as port_of_zone};
use agents::{Agent, Answer, Course, Facts, Host, Key, Order, Outcome, Place, Trial};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use testbed::cpu::CpuSnapshot;
use testbed::dut::{ExternalBed, ExternalPort, ExternalPorts};
use testbed::layout::ZoneAddresses;
use testbed::machine_lock::MachineLock;
use testbed::priority::SessionPriority;
use traffic::{
    Engine, Looks, Part, Patrol, PatrolledPart, Port, Ports, ProbeFrame, Reading, Seconds, TrialPlan, Watch,
};

/// Cores that a trial may generate on at most; the programs have no more.
const MOST_CORES: usize = 64;

/// How long a run of this machine is waited for, less than a leader waits for an answer, and how often it is looked for.
const LONGEST_WAIT: Duration = Duration::from_secs(45);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The port of `--port` and whether it is taken even if the machine is reached through it: what every session's host begins with.
static PORT: OnceLock<(ExternalPort, bool)> = OnceLock::new();

/// Works for leaders until the user ends it.
pub(crate) fn agent(args: &AgentArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    agents::check_name(&args.name).map_err(|why| Failure::Wrong(format!("--name: {why}")))?;
    let port: ExternalPort = args.port.parse().map_err(of_this_port)?;
    let key = Key::read(&args.key)?;
    let address = args.login.address(&args.server)?;
    crate::run::check_root()?;
    // What is wrong with the port is said now, and not to a leader.
    drop(ExternalPorts::check_one(measure::shape::Zone::Private, &port, args.force).map_err(of_this_port)?);
    let _ = PORT.set((port, args.force));
    let agent = Agent {
        name: &args.name,
        key,
        host: || Box::<BenchHost>::default(),
        say: &|line| crate::say(line),
        ends: &|| interrupt.asked(),
    };
    Ok(agent.run(&address)?)
}

/// An agent has one port, and its option another name.
fn of_this_port(error: testbed::TestbedError) -> Failure {
    match Failure::from(error) {
        Failure::Wrong(text) => Failure::Wrong(words(text)),
        other => other,
    }
}

/// This host, for one session. Fields are dropped in order: what uses the port before the port.
#[derive(Default)]
struct BenchHost {
    patrol: Option<(Patrol, Vec<ProbeFrame>)>,
    ports: Option<Ports>,
    engine: Option<Engine>,
    bed: Option<ExternalBed>,
    _interface: Option<ExternalPorts>,
    _priority: Option<SessionPriority>,
    _lock: Option<MachineLock>,
}

impl Drop for BenchHost {
    fn drop(&mut self) {
        self.patrol = None;
        if let (Some(engine), Some(ports)) = (&mut self.engine, self.ports.take()) {
            engine.detach(ports);
        }
    }
}

/// What went wrong, about the option that an agent has.
fn words(error: impl std::fmt::Display) -> String {
    error.to_string().replace("--ports", "--port")
}

impl Host for BenchHost {
    fn obey(&mut self, order: Order) -> Result<Answer, String> {
        match order {
            Order::Take { zone, flows, .. } => self.take(zone, flows),
            Order::Meet { other, .. } => self.meet(other),
            Order::AwaitProbes(mark) => {
                self.engine()?.look_out_for_probes(mark);
                Ok(Answer::Done)
            }
            Order::SendProbes { mark, probes } => {
                let (engine, ports) = self.parts()?;
                engine.send_probes_from_here(ports, &probes, mark).map_err(words)?;
                Ok(Answer::Done)
            }
            Order::Arrivals(count) => Ok(Answer::Arrivals(self.engine()?.arrived_probes(count))),
            _ => Err("this host does not know the order".to_owned()),
        }
    }

    fn run(&mut self, trial: &Trial, seed: u64, course: &Course) -> Result<Outcome, String> {
        let online = testbed::placement::cores_online();
        if trial.cores.iter().any(|core| *core >= MOST_CORES || !online.contains(&(*core as u32))) {
            return Err(format!(
                "the trial generates on cores {:?}, and this host has {online:?}",
                trial.cores
            ));
        }
        let begun = MachineTime::now();
        let cores: Vec<u32> = trial.cores.iter().map(|&core| core as u32).collect();
        let cpu = CpuSnapshot::take(&[], &cores, None).map_err(words)?;
        self.set_out(trial)?;
        let part = self.run_part(trial, seed, course);
        let patrol = self.halt()?;
        let (part, per_second) = part?;
        let cpu = CpuSnapshot::take(&[], &cores, None).map_err(words)?.since(&cpu);
        let (remarks, faults) = begun.findings();
        Ok(Outcome { part, per_second, patrol, cpu, faults, remarks })
    }
}

/// Follows a trial for the other host.
struct Following<'a> {
    course: &'a Course,
    seconds: Seconds,
    sample_every: Duration,
}

impl Watch for Following<'_> {
    fn interrupted(&self) -> bool {
        self.course.is_stopped()
    }

    fn tick_every(&self) -> Duration {
        Duration::from_millis(10)
    }

    fn sample_every(&self) -> Duration {
        self.sample_every
    }

    fn sample(&mut self, at_seconds: f64, reading: &Reading) {
        self.seconds.add(at_seconds, reading);
    }
}

impl BenchHost {
    fn engine(&mut self) -> Result<&mut Engine, String> {
        self.engine.as_mut().ok_or_else(|| "the port was not taken".to_owned())
    }

    fn parts(&mut self) -> Result<(&mut Engine, &Ports), String> {
        match (&mut self.engine, &self.ports) {
            (Some(engine), Some(ports)) => Ok((engine, ports)),
            _ => Err("the other port is not known".to_owned()),
        }
    }

    fn own_port(&self) -> Result<Port, String> {
        let zone = self.bed.as_ref().and_then(|bed| bed.layout().ports.first());
        Ok(port_of_zone(zone.ok_or("the port was not taken")?))
    }

    fn take(&mut self, zone: measure::shape::Zone, flows: u32) -> Result<Answer, String> {
        let (port, force) = PORT.get().ok_or("this host has no port")?;
        let lock = share_machine()?;
        testbed::quota::check_for(1).map_err(words)?;
        testbed::machine_settings::note();
        let priority = SessionPriority::raise();
        let interface = ExternalPorts::check_one(zone, port, *force).map_err(words)?;
        let bed = interface.bed().map_err(words)?;
        let mut engine = Engine::load(flows).map_err(words)?;
        // The box may look for every test host itself.
        engine.set_answer_neighbours(true);
        let facts = facts(&bed)?;
        (self._lock, self._priority, self._interface) = (Some(lock), Some(priority), Some(interface));
        (self.bed, self.engine) = (Some(bed), Some(engine));
        Ok(Answer::Taken(Box::new(facts)))
    }

    fn meet(&mut self, other: Place) -> Result<Answer, String> {
        let own = self.own_port()?;
        if other.zone == own.zone {
            return Err(format!("both ports are to be of zone {}", own.zone.name()));
        }
        let addresses = ZoneAddresses::of(other.zone);
        let elsewhere = Port {
            zone: other.zone,
            namespace: None,
            ifindex: 0,
            mac: other.mac,
            next_hop_mac: [0; 6],
            v4_prefix: u32::from(addresses.v4.network()),
            v6_prefix: addresses.v6.network().octets(),
        };
        let attached = self.engine()?.attach_beside(&[own], &[elsewhere]).map_err(words)?;
        self.ports = Some(attached);
        Ok(Answer::Done)
    }

    fn set_out(&mut self, trial: &Trial) -> Result<(), String> {
        let Some((probes, every)) = &trial.patrol else { return Ok(()) };
        if self.patrol.as_ref().is_none_or(|(_, before)| before != probes) {
            let looks = Looks::of_frames(&trial.traffic);
            let patrol = Patrol::part(&[self.own_port()?], probes, looks).map_err(words)?;
            self.patrol = Some((patrol, probes.clone()));
        }
        let Some((patrol, _)) = &mut self.patrol else { return Ok(()) };
        let mark = trial.mark.wrapping_sub(2);
        patrol.set_out(Duration::from_secs_f64(every.clamp(0.001, 10.0)), Some(mark)).map_err(words)
    }

    fn halt(&mut self) -> Result<PatrolledPart, String> {
        match &mut self.patrol {
            Some((patrol, probes)) => patrol.halt_part(probes).map_err(words),
            None => Ok(PatrolledPart::default()),
        }
    }

    fn run_part(
        &mut self,
        trial: &Trial,
        seed: u64,
        mut course: &Course,
    ) -> Result<(traffic::PartReading, Vec<measure::trial::SecondSample>), String> {
        let (engine, ports) = self.parts()?;
        engine.set_traffic(&trial.traffic).map_err(words)?;
        let plan = TrialPlan {
            phases: &trial.phases,
            lanes: &trial.lanes,
            placement: trial.placement,
            cores: &trial.cores,
            times_matter: trial.times_matter,
            settle: Duration::from_millis(trial.settle_ms),
            translated: trial.translated,
            forbidden: trial.forbidden.as_ref(),
        };
        let part = Part { seed, mark: trial.mark, clock_ns: trial.clock_ns };
        let sample_every = Duration::from_secs_f64(trial.sample_seconds.clamp(0.01, 60.0));
        let mut following = Following { course, seconds: Seconds::default(), sample_every };
        let reading =
            engine.run_part(ports, &plan, Some(&part), &mut course, &mut following).map_err(words)?;
        Ok((reading, following.seconds.into_samples()))
    }
}

/// Waits for a while until no run has this machine for itself.
fn share_machine() -> Result<MachineLock, String> {
    let begun = Instant::now();
    loop {
        match MachineLock::share().map_err(words)? {
            Ok(lock) => return Ok(lock),
            Err(holder) if begun.elapsed() > LONGEST_WAIT => {
                return Err(format!("another run measures on its host ({holder}): wait for its end"));
            }
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

fn facts(bed: &ExternalBed) -> Result<Facts, String> {
    let layout = bed.layout();
    let port = layout.ports.first().ok_or("the port was not taken")?;
    let about = testbed::environment::describe(&[]);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(Facts {
        interface: port.end.device.clone(),
        ifindex: port.end.ifindex,
        mac: port.end.mac.0,
        gateway_mac: port.gateway_mac.0,
        mtu: layout.mtu,
        cores: testbed::placement::cores_online(),
        machine: format!(
            "host {}, Linux {}, {} cores of {}, {}",
            host.trim(),
            about.kernel,
            about.cores,
            about.cpu,
            about.virtualization
        ),
    })
}
