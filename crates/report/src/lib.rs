//! Writes what was measured so that people and programs can read it: terminal, JSON, CSV, Markdown, HTML; keeps the
//! journal of a run; compares runs; judges expectations. Measures nothing, and never shows an invalid point as a value.

pub mod compare;
pub mod csv;
pub mod error;
pub mod expr;
pub mod html;
pub mod journal;
pub mod json;
pub mod layout;
pub mod markdown;
pub mod ratio;
pub mod terminal;

mod about;
mod level;
mod table;
mod tables;
mod units;
mod verdict;
mod view;
mod write;

#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

pub use error::ReportError;
pub use layout::{Layout, Printed};
pub use write::{Format, load, render, write_all};

use std::collections::BTreeMap;

/// What a report shows beside the results: it comes from the suite, not from the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extras {
    /// Layout of the original report that the suite reproduces.
    pub layout: Option<Layout>,
    /// Figures printed in that report.
    pub printed: Vec<Printed>,
    /// Titles of tests, by the test's name.
    pub titles: BTreeMap<String, String>,
    /// Firewall that others are compared with; nftables, where measured, when none is named.
    pub reference: Option<String>,
}
