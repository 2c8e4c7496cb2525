//! The stateless loop of five packets a connection, and how fast the engine is against it in the same run: what a
//! calibration shows.
//!
//! Both are counted between two looks at their counters, while they run at full speed. Beside the clock on the wall stands
//! the processor time of this process, which on a shared machine does not tell of others.

use super::engine::{Ends, Engine, RECYCLED_BYTES};
use super::plan::{Opening, Options, Order, TcpPlan};
use super::reading::{self, TcpReading};
use super::{Answer, Message, steps};
use crate::TrafficError;
use crate::harness::{LiveSender, Pace, Port, pace};
use measure::shape::IpVersion;
use std::os::fd::AsFd;
use std::time::Duration;

/// Turns between two flushes, as at full speed.
const BATCH: u32 = 64;
/// What the schedule is longer than the measurement.
const MARGIN_SECONDS: f64 = 0.2;

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
        let mut nobody = ();
        let mut running = self.start(&ports, &plan, &mut nobody)?;
        let memory = running.memory;
        let engine = pace(Duration::from_secs_f64(seconds), || reading::counts(memory).closed);
        running.follow()?;
        running.settle()?;
        Ok(Comparison { bare, engine, reading: running.end()? })
    }

    /// What the stateless loop and the client are compared with: a request of HTTP/1.0, an answer with one byte of body, both
    /// proved, reset, the MSS option, as fast as the cores can. The loop has neither proofs nor headers in its answer.
    pub fn calibration_plan() -> TcpPlan {
        TcpPlan {
            options: Options::MSS,
            request: Message::http_get("/"),
            answer: Answer::Exactly(Message::http_answer(1)),
            // As the stateless loop counts its tuples up.
            order: Order::Sequential,
            ..TcpPlan::new(Opening::Fastest(1.0))
        }
    }

    /// What the stateless loop reaches in `seconds` between two ports that nothing else is attached to, with the
    /// addresses and cores of `plan`, which is an [`Engine::calibration_plan`].
    ///
    /// # Errors
    /// The ports cannot be taken into use, the kernel refuses the run, or the plan is IPv6.
    pub fn run_bare(
        &mut self,
        client: &Port,
        server: &Port,
        plan: &TcpPlan,
        seconds: f64,
    ) -> Result<Pace, TrafficError> {
        if plan.ip != IpVersion::V4 {
            return Err(TrafficError::Impossible("the stateless loop speaks IPv4 only".to_owned()));
        }
        let schedule = steps::for_core(plan, 0)?;
        let programs = &self.skel.progs;
        let ports =
            self.attach_as(client, server, Ends::Both, &programs.bare_client, &programs.bare_server)?;
        // Its request has 18 bytes, without a proof.
        let plan = &TcpPlan { request: Message::new("GET / HTTP/1.0\r\n\r\n")?, ..plan.clone() };
        self.write_control(&ports, plan, &[schedule])?;
        self.spread_bare(plan);
        let program = self.skel.progs.bare_turn.as_fd();
        let senders = LiveSender::start_all(program, &[0; RECYCLED_BYTES], &plan.cores, BATCH)?;
        let length = Duration::from_secs_f64(seconds);
        let reached = pace(length, || reading::bare_answered(self.memory));
        LiveSender::stop_all(senders)?;
        Ok(reached)
    }

    /// Cores begin at different tuples.
    fn spread_bare(&mut self, plan: &TcpPlan) {
        let part = plan.tuples / plan.cores.len().max(1) as u32;
        self.memory.change(|state| {
            for (number, &core) in plan.cores.iter().enumerate() {
                state.bare_tcp[core].next = part * number as u32;
            }
        });
    }
}
