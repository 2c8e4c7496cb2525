//! Frames that no live frame holds: sent from user space through packet sockets that bypass the queueing discipline.
//!
//! The same schedule, flows, stamp, filling and counters as `bpf/traffic/frames/generate.h`, step by step; only whoever
//! follows the schedule differs. A thread a core, pinned, busy waiting on the monotonic clock. A frame that the link
//! refuses is sent and lost, as it is when a live frame finds a full ring; it is never sent again.

use super::engine::{Engine, Ports, TrialPlan};
use super::flows::SERVER_PORTS;
use super::forbidden::{ANSWER, PORT, SOURCE};
use super::frame::{self, ETHERNET_BYTES, UDP_BYTES};
use super::skeleton::{FLOWS_PER_PAGE, MAX_FORBIDDEN_SOURCES, MAX_LANES, MAX_MIX, MAX_PHASES, types};
use crate::harness::memory::peek;
use crate::harness::{LiveSender, Memory, NOT_YET, SCHEDULE_SHIFT};
use crate::random::{SplitMix64, secret};
use crate::{Clock, TrafficError, packet_socket};
use libbpf_rs::{MapCore, MapFlags};
use nix::errno::Errno;
use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::addr_of_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NO_FRAME_LEFT: u64 = u64::MAX;
/// A frame sent later than this counts as late (schedule time).
const LATE: u64 = 5_000 << SCHEDULE_SHIFT;
/// Frames given to the kernel in one call where times do not matter.
const BATCH: usize = 8;
/// Room for frames under way: several full veth rings, so that the socket never holds the sender up.
const SEND_BUFFER_BYTES: usize = 64 << 20;

impl Engine {
    /// Starts a sender a core that follows the prepared schedule through packet sockets.
    ///
    /// # Errors
    /// A socket cannot be made or a thread not started.
    pub(crate) fn start_packet_senders(
        &self,
        ports: &Ports,
        plan: &TrialPlan<'_>,
    ) -> Result<Vec<LiveSender>, TrafficError> {
        plan.cores.iter().map(|&core| self.start_packet_sender(ports, plan, core)).collect()
    }

    fn start_packet_sender(
        &self,
        ports: &Ports,
        plan: &TrialPlan<'_>,
        core: usize,
    ) -> Result<LiveSender, TrafficError> {
        let memory = self.memory;
        // Nobody writes the control block while senders run, but for start_ns, a single word.
        let control = Box::new(peek!(memory => control));
        let lanes = plan.lanes.len().max(control.forbidden.answer_lane as usize + 1);
        let sockets = control.lanes[..lanes]
            .iter()
            .filter_map(|lane| ports.at(lane.port))
            .map(|port| packet_socket::sender(port, SEND_BUFFER_BYTES))
            .collect::<Result<Vec<_>, _>>()?;
        let mtu = control.largest_bytes as usize - ETHERNET_BYTES;
        let flows =
            self.read_flows(control.flow_first[core * MAX_LANES], control.flow_count[core * MAX_LANES])?;
        let batch = if plan.times_matter { 1 } else { BATCH };
        let buffers = vec![self.recycled.clone(); batch];
        let mut sender = PacketSender {
            memory,
            number: core,
            own: peek!(memory => cores[core]),
            control,
            forbidden_sources: Box::new(peek!(memory => forbidden_sources)),
            random: SplitMix64::new(secret()?),
            flows,
            sockets,
            buffers,
            pending: Vec::new(),
        };
        LiveSender::start_thread(
            core,
            format!(
                "sending jumbo frames through a packet socket (every link needs an MTU of {mtu} or more)"
            ),
            move |stop| sender.run(stop),
        )
    }

    /// `count` flows of the flow table from number `first` on.
    fn read_flows(&self, first: u32, count: u32) -> Result<Vec<types::flow>, TrafficError> {
        let per_page = FLOWS_PER_PAGE as u32;
        let mut flows = Vec::with_capacity(count as usize + 2 * FLOWS_PER_PAGE);
        for page in first / per_page..(first + count).div_ceil(per_page) {
            let bytes = self
                .skel
                .maps
                .flows
                .lookup(&page.to_ne_bytes(), MapFlags::ANY)
                .map_err(TrafficError::bpf("reading the flow table"))?
                .unwrap_or_default();
            flows.extend(bytes.chunks_exact(8).map(read_flow));
        }
        flows.drain(..(first % per_page) as usize);
        flows.truncate(count as usize);
        Ok(flows)
    }
}

fn read_flow(bytes: &[u8]) -> types::flow {
    let field = |number: usize| u16::from_be_bytes([bytes[2 * number], bytes[2 * number + 1]]);
    types::flow { client: field(0), server: field(1), client_port: field(2), server_port: field(3) }
}

/// Shows the world what a core has done. `finished` last: whoever sees it must see the final counters.
fn publish(memory: Memory<types::bss>, number: usize, core: &types::core) {
    // SAFETY: every place is an aligned word inside the mapping, in the part that belongs to this core's sender.
    unsafe {
        let to = addr_of_mut!((*memory.as_ptr()).cores[number]);
        for lane in 0..MAX_LANES {
            addr_of_mut!((*to).senders[lane].sent).write_volatile(core.senders[lane].sent);
            addr_of_mut!((*to).senders[lane].sent_bytes).write_volatile(core.senders[lane].sent_bytes);
            addr_of_mut!((*to).senders[lane].skipped).write_volatile(core.senders[lane].skipped);
        }
        addr_of_mut!((*to).largest_lag).write_volatile(core.largest_lag);
        addr_of_mut!((*to).late).write_volatile(core.late);
        addr_of_mut!((*to).turns).write_volatile(core.turns);
        addr_of_mut!((*to).forbidden_sent).write_volatile(core.forbidden_sent);
        std::sync::atomic::fence(Ordering::Release);
        addr_of_mut!((*to).finished).write_volatile(core.finished);
    }
}

/// One core's generator of large frames: `generate_frame()` of `bpf/traffic/frames/generate.h`.
struct PacketSender {
    memory: Memory<types::bss>,
    number: usize,
    own: types::core,
    control: Box<types::control>,
    forbidden_sources: Box<[u32; MAX_FORBIDDEN_SOURCES]>,
    /// Of forbidden frames, which nobody can foresee.
    random: SplitMix64,
    flows: Vec<types::flow>,
    sockets: Vec<OwnedFd>,
    /// Recycled frames: the filling is written once, headers and stamp for every frame.
    buffers: Vec<Vec<u8>>,
    /// Lane and bytes of the frames that are written and not yet given to the kernel, all of one lane.
    pending: Vec<(usize, usize)>,
}

impl PacketSender {
    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let stopped = || stop.load(Ordering::Relaxed);
        self.own.turns = 1;
        publish(self.memory, self.number, &self.own);
        while self.start_ns() == NOT_YET && !stopped() {
            std::hint::spin_loop();
        }
        self.control.start_ns = self.start_ns();
        while self.own.finished == 0 && !stopped() {
            self.turn(stop)?;
        }
        self.flush(stop)?;
        publish(self.memory, self.number, &self.own);
        // A sender that has ended means failure, so the trial's end is awaited.
        while !stopped() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn start_ns(&self) -> u64 {
        peek!(self.memory => control.start_ns)
    }

    fn turn(&mut self, stop: &AtomicBool) -> io::Result<()> {
        self.own.turns += 1;
        if self.own.now >= self.own.forbidden_due && self.own.now != 0 {
            return self.send_forbidden(stop);
        }
        let lane = self.next_lane();
        if !self.is_due(lane) {
            // Whoever waits for time gives away what is written first.
            self.flush(stop)?;
            std::hint::spin_loop();
            return Ok(());
        }
        self.make_room(lane, stop)?;
        self.write_frame(lane);
        self.flush_if_full(stop)
    }

    /// What is written and not yet given to the kernel is all of one lane.
    fn make_room(&mut self, lane: usize, stop: &AtomicBool) -> io::Result<()> {
        let is_other = self.pending.first().is_some_and(|(first, _)| *first != lane);
        if is_other { self.flush(stop) } else { Ok(()) }
    }

    fn flush_if_full(&mut self, stop: &AtomicBool) -> io::Result<()> {
        if self.pending.len() == self.buffers.len() { self.flush(stop) } else { Ok(()) }
    }

    fn phase(&self) -> types::phase {
        self.control.phases[self.own.phase as usize % MAX_PHASES]
    }

    fn read_clock(&mut self) -> u64 {
        let now = Clock::now_ns();
        self.own.now = now.saturating_sub(self.control.start_ns) << SCHEDULE_SHIFT;
        now
    }

    fn end_phase(&mut self) {
        let end = self.phase().end;
        self.own.phase += 1;
        if self.own.phase >= self.control.phase_count {
            self.own.finished = self.own.now | 1;
            return;
        }
        let budget = self.phase().budget;
        for (lane, sender) in self.own.senders.iter_mut().enumerate() {
            let used = lane < self.control.lane_count as usize;
            sender.due = if used { end } else { NO_FRAME_LEFT };
            sender.left = budget[lane];
        }
    }

    /// The lane whose next frame is due first.
    fn next_lane(&self) -> usize {
        let lanes = (self.control.lane_count as usize).clamp(1, MAX_LANES);
        (0..lanes).min_by_key(|&lane| self.own.senders[lane].due).unwrap_or(0)
    }

    /// Whether the lane's next frame may go out now. The clock is read only when the last reading does not answer.
    fn is_due(&mut self, lane: usize) -> bool {
        let (phase, due) = (self.phase(), self.own.senders[lane].due);
        if phase.paced == 0 {
            if due == NO_FRAME_LEFT || self.own.now >= phase.end {
                self.read_clock();
                self.end_phase();
                return false;
            }
            // A few frames take longer than a reading of the clock, so the phase's end is seen on time.
            self.read_clock();
            return self.own.now != 0;
        }
        if due >= phase.end {
            self.read_clock();
            if self.own.now >= phase.end {
                self.end_phase();
            }
            return false;
        }
        if due >= self.own.now {
            self.read_clock();
            if due >= self.own.now {
                return false;
            }
        }
        let lag = self.own.now - due;
        self.own.largest_lag = self.own.largest_lag.max(lag);
        if self.own.now >= phase.end + self.control.grace {
            self.end_phase();
            return false;
        }
        self.is_in_time(lane, lag, phase.interval[lane])
    }

    /// Whether a frame `lag` behind its time still goes out, or is left out.
    fn is_in_time(&mut self, lane: usize, lag: u64, interval: u64) -> bool {
        if lag > self.control.largest_lag {
            self.own.senders[lane].skipped += 1;
            self.own.senders[lane].due += interval;
            return false;
        }
        self.own.late += u64::from(lag > LATE);
        true
    }

    /// Writes the lane's next frame into a free buffer and counts it.
    fn write_frame(&mut self, lane: usize) {
        let now = self.read_clock();
        let interval = self.phase().interval[lane];
        let sender = &mut self.own.senders[lane];
        let flow = self.flows[sender.flow_next as usize];
        sender.flow_next = (sender.flow_next + 1) % self.flows.len() as u32;
        let mix = sender.mix_next as usize % MAX_MIX;
        sender.mix_next = (sender.mix_next + 1) % self.control.lanes[lane].mix_count;
        let size = self.control.mix[mix];
        let sequence = sender.sent;
        sender.sent += 1;
        sender.sent_bytes += u64::from(size.bytes);
        sender.due += interval;
        if sender.left != NO_FRAME_LEFT {
            sender.left -= 1;
            if sender.left == 0 {
                sender.due = NO_FRAME_LEFT;
            }
        }
        let ends = Ends { lane, flow, source: None };
        let veiled = now ^ frame::veil(&self.control.secret, self.number, lane, sequence);
        let stamp = self.stamp(lane, mix, sequence, veiled);
        let frame = &mut self.buffers[self.pending.len()][..size.bytes as usize];
        write_headers(frame, &self.control, &self.control.secret, &ends, &size, stamp);
        self.pending.push((lane, size.bytes as usize));
    }

    /// The two words of a stamp.
    fn stamp(&self, lane: usize, mix: usize, sequence: u64, veiled: u64) -> (u64, u64) {
        let who = u64::from(self.control.mark)
            | (self.number as u64) << 16
            | (lane as u64) << 24
            | (mix as u64) << 32
            | (sequence >> 32 & 0xff) << 40
            | (veiled >> 32) << 48;
        (who, sequence & 0xffff_ffff | veiled << 32)
    }

    /// Sends a frame beside the schedule that the policy forbids, otherwise like the one whose turn it is: `send_forbidden()` of
    /// `bpf/traffic/frames/generate.h`.
    fn send_forbidden(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let forbidden = self.control.forbidden;
        self.own.forbidden_turn = (self.own.forbidden_turn + 1) % forbidden.kind_count.max(1);
        let spread = forbidden.interval / 2 + self.random.below(forbidden.interval.max(1));
        self.own.forbidden_due = self.own.now + spread;
        let kind = forbidden.kinds[self.own.forbidden_turn as usize];
        let turn = self.next_lane();
        let sender = self.own.senders[turn];
        let lane = if kind == ANSWER { forbidden.answer_lane as usize } else { turn };
        let mut flow = self.flows[sender.flow_next as usize];
        match kind {
            PORT => {
                flow.server_port =
                    (forbidden.first_port as u16) + self.random.below(forbidden.ports.into()) as u16
            }
            ANSWER => flow.server_port = another_server_port(flow.server_port),
            _ => {}
        }
        let source = self.forbidden_sources[self.random.below(forbidden.sources.max(1).into()) as usize];
        let ends = Ends { lane, flow, source: (kind == SOURCE).then_some(source) };
        let mix = sender.mix_next as usize % MAX_MIX;
        let size = self.control.mix[mix];
        let veiled = self.read_clock() ^ frame::veil(&forbidden.secret, self.number, lane, sender.sent);
        self.make_room(lane, stop)?;
        let stamp = self.stamp(lane, mix, sender.sent, veiled);
        let frame = &mut self.buffers[self.pending.len()][..size.bytes as usize];
        write_headers(frame, &self.control, &forbidden.secret, &ends, &size, stamp);
        self.pending.push((lane, size.bytes as usize));
        self.own.forbidden_sent += 1;
        self.flush_if_full(stop)
    }

    /// Gives the written frames to the kernel.
    fn flush(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let Some(&(lane, _)) = self.pending.first() else { return Ok(()) };
        let socket = self.sockets[lane].as_raw_fd();
        let mut done = 0;
        while done < self.pending.len() {
            match send_frames(socket, &self.buffers[done..], &self.pending[done..]) {
                Ok(sent) => done += sent,
                // The link's ring was full: this frame is lost.
                Err(Errno::ENOBUFS) => done += 1,
                Err(Errno::EAGAIN | Errno::EINTR) if !stop.load(Ordering::Relaxed) => {}
                Err(Errno::EAGAIN | Errno::EINTR) => break,
                Err(other) => return Err(other.into()),
            }
        }
        self.pending.clear();
        // Not finished yet, whatever the schedule says: only run() knows that nothing is pending.
        publish(self.memory, self.number, &types::core { finished: 0, ..self.own });
        Ok(())
    }
}

/// One call for all of `pending`; how many frames the kernel took.
fn send_frames(socket: i32, buffers: &[Vec<u8>], pending: &[(usize, usize)]) -> Result<usize, Errno> {
    let count = pending.len().min(BATCH);
    // SAFETY: all zeros are a valid mmsghdr and iovec: no name, no data, no control message.
    let (mut messages, mut pieces): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) =
        unsafe { std::mem::zeroed() };
    for number in 0..count {
        pieces[number].iov_base = buffers[number].as_ptr().cast_mut().cast();
        pieces[number].iov_len = pending[number].1;
        messages[number].msg_hdr.msg_iov = &raw mut pieces[number];
        messages[number].msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: count messages, each of one piece that lies within its buffer (a frame is never longer than the largest
    // of its mix, which is the buffer's length); all of it outlives the call, and the kernel only reads the buffers.
    let sent = unsafe { libc::sendmmsg(socket, messages.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
    Errno::result(sent).map(|sent| sent as usize)
}

/// Between whom a frame is: `struct ends`, and where it goes.
struct Ends {
    lane: usize,
    flow: types::flow,
    /// Instead of the flow's own, in IPv4, as it lies in a frame.
    source: Option<u32>,
}

/// A server port of no flow between the same hosts and from the same client port: `OTHER_SERVER_PORT` of the generator.
fn another_server_port(port: u16) -> u16 {
    const FURTHER: u64 = 20_000;
    1 + ((u64::from(port) - 1 + FURTHER) % SERVER_PORTS) as u16
}

/// Writes everything of a frame before its filling: `write_ipv4()` and `write_ipv6()` of the generator.
fn write_headers(
    frame: &mut [u8],
    control: &types::control,
    secret: &types::secret,
    Ends { lane, flow, source }: &Ends,
    size: &types::mix_size,
    (who, what): (u64, u64),
) {
    let lane = &control.lanes[*lane];
    let ip_bytes = if control.ip_version == 4 { 20 } else { 40 };
    let udp = ETHERNET_BYTES + ip_bytes;
    let payload = udp + UDP_BYTES;
    let udp_length = ((frame.len() - udp) as u16).to_be_bytes();
    frame[..udp].copy_from_slice(&lane.header[..udp]);
    let (client, server) = (u32::from(flow.client), u32::from(flow.server));
    let addresses = if control.ip_version == 4 {
        let total = ((frame.len() - ETHERNET_BYTES) as u16).to_be_bytes();
        frame[16..18].copy_from_slice(&total);
        let prefix = |half: u32| u32::from_be((lane.prefixes >> (32 * half)) as u32);
        write_pair(&mut frame[26..34], lane.reverse, prefix(0) | client, prefix(1) | server);
        if let Some(source) = source {
            frame[26..30].copy_from_slice(&source.to_ne_bytes());
        }
        let check = frame::ipv4_check(&frame[ETHERNET_BYTES..udp]);
        frame[24..26].copy_from_slice(&check);
        26..34
    } else {
        frame[18..20].copy_from_slice(&udp_length);
        let (source, destination) = if lane.reverse == 0 { (client, server) } else { (server, client) };
        frame[34..38].copy_from_slice(&source.to_be_bytes());
        frame[50..54].copy_from_slice(&destination.to_be_bytes());
        22..54
    };
    let (client_port, server_port) = (flow.client_port, flow.server_port);
    let (source, destination) =
        if lane.reverse == 0 { (client_port, server_port) } else { (server_port, client_port) };
    frame[udp..udp + 2].copy_from_slice(&source.to_be_bytes());
    frame[udp + 2..udp + 4].copy_from_slice(&destination.to_be_bytes());
    frame[udp + 4..udp + 6].copy_from_slice(&udp_length);
    frame[udp + 6..payload].fill(0);
    let (mut ends, mut ports) = ([0; 8], [0; 4]);
    let (source, destination) = if control.ip_version == 4 { (26..30, 30..34) } else { (34..38, 50..54) };
    ends[..4].copy_from_slice(&frame[source]);
    ends[4..].copy_from_slice(&frame[destination]);
    ports.copy_from_slice(&frame[udp..udp + 4]);
    let stamp = frame::stamp(secret, who, what, (ends, ports));
    frame[payload..payload + stamp.len()].copy_from_slice(&stamp);
    if control.udp_checksum != 0 {
        let pseudo =
            frame::word_sum(&frame[addresses]) + frame::word_sum(&[0, 17]) + frame::word_sum(&udp_length);
        let sum = pseudo + frame::word_sum(&frame[udp..payload + stamp.len()]) + size.fill_sum;
        let check = frame::udp_check(sum);
        frame[udp + 6..payload].copy_from_slice(&check);
    }
}

/// Source and destination, which are client and server, or the other way round.
fn write_pair(to: &mut [u8], reverse: u32, client: u32, server: u32) {
    let (source, destination) = if reverse == 0 { (client, server) } else { (server, client) };
    to[..4].copy_from_slice(&source.to_be_bytes());
    to[4..].copy_from_slice(&destination.to_be_bytes());
}
