//! How evenly connections start: a paced run whose starts the client itself counts by the second in which it made them, so
//! that it does not matter when somebody looks.

use super::engine::{Engine, Ports};
use super::plan::{Opening, TcpPhase, TcpPlan};
use super::reading::{self, TcpReading};
use super::skeleton::COUNTED_SECONDS;
use crate::TrafficError;
use crate::harness::Watch;

/// What a paced run showed.
#[derive(Debug, Clone)]
pub struct Evenness {
    /// Connections a second asked for.
    pub rate: f64,
    /// Connections opened in each second, by the moment when the first SYN was made.
    pub each_second: Vec<u64>,
    /// All that was counted.
    pub reading: TcpReading,
}

impl Evenness {
    /// The largest deviation of a second from the rate, as a share of it.
    pub fn largest_deviation(&self) -> f64 {
        let off = |&opened: &u64| (opened as f64 - self.rate).abs() / self.rate;
        self.each_second.iter().map(off).fold(0.0, f64::max)
    }
}

impl Engine {
    /// Opens `rate` connections a second for whole `seconds` on one core, each with a small request and answer, and counts
    /// how many began in each. `rate` is up to 100,000: above, not every start reads the clock.
    ///
    /// # Errors
    /// As [`Engine::run`]; or a rate or a length that is not counted.
    pub fn evenness(
        &mut self,
        ports: &Ports,
        rate: f64,
        seconds: u32,
        watch: &mut dyn Watch<TcpReading>,
    ) -> Result<Evenness, TrafficError> {
        if !(1.0..=100_000.0).contains(&rate) || !(1..=COUNTED_SECONDS as u32).contains(&seconds) {
            return Err(TrafficError::Impossible(format!(
                "{rate} connections/s for {seconds} s: starts are counted for 1 to {COUNTED_SECONDS} s at up to 100000 a \
                 second"
            )));
        }
        let phase = TcpPhase::constant(rate, f64::from(seconds));
        let plan = TcpPlan::new(Opening::Scheduled(vec![phase]));
        let reading = self.run(ports, &plan, watch)?;
        let each_second = reading::opened_each_second(self.memory, seconds as usize);
        Ok(Evenness { rate, each_second, reading })
    }
}
