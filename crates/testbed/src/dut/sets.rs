//! The sets of a policy, lists and country table, as drivers load them: a name, a kind, and elements to write one by one;
//! and what loading costs in kernel memory.

use crate::policy::{AddressList, CountryTable, PolicySpec};
use ipnet::Ipv4Net;
use std::fmt;
use std::fs;
use std::net::Ipv4Addr;

/// One set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// Single addresses.
    List(AddressList),
    /// Subnets without overlap.
    Countries(CountryTable),
}

/// An element, displayed as every firewall writes it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Element {
    Address(Ipv4Addr),
    Subnet(Ipv4Net),
}

/// All sets of a policy, lists first.
pub(super) fn sets_of(policy: &PolicySpec) -> Vec<Set> {
    let countries = (!policy.countries.is_empty()).then_some(Set::Countries(policy.countries));
    policy.listed.iter().copied().map(Set::List).chain(countries).collect()
}

impl Set {
    /// Its name, the same in every policy.
    pub(super) fn name(&self) -> String {
        match self {
            Self::List(list) => format!("listed_{}", list.number()),
            Self::Countries(_) => "countries".to_owned(),
        }
    }

    /// How many elements it has.
    pub(super) fn len(&self) -> u32 {
        match self {
            Self::List(list) => list.len(),
            Self::Countries(table) => table.len(),
        }
    }

    /// The elements.
    pub(super) fn elements(&self) -> Box<dyn Iterator<Item = Element> + Send> {
        match self {
            Self::List(list) => Box::new(list.addresses().map(Element::Address)),
            Self::Countries(table) => Box::new(table.subnets().into_iter().map(Element::Subnet)),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Subnet(net) => net.fmt(f),
        }
    }
}

/// What the whole kernel has allocated for itself and cannot give back: slabs and vmalloc, where hash tables and their
/// elements are. The difference around loading is what was loaded, give or take what other programs made the kernel
/// allocate meanwhile.
pub(super) fn kernel_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    Some(kibibytes(&meminfo, "SUnreclaim")? * 1024 + kibibytes(&meminfo, "VmallocUsed")? * 1024)
}

fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let row = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    row.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:  24 kB\nSUnreclaim:      1200 kB\nVmallocUsed:  34 kB\n";
        assert_eq!(kibibytes(text, "SUnreclaim"), Some(1200));
        assert_eq!(kibibytes(text, "VmallocUsed"), Some(34));
        assert_eq!(kibibytes(text, "Mem"), None);
    }
}
