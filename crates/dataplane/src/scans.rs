//! Sources that scanned and are blocked, and ending that. Decides nothing: who scans is found in C (`bpf/firewall/scan.h`).

use crate::DataplaneError;
use crate::clock::{ticks, whole_tick};
use crate::flow_table::address;
use crate::names::{Names, SharedNames};
use crate::shared::{Program, from_bytes};
use crate::skeleton::types::{self, sizes};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use policy::scans::{SKETCH_BITS, estimate};
use std::net::IpAddr;
use std::time::Duration;

const _: () = assert!(SKETCH_BITS == sizes::SCAN_WORDS.0 * 64);

/// Buckets that are read by one system call: 660 KiB.
const BATCH: u32 = 512;

/// A source that may open no flow for a time, in one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Identifies it as long as it is blocked.
    pub key: u64,
    /// The source; of IPv6 the first address of its network of 64 bits.
    pub source: IpAddr,
    /// Bits that all blocked addresses begin with: 32 of IPv4, 64 of IPv6.
    pub prefix: u8,
    /// Name of the zone that it came from.
    pub zone: String,
    /// Since it was blocked.
    pub age: Duration,
    /// Until it may open flows again.
    pub left: Duration,
    /// Different ports that it had asked for in vain, estimated.
    pub ports: u32,
    /// Different hosts that it had asked, estimated.
    pub hosts: u32,
}

/// What was counted for sources that asked in vain.
pub struct Scans {
    pub(crate) sources: MapHandle,
    pub(crate) end_block: Program,
    pub(crate) names: SharedNames,
}

impl Scans {
    /// Sources that are blocked, those that are longest first. `now` is CLOCK_MONOTONIC since its beginning. Whether the policy in force
    /// still blocks anybody is not looked at.
    ///
    /// # Errors
    /// The kernel does not let the table be read.
    pub fn blocked(&self, now: Duration) -> Result<Vec<Blocked>, DataplaneError> {
        let (tick, names) = (whole_tick(now), self.names.now());
        let buckets = self
            .sources
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
            .map_err(DataplaneError::bpf("reading the sources of scans"))?;
        let mut found: Vec<Blocked> = buckets
            .filter_map(|(_, bytes)| from_bytes::<types::scan_bucket>(&bytes))
            .flat_map(|bucket| bucket.entries)
            .filter(|entry| entry.blocked_until > tick)
            .map(|entry| named(&entry, tick, &names))
            .collect();
        found.sort_by_key(|blocked| (std::cmp::Reverse(blocked.age), blocked.source));
        Ok(found)
    }

    /// Ends a block, and forgets what was counted for its source. Returns false if it was over.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn end(&self, key: u64) -> Result<bool, DataplaneError> {
        let command = types::block_command { key, ..Default::default() };
        let (answer, _) =
            self.end_block.command(&command, 1).map_err(DataplaneError::system("ending a block"))?;
        Ok(answer.done != 0)
    }
}

fn named(entry: &types::scan_entry, tick: u64, names: &Names) -> Blocked {
    let [a, b] = entry.address;
    Blocked {
        key: entry.key,
        source: address(entry.family, &[a, b, 0, 0]),
        prefix: if entry.family == 4 { 32 } else { 64 },
        zone: names.zone(entry.zone).unwrap_or("?").to_owned(),
        age: ticks(tick.saturating_sub(entry.detected)),
        left: ticks(entry.blocked_until - tick),
        ports: estimate(entry.found[0].into()),
        hosts: estimate(entry.found[1].into()),
    }
}
