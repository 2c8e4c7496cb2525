//! The generated skeleton of `bpf/traffic/frames.bpf.c`: programs, maps and the Rust types of `bpf/abi/frames.h`.

use crate::harness::{BUCKET_BITS, BUCKETS, SCHEDULE_SHIFT, length};

include!(concat!(env!("OUT_DIR"), "/frames.skel.rs"));

pub(crate) use generated::{FramesSkel, FramesSkelBuilder, types};

pub(crate) const MAX_CORES: usize = length(|bss: &types::bss| &bss.cores);
pub(crate) const MAX_LANES: usize = length(|core: &types::core| &core.senders);
pub(crate) const MAX_MIX: usize = length(|control: &types::control| &control.mix);
pub(crate) const MAX_PHASES: usize = length(|control: &types::control| &control.phases);
pub(crate) const MAX_PROBES: usize = length(|bss: &types::bss| &bss.probes);
pub(crate) const MAX_PORTS: usize = length(|bss: &types::bss| &bss.identities);
pub(crate) const FLOWS_PER_PAGE: usize = length(|page: &types::flow_page| &page.flows);
pub(crate) const PROBE_FRAME_BYTES: usize = length(|probe: &types::probe| &probe.frame);
pub(crate) const MAX_FORBIDDEN_SOURCES: usize = length(|bss: &types::bss| &bss.forbidden_sources);
pub(crate) const FIELDS: usize = length(|receiver: &types::receiver| &receiver.altered);
pub(crate) const ARRIVAL_BYTES: usize = length(|arrival: &types::arrival| &arrival.head);

const _: fn(&types::histogram) -> &[u64; BUCKETS] = |histogram| &histogram.count;
const _: () = assert!(
    types::traffic_sizes::BUCKET_BITS.0 == BUCKET_BITS
        && types::traffic_sizes::SCHEDULE_SHIFT.0 == SCHEDULE_SHIFT
);
