//! The loss ledger: every frame of a trial has exactly one place in it, or the trial does not count.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the frames of a trial went; of a trial of connections its connections, of a bulk transfer its bytes. Counts are
/// frames, connections or bytes; one that is absent is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ledger {
    /// Frames that the schedule asked for.
    pub offered: u64,
    /// Frames that the generator did not get round to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_sent: u64,
    /// Frames lost because a link's ring was full, by link.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ring_full: BTreeMap<String, u64>,
    /// Frames that the firewall says it dropped, by its own counter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped_by_firewall: BTreeMap<String, u64>,
    /// Frames that the kernel freed on the way, by `kfree_skb` reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_in_stack: BTreeMap<String, u64>,
    /// Connections that failed, by how; none in a trial of frames.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
    /// Frames that arrived damaged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrupted: u64,
    /// Frames that vanished where nobody can look (a box between two cards, a kernel without tracing).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_received: u64,
    /// Bytes of a bulk transfer that were sent but not yet read by the server's application when the trial ended: in socket
    /// buffers and on the links. None in other trials.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub under_way: u64,
    /// Distinct frames received intact; connections that did all that was asked of them; bytes that the
    /// server's application read.
    pub received: u64,
}

impl Ledger {
    /// Frames handed to the link.
    pub fn sent(&self) -> u64 {
        self.offered.saturating_sub(self.not_sent)
    }

    /// What no entry explains; zero in a balanced ledger.
    pub fn residual(&self) -> i64 {
        let by_name = |m: &BTreeMap<String, u64>| m.values().sum::<u64>();
        let explained = self.not_sent
            + by_name(&self.ring_full)
            + by_name(&self.dropped_by_firewall)
            + by_name(&self.lost_in_stack)
            + by_name(&self.failed)
            + self.corrupted
            + self.not_received
            + self.under_way
            + self.received;
        self.offered as i64 - explained as i64
    }

    /// Adds another trial's frames, for the sum over a point's trials.
    pub fn add(&mut self, other: &Ledger) {
        self.offered += other.offered;
        self.not_sent += other.not_sent;
        self.corrupted += other.corrupted;
        self.not_received += other.not_received;
        self.under_way += other.under_way;
        self.received += other.received;
        for (into, from) in [
            (&mut self.ring_full, &other.ring_full),
            (&mut self.dropped_by_firewall, &other.dropped_by_firewall),
            (&mut self.lost_in_stack, &other.lost_in_stack),
            (&mut self.failed, &other.failed),
        ] {
            for (name, count) in from {
                *into.entry(name.clone()).or_default() += count;
            }
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}
