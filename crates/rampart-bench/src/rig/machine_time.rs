//! What a machine does with the time of a trial, beside the firewall's back: clocks that are set or that run fast or slow, a suspended machine,
//! a control group whose time is used up, settings that are not those of the trials before. A wall clock that moves is only said, because
//! nothing is measured by it. The rest makes a trial worthless: its seconds are no seconds, the bench stood still in them, or they are of
//! another machine.

use measure::trial::TrialOutcome;
use testbed::{machine_settings, quota};
use traffic::Clock;

/// A wall clock that moves against the monotonic one by more than this was set by somebody.
const CLOCK_STEP_NS: i64 = 5_000_000;
/// So far may the clock of all measurements be off its machine's own pace. NTP corrects by 0.05 % at most; what sets a clock that is far off,
/// `adjtimex` or chrony, changes it by up to 10 %, and all rates with it.
const PACE: f64 = 0.002;
/// A machine that was suspended stood still for longer than this.
const SUSPENDED_NS: i64 = 10_000_000;
/// The share of a trial for which a control group may be kept waiting.
const THROTTLED: f64 = 0.01;
/// Clocks are read one after the other, so that whoever is interrupted between reads them apart: the closest of so many readings counts.
const READINGS: usize = 5;

/// One moment on all clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MachineTime {
    wall: u64,
    monotonic: u64,
    raw: u64,
    boot: u64,
    throttled: u64,
}

/// What was found of a trial.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    remark: Option<String>,
    faults: Vec<String>,
}

impl MachineTime {
    pub(crate) fn now() -> Self {
        let read = |_| {
            let before = Clock::now_ns();
            let (wall, raw, boot) = (Clock::wall_ns(), Clock::raw_ns(), Clock::boot_ns());
            let after = Clock::now_ns();
            (after - before, Self { wall, monotonic: before + (after - before) / 2, raw, boot, throttled: 0 })
        };
        let closest = (0..READINGS).map(read).min_by_key(|(apart, _)| *apart);
        let throttled = quota::throttled_ns();
        closest.map_or(Self { wall: 0, monotonic: 0, raw: 0, boot: 0, throttled }, |(_, time)| Self {
            throttled,
            ..time
        })
    }

    /// Says of a trial that began here and ends now what was wrong with its time.
    pub(super) fn judge(self, outcome: &mut TrialOutcome) {
        let (remarks, faults) = self.findings();
        outcome.remarks.extend(remarks);
        outcome.faults.extend(faults);
    }

    /// The same as remarks and as what makes the trial worthless.
    pub(crate) fn findings(self) -> (Vec<String>, Vec<String>) {
        let mut found = Self::now().since(self);
        found.faults.extend(machine_settings::changed());
        (found.remark.into_iter().collect(), found.faults)
    }

    fn since(self, earlier: Self) -> Found {
        let between = |now: u64, then: u64| now as i64 - then as i64;
        let [wall, monotonic, raw, boot, throttled] = [
            between(self.wall, earlier.wall),
            between(self.monotonic, earlier.monotonic),
            between(self.raw, earlier.raw),
            between(self.boot, earlier.boot),
            between(self.throttled, earlier.throttled),
        ];
        let mut found = Found::default();
        if (wall - monotonic).abs() > CLOCK_STEP_NS {
            found.remark = Some(format!(
                "the wall clock was moved by {:.3} s during a trial; times are of the monotonic clock",
                (wall - monotonic) as f64 / 1e9
            ));
        }
        let pace = monotonic as f64 / (raw as f64).max(1.0) - 1.0;
        if pace.abs() > PACE {
            found.faults.push(format!(
                "the clock of this machine runs {:.2} % {} while it is set (adjtimex, chronyd), and rates with it: wait until it is right",
                pace.abs() * 100.0,
                if pace > 0.0 { "fast" } else { "slow" }
            ));
        }
        if boot - monotonic > SUSPENDED_NS {
            found.faults.push(format!(
                "the machine was suspended for {:.3} s during the trial",
                (boot - monotonic) as f64 / 1e9
            ));
        }
        let kept = throttled as f64 / (raw as f64).max(1.0);
        if kept > THROTTLED {
            found.faults.push(format!(
                "the control group of the bench had used up its processor time and was kept waiting for {:.3} s of {:.3} s: run it \
                 without such a quota (cpu.max, docker run --cpus)",
                throttled as f64 / 1e9,
                raw as f64 / 1e9
            ));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn time_that_is_no_time_costs_the_trial() {
        let start = MachineTime {
            wall: 50 * SECOND,
            monotonic: 7 * SECOND,
            raw: 6 * SECOND,
            boot: 9 * SECOND,
            throttled: 4,
        };
        // What each clock moves by, of ms; the remark, and the fault.
        let rows: [(&str, [u64; 5], &str, &str); 9] = [
            ("a second", [1000, 1000, 1000, 1000, 0], "", ""),
            ("as NTP corrects", [10_005, 10_005, 10_000, 10_005, 0], "", ""),
            ("a wall clock that is set", [3000, 1000, 1000, 1000, 0], "moved by 2.000 s", ""),
            ("a clock that runs slow", [900, 900, 1000, 900, 0], "", "runs 10.00 % slow"),
            ("a clock that runs fast", [1004, 1004, 1000, 1004, 0], "", "runs 0.40 % fast"),
            ("suspended", [61_000, 1000, 1000, 61_000, 0], "moved by 60.000 s", "was suspended for 60.000 s"),
            ("throttled a little", [1000, 1000, 1000, 1000, 9], "", ""),
            ("throttled", [1000, 1000, 1000, 1000, 300], "", "kept waiting for 0.300 s of 1.000 s"),
            ("no time at all", [0, 0, 0, 0, 0], "", "runs 100.00 % slow"),
        ];
        for (name, moved, remark, fault) in rows {
            let [wall, monotonic, raw, boot, throttled] = moved.map(|ms| ms * 1_000_000);
            let end = MachineTime {
                wall: start.wall + wall,
                monotonic: start.monotonic + monotonic,
                raw: start.raw + raw,
                boot: start.boot + boot,
                throttled: start.throttled + throttled,
            };
            let found = end.since(start);
            let says = |text: &str, words: &str| {
                if words.is_empty() { text.is_empty() } else { text.contains(words) }
            };
            let faults = found.faults.join("; ");
            assert!(
                says(found.remark.as_deref().unwrap_or(""), remark) && says(&faults, fault),
                "{name}: {found:?}"
            );
        }
    }

    #[test]
    fn the_clocks_of_this_machine_are_read_together() {
        let start = MachineTime::now();
        assert!(start.raw > 0 && start.boot >= start.monotonic);
    }
}
