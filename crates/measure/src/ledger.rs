//! The loss ledger: everything that a trial offered has exactly one place in it, or the trial does not count. What the
//! places are depends on the workload, so each has its own.

use crate::application::ApplicationPlaces;
use crate::results::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts by name, for example frames by the link whose ring was full. A name that is absent counts 0.
pub type Named = BTreeMap<String, u64>;

/// Where went what a trial offered: frames, connections, bytes of a bulk transfer, or transactions of applications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Entries", into = "Entries")]
pub struct Ledger {
    /// Frames, connections or bytes that the schedule asked for; transactions begun.
    pub offered: u64,
    /// Of these, how many the generator did not get round to.
    pub not_sent: u64,
    /// Distinct frames received as they were sent; connections that did all that was asked of them; bytes that the
    /// server's application read.
    pub received: u64,
    /// Where the others went.
    pub places: Places,
}

/// The places of one workload besides "received" and "not sent".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// Of frames.
    Frames(FramePlaces),
    /// Of connections.
    Connections(ConnectionPlaces),
    /// Of the bytes of a bulk transfer.
    Bulk(BulkPlaces),
    /// Of transactions of applications.
    Application(ApplicationPlaces),
}

/// Where frames went that were sent and not received as they should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FramePlaces {
    /// Lost because a link's ring was full, by link.
    pub ring_full: Named,
    /// Dropped by the firewall, by its own counter.
    pub dropped_by_firewall: Named,
    /// Freed by the kernel on the way, by `kfree_skb` reason.
    pub lost_in_stack: Named,
    /// Arrived damaged: cut short, made longer, or with other content.
    pub corrupted: u64,
    /// Came out of another port than that of their destination.
    pub wrong_port: u64,
    /// Arrived with a header that a forwarder has no business to change, by the field.
    pub altered: Named,
    /// Vanished where nobody can look (a box between two cards, a kernel without tracing).
    pub not_received: u64,
    /// What arrived beside the frames of the trial; no part of the balance.
    pub beside: Beside,
}

impl FramePlaces {
    /// Frames that arrived, but not as they should.
    fn arrived(&self) -> i128 {
        let altered = self.altered.values().map(|count| i128::from(*count));
        i128::from(self.corrupted) + i128::from(self.wrong_port) + altered.sum::<i128>()
    }
}

/// Frames at the sinks beside those that the trial offered, each of which has its place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Beside {
    /// Copies of frames that had arrived before, and frames so old that nobody remembers whether they had; 0 when absent, like
    /// all of these.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeated: u64,
    /// Frames that came after a later one of their flow (RFC 4737 section 3). They are received.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reordered: u64,
    /// Frames with this trial's mark and a stamp that the generator did not make: forged, or damaged beyond recognition. As many as
    /// were missing are in the balance, as damaged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forged: u64,
    /// Frames of nobody's trial, or of an earlier one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub foreign: u64,
    /// Frames whose whole content was compared, where it was not that of all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compared: u64,
    /// Frames that the policy forbids, sent along with the others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forbidden_sent: u64,
    /// Of these, how many arrived.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forbidden_arrived: u64,
}

impl Beside {
    fn plus(self, other: Self) -> Self {
        Self {
            repeated: self.repeated + other.repeated,
            reordered: self.reordered + other.reordered,
            forged: self.forged + other.forged,
            foreign: self.foreign + other.foreign,
            compared: self.compared + other.compared,
            forbidden_sent: self.forbidden_sent + other.forbidden_sent,
            forbidden_arrived: self.forbidden_arrived + other.forbidden_arrived,
        }
    }
}

/// What became of connections that were attempted and did not do all that was asked of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionPlaces {
    /// Failed, by how.
    pub failed: Named,
}

/// Where bytes were that the server's application had not read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BulkPlaces {
    /// In socket buffers and on the links when the trial ended.
    pub under_way: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self::Frames(FramePlaces::default())
    }
}

impl Ledger {
    /// What was handed to the link.
    pub fn sent(&self) -> u64 {
        self.offered.saturating_sub(self.not_sent)
    }

    /// What no entry explains; zero in a balanced ledger.
    pub fn residual(&self) -> i64 {
        // What a firewall or a file says that it counted may be any number.
        let total = |named: &Named| named.values().map(|count| i128::from(*count)).sum::<i128>();
        let placed = match &self.places {
            Places::Frames(places) => {
                total(&places.ring_full)
                    + total(&places.dropped_by_firewall)
                    + total(&places.lost_in_stack)
                    + places.arrived()
                    + i128::from(places.not_received)
            }
            Places::Connections(places) => total(&places.failed),
            Places::Application(places) => total(&places.failed),
            Places::Bulk(places) => i128::from(places.under_way),
        };
        let left = i128::from(self.offered) - i128::from(self.not_sent) - i128::from(self.received) - placed;
        left.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// The places of frames; none where something else was counted.
    pub fn frames(&self) -> Option<&FramePlaces> {
        match &self.places {
            Places::Frames(places) => Some(places),
            _ => None,
        }
    }

    /// The places of frames, to enter something; none where something else is counted.
    pub fn frames_mut(&mut self) -> Option<&mut FramePlaces> {
        match &mut self.places {
            Places::Frames(places) => Some(places),
            _ => None,
        }
    }

    /// The sum of the ledgers of a point's trials, which are of one workload; an empty one of none.
    pub fn sum<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>) -> Self {
        let sum = ledgers.into_iter().map(Entries::from).reduce(Entries::plus);
        sum.map(Self::from).unwrap_or_default()
    }
}

/// A ledger as results have it: the places of all workloads side by side. One that is absent is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Ledger")]
pub struct Entries {
    /// What is counted. Results of earlier versions do not say it.
    #[serde(default, skip_serializing_if = "Counted::is_frames")]
    pub counts: Counted,
    /// Frames, connections or bytes that the schedule asked for.
    pub offered: u64,
    /// Frames or connections that the generator did not get round to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub not_sent: u64,
    /// Frames lost because a link's ring was full, by link.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ring_full: Named,
    /// Frames that the firewall says it dropped, by its own counter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped_by_firewall: Named,
    /// Frames that the kernel freed on the way, by `kfree_skb` reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_in_stack: Named,
    /// Connections or transactions that failed, by how; none in a trial of frames.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: Named,
    /// Frames that arrived damaged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub corrupted: u64,
    /// Frames that came out of another port than that of their destination.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wrong_port: u64,
    /// Frames that arrived with a header that a forwarder has no business to change, by the field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub altered: Named,
    /// Frames that vanished where nobody can look (a box between two cards, a kernel without tracing).
    #[serde(default, skip_serializing_if = "is_default")]
    pub not_received: u64,
    /// Bytes of a bulk transfer that were sent but not yet read by the server's application when the trial ended: in socket
    /// buffers and on the links. None in other trials.
    #[serde(default, skip_serializing_if = "is_default")]
    pub under_way: u64,
    /// Distinct frames received as they were sent; connections that did all that was asked of them; bytes that the
    /// server's application read.
    pub received: u64,
    /// What arrived beside the frames of the trial; no part of the balance.
    #[serde(default, skip_serializing_if = "is_default")]
    pub beside: Beside,
}

/// What a ledger counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// Frames.
    #[default]
    Frames,
    /// Connections.
    Connections,
    /// Bytes of a bulk transfer.
    Bulk,
    /// Transactions of applications.
    Transactions,
}

impl Counted {
    fn is_frames(&self) -> bool {
        *self == Self::Frames
    }
}

impl Entries {
    fn plus(mut self, other: Self) -> Self {
        self.offered += other.offered;
        self.not_sent += other.not_sent;
        self.corrupted += other.corrupted;
        self.wrong_port += other.wrong_port;
        self.beside = self.beside.plus(other.beside);
        self.not_received += other.not_received;
        self.under_way += other.under_way;
        self.received += other.received;
        for (into, from) in [
            (&mut self.ring_full, other.ring_full),
            (&mut self.dropped_by_firewall, other.dropped_by_firewall),
            (&mut self.lost_in_stack, other.lost_in_stack),
            (&mut self.failed, other.failed),
            (&mut self.altered, other.altered),
        ] {
            for (name, count) in from {
                *into.entry(name).or_default() += count;
            }
        }
        self
    }

    /// What is counted: as the entry says, or, where an earlier version wrote nothing, by the places that are in use.
    fn counted(&self) -> Counted {
        match self.counts {
            Counted::Frames if !self.failed.is_empty() => Counted::Connections,
            Counted::Frames if self.under_way > 0 => Counted::Bulk,
            counts => counts,
        }
    }
}

impl From<Entries> for Ledger {
    fn from(entries: Entries) -> Self {
        let places = match entries.counted() {
            Counted::Connections => Places::Connections(ConnectionPlaces { failed: entries.failed }),
            Counted::Transactions => Places::Application(ApplicationPlaces { failed: entries.failed }),
            Counted::Bulk => Places::Bulk(BulkPlaces { under_way: entries.under_way }),
            Counted::Frames => Places::Frames(FramePlaces {
                ring_full: entries.ring_full,
                dropped_by_firewall: entries.dropped_by_firewall,
                lost_in_stack: entries.lost_in_stack,
                corrupted: entries.corrupted,
                wrong_port: entries.wrong_port,
                altered: entries.altered,
                not_received: entries.not_received,
                beside: entries.beside,
            }),
        };
        Self { offered: entries.offered, not_sent: entries.not_sent, received: entries.received, places }
    }
}

impl From<&Ledger> for Entries {
    fn from(ledger: &Ledger) -> Self {
        let &Ledger { offered, not_sent, received, .. } = ledger;
        let common = Self { offered, not_sent, received, ..Self::default() };
        match ledger.places.clone() {
            Places::Frames(places) => Self {
                counts: Counted::Frames,
                ring_full: places.ring_full,
                dropped_by_firewall: places.dropped_by_firewall,
                lost_in_stack: places.lost_in_stack,
                corrupted: places.corrupted,
                wrong_port: places.wrong_port,
                altered: places.altered,
                not_received: places.not_received,
                beside: places.beside,
                ..common
            },
            Places::Connections(places) => {
                Self { counts: Counted::Connections, failed: places.failed, ..common }
            }
            Places::Application(places) => {
                Self { counts: Counted::Transactions, failed: places.failed, ..common }
            }
            Places::Bulk(places) => Self { counts: Counted::Bulk, under_way: places.under_way, ..common },
        }
    }
}

impl From<Ledger> for Entries {
    fn from(ledger: Ledger) -> Self {
        Self::from(&ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_keeps_its_workload_in_results() {
        let failed: Named = [("reset".to_owned(), 2)].into();
        for (places, written) in [
            (
                Places::Frames(FramePlaces { corrupted: 2, ..FramePlaces::default() }),
                r#"{"offered":9,"not_sent":1,"corrupted":2,"received":6}"#,
            ),
            (
                Places::Connections(ConnectionPlaces { failed }),
                r#"{"counts":"connections","offered":9,"not_sent":1,"failed":{"reset":2},"received":6}"#,
            ),
            (
                Places::Application(ApplicationPlaces { failed: [("timeout".to_owned(), 2)].into() }),
                r#"{"counts":"transactions","offered":9,"not_sent":1,"failed":{"timeout":2},"received":6}"#,
            ),
            (
                Places::Bulk(BulkPlaces { under_way: 2 }),
                r#"{"counts":"bulk","offered":9,"not_sent":1,"under_way":2,"received":6}"#,
            ),
        ] {
            let ledger = Ledger { offered: 9, not_sent: 1, received: 6, places };
            assert_eq!(ledger.residual(), 0, "{written}");
            assert_eq!(serde_json::to_string(&ledger).unwrap(), written);
            assert_eq!(serde_json::from_str::<Ledger>(written).unwrap(), ledger);
            // Versions before this one did not write what they counted.
            let old = written.replace(r#""counts":"connections","#, "").replace(r#""counts":"bulk","#, "");
            assert_eq!(serde_json::from_str::<Ledger>(&old).unwrap(), ledger, "{old}");
            let twice = Ledger::sum([&ledger, &ledger]);
            assert_eq!((twice.offered, twice.sent(), twice.residual()), (18, 16, 0), "{written}");
        }
    }
}
