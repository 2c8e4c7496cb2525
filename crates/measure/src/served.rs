//! Whether the server served what the client completed. Both ends count for themselves, and whatever stands between them may
//! lose segments, but it may not speak in the name of either. Pure.

use crate::level::grouped;
use crate::results::is_default;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that one end sent or completed, and the other one saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BothEnds {
    /// At the client.
    pub client: u64,
    /// At the server.
    pub server: u64,
}

impl BothEnds {
    /// Client first.
    pub const fn new(client: u64, server: u64) -> Self {
        Self { client, server }
    }

    const fn plus(self, other: Self) -> Self {
        Self::new(self.client + other.client, self.server + other.server)
    }

    /// What the client has more than the server.
    const fn missing(&self) -> u64 {
        self.client.saturating_sub(self.server)
    }

    /// What the server has more than the client.
    const fn surplus(&self) -> u64 {
        self.server.saturating_sub(self.client)
    }
}

/// What both ends of a trial's connections counted, as far as it must agree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServedOutcome {
    /// Connections that the client completed.
    pub completed: u64,
    /// Requests of each of them.
    pub requests_each: u64,
    /// Bytes of each answer.
    pub answer_bytes_each: u64,
    /// SYN that the client sent, and those that arrived.
    pub syn: BothEnds,
    /// Connections that the client established, and segments at the server that acknowledge its SYN-ACK and nothing else.
    pub established: BothEnds,
    /// Whole requests that the client sent, repetitions included, and those that arrived.
    pub requests: BothEnds,
    /// Whole answers that the client has, and whole requests that arrived.
    pub answers: BothEnds,
    /// Bytes of answers that the client accepted, and that the server sent.
    pub answer_bytes: BothEnds,
    /// Connections that the client ended as the suite says, and the FIN or RST that arrived; 0 where they are all ended at once
    /// when the trial is over.
    pub closes: BothEnds,
    /// Whether the server acknowledges the end (FIN) or not (RST), so that it may be lost unnoticed.
    pub acknowledged_closes: bool,
    /// Times that the client repeated something, which lets a SYN proxy repeat its SYN.
    pub repeated: u64,
    /// Answers that were not the server's to the request.
    pub forged_answers: u64,
    /// Answers of other bytes than the server's.
    pub altered_answers: u64,
    /// Requests that the client did not write.
    pub forged_requests: u64,
    /// Requests of other bytes than the client's.
    pub altered_requests: u64,
    /// SYN and requests from another address or port than their client's, where the policy translates none.
    pub other_source: u64,
    /// Segments that arrived with a wrong checksum.
    pub damaged: BothEnds,
    /// Connections that the client established.
    pub opened: u64,
    /// Of these, with whom the client spoke was not the server, as the sequence number says: a proxy, or a firewall that changes sequence
    /// numbers.
    pub proxied: u64,
    /// Segments that reached an end and that the other end did not write: the client without those of proxied connections.
    pub unsealed: BothEnds,
    /// Segments that reached an end when the firewall had cleared the seals of all, so that nobody knows who wrote them.
    pub seal_cleared: BothEnds,
    /// Segments that reached the client, without RST, and that the server sent.
    pub segments_to_client: BothEnds,
    /// Segments that the client sent, and that reached the server.
    pub segments_to_server: BothEnds,
    /// Frames that the links of a bed lost meanwhile, whose rings were full; 0 where nobody counts them.
    pub lost_on_links: u64,
    /// SYN-ACK, and SYN, that arrived without an option that was offered.
    pub options_removed: BothEnds,
    /// SYN and SYN-ACK that arrived with an option that nobody offered.
    pub options_added: u64,
    /// SYN and SYN-ACK that arrived with a larger MSS or window scale than was written.
    pub options_raised: u64,
    /// With a smaller one.
    pub options_lowered: u64,
    /// Segments that arrived with a larger window than was written.
    pub window_raised: u64,
    /// With a smaller one.
    pub window_lowered: u64,
}

/// Segments that arrive more often than they were sent are tolerated up to this share, as frames are.
const REPEATED_TOLERANCE: f64 = 1e-4;

impl ServedOutcome {
    /// Connections that the client completed and the server did not serve.
    pub fn unserved(&self) -> u64 {
        let answers = self.answers.missing().div_ceil(self.requests_each.max(1));
        let each = (self.answer_bytes_each * self.requests_each).max(1);
        let bytes = self.answer_bytes.missing().div_ceil(each);
        let mut most = answers.max(bytes).max(self.established.client.saturating_sub(self.syn.server));
        if self.acknowledged_closes {
            most = most.max(self.closes.missing());
        }
        if self.requests_each == 0 && !self.is_loss(self.established) {
            most = most.max(self.established.missing());
        }
        most.min(self.completed)
    }

    /// What disagrees, in sentences; empty where both ends agree.
    pub fn disagreements(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut say = |count: u64, text: String| {
            if count > 0 {
                found.push(text);
            }
        };
        let (unserved, completed) = (self.unserved(), self.completed);
        let served = grouped(completed - unserved);
        say(
            unserved,
            format!(
                "the server served {served} of the {} connections that the client completed",
                grouped(completed)
            ),
        );
        let strange = self.established.client.saturating_sub(self.syn.server);
        say(
            strange.saturating_sub(unserved),
            format!("{} connections were established whose SYN never reached the server", grouped(strange)),
        );
        let closes =
            if self.acknowledged_closes || self.is_loss(self.closes) { 0 } else { self.closes.missing() };
        let ended = grouped(self.closes.client);
        say(
            closes,
            format!("the ends of {} of the {ended} connections did not reach the server", grouped(closes)),
        );
        // What the client repeats may be lost on one side of a SYN proxy alone, which then opens the other side again.
        let syn = self.syn.surplus().saturating_sub(self.repeated);
        say(syn, format!("{} SYN more reached the server than the client sent", grouped(syn)));
        let requests = self.requests.surplus();
        say(requests, format!("{} requests more reached the server than the client sent", grouped(requests)));
        for (count, what) in [
            (
                self.forged_answers,
                "answers were not the server's to that request: made up, repeated, or another connection's",
            ),
            (self.altered_answers, "answers arrived with other bytes than the server's"),
            (self.forged_requests, "requests reached the server that no client wrote"),
            (self.altered_requests, "requests reached the server with other bytes than the client's"),
            (
                self.other_source,
                "segments reached the server from another address or port than their client's",
            ),
            (self.damaged.client, "segments reached the client with a wrong checksum"),
            (self.damaged.server, "segments reached the server with a wrong checksum"),
            (self.unsealed.client, "segments reached the client that the server did not write"),
            (self.unsealed_by_no_proxy(), "segments reached the server that the client did not write"),
            (self.repeated_to_client(), "segments more reached the client than the server sent"),
            (self.repeated_to_server(), "segments more reached the server than the client sent"),
            (self.options_added, "SYN or SYN-ACK arrived with an option that its sender did not offer"),
            (self.options_raised, "SYN or SYN-ACK arrived with a larger MSS or window scale"),
            (
                self.options_removed.missing(),
                "SYN-ACK lost options on their way that the server had agreed to",
            ),
            (self.window_raised, "segments arrived with a larger window than their sender's"),
        ] {
            say(count, format!("{} {what}", grouped(count)));
        }
        found
    }

    /// What remarks are made of, over several trials.
    pub fn sum<'a>(trials: impl Iterator<Item = &'a Self>) -> Self {
        trials.fold(Self::default(), |sum, trial| Self {
            opened: sum.opened + trial.opened,
            proxied: sum.proxied + trial.proxied,
            syn: sum.syn.plus(trial.syn),
            seal_cleared: sum.seal_cleared.plus(trial.seal_cleared),
            options_removed: sum.options_removed.plus(trial.options_removed),
            options_lowered: sum.options_lowered + trial.options_lowered,
            window_lowered: sum.window_lowered + trial.window_lowered,
            ..sum
        })
    }

    /// What a firewall may do and a reader should know.
    pub fn remarks(&self) -> Vec<String> {
        let of = |count: u64, of: u64| format!("{} of {}", grouped(count), grouped(of));
        let cleared = self.seal_cleared.client + self.seal_cleared.server;
        [
            (
                self.proxied,
                format!(
                    "{} connections were not with the server, but with a proxy (or sequence numbers were changed): times are the \
                     proxy's, and nobody can say which segments it wrote",
                    of(self.proxied, self.opened)
                ),
            ),
            (
                cleared,
                format!(
                    "{} segments arrived with an urgent pointer of 0, because the firewall clears it: nobody can say which of \
                     them it wrote, nor whether it changed their windows and options",
                    grouped(cleared)
                ),
            ),
            (
                self.options_removed.server,
                format!(
                    "{} SYN reached the server without an option that the client offered",
                    of(self.options_removed.server, self.syn.server)
                ),
            ),
            (
                self.options_lowered,
                format!("{} SYN or SYN-ACK arrived with a smaller MSS or window scale", grouped(self.options_lowered)),
            ),
            (
                self.window_lowered,
                format!("{} segments arrived with a smaller window than their sender's", grouped(self.window_lowered)),
            ),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, text)| text)
        .collect()
    }

    /// Segments to the server that neither the client nor a proxy wrote: of a proxied connection twice as many are the proxy's as the
    /// client sends on average, because it opens, asks and ends by itself.
    fn unsealed_by_no_proxy(&self) -> u64 {
        let each = (2 * self.segments_to_server.client).div_ceil(self.opened.max(1));
        self.unsealed.server.saturating_sub(self.proxied.saturating_mul(each))
    }

    /// A proxy has segments of its own, which are no repetitions.
    fn repeated_to_client(&self) -> u64 {
        Self::repeated(self.segments_to_client.client, self.segments_to_client.server, self.proxied)
    }

    fn repeated_to_server(&self) -> u64 {
        Self::repeated(self.segments_to_server.server, self.segments_to_server.client, self.proxied)
    }

    fn repeated(arrived: u64, sent: u64, proxied: u64) -> u64 {
        let surplus = arrived.saturating_sub(sent);
        if proxied > 0 || surplus as f64 <= REPEATED_TOLERANCE * arrived as f64 { 0 } else { surplus }
    }

    /// Whether what is missing of `part` can be loss of frames: the rest of what the client sent along the same way was lost
    /// as often. Of n lost segments, those of one kind are a share of all sent, with a spread of the square root; four of
    /// these, and three segments, are allowed. Where an overloaded firewall leaves the rings before it full for a while, whatever comes then is
    /// lost together; so what the links themselves lost is allowed as well, as far as it is not in the rest.
    fn is_loss(&self, part: BothEnds) -> bool {
        let others = if self.requests_each > 0 { self.requests } else { self.syn };
        let elsewhere = self.syn.missing() + self.requests.missing();
        if part.missing() <= self.lost_on_links.saturating_sub(elsewhere) {
            return true;
        }
        let lost = (part.missing() + others.missing()) as f64;
        let share = part.client as f64 / (part.client + others.client).max(1) as f64;
        part.missing() as f64 <= lost * share + 4.0 * (lost * share * (1.0 - share)).sqrt() + 3.0
    }
}

/// Whether results need not have it.
pub(crate) fn agrees(served: &Option<ServedOutcome>) -> bool {
    served.is_none_or(|served| is_default(&served) || served.disagreements().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand connections of one request each, closed by reset.
    fn honest() -> ServedOutcome {
        let all = BothEnds::new(1000, 1000);
        ServedOutcome {
            completed: 1000,
            requests_each: 1,
            answer_bytes_each: 64,
            syn: all,
            established: all,
            requests: all,
            answers: all,
            answer_bytes: BothEnds::new(64_000, 64_000),
            closes: all,
            opened: 1000,
            segments_to_client: BothEnds::new(2000, 2000),
            segments_to_server: BothEnds::new(3000, 3000),
            ..ServedOutcome::default()
        }
    }

    #[test]
    fn whatever_only_one_end_saw_is_named() {
        type Row = (&'static str, fn(&mut ServedOutcome));
        let rows: [Row; 34] = [
            ("", |_| ()),
            ("", |s| (s.syn, s.requests) = (BothEnds::new(1300, 1000), BothEnds::new(1300, 1000))),
            // A third of everything is lost, ends too, and what the server sent is sent again.
            ("", |s| {
                s.requests = BothEnds::new(1500, 1000);
                s.closes = BothEnds::new(1000, 667);
                s.answer_bytes = BothEnds::new(64_000, 70_000);
            }),
            ("", |s| s.closes.server = 997),
            ("the ends of 30 of the 1,000 connections did not reach the server", |s| s.closes.server = 970),
            ("the ends of 1,000 of the 1,000 connections did not reach the server", |s| s.closes.server = 0),
            // The rings before an overloaded firewall were full.
            ("", |s| (s.closes.server, s.lost_on_links) = (700, 300)),
            ("the ends of 300 of the 1,000 connections did not reach the server", |s| {
                (s.closes.server, s.lost_on_links) = (700, 299);
            }),
            ("the ends of 300 of the 1,000 connections did not reach the server", |s| {
                (s.syn.client, s.closes.server, s.lost_on_links) = (1200, 700, 400);
            }),
            ("the server served 0 of the 1,000 connections that the client completed", |s| {
                (s.syn.server, s.established.server) = (0, 0);
                (s.requests.server, s.answers.server, s.answer_bytes.server) = (0, 0, 0);
                (s.closes.server, s.acknowledged_closes) = (0, true);
            }),
            ("the server served 999 of the 1,000 connections that the client completed", |s| {
                s.answers.server = 999
            }),
            ("the server served 999 of the 1,000 connections that the client completed", |s| {
                s.answer_bytes.server = 63_999;
            }),
            ("the server served 990 of the 1,000 connections that the client completed", |s| {
                (s.closes.server, s.acknowledged_closes) = (990, true);
            }),
            ("the server served 500 of the 1,000 connections that the client completed", |s| {
                (s.requests_each, s.requests, s.answers) = (0, BothEnds::default(), BothEnds::default());
                (s.answer_bytes, s.established.server) = (BothEnds::default(), 500);
            }),
            ("5 SYN more reached the server than the client sent", |s| s.syn.server = 1005),
            ("", |s| (s.syn.server, s.repeated) = (1005, 5)),
            ("1 requests more reached the server than the client sent", |s| s.requests.server = 1001),
            (
                "7 answers were not the server's to that request: made up, repeated, or another connection's",
                |s| {
                    s.forged_answers = 7;
                },
            ),
            ("7 requests reached the server that no client wrote", |s| s.forged_requests = 7),
            ("7 segments reached the server from another address or port than their client's", |s| {
                s.other_source = 7;
            }),
            ("7 segments reached the client with a wrong checksum", |s| s.damaged.client = 7),
            ("7 segments reached the client that the server did not write", |s| s.unsealed.client = 7),
            ("7 segments reached the server that the client did not write", |s| s.unsealed.server = 7),
            // A proxy writes its own; but not as many as of all for one connection.
            ("", |s| (s.proxied, s.unsealed.server) = (1000, 3000)),
            ("2,994 segments reached the server that the client did not write", |s| {
                (s.proxied, s.unsealed.server) = (1, 3000);
            }),
            ("", |s| (s.proxied, s.segments_to_client.client) = (1000, 4000)),
            ("1 segments more reached the client than the server sent", |s| {
                s.segments_to_client.client = 2001
            }),
            ("1 segments more reached the server than the client sent", |s| {
                s.segments_to_server.server = 3001
            }),
            // As networks do now and then.
            ("", |s| s.segments_to_server = BothEnds::new(100_000, 100_010)),
            ("3 SYN or SYN-ACK arrived with an option that its sender did not offer", |s| {
                s.options_added = 3
            }),
            ("3 SYN or SYN-ACK arrived with a larger MSS or window scale", |s| s.options_raised = 3),
            ("3 SYN-ACK lost options on their way that the server had agreed to", |s| {
                s.options_removed = BothEnds::new(8, 5);
            }),
            ("", |s| s.options_removed = BothEnds::new(5, 8)),
            ("3 segments arrived with a larger window than their sender's", |s| s.window_raised = 3),
        ];
        for (said, change) in rows {
            let mut served = honest();
            change(&mut served);
            assert_eq!(served.disagreements().join("; "), said, "{served:?}");
            assert_eq!(agrees(&Some(served)), said.is_empty());
        }
    }

    #[test]
    fn what_a_firewall_may_change_is_said() {
        type Row = (&'static str, fn(&mut ServedOutcome));
        let rows: [Row; 6] = [
            ("", |_| ()),
            (
                "14 segments arrived with an urgent pointer of 0, because the firewall clears it: nobody can say which of them it \
                 wrote, nor whether it changed their windows and options",
                |s| s.seal_cleared = BothEnds::new(7, 0),
            ),
            (
                "2,000 of 2,000 connections were not with the server, but with a proxy (or sequence numbers were changed): times \
                 are the proxy's, and nobody can say which segments it wrote",
                |s| s.proxied = 1000,
            ),
            ("20 of 2,000 SYN reached the server without an option that the client offered", |s| {
                s.options_removed = BothEnds::new(10, 10);
            }),
            ("6 SYN or SYN-ACK arrived with a smaller MSS or window scale", |s| s.options_lowered = 3),
            ("6 segments arrived with a smaller window than their sender's", |s| s.window_lowered = 3),
        ];
        for (said, change) in rows {
            let mut served = honest();
            change(&mut served);
            assert_eq!(served.disagreements().join("; "), "");
            assert_eq!(ServedOutcome::sum([served; 2].iter()).remarks().join("; "), said);
        }
    }
}
