//! The generated skeleton of `bpf/traffic/frames.bpf.c`: programs, maps and the Rust types of `bpf/abi/frames.h`.

include!(concat!(env!("OUT_DIR"), "/frames.skel.rs"));

pub(crate) use generated::{FramesSkel, FramesSkelBuilder, types};

/// Sizes of `bpf/abi/traffic.h` and `bpf/abi/frames.h` that are array lengths there; the types below fail to compile when one differs.
pub(crate) const MAX_CORES: usize = 64;
pub(crate) const MAX_LANES: usize = 8;
pub(crate) const MAX_MIX: usize = 64;
pub(crate) const MAX_PHASES: usize = 4;
pub(crate) const MAX_PROBES: usize = 64;
pub(crate) const FLOWS_PER_PAGE: usize = 512;
pub(crate) const BUCKET_BITS: u32 = 7;
pub(crate) const BUCKETS: usize = 4096;
pub(crate) const SCHEDULE_SHIFT: u32 = 20;
pub(crate) const PROBE_FRAME_BYTES: usize = 128;
pub(crate) const ARRIVAL_BYTES: usize = 60;
/// Slots of the device map: ports of all beds that one engine serves.
pub(crate) const MAX_PORTS: usize = 256;

const _: fn(&types::bss) -> &[types::core; MAX_CORES] = |b| &b.cores;
const _: fn(&types::bss) -> &[types::receiver; MAX_CORES * MAX_CORES * MAX_LANES] = |b| &b.receivers;
const _: fn(&types::bss) -> &[types::probe; MAX_PROBES] = |b| &b.probes;
const _: fn(&types::control) -> &[types::mix_size; MAX_MIX] = |c| &c.mix;
const _: fn(&types::control) -> &[types::phase; MAX_PHASES] = |c| &c.phases;
const _: fn(&types::flow_page) -> &[types::flow; FLOWS_PER_PAGE] = |p| &p.flows;
const _: fn(&types::times) -> &[u64; BUCKETS] = |t| &t.latency;
const _: fn(&types::arrival) -> &[u8; ARRIVAL_BYTES] = |a| &a.head;
const _: fn(&types::probe) -> &[u8; PROBE_FRAME_BYTES] = |p| &p.frame;
const _: fn(&types::bss) -> &[types::identity; MAX_PORTS] = |b| &b.identities;
