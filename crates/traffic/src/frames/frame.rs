//! Frames as bytes: the constant header of each lane, the sizes of a mix, and the filling.

use super::skeleton::{MAX_MIX, types};
use super::streams::Header;
use crate::random::SplitMix64;
use crate::{Port, TrafficError};
use measure::frame::{FCS_BYTES, FrameSize, fragment_frames, smallest_fragmented_frame};
use measure::shape::{IpVersion, Lane, TrafficShape, UdpChecksum, Zone};

pub(super) const ETHERNET_BYTES: usize = 14;
pub(super) const UDP_BYTES: usize = 8;
/// Bytes of the stamp behind the UDP header (`struct stamp`).
pub const STAMP_BYTES: usize = types::frame_sizes::STAMP_BYTES.0 as usize;
pub(super) const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_FRAGMENT: u8 = 44;
const FRAGMENT_HEADER_BYTES: usize = 8;
pub(super) const TTL: u8 = 64;
/// Bytes of the largest live frame, without FCS. Larger frames take the packet socket's path.
pub const MAX_LIVE_FRAME_BYTES: u16 = types::frame_sizes::LARGEST_LIVE_BYTES.0 as u16;

pub(crate) fn word_sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(u16::from_ne_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))).sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

pub(super) fn ip_bytes(ip: IpVersion) -> usize {
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

/// Odd numbers that nobody else knows.
pub(crate) fn secret(random: &mut SplitMix64) -> types::secret {
    let mut odd = || random.next() | 1;
    types::secret { who: odd(), what: odd(), addresses: odd(), ports: odd(), times: odd(), last: odd() }
}

/// `stamp_veil()` of `bpf/traffic/frames/stamp.h`.
pub(crate) fn veil(secret: &types::secret, core: usize, lane: usize, datagram: u64) -> u64 {
    let number = datagram.wrapping_add((core as u64) << 56 | (lane as u64) << 48);
    let product = number.wrapping_mul(secret.times);
    (product ^ product >> 32).wrapping_mul(secret.last)
}

/// The stamp of `struct stamp` with its check, as `stamp_mix()` of `bpf/traffic/frames/stamp.h` computes it. `ends` are the
/// addresses and the ports of the frame as they lie in it, of IPv6 addresses the last four bytes.
pub(crate) fn stamp(
    secret: &types::secret,
    who: u64,
    what: u64,
    (addresses, ports): ([u8; 8], [u8; 4]),
) -> [u8; STAMP_BYTES] {
    let sum = [
        (who, secret.who),
        (what, secret.what),
        (u64::from_ne_bytes(addresses), secret.addresses),
        (u32::from_ne_bytes(ports).into(), secret.ports),
    ]
    .into_iter()
    .fold(0u64, |sum, (part, secret)| sum.wrapping_add(part.wrapping_mul(secret)));
    let mixed = (sum ^ sum >> 32).wrapping_mul(secret.last);
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

/// The number by which a zone's sink program knows its zone.
pub(super) const fn zone_number(zone: Zone) -> u32 {
    match zone {
        Zone::Private => 0,
        Zone::Dmz => 1,
        Zone::Hostile => 2,
    }
}

/// Filling of up to so many bytes is written and compared in every frame.
const COMPARED_IN_EVERY_FRAME: usize = 64;
/// Where no frame has filling the programs need not look for it. One frame in 2^32 does, and finds none.
const NOTHING_TO_COMPARE: u32 = u32::MAX;
/// Of frames with more filling, one in so many is compared: a power of two.
const COMPARED_ONE_IN: u32 = 64;

/// Which frames have their filling written afresh and compared: those whose hidden number has none of these bits. What it
/// costs to compare all grows with the filling (`docs/design/trust.md`). Fragments are always written, because a kernel that
/// reassembles copies them about.
pub(crate) fn content_mask(shape: &TrafficShape) -> u32 {
    match largest_filling(shape) {
        0 if shape.fragments == 1 => NOTHING_TO_COMPARE,
        _ if samples_content(shape) => COMPARED_ONE_IN - 1,
        _ => 0,
    }
}

/// Whether content is compared in some frames only.
pub(crate) fn samples_content(shape: &TrafficShape) -> bool {
    largest_filling(shape) > COMPARED_IN_EVERY_FRAME && shape.fragments == 1
}

fn largest_filling(shape: &TrafficShape) -> usize {
    usize::from(shape.frame.largest().bytes_without_fcs()).saturating_sub(filling_offset(shape))
}

/// Everything of a lane's frames that does not change from frame to frame.
pub(crate) fn lane(lane: Lane, from: &Port, to: &Port, from_slot: u32, ip: IpVersion) -> types::lane {
    let reverse = lane.is_reverse();
    let (client, server) = if reverse { (to, from) } else { (from, to) };
    let mut header = [0u8; 64];
    header[..6].copy_from_slice(&from.next_hop_mac);
    header[6..12].copy_from_slice(&from.mac);
    let mut made = types::lane {
        port: from_slot,
        reverse: u32::from(reverse),
        to: zone_number(to.zone),
        ..Default::default()
    };
    // A frame whose next hop is its destination itself meets no router that would take one from its TTL.
    let arrival_ttl = TTL - u8::from(from.next_hop_mac != to.mac);
    match ip {
        IpVersion::V4 => {
            header[12..14].copy_from_slice(&[0x08, 0x00]);
            // Version and length, class, total length (later), id 0, don't fragment, TTL, protocol.
            header[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, TTL, PROTOCOL_UDP]);
            made.prefixes = u64::from(client.v4_prefix.to_be()) | u64::from(server.v4_prefix.to_be()) << 32;
            made.udp_sum = word_sum(&[0, PROTOCOL_UDP]);
        }
        IpVersion::V6 => {
            header[12..14].copy_from_slice(&[0x86, 0xdd]);
            header[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, PROTOCOL_UDP, TTL]);
            header[22..38].copy_from_slice(&from.v6_prefix);
            header[38..54].copy_from_slice(&to.v6_prefix);
            made.udp_sum = pseudo_sum_v6(&header);
        }
    }
    made.arrival_udp_sum = made.udp_sum;
    made.header = header;
    header[..6].copy_from_slice(&to.mac);
    header[if ip == IpVersion::V4 { 22 } else { 21 }] = arrival_ttl;
    made.arrives = header;
    sum_headers(&mut made);
    made
}

/// The lane of a stream, whose addresses begin with these bytes.
pub(crate) fn stream_lane(
    mut made: types::lane,
    ip: IpVersion,
    stream: &Header,
    (source, destination): (&[u8], &[u8]),
) -> types::lane {
    let mut header = [0u8; 64];
    header[..6].copy_from_slice(&stream.destination_mac);
    header[6..12].copy_from_slice(&stream.source_mac);
    match ip {
        IpVersion::V4 => {
            header[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
            header[20..24].copy_from_slice(&[
                u8::from(stream.dont_fragment) << 6,
                0,
                stream.ttl,
                PROTOCOL_UDP,
            ]);
        }
        IpVersion::V6 => {
            header[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            header[20..22].copy_from_slice(&[PROTOCOL_UDP, stream.ttl]);
            // The last word of an address is each frame's own.
            header[22..34].copy_from_slice(&source[..12]);
            header[38..50].copy_from_slice(&destination[..12]);
        }
    }
    write_class(&mut header[14..18], ip, stream);
    made.udp_sum = match ip {
        IpVersion::V4 => word_sum(&[0, PROTOCOL_UDP]),
        IpVersion::V6 => pseudo_sum_v6(&header),
    };
    made.arrival_udp_sum = made.udp_sum;
    made.header = header;
    header[..6].copy_from_slice(&stream.arrival_mac);
    header[if ip == IpVersion::V4 { 22 } else { 21 }] = stream.arrival_ttl;
    made.arrives = header;
    sum_headers(&mut made);
    made
}

/// Writes traffic class and flow label into the first four bytes of an IP header.
pub(crate) fn write_class(head: &mut [u8], ip: IpVersion, stream: &Header) {
    match ip {
        IpVersion::V4 => head[1] = stream.traffic_class,
        IpVersion::V6 => {
            let word = 6 << 28 | u32::from(stream.traffic_class) << 20 | stream.flow_label & 0xf_ffff;
            head[..4].copy_from_slice(&word.to_be_bytes());
        }
    }
}

/// The sums of the constant parts of both IPv4 headers.
fn sum_headers(lane: &mut types::lane) {
    lane.ip_sum = word_sum(&lane.header[14..24]);
    lane.arrival_sum = word_sum(&lane.arrives[14..24]);
}

/// Makes the lane's frames fragments: they may be cut, and in IPv6 a fragment header follows.
pub(crate) fn fragment(lane: &mut types::lane, ip: IpVersion) {
    for header in [&mut lane.header, &mut lane.arrives] {
        header[20] = if ip == IpVersion::V4 { 0 } else { PROTOCOL_FRAGMENT };
    }
    sum_headers(lane);
}

/// Says what the firewall is asked to turn over in the source addresses of the lane's frames, in words as they lie in a frame.
pub(crate) fn translate(lane: &mut types::lane, turned: [u32; 4], ip: IpVersion) {
    lane.translation = turned;
    if ip == IpVersion::V6 {
        for (byte, turned) in lane.arrives[22..34].iter_mut().zip(turned.map(u32::to_ne_bytes).concat()) {
            *byte ^= turned;
        }
        lane.arrival_udp_sum = pseudo_sum_v6(&lane.arrives);
    }
}

/// The sum of the constant words of an IPv6 datagram's pseudo header.
fn pseudo_sum_v6(header: &[u8; 64]) -> u32 {
    word_sum(&header[22..54]) + word_sum(&[0, PROTOCOL_UDP])
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
            made.head = head(shape.ip, made.bytes);
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
        udp_bytes: (bytes - (ETHERNET_BYTES + ip_bytes(shape.ip)) as u16).to_be(),
        ..Default::default()
    };
    (made, vec![bytes.into()])
}

/// The eight bytes from `HEAD_OFFSET` of a frame of `bytes` without FCS.
fn head(ip: IpVersion, bytes: u32) -> u64 {
    let ip_bytes = bytes as u16 - ETHERNET_BYTES as u16;
    let mut head = match ip {
        IpVersion::V4 => [0x08, 0x00, 0x45, 0, 0, 0, 0, 0],
        IpVersion::V6 => [0x86, 0xdd, 0x60, 0, 0, 0, 0, 0],
    };
    let (at, length) = match ip {
        IpVersion::V4 => (4, ip_bytes),
        IpVersion::V6 => (6, ip_bytes - 40),
    };
    head[at..at + 2].copy_from_slice(&length.to_be_bytes());
    u64::from_ne_bytes(head)
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
