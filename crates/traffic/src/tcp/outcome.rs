//! From counters to the vocabulary of results (`measure::connections`). No arithmetic but sums and differences.

use super::attack;
use super::illegal::number_of;
use super::looks::{self, Done};
use super::plan::{Answer, Close, TcpPlan};
use super::reading::{TcpCounts, TcpReading, TcpTime};
use super::skeleton::ILLEGAL_KINDS;
use measure::connections::{
    AttackOutcome, ConnectionOutcome, ConnectionSecond, ConnectionTimes, IllegalKind, IllegalOutcome,
};
use measure::frame::FCS_BYTES;
use measure::pace::Bounds;
use measure::served::{BothEnds, ServedOutcome};
use std::collections::BTreeMap;
use std::time::Duration;

/// A load of which a smaller share ended in time at best is not held, however little was seen.
const HELD: f64 = 0.9;

/// What a run was asked for, as far as its outcome says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Starts, legal and illegal.
    pub(super) offered: u64,
    /// Frames of the flood.
    attack: Option<u64>,
    /// Kinds of illegal attempts.
    illegal: Option<Vec<IllegalKind>>,
    /// A request on every connection after all were open.
    pub(super) verified: bool,
    /// The server is ours.
    pub(super) serves: bool,
    transactions: u64,
    answer_bytes: u64,
    close: Option<Close>,
    /// Whether the illegal attempts are the bench's own.
    watches: bool,
    /// The length of the load, if it does not change.
    constant_load: Option<Duration>,
    done: Done,
}

impl Asked {
    pub(super) fn of(plan: &TcpPlan, offered: u64, serves: bool) -> Self {
        Self {
            offered,
            attack: attack::offered(plan),
            illegal: plan.illegal.as_ref().map(|illegal| illegal.kinds.clone()),
            verified: false,
            serves,
            transactions: u64::from(plan.transactions),
            answer_bytes: match &plan.answer {
                Answer::Exactly(answer) => answer.bytes().len() as u64,
                Answer::UntilFin => 0,
            },
            close: Some(plan.close),
            watches: plan.illegal.as_ref().is_some_and(|illegal| illegal.watches),
            constant_load: looks::constant_load(plan),
            done: Done::of(plan),
        }
    }
}

/// What went on beside the connections. Frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BesideCounts {
    pub(super) attack_sent: u64,
    pub(super) attack_forwarded: u64,
    pub(super) attack_answered: u64,
    pub(super) illegal_attempted: [u64; ILLEGAL_KINDS],
    pub(super) illegal_arrived: [u64; ILLEGAL_KINDS],
    pub(super) illegal_answered: [u64; ILLEGAL_KINDS],
    pub(super) resets_sent: u64,
    pub(super) resets_forwarded: u64,
    pub(super) data_forwarded: u64,
}

impl BesideCounts {
    pub(super) fn illegal_attempts(&self) -> u64 {
        self.illegal_attempted.iter().sum()
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let kinds = |now: [u64; ILLEGAL_KINDS], then: [u64; ILLEGAL_KINDS]| {
            std::array::from_fn(|kind| now[kind].saturating_sub(then[kind]))
        };
        Self {
            attack_sent: self.attack_sent.saturating_sub(earlier.attack_sent),
            attack_forwarded: self.attack_forwarded.saturating_sub(earlier.attack_forwarded),
            attack_answered: self.attack_answered.saturating_sub(earlier.attack_answered),
            illegal_attempted: kinds(self.illegal_attempted, earlier.illegal_attempted),
            illegal_arrived: kinds(self.illegal_arrived, earlier.illegal_arrived),
            illegal_answered: kinds(self.illegal_answered, earlier.illegal_answered),
            resets_sent: self.resets_sent.saturating_sub(earlier.resets_sent),
            resets_forwarded: self.resets_forwarded.saturating_sub(earlier.resets_forwarded),
            data_forwarded: self.data_forwarded.saturating_sub(earlier.data_forwarded),
        }
    }
}

impl TcpCounts {
    /// Connections that ended otherwise than the plan says, by the names of [`ConnectionOutcome::failed`]; and `no-tuple`,
    /// starts for which every pair of client address and port tried was still in use. Without what is zero, and without
    /// `open`, which is no failure before the end.
    pub fn failed_by_name(&self) -> BTreeMap<String, u64> {
        [
            ("no-tuple", self.no_tuple),
            ("refused", self.refused),
            ("reset", self.reset),
            ("peer-closed", self.peer_closed),
            ("wrong-data", self.wrong_data),
            ("timeout-connect", self.timeout_connect),
            ("timeout-answer", self.timeout_answer),
            ("timeout-close", self.timeout_close),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
    }

    /// Frames that client and server received.
    pub fn frames(&self) -> u64 {
        self.frames_in + self.server_frames_in
    }

    /// Bits of those frames, FCS included.
    pub fn bits(&self) -> u64 {
        8 * (self.bytes_in + self.server_bytes_in + u64::from(FCS_BYTES) * self.frames())
    }
}

impl TcpReading {
    /// [`TcpCounts::failed_by_name`].
    pub fn failed_by_name(&self) -> BTreeMap<String, u64> {
        self.counts.failed_by_name()
    }

    /// The flood's frames; `None` without a flood.
    pub fn attack(&self) -> Option<AttackOutcome> {
        let offered = self.asked.attack?;
        Some(AttackOutcome {
            offered,
            sent: self.beside.attack_sent,
            forwarded: self.beside.attack_forwarded,
            answered: self.beside.attack_answered,
        })
    }

    /// Illegal attempts; `None` where the plan has none. One that arrives twice counts twice.
    pub fn illegal(&self) -> Option<IllegalOutcome> {
        let kinds = self.asked.illegal.as_ref()?;
        let mut outcome = IllegalOutcome::default();
        for &kind in kinds {
            let number = number_of(kind);
            let through = self.beside.illegal_arrived[number] + self.beside.illegal_answered[number];
            outcome.attempted.insert(kind.name().to_owned(), self.beside.illegal_attempted[number]);
            if through > 0 {
                outcome.got_through.insert(kind.name().to_owned(), through);
            }
        }
        Some(outcome)
    }

    /// What both ends counted, of the last reading of a run; `None` where the server is a stranger.
    pub fn served(&self) -> Option<ServedOutcome> {
        let (c, asked) = (&self.counts, &self.asked);
        let closes = match asked.close {
            // All at once at the end of the run, when nothing is measured any more.
            Some(Close::Never) | None => BothEnds::default(),
            Some(Close::Reset) => BothEnds::new(c.closed, c.server_reset),
            Some(Close::ClientFin | Close::ServerFin) => BothEnds::new(c.closed, c.server_fin),
        };
        let [(unsealed, seal_cleared), (server_unsealed, server_seal_cleared)] = [
            unsealed_or_cleared(c.unsealed, c.seal_cleared, c.sealed),
            unsealed_or_cleared(c.server_unsealed, c.server_seal_cleared, c.server_sealed),
        ];
        asked.serves.then(|| ServedOutcome {
            completed: c.closed,
            requests_each: asked.transactions,
            answer_bytes_each: asked.answer_bytes,
            syn: BothEnds::new(c.opened + c.syn_again, c.server_syn),
            established: BothEnds::new(c.established, c.server_established),
            requests: BothEnds::new(c.requests + c.request_again, c.server_request),
            answers: BothEnds::new(c.answers, c.server_request),
            answer_bytes: BothEnds::new(c.answer_bytes, c.server_answer_bytes),
            closes,
            acknowledged_closes: matches!(asked.close, Some(Close::ClientFin | Close::ServerFin)),
            repeated: c.request_again + c.close_again,
            forged_answers: c.forged,
            altered_answers: c.wrong_data.saturating_sub(c.forged),
            forged_requests: c.server_forged,
            altered_requests: c.server_wrong_data,
            other_source: c.server_other_source,
            damaged: BothEnds::new(c.damaged, c.server_damaged),
            opened: c.established,
            proxied: c.proxied,
            unsealed: BothEnds::new(unsealed, server_unsealed),
            seal_cleared: BothEnds::new(seal_cleared, server_seal_cleared),
            segments_to_client: BothEnds::new(c.frames_in.saturating_sub(c.resets_in), c.server_frames_out),
            segments_to_server: BothEnds::new(c.frames_out, c.server_frames_in),
            // Who built the bed knows.
            lost_on_links: 0,
            options_removed: BothEnds::new(c.options_removed, c.server_options_removed),
            options_added: c.options_added,
            options_raised: c.options_raised,
            options_lowered: c.options_lowered,
            window_raised: c.window_raised,
            window_lowered: c.window_lowered,
        })
    }

    /// Starts made, legal and illegal: what `offered` is to be compared with.
    pub fn attempts(&self) -> u64 {
        self.counts.attempted + self.beside.illegal_attempts()
    }

    /// What became of everything since the start: meant for the last reading of a run, where what is still open has failed
    /// (as `open`).
    pub fn outcome(&self) -> ConnectionOutcome {
        let counts = &self.counts;
        let mut failed = counts.failed_by_name();
        if counts.open() > 0 {
            failed.insert("open".to_owned(), counts.open());
        }
        ConnectionOutcome {
            attempted: counts.attempted,
            established: counts.established,
            completed: counts.completed,
            closed: counts.closed,
            failed,
            transactions: counts.answers,
            verified: self.asked.verified.then_some(counts.verified),
            retransmitted: counts.syn_again + counts.request_again + counts.close_again,
            frames: counts.frames(),
            bits: counts.bits(),
            times: self.times(),
            in_time: self.in_time().map(|bounds| bounds.best),
            served: self.served(),
            illegal: self.illegal().filter(|_| !self.asked.watches),
            forbidden: self.illegal().filter(|_| self.asked.watches),
            attack: self.attack(),
            resets: None,
            replacement: None,
        }
    }

    /// Whether a constant load that was held as far as anybody saw may as well not have been: nobody looked often enough.
    pub fn is_doubtful(&self) -> bool {
        let all = self.legal() as f64;
        self.in_time().is_some_and(|bounds| bounds.best.ended > HELD * all && bounds.are_far_apart(all))
    }

    /// What ended within a constant load; `None` where connections were opened to be held.
    fn in_time(&self) -> Option<Bounds> {
        let seconds = self.asked.constant_load.filter(|_| !self.asked.verified)?.as_secs_f64();
        let times = self.time_ns(self.asked.done.time())?;
        let times_seconds = [times.min, times.p50].map(|ns| ns / 1e9);
        Bounds::of(self.legal() as f64 / seconds, seconds, times_seconds, &self.looks)
    }

    /// Starts of connections that the load asked for.
    fn legal(&self) -> u64 {
        self.offered.saturating_sub(self.beside.illegal_attempts())
    }

    fn times(&self) -> ConnectionTimes {
        ConnectionTimes {
            syn_sent_ns: self.time_ns(TcpTime::SynSent),
            established_ns: self.time_ns(TcpTime::Established),
            first_byte_ns: self.time_ns(TcpTime::FirstByte),
            last_byte_ns: self.time_ns(TcpTime::LastByte),
            closed_ns: self.time_ns(TcpTime::Closed),
            establishment_ns: self.time_ns(TcpTime::Establishment),
            teardown_ns: self.time_ns(TcpTime::Teardown),
        }
    }

    /// What happened between `earlier` and this reading, both of one run.
    pub fn second(&self, earlier: &Self) -> ConnectionSecond {
        let counts = self.counts.since(&earlier.counts);
        let beside = self.beside.since(&earlier.beside);
        ConnectionSecond {
            established: counts.established,
            failed: counts.failed_by_name(),
            open: self.counts.open(),
            frames: counts.frames(),
            bits: counts.bits(),
            established_ns: self.time_since_ns(earlier, TcpTime::Established),
            attack_sent: beside.attack_sent,
            attack_forwarded: beside.attack_forwarded,
        }
    }
}

/// Segments that the firewall wrote, and segments whose seal it cleared. Where no segment has a seal, the firewall clears them all, and nobody
/// knows who wrote which. Where some have one, the others are the firewall's.
const fn unsealed_or_cleared(unsealed: u64, cleared: u64, sealed: u64) -> (u64, u64) {
    if sealed == 0 && cleared == unsealed { (0, cleared) } else { (unsealed, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::connections::{AttackKind, ResetKind};

    /// Names of the enumerators of `bpf/abi/tcp_beside.h` that begin with `prefix`, as suites write them.
    fn enumerators(prefix: &str) -> Vec<String> {
        let header = include_str!("../../../../bpf/abi/tcp_beside.h");
        let lines =
            header.lines().map(str::trim).filter(|line| line.starts_with(prefix) && line.contains(" = "));
        lines
            .map(|line| line[prefix.len()..].split(' ').next().unwrap().to_lowercase().replace('_', "-"))
            .collect()
    }

    #[test]
    fn kinds_have_the_same_numbers_on_both_sides() {
        assert_eq!(enumerators("ATTACK_"), AttackKind::ALL.map(AttackKind::name));
        assert_eq!(enumerators("ILLEGAL_")[..ILLEGAL_KINDS], IllegalKind::ALL.map(IllegalKind::name));
        let resets = [ResetKind::OutsideWindow, ResetKind::InsideWindow, ResetKind::Legitimate];
        assert_eq!(enumerators("RESET_")[1..4], resets.map(ResetKind::name));
    }

    /// What a firewall wrote without a seal must not look like seals that it cleared.
    #[test]
    fn seals_are_cleared_when_no_segment_has_one() {
        // Unsealed, of these cleared, sealed; then unsealed and cleared.
        let rows = [
            ((0, 0, 0), (0, 0)),
            ((0, 0, 500), (0, 0)),
            ((500, 500, 0), (0, 500)),
            ((500, 500, 1), (500, 0)),
            ((500, 499, 0), (500, 0)),
            ((500, 0, 0), (500, 0)),
        ];
        for ((unsealed, cleared, sealed), found) in rows {
            assert_eq!(
                unsealed_or_cleared(unsealed, cleared, sealed),
                found,
                "{unsealed} {cleared} {sealed}"
            );
        }
    }

    #[test]
    fn every_way_to_fail_has_a_name() {
        let counts = TcpCounts {
            no_tuple: 1,
            refused: 2,
            reset: 4,
            peer_closed: 8,
            wrong_data: 16,
            timeout_connect: 32,
            timeout_answer: 64,
            timeout_close: 128,
            opened: 300,
            closed: 40,
            ..Default::default()
        };
        let failed = counts.failed_by_name();
        assert_eq!((failed.len(), failed.values().sum::<u64>()), (8, counts.failed() + counts.no_tuple));
        let mut reading = TcpReading::default();
        reading.counts = counts;
        let outcome = reading.outcome();
        assert_eq!(outcome.failed["open"], 300 - 40 - counts.failed());
        assert_eq!((outcome.attack, outcome.illegal, outcome.verified), (None, None, None));
    }
}
