//! A level of a factor as plans, results and reports carry it: its number, its text and its words are made once, where the
//! suite's text is read, and nothing behind that reads the text again.

use crate::mix::{ALL, PART, PREFIX};
use crate::suite::{FACTORS, Factor, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// A level of a factor.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// The number that it stands for, for example 64 of the frame size `64`; none of a word such as `one-way`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// Its place among the levels of its factor where `number` does not give it, for example the mean size of a mix of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<f64>,
    /// As a suite writes it, for example `1000000`.
    pub text: String,
    /// As an axis shows it, for example `1 M`; empty where that is `text`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub short: String,
    /// As a sentence says it, for example `1 M flows`.
    pub phrase: String,
}

/// Levels are equal when they stand for the same, in whatever words.
impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Level {}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By number where there is one, words after numbers.
impl Ord for Level {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |level: &Self| level.order.or(level.number);
        let by_number = match (key(self), key(other)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        };
        by_number.then_with(|| self.text.cmp(&other.text))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Level {
    /// A level of a factor of suites.
    pub fn of(factor: Factor, value: &Value) -> Self {
        let (order, text) = (value.order(), value.to_string());
        Self { order, ..Self::plain(&factor.row().words, value.number(), text) }
    }

    /// A level that a procedure makes, or that somebody wrote: in printed figures, in results of schema 1.
    pub fn read(factor: &str, text: &str) -> Self {
        if let Some((factor, value)) = Factor::named(factor).and_then(|f| Some((f, f.parse(text).ok()?))) {
            return Self::of(factor, &value);
        }
        let order = STRETCHES.iter().position(|stretch| factor == PHASE && *stretch == text);
        let order = order.map(|place| place as f64);
        match words(factor) {
            Some(words) => Self { order, ..Self::plain(words, number(text), text.to_owned()) },
            None => Self {
                number: number(text),
                text: text.to_owned(),
                phrase: format!("{} {text}", spaced(factor)),
                ..Self::default()
            },
        }
    }

    fn plain(words: &Words, number: Option<f64>, text: String) -> Self {
        let mut level = Self { number, text, ..Self::default() };
        level.short = (words.short)(&level);
        level.phrase = (words.phrase)(&level);
        if level.short == level.text {
            level.short.clear();
        }
        level
    }

    /// As an axis shows it.
    pub fn short(&self) -> &str {
        if self.short.is_empty() { &self.text } else { &self.short }
    }

    fn plural(&self, noun: &str) -> String {
        if self.text == "1" { format!("1 {noun}") } else { format!("{} {noun}s", self.short()) }
    }
}

/// How a factor and its levels are called.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// As suites, `--set` and results write it.
    pub key: &'static str,
    /// In headings, for example `Frame size, bytes with FCS`.
    pub title: &'static str,
    /// Place in a sentence: what everyone asks first comes first.
    pub rank: usize,
    /// Whether it is worth naming in a sentence; the rest stands in the tables.
    pub telling: bool,
    pub(crate) short: fn(&Level) -> String,
    pub(crate) phrase: fn(&Level) -> String,
}

/// The factor that tells stretches of one trial apart: before, during and after a flood.
pub const PHASE: &str = "phase";
/// Its levels, in the order of time.
pub const STRETCHES: [&str; 3] = ["before", "during", "after"];
/// The rank of factors that nobody asks for first.
pub const LATE: usize = 50;

/// Factors that no suite sets: procedures make their levels.
const MADE: [Words; 4] = [
    Words {
        key: "load",
        title: "Offered load",
        rank: 6,
        telling: true,
        short: load,
        phrase: |l| format!("load {}", l.short()),
    },
    Words {
        key: PHASE,
        title: "Phase",
        rank: LATE,
        telling: false,
        short: text,
        phrase: |l| format!("{} the flood", l.text),
    },
    Words {
        key: PART,
        title: "Part of the mix",
        rank: 12,
        telling: true,
        short: text,
        phrase: |l| if l.text == ALL { "the whole mix".into() } else { format!("part {}", l.text) },
    },
    Words {
        key: "resets",
        title: "Resets",
        rank: 11,
        telling: true,
        short: text,
        phrase: |l| if l.text == "none" { "no resets".into() } else { format!("{} resets", l.text) },
    },
];

fn words(factor: &str) -> Option<&'static Words> {
    FACTORS.iter().map(|row| &row.words).chain(&MADE).find(|words| words.key == factor)
}

/// A factor's name for headings; of one that this program does not know, its key.
pub fn title(factor: &str) -> String {
    words(factor).map_or_else(
        || {
            let text = spaced(factor);
            let mut chars = text.chars();
            chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
        },
        |words| words.title.to_owned(),
    )
}

/// A factor's place in a sentence.
pub fn rank(factor: &str) -> usize {
    words(factor).map_or(LATE, |words| words.rank)
}

/// A factor's place among the columns of a table: frame sizes and then loads last, so that a series of them reads downwards.
pub fn column(factor: &str) -> usize {
    match factor {
        "frame" => 100,
        "load" => 101,
        other => rank(other),
    }
}

/// Whether a factor is worth naming in a sentence.
pub fn is_telling(factor: &str) -> bool {
    words(factor).is_some_and(|words| words.telling)
}

/// Several levels in words, each with its factor, the frame first.
pub fn phrases<'a>(levels: impl IntoIterator<Item = (&'a str, &'a Level)>) -> String {
    let mut levels: Vec<(&str, &Level)> = levels.into_iter().collect();
    levels.sort_by_key(|(factor, _)| rank(factor));
    levels.iter().map(|(_, level)| level.phrase.as_str()).collect::<Vec<_>>().join(", ")
}

fn spaced(factor: &str) -> String {
    factor.replace(['_', '-'], " ")
}

/// The number that a text stands for, which a report printed or an older bench wrote: `64`, `100k`, `40%`, `100000/s`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim().trim_end_matches("/s").trim_end_matches('%').trim_end();
    let (digits, factor) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 1e3),
        'M' => (&text[..text.len() - 1], 1e6),
        'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    digits.trim_end().replace('_', "").parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| n * factor)
}

// Below are the ways in which rows say a level.

pub(crate) fn text(level: &Level) -> String {
    level.text.clone()
}

pub(crate) fn counted(level: &Level) -> String {
    level.number.map_or_else(|| level.text.clone(), thousands)
}

/// As the report that asks for so many prints them: 1000, 4096, 6144.
pub(crate) fn counted_from_1e5(level: &Level) -> String {
    match level.number {
        Some(n) if n < 1e5 => trim(n),
        _ => counted(level),
    }
}

fn load(level: &Level) -> String {
    match level.number.filter(|_| level.text.ends_with("/s")).map(thousands) {
        // `100 k/s`, but `500 /s`.
        Some(rate) if rate.ends_with(char::is_alphabetic) => format!("{rate}/s"),
        Some(rate) => format!("{rate} /s"),
        None => level.text.clone(),
    }
}

pub(crate) fn protocol(level: &Level) -> String {
    match level.text.strip_prefix(PREFIX) {
        Some(name) => format!("mix {name}"),
        None => level.text.to_uppercase(),
    }
}

pub(crate) fn mix(level: &Level) -> String {
    match (level.number, level.text.split_once(':')) {
        (Some(_), _) => level.text.clone(),
        (None, Some(("imix", name))) => format!("IMIX {name}"),
        (None, Some((kind, name))) => format!("{kind} {name}"),
        (None, None) => level.text.to_uppercase(),
    }
}

/// Results of schema 1 have shares without kinds.
pub(crate) fn share(level: &Level) -> String {
    match level.number.filter(|share| (0.0..1.0).contains(share) && !level.text.ends_with('%')) {
        Some(0.0) => "none".into(),
        Some(share) => format!("{} %", trim(share * 100.0)),
        None => level.text.clone(),
    }
}

pub(crate) fn rules(level: &Level) -> String {
    if level.text == "0" { "no rules".into() } else { level.plural("rule") }
}

pub(crate) fn illegal_phrase(level: &Level) -> String {
    match (level.short(), level.short().split_once(':')) {
        ("none", _) => "no illegal traffic".into(),
        (_, Some((share, kinds))) => format!("{share} illegal by {}", kinds.replace([',', '+'], ", ")),
        (share, None) => format!("{share} illegal"),
    }
}

pub(crate) fn attack_phrase(level: &Level) -> String {
    let mut parts = level.text.split(':');
    match (parts.next(), parts.next()) {
        (Some("none"), _) => "no flood".into(),
        (Some(kind), Some(rate)) => format!("{kind} flood of {rate}/s"),
        _ => format!("{} flood", level.text),
    }
}

/// One noun for each: `1 core`, `2 cores`.
macro_rules! plural {
    ($($name:ident $noun:literal),+ $(,)?) => {
        $(pub(crate) fn $name(level: &Level) -> String {
            level.plural($noun)
        })+
    };
}

plural! {
    flows "flow",
    clients "client",
    servers "server",
    connections "connection",
    transactions "transaction",
    cores "core",
    list_sets "list",
}

fn thousands(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{} M", trim(n / 1e6)),
        // 4096 is neither 4 nor 4.1 thousand.
        n if n >= 1e3 && trim(n / 1e3).parse().is_ok_and(|k: f64| (k * 1e3 - n).abs() < 0.5) => {
            format!("{} k", trim(n / 1e3))
        }
        n => trim(n),
    }
}

/// Three significant digits, without zeros at the end of a fraction.
fn trim(n: f64) -> String {
    let magnitude = if n == 0.0 { 0 } else { n.abs().log10().floor() as i32 };
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0);
    let text = format!("{n:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number with commas between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_sort_by_number_and_then_by_text() {
        let mut levels = ["1518", "imix:tolly", "64", "100k", "2", "1M", "genome:aag", "512"];
        levels.sort_by_key(|l| Level::read("flows", l));
        assert_eq!(levels, ["2", "64", "512", "1518", "100k", "1M", "genome:aag", "imix:tolly"]);
        let mut frames = ["1518", "imix:tolly", "64", "512"];
        frames.sort_by_key(|l| Level::read("frame", l));
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
            ("protocol", "http/1.1", "HTTP/1.1"),
            ("protocol", "mix:office", "mix office"),
            ("part", "files", "part files"),
            ("part", "all", "the whole mix"),
        ];
        for (factor, level, expected) in rows {
            assert_eq!(Level::read(factor, level).phrase, expected);
        }
    }
}
