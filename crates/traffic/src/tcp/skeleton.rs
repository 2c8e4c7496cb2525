//! The generated skeleton of `bpf/traffic/tcp.bpf.c`: programs, maps and the Rust types of `bpf/abi/tcp.h`.

use crate::harness::{BUCKET_BITS, BUCKETS, SCHEDULE_SHIFT, length};

include!(concat!(env!("OUT_DIR"), "/tcp.skel.rs"));

pub(crate) use generated::{TcpSkel, TcpSkelBuilder, types};

pub(crate) const MAX_CORES: usize = length(|bss: &types::bss| &bss.cores);
pub(crate) const MAX_STEPS: usize = length(|control: &types::tcp_control| &control.steps);
pub(crate) const SLOTS_PER_PAGE: usize = length(|page: &types::slot_page| &page.slots);
pub(crate) const COUNTED_SECONDS: usize = length(|core: &types::tcp_core| &core.opened_in);
pub(crate) const TCP_COUNTS: usize = length(|core: &types::tcp_core| &core.count);
pub(crate) const TCP_TIMES: usize = length(|core: &types::tcp_core| &core.times);
pub(crate) const ILLEGAL_KINDS: usize = length(|core: &types::beside_core| &core.illegal_arrived);
pub(crate) const MAX_LISTED: usize = length(|bss: &types::bss| &bss.listed);
pub(crate) const MAX_MESSAGE_BYTES: usize = types::tcp_sizes::MAX_MESSAGE_BYTES.0 as usize;
pub(crate) const MAX_SEGMENT_BYTES: usize = types::tcp_sizes::MAX_SEGMENT_BYTES.0 as usize;
pub(crate) const TICK_SHIFT: u32 = types::tcp_sizes::TICK_SHIFT.0;
pub(crate) const PROOF_BYTES: usize = types::tcp_sizes::PROOF_BYTES.0 as usize;
/// Of `bpf/abi/tcp.h`: all bits.
pub(crate) const NO_PROOF: u32 = u32::MAX;

const _: fn(&types::histogram) -> &[u64; BUCKETS] = |histogram| &histogram.count;
const _: () = assert!(
    types::traffic_sizes::BUCKET_BITS.0 == BUCKET_BITS
        && types::traffic_sizes::SCHEDULE_SHIFT.0 == SCHEDULE_SHIFT
);
const _: fn(&types::message) -> &[u8; MAX_MESSAGE_BYTES + 2048] = |message| &message.data;
