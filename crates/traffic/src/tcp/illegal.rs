//! Illegal attempts among the starts (`bpf/traffic/tcp/illegal.h`): which, how often, and from where.

use super::plan::TcpPlan;
use super::skeleton::{MAX_LISTED, types};
use crate::TrafficError;
use measure::connections::{Illegal, IllegalKind};
use measure::shape::IpVersion;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// The port that no rule allows.
pub const FORBIDDEN_PORT: u16 = 60_000;
/// The IP protocol that no rule allows (RFC 3692: for experiments).
pub const FORBIDDEN_PROTOCOL: u8 = 253;
/// Addresses that no rule allows: this network, 24 bits long (RFC 5737).
pub const FORBIDDEN_V4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 0);
/// The same in IPv6, 120 bits long (RFC 3849).
pub const FORBIDDEN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0xcb00, 0x7100);

/// Attempts that the policy forbids, in place of some of the starts.
#[derive(Debug, Clone, PartialEq)]
pub struct IllegalPlan {
    /// Their share of all starts, 0 < share < 1, evenly spread.
    pub share: f64,
    /// What is wrong with them, in turns; 1 to 8. [`IllegalKind::OutOfWindow`] needs a connection that is open: where a
    /// few looked at are not, the next kind has its turn, and where there is none, a legal connection.
    pub kinds: Vec<IllegalKind>,
    /// Ports that no rule allows, for [`IllegalKind::Port`]: [`FORBIDDEN_PORT`] unless somebody states others.
    pub ports: RangeInclusive<u16>,
    /// Addresses on the block list, for [`IllegalKind::Listed`]: 1 to 65,536, host byte order.
    pub listed: Vec<u32>,
    /// Whether the bench adds them by itself, to see that the policy holds under load, and no suite asked for them.
    pub watches: bool,
}

impl IllegalPlan {
    /// As a suite has it, with a sample of the block list.
    pub fn new(illegal: &Illegal, listed: Vec<u32>) -> Self {
        let kinds = illegal.kinds.clone();
        Self { share: illegal.share, kinds, ports: FORBIDDEN_PORT..=FORBIDDEN_PORT, listed, watches: false }
    }

    /// Attempts of which exactly `legal` are legal when this share of them is not. Exact up to 2^32 attempts for shares that
    /// come out even, and up to 400,000 for any share in hundredths of a percent; beyond, one may be missing.
    pub fn attempts(legal: u64, share: f64) -> u64 {
        (legal as f64 / (1.0 - share)) as u64
    }

    /// The share in 2^-32. Rounded up: rounded down, a share that comes out even would lack its last attempt.
    fn step(&self) -> u32 {
        (self.share * 2f64.powi(32)).ceil() as u32
    }

    fn has(&self, kind: IllegalKind) -> bool {
        self.kinds.contains(&kind)
    }
}

fn refuse<T>(why: impl Into<String>) -> Result<T, TrafficError> {
    Err(TrafficError::Impossible(why.into()))
}

/// # Errors
/// A share or list that cannot be, or no client port left over.
pub(super) fn check(plan: &TcpPlan) -> Result<(), TrafficError> {
    let Some(illegal) = &plan.illegal else { return Ok(()) };
    if !(illegal.share > 0.0 && illegal.share < 1.0) {
        return refuse(format!("a share of illegal attempts of {}: between 0 and 1", illegal.share));
    }
    if illegal.kinds.is_empty() || illegal.kinds.len() > IllegalKind::ALL.len() {
        return refuse(format!("{} kinds of illegal attempts: 1 to 8 take turns", illegal.kinds.len()));
    }
    if illegal.has(IllegalKind::Listed) {
        check_listed(plan, illegal)?;
    }
    let ports = plan.listens.as_ref().unwrap_or(&plan.servers);
    let (first, last) = (u32::from(*illegal.ports.start()), u32::from(*illegal.ports.end()));
    let serves_forbidden = [&plan.servers, ports].iter().any(|side| {
        let served = u32::from(side.first_port);
        first < served + side.ports && served <= last
    });
    if illegal.has(IllegalKind::Port) && serves_forbidden {
        return refuse(format!(
            "attempts at forbidden ports from {first} to {last}, and servers listen on one of them"
        ));
    }
    if spare_ports(plan).1 == 0 {
        return refuse(
            "illegal attempts come from client ports that no connection uses: the plan uses 1 to 65535",
        );
    }
    Ok(())
}

fn check_listed(plan: &TcpPlan, illegal: &IllegalPlan) -> Result<(), TrafficError> {
    if plan.ip == IpVersion::V6 {
        return refuse("attempts from listed addresses over IPv6: lists have IPv4 addresses");
    }
    if illegal.listed.is_empty() || illegal.listed.len() > MAX_LISTED {
        return refuse(format!(
            "attempts from {} listed addresses: a sample has 1 to {MAX_LISTED}",
            illegal.listed.len()
        ));
    }
    Ok(())
}

/// Client ports that no connection has, first and number: those above the plan's, or else those below.
pub(super) fn spare_ports(plan: &TcpPlan) -> (u32, u32) {
    let first = u32::from(plan.clients.first_port);
    let behind = first + plan.clients.ports;
    if behind < 65_536 { (behind, 65_536 - behind) } else { (1, first.saturating_sub(1)) }
}

/// `starts` of each core of the plan, in the plan's order.
pub(super) fn write(state: &mut types::bss, plan: &TcpPlan, starts: impl Iterator<Item = u64>) {
    let Some(illegal) = &plan.illegal else { return };
    for (&core, credit) in plan.cores.iter().zip(credits(illegal.step(), starts)) {
        state.beside_cores[core].illegal_credit = credit;
    }
    let beside = &mut state.beside;
    beside.illegal_step = illegal.step();
    beside.illegal_count = illegal.kinds.len() as u32;
    for (number, kind) in beside.illegal_kinds.iter_mut().zip(&illegal.kinds) {
        *number = number_of(*kind) as u32;
    }
    (beside.spare_port, beside.spare_ports) = spare_ports(plan);
    beside.forbidden_port = u32::from(*illegal.ports.start());
    beside.forbidden_ports = u32::from(illegal.ports.end() - illegal.ports.start()) + 1;
    beside.listed_count = illegal.listed.len() as u32;
    beside.server_stays = u32::from(plan.listens.is_none());
    for (place, address) in state.listed.iter_mut().zip(&illegal.listed) {
        *place = address.to_be();
    }
}

/// What each core has of an attempt when it begins: what the cores before it leave over. So together they make as many as
/// one core would.
fn credits(step: u32, starts: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    starts.scan(0u32, move |credit, starts| {
        let own = *credit;
        *credit = credit.wrapping_add(step.wrapping_mul(starts as u32));
        Some(own)
    })
}

/// The kind's number in `enum illegal_kind`.
pub(super) fn number_of(kind: IllegalKind) -> usize {
    IllegalKind::ALL.iter().position(|k| *k == kind).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Opening, Side, TcpPhase};
    use super::*;

    fn plan() -> TcpPlan {
        let illegal = IllegalPlan {
            share: 0.1,
            kinds: IllegalKind::ALL.to_vec(),
            ports: FORBIDDEN_PORT..=FORBIDDEN_PORT,
            listed: vec![1],
            watches: false,
        };
        let opening = Opening::Scheduled(vec![TcpPhase::constant(10.0, 1.0)]);
        TcpPlan { illegal: Some(illegal), ..TcpPlan::new(opening) }
    }

    /// Legal starts of a run, as `is_illegal_turn()` in `bpf/traffic/tcp/illegal.h` counts.
    fn legal_of(share: f64, attempts: u64, cores: u64) -> u64 {
        let step = IllegalPlan {
            share,
            kinds: Vec::new(),
            ports: FORBIDDEN_PORT..=FORBIDDEN_PORT,
            listed: Vec::new(),
            watches: false,
        }
        .step();
        let starts: Vec<u64> = (0..cores).map(|core| (attempts + cores - 1 - core) / cores).collect();
        let mut legal = 0;
        for (mut credit, starts) in credits(step, starts.iter().copied()).zip(&starts) {
            for _ in 0..*starts {
                let before = credit;
                credit = credit.wrapping_add(step);
                legal += u64::from(credit >= before);
            }
        }
        legal
    }

    #[test]
    fn as_many_attempts_are_legal_as_were_asked_for() {
        for (legal, share) in [
            (1000, 0.8),
            (4096, 0.8),
            (1000, 0.5),
            (1000, 0.3),
            (333, 0.1),
            (7, 0.999),
            (1, 0.9999),
            (20_000, 0.0001),
            (100_000, 0.75),
            (12_345, 0.6667),
        ] {
            for cores in [1, 2, 3] {
                let attempts = IllegalPlan::attempts(legal, share);
                assert_eq!(legal_of(share, attempts, cores), legal, "{legal} legal, {share}, {cores} cores");
            }
        }
    }

    #[test]
    fn attempts_come_from_ports_that_no_connection_has() {
        for (first_port, ports, expected) in
            [(1024, 64_512, (1, 1023)), (1024, 64_511, (65_535, 1)), (0, 65_536, (1, 0)), (1, 65_535, (1, 0))]
        {
            let clients = Side { first_port, ports, ..plan().clients };
            assert_eq!(spare_ports(&TcpPlan { clients, ..plan() }), expected, "{ports} from {first_port}");
        }
    }

    #[test]
    fn attempts_that_cannot_be_are_refused() {
        type Row = (&'static str, fn(&mut TcpPlan));
        let rows: [Row; 7] = [
            ("a share of illegal attempts of 1", |p| p.illegal.as_mut().unwrap().share = 1.0),
            ("a share of illegal attempts of NaN", |p| p.illegal.as_mut().unwrap().share = f64::NAN),
            ("0 kinds of illegal attempts", |p| p.illegal.as_mut().unwrap().kinds.clear()),
            ("attempts from 0 listed addresses", |p| p.illegal.as_mut().unwrap().listed.clear()),
            ("attempts from listed addresses over IPv6", |p| p.ip = IpVersion::V6),
            ("attempts at forbidden ports from 60000 to 60000, and servers listen on one of them", |p| {
                p.servers.ports = 60_000;
            }),
            ("illegal attempts come from client ports that no connection uses", |p| {
                p.clients = Side { first_port: 1, ports: 65_535, ..p.clients };
            }),
        ];
        check(&plan()).unwrap();
        for (said, change) in rows {
            let mut plan = plan();
            change(&mut plan);
            let found = check(&plan).unwrap_err().to_string();
            assert!(found.starts_with(said), "{found}");
        }
    }
}
