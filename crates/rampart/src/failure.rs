//! How a command ends when it does not end well: always with exit status 2, and with all that is wrong.

use policy::{Problem, Problems};
use serde_json::{Value, json};
use std::fmt;

/// A reason not to end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command or a file is wrong. The text is complete.
    Wrong(String),
    /// The policy has errors.
    Problems(Box<Problems>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Wrong(text) => write!(f, "rampart: {text}"),
            Failure::Problems(problems) => {
                writeln!(f, "{problems}")?;
                let count = problems.list().len();
                write!(f, "{count} error{}", if count == 1 { "" } else { "s" })
            }
        }
    }
}

impl Failure {
    pub(crate) fn json(&self) -> Value {
        match self {
            Failure::Wrong(text) => json!({ "ok": false, "error": text }),
            Failure::Problems(problems) => {
                let errors: Vec<Value> = problems.list().iter().map(problem_json).collect();
                json!({ "ok": false, "errors": errors, "warnings": [] })
            }
        }
    }
}

/// A problem with its place.
pub(crate) fn problem_json(problem: &Problem) -> Value {
    json!({
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "help": problem.help,
    })
}
