//! What the readers of all formats make of a text: tables are gone, chains and rules are left, and of each rule which packets it matches
//! as far as that was understood.

use crate::cube::{Cube, Interfaces, kind, state};
use crate::flatten::Way;
use crate::translation::Change;
use crate::words;
use policy::address::AddressSet;
use policy::model::pattern;
use policy::ranges::RangeSet;
use policy::service::key;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// Where something stands, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Place {
    /// The text's place among the sources, from 0.
    pub(crate) source: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// What is wrong, and where.
pub(crate) type Wrong = (Place, String);

/// Number of a chain: its place in [`Ruleset::chains`].
pub(crate) type ChainId = usize;

/// A rule: its chain, and its place there.
pub(crate) type RuleId = (ChainId, usize);

/// All chains of all texts.
#[derive(Debug, Default)]
pub(crate) struct Ruleset {
    pub(crate) chains: Vec<Chain>,
    /// Chains that the kernel calls, in no order.
    pub(crate) bases: Vec<Base>,
    /// The interfaces that rules name.
    pub(crate) interfaces: Names,
    /// What was seen beside the rules.
    pub(crate) remarks: Vec<(Place, String, String)>,
    /// Families and hooks that have a word in the texts, besides those with a chain: IPv4 and IPv6.
    pub(crate) families: [bool; 2],
    /// Rules that the readers have met in the texts.
    pub(crate) read: usize,
    /// Whether a hook without a chain means that everything passes, as in the list of a whole rule set.
    pub(crate) is_whole: bool,
}

/// A list of rules.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// As the text calls it, without its table.
    pub(crate) name: String,
    pub(crate) rules: Vec<Rule>,
}

/// Where the kernel calls a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hook {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

/// A chain that the kernel calls.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) chain: ChainId,
    pub(crate) hook: Hook,
    pub(crate) priority: i32,
    /// Whether it translates instead of filtering.
    pub(crate) translates: bool,
    /// Packets that it sees: of one family, or of one interface (netdev).
    pub(crate) sees: Cube,
    /// Whether what its rules leave is dropped.
    pub(crate) drops: bool,
    pub(crate) place: Place,
    /// The line that says so.
    pub(crate) text: String,
}

/// One rule, or one element of a map of verdicts.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) place: Place,
    /// The original's line.
    pub(crate) text: String,
    /// Its number in its chain, from 1.
    pub(crate) number: usize,
    /// The packets that it matches; where `doubts` has something, the rule matches only some of them.
    pub(crate) cube: Cube,
    pub(crate) interfaces: Vec<InterfaceTest>,
    /// What of the match was not understood, or has no place in a policy.
    pub(crate) doubts: Vec<String>,
    pub(crate) verdict: Verdict,
    pub(crate) logs: bool,
    /// Whether conntrack does not see its packets.
    pub(crate) untracks: bool,
    pub(crate) limit: Option<Limit>,
    /// What people wrote about it.
    pub(crate) comment: Option<String>,
    /// If it sends packets to the machine itself: to which port, or to the one that they are for.
    pub(crate) redirects: Option<Option<u16>>,
    /// Why no packet that a policy judges can match it, where its words say so.
    pub(crate) never: Option<&'static str>,
    /// Whether it stands in no text: a chain that a program makes around its user's rules.
    pub(crate) is_implied: bool,
}

/// Interfaces by name, of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterfaceTest {
    pub(crate) outside: bool,
    pub(crate) not: bool,
    /// Names, and patterns that end with `*`.
    pub(crate) names: Vec<String>,
}

/// How many flows an accepting rule lets open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limit {
    /// As policies write it.
    pub(crate) rate: String,
    pub(crate) burst: u32,
    /// `source` or `destination`.
    pub(crate) per: Option<&'static str>,
}

/// What a rule does with the packets that it matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing that decides: the packet goes on.
    #[default]
    Continue,
    Accept,
    Drop,
    Reject,
    Jump(ChainId),
    Goto(ChainId),
    Return,
    /// Other ends.
    Translate(Change),
    /// Something that this program does not know, or a translation that a policy cannot say, with its words. Treated as drop where packets
    /// are filtered.
    Unknown(String),
}

/// Interfaces that rules name, each with its bit. The loopback interface has none: its packets never pass the firewall.
#[derive(Debug, Default)]
pub(crate) struct Names {
    bits: BTreeMap<String, u32>,
}

/// The most interfaces and patterns that texts can name.
pub(crate) const MAX_INTERFACES: usize = 127;

impl Names {
    /// Adds a name or a pattern. Returns false if there are too many.
    pub(crate) fn add(&mut self, name: &str) -> bool {
        if name != "lo" && name != "*" && !self.bits.contains_key(name) {
            let bit = self.bits.len();
            self.bits.insert(name.to_owned(), bit as u32);
        }
        self.bits.len() <= MAX_INTERFACES
    }

    /// Names and patterns with their bits, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, Interfaces)> {
        self.bits.iter().map(|(name, bit)| (name.as_str(), 1 << bit))
    }

    /// Every interface that has a bit.
    pub(crate) fn every(&self) -> Interfaces {
        self.all().fold(0, |set, (_, bit)| set | bit)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.bits.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.bits.remove(name);
    }

    /// The interfaces that a name or a pattern means.
    pub(crate) fn matched(&self, name: &str) -> Interfaces {
        let takes = |other: &str| match pattern(name) {
            Some(begin) => pattern(other).unwrap_or(other).starts_with(begin),
            None => other == name,
        };
        self.all().filter(|(other, _)| takes(other)).fold(0, |set, (_, bit)| set | bit)
    }

    /// The interfaces that satisfy a test.
    pub(crate) fn tested(&self, test: &InterfaceTest) -> Interfaces {
        let named = test.names.iter().fold(0, |set, name| set | self.matched(name));
        if test.not { self.every() & !named } else { named }
    }
}

impl Ruleset {
    /// The packets of a way that a rule matches at most, where the kernel calls its chain; `None`: none at all.
    pub(crate) fn cube(&self, rule: &Rule, hook: Hook, way: Way) -> Option<Cube> {
        let mut cube = rule.cube.clone();
        for test in &rule.interfaces {
            // A forwarded packet is known by both interfaces at its end (Linux 5.7).
            let is_known = match test.outside {
                true => !matches!(hook, Hook::Prerouting | Hook::Input),
                false => way != Way::Out,
            };
            let side = if test.outside { &mut cube.outside } else { &mut cube.inside };
            match is_known {
                true => *side &= self.interfaces.tested(test),
                // The name of an interface that a packet does not have, or not yet, is empty, and so is not the one that is named.
                false if test.not => {}
                false => return None,
            }
        }
        (!cube.is_empty()).then_some(cube)
    }
}

/// Priorities at which nftables and iptables translate destinations and sources.
const DESTINATIONS: i32 = -100;
const SOURCES: i32 = 100;

impl Ruleset {
    /// Rules that see packets before their destination is translated, or after their source is, name other ends than a policy does: what they
    /// ask of those ends becomes a doubt.
    pub(crate) fn doubt_ends_that_are_translated(&mut self) {
        let translating = self.bases.iter().filter(|base| base.translates).map(|base| base.chain);
        let translates = |rule: &Rule| matches!(rule.verdict, Verdict::Unknown(_) | Verdict::Translate(_));
        if !self.reached(translating).iter().any(|id| self.chains[*id].rules.iter().any(translates)) {
            return;
        }
        let early = |base: &Base| {
            matches!(base.hook, Hook::Prerouting | Hook::Output) && base.priority <= DESTINATIONS
        };
        let late = |base: &Base| base.hook == Hook::Postrouting && base.priority >= SOURCES;
        let translations = self.translations_of_destinations();
        for (is_at, before) in [(&early as &dyn Fn(&Base) -> bool, true), (&late, false)] {
            let bases =
                self.bases.iter().filter(|base| !base.translates && is_at(base)).map(|base| base.chain);
            for id in self.reached(bases) {
                for rule in &mut self.chains[id].rules {
                    if before {
                        doubt_destination(rule, &self.interfaces, &translations)
                    } else {
                        doubt_source(rule)
                    }
                }
            }
        }
    }

    /// The packets that rules may send elsewhere, and where to; `None` if that is not known.
    fn translations_of_destinations(&self) -> Vec<Elsewhere> {
        let bases = self.bases.iter().filter(|base| base.translates && base.hook != Hook::Postrouting);
        let reached = self.reached(bases.map(|base| base.chain));
        let rules = reached.iter().flat_map(|id| &self.chains[*id].rules);
        let elsewhere = |rule: &Rule| {
            let to = match rule.verdict {
                Verdict::Translate(Change::Destination { address, port }) => Some((address, port)),
                Verdict::Unknown(_) => None,
                _ => return None,
            };
            Some((whole(rule, &self.interfaces), to))
        };
        rules.filter_map(elsewhere).collect()
    }

    /// Packets that a rule exempts from tracking are not new, and nothing translates them: rules that could be about those are in doubt where
    /// that matters.
    pub(crate) fn doubt_what_is_not_tracked(&mut self) {
        let rules = || self.chains.iter().flat_map(|chain| &chain.rules);
        let untracked: Vec<Cube> =
            rules().filter(|rule| rule.untracks).map(|rule| stateless(&rule.cube)).collect();
        if untracked.is_empty() {
            return;
        }
        let first = state::NEW | state::UNTRACKED;
        for rule in self.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
            let asks = ![0, first].contains(&(rule.cube.states & first));
            let depends = asks || matches!(rule.verdict, Verdict::Translate(_));
            let own = stateless(&rule.cube);
            if depends && untracked.iter().any(|cube| cube.meets(&own)) {
                rule.cube.states |= first;
                rule.doubts.push("packets that are tracked, or that are not".to_owned());
            }
        }
    }

    /// Chains, and those that they lead to.
    pub(crate) fn reached(&self, from: impl Iterator<Item = ChainId>) -> BTreeSet<ChainId> {
        let mut to_see: Vec<ChainId> = from.collect();
        let mut seen = BTreeSet::new();
        while let Some(chain) = to_see.pop() {
            if seen.insert(chain) {
                to_see.extend(self.chains[chain].rules.iter().filter_map(|rule| match rule.verdict {
                    Verdict::Jump(to) | Verdict::Goto(to) => Some(to),
                    _ => None,
                }));
            }
        }
        seen
    }
}

/// Packets that a rule translates, and the address and the port that become theirs.
type Elsewhere = (Cube, Option<(Ipv4Addr, Option<u16>)>);

/// The packets of a cube whatever conntrack says of them and whosever their destination is.
fn stateless(cube: &Cube) -> Cube {
    Cube { states: state::ALL, kinds: kind::ALL, ..cube.clone() }
}

/// The packets of a rule by the interfaces that they come by, whatever conntrack says of them and whosever their destination is.
fn whole(rule: &Rule, names: &Names) -> Cube {
    let tests = rule.interfaces.iter().filter(|test| !test.outside);
    let inside = tests.fold(rule.cube.inside, |left, test| left & names.tested(test));
    Cube { inside, ..stateless(&rule.cube) }
}

/// A rule that asks for a destination before it is translated is about what has that destination afterwards, and what has been sent elsewhere.
fn doubt_destination(rule: &mut Rule, names: &Names, translations: &[Elsewhere]) {
    let asks_for = |cube: &Cube| {
        let all = every_destination(cube);
        (&all.destination, &all.services, all.kinds) != (&cube.destination, &cube.services, cube.kinds)
    };
    let own = whole(rule, names);
    let comes_here = |to: &Option<(Ipv4Addr, Option<u16>)>| {
        to.is_none_or(|(address, _)| own.destination.contains(IpAddr::V4(address)))
    };
    let leaving: Vec<_> =
        translations.iter().filter(|(cube, _)| cube.meets(&own)).map(|(_, to)| to).collect();
    let is_concerned = !leaving.is_empty() || translations.iter().any(|(_, to)| comes_here(to));
    if !asks_for(&rule.cube) || !is_concerned {
        return;
    }
    rule.doubts.push("a destination before it is translated".to_owned());
    if leaving.is_empty() {
        return;
    }
    let known: Option<Vec<(Ipv4Addr, Option<u16>)>> = leaving.into_iter().copied().collect();
    let Some(known) = known else {
        rule.cube = every_destination(&rule.cube);
        return;
    };
    let cube = &mut rule.cube;
    let addresses = known.iter().map(|(address, _)| (u32::from(*address), u32::from(*address)));
    cube.destination.v4 = RangeSet::of(cube.destination.v4.ranges().iter().copied().chain(addresses));
    let ports = known.iter().filter_map(|(_, port)| *port);
    let keys = ports.flat_map(|port| {
        let with_ports = words::protocols(&own.services).filter(|protocol| words::has_ports(*protocol));
        with_ports.map(move |protocol| (key(protocol, port), key(protocol, port))).collect::<Vec<_>>()
    });
    cube.services = RangeSet::of(cube.services.ranges().iter().copied().chain(keys));
    cube.kinds = kind::ALL;
}

/// A family as far as a set has something of it.
fn families(set: &AddressSet) -> AddressSet {
    AddressSet {
        v4: if set.v4.is_empty() { set.v4.clone() } else { RangeSet::full() },
        v6: if set.v6.is_empty() { set.v6.clone() } else { RangeSet::full() },
    }
}

fn every_destination(cube: &Cube) -> Cube {
    let of = words::protocols(&cube.services).map(words::of_protocol).collect::<Vec<_>>();
    Cube {
        destination: families(&cube.destination),
        services: RangeSet::of(of.iter().flat_map(|of| of.ranges().iter().copied())),
        kinds: kind::ALL,
        ..cube.clone()
    }
}

/// A rule that asks for a source after it is translated is about any source.
fn doubt_source(rule: &mut Rule) {
    let source = families(&rule.cube.source);
    let source_ports = policy::service::any_port();
    if (&source, &source_ports) != (&rule.cube.source, &rule.cube.source_ports) {
        (rule.cube.source, rule.cube.source_ports) = (source, source_ports);
        rule.doubts.push("a source after it is translated".to_owned());
    }
}
