//! The loaded TCP client and server: ports, runs, capacity. Several pairs of ports may be attached; a run uses one of them.

use super::attack;
use super::check::check;
use super::control::{CLIENT_PORT, MAX_CONNECTIONS, SERVER_PORT, fastest_per_core, slice};
use super::looks::Looks;
use super::outcome::Asked;
use super::plan::{Close, Opening, Order, TcpPlan};
use super::reading::{self, TcpCounts, TcpReading};
use super::skeleton::{SLOTS_PER_PAGE, TcpSkel, TcpSkelBuilder, types};
use super::steps::{self, Steps};
use crate::TrafficError;
use crate::harness::{self, Apart, LiveSender, Memory, Port, Run, Watch, attach, send_through, wait_until};
use crate::random::SplitMix64;
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// The recycled frame is longer than every segment, so that each sets its length anew: where a program leaves it as it is,
/// the kernel (6.18) sends the length that the page's last receiver gave it.
pub(super) const RECYCLED_BYTES: usize = 1520;

/// The last segments of a run are taken to have arrived, or to be lost, when none has arrived for so long: longer than a busy machine
/// keeps a receiver from its core. A run that has lost none does not wait.
const ARRIVING: Duration = Duration::from_millis(500);

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

/// Programs that keep the kernel's verifier so long that they are loaded side by side.
const LARGE: [&str; 3] = ["client_turn", "client", "server"];

/// The two ports of a run. Detached when dropped.
#[derive(Debug)]
pub struct Ports {
    pub(super) client: Port,
    pub(super) server: Port,
    pub(super) ends: Ends,
    _links: Vec<Link>,
}

/// The loaded client and server.
#[allow(missing_debug_implementations, reason = "a generated skeleton has none")]
pub struct Engine {
    pub(super) skel: TcpSkel<'static>,
    large: Apart<TcpSkel<'static>>,
    pub(super) memory: Memory<types::bss>,
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
        let capacity = capacity.max(1);
        let is_small = |program: &str| !LARGE.contains(&program);
        let mut skel = harness::load(TcpSkelBuilder::default(), "bpf/traffic/tcp", is_small, |open| {
            open.maps.connections.set_max_entries(capacity)?;
            open.maps.order.set_max_entries(capacity.div_ceil(SLOTS_PER_PAGE as u32))
        })?;
        let mut large = Apart::default();
        large.load(TcpSkelBuilder::default, skel.object(), &LARGE)?;
        Ok(Self { memory: Memory::take(&mut skel.maps.bss_data)?, skel, large, capacity })
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
        let [at_client, at_server] = [self.large.program("client")?, self.large.program("server")?];
        self.attach_as(client, server, ends, &at_client, &at_server)
    }

    pub(super) fn attach_as(
        &self,
        client: &Port,
        server: &Port,
        ends: Ends,
        at_client: &ProgramMut<'_>,
        at_server: &ProgramMut<'_>,
    ) -> Result<Ports, TrafficError> {
        let mut links = Vec::new();
        if ends != Ends::Server {
            links.push(attach(client, at_client)?);
        }
        if ends != Ends::Client {
            links.push(attach(server, at_server)?);
        }
        let ports = Ports { client: client.clone(), server: server.clone(), ends, _links: links };
        self.select(&ports)?;
        Ok(ports)
    }

    /// Makes these ports the ones that the programs send through.
    fn select(&self, ports: &Ports) -> Result<(), TrafficError> {
        if ports.ends != Ends::Server {
            send_through(&ports.client, &self.skel.maps.ports, CLIENT_PORT)?;
        }
        if ports.ends != Ends::Client {
            send_through(&ports.server, &self.skel.maps.ports, SERVER_PORT)?;
        }
        Ok(())
    }

    /// Runs `plan`, telling `watch` how it goes.
    ///
    /// # Errors
    /// The kernel refuses, the plan is impossible, or the watcher interrupts.
    pub fn run(
        &mut self,
        ports: &Ports,
        plan: &TcpPlan,
        watch: &mut dyn Watch<TcpReading>,
    ) -> Result<TcpReading, TrafficError> {
        let mut running = self.start(ports, plan, watch)?;
        running.follow()?;
        running.settle()?;
        running.end()
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
        watch: &mut dyn Watch<TcpReading>,
    ) -> Result<(TcpReading, TcpReading), TrafficError> {
        if plan.close != Close::Never {
            return Err(TrafficError::Impossible(
                "a proof of capacity holds its connections open: the plan closes them".to_owned(),
            ));
        }
        let mut running = self.start(ports, plan, watch)?;
        let all_open = running.open_all()?;
        running.verify_all()?;
        running.settle()?;
        Ok((all_open, running.end()?))
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
        let opening = Opening::Scheduled(vec![super::TcpPhase::constant(0.0, 1.0)]);
        let plan = TcpPlan { opening, ..plan.clone() };
        let mut nobody = ();
        let running = self.start(ports, &plan, &mut nobody)?;
        work();
        running.end()
    }

    /// Begins a run.
    pub(super) fn start<'a>(
        &mut self,
        ports: &Ports,
        plan: &'a TcpPlan,
        watch: &'a mut dyn Watch<TcpReading>,
    ) -> Result<Running<'a>, TrafficError> {
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
        self.write_control(ports, plan, &schedules)?;
        let program = self.large.program("client_turn")?;
        let program = program.as_fd();
        let senders = LiveSender::start_all(program, &[0; RECYCLED_BYTES], &plan.cores, batch_size(plan))?;
        let run = Run::begin(&mut self.memory, &plan.cores, senders)?;
        let offered = match plan.opening {
            Opening::Fastest(_) => 0,
            _ => schedules.iter().map(Steps::offered).sum(),
        };
        let asked = Asked::of(plan, offered, ports.ends == Ends::Both);
        Ok(Running { memory: self.memory, run, plan, watch, asked, looks: Looks::at(plan) })
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
}

/// A run under way.
pub(super) struct Running<'a> {
    pub(super) memory: Memory<types::bss>,
    pub(super) run: Run<types::bss>,
    pub(super) plan: &'a TcpPlan,
    pub(super) watch: &'a mut dyn Watch<TcpReading>,
    asked: Asked,
    looks: Looks,
}

impl Running<'_> {
    /// Waits for the schedule to end.
    pub(super) fn follow(&mut self) -> Result<(), TrafficError> {
        let Self { memory, run, plan, watch, asked, looks } = self;
        let grace = plan.grace.as_secs_f64();
        run.follow(plan.seconds(), grace, &mut **watch, |watch, at, samples| {
            looks.look(|| run.elapsed(), || reading::counts(*memory));
            if samples {
                watch.sample(at, &TcpReading::take(*memory, asked));
            }
        })
    }

    /// Opens all connections and waits until nothing is under way on them.
    pub(super) fn open_all(&mut self) -> Result<TcpReading, TrafficError> {
        self.follow()?;
        let done = self.looks.done;
        self.wait_until(|c| done.count(c) + c.failed() >= c.opened)?;
        Ok(TcpReading::take(self.memory, &self.asked))
    }

    /// Sends a request on every open connection and waits for the answers.
    pub(super) fn verify_all(&mut self) -> Result<(), TrafficError> {
        let before = reading::counts(self.memory);
        self.asked.verified = true;
        self.memory.change(|state| state.control.round = 1);
        self.wait_until(|c| c.verified + c.failed() - before.failed() >= before.open())
    }

    /// Has what is held closed, and waits until nothing is open.
    pub(super) fn settle(&mut self) -> Result<(), TrafficError> {
        self.memory.change(|state| state.control.closing = 1);
        self.wait_until(|c| c.open() == 0)?;
        if !self.asked.serves {
            return Ok(());
        }
        // The client does not wait for its last segments to arrive; some may be lost.
        let counts = || reading::counts(self.memory);
        wait_until(ARRIVING, || self.watch.interrupted(), counts, all_arrived).map(drop)
    }

    /// Waits until `done`, at most as long as the plan says after the last time that anything changed.
    fn wait_until(&mut self, done: impl Fn(&TcpCounts) -> bool) -> Result<(), TrafficError> {
        let Self { memory, run, plan, watch, looks, .. } = self;
        let counts = || looks.look(|| run.elapsed(), || reading::counts(*memory));
        wait_until(plan.settle, || watch.interrupted(), counts, done).map(drop)
    }

    pub(super) fn end(self) -> Result<TcpReading, TrafficError> {
        let Self { memory, run, plan, watch, asked, mut looks } = self;
        let (seconds, elapsed) = (run.seconds(), run.elapsed());
        run.end()?;
        if asked.serves {
            // The generator has priority over the kernel's thread that receives on its core. What waited for that thread arrives now.
            let counts = || reading::counts(memory);
            wait_until(ARRIVING, || false, counts, all_arrived)?;
        }
        let mut last = TcpReading::take(memory, &asked);
        if matches!(plan.opening, Opening::Fastest(_)) {
            last.offered = last.counts.attempted + last.beside.illegal_attempts();
        }
        looks.keep(elapsed, &last.counts);
        last.looks = looks.seen;
        watch.sample(seconds, &last);
        Ok(last)
    }
}

/// Whether every end of a connection that the client sent is at the server.
const fn all_arrived(counts: &TcpCounts) -> bool {
    counts.server_reset + counts.server_fin >= counts.closed
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
