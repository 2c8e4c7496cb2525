//! `rampart rules`: the rules of the policy in force, with their counters.

use super::shown;
use crate::api::{Operation, Rules};
use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::table::{Side, Table, grouped};
use rampart_client::Client;

pub(crate) fn rules(args: &AskArgs, json: bool) -> Result<String, Failure> {
    let rules: Rules = Client::new(args.socket.as_deref())?.ask(Operation::Rules, &[])?;
    shown(&rules, json, text)
}

fn text(rules: &Rules) -> String {
    let mut table = Table::new(&[
        ("hits", Side::Right),
        ("rule", Side::Left),
        ("action", Side::Left),
        ("from", Side::Left),
        ("to", Side::Left),
        ("source", Side::Left),
        ("destination", Side::Left),
        ("service", Side::Left),
        ("", Side::Left),
    ]);
    for rule in &rules.rules {
        let asleep = match (&rule.schedule, rule.in_force) {
            (_, true) => String::new(),
            (Some(schedule), false) => format!("not now: {schedule}"),
            (None, false) => "not enabled".to_owned(),
        };
        let limited = (rule.limited > 0).then(|| format!("{} beyond its limit", grouped(rule.limited)));
        let notes: Vec<String> =
            [asleep].into_iter().filter(|note| !note.is_empty()).chain(limited).collect();
        let service = match rule.source_port.as_str() {
            "any" => rule.service.clone(),
            ports => format!("{} from port {ports}", rule.service),
        };
        let words =
            [&rule.name, &rule.action, &rule.from, &rule.to, &rule.source, &rule.destination, &service];
        let words = words.into_iter().cloned();
        table.row(std::iter::once(grouped(rule.hits)).chain(words).chain([notes.join(", ")]));
    }
    table.text()
}
