//! The parameters of procedures: how long, how often, how exactly. Each may stand in a profile (for every test), in a
//! test (for every profile), or in a test's own table for one profile; the most particular wins. A procedure's row lists
//! the keys that mean something to it.

use super::latency::{LOADS, WrittenLoad};
use super::{PROCEDURES, Preset, SearchSpec};
use std::collections::BTreeMap;
use toml_reader::{Collector, Section};

/// A day: longer trials are a slip of the pen.
pub(super) const MAX_SECONDS: f64 = 86_400.0;
/// Shorter trials are mostly start and stop.
const MIN_SECONDS: f64 = 0.05;
/// Connections or resets a second; more is a slip of the pen.
const MAX_RATE: f64 = 100_000_000.0;
/// Connections a second unless the suite says otherwise: EANTC's.
pub(super) const DEFAULT_RATE: f64 = 5000.0;

/// One parameter: its name, and the values that it takes.
#[derive(Debug)]
pub struct Key {
    /// As suites write it.
    pub name: &'static str,
    older_name: Option<&'static str>,
    takes: Takes,
    needed: Option<&'static str>,
}

#[derive(Debug)]
enum Takes {
    Integer {
        least: u64,
        most: u64,
    },
    Number {
        least: f64,
        most: f64,
    },
    /// A form of its own.
    Other(fn(&Section<'_>, &mut Collector<'_>) -> Option<Given>),
}

/// What a suite gave for a key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Given {
    Integer(u64),
    Number(f64),
    Search(Preset),
    Loads(Vec<WrittenLoad>),
}

pub(super) const ROUNDS: Key = Key::integer("rounds", 1, 1000);
/// How often a trial that other programs or the hypervisor disturb is made again.
const REPEATS: Key = Key::integer("repeats", 0, 10);
const DEFAULT_REPEATS: u32 = 2;
pub(super) const TRIAL_SECONDS: Key = Key::seconds("trial_seconds");
/// Keys that mean something to every procedure.
const COMMON: [&Key; 3] = [&ROUNDS, &REPEATS, &TRIAL_SECONDS];

pub(super) const SEARCH: Key = Key::other("search", preset);
pub(super) const LOSS_RATIO: Key = Key::number("loss_ratio", 0.0, 0.5);
pub(super) const WIDTH: Key = Key::number("width", 0.0001, 0.5);
pub(super) const OPENING_RATE: Key = Key::rate("opening_rate");
pub(super) const CONNECTION_RATE: Key =
    Key::rate("connection_rate").needed("write connection_rate = 10000: connections a second");

impl Key {
    pub(super) const fn integer(name: &'static str, least: u64, most: u64) -> Self {
        Self { name, older_name: None, takes: Takes::Integer { least, most }, needed: None }
    }

    pub(super) const fn number(name: &'static str, least: f64, most: f64) -> Self {
        Self { name, older_name: None, takes: Takes::Number { least, most }, needed: None }
    }

    pub(super) const fn seconds(name: &'static str) -> Self {
        Self::number(name, MIN_SECONDS, MAX_SECONDS)
    }

    /// Connections or resets a second.
    pub(super) const fn rate(name: &'static str) -> Self {
        Self::number(name, 1.0, MAX_RATE)
    }

    pub(super) const fn other(
        name: &'static str,
        read: fn(&Section<'_>, &mut Collector<'_>) -> Option<Given>,
    ) -> Self {
        Self { name, older_name: None, takes: Takes::Other(read), needed: None }
    }

    /// The key with the name that suites wrote before, and may still write.
    pub(super) const fn formerly(self, older_name: &'static str) -> Self {
        Self { older_name: Some(older_name), ..self }
    }

    /// The key without a default; `help` says what to write.
    pub(super) const fn needed(self, help: &'static str) -> Self {
        Self { needed: Some(help), ..self }
    }

    /// The name that stands in a section, if the key is there.
    pub(crate) fn written_in(&self, s: &Section<'_>) -> Option<&'static str> {
        [Some(self.name), self.older_name].into_iter().flatten().find(|name| s.value(name).is_some())
    }

    fn read(&self, s: &Section<'_>, c: &mut Collector<'_>) -> Option<Given> {
        let name = self.written_in(s)?;
        match self.takes {
            Takes::Integer { least, most } => s.integer(name, least..=most, c).map(Given::Integer),
            Takes::Number { least, most } => s.number(name, least..=most, c).map(Given::Number),
            Takes::Other(read) => read(s, c),
        }
    }
}

/// Every key, each once.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key> {
    COMMON.into_iter().chain(own_keys())
}

/// Every key but those that mean something to every procedure, each once.
pub(crate) fn own_keys() -> impl Iterator<Item = &'static Key> {
    let all = || PROCEDURES.iter().flat_map(|row| row.keys.iter().copied());
    all().enumerate().filter(move |(n, key)| !all().take(*n).any(|k| k.name == key.name)).map(|(_, key)| key)
}

/// Parameters that were given, by the name of their key.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Parameters(BTreeMap<&'static str, Given>);

impl Parameters {
    pub(crate) fn read(s: &Section<'_>, c: &mut Collector<'_>) -> Self {
        Self(keys().filter_map(|key| Some((key.name, key.read(s, c)?))).collect())
    }

    /// These, and where they say nothing, the others.
    pub(crate) fn or(mut self, other: &Self) -> Self {
        for (name, given) in &other.0 {
            self.0.entry(name).or_insert_with(|| given.clone());
        }
        self
    }

    /// The first of these keys that has no default and was not given, with what to write.
    pub(crate) fn lacks(&self, keys: &[&'static Key]) -> Option<(&'static str, &'static str)> {
        let missing = |key: &&&Key| key.needed.is_some() && !self.0.contains_key(key.name);
        keys.iter().find(missing).and_then(|key| Some((key.name, key.needed?)))
    }

    /// Whether some load is a share of the link, which must then have a rate.
    pub(crate) fn needs_link(&self) -> bool {
        self.loads().iter().any(|load| matches!(load, WrittenLoad::ShareOfLink(_)))
    }

    /// The rounds; a suite that was read without problems has them.
    pub(crate) fn rounds(&self) -> u32 {
        self.count(&ROUNDS)
    }

    /// How often a trial that other programs or the hypervisor disturb is made again.
    pub(crate) fn repeats(&self) -> u32 {
        self.integer(&REPEATS).and_then(|n| u32::try_from(n).ok()).unwrap_or(DEFAULT_REPEATS)
    }

    pub(super) fn number(&self, key: &Key) -> Option<f64> {
        match self.0.get(key.name) {
            Some(Given::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn integer(&self, key: &Key) -> Option<u64> {
        match self.0.get(key.name) {
            Some(Given::Integer(integer)) => Some(*integer),
            _ => None,
        }
    }

    /// How often: 1 where nothing was said.
    pub(super) fn count(&self, key: &Key) -> u32 {
        self.integer(key).and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
    }

    pub(super) fn loads(&self) -> &[WrittenLoad] {
        match self.0.get(LOADS.name) {
            Some(Given::Loads(loads)) => loads,
            _ => &[],
        }
    }

    pub(super) fn trial_seconds(&self) -> f64 {
        self.number(&TRIAL_SECONDS).unwrap_or(1.0)
    }

    pub(super) fn search(&self, preset: Preset, max_load: Option<f64>) -> SearchSpec {
        SearchSpec {
            preset: match self.0.get(SEARCH.name) {
                Some(Given::Search(given)) => *given,
                _ => preset,
            },
            trial_seconds: self.trial_seconds(),
            loss_ratio: self.number(&LOSS_RATIO),
            width: self.number(&WIDTH),
            max_load,
        }
    }
}

fn preset(s: &Section<'_>, c: &mut Collector<'_>) -> Option<Given> {
    let name = s.text(SEARCH.name, c)?;
    match name.value {
        "mlr" => Some(Given::Search(Preset::Mlr)),
        "rfc2544" => Some(Given::Search(Preset::Rfc2544)),
        "tst009" => Some(Given::Search(Preset::Tst009)),
        other => {
            let help = c.suggestion(other, ["mlr", "rfc2544", "tst009"]);
            c.report(name.span, format!("no search is called `{other}`"), help);
            None
        }
    }
}
