//! IPFIX (RFC 7011): a record of each flow that has ended, with both directions in one (RFC 5103), as the initiator sees it. A flow that was
//! translated has the other addresses and ports too (RFC 8158). Pure: the time is an argument.

use super::outlet::{Encoder, Message};
use super::{FlowRecord, Item, cut};
use jiff::{SignedDuration, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

const VERSION: u16 = 10;
const HEADER: usize = 16;
const SET_HEADER: usize = 4;
/// Bytes of a message at most: what the least link of IPv6 takes in a datagram (RFC 8200 section 5), because RFC 7011 section 10.3.3 wants no fragments.
const MOST: usize = 1_232;
/// Sets of templates, and of templates of options.
const TEMPLATES: u16 = 2;
const OPTION_TEMPLATES: u16 = 3;
/// The enterprise of the reverse direction (RFC 5103 section 6.1).
const REVERSE: u32 = 29_305;
const ENTERPRISE: u16 = 0x8000;
const VARIABLE: u16 = 0xffff;
/// Bytes of a name at most: one byte says its length.
const LONGEST_NAME: usize = 254;
/// The template of what was not recorded.
const STATISTICS: u16 = 260;

/// An element: its number, its bytes, its enterprise.
type Element = (u16, u16, Option<u32>);

/// What a record has of every flow, in this order, before its addresses.
const ELEMENTS: [Element; 11] = [
    (152, 8, None),        // flowStartMilliseconds
    (153, 8, None),        // flowEndMilliseconds
    (1, 8, None),          // octetDeltaCount
    (2, 8, None),          // packetDeltaCount
    (1, 8, Some(REVERSE)), // reverseOctetDeltaCount
    (2, 8, Some(REVERSE)), // reversePacketDeltaCount
    (7, 2, None),          // sourceTransportPort
    (11, 2, None),         // destinationTransportPort
    (4, 1, None),          // protocolIdentifier
    (136, 1, None),        // flowEndReason
    (239, 1, None),        // biflowDirection
];
/// biflowDirection: the initiator of the flow is the source.
const INITIATOR: u8 = 1;

/// Which template a record goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    V4 = 256,
    V6 = 257,
    Translated = 258,
}

impl Shape {
    const ALL: [Shape; 3] = [Shape::V4, Shape::V6, Shape::Translated];

    fn of(flow: &FlowRecord) -> Self {
        match flow.ends[0].0 {
            IpAddr::V6(_) => Shape::V6,
            IpAddr::V4(_) if flow.aliases.iter().any(Option::is_some) => Shape::Translated,
            IpAddr::V4(_) => Shape::V4,
        }
    }

    /// The elements behind those that all have: addresses, ICMP type and code, and what the other side of a translation sees.
    const fn elements(self) -> &'static [Element] {
        match self {
            Shape::V4 => &[(8, 4, None), (12, 4, None), (32, 2, None)],
            Shape::V6 => &[(27, 16, None), (28, 16, None), (139, 2, None)],
            Shape::Translated => &[
                (8, 4, None),
                (12, 4, None),
                (32, 2, None),
                (225, 4, None), // postNATSourceIPv4Address
                (226, 4, None), // postNATDestinationIPv4Address
                (227, 2, None), // postNAPTSourceTransportPort
                (228, 2, None), // postNAPTDestinationTransportPort
            ],
        }
    }
}

/// Elements of the user's own enterprise: the names of the rule and of the zones of the two ends.
const NAMES: [u16; 3] = [1, 2, 3];

pub(super) struct Ipfix {
    domain: u32,
    enterprise: Option<u32>,
    /// How often templates are sent again; `None` over a connection, where once is enough.
    again: Option<Duration>,
    /// When they were sent last over this line.
    templates_at: Option<Timestamp>,
    /// Records that were sent over this line.
    sequence: u32,
    /// Flows without a record: never made by the data plane, and lost since.
    not_recorded: u64,
    lost: u64,
}

impl Ipfix {
    pub(super) fn new(domain: u32, enterprise: Option<u32>, again: Option<Duration>) -> Self {
        Self { domain, enterprise, again, templates_at: None, sequence: 0, not_recorded: 0, lost: 0 }
    }

    /// The message of templates, if it is time for it.
    fn templates(&mut self, now: Timestamp) -> Option<Message> {
        let is_due = match (self.templates_at, self.again) {
            (None, _) => true,
            (Some(_), None) => false,
            // A clock that was put back says nothing.
            (Some(at), Some(again)) => {
                now < at || now.duration_since(at) >= SignedDuration::try_from(again).unwrap_or_default()
            }
        };
        if !is_due {
            return None;
        }
        self.templates_at = Some(now);
        let mut templates = Vec::new();
        for shape in Shape::ALL {
            let names = NAMES.iter().filter_map(|number| Some((*number, VARIABLE, Some(self.enterprise?))));
            let elements: Vec<Element> =
                ELEMENTS.iter().chain(shape.elements()).copied().chain(names).collect();
            templates.extend([shape as u16, elements.len() as u16].map(u16::to_be_bytes).concat());
            elements.iter().for_each(|element| specify(&mut templates, *element));
        }
        // Two fields, of which the first is the scope: observationDomainId and notSentFlowTotalCount.
        let mut options = [STATISTICS, 2, 1].map(u16::to_be_bytes).concat();
        [(149, 4, None), (166, 8, None)].into_iter().for_each(|element| specify(&mut options, element));
        let mut packing = Packing::new(self, now);
        packing.set(TEMPLATES, &templates);
        packing.set(OPTION_TEMPLATES, &options);
        packing.messages.pop()
    }

    fn statistics(&mut self, now: Timestamp) -> Vec<Message> {
        let mut record = self.domain.to_be_bytes().to_vec();
        record.extend((self.not_recorded + self.lost).to_be_bytes());
        let mut messages: Vec<Message> = self.templates(now).into_iter().collect();
        let mut packing = Packing::new(self, now);
        packing.record(STATISTICS, &record);
        messages.append(&mut packing.messages);
        messages
    }

    fn record(&self, shape: Shape, flow: &FlowRecord) -> Vec<u8> {
        let FlowRecord { packets, bytes, ends, aliases, .. } = flow;
        let milliseconds = |at: Timestamp| u64::try_from(at.as_millisecond()).unwrap_or_default();
        let mut record = Vec::with_capacity(128);
        let numbers =
            [milliseconds(flow.first), milliseconds(flow.last), bytes[0], packets[0], bytes[1], packets[1]];
        record.extend(numbers.map(u64::to_be_bytes).concat());
        // As the initiator's packets come: to the responder's alias, if it has one.
        let (source, destination) = (ends[0], aliases[1].unwrap_or(ends[1]));
        record.extend([source.1, destination.1].map(u16::to_be_bytes).concat());
        record.extend([flow.protocol, flow.end, INITIATOR]);
        address(&mut record, source.0);
        address(&mut record, destination.0);
        record.extend(flow.icmp.to_be_bytes());
        if shape == Shape::Translated {
            let (source, destination) = (aliases[0].unwrap_or(ends[0]), ends[1]);
            address(&mut record, source.0);
            address(&mut record, destination.0);
            record.extend([source.1, destination.1].map(u16::to_be_bytes).concat());
        }
        if self.enterprise.is_some() {
            for name in [flow.rule.as_deref().unwrap_or_default(), &flow.zones[0], &flow.zones[1]] {
                let name = cut(name, LONGEST_NAME);
                record.push(name.len() as u8);
                record.extend(name.bytes());
            }
        }
        record
    }
}

/// A field specifier of a template.
fn specify(to: &mut Vec<u8>, (number, length, enterprise): Element) {
    let number = if enterprise.is_some() { number | ENTERPRISE } else { number };
    to.extend([number, length].map(u16::to_be_bytes).concat());
    to.extend(enterprise.iter().flat_map(|number| number.to_be_bytes()));
}

fn address(to: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => to.extend(address.octets()),
        IpAddr::V6(address) => to.extend(address.octets()),
    }
}

/// Puts records into messages.
struct Packing<'i> {
    domain: u32,
    now: u32,
    sequence: &'i mut u32,
    messages: Vec<Message>,
    /// The set that the last message ends with, and where it begins.
    open: Option<(u16, usize)>,
}

impl<'i> Packing<'i> {
    fn new(ipfix: &'i mut Ipfix, now: Timestamp) -> Self {
        Self {
            domain: ipfix.domain,
            // Seconds wrap in 2106, as RFC 7011 section 3.1 has them.
            now: now.as_second() as u32,
            sequence: &mut ipfix.sequence,
            messages: Vec::new(),
            open: None,
        }
    }

    /// A data record of a template.
    fn record(&mut self, template: u16, record: &[u8]) {
        let is_open = self.open.is_some_and(|(open, _)| open == template);
        let more = record.len() + if is_open { 0 } else { SET_HEADER };
        if self.messages.last().is_none_or(|message| message.bytes.len() + more > MOST) {
            self.begin();
        }
        self.append(template, record);
        if let Some(message) = self.messages.last_mut() {
            message.units += 1;
        }
        *self.sequence = self.sequence.wrapping_add(1);
    }

    /// A set that is none of data.
    fn set(&mut self, number: u16, set: &[u8]) {
        if self.messages.is_empty() {
            self.begin();
        }
        self.append(number, set);
    }

    fn begin(&mut self) {
        let mut bytes = [VERSION, 0].map(u16::to_be_bytes).concat();
        bytes.extend([self.now, *self.sequence, self.domain].map(u32::to_be_bytes).concat());
        debug_assert_eq!(bytes.len(), HEADER);
        self.messages.push(Message { bytes, units: 0 });
        self.open = None;
    }

    /// Appends to the last message, whose length and whose last set's are put right.
    fn append(&mut self, set: u16, what: &[u8]) {
        let Some(Message { bytes, .. }) = self.messages.last_mut() else { return };
        let at = match self.open {
            Some((open, at)) if open == set => at,
            _ => {
                let at = bytes.len();
                bytes.extend([set, 0].map(u16::to_be_bytes).concat());
                at
            }
        };
        self.open = Some((set, at));
        bytes.extend(what);
        let lengths = [(at + 2, bytes.len() - at), (2, bytes.len())];
        for (place, length) in lengths {
            bytes[place..place + 2].copy_from_slice(&(length as u16).to_be_bytes());
        }
    }
}

impl Encoder for Ipfix {
    fn begin(&mut self) {
        self.templates_at = None;
        self.sequence = 0;
    }

    fn encode(&mut self, item: &Item, from: u64, now: Timestamp) -> Vec<Message> {
        let flows = match item {
            Item::Flows(flows) => flows,
            Item::FlowsNotRecorded(count) => {
                self.not_recorded = *count;
                return self.statistics(now);
            }
            _ => return Vec::new(),
        };
        let mut messages: Vec<Message> = self.templates(now).into_iter().collect();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let records: Vec<(Shape, Vec<u8>)> = flows
            .iter()
            .skip(from)
            .map(|flow| {
                let shape = Shape::of(flow);
                (shape, self.record(shape, flow))
            })
            .collect();
        let mut packing = Packing::new(self, now);
        records.iter().for_each(|(shape, record)| packing.record(*shape as u16, record));
        messages.append(&mut packing.messages);
        messages
    }

    fn encode_loss(&mut self, _: u64, in_all: u64, now: Timestamp) -> Vec<Message> {
        self.lost = in_all;
        self.statistics(now)
    }
}
