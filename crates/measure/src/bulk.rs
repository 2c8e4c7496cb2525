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
    /// Bytes of data in the largest segment that the client sends; 0 where it is not known.
    #[serde(default)]
    pub segment_bytes: u32,
    /// The least round trip before the transfer, when nothing else was under way, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_round_trip_ns: Option<u64>,
    /// The mean round trip of all connections during the transfer, as the client's kernel saw it, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_round_trip_ns: Option<u64>,
    /// The client's congestion control, as its kernel names it.
    pub congestion_control: String,
}

impl BulkOutcome {
    /// The share of the transmitted bytes that did not have to be sent again (RFC 6349 section 4.2); `None` where nothing was sent or
    /// the size of segments is not known. The kernel counts segments, which are taken as the largest.
    pub fn efficiency(&self) -> Option<f64> {
        let again = self.retransmitted as f64 * f64::from(self.segment_bytes);
        let known = self.sent_bytes > 0 && (self.segment_bytes > 0 || self.retransmitted == 0);
        known.then(|| self.sent_bytes as f64 / (self.sent_bytes as f64 + again))
    }

    /// By which share of the idle round trip the mean one was longer during the transfer (RFC 6349 section 4.3); `None` where either
    /// is not known.
    pub fn buffer_delay(&self) -> Option<f64> {
        let idle = self.idle_round_trip_ns.filter(|ns| *ns > 0)? as f64;
        Some((self.loaded_round_trip_ns? as f64 - idle) / idle)
    }

    /// Adds another trial of the same setup. Round trips, which cannot be added, go.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.retransmitted += other.retransmitted;
        (self.idle_round_trip_ns, self.loaded_round_trip_ns) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiency_and_buffer_delay_are_those_of_rfc_6349() {
        type Row = (u64, u64, u32, Option<u64>, Option<u64>, Option<f64>, Option<f64>);
        let rows: [Row; 7] = [
            // The RFC's examples: of 102,000 bytes 2,000 were sent again; 32 ms instead of 25.
            (100_000, 2, 1000, Some(25_000_000), Some(32_000_000), Some(0.980_392), Some(0.28)),
            (100_000, 0, 0, Some(50), Some(40), Some(1.0), Some(-0.2)),
            (100_000, 2, 0, None, Some(1), None, None),
            (0, 0, 1448, Some(0), Some(1), None, None),
            (0, 5, 1448, Some(10), None, None, None),
            (1448, 1, 1448, Some(10), Some(10), Some(0.5), Some(0.0)),
            (1448, 0, 1448, None, None, Some(1.0), None),
        ];
        for (sent, again, segment, idle, loaded, efficiency, delay) in rows {
            let bulk = BulkOutcome {
                sent_bytes: sent,
                retransmitted: again,
                segment_bytes: segment,
                idle_round_trip_ns: idle,
                loaded_round_trip_ns: loaded,
                ..BulkOutcome::default()
            };
            let rounded = |share: Option<f64>| share.map(|share| (share * 1e6).round() / 1e6);
            assert_eq!(
                (rounded(bulk.efficiency()), rounded(bulk.buffer_delay())),
                (efficiency, delay),
                "{bulk:?}"
            );
        }
    }
}
