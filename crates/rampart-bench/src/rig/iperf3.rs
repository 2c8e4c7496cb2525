//! What `iperf3 --json` says of a transfer: the client's report, which carries what the server counted. Pure.

use serde::Deserialize;

/// A transfer in which every connection was made and carried something.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Transfer {
    /// Bytes that the client wrote.
    pub(super) sent_bytes: u64,
    /// Bytes that the server read, as it told the client.
    pub(super) received_bytes: u64,
    /// Seconds that the server read for.
    pub(super) seconds: f64,
    /// Segments that the client's kernel sent again.
    pub(super) retransmitted: u64,
    /// The client's congestion control.
    pub(super) congestion_control: String,
}

#[derive(Debug, Deserialize)]
struct Report {
    start: Start,
    end: End,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Start {
    connected: Vec<serde::de::IgnoredAny>,
}

/// Empty after an error.
#[derive(Debug, Deserialize)]
struct End {
    #[serde(default)]
    streams: Vec<Stream>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    #[serde(default)]
    sender_tcp_congestion: String,
}

#[derive(Debug, Deserialize)]
struct Stream {
    receiver: Sum,
}

#[derive(Debug, Deserialize)]
struct Sum {
    bytes: u64,
    seconds: f64,
    /// Only the sender has it, and only where the kernel tells.
    #[serde(default)]
    retransmits: u64,
}

/// Reads the report of a client that was asked for so many connections.
///
/// # Errors
/// Why the trial must not count, in words: iperf3's own error, or what its report lacks.
pub(super) fn parse(text: &str, connections: u32) -> Result<Transfer, String> {
    let report: Report = serde_json::from_str(text)
        .map_err(|error| format!("iperf3's report cannot be read: {error}: {}", beginning(text)))?;
    if let Some(error) = report.error {
        return Err(format!("iperf3: {error}"));
    }
    let made = report.start.connected.len().min(report.end.streams.len());
    if made != connections as usize {
        return Err(format!("iperf3 made {made} of {connections} connections"));
    }
    let idle = report.end.streams.iter().filter(|stream| stream.receiver.bytes == 0).count();
    if idle > 0 {
        return Err(format!("nothing arrived on {idle} of {connections} connections"));
    }
    let (Some(sent), Some(received)) = (report.end.sum_sent, report.end.sum_received) else {
        return Err("iperf3's report has no sums".to_owned());
    };
    if received.seconds <= 0.0 || received.bytes > sent.bytes {
        return Err(format!(
            "iperf3's report contradicts itself: {} bytes received in {} s, {} sent",
            received.bytes, received.seconds, sent.bytes
        ));
    }
    Ok(Transfer {
        sent_bytes: sent.bytes,
        received_bytes: received.bytes,
        seconds: received.seconds,
        retransmitted: sent.retransmits,
        congestion_control: report.end.sender_tcp_congestion,
    })
}

/// Enough of a text to see what it is.
fn beginning(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect()
}
