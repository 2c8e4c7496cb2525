//! What `iperf3 --json` says of a transfer: the client's report, and the server's own. The client's carries what the server counted, but
//! as text that came through the firewall, which could write it anew. Pure.

use serde::Deserialize;

/// A transfer in which every connection was made and carried something.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Transfer {
    /// Bytes that the client wrote.
    pub(super) sent_bytes: u64,
    /// Bytes that the server read, as it reported to the client.
    pub(super) received_bytes: u64,
    /// Seconds that the server read for.
    pub(super) seconds: f64,
    /// Segments that the client's kernel sent again.
    pub(super) retransmitted: u64,
    /// Bytes of data in the client's largest segment; 0 where it does not say.
    pub(super) segment_bytes: u32,
    /// The mean of the connections' mean round trips as the client's kernel saw them, in ns, where it told.
    pub(super) round_trip_ns: Option<u64>,
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
    #[serde(default)]
    tcp_mss_default: u32,
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
    sender: Sum,
    receiver: Sum,
}

#[derive(Debug, Deserialize)]
struct Sum {
    bytes: u64,
    seconds: f64,
    /// Only the sender has it, and only where the kernel tells.
    #[serde(default)]
    retransmits: u64,
    /// In µs; of single connections only, and 0 where the kernel does not tell.
    #[serde(default)]
    mean_rtt: u64,
}

/// The server stops after the client, and begins before it: by less than this share its time may be the shorter one.
const UNEQUAL_TIMES: f64 = 0.05;

/// Reads a report of so many connections.
fn read(text: &str, connections: u32) -> Result<Report, String> {
    let report: Report = serde_json::from_str(text)
        .map_err(|error| format!("iperf3's report cannot be read: {error}: {}", beginning(text)))?;
    if let Some(error) = report.error {
        return Err(format!("iperf3: {error}"));
    }
    let made = report.start.connected.len().min(report.end.streams.len());
    if made != connections as usize {
        return Err(format!("iperf3 made {made} of {connections} connections"));
    }
    Ok(report)
}

/// The server's seconds in the client's report are written with as many digits as in its own.
const SAME_SECONDS: f64 = 1e-3;

impl Transfer {
    /// Checks what the client was told against the report that the server wrote itself, which no firewall has seen.
    ///
    /// # Errors
    /// They differ, or the server's report cannot be read.
    pub(super) fn confirmed_by(self, server: &str, connections: u32) -> Result<Self, String> {
        let report = read(server, connections).map_err(|why| format!("at the server, {why}"))?;
        let Some(counted) = report.end.sum_received else {
            return Err("the report of iperf3's server has no sums".to_owned());
        };
        let same_time = (counted.seconds - self.seconds).abs() <= SAME_SECONDS;
        if counted.bytes == self.received_bytes && same_time {
            return Ok(self);
        }
        Err(format!(
            "the server counted {} bytes in {:.3} s, and what came to the client through the firewall says {} in {:.3} s: somebody between \
             them wrote another report",
            counted.bytes, counted.seconds, self.received_bytes, self.seconds
        ))
    }
}

/// Reads the report of a client that was asked for so many connections.
///
/// # Errors
/// Why the trial must not count, in words: iperf3's own error, or what its report lacks.
pub(super) fn parse(text: &str, connections: u32) -> Result<Transfer, String> {
    let report = read(text, connections)?;
    let idle = report.end.streams.iter().filter(|stream| stream.receiver.bytes == 0).count();
    if idle > 0 {
        return Err(format!("nothing arrived on {idle} of {connections} connections"));
    }
    let (Some(sent), Some(received)) = (report.end.sum_sent, report.end.sum_received) else {
        return Err("iperf3's report has no sums".to_owned());
    };
    // The client's own time bounds what the server is said to have counted.
    if received.seconds < sent.seconds * (1.0 - UNEQUAL_TIMES)
        || received.seconds <= 0.0
        || received.bytes > sent.bytes
    {
        return Err(format!(
            "iperf3's report contradicts itself: {} bytes received in {} s, {} sent in {} s",
            received.bytes, received.seconds, sent.bytes, sent.seconds
        ));
    }
    Ok(Transfer {
        sent_bytes: sent.bytes,
        received_bytes: received.bytes,
        seconds: received.seconds,
        retransmitted: sent.retransmits,
        segment_bytes: report.start.tcp_mss_default,
        round_trip_ns: mean_round_trip(&report.end.streams),
        congestion_control: report.end.sender_tcp_congestion,
    })
}

/// None where a connection has none.
fn mean_round_trip(streams: &[Stream]) -> Option<u64> {
    let times: Vec<u64> = streams.iter().map(|stream| stream.sender.mean_rtt).filter(|us| *us > 0).collect();
    let all = !streams.is_empty() && times.len() == streams.len();
    all.then(|| times.iter().sum::<u64>() * 1000 / times.len() as u64)
}

/// Enough of a text to see what it is.
fn beginning(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of iperf 3.12: two connections for a second over loopback, but for the lines that nobody reads.
    const GOOD: &str = r#"{
        "start": {
            "connected": [
                {"socket": 5, "local_host": "127.0.0.1", "local_port": 43894, "remote_host": "127.0.0.1", "remote_port": 5999},
                {"socket": 7, "local_host": "127.0.0.1", "local_port": 43900, "remote_host": "127.0.0.1", "remote_port": 5999}
            ],
            "version": "iperf 3.12",
            "sock_bufsize": 0, "sndbuf_actual": 16384, "rcvbuf_actual": 131072,
            "tcp_mss_default": 32768,
            "test_start": {"protocol": "TCP", "num_streams": 2, "blksize": 131072, "omit": 0, "duration": 1}
        },
        "intervals": [{"streams": [], "sum": {"start": 0, "end": 1.005133, "bytes": 1201930240, "retransmits": 6}}],
        "end": {
            "streams": [
                {
                    "sender": {"socket": 5, "seconds": 1.005133, "bytes": 616038400, "retransmits": 2, "mean_rtt": 500, "sender": true},
                    "receiver": {"socket": 5, "end": 1.014124, "seconds": 1.005133, "bytes": 616038400, "sender": true}
                },
                {
                    "sender": {"socket": 7, "seconds": 1.005133, "bytes": 585891840, "retransmits": 4, "mean_rtt": 301, "sender": true},
                    "receiver": {"socket": 7, "end": 1.014124, "seconds": 1.005133, "bytes": 585891840, "sender": true}
                }
            ],
            "sum_sent": {"end": 1.005133, "seconds": 1.005133, "bytes": 1202061312, "bits_per_second": 9567381133.1, "retransmits": 6},
            "sum_received": {"end": 1.014124, "seconds": 1.014124, "bytes": 1201930240, "bits_per_second": 9481524862.8},
            "cpu_utilization_percent": {"host_total": 23.503456942833488},
            "sender_tcp_congestion": "bbr",
            "receiver_tcp_congestion": "bbr"
        }
    }"#;
    /// Of iperf 3.12, as it stands; its exit status was 1.
    const REFUSED: &str = r#"{
	"start":	{
		"connected":	[],
		"version":	"iperf 3.12",
		"system_info":	"Linux vm 6.18.44"
	},
	"intervals":	[],
	"end":	{
	},
	"error":	"unable to connect to server: Connection refused"
}"#;

    #[test]
    fn a_report_of_a_good_transfer_is_read() {
        let transfer = parse(GOOD, 2).unwrap();
        let expected = Transfer {
            sent_bytes: 1_202_061_312,
            received_bytes: 1_201_930_240,
            seconds: 1.014124,
            retransmitted: 6,
            segment_bytes: 32_768,
            round_trip_ns: Some(400_500),
            congestion_control: "bbr".to_owned(),
        };
        assert_eq!(transfer, expected);
        let bits = transfer.received_bytes as f64 * 8.0 / transfer.seconds;
        assert!((bits - 9_481_524_862.8).abs() < 1.0, "iperf3 counts as we do: {bits}");
    }

    /// Of its server, but for the lines that nobody reads.
    const SERVER: &str = r#"{
        "start": {"connected": [{"socket": 5}, {"socket": 9}], "version": "iperf 3.12", "tcp_mss_default": 0},
        "intervals": [],
        "end": {
            "streams": [
                {"sender": {"socket": 5, "seconds": 1.014124, "bytes": 616038400, "sender": false},
                 "receiver": {"socket": 5, "seconds": 1.014124, "bytes": 616038400, "sender": false}},
                {"sender": {"socket": 9, "seconds": 1.014124, "bytes": 585891840, "sender": false},
                 "receiver": {"socket": 9, "seconds": 1.014124, "bytes": 585891840, "sender": false}}
            ],
            "sum_sent": {"seconds": 1.014124, "bytes": 1202061312, "sender": false},
            "sum_received": {"seconds": 1.014124, "bytes": 1201930240, "sender": false}
        }
    }"#;

    #[test]
    fn what_came_through_the_firewall_must_be_what_the_server_says_itself() {
        let transfer = parse(GOOD, 2).unwrap();
        assert_eq!(transfer.clone().confirmed_by(SERVER, 2), Ok(transfer.clone()));
        for (from, to, said) in [
            ("1201930240", "65536", "the server counted 65536 bytes in 1.014 s, and what came to the client"),
            (
                "\"sum_received\": {\"seconds\": 1.014124",
                "\"sum_received\": {\"seconds\": 2.5",
                "in 2.500 s, and",
            ),
            ("\"sum_received\"", "\"sum_of_others\"", "the report of iperf3's server has no sums"),
            ("{\"socket\": 5}, ", "", "at the server, iperf3 made 1 of 2 connections"),
            (SERVER, "", "at the server, iperf3's report cannot be read"),
        ] {
            let report = SERVER.replacen(from, to, 1);
            assert_ne!(report, SERVER);
            let found = transfer.clone().confirmed_by(&report, 2).unwrap_err();
            assert!(found.contains(said), "{found}");
        }
    }

    #[test]
    fn a_round_trip_that_one_connection_lacks_is_not_made_up() {
        for (from, to) in [("\"mean_rtt\": 301, ", ""), ("\"mean_rtt\": 500", "\"mean_rtt\": 0")] {
            assert_eq!(parse(&GOOD.replacen(from, to, 1), 2).unwrap().round_trip_ns, None, "{from}");
        }
        assert_eq!(parse(&GOOD.replacen("\"tcp_mss_default\": 32768,", "", 1), 2).unwrap().segment_bytes, 0);
    }

    #[test]
    fn a_transfer_that_must_not_count_says_why() {
        let idle = (
            "\"seconds\": 1.005133, \"bytes\": 585891840, \"sender\"",
            "\"seconds\": 1, \"bytes\": 0, \"sender\"",
        );
        let rows: [(&str, (&str, &str), u32, &str); 8] = [
            (REFUSED, ("", ""), 2, "iperf3: unable to connect to server: Connection refused"),
            (GOOD, ("", ""), 3, "iperf3 made 2 of 3 connections"),
            (GOOD, idle, 2, "nothing arrived on 1 of 2 connections"),
            (GOOD, ("\"sum_received\"", "\"sum_of_others\""), 2, "iperf3's report has no sums"),
            (
                GOOD,
                ("\"bytes\": 1202061312", "\"bytes\": 5"),
                2,
                "iperf3's report contradicts itself: 1201930240 bytes received in 1.014124 s, 5 sent in 1.005133 s",
            ),
            (
                GOOD,
                ("\"seconds\": 1.014124", "\"seconds\": 0"),
                2,
                "iperf3's report contradicts itself: 1201930240 bytes received in 0 s, 1202061312 sent in 1.005133 s",
            ),
            (
                GOOD,
                ("\"seconds\": 1.014124", "\"seconds\": 0.514124"),
                2,
                "iperf3's report contradicts itself: 1201930240 bytes received in 0.514124 s, 1202061312 sent in 1.005133 s",
            ),
            (
                "warning: x\n y",
                ("", ""),
                1,
                "iperf3's report cannot be read: expected value at line 1 column 1: warning: x y",
            ),
        ];
        for (report, (from, to), connections, expected) in rows {
            assert!(report.contains(from), "the row replaces something: {from}");
            assert_eq!(parse(&report.replacen(from, to, 1), connections).unwrap_err(), expected);
        }
    }
}
