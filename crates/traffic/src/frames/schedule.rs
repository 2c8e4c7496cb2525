//! From an offered load to the schedule that the BPF program follows, and back to how many frames it asked for.

use super::skeleton::{MAX_LANES, MAX_PHASES, types};
use crate::TrafficError;
use crate::harness::{check_seconds, to_schedule};
use measure::trial::{Load, Phase};

const NO_FRAME_LEFT: u64 = u64::MAX;
/// The slowest offered load; slower, one frame a lane and core would take longer than a trial.
pub const MIN_FRAMES_PER_SECOND: f64 = 100.0;

/// A trial's schedule for one core.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) phases: Vec<types::phase>,
    /// When each lane's first frame is due.
    pub(crate) first_due: [u64; MAX_LANES],
    pub(crate) lanes: usize,
    /// Frames a datagram: the schedule is of datagrams.
    fragments: u64,
}

/// The schedule of core number `core` of `cores`, which share the load evenly and take turns.
///
/// # Errors
/// No phase, too many, too long, or a rate that no schedule can hold.
pub(crate) fn for_core(
    phases: &[Phase],
    lane_shares: &[f64],
    core: usize,
    cores: usize,
    fragments: u32,
) -> Result<Schedule, TrafficError> {
    if phases.is_empty() || phases.len() > MAX_PHASES {
        return Err(TrafficError::Impossible(format!(
            "{} phases: a trial has 1 to {MAX_PHASES}",
            phases.len()
        )));
    }
    check_seconds("trial", phases.iter().map(|p| p.seconds).sum())?;
    let mut end_seconds = 0.0;
    let mut made = Vec::with_capacity(phases.len());
    for phase in phases {
        end_seconds += phase.seconds;
        let phase = phase_of_datagrams(phase, fragments)?;
        made.push(phase_for_core(&phase, to_schedule(end_seconds), lane_shares, core, cores));
    }
    let mut first_due = [NO_FRAME_LEFT; MAX_LANES];
    for (lane, due) in first_due.iter_mut().enumerate().take(lane_shares.len()) {
        // Cores and lanes take turns instead of sending at the same instant.
        let turn = (core as f64 + lane as f64 / lane_shares.len() as f64) / cores as f64;
        *due = (made[0].interval[lane] as f64 * turn) as u64;
    }
    Ok(Schedule { phases: made, first_due, lanes: lane_shares.len(), fragments: fragments.into() })
}

/// A load of frames as one of datagrams, each of which is `fragments` frames.
fn phase_of_datagrams(phase: &Phase, fragments: u32) -> Result<Phase, TrafficError> {
    let load = match phase.load {
        Load::PerSecond(rate) if !(MIN_FRAMES_PER_SECOND..=1e9).contains(&rate) => {
            return Err(TrafficError::Impossible(format!(
                "an offered load of {rate} frames/s: the generator paces {MIN_FRAMES_PER_SECOND} to 10^9"
            )));
        }
        Load::PerSecond(rate) => Load::PerSecond(rate / f64::from(fragments)),
        Load::Burst(frames) => Load::Burst(frames.div_ceil(fragments.into())),
        Load::Maximum => Load::Maximum,
    };
    Ok(Phase { load, ..*phase })
}

fn phase_for_core(phase: &Phase, end: u64, lane_shares: &[f64], core: usize, cores: usize) -> types::phase {
    let mut made = types::phase { end, budget: [NO_FRAME_LEFT; MAX_LANES], ..Default::default() };
    made.paced = u32::from(matches!(phase.load, Load::PerSecond(_)));
    for (lane, share) in lane_shares.iter().enumerate() {
        made.interval[lane] = match phase.load {
            Load::PerSecond(rate) => to_schedule(cores as f64 / (rate * share)),
            // Unpaced, the schedule only takes turns between the lanes in proportion to their shares.
            _ => to_schedule(1e-9 / share),
        };
        if let Load::Burst(frames) = phase.load {
            made.budget[lane] = part_of(frames, lane_shares, lane, core, cores);
        }
    }
    made
}

/// One core's and lane's part of a burst, such that the parts add up to the whole.
fn part_of(frames: u64, shares: &[f64], lane: usize, core: usize, cores: usize) -> u64 {
    let upto = |lane: usize| (frames as f64 * shares[..lane].iter().sum::<f64>()).round() as u64;
    let of_lane = if lane + 1 == shares.len() { frames } else { upto(lane + 1) } - upto(lane);
    let (cores, core) = (cores as u64, core as u64);
    of_lane / cores + u64::from(core < of_lane % cores)
}

/// The highest rate of any phase, shared evenly by `cores`.
pub(super) fn fastest_per_core(phases: &[Phase], cores: usize) -> f64 {
    let rate = |p: &Phase| match p.load {
        Load::PerSecond(rate) => rate / cores as f64,
        _ => f64::INFINITY,
    };
    phases.iter().map(rate).fold(0.0, f64::max)
}

impl Schedule {
    /// Keeps the lanes that begin at this host; nothing is sent on the others.
    pub(crate) fn keep(&mut self, begins_here: &[bool]) {
        for phase in &mut self.phases {
            for (budget, _) in phase.budget.iter_mut().zip(begins_here).filter(|(_, here)| !**here) {
                *budget = 0;
            }
        }
    }

    /// Frames that the schedule asks of this core on `lane`, given those that an unpaced phase sent.
    pub(crate) fn offered(&self, lane: usize, sent: u64) -> u64 {
        let mut start = 0;
        let mut paced_frames = 0;
        for (number, phase) in self.phases.iter().enumerate() {
            let first = if number == 0 { self.first_due[lane] } else { start };
            if phase.paced == 0 {
                // What an unpaced phase offers is what it sent; only a burst that ran out of time falls short.
                return match phase.budget[lane] {
                    NO_FRAME_LEFT => sent,
                    datagrams => datagrams * self.fragments,
                };
            }
            paced_frames += phase.end.saturating_sub(first).div_ceil(phase.interval[lane].max(1));
            start = phase.end;
        }
        paced_frames * self.fragments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(load: Load, seconds: f64) -> Vec<Phase> {
        vec![Phase { load, seconds }]
    }

    #[test]
    fn offered_frames_are_rate_times_time() {
        for (rate, seconds, cores, shares) in [
            (100.0, 1.0, 1, vec![1.0]),
            (100_000.0, 0.5, 1, vec![1.0]),
            (1_000_000.0, 1.0, 2, vec![0.5, 0.5]),
            (14_880_952.0, 60.0, 2, vec![0.7, 0.3]),
            (333_333.0, 3.0, 3, vec![0.25, 0.25, 0.5]),
        ] {
            let offered: u64 = (0..cores)
                .map(|core| {
                    let s =
                        for_core(&constant(Load::PerSecond(rate), seconds), &shares, core, cores, 1).unwrap();
                    (0..shares.len()).map(|lane| s.offered(lane, 0)).sum::<u64>()
                })
                .sum();
            let off = (offered as f64 / (rate * seconds) - 1.0).abs();
            assert!(off < 1e-5 || offered.abs_diff((rate * seconds) as u64) <= 6, "{rate}: {offered}");
        }
    }

    #[test]
    fn a_burst_is_split_without_rest() {
        for frames in [1, 7, 1000, 999_983] {
            let shares = [0.5, 0.3, 0.2];
            let sum: u64 = (0..3)
                .flat_map(|core| {
                    let s = for_core(&constant(Load::Burst(frames), 1.0), &shares, core, 3, 1).unwrap();
                    (0..3).map(move |lane| s.offered(lane, 0))
                })
                .sum();
            assert_eq!(sum, frames);
        }
    }

    #[test]
    fn impossible_loads_are_refused() {
        for (load, seconds, said) in [
            (Load::PerSecond(99.0), 1.0, "an offered load of 99 frames/s: the generator paces 100 to 10^9"),
            (
                Load::PerSecond(f64::NAN),
                1.0,
                "an offered load of NaN frames/s: the generator paces 100 to 10^9",
            ),
            (Load::Maximum, 0.0, "a trial of 0 s: it may last up to 14400 s"),
            (Load::Maximum, 20_000.0, "a trial of 20000 s: it may last up to 14400 s"),
        ] {
            assert_eq!(for_core(&constant(load, seconds), &[1.0], 0, 1, 1).unwrap_err().to_string(), said);
        }
    }
}
