//! What a suite expects of its own results.

use crate::failure::Failure;
use crate::output;
use measure::results::Results;
use measure::suite::Suite;
use report::expectations::{self, Expectation};
use report::expr::Verdict;

/// Reads the expectations before anything is measured, so that a wrong one costs no time.
pub(crate) fn check(suite: &Suite) -> Result<Vec<Expectation>, Failure> {
    expectations::of_suite(suite).map_err(|(number, error)| {
        let span = suite.expectations[number].that.span.clone();
        Failure::wrong_text(suite.problem(span, error.message, Some(error.help)))
    })
}

/// Says what became of them; those that are broken end the run with status 1.
pub(crate) fn judge(expectations: &[Expectation], results: &Results, json: bool) -> Result<(), Failure> {
    let judged = expectations::judge(expectations, results);
    let text = expectations::text(&judged);
    if json && !text.is_empty() {
        // Standard output holds the results and nothing else.
        crate::say(text.trim_end());
    } else if !json {
        output::out(&text);
    }
    let broken: Vec<String> = judged
        .iter()
        .filter(|one| one.outcome.verdict == Verdict::Broken)
        .map(|one| {
            let that = one.expectation.that.text();
            format!(
                "the suite expects {that} ({}), but:\n  {}",
                one.expectation.because.as_deref().unwrap_or("the suite says so"),
                one.outcome.because.join("\n  ")
            )
        })
        .collect();
    if broken.is_empty() { Ok(()) } else { Err(Failure::Expectation(broken.join("\n"))) }
}
