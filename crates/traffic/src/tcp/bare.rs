//! The stateless loop of five packets a connection: what the client and the server are measured against.

use super::control::{CLIENT_PORT, SERVER_PORT};
use super::engine::{Ends, Engine, Ports, RECYCLED_BYTES};
use super::pace::{Pace, pace};
use super::plan::{Opening, Options, Order, TcpPlan};
use super::{Answer, Message, reading, steps};
use crate::TrafficError;
use crate::frames::Port;
use crate::live::LiveSender;
use measure::shape::IpVersion;
use std::os::fd::AsFd;

/// Turns between two flushes, as at full speed.
const BATCH: u32 = 64;

impl Engine {
    /// What the stateless loop and the client are compared with: a request of HTTP/1.0, one byte of answer, reset, the
    /// MSS option, as fast as the cores can.
    pub fn calibration_plan() -> TcpPlan {
        TcpPlan {
            options: Options::MSS,
            request: Message::http_get("/"),
            answer: Answer::Exactly(Message::one_byte()),
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
        let links = vec![
            self.attach_one(client, CLIENT_PORT, &programs.bare_client)?,
            self.attach_one(server, SERVER_PORT, &programs.bare_server)?,
        ];
        let ports = Ports::new(client, server, Ends::Both, links);
        self.write_control(&ports, plan, &[schedule]);
        self.spread_bare(plan);
        let program = self.skel.progs.bare_turn.as_fd();
        let senders = plan
            .cores
            .iter()
            .map(|&core| LiveSender::start(program, &[0; RECYCLED_BYTES], core, BATCH, None))
            .collect::<Result<Vec<_>, _>>()?;
        let reached = pace(seconds, || reading::bare_answered(self.state()));
        for sender in senders {
            sender.stop()?;
        }
        Ok(reached)
    }

    /// Cores begin at different tuples.
    fn spread_bare(&mut self, plan: &TcpPlan) {
        let part = plan.tuples / plan.cores.len().max(1) as u32;
        self.change(|state| {
            for (number, &core) in plan.cores.iter().enumerate() {
                state.bare_tcp[core].next = part * number as u32;
            }
        });
    }
}
