//! Forbidden frames again, between other ends of which the policy says the same: who knows the ends of a proof knows nothing of these. Pure.

use super::{AddressList, FORBIDDEN_PORT, PolicySpec, Probe};
use crate::layout::{OUTSIDE_COUNTRIES, RESERVED_ADDRESSES, ZoneAddresses};
use measure::shape::Zone;
use rule_sets::Random;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Test hosts whose numbers are below this one may carry a load of connections.
pub const HOSTS_OF_LOADS: u32 = 1024;
/// Addresses that are taken of lists, and the longest lists that are read for them: they take 10 ns an address.
const LISTED: usize = 64;
const LONGEST_LISTS: u64 = 30_000_000;

/// Which hosts frames go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// One in each zone, of those that carry no load.
    One,
    /// Any of those that carry no load.
    Any,
    /// The same, and every second time the load's own clients and servers, whose numbers count from the start of their prefixes. Not where an
    /// answer to the load could be meant.
    AnyAndOfLoad([Vec<u16>; 2]),
}

impl PolicySpec {
    /// Probes that must not arrive, `times` one after the other, between other hosts of their zones each time, and from other addresses of
    /// lists or outside the country table: those that a firewall that looked at neither would forward come as often as others. `draw`
    /// decides which.
    pub fn between_other_ends(&self, probes: &[Probe], times: usize, hosts: &Hosts, draw: u64) -> Vec<Probe> {
        let random = &mut Random(draw);
        let one = any_host(random);
        let listed = self.some_listed(random);
        let mut others = Vec::with_capacity(times * probes.len());
        for time in 0..times {
            for probe in probes {
                let ends = match hosts {
                    Hosts::One => [any_host(random), one],
                    Hosts::AnyAndOfLoad(of_load) if time % 2 == 1 && is_no_answer(probe) => {
                        of_lane(probe, of_load, random)
                    }
                    Hosts::Any | Hosts::AnyAndOfLoad(_) => [any_host(random), any_host(random)],
                };
                others.push(self.with_another_source(probe.between(ends), &listed, random));
            }
        }
        others
    }

    fn some_listed(&self, random: &mut Random) -> Vec<Ipv4Addr> {
        let length: u64 = self.listed.iter().map(|list| u64::from(list.len())).sum();
        if length > LONGEST_LISTS { Vec::new() } else { self.listed_sample(LISTED, random.next()) }
    }

    fn with_another_source(&self, mut probe: Probe, listed: &[Ipv4Addr], random: &mut Random) -> Probe {
        let IpAddr::V4(source) = probe.source.ip() else { return probe };
        let is_canary = self.listed.iter().map(AddressList::canary).any(|canary| canary == source);
        let other = if is_canary && !listed.is_empty() && random.below(2) == 0 {
            probe.name = format!(
                "from a listed address, {} to {}, IPv4",
                probe.lane.from.name(),
                probe.lane.to.name()
            );
            listed[random.below(listed.len() as u64) as usize]
        } else if OUTSIDE_COUNTRIES.contains(&source) {
            let hosts = u64::from(u32::from(OUTSIDE_COUNTRIES.hostmask())) - 1;
            Ipv4Addr::from(u32::from(OUTSIDE_COUNTRIES.network()) + 1 + random.below(hosts) as u32)
        } else {
            source
        };
        probe.source = SocketAddr::new(other.into(), probe.source.port());
        probe
    }
}

fn any_host(random: &mut Random) -> u32 {
    let counts = [Zone::Private, Zone::Dmz, Zone::Hostile].map(|zone| ZoneAddresses::of(zone).host_count());
    let fewest = counts.into_iter().min().unwrap_or(0);
    HOSTS_OF_LOADS + random.below(u64::from(fewest - HOSTS_OF_LOADS)) as u32
}

/// Whether a frame cannot be taken for the answer to another, whatever ports it is given: no server has that port.
fn is_no_answer(probe: &Probe) -> bool {
    probe.destination.port() == FORBIDDEN_PORT
}

/// A client and a server of the load, the source first.
fn of_lane(probe: &Probe, [clients, servers]: &[Vec<u16>; 2], random: &mut Random) -> [u32; 2] {
    let mut one_of = |hosts: &[u16]| match hosts.len() as u64 {
        0 => HOSTS_OF_LOADS,
        count => u32::from(hosts[random.below(count) as usize]).saturating_sub(RESERVED_ADDRESSES),
    };
    let (client, server) = (one_of(clients), one_of(servers));
    if probe.lane.is_reverse() { [server, client] } else { [client, server] }
}
