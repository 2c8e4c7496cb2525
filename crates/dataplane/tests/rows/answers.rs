//! What a firewall says to the sender of a packet that does not pass, byte by byte: RFC 9293 section 3.5.2 for resets, RFC
//! 792, RFC 1812 section 4.3 and RFC 4443 for errors; and when it says nothing.

use crate::seen::{Icmp, Seen, u32_at};
use std::net::IpAddr;
use testkit::packet::checksum;
use testkit::packet::transport_checksum;

/// Whom errors come from, on both of the bed's interfaces.
const OWN: [&str; 2] = ["198.18.1.1", "2001:2:0:1::1"];
/// Everybody on the bed's links.
const BROADCASTS: [[u8; 4]; 2] = [[198, 18, 1, 255], [198, 18, 2, 255]];
const RST: u8 = 4;
const ACK: u8 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Reset,
    NoRoute,
    Host,
    Prohibited,
    TooBig(u16),
    Expired,
}

impl Answer {
    /// Type and code of the error.
    fn kind(self, v6: bool) -> (u8, u8) {
        match (self, v6) {
            (Answer::Reset, _) => panic!("no error"),
            (Answer::NoRoute, false) => (3, 0),
            (Answer::Host, false) => (3, 1),
            (Answer::Prohibited, false) => (3, 13),
            (Answer::TooBig(_), false) => (3, 4),
            (Answer::Expired, false) => (11, 0),
            (Answer::NoRoute, true) => (1, 0),
            (Answer::Host, true) => (1, 3),
            (Answer::Prohibited, true) => (1, 1),
            (Answer::TooBig(_), true) => (2, 0),
            (Answer::Expired, true) => (3, 0),
        }
    }

    pub(crate) fn words(self, v6: bool) -> String {
        if self == Answer::Reset {
            return "rst".to_owned();
        }
        let (kind, code) = self.kind(v6);
        format!("icmp {kind}/{code}")
    }
}

/// The frame that answers one; `None` where RFC 1122 section 3.2.2 and RFC 4443 section 2.4 (e) want silence.
pub(crate) fn answer(kind_of_answer: Answer, seen: &Seen, frame: &[u8]) -> Option<Vec<u8>> {
    let is_group = frame[0] & 1 != 0;
    let is_query = |icmp| match icmp {
        Icmp::Question | Icmp::Answer => true,
        // The old questions of RFC 792 and RFC 950; ICMPv6 information but a redirect.
        Icmp::Other => {
            (frame[seen.transport] >= 128 && frame[seen.transport] != 137)
                || (13..=18).contains(&frame[seen.transport])
        }
        Icmp::Error => false,
    };
    if is_group
        || seen.is_later_part()
        || !is_somebody(seen.source, true)
        || !is_somebody(seen.destination, false)
    {
        return None;
    }
    if seen.icmp.is_some_and(|icmp| !is_query(icmp)) || seen.tcp_flags & RST != 0 {
        return None;
    }
    let packet = match kind_of_answer {
        Answer::Reset => reset(seen, frame),
        _ => error(kind_of_answer, seen, frame),
    };
    Some([&frame[6..12], &frame[..6], &frame[12..seen.network], &packet].concat())
}

/// The firewall's own addresses: from elsewhere they are nobody's (RFC 1812 section 5.3.7).
const OURS: [&str; 4] = ["198.18.1.1", "198.18.2.1", "2001:2:0:1::1", "2001:2:0:2::1"];

/// Whether an address is of one host.
fn is_somebody(address: IpAddr, sends: bool) -> bool {
    if sends && OURS.iter().any(|ours| ours.parse() == Ok(address)) {
        return false;
    }
    match address {
        IpAddr::V4(v4) if sends && matches!(v4.octets()[0], 0 | 127) => false,
        IpAddr::V4(v4) => v4.octets()[0] < 224 && !BROADCASTS.contains(&v4.octets()),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified() && !v6.is_loopback(),
    }
}

fn reset(seen: &Seen, frame: &[u8]) -> Vec<u8> {
    let tcp = &frame[seen.transport..seen.network + seen.ip_bytes];
    let (sequence, acknowledgement) = (u32_at(tcp, 4), u32_at(tcp, 8));
    let takes = tcp.len() - usize::from(tcp[12] >> 4) * 4;
    let takes = takes as u32 + u32::from(tcp[13] >> 1 & 1) + u32::from(tcp[13] & 1);
    let mut reset = [seen.ports.1.to_be_bytes(), seen.ports.0.to_be_bytes()].concat();
    if tcp[13] & ACK != 0 {
        reset.extend(acknowledgement.to_be_bytes());
        reset.extend([0, 0, 0, 0, 0x50, RST]);
    } else {
        reset.extend([0; 4]);
        reset.extend(sequence.wrapping_add(takes).to_be_bytes());
        reset.extend([0x50, RST | ACK]);
    }
    reset.extend([0; 6]);
    complete(&mut reset, 16, 6, seen.destination, seen.source);
    ip(seen.destination, seen.source, 6, 0, &reset)
}

fn error(kind_of_answer: Answer, seen: &Seen, frame: &[u8]) -> Vec<u8> {
    let v6 = seen.source.is_ipv6();
    let (kind, code) = kind_of_answer.kind(v6);
    let mtu = if let Answer::TooBig(mtu) = kind_of_answer { mtu } else { 0 };
    // As much as keeps the answer within 576 or 1280 bytes, in whole words.
    let quote = seen.ip_bytes.min(if v6 { 1232 } else { 548 }) & !3;
    let mut message = vec![kind, code, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(&frame[seen.network..seen.network + quote]);
    let own: IpAddr = OWN[usize::from(v6)].parse().unwrap();
    let protocol = if v6 { 58 } else { 1 };
    complete(&mut message, 2, protocol, own, seen.source);
    // Network control, RFC 1812 section 4.3.2.5.
    ip(own, seen.source, protocol, 0xc0, &message)
}

fn complete(message: &mut [u8], at: usize, protocol: u8, source: IpAddr, destination: IpAddr) {
    let sum = transport_checksum(message, protocol, source, destination);
    message[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The answer's IP header, with 64 hops, not to be fragmented, and what it carries.
fn ip(source: IpAddr, destination: IpAddr, protocol: u8, service: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![];
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            packet.extend([0x45, service]);
            packet.extend((20 + payload.len() as u16).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            packet.extend(source.octets().into_iter().chain(destination.octets()));
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend((payload.len() as u16).to_be_bytes());
            packet.extend([protocol, 64]);
            packet.extend(source.octets().into_iter().chain(destination.octets()));
        }
        _ => panic!("two families"),
    }
    packet.extend(payload);
    packet
}
