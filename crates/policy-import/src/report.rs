//! What is said about an import besides the policy.

use crate::Source;
use crate::ruleset::{Place, RuleId, Ruleset};
use std::collections::HashSet;
use std::fmt;

/// What became of something that was not carried over as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A rule that accepts is not in the policy: less is allowed.
    LeftOut,
    /// A rule that refuses is wider in the policy: less is allowed.
    Wider,
    /// A part that decides nothing about who may reach whom is not in the policy, or is so in another way.
    Note,
}

/// One thing that was not carried over as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// From 1; 0: the file as a whole.
    pub line: usize,
    /// From 1, in characters; 0: the file as a whole.
    pub column: usize,
    /// What became of it.
    pub kind: Kind,
    /// The original's line, without control characters.
    pub text: String,
    /// Why, and what to do.
    pub why: String,
}

/// The result of an import.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The policy's text, which [`policy::Policy::parse`] takes.
    pub policy: String,
    /// What was not carried over as it is, in the order of the texts.
    pub findings: Vec<Finding>,
    /// How many rules there were, and what became of them.
    pub rules: Rules,
}

/// Counts of rules. None vanishes: `read` is `carried` and `said`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Those that stand in the texts.
    pub read: usize,
    /// Those that are in the policy, also if wider, or that say which packets others of it are about.
    pub carried: usize,
    /// Those of which nothing is in the policy. A finding says why, for each.
    pub said: usize,
}

impl Imported {
    /// Whether the policy allows exactly what the original does, for the packets that open flows between the zones.
    pub fn is_exact(&self) -> bool {
        self.findings.iter().all(|finding| finding.kind == Kind::Note)
    }
}

/// Why a text cannot be imported at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", at(.file, *.line, *.column))]
pub struct Mistake {
    /// The file.
    pub file: String,
    /// From 1; 0: the file as a whole.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

fn at(file: &str, line: usize, column: usize) -> String {
    if line == 0 { format!("{file}: ") } else { format!("{file}:{line}:{column}: ") }
}

impl Kind {
    /// As JSON has it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::LeftOut => "left-out",
            Kind::Wider => "wider",
            Kind::Note => "note",
        }
    }

    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Kind::LeftOut => "left out (less is allowed)",
            Kind::Wider => "refuses more than the original",
            Kind::Note => "note",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", at(&self.file, self.line, self.column), self.kind.words(), self.why)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, "\n  {}", self.text) }
    }
}

/// Findings as they are made.
#[derive(Debug)]
pub(crate) struct Report<'s> {
    sources: &'s [Source],
    findings: Vec<(Place, Finding)>,
    /// Rules with a finding.
    said: HashSet<RuleId>,
}

impl<'s> Report<'s> {
    pub(crate) fn new(sources: &'s [Source]) -> Self {
        Self { sources, findings: Vec::new(), said: HashSet::new() }
    }

    pub(crate) fn add(&mut self, place: Place, kind: Kind, text: &str, why: impl Into<String>) {
        let file = self.sources.get(place.source).map_or_else(String::new, |source| source.name.clone());
        let (text, why) = (printable(text), printable(&why.into()));
        self.findings
            .push((place, Finding { file, line: place.line, column: place.column, kind, text, why }));
    }

    /// Adds a finding about a rule.
    pub(crate) fn say(&mut self, ruleset: &Ruleset, id: RuleId, kind: Kind, why: impl Into<String>) {
        let rule = &ruleset.chains[id.0].rules[id.1];
        self.said.insert(id);
        self.add(rule.place, kind, &rule.text, why);
    }

    pub(crate) fn has_said(&self, id: RuleId) -> bool {
        self.said.contains(&id)
    }

    pub(crate) fn imported(mut self, policy: String, rules: Rules) -> Imported {
        self.findings.sort_by(|(a, x), (b, y)| (a, x.kind, &x.why).cmp(&(b, y.kind, &y.why)));
        self.findings.dedup();
        let findings = self.findings.into_iter().map(|(_, finding)| finding).collect();
        Imported { policy, findings, rules }
    }
}

/// A mistake at a place.
pub(crate) fn mistake(sources: &[Source], place: Place, message: impl Into<String>) -> Mistake {
    let file = sources.get(place.source).map_or_else(String::new, |source| printable(&source.name));
    Mistake { file, line: place.line, column: place.column, message: printable(&message.into()) }
}

/// Text that begins no new line and moves no cursor, whatever was in it.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Marks that turn the direction of writing show other words than there are.
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c == '\t' {
            out.push(' ');
        } else if c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}') {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}
