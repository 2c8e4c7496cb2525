//! Reading the counters that the programs write while they run. Every read is of one aligned word, so a value may be
//! some frames old but is never torn.

use crate::histogram;
use crate::skeleton::{BUCKETS, MAX_CORES, MAX_LANES, MAX_PROBES, types};
use std::ptr::{addr_of, addr_of_mut};

/// One lane, all cores together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Frames handed to the link.
    pub sent: u64,
    /// Their bytes, without FCS.
    pub sent_bytes: u64,
    /// Frames left out because the sender was too far behind.
    pub skipped: u64,
    /// Distinct frames received intact.
    pub received: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Copies beyond the first.
    pub duplicated: u64,
    /// Frames that came after a later one.
    pub reordered: u64,
    /// Frames with our mark but wrong content. Those whose stamp is damaged, so that nobody knows their lane, count on
    /// the first.
    pub corrupted: u64,
    /// Datagrams that were sent in fragments and arrived whole: a firewall reassembled them and did not cut them again. Both
    /// fragments count as received; that the second one's content is right was not looked at.
    pub reassembled: u64,
    /// Longest time between two timed frames of a stream, in ns.
    pub longest_silence_ns: u64,
}

/// Times of one lane: histogram counts by bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneTimes {
    latency: Vec<u64>,
    variation: Vec<u64>,
    /// Sum of all latencies, ns.
    pub latency_sum_ns: u64,
    /// Frames timed.
    pub latency_count: u64,
    /// Smallest latency since the start of the trial, ns.
    pub latency_min_ns: u64,
    /// Largest latency since the start of the trial, ns.
    pub latency_max_ns: u64,
}

impl LaneTimes {
    /// (time in ns, frames) of the latency histogram, rising.
    pub fn latency(&self) -> Vec<(u64, u64)> {
        entries(&self.latency)
    }

    /// (time in ns, frames) of the inter-packet delay variation (RFC 5481 section 4.1, absolute), rising.
    pub fn variation(&self) -> Vec<(u64, u64)> {
        entries(&self.variation)
    }
}

fn entries(counts: &[u64]) -> Vec<(u64, u64)> {
    counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(bucket, count)| (histogram::middle_ns(bucket), *count))
        .collect()
}

/// All counters at one moment, or the difference of two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Per lane, in the order of the plan.
    pub streams: Vec<StreamCounts>,
    /// Per lane.
    pub times: Vec<LaneTimes>,
    /// Frames at the sinks that were not ours.
    pub foreign: u64,
    /// Frames of an earlier trial.
    pub stale: u64,
    /// The furthest that a sender was behind its schedule, in schedule time.
    pub largest_lag: u64,
    /// Frames sent more than 5 us after they were due.
    pub late: u64,
}

/// A volatile read of one field, which a program may be writing.
macro_rules! peek {
    ($($place:tt)+) => {
        // SAFETY: the place is inside the mapped global state, aligned, and always initialised; concurrent writes by
        // the BPF programs are single aligned words.
        unsafe { addr_of!($($place)+).read_volatile() }
    };
}

pub(crate) fn finished(state: *mut types::bss, core: usize) -> u64 {
    peek!((*state).cores[core].finished)
}

pub(crate) fn turns(state: *mut types::bss, core: usize) -> u64 {
    peek!((*state).cores[core].turns)
}

pub(crate) fn sent(state: *mut types::bss, core: usize, lane: usize) -> u64 {
    peek!((*state).cores[core].senders[lane].sent)
}

pub(crate) fn arrivals(state: *mut types::bss) -> [types::arrival; MAX_PROBES] {
    peek!((*state).arrivals)
}

/// The Ethernet address that somebody answered with, if anybody did.
pub(crate) fn answer(state: *mut types::bss) -> Option<[u8; 6]> {
    (peek!((*state).question.answers) > 0).then(|| peek!((*state).question.mac))
}

pub(crate) fn bare(state: *mut types::bss) -> (u64, u64) {
    (0..MAX_CORES)
        .map(|core| (peek!((*state).bare[core].sent), peek!((*state).bare[core].received)))
        .fold((0, 0), |sum, core| (sum.0 + core.0, sum.1 + core.1))
}

fn cores_online() -> usize {
    std::thread::available_parallelism().map_or(MAX_CORES, |n| n.get().max(1)).clamp(1, MAX_CORES)
}

fn receiver_index(receiving: usize, sending: usize, lane: usize) -> usize {
    (receiving * MAX_CORES + sending) * MAX_LANES + lane
}

/// Clears what a trial on these cores and lanes writes.
pub(crate) fn clear(state: *mut types::bss, cores: &[usize], lanes: usize) {
    for &core in cores {
        // SAFETY: no trial runs, so nobody else writes; the places are inside the mapped state and zero is valid.
        unsafe { addr_of_mut!((*state).cores[core]).write_bytes(0, 1) };
    }
    for receiving in 0..cores_online() {
        for lane in 0..lanes {
            for &sending in cores {
                let index = receiver_index(receiving, sending, lane);
                // SAFETY: as above.
                unsafe { addr_of_mut!((*state).receivers[index]).write_bytes(0, 1) };
            }
            // SAFETY: as above.
            unsafe { addr_of_mut!((*state).times[receiving * MAX_LANES + lane]).write_bytes(0, 1) };
        }
    }
}

impl Reading {
    pub(crate) fn take(state: *mut types::bss, cores: &[usize], lanes: usize) -> Self {
        Self {
            streams: Self::take_counts(state, cores, lanes),
            times: (0..lanes).map(|lane| lane_times(state, lane)).collect(),
            foreign: (0..cores_online()).map(|core| peek!((*state).foreign[core])).sum(),
            stale: (0..cores_online()).map(|core| peek!((*state).stale[core])).sum(),
            largest_lag: cores.iter().map(|&core| peek!((*state).cores[core].largest_lag)).max().unwrap_or(0),
            late: cores.iter().map(|&core| peek!((*state).cores[core].late)).sum(),
        }
    }

    pub(crate) fn take_counts(state: *mut types::bss, cores: &[usize], lanes: usize) -> Vec<StreamCounts> {
        let mut counts: Vec<StreamCounts> = (0..lanes).map(|lane| lane_counts(state, cores, lane)).collect();
        if let Some(first) = counts.first_mut() {
            first.corrupted += (0..cores_online()).map(|core| peek!((*state).unreadable[core])).sum::<u64>();
        }
        counts
    }

    /// What happened between `earlier` and this reading. Smallest, largest and latest values are this reading's.
    pub fn since(&self, earlier: &Reading) -> Reading {
        let mut made = self.clone();
        for (now, then) in made.streams.iter_mut().zip(&earlier.streams) {
            for (now, then) in [
                (&mut now.sent, then.sent),
                (&mut now.sent_bytes, then.sent_bytes),
                (&mut now.skipped, then.skipped),
                (&mut now.received, then.received),
                (&mut now.received_bytes, then.received_bytes),
                (&mut now.duplicated, then.duplicated),
                (&mut now.reordered, then.reordered),
                (&mut now.corrupted, then.corrupted),
                (&mut now.reassembled, then.reassembled),
            ] {
                *now = now.saturating_sub(then);
            }
        }
        for (now, then) in made.times.iter_mut().zip(&earlier.times) {
            subtract(&mut now.latency, &then.latency);
            subtract(&mut now.variation, &then.variation);
            now.latency_sum_ns = now.latency_sum_ns.saturating_sub(then.latency_sum_ns);
            now.latency_count = now.latency_count.saturating_sub(then.latency_count);
        }
        made.foreign = made.foreign.saturating_sub(earlier.foreign);
        made.stale = made.stale.saturating_sub(earlier.stale);
        made
    }
}

fn subtract(now: &mut [u64], then: &[u64]) {
    for (now, then) in now.iter_mut().zip(then) {
        *now = now.saturating_sub(*then);
    }
}

fn lane_counts(state: *mut types::bss, cores: &[usize], lane: usize) -> StreamCounts {
    let mut sum = StreamCounts::default();
    for &core in cores {
        sum.sent += peek!((*state).cores[core].senders[lane].sent);
        sum.sent_bytes += peek!((*state).cores[core].senders[lane].sent_bytes);
        sum.skipped += peek!((*state).cores[core].senders[lane].skipped);
        for receiving in 0..cores_online() {
            let index = receiver_index(receiving, core, lane);
            sum.received += peek!((*state).receivers[index].received);
            sum.received_bytes += peek!((*state).receivers[index].received_bytes);
            sum.duplicated += peek!((*state).receivers[index].duplicated);
            sum.reordered += peek!((*state).receivers[index].reordered);
            sum.corrupted += peek!((*state).receivers[index].corrupted);
            sum.reassembled += peek!((*state).receivers[index].reassembled);
            sum.longest_silence_ns =
                sum.longest_silence_ns.max(peek!((*state).receivers[index].longest_silence_ns));
        }
    }
    sum
}

fn lane_times(state: *mut types::bss, lane: usize) -> LaneTimes {
    let mut made = LaneTimes {
        latency: vec![0; BUCKETS],
        variation: vec![0; BUCKETS],
        latency_sum_ns: 0,
        latency_count: 0,
        latency_min_ns: 0,
        latency_max_ns: 0,
    };
    for receiving in 0..cores_online() {
        let index = receiving * MAX_LANES + lane;
        for bucket in 0..BUCKETS {
            made.latency[bucket] += peek!((*state).times[index].latency[bucket]);
            made.variation[bucket] += peek!((*state).times[index].variation[bucket]);
        }
        made.latency_sum_ns += peek!((*state).times[index].latency_sum_ns);
        made.latency_count += peek!((*state).times[index].latency_count);
        let (min, max) =
            (peek!((*state).times[index].latency_min_ns), peek!((*state).times[index].latency_max_ns));
        if min > 0 && (made.latency_min_ns == 0 || min < made.latency_min_ns) {
            made.latency_min_ns = min;
        }
        made.latency_max_ns = made.latency_max_ns.max(max);
    }
    made
}
