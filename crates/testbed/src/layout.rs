//! The addressing of a bed: prefixes, gateways, hosts and MAC addresses. Every such fact is written here and
//! nowhere else; firewalls are configured from it and the generator reads it. Pure.
//!
//! IPv4 is RFC 2544's 198.18.0.0/15, IPv6 RFC 5180's 2001:2::/48:
//!
//! | zone | IPv4 | IPv6 | firewall's address | zone's own address |
//! |---|---|---|---|---|
//! | private | 198.18.0.0/16 | 2001:2:0:1::/64 | 198.18.0.1, ::1 | 198.18.0.2, ::2 |
//! | hostile | 198.19.0.0/17 | 2001:2:0:2::/64 | 198.19.0.1, ::1 | 198.19.0.2, ::2 |
//! | DMZ | 198.19.128.0/17 | 2001:2:0:3::/64 | 198.19.128.1, ::1 | 198.19.128.2, ::2 |
//!
//! The first 256 addresses of a prefix belong to the bed; test hosts are the others. A firewall reaches all hosts
//! of a zone through the zone's own address, so one static neighbour a zone is enough. Source translation maps
//! the private prefix one to one to 100.64.0.0/16 (RFC 6598) and 2001:2:0:4::/64: with the hosts kept, whoever
//! generates the replies knows their addresses without having seen a translated frame.
//!
//! Attackers, whose range is 10.0.0.0/8 and 2001:2:1::/104, are behind the private zone's port: the firewall reaches them
//! as it reaches that zone's hosts. A part of the rest of the world, 128.0.0.0/3 and 2400::/6, is behind the hostile zone's port in the
//! same way, so that rules about it decide about something.

use crate::netns::Namespace;
use ipnet::{Ipv4Net, Ipv6Net};
use measure::shape::{IpVersion, Zone, ZoneForm};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses at the start of each prefix that no test host has.
pub const RESERVED_ADDRESSES: u32 = 256;
/// The private hosts' addresses after source translation.
pub const TRANSLATED_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 16);
/// The private hosts' addresses after source translation.
pub const TRANSLATED_V6: Ipv6Net = Ipv6Net::new_assert(v6(4, 0), 64);
/// All IPv4 addresses of tests (RFC 2544 appendix C.2.2).
pub const TEST_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15);
/// All IPv6 addresses of tests (RFC 5180 section 8).
pub const TEST_V6: Ipv6Net = Ipv6Net::new_assert(v6(0, 0), 48);
/// Where floods come from, behind the private zone's port.
pub const ATTACKERS_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8);
/// Where floods come from, behind the private zone's port: as many addresses as in IPv4.
pub const ATTACKERS_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 2, 1, 0, 0, 0, 0, 0), 104);
/// What rules name outside the bed, as far as a way leads there: behind the hostile zone's port.
pub const WORLD_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(128, 0, 0, 0), 3);
/// What rules name outside the bed, as far as a way leads there: behind the hostile zone's port.
pub const WORLD_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2400, 0, 0, 0, 0, 0, 0, 0), 6);
/// Addresses that no rule, list or country table ever names (RFC 5737): illegal attempts come from them.
pub const STRANGERS_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, 0), 24);
/// Addresses that no rule ever names (RFC 3849).
pub const STRANGERS_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32);
/// Addresses of the private zone, of no test host: the first is on the first block list, and so on. The lists' probes are
/// sent from them.
pub const LISTED_CANARIES: [Ipv4Addr; 3] =
    [Ipv4Addr::new(198, 18, 0, 250), Ipv4Addr::new(198, 18, 0, 251), Ipv4Addr::new(198, 18, 0, 252)];
/// A part of the private zone, of no test host, that no country table has. A table's probe is sent from it.
pub const OUTSIDE_COUNTRIES: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 128), 26);
/// The address in [`OUTSIDE_COUNTRIES`] that probes use.
pub const COUNTRY_CANARY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 150);

const fn v6(subnet: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 2, 0, subnet, 0, 0, 0, host)
}

/// The addressing of one zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneAddresses {
    /// The zone.
    pub zone: Zone,
    /// Its IPv4 prefix.
    pub v4: Ipv4Net,
    /// Its IPv6 prefix.
    pub v6: Ipv6Net,
}

impl ZoneAddresses {
    /// The addressing of a zone.
    pub const fn of(zone: Zone) -> Self {
        let (base, length, subnet) = match zone {
            Zone::Private => (Ipv4Addr::new(198, 18, 0, 0), 16, 1),
            Zone::Hostile => (Ipv4Addr::new(198, 19, 0, 0), 17, 2),
            Zone::Dmz => (Ipv4Addr::new(198, 19, 128, 0), 17, 3),
        };
        Self { zone, v4: Ipv4Net::new_assert(base, length), v6: Ipv6Net::new_assert(v6(subnet, 0), 64) }
    }

    /// The firewall's address in the zone.
    pub fn gateway_v4(&self) -> Ipv4Addr {
        self.v4_at(1)
    }

    /// The firewall's address in the zone.
    pub fn gateway_v6(&self) -> Ipv6Addr {
        self.v6_at(1)
    }

    /// The zone's own address, through which the firewall reaches every host of it.
    pub fn own_v4(&self) -> Ipv4Addr {
        self.v4_at(2)
    }

    /// The zone's own address, through which the firewall reaches every host of it.
    pub fn own_v6(&self) -> Ipv6Addr {
        self.v6_at(2)
    }

    /// Test hosts: the most distinct addresses that one zone can offer, the same for both IP versions.
    pub fn host_count(&self) -> u32 {
        (1u32 << (32 - self.v4.prefix_len())) - RESERVED_ADDRESSES
    }

    /// Whether this is a test host's address.
    pub fn has_test_host(&self, address: IpAddr) -> bool {
        self.test_host(address).is_some()
    }

    /// The number of the test host that has this address.
    pub fn test_host(&self, address: IpAddr) -> Option<u32> {
        let offset = match address {
            IpAddr::V4(address) => {
                u128::from(u32::from(address)).wrapping_sub(u32::from(self.v4.network()).into())
            }
            IpAddr::V6(address) => u128::from(address).wrapping_sub(self.v6.network().into()),
        };
        let host = offset.checked_sub(u128::from(RESERVED_ADDRESSES))?;
        u32::try_from(host).ok().filter(|host| *host < self.host_count())
    }

    /// Test host `index`; indices beyond [`Self::host_count`] start over.
    pub fn host_v4(&self, index: u32) -> Ipv4Addr {
        self.v4_at(RESERVED_ADDRESSES + index % self.host_count())
    }

    /// Test host `index`; indices beyond [`Self::host_count`] start over.
    pub fn host_v6(&self, index: u32) -> Ipv6Addr {
        self.v6_at(RESERVED_ADDRESSES + index % self.host_count())
    }

    /// Test host `index` of an IP version.
    pub fn host(&self, ip: IpVersion, index: u32) -> IpAddr {
        match ip {
            IpVersion::V4 => self.host_v4(index).into(),
            IpVersion::V6 => self.host_v6(index).into(),
        }
    }

    fn v4_at(&self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.v4.network()) + offset)
    }

    fn v6_at(&self, offset: u32) -> Ipv6Addr {
        Ipv6Addr::from(u128::from(self.v6.network()) + u128::from(offset))
    }
}

/// What a firewall reaches through a zone besides the zone itself.
pub const fn behind(zone: Zone) -> Option<(Ipv4Net, Ipv6Net)> {
    match zone {
        Zone::Private => Some((ATTACKERS_V4, ATTACKERS_V6)),
        Zone::Hostile => Some((WORLD_V4, WORLD_V6)),
        Zone::Dmz => None,
    }
}

/// What an address becomes when the firewall translates sources; addresses outside the private zone stay.
pub fn translated(address: IpAddr) -> IpAddr {
    let private = ZoneAddresses::of(Zone::Private);
    match address {
        IpAddr::V4(a) if private.v4.contains(&a) => {
            let host = u32::from(a) & u32::from(private.v4.hostmask());
            Ipv4Addr::from(u32::from(TRANSLATED_V4.network()) | host).into()
        }
        IpAddr::V6(a) if private.v6.contains(&a) => {
            let host = u128::from(a) & u128::from(private.v6.hostmask());
            Ipv6Addr::from(u128::from(TRANSLATED_V6.network()) | host).into()
        }
        other => other,
    }
}

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address of one end of a zone's link: locally administered, the same in every bed.
    pub const fn of_end(zone: Zone, end: End) -> Self {
        let zone = match zone {
            Zone::Private => 1,
            Zone::Hostile => 2,
            Zone::Dmz => 3,
        };
        Self([2, 0, 0, 0, zone, end as u8])
    }

    /// From `02:00:00:00:01:02`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(Self(bytes))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The ends of a zone's link. With a rate-limited link there are four, in the order zone, link, link, firewall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum End {
    /// In the firewall.
    Firewall = 1,
    /// In the zone.
    Zone = 2,
    /// In the link namespace, towards the zone.
    LinkToZone = 3,
    /// In the link namespace, towards the firewall.
    LinkToFirewall = 4,
}

/// One network interface of a bed.
#[derive(Debug, Clone)]
pub struct PortEnd {
    /// Where it is.
    pub namespace: Namespace,
    /// Its name there.
    pub device: String,
    /// Its index there.
    pub ifindex: u32,
    /// Its Ethernet address.
    pub mac: Mac,
}

/// A zone's port: where the generator sends and the sink receives.
#[derive(Debug, Clone)]
pub struct ZonePort {
    /// The zone.
    pub zone: Zone,
    /// Its addresses.
    pub addresses: ZoneAddresses,
    /// The zone's end of the link: the generator sends through it, the sink attaches to it.
    pub end: PortEnd,
    /// The firewall's end, where the bed has a firewall of its own.
    pub firewall: Option<PortEnd>,
    /// Destination of the frames that the zone sends: the firewall's end, or the other zone's for a bare wire or a bridge.
    pub gateway_mac: Mac,
}

/// All ports of a bed, in the order private, DMZ, hostile.
#[derive(Debug, Clone)]
pub struct BedLayout {
    /// The ports.
    pub ports: Vec<ZonePort>,
    /// Largest IP packet of every link, in bytes.
    pub mtu: u16,
}

impl BedLayout {
    /// The port of a zone, if the bed has that zone.
    pub fn port(&self, zone: Zone) -> Option<&ZonePort> {
        self.ports.iter().find(|port| port.zone == zone)
    }

    /// Every end of zones and firewall, zones first.
    pub fn ends(&self) -> impl Iterator<Item = &PortEnd> {
        self.ports.iter().map(|p| &p.end).chain(self.ports.iter().filter_map(|p| p.firewall.as_ref()))
    }
}

/// The zones of a form, in the order private, DMZ, hostile.
pub const fn zones_of(form: ZoneForm) -> &'static [Zone] {
    match form {
        ZoneForm::Two => &[Zone::Private, Zone::Hostile],
        ZoneForm::Three => &[Zone::Private, Zone::Dmz, Zone::Hostile],
    }
}

/// The pairs of zones that forward traffic goes between: from the better protected to the less protected zone,
/// and from everywhere to the DMZ. The same as [`measure::shape::Setup::lanes`] has them.
pub const fn forward_lanes_of(form: ZoneForm) -> &'static [(Zone, Zone)] {
    match form {
        ZoneForm::Two => &[(Zone::Private, Zone::Hostile)],
        ZoneForm::Three => {
            &[(Zone::Private, Zone::Hostile), (Zone::Private, Zone::Dmz), (Zone::Hostile, Zone::Dmz)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_lie_in_the_test_ranges_and_apart() {
        let zones = [Zone::Private, Zone::Dmz, Zone::Hostile].map(ZoneAddresses::of);
        for (i, a) in zones.iter().enumerate() {
            assert!(TEST_V4.contains(&a.v4) && TEST_V6.contains(&a.v6), "{a:?}");
            for b in &zones[i + 1..] {
                assert!(!a.v4.contains(&b.v4) && !b.v4.contains(&a.v4), "{a:?} {b:?}");
                assert_ne!(a.v6, b.v6);
            }
        }
    }

    #[test]
    fn hosts_fill_the_prefix_and_start_over() {
        for zone in [Zone::Private, Zone::Dmz, Zone::Hostile] {
            let a = ZoneAddresses::of(zone);
            assert_eq!(a.host_v4(0), Ipv4Addr::from(u32::from(a.v4.network()) + 256));
            assert_eq!(a.host_v4(a.host_count() - 1), a.v4.broadcast());
            assert_eq!(a.host_v4(a.host_count()), a.host_v4(0));
            assert!(a.v6.contains(&a.host_v6(a.host_count() - 1)));
        }
    }

    #[test]
    fn translation_keeps_the_host() {
        let rows = [
            ("198.18.7.9", "100.64.7.9"),
            ("198.19.7.9", "198.19.7.9"),
            ("2001:2:0:1::abcd", "2001:2:0:4::abcd"),
            ("2001:2:0:2::abcd", "2001:2:0:2::abcd"),
        ];
        for (before, after) in rows {
            assert_eq!(translated(before.parse().unwrap()), after.parse::<IpAddr>().unwrap(), "{before}");
        }
    }

    #[test]
    fn macs_are_read_as_they_are_written() {
        let mac = Mac::of_end(Zone::Dmz, End::Firewall);
        assert_eq!(mac.to_string(), "02:00:00:00:03:01");
        assert_eq!(Mac::parse(&mac.to_string()), Some(mac));
        for wrong in ["", "02:00:00:00:03", "02:00:00:00:03:01:00", "2:0:0:0:3:1", "02:00:00:00:03:0g"] {
            assert_eq!(Mac::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn canaries_are_private_but_no_hosts() {
        let private = ZoneAddresses::of(Zone::Private);
        for canary in LISTED_CANARIES.into_iter().chain([COUNTRY_CANARY]) {
            assert!(private.v4.contains(&canary) && canary < private.host_v4(0), "{canary}");
            assert_eq!(OUTSIDE_COUNTRIES.contains(&canary), canary == COUNTRY_CANARY, "{canary}");
        }
    }
}
