//! Services: sets of protocols with destination ports, or with ICMP types and codes.
//!
//! A service is a set of keys: the IP protocol number above 16 bits that are the destination port, the ICMP type and code
//! (`type << 8 | code`), or 0 for a protocol that has neither. Source ports are not part of the language: see
//! `docs/decisions/0011-no-source-ports.md`.

use crate::ranges::RangeSet;
use crate::words::suggestion;

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

/// A set of [`key`]s.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ServiceSet(pub RangeSet<u32>);

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
        self.0.ranges() == [(0, LAST_KEY)]
    }

    /// Whether the set has a protocol with a destination port (or ICMP type and code).
    pub fn contains(&self, protocol: u8, selector: u16) -> bool {
        self.0.contains(key(protocol, selector))
    }

    /// The union of some sets.
    pub fn union<'a>(sets: impl IntoIterator<Item = &'a ServiceSet>) -> Self {
        Self(RangeSet::of(sets.into_iter().flat_map(|s| s.0.ranges().iter().copied())))
    }

    fn between(first: u32, last: u32) -> Self {
        Self(RangeSet::of([(first, last)]))
    }

    /// Reads `tcp/80`, `udp/5000-5010`, `icmp/echo-request`, `icmp/3/4` (type and code), `protocol/47`.
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
            "protocol" => match rest.parse::<u8>() {
                Ok(number) => Ok(Self::between(key(number, 0), key(number, u16::MAX))),
                Err(_) => {
                    wrong(text, "write an IP protocol by its number: \"protocol/47\" (0 to 255)".to_owned())
                }
            },
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

fn wrong<T>(text: &str, help: String) -> Result<T, (String, Option<String>)> {
    Err((format!("`{text}` is not a service"), Some(help)))
}

fn ports(protocol: u8, text: &str, rest: &str) -> Result<ServiceSet, (String, Option<String>)> {
    let (first, last) = rest.split_once('-').unwrap_or((rest, rest));
    match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
        (Ok(first), Ok(last)) if first <= last => {
            Ok(ServiceSet::between(key(protocol, first), key(protocol, last)))
        }
        (Ok(first), Ok(last)) => {
            wrong(text, format!("the ports end before they begin: write {last}-{first}"))
        }
        _ => wrong(text, "write a port (\"tcp/80\") or ports (\"tcp/8000-8080\"), 0 to 65535".to_owned()),
    }
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
    let number = types.iter().find(|(name, _)| *name == kind).map(|(_, n)| *n).or_else(|| kind.parse().ok());
    let Some(number) = number else {
        return wrong(
            text,
            format!("an ICMP type: {}", suggestion(kind, types.iter().map(|(name, _)| *name))),
        );
    };
    let base = u16::from(number) << 8;
    match code.map(str::parse::<u8>) {
        None => Ok(ServiceSet::between(key(protocol, base), key(protocol, base | 0xff))),
        Some(Ok(code)) => {
            let selector = base | u16::from(code);
            Ok(ServiceSet::between(key(protocol, selector), key(protocol, selector)))
        }
        Some(Err(_)) => wrong(text, "write the ICMP code as a number: \"icmp/3/4\" (0 to 255)".to_owned()),
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
            ("icmpv6/too-big", ICMPV6, 0x0200, 0x0300),
        ] {
            let set = ServiceSet::parse(text).unwrap();
            assert!(set.contains(protocol, inside) && !set.contains(protocol, outside), "{text}");
        }
        assert!(ServiceSet::parse("protocol/47").unwrap().contains(47, 0));
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
    fn mistakes_are_told_with_the_remedy() {
        for (text, expected) in [
            ("tpc/80", "did you mean `tcp`?"),
            ("tcp/90-80", "80-90"),
            ("tcp/70000", "0 to 65535"),
            ("icmp/echo-requst", "did you mean `echo-request`?"),
            ("icmp/3/900", "0 to 255"),
            ("protocol/256", "0 to 255"),
        ] {
            let (_, help) = ServiceSet::parse(text).unwrap_err();
            assert!(help.as_deref().unwrap_or_default().contains(expected), "{text}: {help:?}");
        }
    }
}
