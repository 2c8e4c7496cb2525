//! Templates. Every text that goes into a page is escaped by the engine; the one that is not is the guide, which is ours and built in.
//! A test holds the templates to that.

use crate::app::Context;
use crate::http::Answer;
use crate::users::Role;
use jiff::Timestamp;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use rampart_client::api::Actor;
use serde_json::{Value, json};

const TEMPLATES: [(&str, &str); 20] = [
    ("base.html", include_str!("templates/base.html")),
    ("parts.html", include_str!("templates/parts.html")),
    ("account.html", include_str!("templates/account.html")),
    ("audit.html", include_str!("templates/audit.html")),
    ("blocks.html", include_str!("templates/blocks.html")),
    ("changes.html", include_str!("templates/changes.html")),
    ("drops.html", include_str!("templates/drops.html")),
    ("entry.html", include_str!("templates/entry.html")),
    ("events.html", include_str!("templates/events.html")),
    ("explain.html", include_str!("templates/explain.html")),
    ("flows.html", include_str!("templates/flows.html")),
    ("help.html", include_str!("templates/help.html")),
    ("history.html", include_str!("templates/history.html")),
    ("lists.html", include_str!("templates/lists.html")),
    ("login.html", include_str!("templates/login.html")),
    ("message.html", include_str!("templates/message.html")),
    ("nat.html", include_str!("templates/nat.html")),
    ("overview.html", include_str!("templates/overview.html")),
    ("policy.html", include_str!("templates/policy.html")),
    ("rules.html", include_str!("templates/rules.html")),
];

const MORE: [(&str, &str); 1] = [("users.html", include_str!("templates/users.html"))];

/// Pages that the navigation shows: path, word, and the role that sees it.
const NAVIGATION: [(&str, &str, Role); 13] = [
    ("/", "Overview", Role::Read),
    ("/rules", "Rules", Role::Read),
    ("/flows", "Flows", Role::Read),
    ("/events", "Events", Role::Read),
    ("/drops", "Drops", Role::Read),
    ("/blocks", "Blocked", Role::Read),
    ("/lists", "Lists", Role::Read),
    ("/nat", "NAT", Role::Read),
    ("/policy", "Policy", Role::Read),
    ("/explain", "Explain", Role::Read),
    ("/history", "History", Role::Read),
    ("/audit", "Audit", Role::Read),
    ("/users", "Users", Role::Administer),
];

/// All templates.
pub(crate) struct View {
    environment: Environment<'static>,
}

impl View {
    pub(crate) fn new() -> Result<Self, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_undefined_behavior(minijinja::UndefinedBehavior::Chainable);
        environment.add_filter("number", number);
        environment.add_filter("bytes", bytes);
        environment.add_filter("span", span);
        // The one text that is not escaped: it is built in.
        environment.add_function("guide", |name: String| {
            minijinja::Value::from_safe_string(crate::pages::help::html(&name))
        });
        for (name, text) in TEMPLATES.into_iter().chain(MORE) {
            environment.add_template(name, text)?;
        }
        Ok(Self { environment })
    }

    pub(crate) fn page(&self, status: u16, template: &str, context: &Context<'_>, values: Value) -> Answer {
        let login = context.login.as_ref();
        let role = login.map(|login| login.role);
        let pages: Vec<Value> = NAVIGATION
            .iter()
            .filter(|(_, _, of)| role.is_some_and(|role| role >= *of))
            .map(|(path, word, _)| json!({ "path": path, "word": word, "here": *path == context.route.path }))
            .collect();
        let mut values = values;
        let shared = [
            ("pages", pages.into()),
            ("user", login.map(|login| login.name.as_str()).into()),
            ("role", role.map(Role::name).into()),
            ("may_operate", (role >= Some(Role::Operate)).into()),
            ("may_administer", (role >= Some(Role::Administer)).into()),
            ("token", login.map(|login| login.token.as_str()).into()),
            ("said", login.and_then(|login| login.said.as_deref()).into()),
            ("now", time(context.now.wall).into()),
        ];
        shared.into_iter().for_each(|(key, value)| values[key] = value);
        let rendered = self.environment.get_template(template).and_then(|it| it.render(Serde(values)));
        // The templates are tested; a defect of theirs shows nothing that was not escaped.
        rendered.map_or_else(|_| Answer::defect(), |body| Answer::html(status, body))
    }
}

/// A moment as pages show it: UTC, to the second.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// `1234567` as `1,234,567`.
fn number(value: u64) -> String {
    let digits = value.to_string();
    let places = digits.len();
    let comma = |place: usize| place > 0 && (places - place).is_multiple_of(3);
    digits
        .chars()
        .enumerate()
        .flat_map(|(place, c)| comma(place).then_some(',').into_iter().chain([c]))
        .collect()
}

/// Bytes with three digits at most.
fn bytes(value: u64) -> String {
    let mut value = value as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1000.0 {
            let places = usize::from(value < 10.0 && unit != "B");
            return format!("{value:.places$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.0} PiB")
}

/// Seconds as people say them.
pub(crate) fn span(value: u64) -> String {
    match value {
        0..60 => format!("{value} s"),
        60..3600 if value.is_multiple_of(60) => format!("{} min", value / 60),
        60..3600 => format!("{} min {} s", value / 60, value % 60),
        3600..86_400 => format!("{} h {} min", value / 3600, value % 3600 / 60),
        _ => format!("{} d {} h", value / 86_400, value % 86_400 / 3600),
    }
}

/// Who did something, in a word or two; whom a process acts for is its claim.
pub(crate) fn who(by: &Actor) -> String {
    match by {
        Actor::Process { acting_for, user, login, uid, .. } => {
            let user = user.clone().unwrap_or_else(|| format!("user {uid}"));
            match (acting_for, login) {
                (Some(name), _) => format!("{name} (by {user})"),
                (None, Some(login)) => format!("{login} (as {user})"),
                (None, None) => user,
            }
        }
        Actor::Other(name) => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_template_lets_a_text_through_unescaped() {
        for (name, text) in TEMPLATES.into_iter().chain(MORE) {
            for word in ["|safe", "| safe", "autoescape", "<script>", "style=", "onclick", "javascript:"] {
                assert!(!text.contains(word), "{name} has {word}");
            }
            // A value outside quotes could end its attribute.
            for (place, _) in text.match_indices("={{") {
                let before = text[..place].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '-');
                assert!(!before.ends_with(char::is_whitespace), "{name} has an attribute without quotes");
            }
        }
    }

    #[test]
    fn numbers_are_read_by_people() {
        for (value, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(value), expected);
        }
        for (value, expected) in [(0, "0 B"), (1023, "1.0 KiB"), (52_428, "51 KiB"), (u64::MAX, "16384 PiB")]
        {
            assert_eq!(bytes(value), expected);
        }
        for (value, expected) in
            [(5, "5 s"), (60, "1 min"), (65, "1 min 5 s"), (7300, "2 h 1 min"), (90_000, "1 d 1 h")]
        {
            assert_eq!(span(value), expected);
        }
    }
}
