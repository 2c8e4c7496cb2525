//! `list`: suites and firewalls.

use crate::cli::Listed;
use crate::dry_run::duration;
use crate::failure::Failure;
use crate::output;
use crate::run::read_suite;
use measure::mix::Mix;
use measure::plan::{Options, Plan};
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use testbed::dut::{DRIVERS, Requirement};

/// Columns of text at least, however narrow the terminal is.
const NARROWEST: usize = 20;

#[derive(Serialize)]
struct SuiteRow {
    name: String,
    title: String,
    summary: String,
    profiles: Vec<ProfileRow>,
    /// The mixes of applications that it states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mixes: Vec<MixRow>,
}

#[derive(Serialize)]
struct MixRow {
    name: String,
    title: String,
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
    output::out(&text(&lists, output::columns()));
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
            let mix = |mix: &Arc<Mix>| MixRow { name: mix.name.clone(), title: mix.title.clone() };
            let mixes = suite.mixes.iter().map(mix).collect();
            Ok(SuiteRow { name: suite.name, title: suite.title, summary: suite.summary, profiles, mixes })
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

/// Within so many columns, if the terminal has a width.
fn text(lists: &Lists, columns: Option<u16>) -> String {
    let of_suites = lists.suites.iter().flatten().map(|suite| suite.name.len());
    let of_duts = lists.duts.iter().flatten().map(|dut| dut.name.len());
    let names = of_suites.chain(of_duts).max().unwrap_or(0);
    let room =
        columns.map_or(usize::MAX, |columns| usize::from(columns).saturating_sub(names + 4).max(NARROWEST));
    let mut out = String::new();
    let row = |out: &mut String, name: &str, text: &str| {
        for (n, line) in wrapped(text, room).iter().enumerate() {
            let _ = writeln!(out, "  {:<names$}  {line}", if n == 0 { name } else { "" });
        }
    };
    if let Some(suites) = &lists.suites {
        out += "Suites (rampart-bench run NAME)\n";
        for suite in suites {
            let profiles: Vec<String> =
                suite.profiles.iter().map(|p| format!("{} {}", p.name, duration(p.seconds))).collect();
            row(&mut out, &suite.name, &format!("{} [{}]", suite.title, profiles.join(", ")));
            for mix in &suite.mixes {
                row(&mut out, "", &format!("mix {}: {}", mix.name, mix.title));
            }
        }
    }
    if let Some(duts) = &lists.duts {
        out += if out.is_empty() { "" } else { "\n" };
        out += "Firewalls under test (--dut A,B,…)\n";
        for dut in duts {
            row(&mut out, dut.name, dut.summary);
            if let Some(missing) = &dut.missing {
                row(&mut out, "", &format!("not on this machine: {missing}"));
            }
        }
    }
    out
}

/// A text in lines of so many characters, but for longer words.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines
            .last_mut()
            .filter(|line| line.is_empty() || line.chars().count() + 1 + word.chars().count() <= room);
        match line {
            Some(line) => {
                line.push_str(if line.is_empty() { "" } else { " " });
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_wide_as_the_terminal() {
        let lists = Lists { suites: Some(suites().unwrap()), duts: Some(duts()) };
        for (columns, widest) in [(Some(60), 60), (Some(10), 45), (Some(200), 200), (None, usize::MAX)] {
            let text = text(&lists, columns);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= widest, "{columns:?}: {longest}\n{text}");
            assert_eq!(columns.is_none(), text.lines().count() == lines_of(&lists), "{columns:?}: {text}");
        }
        let whole = text(&lists, None);
        assert!(whole.contains("  kernel-forwarding  "), "a long name stands apart from what it is: {whole}");
    }

    /// Headings, rows, what is missing, and an empty line.
    fn lines_of(lists: &Lists) -> usize {
        let duts = lists.duts.iter().flatten();
        3 + lists.suites.iter().flatten().map(|suite| 1 + suite.mixes.len()).sum::<usize>()
            + duts.map(|dut| 1 + usize::from(dut.missing.is_some())).sum::<usize>()
    }
}
