//! A policy's translations as the rows of `bpf/firewall/nat.h`. Pure: no IO.

use super::pages::{Pages, halves};
use crate::skeleton::types::{self, nat_kind, nat_mapping, sizes};
use policy::Policy;
use policy::model::{Change, ZoneSet};
use policy::prefix::PrefixRow;
use policy::translation::{Direction, Filtering, Row};

const ROW_WORDS: usize = sizes::NAT_ROW_WORDS.0 as usize;

const ANSWERED_WORDS: usize = sizes::ANSWERED_ROW_WORDS.0 as usize;
const _: () = assert!(
    size_of::<types::answered_row>() == 4 * ANSWERED_WORDS
        && std::mem::offset_of!(types::answered_row, first) == 8
        && std::mem::offset_of!(types::answered_row, last) == 12
);
const _: () = assert!(policy::translation::MAX_ROWS == sizes::MAX_NAT_ROWS.0 as usize);
const _: () = assert!(
    size_of::<types::nat_row>() == 4 * ROW_WORDS
        && std::mem::offset_of!(types::nat_row, source) == 16
        && std::mem::offset_of!(types::nat_row, service) == 32
        && std::mem::offset_of!(types::nat_row, kind) == 40
        && std::mem::offset_of!(types::nat_row, ports) == 52
        && std::mem::offset_of!(types::nat_row, mapping) == 56
);
const PREFIX_ROW_WORDS: usize = sizes::PREFIX_ROW_WORDS.0 as usize;
const _: () = assert!(policy::prefix::MAX_PREFIX_ROWS == sizes::MAX_PREFIX_ROWS.0 as usize);
const _: () = assert!(
    size_of::<types::prefix_row>() == 4 * PREFIX_ROW_WORDS
        && std::mem::offset_of!(types::prefix_row, source) == 16
        && std::mem::offset_of!(types::prefix_row, destination) == 48
        && std::mem::offset_of!(types::prefix_row, prefix) == 80
        && std::mem::offset_of!(types::prefix_row, keep) == 88
        && std::mem::offset_of!(types::prefix_row, kind) == 96
        && std::mem::offset_of!(types::prefix_row, adjustment) == 100
        && std::mem::offset_of!(types::prefix_row, is_long) == 104
);

/// Writes the rows of both directions, by `enum nat_direction`. `zones` are, for each zone of the policy, the data plane's numbers.
pub(super) fn add(pages: &mut Pages, policy: &Policy, zones: &[u8]) -> [types::nat_rows; 2] {
    [Direction::Destination, Direction::Source].map(|direction| {
        let rows = policy.translation_rows(direction);
        let at = pages.begin(ROW_WORDS);
        for row in &rows {
            pages.words(&nat_row(policy, row, direction, zones));
        }
        types::nat_rows { at, count: rows.len() as u32 }
    })
}

/// Writes the rows of prefixes, by `enum nat_direction`; none where no prefix is translated.
pub(super) fn add_prefixes(pages: &mut Pages, policy: &Policy, zones: &[u8]) -> [types::nat_rows; 2] {
    [Direction::Destination, Direction::Source].map(|direction| {
        let rows = if policy.translates_prefixes() { policy.prefix_rows(direction) } else { Vec::new() };
        let at = pages.begin(PREFIX_ROW_WORDS);
        for row in &rows {
            pages.words(&prefix_row(row, zones));
        }
        types::nat_rows { at, count: rows.len() as u32 }
    })
}

/// `struct prefix_row`, word by word.
fn prefix_row(row: &PrefixRow, zones: &[u8]) -> [u32; PREFIX_ROW_WORDS] {
    let mut words = [0; PREFIX_ROW_WORDS];
    let ranges = [row.source.0, row.source.1, row.destination.0, row.destination.1];
    let pairs = ranges.map(|address| [(address >> 64) as u64, address as u64]);
    let map = row.map.map_or([0; 2], |map| [map.prefix, map.keep]);
    let longs = [our_zones(row.from, zones), our_zones(row.to, zones)]
        .into_iter()
        .chain(pairs.into_iter().flatten())
        .chain(map);
    for (at, long) in longs.enumerate() {
        words[2 * at..2 * at + 2].copy_from_slice(&halves(long));
    }
    let kind = if row.map.is_some() { nat_kind::NAT_ONE_TO_ONE } else { nat_kind::NAT_EXEMPT };
    words[24] = kind.0;
    words[25] = row.map.map_or(0, |map| map.adjustment.into());
    words[26] = row.map.is_some_and(|map| map.is_long).into();
    words
}

/// Writes the addresses for which ARP is answered.
pub(super) fn add_answered(pages: &mut Pages, policy: &Policy, zones: &[u8]) -> types::nat_rows {
    let rows = policy.answered();
    let at = pages.begin(ANSWERED_WORDS);
    for row in &rows {
        let [low, high] = halves(our_zones(row.zones, zones));
        pages.words(&[low, high, row.addresses.0, row.addresses.1]);
    }
    types::nat_rows { at, count: rows.len() as u32 }
}

/// The same zones by the data plane's numbers.
fn our_zones(set: ZoneSet, zones: &[u8]) -> u64 {
    if set == ZoneSet::MAX {
        return u64::MAX;
    }
    zones
        .iter()
        .enumerate()
        .filter(|(zone, _)| set >> zone & 1 != 0)
        .fold(0, |all, (_, number)| all | 1 << number)
}

/// `struct nat_row`, word by word.
fn nat_row(policy: &Policy, row: &Row, direction: Direction, zones: &[u8]) -> [u32; ROW_WORDS] {
    let ([from, from_high], [to, to_high]) =
        (halves(our_zones(row.from, zones)), halves(our_zones(row.to, zones)));
    let (kind, [first, last], ports) = change(policy, row, direction);
    let (source, destination, service) = (row.source, row.destination, row.service);
    [
        from,
        from_high,
        to,
        to_high,
        source.0,
        source.1,
        destination.0,
        destination.1,
        service.0,
        service.1,
        kind.0,
        first,
        last,
        ports,
        mapping(row.mapping).0,
        0,
    ]
}

fn mapping(filtering: Option<Filtering>) -> nat_mapping {
    match filtering {
        None => nat_mapping::MAPPING_BY_FLOW,
        Some(Filtering::AddressAndPort) => nat_mapping::MAPPING_FILTERED,
        Some(Filtering::Address) => nat_mapping::MAPPING_FILTERED_BY_ADDRESS,
        Some(Filtering::EndpointIndependent) => nat_mapping::MAPPING_OPEN,
    }
}

/// What `settings.translates` says of a policy, as `enum translates`.
pub(super) fn translates(policy: &Policy) -> u32 {
    let translates = u32::from(!policy.translations.is_empty()) * types::translates::TRANSLATES.0;
    let others_begin = policy.translations.iter().any(policy::translation::Translation::lets_others_begin);
    translates
        | (u32::from(others_begin) * types::translates::TRANSLATES_TO_MAPPINGS.0)
        | (u32::from(policy.translates_prefixes()) * types::translates::TRANSLATES_PREFIXES.0)
}

fn change(policy: &Policy, row: &Row, direction: Direction) -> (nat_kind, [u32; 2], u32) {
    let range =
        |ports: Option<(u16, u16)>| ports.map_or(0, |(first, last)| u32::from(last) << 16 | u32::from(first));
    match row.change {
        // Prefixes have rows of their own.
        Change::Exempt | Change::Prefix(_) => (nat_kind::NAT_EXEMPT, [0; 2], 0),
        Change::Masquerade { ports } => (nat_kind::NAT_MASQUERADE, [0; 2], range(ports)),
        Change::Source { first, last, ports } => {
            (nat_kind::NAT_ADDRESS, [first.into(), last.into()], range(ports))
        }
        Change::Destination { address, port } => {
            (nat_kind::NAT_ADDRESS, [u32::from(address); 2], port.unwrap_or(0).into())
        }
        Change::OneToOne { first } => {
            // Towards the inside, from the first address there on.
            let inside = policy.translations[row.translation].source.v4.ranges();
            let first = match direction {
                Direction::Source => u32::from(first),
                Direction::Destination => inside.first().map_or(0, |(first, _)| *first),
            };
            (nat_kind::NAT_ONE_TO_ONE, [first; 2], 0)
        }
    }
}
