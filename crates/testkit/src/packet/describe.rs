//! What a frame says, by a parser that is not ours, in the words of [`super::frame`].

use super::{FLAGS, checksum};
use etherparse::{
    Icmpv4Slice, Icmpv6Slice, IpNumber, NetSlice, SlicedPacket, TcpHeaderSlice, TcpSlice, TransportSlice,
    UdpSlice,
};
use std::fmt::Write;

/// What a frame says, in the words of [`super::frame`], with `quote=BYTES` for the packet that an ICMP error carries.
///
/// # Panics
/// If any length or checksum is wrong, or a quote is not the beginning of `quoted`.
pub fn describe(frame: &[u8], quoted: &[u8]) -> String {
    let packet = SlicedPacket::from_ethernet(frame).unwrap_or_else(|e| panic!("{e}: {frame:02x?}"));
    let mut text = String::new();
    match packet.net.as_ref().unwrap_or_else(|| panic!("no IP: {frame:02x?}")) {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            assert_eq!(
                header.header_checksum(),
                header.to_header().calc_header_checksum(),
                "IPv4 header: {frame:02x?}"
            );
            write!(text, "{} > {} ttl={}", header.source_addr(), header.destination_addr(), header.ttl())
                .unwrap();
            if header.ihl() > 5 {
                write!(text, " options={}", header.ihl() - 5).unwrap();
            }
            for (set, word) in [(header.dont_fragment(), " df"), (header.more_fragments(), " more")] {
                text += if set { word } else { "" };
            }
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            write!(
                text,
                "{} > {} ttl={}",
                header.source_addr(),
                header.destination_addr(),
                header.hop_limit()
            )
            .unwrap();
        }
        other => panic!("no IP: {other:?}"),
    }
    let end = frame.len() - network_offset(frame) == packet_bytes(frame);
    assert!(end, "the frame is not as long as its packet: {frame:02x?}");
    text + &transport_text(&packet, quoted)
}

fn network_offset(frame: &[u8]) -> usize {
    if frame[12..14] == [0x81, 0] { 18 } else { 14 }
}

fn packet_bytes(frame: &[u8]) -> usize {
    let ip = &frame[network_offset(frame)..];
    let field = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
    if ip[0] >> 4 == 4 { field(2) } else { 40 + field(4) }
}

fn transport_text(packet: &SlicedPacket<'_>, quoted: &[u8]) -> String {
    match packet.transport.as_ref() {
        Some(TransportSlice::Tcp(tcp)) => tcp_text(packet, tcp),
        Some(TransportSlice::Udp(udp)) => udp_text(packet, udp),
        Some(TransportSlice::Icmpv4(icmp)) => icmp_v4_text(icmp, quoted),
        Some(TransportSlice::Icmpv6(icmp)) => icmp_v6_text(packet, icmp, quoted),
        Some(other) => panic!("no row speaks of this: {other:?}"),
        None => {
            let payload = packet.net.as_ref().and_then(|net| net.ip_payload_ref()).unwrap();
            let number =
                |n: IpNumber| if payload.fragmented { String::new() } else { format!(" protocol={}", n.0) };
            format!("{}{}", number(payload.ip_number), data_text(payload.payload.len()))
        }
    }
}

fn data_text(bytes: usize) -> String {
    if bytes == 0 { String::new() } else { format!(" data={bytes}") }
}

fn tcp_text(packet: &SlicedPacket<'_>, tcp: &TcpSlice<'_>) -> String {
    let header = TcpHeaderSlice::from_slice(tcp.header_slice()).unwrap();
    let right = match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header(), tcp.payload()).unwrap(),
        NetSlice::Ipv6(ip) => {
            header.to_header().calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()).unwrap()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(tcp.checksum(), right, "TCP checksum");
    let bits = tcp.slice()[13];
    let flags: String = FLAGS.iter().filter(|f| bits & f.1 != 0).map(|f| f.0).collect();
    let mut text = format!(
        " tcp {}>{} {}",
        tcp.source_port(),
        tcp.destination_port(),
        if bits == 0 { "-" } else { &flags }
    );
    let window = u32::from(tcp.window_size());
    for (name, value) in
        [("seq", tcp.sequence_number()), ("ack", tcp.acknowledgment_number()), ("window", window)]
    {
        if value != 0 {
            write!(text, " {name}={value}").unwrap();
        }
    }
    text + &data_text(tcp.payload().len())
}

fn udp_text(packet: &SlicedPacket<'_>, udp: &UdpSlice<'_>) -> String {
    let header = udp.to_header();
    let right = match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap(),
        NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(udp.checksum(), right, "UDP checksum");
    format!(" udp {}>{}{}", udp.source_port(), udp.destination_port(), data_text(udp.payload().len()))
}

fn icmp_v4_text(icmp: &Icmpv4Slice<'_>, quoted: &[u8]) -> String {
    assert_eq!(checksum(icmp.slice()), 0, "ICMP checksum");
    icmp_text(icmp.slice(), icmp.type_u8(), matches!(icmp.type_u8(), 3 | 11), quoted)
}

fn icmp_v6_text(packet: &SlicedPacket<'_>, icmp: &Icmpv6Slice<'_>, quoted: &[u8]) -> String {
    let Some(NetSlice::Ipv6(ip)) = packet.net.as_ref() else { panic!("ICMPv6 over IPv4") };
    assert!(icmp.is_checksum_valid(ip.header().source(), ip.header().destination()), "ICMPv6 checksum");
    icmp_text(icmp.slice(), icmp.type_u8(), icmp.type_u8() < 128, quoted)
}

fn icmp_text(bytes: &[u8], kind: u8, is_error: bool, quoted: &[u8]) -> String {
    let mut text = format!(" icmp {kind}/{}", bytes[1]);
    let rest = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    if rest != 0 {
        write!(text, " mtu={rest}").unwrap();
    }
    let behind = &bytes[8..];
    if !is_error {
        return text + &data_text(behind.len());
    }
    let original = &quoted[network_offset(quoted)..];
    assert_eq!(behind, &original[..behind.len()], "the quote is not what was sent");
    text + &format!(" quote={}", behind.len())
}
