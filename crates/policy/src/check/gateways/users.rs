//! Who may log in at a gateway, and which rules are for them.

use crate::schema;
use toml_reader::{Collector, Section};

/// Bytes of the name of a user or a group at most.
const LONGEST_NAME: usize = 32;

/// What to write in `users`.
pub(super) const HELP: &str = "write names of users in small letters (\"anna\"), groups (\"@sales\"), or \"*\" for everybody who has logged in";

/// The file of users as it is written; `Some(None)` if the gateway has none.
pub(super) fn file(
    section: &Section<'_>,
    is_transparent: bool,
    c: &mut Collector<'_>,
) -> Option<Option<String>> {
    if section.value("users_file").is_none() {
        return Some(None);
    }
    let file = section.text("users_file", c)?;
    if is_transparent {
        let help =
            "take `users_file` out: clients that know of no gateway cannot tell it who they are".to_owned();
        let message = "`users_file` is for mode = \"explicit\" and \"publish\"";
        c.report(section.key_span("users_file"), message, Some(help));
        return None;
    }
    if file.value.is_empty() || file.value.contains('\0') {
        let help = "write users_file = \"/etc/rampart/gateway-users.json\"".to_owned();
        c.report(file.span, "`users_file` names no file", Some(help));
        return None;
    }
    Some(Some(file.value.to_owned()))
}

/// Reports rules for users of a gateway at which nobody can log in.
pub(super) fn check_rules(section: &Section<'_>, c: &mut Collector<'_>) {
    if section.value("users_file").is_some() {
        return;
    }
    let is_transparent =
        section.value("mode").and_then(|mode| mode.get_ref().as_str()) == Some("transparent");
    // What else is wrong with a rule was reported where it was read.
    let rules = schema::GATEWAY_RULE.sections(section, "rules", &mut Collector::new("", ""));
    for rule in rules.iter().filter(|rule| rule.value("users").is_some()) {
        let (message, help) = if is_transparent {
            let message = "`users` is for mode = \"explicit\" and \"publish\"";
            (message, "take `users` out: clients that know of no gateway cannot tell it who they are")
        } else {
            let message = "`users` needs `users_file` in [gateways.NAME]";
            (message, "write users_file = \"/etc/rampart/gateway-users.json\"; `rampart user add` makes it")
        };
        c.report(rule.key_span("users"), message, Some(help.to_owned()));
    }
}

/// A user, a group or everybody.
pub(super) fn word(word: &str) -> Option<String> {
    let name = word.strip_prefix('@').unwrap_or(word);
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    let is_name = (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain);
    (word == "*" || is_name).then(|| word.to_owned())
}
