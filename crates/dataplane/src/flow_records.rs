//! Flows that have ended, for the exporter, read from the ring that the programs fill. Decides nothing and keeps nothing.

use crate::clock::whole_tick;
use crate::flow_table::named;
use crate::names::SharedNames;
use crate::ring::Ring;
use crate::shared::from_bytes;
use crate::skeleton::types;
use crate::{DataplaneError, Flow};
use libbpf_rs::MapCore;
use std::time::Duration;

/// A flow that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedFlow {
    /// When it ended, on CLOCK_MONOTONIC.
    pub at: Duration,
    /// The flow as it was then.
    pub flow: Flow,
    /// Why it ended: flowEndReason of IPFIX.
    pub end: u8,
}

/// The reading end of the ring of records.
pub struct FlowRecords {
    ring: Ring<types::flow_record>,
    names: SharedNames,
}

impl FlowRecords {
    pub(crate) fn new(map: &dyn MapCore, names: SharedNames) -> Result<Self, DataplaneError> {
        Ok(Self { ring: Ring::new(map, "the ring of records of flows")?, names })
    }

    /// The flows that have ended since the last call, if the policy in force wants records of them. The ring holds some 27,000; beyond
    /// that flows end without a record and are counted ([`crate::Tally::RecordsLost`]), so this is to be called several times a second.
    ///
    /// # Errors
    /// The kernel does not let the ring be read.
    pub fn take(&self) -> Result<Vec<EndedFlow>, DataplaneError> {
        let records = self.ring.take()?;
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.names.now();
        let rules = names.rules_by_generation();
        let ended = records.iter().filter_map(|record| {
            // A slot of another generation may be another rule's.
            let flow: types::flow = from_bytes(&record.flow.map(u64::to_ne_bytes).concat())?;
            let known = rules.iter().find(|(generation, _)| *generation == flow.generation);
            let rules = known.map_or(&[][..], |(_, rules)| rules);
            let at = Duration::from_nanos(record.time);
            let flow = named(0, &flow, whole_tick(at), &names, rules)?;
            Some(EndedFlow { at, flow, end: record.end as u8 })
        });
        Ok(ended.collect())
    }
}
