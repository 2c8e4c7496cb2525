//! Interfaces become zones: those that every rule treats alike are one zone.

use crate::cube::Interfaces;
use crate::report::{Kind, Report};
use crate::ruleset::{MAX_INTERFACES, Place, Ruleset, Wrong};
use crate::words;
use policy::model::{MAX_ZONES, pattern};
use std::collections::{BTreeMap, BTreeSet};

/// A zone of the policy.
#[derive(Debug)]
pub(crate) struct Zone {
    pub(crate) name: String,
    pub(crate) interfaces: Vec<String>,
    pub(crate) bits: Interfaces,
}

/// All zones besides `self`.
#[derive(Debug)]
pub(crate) struct Zones(pub(crate) Vec<Zone>);

impl Zones {
    /// The zones of a rule set. Patterns that a policy cannot have are taken out of it.
    pub(crate) fn of(ruleset: &mut Ruleset, report: &mut Report<'_>) -> Result<Self, Wrong> {
        if ruleset.interfaces.count() > MAX_INTERFACES {
            let message = format!("the rules name more than {MAX_INTERFACES} interfaces and patterns");
            return Err((Place::default(), message));
        }
        take_out_wide_patterns(ruleset, report);
        let mut tests = BTreeSet::new();
        for rule in ruleset.chains.iter().flat_map(|chain| &chain.rules) {
            tests.extend(rule.interfaces.iter().map(|test| ruleset.interfaces.tested(test)));
        }
        tests.extend(ruleset.bases.iter().map(|base| base.sees.inside));
        let mut alike: BTreeMap<Vec<bool>, Vec<(&str, Interfaces)>> = BTreeMap::new();
        for (name, bit) in ruleset.interfaces.all() {
            alike.entry(tests.iter().map(|test| test & bit != 0).collect()).or_default().push((name, bit));
        }
        let mut groups: Vec<_> = alike.into_values().collect();
        groups.sort();
        if groups.len() >= MAX_ZONES {
            let message = format!(
                "the rules tell {} interfaces or groups of them apart, and a policy has at most {} zones",
                groups.len(),
                MAX_ZONES - 1
            );
            return Err((Place::default(), message));
        }
        let mut taken = BTreeSet::from(["self".to_owned(), "any".to_owned()]);
        let zone = |group: Vec<(&str, Interfaces)>| Zone {
            name: zone_name(group[0].0, &mut taken),
            interfaces: group.iter().map(|(name, _)| (*name).to_owned()).collect(),
            bits: group.iter().fold(0, |bits, (_, bit)| bits | bit),
        };
        Ok(Self(groups.into_iter().map(zone).collect()))
    }

    /// Whether interfaces are all that there are.
    pub(crate) fn is_all(&self, interfaces: Interfaces) -> bool {
        self.0.iter().all(|zone| zone.bits & !interfaces == 0)
    }

    /// The names of the zones of some interfaces.
    pub(crate) fn named(&self, interfaces: Interfaces) -> Vec<&str> {
        self.0.iter().filter(|zone| zone.bits & interfaces != 0).map(|zone| zone.name.as_str()).collect()
    }
}

/// A policy's patterns may not overlap, and have their rules for names. What is taken out is of no zone, and so it is closed.
fn take_out_wide_patterns(ruleset: &mut Ruleset, report: &mut Report<'_>) {
    let names: Vec<String> = ruleset.interfaces.all().map(|(name, _)| name.to_owned()).collect();
    let begins: Vec<&str> = names.iter().filter_map(|name| pattern(name)).collect();
    for name in &names {
        let why = match pattern(name) {
            Some(begin) if begin.is_empty() || begin.len() > 14 || !is_name(begin) => {
                "a policy cannot have this pattern"
            }
            Some(begin) if begins.iter().any(|other| *other != begin && other.starts_with(begin)) => {
                "a narrower pattern lies within it, and a policy's patterns may not overlap"
            }
            None if name.len() > 15 || !is_name(name) => "no interface can have this name",
            _ => continue,
        };
        ruleset.interfaces.remove(name);
        let why = format!("the interfaces `{name}` are in no zone, so nothing passes there: {why}");
        report.add(Place::default(), Kind::LeftOut, "", why);
    }
}

fn is_name(name: &str) -> bool {
    let wrong = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | ':' | '*');
    !name.is_empty() && name != "." && name != ".." && !name.contains(wrong)
}

/// A name as policies have them: letters, digits, `-` and `_`, a letter first.
fn zone_name(interface: &str, taken: &mut BTreeSet<String>) -> String {
    let base = interface.trim_end_matches('*').trim_end_matches(['-', '.']);
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let mut name: String = base.chars().map(plain).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert(0, 'z');
    }
    words::unique(&name, "-", taken)
}
