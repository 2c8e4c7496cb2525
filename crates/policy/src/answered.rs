//! Addresses of translations for which the firewall answers ARP, where no interface has them.

use crate::model::{Policy, ZoneSet};
use crate::ranges::RangeSet;
use crate::translation::{Change, Translation};
use std::collections::BTreeMap;

/// Addresses, the first and the last, for which questions from some zones are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The zones.
    pub zones: ZoneSet,
    /// The addresses, in host order.
    pub addresses: (u32, u32),
}

impl Translation {
    /// What an entry has the firewall answer for: the addresses that its sources get, towards where they go, and those that are
    /// translated to a destination, towards where packets to them come from. Destinations of more than one address only if the text
    /// says `answer_arp = true`: "whoever asks any name server gets ours" names addresses that others have.
    pub fn answered(&self) -> (ZoneSet, RangeSet<u32>) {
        if !self.enabled || self.answer_arp == Some(false) {
            return (0, RangeSet::default());
        }
        let to = self.to.unwrap_or(0);
        match self.change {
            Change::Source { first, last, .. } => (to, RangeSet::of([(first.into(), last.into())])),
            Change::OneToOne { .. } => (to, RangeSet::of(self.outside())),
            Change::Destination { .. } => {
                let is_meant = |range: &&(u32, u32)| self.answer_arp == Some(true) || range.0 == range.1;
                (self.from, RangeSet::of(self.destination.v4.ranges().iter().filter(is_meant).copied()))
            }
            Change::Masquerade { .. } | Change::Exempt | Change::Prefix(_) => (0, RangeSet::default()),
        }
    }
}

impl Policy {
    /// What the firewall answers ARP for, each range of addresses once for the same zones. It does so where the range is of a network
    /// of the interface, and no interface of the machine has the address.
    pub fn answered(&self) -> Vec<Answered> {
        let mut by_zones: BTreeMap<ZoneSet, Vec<(u32, u32)>> = BTreeMap::new();
        for (zones, addresses) in self.translations.iter().map(Translation::answered) {
            by_zones.entry(zones).or_default().extend(addresses.ranges());
        }
        let rows = |(zones, ranges): (ZoneSet, Vec<(u32, u32)>)| {
            RangeSet::of(ranges)
                .ranges()
                .iter()
                .map(|&addresses| Answered { zones, addresses })
                .collect::<Vec<_>>()
        };
        by_zones.into_iter().flat_map(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_for() {
        let entry = |rest: &str| format!("[[nat]]\nname = 'a'\nfrom = ['in', 'mid']\n{rest}\n");
        let (out, from) = (1 << 3, 1 << 1 | 1 << 2);
        for (rest, zones, expected) in [
            ("to = 'out'\nmasquerade = true", 0, &[][..]),
            ("exempt = true", 0, &[]),
            ("to = 'out'\nsource_to = '192.0.2.4-192.0.2.7'", out, &["192.0.2.4-192.0.2.7"]),
            ("to = 'out'\nsource_to = '192.0.2.4'\nenabled = false", 0, &[]),
            ("to = 'out'\nsource_to = '192.0.2.4'\nanswer_arp = false", 0, &[]),
            (
                "to = 'out'\nsource = '10.0.0.8/30'\none_to_one = '192.0.2.8/30'",
                out,
                &["192.0.2.8-192.0.2.11"],
            ),
            ("destination = '192.0.2.1'\ndestination_to = '10.0.0.5'", from, &["192.0.2.1-192.0.2.1"]),
            (
                "destination = ['192.0.2.1', '192.0.2.8/30']\ndestination_to = '10.0.0.5'",
                from,
                &["192.0.2.1-192.0.2.1"],
            ),
            ("destination = 'any'\nservice = 'udp/53'\ndestination_to = '10.0.0.5'", from, &[]),
            (
                "destination = '192.0.2.8/30'\ndestination_to = '10.0.0.5'\nanswer_arp = true",
                from,
                &["192.0.2.8-192.0.2.11"],
            ),
        ] {
            let zones_text = "[zones]\nin = { interfaces = 'a' }\nmid = { interfaces = 'b' }\nout = { interfaces = 'c' }\n";
            let policy = Policy::parse("a.toml", &format!("{zones_text}{}", entry(rest))).unwrap();
            let number = |name: &str| policy.zone(name).unwrap();
            assert_eq!([number("in"), number("mid"), number("out")], [1, 2, 3]);
            let expected: Vec<Answered> = (expected.iter())
                .map(|range| {
                    let (first, last) = range.split_once('-').unwrap();
                    let number = |text: &str| u32::from(text.parse::<std::net::Ipv4Addr>().unwrap());
                    Answered { zones, addresses: (number(first), number(last)) }
                })
                .collect();
            assert_eq!(policy.answered(), expected, "{rest}");
        }
    }
}
