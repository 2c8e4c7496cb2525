//! `run --dry-run`: what a run would measure and how long it would take, without touching the machine.

use crate::failure::Failure;
use crate::output;
use crate::run::title;
use measure::plan::Plan;
use measure::shape::Setup;
use serde::Serialize;
use std::fmt::Write as _;
use testbed::dut;

#[derive(Serialize)]
struct DryRun<'a> {
    suite: &'a str,
    profile: &'a str,
    seed: u64,
    /// Roughly, all cells together.
    seconds: f64,
    cells: Vec<PlannedRow<'a>>,
}

#[derive(Serialize)]
struct PlannedRow<'a> {
    cell: String,
    firewalls: &'a [String],
    rounds: u32,
    /// Roughly.
    seconds: f64,
    /// Those of the firewalls that cannot do what the cell asks, and so will have no value there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsupported: Vec<Unsupported<'a>>,
}

#[derive(Serialize)]
struct Unsupported<'a> {
    firewall: &'a str,
    /// What it cannot do.
    why: String,
}

/// Prints the plan.
pub(crate) fn show(plan: &Plan, json: bool) -> Result<(), Failure> {
    let cells = plan.cells.iter().map(|planned| PlannedRow {
        cell: title(planned).trim_end().to_owned(),
        firewalls: &planned.duts,
        rounds: planned.cell.rounds,
        seconds: planned.typical_seconds(),
        unsupported: planned.duts.iter().filter_map(|dut| unsupported(dut, &planned.setup)).collect(),
    });
    let plan = DryRun {
        suite: &plan.suite,
        profile: plan.profile.name(),
        seed: plan.seed,
        seconds: plan.typical_seconds(),
        cells: cells.collect(),
    };
    if json {
        return output::out_json(&plan);
    }
    output::out(&text(&plan));
    Ok(())
}

/// What a firewall cannot do of what a cell asks, if anything. One that is not known here is left to the run.
fn unsupported<'a>(firewall: &'a str, setup: &Setup) -> Option<Unsupported<'a>> {
    let driver = dut::driver(firewall).ok()?;
    let enforced = driver.capabilities().as_enforced(&setup.policy);
    let lacks = || {
        driver.capabilities().lacks(&enforced, setup.zones).filter(|_| !driver.capabilities().only_forwards())
    };
    let why = driver.cannot_handle(setup).or_else(lacks)?;
    Some(Unsupported { firewall, why })
}

fn text(plan: &DryRun<'_>) -> String {
    let mut out = format!(
        "{}, profile {}, seed {}: {} cell{}, about {}; nothing was measured\n",
        plan.suite,
        plan.profile,
        plan.seed,
        plan.cells.len(),
        if plan.cells.len() == 1 { "" } else { "s" },
        duration(plan.seconds)
    );
    let widest = plan.cells.iter().map(|row| row.cell.len()).max().unwrap_or(0);
    for row in &plan.cells {
        let _ = writeln!(
            out,
            "  {:widest$}  {:>7}  {} round{} of {}",
            row.cell,
            duration(row.seconds),
            row.rounds,
            if row.rounds == 1 { "" } else { "s" },
            row.firewalls.join(", ")
        );
        for Unsupported { firewall, why } in &row.unsupported {
            let _ = writeln!(out, "    {firewall} cannot do {why}: it will have no value here");
        }
    }
    out
}

/// A duration as people say it, for example `40 s`, `3 min`, `1 h 5 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        _ if minutes < 90 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        for (seconds, expected) in [
            (0.4, "0 s"),
            (40.0, "40 s"),
            (170.0, "3 min"),
            (5350.0, "89 min"),
            (5400.0, "1 h 30 min"),
            (7260.0, "2 h 1 min"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
