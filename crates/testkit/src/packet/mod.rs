//! Packets as bytes, and as text so that rows of tests can be read: [`frame`] makes one from a line, [`describe`] reads one by a
//! parser that is not ours (etherparse) and verifies every checksum on the way.

mod build;
mod describe;
mod text;

pub use build::{ACK, FIN, Frame, RST, SYN, Tcp, icmp, icmp_error, udp};
pub use describe::describe;
pub use text::frame;

use std::net::IpAddr;

/// Who sends to the firewall.
pub const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 0x0c];
/// The firewall's interface.
pub const FIREWALL: [u8; 6] = [2, 0, 0, 0, 0, 0x0f];

/// The letters that stand for TCP's flags.
const FLAGS: [(char, u8); 6] = [('F', 1), ('S', 2), ('R', 4), ('P', 8), ('A', 16), ('U', 32)];

/// The Internet checksum of some bytes (RFC 1071).
pub fn checksum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Where a transport header has its checksum; `None` where we know of none.
fn checksum_place(protocol: u8) -> Option<usize> {
    match protocol {
        1 | 58 => Some(2),
        6 => Some(16),
        // UDP, DCCP, UDP-Lite.
        17 | 33 | 136 => Some(6),
        _ => None,
    }
}

/// The checksum of a transport header and what follows, its own place being 0.
pub fn transport_checksum(payload: &[u8], protocol: u8, source: IpAddr, destination: IpAddr) -> u16 {
    let mut bytes = vec![];
    if protocol != 1 {
        for address in [source, destination] {
            match address {
                IpAddr::V4(v4) => bytes.extend(v4.octets()),
                IpAddr::V6(v6) => bytes.extend(v6.octets()),
            }
        }
        bytes.extend([0, protocol]);
        bytes.extend((payload.len() as u16).to_be_bytes());
    }
    bytes.extend(payload);
    checksum(&bytes)
}

/// Fills the transport's checksum in, where there is one and it is whole.
pub fn complete(payload: &mut [u8], protocol: u8, source: IpAddr, destination: IpAddr) {
    let Some(at) = checksum_place(protocol).filter(|at| payload.len() > at + 1) else { return };
    payload[at..at + 2].fill(0);
    let sum = transport_checksum(payload, protocol, source, destination);
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
