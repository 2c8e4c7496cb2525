//! Beside every trial: frames that the policy forbids, of every kind that its proof has, in both directions and both IP versions. A firewall
//! that enforces its policy while it is proved, and not while it is measured, lets one of them pass. And the proof that a firewall has
//! forgotten its connections when it says so.

use super::station::{Station, probe_frame};
use super::{Site, broken, broken_traffic, port};
use measure::shape::Zone;
use measure::trial::RigError;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use testbed::applications;
use testbed::policy::{self, Expect, Probe};
use traffic::{Clock, Lookout, Patrol, Patrolled, Port, ProbeFrame};

/// So many go along with a trial, in so far as the time between two stays within these.
const FRAMES_OF_A_TRIAL: f64 = 16.0;
const SHORTEST: f64 = 0.005;
const LONGEST: f64 = 0.05;
/// How long a frame that is allowed may take at rest, and one that must not arrive is waited for at least.
const PATIENCE: Duration = Duration::from_secs(1);
const SHORT_WAIT: Duration = Duration::from_millis(20);
/// How often one that is allowed is sent at most: links may lose it.
const ATTEMPTS: u32 = 5;
/// Between so many pairs of hosts each kind goes.
const PAIRS_OF_HOSTS: usize = 16;

/// Where arrivals are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookedOut {
    /// Where the engines' programs have the ports.
    AtPorts,
    /// Where the kernel's own sockets carry the load.
    AtHosts,
}

/// Who walks beside the trials of a station.
pub(super) struct Beside {
    patrol: Patrol,
    /// What each frame of a round shows.
    kinds: Vec<String>,
}

/// What a trial's patrol found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// What costs the trial its value.
    pub(super) broken: Option<String>,
}

/// Seconds between two frames of the patrol of a trial of so many.
pub(super) fn seconds_between(trial_seconds: f64) -> f64 {
    (trial_seconds / FRAMES_OF_A_TRIAL).clamp(SHORTEST, LONGEST)
}

impl Station {
    /// Lets a patrol begin beside a trial of so many seconds. None goes where nothing is forbidden, or where nobody can look out.
    pub(super) fn begin_patrol(&mut self, who: LookedOut, seconds: f64) -> Result<(), RigError> {
        if self.beside.is_none() {
            self.beside = self.beside(who)?;
        }
        let Some(beside) = &mut self.beside else { return Ok(()) };
        beside.patrol.set_out(Duration::from_secs_f64(seconds_between(seconds))).map_err(broken_traffic)
    }

    pub(super) fn end_patrol(&mut self) -> Result<Found, RigError> {
        let Some(beside) = &mut self.beside else { return Ok(Found::default()) };
        let seen = beside.patrol.halt().map_err(broken_traffic)?;
        Ok(found(&seen, &beside.kinds))
    }

    /// What a patrol between hosts sends, and what each frame shows. One sends nothing where nothing is forbidden.
    pub(super) fn forbidden_between_hosts(&self) -> (Vec<ProbeFrame>, Vec<String>) {
        let forbidden = self.probes().into_iter().filter(|probe| probe.expect == Expect::Dropped);
        forbidden.map(|probe| (probe_frame(&probe), probe.name)).unzip()
    }

    fn beside(&self, who: LookedOut) -> Result<Option<Beside>, RigError> {
        let mut forbidden = self.probes();
        forbidden.retain(|probe| probe.expect == Expect::Dropped);
        let is_named = self.site.is_opaque();
        let lookout = match who {
            _ if forbidden.is_empty() => return Ok(None),
            LookedOut::AtHosts if is_named => return Ok(None),
            LookedOut::AtHosts => Lookout::Hosts(self.take_addresses(&forbidden)?),
            LookedOut::AtPorts => Lookout::Ports,
        };
        let kinds: Vec<String> = forbidden.iter().map(|probe| probe.name.clone()).collect();
        if !is_named {
            let keep = who == LookedOut::AtHosts;
            forbidden = policy::between_other_hosts(&forbidden, PAIRS_OF_HOSTS, keep, Clock::now_ns());
        }
        let frames: Vec<_> = forbidden.iter().map(probe_frame).collect();
        let patrol =
            Patrol::new(&self.described_ports(), &frames, kinds.len(), &lookout).map_err(broken_traffic)?;
        Ok(Some(Beside { patrol, kinds }))
    }

    /// Gives the zones' namespaces the addresses at which these would arrive, so that sockets there receive them.
    fn take_addresses(&self, forbidden: &[Probe]) -> Result<Vec<(Zone, IpAddr)>, RigError> {
        let mut taken = Vec::new();
        for zone in &self.site.layout().ports {
            let to_zone = forbidden.iter().filter(|probe| probe.lane.to == zone.zone);
            let addresses: BTreeSet<IpAddr> =
                to_zone.map(|probe| probe.destination_on_arrival.ip()).collect();
            let addresses: Vec<IpAddr> = addresses.into_iter().collect();
            applications::add_addresses(zone, &addresses).map_err(broken)?;
            taken.extend(addresses.into_iter().map(|address| (zone.zone, address)));
        }
        Ok(taken)
    }

    /// Has the firewall forget its connections, and shows that it did: the answer to one that was open before must not pass any more.
    pub(super) fn forget_flows(&mut self) -> Result<(), RigError> {
        let is_built = matches!(self.site, Site::Built(_));
        let ip = self.setup.traffic.ip;
        let Some([opening, answer]) = self.policy.forgetting_probes(ip).filter(|_| is_built) else {
            return self.running.forget_flows().map_err(broken);
        };
        let ports: Vec<Port> = self.site.layout().ports.iter().map(port).collect();
        let watch = Patrol::new(&ports, &[], 0, &Lookout::Ports).map_err(broken_traffic)?;
        for probe in [&opening, &answer] {
            if !self.passes_before_long(&watch, probe)? {
                return Err(RigError::Broken(format!("probe «{}» did not arrive", probe.name)));
            }
        }
        self.running.forget_flows().map_err(broken)?;
        let remembered = watch.passes(&probe_frame(&answer), SHORT_WAIT).map_err(broken_traffic)?;
        if remembered {
            return Err(RigError::Broken(format!(
                "{} was to forget its connections and said that it did, and still let the answer to an earlier one pass («{}»)",
                self.dut, answer.name
            )));
        }
        Ok(())
    }

    fn passes_before_long(&self, watch: &Patrol, probe: &Probe) -> Result<bool, RigError> {
        for _ in 0..ATTEMPTS {
            if watch.passes(&probe_frame(probe), PATIENCE).map_err(broken_traffic)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

pub(super) fn found(seen: &Patrolled, names: &[String]) -> Found {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for which in &seen.arrived {
        *kinds.entry(&names[*which]).or_default() += 1;
    }
    let arrived = seen.arrived.len() as u64;
    let broken = (arrived > 0).then(|| {
        let listed: Vec<String> = kinds.iter().map(|(name, count)| format!("{name} {count}")).collect();
        format!(
            "the policy did not hold under load: {arrived} of {} forbidden frames beside the load arrived: {}",
            seen.sent.max(arrived),
            listed.join("; ")
        )
    });
    Found { sent: seen.sent, arrived, broken }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_patrol_saw_is_said_by_its_kinds() {
        let names = ["forbidden port, IPv4".to_owned(), "forbidden direction, IPv6".to_owned()];
        let nothing = found(&Patrolled { sent: 7, arrived: Vec::new() }, &names);
        assert_eq!(nothing, Found { sent: 7, arrived: 0, broken: None });
        let some = found(&Patrolled { sent: 7, arrived: vec![1, 0, 1] }, &names).broken.unwrap();
        assert!(
            some.ends_with("3 of 7 forbidden frames beside the load arrived: forbidden direction, IPv6 2; forbidden port, IPv4 1"),
            "{some}"
        );
    }
}
