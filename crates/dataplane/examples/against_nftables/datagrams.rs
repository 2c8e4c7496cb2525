//! Random datagrams in random fragments: in order or not, tiny, missing, twice, over each other, longer than a datagram, of other sources with
//! the same identification, whole with a fragment header, with headers before and behind that. Pure.

use crate::bed::Side;
use crate::packets::{Sent, sum_up};
use testkit::packet::{Frame, Tcp, icmp, udp};
use testkit::random::Random;

/// The most bytes of a datagram that a fragment has: it fits into the beds' links with any headers.
const MOST: usize = 1800;
const SIZES: [usize; 9] = [8, 17, 40, 100, 256, 700, 1480, 2900, 6000];
/// Of a fragment, in an equal cut.
const CUTS: [usize; 6] = [8, 16, 64, 512, 1400, 1800];

/// A part of a datagram, and what is odd about it.
#[derive(Debug, Clone)]
struct Part {
    from: usize,
    bytes: Vec<u8>,
    is_more: bool,
    ttl: u8,
    protocol: u8,
    id: u32,
    source: &'static str,
    /// Headers of IPv6 before the fragment header, or options of IPv4.
    before: Option<Vec<u8>>,
    /// One more fragment header in it.
    is_nested: bool,
    dont_fragment: bool,
}

struct Datagram {
    side: Side,
    destination: &'static str,
    parts: Vec<Part>,
}

/// The fragments of a few datagrams, in the order in which they come, and what they are.
pub(crate) fn case(seed: u64, id: u32, is_ipv4: bool) -> (String, Vec<Sent>) {
    let mut random = Random::new(seed);
    let mut words = Vec::new();
    let mut lines: Vec<Vec<Sent>> = Vec::new();
    for n in 0..1 + u32::from(random.is_one_in(3)) {
        // The second one may have the number of the first, from another host.
        let id = if n == 1 && random.below(2) == 0 { id } else { id + n };
        let (what, datagram) = datagram(&mut random, id, is_ipv4, n as u16);
        words.push(what);
        lines.push(datagram.parts.iter().map(|part| sent(&datagram, part)).collect());
    }
    let mut all = lines.swap_remove(0);
    for one in lines.into_iter().flatten() {
        all.insert(random.below(all.len() + 1), one);
    }
    (words.join(" & "), all)
}

fn datagram(random: &mut Random, id: u32, is_ipv4: bool, n: u16) -> (String, Datagram) {
    let size = SIZES[random.below(SIZES.len())];
    let ports = 1000 + n * 7;
    let tcp =
        |ports, flags, length| Tcp { ports, flags, length, sequence: 7, window: 9000, ..Tcp::default() };
    let echo = if is_ipv4 { (1, 8) } else { (58, 128) };
    let (what, side, protocol, mut payload) = match random.below(9) {
        0 | 1 => ("udp", Side::In, 17, udp((ports, 6), size)),
        2 => ("udp in", Side::Out, 17, udp((ports, 53), size)),
        3 => ("refused udp", Side::Out, 17, udp((ports, 54), size)),
        4 => ("syn", Side::In, 6, tcp((ports, 443), 2, size).bytes()),
        5 => ("refused syn", Side::Out, 6, tcp((ports, 22), 2, size).bytes()),
        6 => ("stray segment", Side::In, 6, tcp((ports, 443), 16, size).bytes()),
        7 => ("echo", Side::In, echo.0, [icmp(echo.1, 0, ports), vec![9; size]].concat()),
        _ => ("protocol 253", Side::In, 253, vec![7; 8 + size]),
    };
    let hosts = match (is_ipv4, n) {
        (true, 0) => ["198.18.1.2", "198.18.2.2"],
        (true, _) => ["198.18.1.3", "198.18.2.3"],
        (false, 0) => ["2001:2:0:1::2", "2001:2:0:2::2"],
        (false, _) => ["2001:2:0:1::3", "2001:2:0:2::3"],
    };
    // Only the first hosts are neighbours.
    let ends = if is_ipv4 { ["198.18.1.2", "198.18.2.2"] } else { ["2001:2:0:1::2", "2001:2:0:2::2"] };
    let (source, destination) = if side == Side::In { (hosts[0], ends[1]) } else { (hosts[1], ends[0]) };
    sum_up(&mut payload, protocol, source.parse().unwrap(), destination.parse().unwrap());
    let whole = Part {
        from: 0,
        bytes: payload,
        is_more: false,
        ttl: 64,
        protocol,
        id,
        source,
        before: None,
        is_nested: false,
        dont_fragment: false,
    };
    let mut parts = cut(random, &whole);
    let mut words = vec![format!("{what}, {}", if parts.len() > 12 { "many" } else { "few" })];
    words.extend(disorder(random, &mut parts));
    for _ in 0..[0, 0, 0, 1, 1, 1, 1, 2][random.below(8)] {
        words.push(damage(random, &mut parts, is_ipv4));
    }
    (words.join(", "), Datagram { side, destination, parts })
}

fn cut(random: &mut Random, whole: &Part) -> Vec<Part> {
    let length = whole.bytes.len();
    let mut ends: Vec<usize> = match random.below(4) {
        // Rarely so many that there is no place for the holes between them.
        0 | 1 => {
            let least = if random.is_one_in(4) { length / 40 } else { length / 11 };
            let size = CUTS[random.below(CUTS.len())].max((least / 8 + 1) * 8).min(MOST);
            (size..length).step_by(size).collect()
        }
        2 => {
            let mut ends: Vec<_> = (0..1 + random.below(6)).map(|_| random.below(length) / 8 * 8).collect();
            ends.extend((MOST / 8 * 8..length).step_by(MOST / 8 * 8));
            ends.retain(|end| *end > 0);
            ends.sort_unstable();
            ends.dedup();
            ends
        }
        _ => {
            let first = 8 * (1 + random.below(4));
            (first..length).step_by(MOST / 8 * 8).collect()
        }
    };
    ends.push(length);
    let mut from = 0;
    ends.into_iter()
        .map(|end| {
            let part =
                Part { from, bytes: whole.bytes[from..end].to_vec(), is_more: end < length, ..whole.clone() };
            from = end;
            part
        })
        .collect()
}

fn disorder(random: &mut Random, parts: &mut [Part]) -> Option<String> {
    if parts.len() < 2 {
        return None;
    }
    let name = match random.below(8) {
        0..=2 => return None,
        3 => {
            parts.reverse();
            "backwards"
        }
        4 => {
            parts.rotate_left(1);
            "first at last"
        }
        5 => {
            parts.rotate_right(1);
            "last at first"
        }
        _ => {
            for at in (1..parts.len()).rev() {
                parts.swap(at, random.below(at + 1));
            }
            "in any order"
        }
    };
    Some(name.to_owned())
}

/// Changes the fragments of a datagram in one way, and says in which.
fn damage(random: &mut Random, parts: &mut Vec<Part>, is_ipv4: bool) -> String {
    let at = random.below(parts.len());
    let place = random.below(parts.len() + 1);
    let mut part = parts[at].clone();
    let which = if part.from == 0 {
        "first"
    } else if part.is_more {
        "middle"
    } else {
        "last"
    };
    let name = match random.below(20) {
        0 | 1 => {
            parts.insert(place, part);
            "again"
        }
        2 => {
            part.bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
            parts.insert(place, part);
            "again with other bytes"
        }
        3 => {
            part.bytes.extend([0x55; 8]);
            part.is_more = true;
            parts[at] = part;
            "eight bytes longer"
        }
        4 if part.from >= 8 => {
            part.from -= 8;
            part.bytes.splice(0..0, [0x55; 8]);
            parts.insert(place, part);
            "once more from eight bytes before"
        }
        5 if part.bytes.len() > 16 => {
            part.from += 8;
            part.bytes = vec![0x55; 8];
            part.is_more = true;
            parts.insert(place, part);
            "and a part within it"
        }
        6 if parts.len() > 1 => {
            parts.remove(at);
            "missing"
        }
        7 => {
            part.from += part.bytes.len().div_ceil(8) * 8;
            part.bytes = vec![0x55; 16];
            part.is_more = false;
            parts.insert(place, part);
            "and another end behind it"
        }
        8 => {
            parts[at].is_more = !part.is_more;
            "with the other flag"
        }
        9 => {
            parts[at].bytes.push(0x55);
            "a byte longer"
        }
        10 => {
            part.from = 65_520;
            part.bytes = vec![0x55; 24];
            part.is_more = random.below(2) == 0;
            parts.insert(place, part);
            "and a part beyond all datagrams"
        }
        11 => {
            parts[at].bytes.clear();
            "without a byte"
        }
        12 => {
            parts[at].ttl = [0, 1, 2][random.below(3)];
            "with few hops"
        }
        13 => {
            parts[at].protocol = if part.protocol == 17 { 6 } else { 17 };
            "of another protocol"
        }
        14 => {
            parts[at].before = Some(if is_ipv4 { vec![148, 4, 0, 0] } else { vec![0, 1, 4, 0, 0, 0, 0] });
            "with an option"
        }
        15 if !is_ipv4 => {
            parts[at].is_nested = true;
            "with two fragment headers"
        }
        16 if !is_ipv4 => {
            // A whole datagram with the same number: it is none of these (RFC 6946).
            part.from = 0;
            part.bytes = parts.iter().find(|part| part.from == 0).unwrap_or(&part).bytes.clone();
            part.is_more = false;
            parts.insert(place, part);
            "and an atomic one"
        }
        17 => {
            parts[at].id ^= 0x4000;
            "of another number"
        }
        18 => {
            parts.iter_mut().for_each(|part| part.dont_fragment = true);
            "not to be fragmented"
        }
        _ => {
            part.source = match (is_ipv4, part.source.contains("198.18.1.") || part.source.contains(":1::")) {
                (true, true) => "198.18.1.4",
                (true, false) => "198.18.2.4",
                (false, true) => "2001:2:0:1::4",
                (false, false) => "2001:2:0:2::4",
            };
            parts.insert(place, part);
            "and the same of another host"
        }
    };
    format!("{which} {name}")
}

fn sent(datagram: &Datagram, part: &Part) -> Sent {
    let place = (part.id, part.from as u16, part.is_more);
    let mut frame = Frame {
        fragment: Some(place),
        ttl: part.ttl,
        dont_fragment: part.dont_fragment,
        ..Frame::new(part.source, datagram.destination, part.protocol, part.bytes.clone())
    };
    if frame.source.is_ipv4() {
        frame.options = part.before.clone().unwrap_or_default();
    } else {
        frame.extensions = part.before.clone().map(|bytes| (0, bytes)).into_iter().collect();
        if part.is_nested {
            let [high, low] = ((part.from as u16) | u16::from(part.is_more)).to_be_bytes();
            frame.extensions.push((44, vec![0, high, low, 0, 0, 0, 77]));
        }
    }
    let more = if part.is_more { "+" } else { "" };
    let words = format!("{}..{}{more}", part.from, part.from + part.bytes.len());
    Sent { words, side: datagram.side, frame: frame.bytes() }
}
