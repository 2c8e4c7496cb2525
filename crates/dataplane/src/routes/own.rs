//! With which of its addresses the firewall answers on an interface. Pure.

use netlink_packet_route::address::AddressScope;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whom ICMP errors come from on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Own {
    pub(super) v4: Option<Ipv4Addr>,
    pub(super) v6: Option<Ipv6Addr>,
}

/// `struct own_addresses`.
pub(super) fn own(own: Own) -> [u8; 20] {
    let mut value = [0; 20];
    value[..4].copy_from_slice(&own.v4.map_or([0; 4], |a| a.octets()));
    value[4..].copy_from_slice(&own.v6.map_or([0; 16], |a| a.octets()));
    value
}

/// An address of an interface, as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) ifindex: u32,
    pub(super) address: IpAddr,
    pub(super) scope: AddressScope,
    /// Not to be used: not proved to be unique yet, or going out of use.
    pub(super) is_unfit: bool,
}

/// For each interface that has addresses the first one of its own with the widest scope; where it has none that is more
/// than of the link, the first of another interface, as Linux does (RFC 1812 section 4.3.2.4).
pub(super) fn own_addresses(listed: &[Listed]) -> BTreeMap<u32, Own> {
    let fit: Vec<&Listed> = listed.iter().filter(|l| !l.is_unfit && !l.address.is_loopback()).collect();
    let is_wide = |l: &Listed| l.scope == AddressScope::Universe;
    let choose = |ifindex: u32, is_v4: bool| -> Option<IpAddr> {
        let mut of_family = fit.iter().filter(|l| l.address.is_ipv4() == is_v4);
        let here = of_family.clone().find(|l| l.ifindex == ifindex && is_wide(l));
        let elsewhere = || of_family.clone().find(|l| is_wide(l));
        let narrow = here.or_else(elsewhere).or_else(|| of_family.find(|l| l.ifindex == ifindex));
        narrow.map(|l| l.address)
    };
    let own_of = |ifindex| {
        let v4 = choose(ifindex, true).and_then(|a| if let IpAddr::V4(a) = a { Some(a) } else { None });
        let v6 = choose(ifindex, false).and_then(|a| if let IpAddr::V6(a) = a { Some(a) } else { None });
        (ifindex, Own { v4, v6 })
    };
    listed.iter().map(|l| own_of(l.ifindex)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_answers_with_its_own_address_or_the_next_best() {
        let listed = |ifindex, address: &str, scope, is_unfit| Listed {
            ifindex,
            address: address.parse().unwrap(),
            scope,
            is_unfit,
        };
        use AddressScope::{Host, Link, Universe};
        let all = [
            listed(1, "127.0.0.1", Host, false),
            listed(1, "::1", Host, false),
            listed(2, "198.18.0.1", Universe, false),
            listed(2, "198.18.0.3", Universe, false),
            listed(2, "fe80::2", Link, false),
            listed(3, "fe80::3", Link, false),
            listed(3, "2001:2::1", Universe, true),
            listed(4, "fe80::4", Link, false),
            listed(4, "2001:2::4", Universe, false),
        ];
        let rows =
            [(1, "198.18.0.1", "2001:2::4"), (2, "198.18.0.1", "2001:2::4"), (3, "198.18.0.1", "2001:2::4")];
        let own = own_addresses(&all);
        for (ifindex, v4, v6) in rows {
            let expected = Own { v4: v4.parse().ok(), v6: v6.parse().ok() };
            assert_eq!(own[&ifindex], expected, "{ifindex}");
        }
        let without_v6 = own_addresses(&all[..6]);
        assert_eq!(without_v6[&3].v6, "fe80::3".parse().ok());
        assert_eq!(own_addresses(&all[..2])[&1], Own::default());
    }
}
