//! Writes what was measured so that people and programs can read it: terminal, JSON, CSV, Markdown, HTML; keeps the
//! journal of a run; compares runs; judges expectations. Measures nothing, and never shows an invalid point as a value.

pub mod compare;
pub mod csv;
pub mod error;
pub mod expectations;
pub mod expr;
pub mod html;
pub mod journal;
pub mod json;
pub mod markdown;
pub mod questions;
pub mod ratio;
pub mod terminal;
pub mod units;

mod about;
mod connections;
mod contrast;
mod differ;
mod lanes;
mod layout;
mod mixes;
mod schema1;
mod searches;
mod seconds;
mod sound;
mod table;
mod tables;
mod verdict;
mod view;
mod write;

// The sample calls this crate by its name, as it does in the tests beside the crate.
#[cfg(test)]
extern crate self as report;
#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

pub use error::ReportError;
pub use sound::harmless;
pub use write::{Format, load, render, write_all};

use measure::published::{self, Published, PublishedError};
use measure::suite::{Layout, Suite};
use std::collections::BTreeMap;

/// What a report shows beside the results: it comes from the suite, not from the run. The default shows the results
/// alone, which is all there is to show when the suite is no longer at hand.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extras {
    /// The suite's title.
    pub title: Option<String>,
    /// What it shows, in a few sentences.
    pub summary: Option<String>,
    /// The report or standard that it follows.
    pub source: Option<String>,
    /// Tests by name.
    pub tests: BTreeMap<String, TestExtras>,
    /// Figures printed in the original report.
    pub published: Option<Published>,
    /// What the suite expects of its results.
    pub expectations: Vec<expectations::Expectation>,
    /// What the suite asks of its results.
    pub questions: Vec<questions::Question>,
    /// Firewall that others are compared with; nftables, where measured, when none is named.
    pub reference: Option<String>,
}

/// What the suite says about a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestExtras {
    /// One line for the heading.
    pub title: String,
    /// Layout of an original report.
    pub layout: Layout,
    /// The test that the layout compares it with.
    pub against: Option<String>,
}

impl TestExtras {
    /// A test that is compared with no other.
    pub fn new(title: impl Into<String>, layout: Layout) -> Self {
        Self { title: title.into(), layout, against: None }
    }
}

impl Extras {
    /// What a suite says, and the printed figures that it names.
    ///
    /// # Errors
    /// [`PublishedError`] when the suite names figures that are not there.
    pub fn of_suite(suite: &Suite) -> Result<Self, PublishedError> {
        let test = |t: &measure::suite::Test| {
            (
                t.name.clone(),
                TestExtras { against: t.against.clone(), ..TestExtras::new(&*t.title, t.layout) },
            )
        };
        Ok(Self {
            title: Some(suite.title.clone()),
            summary: Some(suite.summary.clone()),
            source: suite.source.clone(),
            tests: suite.tests.iter().map(test).collect(),
            published: suite.published.as_deref().map(published::load).transpose()?,
            // A suite with a wrong expectation is refused before it is run, so there are no results of one.
            expectations: expectations::of_suite(suite).unwrap_or_default(),
            questions: questions::of_suite(suite).unwrap_or_default(),
            reference: None,
        })
    }

    /// What the suite that a run names says, where it is a built-in one.
    pub fn of_results(results: &measure::results::Results) -> Self {
        let text = measure::suite::builtin(&results.suite);
        let suite = text.and_then(|text| Suite::parse(&results.suite, text).ok());
        suite.and_then(|suite| Self::of_suite(&suite).ok()).unwrap_or_default()
    }

    pub(crate) fn layout(&self, test: &str) -> Layout {
        self.tests.get(test).map_or(Layout::Plain, |t| t.layout)
    }

    pub(crate) fn against(&self, test: &str) -> Option<&str> {
        self.tests.get(test).and_then(|t| t.against.as_deref())
    }

    pub(crate) fn test_title(&self, test: &str) -> Option<&str> {
        self.tests.get(test).map(|t| t.title.as_str())
    }
}
