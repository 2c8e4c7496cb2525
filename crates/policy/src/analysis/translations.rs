//! Translations that never decide, because an earlier one takes all their packets.

use super::{Kind, Warning};
use crate::model::Policy;
use crate::translation::{Direction, Translation};
use toml_reader::Places;

pub(super) fn warnings(policy: &Policy, places: &Places<'_>) -> Vec<Warning> {
    let entries: Vec<&Translation> = policy.translations.iter().filter(|entry| entry.enabled).collect();
    let shadowed =
        entries.iter().enumerate().filter_map(|(i, entry)| Some((entry, taken_by(entry, &entries[..i])?)));
    shadowed
        .map(|(entry, by)| {
            let message = format!(
                "the translation `{}` never decides: `{by}` before it takes all its packets",
                entry.name
            );
            let help = Some("move it above that one, or take it out".to_owned());
            let problem = places.problem(entry.span.clone(), message, help);
            Warning { kind: Kind::Shadowed, rule: None, by: vec![by.to_owned()], problem }
        })
        .collect()
}

/// The first earlier entry that takes all packets of this one in every direction in which it looks.
fn taken_by<'e>(entry: &Translation, before: &[&'e Translation]) -> Option<&'e str> {
    let takes = |other: &&&Translation| {
        [Direction::Destination, Direction::Source].into_iter().all(|direction| match entry.seen(direction) {
            Some(seen) => other.seen(direction).is_some_and(|other| other.covers(&seen)),
            None => true,
        })
    };
    before.iter().find(takes).map(|other| other.name.as_str())
}
