//! Reading the counters of the generator and the sink.

use super::skeleton::{FIELDS as FIELD_COUNT, MAX_CORES, MAX_LANES, MAX_PROBES, types};
use crate::harness::memory::{clear, peek};
use crate::harness::{self, Histogram, Memory};
use serde::{Deserialize, Serialize};

/// One lane, all cores together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Copies beyond the first, and frames so old that nobody remembers whether they are.
    pub duplicated: u64,
    /// Frames that came after a later one.
    pub reordered: u64,
    /// Frames of other length or other content than they were sent with.
    pub corrupted: u64,
    /// Frames whose content was compared; headers are compared in all.
    pub compared: u64,
    /// Frames that came out of another port than their lane's.
    pub wrong_port: u64,
    /// Frames with headers that a forwarder has no business to change, by [`FIELD_NAMES`].
    pub altered: [u64; FIELD_COUNT],
    /// Datagrams that were sent in fragments and arrived whole: a firewall reassembled them and did not cut them again. Both
    /// fragments count as received.
    pub reassembled: u64,
    /// Longest time between two timed frames of a stream, in ns.
    pub longest_silence_ns: u64,
}

impl StreamCounts {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.skipped += other.skipped;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.compared += other.compared;
        self.wrong_port += other.wrong_port;
        for (sum, more) in self.altered.iter_mut().zip(other.altered) {
            *sum += more;
        }
        self.reassembled += other.reassembled;
        self.longest_silence_ns = self.longest_silence_ns.max(other.longest_silence_ns);
    }
}

/// Times of one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneTimes {
    /// Latency.
    pub latency: Histogram,
    /// Inter-packet delay variation (RFC 5481 section 4.1, absolute).
    pub variation: Histogram,
}

/// All counters at one moment, or the difference of two moments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Per lane, in the order of the plan.
    pub streams: Vec<StreamCounts>,
    /// Per lane.
    pub times: Vec<LaneTimes>,
    /// Frames at the sinks that were not ours.
    pub foreign: u64,
    /// Frames of an earlier trial.
    pub stale: u64,
    /// Frames with the mark of this trial and a stamp that the generator did not make.
    pub forged: u64,
    /// Frames sent along that the policy forbids.
    pub forbidden_sent: u64,
    /// Of these, how many arrived.
    pub forbidden_arrived: u64,
    /// The furthest that a sender was behind its schedule, in schedule time.
    pub largest_lag: u64,
    /// Frames sent more than 5 us after they were due.
    pub late: u64,
}

/// What reports call the fields of `enum field` in `bpf/abi/frames.h`, in its order.
pub const FIELD_NAMES: [&str; FIELD_COUNT] = [
    "source address",
    "destination address",
    "source port",
    "destination port",
    "Ethernet destination or type",
    "TOS or traffic class",
    "TTL",
    "protocol",
    "IP length",
    "IP id",
    "fragment offset or flags",
    "IP checksum",
    "UDP length",
    "UDP checksum",
];

impl harness::Generators for types::bss {
    fn set_start(&mut self, start_ns: u64) {
        self.control.start_ns = start_ns;
    }

    fn turns(memory: Memory<Self>, core: usize) -> u64 {
        peek!(memory => cores[core].turns)
    }

    fn finished(memory: Memory<Self>, core: usize) -> u64 {
        peek!(memory => cores[core].finished)
    }
}

pub(crate) fn sent(memory: Memory<types::bss>, core: usize, lane: usize) -> u64 {
    peek!(memory => cores[core].senders[lane].sent)
}

pub(crate) fn arrivals(memory: Memory<types::bss>) -> [types::arrival; MAX_PROBES] {
    peek!(memory => arrivals)
}

/// The Ethernet address that somebody answered with, if anybody did.
pub(crate) fn answer(memory: Memory<types::bss>) -> Option<[u8; 6]> {
    (peek!(memory => question.answers) > 0).then(|| peek!(memory => question.mac))
}

/// Frames that the bare loop received.
pub(crate) fn bare_received(memory: Memory<types::bss>) -> u64 {
    receiving_cores().map(|core| peek!(memory => bare[core].received)).sum()
}

fn receiving_cores() -> std::ops::Range<usize> {
    0..harness::cores_possible(MAX_CORES)
}

fn receiver_index(receiving: usize, sending: usize, lane: usize) -> usize {
    (receiving * MAX_CORES + sending) * MAX_LANES + lane
}

/// How many turns of the rings that remember which frames arrived the last trial went through, and one.
pub(crate) fn turns(memory: Memory<types::bss>) -> u32 {
    let shift = peek!(memory => control.seen_shift);
    let lanes = (0..MAX_CORES).flat_map(|core| (0..MAX_LANES).map(move |lane| (core, lane)));
    let most = lanes.map(|(core, lane)| sent(memory, core, lane)).max().unwrap_or(0);
    let most = most.max(highest_seen(memory));
    ((most / 32) >> shift) as u32 + 1
}

/// The highest number of a frame that arrived, which another host may have sent.
fn highest_seen(memory: Memory<types::bss>) -> u64 {
    let streams = (0..MAX_CORES).flat_map(|core| (0..MAX_LANES).map(move |lane| (core, lane)));
    let receivers =
        streams.flat_map(|(core, lane)| receiving_cores().map(move |at| receiver_index(at, core, lane)));
    receivers.map(|index| peek!(memory => receivers[index].highest)).max().unwrap_or(0)
}

/// Clears what a trial on these cores and lanes writes.
pub(crate) fn clear(memory: Memory<types::bss>, cores: &[usize], lanes: usize) {
    for &core in cores {
        clear!(memory => cores[core]);
    }
    for receiving in receiving_cores() {
        for lane in 0..lanes {
            for &sending in cores {
                clear!(memory => receivers[receiver_index(receiving, sending, lane)]);
            }
            clear!(memory => times[receiving * MAX_LANES + lane]);
        }
    }
}

impl Reading {
    pub(crate) fn take(memory: Memory<types::bss>, cores: &[usize], lanes: usize) -> Self {
        Self {
            streams: Self::take_counts(memory, cores, lanes),
            times: (0..lanes).map(|lane| lane_times(memory, lane)).collect(),
            foreign: receiving_cores().map(|core| peek!(memory => foreign[core])).sum(),
            stale: receiving_cores().map(|core| peek!(memory => stale[core])).sum(),
            forged: receiving_cores().map(|core| peek!(memory => unreadable[core])).sum(),
            forbidden_sent: cores.iter().map(|&core| peek!(memory => cores[core].forbidden_sent)).sum(),
            forbidden_arrived: receiving_cores().map(|core| peek!(memory => forbidden[core])).sum(),
            largest_lag: cores
                .iter()
                .map(|&core| peek!(memory => cores[core].largest_lag))
                .max()
                .unwrap_or(0),
            late: cores.iter().map(|&core| peek!(memory => cores[core].late)).sum(),
        }
    }

    /// The counters alone: cheap enough to look often.
    pub(crate) fn take_counts(
        memory: Memory<types::bss>,
        cores: &[usize],
        lanes: usize,
    ) -> Vec<StreamCounts> {
        (0..lanes).map(|lane| lane_counts(memory, cores, lane)).collect()
    }

    /// Adds what another host counted of the same trial.
    pub(super) fn add(&mut self, other: &Reading) {
        for (sum, more) in self.streams.iter_mut().zip(&other.streams) {
            sum.add(more);
        }
        for (sum, more) in self.times.iter_mut().zip(&other.times) {
            sum.latency.merge(&more.latency);
            sum.variation.merge(&more.variation);
        }
        self.foreign += other.foreign;
        self.stale += other.stale;
        self.forged += other.forged;
        self.forbidden_sent += other.forbidden_sent;
        self.forbidden_arrived += other.forbidden_arrived;
        self.largest_lag = self.largest_lag.max(other.largest_lag);
        self.late += other.late;
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
                (&mut now.compared, then.compared),
                (&mut now.wrong_port, then.wrong_port),
                (&mut now.reassembled, then.reassembled),
            ] {
                *now = now.saturating_sub(then);
            }
            for (now, then) in now.altered.iter_mut().zip(then.altered) {
                *now = now.saturating_sub(then);
            }
        }
        for (now, then) in made.times.iter_mut().zip(&earlier.times) {
            now.latency = now.latency.since(&then.latency);
            now.variation = now.variation.since(&then.variation);
        }
        for (now, then) in [
            (&mut made.foreign, earlier.foreign),
            (&mut made.stale, earlier.stale),
            (&mut made.forged, earlier.forged),
            (&mut made.forbidden_sent, earlier.forbidden_sent),
            (&mut made.forbidden_arrived, earlier.forbidden_arrived),
        ] {
            *now = now.saturating_sub(then);
        }
        made
    }
}

fn lane_counts(memory: Memory<types::bss>, cores: &[usize], lane: usize) -> StreamCounts {
    let mut sum = StreamCounts::default();
    for &core in cores {
        sum.sent += sent(memory, core, lane);
        sum.sent_bytes += peek!(memory => cores[core].senders[lane].sent_bytes);
        sum.skipped += peek!(memory => cores[core].senders[lane].skipped);
        for receiving in receiving_cores() {
            let index = receiver_index(receiving, core, lane);
            sum.received += peek!(memory => receivers[index].received);
            sum.received_bytes += peek!(memory => receivers[index].received_bytes);
            sum.duplicated += peek!(memory => receivers[index].duplicated);
            sum.reordered += peek!(memory => receivers[index].reordered);
            sum.corrupted += peek!(memory => receivers[index].corrupted);
            sum.compared += peek!(memory => receivers[index].compared);
            sum.wrong_port += peek!(memory => receivers[index].wrong_port);
            for (field, altered) in sum.altered.iter_mut().enumerate() {
                *altered += peek!(memory => receivers[index].altered[field]);
            }
            sum.reassembled += peek!(memory => receivers[index].reassembled);
            sum.longest_silence_ns =
                sum.longest_silence_ns.max(peek!(memory => receivers[index].longest_silence_ns));
        }
    }
    sum
}

fn lane_times(memory: Memory<types::bss>, lane: usize) -> LaneTimes {
    let mut made = LaneTimes::default();
    for receiving in receiving_cores() {
        let index = receiving * MAX_LANES + lane;
        made.latency.add(
            |bucket| peek!(memory => times[index].latency.count[bucket]),
            (
                peek!(memory => times[index].latency.sum_ns),
                peek!(memory => times[index].latency.min_ns),
                peek!(memory => times[index].latency.max_ns),
            ),
        );
        made.variation.add(
            |bucket| peek!(memory => times[index].variation.count[bucket]),
            (peek!(memory => times[index].variation.sum_ns), 0, 0),
        );
    }
    made
}
