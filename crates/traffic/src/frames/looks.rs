//! How single frames beside a load look: like the load's own, as far as they are of its kind. What tells one from the other is a tool for a
//! firewall that would judge them and let the load pass.

use super::frame::{
    ETHERNET_BYTES, STAMP_BYTES, UDP_BYTES, filling_offset, ip_bytes, recycled_frame, smallest_frame_bytes,
};
use super::probe::{ProbeFrame, Style, Transport};
use crate::Clock;
use crate::random::SplitMix64;
use crate::tcp::TICK_SHIFT;
use measure::frame::{FCS_BYTES, fragment_frames};
use measure::shape::{IpVersion, TrafficShape, UdpChecksum};

/// Without FCS: datagrams beside connections have any length, and pass every link that carries IPv6 (RFC 8200 section 5).
const ANY_LENGTH: [usize; 2] = [60, 14 + 1280];
/// What a segment offers: the largest segment, and the shift of the window.
const MSS: [u16; 2] = [1460, 1440];
const SHIFT: u8 = 7;
/// Bytes of the options that each segment has, but for a SYN: two of padding and a timestamp.
const STAMPS: u16 = 12;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// What goes along with a load, as far as it can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looks {
    /// Lengths of datagrams' frames without FCS; none where they may have any.
    lengths: Vec<usize>,
    /// What stands behind the stamp of each.
    filling: Vec<u8>,
    udp_checksum: bool,
    segments: Segments,
}

/// Who writes the load's segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segments {
    /// Client and server of the bench.
    Engine,
    /// The kernel's sockets.
    Kernel,
}

impl Looks {
    /// Beside the generator's frames.
    pub fn of_frames(shape: &TrafficShape) -> Self {
        let sizes = shape.frame.sizes().iter();
        let lengths = sizes.map(|size| match shape.fragments {
            1 => size.bytes_without_fcs(),
            // A whole datagram may be too long for the link.
            _ => fragment_frames(*size, shape.ip)[0] - FCS_BYTES,
        });
        Self {
            lengths: lengths.map(usize::from).collect(),
            filling: recycled_frame(shape)[filling_offset(shape)..].to_vec(),
            udp_checksum: shape.udp_checksum == UdpChecksum::Valid,
            segments: Segments::Kernel,
        }
    }

    /// Beside connections of the bench's own client and server.
    pub fn of_connections() -> Self {
        Self { segments: Segments::Engine, ..Self::of_sockets() }
    }

    /// Beside connections of the kernel's.
    pub fn of_sockets() -> Self {
        let (lengths, filling) = (Vec::new(), Vec::new());
        Self { lengths, filling, udp_checksum: true, segments: Segments::Kernel }
    }

    /// The data of a frame that is no segment. `mark` is what stands first in the stamps of a trial; without one nothing there is known.
    pub(super) fn data(&self, ip: IpVersion, mark: Option<u16>, random: &mut SplitMix64) -> Vec<u8> {
        let length = match self.lengths.len() {
            0 => ANY_LENGTH[0] + random.below((ANY_LENGTH[1] - ANY_LENGTH[0]) as u64 + 1) as usize,
            count => self.lengths[random.below(count as u64) as usize],
        };
        let length = length.max(usize::from(smallest_frame_bytes(ip) - FCS_BYTES));
        let mut data = vec![0; length - ETHERNET_BYTES - ip_bytes(ip) - UDP_BYTES];
        for chunk in data.chunks_mut(8) {
            chunk.copy_from_slice(&random.next().to_ne_bytes()[..chunk.len()]);
        }
        if let Some(mark) = mark {
            // `stamp_who()` and `stamp_what()` of bpf/traffic/frames/stamp.h: the first core, lane and size, and a number that comes early.
            data[..6].copy_from_slice(&[0; 6]);
            data[..2].copy_from_slice(&mark.to_ne_bytes());
            data[10..12].copy_from_slice(&[0; 2]);
        }
        let filled = self.filling.len().min(data.len() - STAMP_BYTES);
        data[STAMP_BYTES..STAMP_BYTES + filled].copy_from_slice(&self.filling[..filled]);
        data
    }

    /// What else a frame has.
    pub(super) fn style(&self, frame: &ProbeFrame, random: &mut SplitMix64) -> Style {
        let udp_checksum = self.udp_checksum;
        let Transport::Tcp { flags, .. } = frame.transport else {
            return Style { udp_checksum, ..Style::PLAIN };
        };
        let is_engine = self.segments == Segments::Engine;
        let mut drawn = || random.next() as u16;
        let mss = MSS[usize::from(frame.source.is_ipv6())];
        let is_answer = flags & ACK != 0;
        Style {
            identification: drawn(),
            udp_checksum,
            // The engine's server takes one segment at a time; the others' are Linux's.
            window: match (is_engine, flags & SYN != 0, is_answer) {
                (true, true, true) => mss - STAMPS,
                (true, ..) => u16::MAX,
                (false, true, false) => 64_240,
                (false, true, true) => 65_160,
                (false, ..) => 502,
            },
            // There are the engine's seals over IPv6.
            urgent: if is_engine && frame.source.is_ipv6() { drawn() } else { 0 },
            options: self.options(flags, mss, random),
            has_options: false,
        }
    }

    fn options(&self, flags: u8, mss: u16, random: &mut SplitMix64) -> Vec<u8> {
        let is_engine = self.segments == Segments::Engine;
        // The kernel's begin anywhere, and are other ones between other hosts.
        let now = if is_engine { (Clock::now_ns() >> TICK_SHIFT) as u32 } else { random.next() as u32 };
        let echo = if flags & ACK != 0 { now.wrapping_sub(random.below(64) as u32) } else { 0 };
        let stamps = [now.to_be_bytes(), echo.to_be_bytes()].concat();
        if flags & SYN == 0 {
            return [&[1, 1, 8, 10], &stamps[..]].concat();
        }
        let [high, low] = mss.to_be_bytes();
        let shift = if is_engine && flags & ACK != 0 { 0 } else { SHIFT };
        [&[2, 4, high, low, 4, 2, 8, 10], &stamps[..], &[1, 3, 3, shift]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::tests::of_both_versions;
    use super::*;
    use measure::frame::{FrameMix, FrameSize};
    use measure::shape::Directions;

    fn shape(bytes: u16, ip: IpVersion, fragments: u32, udp_checksum: UdpChecksum) -> TrafficShape {
        TrafficShape {
            frame: FrameMix::fixed(FrameSize::new(bytes).unwrap()),
            ip,
            flows: 1,
            clients: 1,
            servers: 1,
            directions: Directions::OneWay,
            udp_checksum,
            fragments,
            cores: 1,
            seed: 7,
        }
    }

    /// Every field of a datagram that a load has in all of its frames alike.
    #[test]
    fn datagrams_beside_frames_are_as_long_and_as_filled_and_have_a_checksum_or_none() {
        let (v4, v6) = (IpVersion::V4, IpVersion::V6);
        for (bytes, load_ip, fragments, checksum, ip, length) in [
            (64, v4, 1, UdpChecksum::Zero, v4, 60),
            (64, v4, 1, UdpChecksum::Zero, v6, 80),
            (1518, v4, 1, UdpChecksum::Valid, v4, 1514),
            (1518, v6, 1, UdpChecksum::Valid, v4, 1514),
            (9000, v4, 1, UdpChecksum::Zero, v4, 8996),
            (256, v4, 2, UdpChecksum::Zero, v4, 138),
        ] {
            let shape = shape(bytes, load_ip, fragments, checksum);
            let (looks, random) = (Looks::of_frames(&shape), &mut SplitMix64::new(9));
            let of_version =
                of_both_versions().into_iter().find(|(_, probe)| probe.source.is_ipv4() == (ip == v4));
            let (port, probe) = of_version.unwrap();
            let data = looks.data(ip, Some(0x1234), random);
            let frame = probe.frame(&port, &data, &looks.style(&probe, random)).unwrap();
            assert_eq!(frame.len(), length, "{bytes} {ip:?}");
            let udp = ETHERNET_BYTES + ip_bytes(ip);
            let has_checksum = frame[udp + 6..udp + 8] != [0, 0];
            assert_eq!(has_checksum, checksum == UdpChecksum::Valid || ip == v6, "{bytes} {ip:?}");
            assert_eq!(frame[udp + 8..udp + 10], 0x1234u16.to_ne_bytes());
            let filling = &recycled_frame(&shape)[filling_offset(&shape)..];
            let filled = &frame[udp + UDP_BYTES + STAMP_BYTES..];
            let common = filled.len().min(filling.len());
            assert_eq!(filled[..common], filling[..common], "{bytes} {ip:?}");
            assert_ne!(looks.data(ip, None, random)[..STAMP_BYTES], data[..STAMP_BYTES]);
        }
    }

    #[test]
    fn segments_have_the_options_of_who_writes_the_load() {
        let syn = Transport::SYN;
        let of = |flags| Transport::Tcp { sequence: 1, acknowledgement: 2, flags };
        for (looks, transport, window, words, shift) in [
            (Looks::of_connections(), syn, 65_535, 10, Some(7)),
            (Looks::of_connections(), of(SYN | ACK), 1448, 10, Some(0)),
            (Looks::of_connections(), of(ACK), 65_535, 8, None),
            (Looks::of_sockets(), syn, 64_240, 10, Some(7)),
            (Looks::of_sockets(), of(SYN | ACK), 65_160, 10, Some(7)),
        ] {
            let random = &mut SplitMix64::new(3);
            let (port, probe) = of_both_versions().swap_remove(1);
            let probe = ProbeFrame { transport, ..probe };
            let style = looks.style(&probe, random);
            let frame = probe.frame(&port, &[], &style).unwrap();
            let tcp = &frame[ETHERNET_BYTES + ip_bytes(IpVersion::V4)..];
            assert_eq!((tcp[12] >> 4, &tcp[14..16]), (words, &u16::to_be_bytes(window)[..]), "{transport:?}");
            assert_eq!(style.options.last().copied().filter(|_| words == 10), shift, "{transport:?}");
        }
    }
}
