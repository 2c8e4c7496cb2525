//! Warnings about a policy that has no errors: rules that never decide, rules that change nothing, names that nothing uses.
//!
//! A rule is a product of sets: zone pairs, moments, services, sources and destinations. Whether earlier rules together
//! take every packet of a rule is decided exactly ([`cover`]), not rule against rule only.

mod alike;
mod candidates;
mod collectors;
mod cover;
mod domains;
mod moments;
mod translations;

use crate::address::AddressSet;
use crate::ends::Nowhere;
use crate::form::Form;
use crate::model::{Limit, Policy, Rule, SELF};
use crate::ranges::RangeSet;
use candidates::Candidates;
use cover::{Cover, covered};
use moments::Moments;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use toml_reader::{Places, Problem};

/// What to do about a rule that no packet can match.
const CORRECT: &str = "correct the rule, or take it out";
/// Steps of a test: it compares two rows in every field.
const TEST: u64 = 8;
/// Ranges of addresses that are compared in a step.
const RANGES_OF_A_STEP: u64 = 4;
/// Tests that take as long as finding what two rows have in common.
const COMMON: u64 = 4;

/// A warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What kind.
    pub kind: Kind,
    /// Name of the rule that the warning is about; `None` if it is about something else.
    pub rule: Option<String>,
    /// Names of the rules that are the reason.
    pub by: Vec<String>,
    /// The place, what is wrong, and what to do.
    pub problem: Problem,
}

/// Kinds of warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Earlier rules take every packet of the rule, and at least one of them does something else with it.
    Shadowed,
    /// The rule could be taken out and no verdict would change.
    Redundant,
    /// No packet can match the rule.
    Unreachable,
    /// Nothing refers to it.
    Unused,
    /// Whether the rule ever decides could not be found out with a reasonable amount of work.
    Undecided,
    /// A collector of `[log]` cannot be reached, because no rule lets it out.
    Cut,
    /// The rule refuses only what is known of a domain.
    FailsOpen,
}

impl Kind {
    /// Short identifier, for example `shadowed`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Shadowed => "shadowed",
            Kind::Redundant => "redundant",
            Kind::Unreachable => "unreachable",
            Kind::Unused => "unused",
            Kind::FailsOpen => "fails-open",
            Kind::Undecided => "undecided",
            Kind::Cut => "cut",
        }
    }
}

/// The rules of a policy as products of sets. Where sets of addresses are large, numbers stand for addresses ([`alike`]).
struct Products<'p> {
    rules: Vec<Product<'p>>,
    /// For each zone, the addresses that belong to others alone; none where nobody looks for that.
    elsewhere: Vec<AddressSet>,
    nowhere: Nowhere,
}

/// The packets and moments of one row: of a rule, or of a part of its service.
struct Product<'p> {
    rule: &'p Rule,
    pairs: Cow<'p, RangeSet<u32>>,
    moments: RangeSet<u32>,
    service: Cow<'p, RangeSet<u32>>,
    source_port: Cow<'p, RangeSet<u32>>,
    source: Cow<'p, AddressSet>,
    destination: Cow<'p, AddressSet>,
    /// It matches only what is on a list, and what that is, is not known here: it may be nothing.
    is_listed: bool,
}

impl Product<'_> {
    /// Steps of comparing it with another of about its size, in every field.
    fn test_steps(&self) -> u64 {
        let ranges = |set: &AddressSet| set.v4.ranges().len() + set.v6.ranges().len();
        TEST + (ranges(&self.source) + ranges(&self.destination)) as u64 / RANGES_OF_A_STEP
    }

    /// Whether some packet at some moment is in both.
    fn meets(&self, other: &Self) -> bool {
        let source4 =
            || self.source.v4.meets(&other.source.v4) && self.destination.v4.meets(&other.destination.v4);
        let source6 =
            || self.source.v6.meets(&other.source.v6) && self.destination.v6.meets(&other.destination.v6);
        self.rule.from & other.rule.from != 0
            && self.rule.to & other.rule.to != 0
            && self.moments.meets(&other.moments)
            && self.service.meets(&other.service)
            && self.source_port.meets(&other.source_port)
            && (source4() || source6())
    }

    /// Whether every packet of the other at its every moment is in this one.
    fn covers(&self, other: &Self) -> bool {
        if self.is_listed {
            return false;
        }
        let both = |a: bool, b: bool| a || b;
        let no4 = both(other.source.v4.is_empty(), other.destination.v4.is_empty());
        let no6 = both(other.source.v6.is_empty(), other.destination.v6.is_empty());
        self.pairs.covers(&other.pairs)
            && self.moments.covers(&other.moments)
            && self.service.covers(&other.service)
            && self.source_port.covers(&other.source_port)
            && (no4
                || (self.source.v4.covers(&other.source.v4)
                    && self.destination.v4.covers(&other.destination.v4)))
            && (no6
                || (self.source.v6.covers(&other.source.v6)
                    && self.destination.v6.covers(&other.destination.v6)))
    }
}

impl Policy {
    /// Everything in the policy that is no error and was probably not meant, in the order of the text.
    pub fn warnings(&self) -> Vec<Warning> {
        let places = Places::new(&self.file, &self.text);
        let mut warnings = self.rule_warnings(&places);
        warnings.extend(translations::warnings(self, &places));
        warnings.extend(collectors::warnings(self, &places));
        warnings.extend(domains::warnings(self, &places));
        for (what, span) in &self.unused {
            let message = format!("nothing uses {what}");
            let problem =
                places.problem(span.clone(), message, Some("use it in a rule, or take it out".to_owned()));
            warnings.push(Warning { kind: Kind::Unused, rule: None, by: Vec::new(), problem });
        }
        warnings.sort_by_key(|warning| warning.problem.span.offset());
        warnings
    }

    fn rule_warnings(&self, places: &Places<'_>) -> Vec<Warning> {
        let mut form = Form::with(self, |rule| rule.enabled);
        let mut elsewhere = elsewhere(self);
        alike::number(&mut form.source, &mut elsewhere);
        alike::number(&mut form.destination, &mut []);
        let moments = Moments::of(&self.schedules);
        let products = Products::of(self, &form, &moments, elsewhere);
        let candidates = Candidates::of(&form);
        let mut budget = cover::BUDGET;
        let mut warnings = Vec::new();
        // From the last to the first: a rule that never decides cannot stand in for an earlier one, or the two would be the
        // reason for one another, and taking both out would change verdicts.
        let mut dead = vec![false; products.rules.len()];
        let mut end = products.rules.len();
        while let Some(last) = end.checked_sub(1) {
            let rows = form.rules.partition_point(|rule| *rule < form.rules[last])..end;
            end = rows.start;
            if budget == 0 {
                warnings.push(not_looked_at(&products, last, places));
                break;
            }
            if let Some((kind, by, why)) = judge(&products, &candidates, &rows, &dead, &mut budget) {
                let is_dead = kind != Kind::Undecided && by.iter().all(|other| *other < rows.start);
                dead[rows.clone()].fill(is_dead);
                let rule = products.rules[last].rule;
                warnings.push(Warning {
                    kind,
                    rule: Some(rule.name.clone()),
                    by: products.names(&by).map(str::to_owned).collect(),
                    problem: places.problem(rule.span.clone(), why.0, Some(why.1)),
                });
            }
        }
        warnings
    }
}

impl<'p> Products<'p> {
    fn of(policy: &'p Policy, form: &'p Form, moments: &Moments, elsewhere: Vec<AddressSet>) -> Self {
        let rules = form.rules.iter().enumerate().map(|(row, i)| {
            let rule = &policy.rules[*i as usize];
            Product {
                rule,
                pairs: Cow::Borrowed(&form.pair.sets[form.pair.of[row] as usize]),
                moments: moments.of_rule(rule.schedule),
                service: Cow::Borrowed(&form.service.sets[form.service.of[row] as usize]),
                source_port: Cow::Borrowed(&form.source_port.sets[form.source_port.of[row] as usize]),
                source: Cow::Borrowed(&*form.source.sets[form.source.of[row] as usize]),
                destination: Cow::Borrowed(&*form.destination.sets[form.destination.of[row] as usize]),
                is_listed: form.is_listed(row),
            }
        });
        Self { rules: rules.collect(), elsewhere, nowhere: Nowhere::of(policy) }
    }

    /// The packets and moments that two rows have in common, as a row of the first one's rule.
    fn common(&self, row: usize, other: usize) -> Product<'p> {
        let (a, b) = (&self.rules[row], &self.rules[other]);
        let addresses = |a: &AddressSet, b: &AddressSet| {
            Cow::Owned(AddressSet { v4: a.v4.common(&b.v4), v6: a.v6.common(&b.v6) })
        };
        Product {
            rule: a.rule,
            pairs: Cow::Owned(a.pairs.common(&b.pairs)),
            moments: a.moments.common(&b.moments),
            service: Cow::Owned(a.service.common(&b.service)),
            source_port: Cow::Owned(a.source_port.common(&b.source_port)),
            source: addresses(&a.source, &b.source),
            destination: addresses(&a.destination, &b.destination),
            is_listed: a.is_listed || b.is_listed,
        }
    }

    /// The names of the rules of some rows, which are in order, each once.
    fn names<'s>(&'s self, rows: &'s [usize]) -> impl Iterator<Item = &'s str> {
        let name = move |row: &usize| self.rules[*row].rule.name.as_str();
        let repeats = move |at: usize| at > 0 && name(&rows[at - 1]) == name(&rows[at]);
        rows.iter().enumerate().filter(move |(at, _)| !repeats(*at)).map(move |(_, row)| name(row))
    }
}

/// One warning for a rule and all rules above it, when the budget of work for the whole policy is used up.
fn not_looked_at(products: &Products<'_>, row: usize, places: &Places<'_>) -> Warning {
    let rule = products.rules[row].rule;
    let message = format!(
        "whether the rule `{}` and the {row} rules above it ever decide is not known: too many rules overlap",
        rule.name
    );
    let help = Some("split groups that overlap, so that fewer rules overlap".to_owned());
    let problem = places.problem(rule.span.clone(), message, help);
    Warning { kind: Kind::Undecided, rule: Some(rule.name.clone()), by: Vec::new(), problem }
}

type Judgement = (Kind, Vec<usize>, (String, String));

/// The warning about the rule of some rows, if there is one.
fn judge(
    products: &Products<'_>,
    candidates: &Candidates,
    rows: &Range<usize>,
    dead: &[bool],
    budget: &mut u64,
) -> Option<Judgement> {
    let first = &products.rules[rows.start];
    let name = &first.rule.name;
    // Of a rule that names lists, the row of its other addresses alone may be impossible.
    let reasons: Option<Vec<_>> = rows.clone().map(|row| impossible(products, row)).collect();
    if let Some((why, help)) = reasons.and_then(|reasons| reasons.first().copied()) {
        let message = format!("no packet can match the rule `{name}`: {why}");
        return Some((Kind::Unreachable, Vec::new(), (message, help.to_owned())));
    }
    let mut takers = Vec::new();
    let mut later = Vec::new();
    for row in rows.clone() {
        let product = &products.rules[row];
        let meets = |other: usize| !rows.contains(&other) && product.meets(&products.rules[other]);
        let meeting = candidates.of_row(row, product.test_steps(), budget, meets);
        let (earlier, after) = meeting.split_at(meeting.partition_point(|other| *other < row));
        match covered(products, product, earlier, budget) {
            Cover::Complete(by) => takers.push((row, by, earlier.to_vec())),
            Cover::Partial => later.push((row, after.to_vec())),
            Cover::Unknown => {
                let message =
                    format!("whether the rule `{name}` ever decides is not known: too many rules overlap");
                let help = "split groups that overlap, so that fewer rules overlap".to_owned();
                return Some((Kind::Undecided, Vec::new(), (message, help)));
            }
        }
    }
    if later.is_empty() {
        Some(never_decides(products, &takers, budget))
    } else {
        changes_nothing(products, &later, dead)
    }
}

/// For each zone, the networks of the others that it does not have, from which nothing may come by it (`[settings.integrity] zones`).
fn elsewhere(policy: &Policy) -> Vec<AddressSet> {
    if !policy.settings.integrity.zones {
        return Vec::new();
    }
    let all = AddressSet::union(policy.zones.iter().map(|zone| &zone.networks));
    policy.zones.iter().map(|zone| all.without(&zone.networks)).collect()
}

/// Whether the source of a row is nowhere in the zones that its rule is about. The machine itself may send as anybody.
fn is_misplaced(products: &Products<'_>, row: usize) -> bool {
    let product = &products.rules[row];
    let holds = |zone: usize| product.rule.from >> zone & 1 == 1;
    let mut zones = (0..products.elsewhere.len()).filter(|zone| holds(*zone)).peekable();
    let source = &product.source;
    zones.peek().is_some()
        && zones.all(|zone| {
            let others = &products.elsewhere[zone];
            zone != usize::from(SELF) && others.v4.covers(&source.v4) && others.v6.covers(&source.v6)
        })
}

/// Why no packet and no moment is in a row, and what to do.
fn impossible(products: &Products<'_>, row: usize) -> Option<(&'static str, &'static str)> {
    let product = &products.rules[row];
    let v4 = !product.source.v4.is_empty() && !product.destination.v4.is_empty();
    let v6 = !product.source.v6.is_empty() && !product.destination.v6.is_empty();
    if !v4 && !v6 {
        return Some(("its source and its destination are of different families", CORRECT));
    }
    if is_misplaced(products, row) {
        return Some(("its source belongs to the networks of another zone than `from` says", CORRECT));
    }
    if product.moments.is_empty() {
        return Some(("its schedule never holds", CORRECT));
    }
    if product.is_listed {
        return None;
    }
    dropped_anyway(&products.nowhere, product.rule)
}

/// Whether the packets of a rule are dropped for its addresses, whatever the rules say.
fn dropped_anyway(nowhere: &Nowhere, rule: &Rule) -> Option<(&'static str, &'static str)> {
    let (no_source, no_destination) = nowhere.between(rule.from, rule.to);
    let has = |set: &AddressSet, no: &AddressSet| (!no.v4.covers(&set.v4), !no.v6.covers(&set.v6));
    let (source, destination) = (has(&rule.source, no_source), has(&rule.destination, no_destination));
    if (source.0 && destination.0) || (source.1 && destination.1) {
        return None;
    }
    let (why, set) = if source.0 || source.1 {
        ("packets to its destination are dropped whatever the rules say", &rule.destination)
    } else {
        ("packets from its source are dropped whatever the rules say", &rule.source)
    };
    let is_zero = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
        .iter()
        .any(|zero: &IpAddr| AddressSet::between(*zero, *zero).as_ref() == Some(set));
    Some((why, if is_zero { "leave the key out if every address is meant" } else { CORRECT }))
}

/// Rows of a rule that never decide: each with the rows that take all its packets, and all earlier rows that meet it.
fn never_decides(
    products: &Products<'_>,
    takers: &[(usize, Vec<usize>, Vec<usize>)],
    budget: &mut u64,
) -> Judgement {
    let rule = products.rules[takers[0].0].rule;
    let mut by: Vec<usize> = takers.iter().flat_map(|(_, by, _)| by.iter().copied()).collect();
    let other_action =
        takers.iter().find_map(|(row, _, earlier)| contradicts(products, *row, earlier, budget));
    by.extend(other_action);
    by.sort_unstable();
    by.dedup();
    let by_names = names(products, &by);
    let take = if products.names(&by).count() == 1 { "takes" } else { "take" };
    if other_action.is_none() {
        let message = format!(
            "the rule `{}` never decides: {by_names} before it, with the same action, {take} all its packets",
            rule.name
        );
        return (Kind::Redundant, by, (message, "take it out".to_owned()));
    }
    let message =
        format!("the rule `{}` never decides: {by_names} before it {take} all its packets", rule.name);
    (Kind::Shadowed, by, (message, "move it above them, or take it out".to_owned()))
}

/// The first earlier row that does something else with some packets of a row, if there is one. An earlier row that may do so, for all that could
/// be found out within the budget, counts as well.
fn contradicts(products: &Products<'_>, row: usize, earlier: &[usize], budget: &mut u64) -> Option<usize> {
    let action = products.rules[row].rule.effect.action;
    let differing = (0..earlier.len()).filter(|at| products.rules[earlier[*at]].rule.effect.action != action);
    let mut differing = differing.filter(|at| {
        if *budget == 0 {
            return true;
        }
        let both = products.common(earlier[*at], row);
        let steps = both.test_steps();
        let before = &earlier[..*at];
        // Where thousands of rules match the same, one of the first takes what they have in common.
        let taken = before.iter().position(|other| products.rules[*other].covers(&both));
        *budget = budget.saturating_sub(steps * (COMMON + taken.unwrap_or(*at) as u64 + 1));
        if taken.is_some() {
            return false;
        }
        let before: Vec<usize> =
            before.iter().copied().filter(|other| both.meets(&products.rules[*other])).collect();
        *budget = budget.saturating_sub(steps * *at as u64);
        !matches!(covered(products, &both, &before, budget), Cover::Complete(_))
    });
    differing.next().map(|at| earlier[at])
}

/// Whether for each of some rows of a rule a later one would do the same with all its packets, and none in between does anything else.
fn changes_nothing(
    products: &Products<'_>,
    rows: &[(usize, Vec<usize>)],
    dead: &[bool],
) -> Option<Judgement> {
    let rule = products.rules[rows[0].0].rule;
    let effect = &rule.effect;
    let counts_apart = effect.limit != Limit::default() || effect.alert.is_some();
    if counts_apart {
        return None;
    }
    let same = |other: &&usize| *effect == products.rules[**other].rule.effect;
    let stands_in = |(row, later): &(usize, Vec<usize>)| {
        let covers = |other: &&usize| !dead[**other] && products.rules[**other].covers(&products.rules[*row]);
        later.iter().take_while(same).find(covers).copied()
    };
    let mut by = rows.iter().map(stands_in).collect::<Option<Vec<usize>>>()?;
    by.sort_unstable();
    by.dedup();
    let does = if products.names(&by).count() == 1 { "does" } else { "do" };
    let message = format!(
        "the rule `{}` changes nothing: {} after it {does} the same with all its packets",
        rule.name,
        names(products, &by)
    );
    Some((Kind::Redundant, by, (message, "take it out, or make it differ".to_owned())))
}

fn names(products: &Products<'_>, rows: &[usize]) -> String {
    let all: Vec<&str> = products.names(rows).collect();
    let quoted: Vec<String> = all.iter().take(5).map(|name| format!("`{name}`")).collect();
    match (quoted.as_slice(), all.len()) {
        ([one], _) => one.clone(),
        ([first @ .., last], n) if n <= 5 => format!("{} and {last}", first.join(", ")),
        (some, n) => format!("{} and {} more", some.join(", "), n - some.len()),
    }
}
