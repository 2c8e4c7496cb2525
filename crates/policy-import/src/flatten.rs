//! From chains to lists: what becomes of the packets of a direction, rule by rule, the first that matches deciding.
//!
//! Chains that others jump to are written out where they are called, and an accepted packet goes on to the next chain that the kernel
//! calls. What a rule may match but need not (it has doubts) never becomes an allowing row, and becomes a denying row as a whole.

use crate::cube::{Cube, kind, state};
use crate::fates::Fates;
use crate::report::{Kind, Report};
use crate::ruleset::{Base, ChainId, Hook, Limit, Place, Rule, Ruleset, Verdict, Wrong};
use crate::words;
use crate::zones::Zones;
use policy::model::{Action, MAX_RULES};

/// A way of packets through the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// To the machine.
    In,
    /// Through it.
    Through,
    /// From it.
    Out,
}

/// All of them.
pub(crate) const WAYS: [Way; 3] = [Way::Through, Way::In, Way::Out];

impl Way {
    fn hooks(self) -> &'static [Hook] {
        match self {
            Way::In => &[Hook::Prerouting, Hook::Input],
            Way::Through => &[Hook::Prerouting, Hook::Forward, Hook::Postrouting],
            Way::Out => &[Hook::Output, Hook::Postrouting],
        }
    }

    /// The hook that is this way's own.
    fn hook(self) -> Hook {
        match self {
            Way::In => Hook::Input,
            Way::Through => Hook::Forward,
            Way::Out => Hook::Output,
        }
    }

    /// As chains are called.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Way::In => "input",
            Way::Through => "forward",
            Way::Out => "output",
        }
    }

    /// The kinds of destinations that packets can have.
    fn kinds(self) -> u8 {
        match self {
            Way::In => kind::LOCAL | kind::BROADCAST | kind::MULTICAST,
            Way::Through => kind::OTHER | kind::MULTICAST,
            // What the machine sends to itself never passes the firewall.
            Way::Out => kind::OTHER | kind::BROADCAST | kind::MULTICAST,
        }
    }
}

impl Way {
    /// The packets of a cube that go this way, said by addresses alone: all of them, and more where a policy cannot tell.
    pub(crate) fn denied(self, cube: Cube) -> Option<Cube> {
        let kinds = cube.kinds & self.kinds();
        let (cube, _) = without_kinds(self, Cube { kinds, ..cube });
        cube.filter(|cube| kinds != 0 && !cube.is_empty())
    }
}

/// What decided about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decider {
    /// A rule: its chain, and its place there.
    Rule(ChainId, usize),
    /// What a chain does with what its rules leave: a place in [`Ruleset::bases`].
    Policy(usize),
    /// No chain sees the packets.
    Nobody,
}

/// Packets, and what becomes of them unless an earlier row decided.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) cubes: Vec<Cube>,
    pub(crate) action: Action,
    pub(crate) decider: Decider,
    /// The rules that jumped to the one that decided.
    pub(crate) trail: Vec<(ChainId, usize)>,
    pub(crate) logs: bool,
    pub(crate) limit: Option<Limit>,
}

/// What becomes of packets that open flows, and what became of all packets of open ones.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) way: Way,
    pub(crate) new: Vec<Row>,
    pub(crate) established: Vec<Row>,
}

/// Rules that are gone through at most. Chains that jump to each other many times, several levels deep, would be endless.
const MOST_STEPS: usize = 5_000_000;

/// How deep the kernel lets chains jump.
const MOST_JUMPS: usize = 16;

/// The lists of all ways.
pub(crate) fn hooks(
    ruleset: &Ruleset,
    zones: &Zones,
    fates: &mut Fates,
    report: &mut Report<'_>,
) -> Result<Vec<Lists>, Wrong> {
    let mut lists = Vec::new();
    for way in WAYS {
        let mut flat = Flat::new(ruleset, way);
        flat.run(first_packets(way, zones))?;
        let mut answers = Flat::new(ruleset, way);
        answers.is_about_answers = true;
        answers.run(vec![Cube { states: state::ESTABLISHED, ..start(way, zones) }])?;
        for (decider, kind, why) in flat.findings.drain(..) {
            add(ruleset, report, decider, kind, why);
        }
        fates.add(flat.seen);
        lists.push(Lists { way, new: without_idle_rows(flat.rows, ruleset), established: answers.rows });
    }
    Ok(lists)
}

/// Reports at the place of a rule or of a chain's policy.
pub(crate) fn add(ruleset: &Ruleset, report: &mut Report<'_>, decider: Decider, kind: Kind, why: String) {
    match decider {
        Decider::Rule(chain, at) => report.say(ruleset, (chain, at), kind, why),
        Decider::Policy(base) => {
            let base = &ruleset.bases[base];
            report.add(base.place, kind, &base.text, why);
        }
        Decider::Nobody => report.add(Place::default(), kind, "", why),
    }
}

fn start(way: Way, zones: &Zones) -> Cube {
    let all = zones.0.iter().fold(0, |bits, zone| bits | zone.bits);
    let everywhere = crate::cube::Interfaces::MAX;
    Cube {
        kinds: way.kinds(),
        inside: if way == Way::Out { everywhere } else { all },
        outside: if way == Way::In { everywhere } else { all },
        ..Cube::all()
    }
}

/// Packets of no flow, with the state that conntrack gives them.
fn first_packets(way: Way, zones: &Zones) -> Vec<Cube> {
    let all = start(way, zones);
    let [invalid, untracked] = words::unlike_new();
    let new = all.services.without(&invalid).without(&untracked);
    vec![
        Cube { states: state::NEW, services: new, ..all.clone() },
        Cube { states: state::INVALID, services: invalid, ..all.clone() },
        Cube { states: state::UNTRACKED, services: untracked, ..all },
    ]
}

/// One way as it is gone along.
struct Flat<'r> {
    ruleset: &'r Ruleset,
    way: Way,
    bases: Vec<usize>,
    /// Of each of them, whether it can drop something.
    can_drop: Vec<bool>,
    rows: Vec<Row>,
    findings: Vec<(Decider, Kind, String)>,
    seen: Fates,
    steps: usize,
    cubes: usize,
    is_about_answers: bool,
}

/// Where in the chains a packet is.
#[derive(Clone, Default)]
struct Standing {
    /// Place of the base chain among those of the way.
    base: usize,
    trail: Vec<(ChainId, usize)>,
    /// Why only some of the packets may be here.
    doubts: Vec<String>,
    /// Packets that a row before refuses. A later row may name them again, which is shorter to write.
    refused: Vec<Cube>,
    /// Of these packets some have gone elsewhere, nobody knows which: nothing that allows is right for them.
    gone: Vec<Cube>,
}

impl Standing {
    fn may_be_gone(&self, packets: &[Cube]) -> bool {
        packets.iter().any(|cube| self.gone.iter().any(|gone| gone.meets(cube)))
    }
}

/// A rule that decides, and the packets that it decides about.
struct Met<'r> {
    decider: Decider,
    rule: &'r Rule,
    packets: Vec<Cube>,
    /// Why it may be about only some of them.
    doubts: Vec<String>,
    logs: bool,
}

/// What of a chain's packets is where.
struct Walk {
    /// Those that come to the next rule.
    packets: Vec<Cube>,
    /// Those that go back to the chain that called this one.
    returned: Vec<Cube>,
    standing: Standing,
}

impl<'r> Flat<'r> {
    fn new(ruleset: &'r Ruleset, way: Way) -> Self {
        let mut bases: Vec<usize> = (0..ruleset.bases.len())
            .filter(|at| {
                let base = &ruleset.bases[*at];
                !base.translates && way.hooks().contains(&base.hook)
            })
            .collect();
        bases.sort_by_key(|at| (ruleset.bases[*at].hook, ruleset.bases[*at].priority));
        let can_drop = bases.iter().map(|at| can_drop(ruleset, &ruleset.bases[*at])).collect();
        Self {
            ruleset,
            way,
            bases,
            can_drop,
            rows: Vec::new(),
            findings: Vec::new(),
            seen: Fates::default(),
            steps: 0,
            cubes: 0,
            is_about_answers: false,
        }
    }

    fn run(&mut self, packets: Vec<Cube>) -> Result<(), Wrong> {
        self.base(packets, Decider::Nobody, &Standing::default(), None, false)
    }

    /// Packets come to the chain at the place `standing.base`; what let them pass before is `decider`.
    fn base(
        &mut self,
        packets: Vec<Cube>,
        decider: Decider,
        standing: &Standing,
        limit: Option<&Limit>,
        logs: bool,
    ) -> Result<(), Wrong> {
        let Some(&at) = self.bases.get(standing.base) else {
            // Without a chain the kernel lets everything pass.
            return self.row(packets, Action::Allow, decider, standing, limit, logs);
        };
        let base = &self.ruleset.bases[at];
        let after = Standing { base: standing.base + 1, ..standing.clone() };
        let (mut sees, mut others) = (Vec::new(), Vec::new());
        for cube in packets {
            sees.extend(cube.common(&base.sees));
            others.extend(cube.without(&base.sees));
        }
        if !others.is_empty() {
            self.base(others, decider, &after, limit, logs)?;
        }
        if sees.is_empty() {
            return Ok(());
        }
        // A chain that lets everything pass is not asked, unless nothing else says why the packets pass.
        if !self.can_drop[standing.base]
            && (decider != Decider::Nobody || self.is_judged_later(&sees, standing.base))
        {
            return self.base(sees, decider, &after, limit, logs);
        }
        let inner = Standing { base: standing.base, ..Standing::default() };
        let left = self.chain(base.chain, sees, &inner)?;
        self.policy(at, left, &inner)
    }

    /// Whether a chain behind the one at a place may drop some of the packets.
    fn is_asked_later(&self, packets: &[Cube], place: usize) -> bool {
        let later = (place + 1..self.bases.len()).filter(|later| self.can_drop[*later]);
        let mut sees = later.map(|later| &self.ruleset.bases[self.bases[later]].sees);
        sees.any(|sees| packets.iter().any(|cube| cube.meets(sees)))
    }

    /// Whether the way's own hook has such a chain.
    fn is_judged_later(&self, packets: &[Cube], place: usize) -> bool {
        let later = self.bases[place + 1..].iter().map(|base| &self.ruleset.bases[*base]);
        let mut own = later.filter(|base| base.hook == self.way.hook());
        own.any(|base| packets.iter().any(|cube| cube.meets(&base.sees)))
    }

    /// Packets that no rule of the base chain decided about.
    fn policy(&mut self, at: usize, left: Vec<Cube>, standing: &Standing) -> Result<(), Wrong> {
        if self.ruleset.bases[at].drops {
            return self.row(left, Action::Deny, Decider::Policy(at), standing, None, false);
        }
        let after = Standing { base: standing.base + 1, ..standing.clone() };
        self.base(left, Decider::Policy(at), &after, None, false)
    }

    /// Goes through a chain. Returns the packets that its end is reached by, or that return; those that a rule decided about may be
    /// among them.
    fn chain(&mut self, id: ChainId, packets: Vec<Cube>, standing: &Standing) -> Result<Vec<Cube>, Wrong> {
        let mut walk = Walk { packets, returned: Vec::new(), standing: standing.clone() };
        let mut logged: Option<(usize, Vec<Cube>)> = None;
        self.seen.entered.insert(id);
        let ruleset = self.ruleset;
        for (at, rule) in ruleset.chains[id].rules.iter().enumerate() {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                let message = "the chains jump to each other so often that they cannot be written out";
                return Err((rule.place, message.to_owned()));
            }
            let Some(matched) = self.matched(rule, &walk.packets, standing) else { continue };
            self.seen.matched.insert((id, at));
            let log = logged.take().filter(|(_, cubes)| *cubes == matched).map(|(log, _)| (id, log));
            if rule.verdict != Verdict::Continue {
                self.seen.logged_by.extend(log.map(|log| (log, (id, at))));
                self.verdict((id, at), rule, matched, &mut walk, rule.logs || log.is_some())?;
            } else if rule.logs {
                logged = Some((at, matched));
            }
            if walk.packets.is_empty() {
                break;
            }
        }
        walk.packets.extend(walk.returned);
        Ok(walk.packets)
    }

    /// The packets that come to a rule and that it may match.
    fn matched(&self, rule: &Rule, packets: &[Cube], standing: &Standing) -> Option<Vec<Cube>> {
        let hook = self.ruleset.bases[self.bases[standing.base]].hook;
        let cube = self.ruleset.cube(rule, hook, self.way)?;
        let matched: Vec<Cube> = packets.iter().filter_map(|packets| packets.common(&cube)).collect();
        (!matched.is_empty()).then_some(matched)
    }

    fn verdict(
        &mut self,
        id: (ChainId, usize),
        rule: &Rule,
        matched: Vec<Cube>,
        walk: &mut Walk,
        logs: bool,
    ) -> Result<(), Wrong> {
        let decider = Decider::Rule(id.0, id.1);
        let doubts = [&walk.standing.doubts[..], &rule.doubts].concat();
        let met = |packets, doubts| Met { decider, rule, packets, doubts, logs };
        match &rule.verdict {
            Verdict::Continue => {}
            Verdict::Accept => {
                self.accept(met(matched, doubts), &walk.standing)?;
                drop(self.decided(rule, walk));
            }
            Verdict::Drop | Verdict::Reject | Verdict::Unknown(_) | Verdict::Translate(_) => {
                self.refuse(met(matched, doubts), &walk.standing)?;
                let refused = self.decided(rule, walk);
                walk.standing.refused.extend(refused);
            }
            Verdict::Jump(to) | Verdict::Goto(to) => {
                let trail = &walk.standing.trail;
                if id.0 == *to || trail.iter().any(|(chain, _)| chain == to) || trail.len() > MOST_JUMPS {
                    let name = &self.ruleset.chains[*to].name;
                    let message = format!(
                        "a loop of jumps, or more than {MOST_JUMPS} of them: `{name}` is called here again"
                    );
                    return Err((rule.place, message));
                }
                let mut inner = Standing { doubts, ..walk.standing.clone() };
                inner.trail.push(id);
                let left = self.chain(*to, matched.clone(), &inner)?;
                match rule.verdict {
                    Verdict::Goto(_) if rule.doubts.is_empty() => self.leave(&matched, left, walk)?,
                    Verdict::Goto(_) => walk.standing.gone.extend(matched),
                    _ if left.is_empty() => drop(self.decided(rule, walk)),
                    _ => {}
                }
            }
            Verdict::Return if rule.doubts.is_empty() => {
                self.seen.narrows.insert(id);
                self.leave(&matched, matched.clone(), walk)?;
            }
            Verdict::Return if walk.standing.trail.is_empty() && self.base_of(&walk.standing).drops => {
                self.refuse(met(matched, doubts), &walk.standing)?;
            }
            Verdict::Return => walk.standing.gone.extend(matched),
        }
        Ok(())
    }

    fn base_of(&self, standing: &Standing) -> &'r Base {
        &self.ruleset.bases[self.bases[standing.base]]
    }

    /// No packet goes on that a rule decided about for sure, where it takes a cube as a whole.
    fn decided(&self, rule: &Rule, walk: &mut Walk) -> Vec<Cube> {
        let whole = self.ruleset.cube(rule, self.base_of(&walk.standing).hook, self.way);
        let Some(whole) = whole.filter(|_| rule.doubts.is_empty() && rule.limit.is_none()) else {
            return Vec::new();
        };
        let (decided, left) =
            std::mem::take(&mut walk.packets).into_iter().partition(|cube| whole.covers(cube));
        walk.packets = left;
        decided
    }

    /// Packets leave the chain: `left` go back to the one that called it, or to the policy.
    fn leave(&mut self, matched: &[Cube], left: Vec<Cube>, walk: &mut Walk) -> Result<(), Wrong> {
        if walk.standing.trail.is_empty() {
            self.policy(self.bases[walk.standing.base], left, &walk.standing)?;
        } else {
            walk.returned.extend(left);
        }
        for taken in matched {
            walk.packets = walk.packets.iter().flat_map(|cube| cube.without(taken)).collect();
            self.cubes += walk.packets.len();
        }
        self.check_size()
    }

    fn accept(&mut self, met: Met<'_>, standing: &Standing) -> Result<(), Wrong> {
        let why = if !met.doubts.is_empty() {
            format!("a policy cannot ask for {}", met.doubts.join(", "))
        } else if standing.may_be_gone(&met.packets) {
            "a rule before it, which is not understood, may take some of its packets away".to_owned()
        } else if met.rule.limit.is_some() && self.is_asked_later(&met.packets, standing.base) {
            "its limit would have to hold together with the rules of another chain, which judges its packets later".to_owned()
        } else {
            let after = Standing { base: standing.base + 1, ..standing.clone() };
            return self.base(met.packets, met.decider, &after, met.rule.limit.as_ref(), met.logs);
        };
        self.find(met.decider, Kind::LeftOut, why);
        Ok(())
    }

    fn refuse(&mut self, met: Met<'_>, standing: &Standing) -> Result<(), Wrong> {
        if self.is_about_answers && !met.doubts.is_empty() {
            return Ok(());
        }
        if let Verdict::Unknown(what) = &met.rule.verdict {
            let why = format!("what becomes of its packets is not known ({what}), so they are denied");
            self.find(met.decider, Kind::Wider, why);
        } else if !met.doubts.is_empty() {
            let why = format!(
                "a policy cannot ask for {}, so the packets are denied with and without it; write a narrower rule by hand",
                met.doubts.join(", ")
            );
            self.find(met.decider, Kind::Wider, why);
        } else if standing.may_be_gone(&met.packets) {
            let why = "a rule before it, which is not understood, may take some of its packets away, and here all are denied";
            self.find(met.decider, Kind::Wider, why.to_owned());
        }
        let action = if met.rule.verdict == Verdict::Reject { Action::Reject } else { Action::Deny };
        self.row(met.packets, action, met.decider, standing, None, met.logs)
    }

    fn find(&mut self, decider: Decider, kind: Kind, why: String) {
        if !self.is_about_answers
            && !self.findings.iter().rev().take(8).any(|found| found.0 == decider && found.2 == why)
        {
            self.findings.push((decider, kind, why));
        }
    }

    fn row(
        &mut self,
        packets: Vec<Cube>,
        action: Action,
        decider: Decider,
        standing: &Standing,
        limit: Option<&Limit>,
        logs: bool,
    ) -> Result<(), Wrong> {
        let mut cubes = Vec::new();
        for cube in packets {
            let (cube, is_exact) = without_kinds(self.way, cube);
            if !is_exact && action == Action::Allow {
                let why =
                    "which addresses are the machine's own, and which are broadcasts, is not in the rule set";
                self.find(decider, Kind::LeftOut, why.to_owned());
                continue;
            }
            if !is_exact {
                let why = "which addresses are the machine's own, and which are broadcasts, is not in the rule set, so all are denied";
                self.find(decider, Kind::Wider, why.to_owned());
            }
            cubes.extend(cube.filter(|cube| !cube.is_empty()));
        }
        let mut cubes = merged(cubes);
        cubes.iter_mut().for_each(|cube| name_whole_icmp(cube, &standing.refused));
        if cubes.is_empty() {
            return Ok(());
        }
        self.cubes += cubes.len();
        self.check_size()?;
        let (trail, limit) = (standing.trail.clone(), limit.cloned());
        self.rows.push(Row { cubes, action, decider, trail, logs, limit });
        Ok(())
    }

    fn check_size(&self) -> Result<(), Wrong> {
        if self.cubes <= 2 * MAX_RULES {
            return Ok(());
        }
        Err((Place::default(), format!("written out, the chains have more than {MAX_RULES} rules")))
    }
}

/// A cube that says by addresses what it said by kinds of destinations, and whether it is the same.
fn without_kinds(way: Way, cube: Cube) -> (Option<Cube>, bool) {
    let all = way.kinds();
    let kinds = cube.kinds & all;
    if kinds == all {
        return (Some(Cube { kinds: kind::ALL, ..cube }), true);
    }
    let groups = words::groups();
    let single = all & !kind::MULTICAST;
    let addresses = match (kinds & kind::MULTICAST != 0, kinds & single) {
        (false, 0) => return (None, true),
        (true, 0) => groups,
        (false, _) => policy::address::AddressSet::any().without(&groups),
        (true, _) => policy::address::AddressSet::any(),
    };
    let is_exact = kinds & single == 0 || kinds & single == single;
    let only = Cube { destination: addresses, ..Cube::all() };
    (Cube { kinds: kind::ALL, ..cube }.common(&only), is_exact)
}

/// Cubes that differ in services alone become one, and states play no part any more.
fn merged(cubes: Vec<Cube>) -> Vec<Cube> {
    let mut merged: Vec<Cube> = Vec::new();
    for cube in cubes {
        let cube = Cube { states: state::ALL, ..cube };
        let alike = |other: &&mut Cube| Cube { services: cube.services.clone(), ..(**other).clone() } == cube;
        match merged.iter_mut().find(alike) {
            Some(other) => {
                let both = other.services.ranges().iter().chain(cube.services.ranges()).copied();
                other.services = policy::ranges::RangeSet::of(both);
            }
            None => merged.push(cube),
        }
    }
    merged
}

/// Names a protocol of ICMP as a whole if a row before has refused the types that are missing: without this, every row behind one that
/// drops `ct state invalid` would be a list of types.
fn name_whole_icmp(cube: &mut Cube, refused: &[Cube]) {
    for protocol in [policy::service::ICMP, policy::service::ICMPV6] {
        let whole = words::of_protocol(protocol);
        let missing = whole.without(&cube.services);
        if missing.is_empty() || missing == whole {
            continue;
        }
        let wider = Cube { services: missing.clone(), ..cube.clone() };
        let is_refused = |refused: &&Cube| {
            Cube { states: state::ALL, kinds: kind::ALL, ..(*refused).clone() }.covers(&wider)
        };
        if refused.iter().any(|refused| is_refused(&refused)) {
            let both = cube.services.ranges().iter().chain(missing.ranges()).copied();
            cube.services = policy::ranges::RangeSet::of(both);
        }
    }
}

/// Without rows that deny what conntrack calls invalid if nothing behind them would allow it: the firewall drops it by itself.
fn without_idle_rows(rows: Vec<Row>, ruleset: &Ruleset) -> Vec<Row> {
    let is_aside = |row: &Row| match row.decider {
        Decider::Rule(chain, at) => {
            row.action != Action::Allow && ruleset.chains[chain].rules[at].cube.states & state::NEW == 0
        }
        _ => false,
    };
    if !rows.iter().any(is_aside) {
        return rows;
    }
    let is_idle = |at: usize| {
        let meets = |later: &Row| {
            later.action == Action::Allow
                && later.cubes.iter().any(|cube| rows[at].cubes.iter().any(|denied| denied.meets(cube)))
        };
        is_aside(&rows[at]) && !rows[at + 1..].iter().any(meets)
    };
    let idle: Vec<bool> = (0..rows.len()).map(is_idle).collect();
    rows.into_iter().zip(idle).filter(|(_, idle)| !idle).map(|(row, _)| row).collect()
}

/// Whether a chain that the kernel calls may drop something.
pub(crate) fn can_drop(ruleset: &Ruleset, base: &Base) -> bool {
    let drops = |rule: &Rule| {
        matches!(rule.verdict, Verdict::Drop | Verdict::Reject | Verdict::Unknown(_) | Verdict::Translate(_))
    };
    let reached = ruleset.reached(std::iter::once(base.chain));
    base.drops || reached.iter().any(|chain| ruleset.chains[*chain].rules.iter().any(drops))
}
