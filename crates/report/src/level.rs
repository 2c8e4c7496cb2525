//! Levels of factors: their natural order (64 before 128, 2 before 100k) and how they read in a sentence. Pure.

use crate::units;
use measure::frame::FrameMix;
use std::collections::BTreeMap;

/// A level that sorts by its number when it has one, then by its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level {
    has_no_number: bool,
    millis: i64,
    text: String,
}

impl Level {
    /// Parses a level as suites write it: `64`, `100k`, `40%`, `one-way`; a mix of frames goes by its mean size.
    pub(crate) fn of(factor: &str, text: &str) -> Self {
        let mean_bytes =
            || FrameMix::parse(text).ok().filter(|_| factor == "frame").map(|mix| mix.mean_bytes());
        // Stretches of a trial are told in the order of time.
        let stretch = || {
            ["before", "during", "after"]
                .iter()
                .position(|s| factor == "phase" && *s == text)
                .map(|i| i as f64)
        };
        let number = number(text).or_else(mean_bytes).or_else(stretch);
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

/// A sort key over all levels, in the order of a table's columns.
pub(crate) fn order(levels: &BTreeMap<String, String>) -> Vec<(usize, Level)> {
    let mut key: Vec<(usize, Level)> =
        levels.iter().map(|(name, level)| (column_rank(name), Level::of(name, level))).collect();
    key.sort_by_key(|(rank, _)| *rank);
    key
}

/// Order of a table's columns: frame sizes and then loads last, so that a series of them reads downwards.
pub(crate) fn column_rank(factor: &str) -> usize {
    match factor {
        "frame" => 100,
        "load" => 101,
        other => rank(other),
    }
}

/// A factor's name for headings.
pub(crate) fn name(factor: &str) -> String {
    match factor {
        "frame" => "Frame size, bytes with FCS".into(),
        "flows" | "sessions" => "Concurrent flows".into(),
        "connections" => "Connections".into(),
        "match" => "Matching rule".into(),
        "order" => "Order of address and port".into(),
        "illegal" => "Illegal traffic".into(),
        "attack" => "Flood".into(),
        "lists" => "Listed addresses".into(),
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
        ("load", Some(rate)) if level.ends_with("/s") => {
            let rate = counted(rate);
            // `100 k/s`, but `500 /s`.
            if rate.ends_with(char::is_alphabetic) { format!("{rate}/s") } else { format!("{rate} /s") }
        }
        ("illegal", Some(share)) if (0.0..1.0).contains(&share) && !level.ends_with('%') => {
            if share == 0.0 {
                "none".into()
            } else {
                format!("{} %", trim(share * 100.0))
            }
        }
        // As the report that asks for so many prints them: 1000, 4096, 6144.
        ("connections", Some(n)) if n < 1e5 => trim(n),
        ("flows" | "sessions" | "lists" | "connections", Some(n)) => counted(n),
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
        // 4096 is neither 4 nor 4.1 thousand.
        n if n >= 1e3 && trim(n / 1e3).parse().is_ok_and(|k: f64| (k * 1e3 - n).abs() < 0.5) => {
            format!("{} k", trim(n / 1e3))
        }
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
        "connections" => plural("connection"),
        "transactions" => plural("transaction"),
        "order" => format!("{shown} order"),
        "illegal" if shown == "none" => "no illegal traffic".into(),
        "illegal" => match shown.split_once(':') {
            Some((share, kinds)) => format!("{share} illegal by {}", kinds.replace(',', ", ")),
            None => format!("{shown} illegal"),
        },
        "attack" if level == "none" => "no flood".into(),
        "attack" => match shown.split_once(':') {
            Some((kind, rest)) => format!("{kind} flood of {}/s", rest.split(':').next().unwrap_or(rest)),
            None => format!("{shown} flood"),
        },
        "phase" => format!("{shown} the flood"),
        "answer" => format!("{shown}-byte answers"),
        "hold" => format!("held open {shown} s"),
        "reuse" => format!("ports rest {shown} s"),
        "list_sets" => {
            if level == "1" {
                "1 list".into()
            } else {
                format!("{shown} lists")
            }
        }
        "fragments" => {
            if level == "1" {
                "whole".into()
            } else {
                format!("in {shown} fragments")
            }
        }
        "close" if level == "hold" => "not closed".into(),
        "resets" if level == "none" => "no resets".into(),
        "resets" => format!("{shown} resets"),
        "countries" if matches!(level, "0" | "none" | "false") => "no country table".into(),
        "countries" if number(level).is_some() => format!("{shown} allowed networks"),
        "close" => format!("closed by {shown}"),
        "cores" => plural("core"),
        "rules" if level == "0" => "no rules".into(),
        "rules" => plural("rule"),
        "load" => format!("load {shown}"),
        "clients" | "servers" => plural(factor.trim_end_matches('s')),
        "match" if number(level).is_some() => format!("match at rule {shown}"),
        "match" => format!("match at the {shown} rule"),
        "udp_checksum" => format!("UDP checksum {shown}"),
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
    const ORDER: [&str; 12] = [
        "frame",
        "connections",
        "flows",
        "sessions",
        "directions",
        "rules",
        "load",
        "cores",
        "order",
        "illegal",
        "attack",
        "resets",
    ];
    ORDER.iter().position(|f| *f == factor).unwrap_or(if factor == "placement" { 99 } else { 50 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_sort_by_number_and_then_by_text() {
        let mut levels = ["1518", "imix:tolly", "64", "100k", "2", "1M", "genome:aag", "512"];
        levels.sort_by_key(|l| Level::of("flows", l));
        assert_eq!(levels, ["2", "64", "512", "1518", "100k", "1M", "genome:aag", "imix:tolly"]);
        let mut frames = ["1518", "imix:tolly", "64", "512"];
        frames.sort_by_key(|l| Level::of("frame", l));
        assert_eq!(frames, ["64", "imix:tolly", "512", "1518"], "a mix goes by its mean size");
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
            ("load", "100000/s", "load 100 k/s"),
            ("load", "500/s", "load 500 /s"),
            ("connections", "4096", "4096 connections"),
            ("connections", "1000", "1000 connections"),
            ("connections", "2000000", "2 M connections"),
            ("order", "random", "random order"),
            ("illegal", "0.8", "80 % illegal"),
            ("illegal", "0", "no illegal traffic"),
            ("illegal", "80%:address,port", "80% illegal by address, port"),
            ("illegal", "none", "no illegal traffic"),
            ("attack", "syn:66485", "syn flood of 66485/s"),
            ("phase", "during", "during the flood"),
            ("answer", "1", "1-byte answers"),
            ("attack", "syn", "syn flood"),
            ("attack", "none", "no flood"),
            ("resets", "inside-window", "inside-window resets"),
            ("countries", "14999", "14999 allowed networks"),
            ("lists", "30000000", "30 M listed addresses"),
            ("directions", "two-way", "two-way"),
            ("stateful", "false", "stateless"),
            ("link", "100M", "links of 100Mbit/s"),
            ("udp_checksum", "zero", "UDP checksum zero"),
            ("match", "last", "match at the last rule"),
            ("match", "5", "match at rule 5"),
        ];
        for (factor, level, expected) in rows {
            assert_eq!(phrase(factor, level), expected);
        }
    }
}
