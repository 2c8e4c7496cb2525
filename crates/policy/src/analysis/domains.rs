//! Rules that refuse what is a domain's: they refuse only the addresses that a gateway of DNS has said.

use super::{Kind, Warning};
use crate::lists::ListSet;
use crate::model::{Action, Policy};
use toml_reader::Places;

pub(super) fn warnings(policy: &Policy, places: &Places<'_>) -> Vec<Warning> {
    let domains = (0..).zip(&policy.lists).filter(|(_, list)| list.domain().is_some());
    let domains: ListSet = domains.fold(0, |all, (place, _)| all | 1 << place);
    let refuses = policy.rules.iter().filter(|rule| {
        let named = rule.source_lists | rule.destination_lists;
        rule.enabled && rule.effect.action != Action::Allow && named & domains != 0
    });
    let warning = |rule: &crate::model::Rule| {
        let message = format!(
            "the rule `{}` refuses a domain: addresses of it that no gateway of DNS has said pass it",
            rule.name
        );
        let help = "deny all and allow what may pass, or refuse the name in the gateway of DNS as well; clients that ask somebody else, or nobody, know addresses, too";
        let problem = places.problem(rule.span.clone(), message, Some(help.to_owned()));
        Warning { kind: Kind::FailsOpen, rule: Some(rule.name.clone()), by: Vec::new(), problem }
    };
    refuses.map(warning).collect()
}
