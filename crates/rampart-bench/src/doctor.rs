//! `doctor`: shows the machine's checks.

use crate::failure::Failure;
use crate::output;
use std::fmt::Write as _;
use testbed::doctor::{Check, Severity};

/// Prints every check; ends with status 3 when the bench cannot work here at all.
pub(crate) fn doctor(json: bool) -> Result<(), Failure> {
    let checks = testbed::doctor::examine();
    if json {
        output::out_json(&checks.iter().map(Row::of).collect::<Vec<_>>())?;
    } else {
        output::out(&text(&checks));
    }
    let fatal: Vec<&str> = checks.iter().filter(|c| c.severity == Severity::Fatal).map(|c| c.what).collect();
    if fatal.is_empty() {
        return Ok(());
    }
    Err(Failure::Machine(format!("this machine cannot run the bench: {}", fatal.join(", "))))
}

/// A check as `--json` shows it.
#[derive(serde::Serialize)]
struct Row<'a> {
    what: &'a str,
    found: &'a str,
    verdict: &'a str,
    effect: &'a str,
    remedy: &'a str,
}

impl<'a> Row<'a> {
    fn of(check: &'a Check) -> Self {
        Self {
            what: check.what,
            found: &check.found,
            verdict: word(check.severity),
            effect: &check.effect,
            remedy: &check.remedy,
        }
    }
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Good => "ok",
        Severity::Limited => "limits",
        Severity::Fatal => "cannot",
    }
}

fn text(checks: &[Check]) -> String {
    let mut out = String::new();
    for check in checks {
        let word = word(check.severity);
        let _ = writeln!(out, "{word:<7} {}: {}", check.what, check.found);
        if check.severity != Severity::Good {
            let _ = writeln!(out, "        effect: {}", check.effect);
            let _ = writeln!(out, "        remedy: {}", check.remedy);
        }
    }
    out
}
