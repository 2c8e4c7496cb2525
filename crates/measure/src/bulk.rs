//! The vocabulary of bulk transfers: TCP connections that carry as many bytes as they can, from applications at one end to
//! applications at the other, through the kernel's own stack. Plain values.
//!
//! The ledger's entries are bytes, and its `under_way` are those that were still in socket buffers or on the links when the
//! trial ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most connections that one trial may have: iperf3's own limit.
pub const MOST_CONNECTIONS: u32 = 128;

/// What a bulk transfer is like. Its addresses are those of the zones themselves, IPv4 or IPv6 as the traffic says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkShape {
    /// Connections at once, 1 to [`MOST_CONNECTIONS`], all from client to server.
    pub connections: u32,
}

/// What is asked of a trial of bulk transfers: as much as the setup's connections can carry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BulkRequest {
    /// Seconds of the transfer; a whole number of at least 1, since iperf3 counts no less.
    pub seconds: f64,
}

/// What became of a trial's bulk transfer; of a point, of all its deciding trials together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkOutcome {
    /// Connections at once, each of which carried something.
    pub connections: u32,
    /// Bytes that the client's application wrote.
    pub sent_bytes: u64,
    /// Bytes that the server's application read.
    pub received_bytes: u64,
    /// Segments that the client's kernel sent again.
    pub retransmitted: u64,
    /// The client's congestion control, as its kernel names it.
    pub congestion_control: String,
}

impl BulkOutcome {
    /// Adds another trial of the same setup.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.retransmitted += other.retransmitted;
    }
}
