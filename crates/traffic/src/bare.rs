//! The bare live-frame loop: redirect, count, drop. What the generator and the sink are measured against.

use crate::engine::Engine;
use crate::frames::{self, Port};
use crate::live::LiveSender;
use crate::reading;
use crate::{Clock, TrafficError, namespace};
use libbpf_rs::{MapCore, MapFlags};
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
        let port_slot = 0u32;
        let lane = Lane { from: bare.from.zone, to: bare.to.zone };
        let header = constant_header(lane, bare);
        self.change_control(|control| control.lanes[0].header[..header.len()].copy_from_slice(&header));
        self.set_bare(bare.writes_header);
        let skel = self.skeleton();
        // A veth end takes redirected frames only when it runs XDP itself, so both ends get the counting sink.
        let attach = |port: &Port| {
            namespace::inside(port.namespace.as_deref(), || {
                skel.progs.bare_sink.attach_xdp(port.ifindex as i32)
            })?
            .map_err(TrafficError::bpf("attaching the bare sink"))
        };
        let _links = (attach(bare.from)?, attach(bare.to)?);
        namespace::inside(bare.from.namespace.as_deref(), || {
            skel.maps.ports.update(&port_slot.to_ne_bytes(), &bare.from.ifindex.to_ne_bytes(), MapFlags::ANY)
        })?
        .map_err(TrafficError::bpf("naming the bare loop's port"))?;
        let frame = vec![0u8; usize::from(bare.bytes_without_fcs)];
        let senders = bare
            .cores
            .iter()
            .map(|&core| LiveSender::start(skel.progs.bare_generate.as_fd(), &frame, core, BATCH, None))
            .collect::<Result<Vec<_>, _>>()?;
        // The first instants go into filling the page pool.
        std::thread::sleep(Duration::from_millis(20));
        let (start_ns, before) = (Clock::now_ns(), reading::bare(self.state()).1);
        std::thread::sleep(bare.duration);
        let (end_ns, after) = (Clock::now_ns(), reading::bare(self.state()).1);
        for sender in senders {
            sender.stop()?;
        }
        Ok((after - before) as f64 * 1e9 / (end_ns - start_ns) as f64)
    }
}

/// Ethernet and IPv4 headers of a complete, valid packet of the bare loop's one flow.
fn constant_header(lane: Lane, bare: &BareLoop<'_>) -> [u8; 34] {
    let template = frames::lane(lane, bare.from, bare.to, 0, IpVersion::V4);
    let mut header = [0u8; 34];
    header.copy_from_slice(&template.header[..34]);
    header[16..18].copy_from_slice(&(bare.bytes_without_fcs - 14).to_be_bytes());
    header[26..30].copy_from_slice(&(bare.from.v4_prefix + 1000).to_be_bytes());
    header[30..34].copy_from_slice(&(bare.to.v4_prefix + 1000).to_be_bytes());
    let check = frames::ipv4_check(&header[14..34]);
    header[24..26].copy_from_slice(&check);
    header
}
