//! Which addresses a gateway connects to. Whoever asks it to connect must not get what only this machine, or its link, may (server-side request
//! forgery). An address is judged when it is known, and then connected to itself: a name that is looked up again would be another.

use crate::config::Addresses;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Why an address is not connected to, a short identifier; `None` if it may be. `is_own` says whether this machine has an address.
pub fn refusal(address: IpAddr, reach: &Addresses, is_own: impl Fn(IpAddr) -> bool) -> Option<&'static str> {
    // Judged as what packets will be sent to, whatever form that comes in.
    let address = embedded(address).map_or(address, IpAddr::V4);
    if reach.has(address) {
        return None;
    }
    if let Some(why) = never_a_server(address) {
        return Some(why);
    }
    is_own(address).then_some("own-address")
}

/// Whether this machine has an address: only then a socket can have it. A machine that lets sockets have any address (`ip_nonlocal_bind`)
/// has all of them here, and reaches nothing.
pub fn is_own(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::AddrNotAvailable,
    }
}

/// The IPv4 address in one of IPv6 that is translated back on its way: mapped, NAT64 (RFC 6052), 6to4 (RFC 3056), compatible.
pub(crate) fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let octets = v6.octets();
    let at =
        |place: usize| Ipv4Addr::new(octets[place], octets[place + 1], octets[place + 2], octets[place + 3]);
    let nat64 = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];
    if let Some(v4) = v6.to_ipv4_mapped() {
        return Some(v4);
    }
    if octets[..12] == nat64 {
        return Some(at(12));
    }
    if octets[..2] == [0x20, 0x02] {
        return Some(at(2));
    }
    let is_compatible = octets[..12] == [0; 12] && v6 != Ipv6Addr::UNSPECIFIED && v6 != Ipv6Addr::LOCALHOST;
    is_compatible.then(|| at(12))
}

/// Addresses that are no server's, or this machine's or a link's alone.
pub(crate) fn never_a_server(address: IpAddr) -> Option<&'static str> {
    let (is_loopback, is_link_local, is_nobodys) = match address {
        IpAddr::V4(v4) => (
            v4.is_loopback(),
            v4.is_link_local(),
            v4.octets()[0] == 0 || v4.is_multicast() || v4.is_broadcast() || v4.octets()[0] >= 240,
        ),
        IpAddr::V6(v6) => {
            (v6.is_loopback(), v6.is_unicast_link_local(), v6.is_unspecified() || v6.is_multicast())
        }
    };
    match (is_loopback, is_link_local, is_nobodys) {
        (true, _, _) => Some("loopback"),
        (_, true, _) => Some("link-local"),
        (_, _, true) => Some("no-server-address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_this_machine_and_its_links_may_is_not_reached() {
        let reach = Addresses(vec![("127.0.0.9".parse().unwrap(), "127.0.0.9".parse().unwrap())]);
        let own: IpAddr = "10.0.0.1".parse().unwrap();
        for (address, expected) in [
            ("192.0.2.1", None),
            ("10.0.0.2", None),
            ("2001:db8::1", None),
            ("10.0.0.1", Some("own-address")),
            ("::ffff:10.0.0.1", Some("own-address")),
            ("64:ff9b::10.0.0.1", Some("own-address")),
            ("2002:a00:1::1", Some("own-address")),
            ("::10.0.0.1", Some("own-address")),
            ("127.0.0.1", Some("loopback")),
            ("127.255.0.3", Some("loopback")),
            ("::1", Some("loopback")),
            ("::ffff:127.0.0.1", Some("loopback")),
            ("64:ff9b::7f00:1", Some("loopback")),
            ("169.254.169.254", Some("link-local")),
            ("::ffff:169.254.169.254", Some("link-local")),
            ("fe80::1", Some("link-local")),
            ("0.0.0.0", Some("no-server-address")),
            ("0.1.2.3", Some("no-server-address")),
            ("::", Some("no-server-address")),
            ("224.0.0.1", Some("no-server-address")),
            ("255.255.255.255", Some("no-server-address")),
            ("240.0.0.1", Some("no-server-address")),
            ("ff02::1", Some("no-server-address")),
            ("127.0.0.9", None),
            ("::ffff:127.0.0.9", None),
        ] {
            let found = refusal(address.parse().unwrap(), &reach, |it| it == own);
            assert_eq!(found, expected, "{address}");
        }
    }

    #[test]
    fn this_machine_knows_its_own() {
        for (address, own) in [("127.0.0.1", true), ("192.0.2.77", false)] {
            assert_eq!(is_own(address.parse().unwrap()), own, "{address}");
        }
    }
}
