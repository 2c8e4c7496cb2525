//! A policy's tables as the pages of words that `bpf/firewall/tables.h` reads. Decides nothing: it copies what
//! `policy::Tables` holds, and says where it is. Pure: no IO.

use super::translations;
use crate::names::NO_SLOT;
use crate::shared::{bytes_of, bytes_of_words};
use crate::skeleton::types::{self, sizes, table_method};
use policy::Policy;
use policy::address::AddressSet;
use policy::lists::bound;
use policy::model::{Log, Rule};
use policy::ranges::Point;
use policy::settings::SynProxy;
use policy::tables::{
    AddressTables, BitVectors, Blocked, Blocks, Classed, Combination, Crossed, LINE_WORDS, Listed, Method,
    Part, Series, Tables, Trees,
};
use std::collections::HashMap;

const PAGE_WORDS: usize = sizes::PAGE_WORDS.0 as usize;
/// Bytes of a page.
pub(super) const PAGE_BYTES: usize = PAGE_WORDS * 4;
/// Words of `struct listed_series`.
const LISTED_SERIES_WORDS: usize = sizes::LISTED_SERIES_WORDS.0 as usize;

const _: () = assert!(LINE_WORDS == sizes::LINE_WORDS.0 as usize);
const _: () = assert!(policy::tables::MAX_LISTED_SERIES == sizes::MAX_LISTED_SERIES.0 as usize);
const _: () = assert!(
    std::mem::offset_of!(types::listed_series, series) == 8
        && std::mem::offset_of!(types::listed_series, slots) == 24
);

/// Words of a node of a tree, and of a chunk of bit vectors.
const NODE_WORDS: usize = 2 * sizes::NODE_KEYS.0 as usize;

/// What the tables do not know: how the data plane calls zones and counters.
pub(super) struct Numbers<'n> {
    /// For each zone of the policy, the data plane's number.
    pub(super) zones: &'n [u8],
    /// The counter of a rule.
    pub(super) slot: &'n dyn Fn(&str) -> u32,
    /// By a rule's place in the policy, the number of its limit.
    pub(super) limits: &'n HashMap<usize, u32>,
    /// By a gateway's place in the policy, its place in the data plane and 1; or 0: it is not transparent.
    pub(super) gateways: &'n [u32],
    /// Where the lists of addresses are, and 1; or 0.
    pub(super) lists: u32,
    /// Of the generation.
    pub(super) generation: u32,
}

pub(super) struct Pages(Vec<u32>);

impl Pages {
    /// Where the next array will begin.
    pub(super) fn begin(&mut self, align: usize) -> u32 {
        self.0.resize(self.0.len().next_multiple_of(align), 0);
        // 2^32 words are 16 GiB, and policy bounds its tables far below.
        self.0.len() as u32
    }

    pub(super) fn words(&mut self, words: &[u32]) -> u32 {
        let at = self.begin(1);
        self.0.extend_from_slice(words);
        at
    }

    fn pairs(&mut self, numbers: &[u64], align: usize) -> u32 {
        let at = self.begin(align);
        self.0.extend(numbers.iter().flat_map(|number| halves(*number)));
        at
    }
}

/// A number of 64 bits as it lies in memory.
pub(super) fn halves(number: u64) -> [u32; 2] {
    let b = number.to_ne_bytes();
    [u32::from_ne_bytes([b[0], b[1], b[2], b[3]]), u32::from_ne_bytes([b[4], b[5], b[6], b[7]])]
}

/// The pages of a policy's tables, as bytes; a whole number of pages.
pub(super) fn pages(tables: &Tables, policy: &Policy, numbers: &Numbers<'_>) -> Vec<u8> {
    let mut pages = Pages(vec![0; PAGE_WORDS]);
    let mut header = types::table_header {
        generation: numbers.generation,
        zones: tables.zones,
        rows: tables.rules.len() as u32,
        ..Default::default()
    };
    effects(&mut pages, &mut header, tables, policy, numbers);
    match &tables.method {
        Method::Trees(trees) => add_trees(&mut pages, &mut header, trees, &tables.listed),
        Method::Classed(classed) => {
            add_classed(&mut pages, &mut header, classed);
            header.tree_lines = add_lines(&mut pages, &[], &tables.listed.lines);
        }
    }
    add_listed(&mut pages, &mut header, &tables.listed, policy, numbers);
    add_zones(&mut pages, &mut header, policy, numbers.zones);
    add_lists(&mut pages, &mut header, policy, numbers);
    header.translations = translations::add(&mut pages, policy, numbers.zones);
    header.prefixes = translations::add_prefixes(&mut pages, policy, numbers.zones);
    header.answered = translations::add_answered(&mut pages, policy, numbers.zones);
    header.zone_numbers = zone_numbers(numbers.zones);
    pages.begin(PAGE_WORDS);
    let mut bytes = bytes_of_words(&pages.0).to_vec();
    bytes[..PAGE_BYTES].copy_from_slice(bytes_of(&header));
    bytes
}

/// By the data plane's numbers of zones, the policy's.
fn zone_numbers(ours: &[u8]) -> [u8; sizes::MAX_ZONES.0 as usize] {
    let mut numbers = [sizes::NO_ZONE.0 as u8; sizes::MAX_ZONES.0 as usize];
    for (theirs, ours) in (0u8..).zip(ours) {
        numbers[usize::from(*ours)] = theirs;
    }
    numbers
}

fn add_trees(pages: &mut Pages, header: &mut types::table_header, trees: &Trees, listed: &Listed) {
    header.method = table_method::METHOD_TREES.0;
    header.tree_lines = add_lines(pages, &trees.lines, &listed.lines);
    header.series = trees.series.map(tree_series);
}

/// Lines of trees, and behind them those of the rules that ask for lists, as these count.
fn add_lines(pages: &mut Pages, lines: &[[u32; LINE_WORDS]], listed: &[[u32; LINE_WORDS]]) -> u32 {
    let at = pages.begin(LINE_WORDS);
    pages.words(lines.as_flattened());
    pages.words(listed.as_flattened());
    at
}

fn tree_series(series: Series) -> types::tree_series {
    types::tree_series { first: series.first, trees: series.trees }
}

/// The trees of rules that ask for lists: `struct listed_series`, word by word.
fn add_listed(
    pages: &mut Pages,
    header: &mut types::table_header,
    listed: &Listed,
    policy: &Policy,
    numbers: &Numbers<'_>,
) {
    header.listed_series = pages.begin(LISTED_SERIES_WORDS);
    header.listed_series_count = listed.series.len() as u32;
    for series in &listed.series {
        let [source, destination] = series.bits();
        let [v4, v6] = series.trees;
        let counter = |list: Option<u8>| {
            let list = &policy.lists[usize::from(list?)];
            Some((numbers.slot)(&list.counter()).wrapping_add(1))
        };
        let slots = series.asked.map(|list| counter(list).unwrap_or(0));
        pages.words(&[source, destination, v4.first, v4.trees, v6.first, v6.trees, slots[0], slots[1]]);
    }
}

fn add_classed(pages: &mut Pages, header: &mut types::table_header, classed: &Classed) {
    header.services = classed.services;
    header.pairs = pages.words(&classed.pairs);
    header.protocols = pages.words(&classed.protocols);
    header.ports = pages.words(&classed.ports);
    header.pair_service = pages.words(&classed.pair_service);
    if !classed.source_ports.is_empty() {
        header.source_ports = pages.words(&classed.source_ports);
        header.with_source_port = pages.words(&classed.with_source_port);
        header.port_classes = classed.port_classes;
    }
    header.field = [address_tables(pages, &classed.source), address_tables(pages, &classed.destination)];
    match &classed.combination {
        Combination::Crossed(crossed) => add_crossed(pages, header, crossed),
        Combination::Blocked(blocked) => add_blocked(pages, header, blocked),
        Combination::Vectors(vectors) => add_vectors(pages, header, vectors),
    }
}

fn address_tables(pages: &mut Pages, tables: &AddressTables) -> types::address_tables {
    let leaves: Vec<u32> = tables.v6.leaves.iter().flatten().copied().collect();
    let mut out = types::address_tables {
        roots: pages.words(&tables.v4.roots),
        blocks: pages.words(&tables.v4.blocks),
        keys: pages.pairs(&tables.v6.keys, NODE_WORDS),
        leaves: pages.words(&leaves),
        lows: pages.pairs(&tables.v6.lows, 2),
        low_classes: pages.words(&tables.v6.low_classes),
        levels: tables.v6.levels.len() as u32,
        ..Default::default()
    };
    for (level, (first, keys)) in tables.v6.levels.iter().enumerate() {
        out.level_first[level] = *first;
        out.level_keys[level] = *keys;
    }
    out
}

/// What each row does, and the default of each pair of zones.
fn effects(
    pages: &mut Pages,
    header: &mut types::table_header,
    tables: &Tables,
    policy: &Policy,
    numbers: &Numbers<'_>,
) {
    header.effects = pages.begin(4);
    let listed = |row: usize| tables.listed.of_rows.get(row).copied().unwrap_or(0);
    for (row, (place, action)) in tables.rules.iter().zip(&tables.actions).enumerate() {
        let rule: &Rule = &policy.rules[*place as usize];
        let terms = numbers.limits.get(&(*place as usize)).copied().unwrap_or(0);
        let gateway = rule.effect.gateway.and_then(|place| numbers.gateways.get(place)).copied().unwrap_or(0);
        let extras =
            terms | log_bits(rule.effect.log) | gateway << GATEWAY_SHIFT | proxy_bits(rule.effect.syn_proxy);
        pages.words(&[*action, (numbers.slot)(&rule.name), extras, listed(row)]);
    }
    header.defaults = pages.begin(4);
    for (action, default) in tables.defaults.iter().zip(&policy.defaults) {
        pages.words(&[*action, NO_SLOT, log_bits(default.log), 0]);
    }
}

/// What each list refuses, and how it is counted and recorded.
fn add_lists(pages: &mut Pages, header: &mut types::table_header, policy: &Policy, numbers: &Numbers<'_>) {
    let has_domains = policy.lists.iter().any(|list| list.domain().is_some());
    header.lists = numbers.lists | if has_domains { sizes::LISTS_DOMAINS.0 } else { 0 };
    header.block = bound(&policy.lists, |list| list.block);
    header.require = bound(&policy.lists, |list| list.require);
    header.list_effects = pages.begin(4);
    for list in &policy.lists {
        let log = if list.log { Log::Open } else { Log::Nothing };
        pages.words(&[types::action::ACTION_DENY.0, (numbers.slot)(&list.counter()), log_bits(log), 0]);
    }
}

const GATEWAY_SHIFT: u32 = types::extra_bits::EXTRA_GATEWAY.0.trailing_zeros();

/// By `enum syn_proxy`.
fn proxy_bits(said: Option<SynProxy>) -> u32 {
    const SHIFT: u32 = types::extra_bits::EXTRA_SYN_PROXY.0.trailing_zeros();
    said.map_or(0, |said| (said as u32 + 1) << SHIFT)
}

const fn log_bits(log: Log) -> u32 {
    const OPEN: u32 = types::extra_bits::EXTRA_LOG_OPEN.0;
    const CLOSE: u32 = types::extra_bits::EXTRA_LOG_CLOSE.0;
    match log {
        Log::Nothing => 0,
        Log::Open => OPEN,
        Log::Close => CLOSE,
        Log::Both => OPEN | CLOSE,
    }
}

fn add_crossed(pages: &mut Pages, header: &mut types::table_header, crossed: &Crossed) {
    header.method = table_method::METHOD_CROSSED.0;
    header.order = order(crossed.order);
    header.first = pages.words(&crossed.first);
    header.first_columns = crossed.first_columns;
    header.last = pages.words(&crossed.last);
    header.last_columns = crossed.last_columns;
}

fn add_blocked(pages: &mut Pages, header: &mut types::table_header, blocked: &Blocked) {
    header.method = table_method::METHOD_BLOCKS.0;
    header.order = order(blocked.order);
    header.blocks = [&blocked.first, &blocked.last].map(|table| block_table(pages, table));
}

fn block_table(pages: &mut Pages, table: &Blocks) -> types::block_table {
    let directory = pages.words(&table.directory);
    pages.begin(PAGE_WORDS);
    types::block_table { directory, height: table.height, entries: pages.words(&table.entries) }
}

fn order(parts: [Part; 3]) -> [u32; 3] {
    parts.map(|part| part as u32)
}

fn add_vectors(pages: &mut Pages, header: &mut types::table_header, vectors: &BitVectors) {
    header.method = table_method::METHOD_VECTORS.0;
    header.width = vectors.width;
    header.summary_width = vectors.summary_width;
    header.chunks = pages.pairs(&vectors.chunks, NODE_WORDS);
    header.chunk_blocks = pages.words(&vectors.blocks);
    for part in 0..3 {
        header.vectors[part] = pages.words(&vectors.vectors[part]);
        header.summaries[part] = pages.pairs(&vectors.summaries[part], 2);
    }
}

/// An address from which on something else is known of sources: the zones whose networks hold them, a bit each, and whether what they do is no
/// scan.
type Start<T> = (T, [u64; 2]);

/// Where what is known of sources changes, and to what.
fn zone_starts<T: Point>(
    policy: &Policy,
    ours: &[u8],
    ranges: impl Fn(&AddressSet) -> &[(T, T)],
) -> Vec<Start<T>> {
    let mut changes: Vec<Start<T>> = Vec::new();
    let zones = policy.zones.iter().zip(ours).map(|(zone, number)| (&zone.networks, [1 << number, 0]));
    let excepted = policy.scans.iter().map(|scans| (&scans.except, [0, 1]));
    for (set, bits) in zones.chain(excepted) {
        for (first, last) in ranges(set) {
            changes.push((*first, bits));
            changes.extend(last.next().map(|after| (after, bits)));
        }
    }
    if changes.is_empty() {
        return Vec::new();
    }
    changes.push((T::MIN, [0; 2]));
    changes.sort_unstable();
    let mut starts: Vec<Start<T>> = Vec::new();
    let mut known = [0; 2];
    for (at, bits) in changes {
        known = [known[0] ^ bits[0], known[1] ^ bits[1]];
        match starts.last_mut() {
            Some((last, set)) if *last == at => *set = known,
            _ => starts.push((at, known)),
        }
    }
    starts
}

fn add_zones(pages: &mut Pages, header: &mut types::table_header, policy: &Policy, ours: &[u8]) {
    let v4 = zone_starts(policy, ours, |set| set.v4.ranges());
    let v6 = zone_starts(policy, ours, |set| set.v6.ranges());
    // Whether they are excepted is the lower half of the last word: `struct zone_start`.
    let v4 =
        v4.iter().map(|(address, [zones, excepted])| [u64::from(*address), 0, *zones, *excepted]).collect();
    let halves = |address: &u128| [(*address >> 64) as u64, *address as u64];
    let v6 = v6.iter().map(|(address, [zones, excepted])| {
        let [high, low] = halves(address);
        [high, low, *zones, *excepted]
    });
    let v6 = v6.collect();
    header.zone_starts = [v4, v6].map(|starts: Vec<[u64; 4]>| types::zone_starts {
        at: pages.pairs(starts.as_flattened(), 8),
        count: starts.len() as u32,
    });
}
