//! Rate-limited links: the 10 and 100 Mbit/s networks of the reports. A namespace of its own stands between a zone
//! and the firewall and forwards at layer 2: what comes in on one side is sent out of the other, through a token
//! bucket (TBF). Frames that XDP redirects bypass queueing disciplines, so a limit on the zone's or the firewall's
//! own end would not hold for every firewall; this one does.

use crate::error::TestbedError;
use crate::netns::Namespace;
use crate::program;
use measure::frame::{FCS_BYTES, PREAMBLE_AND_GAP_BYTES};

/// What each frame takes on a wire beyond its bytes in memory. TBF adds it to every frame.
const WIRE_OVERHEAD_BYTES: u16 = FCS_BYTES + PREAMBLE_AND_GAP_BYTES;
/// A minimum frame with everything: shorter ones are padded on a wire.
const MINIMUM_WIRE_BYTES: u16 = 64 + PREAMBLE_AND_GAP_BYTES;
/// The longest that a frame waits in the bucket's queue. A queue that is full drops at its tail, as a switch does.
const QUEUE_MILLISECONDS: u64 = 50;

/// Joins the two sides of each link, in both directions, at `bits_per_second` on the wire.
pub(crate) fn forward_at_rate(
    namespace: &Namespace,
    pairs: &[(String, String)],
    bits_per_second: u64,
    mtu: u16,
) -> Result<(), TestbedError> {
    let mut batch = String::new();
    for (a, b) in pairs {
        batch += &one_way(a, b, bits_per_second, mtu);
        batch += &one_way(b, a, bits_per_second, mtu);
    }
    namespace.enter(|| program::run_with_input("tc", &["-batch", "-"], &batch).map(drop))?
}

/// `from`'s arrivals leave through `to`, whose bucket limits them.
fn one_way(from: &str, to: &str, bits_per_second: u64, mtu: u16) -> String {
    let burst = burst_bytes(bits_per_second, mtu);
    format!(
        "qdisc add dev {to} root tbf rate {bits_per_second}bit burst {burst}b latency {QUEUE_MILLISECONDS}ms \
         overhead {WIRE_OVERHEAD_BYTES} mpu {MINIMUM_WIRE_BYTES}\n\
         qdisc add dev {from} ingress\n\
         filter add dev {from} parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev {to}\n"
    )
}

/// Two largest frames, or 2 ms of the rate if that is more: TBF wakes up late by as much at times.
pub(crate) fn burst_bytes(bits_per_second: u64, mtu: u16) -> u64 {
    const ETHERNET_HEADER_BYTES: u64 = 14;
    let largest = u64::from(mtu) + ETHERNET_HEADER_BYTES + u64::from(WIRE_OVERHEAD_BYTES);
    (2 * largest).max(bits_per_second / 8 / 500)
}
