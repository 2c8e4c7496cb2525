//! Sets of IPv4 and IPv6 addresses, and the ways to write them: a host, a network, a range.

use crate::ranges::RangeSet;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A set of addresses of both families.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AddressSet {
    /// IPv4 addresses as numbers.
    pub v4: RangeSet<u32>,
    /// IPv6 addresses as numbers.
    pub v6: RangeSet<u128>,
}

impl AddressSet {
    /// Every address of both families.
    pub fn any() -> Self {
        Self { v4: RangeSet::full(), v6: RangeSet::full() }
    }

    /// Whether the set has every address of both families.
    pub fn is_any(&self) -> bool {
        self.v4.is_full() && self.v6.is_full()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether the set has an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.v4.contains(v4.into()),
            IpAddr::V6(v6) => self.v6.contains(v6.into()),
        }
    }

    /// The IPv4 addresses that are meant, if the set has none but IPv4 addresses written as IPv6 (`::ffff:192.0.2.1`), and all of them between two.
    /// The network of all such addresses (`::ffff:0:0/96`), which lists of what nobody may have name, is not meant for IPv4.
    pub fn mapped(&self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let &[(first, last)] = self.v6.ranges() else { return None };
        let [first, last] = [first, last].map(|number| Ipv6Addr::from(number).to_ipv4_mapped());
        let (first, last) = (first?, last?);
        let is_all = first.is_unspecified() && last.is_broadcast();
        (self.v4.is_empty() && !is_all).then_some((first, last))
    }

    /// The union of some sets.
    pub fn union<'a>(sets: impl IntoIterator<Item = &'a AddressSet> + Clone) -> Self {
        Self {
            v4: RangeSet::of(sets.clone().into_iter().flat_map(|s| s.v4.ranges().iter().copied())),
            v6: RangeSet::of(sets.into_iter().flat_map(|s| s.v6.ranges().iter().copied())),
        }
    }

    /// The addresses of this set that the other does not have.
    pub fn without(&self, other: &Self) -> Self {
        Self { v4: self.v4.without(&other.v4), v6: self.v6.without(&other.v6) }
    }

    /// The addresses from one to another of the same family, both included; `None` for two families or the wrong order.
    pub fn between(first: IpAddr, last: IpAddr) -> Option<Self> {
        match (first, last) {
            (IpAddr::V4(a), IpAddr::V4(b)) if a <= b => {
                Some(Self { v4: RangeSet::of([(a.into(), b.into())]), v6: RangeSet::default() })
            }
            (IpAddr::V6(a), IpAddr::V6(b)) if a <= b => {
                Some(Self { v4: RangeSet::default(), v6: RangeSet::of([(a.into(), b.into())]) })
            }
            _ => None,
        }
    }

    /// Reads `192.0.2.1`, `192.0.2.0/24`, `192.0.2.1-192.0.2.9`, and the same of IPv6.
    ///
    /// # Errors
    /// A message that says what is wrong, and a help that says what would be right.
    pub fn parse(text: &str) -> Result<Self, (String, Option<String>)> {
        if let Some((first, last)) = text.split_once('-') {
            return parse_range(text, first.trim(), last.trim());
        }
        if text.contains('/') {
            return parse_network(text);
        }
        let address: IpAddr = text.parse().map_err(|_| not_an_address(text))?;
        Self::between(address, address).ok_or_else(|| not_an_address(text))
    }
}

fn parse_range(text: &str, first: &str, last: &str) -> Result<AddressSet, (String, Option<String>)> {
    let (Ok(first), Ok(last)) = (first.parse::<IpAddr>(), last.parse::<IpAddr>()) else {
        return Err(not_an_address(text));
    };
    AddressSet::between(first, last).ok_or_else(|| {
        if first.is_ipv4() == last.is_ipv4() {
            (format!("the range `{text}` ends before it begins"), Some(format!("write \"{last}-{first}\"")))
        } else {
            (format!("the range `{text}` begins in one family of addresses and ends in the other"), None)
        }
    })
}

/// Reads a network, host bits included. Numbers with zeros before them are none: other programs take 010 for 8.
pub fn network(text: &str) -> Option<IpNet> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let is_number =
        bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits.len() == 1 || !bits.starts_with('0'));
    IpNet::new(address, bits.parse().ok().filter(|_| is_number)?).ok()
}

fn parse_network(text: &str) -> Result<AddressSet, (String, Option<String>)> {
    let network = network(text).ok_or_else(|| not_an_address(text))?;
    if network.addr() != network.network() {
        let help = format!(
            "write \"{}\" for the network, or \"{}\" for the one host",
            network.trunc(),
            network.addr()
        );
        return Err((format!("`{text}` is an address inside a network, not a network"), Some(help)));
    }
    let last = match network {
        IpNet::V4(v4) => IpAddr::V4(v4.broadcast()),
        IpNet::V6(v6) => IpAddr::V6(v6.broadcast()),
    };
    AddressSet::between(network.network(), last).ok_or_else(|| not_an_address(text))
}

fn not_an_address(text: &str) -> (String, Option<String>) {
    let words = "write a host (\"192.0.2.1\"), a network (\"192.0.2.0/24\", \"2001:db8::/32\") or a range \
                 (\"192.0.2.1-192.0.2.9\")";
    let help = if let Some(meant) = meant(text) {
        meant
    } else if is_like_a_name(text) {
        format!("write \"domain:{text}\" for what a gateway of DNS says of this name; else {words}")
    } else {
        words.to_owned()
    };
    (format!("`{text}` is not an address, a network or a range"), Some(help))
}

/// What somebody means who writes addresses as other programs take them.
fn meant(text: &str) -> Option<String> {
    if let Some(other) = text.strip_prefix('!') {
        let words = "write the exception as a rule above this one, or give an object `except`";
        return Some(format!("{words}: {{ members = \"any\", except = \"{}\" }}", other.trim_start()));
    }
    if let Some((address, mask)) = text.split_once('/')
        && let (Ok(address), Ok(mask)) = (address.parse::<Ipv4Addr>(), mask.parse::<Ipv4Addr>())
        && let Ok(network) = ipnet::Ipv4Net::with_netmask(address, mask)
    {
        return Some(format!("write the mask as a number of bits: \"{}\"", network.trunc()));
    }
    if let Ok(with_port) = text.parse::<SocketAddr>() {
        let (address, port) = (with_port.ip(), with_port.port());
        return Some(format!(
            "write \"{address}\", and the port in `service`: \"tcp/{port}\" or \"udp/{port}\""
        ));
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if (2..=8).contains(&parts.len()) && parts.iter().all(|part| AddressSet::parse(part).is_ok()) {
        return Some(format!("write [\"{}\"]", parts.join("\", \"")));
    }
    let bytes: Vec<&str> = text.split('.').collect();
    let is_byte = |byte: &&&str| byte.parse::<u8>().is_ok_and(|number| number.to_string() == **byte);
    let known = bytes.iter().take_while(is_byte).count();
    let is_pattern =
        bytes.len() == 4 && (1..4).contains(&known) && bytes[known..].iter().all(|it| *it == "*");
    is_pattern.then(|| format!("write \"{}/{}\"", text.replace('*', "0"), known * 8))
}

/// Whether somebody may mean a host by its name: a dot, and letters behind the last one.
fn is_like_a_name(text: &str) -> bool {
    let last = text.rsplit_once('.').map_or("", |(_, last)| last);
    last.len() > 1 && last.bytes().all(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_they_are_written() {
        for (text, inside, outside) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.1-192.0.2.9", "192.0.2.9", "192.0.2.10"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "0.0.0.0"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("2001:db8::1 - 2001:db8::3", "2001:db8::2", "2001:db8::4"),
        ] {
            let set = AddressSet::parse(text).unwrap();
            assert!(set.contains(inside.parse().unwrap()), "{inside} in {text}");
            assert!(!set.contains(outside.parse().unwrap()), "{outside} not in {text}");
        }
    }

    #[test]
    fn mistakes_are_reported_with_the_remedy() {
        for (text, expected) in [
            ("10.0.0.1/8", "write \"10.0.0.0/8\" for the network"),
            ("10.0.0.9-10.0.0.1", "write \"10.0.0.1-10.0.0.9\""),
            ("10.0.0", "write a host"),
            ("10.0.0.0/33", "write a host"),
            ("010.0.0.0/8", "write a host"),
            ("192.168.001.0/24", "write a host"),
            ("10.0.0.0/+8", "write a host"),
            ("10.0.0.0/", "write a host"),
            ("10.0.0.0/08", "write a host"),
            ("/8", "write a host"),
            ("010.0.0.1", "write a host"),
            ("010.0.0.1-10.0.0.2", "write a host"),
            ("192.168.1.7/255.255.255.0", "write the mask as a number of bits: \"192.168.1.0/24\""),
            ("192.168.1.0/255.0.255.0", "write a host"),
            ("192.168.1.*", "write \"192.168.1.0/24\""),
            ("10.*.*.*", "write \"10.0.0.0/8\""),
            ("10.*.1.*", "write a host"),
            ("10.0.0.1:80", "write \"10.0.0.1\", and the port in `service`: \"tcp/80\" or \"udp/80\""),
            ("[2001:db8::1]:53", "write \"2001:db8::1\", and the port"),
            ("10.0.0.1, 10.0.0.0/8", "write [\"10.0.0.1\", \"10.0.0.0/8\"]"),
            ("10.0.0.1,", "write a host"),
            ("! 10.0.0.0/8", "or give an object `except`: { members = \"any\", except = \"10.0.0.0/8\" }"),
        ] {
            let (_, help) = AddressSet::parse(text).unwrap_err();
            assert!(help.as_deref().unwrap_or_default().contains(expected), "{text}: {help:?}");
        }
        assert!(AddressSet::parse("10.0.0.1-::1").unwrap_err().0.contains("family"));
    }
}
