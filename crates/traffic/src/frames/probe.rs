//! Probes: single frames that prove a policy, because they must arrive or must not.

use super::engine::{Engine, Ports, SETTLE};
use super::frame::{PROTOCOL_UDP, STAMP_BYTES, TTL, UDP_BYTES, ipv4_check, udp_check, word_sum};
use super::reading;
use super::skeleton::{ARRIVAL_BYTES, MAX_PROBES, PROBE_FRAME_BYTES, types};
use crate::TrafficError;
use crate::harness::{LiveSender, Port, wait_until};
use measure::shape::Zone;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

pub(super) const PROTOCOL_TCP: u8 = 6;
pub(super) const PROTOCOL_ICMP: u8 = 1;
pub(super) const PROTOCOL_ICMP_V6: u8 = 58;
/// Types of an echo request (RFC 792, RFC 4443 section 4.1).
pub(super) const ECHO: u8 = 8;
pub(super) const ECHO_V6: u8 = 128;
/// Headers of IPv6 before that of a protocol (RFC 8200 section 4): eight bytes each, as they are written here.
pub(super) const FRAGMENT: u8 = 44;
pub(super) const DESTINATION_OPTIONS: u8 = 60;
/// Options of IPv4 that say nothing.
const NO_OPERATIONS: [u8; 4] = [1; 4];
/// A first fragment has at least the header and the stamp of a datagram, in units of 8 bytes.
const FIRST_FRAGMENT_BYTES: usize = 32;
/// Stands in the stamp's core field (its third byte) of a probe.
const PROBE_CORE: u8 = 0xff;

/// Transport protocol of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// A datagram.
    Udp,
    /// A segment with the stamp as its data.
    Tcp {
        /// Sequence number.
        sequence: u32,
        /// Acknowledgement number.
        acknowledgement: u32,
        /// Byte 13 of the header (RFC 9293 section 3.1).
        flags: u8,
    },
    /// An echo request of ICMP, whose identifier is the source port and whose sequence number is the destination port. Only a patrol sees
    /// one arrive.
    Echo,
}

impl Transport {
    /// The first segment of a connection.
    pub const SYN: Self = Self::Tcp { sequence: 1, acknowledgement: 0, flags: 0x02 };
}

/// One frame that proves a policy: it must arrive, or it must not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFrame {
    /// Where it enters.
    pub from: Zone,
    /// Source address.
    pub source: IpAddr,
    /// Destination address; of the same version.
    pub destination: IpAddr,
    /// Transport protocol.
    pub transport: Transport,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

impl ProbeFrame {
    /// The frame without FCS, stamped with `number` and `mark`.
    ///
    /// # Errors
    /// Addresses of different IP versions.
    pub(crate) fn bytes(&self, from: &Port, number: u8, mark: u16) -> Result<Vec<u8>, TrafficError> {
        let mut stamp = [0u8; STAMP_BYTES];
        stamp[..2].copy_from_slice(&mark.to_ne_bytes());
        stamp[2] = PROBE_CORE;
        stamp[3] = number;
        self.frame(from, &stamp, &Style::PLAIN)
    }

    /// The frame without FCS, with this data.
    ///
    /// # Errors
    /// Addresses of different IP versions.
    pub(super) fn frame(&self, from: &Port, data: &[u8], style: &Style) -> Result<Vec<u8>, TrafficError> {
        let transport = self.transport_bytes(data, style)?;
        self.packet(from, &transport, style, None)
    }

    /// The same in two fragments, if there is enough of it.
    ///
    /// # Errors
    /// Addresses of different IP versions.
    pub(super) fn fragments(
        &self,
        from: &Port,
        data: &[u8],
        style: &Style,
    ) -> Result<Vec<Vec<u8>>, TrafficError> {
        let transport = self.transport_bytes(data, style)?;
        let cut = FIRST_FRAGMENT_BYTES.max(transport.len() / 16 * 8).min(transport.len());
        let (first, second) = transport.split_at(cut);
        let parts = [(first, 0, true), (second, cut, false)]
            .map(|(bytes, at, more)| self.packet(from, bytes, style, Some((at as u16, more))));
        parts.into_iter().collect()
    }

    /// A frame with these bytes behind the IP header; with `fragment`, at this place of a packet, of which there may be more.
    fn packet(
        &self,
        from: &Port,
        bytes: &[u8],
        style: &Style,
        fragment: Option<(u16, bool)>,
    ) -> Result<Vec<u8>, TrafficError> {
        let mut frame = Vec::with_capacity(PROBE_FRAME_BYTES);
        frame.extend_from_slice(&from.next_hop_mac);
        frame.extend_from_slice(&from.mac);
        let protocol = self.protocol();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let options: &[u8] = if style.has_options { &NO_OPERATIONS } else { &[] };
                let flags = fragment.map_or(0x4000, |(at, more)| (u16::from(more) << 13) | (at / 8));
                let words = 5 + options.len() / 4;
                let total = (words * 4 + bytes.len()) as u16;
                let mut header = vec![0x40 | words as u8, 0];
                header.extend_from_slice(&total.to_be_bytes());
                header.extend_from_slice(&style.identification.to_be_bytes());
                header.extend_from_slice(&flags.to_be_bytes());
                header.extend_from_slice(&[TTL, protocol, 0, 0]);
                header.extend_from_slice(&source.octets());
                header.extend_from_slice(&destination.octets());
                header.extend_from_slice(options);
                let check = ipv4_check(&header);
                header[10..12].copy_from_slice(&check);
                frame.extend_from_slice(&[0x08, 0x00]);
                frame.extend_from_slice(&header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut extension = Vec::new();
                let mut next = protocol;
                if let Some((at, more)) = fragment {
                    extension = vec![next, 0];
                    extension.extend_from_slice(&(at | u16::from(more)).to_be_bytes());
                    extension.extend_from_slice(&[0, 0]);
                    extension.extend_from_slice(&style.identification.to_be_bytes());
                    next = FRAGMENT;
                } else if style.has_options {
                    // Eight bytes, of which a padding of four says nothing.
                    extension = vec![next, 0, 1, 4, 0, 0, 0, 0];
                    next = DESTINATION_OPTIONS;
                }
                frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend_from_slice(&((extension.len() + bytes.len()) as u16).to_be_bytes());
                frame.extend_from_slice(&[next, TTL]);
                frame.extend_from_slice(&source.octets());
                frame.extend_from_slice(&destination.octets());
                frame.extend_from_slice(&extension);
            }
            _ => return Err(self.mixed_versions()),
        }
        frame.extend_from_slice(bytes);
        // Below 60 bytes Ethernet pads; the IP header says where the packet ends.
        frame.resize(frame.len().max(60), 0);
        Ok(frame)
    }

    fn mixed_versions(&self) -> TrafficError {
        TrafficError::Impossible(format!(
            "a probe from {} to {}: two IP versions",
            self.source, self.destination
        ))
    }

    pub(super) fn protocol(&self) -> u8 {
        match self.transport {
            Transport::Udp => PROTOCOL_UDP,
            Transport::Tcp { .. } => PROTOCOL_TCP,
            Transport::Echo if self.source.is_ipv4() => PROTOCOL_ICMP,
            Transport::Echo => PROTOCOL_ICMP_V6,
        }
    }

    /// The transport header, its checksum and the data.
    fn transport_bytes(&self, data: &[u8], style: &Style) -> Result<Vec<u8>, TrafficError> {
        let mut bytes = Vec::new();
        let ports = [self.source_port.to_be_bytes(), self.destination_port.to_be_bytes()].concat();
        let check_at = match self.transport {
            Transport::Udp => {
                bytes.extend_from_slice(&ports);
                bytes.extend_from_slice(&((UDP_BYTES + data.len()) as u16).to_be_bytes());
                bytes.extend_from_slice(&[0, 0]);
                6
            }
            Transport::Tcp { sequence, acknowledgement, flags } => {
                bytes.extend_from_slice(&ports);
                bytes.extend_from_slice(&sequence.to_be_bytes());
                bytes.extend_from_slice(&acknowledgement.to_be_bytes());
                bytes.extend_from_slice(&[((5 + style.options.len() / 4) << 4) as u8, flags]);
                bytes.extend_from_slice(&style.window.to_be_bytes());
                bytes.extend_from_slice(&[0, 0]);
                bytes.extend_from_slice(&style.urgent.to_be_bytes());
                bytes.extend_from_slice(&style.options);
                16
            }
            Transport::Echo => {
                bytes.extend_from_slice(&[if self.source.is_ipv4() { ECHO } else { ECHO_V6 }, 0, 0, 0]);
                bytes.extend_from_slice(&ports);
                2
            }
        };
        bytes.extend_from_slice(data);
        let mut pseudo = match (self.source, self.destination) {
            (IpAddr::V4(s), IpAddr::V4(d)) => [s.octets(), d.octets()].concat(),
            (IpAddr::V6(s), IpAddr::V6(d)) => [s.octets(), d.octets()].concat(),
            _ => return Err(self.mixed_versions()),
        };
        pseudo.extend_from_slice(&[0, self.protocol()]);
        pseudo.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        if self.protocol() == PROTOCOL_ICMP {
            pseudo.clear();
        }
        if self.protocol() != PROTOCOL_UDP || style.udp_checksum || self.source.is_ipv6() {
            let check = udp_check(word_sum(&pseudo) + word_sum(&bytes));
            bytes[check_at..check_at + 2].copy_from_slice(&check);
        }
        Ok(bytes)
    }
}

/// What a frame may have one way or the other without saying anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Style {
    /// Of IPv4, and of fragments.
    pub(super) identification: u16,
    /// Whether a datagram over IPv4 has a checksum; over IPv6 each has.
    pub(super) udp_checksum: bool,
    /// A segment's window.
    pub(super) window: u16,
    /// A segment's urgent pointer.
    pub(super) urgent: u16,
    /// A segment's options, in whole words.
    pub(super) options: Vec<u8>,
    /// Whether the IP header has options, or another header follows it. Not of fragments.
    pub(super) has_options: bool,
}

impl Style {
    /// That of a proof.
    pub(super) const PLAIN: Self = Self {
        identification: 0,
        udp_checksum: true,
        window: 8192,
        urgent: 0,
        options: Vec::new(),
        has_options: false,
    };
}

/// The number and the mark of a probe, read from a frame as it arrived; `None` for any other frame.
pub(crate) fn read_tag(frame: &[u8]) -> Option<(u8, u16)> {
    let two = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let (protocol, transport) = match two(12)? {
        0x0800 => (*frame.get(23)?, 34),
        0x86dd => (*frame.get(20)?, 54),
        _ => return None,
    };
    let data = match protocol {
        PROTOCOL_UDP => transport + UDP_BYTES,
        PROTOCOL_TCP => transport + 20,
        _ => return None,
    };
    let stamp = frame.get(data..data + STAMP_BYTES)?;
    let rest_is_zero = stamp[4..].iter().all(|byte| *byte == 0);
    (stamp[2] == PROBE_CORE && rest_is_zero).then(|| (stamp[3], u16::from_ne_bytes([stamp[0], stamp[1]])))
}

/// How a probe arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Copies that arrived.
    pub count: u64,
    /// The Ethernet address it was sent to: tells the port.
    pub destination_mac: [u8; 6],
    /// Source address and port as they arrived.
    pub source: SocketAddr,
    /// Destination address and port as they arrived.
    pub destination: SocketAddr,
}

impl Arrival {
    /// Reads what the sink kept; `None` when nothing arrived.
    pub(crate) fn read(count: u64, head: &[u8; ARRIVAL_BYTES]) -> Option<Self> {
        let mac = head.first_chunk::<6>()?;
        let two = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let v4 = |at: usize| head[at..].first_chunk::<4>().map(|b| IpAddr::from(*b));
        let v6 = |at: usize| head[at..].first_chunk::<16>().map(|b| IpAddr::from(*b));
        let (source, destination, ports) = match two(12) {
            0x0800 => (v4(26)?, v4(30)?, 34),
            0x86dd => (v6(22)?, v6(38)?, 54),
            _ => return None,
        };
        (count > 0).then(|| Self {
            count,
            destination_mac: *mac,
            source: SocketAddr::new(source, two(ports)),
            destination: SocketAddr::new(destination, two(ports + 2)),
        })
    }
}

impl Engine {
    /// Sends probe frames in the given order and tells how each arrived, if it did. Waits until `expected` have, or
    /// until nothing more arrives; and then `beyond` for the others, of which none should.
    ///
    /// # Errors
    /// A probe from a zone that the bed has not, or more probes than one proof holds.
    pub fn probe(
        &mut self,
        ports: &Ports,
        probes: &[ProbeFrame],
        expected: usize,
        beyond: Duration,
    ) -> Result<Vec<Option<Arrival>>, TrafficError> {
        if probes.len() > MAX_PROBES {
            return Err(too_many(probes.len()));
        }
        let mark = self.next_mark();
        self.look_out_for_probes(mark);
        self.send_probes_from_here(ports, probes, mark)?;
        let arrived =
            || reading::arrivals(self.memory)[..probes.len()].iter().filter(|a| a.count > 0).count();
        wait_until(SETTLE, || false, arrived, |&arrived| arrived >= expected)?;
        if expected < probes.len() {
            wait_until(beyond, || false, arrived, |&arrived| arrived > expected)?;
        }
        // Read again: a head that was being written while its count was read is whole now.
        Ok(self.arrived_probes(probes.len()))
    }

    /// From now on the sinks note probes with this mark, which may come from another host; what earlier ones did is forgotten.
    pub fn look_out_for_probes(&mut self, mark: u16) {
        self.memory.change(|state| {
            state.control.mark = mark;
            state.arrivals = [types::arrival::default(); MAX_PROBES];
        });
    }

    /// Sends those of the probes that enter by ports of this host, in their order. All have their places of `probes` as numbers.
    ///
    /// # Errors
    /// A probe from a zone that the bed has not, or more probes than one proof holds.
    pub fn send_probes_from_here(
        &mut self,
        ports: &Ports,
        probes: &[ProbeFrame],
        mark: u16,
    ) -> Result<(), TrafficError> {
        if probes.len() > MAX_PROBES {
            return Err(too_many(probes.len()));
        }
        let mut frames = Vec::new();
        for (number, probe) in probes.iter().enumerate() {
            let bytes = probe.bytes(ports.port(probe.from)?, number as u8, mark)?;
            if ports.at(ports.slot(probe.from)?).is_some() {
                frames.push(probe_of(ports.slot(probe.from)?, &bytes));
            }
        }
        self.send_probes(&frames)
    }

    /// How the first `count` probes arrived here so far.
    pub fn arrived_probes(&self, count: usize) -> Vec<Option<Arrival>> {
        let seen = reading::arrivals(self.memory);
        seen.iter().take(count).map(|arrival| Arrival::read(arrival.count, &arrival.head)).collect()
    }

    /// Sends frames once, in order.
    pub(super) fn send_probes(&mut self, frames: &[types::probe]) -> Result<(), TrafficError> {
        self.memory.change(|state| {
            state.probe_next = 0;
            state.probes = [types::probe::default(); MAX_PROBES];
            state.probes[..frames.len()].copy_from_slice(frames);
        });
        let program = self.skel.progs.send_probe.as_fd();
        LiveSender::start(program, &[0; PROBE_FRAME_BYTES], 0, 1, Some(frames.len() as u32))?.wait()
    }
}

fn too_many(probes: usize) -> TrafficError {
    TrafficError::Impossible(format!("{probes} probes: one proof holds {MAX_PROBES}"))
}

/// A frame that is sent once through the port in `slot`.
pub(super) fn probe_of(slot: u32, frame: &[u8]) -> types::probe {
    let mut probe = types::probe { port: slot, bytes: frame.len() as u32, ..Default::default() };
    probe.frame[..frame.len()].copy_from_slice(frame);
    probe
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Probes of every protocol and both IP versions, with the port that each is sent from.
    pub(in super::super) fn of_both_versions() -> Vec<(Port, ProbeFrame)> {
        let port = Port {
            zone: Zone::Private,
            namespace: None,
            ifindex: 1,
            mac: [2; 6],
            next_hop_mac: [4; 6],
            v4_prefix: 0,
            v6_prefix: [0; 16],
        };
        let ends = [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")];
        let all = [Transport::Udp, Transport::SYN, Transport::Echo];
        let pairs = ends.iter().flat_map(|ends| all.map(|transport| (ends, transport)));
        let probe = |((source, destination), transport): (&(&str, &str), Transport)| ProbeFrame {
            from: port.zone,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            transport,
            source_port: 5,
            destination_port: 60_000,
        };
        pairs.map(|pair| (port.clone(), probe(pair))).collect()
    }

    #[test]
    fn tags_are_read_from_probes_alone() {
        for (port, probe) in of_both_versions() {
            let mut frame = probe.bytes(&port, 3, 0x1234).unwrap();
            if probe.transport == Transport::Echo {
                assert_eq!(read_tag(&frame), None, "a proof sees none");
                continue;
            }
            assert_eq!(read_tag(&frame), Some((3, 0x1234)), "{probe:?}");
            assert_eq!(read_tag(&frame[..40]), None, "cut off");
            frame[12] ^= 1;
            assert_eq!(read_tag(&frame), None, "not IP");
        }
    }
}
