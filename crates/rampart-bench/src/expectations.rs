//! What a suite expects of its own results.

use crate::failure::Failure;
use measure::results::Results;
use measure::suite::Suite;
use report::expr::{self, Expression, Mode, Subject};

/// Reads the expectations before anything is measured, so that a wrong one costs no time.
pub(crate) fn check(suite: &Suite) -> Result<Vec<Expression>, Failure> {
    suite
        .expectations
        .iter()
        .map(|expectation| {
            expr::parse(&expectation.that.value).map_err(|error| {
                let help = Some(error.help.clone());
                Failure::wrong_text(suite.problem(expectation.that.span.clone(), error.message, help))
            })
        })
        .collect()
}

/// Judges them; the first that does not hold ends the run with status 1.
pub(crate) fn judge(suite: &Suite, expectations: &[Expression], results: &Results) -> Result<(), Failure> {
    let subjects: Vec<Subject<'_>> = results.points.iter().map(Subject::Point).collect();
    for (expression, expectation) in expectations.iter().zip(&suite.expectations) {
        let outcome = expr::evaluate(expression, &subjects, Mode::All)
            .map_err(|e| Failure::Expectation(e.to_string()))?;
        if !outcome.holds {
            let why = expectation.because.as_deref().unwrap_or("the suite says so");
            return Err(Failure::Expectation(format!(
                "the suite expects {} ({why}), but:\n  {}",
                expression.text(),
                outcome.because.iter().chain(&outcome.unusable).cloned().collect::<Vec<_>>().join("\n  ")
            )));
        }
    }
    Ok(())
}
