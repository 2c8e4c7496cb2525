//! Names and addresses that mean something in one network alone. Nobody outside is asked for such names (RFC 6303, RFC 6761), and no answer from
//! outside says that a name has such an address, unless a rule lets it.

use super::name::{is_within, nibbles};
use crate::reach;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What becomes of a name that is not everybody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// It is this machine, whoever asks.
    Localhost,
    /// It is nobody's, and there is no such name: the domain that says so.
    Nobodys(&'static str),
    /// It is of some network: of its zone others are asked only if a rule lets them.
    OfANetwork(&'static str),
}

const NOBODYS: [&str; 2] = ["invalid", "onion"];
const OF_A_NETWORK: [&str; 2] = ["local", "home.arpa"];
/// Reverse zones of IPv4 (RFC 6303 sections 4.1 and 4.2), and of addresses that providers share (RFC 7793).
const REVERSE: [&str; 10] = [
    "10.in-addr.arpa",
    "168.192.in-addr.arpa",
    "0.in-addr.arpa",
    "127.in-addr.arpa",
    "254.169.in-addr.arpa",
    "2.0.192.in-addr.arpa",
    "100.51.198.in-addr.arpa",
    "113.0.203.in-addr.arpa",
    "255.255.255.255.in-addr.arpa",
    "8.b.d.0.1.0.0.2.ip6.arpa",
];

/// What is special about a name.
pub fn special(name: &str) -> Option<Special> {
    if is_within(name, "localhost") {
        return Some(Special::Localhost);
    }
    let among = |zones: &[&'static str]| zones.iter().find(|zone| is_within(name, zone)).copied();
    if let Some(zone) = among(&NOBODYS) {
        return Some(Special::Nobodys(zone));
    }
    among(&OF_A_NETWORK).or_else(|| among(&REVERSE)).or_else(|| in_ranges(name)).map(Special::OfANetwork)
}

/// Reverse zones that are ranges of labels: 172.16 to 172.31, 100.64 to 100.127, fc00::/7, fe80::/10, and the addresses `::` and `::1`.
fn in_ranges(name: &str) -> Option<&'static str> {
    if let Some(labels) = name.strip_suffix(".in-addr.arpa") {
        let mut octets = labels.rsplit('.').map(|label| label.parse::<u8>().ok());
        return match (octets.next()??, octets.next()??) {
            (172, 16..=31) => Some("172.in-addr.arpa"),
            (100, 64..=127) => Some("100.in-addr.arpa"),
            _ => None,
        };
    }
    let nibbles = nibbles(name.strip_suffix(".ip6.arpa")?)?;
    match nibbles[..] {
        [0xf, 0xc | 0xd, ..] => Some("f.ip6.arpa"),
        [0xf, 0xe, 8..=0xb, ..] => Some("e.f.ip6.arpa"),
        _ if nibbles.len() == 32 && nibbles[..31].iter().all(|it| *it == 0) && nibbles[31] < 2 => {
            Some("0.ip6.arpa")
        }
        _ => None,
    }
}

/// Whether an address is of a private network, a link, a machine, or nobody's.
pub fn is_private(address: IpAddr) -> bool {
    let address = reach::embedded(address).map_or(address, IpAddr::V4);
    let is_shared = |v4: Ipv4Addr| v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
    let is_of_a_site = |v6: Ipv6Addr| v6.is_unique_local() || v6.segments()[0] & 0xffc0 == 0xfec0;
    reach::never_a_server(address).is_some()
        || match address {
            IpAddr::V4(v4) => v4.is_private() || is_shared(v4),
            IpAddr::V6(v6) => is_of_a_site(v6),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_everybodys() {
        use Special::{Localhost, Nobodys, OfANetwork};
        let fd = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa";
        let one = format!("1.{}ip6.arpa", "0.".repeat(31));
        for (name, expected) in [
            ("localhost", Some(Localhost)),
            ("a.localhost", Some(Localhost)),
            ("localhost.example.com", None),
            ("a.invalid", Some(Nobodys("invalid"))),
            ("printer.local", Some(OfANetwork("local"))),
            ("mylocal", None),
            ("1.2.0.10.in-addr.arpa", Some(OfANetwork("10.in-addr.arpa"))),
            ("10.in-addr.arpa", Some(OfANetwork("10.in-addr.arpa"))),
            ("1.0.110.in-addr.arpa", None),
            ("1.0.16.172.in-addr.arpa", Some(OfANetwork("172.in-addr.arpa"))),
            ("1.0.15.172.in-addr.arpa", None),
            ("1.0.32.172.in-addr.arpa", None),
            ("172.in-addr.arpa", None),
            ("1.0.127.100.in-addr.arpa", Some(OfANetwork("100.in-addr.arpa"))),
            ("1.0.128.100.in-addr.arpa", None),
            ("1.2.3.4.in-addr.arpa", None),
            ("in-addr.arpa", None),
            (fd, Some(OfANetwork("f.ip6.arpa"))),
            ("c.f.ip6.arpa", Some(OfANetwork("f.ip6.arpa"))),
            ("a.e.f.ip6.arpa", Some(OfANetwork("e.f.ip6.arpa"))),
            ("c.e.f.ip6.arpa", None),
            (&one, Some(OfANetwork("0.ip6.arpa"))),
            ("8.b.d.0.1.0.0.2.ip6.arpa", Some(OfANetwork("8.b.d.0.1.0.0.2.ip6.arpa"))),
            ("9.b.d.0.1.0.0.2.ip6.arpa", None),
            ("www.example.com", None),
        ] {
            assert_eq!(special(name), expected, "{name}");
        }
    }

    #[test]
    fn addresses_that_are_not_everybodys() {
        for (address, expected) in [
            ("10.1.2.3", true),
            ("172.16.0.1", true),
            ("172.32.0.1", false),
            ("192.168.0.1", true),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("127.0.0.1", true),
            ("0.0.0.0", true),
            ("169.254.169.254", true),
            ("224.0.0.1", true),
            ("198.51.100.1", false),
            ("::1", true),
            ("::", true),
            ("::ffff:10.0.0.1", true),
            ("::ffff:198.51.100.1", false),
            ("64:ff9b::a00:1", true),
            ("2002:c0a8:1::1", true),
            ("fe80::1", true),
            ("fec0::1", true),
            ("fd00::1", true),
            ("ff02::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_private(address.parse().unwrap()), expected, "{address}");
        }
    }
}
