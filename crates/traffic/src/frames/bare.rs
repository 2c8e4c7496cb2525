//! The bare live-frame loop: redirect, count, drop. What the generator and the sink are measured against.

use super::engine::Engine;
use super::{frame, reading};
use crate::harness::{LiveSender, attach, pace, send_through};
use crate::{Port, TrafficError};
use measure::shape::{IpVersion, Lane};
use std::os::fd::AsFd;
use std::time::Duration;

/// Turns between two flushes, as in the generator at full speed.
const BATCH: u32 = 64;

/// What the bare loop sends and where.
#[derive(Debug, Clone, Copy)]
pub struct BareLoop<'a> {
    /// Where frames start.
    pub from: &'a Port,
    /// Where they are counted and dropped. Nothing else may be attached to it.
    pub to: &'a Port,
    /// Write a constant header into each frame, which a forwarder between needs; else send the page as it is.
    pub writes_header: bool,
    /// Frame size in bytes, without FCS.
    pub bytes_without_fcs: u16,
    /// Cores that send.
    pub cores: &'a [usize],
    /// How long.
    pub duration: Duration,
}

impl Engine {
    /// Frames a second that the bare loop gets through.
    ///
    /// # Errors
    /// The ports cannot be taken into use, or the kernel refuses the run.
    pub fn run_bare(&mut self, bare: &BareLoop<'_>) -> Result<f64, TrafficError> {
        let lane = Lane { from: bare.from.zone, to: bare.to.zone };
        let header = constant_header(lane, bare);
        self.memory.change(|state| {
            state.control.lanes[0].header[..header.len()].copy_from_slice(&header);
            state.bare_writes_header = u32::from(bare.writes_header);
        });
        let programs = &self.skel.progs;
        // A veth end takes redirected frames only when it runs XDP itself, so both ends get the counting sink.
        let _links = (attach(bare.from, &programs.bare_sink)?, attach(bare.to, &programs.bare_sink)?);
        send_through(bare.from, &self.skel.maps.ports, 0)?;
        let frame = vec![0u8; usize::from(bare.bytes_without_fcs)];
        let senders = LiveSender::start_all(programs.bare_generate.as_fd(), &frame, bare.cores, BATCH)?;
        let reached = pace(bare.duration, || reading::bare_received(self.memory));
        LiveSender::stop_all(senders)?;
        Ok(reached.a_second)
    }
}

/// Ethernet and IPv4 headers of a complete, valid packet of the bare loop's one flow.
fn constant_header(lane: Lane, bare: &BareLoop<'_>) -> [u8; 34] {
    let template = frame::lane(lane, bare.from, bare.to, 0, IpVersion::V4);
    let mut header = [0u8; 34];
    header.copy_from_slice(&template.header[..34]);
    header[16..18].copy_from_slice(&(bare.bytes_without_fcs - 14).to_be_bytes());
    header[26..30].copy_from_slice(&(bare.from.v4_prefix + 1000).to_be_bytes());
    header[30..34].copy_from_slice(&(bare.to.v4_prefix + 1000).to_be_bytes());
    let check = frame::ipv4_check(&header[14..34]);
    header[24..26].copy_from_slice(&check);
    header
}
