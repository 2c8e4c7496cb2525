//! What the links of a bed lost, for the loss ledger. Read before and after a trial; the difference is the trial's.
//!
//! Which counter of a veth pair moves when (Linux 6.18, measured with receive threads that were kept from running;
//! `tests/beds.rs` repeats it):
//!
//! | what happens on the way from end A to end B | A | B |
//! |---|---|---|
//! | an XDP redirect meets B's full ring | `tx_dropped`, `tx_queue_*_xdp_xmit_errors` | `rx_dropped` too: the same frames |
//! | the stack sends into B's full ring | `tx_dropped` | nothing |
//! | B has no NAPI and its core's backlog is full | nothing | `rx_dropped` |
//! | an XDP program on B drops | nothing | `rx_queue_*_xdp_drops`: a verdict, no loss of the link |
//! | a token bucket's queue is full | the queueing discipline's `dropped` | nothing |
//!
//! A ring is full only where somebody else empties it: in inline placement the sending core empties it itself, and
//! overload shows as a generator behind its schedule.

use crate::bed::Bed;
use crate::error::TestbedError;
use crate::layout::{BedLayout, PortEnd};
use crate::netns::Namespace;
use crate::program;
use measure::shape::Zone;
use std::collections::BTreeMap;
use std::fs;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// Counters of one end of a link since it was made, in frames, summed over its queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndCounters {
    /// Received.
    pub rx_packets: u64,
    /// Not taken in; see the table above for what it counts twice.
    pub rx_dropped: u64,
    /// Sent.
    pub tx_packets: u64,
    /// Not sent, because the other end's ring was full.
    pub tx_dropped: u64,
    /// The part of `tx_dropped` that XDP redirected.
    pub xdp_xmit_errors: u64,
    /// The part of `tx_dropped` that an XDP program sent back.
    pub xdp_tx_errors: u64,
    /// Dropped by the end's XDP program.
    pub xdp_drops: u64,
}

/// Counters of every link of a bed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// By zone: the zone's end, and what it is connected with where that is the firewall's end.
    ends: BTreeMap<Zone, (EndCounters, Option<EndCounters>)>,
    /// Drops of the token buckets, by device.
    buckets: BTreeMap<String, u64>,
}

impl LinkCounters {
    /// Reads all links: one `ethtool` an end, one `tc` where links are rate-limited; about 10 ms for a bed of two zones.
    ///
    /// # Errors
    /// A link that is gone.
    pub fn read(bed: &Bed) -> Result<Self, TestbedError> {
        let buckets = match bed.link() {
            Some(link) => parse_buckets(&link.run("tc", &["-s", "qdisc", "show"])?),
            None => BTreeMap::new(),
        };
        Ok(Self { buckets, ..Self::of_layout(bed.layout())? })
    }

    /// The same for a layout, which may be of two interfaces that the user named.
    ///
    /// # Errors
    /// A link that is gone.
    pub fn of_layout(layout: &BedLayout) -> Result<Self, TestbedError> {
        // A program is run for each end, before every trial and after it: side by side.
        let ends = thread::scope(|scope| {
            let begin = |end| scope.spawn(move || read_end(end));
            let begun: Vec<_> = layout
                .ports
                .iter()
                .map(|port| (port.zone, begin(&port.end), port.firewall.as_ref().map(begin)))
                .collect();
            let each = begun.into_iter().map(|(zone, end, firewall)| {
                Ok((zone, (result_of(end)?, firewall.map(result_of).transpose()?)))
            });
            each.collect::<Result<BTreeMap<_, _>, TestbedError>>()
        })?;
        Ok(Self { ends, buckets: BTreeMap::new() })
    }

    /// The zone's own end.
    pub fn zone(&self, zone: Zone) -> Option<&EndCounters> {
        self.ends.get(&zone).map(|(end, _)| end)
    }

    /// The firewall's end of a zone's link.
    pub fn firewall(&self, zone: Zone) -> Option<&EndCounters> {
        self.ends.get(&zone).and_then(|(_, end)| end.as_ref())
    }

    /// Frames that links lost since an earlier reading, by where, none of them counted twice: for
    /// [`measure::ledger::FramePlaces::ring_full`]. Only what is not zero.
    pub fn lost_since(&self, earlier: &Self) -> BTreeMap<String, u64> {
        let mut lost = BTreeMap::new();
        for (zone, (end, firewall)) in &self.ends {
            let (end_before, firewall_before) = earlier.ends.get(zone).copied().unwrap_or_default();
            let end = end.since(&end_before);
            let firewall = firewall.map(|f| f.since(&firewall_before.unwrap_or_default()));
            let name = zone.name();
            lost.insert(format!("{name} to its link: ring full"), end.tx_dropped);
            if let Some(firewall) = firewall {
                lost.insert(format!("firewall to {name}: ring full"), firewall.tx_dropped);
                lost.insert(format!("firewall from {name}: backlog full"), firewall.backlog_drops(&end));
                lost.insert(format!("{name} from its link: backlog full"), end.backlog_drops(&firewall));
            }
        }
        for (device, now) in &self.buckets {
            let before = earlier.buckets.get(device).copied().unwrap_or(0);
            lost.insert(format!("rate limit of {device}"), now.saturating_sub(before));
        }
        lost.retain(|_, frames| *frames > 0);
        lost
    }
}

impl EndCounters {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            rx_packets: self.rx_packets.saturating_sub(earlier.rx_packets),
            rx_dropped: self.rx_dropped.saturating_sub(earlier.rx_dropped),
            tx_packets: self.tx_packets.saturating_sub(earlier.tx_packets),
            tx_dropped: self.tx_dropped.saturating_sub(earlier.tx_dropped),
            xdp_xmit_errors: self.xdp_xmit_errors.saturating_sub(earlier.xdp_xmit_errors),
            xdp_tx_errors: self.xdp_tx_errors.saturating_sub(earlier.xdp_tx_errors),
            xdp_drops: self.xdp_drops.saturating_sub(earlier.xdp_drops),
        }
    }

    /// Frames not taken in that the sending end does not count as well.
    fn backlog_drops(&self, sender: &Self) -> u64 {
        self.rx_dropped.saturating_sub(sender.xdp_xmit_errors + sender.xdp_tx_errors)
    }
}

fn result_of<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

fn read_end(end: &PortEnd) -> Result<EndCounters, TestbedError> {
    let (device, ethtool) = read_texts(&end.namespace, &end.device)?;
    let mut counters = parse_device(&device, &end.device).ok_or_else(|| {
        TestbedError::Impossible(format!("the link {} is gone: somebody removed it", end.device))
    })?;
    for (name, value) in parse_ethtool(&ethtool) {
        match name {
            name if name.ends_with("_xdp_xmit_errors") => counters.xdp_xmit_errors += value,
            name if name.ends_with("_xdp_tx_errors") => counters.xdp_tx_errors += value,
            name if name.ends_with("_xdp_drops") => counters.xdp_drops += value,
            _ => {}
        }
    }
    Ok(counters)
}

fn read_texts(namespace: &Namespace, device: &str) -> Result<(String, String), TestbedError> {
    const DEVICES: &str = "/proc/thread-self/net/dev";
    namespace.enter(|| {
        // A card's driver may have no counters of its own: then there is nothing to add.
        let ethtool = match program::run("ethtool", &["-S", device]) {
            Err(TestbedError::ProgramFailed { .. }) => String::new(),
            other => other?,
        };
        Ok((fs::read_to_string(DEVICES).map_err(TestbedError::io("read", DEVICES))?, ethtool))
    })?
}

/// A device's line of `/proc/net/dev`: eight columns of receiving, then eight of sending.
fn parse_device(text: &str, device: &str) -> Option<EndCounters> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))?;
    let values: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let at = |index: usize| values.get(index).copied();
    Some(EndCounters {
        rx_packets: at(1)?,
        rx_dropped: at(3)?,
        tx_packets: at(9)?,
        tx_dropped: at(11)?,
        ..EndCounters::default()
    })
}

fn parse_ethtool(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once(": ")?;
        Some((name, value.trim().parse().ok()?))
    })
}

/// Drops of each TBF in `tc -s qdisc show`: a line that names the device, then `Sent … (dropped N, …`.
fn parse_buckets(text: &str) -> BTreeMap<String, u64> {
    let mut buckets = BTreeMap::new();
    let mut device = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("qdisc ") {
            let is_bucket = rest.starts_with("tbf ");
            device = rest.split(" dev ").nth(1).and_then(|r| r.split(' ').next()).filter(|_| is_bucket);
        } else if let (Some(name), Some((_, rest))) = (device, line.split_once("(dropped ")) {
            let dropped = rest.split(',').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            buckets.insert(name.to_owned(), dropped);
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_its_whole_name() {
        let text = "Inter-|   Receive\n face |bytes\n  pz0: 100 1 0 2 0 0 0 0 300 3 0 4 0 0 0 0\n pz01: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n";
        let expected = EndCounters {
            rx_packets: 1,
            rx_dropped: 2,
            tx_packets: 3,
            tx_dropped: 4,
            ..EndCounters::default()
        };
        assert_eq!(parse_device(text, "pz0"), Some(expected));
        assert_eq!(parse_device(text, "pz"), None);
    }

    #[test]
    fn buckets_are_read() {
        let text = "qdisc noqueue 0: dev lo root refcnt 2\n Sent 0 bytes 0 pkt (dropped 5, overlimits 0 requeues 0)\n\
                    qdisc tbf 8001: dev pa0 root refcnt 3 rate 10Mbit\n Sent 90 bytes 1 pkt (dropped 7, overlimits 3 requeues 0)\n\
                    qdisc ingress ffff: dev pa0 parent ffff:fff1\n Sent 0 bytes 0 pkt (dropped 9, overlimits 0 requeues 0)\n";
        assert_eq!(parse_buckets(text), BTreeMap::from([("pa0".to_owned(), 7)]));
    }

    #[test]
    fn frames_that_both_ends_count_are_lost_once() {
        let sender = EndCounters { tx_dropped: 10, xdp_xmit_errors: 10, ..EndCounters::default() };
        let receiver = EndCounters { rx_dropped: 13, ..EndCounters::default() };
        let now = LinkCounters {
            ends: BTreeMap::from([(Zone::Private, (sender, Some(receiver)))]),
            buckets: BTreeMap::from([("pa0".to_owned(), 2)]),
        };
        let lost = now.lost_since(&LinkCounters::default());
        let rows = [
            ("private to its link: ring full", 10),
            ("firewall from private: backlog full", 3),
            ("rate limit of pa0", 2),
        ];
        assert_eq!(lost, rows.map(|(name, n)| (name.to_owned(), n)).into());
    }
}
