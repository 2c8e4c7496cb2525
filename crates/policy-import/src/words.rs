//! Words that rule sets of all formats share: protocols, ports, ICMP types, rates, and sets of packets that they name.

use policy::address::AddressSet;
use policy::ranges::RangeSet;
use policy::service::{ICMP, ICMPV6, SCTP, TCP, UDP, key};
use std::collections::BTreeSet;

/// Names of services as `/etc/services` has them, those that firewalls name.
const PORTS: &[(&str, u16)] = &[
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap2", 143),
    ("imap", 143),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("isakmp", 500),
    ("syslog", 514),
    ("submissions", 465),
    ("submission", 587),
    ("dhcpv6-client", 546),
    ("dhcpv6-server", 547),
    ("ldaps", 636),
    ("domain-s", 853),
    ("imaps", 993),
    ("pop3s", 995),
    ("openvpn", 1194),
    ("radius", 1812),
    ("nfs", 2049),
    ("mysql", 3306),
    ("ipsec-nat-t", 4500),
    ("sip", 5060),
    ("mdns", 5353),
    ("postgresql", 5432),
    ("http-alt", 8080),
];

/// Protocols by name.
const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", ICMP),
    ("igmp", 2),
    ("ipencap", 4),
    // Not 4, which is "ipencap" (/etc/protocols).
    ("ipip", 94),
    ("tcp", TCP),
    ("udp", UDP),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ipsec-esp", 50),
    ("ah", 51),
    ("ipsec-ah", 51),
    ("icmpv6", ICMPV6),
    ("icmp6", ICMPV6),
    ("ipv6-icmp", ICMPV6),
    ("ospf", 89),
    ("pim", 103),
    ("comp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", SCTP),
    ("udplite", 136),
];

/// ICMP types as iptables and nftables call them.
const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("pong", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("ping", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("ttl-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];

/// ICMP types with a code that have a name: in iptables alone.
const ICMP_CODES: &[(&str, u8, u8)] = &[
    ("network-unreachable", 3, 0),
    ("host-unreachable", 3, 1),
    ("protocol-unreachable", 3, 2),
    ("port-unreachable", 3, 3),
    ("fragmentation-needed", 3, 4),
    ("ttl-zero-during-transit", 11, 0),
    ("ttl-zero-during-reassembly", 11, 1),
];

/// Codes of ICMP as nftables calls them, whatever the type is.
const CODES: &[(&str, u8)] = &[
    ("net-unreachable", 0),
    ("host-unreachable", 1),
    ("prot-unreachable", 2),
    ("port-unreachable", 3),
    ("frag-needed", 4),
    ("net-prohibited", 9),
    ("host-prohibited", 10),
    ("admin-prohibited", 13),
];

const CODES_V6: &[(&str, u8)] = &[
    ("no-route", 0),
    ("admin-prohibited", 1),
    ("addr-unreachable", 3),
    ("port-unreachable", 4),
    ("policy-fail", 5),
    ("reject-route", 6),
];

const ICMPV6_TYPES: &[(&str, u8)] = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("ttl-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("mld-listener-reduction", 132),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbour-solicitation", 135),
    ("neighbor-solicitation", 135),
    ("neighbour-advertisement", 136),
    ("neighbor-advertisement", 136),
    ("redirect", 137),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
];

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// A decimal number. With a zero before it nft and iptables take it for octal, or for hexadecimal, so it is not understood.
pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_plain = text == "0" || text.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| is_plain)
}

/// A port by number or name.
pub(crate) fn port(text: &str) -> Option<u16> {
    number(text).or_else(|| named(PORTS, text))
}

/// First and last of a range of ports, with this between them; an open end is the least or the greatest.
pub(crate) fn ports(text: &str, between: char) -> Option<(u32, u32)> {
    // A name may have a dash in it, as a range has.
    if let Some(one) = port(text) {
        return Some((one.into(), one.into()));
    }
    let (first, last) = text.split_once(between)?;
    let first = if first.is_empty() { 0 } else { port(first)? };
    let last = if last.is_empty() { u16::MAX } else { port(last)? };
    (first <= last).then_some((first.into(), last.into()))
}

/// A protocol's number.
pub(crate) fn protocol(text: &str) -> Option<u8> {
    number(text).or_else(|| named(PROTOCOLS, &text.to_ascii_lowercase()))
}

/// All services of a protocol.
pub(crate) fn of_protocol(protocol: u8) -> RangeSet<u32> {
    RangeSet::of([(key(protocol, 0), key(protocol, u16::MAX))])
}

/// Whether a policy knows the ports of a protocol.
pub(crate) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

/// Protocols of which a set has something.
pub(crate) fn protocols(services: &RangeSet<u32>) -> impl Iterator<Item = u8> + '_ {
    let mut last = None;
    let all = services.ranges().iter().flat_map(|(first, last)| (first >> 16) as u8..=(last >> 16) as u8);
    // Two ranges may be of one protocol, one behind the other.
    all.filter(move |protocol| last.replace(*protocol) != Some(*protocol))
}

/// Types of ICMP: `echo-request`, `8`, `3/4`, `any`.
pub(crate) fn icmp(protocol: u8, text: &str) -> Option<RangeSet<u32>> {
    if text == "any" {
        return Some(of_protocol(protocol));
    }
    let (types, codes) = match protocol {
        ICMP => (ICMP_TYPES, ICMP_CODES),
        _ => (ICMPV6_TYPES, &[][..]),
    };
    if let Some((_, kind, code)) = codes.iter().find(|(name, ..)| *name == text) {
        let selector = u16::from(*kind) << 8 | u16::from(*code);
        return Some(RangeSet::of([(key(protocol, selector), key(protocol, selector))]));
    }
    let (kind, code) = text.split_once('/').map_or((text, None), |(kind, code)| (kind, Some(code)));
    let kind: u8 = number(kind).or_else(|| named(types, kind))?;
    let first = u16::from(kind) << 8;
    let (first, last) = match code {
        None => (first, first | 0xff),
        Some(code) => {
            let code: u8 = number(code)?;
            (first | u16::from(code), first | u16::from(code))
        }
    };
    Some(RangeSet::of([(key(protocol, first), key(protocol, last))]))
}

/// A code of ICMP by number or as nftables calls it, with every type.
pub(crate) fn icmp_code(protocol: u8, text: &str) -> Option<RangeSet<u32>> {
    let codes = if protocol == ICMP { CODES } else { CODES_V6 };
    let code: u8 = number(text).or_else(|| named(codes, text))?;
    let of = |kind: u16| key(protocol, kind << 8 | u16::from(code));
    Some(RangeSet::of((0..=u16::from(u8::MAX)).map(|kind| (of(kind), of(kind)))))
}

/// Addresses as rule sets write them: host bits of a network may be set, a mask may be written out (`/255.255.255.0`), and a host may
/// have the length of an address.
pub(crate) fn addresses(text: &str) -> Option<AddressSet> {
    // Of IPv4 addresses written as IPv6 there are no packets, and a policy may not name them.
    written(text).map(|set| if set.mapped().is_some() { AddressSet::default() } else { set })
}

fn written(text: &str) -> Option<AddressSet> {
    let Some((address, mask)) = text.split_once('/') else { return AddressSet::parse(text).ok() };
    let length = match number::<u8>(mask) {
        Some(length) => length,
        None => {
            let mask = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
            // A mask with holes is no network.
            (mask.leading_ones() == mask.count_ones()).then_some(mask.count_ones() as u8)?
        }
    };
    match address.parse().ok()? {
        std::net::IpAddr::V4(v4) => {
            let hosts = u32::MAX.checked_shr(length.into()).unwrap_or(0);
            let first = u32::from(v4) & !hosts;
            (length <= 32)
                .then(|| AddressSet { v4: RangeSet::of([(first, first | hosts)]), ..AddressSet::default() })
        }
        std::net::IpAddr::V6(v6) => {
            let hosts = u128::MAX.checked_shr(length.into()).unwrap_or(0);
            let first = u128::from(v6) & !hosts;
            (length <= 128)
                .then(|| AddressSet { v6: RangeSet::of([(first, first | hosts)]), ..AddressSet::default() })
        }
    }
}

/// All addresses of a family.
pub(crate) fn family(v4: bool) -> AddressSet {
    let all = AddressSet::any();
    match v4 {
        true => AddressSet { v6: RangeSet::default(), ..all },
        false => AddressSet { v4: RangeSet::default(), ..all },
    }
}

/// The addresses of groups.
pub(crate) fn groups() -> AddressSet {
    let v4 = RangeSet::of([(0xe000_0000, 0xefff_ffff)]);
    AddressSet { v4, v6: RangeSet::of([(0xff << 120, u128::MAX)]) }
}

/// A rate as policies write it, from `5/minute`, `10/sec`, `3/min`.
pub(crate) fn rate(text: &str) -> Option<String> {
    let (count, unit) = text.split_once('/').unwrap_or((text, "second"));
    let count: u32 = number(count.trim()).filter(|count| *count > 0)?;
    let unit = unit.trim();
    let is = |whole: &str| !unit.is_empty() && whole.starts_with(unit);
    let unit = match () {
        () if is("second") => "s",
        () if is("minute") => "min",
        () if is("hour") => "h",
        () if is("day") => "d",
        () => return None,
    };
    Some(format!("{count}/{unit}"))
}

/// Services of ICMP whose packets conntrack does not call new where they belong to no flow: those it calls invalid, and those that it
/// does not track.
pub(crate) fn unlike_new() -> [RangeSet<u32>; 2] {
    let types = |protocol: u8, of: &[u8]| {
        let range = |kind: &u8| {
            let first = u16::from(*kind) << 8;
            (key(protocol, first), key(protocol, first | 0xff))
        };
        RangeSet::of(of.iter().map(range))
    };
    // nf_conntrack_proto_icmp.c and nf_conntrack_proto_icmpv6.c, the tables valid_new and noct_valid_new.
    let opens4 = types(ICMP, &[8, 13, 15, 17]);
    let opens6 = types(ICMPV6, &[128, 139]);
    let untracked = types(ICMPV6, &[130, 131, 132, 133, 134, 135, 136, 137, 143]);
    let invalid4 = of_protocol(ICMP).without(&opens4);
    let invalid6 = of_protocol(ICMPV6).without(&opens6).without(&untracked);
    let invalid = RangeSet::of(invalid4.ranges().iter().chain(invalid6.ranges()).copied());
    [invalid, untracked]
}

/// The first of a name, and of the name with a number behind it, that is not taken. It is taken then.
pub(crate) fn unique(name: &str, separator: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number: u32| format!("{name}{separator}{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| taken.insert(name.clone())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_masks_and_host_bits() {
        for (text, first, last) in [
            ("10.1.2.3/8", "10.0.0.0", "10.255.255.255"),
            ("10.1.2.3/255.255.255.0", "10.1.2.0", "10.1.2.255"),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.3"),
            ("fe80::1/10", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            let expected = AddressSet::between(first.parse().unwrap(), last.parse().unwrap());
            assert_eq!(addresses(text), expected, "{text}");
        }
        for text in [
            "10.0.0.0/33",
            "10.0.0.0/010",
            "010.0.0.0/8",
            "10.0.0.0/255.0.255.0",
            "::/129",
            "host.example",
            "",
        ] {
            assert_eq!(addresses(text), None, "{text}");
        }
    }

    #[test]
    fn ports_and_rates() {
        assert_eq!(ports("http-alt", '-'), Some((8080, 8080)));
        assert_eq!(ports("1024:", ':'), Some((1024, 65_535)));
        assert_eq!(ports("5:1", ':'), None);
        assert_eq!(rate("3/min").as_deref(), Some("3/min"));
        assert_eq!(rate("10/second").as_deref(), Some("10/s"));
        assert_eq!(rate("10/"), None);
        assert_eq!(rate("0/s"), None);
    }
}
