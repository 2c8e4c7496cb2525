//! Any text gives a policy or errors, never a panic, and every place lies within the text.

use policy::Policy;
use proptest::prelude::*;

const VALID: [&str; 4] = [
    include_str!("../../../examples/policies/home.toml"),
    include_str!("../../../examples/policies/school.toml"),
    include_str!("../../../examples/policies/office-dmz.toml"),
    include_str!("../../../examples/policies/hotel-guests.toml"),
];

/// Pieces that mean something in the language, and some that do not.
const PIECES: [&str; 32] = [
    "\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    "\n",
    "#",
    ".",
    "-",
    "/",
    "any",
    "self",
    "0",
    "9999999999999",
    "-1",
    "10.0.0.0/8",
    "::/0",
    "tcp/0-65535",
    "icmp/8/0",
    "daily 22:00-06:00",
    "2026-02-29",
    "true",
    "[[rules]]\n",
    "[objects]\n",
    "name = \"x\"\n",
    "\u{0}",
    "é",
    "'''",
    "\"\"\"",
    "country:",
    "{ members = [\"any\"], except = [\"any\"] }",
];

fn check(text: &str) -> Result<(), TestCaseError> {
    match Policy::parse("any", text) {
        Ok(policy) => {
            nothing_is_ignored(text, &policy)?;
            policy.warnings();
            policy::Tables::build(&policy, jiff::Timestamp::UNIX_EPOCH)
                .map_err(|e| TestCaseError::fail(e.to_string()))?;
            policy.next_change(jiff::Timestamp::UNIX_EPOCH);
        }
        Err(problems) => {
            prop_assert!(!problems.list().is_empty());
            for problem in problems.list() {
                prop_assert!(problem.span.offset() <= text.len(), "{problem:?}");
                prop_assert!(!problem.message.is_empty());
            }
        }
    }
    Ok(())
}

/// Everything that the text lists is in the policy.
fn nothing_is_ignored(text: &str, policy: &Policy) -> Result<(), TestCaseError> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| TestCaseError::fail(e.to_string()))?;
    let count = |key: &str| match table.get(key) {
        Some(toml::Value::Array(items)) => items.len(),
        Some(toml::Value::Table(items)) => items.len(),
        _ => 0,
    };
    prop_assert_eq!(policy.rules.len(), count("rules"));
    prop_assert_eq!(policy.zones.len(), count("zones") + 1);
    prop_assert_eq!(policy.objects.len(), count("objects"));
    prop_assert_eq!(policy.services.len(), count("services"));
    prop_assert_eq!(policy.schedules.len(), count("schedules"));
    Ok(())
}

/// Cuts, doubles or replaces parts of a text.
fn mutated(mut text: String, changes: &[(usize, usize, usize, usize)]) -> String {
    for (kind, at, length, piece) in changes {
        let place = |wanted: usize| {
            (0..=wanted % (text.len() + 1)).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
        };
        let (start, end) = (place(*at), place(at % (text.len() + 1) + length % 24));
        let (start, end) = (start.min(end), start.max(end));
        let piece = PIECES[piece % PIECES.len()].to_owned();
        match kind % 4 {
            0 => text.replace_range(start..end, ""),
            1 => text.insert_str(start, &piece),
            2 => text.replace_range(start..end, &piece),
            _ => {
                let part = text[start..end].to_owned();
                text.insert_str(end, &part);
            }
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn mutations_of_valid_policies(
        which in 0..VALID.len(),
        changes in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<usize>(), any::<usize>()), 1..8),
    ) {
        check(&mutated(VALID[which].to_owned(), &changes))?;
    }

    #[test]
    fn pieces_in_any_order(pieces in proptest::collection::vec(0..PIECES.len(), 0..40)) {
        check(&pieces.iter().map(|i| PIECES[*i]).collect::<Vec<_>>().join(" "))?;
    }

    #[test]
    fn any_characters(text in "\\PC*") {
        check(&text)?;
    }
}
