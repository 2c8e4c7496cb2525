//! Whether what a procedure asks for can be done at all with the addresses, ports and seconds that it has. What cannot be
//! is refused before the run, with the arithmetic.

use super::setup_problem::SetupProblem;
use crate::procedure::{ProcedureSpec, ReplacementSpec, SteadySpec};
use crate::shape::Setup;

/// Seconds of load that must stand before a flood and after it, to compare with.
const SECONDS_BESIDE_FLOOD: f64 = 1.0;

pub(super) fn check(spec: &ProcedureSpec, setup: &Setup) -> Result<(), SetupProblem> {
    match spec {
        ProcedureSpec::Steady(spec) => {
            check_flood(spec)?;
            let ramps = (spec.ramp_up_seconds + spec.ramp_down_seconds) / 2.0;
            check_pairs(setup, spec.connection_rate * spec.legal_share, spec.sustain_seconds + ramps)
        }
        ProcedureSpec::Replacement(spec) => {
            check_replacement(spec)?;
            check_pairs(setup, spec.connection_rate * spec.legal_share, spec.trial_seconds)
        }
        ProcedureSpec::SessionRate(spec) => check_held(setup, spec.connections),
        ProcedureSpec::Resets(spec) => check_held(setup, spec.connections),
        ProcedureSpec::Bulk(spec) if spec.trial_seconds < 1.0 || spec.trial_seconds.fract() != 0.0 => {
            Err(SetupProblem::PartOfSecond(spec.trial_seconds))
        }
        _ => Ok(()),
    }
}

/// `seconds` is how long the rate would have to last to make as many connections as the trial makes.
fn check_pairs(setup: &Setup, rate: f64, seconds: f64) -> Result<(), SetupProblem> {
    let Some(shape) = setup.connections() else { return Ok(()) };
    let total = rate * seconds;
    let (flows, hold, reuse) = (setup.traffic.flows, shape.hold_seconds, shape.reuse_seconds);
    let taken = hold + reuse;
    let needed = (rate * taken).min(total).floor() as u64;
    if needed > u64::from(flows) {
        return Err(SetupProblem::PairsRunOut { rate, taken, hold, reuse, needed, flows });
    }
    Ok(())
}

fn check_held(setup: &Setup, connections: u64) -> Result<(), SetupProblem> {
    let flows = setup.traffic.flows;
    if connections > u64::from(flows) {
        return Err(SetupProblem::HeldBeyondPairs { connections, flows });
    }
    Ok(())
}

fn check_flood(spec: &SteadySpec) -> Result<(), SetupProblem> {
    let Some(flood) = &spec.flood else { return Ok(()) };
    let (after, seconds, sustain) = (flood.after_seconds, flood.seconds, spec.sustain_seconds);
    let beside = SECONDS_BESIDE_FLOOD;
    if after < beside || seconds < beside || after + seconds + beside > sustain {
        return Err(SetupProblem::AttackOutside { after, seconds, sustain });
    }
    Ok(())
}

fn check_replacement(spec: &ReplacementSpec) -> Result<(), SetupProblem> {
    let (after, trial) = (spec.replace_after_seconds, spec.trial_seconds);
    if after >= trial {
        return Err(SetupProblem::ReplacedTooLate { after, trial });
    }
    Ok(())
}
