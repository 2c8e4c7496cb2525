//! The loaded BPF object: ports, flows, trials, probes. One engine serves all beds of a run, one trial at a time.

use crate::flows;
use crate::frames::{self, Arrival, Port, ProbeFrame};
use crate::live::LiveSender;
use crate::namespace;
use crate::neighbours;
use crate::reading::{Reading, StreamCounts};
use crate::schedule::{self, Schedule};
use crate::skeleton::{
    FLOWS_PER_PAGE, FramesSkel, FramesSkelBuilder, MAX_CORES, MAX_LANES, MAX_PORTS, MAX_PROBES,
    PROBE_FRAME_BYTES, types,
};
use crate::{Clock, TrafficError};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags};
use measure::shape::{IpVersion, Lane, Placement, TrafficShape, Zone};
use measure::trial::{Load, Phase};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// From the moment when all senders turn to the start of the schedule.
const START_DELAY: Duration = Duration::from_millis(1);
/// Longest wait for the senders' first turn: setting up live frames takes some 10 ms.
const SETUP_LIMIT: Duration = Duration::from_secs(5);
/// A start that never comes: the senders turn and wait.
pub(crate) const NOT_YET: u64 = u64::MAX;
/// A trial is over when nothing arrived for this long after the last frame was sent (RFC 2544 section 23 waits 2 s
/// for a box between two cables; a link in memory delivers at once).
pub const SETTLE: Duration = Duration::from_millis(60);

/// A zone's port that an engine uses. Detached when dropped.
#[derive(Debug)]
pub(crate) struct AttachedPort {
    port: Port,
    slot: u32,
    _sink: Link,
}

/// The ports of one bed.
#[derive(Debug, Default)]
pub struct Ports(Vec<AttachedPort>);

impl Ports {
    fn of(&self, zone: Zone) -> Result<&AttachedPort, TrafficError> {
        self.0
            .iter()
            .find(|p| p.port.zone == zone)
            .ok_or_else(|| TrafficError::Impossible(format!("this bed has no {} zone", zone.name())))
    }

    /// Tells where frames of a zone go from now on, once that is known (see [`Engine::resolve`]).
    ///
    /// # Errors
    /// The bed has no such zone.
    pub fn set_next_hop(&mut self, zone: Zone, mac: [u8; 6]) -> Result<(), TrafficError> {
        self.of(zone)?;
        for attached in self.0.iter_mut().filter(|attached| attached.port.zone == zone) {
            attached.port.next_hop_mac = mac;
        }
        Ok(())
    }

    /// The place of a zone's port in the ports map.
    pub(crate) fn slot(&self, zone: Zone) -> Result<u32, TrafficError> {
        Ok(self.of(zone)?.slot)
    }

    /// The port of a zone.
    pub(crate) fn port(&self, zone: Zone) -> Result<&Port, TrafficError> {
        Ok(&self.of(zone)?.port)
    }
}

/// What a trial sends.
#[derive(Debug, Clone)]
pub struct TrialPlan<'a> {
    /// Load over time.
    pub phases: &'a [Phase],
    /// Lanes with their shares of all frames; shares sum to 1.
    pub lanes: &'a [(Lane, f64)],
    /// Where the work is done: decides how a late sender behaves.
    pub placement: Placement,
    /// Cores that generate.
    pub cores: &'a [usize],
    /// Whether the trial is about when frames arrive rather than how many.
    pub times_matter: bool,
    /// Longest wait for frames still under way after the last was sent.
    pub settle: Duration,
}

/// Whoever follows a trial.
pub trait Watch {
    /// Whether the user asked to stop.
    fn interrupted(&self) -> bool {
        false
    }

    /// Longest time between two ticks. Looking costs the generator a little, so look no oftener than needed.
    fn tick_every(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Called now and then with the seconds since the start and the frames sent and received so far.
    fn tick(&mut self, _at_seconds: f64, _sent: u64, _received: u64) {}

    /// Called once a second and at the end with everything since the start.
    fn second(&mut self, _at_seconds: f64, _reading: &Reading) {}
}

/// Nobody looks.
impl Watch for () {}

/// The loaded generator and sink.
#[allow(missing_debug_implementations, reason = "a generated skeleton has none")]
pub struct Engine {
    skel: FramesSkel<'static>,
    free_slots: Vec<u32>,
    flow_capacity: u32,
    traffic: Option<TrafficShape>,
    recycled: Vec<u8>,
    mark: u16,
}

impl Engine {
    /// Loads the programs with room for `flow_capacity` flows.
    ///
    /// # Errors
    /// The kernel refuses the programs, or there is no room.
    pub fn load(flow_capacity: u32) -> Result<Self, TrafficError> {
        // The skeleton borrows its object for as long as it lives; an engine lives as long as the run.
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = FramesSkelBuilder::default()
            .open(storage)
            .map_err(TrafficError::bpf("opening bpf/traffic/frames"))?;
        let pages = flow_capacity.max(1).div_ceil(FLOWS_PER_PAGE as u32);
        open.maps.flows.set_max_entries(pages).map_err(TrafficError::bpf("sizing the flow table"))?;
        let skel = open.load().map_err(TrafficError::bpf("loading bpf/traffic/frames"))?;
        Ok(Self {
            skel,
            free_slots: (0..MAX_PORTS as u32).rev().collect(),
            flow_capacity: pages * FLOWS_PER_PAGE as u32,
            traffic: None,
            recycled: Vec::new(),
            mark: 0x5242,
        })
    }

    /// Takes a bed's ports into use: frames can be sent from them, and what arrives there is counted.
    ///
    /// # Errors
    /// An interface is gone, or its driver has no XDP.
    pub fn attach(&mut self, ports: &[Port]) -> Result<Ports, TrafficError> {
        let mut attached = Ports::default();
        for port in ports {
            match self.attach_one(port) {
                Ok(port) => attached.0.push(port),
                Err(refused) => {
                    self.detach(attached);
                    return Err(refused);
                }
            }
        }
        Ok(attached)
    }

    fn attach_one(&mut self, port: &Port) -> Result<AttachedPort, TrafficError> {
        let slot = *self
            .free_slots
            .last()
            .ok_or_else(|| TrafficError::Impossible(format!("more than {MAX_PORTS} ports in one run")))?;
        let doing = format!("taking port {} of zone {} into use", port.ifindex, port.zone.name());
        let skel = &self.skel;
        let sink = namespace::inside(port.namespace.as_deref(), || {
            let link = skel.progs.sink.attach_xdp(port.ifindex as i32)?;
            skel.maps.ports.update(&slot.to_ne_bytes(), &port.ifindex.to_ne_bytes(), MapFlags::ANY)?;
            Ok(link)
        })?
        .map_err(TrafficError::bpf(doing))?;
        self.free_slots.pop();
        self.set_identity(slot, neighbours::identity(port));
        Ok(AttachedPort { port: port.clone(), slot, _sink: sink })
    }

    /// Gives a bed's ports back.
    pub fn detach(&mut self, ports: Ports) {
        for attached in ports.0 {
            self.set_identity(attached.slot, types::identity::default());
            // A port whose interface is gone has already left the map.
            let _ = self.skel.maps.ports.delete(&attached.slot.to_ne_bytes());
            self.free_slots.push(attached.slot);
        }
    }

    /// Makes `shape` the traffic of the trials to come; does nothing when it already is.
    ///
    /// # Errors
    /// Frames or flows that the bench cannot send.
    pub fn set_traffic(&mut self, shape: &TrafficShape) -> Result<(), TrafficError> {
        if self.traffic.as_ref() == Some(shape) {
            return Ok(());
        }
        self.traffic = None;
        if shape.flows > self.flow_capacity {
            return Err(TrafficError::Impossible(format!(
                "{} flows: this run was prepared for {}",
                shape.flows, self.flow_capacity
            )));
        }
        self.recycled = frames::recycled_frame(shape);
        let mix = frames::mix(shape, &self.recycled)?;
        self.write_flows(&flows::generate(shape)?)?;
        let filling_offset = frames::filling_offset(shape);
        self.write_filling(filling_offset);
        self.change_control(|control| {
            control.filling_offset = filling_offset as u32;
            control.fragments = shape.fragments;
            control.mix_count = mix.len() as u32;
            control.mix[..mix.len()].copy_from_slice(&mix);
            control.largest_bytes = u32::from(shape.frame.largest().bytes_without_fcs());
            control.ip_version = match shape.ip {
                IpVersion::V4 => 4,
                IpVersion::V6 => 6,
            };
            control.udp_checksum = frames::udp_checksum_wanted(shape);
        });
        self.traffic = Some(shape.clone());
        Ok(())
    }

    /// Gives the generator the filling that it writes afresh; frames larger than its room are made in user space.
    fn write_filling(&mut self, offset: usize) {
        let Some(state) = self.skel.maps.bss_data.as_mut() else { return };
        for (to, from) in state.filling.iter_mut().zip(&self.recycled[offset..]) {
            *to = *from;
        }
    }

    fn write_flows(&mut self, flows: &[types::flow]) -> Result<(), TrafficError> {
        let mut bytes = Vec::with_capacity(FLOWS_PER_PAGE * 8);
        for (page, flows) in flows.chunks(FLOWS_PER_PAGE).enumerate() {
            bytes.clear();
            for flow in flows {
                for field in [flow.client, flow.server, flow.client_port, flow.server_port] {
                    bytes.extend_from_slice(&field.to_ne_bytes());
                }
            }
            bytes.resize(FLOWS_PER_PAGE * 8, 0);
            self.skel
                .maps
                .flows
                .update(&(page as u32).to_ne_bytes(), &bytes, MapFlags::ANY)
                .map_err(TrafficError::bpf("writing the flow table"))?;
        }
        Ok(())
    }

    /// The object's global state, which the kernel's programs share while a trial runs.
    pub(crate) fn state(&self) -> *mut types::bss {
        let state =
            self.skel.maps.bss_data.as_ref().map(|data| std::ptr::from_ref::<types::bss>(data).cast_mut());
        state.unwrap_or(std::ptr::null_mut())
    }

    pub(crate) fn change_control(&mut self, change: impl FnOnce(&mut types::control)) {
        let Some(state) = self.skel.maps.bss_data.as_mut() else { return };
        // No trial runs between two calls that take &mut self, so nobody else touches the control block now.
        change(&mut state.control);
    }

    fn set_identity(&mut self, slot: u32, identity: types::identity) {
        let Some(state) = self.skel.maps.bss_data.as_mut() else { return };
        state.identities[slot as usize] = identity;
    }

    /// What the sink listens for; its earlier answer is forgotten.
    pub(crate) fn ask(&mut self, question: types::question) {
        let Some(state) = self.skel.maps.bss_data.as_mut() else { return };
        state.question = question;
    }

    pub(crate) fn set_bare(&mut self, writes_header: bool) {
        let Some(state) = self.skel.maps.bss_data.as_mut() else { return };
        state.bare_writes_header = u32::from(writes_header);
    }

    /// A whole frame of the largest size with the filling of every frame.
    pub(crate) fn recycled(&self) -> &[u8] {
        &self.recycled
    }

    pub(crate) fn skeleton(&self) -> &FramesSkel<'static> {
        &self.skel
    }

    /// Runs one trial, telling `watch` how it goes.
    ///
    /// # Errors
    /// The kernel refuses, the plan is impossible, or the watcher interrupts.
    pub fn run(
        &mut self,
        ports: &Ports,
        plan: &TrialPlan<'_>,
        watch: &mut dyn Watch,
    ) -> Result<TrialReading, TrafficError> {
        let schedules = self.prepare(ports, plan)?;
        let before = Reading::take(self.state(), plan.cores, plan.lanes.len());
        let senders = self.start_senders(ports, plan)?;
        self.wait_for_senders(plan, &senders);
        self.change_control(|control| control.start_ns = Clock::now_ns() + START_DELAY.as_nanos() as u64);
        self.watch_senders(plan, &senders, &before, watch)?;
        let seconds = plan
            .cores
            .iter()
            .map(|&core| schedule::to_seconds(crate::reading::finished(self.state(), core)))
            .fold(0.0, f64::max);
        self.settle(plan);
        for sender in senders {
            sender.stop()?;
        }
        let after = Reading::take(self.state(), plan.cores, plan.lanes.len()).since(&before);
        watch.second(seconds, &after);
        Ok(self.trial_reading(plan, &schedules, after, seconds))
    }

    /// Starts a sender a core: live frames, or packet sockets for frames that no live frame holds.
    fn start_senders(&self, ports: &Ports, plan: &TrialPlan<'_>) -> Result<Vec<LiveSender>, TrafficError> {
        if self.recycled.len() > usize::from(frames::MAX_LIVE_FRAME_BYTES) {
            return self.start_packet_senders(ports, plan);
        }
        let (program, batch) = (self.skel.progs.generate.as_fd(), batch_size(plan));
        plan.cores.iter().map(|&core| LiveSender::start(program, &self.recycled, core, batch, None)).collect()
    }

    /// Waits for the senders to finish their schedule.
    fn watch_senders(
        &self,
        plan: &TrialPlan<'_>,
        senders: &[LiveSender],
        before: &Reading,
        watch: &mut dyn Watch,
    ) -> Result<(), TrafficError> {
        let start = Instant::now() + START_DELAY;
        let total: f64 = plan.phases.iter().map(|p| p.seconds).sum();
        let give_up = total * 1.2 + 2.0;
        let mut next_second = 1.0;
        loop {
            let now = Instant::now().saturating_duration_since(start).as_secs_f64();
            let pause = if now < total { (total - now).min(next_second - now) } else { 0.002 };
            std::thread::sleep(Duration::from_secs_f64(pause.clamp(0.001, watch.tick_every().as_secs_f64())));
            if watch.interrupted() {
                return Err(TrafficError::Interrupted);
            }
            let now = Instant::now().saturating_duration_since(start).as_secs_f64();
            let counts = Reading::take_counts(self.state(), plan.cores, plan.lanes.len());
            watch.tick(now, counts.iter().map(|s| s.sent).sum(), counts.iter().map(|s| s.received).sum());
            if now >= next_second && now < total {
                watch.second(now, &Reading::take(self.state(), plan.cores, plan.lanes.len()).since(before));
                next_second = now.floor() + 1.0;
            }
            let finished = plan.cores.iter().all(|&core| crate::reading::finished(self.state(), core) != 0);
            if finished || now > give_up || senders.iter().any(LiveSender::is_finished) {
                return Ok(());
            }
        }
    }

    /// Writes the control block and clears what the last trial left.
    fn prepare(&mut self, ports: &Ports, plan: &TrialPlan<'_>) -> Result<Vec<Schedule>, TrafficError> {
        let Some(traffic) = self.traffic.clone() else {
            return Err(TrafficError::Impossible("no traffic was set before the trial".to_owned()));
        };
        if plan.lanes.is_empty() || plan.lanes.len() > MAX_LANES {
            return Err(TrafficError::Impossible(format!("{} lanes: 1 to {MAX_LANES}", plan.lanes.len())));
        }
        if plan.cores.is_empty() || plan.cores.iter().any(|&core| core >= MAX_CORES) {
            return Err(TrafficError::Impossible(format!(
                "cores {:?}: the bench uses 0 to {}",
                plan.cores,
                MAX_CORES - 1
            )));
        }
        let shares: Vec<f64> = plan.lanes.iter().map(|(_, share)| *share).collect();
        let schedules = (0..plan.cores.len())
            .map(|number| {
                schedule::for_core(plan.phases, &shares, number, plan.cores.len(), traffic.fragments)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut lanes = Vec::new();
        for (lane, _) in plan.lanes {
            let (from, to) = (ports.of(lane.from)?, ports.of(lane.to)?);
            let mut made = frames::lane(*lane, &from.port, &to.port, from.slot, traffic.ip);
            if traffic.fragments > 1 {
                frames::fragment(&mut made, traffic.ip);
            }
            lanes.push(made);
        }
        self.mark = self.mark.wrapping_add(1);
        let mark = self.mark;
        let (sample_mask, largest_lag) = (sample_mask(plan), largest_lag(plan.placement));
        let total: f64 = plan.phases.iter().map(|p| p.seconds).sum();
        crate::reading::clear(self.state(), plan.cores, plan.lanes.len());
        self.change_control(|control| {
            control.mark = mark;
            control.lanes[..lanes.len()].copy_from_slice(&lanes);
            control.lane_count = lanes.len() as u32;
            control.generators = plan.cores.len() as u32;
            control.sample_mask = sample_mask;
            control.largest_lag = largest_lag;
            control.grace = schedule::to_schedule(grace_seconds(total));
            control.start_ns = NOT_YET;
            for (number, &core) in plan.cores.iter().enumerate() {
                let (first, count) = flow_slice(traffic.flows, number, plan.cores.len());
                control.flow_first[core] = first;
                control.flow_count[core] = count;
                control.number[core] = number as u32;
            }
        });
        // Phases are the same for all cores but for the split of a burst, so each core's schedule is written apart.
        self.write_schedules(plan, &schedules)?;
        Ok(schedules)
    }

    fn write_schedules(&mut self, plan: &TrialPlan<'_>, schedules: &[Schedule]) -> Result<(), TrafficError> {
        let first = schedules.first().cloned();
        if plan.phases.len() > 1 && plan.phases.iter().any(|p| !matches!(p.load, Load::PerSecond(_))) {
            return Err(TrafficError::Impossible(
                "a trial of several phases needs a rate for each".to_owned(),
            ));
        }
        if let Some(first) = first {
            self.change_control(|control| {
                control.phase_count = first.phases.len() as u32;
                control.phases[..first.phases.len()].copy_from_slice(&first.phases);
            });
        }
        let Some(state) = self.skel.maps.bss_data.as_mut() else { return Ok(()) };
        for (&core, schedule) in plan.cores.iter().zip(schedules) {
            for lane in 0..MAX_LANES {
                state.cores[core].senders[lane].due = schedule.first_due[lane];
                state.cores[core].senders[lane].left = schedule.phases[0].budget[lane];
                if schedule.phases[0].budget[lane] == 0 {
                    state.cores[core].senders[lane].due = u64::MAX;
                }
            }
        }
        Ok(())
    }

    /// Waits until every sender takes turns, so that all start on time.
    fn wait_for_senders(&self, plan: &TrialPlan<'_>, senders: &[LiveSender]) {
        let begun = Instant::now();
        while begun.elapsed() < SETUP_LIMIT && !senders.iter().any(LiveSender::is_finished) {
            if plan.cores.iter().all(|&core| crate::reading::turns(self.state(), core) > 0) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until every frame sent has arrived, or nothing more arrives.
    fn settle(&self, plan: &TrialPlan<'_>) {
        let mut last = Instant::now();
        let mut seen = 0;
        loop {
            let counts = Reading::take_counts(self.state(), plan.cores, plan.lanes.len());
            let arrived: u64 = counts.iter().map(|s| s.received + s.duplicated + s.corrupted).sum();
            if counts.iter().map(|s| s.received).sum::<u64>() >= counts.iter().map(|s| s.sent).sum() {
                return;
            }
            if arrived != seen {
                seen = arrived;
                last = Instant::now();
            } else if last.elapsed() >= plan.settle {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn trial_reading(
        &self,
        plan: &TrialPlan<'_>,
        schedules: &[Schedule],
        reading: Reading,
        seconds: f64,
    ) -> TrialReading {
        let offered = plan
            .cores
            .iter()
            .zip(schedules)
            .map(|(&core, schedule)| {
                (0..schedule.lanes)
                    .map(|lane| schedule.offered(lane, crate::reading::sent(self.state(), core, lane)))
                    .sum::<u64>()
            })
            .sum();
        TrialReading { seconds, offered, reading }
    }

    /// Sends probe frames in the given order and tells how each arrived, if it did. Waits until `expected` have, or
    /// until nothing more arrives.
    ///
    /// # Errors
    /// A probe from a zone that the bed has not, or more probes than one proof holds.
    pub fn probe(
        &mut self,
        ports: &Ports,
        probes: &[ProbeFrame],
        expected: usize,
    ) -> Result<Vec<Option<Arrival>>, TrafficError> {
        if probes.len() > MAX_PROBES {
            return Err(TrafficError::Impossible(format!(
                "{} probes: one proof holds {MAX_PROBES}",
                probes.len()
            )));
        }
        self.mark = self.mark.wrapping_add(1);
        let mark = self.mark;
        let mut frames = Vec::new();
        for (number, probe) in probes.iter().enumerate() {
            let from = ports.of(probe.from)?;
            let bytes = probe.bytes(&from.port, number as u8, mark)?;
            let mut made = types::probe { port: from.slot, bytes: bytes.len() as u32, ..Default::default() };
            made.frame[..bytes.len()].copy_from_slice(&bytes);
            frames.push(made);
        }
        let Some(state) = self.skel.maps.bss_data.as_mut() else { return Ok(Vec::new()) };
        state.control.mark = mark;
        state.arrivals = [types::arrival::default(); MAX_PROBES];
        self.send_probes(&frames)?;
        let mut last = (Instant::now(), 0);
        loop {
            let seen = crate::reading::arrivals(self.state());
            let arrived = seen[..probes.len()].iter().filter(|a| a.count > 0).count();
            if arrived != last.1 {
                last = (Instant::now(), arrived);
            }
            if arrived >= expected || last.0.elapsed() >= SETTLE {
                // Read again: a head that was being written while its count was read is whole now.
                let seen = crate::reading::arrivals(self.state());
                return Ok(seen[..probes.len()].iter().map(|a| Arrival::read(a.count, &a.head)).collect());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends frames once, in order.
    pub(crate) fn send_probes(&mut self, frames: &[types::probe]) -> Result<(), TrafficError> {
        let Some(state) = self.skel.maps.bss_data.as_mut() else { return Ok(()) };
        state.probe_next = 0;
        state.probes = [types::probe::default(); MAX_PROBES];
        state.probes[..frames.len()].copy_from_slice(frames);
        let program = self.skel.progs.send_probe.as_fd();
        LiveSender::start(program, &[0; PROBE_FRAME_BYTES], 0, 1, Some(frames.len() as u32))?.wait()
    }
}

/// What a trial showed.
#[derive(Debug)]
pub struct TrialReading {
    /// Seconds of sending.
    pub seconds: f64,
    /// Frames that the schedule asked for.
    pub offered: u64,
    /// The counters and times.
    pub reading: Reading,
}

impl TrialReading {
    /// Frames handed to the links.
    pub fn sent(&self) -> u64 {
        self.reading.streams.iter().map(|s: &StreamCounts| s.sent).sum()
    }
}

/// One core's slice of the flow table; with fewer flows than cores, cores share them.
fn flow_slice(flows: u32, number: usize, cores: usize) -> (u32, u32) {
    let (number, cores) = (number as u32, cores as u32);
    if flows < cores {
        return (number % flows, 1);
    }
    let first = (u64::from(flows) * u64::from(number) / u64::from(cores)) as u32;
    let next = (u64::from(flows) * u64::from(number + 1) / u64::from(cores)) as u32;
    (first, next - first)
}

fn fastest_per_core(phases: &[Phase], cores: usize) -> f64 {
    let rate = |p: &Phase| match p.load {
        Load::PerSecond(rate) => rate / cores as f64,
        _ => f64::INFINITY,
    };
    phases.iter().map(rate).fold(0.0, f64::max)
}

/// Turns between two flushes of the links. Large batches are what a busy card delivers, so throughput is measured with
/// the largest; where times matter, a frame must not wait for the others, since that wait would be measured as latency.
fn batch_size(plan: &TrialPlan<'_>) -> u32 {
    match fastest_per_core(plan.phases, plan.cores.len()) {
        _ if !plan.times_matter => 64,
        rate if rate < 400_000.0 => 4,
        rate if rate < 4_000_000.0 => 16,
        _ => 64,
    }
}

/// Which frames are timed: all of them at low rates or where times matter, one in sixteen at high ones, where two
/// readings of the clock would cost as much as the frame.
fn sample_mask(plan: &TrialPlan<'_>) -> u32 {
    match fastest_per_core(plan.phases, plan.cores.len()) {
        rate if rate <= 300_000.0 => 0,
        rate if plan.times_matter && rate <= 2_000_000.0 => 0,
        _ => 15,
    }
}

/// How long after a schedule's end frames that were due before it still go out. A sender that lost its core for one time
/// slice of the system's just before the end may make it good; since rates are of the time that sending really took, a
/// sender that is too slow for its load gains nothing by it.
pub fn grace_seconds(total: f64) -> f64 {
    total * 0.0005 + 5e-3
}

/// How far a sender may fall behind and still catch up. Inline, falling behind is the firewall's cost and the schedule
/// stands. Isolated, a burst after a stall of the machine would be a load that nobody asked for.
fn largest_lag(placement: Placement) -> u64 {
    match placement {
        Placement::Inline => u64::MAX,
        Placement::Isolated => schedule::to_schedule(100e-6),
    }
}
