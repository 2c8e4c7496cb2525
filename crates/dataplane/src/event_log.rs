//! The event log: what rules with `log` and `alert` record, read from the ring that the programs fill, with names for numbers.
//! Decides nothing and keeps nothing: an event that was read is gone from the ring.

use crate::clock::ticks;
use crate::flow_table::address;
use crate::names::{NO_SLOT, Names, SharedNames};
use crate::ring::Ring;
use crate::skeleton::types::{self, event_kind};
use crate::{DataplaneError, Reason, State};
use libbpf_rs::MapCore;
use policy::lists::COUNTER_PREFIX;
use policy::model::Per;
use policy::quota::Sliding;
use policy::scans::estimate;
use std::net::IpAddr;
use std::time::Duration;

/// Something that a rule, or a default, recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, on CLOCK_MONOTONIC.
    pub at: Duration,
    /// What happened.
    pub kind: EventKind,
    /// IP protocol number.
    pub protocol: u8,
    /// Address and port of the sender of the packet, or of the initiator of the flow; of an ICMP query its identifier.
    pub source: (IpAddr, u16),
    /// Address and port that it went to; of an ICMP query type and code of the question.
    pub destination: (IpAddr, u16),
    /// Zones that it came from and went to; `None` where no interface of a zone was known.
    pub zones: (String, Option<String>),
    /// Name of the rule; none for the default of its zones, and for a rule that is gone since more than one policy.
    pub rule: Option<String>,
    /// The lists on which the rule found the source and the destination, if it asked for lists. Not of a flow that ended, and not while the
    /// policy is exchanged.
    pub lists: [Option<String>; 2],
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A flow opened; or a packet passed that opens no flow.
    Opened,
    /// A packet was refused.
    Refused(Reason),
    /// A flow ended.
    Closed {
        /// Its last state.
        state: State,
        /// How long it was open.
        lasted: Duration,
        /// IP packets from the initiator and from the responder.
        packets: (u64, u64),
        /// IP bytes from the initiator and from the responder.
        bytes: (u64, u64),
    },
    /// The alert of the rule passed its threshold with this packet. Repeated once a second while it stands and packets come.
    Alert {
        /// What is counted together; of an address, it is the event's source or destination.
        per: Per,
        /// What was counted.
        sliding: Sliding,
        /// The greatest count that raises no alert.
        threshold: u32,
    },
    /// The source of the packet scanned. At most once a window.
    Scan {
        /// Different ports that it had asked for in vain, estimated.
        ports: u32,
        /// Different hosts that it had asked, estimated.
        hosts: u32,
        /// Whether it is blocked for that.
        is_blocked: bool,
    },
}

/// The reading end of the ring.
pub struct EventLog {
    ring: Ring<types::event>,
    names: SharedNames,
}

impl EventLog {
    pub(crate) fn new(map: &dyn MapCore, names: SharedNames) -> Result<Self, DataplaneError> {
        Ok(Self { ring: Ring::new(map, "the ring of events")?, names })
    }

    /// The events since the last call, in the order in which they happened on each core. The ring holds some 30,000; beyond
    /// that new ones are lost and counted ([`crate::Tally::LogLost`]), so this is to be called several times a second.
    ///
    /// # Errors
    /// The kernel does not let the ring be read.
    pub fn take(&self) -> Result<Vec<Event>, DataplaneError> {
        let events = self.ring.take()?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.names.now();
        let rules = names.rules_by_generation();
        let counter = |event: &types::event, slot: u32| {
            let (_, rules) = rules.iter().find(|(generation, _)| *generation == event.generation)?;
            rules.get(slot as usize).copied().flatten().map(str::to_owned)
        };
        let list = |event: &types::event, end: usize| {
            let name = counter(event, event.lists[end].checked_sub(1)?)?;
            Some(name.strip_prefix(COUNTER_PREFIX)?.to_owned())
        };
        let of_policy = |event: &types::event| OfPolicy {
            rule: Some(event.slot).filter(|slot| *slot != NO_SLOT).and_then(|slot| counter(event, slot)),
            lists: [list(event, 0), list(event, 1)],
        };
        Ok(events.iter().filter_map(|event| named(event, of_policy(event), &names)).collect())
    }
}

/// What an event names of its policy.
struct OfPolicy {
    rule: Option<String>,
    lists: [Option<String>; 2],
}

/// An event with names for its numbers.
fn named(event: &types::event, of_policy: OfPolicy, names: &Names) -> Option<Event> {
    let kind = match event_kind(event.kind.into()) {
        event_kind::EVENT_OPENED => EventKind::Opened,
        event_kind::EVENT_REFUSED => EventKind::Refused(Reason::of(event.reason.into())?),
        event_kind::EVENT_CLOSED => EventKind::Closed {
            state: State::of(event.state.into())?,
            lasted: ticks(event.ticks.into()),
            packets: event.packets.into(),
            bytes: event.bytes.into(),
        },
        event_kind::EVENT_ALERT => EventKind::Alert {
            per: Per::NAMES.get(usize::from(event.per)).map(|(_, per)| *per)?,
            sliding: Sliding {
                window: Duration::from_nanos(event.bytes[1]),
                since: Duration::from_nanos(event.bytes[0]),
                count: event.packets[0],
                before: event.packets[1],
            },
            threshold: event.threshold,
        },
        event_kind::EVENT_SCAN => EventKind::Scan {
            // They are no more than the bits of a sketch.
            ports: estimate(event.packets[0] as u32),
            hosts: estimate(event.packets[1] as u32),
            is_blocked: event.threshold != 0,
        },
        _ => return None,
    };
    let end = |end: usize| (address(event.family, &event.address[end]), u16::from_be(event.port[end]));
    let zone = |end: usize| names.zone(event.zone[end]).map(str::to_owned);
    Some(Event {
        at: Duration::from_nanos(event.time),
        kind,
        protocol: event.protocol,
        source: end(0),
        destination: end(1),
        zones: (zone(0).unwrap_or_default(), zone(1)),
        rule: of_policy.rule,
        lists: of_policy.lists,
    })
}
