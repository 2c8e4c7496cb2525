//! Words that other firewalls use, so that whoever writes one of them is shown the word of this language.

/// What other firewalls call something, and what it is called here.
pub(crate) const ELSEWHERE: [(&str, &str); 14] = [
    ("src", "source"),
    ("dst", "destination"),
    ("dest", "destination"),
    ("drop", "deny"),
    ("block", "deny"),
    ("accept", "allow"),
    ("pass", "allow"),
    ("permit", "allow"),
    ("port", "service"),
    ("ports", "service"),
    ("protocol", "service"),
    ("comment", "description"),
    ("local", "self"),
    ("all", "any"),
];

/// "did you mean …", or the whole choice when no word of it is near.
pub(crate) fn suggestion<'a>(word: &str, choice: impl IntoIterator<Item = &'a str>) -> String {
    toml_reader::suggestion_from(&ELSEWHERE, word, choice)
}
