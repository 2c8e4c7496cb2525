//! Records of flows, for the exporter: those that have ended are read from the ring that the programs fill. Decides nothing and keeps nothing.

use crate::clock::whole_tick;
use crate::flow_table::{is_v4, named};
use crate::names::SharedNames;
use crate::ring::Ring;
use crate::shared::from_bytes;
use crate::skeleton::types;
use crate::{DataplaneError, Flow};
use libbpf_rs::MapCore;
use std::time::Duration;

/// What there is to record of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFlow {
    /// When it ended, or was looked at, on CLOCK_MONOTONIC.
    pub at: Duration,
    /// The flow as it was then; what it carried is counted from its record before.
    pub flow: Flow,
    /// Why it ended, or that it goes on: flowEndReason of IPFIX.
    pub end: u8,
    /// When the last packet came that its record before counts; `None`: it had none.
    pub since: Option<Duration>,
    pub(crate) identity: Identity,
}

/// What tells a flow from all others, wherever in a table its record is: its ends, and when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    address: [u32; 2],
    address_rest: [[u32; 3]; 2],
    port: [u16; 2],
    protocol: u8,
    opened: u32,
}

impl Identity {
    pub(crate) fn of(flow: &types::flow) -> Self {
        let types::flow { address, port, protocol, opened, .. } = *flow;
        // Of IPv4 an alias is there.
        let address_rest = if is_v4(flow) { Default::default() } else { flow.address_rest };
        Self { address, address_rest, port, protocol, opened }
    }
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
    pub fn take(&self) -> Result<Vec<RecordedFlow>, DataplaneError> {
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
            let identity = Identity::of(&flow);
            let flow = named(0, &flow, whole_tick(at), &names, rules)?;
            Some(RecordedFlow { at, flow, end: record.end as u8, since: None, identity })
        });
        Ok(ended.collect())
    }
}
