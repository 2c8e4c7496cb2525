//! The difference between two policies. Pure.

use crate::api::{ChangedRule, Changes};
use policy::Policy;
use policy::address::AddressSet;
use policy::lists::ListSet;
use policy::model::{Action, Log, PairDefault, Rule, ZoneSet};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// From one policy to the next. Rules are the same when they have the same name.
pub(crate) fn between(old: &Policy, new: &Policy) -> Changes {
    let by_name = |policy: &'_ Policy| -> HashMap<String, usize> {
        policy.rules.iter().enumerate().map(|(i, rule)| (rule.name.clone(), i)).collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let names = |policy: &Policy, others: &HashMap<String, usize>| -> Vec<String> {
        policy.rules.iter().filter(|r| !others.contains_key(&r.name)).map(|r| r.name.clone()).collect()
    };
    let kept: Vec<(usize, &Rule)> =
        new.rules.iter().filter_map(|rule| before.get(&rule.name).map(|i| (*i, rule))).collect();
    let changed = kept.iter().filter_map(|(i, rule)| {
        let keys = different_keys((old, &old.rules[*i]), (new, rule));
        (!keys.is_empty()).then(|| ChangedRule { name: rule.name.clone(), keys })
    });
    Changes {
        added: names(new, &before),
        removed: names(old, &after),
        changed: changed.collect(),
        reordered: !kept.iter().is_sorted_by_key(|(i, _)| *i),
        zones: zones(old) != zones(new),
        // Between the same zones, whatever their order.
        defaults: defaults(old) != defaults(new),
        settings: old.settings != new.settings || old.scans != new.scans,
    }
}

/// In a line: "2 rules added (a, b), 1 changed (c: service)".
pub(crate) fn words(changes: &Changes) -> String {
    let mut parts = Vec::new();
    let mut list = |what: &str, names: Vec<String>| {
        if !names.is_empty() {
            parts.push(format!("{} {what} ({})", names.len(), few(&names)));
        }
    };
    list("added", changes.added.clone());
    list("removed", changes.removed.clone());
    let changed = changes.changed.iter().map(|rule| format!("{}: {}", rule.name, rule.keys.join(" ")));
    list("changed", changed.collect());
    let others = [
        (changes.reordered, "another order"),
        (changes.zones, "other zones"),
        (changes.defaults, "other defaults"),
        (changes.settings, "other settings"),
    ];
    parts.extend(others.iter().filter(|(is, _)| *is).map(|(_, what)| (*what).to_owned()));
    if parts.is_empty() { "nothing is different".to_owned() } else { format!("rules: {}", parts.join(", ")) }
}

/// The first of some names, and how many more there are.
fn few(names: &[String]) -> String {
    const FEW: usize = 8;
    match names.len().checked_sub(FEW) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{}, and {more} more", names[..FEW].join(", ")),
    }
}

/// Zones by name: their interfaces and networks.
fn zones(policy: &Policy) -> BTreeMap<&str, (&Vec<String>, &AddressSet)> {
    policy.zones.iter().map(|zone| (zone.name.as_str(), (&zone.interfaces, &zone.networks))).collect()
}

/// Defaults by the names of their zones.
fn defaults(policy: &Policy) -> BTreeMap<(&str, &str), PairDefault> {
    let zones = || (0u8..).zip(&policy.zones);
    zones()
        .flat_map(|(f, from)| zones().map(move |(t, to)| ((f, t), (from.name.as_str(), to.name.as_str()))))
        .map(|((f, t), names)| (names, policy.default_between(f, t)))
        .filter(|(_, default)| *default != PairDefault { action: Action::Deny, log: Log::Nothing })
        .collect()
}

/// Zones of a set by name.
fn names(policy: &Policy, set: ZoneSet) -> Vec<&str> {
    let mut names: Vec<&str> = policy
        .zones
        .iter()
        .enumerate()
        .filter(|(i, _)| set & 1 << i != 0)
        .map(|(_, zone)| zone.name.as_str())
        .collect();
    names.sort_unstable();
    names
}

/// Line by line, every name: for the person who changed it.
pub(crate) fn listed(changes: &Changes) -> String {
    let added = changes.added.iter().map(|name| format!("+ {name}"));
    let removed = changes.removed.iter().map(|name| format!("- {name}"));
    let changed = changes.changed.iter().map(|rule| format!("~ {}: {}", rule.name, rule.keys.join(", ")));
    let others = [
        (changes.reordered, "~ the order of the rules"),
        (changes.zones, "~ the zones"),
        (changes.defaults, "~ the defaults"),
        (changes.settings, "~ the settings"),
    ];
    let others = others.iter().filter(|(is, _)| *is).map(|(_, what)| (*what).to_owned());
    let lines: Vec<String> = added.chain(removed).chain(changed).chain(others).collect();
    if lines.is_empty() { "nothing is different\n".to_owned() } else { lines.join("\n") + "\n" }
}

/// Keys of a rule by which two say something else. Names of objects may differ as long as they mean the same.
fn different_keys((old, before): (&Policy, &Rule), (new, after): (&Policy, &Rule)) -> Vec<String> {
    let schedule = |policy: &Policy, rule: &Rule| rule.schedule.map(|s| format!("{:?}", policy.schedules[s]));
    let source = |policy, rule: &Rule| lists(policy, rule.source_lists);
    let destination = |policy, rule: &Rule| lists(policy, rule.destination_lists);
    let (was, is) = (&before.effect, &after.effect);
    let same_words = before.written.service == after.written.service;
    let service_key = if same_words { "source_port" } else { "service" };
    let keys = [
        ("from", names(old, before.from) != names(new, after.from)),
        ("to", names(old, before.to) != names(new, after.to)),
        ("source", before.source != after.source || source(old, before) != source(new, after)),
        (
            "destination",
            before.destination != after.destination || destination(old, before) != destination(new, after),
        ),
        (service_key, before.service != after.service),
        ("schedule", schedule(old, before) != schedule(new, after)),
        ("action", was.action != is.action),
        ("log", was.log != is.log),
        ("limit", was.limit != is.limit),
        ("alert", was.alert != is.alert),
        ("enabled", before.enabled != after.enabled),
    ];
    keys.into_iter().filter(|(_, different)| *different).map(|(key, _)| key.to_owned()).collect()
}

/// The names of lists, in order.
fn lists(policy: &Policy, set: ListSet) -> BTreeSet<&str> {
    let named = policy.lists.iter().enumerate().filter(|(place, _)| set >> place & 1 != 0);
    named.map(|(_, list)| list.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: &str =
        "[zones]\na = { interfaces = 'e0' }\nb = { interfaces = 'e1' }\n[objects]\nlan = '10.0.0.0/8'\n";

    fn rule(name: &str, rest: &str) -> String {
        format!("[[rules]]\nname = '{name}'\nfrom = 'a'\nto = 'b'\naction = 'allow'\n{rest}\n")
    }

    fn difference(old: &[String], new: &[String]) -> String {
        let policy = |parts: &[String]| Policy::parse("p", &format!("{ZONES}{}", parts.concat())).unwrap();
        let changes = between(&policy(old), &policy(new));
        let keys: Vec<String> =
            changes.changed.iter().map(|c| format!("{}({})", c.name, c.keys.join(","))).collect();
        format!(
            "+{} -{} ~{} reordered={} zones={} defaults={} settings={}",
            changes.added.join(","),
            changes.removed.join(","),
            keys.join(","),
            changes.reordered,
            changes.zones,
            changes.defaults,
            changes.settings
        )
    }

    /// Zones have numbers by their order; a policy that lists them otherwise says the same.
    #[test]
    fn the_order_of_zones_means_nothing() {
        let defaults = "[[defaults]]\nfrom = 'a'\nto = 'b'\naction = 'reject'\n";
        let turned =
            "[zones]\nb = { interfaces = 'e1' }\na = { interfaces = 'e0' }\n[objects]\nlan = '10.0.0.0/8'\n";
        let wider = turned.replace("'e1'", "['e1', 'e2']");
        let policy =
            |zones: &str| Policy::parse("p", &format!("{zones}{}{defaults}", rule("x", ""))).unwrap();
        assert_eq!(between(&policy(ZONES), &policy(turned)), Changes::default());
        let expected = Changes { zones: true, ..Changes::default() };
        assert_eq!(between(&policy(ZONES), &policy(&wider)), expected);
    }

    #[test]
    fn what_is_different_is_named() {
        let (x, y) = (rule("x", ""), rule("y", "service = 'http'"));
        let defaults = "[[defaults]]\nfrom = 'a'\nto = 'b'\naction = 'reject'\n".to_owned();
        let settings = "[settings.timeouts]\nudp = '1min'\n".to_owned();
        let nothing = "+ - ~ reordered=false zones=false defaults=false settings=false";
        for (what, old, new, expected) in [
            ("nothing", vec![x.clone()], vec![x.clone()], nothing),
            (
                "one more",
                vec![x.clone()],
                vec![y.clone(), x.clone()],
                "+y - ~ reordered=false zones=false defaults=false settings=false",
            ),
            (
                "one less",
                vec![x.clone(), y.clone()],
                vec![y.clone()],
                "+ -x ~ reordered=false zones=false defaults=false settings=false",
            ),
            (
                "another order",
                vec![x.clone(), y.clone()],
                vec![y.clone(), x.clone()],
                "+ - ~ reordered=true zones=false defaults=false settings=false",
            ),
            (
                "other words under the same name",
                vec![y.clone()],
                vec![rule("y", "service = 'https'\nenabled = false")],
                "+ - ~y(service,enabled) reordered=false zones=false defaults=false settings=false",
            ),
            (
                "other words that mean the same",
                vec![rule("x", "source = 'lan'")],
                vec![rule("x", "source = '10.0.0.0/8'\ndescription = 'the LAN'")],
                nothing,
            ),
            (
                "defaults",
                vec![x.clone()],
                vec![x.clone(), defaults],
                "+ - ~ reordered=false zones=false defaults=true settings=false",
            ),
            (
                "settings",
                vec![x.clone()],
                vec![x.clone(), settings],
                "+ - ~ reordered=false zones=false defaults=false settings=true",
            ),
        ] {
            assert_eq!(difference(&old, &new), expected, "{what}");
        }
    }
}
