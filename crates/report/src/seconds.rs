//! The seconds of a trial as rates: of which trial, which stretch was steady, and what a flood changed. Pure.

use measure::results::{Reading, Trial};
use measure::stats;
use measure::trial::SecondSample;

/// The rate of a shorter part is that of a handful of frames at the end of a trial.
const SHORTEST_PART_SECONDS: f64 = 0.5;
/// A second belongs to the steady stretch when it was asked for at least this share of the trial's full rate.
const STEADY_SHARE: f64 = 0.98;

/// One second of a trial with connections, as rates. Times in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Second {
    /// Its end, in seconds from the start of the trial.
    pub(crate) at: f64,
    /// How long it was.
    pub(crate) length: f64,
    /// Connections attempted a second.
    pub(crate) attempted: f64,
    /// Connections completed a second.
    pub(crate) completed: f64,
    /// Connections failed a second.
    pub(crate) failed: f64,
    /// Connections open at its end.
    pub(crate) open: f64,
    /// Frames received a second.
    pub(crate) frames: f64,
    /// Bits received a second.
    pub(crate) bits: f64,
    /// Mean time from the intended start to the SYN-ACK.
    pub(crate) mean_ns: Option<f64>,
    /// Median of it.
    pub(crate) p50_ns: Option<f64>,
    /// 99th percentile of it.
    pub(crate) p99_ns: Option<f64>,
    /// Largest of it.
    pub(crate) max_ns: Option<f64>,
    /// Attack frames sent a second.
    pub(crate) attack_sent: f64,
    /// Attack frames that reached the server's port, a second.
    pub(crate) attack_forwarded: f64,
}

/// Samples long enough for a rate, each with its length.
pub(crate) fn lasting(samples: &[SecondSample]) -> impl Iterator<Item = (f64, &SecondSample)> {
    let starts = std::iter::once(0.0).chain(samples.iter().map(|s| s.at_seconds));
    samples
        .iter()
        .zip(starts)
        .map(|(s, start)| (s.at_seconds - start, s))
        .filter(|(length, _)| *length >= SHORTEST_PART_SECONDS)
}

/// The seconds of a trial with connections; none of a trial of frames.
pub(crate) fn of_trial(trial: &Trial) -> Vec<Second> {
    lasting(&trial.per_second).filter_map(|(length, sample)| of_sample(length, sample)).collect()
}

fn of_sample(length: f64, sample: &SecondSample) -> Option<Second> {
    let s = sample.connections.as_ref()?;
    let rate = |count: u64| count as f64 / length;
    Some(Second {
        at: sample.at_seconds,
        length,
        attempted: rate(sample.sent),
        completed: rate(sample.received),
        failed: rate(s.failed.values().sum()),
        open: s.open as f64,
        frames: rate(s.frames),
        bits: rate(s.bits),
        mean_ns: s.established_ns.map(|t| t.mean),
        p50_ns: s.established_ns.map(|t| t.p50),
        p99_ns: s.established_ns.map(|t| t.p99),
        max_ns: s.established_ns.map(|t| t.max),
        attack_sent: rate(s.attack_sent),
        attack_forwarded: rate(s.attack_forwarded),
    })
}

/// The seconds of a point's typical trial; empty when there are no two of them.
pub(crate) fn of_point(point: &Reading<'_>) -> Vec<Second> {
    let seconds = point.typical().map(of_trial).unwrap_or_default();
    if seconds.len() > 1 { seconds } else { Vec::new() }
}

/// Neighbours joined so that there are at most `most`: rates are means, the median is the median of the medians, the
/// 99th percentile and the largest are the largest, because percentiles cannot be averaged.
pub(crate) fn joined(seconds: &[Second], most: usize) -> Vec<Second> {
    seconds.chunks(seconds.len().div_ceil(most.max(1)).max(1)).map(join).collect()
}

fn join(part: &[Second]) -> Second {
    let [.., last] = part else { return Second::default() };
    let mean = |of: fn(&Second) -> f64| mean_of(part, of);
    let times = |of: fn(&Second) -> Option<f64>| part.iter().filter_map(of).collect::<Vec<f64>>();
    let largest = |of| times(of).into_iter().max_by(f64::total_cmp);
    Second {
        at: last.at,
        length: part.iter().map(|s| s.length).sum(),
        attempted: mean(|s| s.attempted),
        completed: mean(|s| s.completed),
        failed: mean(|s| s.failed),
        open: last.open,
        frames: mean(|s| s.frames),
        bits: mean(|s| s.bits),
        mean_ns: weighted(part),
        p50_ns: stats::median(&times(|s| s.p50_ns)),
        p99_ns: largest(|s| s.p99_ns),
        max_ns: largest(|s| s.max_ns),
        attack_sent: mean(|s| s.attack_sent),
        attack_forwarded: mean(|s| s.attack_forwarded),
    }
}

fn mean_of(part: &[Second], of: fn(&Second) -> f64) -> f64 {
    let length: f64 = part.iter().map(|s| s.length).sum();
    if length > 0.0 { part.iter().map(|s| of(s) * s.length).sum::<f64>() / length } else { 0.0 }
}

/// Mean time over several seconds, each with the connections that it completed.
fn weighted(part: &[Second]) -> Option<f64> {
    let timed: Vec<(f64, f64)> =
        part.iter().filter_map(|s| Some((s.mean_ns?, (s.completed * s.length).max(1.0)))).collect();
    let weights: f64 = timed.iter().map(|(_, w)| w).sum();
    (weights > 0.0).then(|| timed.iter().map(|(ns, w)| ns * w).sum::<f64>() / weights)
}

/// The stretch between ramps: from the first to the last second that was asked for the full rate.
pub(crate) fn steady(seconds: &[Second]) -> &[Second] {
    let most = seconds.iter().map(|s| s.attempted).fold(0.0, f64::max);
    let full = |s: &Second| s.attempted >= most * STEADY_SHARE;
    match (seconds.iter().position(full), seconds.iter().rposition(full)) {
        (Some(first), Some(last)) if most > 0.0 => &seconds[first..=last],
        _ => &[],
    }
}

/// When attack frames were sent, in seconds from the start of the trial; none without a flood.
pub(crate) fn attack(seconds: &[Second]) -> Option<(f64, f64)> {
    let attacked = |s: &Second| s.attack_sent > 0.0;
    let first = seconds.iter().find(|s| attacked(s))?;
    let last = seconds.iter().rfind(|s| attacked(s))?;
    Some((first.at - first.length, last.at))
}

/// What a stretch of a trial was like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stretch {
    /// The seconds of the stretch as one.
    pub(crate) mean: Second,
    /// The largest deviation of a second's completed connections from their mean, as a share of it.
    pub(crate) widest: f64,
    /// Standard deviation of the seconds' mean times, as a share of their mean; none without times.
    pub(crate) time_deviation: Option<f64>,
}

/// A stretch's means and how much its seconds differ; none when it has no second.
pub(crate) fn stretch(part: &[Second]) -> Option<Stretch> {
    if part.is_empty() {
        return None;
    }
    let mean = join(part);
    let off = part.iter().map(|s| (s.completed - mean.completed).abs()).fold(0.0, f64::max);
    let times: Vec<f64> = part.iter().filter_map(|s| s.mean_ns).collect();
    let widest = if mean.completed > 0.0 { off / mean.completed } else { 0.0 };
    Some(Stretch { mean, widest, time_deviation: deviation(&times) })
}

fn deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean > 0.0).then(|| (squares / (values.len() - 1) as f64).sqrt() / mean)
}

/// A flood in one trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flood {
    /// Steady seconds before it, those with attack frames, and those after: their means.
    pub(crate) stretches: [Option<Stretch>; 3],
}

impl Flood {
    /// Share of the rate before that was lost while the flood went on.
    pub(crate) fn drop(&self) -> Option<f64> {
        let [before, during, _] = self.stretches;
        let (before, during) = (before?.mean.completed, during?.mean.completed);
        (before > 0.0).then(|| 1.0 - during / before)
    }
}

/// What a flood did; none without one.
pub(crate) fn flood(seconds: &[Second]) -> Option<Flood> {
    let (from, to) = attack(seconds)?;
    let steady = steady(seconds);
    let part = |keep: &dyn Fn(&Second) -> bool| steady.iter().copied().filter(keep).collect::<Vec<_>>();
    let before = part(&|s| s.at <= from);
    let during = part(&|s| s.at > from && s.at <= to);
    let after = part(&|s| s.at > to);
    Some(Flood { stretches: [stretch(&before), stretch(&during), stretch(&after)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: f64, attempted: f64, completed: f64, attack_sent: f64) -> Second {
        Second {
            at,
            length: 1.0,
            attempted,
            completed,
            attack_sent,
            mean_ns: Some(100.0),
            ..Second::default()
        }
    }

    /// A ramp, a flood in seconds 4 and 5 that halves the rate, one second of recovery, and a ramp down.
    fn trial() -> Vec<Second> {
        let rows = [
            (1.0, 500.0, 500.0, 0.0),
            (2.0, 1000.0, 1000.0, 0.0),
            (3.0, 1000.0, 1000.0, 0.0),
            (4.0, 1000.0, 600.0, 7e4),
            (5.0, 1000.0, 400.0, 7e4),
            (6.0, 1000.0, 800.0, 0.0),
            (7.0, 1000.0, 1000.0, 0.0),
            (8.0, 500.0, 500.0, 0.0),
        ];
        rows.map(|(at, attempted, completed, attack)| second(at, attempted, completed, attack)).into()
    }

    #[test]
    fn a_flood_is_compared_with_the_steady_seconds_around_it() {
        let seconds = trial();
        assert_eq!(attack(&seconds), Some((3.0, 5.0)));
        assert_eq!(steady(&seconds).len(), 6, "ramps are left out");
        let flood = flood(&seconds).unwrap();
        let rates = flood.stretches.map(|s| s.unwrap().mean.completed);
        assert_eq!(rates, [1000.0, 500.0, 900.0]);
        assert_eq!(flood.drop(), Some(0.5));
        assert_eq!(flood.stretches[1].unwrap().widest, 0.2);
        assert_eq!(super::flood(&seconds[..3]), None, "no flood, no table");
    }

    #[test]
    fn seconds_are_joined_without_losing_the_worst() {
        let mut seconds = trial();
        for (index, second) in seconds.iter_mut().enumerate() {
            (second.p50_ns, second.p99_ns) = (Some(10.0 + index as f64), Some(20.0 + index as f64));
        }
        let joined = joined(&seconds, 3);
        assert_eq!(joined.len(), 3);
        assert_eq!((joined[0].at, joined[0].length), (3.0, 3.0));
        assert_eq!(joined[0].completed, 2500.0 / 3.0);
        assert_eq!((joined[0].p50_ns, joined[0].p99_ns), (Some(11.0), Some(22.0)));
        assert_eq!(super::joined(&seconds, 100), seconds, "few enough stay as they are");
        assert!(super::joined(&[], 3).is_empty());
    }

    #[test]
    fn rates_are_of_the_time_that_they_were_counted_in() {
        let sample = |at_seconds: f64, received: u64| SecondSample {
            at_seconds,
            sent: 0,
            received,
            latency_ns: None,
            connections: None,
        };
        let samples = [sample(1.0, 100), sample(3.0, 100), sample(3.5, 100), sample(3.6, 100)];
        let rates: Vec<f64> = lasting(&samples).map(|(length, s)| s.received as f64 / length).collect();
        assert_eq!(rates, [100.0, 50.0, 200.0]);
    }
}
