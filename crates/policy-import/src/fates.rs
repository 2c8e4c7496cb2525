//! What became of each rule: it is in the policy, or something is said about it. None vanishes in silence.

use crate::report::{Kind, Report, Rules};
use crate::ruleset::{Base, ChainId, Hook, InterfaceTest, Rule, RuleId, Ruleset, Verdict};
use crate::{cube::state, flatten};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What was seen of rules while they were carried over.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    /// Those that first packets came to.
    pub(crate) matched: HashSet<RuleId>,
    /// Chains that first packets came to.
    pub(crate) entered: HashSet<ChainId>,
    /// Those that take packets away from the rules behind them, which therefore are about fewer.
    pub(crate) narrows: HashSet<RuleId>,
    /// Rules that only log, and the rule behind each that logs the same packets.
    pub(crate) logged_by: Vec<(RuleId, RuleId)>,
    /// Those whose line stands in the policy.
    pub(crate) written: HashSet<RuleId>,
}

impl Fates {
    /// Adds what was seen on another way.
    pub(crate) fn add(&mut self, other: Self) {
        self.matched.extend(other.matched);
        self.entered.extend(other.entered);
        self.narrows.extend(other.narrows);
        self.logged_by.extend(other.logged_by);
    }
}

/// Says something about every rule that is not carried over and of which nothing is said yet, and counts the rules.
pub(crate) fn account(ruleset: &Ruleset, fates: &Fates, report: &mut Report<'_>) -> Rules {
    let logged = fates.logged_by.iter().filter(|(_, by)| fates.written.contains(by)).map(|(log, _)| *log);
    let carried: HashSet<RuleId> =
        fates.written.iter().chain(&fates.narrows).copied().chain(logged).collect();
    let reasons = Reasons::of(ruleset, fates);
    // An element of a map is a rule here, and its rule is carried over if one of them is.
    let mut read: BTreeMap<(ChainId, usize), bool> = BTreeMap::new();
    for (chain, rules) in ruleset.chains.iter().enumerate().map(|(id, chain)| (id, &chain.rules)) {
        for (at, rule) in rules.iter().enumerate().filter(|(_, rule)| !rule.is_implied) {
            let is_carried = carried.contains(&(chain, at));
            *read.entry((chain, rule.number)).or_default() |= is_carried;
            if !is_carried && !report.has_said((chain, at)) {
                let (kind, why) = reasons.why((chain, at), rule);
                report.say(ruleset, (chain, at), kind, why);
            }
        }
    }
    let carried = read.values().filter(|is_carried| **is_carried).count();
    let said = read.len() - carried;
    Rules { read: ruleset.read, carried, said }
}

/// Why rules are not in the policy.
struct Reasons<'r> {
    ruleset: &'r Ruleset,
    fates: &'r Fates,
    filters: BTreeSet<ChainId>,
    translates: BTreeSet<ChainId>,
    /// Of those that translate, what the kernel asks for packets to the machine itself.
    translates_input: BTreeSet<ChainId>,
}

impl<'r> Reasons<'r> {
    fn of(ruleset: &'r Ruleset, fates: &'r Fates) -> Self {
        let reached = |translates: bool, is_input: bool| {
            let is = |hook| is_input == (hook == Hook::Input);
            let bases = ruleset.bases.iter().filter(|base| base.translates == translates && is(base.hook));
            ruleset.reached(bases.map(|base| base.chain))
        };
        let filters = &reached(false, false) | &reached(false, true);
        let (translates, translates_input) = (reached(true, false), reached(true, true));
        Self { ruleset, fates, filters, translates, translates_input }
    }

    fn why(&self, id: RuleId, rule: &Rule) -> (Kind, String) {
        let of_translation = !self.filters.contains(&id.0);
        let is_reached =
            !of_translation || self.translates.contains(&id.0) || self.translates_input.contains(&id.0);
        let lets_pass = matches!(rule.verdict, Verdict::Accept | Verdict::Jump(_) | Verdict::Goto(_));
        if let Some(why) = rule.never {
            return (Kind::Note, why.to_owned());
        }
        if rule.cube.is_empty() {
            let why =
                "no packet is what it asks for: a set has nothing in it, or its words exclude each other";
            return (Kind::Note, why.to_owned());
        }
        if !is_reached {
            return (Kind::Note, "nothing jumps to this chain".to_owned());
        }
        if rule.verdict == Verdict::Continue {
            return (Kind::Note, idle(rule).to_owned());
        }
        if let Some(why) = self.without_interface(rule) {
            return (if lets_pass && !of_translation { Kind::LeftOut } else { Kind::Note }, why);
        }
        let why = if rule.interfaces.iter().any(|test| !test.not && test.names == ["lo"]) {
            "the loopback interface is always open, and no zone has it"
        } else if let Some(why) = of_state(rule) {
            why
        } else if of_translation {
            self.why_not_translated(id, rule)
        } else {
            self.why_not_filtered(id, rule)
        };
        (Kind::Note, why.to_owned())
    }

    /// Of a rule that names interfaces and is about none of those that the policy has.
    fn without_interface(&self, rule: &Rule) -> Option<String> {
        let is_none = |test: &&InterfaceTest| {
            (test.not || test.names != ["lo"]) && self.ruleset.interfaces.tested(test) == 0
        };
        let test = rule.interfaces.iter().find(is_none)?;
        let names = test.names.join(", ");
        Some(match test.not {
            true => format!(
                "no interface is left for it, because the rule set names none but {names}: give the machine's others with --interface"
            ),
            false => format!("{names} is in no zone"),
        })
    }

    fn why_not_translated(&self, id: RuleId, rule: &Rule) -> &'static str {
        match rule.verdict {
            _ if !self.translates.contains(&id.0) => {
                "of packets to the machine itself no source is translated, and they keep theirs"
            }
            Verdict::Accept => "it exempts packets that no rule behind it translates",
            Verdict::Jump(_) | Verdict::Goto(_) => "nothing of the chain that it leads to is carried over",
            _ => "no packet that opens a flow comes to it",
        }
    }

    fn why_not_filtered(&self, id: RuleId, rule: &Rule) -> &'static str {
        let is_matched = self.fates.matched.contains(&id);
        match rule.verdict {
            Verdict::Accept if is_matched => {
                "the chains behind its own decide about the packets that it accepts"
            }
            Verdict::Drop | Verdict::Reject if is_matched => {
                "the firewall drops what fits to no flow by itself, and no rule behind it lets such packets in"
            }
            Verdict::Jump(_) | Verdict::Goto(_) if is_matched => {
                "the chain that it leads to decides nothing about its packets"
            }
            Verdict::Return if is_matched => {
                "which packets go back here is not known; where that matters, the rules behind it are left out or wider"
            }
            _ if !self.fates.entered.contains(&id.0) && !self.drops(id.0) => {
                "its chain drops nothing, so its packets pass with and without it"
            }
            _ => "no packet that opens a flow comes to it",
        }
    }

    fn drops(&self, chain: ChainId) -> bool {
        let calls = |base: &&Base| {
            !base.translates && self.ruleset.reached(std::iter::once(base.chain)).contains(&chain)
        };
        self.ruleset.bases.iter().filter(calls).any(|base| flatten::can_drop(self.ruleset, base))
    }
}

fn idle(rule: &Rule) -> &'static str {
    if rule.logs {
        return "it is not logged here: no rule right behind it decides about the same packets, so write `log = true` where it should be";
    }
    "it decides nothing about who may reach whom"
}

/// Of a rule that is about no packet that opens a flow.
fn of_state(rule: &Rule) -> Option<&'static str> {
    let open = state::ESTABLISHED | state::RELATED;
    let refuses = matches!(rule.verdict, Verdict::Drop | Verdict::Reject);
    match rule.cube.states {
        states if states & (state::NEW | state::UNTRACKED) != 0 => None,
        states if states & open != 0 && refuses => {
            Some("here answers pass with their flow, so what has no answers because of it is left out itself")
        }
        states if states & open != 0 => {
            Some("packets of known flows, and errors about them, pass without a rule")
        }
        _ => Some("the firewall drops what fits to no flow by itself"),
    }
}
