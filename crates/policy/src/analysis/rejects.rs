//! `reject` where the kernel forwards, which drops and answers nothing: a program that netfilter asks can send no packet.

use super::{Kind, Warning};
use crate::model::{Action, Policy};
use crate::settings::Forwarding;
use std::ops::Range;
use toml_reader::Places;

pub(super) fn warning(policy: &Policy, places: &Places<'_>) -> Option<Warning> {
    let message = policy.unanswered_rejects()?;
    let help = "write `deny` where that will do; where nothing but this firewall forwards, leave `forwarding = \"kernel\"` out";
    let problem = places.problem(place(policy), message, Some(help.to_owned()));
    Some(Warning { kind: Kind::Unanswered, rule: None, by: Vec::new(), problem })
}

/// The first rule that rejects, else where defaults begin.
fn place(policy: &Policy) -> Range<usize> {
    let rule = policy.rules.iter().find(|rule| rule.enabled && rule.effect.action == Action::Reject);
    rule.map_or_else(
        || {
            let at = policy.text.find("[[defaults]]").unwrap_or_default();
            at..at
        },
        |rule| rule.span.clone(),
    )
}

impl Policy {
    /// What to say of rules and defaults that reject although the firewall cannot answer, because the kernel forwards; `None` if there are
    /// none.
    pub fn unanswered_rejects(&self) -> Option<String> {
        let rules = self.rules.iter().filter(|rule| rule.enabled && rule.effect.action == Action::Reject);
        let defaults = self.defaults.iter().filter(|default| default.action == Action::Reject).count();
        let names: Vec<&str> = rules.map(|rule| rule.name.as_str()).collect();
        let rules = names.first().map(|first| match names.len() {
            1 => format!("the rule `{first}`"),
            many => format!("{many} rules, of which `{first}` is the first,"),
        });
        let defaults = (defaults > 0).then(|| match defaults {
            1 => "the default of a pair of zones".to_owned(),
            many => format!("the defaults of {many} pairs of zones"),
        });
        let who: Vec<String> = rules.into_iter().chain(defaults).collect();
        (self.settings.forwarding == Forwarding::Kernel && !who.is_empty()).then(|| {
            format!(
                "where the kernel forwards, `reject` drops without an answer, as `deny` does: {} would send one",
                who.join(" and ")
            )
        })
    }
}
