//! From a plan to the control block that the programs read.

use super::engine::{Ends, Engine, Ports};
use super::plan::{Answer, Close, Opening, Side, TcpPlan};
use super::skeleton::types::{self, offer};
use super::skeleton::{MAX_CORES, MAX_SEGMENT_BYTES, NO_PROOF, TICK_SHIFT};
use super::steps::Steps;
use super::{attack, illegal, reading};
use crate::TrafficError;
use crate::harness::{NOT_YET, Port, to_schedule};
use crate::random::{self, SplitMix64, mix};
use measure::shape::IpVersion;
use std::time::Duration;

/// Slots of the device map.
pub(super) const CLIENT_PORT: u32 = 0;
pub(super) const SERVER_PORT: u32 = 1;
/// What `divide()` in `bpf/traffic/tcp/open.h` is exact for.
pub(super) const MAX_CONNECTIONS: u32 = 1 << 24;
/// Connections a second and core up to which every connection is timed; above, one in sixteen.
const TIME_ALL_UP_TO: f64 = 100_000.0;

impl Engine {
    /// Writes the control block and both messages, and clears what the last run left.
    ///
    /// # Errors
    /// The kernel gives no random number.
    pub(super) fn write_control(
        &mut self,
        ports: &Ports,
        plan: &TcpPlan,
        schedules: &[Steps],
    ) -> Result<(), TrafficError> {
        let mut control = control_of(plan);
        let proves = ports.ends == Ends::Both;
        let mut secret = SplitMix64::new(random::secret()?);
        // The same from run to run, so that a client's numbers never go back on one tuple (RFC 6528 section 3).
        control.secret = mix(plan.seed) as u32;
        control.server_secret = secret.next() as u32;
        control.request_keys = [secret.next(), secret.next()];
        control.answer_keys = [secret.next(), secret.next()];
        control.seal_keys = [secret.next(), secret.next()];
        control.seals = u32::from(proves);
        control.knows_server_isn = u32::from(proves && !plan.translates && plan.listens.is_none());
        control.translates_sources = u32::from(plan.translates || !proves);
        control.client_mac = ports.client.mac;
        control.next_hop_mac = ports.client.next_hop_mac;
        control.client = side(&ports.client, &plan.clients);
        control.server = side(&ports.server, &plan.servers);
        control.listens = side(&ports.server, plan.listens.as_ref().unwrap_or(&plan.servers));
        let first = &schedules[0].steps;
        control.steps[..first.len()].copy_from_slice(first);
        control.step_count = first.len() as u32;
        reading::clear(self.memory);
        self.memory.change(|state| {
            state.control = control;
            for (&core, schedule) in plan.cores.iter().zip(schedules) {
                state.cores[core].due = schedule.first_due;
            }
            write_beside(state, ports, plan, schedules);
            plan.request.write(&mut state.request, plan.segment_bytes(), proves);
            match &plan.answer {
                Answer::Exactly(answer) => {
                    answer.write(&mut state.answer, plan.segment_bytes(), proves);
                }
                Answer::UntilFin => (state.answer.bytes, state.answer.proof_at) = (0, NO_PROOF),
            }
        });
        Ok(())
    }
}

/// What goes on beside the connections.
fn write_beside(state: &mut types::bss, ports: &Ports, plan: &TcpPlan, schedules: &[Steps]) {
    state.beside = types::beside_control {
        server_mac: ports.server.mac,
        server_next_hop_mac: ports.server.next_hop_mac,
        ..Default::default()
    };
    for (number, &core) in plan.cores.iter().enumerate() {
        state.beside_cores[core].random = mix(plan.seed ^ mix(number as u64 + 1));
    }
    attack::write(state, plan);
    illegal::write(state, plan, schedules.iter().map(Steps::offered));
    state.beside.active = u32::from(plan.attack.is_some() || plan.illegal.is_some());
}

/// Core number `core`'s first tuple and how many it has.
pub(super) fn slice(plan: &TcpPlan, core: usize) -> (u32, u32) {
    let part = |n: usize| (u64::from(plan.tuples) * n as u64 / plan.cores.len() as u64) as u32;
    (part(core), part(core + 1) - part(core))
}

fn side(port: &Port, side: &Side) -> types::side {
    types::side {
        v4_first: port.v4_prefix.wrapping_add(side.first_host),
        hosts: side.hosts,
        v6_prefix: port.v6_words(),
        v6_first: side.first_host,
        port_first: u32::from(side.first_port),
        ports: side.ports,
        pad: 0,
    }
}

/// See `divide()` in `bpf/traffic/tcp/open.h`.
fn inverse(divisor: u32) -> u64 {
    (1 << 40) / u64::from(divisor) + 1
}

fn ticks(duration: Duration) -> u32 {
    (duration.as_nanos().div_ceil(1 << TICK_SHIFT)).min(u128::from(u32::MAX >> 1)) as u32
}

fn offers(plan: &TcpPlan) -> u32 {
    let options = plan.options;
    let offered = [
        (options.mss, offer::OFFER_MSS),
        (options.window_scale.is_some(), offer::OFFER_WINDOW_SCALE),
        (options.sack, offer::OFFER_SACK),
        (options.timestamps, offer::OFFER_TIMESTAMPS),
    ];
    offered.iter().filter(|(is_offered, _)| *is_offered).fold(0, |bits, (_, option)| bits | option.0)
}

/// All of the control block that follows from the plan alone.
fn control_of(plan: &TcpPlan) -> types::tcp_control {
    let segment_bytes = plan.segment_bytes().min(MAX_SEGMENT_BYTES as u32);
    let mut control = types::tcp_control {
        start_ns: NOT_YET,
        last_start: to_schedule(plan.seconds() + plan.grace.as_secs_f64()),
        unpaced: u32::from(matches!(plan.opening, Opening::Fastest(_))),
        ip_version: if plan.ip == IpVersion::V4 { 4 } else { 6 },
        client_port: CLIENT_PORT,
        server_port: SERVER_PORT,
        slots: plan.tuples,
        client_hosts_inverse: inverse(plan.clients.hosts),
        server_hosts_inverse: inverse(plan.servers.hosts),
        server_ports_inverse: inverse(plan.servers.ports),
        keeps_open: u32::from(matches!(plan.opening, Opening::KeepOpen(..))),
        offers: offers(plan),
        mss: plan.mss(),
        window_scale: u32::from(plan.options.window_scale.unwrap_or(0)),
        window: 65_535,
        // One segment under way: whoever sends a longer request waits for each acknowledgement.
        server_window: segment_bytes,
        segment_bytes,
        transactions: u32::from(plan.transactions),
        close: match plan.close {
            Close::Reset => 0,
            Close::ClientFin => 1,
            Close::ServerFin => 2,
            Close::Never => 3,
        },
        four_way: u32::from(plan.four_way),
        hold_ticks: ticks(plan.hold),
        reuse_ticks: ticks(plan.reuse),
        retry_ticks: ticks(plan.retry),
        retries: u32::from(plan.retries),
        scan_ticks: scan_ticks(plan),
        sample_mask: sample_mask(plan),
        check_request: 1,
        last_request_at: last_segment_at(plan.request.bytes().len() as u32, segment_bytes),
        deferred_cores: MAX_CORES as u32,
        ..Default::default()
    };
    for (number, &core) in plan.cores.iter().enumerate() {
        (control.slot_first[core], control.slot_count[core]) = slice(plan, number);
        control.number[core] = number as u32 + 1;
        if let Opening::KeepOpen(open, _) = plan.opening {
            let cores = plan.cores.len() as u32;
            control.target_open[core] = open / cores + u32::from((number as u32) < open % cores);
        }
    }
    control
}

/// The offset of the last segment of a message.
pub(super) fn last_segment_at(bytes: u32, segment_bytes: u32) -> u32 {
    bytes.saturating_sub(1) / segment_bytes * segment_bytes
}

pub(super) fn fastest_per_core(plan: &TcpPlan) -> f64 {
    match plan.opening {
        Opening::Fastest(_) => f64::INFINITY,
        _ => plan.phases().iter().map(|p| p.from.max(p.to)).fold(0.0, f64::max) / plan.cores.len() as f64,
    }
}

/// Time-outs are noticed at most a quarter late.
fn scan_ticks(plan: &TcpPlan) -> u32 {
    let hold = if plan.hold.is_zero() { u32::MAX } else { ticks(plan.hold) };
    (ticks(plan.retry).min(hold) / 4).clamp(4, 256)
}

fn sample_mask(plan: &TcpPlan) -> u32 {
    if fastest_per_core(plan) <= TIME_ALL_UP_TO { 0 } else { 15 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn division_by_the_inverse_is_exact() {
        let mut random = SplitMix64::new(1);
        for divisor in [1, 2, 3, 7, 200, 32_256, 64_512, 65_535, 65_536] {
            let edges = (0..256).flat_map(|n| [n * divisor, (n + 1) * divisor - 1]);
            let any = (0..10_000).map(|_| random.below(1 << 24) as u32).collect::<Vec<_>>();
            for slot in edges.chain(any).chain([MAX_CONNECTIONS - 1]).filter(|&s| s < MAX_CONNECTIONS) {
                let quotient = (u64::from(slot).wrapping_mul(inverse(divisor)) >> 40) as u32;
                assert_eq!(quotient, slot / divisor, "{slot} / {divisor}");
            }
        }
    }
}
