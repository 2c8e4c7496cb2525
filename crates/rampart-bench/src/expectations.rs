//! What a suite expects of its own results.

use crate::failure::Failure;
use crate::output;
use measure::results::Results;
use measure::suite::{Located, Suite};
use report::expectations::{self, Expectation};
use report::expr::{ExprError, Expression, Verdict};
use report::questions;
use testbed::dut;

/// Reads the expectations and questions before anything is measured, so that a wrong one costs no time.
///
/// Where the user chose the firewalls, one that nobody knows may be a box or a driver that another run measures: that is said.
pub(crate) fn check(suite: &Suite, are_chosen: bool) -> Result<Vec<Expectation>, Failure> {
    let wrong = |text: &Located<String>, error: ExprError| {
        Failure::wrong_text(suite.problem(text.span.clone(), error.message, Some(error.help)))
    };
    let questions = questions::of_suite(suite)
        .map_err(|(n, error)| wrong(suite.questions[n].asks.expression(), error))?;
    for (asked, question) in suite.questions.iter().zip(&questions) {
        check_firewalls(question.expression(), are_chosen)
            .map_err(|error| wrong(asked.asks.expression(), error))?;
    }
    let expectations =
        expectations::of_suite(suite).map_err(|(n, error)| wrong(&suite.expectations[n].that, error))?;
    for (written, expectation) in suite.expectations.iter().zip(&expectations) {
        check_firewalls(&expectation.that, are_chosen).map_err(|error| wrong(&written.that, error))?;
    }
    Ok(expectations)
}

/// Firewalls that do not exist have no points, so what is expected of them would be judged never, and the run would end well.
fn check_firewalls(expression: &Expression, are_chosen: bool) -> Result<(), ExprError> {
    let known = || dut::all().into_iter().map(|driver| driver.name());
    expression.check_labels(&|name, level| match name {
        "dut" if are_chosen && !known().any(|known| known == level) => {
            crate::say(&format!(
                "`{}` is not judged in this run: it measures no firewall named {level}",
                expression.text()
            ));
            Ok(())
        }
        "dut" if !known().any(|known| known == level) => Err(format!(
            "{}; a box or a driver of your own is known when it is measured",
            toml_reader::suggestion(level, known())
        )),
        _ => Ok(()),
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
