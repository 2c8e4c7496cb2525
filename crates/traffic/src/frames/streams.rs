//! Streams: each with sizes, headers, ends, rate and number of frames of its own, which run until they are done or stopped. Trials measure
//! a firewall by one shape of traffic; streams send what a user wrote down, frame by frame in the order that it was written.
//!
//! A stream is a lane of the same generator and of the same sink, so what is counted as received is what a trial would count. All streams
//! of a run have one IP version and one generating core, because the programs have one of each and the order of frames is the stream's.

use super::engine::{Engine, Ports, grace_seconds};
use super::frame::{self, ETHERNET_BYTES, MAX_LIVE_FRAME_BYTES, zone_number};
use super::reading::{Reading, StreamCounts};
use super::skeleton::{MAX_CORES, MAX_LANES, MAX_MIX, types};
use crate::TrafficError;
use crate::harness::{Generators as _, LiveSender, NOT_YET, Run, check_seconds, to_schedule};
use crate::random::{SplitMix64, secret};
use measure::frame::{FCS_BYTES, FrameMix, FrameSize};
use measure::shape::{Directions, IpVersion, TrafficShape, UdpChecksum, Zone};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

/// Streams at once: one lane fewer than the programs have.
pub const MOST_STREAMS: usize = MAX_LANES - 1;
/// Different ends of all streams together; a table of 8 MiB.
pub const MOST_COMBINATIONS: u32 = 1 << 20;
/// A lane of which no port is the right one.
const NO_ZONE: u32 = u32::MAX;

/// Addresses and ports of one frame; both addresses are of the run's IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
}

/// What all frames of a stream have in common, as they are sent and as they should arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Ethernet source; it may be another one on arrival.
    pub source_mac: [u8; 6],
    /// Ethernet destination.
    pub destination_mac: [u8; 6],
    /// Ethernet destination on arrival: another one behind a router.
    pub arrival_mac: [u8; 6],
    /// TOS (IPv4) or traffic class (IPv6).
    pub traffic_class: u8,
    /// IPv6 flow label, 20 bits; 0 in IPv4.
    pub flow_label: u32,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The same on arrival: one less behind a router.
    pub arrival_ttl: u8,
    /// IPv4's "don't fragment"; IPv6 has none.
    pub dont_fragment: bool,
}

/// Frames from one port to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// The port that sends, by its zone.
    pub from: Zone,
    /// The port that receives; `None`: nobody counts what arrives.
    pub to: Option<Zone>,
    /// Sizes, in turns.
    pub sizes: Vec<FrameSize>,
    /// Headers.
    pub header: Header,
    /// Addresses and ports, in turns. Addresses differ in their last two bytes only.
    pub ends: Vec<Ends>,
    /// Frames a second.
    pub rate: f64,
    /// Frames in all; `None`: until it is stopped.
    pub frames: Option<u64>,
}

/// What became of a stream so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamState {
    /// Whether it still sends.
    pub sending: bool,
    /// What was sent and received.
    pub counts: StreamCounts,
}

/// Streams that were started.
pub(super) struct Streaming {
    run: Option<Run<types::bss>>,
    core: usize,
    frames: Vec<Option<u64>>,
}

impl Engine {
    /// Starts streams on a core; they end after `longest` at the latest. What earlier ones counted is forgotten.
    ///
    /// # Errors
    /// Streams run already, a stream cannot be sent, or the kernel refuses.
    pub fn start_streams(
        &mut self,
        ports: &Ports,
        ip: IpVersion,
        streams: &[Stream],
        core: usize,
        longest: Duration,
    ) -> Result<(), TrafficError> {
        if self.streams.as_ref().is_some_and(|streaming| streaming.run.is_some()) {
            return Err(TrafficError::Impossible("streams are being sent already".to_owned()));
        }
        check(streams, core)?;
        check_seconds("run of streams", longest.as_secs_f64())?;
        self.streams = None;
        self.write_shape(&shape(ip, streams)?)?;
        let ends: Vec<types::flow> = streams.iter().flat_map(|stream| stream.ends.iter().map(flow)).collect();
        self.write_flows(&ends)?;
        let lanes = streams.iter().map(|stream| lane(ports, ip, stream)).collect::<Result<Vec<_>, _>>()?;
        self.write_streams(ip, streams, &lanes, core, longest)?;
        let program = self.skel.progs.generate.as_fd();
        let senders = LiveSender::start_all(program, &self.recycled, &[core], batch(streams))?;
        let run = Run::begin(&mut self.memory, &[core], senders)?;
        let frames = streams.iter().map(|stream| stream.frames).collect();
        self.streams = Some(Streaming { run: Some(run), core, frames });
        Ok(())
    }

    /// Has the generator send nothing more; streams that are done have done so already.
    pub fn stop_streams(&mut self) {
        self.memory.change(|state| state.control.phases[0].end = 0);
    }

    /// Ends the generator if no stream sends any more. Returns whether some still do. What was counted can be read afterwards, too.
    ///
    /// # Errors
    /// The generator ended by itself.
    pub fn tend_streams(&mut self) -> Result<bool, TrafficError> {
        let memory = self.memory;
        let Some(streaming) = &mut self.streams else { return Ok(false) };
        let core = streaming.core;
        let over = |run: &Run<_>| run.is_broken() || types::bss::is_done(memory, core);
        if let Some(run) = streaming.run.take_if(|run| over(run)) {
            run.end()?;
        }
        Ok(streaming.run.is_some())
    }

    /// What became of the streams that were started last, in their order.
    pub fn stream_states(&self) -> Vec<StreamState> {
        let Some(streaming) = &self.streams else { return Vec::new() };
        let runs = streaming.run.is_some() && !types::bss::is_done(self.memory, streaming.core);
        let counts = Reading::take_counts(self.memory, &[streaming.core], streaming.frames.len());
        let state = |(counts, frames): (StreamCounts, &Option<u64>)| StreamState {
            sending: runs && frames.is_none_or(|frames| counts.sent < frames),
            counts,
        };
        counts.into_iter().zip(&streaming.frames).map(state).collect()
    }

    fn write_streams(
        &mut self,
        ip: IpVersion,
        streams: &[Stream],
        lanes: &[types::lane],
        core: usize,
        longest: Duration,
    ) -> Result<(), TrafficError> {
        let mark = self.next_mark();
        let seen = self.remember_anew(&[core], streams.len());
        let mut random = SplitMix64::new(secret()?);
        self.memory.change(|state| {
            let control = &mut state.control;
            control.mark = mark;
            control.secret = frame::secret(&mut random);
            control.forbidden = types::forbidden::default();
            control.answer_neighbours = 0;
            control.generators = 1;
            control.number[core] = 0;
            control.sample_mask = 15;
            control.start_ns = NOT_YET;
            // A generator that was kept from its core makes up for it: the number of frames is the stream's.
            control.largest_lag = u64::MAX;
            control.grace = to_schedule(grace_seconds(0.0));
            seen.write(control);
            control.lane_count = lanes.len() as u32;
            control.phase_count = 1;
            let mut phase =
                types::phase { end: to_schedule(longest.as_secs_f64()), paced: 1, ..Default::default() };
            let own = &mut state.cores[core];
            own.forbidden_due = u64::MAX;
            let (mut first_mix, mut first_flow) = (0, 0);
            for (number, (stream, lane)) in streams.iter().zip(lanes).enumerate() {
                let (sizes, ends) = (stream.sizes.len() as u32, stream.ends.len() as u32);
                control.lanes[number] = types::lane { mix_first: first_mix, mix_count: sizes, ..*lane };
                for mix in &mut control.mix[first_mix as usize..][..sizes as usize] {
                    mix.head = with_class(mix.head, ip, &stream.header);
                }
                control.flow_first[core * MAX_LANES + number] = first_flow;
                control.flow_count[core * MAX_LANES + number] = ends;
                (first_mix, first_flow) = (first_mix + sizes, first_flow + ends);
                phase.interval[number] = to_schedule(1.0 / stream.rate);
                phase.budget[number] = stream.frames.unwrap_or(u64::MAX);
                own.senders[number].left = phase.budget[number];
            }
            control.phases[0] = phase;
        });
        Ok(())
    }
}

fn check(streams: &[Stream], core: usize) -> Result<(), TrafficError> {
    let refuse = |why: String| Err(TrafficError::Impossible(why));
    if core >= MAX_CORES {
        return refuse(format!("core {core}: the bench uses 0 to {}", MAX_CORES - 1));
    }
    if streams.is_empty() || streams.len() > MOST_STREAMS {
        return refuse(format!("{} streams: 1 to {MOST_STREAMS}", streams.len()));
    }
    let sizes: usize = streams.iter().map(|stream| stream.sizes.len()).sum();
    if sizes > MAX_MIX {
        return refuse(format!("{sizes} sizes in all streams: it may be {MAX_MIX}"));
    }
    let ends: usize = streams.iter().map(|stream| stream.ends.len()).sum();
    if ends > MOST_COMBINATIONS as usize {
        return refuse(format!("{ends} combinations of addresses and ports: it may be {MOST_COMBINATIONS}"));
    }
    for stream in streams {
        if stream.ends.is_empty() || stream.frames == Some(0) {
            return refuse("a stream without frames".to_owned());
        }
        // Schedule time has room for one frame in four hours.
        if !(1e-3..=1e9).contains(&stream.rate) {
            return refuse(format!(
                "a stream of {} frames/s: the generator paces 0.001 to 10^9",
                stream.rate
            ));
        }
    }
    Ok(())
}

/// All sizes of all streams as the shape of one traffic.
fn shape(ip: IpVersion, streams: &[Stream]) -> Result<TrafficShape, TrafficError> {
    let sizes: Vec<FrameSize> = streams.iter().flat_map(|stream| stream.sizes.iter().copied()).collect();
    let frame = FrameMix::sequence("streams", sizes)
        .filter(|_| streams.iter().all(|stream| !stream.sizes.is_empty()))
        .ok_or_else(|| TrafficError::Impossible("a stream without sizes".to_owned()))?;
    let (largest, most) = (frame.largest().bytes(), MAX_LIVE_FRAME_BYTES + FCS_BYTES);
    if largest > most {
        return Err(TrafficError::Impossible(format!(
            "a stream of frames of {largest} bytes: it may be {most}"
        )));
    }
    Ok(TrafficShape {
        frame,
        ip,
        flows: 1,
        clients: 1,
        servers: 1,
        directions: Directions::OneWay,
        udp_checksum: UdpChecksum::Valid,
        fragments: 1,
        cores: 1,
        seed: 1,
    })
}

/// The last two bytes of an address, which differ from frame to frame, and what stands before them.
fn split(address: IpAddr) -> (Vec<u8>, u16) {
    let mut bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let host = bytes.split_off(bytes.len() - 2);
    (bytes, u16::from_be_bytes([host[0], host[1]]))
}

fn flow(ends: &Ends) -> types::flow {
    types::flow {
        client: split(ends.source).1,
        server: split(ends.destination).1,
        client_port: ends.source_port,
        server_port: ends.destination_port,
    }
}

fn lane(ports: &Ports, ip: IpVersion, stream: &Stream) -> Result<types::lane, TrafficError> {
    let of = |ends: &Ends| (split(ends.source).0, split(ends.destination).0);
    let (source, destination) = of(&stream.ends[0]);
    let bytes = if ip == IpVersion::V4 { 2 } else { 14 };
    let same = stream.ends.iter().all(|ends| of(ends) == (source.clone(), destination.clone()));
    if !same || source.len() != bytes || destination.len() != bytes {
        return Err(TrafficError::Impossible(
            "addresses of a stream: they are of the run's IP version and differ in their last two bytes only"
                .to_owned(),
        ));
    }
    let made = types::lane {
        port: ports.slot(stream.from)?,
        to: stream.to.map_or(NO_ZONE, zone_number),
        prefixes: prefixes(&source, &destination),
        ..Default::default()
    };
    Ok(frame::stream_lane(made, ip, &stream.header, (&source, &destination)))
}

/// What stands right before the bytes that differ, as it lies in a frame: of the source in the lower half.
fn prefixes(source: &[u8], destination: &[u8]) -> u64 {
    let half = |bytes: &[u8]| u64::from(u16::from_ne_bytes([bytes[bytes.len() - 2], bytes[bytes.len() - 1]]));
    half(source) | half(destination) << 32
}

/// The eight bytes of a frame from its Ethernet type on, with the traffic class and the flow label.
fn with_class(head: u64, ip: IpVersion, header: &Header) -> u64 {
    let mut bytes = head.to_ne_bytes();
    frame::write_class(&mut bytes[2..6], ip, header);
    u64::from_ne_bytes(bytes)
}

/// Turns between two flushes of the links: at low rates few, so that frames do not wait for each other.
fn batch(streams: &[Stream]) -> u32 {
    match streams.iter().map(|stream| stream.rate).sum::<f64>() {
        rate if rate < 400_000.0 => 4,
        rate if rate < 4_000_000.0 => 16,
        _ => 64,
    }
}

const _: () = assert!(ETHERNET_BYTES == 14, "HEAD_OFFSET is that of the Ethernet type");
