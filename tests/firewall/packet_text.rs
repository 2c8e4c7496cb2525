//! Packets as text, so that rows of tests can be read: [`frame`] makes one from a line, [`describe`] reads one by a parser
//! that is not ours (etherparse) and verifies every checksum on the way.
//!
//! ```text
//! [vlan=N] SOURCE > DESTINATION ttl=N [options=WORDS] [df] [offset=BYTES] [more] TRANSPORT [data=BYTES]
//!   TRANSPORT: tcp PORT>PORT FLAGS [seq=N] [ack=N] [window=N] | udp PORT>PORT | icmp TYPE/CODE [mtu=N] | protocol=N
//! ```
//! FLAGS are of SFRPA, or `-` for none. What stands for nothing is left out; `data` counts the bytes behind the headers.

use etherparse::{
    Icmpv4Slice, Icmpv6Slice, IpNumber, NetSlice, SlicedPacket, TcpHeaderSlice, TcpSlice, TransportSlice,
    UdpSlice,
};
use std::fmt::Write;
use std::net::IpAddr;

/// Who sends to the firewall, and the firewall's interface.
pub(crate) const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 0x0c];
pub(crate) const FIREWALL: [u8; 6] = [2, 0, 0, 0, 0, 0x0f];

const FLAGS: [(char, u8); 5] = [('F', 1), ('S', 2), ('R', 4), ('P', 8), ('A', 16)];

/// The words of a line: what is named, and what stands alone.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.split_whitespace().collect())
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn after(&self, word: &str) -> &'a str {
        let at = self.0.iter().position(|w| *w == word).unwrap_or_else(|| panic!("{word} is missing"));
        self.0[at + 1]
    }

    fn number(&self, name: &str) -> u32 {
        let value = self.0.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.map_or(0, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is no number")))
    }

    fn pair(&self, word: &str, between: char) -> (u16, u16) {
        let (a, b) = self.after(word).split_once(between).expect("a pair");
        (a.parse().unwrap(), b.parse().unwrap())
    }
}

/// A frame from [`SENDER`] to [`FIREWALL`] with correct checksums.
pub(crate) fn frame(text: &str) -> Vec<u8> {
    let words = Words::of(text);
    let (source, destination) =
        (address(words.0[words.0.iter().position(|w| *w == ">").unwrap() - 1]), address(words.after(">")));
    let (protocol, mut transport) = transport(&words, source.is_ipv6());
    transport.extend((0..words.number("data")).map(|i| i as u8));
    complete(&mut transport, protocol, source, destination, words.number("offset") > 0);
    let mut frame = [FIREWALL, SENDER].concat();
    if words.number("vlan") > 0 {
        frame.extend([0x81, 0]);
        frame.extend((words.number("vlan") as u16).to_be_bytes());
    }
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([0x08, 0]);
            frame.extend(ipv4_header(
                &words,
                protocol,
                transport.len(),
                source.octets(),
                destination.octets(),
            ));
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((transport.len() as u16).to_be_bytes());
            frame.extend([protocol, words.number("ttl") as u8]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        _ => panic!("addresses of both versions: {text}"),
    }
    frame.extend(transport);
    frame
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|_| panic!("{text} is no address"))
}

fn ipv4_header(
    words: &Words<'_>,
    protocol: u8,
    payload: usize,
    source: [u8; 4],
    destination: [u8; 4],
) -> Vec<u8> {
    let options = words.number("options") as usize;
    let offset = (words.number("offset") / 8) as u16 | u16::from(words.has("more")) << 13;
    let fragment = offset | u16::from(words.has("df")) << 14;
    let bytes = (20 + 4 * options + payload) as u16;
    let mut header = vec![0x45 + options as u8, 0];
    header.extend(bytes.to_be_bytes());
    header.extend([0x12, 0x34]);
    header.extend(fragment.to_be_bytes());
    header.extend([words.number("ttl") as u8, protocol, 0, 0]);
    header.extend(source.iter().chain(&destination));
    header.extend(std::iter::repeat_n(1u8, 4 * options)); // "no operation"
    let check = folded(sum(&header));
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header
}

fn transport(words: &Words<'_>, v6: bool) -> (u8, Vec<u8>) {
    let mut bytes = Vec::new();
    if words.has("tcp") {
        let (source, destination) = words.pair("tcp", '>');
        bytes.extend(source.to_be_bytes().into_iter().chain(destination.to_be_bytes()));
        bytes.extend(words.number("seq").to_be_bytes().into_iter().chain(words.number("ack").to_be_bytes()));
        let letters = words.after(words.after("tcp"));
        let flags = letters.chars().filter(|c| *c != '-').map(|c| FLAGS.iter().find(|f| f.0 == c).unwrap().1);
        bytes.extend([0x50, flags.sum()]);
        bytes.extend((words.number("window") as u16).to_be_bytes());
        bytes.extend([0; 4]);
        return (6, bytes);
    }
    if words.has("udp") {
        let (source, destination) = words.pair("udp", '>');
        bytes.extend(source.to_be_bytes().into_iter().chain(destination.to_be_bytes()));
        bytes.extend((8 + words.number("data") as u16).to_be_bytes().into_iter().chain([0, 0]));
        return (17, bytes);
    }
    if words.has("icmp") {
        let (kind, code) = words.pair("icmp", '/');
        bytes.extend([kind as u8, code as u8, 0, 0]);
        bytes.extend(words.number("mtu").to_be_bytes());
        return (if v6 { 58 } else { 1 }, bytes);
    }
    (words.number("protocol") as u8, bytes)
}

/// Fills the transport's checksum in. What follows in a later fragment has none.
fn complete(transport: &mut [u8], protocol: u8, source: IpAddr, destination: IpAddr, later_fragment: bool) {
    let at = match protocol {
        6 => 16,
        17 => 6,
        1 | 58 => 2,
        _ => return,
    };
    if later_fragment {
        return;
    }
    let mut pseudo = Vec::new();
    for address in [source, destination] {
        match address {
            IpAddr::V4(_) if protocol == 1 => {}
            IpAddr::V4(a) => pseudo.extend(a.octets()),
            IpAddr::V6(a) => pseudo.extend(a.octets()),
        }
    }
    if protocol != 1 {
        pseudo.extend([0, protocol]);
        pseudo.extend((transport.len() as u16).to_be_bytes());
    }
    let check = folded(sum(&pseudo) + sum(transport));
    transport[at..at + 2].copy_from_slice(&check.to_be_bytes());
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What a frame says, in the words of [`frame`], with `quote=BYTES` for the packet that an ICMP error carries.
///
/// # Panics
/// If any length or checksum is wrong, or a quote is not the beginning of `quoted`.
pub(crate) fn describe(frame: &[u8], quoted: &[u8]) -> String {
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
    assert_eq!(folded(sum(icmp.slice())), 0, "ICMP checksum");
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
