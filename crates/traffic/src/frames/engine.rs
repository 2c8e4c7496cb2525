//! The loaded BPF object: ports, flows, trials. One engine serves all beds of a run, one trial at a time.

use super::flows;
use super::forbidden::{self, Forbidden};
use super::frame;
use super::neighbours;
use super::part::Part;
use super::reading;
use super::schedule::{self, Schedule, fastest_per_core};
use super::sinks::{self, Sinks};
use super::skeleton::{
    FLOWS_PER_PAGE, FramesSkel, FramesSkelBuilder, MAX_CORES, MAX_LANES, MAX_PORTS, types,
};
use super::streams::Streaming;
use crate::TrafficError;
use crate::harness::{self, LiveSender, Memory, NOT_YET, Port, send_through, to_schedule};
use crate::random::{SplitMix64, secret};
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Link, MapCore, MapFlags};
use measure::shape::{IpVersion, Lane, Placement, TrafficShape, Zone};
use measure::trial::{Load, Phase};
use std::os::fd::AsFd;
use std::time::Duration;

/// A trial is over when nothing arrived for this long after the last frame was sent (RFC 2544 section 23 waits 2 s
/// for a box between two cables; a link in memory delivers at once).
pub const SETTLE: Duration = Duration::from_millis(60);

/// In the place of the slot of a port of another host. Nothing is sent through it.
const NO_SLOT: u32 = u32::MAX;

/// A zone's port that an engine uses. Detached when dropped.
#[derive(Debug)]
pub(crate) struct AttachedPort {
    port: Port,
    slot: u32,
    /// None of a port of another host.
    sink: Option<Link>,
}

impl AttachedPort {
    fn is_here(&self) -> bool {
        self.sink.is_some()
    }
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

    /// Sets where frames of a zone go from now on, once that is known (see [`Engine::resolve`]).
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

    /// The port at a place of the ports map.
    pub(crate) fn at(&self, slot: u32) -> Option<&Port> {
        self.0.iter().find(|it| it.is_here() && it.slot == slot).map(|attached| &attached.port)
    }

    /// Whether a lane of these begins at a port of this host.
    pub(super) fn begin_here(&self, lanes: &[(Lane, f64)]) -> bool {
        lanes.iter().any(|(lane, _)| self.of(lane.from).is_ok_and(AttachedPort::is_here))
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
    /// The prefixes, of both IP versions, that the firewall is asked to put in the place of the private zone's in frames to the
    /// hostile one.
    pub translated: Option<(u32, [u8; 16])>,
    /// What the policy forbids: a few such frames go along, and none must arrive.
    pub forbidden: Option<&'a Forbidden>,
}

/// Words that remember which frames arrived, all streams together.
const SEEN_WORDS: usize = types::frame_sizes::SEEN_WORDS.0 as usize;

/// The loaded generator and sink.
#[allow(missing_debug_implementations, reason = "a generated skeleton has none")]
pub struct Engine {
    pub(super) skel: FramesSkel<'static>,
    sinks: Sinks,
    pub(super) memory: Memory<types::bss>,
    free_slots: Vec<u32>,
    flow_capacity: u32,
    pub(super) traffic: Option<TrafficShape>,
    /// Sizes of its mix.
    mix_count: u32,
    /// Streams that were started and not yet ended.
    pub(super) streams: Option<Streaming>,
    /// A whole frame of the largest size with the filling of every frame.
    pub(super) recycled: Vec<u8>,
    mark: u16,
    /// The turn of the next trial's first words among those that remember which frames arrived.
    seen_turn: u32,
}

impl Engine {
    /// Loads the programs with room for `flow_capacity` flows. Sinks are loaded when ports need them.
    ///
    /// # Errors
    /// The kernel refuses the programs, or there is no room.
    pub fn load(flow_capacity: u32) -> Result<Self, TrafficError> {
        let pages = flow_capacity.max(1).div_ceil(FLOWS_PER_PAGE as u32);
        let is_wanted = |program: &str| !sinks::is_sink(program);
        let mut skel =
            harness::load(FramesSkelBuilder::default(), "bpf/traffic/frames", is_wanted, |open| {
                open.maps.flows.set_max_entries(pages)
            })?;
        Ok(Self {
            memory: Memory::take(&mut skel.maps.bss_data)?,
            skel,
            sinks: Sinks::default(),
            free_slots: (0..MAX_PORTS as u32).rev().collect(),
            flow_capacity: pages * FLOWS_PER_PAGE as u32,
            traffic: None,
            mix_count: 0,
            streams: None,
            recycled: Vec::new(),
            mark: 0x5242,
            seen_turn: 1,
        })
    }

    /// Takes a bed's ports into use: frames can be sent from them, and what arrives there is counted.
    ///
    /// # Errors
    /// The kernel refuses a sink, an interface is gone, or its driver has no XDP.
    pub fn attach(&mut self, ports: &[Port]) -> Result<Ports, TrafficError> {
        self.sinks.load(ports, self.skel.object())?;
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
        let sink = self.sinks.attach(port, self.skel.object())?;
        send_through(port, &self.skel.maps.ports, slot)?;
        self.free_slots.pop();
        self.memory.change(|state| state.identities[slot as usize] = neighbours::identity(port));
        Ok(AttachedPort { port: port.clone(), slot, sink: Some(sink) })
    }

    /// The same of the ports of a bed that are at this host, with those that are `elsewhere`.
    ///
    /// # Errors
    /// As of [`Engine::attach`].
    pub fn attach_beside(&mut self, here: &[Port], elsewhere: &[Port]) -> Result<Ports, TrafficError> {
        let mut ports = self.attach(here)?;
        let described = |port: &Port| AttachedPort { port: port.clone(), slot: NO_SLOT, sink: None };
        ports.0.extend(elsewhere.iter().map(described));
        Ok(ports)
    }

    /// Gives a bed's ports back.
    pub fn detach(&mut self, ports: Ports) {
        for attached in ports.0.into_iter().filter(AttachedPort::is_here) {
            self.memory.change(|state| state.identities[attached.slot as usize] = types::identity::default());
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
        let flows = flows::generate(shape)?;
        self.write_shape(shape)?;
        self.write_flows(&flows)?;
        self.traffic = Some(shape.clone());
        Ok(())
    }

    /// Writes everything of a shape but its flows. Whoever calls it sees to what traffic is set from then on.
    pub(super) fn write_shape(&mut self, shape: &TrafficShape) -> Result<(), TrafficError> {
        self.traffic = None;
        self.recycled = frame::recycled_frame(shape);
        let mix = frame::mix(shape, &self.recycled)?;
        self.mix_count = mix.len() as u32;
        let filling_offset = frame::filling_offset(shape);
        self.memory.change(|state| {
            // The generator writes the filling afresh; frames larger than its room are made in user space.
            for (to, from) in state.filling.iter_mut().zip(&self.recycled[filling_offset..]) {
                *to = *from;
            }
            let control = &mut state.control;
            control.filling_offset = filling_offset as u32;
            control.content_mask = frame::content_mask(shape);
            control.fragments = shape.fragments;
            control.mix[..mix.len()].copy_from_slice(&mix);
            control.largest_bytes = u32::from(shape.frame.largest().bytes_without_fcs());
            control.ip_version = match shape.ip {
                IpVersion::V4 => 4,
                IpVersion::V6 => 6,
            };
            control.udp_checksum = frame::udp_checksum_wanted(shape);
        });
        Ok(())
    }

    pub(super) fn write_flows(&mut self, flows: &[types::flow]) -> Result<(), TrafficError> {
        let mut bytes = Vec::with_capacity(FLOWS_PER_PAGE * 8);
        for (page, flows) in flows.chunks(FLOWS_PER_PAGE).enumerate() {
            bytes.clear();
            for flow in flows {
                for field in [flow.client, flow.server, flow.client_port, flow.server_port] {
                    bytes.extend_from_slice(&field.to_be_bytes());
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

    /// The mark of the frames that were sent last.
    pub fn last_mark(&self) -> u16 {
        self.mark
    }

    /// The mark of the frames to come, by which they differ from those before.
    pub(super) fn next_mark(&mut self) -> u16 {
        self.mark = self.mark.wrapping_add(1);
        self.mark
    }

    /// Starts a sender a core: live frames, or packet sockets for frames that no live frame holds.
    pub(super) fn start_senders(
        &self,
        ports: &Ports,
        plan: &TrialPlan<'_>,
    ) -> Result<Vec<LiveSender>, TrafficError> {
        if self.recycled.len() > usize::from(frame::MAX_LIVE_FRAME_BYTES) {
            return self.start_packet_senders(ports, plan);
        }
        let program = self.skel.progs.generate.as_fd();
        LiveSender::start_all(program, &self.recycled, plan.cores, batch_size(plan))
    }

    /// Frames that the schedules asked for of the lanes that begin here.
    pub(super) fn offered(&self, plan: &TrialPlan<'_>, schedules: &[Schedule]) -> u64 {
        let on_core = |(&core, schedule): (&usize, &Schedule)| -> u64 {
            let lanes = (0..schedule.lanes).filter(|&lane| schedule.phases[0].budget[lane] > 0);
            lanes.map(|lane| schedule.offered(lane, reading::sent(self.memory, core, lane))).sum()
        };
        plan.cores.iter().zip(schedules).map(on_core).sum()
    }

    /// Writes the control block and clears what the last trial left. With a `part`, of the lanes that begin at ports of this host.
    pub(super) fn prepare(
        &mut self,
        ports: &Ports,
        plan: &TrialPlan<'_>,
        part: Option<&Part>,
    ) -> Result<Vec<Schedule>, TrafficError> {
        let Some(traffic) = self.traffic.clone() else {
            return Err(TrafficError::Impossible("no traffic was set before the trial".to_owned()));
        };
        if plan.lanes.is_empty() || plan.lanes.len() >= MAX_LANES {
            return Err(TrafficError::Impossible(format!(
                "{} lanes: 1 to {}",
                plan.lanes.len(),
                MAX_LANES - 1
            )));
        }
        if plan.cores.is_empty() || plan.cores.iter().any(|&core| core >= MAX_CORES) {
            return Err(TrafficError::Impossible(format!(
                "cores {:?}: the bench uses 0 to {}",
                plan.cores,
                MAX_CORES - 1
            )));
        }
        let shares: Vec<f64> = plan.lanes.iter().map(|(_, share)| *share).collect();
        let begins_here: Vec<bool> = plan
            .lanes
            .iter()
            .map(|(lane, _)| ports.of(lane.from).map(AttachedPort::is_here))
            .collect::<Result<_, _>>()?;
        let mut schedules = (0..plan.cores.len())
            .map(|number| {
                schedule::for_core(plan.phases, &shares, number, plan.cores.len(), traffic.fragments)
            })
            .collect::<Result<Vec<_>, _>>()?;
        schedules.iter_mut().for_each(|schedule| schedule.keep(&begins_here));
        let (mut lanes, answer_lane) = lanes(ports, plan, &traffic)?;
        lanes.iter_mut().for_each(|lane| lane.mix_count = self.mix_count);
        if let Some(part) = part {
            self.mark = part.mark.wrapping_sub(1);
        }
        let mark = self.next_mark();
        let seen = self.remember_anew(plan.cores, plan.lanes.len());
        let mut random = SplitMix64::new(part.map_or_else(secret, |part| Ok(part.seed))?);
        // Drawn first, so that both hosts of a trial draw the same.
        let secret = frame::secret(&mut random);
        let forbidden = plan.forbidden.cloned().unwrap_or_default();
        let interval = forbidden::interval(plan.phases, plan.cores.len(), traffic.fragments);
        let answers_here = ports.at(lanes[answer_lane].port).is_some();
        let (forbidden_control, is_sent) =
            forbidden.control(traffic.ip, (answer_lane, answers_here), interval, &mut random);
        let mut first_due = || if is_sent { random.below(interval.max(1)) } else { u64::MAX };
        let forbidden_due: Vec<u64> = plan.cores.iter().map(|_| first_due()).collect();
        self.memory.change(|state| {
            let control = &mut state.control;
            control.mark = mark;
            control.lanes[..lanes.len()].copy_from_slice(&lanes);
            control.lane_count = plan.lanes.len() as u32;
            control.generators = plan.cores.len() as u32;
            control.sample_mask = sample_mask(plan);
            control.largest_lag = largest_lag(plan.placement);
            control.grace = to_schedule(grace_seconds(plan.seconds()));
            control.secret = secret;
            control.clock_ns = part.map_or(0, |part| part.clock_ns) as u64;
            control.forbidden = forbidden_control;
            seen.write(control);
            for (place, address) in state.forbidden_sources.iter_mut().zip(&forbidden.sources) {
                *place = u32::from(*address).to_be();
            }
            control.start_ns = NOT_YET;
            for (number, &core) in plan.cores.iter().enumerate() {
                let (first, count) = flow_slice(traffic.flows, number, plan.cores.len());
                control.flow_first[core * MAX_LANES..][..MAX_LANES].fill(first);
                control.flow_count[core * MAX_LANES..][..MAX_LANES].fill(count);
                control.number[core] = number as u32;
                state.cores[core].forbidden_due = forbidden_due[number];
            }
        });
        // Phases are the same for all cores but for the split of a burst, so each core's schedule is written apart.
        self.write_schedules(plan, &schedules)?;
        Ok(schedules)
    }

    /// Clears what the last trial left, and says where what is sent by `lanes` lanes on each of `cores` is remembered.
    pub(super) fn remember_anew(&mut self, cores: &[usize], lanes: usize) -> Seen {
        self.seen_turn = self.seen_turn.wrapping_add(reading::turns(self.memory));
        reading::clear(self.memory, cores, lanes);
        Seen { shift: seen_shift(cores.len() * lanes), turn: self.seen_turn, cores: cores.to_vec(), lanes }
    }

    fn write_schedules(&mut self, plan: &TrialPlan<'_>, schedules: &[Schedule]) -> Result<(), TrafficError> {
        if plan.phases.len() > 1 && plan.phases.iter().any(|p| !matches!(p.load, Load::PerSecond(_))) {
            return Err(TrafficError::Impossible(
                "a trial of several phases needs a rate for each".to_owned(),
            ));
        }
        self.memory.change(|state| {
            if let Some(first) = schedules.first() {
                state.control.phase_count = first.phases.len() as u32;
                state.control.phases[..first.phases.len()].copy_from_slice(&first.phases);
            }
            for (&core, schedule) in plan.cores.iter().zip(schedules) {
                let budget = schedule.phases[0].budget;
                for (lane, sender) in state.cores[core].senders.iter_mut().enumerate() {
                    sender.due = if budget[lane] == 0 { u64::MAX } else { schedule.first_due[lane] };
                    sender.left = budget[lane];
                }
            }
        });
        Ok(())
    }
}

/// The places where the sink remembers which frames of a trial's streams arrived.
pub(super) struct Seen {
    shift: u32,
    turn: u32,
    cores: Vec<usize>,
    lanes: usize,
}

impl Seen {
    pub(super) fn write(&self, control: &mut types::control) {
        control.seen_shift = self.shift;
        control.seen_turn = self.turn;
        for (number, &core) in self.cores.iter().enumerate() {
            for lane in 0..self.lanes {
                control.seen_first[core * MAX_LANES + lane] =
                    ((number * self.lanes + lane) as u32) << self.shift;
            }
        }
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

/// The lanes of a plan as the programs need them; and the number of the lane of answers, which may be one more behind those of the
/// schedule.
fn lanes(
    ports: &Ports,
    plan: &TrialPlan<'_>,
    traffic: &TrafficShape,
) -> Result<(Vec<types::lane>, usize), TrafficError> {
    let mut wanted: Vec<Lane> = plan.lanes.iter().map(|(lane, _)| *lane).collect();
    let mut answer_lane = 0;
    if let Some(answers) =
        forbidden::answers_to(plan.lanes).filter(|_| plan.forbidden.is_some_and(|f| f.answers))
    {
        answer_lane = wanted.iter().position(|lane| *lane == answers).unwrap_or(wanted.len());
        wanted.extend((answer_lane == wanted.len()).then_some(answers));
    }
    let lane = |lane: Lane| {
        let (from, to) = (ports.of(lane.from)?, ports.of(lane.to)?);
        let mut made = frame::lane(lane, &from.port, &to.port, from.slot, traffic.ip);
        if (lane.from, lane.to) == (Zone::Private, Zone::Hostile) {
            let turned = plan.translated.map_or([0; 4], |to| translation(&from.port, to, traffic.ip));
            frame::translate(&mut made, turned, traffic.ip);
        }
        if traffic.fragments > 1 {
            frame::fragment(&mut made, traffic.ip);
        }
        Ok(made)
    };
    Ok((wanted.into_iter().map(lane).collect::<Result<_, TrafficError>>()?, answer_lane))
}

/// What translating a port's prefix into another turns over in an address, as it lies in a frame.
fn translation(port: &Port, (v4, v6): (u32, [u8; 16]), ip: IpVersion) -> [u32; 4] {
    match ip {
        IpVersion::V4 => [0, 0, 0, (port.v4_prefix ^ v4).to_be()],
        IpVersion::V6 => std::array::from_fn(|word| {
            let of =
                |address: [u8; 16]| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| address[4 * word + byte]));
            of(port.v6_prefix) ^ of(v6)
        }),
    }
}

/// The binary logarithm of each stream's part of the words that remember which frames arrived.
fn seen_shift(streams: usize) -> u32 {
    (SEEN_WORDS / streams.max(1)).ilog2()
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
        Placement::Isolated => to_schedule(100e-6),
    }
}
