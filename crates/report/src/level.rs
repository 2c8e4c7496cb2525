//! Levels of factors: their natural order (64 before 128, 2 before 100k) and how they read in a sentence. Pure.

use crate::units;
use std::collections::BTreeMap;

/// A level that sorts by its number when it has one, then by its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level {
    has_no_number: bool,
    millis: i64,
    text: String,
}

impl Level {
    /// Parses a level as suites write it: `64`, `100k`, `40%`, `imix:tolly`, `one-way`.
    pub(crate) fn of(text: &str) -> Self {
        let number = number(text);
        Self {
            has_no_number: number.is_none(),
            millis: number.map_or(0, |n| (n * 1000.0) as i64),
            text: text.to_string(),
        }
    }
}

/// The number that a level stands for; none for words.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = text.trim().trim_end_matches("/s").trim_end_matches('%').trim_end();
    let (digits, factor) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 1e3),
        'M' => (&text[..text.len() - 1], 1e6),
        'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    digits.trim_end().replace('_', "").parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| n * factor)
}

/// A sort key over all levels: frame sizes last, so that a table reads by its other factors first.
pub(crate) fn order(levels: &BTreeMap<String, String>) -> Vec<(String, Level)> {
    let mut key: Vec<(String, Level)> =
        levels.iter().filter(|(k, _)| *k != "frame").map(|(k, v)| (k.clone(), Level::of(v))).collect();
    if let Some(frame) = levels.get("frame") {
        key.push(("frame".into(), Level::of(frame)));
    }
    key
}

/// A factor's name for headings.
pub(crate) fn name(factor: &str) -> String {
    match factor {
        "frame" => "Frame size, bytes with FCS".into(),
        "flows" | "sessions" => "Concurrent flows".into(),
        "load" => "Offered load".into(),
        other => {
            let text = other.replace(['_', '-'], " ");
            let mut chars = text.chars();
            chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
        }
    }
}

/// A level short enough for an axis: `64`, `100 k`, `IMIX tolly`.
pub(crate) fn short(factor: &str, level: &str) -> String {
    match (factor, number(level)) {
        ("frame", None) => mix(level),
        ("flows" | "sessions" | "lists", Some(n)) => counted(n),
        _ => level.to_string(),
    }
}

fn mix(level: &str) -> String {
    level.split_once(':').map_or_else(
        || level.to_uppercase(),
        |(kind, name)| if kind == "imix" { format!("IMIX {name}") } else { format!("{kind} {name}") },
    )
}

fn counted(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{} M", trim(n / 1e6)),
        n if n >= 1e3 => format!("{} k", trim(n / 1e3)),
        n => trim(n),
    }
}

fn trim(n: f64) -> String {
    let text = units::significant(n, 3);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// A factor and its level in words: `64-byte frames`, `1 M flows`, `no rules`, `2 cores`.
pub(crate) fn phrase(factor: &str, level: &str) -> String {
    let shown = short(factor, level);
    let plural = |noun: &str| if level == "1" { format!("1 {noun}") } else { format!("{shown} {noun}s") };
    match factor {
        "frame" if number(level).is_some() => format!("{shown}-byte frames"),
        "frame" => format!("{shown} frames"),
        "flows" => plural("flow"),
        "sessions" => plural("session"),
        "cores" => plural("core"),
        "rules" if level == "0" => "no rules".into(),
        "rules" => plural("rule"),
        "load" => format!("load {shown}"),
        "clients" | "servers" => plural(factor.trim_end_matches('s')),
        "match" => format!("match at the rule «{shown}»"),
        "lists" if level == "0" => "no block list".into(),
        "lists" => format!("{shown} listed addresses"),
        "ip" => format!("IPv{shown}"),
        "zones" => format!("{shown} zones"),
        "link" if level == "none" => "links without a rate limit".into(),
        "link" => format!("links of {shown}bit/s"),
        "stateful" => if level == "true" { "stateful" } else { "stateless" }.into(),
        "nat" => if level == "true" { "with NAT" } else { "without NAT" }.into(),
        "placement" | "directions" => shown,
        other => format!("{} {shown}", other.replace(['_', '-'], " ")),
    }
}

/// Several factors in words, the frame first.
pub(crate) fn phrases<'a>(levels: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut levels: Vec<(&str, &str)> = levels.into_iter().collect();
    levels.sort_by_key(|(name, _)| rank(name));
    levels.iter().map(|(name, level)| phrase(name, level)).collect::<Vec<_>>().join(", ")
}

/// Reading order of factors: what everyone asks first comes first.
pub(crate) fn rank(factor: &str) -> usize {
    const ORDER: [&str; 7] = ["frame", "flows", "sessions", "directions", "rules", "load", "cores"];
    ORDER.iter().position(|f| *f == factor).unwrap_or(if factor == "placement" { 99 } else { 50 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_sort_by_number_and_then_by_text() {
        let mut levels = ["1518", "imix:tolly", "64", "100k", "2", "1M", "genome:aag", "512"];
        levels.sort_by_key(|l| Level::of(l));
        assert_eq!(levels, ["2", "64", "512", "1518", "100k", "1M", "genome:aag", "imix:tolly"]);
    }

    #[test]
    fn levels_read_as_words() {
        let rows = [
            ("frame", "64", "64-byte frames"),
            ("frame", "imix:tolly", "IMIX tolly frames"),
            ("frame", "IMIX", "IMIX frames"),
            ("flows", "1000000", "1 M flows"),
            ("flows", "1500", "1.5 k flows"),
            ("flows", "1", "1 flow"),
            ("cores", "1", "1 core"),
            ("rules", "0", "no rules"),
            ("rules", "100", "100 rules"),
            ("load", "40%", "load 40%"),
            ("directions", "two-way", "two-way"),
            ("stateful", "false", "stateless"),
            ("link", "100M", "links of 100Mbit/s"),
            ("udp_checksum", "zero", "udp checksum zero"),
        ];
        for (factor, level, expected) in rows {
            assert_eq!(phrase(factor, level), expected);
        }
    }
}
