//! Who may log in at a gateway, and which rules are for them.

use crate::schema;
use std::ops::Range;
use toml_reader::{Collector, Section};

/// Bytes of the name of a user or a group at most.
const LONGEST_NAME: usize = 32;

/// What to write in `users`.
pub(super) const HELP: &str = "write names of users in small letters (\"anna\"), groups (\"@sales\"), or \"*\" for everybody who has logged in";

/// Where users can log in instead, and why nobody can at this gateway; `None` if they can.
fn nobody(section: &Section<'_>) -> Option<(&'static str, &'static str)> {
    let says = |key, word| section.value(key).and_then(|value| value.get_ref().as_str()) == Some(word);
    if says("protocol", "dns") {
        return Some(("protocol = \"http\" and \"ftp\"", "nobody logs in to ask for a name"));
    }
    says("mode", "transparent").then_some((
        "mode = \"explicit\" and \"publish\"",
        "clients that know of no gateway cannot tell it who they are",
    ))
}

/// The file of users as it is written; `Some(None)` if the gateway has none.
pub(super) fn file(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Option<String>> {
    if section.value("users_file").is_none() {
        return Some(None);
    }
    let file = section.text("users_file", c)?;
    if let Some((elsewhere, why)) = nobody(section) {
        let help = format!("take `users_file` out: {why}");
        c.report(section.key_span("users_file"), format!("`users_file` is for {elsewhere}"), Some(help));
        return None;
    }
    if file.value.is_empty() || file.value.contains('\0') {
        let help = "write users_file = \"/etc/rampart/gateway-users.json\"".to_owned();
        c.report(file.span, "`users_file` names no file", Some(help));
        return None;
    }
    Some(Some(file.value.to_owned()))
}

/// Gateways with a file of users that no rule asks for, as messages call them, each with its place.
pub(in crate::check) fn unused(root: &Section<'_>) -> Vec<(String, Range<usize>)> {
    // What is wrong with a gateway was reported where it was read.
    let mut scratch = Collector::new("", "");
    let mut found = Vec::new();
    for (name, section) in super::KIND.sections(root, &mut scratch) {
        let mut rules = schema::GATEWAY_RULE.sections(&section, "rules", &mut scratch).into_iter();
        if section.value("users_file").is_some() && !rules.any(|rule| rule.value("users").is_some()) {
            let name = name.value;
            let what = format!(
                "`users_file` of the gateway `{name}`: none of its rules has `users`, so nobody has to log in"
            );
            found.push((what, section.key_span("users_file")));
        }
    }
    found
}

/// Reports rules for users of a gateway at which nobody can log in.
pub(super) fn check_rules(section: &Section<'_>, c: &mut Collector<'_>) {
    if section.value("users_file").is_some() {
        return;
    }
    let nobody = nobody(section);
    // What else is wrong with a rule was reported where it was read.
    let rules = schema::GATEWAY_RULE.sections(section, "rules", &mut Collector::new("", ""));
    for rule in rules.iter().filter(|rule| rule.value("users").is_some()) {
        let (message, help) = match nobody {
            Some((elsewhere, why)) => {
                (format!("`users` is for {elsewhere}"), format!("take `users` out: {why}"))
            }
            None => {
                let help =
                    "write users_file = \"/etc/rampart/gateway-users.json\"; `rampart user add` makes it";
                ("`users` needs `users_file` in [gateways.NAME]".to_owned(), help.to_owned())
            }
        };
        c.report(rule.key_span("users"), message, Some(help));
    }
}

/// A user, a group or everybody.
pub(super) fn word(word: &str) -> Option<String> {
    let name = word.strip_prefix('@').unwrap_or(word);
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    let is_name = (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain);
    (word == "*" || is_name).then(|| word.to_owned())
}
