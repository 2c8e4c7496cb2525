//! Resets against connections that are held open (`bpf/traffic/tcp/resets.h`): EANTC's check of 2001.

use super::engine::{Engine, Ports, Started, TcpWatch};
use super::outcome::BesideCounts;
use super::plan::{Close, TcpPlan};
use super::reading::{self, TcpReading};
use crate::TrafficError;
use crate::live::LiveSender;
use crate::schedule::to_schedule;
use measure::connections::{ResetKind, ResetOutcome, Resets};
use std::time::{Duration, Instant};

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
        watch: &mut dyn TcpWatch,
    ) -> Result<ResetCheck, TrafficError> {
        check(plan, resets)?;
        let (mut started, opened) = self.open_all(ports, plan, watch)?;
        let open = opened.counts.open();
        let before = reading::beside(self.state());
        let both = resets.kind != ResetKind::Legitimate;
        self.walk(&started, plan, resets, (number_of(resets.kind), resets.each, both), watch)?;
        let sent = reading::beside(self.state()).since(&before);
        let data = if both {
            self.verify_all(&mut started, plan, watch)?;
            0
        } else {
            self.walk(&started, plan, resets, (DATA, 1, false), watch)?;
            reading::beside(self.state()).data_forwarded
        };
        self.change(|state| state.control.closing = 1);
        self.settle(plan, watch)?;
        let end = self.end(started, plan, watch)?;
        let alive = if both { end.counts.verified } else { data };
        let outcome = ResetOutcome { open, sent: sent.resets_sent, forwarded: sent.resets_forwarded, alive };
        Ok(ResetCheck { opened, end, outcome })
    }

    /// Sends `each` segments of a kind on every held connection, perhaps in both directions, and waits for them to arrive.
    fn walk(
        &mut self,
        started: &Started,
        plan: &TcpPlan,
        resets: &Resets,
        (kind, each, both): (u32, u32, bool),
        watch: &dyn TcpWatch,
    ) -> Result<(), TrafficError> {
        self.change(|state| {
            let beside = &mut state.beside;
            beside.reset = kind;
            beside.reset_each = each;
            beside.reset_both = u32::from(both);
            beside.reset_interval = to_schedule(plan.cores.len() as f64 / resets.per_second);
            beside.active = 1;
        });
        // Apart, so that whoever sees the order sees all of it.
        self.change(|state| state.beside.reset_order += 1);
        self.wait_for_walk(started, plan, watch)?;
        self.wait_for_arrivals(watch)
    }

    fn wait_for_walk(
        &mut self,
        started: &Started,
        plan: &TcpPlan,
        watch: &dyn TcpWatch,
    ) -> Result<(), TrafficError> {
        let mut order = 0;
        self.change(|state| order = state.beside.reset_order);
        while !plan.cores.iter().all(|&core| reading::walk_finished(self.state(), core) == order) {
            if watch.interrupted() {
                return Err(TrafficError::Interrupted);
            }
            // One that has ended says why when the run ends.
            if started.senders.iter().any(LiveSender::is_finished) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn wait_for_arrivals(&self, watch: &dyn TcpWatch) -> Result<(), TrafficError> {
        let mut last = (Instant::now(), BesideCounts::default());
        loop {
            let counts = reading::beside(self.state());
            if counts != last.1 {
                last = (Instant::now(), counts);
            } else if last.0.elapsed() >= ARRIVED {
                return Ok(());
            }
            if watch.interrupted() {
                return Err(TrafficError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
