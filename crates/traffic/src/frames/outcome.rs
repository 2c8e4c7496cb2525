//! From counters to what a trial shows: lanes, latencies, seconds.

use super::part::TrialReading;
use super::reading::{FIELD_NAMES, Reading, StreamCounts};
use crate::harness::{Histogram, summary};
use measure::frame::FCS_BYTES;
use measure::ledger::{Beside, FramePlaces, Ledger, Named, Places};
use measure::results::LatencySummary;
use measure::shape::Lane;
use measure::trial::{LaneOutcome, SecondSample};

impl Reading {
    /// Distinct frames received intact, over all lanes.
    pub fn received(&self) -> u64 {
        self.streams.iter().map(|s| s.received).sum()
    }

    /// Frames handed to the links, over all lanes.
    pub fn sent(&self) -> u64 {
        self.streams.iter().map(|s| s.sent).sum()
    }

    /// Latency over all lanes; `None` when nothing was timed.
    pub fn latency_ns(&self) -> Option<LatencySummary> {
        let mut all = Histogram::default();
        self.times.iter().for_each(|lane| all.merge(&lane.latency));
        all.summary()
    }

    /// The shortest latency of any lane and the median of all, in seconds; 0 when nothing was timed.
    pub(super) fn shortest_and_median(&self) -> [f64; 2] {
        let shortest = self.times.iter().map(|lane| lane.latency.min_ns).min().unwrap_or(0) as f64;
        let median = self.latency_ns().map_or(shortest, |latency| latency.p50.max(shortest));
        [shortest / 1e9, median / 1e9]
    }
}

/// Latency of one lane, with the smallest and the largest exact instead of read from buckets.
fn lane_latency(latency: &Histogram) -> Option<LatencySummary> {
    Some(LatencySummary { min: latency.min_ns as f64, max: latency.max_ns as f64, ..latency.summary()? })
}

/// Packet delay variation: each latency less the smallest (RFC 5481 section 4.2).
fn pdv(latency: &Histogram) -> Option<LatencySummary> {
    let entries = latency.entries().into_iter();
    summary(entries.map(|(ns, count)| (ns.saturating_sub(latency.min_ns), count)))
}

impl TrialReading {
    /// What happened on each of `lanes`, which are those of the trial's plan.
    pub fn lanes(&self, lanes: &[(Lane, f64)]) -> Vec<LaneOutcome> {
        lanes
            .iter()
            .zip(self.reading.streams.iter().zip(&self.reading.times))
            .map(|(&(lane, _), (counts, times))| LaneOutcome {
                lane,
                sent: counts.sent,
                received: counts.received,
                duplicated: counts.duplicated,
                reordered: counts.reordered,
                corrupted: counts.corrupted,
                latency_ns: lane_latency(&times.latency),
                pdv_ns: pdv(&times.latency),
                ipdv_ns: summary(times.variation.entries()),
            })
            .collect()
    }

    /// The ledger, as far as the generator and the sinks know it: what was lost on the way has no place yet.
    pub fn ledger(&self) -> Ledger {
        Ledger {
            offered: self.offered,
            not_sent: self.offered.saturating_sub(self.sent()),
            received: self.reading.received() - self.held_back,
            places: Places::Frames(self.places()),
        }
    }

    /// Where the frames went that arrived otherwise than they should, and what arrived beside them.
    fn places(&self) -> FramePlaces {
        let reading = &self.reading;
        let sum = |of: fn(&StreamCounts) -> u64| reading.streams.iter().map(of).sum::<u64>();
        let mut altered = Named::new();
        for (field, name) in FIELD_NAMES.into_iter().enumerate() {
            let count: u64 = reading.streams.iter().map(|stream| stream.altered[field]).sum();
            if count > 0 {
                altered.insert(name.to_owned(), count);
            }
        }
        let (corrupted, compared) = (sum(|s| s.corrupted), sum(|s| s.compared));
        let known = sum(|s| s.received) + corrupted + sum(|s| s.wrong_port) + altered.values().sum::<u64>();
        FramePlaces {
            // A frame whose stamp is damaged is missing from its stream; one that was invented is not.
            corrupted: corrupted + reading.forged.min(reading.sent().saturating_sub(known)),
            not_received: self.held_back,
            wrong_port: sum(|s| s.wrong_port),
            altered,
            beside: Beside {
                repeated: sum(|s| s.duplicated),
                reordered: sum(|s| s.reordered),
                forged: reading.forged,
                foreign: reading.foreign + reading.stale,
                compared: if self.samples_content { compared } else { 0 },
                forbidden_sent: reading.forbidden_sent,
                forbidden_arrived: reading.forbidden_arrived,
            },
            ..FramePlaces::default()
        }
    }

    /// Bits of the received frames, FCS included.
    pub fn received_bits(&self) -> u64 {
        let fcs = u64::from(FCS_BYTES);
        self.reading.streams.iter().map(|s| (s.received_bytes + s.received * fcs) * 8).sum()
    }

    /// Longest time without a received frame on any lane, in seconds.
    pub fn longest_silence_seconds(&self) -> f64 {
        self.reading.streams.iter().map(|s| s.longest_silence_ns).max().unwrap_or(0) as f64 / 1e9
    }
}

/// Collects one sample a second from successive readings since the start of a trial.
#[derive(Debug, Default)]
pub struct Seconds {
    last: Option<Reading>,
    samples: Vec<SecondSample>,
}

impl Seconds {
    /// Takes the reading at `at_seconds` from the start.
    pub fn add(&mut self, at_seconds: f64, reading: &Reading) {
        let within = match &self.last {
            Some(last) => reading.since(last),
            None => reading.clone(),
        };
        self.samples.push(SecondSample {
            at_seconds,
            sent: within.sent(),
            received: within.received(),
            latency_ns: within.latency_ns(),
            connections: None,
        });
        self.last = Some(reading.clone());
    }

    /// The samples so far.
    pub fn into_samples(self) -> Vec<SecondSample> {
        self.samples
    }
}
