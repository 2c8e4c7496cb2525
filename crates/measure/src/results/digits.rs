//! The digits that results carry: as many as the measurement behind a number can have, and a few more, so that files hold
//! no noise. Whoever makes results rounds them, so that a report of a run and one of its file show the same.

use super::{CoreUse, Detail, LatencySummary, Mark, Point, Results, Run, Trial};
use crate::connections::ConnectionTimes;

/// Digits of measured values; a report shows at most the first four of them.
const VALUE: usize = 9;
/// Digits of the loads and rates of single trials, which are counts over seconds.
const RATE: usize = 7;
/// Digits of times and shares.
const TIME: usize = 6;
/// Decimal places of shares of processor time, which the kernel counts in ticks.
const TICKS: f64 = 1e4;

impl Results {
    /// Rounds points and runs.
    pub fn round(&mut self) {
        self.points.iter_mut().for_each(Point::round);
        self.runs.iter_mut().for_each(Run::round);
    }
}

impl Point {
    /// Rounds value, interval and rounds to nine digits.
    pub(crate) fn round(&mut self) {
        let values = [&mut self.value, &mut self.low, &mut self.high, &mut self.clock_error];
        values.into_iter().chain(&mut self.rounds).for_each(|value| to_digits(value, VALUE));
        self.marks.iter_mut().for_each(Mark::round);
    }
}

impl Mark {
    fn round(&mut self) {
        self.share.iter_mut().for_each(|share| to_digits(share, TIME));
    }
}

impl Run {
    /// Rounds loads and rates to seven digits, times and shares to six, processor time to a hundredth of a percent.
    pub(crate) fn round(&mut self) {
        self.policy_load_seconds.iter_mut().for_each(|seconds| to_digits(seconds, TIME));
        self.trials.iter_mut().for_each(Trial::round);
        for search in &mut self.searches {
            let loads = [&mut search.lower, &mut search.conditional_throughput];
            loads.into_iter().chain(&mut search.upper).for_each(|load| to_digits(load, RATE));
        }
    }
}

impl Trial {
    fn round(&mut self) {
        for rate in [&mut self.offered, &mut self.received] {
            to_digits(rate, RATE);
        }
        for value in [&mut self.seconds, &mut self.loss] {
            to_digits(value, TIME);
        }
        round_times(&mut self.latency_ns);
        for second in &mut self.per_second {
            to_digits(&mut second.at_seconds, TIME);
            round_times(&mut second.latency_ns);
            second.connections.iter_mut().for_each(|s| round_times(&mut s.established_ns));
        }
        if let Some(detail) = &mut self.detail {
            detail.round();
        }
    }
}

impl Detail {
    fn round(&mut self) {
        self.cpu.cores.iter_mut().for_each(CoreUse::round);
        self.cpu.firewall.iter_mut().for_each(to_ticks);
        for lane in &mut self.lanes {
            [&mut lane.latency_ns, &mut lane.pdv_ns, &mut lane.ipdv_ns].into_iter().for_each(round_times);
        }
        if let Some(connections) = &mut self.connections {
            connections.times.round();
            if let Some(replacement) = &mut connections.replacement {
                to_digits(&mut replacement.command_seconds, TIME);
                replacement.holds_after_seconds.iter_mut().for_each(|seconds| to_digits(seconds, TIME));
            }
        }
    }
}

impl ConnectionTimes {
    fn round(&mut self) {
        let Self {
            syn_sent_ns,
            established_ns,
            first_byte_ns,
            last_byte_ns,
            closed_ns,
            establishment_ns,
            teardown_ns,
        } = self;
        [syn_sent_ns, established_ns, first_byte_ns, last_byte_ns, closed_ns, establishment_ns, teardown_ns]
            .into_iter()
            .for_each(round_times);
    }
}

impl CoreUse {
    fn round(&mut self) {
        let Self { core: _, user, system, interrupt, stolen, idle } = self;
        [user, system, interrupt, stolen, idle].into_iter().for_each(to_ticks);
    }
}

fn round_times(summary: &mut Option<LatencySummary>) {
    if let Some(LatencySummary { count: _, min, mean, p50, p90, p99, p999, max, clock_error }) = summary {
        [min, mean, p50, p90, p99, p999, max, clock_error].into_iter().for_each(|ns| to_digits(ns, TIME));
    }
}

fn to_ticks(share: &mut f64) {
    *share = (*share * TICKS).round() / TICKS;
}

/// Rounds to so many significant digits; counts that are held as numbers keep all of theirs.
fn to_digits(value: &mut f64, digits: usize) {
    if value.fract() != 0.0 && value.is_finite() {
        *value = format!("{value:.*e}", digits - 1).parse().expect("a number that was just written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_that_nobody_measured_are_left_out_and_counts_are_kept() {
        let rows = [
            (475_710.442_244_283, 7, 475_710.4),
            (0.150_042_954_000_000_95, 6, 0.150_043),
            (12_345_678_901.0, 6, 12_345_678_901.0),
            (0.000_012_345_678, 4, 0.000_012_35),
            (-1.999_999_9, 3, -2.0),
            (0.0, 6, 0.0),
        ];
        for (mut value, digits, expected) in rows {
            to_digits(&mut value, digits);
            assert_eq!(value, expected);
        }
        let mut infinite = f64::INFINITY;
        to_digits(&mut infinite, 6);
        assert_eq!(infinite, f64::INFINITY);
    }
}
