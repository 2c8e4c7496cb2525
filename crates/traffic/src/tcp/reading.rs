//! Reading the counters and times of the client and the server.

use super::outcome::{Asked, BesideCounts};
use super::skeleton::{COUNTED_SECONDS, ILLEGAL_KINDS, MAX_CORES, TCP_COUNTS, TCP_TIMES, types};
use crate::harness::memory::{clear, peek};
use crate::harness::{self, Generators, Histogram, Memory, SCHEDULE_SHIFT};
use measure::pace::Look;
use measure::results::LatencySummary;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What was counted, in the order of `enum tcp_count` in `bpf/abi/tcp.h`.
        ///
        /// Connections balance: `attempted = no_tuple + opened`, and `opened` is the sum of `closed`, `refused`, `reset`,
        /// `peer_closed`, `wrong_data`, the time-outs, and what is [`TcpCounts::open`].
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct TcpCounts {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl TcpCounts {
            /// Names of the counters, in order.
            pub const NAMES: [&'static str; TCP_COUNTS] = [$(stringify!($name)),+];

            fn from_words(words: [u64; TCP_COUNTS]) -> Self {
                let [$($name),+] = words;
                Self { $($name),+ }
            }

            /// The counters in order.
            pub fn values(&self) -> [u64; TCP_COUNTS] {
                [$(self.$name),+]
            }
        }
    };
}

counts! {
    /// Starts that were due.
    attempted,
    /// Starts for which every tuple tried was still in use.
    no_tuple,
    /// Connections whose first SYN was sent.
    opened,
    /// Three-way handshakes done, seen from the client.
    established,
    /// Connections whose answer began to arrive.
    first_byte,
    /// Connections whose every answer arrived, complete and right.
    completed,
    /// Connections ended as the plan says.
    closed,
    /// Connections refused: RST to the SYN.
    refused,
    /// Connections ended by the peer's RST afterwards.
    reset,
    /// Connections ended by a FIN that the plan does not have.
    peer_closed,
    /// Connections ended because the answer was wrong, too short or too long.
    wrong_data,
    /// Connections given up before they were established.
    timeout_connect,
    /// Connections given up while an answer was awaited.
    timeout_answer,
    /// Connections given up while they were closing.
    timeout_close,
    /// Complete answers.
    answers,
    /// Complete answers on held connections: verifications.
    verified,
    /// SYN retransmitted.
    syn_again,
    /// Requests, or acknowledgements that ask for more, retransmitted.
    request_again,
    /// FIN, or acknowledgements that ask for one, retransmitted.
    close_again,
    /// Segments seen before.
    duplicate,
    /// Segments behind a hole, thrown away and asked for again.
    out_of_order,
    /// Segments to our addresses for no connection of ours.
    stray,
    /// Segments for a connection that is over.
    late,
    /// RST whose sequence number is not the next: ignored (RFC 5961 section 3.2).
    strange_reset,
    /// Segments thrown away because another core was changing the connection.
    contended,
    /// Frames that the client sent.
    frames_out,
    /// Frames that the client received.
    frames_in,
    /// Bytes that the client sent, without FCS.
    bytes_out,
    /// Bytes that the client received, without FCS.
    bytes_in,
    /// Frames left to the generator that it had no room for.
    deferred_lost,
    /// Whole requests, each when first sent.
    requests,
    /// Bytes of answers that the client accepted.
    answer_bytes,
    /// Answers that are not the server's to the request: made up, repeated, or another connection's. Their connections are
    /// counted as `wrong_data`.
    forged,
    /// Segments to the client whose checksum is wrong: thrown away.
    damaged,
    /// Established connections whose SYN-ACK has another sequence number than the server's: a proxy's, or changed ones. This and the next
    /// twelve are counted where both ends are ours.
    proxied,
    /// Segments to the client that the server did not write, without RST and without those of proxied connections.
    unsealed,
    /// Of these, with IPv6, segments whose seal is 0, as some firewalls leave an urgent pointer.
    seal_cleared,
    /// With IPv6, segments to the client that the server wrote.
    sealed,
    /// RST that reached the client, whoever wrote them.
    resets_in,
    /// SYN-ACK without an option that the client offered.
    options_removed,
    /// SYN and SYN-ACK with an option that nobody offered.
    options_added,
    /// SYN and SYN-ACK with a larger MSS or window scale than was written.
    options_raised,
    /// SYN and SYN-ACK with a smaller MSS or window scale than was written.
    options_lowered,
    /// Segments with a larger window than was written.
    window_raised,
    /// Segments with a smaller window than was written.
    window_lowered,
    /// Segments to the server that the client did not write, without RST.
    server_unsealed,
    /// Of these, with IPv6, segments whose seal is 0.
    server_seal_cleared,
    /// With IPv6, segments to the server that the client wrote.
    server_sealed,
    /// SYN that reached the server without an option that the client offered.
    server_options_removed,
    /// SYN that reached the server.
    server_syn,
    /// Segments that acknowledge the server's SYN-ACK and nothing behind it: at least one of each connection whose first ACK
    /// arrived.
    server_established,
    /// Whole requests that reached the server.
    server_request,
    /// Answers that the server began, repetitions included.
    server_answer,
    /// Bytes of answers that the server sent, repetitions included.
    server_answer_bytes,
    /// Requests that differ from the plan's.
    server_wrong_data,
    /// Requests that the client did not write: not answered.
    server_forged,
    /// SYN and requests that came from another address or port than their client's, where no firewall may translate.
    server_other_source,
    /// Segments to the server whose checksum is wrong: thrown away.
    server_damaged,
    /// FIN that reached the server.
    server_fin,
    /// RST that reached the server.
    server_reset,
    /// Segments that acknowledge what the server never sent.
    server_stray,
    /// SYN refused because the peer takes no segment of the size asked for.
    server_small_mss,
    /// Frames that the server sent.
    server_frames_out,
    /// Frames that the server received.
    server_frames_in,
    /// Bytes that the server received, without FCS.
    server_bytes_in,
}

impl TcpCounts {
    /// Connections over, for whatever reason.
    pub fn ended(&self) -> u64 {
        self.closed + self.failed()
    }

    /// Connections that ended otherwise than the plan says.
    pub fn failed(&self) -> u64 {
        self.refused
            + self.reset
            + self.peer_closed
            + self.wrong_data
            + self.timeout_connect
            + self.timeout_answer
            + self.timeout_close
    }

    /// Connections neither closed nor given up.
    pub fn open(&self) -> u64 {
        self.opened.saturating_sub(self.ended())
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let (now, then) = (self.values(), earlier.values());
        Self::from_words(std::array::from_fn(|i| now[i].saturating_sub(then[i])))
    }
}

/// What is timed, in the order of `enum tcp_time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpTime {
    /// Intended start to the first SYN.
    SynSent = 0,
    /// Intended start to the SYN-ACK.
    Established,
    /// Intended start to the first byte of the answer.
    FirstByte,
    /// Intended start to the last byte of the last answer.
    LastByte,
    /// Intended start to the end, of connections closed as the plan says.
    Closed,
    /// First SYN to the acknowledgement of the SYN-ACK (RFC 3511 appendix B).
    Establishment,
    /// First FIN or RST to the end (RFC 3511 appendix C).
    Teardown,
}

/// Counters and times at one moment, or between two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpReading {
    /// Starts that the schedule asked for in the whole run, legal and illegal; attempts where the run is unpaced.
    pub offered: u64,
    /// Counters.
    pub counts: TcpCounts,
    /// The furthest that a core was behind its schedule, ns.
    pub largest_lag_ns: u64,
    /// Frames at either port that were passed to the kernel.
    pub foreign: u64,
    pub(super) asked: Asked,
    pub(super) beside: BesideCounts,
    /// What had ended when, of the last reading of a run alone.
    pub(super) looks: Vec<Look>,
    times: Vec<Histogram>,
}

impl Generators for types::bss {
    fn set_start(&mut self, start_ns: u64) {
        self.control.start_ns = start_ns;
    }

    fn turns(memory: Memory<Self>, core: usize) -> u64 {
        peek!(memory => cores[core].turns)
    }

    fn finished(memory: Memory<Self>, core: usize) -> u64 {
        peek!(memory => cores[core].finished)
    }

    fn is_done(memory: Memory<Self>, core: usize) -> bool {
        let floods = peek!(memory => beside.attack_interval) != 0;
        Self::finished(memory, core) != 0
            && (!floods || peek!(memory => beside_cores[core].attack_finished) != 0)
    }
}

fn cores() -> std::ops::Range<usize> {
    0..harness::cores_possible(MAX_CORES)
}

/// Clears what a run counts.
pub(super) fn clear(memory: Memory<types::bss>) {
    for core in 0..MAX_CORES {
        clear!(memory => cores[core]);
        clear!(memory => beside_cores[core]);
    }
}

/// Connections answered by the stateless loop.
pub(crate) fn bare_answered(memory: Memory<types::bss>) -> u64 {
    cores().map(|core| peek!(memory => bare_tcp[core].answered)).sum()
}

/// Connections opened in each of the first `seconds` seconds, by when they were, not by when they were due.
pub(super) fn opened_each_second(memory: Memory<types::bss>, seconds: usize) -> Vec<u64> {
    let opened = |second: usize| -> u64 {
        cores().map(|core| u64::from(peek!(memory => cores[core].opened_in[second]))).sum()
    };
    (0..seconds.min(COUNTED_SECONDS)).map(opened).collect()
}

/// The counters alone: cheap enough to look often.
pub(crate) fn counts(memory: Memory<types::bss>) -> TcpCounts {
    let mut words = [0u64; TCP_COUNTS];
    for core in cores() {
        for (number, word) in words.iter_mut().enumerate() {
            *word += peek!(memory => cores[core].count[number]);
        }
    }
    TcpCounts::from_words(words)
}

/// Number of the last walk over its connections that core `core` has done.
pub(crate) fn walk_finished(memory: Memory<types::bss>, core: usize) -> u32 {
    peek!(memory => beside_cores[core].reset_finished)
}

/// What went on beside the connections.
pub(crate) fn beside(memory: Memory<types::bss>) -> BesideCounts {
    let mut sum = BesideCounts::default();
    for core in cores() {
        for kind in 0..ILLEGAL_KINDS {
            sum.illegal_attempted[kind] += peek!(memory => beside_cores[core].illegal_attempted[kind]);
            sum.illegal_arrived[kind] += peek!(memory => beside_cores[core].illegal_arrived[kind]);
            sum.illegal_answered[kind] += peek!(memory => beside_cores[core].illegal_answered[kind]);
        }
        sum.attack_sent += peek!(memory => beside_cores[core].attack_sent);
        sum.attack_forwarded += peek!(memory => beside_cores[core].attack_forwarded);
        sum.attack_answered += peek!(memory => beside_cores[core].attack_answered);
        sum.resets_sent += peek!(memory => beside_cores[core].resets_sent);
        sum.resets_forwarded += peek!(memory => beside_cores[core].resets_forwarded);
        sum.data_forwarded += peek!(memory => beside_cores[core].data_forwarded);
    }
    sum
}

impl TcpReading {
    pub(crate) fn take(memory: Memory<types::bss>, asked: &Asked) -> Self {
        Self {
            offered: asked.offered,
            asked: asked.clone(),
            beside: beside(memory),
            looks: Vec::new(),
            counts: counts(memory),
            largest_lag_ns: cores()
                .map(|core| peek!(memory => cores[core].largest_lag) >> SCHEDULE_SHIFT)
                .max()
                .unwrap_or(0),
            foreign: cores().map(|core| u64::from(peek!(memory => cores[core].foreign))).sum(),
            times: (0..TCP_TIMES).map(|time| times(memory, time)).collect(),
        }
    }

    /// What happened between `earlier` and this reading. The largest lag and the longest times are this reading's.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut made = self.clone();
        made.counts = self.counts.since(&earlier.counts);
        made.foreign = self.foreign.saturating_sub(earlier.foreign);
        made.beside = self.beside.since(&earlier.beside);
        for (now, then) in made.times.iter_mut().zip(&earlier.times) {
            *now = now.since(then);
        }
        made
    }

    /// (time in ns, connections) of one of the times, rising. Where connections are opened by the hundred thousand, one
    /// in sixteen is timed.
    pub fn histogram(&self, time: TcpTime) -> Vec<(u64, u64)> {
        self.times[time as usize].entries()
    }

    /// One of the times in ns, with mean and maximum exact; `None` when nothing was timed.
    pub fn time_ns(&self, time: TcpTime) -> Option<LatencySummary> {
        let times = &self.times[time as usize];
        Some(LatencySummary { max: times.max_ns as f64, ..times.summary()? })
    }

    /// One of the times in ns of what happened between `earlier` and this reading; `None` when nothing was timed. Its
    /// maximum is exact when it is the largest so far, else the middle of the largest's bucket.
    pub fn time_since_ns(&self, earlier: &Self, time: TcpTime) -> Option<LatencySummary> {
        let between = self.since(earlier);
        let mut summary = between.time_ns(time)?;
        if self.times[time as usize].max_ns == earlier.times[time as usize].max_ns {
            summary.max = between.histogram(time).last().map_or(0.0, |(ns, _)| *ns as f64).min(summary.max);
        }
        Some(summary)
    }
}

/// Before anything happened: what the first sample is compared with.
impl Default for TcpReading {
    fn default() -> Self {
        Self {
            offered: 0,
            counts: TcpCounts::default(),
            largest_lag_ns: 0,
            foreign: 0,
            asked: Asked::default(),
            beside: BesideCounts::default(),
            looks: Vec::new(),
            times: vec![Histogram::default(); TCP_TIMES],
        }
    }
}

fn times(memory: Memory<types::bss>, time: usize) -> Histogram {
    let mut made = Histogram::default();
    for core in cores() {
        made.add(
            |bucket| peek!(memory => cores[core].times[time].count[bucket]),
            (
                peek!(memory => cores[core].times[time].sum_ns),
                peek!(memory => cores[core].times[time].min_ns),
                peek!(memory => cores[core].times[time].max_ns),
            ),
        );
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enumerators of `bpf/abi/tcp.h` that begin with `prefix`, in order, in lower case.
    fn enumerators(prefix: &str) -> Vec<String> {
        let header = include_str!("../../../../bpf/abi/tcp.h");
        let names = header.lines().map(str::trim).filter(|line| line.starts_with(prefix));
        names
            .map(|line| line[prefix.len()..].split([',', ' ', '\t']).next().unwrap().to_lowercase())
            .collect()
    }

    #[test]
    fn counters_are_read_in_the_order_in_which_they_are_written() {
        assert_eq!(enumerators("COUNT_"), TcpCounts::NAMES);
    }

    #[test]
    fn times_are_read_in_the_order_in_which_they_are_written() {
        let read = format!(
            "{:?}",
            [
                TcpTime::SynSent,
                TcpTime::Established,
                TcpTime::FirstByte,
                TcpTime::LastByte,
                TcpTime::Closed,
                TcpTime::Establishment,
                TcpTime::Teardown
            ]
        );
        let written: Vec<String> = enumerators("TIME_")
            .iter()
            .map(|name| name.split('_').map(|w| w[..1].to_uppercase() + &w[1..]).collect())
            .collect();
        assert_eq!(read, format!("[{}]", written.join(", ")));
        assert_eq!(written.len(), TCP_TIMES);
    }
}
