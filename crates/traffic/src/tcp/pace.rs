//! How fast the engine is, against the stateless loop in the same run: what a calibration shows.
//!
//! Both are counted between two looks at their counters, while they run at full speed. Beside the clock on the wall stands
//! the processor time of this process, which on a shared machine does not tell of others.

use super::engine::{Ends, Engine, Started};
use super::plan::{Opening, TcpPlan};
use super::reading::{self, TcpReading};
use crate::frames::Port;
use crate::{Clock, TrafficError};
use std::time::Duration;

/// The first instants go into filling the page pool.
const WARM_UP: Duration = Duration::from_millis(20);
/// What the schedule is longer than the measurement.
const MARGIN_SECONDS: f64 = 0.2;

/// Connections a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// By the clock on the wall.
    pub a_second: f64,
    /// By the time that cores worked for this process.
    pub a_busy_second: f64,
}

/// Both in turns on the same ports.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The stateless loop: connections answered.
    pub bare: Pace,
    /// The client and the server: connections closed as the plan says.
    pub engine: Pace,
    /// What the client and the server counted in all.
    pub reading: TcpReading,
}

impl Comparison {
    /// The engine's share of the stateless loop, by the time that cores worked for each.
    pub fn ratio(&self) -> f64 {
        self.engine.a_busy_second / self.bare.a_busy_second
    }
}

/// Counts for `seconds` what `count` reads.
pub(super) fn pace(seconds: f64, count: impl Fn() -> u64) -> Pace {
    std::thread::sleep(WARM_UP);
    let (start, busy, before) = (Clock::now_ns(), Clock::busy_ns(), count());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let (end, busy_end, after) = (Clock::now_ns(), Clock::busy_ns(), count());
    let rate = |ns: u64| (after - before) as f64 * 1e9 / ns.max(1) as f64;
    Pace { a_second: rate(end - start), a_busy_second: rate(busy_end - busy) }
}

impl Engine {
    /// Runs the stateless loop, then the client and the server, for `seconds` each between two ports that nothing else is
    /// attached to. `plan` is an [`Engine::calibration_plan`], perhaps with another order or more options; whatever it says
    /// of its length is replaced.
    ///
    /// # Errors
    /// The ports cannot be taken into use, the kernel refuses the run, or the plan is IPv6.
    pub fn compare_with_bare(
        &mut self,
        client: &Port,
        server: &Port,
        plan: &TcpPlan,
        seconds: f64,
    ) -> Result<Comparison, TrafficError> {
        let bare = self.run_bare(client, server, plan, seconds)?;
        let ports = self.attach(client, server, Ends::Both)?;
        let plan = TcpPlan { opening: Opening::Fastest(seconds + MARGIN_SECONDS), ..plan.clone() };
        let started: Started = self.start(&ports, &plan)?;
        let engine = pace(seconds, || reading::counts(self.state()).closed);
        self.follow(&started, plan.seconds(), &plan, &mut ())?;
        self.settle(&plan, &())?;
        let reading = self.end(started, &plan, &mut ())?;
        Ok(Comparison { bare, engine, reading })
    }
}
