//! The generated skeleton of `bpf/traffic/tcp.bpf.c`: programs, maps and the Rust types of `bpf/abi/tcp.h`.

include!(concat!(env!("OUT_DIR"), "/tcp.skel.rs"));

pub(crate) use crate::skeleton::{BUCKETS, MAX_CORES};
pub(crate) use generated::{TcpSkel, TcpSkelBuilder, types};

/// Sizes of `bpf/abi/tcp.h` that are array lengths there; the types below fail to compile when one differs.
pub(crate) const MAX_STEPS: usize = 256;
pub(crate) const MAX_SEGMENTS: usize = 128;
pub(crate) const MAX_MESSAGE_BYTES: usize = 65_536;
pub(crate) const MAX_SEGMENT_BYTES: usize = 1460;
pub(crate) const SLOTS_PER_PAGE: usize = 1024;
pub(crate) const COUNTED_SECONDS: usize = 256;
pub(crate) const TICK_SHIFT: u32 = 20;
/// Counters and histograms of one core.
pub(crate) const TCP_COUNTS: usize = 41;
pub(crate) const TCP_TIMES: usize = 7;

pub(crate) const ILLEGAL_KINDS: usize = 8;
pub(crate) const MAX_LISTED: usize = 65_536;

const _: fn(&types::bss) -> &[u32; MAX_LISTED] = |b| &b.listed;
const _: fn(&types::beside_core) -> &[u64; ILLEGAL_KINDS] = |c| &c.illegal_arrived;
const _: fn(&types::bss) -> &[types::tcp_core; MAX_CORES] = |b| &b.cores;
const _: fn(&types::tcp_control) -> &[types::tcp_step; MAX_STEPS] = |c| &c.steps;
const _: fn(&types::message) -> &[u32; MAX_SEGMENTS] = |m| &m.sums;
const _: fn(&types::message) -> &[u8; MAX_MESSAGE_BYTES + 2048] = |m| &m.data;
const _: fn(&types::slot_page) -> &[u32; SLOTS_PER_PAGE] = |p| &p.slots;
const _: fn(&types::tcp_core) -> &[u32; COUNTED_SECONDS] = |c| &c.opened_in;
const _: fn(&types::tcp_core) -> &[u64; TCP_COUNTS] = |c| &c.count;
const _: fn(&types::tcp_core) -> &[types::tcp_times; TCP_TIMES] = |c| &c.times;
const _: fn(&types::tcp_times) -> &[u64; BUCKETS] = |t| &t.count;
