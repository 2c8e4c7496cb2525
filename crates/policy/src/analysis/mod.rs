//! Warnings about a policy that has no errors: rules that never decide, rules that change nothing, names that nothing uses.
//!
//! A rule is a product of sets: zone pairs, moments, services, sources and destinations. Whether earlier rules together
//! take every packet of a rule is decided exactly ([`cover`]), not rule against rule only.

mod candidates;
mod cover;
mod moments;

use crate::address::AddressSet;
use crate::form::Form;
use crate::model::{Limit, Policy, Rule};
use crate::ranges::RangeSet;
use crate::service::ServiceSet;
use candidates::Candidates;
use cover::{Cover, covered};
use moments::Moments;
use toml_reader::{Places, Problem};

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
}

impl Kind {
    /// Short identifier, for example `shadowed`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Shadowed => "shadowed",
            Kind::Redundant => "redundant",
            Kind::Unreachable => "unreachable",
            Kind::Unused => "unused",
            Kind::Undecided => "undecided",
        }
    }
}

/// The rules of a policy as products of sets.
struct Products<'p> {
    rules: Vec<Product<'p>>,
}

/// The packets and moments of one rule.
struct Product<'p> {
    rule: &'p Rule,
    pairs: &'p RangeSet<u32>,
    moments: RangeSet<u32>,
    service: &'p ServiceSet,
    source: &'p AddressSet,
    destination: &'p AddressSet,
}

impl Product<'_> {
    /// Whether some packet at some moment is in both.
    fn meets(&self, other: &Self) -> bool {
        let source4 =
            || self.source.v4.meets(&other.source.v4) && self.destination.v4.meets(&other.destination.v4);
        let source6 =
            || self.source.v6.meets(&other.source.v6) && self.destination.v6.meets(&other.destination.v6);
        self.rule.from & other.rule.from != 0
            && self.rule.to & other.rule.to != 0
            && self.moments.meets(&other.moments)
            && self.service.0.meets(&other.service.0)
            && (source4() || source6())
    }

    /// Whether every packet of the other at its every moment is in this one.
    fn covers(&self, other: &Self) -> bool {
        let both = |a: bool, b: bool| a || b;
        let no4 = both(other.source.v4.is_empty(), other.destination.v4.is_empty());
        let no6 = both(other.source.v6.is_empty(), other.destination.v6.is_empty());
        self.pairs.covers(other.pairs)
            && self.moments.covers(&other.moments)
            && self.service.0.covers(&other.service.0)
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
        let form = Form::with(self, |rule| rule.enabled);
        let moments = Moments::of(&self.schedules);
        let products = Products::of(self, &form, &moments);
        let candidates = Candidates::of(&form);
        let mut budget = cover::BUDGET;
        let mut warnings = Vec::new();
        // From the last to the first: a rule that never decides cannot stand in for an earlier one, or the two would be the
        // reason for one another, and taking both out would change verdicts.
        let mut dead = vec![false; products.rules.len()];
        for row in (0..products.rules.len()).rev() {
            if budget == 0 {
                warnings.push(not_looked_at(&products, row, places));
                break;
            }
            if let Some((kind, by, why)) = judge(&products, &candidates, row, &dead, &mut budget) {
                dead[row] = kind != Kind::Undecided && by.iter().all(|other| *other < row);
                let rule = products.rules[row].rule;
                warnings.push(Warning {
                    kind,
                    rule: Some(rule.name.clone()),
                    by: by.iter().map(|row| products.rules[*row].rule.name.clone()).collect(),
                    problem: places.problem(rule.span.clone(), why.0, Some(why.1)),
                });
            }
        }
        warnings
    }
}

impl<'p> Products<'p> {
    fn of(policy: &'p Policy, form: &'p Form, moments: &Moments) -> Self {
        let rules = form.rules.iter().enumerate().map(|(row, i)| {
            let rule = &policy.rules[*i as usize];
            Product {
                rule,
                pairs: &form.pair.sets[form.pair.of[row] as usize],
                moments: moments.of_rule(rule.schedule),
                service: &rule.service,
                source: &rule.source,
                destination: &rule.destination,
            }
        });
        Self { rules: rules.collect() }
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

/// The warning about a rule, if there is one.
fn judge(
    products: &Products<'_>,
    candidates: &Candidates,
    row: usize,
    dead: &[bool],
    budget: &mut u64,
) -> Option<Judgement> {
    let product = &products.rules[row];
    let name = &product.rule.name;
    if let Some(why) = impossible(product) {
        let message = format!("no packet can match the rule `{name}`: {why}");
        return Some((
            Kind::Unreachable,
            Vec::new(),
            (message, "correct the rule, or take it out".to_owned()),
        ));
    }
    let meeting = candidates.of_row(row, budget, |other| product.meets(&products.rules[other]));
    let later = meeting.partition_point(|other| *other < row);
    match covered(products, row, &meeting[..later], budget) {
        Cover::Complete(by) => Some(never_decides(products, row, by)),
        Cover::Unknown => {
            let message =
                format!("whether the rule `{name}` ever decides is not known: too many rules overlap");
            Some((
                Kind::Undecided,
                Vec::new(),
                (message, "split groups that overlap, so that fewer rules overlap".to_owned()),
            ))
        }
        Cover::Partial => changes_nothing(products, row, &meeting[later..], dead),
    }
}

fn impossible(product: &Product<'_>) -> Option<&'static str> {
    let v4 = !product.source.v4.is_empty() && !product.destination.v4.is_empty();
    let v6 = !product.source.v6.is_empty() && !product.destination.v6.is_empty();
    if !v4 && !v6 {
        return Some("its source and its destination are of different families");
    }
    product.moments.is_empty().then_some("its schedule never holds")
}

fn never_decides(products: &Products<'_>, row: usize, by: Vec<usize>) -> Judgement {
    let rule = products.rules[row].rule;
    let by_names = names(products, &by);
    let take = if by.len() == 1 { "takes" } else { "take" };
    let same = |other: &usize| products.rules[*other].rule.effect.action == rule.effect.action;
    if by.iter().all(same) {
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

/// Whether a later rule would do the same with all of the rule's packets, and none in between does anything else.
fn changes_nothing(products: &Products<'_>, row: usize, later: &[usize], dead: &[bool]) -> Option<Judgement> {
    let product = &products.rules[row];
    let effect = &product.rule.effect;
    let counts_apart = effect.limit != Limit::default() || effect.alert.is_some();
    if counts_apart {
        return None;
    }
    let same = |other: &&usize| *effect == products.rules[**other].rule.effect;
    let by = *later
        .iter()
        .take_while(same)
        .find(|other| !dead[**other] && products.rules[**other].covers(product))?;
    let message = format!(
        "the rule `{}` changes nothing: {} after it does the same with all its packets",
        product.rule.name,
        names(products, &[by])
    );
    Some((Kind::Redundant, vec![by], (message, "take it out, or make it differ".to_owned())))
}

fn names(products: &Products<'_>, rows: &[usize]) -> String {
    let quoted: Vec<String> =
        rows.iter().take(5).map(|row| format!("`{}`", products.rules[*row].rule.name)).collect();
    match (quoted.as_slice(), rows.len()) {
        ([one], _) => one.clone(),
        ([first @ .., last], n) if n <= 5 => format!("{} and {last}", first.join(", ")),
        (some, n) => format!("{} and {} more", some.join(", "), n - some.len()),
    }
}
