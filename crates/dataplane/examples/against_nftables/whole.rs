//! Puts together what left a firewall, as a strict receiver does (RFC 5722): a datagram whose parts overlap, or say that it ends at two
//! places, is none. Which of two parts a receiver prefers then makes no difference.

use crate::router::Way;
use std::collections::BTreeMap;

const NETWORK: usize = 14;
const FRAGMENT: u8 = 44;

/// Ends, protocol (of IPv4 alone) and identification.
type Name = (Vec<u8>, u8, u32);

/// A datagram: its ends, its protocol, and its bytes behind the headers that every fragment has.
pub(crate) type Datagram = (Vec<u8>, u8, Vec<u8>);

/// What came out of a firewall, put together.
#[derive(Debug)]
pub(crate) struct Received {
    /// Each translation chooses ports of its own, so they are not looked at.
    is_translated: bool,
    waiting: BTreeMap<Name, Waiting>,
    /// In the order of their bytes, with how often each came.
    pub(crate) whole: BTreeMap<Datagram, u32>,
    /// Datagrams of which two receivers may read different ones.
    pub(crate) ambiguous: u32,
}

#[derive(Debug, Default)]
struct Waiting {
    protocol: u8,
    parts: Vec<(usize, Vec<u8>, bool)>,
}

impl Received {
    pub(crate) fn by(way: Way) -> Self {
        let is_translated = way == Way::Masqueraded;
        Self { is_translated, waiting: BTreeMap::new(), whole: BTreeMap::new(), ambiguous: 0 }
    }

    fn note(&mut self, ends: Vec<u8>, protocol: u8, mut bytes: Vec<u8>) {
        let chosen: &[(usize, usize)] = match protocol {
            1 => &[(2, 6)],
            6 => &[(0, 2), (16, 18)],
            17 => &[(0, 2), (6, 8)],
            _ => &[],
        };
        for &(from, to) in chosen.iter().filter(|_| self.is_translated) {
            if let Some(bytes) = bytes.get_mut(from..to) {
                bytes.fill(0);
            }
        }
        *self.whole.entry((ends, protocol, bytes)).or_default() += 1;
    }

    pub(crate) fn take(&mut self, frame: &[u8]) {
        let Some(read) = Part::of(frame) else { return };
        let Some((id, from, is_more)) = read.fragment else {
            return self.note(read.ends, read.protocol, read.bytes);
        };
        let name = (read.ends.clone(), if read.is_ipv4 { read.protocol } else { 0 }, id);
        let waiting = self.waiting.entry(name.clone()).or_default();
        if from == 0 {
            waiting.protocol = read.protocol;
        }
        if waiting.parts.iter().any(|part| overlaps(part, from, &read.bytes)) {
            self.ambiguous += 1;
        }
        waiting.parts.push((from, read.bytes, is_more));
        if let Some(bytes) = waiting.bytes() {
            let protocol = waiting.protocol;
            self.waiting.remove(&name);
            self.note(read.ends, protocol, bytes);
        }
    }
}

/// Whether a part is beside another one, and not a copy of it.
fn overlaps((from, bytes, _): &(usize, Vec<u8>, bool), other: usize, others: &[u8]) -> bool {
    *from < other + others.len() && other < from + bytes.len() && !(*from == other && bytes == others)
}

impl Waiting {
    /// All of the datagram, if it is there.
    fn bytes(&self) -> Option<Vec<u8>> {
        let mut parts = self.parts.clone();
        parts.sort();
        parts.dedup();
        let mut bytes = Vec::new();
        for (from, part, is_more) in &parts {
            if *from != bytes.len() {
                return None;
            }
            bytes.extend(part);
            if !is_more {
                return (parts.last().is_some_and(|(last, ..)| last == from)).then_some(bytes);
            }
        }
        None
    }
}

struct Part {
    is_ipv4: bool,
    ends: Vec<u8>,
    protocol: u8,
    /// Identification, offset, more to come.
    fragment: Option<(u32, usize, bool)>,
    bytes: Vec<u8>,
}

impl Part {
    fn of(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(NETWORK..)?;
        let word = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
        if packet.first()? >> 4 == 4 {
            let (header, end) = (usize::from(packet[0] & 15) * 4, usize::from(word(2)?));
            let place = word(6)?;
            let fragment = (place & 0x3fff != 0).then_some((
                u32::from(word(4)?),
                usize::from(place & 0x1fff) * 8,
                place & 0x2000 != 0,
            ));
            return Some(Self {
                is_ipv4: true,
                ends: packet.get(12..20)?.to_vec(),
                protocol: packet[9],
                fragment,
                bytes: packet.get(header..end)?.to_vec(),
            });
        }
        let end = 40 + usize::from(word(4)?);
        let (mut at, mut protocol, mut fragment) = (40, *packet.get(6)?, None);
        while matches!(protocol, 0 | 43 | 60) || (protocol == FRAGMENT && fragment.is_none()) {
            let is_fragment = protocol == FRAGMENT;
            if is_fragment {
                let id = u32::from_be_bytes(packet.get(at + 4..at + 8)?.try_into().ok()?);
                let place = word(at + 2)?;
                fragment = (place & 0xfff9 != 0).then_some((id, usize::from(place & 0xfff8), place & 1 != 0));
            }
            protocol = *packet.get(at)?;
            at += if is_fragment { 8 } else { (usize::from(*packet.get(at + 1)?) + 1) * 8 };
            // Behind it is the datagram.
            if is_fragment && fragment.is_some() {
                break;
            }
        }
        let bytes = packet.get(at..end)?.to_vec();
        Some(Self { is_ipv4: false, ends: packet.get(8..40)?.to_vec(), protocol, fragment, bytes })
    }
}
