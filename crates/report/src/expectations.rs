//! What a suite expects of its results, and what became of it: kept, broken, undecided or not judged. Pure.

use crate::expr::{self, ExprError, Expression, Mode, Outcome, Subject, Verdict};
use crate::table::{Cell, Head, Row, Table};
use measure::mix::{ALL, PART};
use measure::results::Results;
use measure::suite::{Factor, Suite};
use std::fmt::Write as _;

/// One thing that a suite expects.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// What should be true.
    pub that: Expression,
    /// Why, in a sentence.
    pub because: Option<String>,
}

impl Expectation {
    /// What it says, for people.
    pub fn sentence(&self) -> &str {
        self.because.as_deref().unwrap_or(self.that.text())
    }
}

/// An expectation, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged<'a> {
    /// What was expected.
    pub expectation: &'a Expectation,
    /// What became of it.
    pub outcome: Outcome,
}

/// Labels that are no factors of a suite; the last three are factors that procedures vary themselves.
const LABELS: [&str; 8] = ["test", "dut", "placement", "cores", "load", "phase", "resets", PART];

/// The expectations of a suite, each expression read and its labels checked, in the order of the suite's own.
///
/// # Errors
/// The number of the first expectation that is wrong, from 0, and what is wrong with it.
pub fn of_suite(suite: &Suite) -> Result<Vec<Expectation>, (usize, ExprError)> {
    let read = |written: &measure::suite::Expectation| {
        let that = read(suite, &written.that.value, expr::parse)?;
        Ok(Expectation { that, because: written.because.clone() })
    };
    suite.expectations.iter().enumerate().map(|(n, written)| read(written).map_err(|e| (n, e))).collect()
}

/// Reads an expression of a suite and checks its labels.
pub(crate) fn read(
    suite: &Suite,
    text: &str,
    parse: fn(&str) -> Result<Expression, ExprError>,
) -> Result<Expression, ExprError> {
    // A long expression may stand on several lines of the suite.
    let read = parse(text.replace('\n', " ").trim())?;
    read.check_labels(&|name, level| match name {
        "test" if suite.test(level).is_none() => Err(format!("the suite has no test {level}")),
        PART if !has_part(suite, level) => Err(format!("no mix of the suite has a part {level}")),
        _ if LABELS.contains(&name) || Factor::named(name).is_some() => Ok(()),
        _ => Err(format!("labels are {} and the factors of suites", LABELS.join(", "))),
    })?;
    Ok(read)
}

/// Whether a mix of the suite has a part of this name.
fn has_part(suite: &Suite, name: &str) -> bool {
    let mut parts = suite.mixes.iter().flat_map(|mix| &mix.parts);
    !suite.mixes.is_empty() && (name == ALL || parts.any(|part| part.name == name))
}

/// Judges all of them. Points that never belong together are a mistake of the suite, which keeps nothing.
pub fn judge<'a>(expectations: &'a [Expectation], results: &Results) -> Vec<Judged<'a>> {
    let subjects: Vec<Subject<'_>> = results.readings().map(Subject::Point).collect();
    let judged = |expectation: &'a Expectation| {
        let outcome = expr::evaluate(&expectation.that, &subjects, Mode::All);
        let outcome = outcome.unwrap_or_else(|mistake| Outcome {
            verdict: Verdict::Broken,
            because: vec![mistake.to_string()],
            unusable: Vec::new(),
        });
        Judged { expectation, outcome }
    };
    expectations.iter().map(judged).collect()
}

impl Judged<'_> {
    /// The figures that decided; of a kept one with many cases, how many there were.
    fn found(&self) -> String {
        match (self.outcome.verdict, self.outcome.because.as_slice()) {
            (Verdict::Kept, many) if many.len() > 1 => format!("in each of {} cases", many.len()),
            (_, cases) => cases.join("; "),
        }
    }
}

/// For a terminal: how many of each, and what is to be said of those that are neither kept nor broken; the broken ones
/// end the run with a message of their own.
pub fn text(judged: &[Judged<'_>]) -> String {
    let counts: Vec<String> = [Verdict::Kept, Verdict::Undecided, Verdict::NotJudged, Verdict::Broken]
        .into_iter()
        .map(|verdict| (verdict, judged.iter().filter(|j| j.outcome.verdict == verdict).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| format!("{count} {}", verdict.name()))
        .collect();
    if counts.is_empty() {
        return String::new();
    }
    let mut out = format!("Expectations of the suite: {}.\n", counts.join(", "));
    for one in judged {
        let verdict = one.outcome.verdict;
        if matches!(verdict, Verdict::Undecided | Verdict::NotJudged) {
            let _ = writeln!(out, "  {}: {}", verdict.name(), one.expectation.sentence());
            for case in &one.outcome.because {
                let _ = writeln!(out, "    {case}");
            }
        }
        for case in &one.outcome.unusable {
            let _ = writeln!(out, "    left out: {case}");
        }
    }
    out
}

/// An expectation as a page shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Part {
    sentence: String,
    outcome: &'static str,
    /// `good`, `careful` or `bad`, as in the trust box.
    state: &'static str,
    /// What decided, and what was left out.
    cases: Vec<String>,
    that: String,
}

impl From<&Judged<'_>> for Part {
    fn from(judged: &Judged<'_>) -> Self {
        let outcome = &judged.outcome;
        let left_out = outcome.unusable.iter().map(|case| format!("left out: {case}"));
        Self {
            sentence: judged.expectation.sentence().into(),
            outcome: outcome.verdict.name(),
            state: match outcome.verdict {
                Verdict::Kept => "good",
                Verdict::Undecided | Verdict::NotJudged => "careful",
                Verdict::Broken => "bad",
            },
            cases: outcome.because.iter().cloned().chain(left_out).collect(),
            that: judged.expectation.that.text().into(),
        }
    }
}

/// For Markdown: a row an expectation.
pub(crate) fn table(judged: &[Judged<'_>]) -> Table {
    let row = |one: &Judged<'_>| {
        let verdict = one.outcome.verdict;
        let class = if verdict == Verdict::Broken { "invalid" } else { "text" };
        Row {
            heads: vec![one.expectation.sentence().into()],
            cells: vec![
                Cell { class, ..Cell::text(verdict.name()) },
                Cell::text(one.found()),
                Cell::text(one.expectation.that.text()),
            ],
        }
    };
    Table {
        caption: "What the suite expects of its results, and what became of it".into(),
        corner: vec!["Expectation".into()],
        head: ["outcome", "found", "as the suite writes it"].map(Head::one).into(),
        rows: judged.iter().map(row).collect(),
        notes: vec![
            "broken = the 95 % interval lies wholly beyond what is expected; undecided = it reaches over it; not judged = \
             its points were not measured"
                .into(),
        ],
        ..Table::default()
    }
}
