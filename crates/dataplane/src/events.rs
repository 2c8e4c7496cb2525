//! What rules with `log` tell: read from the ring that the programs fill, with names for numbers. Decides nothing and keeps
//! nothing: what was read is gone from the ring.

use crate::DataplaneError;
use crate::Reason;
use crate::firewall::Firewall;
use crate::layout::NO_SLOT;
use crate::sessions::{State, address, by_slot};
use crate::shared::from_bytes;
use crate::skeleton::types;
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use policy::model::Per;
use policy::quota::Sliding;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Something that a rule, or a default, wanted to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, on CLOCK_MONOTONIC.
    pub at: Duration,
    /// What happened.
    pub what: What,
    /// IP protocol number.
    pub protocol: u8,
    /// Address and port of who sent the packet, or opened the flow; of an ICMP query its identifier.
    pub source: (IpAddr, u16),
    /// Address and port that it went to; of an ICMP query type and code of the question.
    pub destination: (IpAddr, u16),
    /// Zones that it came from and went to; `None` where no interface of a zone was known.
    pub zones: (String, Option<String>),
    /// Name of the rule; none for the default of its zones, and for a rule that is gone since more than one policy.
    pub rule: Option<String>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A flow opened; or a packet passed of which no flow can come.
    Opened,
    /// A packet was refused.
    Refused(Reason),
    /// A flow ended.
    Closed {
        /// Its state in the end.
        state: State,
        /// How long it was open.
        lasted: Duration,
        /// IP packets from who opened it, and back.
        packets: (u64, u64),
        /// IP bytes from who opened it, and back.
        bytes: (u64, u64),
    },
    /// More came than the alert of the rule allows; the packet was one too many. Told again each second as long as that is so
    /// and something comes.
    Surge {
        /// What is counted together; the event's source or destination is the one.
        per: Per,
        /// What came.
        sliding: Sliding,
        /// What raises no alert yet.
        threshold: u32,
    },
}

/// The ring's end in user space.
pub(crate) struct Ring {
    buffer: RingBuffer<'static>,
    read: Arc<Mutex<Vec<types::event>>>,
}

impl Ring {
    pub(crate) fn of(map: &dyn MapCore) -> Result<Self, DataplaneError> {
        let doing = "reaching the ring of events";
        let read = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |bytes| {
                to.lock().unwrap_or_else(PoisonError::into_inner).extend(from_bytes::<types::event>(bytes));
                0
            })
            .map_err(DataplaneError::bpf(doing))?;
        Ok(Self { buffer: builder.build().map_err(DataplaneError::bpf(doing))?, read })
    }

    /// What is in the ring, which is empty then.
    fn take(&self) -> Result<Vec<types::event>, DataplaneError> {
        let taken = self.buffer.consume_raw();
        if taken < 0 {
            let source = std::io::Error::from_raw_os_error(-taken);
            return Err(DataplaneError::System { doing: "reading the ring of events".to_owned(), source });
        }
        Ok(std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Firewall {
    /// The events since the last call, in the order in which they happened on each core. The ring holds some 30,000; beyond
    /// that new ones are lost and counted ([`crate::Tally::LogLost`]), so this is to be called several times a second.
    ///
    /// # Errors
    /// The kernel does not let the ring be read.
    pub fn events(&self) -> Result<Vec<Event>, DataplaneError> {
        let taken = self.ring.take()?;
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let (now, before) = (by_slot(&self.counters), by_slot(&self.counters_before.1));
        let rule = |event: &types::event| {
            let names = match event.generation {
                generation if generation == self.generation => &now,
                generation if generation == self.counters_before.0 => &before,
                _ => return None,
            };
            let slot = Some(event.slot).filter(|slot| *slot != NO_SLOT)?;
            names.get(slot as usize).copied().flatten().map(str::to_owned)
        };
        Ok(taken.iter().filter_map(|event| self.event(event, rule(event))).collect())
    }

    fn event(&self, event: &types::event, rule: Option<String>) -> Option<Event> {
        let ticks = |ticks: u32| Duration::from_nanos(u64::from(ticks) << 20);
        let what = match event.kind {
            1 => What::Opened,
            2 => What::Refused(Reason::of(event.reason.into())?),
            3 => What::Closed {
                state: State::of(event.state)?,
                lasted: ticks(event.ticks),
                packets: (event.packets[0], event.packets[1]),
                bytes: (event.bytes[0], event.bytes[1]),
            },
            4 => What::Surge {
                per: Per::NAMES.get(usize::from(event.per)).map(|(_, per)| *per)?,
                sliding: Sliding {
                    window: Duration::from_nanos(event.bytes[1]),
                    since: Duration::from_nanos(event.bytes[0]),
                    count: event.packets[0],
                    before: event.packets[1],
                },
                threshold: event.threshold,
            },
            _ => return None,
        };
        let end = |end: usize| (address(event.family, &event.address[end]), u16::from_be(event.port[end]));
        let zone = |number: u8| self.zones.get(usize::from(number)).cloned();
        Some(Event {
            at: Duration::from_nanos(event.time),
            what,
            protocol: event.protocol,
            source: end(0),
            destination: end(1),
            zones: (zone(event.zone[0]).unwrap_or_default(), zone(event.zone[1])),
            rule,
        })
    }
}
