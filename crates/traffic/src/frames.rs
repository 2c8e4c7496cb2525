//! Frames as bytes: the constant header of each lane, the sizes of a mix, the filling, and probe frames.

use crate::TrafficError;
use crate::random::SplitMix64;
use crate::skeleton::{ARRIVAL_BYTES, MAX_MIX, PROBE_FRAME_BYTES, types};
use measure::frame::{FCS_BYTES, FrameSize, fragment_frames, smallest_fragmented_frame};
use measure::shape::{IpVersion, Lane, TrafficShape, UdpChecksum, Zone};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

const ETHERNET_BYTES: usize = 14;
const UDP_BYTES: usize = 8;
/// Bytes of the stamp behind the UDP header (`struct stamp`).
pub const STAMP_BYTES: usize = 18;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_FRAGMENT: u8 = 44;
const FRAGMENT_HEADER_BYTES: usize = 8;
const TTL: u8 = 64;
/// The largest live frame, without FCS: a page of 4,096 bytes less 256 of headroom, 320 of the kernel's fragment table
/// and 112 of `struct xdp_page_head` (net/bpf/test_run.c). Larger frames take the packet socket's path.
pub const MAX_LIVE_FRAME_BYTES: u16 = 3_408;
/// Stands in the stamp's core field (its third byte) of a probe.
const PROBE_CORE: u8 = 0xff;

/// A zone's own end of a link: where test frames of the zone start and arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The zone.
    pub zone: Zone,
    /// `/run/netns/NAME`, or `None` for an interface of this namespace.
    pub namespace: Option<PathBuf>,
    /// Interface number within the namespace.
    pub ifindex: u32,
    /// The port's own address.
    pub mac: [u8; 6],
    /// Where its frames go: the firewall's address on this link.
    pub next_hop_mac: [u8; 6],
    /// IPv4 prefix of the zone, host byte order, host bits zero.
    pub v4_prefix: u32,
    /// IPv6 prefix of the zone, the last four bytes zero.
    pub v6_prefix: [u8; 16],
}

pub(crate) fn word_sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(u16::from_ne_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))).sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

fn ip_bytes(ip: IpVersion) -> usize {
    match ip {
        IpVersion::V4 => 20,
        IpVersion::V6 => 40,
    }
}

/// The IPv4 header checksum of a header whose own checksum field is zero, in wire order.
pub(crate) fn ipv4_check(header: &[u8]) -> [u8; 2] {
    (!fold(word_sum(header))).to_ne_bytes()
}

/// The UDP or TCP checksum of an unfolded sum, in wire order; never zero, which says that there is none (RFC 768).
pub(crate) fn udp_check(sum: u32) -> [u8; 2] {
    match !fold(sum) {
        0 => [0xff; 2],
        check => check.to_ne_bytes(),
    }
}

/// The stamp of `struct stamp` with its check, as `stamp_check()` of `bpf/traffic/stamp.h` computes it.
pub(crate) fn stamp(who: u64, what: u64) -> [u8; STAMP_BYTES] {
    let mixed = who.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ what.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    let mut bytes = [0; STAMP_BYTES];
    bytes[..8].copy_from_slice(&who.to_ne_bytes());
    bytes[8..16].copy_from_slice(&what.to_ne_bytes());
    bytes[16..].copy_from_slice(&((mixed >> 48) as u16).to_ne_bytes());
    bytes
}

/// The smallest test frame of an IP version, in bytes with FCS: headers, stamp and FCS.
pub fn smallest_frame_bytes(ip: IpVersion) -> u16 {
    (ETHERNET_BYTES + ip_bytes(ip) + UDP_BYTES + STAMP_BYTES) as u16 + measure::frame::FCS_BYTES
}

/// Everything of a lane's frames that does not change from frame to frame.
pub(crate) fn lane(lane: Lane, from: &Port, to: &Port, from_slot: u32, ip: IpVersion) -> types::lane {
    let reverse = lane.is_reverse();
    let (client, server) = if reverse { (to, from) } else { (from, to) };
    let mut header = [0u8; 64];
    header[..6].copy_from_slice(&from.next_hop_mac);
    header[6..12].copy_from_slice(&from.mac);
    let mut made = types::lane { port: from_slot, reverse: u32::from(reverse), ..Default::default() };
    match ip {
        IpVersion::V4 => {
            header[12..14].copy_from_slice(&[0x08, 0x00]);
            // Version and length, class, total length (later), id 0, don't fragment, TTL, protocol.
            header[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, TTL, PROTOCOL_UDP]);
            made.ip_sum = word_sum(&header[14..24]);
            made.client_base = client.v4_prefix;
            made.server_base = server.v4_prefix;
            made.udp_sum = word_sum(&[0, PROTOCOL_UDP]);
        }
        IpVersion::V6 => {
            header[12..14].copy_from_slice(&[0x86, 0xdd]);
            header[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, PROTOCOL_UDP, TTL]);
            header[22..38].copy_from_slice(&from.v6_prefix);
            header[38..54].copy_from_slice(&to.v6_prefix);
            made.udp_sum = word_sum(&header[22..54]) + word_sum(&[0, PROTOCOL_UDP]);
        }
    }
    made.header = header;
    made
}

/// Makes the lane's frames fragments: they may be cut, and in IPv6 a fragment header follows.
pub(crate) fn fragment(lane: &mut types::lane, ip: IpVersion) {
    match ip {
        IpVersion::V4 => {
            lane.header[20] = 0;
            lane.ip_sum = word_sum(&lane.header[14..24]);
        }
        IpVersion::V6 => lane.header[20] = PROTOCOL_FRAGMENT,
    }
}

/// The recycled frame: zeros where the program writes, then seeded filling (RFC 4814 section 4 asks for payload that
/// does not compress), without FCS.
pub(crate) fn recycled_frame(shape: &TrafficShape) -> Vec<u8> {
    let mut frame = vec![0u8; usize::from(shape.frame.largest().bytes_without_fcs())];
    let mut random = SplitMix64::new(shape.seed ^ 0xf111);
    let start = filling_offset(shape).min(frame.len());
    frame[start..].fill_with(|| random.next() as u8);
    frame
}

/// Where the filling begins in every frame of a shape, second fragments included.
pub(crate) fn filling_offset(shape: &TrafficShape) -> usize {
    let fragment = if shape.fragments > 1 { fragment_header_bytes(shape.ip) } else { 0 };
    ETHERNET_BYTES + ip_bytes(shape.ip) + fragment + UDP_BYTES + STAMP_BYTES
}

/// Bytes that fragmenting adds to a frame.
fn fragment_header_bytes(ip: IpVersion) -> usize {
    if ip == IpVersion::V6 { FRAGMENT_HEADER_BYTES } else { 0 }
}

/// The sizes of the mix with the checksums of their filling.
///
/// # Errors
/// A size that the stamp does not fit into, a mix that is too long, or a size for which there is no live frame.
pub(crate) fn mix(shape: &TrafficShape, recycled: &[u8]) -> Result<Vec<types::mix_size>, TrafficError> {
    let sizes = shape.frame.sizes();
    check_fragments(shape)?;
    let most = MAX_MIX / shape.fragments as usize;
    if sizes.len() > most {
        return Err(TrafficError::Impossible(format!("a mix of {} sizes: it may have {most}", sizes.len())));
    }
    let smallest = smallest_frame_bytes(shape.ip);
    if let Some(size) = sizes.iter().find(|s| s.bytes() < smallest) {
        return Err(TrafficError::Impossible(format!(
            "a frame of {} bytes: test frames of this IP version need {smallest} (headers, {STAMP_BYTES} bytes of \
             stamp and the FCS)",
            size.bytes()
        )));
    }
    let start = filling_offset(shape);
    Ok(sizes
        .iter()
        .flat_map(
            |&size| if shape.fragments == 1 { vec![whole(shape, size)] } else { fragments(shape, size) },
        )
        .map(|(mut made, filled)| {
            // The UDP checksum is in the first frame of a datagram and covers the filling of both.
            made.fill_sum = filled.iter().map(|&bytes| word_sum(&recycled[start..bytes])).sum();
            let filling = &recycled[start..made.bytes as usize];
            let whole_words = &filling[..filling.len() / 4 * 4];
            made.fill_check = if whole_words.is_empty() { 0 } else { u32::from(fold(word_sum(whole_words))) };
            made
        })
        .collect())
}

/// What there is to a frame but sums, and the lengths of all frames of its datagram.
type Sized = (types::mix_size, Vec<usize>);

fn whole(shape: &TrafficShape, size: FrameSize) -> Sized {
    let bytes = size.bytes_without_fcs();
    let made = types::mix_size {
        bytes: bytes.into(),
        whole_bytes: bytes.into(),
        udp_bytes: bytes - (ETHERNET_BYTES + ip_bytes(shape.ip)) as u16,
        ..Default::default()
    };
    (made, vec![bytes.into()])
}

fn fragments(shape: &TrafficShape, size: FrameSize) -> Vec<Sized> {
    let (whole, _) = whole(shape, size);
    let lengths = fragment_frames(size, shape.ip).map(|bytes| bytes - FCS_BYTES);
    let headers = ETHERNET_BYTES + ip_bytes(shape.ip) + fragment_header_bytes(shape.ip);
    let first_bytes = lengths[0] - headers as u16;
    // IPv4 counts in units of 8 bytes behind three flags (RFC 791), IPv6 in bytes with the flag last (RFC 8200).
    let fields = match shape.ip {
        IpVersion::V4 => [0x2000, first_bytes / 8],
        IpVersion::V6 => [1, first_bytes],
    };
    let made = |number: usize| types::mix_size {
        bytes: lengths[number].into(),
        fragment: fields[number].to_be(),
        place: number as u32 + 1,
        ..whole
    };
    vec![(made(0), lengths.map(usize::from).to_vec()), (made(1), vec![lengths[1].into()])]
}

fn check_fragments(shape: &TrafficShape) -> Result<(), TrafficError> {
    let refuse = |why: String| Err(TrafficError::Impossible(why));
    let sizes = shape.frame.sizes();
    let smallest = smallest_fragmented_frame(shape.ip);
    match shape.fragments {
        1 => Ok(()),
        2 if shape.frame.largest().bytes_without_fcs() > MAX_LIVE_FRAME_BYTES => refuse(format!(
            "frames of {} bytes in fragments: those of up to {} are cut",
            shape.frame.largest().bytes(),
            MAX_LIVE_FRAME_BYTES + FCS_BYTES
        )),
        2 => match sizes.iter().find(|size| size.bytes() < smallest) {
            Some(size) => refuse(format!(
                "a frame of {} bytes in two fragments: with this IP version it takes {smallest}, so that each fragment \
                 has room for a stamp",
                size.bytes()
            )),
            None => Ok(()),
        },
        other => refuse(format!("datagrams in {other} fragments: the generator sends them in 1 or 2")),
    }
}

pub(crate) fn udp_checksum_wanted(shape: &TrafficShape) -> u32 {
    u32::from(shape.udp_checksum == UdpChecksum::Valid || shape.ip == IpVersion::V6)
}

/// Transport protocol of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl Transport {
    /// The first segment of a connection.
    pub const SYN: Self = Self::Tcp { sequence: 1, acknowledgement: 0, flags: 0x02 };
}

/// One frame that proves a policy: it must arrive, or it must not.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        let transport = self.transport_bytes(number, mark)?;
        let mut frame = Vec::with_capacity(PROBE_FRAME_BYTES);
        frame.extend_from_slice(&from.next_hop_mac);
        frame.extend_from_slice(&from.mac);
        let protocol = self.protocol();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend_from_slice(&[0x08, 0x00]);
                let total = (20 + transport.len()) as u16;
                let mut header = vec![0x45, 0];
                header.extend_from_slice(&total.to_be_bytes());
                header.extend_from_slice(&[0, 0, 0x40, 0, TTL, protocol, 0, 0]);
                header.extend_from_slice(&source.octets());
                header.extend_from_slice(&destination.octets());
                let check = ipv4_check(&header);
                header[10..12].copy_from_slice(&check);
                frame.extend_from_slice(&header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend_from_slice(&(transport.len() as u16).to_be_bytes());
                frame.extend_from_slice(&[protocol, TTL]);
                frame.extend_from_slice(&source.octets());
                frame.extend_from_slice(&destination.octets());
            }
            _ => return Err(self.mixed_versions()),
        }
        frame.extend_from_slice(&transport);
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

    fn protocol(&self) -> u8 {
        match self.transport {
            Transport::Udp => PROTOCOL_UDP,
            Transport::Tcp { .. } => PROTOCOL_TCP,
        }
    }

    /// The transport header, its checksum and the stamp.
    fn transport_bytes(&self, number: u8, mark: u16) -> Result<Vec<u8>, TrafficError> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.source_port.to_be_bytes());
        bytes.extend_from_slice(&self.destination_port.to_be_bytes());
        let check_at = match self.transport {
            Transport::Udp => {
                bytes.extend_from_slice(&((UDP_BYTES + STAMP_BYTES) as u16).to_be_bytes());
                bytes.extend_from_slice(&[0, 0]);
                6
            }
            Transport::Tcp { sequence, acknowledgement, flags } => {
                bytes.extend_from_slice(&sequence.to_be_bytes());
                bytes.extend_from_slice(&acknowledgement.to_be_bytes());
                // Five words, flags, window 8192, checksum, no urgent data.
                bytes.extend_from_slice(&[0x50, flags, 0x20, 0, 0, 0, 0, 0]);
                16
            }
        };
        let mut stamp = [0u8; STAMP_BYTES];
        stamp[..2].copy_from_slice(&mark.to_ne_bytes());
        stamp[2] = PROBE_CORE;
        stamp[3] = number;
        bytes.extend_from_slice(&stamp);
        let mut pseudo = match (self.source, self.destination) {
            (IpAddr::V4(s), IpAddr::V4(d)) => [s.octets(), d.octets()].concat(),
            (IpAddr::V6(s), IpAddr::V6(d)) => [s.octets(), d.octets()].concat(),
            _ => return Err(self.mixed_versions()),
        };
        pseudo.extend_from_slice(&[0, self.protocol()]);
        pseudo.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        let check = udp_check(word_sum(&pseudo) + word_sum(&bytes));
        bytes[check_at..check_at + 2].copy_from_slice(&check);
        Ok(bytes)
    }
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
#[derive(Debug, Clone, PartialEq, Eq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_from_probes_alone() {
        let port = Port {
            zone: Zone::Private,
            namespace: None,
            ifindex: 1,
            mac: [2; 6],
            next_hop_mac: [4; 6],
            v4_prefix: 0,
            v6_prefix: [0; 16],
        };
        for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            for transport in [Transport::Udp, Transport::SYN] {
                let probe = ProbeFrame {
                    from: Zone::Private,
                    source: source.parse().unwrap(),
                    destination: destination.parse().unwrap(),
                    transport,
                    source_port: 5,
                    destination_port: 6,
                };
                let mut frame = probe.bytes(&port, 3, 0x1234).unwrap();
                assert_eq!(read_tag(&frame), Some((3, 0x1234)), "{probe:?}");
                assert_eq!(read_tag(&frame[..40]), None, "cut off");
                frame[12] ^= 1;
                assert_eq!(read_tag(&frame), None, "not IP");
            }
        }
    }
}
