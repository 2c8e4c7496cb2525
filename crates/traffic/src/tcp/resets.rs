//! Resets against connections that are held open (`bpf/traffic/tcp/resets.h`): EANTC's check of 2001.

use super::engine::{Engine, Ports, Running};
use super::plan::{Close, TcpPlan};
use super::reading::{self, TcpReading};
use crate::TrafficError;
use crate::harness::{Watch, to_schedule, wait_until};
use measure::connections::{ResetKind, ResetOutcome, Resets};
use std::time::Duration;

/// Segments are taken to have arrived, or to be lost, when none has arrived for so long.
const ARRIVED: Duration = Duration::from_millis(100);
const MAX_RATE: f64 = 1e8;

/// A check of resets.
#[derive(Debug, Clone, PartialEq)]
pub struct ResetCheck {
    /// When all connections were open.
    pub opened: TcpReading,
    /// At the end.
    pub end: TcpReading,
    /// The resets.
    pub outcome: ResetOutcome,
}

/// `enum reset_kind`.
fn number_of(kind: ResetKind) -> u32 {
    match kind {
        ResetKind::OutsideWindow => 1,
        ResetKind::InsideWindow => 2,
        ResetKind::Legitimate => 3,
    }
}

/// Data instead of resets, in `enum reset_kind`.
const DATA: u32 = 4;

fn check(plan: &TcpPlan, resets: &Resets) -> Result<(), TrafficError> {
    let refuse = |why: String| Err(TrafficError::Impossible(why));
    if plan.close != Close::Never {
        return refuse("resets against connections that are held open: the plan closes them".to_owned());
    }
    if resets.each == 0 || resets.each > 1 << 20 {
        return refuse(format!("{} resets a connection and direction: 1 to {}", resets.each, 1 << 20));
    }
    if !(resets.per_second > 0.0 && resets.per_second <= MAX_RATE) {
        return refuse(format!("{} resets a second: more than 0 and up to 10^8", resets.per_second));
    }
    if plan.listens.is_some() && resets.kind != ResetKind::Legitimate {
        return refuse(
            "resets in both directions behind a firewall that translates destinations: the server keeps no \
             connection, so it does not know what to reset"
                .to_owned(),
        );
    }
    Ok(())
}

impl Engine {
    /// Opens `plan`'s connections, which are to be held ([`Close::Never`]), sends `resets` against every one, and then a
    /// request on every one: those that are answered are alive. After legitimate resets one segment of data is sent on
    /// every connection instead, and those are alive whose data reached the server.
    ///
    /// Neither client nor server is moved by these resets: what they do is the firewall's doing. In both directions means
    /// from both ports, with the addresses and ports that the client knows, so nothing between may translate them.
    ///
    /// # Errors
    /// As [`Engine::run`]; the plan closes its connections or translates, or there are no resets or too many a second.
    pub fn open_all_reset_and_verify(
        &mut self,
        ports: &Ports,
        plan: &TcpPlan,
        resets: &Resets,
        watch: &mut dyn Watch<TcpReading>,
    ) -> Result<ResetCheck, TrafficError> {
        check(plan, resets)?;
        let mut running = self.start(ports, plan, watch)?;
        let opened = running.open_all()?;
        let open = opened.counts.open();
        let before = reading::beside(running.memory);
        let both = resets.kind != ResetKind::Legitimate;
        running.walk(resets, (number_of(resets.kind), resets.each, both))?;
        let sent = reading::beside(running.memory).since(&before);
        let data = if both {
            running.verify_all()?;
            0
        } else {
            running.walk(resets, (DATA, 1, false))?;
            reading::beside(running.memory).data_forwarded
        };
        running.settle()?;
        let end = running.end()?;
        let alive = if both { end.counts.verified } else { data };
        let outcome = ResetOutcome { open, sent: sent.resets_sent, forwarded: sent.resets_forwarded, alive };
        Ok(ResetCheck { opened, end, outcome })
    }
}

impl Running<'_> {
    /// Sends `each` segments of a kind on every held connection, perhaps in both directions, and waits for them to arrive.
    fn walk(&mut self, resets: &Resets, (kind, each, both): (u32, u32, bool)) -> Result<(), TrafficError> {
        let cores = self.plan.cores.len() as f64;
        self.memory.change(|state| {
            let beside = &mut state.beside;
            beside.reset = kind;
            beside.reset_each = each;
            beside.reset_both = u32::from(both);
            beside.reset_interval = to_schedule(cores / resets.per_second);
            beside.active = 1;
        });
        // Apart, so that whoever sees the order sees all of it.
        let order = self.memory.change(|state| {
            state.beside.reset_order += 1;
            state.beside.reset_order
        });
        self.wait_for_walk(order)?;
        let counts = || reading::beside(self.memory);
        wait_until(ARRIVED, || self.watch.interrupted(), counts, |_| false).map(drop)
    }

    fn wait_for_walk(&self, order: u32) -> Result<(), TrafficError> {
        let is_done = |&core: &usize| reading::walk_finished(self.memory, core) == order;
        // A generator that has ended says why when the run ends.
        while !self.plan.cores.iter().all(is_done) && !self.run.is_broken() {
            if self.watch.interrupted() {
                return Err(TrafficError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
