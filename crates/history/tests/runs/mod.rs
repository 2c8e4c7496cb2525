//! Runs of a test: one that was measured, at other times and with other values.
#![allow(dead_code, reason = "each test binary that includes this module uses its own part of it")]

use measure::results::{Metric, Results};
use std::path::{Path, PathBuf};

/// A folder of results of schema 1.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/data/schema-1").join(name)
}

/// The run number `day`, in which linux forwards `times` as much as it did.
pub(crate) fn run_at(day: u32, times: f64) -> Results {
    let mut run = report::load(&data("whole")).unwrap();
    run.started = format!("2026-{:02}-{:02}T08:00:00Z", 1 + day / 28, 1 + day % 28);
    for point in run.points.iter_mut().filter(|p| p.dut == "linux" && p.metric == Metric::Throughput) {
        for value in [&mut point.value, &mut point.low, &mut point.high].into_iter().chain(&mut point.rounds)
        {
            *value *= times;
        }
    }
    run
}

/// A number around 1 that scatters by 2 %, the same for the same `n`.
pub(crate) fn noise(n: u32) -> f64 {
    let mut random = measure::stats::SplitMix::new(u64::from(n));
    1.0 + 0.04 * (random.unit() - 0.5)
}
