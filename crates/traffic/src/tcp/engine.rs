//! The loaded TCP client and server: ports, runs, capacity. One engine serves one pair of ports at a time.

use super::check::check;
use super::plan::{Answer, Close, Opening, Order, Side, TcpPlan};
use super::reading::{self, TcpCounts, TcpReading};
use super::skeleton::{
    MAX_CORES, MAX_SEGMENT_BYTES, SLOTS_PER_PAGE, TICK_SHIFT, TcpSkel, TcpSkelBuilder, types,
};
use super::steps::{self, Steps};
use crate::frames::Port;
use crate::live::LiveSender;
use crate::random::{SplitMix64, mix};
use crate::schedule::{to_schedule, to_seconds};
use crate::{Clock, TrafficError, namespace};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, ProgramMut};
use measure::shape::IpVersion;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Slots of the device map.
pub(super) const CLIENT_PORT: u32 = 0;
pub(super) const SERVER_PORT: u32 = 1;
/// What `divide()` in `bpf/traffic/tcp_open.h` is exact for.
const MAX_CONNECTIONS: u32 = 1 << 24;
/// From the moment when all generators turn to the start of the schedule.
const START_DELAY: Duration = Duration::from_millis(1);
/// Longest wait for the generators' first turn; clearing ten million connections takes a fraction of it.
const SETUP_LIMIT: Duration = Duration::from_secs(20);
/// A start that never comes: the generators turn and clear.
const NOT_YET: u64 = u64::MAX;
/// The recycled frame is longer than every segment, so that each sets its length anew: where a program leaves it as it is,
/// the kernel (6.18) sends the length that the page's last receiver gave it.
pub(super) const RECYCLED_BYTES: usize = 1520;
/// Connections a second and core up to which every connection is timed; above, one in sixteen.
const TIME_ALL_UP_TO: f64 = 100_000.0;

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
            TcpSkelBuilder::default().open(storage).map_err(TrafficError::bpf("opening bpf/tcp"))?;
        let capacity = capacity.max(1);
        open.maps
            .connections
            .set_max_entries(capacity)
            .map_err(TrafficError::bpf("sizing the connection table"))?;
        open.maps
            .order
            .set_max_entries(capacity.div_ceil(SLOTS_PER_PAGE as u32))
            .map_err(TrafficError::bpf("sizing the order of tuples"))?;
        let skel = open.load().map_err(TrafficError::bpf("loading bpf/tcp"))?;
        Ok(Self { skel, capacity })
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
        let ports = &self.skel.maps.ports;
        namespace::inside(port.namespace.as_deref(), || {
            let link = program.attach_xdp(port.ifindex as i32)?;
            ports.update(&slot.to_ne_bytes(), &port.ifindex.to_ne_bytes(), MapFlags::ANY)?;
            Ok(link)
        })?
        .map_err(TrafficError::bpf(format!("taking port {} into use", port.ifindex)))
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
        let started = self.start(ports, plan)?;
        self.follow(&started, plan.seconds(), plan, watch)?;
        let idle = |c: &TcpCounts| c.completed.max(if plan.transactions == 0 { c.established } else { 0 });
        self.wait_until(plan.settle, watch, |c| idle(c) + c.failed() >= c.opened)?;
        let all_open = TcpReading::take(self.state(), started.offered);
        self.change(|state| state.control.round = 1);
        let to_verify = all_open.counts.open();
        self.wait_until(plan.settle, watch, |c| {
            c.verified + c.failed() - all_open.counts.failed() >= to_verify
        })?;
        self.change(|state| state.control.closing = 1);
        self.settle(plan, watch)?;
        Ok((all_open, self.end(started, plan, watch)?))
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

    fn start(&mut self, ports: &Ports, plan: &TcpPlan) -> Result<Started, TrafficError> {
        check(plan, self.capacity)?;
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
        self.wait_for_generators(plan, &senders);
        let start_ns = Clock::now_ns() + START_DELAY.as_nanos() as u64;
        self.change(|state| state.control.start_ns = start_ns);
        let offered = match plan.opening {
            Opening::Fastest(_) => 0,
            _ => schedules.iter().map(Steps::offered).sum(),
        };
        Ok(Started { senders, start: Instant::now() + START_DELAY, offered })
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

    pub(super) fn write_control(&mut self, ports: &Ports, plan: &TcpPlan, schedules: &[Steps]) {
        let mut control = control_of(plan);
        control.secret = mix(plan.seed) as u32;
        control.client_mac = ports.client.mac;
        control.next_hop_mac = ports.client.next_hop_mac;
        control.client = side(&ports.client, &plan.clients);
        control.server = side(&ports.server, &plan.servers);
        control.listens = side(&ports.server, plan.listens.as_ref().unwrap_or(&plan.servers));
        let first = &schedules[0].steps;
        control.steps[..first.len()].copy_from_slice(first);
        control.step_count = first.len() as u32;
        self.change(|state| {
            state.control = control;
            for core in &mut state.cores {
                core.clear();
            }
            for (&core, schedule) in plan.cores.iter().zip(schedules) {
                state.cores[core].due = schedule.first_due;
            }
            plan.request.write(&mut state.request, plan.segment_bytes());
            match &plan.answer {
                Answer::Exactly(answer) => answer.write(&mut state.answer, plan.segment_bytes()),
                Answer::UntilFin => state.answer.bytes = 0,
            }
        });
    }

    fn wait_for_generators(&self, plan: &TcpPlan, senders: &[LiveSender]) {
        let begun = Instant::now();
        while begun.elapsed() < SETUP_LIMIT && !senders.iter().any(LiveSender::is_finished) {
            if plan.cores.iter().all(|&core| reading::turns(self.state(), core) > 0) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for the schedule to end.
    fn follow(
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
                watch.sample(now, &TcpReading::take(self.state(), started.offered));
                next_sample = ((now / every).floor() + 1.0) * every;
            }
            let finished = plan.cores.iter().all(|&core| reading::finished(self.state(), core) != 0);
            if finished
                || now > total + plan.grace.as_secs_f64() + 2.0
                || started.senders.iter().any(LiveSender::is_finished)
            {
                return Ok(());
            }
        }
    }

    fn settle(&self, plan: &TcpPlan, watch: &dyn TcpWatch) -> Result<(), TrafficError> {
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
            if done(&counts) || last.0.elapsed() >= longest {
                return Ok(());
            }
            if counts != last.1 {
                last = (Instant::now(), counts);
            }
            if watch.interrupted() {
                return Err(TrafficError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(
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
        let mut last = TcpReading::take(self.state(), started.offered);
        if matches!(plan.opening, Opening::Fastest(_)) {
            last.offered = last.counts.attempted;
        }
        watch.sample(seconds, &last);
        Ok(last)
    }
}

/// A run under way.
struct Started {
    senders: Vec<LiveSender>,
    start: Instant,
    offered: u64,
}

impl types::tcp_core {
    fn clear(&mut self) {
        let times = types::tcp_times::default();
        self.times.fill(times);
        self.count.fill(0);
        (self.due, self.now, self.largest_lag, self.turns, self.finished) = (0, 0, 0, 0, 0);
        (self.opened, self.ended) = (0, 0);
        (self.step, self.order_next, self.scan_next, self.scan_began) = (0, 0, 0, 0);
        (self.deferred_in, self.deferred_out, self.foreign) = (0, 0, 0);
    }
}

/// Core number `core`'s first tuple and how many it has.
fn slice(plan: &TcpPlan, core: usize) -> (u32, u32) {
    let part = |n: usize| (u64::from(plan.tuples) * n as u64 / plan.cores.len() as u64) as u32;
    (part(core), part(core + 1) - part(core))
}

fn side(port: &Port, side: &Side) -> types::side {
    let mut v6_prefix = [0u32; 4];
    for (word, bytes) in v6_prefix.iter_mut().zip(port.v6_prefix.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    types::side {
        v4_first: port.v4_prefix.wrapping_add(side.first_host),
        hosts: side.hosts,
        v6_prefix,
        v6_first: side.first_host,
        port_first: u32::from(side.first_port),
        ports: side.ports,
        pad: 0,
    }
}

/// See `divide()` in `bpf/traffic/tcp_open.h`.
fn inverse(divisor: u32) -> u64 {
    (1 << 40) / u64::from(divisor) + 1
}

fn ticks(duration: Duration) -> u32 {
    (duration.as_nanos().div_ceil(1 << TICK_SHIFT)).min(u128::from(u32::MAX >> 1)) as u32
}

fn offers(plan: &TcpPlan) -> u32 {
    let options = plan.options;
    u32::from(options.mss)
        | u32::from(options.window_scale.is_some()) << 1
        | u32::from(options.sack) << 2
        | u32::from(options.timestamps) << 3
}

/// All of the control block that follows from the plan alone.
fn control_of(plan: &TcpPlan) -> types::tcp_control {
    let segment_bytes = plan.segment_bytes().min(MAX_SEGMENT_BYTES as u32);
    let mut control = types::tcp_control {
        start_ns: NOT_YET,
        last_start: to_schedule(plan.seconds() + plan.grace.as_secs_f64()),
        unpaced: u32::from(matches!(plan.opening, Opening::Fastest(_))),
        ip_version: if plan.ip == IpVersion::V4 { 4 } else { 6 },
        client_port: CLIENT_PORT,
        server_port: SERVER_PORT,
        slots: plan.tuples,
        client_hosts_inverse: inverse(plan.clients.hosts),
        server_hosts_inverse: inverse(plan.servers.hosts),
        server_ports_inverse: inverse(plan.servers.ports),
        keeps_open: u32::from(matches!(plan.opening, Opening::KeepOpen(..))),
        offers: offers(plan),
        mss: plan.mss(),
        window_scale: u32::from(plan.options.window_scale.unwrap_or(0)),
        window: 65_535,
        // One segment under way: whoever sends a longer request waits for each acknowledgement.
        server_window: segment_bytes,
        segment_bytes,
        transactions: u32::from(plan.transactions),
        close: match plan.close {
            Close::Reset => 0,
            Close::ClientFin => 1,
            Close::ServerFin => 2,
            Close::Never => 3,
        },
        four_way: u32::from(plan.four_way),
        hold_ticks: ticks(plan.hold),
        reuse_ticks: ticks(plan.reuse),
        retry_ticks: ticks(plan.retry),
        retries: u32::from(plan.retries),
        scan_ticks: scan_ticks(plan),
        sample_mask: sample_mask(plan),
        check_request: 1,
        deferred_cores: MAX_CORES as u32,
        ..Default::default()
    };
    for (number, &core) in plan.cores.iter().enumerate() {
        (control.slot_first[core], control.slot_count[core]) = slice(plan, number);
        control.number[core] = number as u32 + 1;
        if let Opening::KeepOpen(open, _) = plan.opening {
            let cores = plan.cores.len() as u32;
            control.target_open[core] = open / cores + u32::from((number as u32) < open % cores);
        }
    }
    control
}

fn fastest_per_core(plan: &TcpPlan) -> f64 {
    match plan.opening {
        Opening::Fastest(_) => f64::INFINITY,
        _ => plan.phases().iter().map(|p| p.from.max(p.to)).fold(0.0, f64::max) / plan.cores.len() as f64,
    }
}

/// Time-outs are noticed at most a quarter late.
fn scan_ticks(plan: &TcpPlan) -> u32 {
    let hold = if plan.hold.is_zero() { u32::MAX } else { ticks(plan.hold) };
    (ticks(plan.retry).min(hold) / 4).clamp(4, 256)
}

fn sample_mask(plan: &TcpPlan) -> u32 {
    if fastest_per_core(plan) <= TIME_ALL_UP_TO { 0 } else { 15 }
}

/// Turns between two flushes of the link: few where a SYN must not wait for others, since that wait would be measured.
fn batch_size(plan: &TcpPlan) -> u32 {
    match fastest_per_core(plan) {
        rate if rate < 100_000.0 => 4,
        rate if rate < 500_000.0 => 16,
        _ => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_the_inverse_is_exact() {
        let mut random = SplitMix64::new(1);
        for divisor in [1, 2, 3, 7, 200, 32_256, 64_512, 65_535, 65_536] {
            let edges = (0..256).flat_map(|n| [n * divisor, (n + 1) * divisor - 1]);
            let any = (0..10_000).map(|_| random.below(1 << 24) as u32).collect::<Vec<_>>();
            for slot in edges.chain(any).chain([MAX_CONNECTIONS - 1]).filter(|&s| s < MAX_CONNECTIONS) {
                let quotient = (u64::from(slot).wrapping_mul(inverse(divisor)) >> 40) as u32;
                assert_eq!(quotient, slot / divisor, "{slot} / {divisor}");
            }
        }
    }
}
