//! Floods beside the connections (`bpf/traffic/tcp/attack.h`): where they come from, and their schedule.

use super::plan::TcpPlan;
use super::skeleton::types;
use crate::harness::to_schedule;
use crate::{Port, TrafficError};
use measure::connections::{Attack, AttackKind, AttackSources};
use measure::shape::IpVersion;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Where IPv4 floods come from: this network, 8 bits long.
pub const ATTACKERS_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
/// Where IPv6 floods come from: this network, 104 bits long. Beside the benchmark network 2001:2::/48 and not assigned.
pub const ATTACKERS_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 1, 0, 0, 0, 0, 0);
/// Addresses in either.
const ATTACKERS: u32 = 1 << 24;
const MAX_RATE: f64 = 1e8;

fn refuse<T>(why: String) -> Result<T, TrafficError> {
    Err(TrafficError::Impossible(why))
}

/// # Errors
/// A rate, a number of sources or a time that cannot be, or that does not fit into the phases.
pub(super) fn check(plan: &TcpPlan) -> Result<(), TrafficError> {
    let Some(attack) = &plan.attack else { return Ok(()) };
    let rate = attack.frames_per_second;
    if !(rate > 0.0 && rate <= MAX_RATE) {
        return refuse(format!("a flood of {rate} frames/s: it has more than 0 and up to 10^8"));
    }
    let end = attack.after_seconds + attack.seconds;
    if !(attack.after_seconds >= 0.0 && attack.seconds > 0.0 && end <= plan.seconds() + 1e-9) {
        return refuse(format!(
            "a flood of {} s after {} s in a run of {} s: it lies within the run",
            attack.seconds,
            attack.after_seconds,
            plan.seconds()
        ));
    }
    if sources(attack) == 0 || sources(attack) > ATTACKERS {
        return refuse(format!(
            "a flood from {} addresses: the attackers' network has 1 to {ATTACKERS}",
            sources(attack)
        ));
    }
    Ok(())
}

/// # Errors
/// An address of the clients' or the servers' could be an attacker's.
pub(super) fn check_ports(plan: &TcpPlan, client: &Port, server: &Port) -> Result<(), TrafficError> {
    if plan.attack.is_none() {
        return Ok(());
    }
    for port in [client, server] {
        let inside = match plan.ip {
            IpVersion::V4 => port.v4_prefix >> 24 == u32::from(ATTACKERS_V4) >> 24,
            IpVersion::V6 => port.v6_prefix[..13] == ATTACKERS_V6.octets()[..13],
        };
        if inside {
            return refuse(format!(
                "a flood from {ATTACKERS_V4}/8 or {ATTACKERS_V6}/104, and clients or servers within"
            ));
        }
    }
    Ok(())
}

fn sources(attack: &Attack) -> u32 {
    match attack.sources {
        AttackSources::Random => ATTACKERS,
        AttackSources::Distinct(addresses) => addresses,
    }
}

/// One core's frames: from when, how far apart, until when, in schedule time.
struct Frames {
    first: u64,
    interval: u64,
    end: u64,
}

fn frames(plan: &TcpPlan, attack: &Attack, core: usize) -> Frames {
    let cores = plan.cores.len() as f64;
    let interval = to_schedule(cores / attack.frames_per_second);
    Frames {
        first: to_schedule(attack.after_seconds) + (interval as f64 * core as f64 / cores) as u64,
        interval,
        end: to_schedule(attack.after_seconds + attack.seconds),
    }
}

/// Frames that the flood's schedule asks for, all cores; `None` without a flood.
pub(super) fn offered(plan: &TcpPlan) -> Option<u64> {
    let attack = plan.attack.as_ref()?;
    let cores = (0..plan.cores.len()).map(|core| frames(plan, attack, core));
    Some(cores.map(|f| f.end.saturating_sub(f.first).div_ceil(f.interval)).sum())
}

/// Frames a second of each core.
pub(super) fn rate_per_core(plan: &TcpPlan) -> f64 {
    plan.attack.as_ref().map_or(0.0, |attack| attack.frames_per_second / plan.cores.len() as f64)
}

pub(super) fn write(state: &mut types::bss, plan: &TcpPlan) {
    let Some(attack) = &plan.attack else { return };
    let kind = AttackKind::ALL.iter().position(|kind| *kind == attack.kind);
    state.beside.attack = kind.unwrap_or(0) as u32;
    state.beside.attack_sources = sources(attack);
    for (number, &core) in plan.cores.iter().enumerate() {
        let frames = frames(plan, attack, number);
        state.beside.attack_interval = frames.interval;
        state.beside.attack_end = frames.end;
        state.beside_cores[core].attack_due = frames.first;
    }
    state.beside.attack_last = state.beside.attack_end + to_schedule(plan.grace.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Opening, TcpPhase};
    use super::*;

    fn plan(attack: Attack, cores: usize) -> TcpPlan {
        let opening = Opening::Scheduled(vec![TcpPhase::constant(10.0, 10.0)]);
        TcpPlan { attack: Some(attack), cores: (0..cores).collect(), ..TcpPlan::new(opening) }
    }

    const FLOOD: Attack = Attack {
        kind: AttackKind::Syn,
        frames_per_second: 1000.0,
        sources: AttackSources::Random,
        after_seconds: 2.0,
        seconds: 3.0,
    };

    #[test]
    fn a_flood_offers_its_rate_times_its_length() {
        for cores in 1..4 {
            assert!(offered(&plan(FLOOD, cores)).unwrap().abs_diff(3000) <= cores as u64, "{cores} cores");
        }
    }

    #[test]
    fn floods_that_cannot_be_are_refused() {
        let rows: [(Attack, &str); 5] = [
            (Attack { frames_per_second: 0.0, ..FLOOD }, "a flood of 0 frames/s"),
            (Attack { frames_per_second: f64::NAN, ..FLOOD }, "a flood of NaN frames/s"),
            (
                Attack { seconds: 9.0, ..FLOOD },
                "a flood of 9 s after 2 s in a run of 10 s: it lies within the run",
            ),
            (Attack { sources: AttackSources::Distinct(0), ..FLOOD }, "a flood from 0 addresses"),
            (
                Attack { sources: AttackSources::Distinct(ATTACKERS + 1), ..FLOOD },
                "a flood from 16777217 addresses",
            ),
        ];
        check(&plan(FLOOD, 1)).unwrap();
        for (attack, said) in rows {
            let found = check(&plan(attack, 1)).unwrap_err().to_string();
            assert!(found.starts_with(said), "{found}");
        }
    }
}
