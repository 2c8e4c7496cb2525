//! Pages as a reader gets them.
#![allow(dead_code, reason = "each test binary that includes this module uses its own part of it")]

use measure::results::Results;
use measure::suite::Layout;
use report::{Extras, Format, TestExtras, render};

/// Firewalls of the samples of connections.
pub(crate) const FIREWALLS: [&str; 4] = ["linux", "nftables", "iptables", "external"];

/// The page of a run, without a suite.
pub(crate) fn page(results: &Results) -> String {
    render(results, Format::Html, &Extras::default()).unwrap()
}

/// What a suite says of a test in that layout.
pub(crate) fn with_layout(test: &str, layout: Layout) -> Extras {
    let extras = TestExtras::new("A title <&>", layout);
    let report = layout.name().split('-').next().unwrap();
    let published = measure::published::load(report).ok();
    Extras { tests: [(test.to_string(), extras)].into(), published, ..Extras::default() }
}

/// The text between tags, so that a figure in the page is found where a reader sees it.
pub(crate) fn text_of(page: &str) -> String {
    let body = page.split("<body>").nth(1).unwrap();
    let mut text = String::new();
    let mut in_tag = false;
    for c in body.chars() {
        match c {
            '<' => in_tag = true,
            '>' => (in_tag, text) = (false, text + " "),
            c if !in_tag => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
