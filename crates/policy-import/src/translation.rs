//! Translations: what a rule of a translating chain says, and the entries of `[[nat]]` that say the same.
//!
//! Both go through a list, the first match deciding, so the order stays. What `[[nat]]` cannot say becomes an exemption where later entries
//! would otherwise take its packets, and, where it would send packets elsewhere, these are denied: the rules judge where packets go, and
//! nothing is known of packets that go to another place than in the original.

use crate::cube::{Cube, kind, state};
use crate::fates::Fates;
use crate::flatten::{Decider, Row, Way};
use crate::report::{Kind, Report};
use crate::ruleset::{ChainId, Hook, Rule, Ruleset, Verdict, Wrong};
use crate::words;
use crate::zones::Zones;
use policy::model::Action;
use policy::ranges::RangeSet;
use policy::service::{LAST_KEY, SCTP, any_port};
use policy::translation::MAX_ROWS;
use std::net::Ipv4Addr;

/// What a rule changes, as a policy can say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The source becomes the interface's address, its port one of these.
    Masquerade {
        ports: Option<(u16, u16)>,
    },
    /// The source becomes one of these.
    Source {
        addresses: (Ipv4Addr, Ipv4Addr),
        ports: Option<(u16, u16)>,
    },
    Destination {
        address: Ipv4Addr,
        port: Option<u16>,
    },
}

/// `203.0.113.7`, `203.0.113.7-203.0.113.9:1024-65535`, `:1024-65535`.
struct Ends {
    addresses: Option<(Ipv4Addr, Ipv4Addr)>,
    ports: Option<(u16, u16)>,
}

fn ends(text: &str) -> Option<Ends> {
    let (addresses, ports) = text.split_once(':').map_or((text, None), |(a, p)| (a, Some(p)));
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.to_owned(), last.to_owned()))
    };
    let address = |text: &str| text.parse::<Ipv4Addr>().ok().filter(|address| is_a_hosts(*address));
    let port = |text: &str| words::number::<u16>(text).filter(|port| *port > 0);
    let addresses = match addresses {
        "" => None,
        text => {
            let (first, last) = range(text)?;
            Some((address(&first)?, address(&last)?)).filter(|(first, last)| first <= last).map(Some)?
        }
    };
    let ports = match ports {
        None => None,
        Some(text) => {
            let (first, last) = range(text)?;
            Some((port(&first)?, port(&last)?)).filter(|(first, last)| first <= last).map(Some)?
        }
    };
    (addresses.is_some() || ports.is_some()).then_some(Ends { addresses, ports })
}

/// What a policy takes for an address.
fn is_a_hosts(address: Ipv4Addr) -> bool {
    address.octets()[0] != 0 && !address.is_loopback() && address.octets()[0] < 224
}

/// Words that say how a port or an address is chosen, and nothing about which may be.
const HOW: &[&str] = &["random", "fully-random", "persistent", "--random", "--random-fully", "--persistent"];

/// What `SNAT --to-source 203.0.113.7`, `snat to 203.0.113.7` and the like say; `None` if a policy cannot say it. `words` stand behind the name.
pub(crate) fn change(name: &str, words: &[&str]) -> Option<Change> {
    let said: Vec<&str> = words.iter().copied().filter(|word| !HOW.contains(word)).collect();
    let ends = match said[..] {
        [] => Ends { addresses: None, ports: None },
        ["--to-source" | "--to-destination" | "to", value] | ["ip", "to", value] => ends(value)?,
        ["--to-ports", ports] => ends(&format!(":{ports}"))?,
        _ => return None,
    };
    match (name, ends.addresses, ends.ports) {
        ("MASQUERADE" | "masquerade", None, ports) => Some(Change::Masquerade { ports }),
        ("SNAT" | "snat", Some(addresses), ports) => Some(Change::Source { addresses, ports }),
        ("DNAT" | "dnat", Some((address, last)), ports) if address == last => match ports {
            None => Some(Change::Destination { address, port: None }),
            Some((port, last)) if port == last => Some(Change::Destination { address, port: Some(port) }),
            Some(_) => None,
        },
        _ => None,
    }
}

/// An entry of `[[nat]]`: packets of IPv4, and what becomes of them.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) cube: Cube,
    /// `None`: nothing, whatever later entries say.
    pub(crate) change: Option<Change>,
    pub(crate) chain: ChainId,
    /// The rule's place in it.
    pub(crate) at: usize,
    /// The rules that jumped there.
    pub(crate) trail: Vec<(ChainId, usize)>,
    /// Whether it is about what packets come from.
    pub(crate) is_of_source: bool,
    /// Why the rule itself is not carried over.
    lost: Option<String>,
}

/// What becomes of all translating chains.
#[derive(Debug, Default)]
pub(crate) struct Translations {
    /// Entries about sources, then those about destinations: an exemption of destinations has no `to`, and so is one of sources too.
    pub(crate) entries: Vec<Entry>,
    /// Rows that deny, for each way, what would be sent elsewhere.
    pub(crate) denied: Vec<(Way, Row)>,
}

/// The entries of all translating chains.
pub(crate) fn entries(
    ruleset: &Ruleset,
    zones: &Zones,
    fates: &mut Fates,
    report: &mut Report<'_>,
) -> Result<Translations, Wrong> {
    refuse_what_drops(ruleset)?;
    let mut all = Translations::default();
    let inside = zones.0.iter().fold(0, |bits, zone| bits | zone.bits);
    let start = Cube { states: state::NEW, inside, ..Cube::all() };
    let forwarded = Cube { outside: inside, kinds: kinds_at(Hook::Postrouting), ..start.clone() };
    let sources = bounded(Walk::of(ruleset, Hook::Postrouting, forwarded, fates)?);
    for entry in sources.iter().filter(|entry| entry.lost.is_some()) {
        note(ruleset, entry, report);
    }
    let sources = without_idle(sources);
    let found = Walk::of(ruleset, Hook::Prerouting, start.clone(), fates)?;
    let destinations = bounded(found);
    for (place, entry) in destinations.iter().enumerate().filter(|(_, entry)| entry.lost.is_some()) {
        let wide = is_met_later(&destinations, place);
        let cubes = elsewhere(&destinations, place, wide);
        all.deny(ruleset, entry, &cubes, &[Way::Through, Way::In], report);
    }
    let sent = Cube { inside: crate::cube::Interfaces::MAX, ..start };
    let of_self = Walk::of(ruleset, Hook::Output, sent, fates)?;
    for (place, entry) in of_self.iter().enumerate() {
        if entry.change.is_some() || entry.lost.is_some() {
            all.deny(ruleset, entry, &elsewhere(&of_self, place, false), &[Way::Out], report);
        }
    }
    for entry in &sources {
        if matches!(entry.change, Some(Change::Masquerade { .. })) && has_v6(&entry.cube) {
            let why = "of IPv6 nothing is translated, because a policy cannot say it";
            report.say(ruleset, (entry.chain, entry.at), Kind::Note, why);
        }
    }
    all.entries.extend(sources);
    all.entries.extend(without_idle(destinations));
    all.entries.retain(|entry| has_v4(&entry.cube));
    Ok(all)
}

impl Translations {
    /// Denies what is sent elsewhere in the original.
    fn deny(
        &mut self,
        ruleset: &Ruleset,
        entry: &Entry,
        cubes: &[Cube],
        ways: &[Way],
        report: &mut Report<'_>,
    ) {
        let id = (entry.chain, entry.at);
        let why = entry.lost.as_deref().unwrap_or("of what the machine itself sends nothing is translated");
        let before = self.denied.len();
        for way in ways {
            let cubes: Vec<Cube> = cubes.iter().filter_map(|cube| way.denied(cube.clone())).collect();
            let row = Row {
                cubes,
                action: Action::Deny,
                decider: Decider::Rule(entry.chain, entry.at),
                trail: entry.trail.clone(),
                logs: false,
                limit: None,
            };
            self.denied.extend((!row.cubes.is_empty()).then_some((*way, row)));
        }
        if self.denied.len() == before {
            let why = format!("this translation is not carried over: {why}");
            return report.say(ruleset, id, Kind::Note, why);
        }
        let why = format!(
            "this translation is not carried over ({why}), so what it translates is denied: write it as [[nat]] by hand, and take the rule that \
             denies it out"
        );
        report.say(ruleset, id, Kind::Wider, why);
    }
}

fn note(ruleset: &Ruleset, entry: &Entry, report: &mut Report<'_>) {
    let why = entry.lost.as_deref().unwrap_or_default();
    let why = format!(
        "this translation is not carried over ({why}), so sources stay as they are: write it as [[nat]] by hand"
    );
    report.say(ruleset, (entry.chain, entry.at), Kind::Note, why);
}

/// What an entry that is lost translates: without what earlier entries exempt, and if it is `wide`, all that an exemption in its place takes.
fn elsewhere(entries: &[Entry], place: usize, wide: bool) -> Vec<Cube> {
    let mut cube = Cube { states: state::ALL, ..entries[place].cube.clone() };
    if wide {
        (cube.kinds, cube.source_ports) = (kind::ALL, any_port());
    }
    let exempt = entries[..place].iter().filter(|entry| entry.change.is_none() && entry.lost.is_none());
    let exempt: Vec<Cube> = exempt.map(|entry| Cube { states: state::ALL, ..entry.cube.clone() }).collect();
    without(vec![cube], &exempt)
}

/// The kinds of destinations that packets have at a hook.
fn kinds_at(hook: Hook) -> u8 {
    if hook == Hook::Postrouting { kind::OTHER | kind::MULTICAST } else { kind::ALL }
}

/// Chains that translate and drop as well are refused: what they drop, the policy would have to.
fn refuse_what_drops(ruleset: &Ruleset) -> Result<(), Wrong> {
    if let Some(base) = ruleset.bases.iter().find(|base| base.translates && base.drops) {
        return Err((
            base.place,
            "a chain that translates drops what its rules leave, which cannot be carried over".to_owned(),
        ));
    }
    let bases = ruleset.bases.iter().filter(|base| base.translates).map(|base| base.chain);
    let reached = ruleset.reached(bases);
    let mut rules = reached.iter().flat_map(|id| &ruleset.chains[*id].rules);
    match rules.find(|rule| matches!(rule.verdict, Verdict::Drop | Verdict::Reject)) {
        Some(rule) => Err((
            rule.place,
            "a chain that translates drops packets, which cannot be carried over".to_owned(),
        )),
        None => Ok(()),
    }
}

fn has_v4(cube: &Cube) -> bool {
    !cube.source.v4.is_empty() && !cube.destination.v4.is_empty()
}

fn has_v6(cube: &Cube) -> bool {
    !cube.source.v6.is_empty() && !cube.destination.v6.is_empty()
}

/// Whether an entry that changes something stands behind this one and may be about the same packets.
fn is_met_later(entries: &[Entry], place: usize) -> bool {
    // An exemption asks for neither.
    let wide = Cube { kinds: kind::ALL, source_ports: any_port(), ..entries[place].cube.clone() };
    entries[place + 1..].iter().any(|later| later.change.is_some() && later.cube.meets(&wide))
}

/// Without exemptions from nothing.
fn without_idle(entries: Vec<Entry>) -> Vec<Entry> {
    let is_used = |place: usize| entries[place].change.is_some() || is_met_later(&entries, place);
    let used: Vec<bool> = (0..entries.len()).map(is_used).collect();
    entries.into_iter().zip(used).filter(|(_, used)| *used).map(|(entry, _)| entry).collect()
}

/// Entries that take too many rows become lost ones.
fn bounded(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut rows = 0;
    for entry in &mut entries {
        let cube = &entry.cube;
        let parts = [&cube.source.v4, &cube.destination.v4, &cube.services];
        let own: usize = parts.iter().map(|set| set.ranges().len()).product();
        rows += own;
        if rows > MAX_ROWS && entry.change.take().is_some() {
            entry.lost = Some(format!("with it there would be more than {MAX_ROWS} rows"));
        }
        if rows > MAX_ROWS {
            rows -= own;
            // One row: an exemption may take more than it has to, because what is lost is denied.
            entry.cube.source = wide(&entry.cube.source);
            entry.cube.destination = wide(&entry.cube.destination);
            entry.cube.services = RangeSet::of([(0, LAST_KEY)]);
            entry.lost.get_or_insert_with(|| format!("with it there would be more than {MAX_ROWS} rows"));
        }
    }
    entries
}

fn wide(set: &policy::address::AddressSet) -> policy::address::AddressSet {
    let whole = |is_empty, v4: bool| if is_empty { Default::default() } else { words::family(v4) };
    policy::address::AddressSet {
        v4: whole(set.v4.is_empty(), true).v4,
        v6: whole(set.v6.is_empty(), false).v6,
    }
}

/// The chains of one hook as they are gone through.
struct Walk<'r> {
    ruleset: &'r Ruleset,
    hook: Hook,
    is_last: bool,
    entries: Vec<Entry>,
    /// Packets that the chains of the next priority see.
    accepted: Vec<Cube>,
    trail: Vec<(ChainId, usize)>,
    steps: usize,
    fates: &'r mut Fates,
}

/// Rules that are gone through, and sets of packets at once, at most.
const MOST_STEPS: usize = 200_000;

/// How deep the kernel lets chains jump.
const MOST_JUMPS: usize = 16;

impl<'r> Walk<'r> {
    fn of(ruleset: &'r Ruleset, hook: Hook, start: Cube, fates: &'r mut Fates) -> Result<Vec<Entry>, Wrong> {
        let mut bases: Vec<_> =
            ruleset.bases.iter().filter(|base| base.translates && base.hook == hook).collect();
        bases.sort_by_key(|base| base.priority);
        let mut walk = Walk {
            ruleset,
            hook,
            is_last: false,
            entries: Vec::new(),
            accepted: Vec::new(),
            trail: Vec::new(),
            steps: 0,
            fates,
        };
        let mut packets = vec![start];
        for (place, base) in bases.iter().enumerate() {
            // Of another family the other packets go on.
            let others: Vec<Cube> = packets.iter().flat_map(|cube| cube.without(&base.sees)).collect();
            let sees = packets.iter().filter_map(|cube| cube.common(&base.sees)).collect();
            let later = &bases[place + 1..];
            walk.is_last = !later.iter().any(|other| other.sees.meets(&base.sees));
            let left = walk.chain(base.chain, sees)?;
            packets = [others, left, std::mem::take(&mut walk.accepted)].concat();
        }
        Ok(walk.entries)
    }

    /// Goes through a chain. Returns the packets that come to its end, or return.
    fn chain(&mut self, id: ChainId, mut packets: Vec<Cube>) -> Result<Vec<Cube>, Wrong> {
        let mut returned = Vec::new();
        for (at, rule) in self.ruleset.chains[id].rules.iter().enumerate() {
            self.steps += 1 + packets.len();
            if self.steps > MOST_STEPS {
                let message = "the chains that translate are so many that they cannot be written out";
                return Err((rule.place, message.to_owned()));
            }
            let Some(cube) = self.ruleset.cube(rule, self.hook, Way::Through) else { continue };
            let matched: Vec<Cube> = packets.iter().filter_map(|packets| packets.common(&cube)).collect();
            if matched.is_empty() {
                continue;
            }
            let is_sure = rule.doubts.is_empty() && rule.limit.is_none();
            match &rule.verdict {
                Verdict::Continue => {}
                Verdict::Translate(change) if is_sure => self.translate(matched, *change, id, at),
                Verdict::Accept
                    if is_sure && self.is_last && matched.iter().all(|cube| self.is_plain(cube)) =>
                {
                    self.add(matched, None, None, id, at);
                }
                Verdict::Accept if is_sure => {
                    packets = without(packets, &matched);
                    self.accepted.extend(matched);
                }
                Verdict::Return if is_sure => {
                    self.fates.narrows.insert((id, at));
                    packets = without(packets, &matched);
                    returned.extend(matched);
                }
                Verdict::Jump(to) | Verdict::Goto(to) if is_sure => {
                    self.enter(id, at, *to)?;
                    let left = self.chain(*to, matched.clone())?;
                    self.trail.pop();
                    packets = without(packets, &matched);
                    let goes = matches!(rule.verdict, Verdict::Goto(_));
                    if goes { &mut returned } else { &mut packets }.extend(left);
                }
                Verdict::Jump(to) | Verdict::Goto(to)
                    if !self.translates(*to) && matches!(rule.verdict, Verdict::Jump(_)) => {}
                Verdict::Unknown(what) => {
                    let why = format!("a policy cannot say what becomes of its packets: {what}");
                    self.add(matched, None, Some(why), id, at);
                }
                _ => {
                    let why = match &rule.doubts[..] {
                        [] => "a policy cannot ask for a limit here".to_owned(),
                        doubts => format!("a policy cannot ask for {}", doubts.join(", ")),
                    };
                    self.add(matched, None, Some(why), id, at);
                }
            }
        }
        packets.extend(returned);
        Ok(packets)
    }

    /// Whether an exemption can say which packets these are.
    fn is_plain(&self, cube: &Cube) -> bool {
        cube.kinds == kinds_at(self.hook) && cube.source_ports == any_port()
    }

    fn enter(&mut self, id: ChainId, at: usize, to: ChainId) -> Result<(), Wrong> {
        if id == to || self.trail.iter().any(|(chain, _)| *chain == to) || self.trail.len() > MOST_JUMPS {
            let name = &self.ruleset.chains[to].name;
            let message =
                format!("a loop of jumps, or more than {MOST_JUMPS} of them: `{name}` is called here again");
            return Err((self.ruleset.chains[id].rules[at].place, message));
        }
        self.trail.push((id, at));
        Ok(())
    }

    /// Whether something in a chain may decide.
    fn translates(&self, chain: ChainId) -> bool {
        let reached = self.ruleset.reached(std::iter::once(chain));
        let decides =
            |rule: &Rule| !matches!(rule.verdict, Verdict::Continue | Verdict::Jump(_) | Verdict::Return);
        reached.iter().any(|id| self.ruleset.chains[*id].rules.iter().any(decides))
    }

    fn translate(&mut self, matched: Vec<Cube>, change: Change, id: ChainId, at: usize) {
        for cube in matched {
            let lost = self.cannot_say(&cube, change);
            let change = lost.is_none().then_some(change);
            self.add(vec![cube], change, lost, id, at);
        }
    }

    /// Why an entry cannot say that these packets are changed.
    fn cannot_say(&self, cube: &Cube, change: Change) -> Option<String> {
        let protocols = words::protocols(&cube.services);
        let has_port = matches!(
            change,
            Change::Destination { port: Some(_), .. }
                | Change::Source { ports: Some(_), .. }
                | Change::Masquerade { ports: Some(_) }
        );
        let is_about_sources = !matches!(change, Change::Destination { .. });
        let why = match () {
            () if is_about_sources != (self.hook == Hook::Postrouting) => {
                "it stands at a hook where nothing of this kind is translated"
            }
            () if !has_v4(cube) => "only IPv4 is translated",
            () if cube.source_ports != any_port() => "a translation cannot ask for source ports",
            () if cube.kinds != kinds_at(self.hook) => {
                "which addresses are the machine's own is not in the rule set"
            }
            () if has_port
                && protocols.into_iter().any(|protocol| !words::has_ports(protocol) || protocol == SCTP) =>
            {
                "it gives ports to protocols whose ports are not translated"
            }
            () => return None,
        };
        Some(why.to_owned())
    }

    fn add(
        &mut self,
        cubes: Vec<Cube>,
        change: Option<Change>,
        lost: Option<String>,
        chain: ChainId,
        at: usize,
    ) {
        let trail = &self.trail;
        let is_of_source = self.hook == Hook::Postrouting;
        let entry =
            |cube| Entry { cube, change, chain, at, trail: trail.clone(), is_of_source, lost: lost.clone() };
        self.entries.extend(cubes.into_iter().map(entry));
    }
}

fn without(packets: Vec<Cube>, taken: &[Cube]) -> Vec<Cube> {
    taken.iter().fold(packets, |left, taken| left.iter().flat_map(|cube| cube.without(taken)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_policy_can_say() {
        let address = |last| Ipv4Addr::new(192, 0, 2, last);
        let source =
            |first, last, ports| Some(Change::Source { addresses: (address(first), address(last)), ports });
        let destination = |last, port| Some(Change::Destination { address: address(last), port });
        for (words, expected) in [
            ("MASQUERADE", Some(Change::Masquerade { ports: None })),
            (
                "MASQUERADE --to-ports 1024-2047 --random",
                Some(Change::Masquerade { ports: Some((1024, 2047)) }),
            ),
            ("masquerade to :1024-2047 fully-random", Some(Change::Masquerade { ports: Some((1024, 2047)) })),
            ("masquerade to 192.0.2.7", None),
            ("SNAT --to-source 192.0.2.7", source(7, 7, None)),
            ("SNAT --to-source 192.0.2.7-192.0.2.9:5-6 --persistent", source(7, 9, Some((5, 6)))),
            ("SNAT --to-source 192.0.2.7 --to-source 192.0.2.9", None),
            ("SNAT --to-source 192.0.2.9-192.0.2.7", None),
            ("SNAT --to-source 192.0.2.7:6-5", None),
            ("SNAT --to-source 192.0.2.7:0", None),
            ("SNAT", None),
            ("snat ip to 192.0.2.7", source(7, 7, None)),
            ("snat ip6 to 2001:db8::1", None),
            ("snat to ip saddr map { 10.0.0.1 : 192.0.2.7 }", None),
            ("DNAT --to-destination 192.0.2.7:80", destination(7, Some(80))),
            ("DNAT --to-destination 192.0.2.7", destination(7, None)),
            ("DNAT --to-destination 192.0.2.7-192.0.2.8", None),
            ("DNAT --to-destination 192.0.2.7:80-90", None),
            ("DNAT --to-destination :80", None),
            ("DNAT --to-destination 127.0.0.1", None),
            ("DNAT --to-destination host.example", None),
            ("DNAT --to-destination 192.0.2.7 --what", None),
            ("dnat to 192.0.2.7:80", destination(7, Some(80))),
            ("REDIRECT --to-ports 3128", None),
            ("redirect to :3128", None),
            ("NETMAP --to 192.0.2.0/24", None),
        ] {
            let all: Vec<&str> = words.split(' ').collect();
            assert_eq!(change(all[0], &all[1..]), expected, "{words}");
        }
    }
}
