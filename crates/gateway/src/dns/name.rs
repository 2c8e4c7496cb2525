//! Names as text: in small letters, without the last dot, the root as `.`. A dot or a backslash within a label has a backslash before it, so that no
//! name looks like another.

use domain::base::Name;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A name of a message.
pub type Wire = Name<Vec<u8>>;

/// Whether a name is a domain or below it.
pub fn is_within(name: &str, domain: &str) -> bool {
    name == domain || is_below(name, domain)
}

/// Whether a name is below a domain.
pub fn is_below(name: &str, domain: &str) -> bool {
    if domain == "." {
        return name != ".";
    }
    let Some(labels) = name.strip_suffix(domain).and_then(|labels| labels.strip_suffix('.')) else {
        return false;
    };
    // A dot after an odd number of backslashes is a part of a label.
    let backslashes = labels.bytes().rev().take_while(|byte| *byte == b'\\').count();
    !labels.is_empty() && backslashes % 2 == 0
}

/// The name above; none above the root.
pub fn parent(name: &str) -> Option<&str> {
    if name == "." {
        return None;
    }
    let mut is_escaped = false;
    for (place, byte) in name.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'.' => return Some(&name[place + 1..]),
            _ => {}
        }
    }
    Some(".")
}

/// The address that a name of `in-addr.arpa` or `ip6.arpa` is about, if it is about a whole one.
pub fn reversed(name: &str) -> Option<IpAddr> {
    if let Some(labels) = name.strip_suffix(".in-addr.arpa") {
        let octets: Vec<u8> = labels.split('.').rev().map(str::parse).collect::<Result<_, _>>().ok()?;
        return Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into());
    }
    let nibbles: Vec<u8> = nibbles(name.strip_suffix(".ip6.arpa")?)?;
    let octets: Vec<u8> =
        nibbles.chunks(2).map(|pair| pair.iter().fold(0, |all, it| all << 4 | it)).collect();
    (nibbles.len() == 32).then_some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into())
}

/// The name of `in-addr.arpa` or `ip6.arpa` that is about an address.
pub fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let nibbles = v6.octets().into_iter().flat_map(|octet| [octet >> 4, octet & 15]);
            let labels: String = nibbles.rev().map(|nibble| format!("{nibble:x}.")).collect();
            labels + "ip6.arpa"
        }
    }
}

/// The nibbles that labels before `ip6.arpa` are, the first of the address first.
pub(super) fn nibbles(labels: &str) -> Option<Vec<u8>> {
    let nibble = |label: &str| u8::from_str_radix(label, 16).ok().filter(|_| label.len() == 1);
    labels.split('.').rev().map(nibble).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_others() {
        for (name, domain, below, within) in [
            ("www.example.com", "example.com", true, true),
            ("example.com", "example.com", false, true),
            ("wwwexample.com", "example.com", false, false),
            ("com", "example.com", false, false),
            ("com", ".", true, true),
            (".", ".", false, true),
            // One label, `www.example`, below com.
            ("www\\.example.com", "example.com", false, false),
            ("www\\.example.com", "com", true, true),
            // The label before ends with a backslash.
            ("www\\\\.example.com", "example.com", true, true),
            (".example.com", "example.com", false, false),
        ] {
            assert_eq!((is_below(name, domain), is_within(name, domain)), (below, within), "{name} {domain}");
        }
        let above: Vec<&str> = std::iter::successors(Some("a\\.b.c.d"), |name| parent(name)).collect();
        assert_eq!(above, ["a\\.b.c.d", "c.d", "d", "."]);
    }

    #[test]
    fn addresses_of_reverse_names() {
        let long = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
        for (name, expected) in [
            ("1.2.0.192.in-addr.arpa", Some("192.0.2.1")),
            (long, Some("2001:db8::1")),
            ("2.0.192.in-addr.arpa", None),
            ("1.1.2.0.192.in-addr.arpa", None),
            ("256.2.0.192.in-addr.arpa", None),
            ("in-addr.arpa", None),
            ("8.b.d.0.1.0.0.2.ip6.arpa", None),
            (&long.replace("8.b", "8.bb"), None),
            ("1.2.0.192.example", None),
        ] {
            let address: Option<IpAddr> = expected.map(|it| it.parse().unwrap());
            assert_eq!(reversed(name), address, "{name}");
            address.iter().for_each(|address| assert_eq!(reverse(*address), name));
        }
    }
}
