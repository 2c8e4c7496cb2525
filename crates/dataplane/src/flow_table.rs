//! The flow table: which flows are open, and ending them.

use crate::clock::{idle, since, whole_tick};
use crate::names::{Names, SharedNames, slot_of_mark};
use crate::shared::{Program, Shared, from_bytes, read};
use crate::skeleton::types;
use crate::{DataplaneError, State};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Records that are read by one system call: 512 KiB.
const BATCH: u32 = 4096;
const TRANSLATED: u8 = types::family_bits::FLOW_TRANSLATED.0 as u8;
const IS_MAPPING: u8 = types::family_bits::FLOW_IS_MAPPING.0 as u8;
const MAPPING_OF_TCP: u8 = types::mapping_protocol::MAPPING_OF_TCP.0 as u8;
const FAMILY: u8 = types::family_bits::FLOW_FAMILY.0 as u8;
/// Records that one run of the sweep looks at.
const SWEEP: u32 = 1 << 18;

/// Address and port.
type End = (IpAddr, u16);

/// An interface that belongs to another zone now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Name of the interface.
    pub interface: String,
    /// Place of the interface in the data plane.
    pub(crate) place: u32,
    /// The number of the zone that it belonged to.
    pub(crate) zone: u8,
}

/// A flow: a two-way exchange of packets, and the firewall's record of it. Or in the state [`State::Mapping`] what a mapping keeps: its initiator is
/// known to everybody, or to the responder's address, by its alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Identifies it as long as it lives.
    pub id: FlowId,
    /// IP protocol number.
    pub protocol: u8,
    /// Address and port of the initiator, the end that opened it; of an ICMP query its identifier.
    pub initiator: (IpAddr, u16),
    /// Address and port of the responder; of an ICMP query type and code of the question.
    pub responder: (IpAddr, u16),
    /// Of a translated flow, the address and port by which the responder knows the initiator, and the initiator the responder;
    /// `None` where that is its own.
    pub aliases: (Option<End>, Option<End>),
    /// Zones of initiator and responder.
    pub zones: (String, String),
    /// State.
    pub state: State,
    /// Since it was opened; of a flow that is open for longer than 52 days, without whole times 52 days.
    pub age: Duration,
    /// Since its last packet.
    pub idle: Duration,
    /// IP packets from the initiator and from the responder.
    pub packets: (u64, u64),
    /// IP bytes from the initiator and from the responder.
    pub bytes: (u64, u64),
    /// Name of the rule that allowed it; none for the default of its zones, and for a rule that is gone.
    pub rule: Option<String>,
}

/// Identifies a flow: its record in the table, and how often that record was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    /// The record.
    pub record: u32,
    /// How often it was used.
    pub use_count: u32,
}

/// Which flows are wanted; what is `None` is not looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Address of either end.
    pub address: Option<IpAddr>,
    /// Port of either end.
    pub port: Option<u16>,
    /// Protocol number.
    pub protocol: Option<u8>,
    /// State.
    pub state: Option<State>,
    /// Zone of either end.
    pub zone: Option<String>,
    /// Rule that allowed it.
    pub rule: Option<String>,
}

impl Filter {
    /// Whether a flow is wanted.
    pub fn wants(&self, flow: &Flow) -> bool {
        let either = |zone: &String| *zone == flow.zones.0 || *zone == flow.zones.1;
        self.address.is_none_or(|a| a == flow.initiator.0 || a == flow.responder.0)
            && self.port.is_none_or(|p| p == flow.initiator.1 || p == flow.responder.1)
            && self.protocol.is_none_or(|p| p == flow.protocol)
            && self.state.is_none_or(|s| s == flow.state)
            && self.zone.as_ref().is_none_or(either)
            && self.rule.as_ref().is_none_or(|r| flow.rule.as_ref() == Some(r))
    }
}

/// The flows that are open.
pub struct FlowTable {
    pub(crate) records: MapHandle,
    pub(crate) pool: Shared<types::pool>,
    pub(crate) proxy: Shared<types::proxy_state>,
    pub(crate) capacity: u32,
    pub(crate) end_flow: Program,
    pub(crate) sweep_flows: Program,
    /// Of a firewall that came after one whose table it cannot use.
    pub(crate) take_flow: Option<Program>,
    /// How often the table was swept.
    pub(crate) sweeps: AtomicU32,
    pub(crate) names: SharedNames,
}

impl FlowTable {
    /// Flows that fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// TCP handshakes under way.
    pub fn half_open(&self) -> u32 {
        read(&self.pool.spent[types::budget::BUDGET_HALF_OPEN.0 as usize])
    }

    /// Whether half-open flows have switched the SYN proxy on (`syn_proxy = "when-full"`).
    pub fn calls_for_cookies(&self) -> bool {
        read(&self.proxy.is_on) != 0
    }

    /// Flows other than TCP that nobody has answered yet.
    pub fn unanswered(&self) -> u32 {
        read(&self.pool.spent[types::budget::BUDGET_UNANSWERED.0 as usize])
    }

    /// Records that were ever used.
    fn used(&self) -> u32 {
        read(&self.pool.fresh).min(self.capacity)
    }

    /// The flows that a filter wants, in the order of the table. `now` is CLOCK_MONOTONIC since its beginning, from which ages
    /// are computed. Flows open and end meanwhile, so it is no snapshot. Flows that are over and not yet swept are left out.
    ///
    /// # Errors
    /// The kernel does not let the table be read.
    pub fn matching(&self, filter: &Filter, now: Duration) -> Result<Vec<Flow>, DataplaneError> {
        let mut flows = Vec::new();
        self.each(now, |flow| flows.extend(filter.wants(&flow).then_some(flow)))?;
        Ok(flows)
    }

    /// Shows every flow to `each`, one after the other: a table may have millions. Otherwise as [`FlowTable::matching`].
    ///
    /// # Errors
    /// The kernel does not let the table be read.
    pub fn each(&self, now: Duration, mut each: impl FnMut(Flow)) -> Result<(), DataplaneError> {
        let tick = whole_tick(now);
        let names = self.names.now();
        let rules = names.rules();
        self.each_record(|record, flow| {
            named(record, flow, tick, &names, &rules).into_iter().for_each(&mut each);
        })
    }

    /// Shows every record that was ever used to `each`, also those that are free.
    pub(crate) fn each_record(&self, mut each: impl FnMut(u32, &types::flow)) -> Result<(), DataplaneError> {
        let records = self
            .records
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
            .map_err(DataplaneError::bpf("reading the flow table"))?;
        for (record, (_, bytes)) in (0..self.used()).zip(records) {
            if let Some(flow) = from_bytes::<types::flow>(&bytes) {
                each(record, &flow);
            }
        }
        Ok(())
    }

    /// Ends a flow: its next packet belongs to no flow. Returns false if it is over already.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn end(&self, id: FlowId) -> Result<bool, DataplaneError> {
        let command = types::table_command { first: id.record, number: id.use_count, ..Default::default() };
        Ok(done(&self.end_flow, &command)? != 0)
    }

    /// Removes expired flows, and keeps the mappings of connections that are idle; returns how many were removed. About once a second is often enough: an expired flow is treated as gone whether
    /// it was swept or not.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn sweep(&self) -> Result<u32, DataplaneError> {
        self.all_over(types::table_task::TASK_SWEEP, self.sweeps.fetch_add(1, Ordering::Relaxed))
    }

    /// Ends the flows of interfaces that belong to another zone now; returns how many.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn end_moved(&self, moved: &[Moved]) -> Result<u32, DataplaneError> {
        moved.iter().try_fold(0, |ended, moved| {
            let number = u32::from(moved.zone) << 16 | moved.place;
            Ok(ended + self.all_over(types::table_task::TASK_END_MOVED, number)?)
        })
    }

    /// Goes over all records. Returns how many flows were removed.
    fn all_over(&self, task: types::table_task, number: u32) -> Result<u32, DataplaneError> {
        let used = self.used();
        (0..used).step_by(SWEEP as usize).try_fold(0, |removed, first| {
            let count = SWEEP.min(used - first);
            let command = types::table_command { first, count, task: task.0, number, ..Default::default() };
            Ok(removed + done(&self.sweep_flows, &command)?)
        })
    }
}

fn done(program: &Program, command: &types::table_command) -> Result<u32, DataplaneError> {
    let run = program.command(command, 1);
    run.map(|(answer, _)| answer.done).map_err(DataplaneError::system("running a program on the flow table"))
}

/// A record with names for its numbers; `None` for one that is free.
pub(crate) fn named(
    record: u32,
    flow: &types::flow,
    tick: u64,
    names: &Names,
    rules: &[Option<&str>],
) -> Option<Flow> {
    let state = State::of(flow.state.into())?;
    let is_mapping = is_mapping(flow);
    let protocol = match (is_mapping, flow.protocol) {
        (false, protocol) => protocol,
        (true, MAPPING_OF_TCP) => policy::service::TCP,
        (true, _) => policy::service::UDP,
    };
    let family = flow.family & FAMILY;
    let (initiator, responder) = (usize::from(flow.initiator & 1), usize::from(flow.initiator & 1 ^ 1));
    let end = |end: usize| {
        let [b, c, d] = if family == 4 { [0; 3] } else { flow.address_rest[end] };
        (address(family, &[flow.address[end], b, c, d]), u16::from_be(flow.port[end]))
    };
    let alias = |end: usize| {
        let [alias_address, alias_port, _] = flow.address_rest[end];
        let is_its_own = alias_address == flow.address[end] && alias_port == u32::from(flow.port[end]);
        let is_translated = flow.family & TRANSLATED != 0 && !is_its_own;
        is_translated.then(|| (address(4, &[alias_address, 0, 0, 0]), u16::from_be(alias_port as u16)))
    };
    let packets = |end: usize| u64::from(flow.packets_high[end]) << 32 | u64::from(flow.packets[end]);
    let zone = |end: usize| names.zone(flow.zone[end]).unwrap_or("?").to_owned();
    let rule = slot_of_mark(flow.mark).and_then(|slot| rules.get(slot as usize).copied().flatten());
    Some(Flow {
        id: FlowId { record, use_count: flow.number },
        protocol,
        initiator: end(initiator),
        responder: end(responder),
        aliases: (alias(initiator), alias(responder)),
        zones: (zone(initiator), zone(responder)),
        state: if is_mapping { State::Mapping } else { state },
        age: since(tick, flow.opened),
        idle: idle(tick, flow.seen, flow.initiator),
        packets: (packets(initiator), packets(responder)),
        bytes: (flow.bytes[initiator], flow.bytes[responder]),
        rule: rule.map(str::to_owned),
    })
}

/// Whether a record is what a mapping keeps, and no flow.
pub(crate) fn is_mapping(flow: &types::flow) -> bool {
    flow.family & IS_MAPPING != 0
}

/// Whether its ends have addresses of IPv4.
pub(crate) fn is_v4(flow: &types::flow) -> bool {
    flow.family & FAMILY == 4
}

/// An address as C has it.
pub(crate) fn address(family: u8, words: &[u32; 4]) -> IpAddr {
    let mut octets = [0; 16];
    for (octets, word) in octets.chunks_mut(4).zip(words) {
        octets.copy_from_slice(&word.to_ne_bytes());
    }
    if family == 4 {
        let [a, b, c, d, ..] = octets;
        return Ipv4Addr::new(a, b, c, d).into();
    }
    Ipv6Addr::from(octets).into()
}
