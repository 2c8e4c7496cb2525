//! What the programs count: dropped packets by reason, everything else by tally, and decisions by rule.

use crate::names::SharedNames;
use crate::shared::from_bytes;
use crate::skeleton::types;
use crate::{DataplaneError, Reason, Tally};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::collections::BTreeMap;

/// Counters of rules that are cleared by one system call.
const BATCH: usize = 4096;

/// The programs' counters.
pub struct Counters {
    counts: MapHandle,
    hits: Hits,
    names: SharedNames,
}

/// The counters of rules: for each core, one for each slot.
pub(crate) struct Hits {
    map: MapHandle,
    cores: u32,
    slots: u32,
}

impl Counters {
    pub(crate) fn new(counts: MapHandle, hits: Hits, names: SharedNames) -> Self {
        Self { counts, hits, names }
    }

    /// Dropped packets by reason, all cores together. Reasons that never occurred are there with 0.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn drops(&self) -> Result<BTreeMap<Reason, u64>, DataplaneError> {
        let cores = self.cores()?;
        let sum = |reason: Reason| cores.iter().map(|core| core.drops[reason.number() as usize]).sum();
        Ok(Reason::ALL.iter().map(|reason| (*reason, sum(*reason))).collect())
    }

    /// Everything else that is counted, all cores together.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn tallies(&self) -> Result<BTreeMap<Tally, u64>, DataplaneError> {
        let cores = self.cores()?;
        let sum = |tally: Tally| cores.iter().map(|core| core.tallies[tally.number() as usize]).sum();
        Ok(Tally::ALL.iter().map(|tally| (*tally, sum(*tally))).collect())
    }

    fn cores(&self) -> Result<Vec<types::counts>, DataplaneError> {
        let cores = self
            .counts
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(DataplaneError::bpf("reading the counters"))?;
        Ok(cores.iter().flatten().filter_map(|core| from_bytes(core)).collect())
    }

    /// Hits of rules of the policy in force, by name: new flows that the rule allowed, and packets that it refused. Names of no
    /// rule are left out.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn rule_hits<'r>(
        &self,
        names: impl IntoIterator<Item = &'r str>,
    ) -> Result<Vec<(&'r str, u64)>, DataplaneError> {
        let now = self.names.now();
        let slots = names.into_iter().filter_map(|name| Some((name, now.slots().slot(name)?)));
        slots.map(|(name, slot)| Ok((name, self.hits.read(slot)?))).collect()
    }
}

impl Hits {
    pub(crate) fn new(map: MapHandle, cores: u32, slots: u32) -> Self {
        Self { map, cores, slots }
    }

    /// Rules that can be counted.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    fn read(&self, slot: u32) -> Result<u64, DataplaneError> {
        let mut hits = 0;
        for core in 0..self.cores {
            let place = core * self.slots + slot;
            let found = self.map.lookup(&place.to_ne_bytes(), MapFlags::ANY);
            let bytes = found.map_err(DataplaneError::bpf("reading the rules' counters"))?;
            let count = bytes.and_then(|bytes| bytes.first_chunk::<8>().copied());
            hits += count.map_or(0, u64::from_ne_bytes);
        }
        Ok(hits)
    }

    /// Sets the counters of some slots to zero, on all cores.
    pub(crate) fn clear(&self, slots: &[u32]) -> Result<(), DataplaneError> {
        for core in 0..self.cores {
            for chunk in slots.chunks(BATCH) {
                let keys: Vec<u8> =
                    chunk.iter().flat_map(|slot| (core * self.slots + slot).to_ne_bytes()).collect();
                let zeros = vec![0; chunk.len() * 8];
                self.map
                    .update_batch(&keys, &zeros, chunk.len() as u32, MapFlags::ANY, MapFlags::ANY)
                    .map_err(DataplaneError::bpf("clearing the rules' counters"))?;
            }
        }
        Ok(())
    }
}
