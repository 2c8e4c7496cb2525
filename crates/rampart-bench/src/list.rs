//! `list`: suites and firewalls.

use crate::cli::Listed;
use crate::dry_run::duration;
use crate::failure::Failure;
use crate::output;
use crate::run::read_suite;
use measure::plan::{Options, Plan};
use serde::Serialize;
use std::fmt::Write as _;
use testbed::dut::{DRIVERS, Requirement};

#[derive(Serialize)]
struct SuiteRow {
    name: String,
    title: String,
    summary: String,
    profiles: Vec<ProfileRow>,
}

#[derive(Serialize)]
struct ProfileRow {
    name: &'static str,
    /// Roughly how long a run of it takes, with the suite's own firewalls.
    seconds: f64,
}

#[derive(Serialize)]
struct DutRow {
    name: &'static str,
    summary: &'static str,
    /// Whether this machine has what it needs.
    available: bool,
    /// What is missing, where something is.
    missing: Option<String>,
}

#[derive(Serialize)]
struct Lists {
    #[serde(skip_serializing_if = "Option::is_none")]
    suites: Option<Vec<SuiteRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duts: Option<Vec<DutRow>>,
}

/// Prints the lists.
pub(crate) fn list(what: Option<Listed>, json: bool) -> Result<(), Failure> {
    let lists = Lists {
        suites: (what != Some(Listed::Duts)).then(suites).transpose()?,
        duts: (what != Some(Listed::Suites)).then(duts),
    };
    if json {
        return output::out_json(&lists);
    }
    output::out(&text(&lists));
    Ok(())
}

fn suites() -> Result<Vec<SuiteRow>, Failure> {
    measure::suite::builtin_names()
        .map(|name| {
            let suite = read_suite(name)?;
            let profiles = suite.profiles.iter().map(|&profile| {
                let options = Options { profile: Some(profile), ..Options::default() };
                let plan = Plan::new(&suite, &options)?;
                Ok(ProfileRow { name: profile.name(), seconds: plan.typical_seconds() })
            });
            let profiles = profiles.collect::<Result<_, Failure>>()?;
            Ok(SuiteRow { name: suite.name, title: suite.title, summary: suite.summary, profiles })
        })
        .collect()
}

fn duts() -> Vec<DutRow> {
    DRIVERS
        .iter()
        .map(|driver| {
            let missing = driver
                .requirements()
                .iter()
                .map(Requirement::check)
                .find_map(Result::err)
                .map(|e| e.to_string());
            DutRow { name: driver.name(), summary: driver.summary(), available: missing.is_none(), missing }
        })
        .collect()
}

fn text(lists: &Lists) -> String {
    let mut out = String::new();
    if let Some(suites) = &lists.suites {
        out += "Suites (rampart-bench run NAME)\n";
        for suite in suites {
            let profiles: Vec<String> =
                suite.profiles.iter().map(|p| format!("{} {}", p.name, duration(p.seconds))).collect();
            let _ = writeln!(out, "  {:<14} {} [{}]", suite.name, suite.title, profiles.join(", "));
        }
    }
    if let Some(duts) = &lists.duts {
        out += if out.is_empty() { "" } else { "\n" };
        out += "Firewalls under test (--dut A,B,…)\n";
        for dut in duts {
            let _ = writeln!(out, "  {:<14} {}", dut.name, dut.summary);
            if let Some(missing) = &dut.missing {
                let _ = writeln!(out, "  {:<14} not on this machine: {missing}", "");
            }
        }
    }
    out
}
