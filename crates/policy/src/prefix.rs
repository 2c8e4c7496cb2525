//! Translation of IPv6 prefixes (RFC 6296): each address inside has one outside, by arithmetic alone, and the sum over both is the same, so
//! that no checksum of what a packet carries changes.

use crate::interpret::Packet;
use crate::model::{Policy, SELF, ZoneSet};
use crate::translation::{Change, Direction, SourceTranslation, Translation};
use std::net::{IpAddr, Ipv6Addr};

/// The most [`PrefixRow`]s of one direction in a policy.
pub const MAX_PREFIX_ROWS: usize = 256;

/// The longest prefix that is translated: what is behind it is the interface's identifier.
pub const MAX_PREFIX_BITS: u8 = 64;

/// The bits in front of the word that takes the difference up of a prefix that leaves that word to the network inside (RFC 6296 section 3.4).
const SUBNET_AT: u8 = 48;

/// A prefix inside and the one that takes its place outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefixes {
    inside: u64,
    outside: u64,
    bits: u8,
}

/// One direction of a pair: which prefix addresses get, and how the word changes that keeps the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixMap {
    /// The new prefix, in the upper half of an address.
    pub prefix: u64,
    /// Bits of the upper half that stay.
    pub keep: u64,
    /// What is added to the word, in the arithmetic of ones' complement.
    pub adjustment: u16,
    /// Whether the word is in the interface's identifier, the first that is not 0xffff (RFC 6296 section 3.5), or the one before it.
    pub is_long: bool,
}

/// A part of a translation of prefixes, or of an exemption from them, without holes. All pairs are first and last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixRow {
    /// Its translation's place in [`Policy::translations`].
    pub translation: usize,
    /// Zones that the packet comes from.
    pub from: ZoneSet,
    /// Zones that it goes to; where the destination is translated, those that the outside prefix is for.
    pub to: ZoneSet,
    /// Sources.
    pub source: (u128, u128),
    /// Destinations.
    pub destination: (u128, u128),
    /// What changes; `None`: nothing.
    pub map: Option<PrefixMap>,
}

impl Prefixes {
    /// Two prefixes of so many bits, each with what is behind them 0. Of two lengths the longer one holds for both (RFC 6296 section 3.1).
    pub fn new(inside: (Ipv6Addr, u8), outside: (Ipv6Addr, u8)) -> Option<Self> {
        let bits = inside.1.max(outside.1);
        let half = |address: Ipv6Addr| (u128::from(address) >> 64) as u64;
        (1..=MAX_PREFIX_BITS).contains(&bits).then_some(Self {
            inside: half(inside.0),
            outside: half(outside.0),
            bits,
        })
    }

    /// How many bits change.
    pub fn bits(self) -> u8 {
        self.bits
    }

    fn range(self, prefix: u64) -> (u128, u128) {
        let first = u128::from(prefix) << 64;
        (first, first | u128::MAX >> self.bits)
    }

    /// The first and the last address inside.
    pub fn inside(self) -> (u128, u128) {
        self.range(self.inside)
    }

    /// The first and the last address outside.
    pub fn outside(self) -> (u128, u128) {
        self.range(self.outside)
    }

    /// How addresses of a direction change: of sources to outside, of destinations to inside.
    pub fn map(self, direction: Direction) -> PrefixMap {
        let (old, prefix) = match direction {
            Direction::Source => (self.inside, self.outside),
            Direction::Destination => (self.outside, self.inside),
        };
        PrefixMap {
            prefix,
            keep: u64::MAX.checked_shr(self.bits.into()).unwrap_or(0),
            adjustment: add(sum(old), !sum(prefix)),
            is_long: self.bits > SUBNET_AT,
        }
    }
}

impl PrefixMap {
    /// The other address, or `None` where no word can take the difference up: an address with 0xffff there has none of its own
    /// (RFC 6296 appendix B).
    pub fn apply(self, address: Ipv6Addr) -> Option<Ipv6Addr> {
        let number = u128::from(address);
        let prefixed =
            (number & (u128::from(self.keep) << 64 | u128::from(u64::MAX))) | u128::from(self.prefix) << 64;
        let words = if self.is_long { 4..8 } else { 3..4 };
        let shift = words.map(|word| 112 - 16 * word).find(|shift| (number >> shift) as u16 != u16::MAX)?;
        let adjusted = match add((prefixed >> shift) as u16, self.adjustment) {
            u16::MAX => 0,
            adjusted => adjusted,
        };
        Some(((prefixed & !(0xffff << shift)) | u128::from(adjusted) << shift).into())
    }
}

/// A sum in ones' complement.
fn add(a: u16, b: u16) -> u16 {
    let (sum, carried) = a.overflowing_add(b);
    sum + u16::from(carried)
}

fn sum(half: u64) -> u16 {
    (0..4).fold(0, |all, word| add(all, (half >> (16 * word)) as u16))
}

impl Policy {
    /// The rows of a direction that are about IPv6, in order.
    pub fn prefix_rows(&self, direction: Direction) -> Vec<PrefixRow> {
        let enabled = self.translations.iter().enumerate().filter(|(_, entry)| entry.enabled);
        enabled.flat_map(|(place, entry)| entry.prefix_rows(place, direction)).collect()
    }

    /// The entry that decides about an address, as the source or the destination of a packet that goes to one of some zones, and the address that
    /// it gives; outer `None`: it stays as it is, inner: it has none.
    fn other(&self, direction: Direction, packet: &Packet, to: ZoneSet) -> Option<(usize, Option<IpAddr>)> {
        let (place, entry) = self.first(direction, packet, to)?;
        let Change::Prefix(prefixes) = entry.change else { return None };
        let IpAddr::V6(address) = (match direction {
            Direction::Source => packet.source,
            Direction::Destination => packet.destination,
        }) else {
            return None;
        };
        Some((place, prefixes.map(direction).apply(address).map(IpAddr::from)))
    }

    /// [`Policy::translate_source`] for IPv6. A packet whose answer would not come back to its source, or not by the name that it asked, is dropped.
    pub(crate) fn translate_source_v6(
        &self,
        packet: &Packet,
        asked: Option<&Packet>,
    ) -> Option<(usize, Option<SourceTranslation>)> {
        let untranslatable = |place| Some((place, Some(SourceTranslation::Untranslatable)));
        // By which entry the packet came, and of one from inside the zones that its prefix is for.
        let by = asked
            .filter(|asked| asked.destination != packet.destination)
            .and_then(|asked| Some((asked, self.first(Direction::Destination, asked, 0)?)));
        let hairpin = by.and_then(|(asked, (_, entry))| {
            entry.to.filter(|to| to >> asked.from & 1 == 0).map(|outside| (asked, outside))
        });
        let (sender, outside) = hairpin.unwrap_or((packet, 1 << packet.to));
        let is_for_self = packet.to == SELF;
        let decided = self.first(Direction::Source, sender, outside).filter(|_| !is_for_self);
        let name = self.other(Direction::Source, sender, outside).filter(|_| !is_for_self);
        if let Some((place, address)) = name
            && (address.is_none() || !packet.opens_flow())
        {
            return untranslatable(place);
        }
        let known = name.and_then(|(_, address)| address).unwrap_or(packet.source);
        let answer = Packet { from: packet.to, source: packet.destination, destination: known, ..*packet };
        let back = self.other(Direction::Destination, &answer, 0).filter(|_| !is_for_self);
        if let Some((place, address)) = back.or(name.map(|(place, _)| (place, None)))
            && address.unwrap_or(known) != packet.source
        {
            return untranslatable(place);
        }
        if let Some((asked, (place, _))) = by {
            let to = match (hairpin, name) {
                (None, _) => 1 << asked.from,
                (Some((_, outside)), Some(_)) => outside,
                (Some(_), None) => ZoneSet::MAX,
            };
            let answer =
                Packet { from: packet.to, source: packet.destination, destination: asked.source, ..*packet };
            let answers_as = self.other(Direction::Source, &answer, to).and_then(|(_, address)| address);
            if answers_as != Some(asked.destination) {
                return untranslatable(place);
            }
        }
        let source = name.and_then(|(_, address)| address).map(SourceTranslation::Address);
        decided.map(|(place, _)| (place, source))
    }

    /// Whether an entry translates prefixes.
    pub fn translates_prefixes(&self) -> bool {
        self.translations.iter().any(|entry| entry.enabled && matches!(entry.change, Change::Prefix(_)))
    }
}

impl Translation {
    fn prefix_rows(&self, translation: usize, direction: Direction) -> Vec<PrefixRow> {
        let Some(seen) = self.seen(direction) else { return Vec::new() };
        let map = match self.change {
            Change::Prefix(prefixes) => Some(prefixes.map(direction)),
            _ => None,
        };
        let mut rows = Vec::new();
        for &source in seen.source_v6.ranges() {
            rows.extend(seen.destination_v6.ranges().iter().map(|&destination| PrefixRow {
                translation,
                from: seen.from,
                to: seen.to,
                source,
                destination,
                map,
            }));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(inside: &str, outside: &str) -> Prefixes {
        let read = |text: &str| {
            let (address, bits) = text.split_once('/').unwrap();
            (address.parse().unwrap(), bits.parse().unwrap())
        };
        Prefixes::new(read(inside), read(outside)).unwrap()
    }

    fn both(prefixes: Prefixes, address: &str) -> [Option<String>; 2] {
        let outside = prefixes.map(Direction::Source).apply(address.parse().unwrap());
        let back = outside.and_then(|outside| prefixes.map(Direction::Destination).apply(outside));
        [outside, back].map(|address| address.map(|address| address.to_string()))
    }

    #[test]
    fn addresses_and_back() {
        for (inside, outside, address, expected) in [
            // RFC 6296 section 3.6.
            ("fd01:203:405::/48", "2001:db8:1::/48", "fd01:203:405:1::1234", Some("2001:db8:1:d550::1234")),
            ("fd01:203:405::/48", "2001:db8:1::/48", "fd01:203:405:2ab0::1", Some("2001:db8:1::1")),
            ("fd01:203:405::/48", "2001:db8:1::/48", "fd01:203:405:ffff::1", None),
            ("fd01::/16", "2001:db8:1::/48", "fd01:0:0:1::1", Some("2001:db8:1:cf48::1")),
            (
                "fd01:203:405:100::/56",
                "2001:db8:1:5500::/56",
                "fd01:203:405:1ff::1",
                Some("2001:db8:1:55ff:814f::1"),
            ),
            ("fd01:203:405:100::/56", "2001:db8:1::/48", "fd01:203:405:101::1", Some("2001:db8:1:1:d64f::1")),
            (
                "fd01:203:405::/64",
                "2001:db8:1:1::/64",
                "fd01:203:405:0:1:2:3:4",
                Some("2001:db8:1:1:d54f:2:3:4"),
            ),
            (
                "fd01:203:405::/64",
                "2001:db8:1:1::/64",
                "fd01:203:405:0:ffff::1",
                Some("2001:db8:1:1:ffff:d54e:0:1"),
            ),
            (
                "fd01:203:405::/64",
                "2001:db8:1:1::/64",
                "fd01:203:405:0:ffff:ffff:ffff:1",
                Some("2001:db8:1:1:ffff:ffff:ffff:d54f"),
            ),
            ("fd01:203:405::/64", "2001:db8:1:1::/64", "fd01:203:405:0:ffff:ffff:ffff:ffff", None),
        ] {
            let there_and_back = both(pair(inside, outside), address);
            assert_eq!(there_and_back[0].as_deref(), expected, "{inside} {outside} {address}");
            assert_eq!(
                there_and_back[1].as_deref(),
                expected.map(|_| address),
                "{inside} {outside} {address}"
            );
        }
    }

    proptest! {
        /// RFC 6296 section 2.6: the sum stays, so checksums do, and no two addresses have the same one outside.
        #[test]
        fn any_address_keeps_its_sum_and_comes_back(
            inside: u64, outside: u64, bits in 1_u8..=64, address: u128, ends in 0_u32..8,
        ) {
            let prefix = |half: u64| (Ipv6Addr::from(u128::from(half & !u64::MAX.checked_shr(bits.into()).unwrap_or(0)) << 64), bits);
            let prefixes = Prefixes::new(prefix(inside), prefix(outside)).unwrap();
            let (first, last) = prefixes.inside();
            // Identifiers that begin and end with 0xffff are as frequent as others.
            let address = address | (u128::from(u64::MAX) << (16 * ends)) & u128::from(u64::MAX);
            let address = Ipv6Addr::from(first | (address & (last - first)));
            if let Some(mapped) = prefixes.map(Direction::Source).apply(address) {
                let range = prefixes.outside();
                prop_assert!((range.0..=range.1).contains(&u128::from(mapped)));
                let whole = |address: Ipv6Addr| address.segments().iter().fold(0, |all, word| add(all, *word));
                // 0 and 0xffff are one number.
                prop_assert_eq!(whole(address) % u16::MAX, whole(mapped) % u16::MAX);
                let back = prefixes.map(Direction::Destination).apply(mapped).unwrap();
                prop_assert_eq!(back, address);
            }
        }
    }
}
