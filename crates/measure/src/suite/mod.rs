//! Suites: experiments as data. TOML text becomes a checked [`Suite`], or every problem of the text with its place and
//! what would be right. `suites/FORMAT.md` describes the format. Pure: reads no files; the suites that ship are part of
//! the program ([`builtin`]).

mod builtin;
mod check;
mod connections;
mod factor;
mod levels;
mod mixes;
mod setup_problem;
mod text;
mod value;

pub use crate::procedure::ProcedureKind;
pub use builtin::{builtin, builtin_names};
pub use factor::{FACTORS, Factor, FactorRow};
pub use levels::{CLIENT_PORTS, MAX_CLIENTS, MAX_CONNECTIONS, MAX_FLOWS, MAX_HOSTS, line_rate};
pub use setup_problem::SetupProblem;
pub use toml_reader::{Located, Problem, Problems};
pub use value::{Match, Value};

pub(crate) use levels::{Beside, Levels};

use crate::mix::Mix;
use crate::procedure::{Asked, Parameters, ProcedureSpec};
use crate::results::Tick;
use crate::shape::Setup;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// How thorough a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Minutes: few levels, short trials.
    Quick,
    /// Hours at most.
    Standard,
    /// The durations of the report or standard.
    Full,
}

impl Profile {
    /// All of them, shortest first.
    pub const ALL: [Profile; 3] = [Profile::Quick, Profile::Standard, Profile::Full];

    /// As suites, `--profile` and results write it.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Quick => "quick",
            Profile::Standard => "standard",
            Profile::Full => "full",
        }
    }

    /// The profile of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

/// How the report lays out a test's table, besides its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The report's own way alone.
    Plain,
    /// As EANTC did in 2001: frame sizes down, directions and rules across.
    Eantc,
    /// As Tolly did in 2007, figure 3: sessions and packet sizes down, cores across.
    Tolly,
    /// As Tolly did in 2007, figure 4: the position of the matching rule down, cores across.
    TollyHttp,
    /// As EANTC did in 2001 for TCP: connections and addresses down, firewalls without and with rules across.
    EantcTcp,
    /// As `TechGuard` did in 2012: rates and times over the seconds, without and with lists, before and under a flood.
    Poliwall,
    /// As the Check Point article did: connections and sequences down, firewalls across.
    Checkpoint,
    /// As Compaq did in 1997: virtual clients down, firewalls across.
    Nstl,
    /// As Compaq did in 1997 for runs with one change: the difference from another test in percent, firewalls across.
    NstlRuns,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 9] = [
        Layout::Plain,
        Layout::Eantc,
        Layout::Tolly,
        Layout::TollyHttp,
        Layout::EantcTcp,
        Layout::Poliwall,
        Layout::Checkpoint,
        Layout::Nstl,
        Layout::NstlRuns,
    ];

    /// As suites write it.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Plain => "plain",
            Layout::Eantc => "eantc",
            Layout::Tolly => "tolly",
            Layout::TollyHttp => "tolly-http",
            Layout::EantcTcp => "eantc-tcp",
            Layout::Poliwall => "poliwall",
            Layout::Checkpoint => "checkpoint",
            Layout::Nstl => "nstl",
            Layout::NstlRuns => "nstl-runs",
        }
    }

    /// The layout of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }
}

/// An experiment: what to measure on which firewalls, how thoroughly, and what is expected.
#[derive(Debug, Clone)]
pub struct Suite {
    /// Its name: lower-case letters, digits and hyphens.
    pub name: String,
    /// One line for lists and headings.
    pub title: String,
    /// What it shows, in a few sentences.
    pub summary: String,
    /// The report or standard that it follows.
    pub source: Option<String>,
    /// Name of the printed figures that stand beside the measured ones.
    pub published: Option<String>,
    /// Firewalls under test unless the user names others.
    pub duts: Vec<Located<String>>,
    /// Profile unless the user names another.
    pub default_profile: Profile,
    /// Profiles that it has, shortest first; never empty.
    pub profiles: Vec<Profile>,
    /// The mixes of applications that it states, each with a name of its own.
    pub mixes: Vec<Arc<Mix>>,
    /// The tests, in the order of the text; never empty.
    pub tests: Vec<Test>,
    /// What the results should show.
    pub expectations: Vec<Expectation>,
    /// What the report answers.
    pub questions: Vec<Question>,
    /// The sections of the standard and whether this suite meets them.
    pub ticks: Vec<Tick>,
    /// The file's name, as the user gave it.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// One test of a suite.
#[derive(Debug, Clone)]
pub struct Test {
    /// Its name, as results write it.
    pub name: String,
    /// One line for headings.
    pub title: String,
    /// What is measured.
    pub procedure: ProcedureKind,
    /// How the report lays it out.
    pub layout: Layout,
    /// The test before it that the layout compares it with.
    pub against: Option<String>,
    /// Bytes of the text that name it.
    pub span: Range<usize>,
    variants: BTreeMap<Profile, Variant>,
}

impl Test {
    /// The test in a profile; `None` when that profile leaves it out.
    pub(crate) fn variant(&self, profile: Profile) -> Option<&Variant> {
        self.variants.get(&profile)
    }
}

/// A test in one profile.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    /// The factors that the suite sets, each with at least one level.
    pub(crate) factors: BTreeMap<Factor, Vec<Value>>,
    parameters: Parameters,
}

impl Variant {
    pub(crate) fn rounds(&self) -> u32 {
        self.parameters.rounds()
    }

    pub(crate) fn repeats(&self) -> u32 {
        self.parameters.repeats()
    }

    pub(crate) fn procedure(&self, kind: ProcedureKind, levels: &Levels, setup: &Setup) -> ProcedureSpec {
        kind.make(&Asked { given: &self.parameters, beside: &levels.beside(), setup })
    }

    /// Whether the procedure can be carried out in this setup.
    pub(crate) fn check(
        &self,
        kind: ProcedureKind,
        levels: &Levels,
        setup: &Setup,
    ) -> Result<(), SetupProblem> {
        self.procedure(kind, levels, setup).check(setup)
    }

    /// Whether a load is given as a share of the link's rate.
    pub(crate) fn needs_link(&self) -> bool {
        self.parameters.needs_link()
    }
}

/// What the results should show: an expression in the language of `compare --fail-if`, which this module only carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The expression; the run fails (exit status 1) when it is false.
    pub that: Located<String>,
    /// Why it should hold.
    pub because: Option<String>,
}

/// A question that the report answers in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// As a reader asks it.
    pub ask: String,
    /// What it is answered from.
    pub asks: Asks,
}

/// What a question is answered from, in the language of expectations, which this module only carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asks {
    /// A condition: the answer is yes for the firewalls that meet it anywhere.
    Yes(Located<String>),
    /// Values: the answer names the firewall with the best. With a factor, it says for which firewalls the values are worse at
    /// the level of that factor that is thought to be the harder.
    Of(Located<String>, Option<String>),
}

impl Asks {
    /// The expression.
    pub const fn expression(&self) -> &Located<String> {
        let (Asks::Yes(text) | Asks::Of(text, _)) = self;
        text
    }
}

impl Suite {
    /// Reads and checks a suite. `file` is how messages call it.
    ///
    /// # Errors
    /// Every problem of the text.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problems> {
        check::suite(file, text)
    }

    /// The test of a name.
    pub fn test(&self, name: &str) -> Option<&Test> {
        self.tests.iter().find(|test| test.name == name)
    }

    /// A problem at some bytes of this suite's text: for expressions that others check.
    pub fn problem(&self, span: Range<usize>, message: String, help: Option<String>) -> Problems {
        Problems::one(&self.file, &self.text, span, message, help)
    }
}

/// Setups of every combination of a test's levels, in the order of [`Factor::ALL`], the last factor fastest. Levels that
/// come to the same setup (the position of a match among no rules, say) are listed once.
///
/// # Errors
/// The factors of the first combination that cannot be, and why.
pub(crate) fn combinations(
    kind: ProcedureKind,
    factors: &BTreeMap<Factor, Vec<Value>>,
    seed: u64,
) -> Result<Vec<(Levels, Setup)>, (String, SetupProblem)> {
    let mut partial = vec![Levels::of(kind)];
    for (factor, levels) in factors {
        let mut next = Vec::with_capacity(partial.len() * levels.len());
        for base in &partial {
            for level in levels {
                let mut with = base.clone();
                with.set(*factor, level.clone());
                next.push(with);
            }
        }
        partial = next;
    }
    let mut found: Vec<(Levels, Setup)> = Vec::with_capacity(partial.len());
    for levels in partial {
        let setup = levels.setup(seed).map_err(|problem| (describe(&levels, factors), problem))?;
        let same = |(others, other): &(Levels, Setup)| *other == setup && others.beside() == levels.beside();
        if !found.iter().any(same) {
            found.push((levels, setup));
        }
    }
    Ok(found)
}

/// `frame = 64, rules = 4`: the levels of the factors that were set.
pub(crate) fn describe(levels: &Levels, factors: &BTreeMap<Factor, Vec<Value>>) -> String {
    let parts: Vec<String> =
        factors.keys().map(|factor| format!("{} = {}", factor.name(), levels.get(*factor))).collect();
    parts.join(", ")
}

/// Most combinations that one test may have: ten thousand cells take days.
pub(crate) const MAX_COMBINATIONS: usize = 10_000;

/// The number of combinations, duplicates included.
pub(crate) fn combination_count(factors: &BTreeMap<Factor, Vec<Value>>) -> usize {
    factors.values().fold(1, |product, levels| product.saturating_mul(levels.len()))
}

#[cfg(test)]
mod connection_tests;
#[cfg(test)]
mod tests;
