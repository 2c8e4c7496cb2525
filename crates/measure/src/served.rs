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
}

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
        ] {
            say(count, format!("{} {what}", grouped(count)));
        }
        found
    }

    /// Whether what is missing of `part` can be loss of frames: the rest of what the client sent along the same way was lost
    /// as often. Of n lost segments, those of one kind are a share of all sent, with a spread of the square root; four of
    /// these, and three segments, are allowed.
    fn is_loss(&self, part: BothEnds) -> bool {
        let others = if self.requests_each > 0 { self.requests } else { self.syn };
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
            ..ServedOutcome::default()
        }
    }

    #[test]
    fn whatever_only_one_end_saw_is_named() {
        type Row = (&'static str, fn(&mut ServedOutcome));
        let rows: [Row; 18] = [
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
        ];
        for (said, change) in rows {
            let mut served = honest();
            change(&mut served);
            assert_eq!(served.disagreements().join("; "), said, "{served:?}");
            assert_eq!(agrees(&Some(served)), said.is_empty());
        }
    }
}
