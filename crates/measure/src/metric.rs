//! What the bench measures: one row of [`METRICS`] a metric. Suites' expectations, results, CSV and every report take a
//! metric's name, unit and words from its row, so a new metric is a row here and the procedure that yields it.

use crate::stats::Scale;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The larger value.
    More,
    /// The smaller value.
    Less,
}

/// What the loads, ledgers and losses of a metric's trials are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Frames.
    Frames,
    /// TCP connections.
    Connections,
    /// Whatever the trials count that it is read from.
    AsTrials,
}

/// What is to be known of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricRow {
    /// Its name in results, CSV and expressions, for example `back_to_back`.
    pub key: &'static str,
    /// Unit of its values, as it stands beside them: `frames/s`, `bit/s`, `ns`, `ratio` (0 to 1), …
    pub unit: &'static str,
    /// Its name in headings, for example `Back-to-back frames`.
    pub title: &'static str,
    /// What a firewall does, with `{}` for its value in words, for example `takes a burst of {}`.
    pub does: &'static str,
    /// Which way is better.
    pub better: Better,
    /// What its trials count.
    pub counts: Counts,
    /// Whether it is a rate that the generator may limit: one near that of `wire` may be the generator's own.
    pub rate: bool,
    /// Whether the ratio of two values says anything: next to nothing over next to nothing can be any number.
    pub ratio: bool,
    /// Whether it is computed from other metrics, whose noise it has many times over: such a value is never called unstable.
    pub derived: bool,
    sentence: &'static [&'static str],
}

impl MetricRow {
    /// What it is, in one or two sentences.
    pub fn sentence(&self) -> String {
        self.sentence.concat().trim_start().to_owned()
    }
}

/// Makes the enum and its table of the rows; a row's documentation is the sentence that reports print.
macro_rules! metrics {
    ($(
        $(#[doc = $line:literal])+
        $name:ident {
            key: $key:literal, unit: $unit:literal, title: $title:literal, does: $does:literal,
            better: $better:ident, counts: $counts:ident, rate: $rate:literal, ratio: $ratio:literal,
            $(derived: $derived:literal,)?
        }
    )+) => {
        /// What is measured.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        pub enum Metric {
            $($(#[doc = $line])+ #[serde(rename = $key)] $name,)+
        }

        /// Every metric with its row, in the order of [`Metric`].
        pub const METRICS: &[(Metric, MetricRow)] = &[$((Metric::$name, MetricRow {
            key: $key,
            unit: $unit,
            title: $title,
            does: $does,
            better: Better::$better,
            counts: Counts::$counts,
            rate: $rate,
            ratio: $ratio,
            derived: false $(|| $derived)?,
            sentence: &[$($line),+],
        })),+];
    };
}

impl Metric {
    /// Its row.
    pub const fn row(self) -> &'static MetricRow {
        &METRICS[self as usize].1
    }

    /// The metric of a key.
    pub fn named(key: &str) -> Option<Self> {
        METRICS.iter().find(|(_, row)| row.key == key).map(|(metric, _)| *metric)
    }

    /// The unit, as it stands in `unit`.
    pub const fn unit(self) -> &'static str {
        self.row().unit
    }

    /// The scale on which its noise is even. A cost may come out below 0, and a share has no logarithm worth taking.
    pub fn scale(self) -> Scale {
        let row = self.row();
        if row.ratio && row.unit != "ratio" && self != Metric::Cost {
            Scale::Ratio
        } else {
            Scale::Difference
        }
    }

    /// Whether more is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self.row().better, Better::More)
    }
}

metrics! {
    /// The highest rate that the firewall forwarded with no more loss than the goal allows (RFC 1242 section 3.17).
    Throughput {
        key: "throughput", unit: "frames/s", title: "Throughput", does: "forwards {}",
        better: More, counts: Frames, rate: true, ratio: true,
    }

    /// Received bits a second: of frames at the throughput rate, frame check sequence included; of bulk transfers
    /// and of files what the receiving applications got (RFC 2647 section 3.7).
    Goodput {
        key: "goodput", unit: "bit/s", title: "Goodput", does: "passes {}",
        better: More, counts: AsTrials, rate: true, ratio: true,
    }

    /// The share of the offered frames that did not arrive (RFC 1242 section 3.6).
    Loss {
        key: "loss", unit: "ratio", title: "Frame loss", does: "loses {} of the frames",
        better: Less, counts: Frames, rate: false, ratio: false,
    }

    /// The time that a frame spends on its way, from send stamp to receive stamp; the value is the median.
    Latency {
        key: "latency", unit: "ns", title: "One-way latency", does: "delays frames by {}",
        better: Less, counts: AsTrials, rate: false, ratio: true,
    }

    /// What the firewall adds to every frame: the difference of the reciprocal rates with and without it.
    Cost {
        key: "cost", unit: "ns/frame", title: "Cost per frame", does: "costs {} a frame",
        better: Less, counts: Frames, rate: false, ratio: true,
        derived: true,
    }

    /// The longest burst of frames with the least gap between them that passes without loss (RFC 9004).
    BackToBack {
        key: "back_to_back", unit: "frames", title: "Back-to-back frames", does: "takes a burst of {}",
        better: More, counts: Frames, rate: false, ratio: true,
    }

    /// The time that the firewall's buffer can hold frames, corrected for the frames that it forwards meanwhile (RFC
    /// 9004 section 6.4).
    BufferTime {
        key: "buffer_time", unit: "s", title: "Buffer time", does: "buffers for {}",
        better: More, counts: Frames, rate: false, ratio: true,
        derived: true,
    }

    /// The time that the firewall needs to forward without loss again (RFC 2544 sections 26.5 and 26.6).
    Recovery {
        key: "recovery", unit: "s", title: "Recovery time", does: "recovers in {}",
        better: Less, counts: AsTrials, rate: false, ratio: true,
    }

    /// The highest rate at which TCP connections were opened, used and closed with no more failures than the goal
    /// allows (RFC 3511 section 5.3; of applications RFC 9411 section 7.2).
    ConnectionRate {
        key: "connection_rate", unit: "connections/s", title: "Connection rate", does: "opens {}",
        better: More, counts: Connections, rate: true, ratio: true,
    }

    /// The highest rate at which requests were answered with no more failures than the goal allows (RFC 3511 section
    /// 5.7).
    TransactionRate {
        key: "transaction_rate", unit: "transactions/s", title: "Transaction rate", does: "answers {}",
        better: More, counts: Connections, rate: true, ratio: true,
    }

    /// The highest rate at which TCP connections were closed with no more failures than the goal allows (RFC 3511
    /// section 5.4).
    TeardownRate {
        key: "teardown_rate", unit: "teardowns/s", title: "Teardown rate", does: "closes {}",
        better: More, counts: Connections, rate: true, ratio: true,
    }

    /// Transactions of applications that completed in a minute: a connection opened, a file asked for, read and compared with
    /// what the server has, the connection closed (NSTL). Clients begin the next one when the one before has ended.
    TransactionsPerMinute {
        key: "transactions_per_minute", unit: "transactions/min", title: "Transactions a minute", does: "completes {}",
        better: More, counts: AsTrials, rate: true, ratio: true,
    }

    /// The share of the transactions of applications that failed, however they did.
    FailedTransactions {
        key: "failed_transactions", unit: "ratio", title: "Failed transactions", does: "lets {} of the transactions fail",
        better: Less, counts: AsTrials, rate: false, ratio: false,
    }

    /// The time of a completed transaction, from opening its connection to closing it; the value is the median.
    TransactionTime {
        key: "transaction_time", unit: "ns", title: "Transaction time", does: "completes a transaction in {}",
        better: Less, counts: AsTrials, rate: false, ratio: true,
    }

    /// The time within which 99 of 100 completed transactions ended.
    TransactionTimeP99 {
        key: "transaction_time_p99", unit: "ns", title: "Transaction time, 99th percentile",
        does: "completes 99 of 100 transactions in {}",
        better: Less, counts: AsTrials, rate: false, ratio: true,
    }

    /// The time from opening a connection to the first byte of the answer (TTFB, RFC 9411), of later transactions of a connection from
    /// their request; the value is the median.
    TimeToFirstByte {
        key: "time_to_first_byte", unit: "ns", title: "Time to first byte", does: "lets the first byte of an answer through in {}",
        better: Less, counts: AsTrials, rate: false, ratio: true,
    }

    /// The time from opening a connection to the last byte of the answer (TTLB, RFC 9411), of later transactions of a connection from
    /// their request; the value is the median.
    TimeToLastByte {
        key: "time_to_last_byte", unit: "ns", title: "Time to last byte", does: "lets the last byte of an answer through in {}",
        better: Less, counts: AsTrials, rate: false, ratio: true,
    }

    /// The share of the completed transactions, or of the bytes that they brought, that a part of a mix came out with: whichever of them the
    /// shares of the mix are of.
    TrafficShare {
        key: "traffic_share", unit: "ratio", title: "Share of the mix", does: "lets a part of the mix have {} of it",
        better: More, counts: AsTrials, rate: false, ratio: false,
    }

    /// How much longer a bulk transfer takes than the same without a firewall, which stands for the ideal (RFC 6349 section 4.1):
    /// the goodput of `wire` over the firewall's, round by round.
    TransferTimeRatio {
        key: "transfer_time_ratio", unit: "times", title: "TCP transfer time ratio", does: "makes transfers take {} as long",
        better: Less, counts: AsTrials, rate: false, ratio: true,
        derived: true,
    }

    /// The share of the bytes that a sender's TCP transmitted and did not have to send again (RFC 6349 section 4.2).
    TcpEfficiency {
        key: "tcp_efficiency", unit: "ratio", title: "TCP efficiency", does: "passes {} of the bytes the first time",
        better: More, counts: AsTrials, rate: false, ratio: false,
    }

    /// By how much the round trip grew during a bulk transfer, as a share of the idle one (RFC 6349 section 4.3): the time that
    /// data wait in buffers, those of the sender's own machine among them.
    BufferDelay {
        key: "buffer_delay", unit: "ratio", title: "Buffer delay", does: "lengthens the round trip by {}",
        better: Less, counts: AsTrials, rate: false, ratio: false,
    }

    /// The most TCP connections that were open at once; each answered a request after all were open (RFC 3511 section
    /// 5.2).
    ConcurrentConnections {
        key: "concurrent_connections", unit: "connections", title: "Concurrent connections", does: "holds {} open",
        better: More, counts: Connections, rate: false, ratio: true,
    }

    /// How many connections were established of those attempted: the client saw the SYN-ACK and acknowledged it.
    Established {
        key: "established", unit: "connections", title: "Established connections", does: "establishes {}",
        better: More, counts: Connections, rate: false, ratio: true,
    }

    /// The share of the attempted connections that did not end as the suite asks: refused, reset, timed out, answered
    /// wrongly.
    Failures {
        key: "failures", unit: "ratio", title: "Failed connections", does: "lets {} of the connections fail",
        better: Less, counts: Connections, rate: false, ratio: false,
    }

    /// The time from the intended start of a connection to the SYN-ACK, waiting for its turn included; the value is
    /// the mean, which the reports print.
    EstablishmentTime {
        key: "establishment_time", unit: "ns", title: "Establishment time", does: "establishes a connection in {}",
        better: Less, counts: Connections, rate: false, ratio: true,
    }

    /// The time from the first FIN or RST to the end of the connection (RFC 3511 appendix C); the value is the mean.
    TeardownTime {
        key: "teardown_time", unit: "ns", title: "Teardown time", does: "ends a connection in {}",
        better: Less, counts: Connections, rate: false, ratio: true,
    }

    /// Frames a second that client and server received together.
    FrameRate {
        key: "frame_rate", unit: "frames/s", title: "Frame rate", does: "forwards {}",
        better: More, counts: Connections, rate: false, ratio: true,
    }

    /// The share of the open connections that still answered after resets with wrong sequence numbers were sent
    /// against them: all should.
    Surviving {
        key: "surviving", unit: "ratio", title: "Connections surviving resets", does: "keeps {} of the connections when resets are sent",
        better: More, counts: Connections, rate: false, ratio: true,
    }

    /// The share of the open connections through which nothing passed any more after their own client had reset them:
    /// all should be closed.
    ClosedByReset {
        key: "closed_by_reset", unit: "ratio", title: "Connections closed by their reset", does: "closes {} of the connections upon their reset",
        better: More, counts: Connections, rate: false, ratio: true,
    }

    /// The time from the order to replace the policy to the last packet that the old policy judged.
    ReplacementTime {
        key: "replacement_time", unit: "s", title: "Policy replacement time", does: "takes up a new policy in {}",
        better: Less, counts: Connections, rate: false, ratio: true,
    }

    /// Connections that failed while the policy was replaced.
    ReplacementFailures {
        key: "replacement_failures", unit: "connections", title: "Connections lost to a replacement", does: "loses {} while its policy is replaced",
        better: Less, counts: Connections, rate: false, ratio: false,
    }

    /// The time that the firewall's own tools took to load the policy.
    PolicyLoadTime {
        key: "policy_load_time", unit: "s", title: "Policy load time", does: "loads the policy in {}",
        better: Less, counts: AsTrials, rate: false, ratio: true,
    }

    /// The memory that the firewall's tables took, where its driver can find out.
    Memory {
        key: "memory", unit: "bytes", title: "Memory of the tables", does: "takes {} of memory",
        better: Less, counts: AsTrials, rate: false, ratio: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_found_by_its_metric_and_by_its_key() {
        let keys: BTreeSet<&str> = METRICS.iter().map(|(_, row)| row.key).collect();
        assert_eq!(keys.len(), METRICS.len(), "keys are unique");
        for (metric, row) in METRICS {
            assert_eq!(metric.row(), row);
            assert_eq!(Metric::named(row.key), Some(*metric));
            assert_eq!(serde_json::to_value(metric).unwrap(), row.key, "results call it so");
            assert_eq!(row.does.matches("{}").count(), 1, "{}", row.does);
            assert!(row.sentence().ends_with('.') && !row.sentence().contains("  "), "{}", row.sentence());
        }
        assert_eq!(Metric::named("speed"), None);
    }
}
