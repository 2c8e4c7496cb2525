//! Rule sets as they are in use, out of a seed: twelve families with the traits that were published of real filter sets.
//!
//! The bench measures firewalls with them and the firewall's own tests build tables of them. Neither may know the other, so the
//! generator stands here by itself. It makes filters as data: it knows no language of rules, and decides nothing about actions, zones or
//! which frames a rule may not match. The same seed gives the same filters on every machine and for ever.

mod family;
mod random;

pub use family::{Base, Family, source_ports};
pub use random::{Random, mix};

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// First and last port.
pub type PortRange = (u16, u16);

/// What a rule asks of a packet: all of it must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Where packets come from.
    pub source: Prefix,
    /// Where packets go to.
    pub destination: Prefix,
    /// The protocol.
    pub protocol: Protocol,
    /// Destination ports, or any; always any but for TCP and UDP.
    pub destination_ports: Option<PortRange>,
}

/// A filter's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP, and ICMPv6 of IPv6.
    Icmp,
    /// Whatever it is.
    Any,
}

impl Protocol {
    /// Whether it has ports.
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }
}

/// A network in IPv4, which stands for one in IPv6 as well. Its `Display` is that of IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: u32,
    length: u8,
}

impl Prefix {
    /// All addresses.
    pub const ANY: Self = Self { address: 0, length: 0 };

    /// The network of this length that has the address.
    ///
    /// # Panics
    /// For a length above 32.
    pub fn new(address: u32, length: u8) -> Self {
        assert!(length <= 32, "/{length} is no length of an IPv4 prefix");
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        Self { address: address & mask, length }
    }

    /// Whether it has all addresses.
    pub const fn is_any(self) -> bool {
        self.length == 0
    }

    /// Its first address and its length.
    pub fn v4(self) -> (Ipv4Addr, u8) {
        (self.address.into(), self.length)
    }

    /// First address and length of the network in IPv6, below a `/32` whose address begins with `high`: a /16 becomes a /48, and a
    /// host a /128.
    pub fn v6(self, high: u32) -> (Ipv6Addr, u8) {
        let network = u128::from(high) << 96 | u128::from(self.address) << 64;
        match self.length {
            0 => (Ipv6Addr::UNSPECIFIED, 0),
            32 => ((network | u128::from(self.address & 0xffff)).into(), 128),
            length => (network.into(), length + 32),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, length) = self.v4();
        write!(f, "{address}/{length}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_the_same_network_in_both_versions() {
        let rows = [
            (0x0a01_0203, 32, "10.1.2.3/32", "2001:db8:a01:203::203", 128),
            (0x0a01_0203, 16, "10.1.0.0/16", "2001:db8:a01::", 48),
            (0xffff_ffff, 1, "128.0.0.0/1", "2001:db8:8000::", 33),
            (0x0a01_0203, 0, "0.0.0.0/0", "::", 0),
        ];
        for (address, length, v4, v6, v6_length) in rows {
            let prefix = Prefix::new(address, length);
            assert_eq!(prefix.to_string(), v4);
            assert_eq!(prefix.v6(0x2001_0db8), (v6.parse().unwrap(), v6_length), "{v4}");
        }
    }
}
