//! Block lists and the country table of a policy: sets of addresses from a seed. A list is computed as it is read, so
//! 30 million addresses take no memory here. Pure.

use super::PolicySpec;
use super::random::Permutation;
use crate::error::TestbedError;
use crate::layout::{
    ATTACKERS_V4, COUNTRY_CANARY, LISTED_CANARIES, OUTSIDE_COUNTRIES, STRANGERS_V4, TEST_V4,
};
use ipnet::Ipv4Net;
use measure::shape::PolicyShape;
use rule_sets::Random;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The most addresses that all lists together can have: what is left of IPv4 would allow about 3.6 thousand million.
pub const MOST_LISTED: u32 = 3_000_000_000;
/// The most lists.
pub const MOST_LISTS: u32 = LISTED_CANARIES.len() as u32;
/// The fewest subnets of a country table: those of the test networks and the attackers' range.
pub const FEWEST_SUBNETS: u32 = 12;
/// The most subnets of a country table: with more, the public addresses would be too full for seeded choice.
pub const MOST_SUBNETS: u32 = 65_536;

/// One block list: distinct addresses, unicast and public, none of a test but the canary, in a seeded order. The lists of a
/// policy have no address in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressList {
    /// Which list, from 0: it decides the canary.
    index: u8,
    /// The first place of its part of the permutation.
    start: u32,
    count: u32,
    seed: u64,
}

impl AddressList {
    /// The lists of a shape. Two share the addresses as 1:2, three as 1:2:3.
    pub(super) fn of(shape: &PolicyShape) -> Vec<Self> {
        if shape.listed_addresses == 0 {
            return Vec::new();
        }
        let weights = u64::from(shape.lists * (shape.lists + 1) / 2);
        // Before list n there are 1 + 2 + … + n parts. The lists split the permutation as they split the addresses, so none
        // reaches into the next one's part: MOST_LISTED leaves room.
        let before = |whole: u64, n: u32| (whole * u64::from(n * (n + 1) / 2) / weights) as u32;
        let share = |n| before(u64::from(shape.listed_addresses), n);
        (0..shape.lists)
            .map(|n| Self {
                index: n as u8,
                start: before(1 << 32, n),
                count: share(n + 1) - share(n),
                seed: shape.seed,
            })
            .collect()
    }

    /// Its number, from 1.
    pub fn number(&self) -> u32 {
        u32::from(self.index) + 1
    }

    /// Addresses, the canary included; at least 1.
    #[allow(clippy::len_without_is_empty, reason = "no list is empty: it has its canary")]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// The address that its probe is sent from.
    pub fn canary(&self) -> Ipv4Addr {
        LISTED_CANARIES[usize::from(self.index)]
    }

    /// The addresses, the canary first.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> + Send + use<> {
        let permutation = Permutation::new(self.seed);
        let others = (self.start..=u32::MAX)
            .map(move |place| Ipv4Addr::from(permutation.at(place)))
            .filter(may_be_listed);
        std::iter::once(self.canary()).chain(others).take(self.count as usize)
    }
}

impl PolicySpec {
    /// At most `n` addresses of the lists without the canaries, chosen by `draw`, from all lists and from all parts of each:
    /// a list that was loaded only in part is noticed, and nobody knows before which part is asked for. Takes time with the lists' length, about 10 ns an address.
    pub fn listed_sample(&self, n: usize, draw: u64) -> Vec<Ipv4Addr> {
        let total: u64 = self.listed.iter().map(|list| u64::from(list.len() - 1)).sum();
        let wanted = (n as u64).min(total);
        if wanted == 0 {
            return Vec::new();
        }
        let others = self.listed.iter().flat_map(|list| list.addresses().skip(1));
        let step = total / wanted;
        let from = usize::try_from(draw % step).unwrap_or(0);
        others.skip(from).step_by(usize::try_from(step).unwrap_or(usize::MAX)).take(wanted as usize).collect()
    }
}

/// The country table: the subnets that traffic may come from and go to. Its length is that of the shape; it has the test
/// networks except [`OUTSIDE_COUNTRIES`], the attackers' range, and seeded others, without overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountryTable {
    count: u32,
    seed: u64,
}

impl CountryTable {
    pub(super) const NONE: Self = Self { count: 0, seed: 0 };

    pub(super) fn of(shape: &PolicyShape) -> Self {
        Self { count: shape.allowed_subnets, seed: shape.seed }
    }

    /// Subnets in all.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there is no table, and so every address is allowed.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// An address that the table does not have, though the rules allow it.
    pub fn canary(&self) -> Ipv4Addr {
        COUNTRY_CANARY
    }

    /// The subnets, in ascending order.
    pub fn subnets(&self) -> Vec<Ipv4Net> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut table: BTreeMap<u32, Ipv4Net> =
            fixed_subnets().into_iter().map(|net| (u32::from(net.network()), net)).collect();
        let mut random = Random(self.seed ^ 0x0063_6f75_6e74_7279);
        // Most subnets are small, so even a full table leaves room for more: this ends.
        while table.len() < self.count as usize {
            let length = subnet_length(&mut random);
            let net = Ipv4Net::new_assert(Ipv4Addr::from(random.next() as u32), length).trunc();
            let last = table.range(..=u32::from(net.broadcast())).next_back();
            let free = last.is_none_or(|(_, before)| before.broadcast() < net.network());
            if free && may_be_allowed(net) {
                table.insert(u32::from(net.network()), net);
            }
        }
        table.into_values().collect()
    }
}

/// Lengths as allocations to network providers have them: half are /24, the larger the rarer.
fn subnet_length(random: &mut Random) -> u8 {
    match random.below(1000) {
        0..=499 => 24,
        500..=609 => 23,
        610..=729 => 22,
        730..=799 => 21,
        800..=869 => 20,
        870..=909 => 19,
        910..=939 => 18,
        940..=954 => 17,
        955..=984 => 16,
        985..=998 => 12 + random.below(4) as u8,
        _ => 8 + random.below(4) as u8,
    }
}

/// The test networks around the part that is left out, and the attackers.
fn fixed_subnets() -> Vec<Ipv4Net> {
    let mut subnets = vec![ATTACKERS_V4];
    let mut around = TEST_V4;
    while around.prefix_len() < OUTSIDE_COUNTRIES.prefix_len() {
        // A network that is larger than another can be halved.
        let Ok(halves) = around.subnets(around.prefix_len() + 1) else { break };
        for half in halves {
            if half.contains(&OUTSIDE_COUNTRIES) { around = half } else { subnets.push(half) }
        }
    }
    subnets
}

fn may_be_allowed(net: Ipv4Net) -> bool {
    const SHARED: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10);
    let meets = |other: Ipv4Net| other.contains(&net) || net.contains(&other);
    let special = matches!(net.network().octets()[0], 0 | 10 | 127 | 224..);
    !special && ![SHARED, TEST_V4, STRANGERS_V4].into_iter().any(meets)
}

pub(super) fn may_be_listed(address: &Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let special = matches!(first, 0 | 10 | 127 | 224..) || matches!((first, second), (100, 64..=127));
    !special && !TEST_V4.contains(address) && !STRANGERS_V4.contains(address)
}

pub(super) fn check(shape: &PolicyShape) -> Result<(), TestbedError> {
    let wrong = |text: String| Err(TestbedError::Impossible(text));
    let (addresses, lists) = (shape.listed_addresses, shape.lists);
    if addresses > MOST_LISTED {
        return wrong(format!(
            "lists of {addresses} addresses are more than the public IPv4 addresses: {MOST_LISTED} at most"
        ));
    }
    if addresses > 0 && !(1..=MOST_LISTS).contains(&lists) {
        return wrong(format!(
            "{addresses} addresses cannot be on {lists} lists: there are 1 to {MOST_LISTS}"
        ));
    }
    if addresses > 0 && addresses < lists * (lists + 1) / 2 {
        return wrong(format!("{addresses} addresses are too few for {lists} lists: each must have one"));
    }
    let subnets = shape.allowed_subnets;
    if subnets != 0 && !(FEWEST_SUBNETS..=MOST_SUBNETS).contains(&subnets) {
        return wrong(format!(
            "a country table cannot have {subnets} subnets: {FEWEST_SUBNETS} (the test networks and the attackers' range) to \
             {MOST_SUBNETS}, or 0 for no table"
        ));
    }
    Ok(())
}
