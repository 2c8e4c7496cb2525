//! From phases to the steps of constant rate that the BPF program follows, and back to how many starts they ask for.

use super::plan::{Opening, TcpPhase, TcpPlan};
use super::skeleton::{MAX_STEPS, types};
use crate::TrafficError;
use crate::harness::{check_seconds, to_schedule};

/// A phase whose rate changes is cut into so many steps, the rate of each that of its middle.
const STEPS_A_RAMP: usize = 32;
const MAX_RATE: f64 = 1e8;

/// One core's steps.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<types::tcp_step>,
    /// When its first start is due.
    pub(crate) first_due: u64,
}

/// The steps of core number `core` of the plan's.
///
/// # Errors
/// No phase, too many, too long, or a rate that no schedule can hold.
pub(crate) fn for_core(plan: &TcpPlan, core: usize) -> Result<Steps, TrafficError> {
    let phases = plan.phases();
    check_seconds("run", plan.seconds())?;
    let cores = plan.cores.len() as f64;
    let mut steps = Vec::new();
    let mut start = 0.0;
    for phase in &phases {
        add_phase(&mut steps, phase, start, cores)?;
        start += phase.seconds;
    }
    if steps.len() > MAX_STEPS {
        return Err(TrafficError::Impossible(format!(
            "{} phases make {} steps of constant rate: a run has up to {MAX_STEPS}, {STEPS_A_RAMP} a ramp",
            phases.len(),
            steps.len()
        )));
    }
    if matches!(plan.opening, Opening::Fastest(_)) {
        steps[0].interval = 1;
    }
    let first = steps.first().map_or(0, |s| s.interval);
    Ok(Steps { first_due: (first as f64 * core as f64 / cores) as u64, steps })
}

fn add_phase(
    steps: &mut Vec<types::tcp_step>,
    phase: &TcpPhase,
    start: f64,
    cores: f64,
) -> Result<(), TrafficError> {
    let possible = |rate: f64| (0.0..=MAX_RATE).contains(&rate);
    if !possible(phase.from) || !possible(phase.to) || phase.seconds.is_nan() || phase.seconds <= 0.0 {
        return Err(TrafficError::Impossible(format!(
            "a phase of {} s from {} to {} connections/s: the client opens 0 to 10^8 a second",
            phase.seconds, phase.from, phase.to
        )));
    }
    let count = if phase.from == phase.to { 1 } else { STEPS_A_RAMP };
    for number in 0..count {
        let middle = (number as f64 + 0.5) / count as f64;
        let rate = phase.from + (phase.to - phase.from) * middle;
        let end = to_schedule(start + phase.seconds * (number + 1) as f64 / count as f64);
        let interval = if rate > 0.0 { to_schedule(cores / rate) } else { 0 };
        steps.push(types::tcp_step { end, interval });
    }
    Ok(())
}

impl Steps {
    /// Starts that the steps ask of this core.
    pub(crate) fn offered(&self) -> u64 {
        let mut start = self.first_due;
        let mut starts = 0;
        for step in &self.steps {
            if step.interval > 0 {
                starts += step.end.saturating_sub(start).div_ceil(step.interval);
            }
            start = step.end;
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(phases: Vec<TcpPhase>, cores: usize) -> TcpPlan {
        TcpPlan { cores: (0..cores).collect(), ..TcpPlan::new(Opening::Scheduled(phases)) }
    }

    #[test]
    fn offered_starts_are_the_area_under_the_rate() {
        for (phases, expected) in [
            (vec![TcpPhase::constant(10_000.0, 60.0)], 600_000.0),
            (vec![TcpPhase { seconds: 2.0, from: 0.0, to: 10_000.0 }], 10_000.0),
            (
                vec![
                    TcpPhase { seconds: 1.0, from: 0.0, to: 1000.0 },
                    TcpPhase::constant(1000.0, 3.0),
                    TcpPhase { seconds: 1.0, from: 1000.0, to: 0.0 },
                    TcpPhase::constant(0.0, 1.0),
                ],
                4000.0,
            ),
        ] {
            for cores in [1, 2, 3] {
                let plan = plan(phases.clone(), cores);
                let offered: u64 = (0..cores).map(|core| for_core(&plan, core).unwrap().offered()).sum();
                let steps = for_core(&plan, 0).unwrap().steps.len() * cores;
                assert!((offered as f64 - expected).abs() <= steps as f64, "{offered}, expected {expected}");
            }
        }
    }

    #[test]
    fn counted_starts_are_as_many() {
        for (starts, rate) in [
            (1, 5000.0),
            (1000, 5000.0),
            (5000, 5000.0),
            (6144, 7.0),
            (140_000, 25_000.0),
            (1_000_000, 66_485.0),
        ] {
            for cores in [1, 2, 3] {
                let plan = plan(vec![TcpPhase::counted(starts, rate)], cores);
                let offered: u64 = (0..cores).map(|core| for_core(&plan, core).unwrap().offered()).sum();
                assert_eq!(offered, starts, "{rate} a second on {cores} cores");
            }
        }
    }

    #[test]
    fn impossible_phases_are_refused() {
        for (phases, said) in [
            (vec![], "a run of 0 s: it may last up to 14400 s"),
            (vec![TcpPhase::constant(10.0, 20_000.0)], "a run of 20000 s: it may last up to 14400 s"),
            (
                vec![TcpPhase::constant(-1.0, 1.0)],
                "a phase of 1 s from -1 to -1 connections/s: the client opens 0 to 10^8 a second",
            ),
            (
                vec![TcpPhase { seconds: 1.0, from: 0.0, to: 1.0 }; 9],
                "9 phases make 288 steps of constant rate: a run has up to 256, 32 a ramp",
            ),
        ] {
            assert_eq!(for_core(&plan(phases, 1), 0).unwrap_err().to_string(), said);
        }
    }
}
