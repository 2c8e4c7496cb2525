//! The twelve families.
//!
//! They have the traits that D. Taylor and J. Turner published of real filter sets ("ClassBench", IEEE/ACM Transactions on Networking
//! 15(3), 2007): which prefix lengths come together, how skewed the addresses below a prefix are, which classes of ports (any, below
//! 1024, from 1024 on, a range, one port) and which protocols occur. The weights are our own, rounded; what the authors' generator makes
//! of their seeds is not here. Source ports are an option: real sets have them in some rules of firewalls and chains, and in few of
//! access lists.

use crate::{Filter, PortRange, Prefix, Protocol, Random};
use std::fmt;

/// A weight and what has it.
type Weighted<T> = &'static [(u32, T)];

#[derive(Clone, Copy)]
enum Ports {
    Any,
    Low,
    High,
    Range,
    One,
}
use Ports::{Any, High, Low, One, Range};

struct Traits {
    name: &'static str,
    /// Lengths of source and destination prefixes.
    lengths: Weighted<(u8, u8)>,
    ports: Weighted<Ports>,
    /// TCP, UDP, ICMP, any.
    protocols: [u32; 4],
    /// Networks of /16 that sources and destinations of 1,000 rules lie in; of more rules they are more, by the square root.
    networks: [u32; 2],
}

const SOME: Weighted<Ports> = &[(55, Any), (12, High), (3, Low), (8, Range), (22, One)];
const SERVICES: Weighted<Ports> = &[(15, Any), (4, High), (16, Range), (65, One)];
const MIXED: Weighted<Ports> = &[(40, Any), (12, High), (2, Low), (10, Range), (36, One)];

const FAMILIES: [Traits; 12] = [
    Traits {
        name: "acl1",
        lengths: &[
            (30, (32, 32)),
            (25, (24, 32)),
            (15, (0, 32)),
            (12, (28, 32)),
            (10, (21, 28)),
            (8, (32, 24)),
        ],
        ports: SERVICES,
        protocols: [75, 15, 5, 5],
        networks: [60, 12],
    },
    Traits {
        name: "acl2",
        lengths: &[
            (22, (0, 32)),
            (20, (32, 32)),
            (18, (16, 32)),
            (15, (32, 0)),
            (13, (24, 24)),
            (12, (8, 28)),
        ],
        ports: MIXED,
        protocols: [55, 20, 8, 17],
        networks: [25, 20],
    },
    Traits {
        name: "acl3",
        lengths: &[
            (30, (32, 32)),
            (14, (0, 32)),
            (18, (24, 32)),
            (12, (32, 24)),
            (14, (16, 24)),
            (12, (30, 30)),
        ],
        ports: SERVICES,
        protocols: [65, 20, 6, 9],
        networks: [200, 150],
    },
    Traits {
        name: "acl4",
        lengths: &[
            (24, (32, 32)),
            (20, (24, 32)),
            (18, (16, 32)),
            (14, (0, 32)),
            (12, (24, 24)),
            (12, (32, 16)),
        ],
        ports: SERVICES,
        protocols: [62, 22, 8, 8],
        networks: [150, 100],
    },
    Traits {
        name: "acl5",
        lengths: &[(60, (32, 32)), (20, (24, 32)), (10, (30, 32)), (10, (32, 28))],
        ports: &[(10, Any), (30, Range), (60, One)],
        protocols: [80, 14, 6, 0],
        networks: [10, 8],
    },
    Traits {
        name: "fw1",
        lengths: &[
            (28, (0, 32)),
            (24, (32, 0)),
            (16, (32, 32)),
            (12, (16, 32)),
            (10, (0, 24)),
            (8, (24, 0)),
            (2, (0, 0)),
        ],
        ports: MIXED,
        protocols: [60, 22, 6, 12],
        networks: [30, 30],
    },
    Traits {
        name: "fw2",
        lengths: &[(45, (32, 0)), (25, (24, 0)), (12, (32, 32)), (10, (16, 32)), (8, (0, 32))],
        ports: &[(85, Any), (5, Range), (10, One)],
        protocols: [55, 25, 8, 12],
        networks: [40, 20],
    },
    Traits {
        name: "fw3",
        lengths: &[(36, (0, 32)), (20, (32, 0)), (18, (32, 32)), (14, (0, 28)), (10, (24, 32)), (2, (0, 0))],
        ports: MIXED,
        protocols: [65, 20, 5, 10],
        networks: [20, 20],
    },
    Traits {
        name: "fw4",
        lengths: &[(26, (0, 32)), (22, (32, 0)), (20, (16, 16)), (16, (24, 24)), (14, (32, 32)), (2, (0, 0))],
        ports: SOME,
        protocols: [50, 25, 8, 17],
        networks: [12, 12],
    },
    Traits {
        name: "fw5",
        lengths: &[(30, (0, 32)), (26, (32, 0)), (14, (24, 32)), (16, (32, 24)), (12, (32, 32)), (2, (0, 0))],
        ports: MIXED,
        protocols: [60, 20, 8, 12],
        networks: [18, 18],
    },
    Traits {
        name: "ipc1",
        lengths: &[
            (28, (32, 32)),
            (16, (24, 24)),
            (14, (0, 32)),
            (12, (32, 0)),
            (16, (16, 32)),
            (14, (24, 32)),
        ],
        ports: MIXED,
        protocols: [55, 25, 8, 12],
        networks: [80, 80],
    },
    Traits {
        name: "ipc2",
        lengths: &[(40, (32, 32)), (25, (0, 32)), (25, (32, 0)), (10, (0, 0))],
        ports: &[(100, Any)],
        protocols: [20, 10, 5, 65],
        networks: [50, 50],
    },
];

/// Rules that the numbers of networks are those of.
const RULES_OF_NETWORKS: f64 = 1000.0;

/// A family of rule sets: `acl1` to `acl5` (access lists), `fw1` to `fw5` (firewalls), `ipc1` and `ipc2` (chains of a host).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Family(u8);

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first bytes of addresses: what a family's sources and destinations lie behind. Of many rules some networks lie behind the bytes
/// that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// Of sources.
    pub source: u8,
    /// Of destinations.
    pub destination: u8,
}

impl Family {
    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..FAMILIES.len() as u8).map(Self)
    }

    /// The family of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|family| family.name() == name)
    }

    /// Its name, for example `acl1`.
    pub fn name(self) -> &'static str {
        self.traits().name
    }

    /// The percentage of rules that ask for source ports, where rule sets do; of those with TCP or UDP.
    pub fn percent_with_source_ports(self) -> u64 {
        if self.name().starts_with("acl") { 5 } else { 30 }
    }

    /// The next filter of a set of so many rules.
    pub fn filter(self, random: &mut Random, rules: usize, base: Base) -> Filter {
        let traits = self.traits();
        let (source, destination) = *random.pick(traits.lengths);
        // From any to any there are single ports alone, or everything behind such a rule would be shadowed.
        let is_anywhere = (source, destination) == (0, 0);
        let growth = (rules as f64 / RULES_OF_NETWORKS).sqrt().max(1.0);
        let [sources, destinations] = traits.networks.map(|networks| (f64::from(networks) * growth) as u32);
        let source = skewed(random, source, sources, base.source);
        let destination = skewed(random, destination, destinations, base.destination);
        let protocol = protocol(random, &traits.protocols, is_anywhere);
        let destination_ports = match protocol.has_ports() {
            false => None,
            true => {
                let class = if is_anywhere { One } else { *random.pick(traits.ports) };
                ports(random, class)
            }
        };
        Filter { source, destination, protocol, destination_ports }
    }

    fn traits(self) -> &'static Traits {
        &FAMILIES[usize::from(self.0)]
    }
}

/// The source ports of a set's rule of a number, if it asks for them; `percent` of the rules do. A set with them has the same rules
/// otherwise as one without. For TCP and UDP only.
pub fn source_ports(seed: u64, number: u64, percent: u64) -> Option<PortRange> {
    let mut random = Random(seed ^ number << 20 ^ 0x50);
    if random.below(100) >= percent {
        return None;
    }
    let class = *random.pick(&[(10, Low), (35, High), (15, Range), (40, One)]);
    ports(&mut random, class)
}

fn protocol(random: &mut Random, weights: &[u32; 4], is_anywhere: bool) -> Protocol {
    const PROTOCOLS: [Protocol; 4] = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp, Protocol::Any];
    let mut at = random.below(weights.iter().sum::<u32>().into()) as u32;
    let mut place = 0;
    while at >= weights[place] {
        at -= weights[place];
        place += 1;
    }
    PROTOCOLS[if is_anywhere { place % 2 } else { place }]
}

/// `None` is any.
fn ports(random: &mut Random, class: Ports) -> Option<PortRange> {
    const KNOWN: [u16; 24] = [
        20, 21, 22, 23, 25, 53, 67, 80, 110, 123, 135, 137, 139, 143, 161, 389, 443, 445, 993, 1433, 1521,
        3306, 3389, 8080,
    ];
    match class {
        Any => None,
        Low => Some((0, 1023)),
        High => Some((1024, u16::MAX)),
        One => {
            let is_known = random.below(3) > 0;
            let port = if is_known { KNOWN[random.below(24) as usize] } else { random.below(65_536) as u16 };
            Some((port, port))
        }
        Range => {
            let first = random.below(60_000) as u16;
            let bits = random.below(13);
            Some((first, first + 1 + random.below(1 << bits) as u16))
        }
    }
}

/// A prefix below one of some networks of /16; near ones are more likely than far ones, at each byte.
fn skewed(random: &mut Random, length: u8, networks: u32, first: u8) -> Prefix {
    if length == 0 {
        return Prefix::ANY;
    }
    let near =
        |random: &mut Random, values: u64| (random.below(values) * random.below(values) / values) as u32;
    let network = (u32::from(first) << 8) + near(random, networks.into());
    Prefix::new(network << 16 | near(random, 256) << 8 | near(random, 256), length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const BASE: Base = Base { source: 10, destination: 140 };

    fn set(family: Family, seed: u64, rules: usize) -> Vec<Filter> {
        let mut random = Random(seed);
        (0..rules).map(|_| family.filter(&mut random, rules, BASE)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_set_and_another_seed_another() {
        for family in Family::all() {
            assert_eq!(Family::named(family.name()), Some(family));
            assert_eq!(set(family, 1, 200), set(family, 1, 200), "{family:?}");
            assert_ne!(set(family, 1, 200), set(family, 2, 200), "{family:?}");
        }
        assert_eq!(Family::named("acl6"), None);
    }

    /// The shares of a large set are the weights of its family, but for chance; what has weight 0 does not occur.
    #[test]
    fn sets_have_their_families_traits() {
        const RULES: usize = 20_000;
        let near = |counted: usize, weight: u32, of: u32, what: &str| {
            let expected = f64::from(weight) / f64::from(of);
            let share = counted as f64 / RULES as f64;
            assert!((share - expected).abs() < 0.02, "{what}: {share} is not {expected}");
        };
        for family in Family::all() {
            let (traits, filters) = (family.traits(), set(family, 3, RULES));
            let all_lengths = traits.lengths.iter().map(|(weight, _)| weight).sum();
            for &(weight, (source, destination)) in traits.lengths {
                let has = |filter: &&Filter| {
                    (filter.source.v4().1, filter.destination.v4().1) == (source, destination)
                };
                let what = format!("{family:?} /{source} to /{destination}");
                near(filters.iter().filter(has).count(), weight, all_lengths, &what);
            }
            let of_any = filters.iter().filter(|filter| filter.protocol == Protocol::Any).count();
            // Rules from any to any never are of any protocol.
            let anywhere: u32 = traits.lengths.iter().filter(|row| row.1 == (0, 0)).map(|row| row.0).sum();
            let part = traits.protocols[3] * (all_lengths - anywhere) / all_lengths;
            near(of_any, part, traits.protocols.iter().sum(), &format!("{family:?}, any protocol"));
        }
    }

    #[test]
    fn sets_lie_behind_their_base_and_are_skewed() {
        for family in Family::all() {
            let filters = set(family, 4, 20_000);
            for (first, prefixes) in [
                (10, filters.iter().map(|filter| filter.source).collect::<Vec<_>>()),
                (140, filters.iter().map(|filter| filter.destination).collect()),
            ] {
                let narrow: Vec<Prefix> = prefixes.into_iter().filter(|prefix| !prefix.is_any()).collect();
                let behind = |prefix: &&Prefix| (first..first + 8).contains(&prefix.v4().0.octets()[0]);
                let here = narrow.iter().filter(behind).count();
                // Prefixes of /8 keep the byte.
                assert_eq!(here, narrow.len(), "{family:?} behind {first}");
                let distinct: HashSet<&Prefix> = narrow.iter().collect();
                assert!(distinct.len() < narrow.len(), "{family:?}: some prefixes come again");
            }
        }
    }

    #[test]
    fn ports_belong_to_protocols_that_have_them() {
        for filter in Family::all().flat_map(|family| set(family, 5, 2000)) {
            assert!(filter.protocol.has_ports() || filter.destination_ports.is_none(), "{filter:?}");
            assert!(filter.destination_ports.is_none_or(|(first, last)| first <= last), "{filter:?}");
            let is_anywhere = filter.source.is_any() && filter.destination.is_any();
            let is_single = filter.destination_ports.is_some_and(|(first, last)| first == last);
            assert!(!is_anywhere || is_single, "{filter:?} shadows what is behind it");
        }
    }

    #[test]
    fn so_many_rules_ask_for_source_ports() {
        for (percent, least, most) in [(0, 0, 0), (5, 400, 600), (30, 2800, 3200), (100, 10_000, 10_000)] {
            let asking = (0..10_000).filter(|number| source_ports(1, *number, percent).is_some()).count();
            assert!((least..=most).contains(&asking), "{asking} of 10,000 at {percent} %");
        }
    }
}
