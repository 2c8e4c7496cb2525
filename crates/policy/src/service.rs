//! Services: sets of protocols with destination ports, or with ICMP types and codes.
//!
//! A service is a set of keys: the IP protocol number above 16 bits that are the destination port, the ICMP type and code
//! (`type << 8 | code`), or 0 for a protocol that has neither. A service may ask for source ports besides, so a set is several
//! parts, each of which is keys and the source ports that go with them: see `docs/decisions/0011-source-ports.md`.

use crate::ranges::RangeSet;
use crate::words::suggestion;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// ICMP, RFC 792.
pub const ICMP: u8 = 1;
/// TCP, RFC 9293.
pub const TCP: u8 = 6;
/// UDP, RFC 768.
pub const UDP: u8 = 17;
/// ICMPv6, RFC 4443.
pub const ICMPV6: u8 = 58;
/// SCTP, RFC 9260.
pub const SCTP: u8 = 132;

/// Protocols with ports of both sides, or ICMP types and codes: the union of its parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ServiceSet(Vec<ServicePart>);

/// Some [`key`]s from some source ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServicePart {
    /// Protocols with destination ports, or ICMP types and codes.
    pub keys: Arc<RangeSet<u32>>,
    /// Source ports, 0 to 65,535; [`any_port`] where the text does not ask for them, so that protocols without ports match.
    pub source_ports: Arc<RangeSet<u32>>,
}

/// Every source port.
pub fn any_port() -> RangeSet<u32> {
    RangeSet::of([(0, LAST_PORT)])
}

/// The greatest port.
pub const LAST_PORT: u32 = u16::MAX as u32;

/// The number that stands for a protocol with a destination port, or an ICMP type and code.
pub const fn key(protocol: u8, selector: u16) -> u32 {
    (protocol as u32) << 16 | selector as u32
}

/// The greatest [`key`].
pub const LAST_KEY: u32 = key(255, u16::MAX);

impl ServiceSet {
    /// Every protocol and port.
    pub fn any() -> Self {
        Self::between(0, LAST_KEY)
    }

    /// Whether the set has every protocol and port.
    pub fn is_any(&self) -> bool {
        self.parts().iter().any(|part| part.keys.ranges() == [(0, LAST_KEY)] && part.has_any_port())
    }

    /// The parts, no two of which have the same source ports. Parts may overlap.
    pub fn parts(&self) -> &[ServicePart] {
        &self.0
    }

    /// Whether the set has a protocol with a source port and a destination port (or ICMP type and code).
    pub fn contains(&self, protocol: u8, source_port: u16, selector: u16) -> bool {
        let has = |part: &ServicePart| {
            part.keys.contains(key(protocol, selector)) && part.source_ports.contains(source_port.into())
        };
        self.0.iter().any(has)
    }

    /// Whether the set has a part for some source ports alone.
    pub fn asks_for_source_ports(&self) -> bool {
        !self.0.iter().all(ServicePart::has_any_port)
    }

    /// The union of some sets.
    pub fn union<'a>(sets: impl IntoIterator<Item = &'a ServiceSet>) -> Self {
        Self::of_parts(sets.into_iter().flat_map(|set| set.0.iter().cloned()))
    }

    /// What of the set is from some source ports.
    ///
    /// # Errors
    /// The first protocol of the set that has no ports.
    pub fn narrowed_to(&self, ports: &RangeSet<u32>) -> Result<Self, u8> {
        let without_ports = |part: &ServicePart| part.keys.without(&with_ports()).ranges().first().copied();
        if let Some((first, _)) = self.0.iter().find_map(without_ports) {
            return Err((first >> 16) as u8);
        }
        let narrowed = self.0.iter().map(|part| ServicePart {
            keys: part.keys.clone(),
            source_ports: Arc::new(part.source_ports.common(ports)),
        });
        Ok(Self::of_parts(narrowed))
    }

    /// Whether the set has nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parts with the same source ports become one, and no part repeats what another has from every port.
    fn of_parts(parts: impl IntoIterator<Item = ServicePart>) -> Self {
        let mut places: FxHashMap<Arc<RangeSet<u32>>, usize> = FxHashMap::default();
        let mut merged: Vec<ServicePart> = Vec::new();
        for part in parts.into_iter().filter(|part| !part.source_ports.is_empty() && !part.keys.is_empty()) {
            match places.get(&part.source_ports) {
                Some(&place) => {
                    let both = merged[place].keys.ranges().iter().chain(part.keys.ranges()).copied();
                    merged[place].keys = Arc::new(RangeSet::of(both));
                }
                None => {
                    places.insert(part.source_ports.clone(), merged.len());
                    merged.push(part);
                }
            }
        }
        if merged.len() > 1
            && let Some(any) = merged.iter().find(|part| part.has_any_port()).map(|part| part.keys.clone())
        {
            for part in merged.iter_mut().filter(|part| !part.has_any_port()) {
                part.keys = Arc::new(part.keys.without(&any));
            }
            merged.retain(|part| !part.keys.is_empty());
        }
        // Equal sets are equal values, whatever the order in which they were written.
        merged.sort_by(|a, b| a.source_ports.ranges().cmp(b.source_ports.ranges()));
        Self(merged)
    }

    fn between(first: u32, last: u32) -> Self {
        let keys = Arc::new(RangeSet::of([(first, last)]));
        Self(vec![ServicePart { keys, source_ports: Arc::new(any_port()) }])
    }

    /// Reads `tcp/80`, `udp/5000-5010`, `icmp/echo-request`, `icmp/3/4` (type and code), `icmp/16-255` (types), `protocol/47`,
    /// `protocol/8-16`.
    ///
    /// # Errors
    /// A message that says what is wrong, and a help that says what would be right.
    pub fn parse(text: &str) -> Result<Self, (String, Option<String>)> {
        let (name, rest) = text.split_once('/').unwrap_or((text, ""));
        match name {
            "tcp" => ports(TCP, text, rest),
            "udp" => ports(UDP, text, rest),
            "sctp" => ports(SCTP, text, rest),
            "icmp" => icmp(ICMP, ICMP_TYPES, text, rest),
            "icmpv6" => icmp(ICMPV6, ICMPV6_TYPES, text, rest),
            "protocol" => protocols(text, rest),
            _ => wrong(text, suggestion(name, ["tcp", "udp", "sctp", "icmp", "icmpv6", "protocol"])),
        }
    }

    /// A built-in service by its name; `any` is one of them.
    pub fn built_in(name: &str) -> Option<Self> {
        if name == "any" {
            return Some(Self::any());
        }
        let (_, parts) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        let sets = parts.iter().filter_map(|part| Self::parse(part).ok()).collect::<Vec<_>>();
        Some(Self::union(&sets))
    }
}

impl ServicePart {
    /// Whether the source port plays no part.
    pub fn has_any_port(&self) -> bool {
        self.source_ports.ranges() == [(0, LAST_PORT)]
    }
}

/// The keys of the protocols that have ports.
fn with_ports() -> RangeSet<u32> {
    RangeSet::of([TCP, UDP, SCTP].map(|protocol| (key(protocol, 0), key(protocol, u16::MAX))))
}

/// Reads source ports: `123`, `1024-65535`.
///
/// # Errors
/// A message that says what is wrong, and a help that says what would be right.
pub fn parse_ports(text: &str) -> Result<RangeSet<u32>, (String, Option<String>)> {
    let (first, last) = port_range(text).map_err(|help| {
        let help =
            help.unwrap_or_else(|| "write a port (\"123\") or ports (\"1024-65535\"), 0 to 65535".to_owned());
        (format!("`{text}` is not a source port"), Some(help))
    })?;
    Ok(RangeSet::of([(first.into(), last.into())]))
}

/// A port or two with a dash; or a help, if there is one to give.
fn port_range(text: &str) -> Result<(u16, u16), Option<String>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (number::<u16>(first.trim()), number::<u16>(last.trim())) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        (Some(first), Some(last)) => {
            Err(Some(format!("the ports end before they begin: write {last}-{first}")))
        }
        _ => Err(None),
    }
}

fn wrong<T>(text: &str, help: String) -> Result<T, (String, Option<String>)> {
    Err((format!("`{text}` is not a service"), Some(help)))
}

/// What somebody may have meant by a service that is none: ports without a protocol, a colon for the slash, several ports in one.
pub(crate) fn meant(text: &str) -> Option<String> {
    if port_range(text).is_ok() {
        return Some(format!("write \"tcp/{text}\" or \"udp/{text}\""));
    }
    let (protocol, rest) = text.split_once([':', '/', ' ']).or_else(|| text.split_once(','))?;
    let is_protocol = matches!(protocol, "tcp" | "udp" | "sctp");
    let ports: Vec<&str> = rest.split([',', ' ']).filter(|port| !port.is_empty()).collect();
    let is_written =
        !ports.is_empty() && ports.iter().all(|port| port_range(&port.replace(':', "-")).is_ok());
    if !is_protocol || !is_written {
        return None;
    }
    let all: Vec<String> =
        ports.iter().map(|port| format!("\"{protocol}/{}\"", port.replace(':', "-"))).collect();
    Some(if all.len() == 1 { format!("write {}", all[0]) } else { format!("write [{}]", all.join(", ")) })
}

fn ports(protocol: u8, text: &str, rest: &str) -> Result<ServiceSet, (String, Option<String>)> {
    match port_range(rest) {
        Ok((first, last)) => Ok(ServiceSet::between(key(protocol, first), key(protocol, last))),
        Err(help) => wrong(
            text,
            help.or_else(|| meant(text)).unwrap_or_else(|| {
                "write a port (\"tcp/80\") or ports (\"tcp/8000-8080\"), 0 to 65535".to_owned()
            }),
        ),
    }
}

fn protocols(text: &str, rest: &str) -> Result<ServiceSet, (String, Option<String>)> {
    match numbers(rest.split_once('-').unwrap_or((rest, rest))) {
        Some((first, last)) if first <= last => {
            Ok(ServiceSet::between(key(first, 0), key(last, u16::MAX)))
        }
        Some((first, last)) => wrong(text, format!("write \"protocol/{last}-{first}\"")),
        None => wrong(
            text,
            "write an IP protocol by its number (\"protocol/47\"), or several in a row (\"protocol/8-16\"), 0 to 255"
                .to_owned(),
        ),
    }
}

/// Two types of ICMP, or two protocols, by number.
fn numbers((first, last): (&str, &str)) -> Option<(u8, u8)> {
    Some((number(first)?, number(last)?))
}

/// A number of digits alone: `parse` would take `+80`.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn icmp(
    protocol: u8,
    types: &[(&str, u8)],
    text: &str,
    rest: &str,
) -> Result<ServiceSet, (String, Option<String>)> {
    let (kind, code) = match rest.split_once('/') {
        Some((kind, code)) => (kind, Some(code)),
        None => (rest, None),
    };
    let of = |kind: u8| key(protocol, u16::from(kind) << 8);
    if let (Some((first, last)), None) = (kind.split_once('-').and_then(numbers), code) {
        return match first <= last {
            true => Ok(ServiceSet::between(of(first), of(last) | 0xff)),
            false => wrong(text, format!("the types end before they begin: write {last}-{first}")),
        };
    }
    let number = types.iter().find(|(name, _)| *name == kind).map(|(_, n)| *n).or_else(|| self::number(kind));
    let Some(number) = number else {
        return wrong(
            text,
            format!("an ICMP type: {}", suggestion(kind, types.iter().map(|(name, _)| *name))),
        );
    };
    let base = u16::from(number) << 8;
    match code.map(self::number::<u8>) {
        None => Ok(ServiceSet::between(key(protocol, base), key(protocol, base | 0xff))),
        Some(Some(code)) => {
            let selector = base | u16::from(code);
            Ok(ServiceSet::between(key(protocol, selector), key(protocol, selector)))
        }
        Some(None) => wrong(text, "write the ICMP code as a number: \"icmp/3/4\" (0 to 255)".to_owned()),
    }
}

/// Names of ICMP types (IANA, ICMP parameters).
pub const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];

/// Names of ICMPv6 types (IANA, ICMPv6 parameters).
pub const ICMPV6_TYPES: &[(&str, u8)] = &[
    ("unreachable", 1),
    ("too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("listener-query", 130),
    ("listener-report", 131),
    ("listener-done", 132),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbour-solicitation", 135),
    ("neighbour-advertisement", 136),
    ("redirect", 137),
    ("listener-report-2", 143),
];

/// Services that need no definition, besides `any`. A policy may not define these names again.
pub const BUILT_IN: &[(&str, &[&str])] = &[
    ("tcp", &["tcp/0-65535"]),
    ("udp", &["udp/0-65535"]),
    ("sctp", &["sctp/0-65535"]),
    ("icmp", &["protocol/1"]),
    ("icmpv6", &["protocol/58"]),
    ("ping", &["icmp/echo-request", "icmpv6/echo-request"]),
    ("neighbour-discovery", &["icmpv6/133", "icmpv6/134", "icmpv6/135", "icmpv6/136", "icmpv6/143"]),
    ("http", &["tcp/80"]),
    ("https", &["tcp/443"]),
    ("quic", &["udp/443"]),
    ("dns", &["udp/53", "tcp/53"]),
    ("dns-over-tls", &["tcp/853"]),
    ("dhcp", &["udp/67-68"]),
    ("dhcpv6", &["udp/546-547"]),
    ("ntp", &["udp/123"]),
    ("ssh", &["tcp/22"]),
    ("telnet", &["tcp/23"]),
    ("ftp", &["tcp/21"]),
    ("ftp-data", &["tcp/20"]),
    ("smtp", &["tcp/25"]),
    ("submission", &["tcp/587", "tcp/465"]),
    ("imap", &["tcp/143", "tcp/993"]),
    ("pop3", &["tcp/110", "tcp/995"]),
    ("ldap", &["tcp/389", "tcp/636"]),
    ("kerberos", &["tcp/88", "udp/88"]),
    ("smb", &["tcp/445"]),
    ("rdp", &["tcp/3389", "udp/3389"]),
    ("snmp", &["udp/161"]),
    ("syslog", &["udp/514", "tcp/514"]),
    ("bgp", &["tcp/179"]),
    ("mysql", &["tcp/3306"]),
    ("postgresql", &["tcp/5432"]),
    ("ike", &["udp/500", "udp/4500"]),
    ("wireguard", &["udp/51820"]),
    ("traceroute", &["udp/33434-33534"]),
    ("igmp", &["protocol/2"]),
    ("gre", &["protocol/47"]),
    ("esp", &["protocol/50"]),
    ("ah", &["protocol/51"]),
    ("ospf", &["protocol/89"]),
    ("vrrp", &["protocol/112"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_as_they_are_written() {
        for (text, protocol, inside, outside) in [
            ("tcp/80", TCP, 80, 81),
            ("udp/5000-5010", UDP, 5010, 5011),
            ("icmp/echo-request", ICMP, 0x0800, 0x0000),
            ("icmp/3/4", ICMP, 0x0304, 0x0303),
            ("icmp/16-255", ICMP, 0xffff, 0x0fff),
            ("icmpv6/0-127", ICMPV6, 0x7fff, 0x8000),
            ("icmpv6/too-big", ICMPV6, 0x0200, 0x0300),
        ] {
            let set = ServiceSet::parse(text).unwrap();
            assert!(set.contains(protocol, 0, inside) && !set.contains(protocol, 0, outside), "{text}");
        }
        assert!(ServiceSet::parse("protocol/47").unwrap().contains(47, 0, 0));
        for (protocol, is_in) in [(6, false), (7, true), (47, true), (254, true), (255, false)] {
            let several = ServiceSet::parse("protocol/7-254").unwrap();
            assert_eq!(several.contains(protocol, 9, 0), is_in, "{protocol}");
            assert_eq!(several.contains(protocol, 9, u16::MAX), is_in, "{protocol}");
        }
    }

    #[test]
    fn source_ports_narrow_a_set_and_unions_keep_what_they_narrow() {
        let ports = |text: &str| parse_ports(text).unwrap();
        let web = ServiceSet::parse("tcp/80").unwrap();
        let peers = ServiceSet::parse("udp/123").unwrap().narrowed_to(&ports("123")).unwrap();
        let low = web.narrowed_to(&ports("0-1023")).unwrap();
        for (sets, packet, inside) in [
            (vec![&peers], (UDP, 123, 123), true),
            (vec![&peers], (UDP, 124, 123), false),
            (vec![&web, &peers], (TCP, 5, 80), true),
            (vec![&web, &peers], (UDP, 5, 123), false),
            (vec![&low, &peers], (TCP, 1023, 80), true),
            (vec![&low, &peers], (TCP, 1024, 80), false),
            (vec![&low, &web], (TCP, 1024, 80), true),
        ] {
            let (protocol, source_port, selector) = packet;
            let union = ServiceSet::union(sets.iter().copied());
            assert_eq!(union.contains(protocol, source_port, selector), inside, "{sets:?} {packet:?}");
        }
        assert_eq!(ServiceSet::union([&low, &web]), web);
        assert_eq!(ServiceSet::union([&peers, &low]), ServiceSet::union([&low, &peers]));
        assert_eq!(low.narrowed_to(&ports("2000")).unwrap(), ServiceSet::default());
        assert_eq!(ServiceSet::any().narrowed_to(&ports("53")), Err(0));
        assert_eq!(ServiceSet::parse("icmp/8").unwrap().narrowed_to(&ports("53")), Err(ICMP));
    }

    #[test]
    fn every_built_in_service_is_well_written() {
        for (name, parts) in BUILT_IN {
            for part in *parts {
                assert!(ServiceSet::parse(part).is_ok(), "{name}: {part}");
            }
        }
        assert!(ServiceSet::built_in("any").is_some_and(|s| s.is_any()));
    }

    #[test]
    fn mistakes_are_reported_with_the_remedy() {
        for (text, expected) in [
            ("tpc/80", "did you mean `tcp`?"),
            ("tcp/90-80", "80-90"),
            ("tcp/70000", "0 to 65535"),
            ("tcp/+80", "0 to 65535"),
            ("tcp/80-+90", "0 to 65535"),
            ("icmp/+8", "an ICMP type"),
            ("icmp/3/+4", "0 to 255"),
            ("protocol/+47", "0 to 255"),
            ("icmp/echo-requst", "did you mean `echo-request`?"),
            ("icmp/3/900", "0 to 255"),
            ("icmp/9-3", "write 3-9"),
            ("icmp/3-900", "an ICMP type"),
            ("protocol/256", "0 to 255"),
            ("protocol/7-256", "0 to 255"),
            ("protocol/7-", "0 to 255"),
            ("protocol/9-7", "write \"protocol/7-9\""),
        ] {
            let (_, help) = ServiceSet::parse(text).unwrap_err();
            assert!(help.as_deref().unwrap_or_default().contains(expected), "{text}: {help:?}");
        }
    }
}
