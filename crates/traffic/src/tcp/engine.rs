//! The loaded TCP client and server: ports, runs, capacity. Several pairs of ports may be attached; a run uses one of them.

use super::attack;
use super::check::check;
use super::control::{CLIENT_PORT, MAX_CONNECTIONS, SERVER_PORT, fastest_per_core, slice};
use super::outcome::Asked;
use super::plan::{Close, Opening, Order, TcpPlan};
use super::reading::{self, TcpCounts, TcpReading};
use super::skeleton::{SLOTS_PER_PAGE, TcpSkel, TcpSkelBuilder, types};
use super::steps::{self, Steps};
use crate::frames::Port;
use crate::live::LiveSender;
use crate::random::SplitMix64;
use crate::schedule::to_seconds;
use crate::{Clock, TrafficError, namespace};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, ProgramMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// From the moment when all generators turn to the start of the schedule.
const START_DELAY: Duration = Duration::from_millis(1);
/// Longest wait for the generators' first turn; clearing ten million connections takes a fraction of it.
const SETUP_LIMIT: Duration = Duration::from_secs(20);
/// The recycled frame is longer than every segment, so that each sets its length anew: where a program leaves it as it is,
/// the kernel (6.18) sends the length that the page's last receiver gave it.
pub(super) const RECYCLED_BYTES: usize = 1520;

/// Which ends of a run are this engine's. The other is a stranger's, of which only the addresses matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Client and server.
    Both,
    /// The client, against some other server.
    Client,
    /// The server, for other clients.
    Server,
}

/// The two ports of a run. Detached when dropped.
#[derive(Debug)]
pub struct Ports {
    pub(super) client: Port,
    pub(super) server: Port,
    ends: Ends,
    _links: Vec<Link>,
}

impl Ports {
    pub(super) fn new(client: &Port, server: &Port, ends: Ends, links: Vec<Link>) -> Self {
        Self { client: client.clone(), server: server.clone(), ends, _links: links }
    }
}

/// Whoever follows a run.
pub trait TcpWatch {
    /// Whether the user asked to stop.
    fn interrupted(&self) -> bool {
        false
    }

    /// Time between two samples.
    fn sample_every(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Called at each sample and at the end, with everything since the start.
    fn sample(&mut self, _at_seconds: f64, _reading: &TcpReading) {}
}

/// Nobody looks.
impl TcpWatch for () {}

/// The loaded client and server.
#[allow(missing_debug_implementations, reason = "a generated skeleton has none")]
pub struct Engine {
    pub(super) skel: TcpSkel<'static>,
    capacity: u32,
}

impl Engine {
    /// Loads the programs with room for `capacity` connections at once, 68 bytes each.
    ///
    /// # Errors
    /// The kernel refuses the programs, or there is no room.
    pub fn load(capacity: u32) -> Result<Self, TrafficError> {
        if capacity > MAX_CONNECTIONS {
            return Err(TrafficError::Impossible(format!(
                "room for {capacity} connections: an engine holds up to {MAX_CONNECTIONS}"
            )));
        }
        // The skeleton borrows its object for as long as it lives; an engine lives as long as the run.
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open =
            TcpSkelBuilder::default().open(storage).map_err(TrafficError::bpf("opening bpf/traffic/tcp"))?;
        let capacity = capacity.max(1);
        open.maps
            .connections
            .set_max_entries(capacity)
            .map_err(TrafficError::bpf("sizing the connection table"))?;
        open.maps
            .order
            .set_max_entries(capacity.div_ceil(SLOTS_PER_PAGE as u32))
            .map_err(TrafficError::bpf("sizing the order of tuples"))?;
        let skel = open.load().map_err(TrafficError::bpf("loading bpf/traffic/tcp"))?;
        Ok(Self { skel, capacity })
    }

    /// Bytes of memory that the kernel holds for the connections, their order and all else that the programs keep.
    pub fn memory_bytes(&self) -> u64 {
        let maps = &self.skel.maps;
        [maps.connections.as_fd(), maps.order.as_fd(), maps.bss.as_fd()].into_iter().map(map_bytes).sum()
    }

    /// Takes the ports into use: those of `ends`.
    ///
    /// # Errors
    /// An interface is gone, or its driver has no XDP.
    pub fn attach(&mut self, client: &Port, server: &Port, ends: Ends) -> Result<Ports, TrafficError> {
        let programs = &self.skel.progs;
        let mut links = Vec::new();
        if ends != Ends::Server {
            links.push(self.attach_one(client, CLIENT_PORT, &programs.client)?);
        }
        if ends != Ends::Client {
            links.push(self.attach_one(server, SERVER_PORT, &programs.server)?);
        }
        Ok(Ports::new(client, server, ends, links))
    }

    pub(super) fn attach_one(
        &self,
        port: &Port,
        slot: u32,
        program: &ProgramMut<'_>,
    ) -> Result<Link, TrafficError> {
        let link = namespace::inside(port.namespace.as_deref(), || program.attach_xdp(port.ifindex as i32))?
            .map_err(TrafficError::bpf(format!("taking port {} into use", port.ifindex)))?;
        self.send_through(port, slot)?;
        Ok(link)
    }

    /// Makes a port the one that the programs send through. Several pairs may be attached, one of them at a time is used.
    fn send_through(&self, port: &Port, slot: u32) -> Result<(), TrafficError> {
        let ports = &self.skel.maps.ports;
        namespace::inside(port.namespace.as_deref(), || {
            ports.update(&slot.to_ne_bytes(), &port.ifindex.to_ne_bytes(), MapFlags::ANY)
        })?
        .map_err(TrafficError::bpf(format!("sending through port {}", port.ifindex)))
    }

    /// Turns the programs to these ports.
    fn select(&self, ports: &Ports) -> Result<(), TrafficError> {
        if ports.ends != Ends::Server {
            self.send_through(&ports.client, CLIENT_PORT)?;
        }
        if ports.ends != Ends::Client {
            self.send_through(&ports.server, SERVER_PORT)?;
        }
        Ok(())
    }

    pub(super) fn state(&self) -> *mut types::bss {
        let state =
            self.skel.maps.bss_data.as_ref().map(|data| std::ptr::from_ref::<types::bss>(data).cast_mut());
        state.unwrap_or(std::ptr::null_mut())
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut types::bss)) {
        if let Some(state) = self.skel.maps.bss_data.as_mut() {
            change(state);
        }
    }

    /// Runs `plan`, telling `watch` how it goes.
    ///
    /// # Errors
    /// The kernel refuses, the plan is impossible, or the watcher interrupts.
    pub fn run(
        &mut self,
        ports: &Ports,
        plan: &TcpPlan,
        watch: &mut dyn TcpWatch,
    ) -> Result<TcpReading, TrafficError> {
        let started = self.start(ports, plan)?;
        self.follow(&started, plan.seconds(), plan, watch)?;
        self.change(|state| state.control.closing = 1);
        self.settle(plan, watch)?;
        self.end(started, plan, watch)
    }

    /// Opens `plan`'s connections, which are to be held ([`Close::Never`]), then sends a request on every one that is
    /// open and waits for the answers. Returns what it was like when all were open, and at the end; `verified` of the
    /// second is the proven capacity.
    ///
    /// # Errors
    /// As [`Engine::run`]; or the plan closes its connections.
    pub fn open_all_and_verify(
        &mut self,
        ports: &Ports,
        plan: &TcpPlan,
        watch: &mut dyn TcpWatch,
    ) -> Result<(TcpReading, TcpReading), TrafficError> {
        if plan.close != Close::Never {
            return Err(TrafficError::Impossible(
                "a proof of capacity holds its connections open: the plan closes them".to_owned(),
            ));
        }
        let (mut started, all_open) = self.open_all(ports, plan, watch)?;
        self.verify_all(&mut started, plan, watch)?;
        self.change(|state| state.control.closing = 1);
        self.settle(plan, watch)?;
        Ok((all_open, self.end(started, plan, watch)?))
    }

    /// Opens all connections and waits until nothing is under way on them.
    pub(super) fn open_all(
        &mut self,
        ports: &Ports,
        plan: &TcpPlan,
        watch: &mut dyn TcpWatch,
    ) -> Result<(Started, TcpReading), TrafficError> {
        let started = self.start(ports, plan)?;
        self.follow(&started, plan.seconds(), plan, watch)?;
        let idle = |c: &TcpCounts| c.completed.max(if plan.transactions == 0 { c.established } else { 0 });
        self.wait_until(plan.settle, watch, |c| idle(c) + c.failed() >= c.opened)?;
        let all_open = TcpReading::take(self.state(), &started.asked);
        Ok((started, all_open))
    }

    /// Sends a request on every open connection and waits for the answers.
    pub(super) fn verify_all(
        &mut self,
        started: &mut Started,
        plan: &TcpPlan,
        watch: &dyn TcpWatch,
    ) -> Result<(), TrafficError> {
        let before = reading::counts(self.state());
        started.asked.verified = true;
        self.change(|state| state.control.round = 1);
        self.wait_until(plan.settle, watch, |c| c.verified + c.failed() - before.failed() >= before.open())
    }

    /// Serves strangers with `plan`'s answer while `work` runs. Opens nothing.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn serve(
        &mut self,
        ports: &Ports,
        plan: &TcpPlan,
        work: impl FnOnce(),
    ) -> Result<TcpReading, TrafficError> {
        let mut plan = plan.clone();
        plan.opening = Opening::Scheduled(vec![super::TcpPhase::constant(0.0, 1.0)]);
        let started = self.start(ports, &plan)?;
        work();
        self.end(started, &plan, &mut ())
    }

    pub(super) fn start(&mut self, ports: &Ports, plan: &TcpPlan) -> Result<Started, TrafficError> {
        check(plan, self.capacity)?;
        attack::check_ports(plan, &ports.client, &ports.server)?;
        self.select(ports)?;
        let schedules =
            (0..plan.cores.len()).map(|core| steps::for_core(plan, core)).collect::<Result<Vec<_>, _>>()?;
        if ports.ends == Ends::Server && schedules.iter().any(|s| s.offered() > 0) {
            return Err(TrafficError::Impossible(
                "connections to open, and the client is a stranger".to_owned(),
            ));
        }
        self.write_order(plan)?;
        self.write_control(ports, plan, &schedules);
        let program = self.skel.progs.client_turn.as_fd();
        let batch = batch_size(plan);
        let senders = plan
            .cores
            .iter()
            .map(|&core| LiveSender::start(program, &[0; RECYCLED_BYTES], core, batch, None))
            .collect::<Result<Vec<_>, _>>()?;
        self.wait_for_generators(plan, &senders)?;
        let start_ns = Clock::now_ns() + START_DELAY.as_nanos() as u64;
        self.change(|state| state.control.start_ns = start_ns);
        let offered = match plan.opening {
            Opening::Fastest(_) => 0,
            _ => schedules.iter().map(Steps::offered).sum(),
        };
        Ok(Started { senders, start: Instant::now() + START_DELAY, asked: Asked::of(plan, offered) })
    }

    fn write_order(&mut self, plan: &TcpPlan) -> Result<(), TrafficError> {
        let mut slots: Vec<u32> = (0..plan.tuples).collect();
        if plan.order == Order::Random {
            let mut random = SplitMix64::new(plan.seed);
            for core in 0..plan.cores.len() {
                let (first, count) = slice(plan, core);
                random.shuffle(&mut slots[first as usize..(first + count) as usize]);
            }
        }
        for (page, slots) in slots.chunks(SLOTS_PER_PAGE).enumerate() {
            let mut bytes: Vec<u8> = slots.iter().flat_map(|slot| slot.to_ne_bytes()).collect();
            bytes.resize(SLOTS_PER_PAGE * 4, 0);
            self.skel
                .maps
                .order
                .update(&(page as u32).to_ne_bytes(), &bytes, MapFlags::ANY)
                .map_err(TrafficError::bpf("writing the order of tuples"))?;
        }
        Ok(())
    }

    fn wait_for_generators(&self, plan: &TcpPlan, senders: &[LiveSender]) -> Result<(), TrafficError> {
        let begun = Instant::now();
        while begun.elapsed() < SETUP_LIMIT {
            // One that has ended says why when the run ends.
            if senders.iter().any(LiveSender::is_finished)
                || plan.cores.iter().all(|&core| reading::turns(self.state(), core) > 0)
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(TrafficError::Impossible(format!(
            "the generators of cores {:?} took no turn within {} s",
            plan.cores,
            SETUP_LIMIT.as_secs()
        )))
    }

    /// Waits for the schedule to end.
    pub(super) fn follow(
        &self,
        started: &Started,
        total: f64,
        plan: &TcpPlan,
        watch: &mut dyn TcpWatch,
    ) -> Result<(), TrafficError> {
        let every = watch.sample_every().as_secs_f64().max(0.001);
        let mut next_sample = every;
        loop {
            let now = Instant::now().saturating_duration_since(started.start).as_secs_f64();
            let wanted = if now < total { total.min(next_sample) - now } else { 0.002 };
            std::thread::sleep(Duration::from_secs_f64(wanted.clamp(0.0005, 0.1)));
            if watch.interrupted() {
                return Err(TrafficError::Interrupted);
            }
            let now = Instant::now().saturating_duration_since(started.start).as_secs_f64();
            if now >= next_sample && now < total {
                watch.sample(now, &TcpReading::take(self.state(), &started.asked));
                next_sample = ((now / every).floor() + 1.0) * every;
            }
            let finished = plan.cores.iter().all(|&core| {
                reading::finished(self.state(), core) != 0
                    && (plan.attack.is_none() || reading::attack_finished(self.state(), core) != 0)
            });
            if finished
                || now > total + plan.grace.as_secs_f64() + 2.0
                || started.senders.iter().any(LiveSender::is_finished)
            {
                return Ok(());
            }
        }
    }

    pub(super) fn settle(&self, plan: &TcpPlan, watch: &dyn TcpWatch) -> Result<(), TrafficError> {
        self.wait_until(plan.settle, watch, |c| c.open() == 0)
    }

    /// Waits until `done`, at most `longest` after the last time that anything changed.
    fn wait_until(
        &self,
        longest: Duration,
        watch: &dyn TcpWatch,
        done: impl Fn(&TcpCounts) -> bool,
    ) -> Result<(), TrafficError> {
        let mut last = (Instant::now(), TcpCounts::default());
        loop {
            let counts = reading::counts(self.state());
            if done(&counts) {
                return Ok(());
            }
            // Whatever changed while this thread was kept from its core was progress, too.
            if counts != last.1 {
                last = (Instant::now(), counts);
            } else if last.0.elapsed() >= longest {
                return Ok(());
            }
            if watch.interrupted() {
                return Err(TrafficError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn end(
        &mut self,
        started: Started,
        plan: &TcpPlan,
        watch: &mut dyn TcpWatch,
    ) -> Result<TcpReading, TrafficError> {
        let finished = plan.cores.iter().map(|&core| to_seconds(reading::finished(self.state(), core)));
        let seconds = finished.fold(0.0, f64::max);
        for sender in started.senders {
            sender.stop()?;
        }
        let mut last = TcpReading::take(self.state(), &started.asked);
        if matches!(plan.opening, Opening::Fastest(_)) {
            last.offered = last.counts.attempted + last.beside.illegal_attempts();
        }
        watch.sample(seconds, &last);
        Ok(last)
    }
}

/// A run under way.
pub(super) struct Started {
    pub(super) senders: Vec<LiveSender>,
    start: Instant,
    pub(super) asked: Asked,
}

/// What the kernel says that a map takes; 0 where it does not say.
fn map_bytes(map: BorrowedFd<'_>) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd())).unwrap_or_default();
    let bytes = text.lines().find_map(|line| line.strip_prefix("memlock:"));
    bytes.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}

/// Turns between two flushes of the link: few where a SYN must not wait for others, since that wait would be measured.
fn batch_size(plan: &TcpPlan) -> u32 {
    match fastest_per_core(plan) + attack::rate_per_core(plan) {
        rate if rate < 100_000.0 => 4,
        rate if rate < 500_000.0 => 16,
        _ => 64,
    }
}
