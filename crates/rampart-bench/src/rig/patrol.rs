//! Beside every trial: frames that the policy forbids, of every kind that its proof has, in both directions and both IP versions, and frames
//! about which rules decide that no frame of the test meets. A firewall that enforces its policy while it is proved, and not while it is
//! measured, lets one of those pass, or none of these. And the proof that a firewall has forgotten its connections when it says so.

use super::station::{Station, probe_frame};
use super::{Site, broken, broken_traffic, port};
use measure::ledger::Ledger;
use measure::results::{Mark, MarkKind};
use measure::shape::Zone;
use measure::trial::{RigError, TrialOutcome};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use testbed::applications;
use testbed::layout::ZoneAddresses;
use testbed::policy::{self, Expect, Probe};
use traffic::{Clock, Lookout, Patrol, PatrolProbe, Patrolled, Port, ProbeFrame};

/// So many go along with a trial, in so far as the time between two stays within these.
const FRAMES_OF_A_TRIAL: f64 = 24.0;
const SHORTEST: f64 = 0.005;
const LONGEST: f64 = 0.05;
/// How long a frame that is allowed may take at rest, and one that must not arrive is waited for at least.
const PATIENCE: Duration = Duration::from_secs(1);
const SHORT_WAIT: Duration = Duration::from_millis(20);
/// How often one that is allowed is sent at most: links may lose it.
const ATTEMPTS: u32 = 5;
/// Between so many pairs of hosts each kind goes.
const PAIRS_OF_HOSTS: usize = 16;
/// Sockets are at so many addresses that only frames about which rules decide go to, where the load has sockets of the kernel.
const ADDRESSES_OF_RULES: usize = 8;
/// Test hosts below this number may carry a load of such sockets.
const HOSTS_OF_LOADS: u32 = 1024;

/// Of allowed frames beside a load of frames, at least this share is due as long as no more of the load than `LOST_AT_MOST` is lost: single
/// frames come when others do, so they meet the queues that those meet.
pub(super) const DUE_BESIDE_FRAMES: f64 = 0.75;
const LOST_AT_MOST: f64 = 0.1;
/// The same beside connections, which send again what is lost.
pub(super) const DUE_BESIDE_CONNECTIONS: f64 = 0.5;
/// Where so few arrive that chance would do it less often than this, the firewall does not do what its rules say.
const TOO_UNLIKELY: f64 = 1e-6;

/// Where arrivals are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookedOut {
    /// Where the engines' programs have the ports.
    AtPorts,
    /// Where the kernel's own sockets carry the load.
    AtHosts,
}

/// What a frame shows, and what the policy says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    name: String,
    expect: Expect,
}

impl From<&Probe> for Shown {
    fn from(probe: &Probe) -> Self {
        Self { name: probe.name.clone(), expect: probe.expect }
    }
}

/// Who walks beside the trials of a station.
pub(super) struct Beside {
    patrol: Patrol,
    /// Of each of its probes.
    shown: Vec<Shown>,
    /// Over all trials of the station.
    allowed: Allowed,
}

/// What a trial's patrol found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// What was let through costs the trial its value.
    pub(super) broken: Option<Mark>,
    /// Of those that are allowed, how many were sent and arrived.
    allowed: [u64; 2],
}

/// Frames that the policy allows, of those that went along with trials.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Allowed {
    sent: u64,
    arrived: u64,
    /// How many should have arrived at least.
    due: f64,
}

impl Allowed {
    fn add(&mut self, [sent, arrived]: [u64; 2], due_share: f64) {
        self.sent += sent;
        self.arrived += arrived.min(sent);
        self.due += sent as f64 * due_share;
    }

    /// With which chance at most so few arrive where each does with the share that is due (Chernoff's bound).
    fn chance(&self) -> f64 {
        let sent = self.sent as f64;
        let (due, arrived) = (self.due / sent, self.arrived as f64 / sent);
        if self.sent == 0 || arrived >= due {
            return 1.0;
        }
        let part = |share: f64, of: f64| if share > 0.0 { share * (share / of).ln() } else { 0.0 };
        (-sent * (part(arrived, due) + part(1.0 - arrived, 1.0 - due))).exp()
    }

    fn broken(&self) -> Option<Mark> {
        (self.chance() < TOO_UNLIKELY).then(|| {
            let Self { sent, arrived, due } = self;
            let text = format!(
                "the policy did not hold under load: of {sent} frames that rules allow, beside loads that passed, {arrived} arrived, and at least \
                 {due:.0} were due"
            );
            Mark::new(MarkKind::AllowedDropped, text)
        })
    }
}

/// Seconds between two frames of the patrol of a trial of so many.
pub(super) fn seconds_between(trial_seconds: f64) -> f64 {
    (trial_seconds / FRAMES_OF_A_TRIAL).clamp(SHORTEST, LONGEST)
}

/// Whether so little of a load was lost that other frames should have passed beside it.
fn has_passed(ledger: &Ledger) -> bool {
    ledger.sent().saturating_sub(ledger.received) as f64 <= LOST_AT_MOST * ledger.sent() as f64
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
        Ok(found(&seen, &beside.shown))
    }

    /// Enters what a patrol found into its trial. `due_share` of the allowed frames should have arrived if the load did; `None` where the
    /// load may leave no room for others.
    pub(super) fn judge_patrol(&mut self, found: Found, due_share: Option<f64>, outcome: &mut TrialOutcome) {
        let allowed = self.beside.as_mut().zip(due_share.filter(|_| has_passed(&outcome.ledger))).and_then(
            |(beside, due)| {
                beside.allowed.add(found.allowed, due);
                beside.allowed.broken()
            },
        );
        outcome.policy_broken = outcome.policy_broken.take().or(found.broken).or(allowed);
    }

    /// What a patrol between hosts sends, and what each frame shows. One sends nothing where nothing is forbidden.
    pub(super) fn forbidden_between_hosts(&self) -> (Vec<ProbeFrame>, Vec<Shown>) {
        let forbidden = self.probes().into_iter().filter(|probe| probe.expect == Expect::Dropped);
        forbidden.map(|probe| (probe_frame(&probe), Shown::from(&probe))).unzip()
    }

    fn beside(&self, who: LookedOut) -> Result<Option<Beside>, RigError> {
        let mut forbidden = self.probes();
        forbidden.retain(|probe| probe.expect == Expect::Dropped);
        let is_named = self.site.is_opaque();
        let at_hosts = who == LookedOut::AtHosts;
        if forbidden.is_empty() || at_hosts && is_named {
            return Ok(None);
        }
        let kinds = forbidden.len();
        if !is_named {
            forbidden = policy::between_other_hosts(&forbidden, PAIRS_OF_HOSTS, at_hosts, Clock::now_ns());
        }
        let of_rules =
            self.probes_of_rules(at_hosts, if at_hosts { ADDRESSES_OF_RULES } else { forbidden.len() });
        let addressed = forbidden.iter().take(kinds).chain(&of_rules);
        let lookout = match who {
            LookedOut::AtHosts => Lookout::Hosts(self.take_addresses(addressed)?),
            LookedOut::AtPorts => Lookout::Ports,
        };
        // Each round has every kind, and as many frames again about which rules decide.
        let mut rules = of_rules.iter().cycle();
        let mut sent: Vec<(PatrolProbe, Shown)> = Vec::new();
        for round in forbidden.chunks(kinds) {
            sent.extend(round.iter().map(|probe| (probe_frame(probe).into(), Shown::from(probe))));
            sent.extend(rules.by_ref().take(kinds).map(|probe| (from_its_port(probe), Shown::from(probe))));
        }
        let round = if of_rules.is_empty() { kinds } else { 2 * kinds };
        let (probes, shown): (Vec<_>, Vec<_>) = sent.into_iter().unzip();
        let patrol =
            Patrol::new(&self.described_ports(), &probes, round, &lookout).map_err(broken_traffic)?;
        Ok(Some(Beside { patrol, shown, allowed: Allowed::default() }))
    }

    /// Up to so many frames about which rules decide that no frame of the test meets, other ones for each bed. Where sockets carry the load,
    /// only to hosts that have none of it.
    fn probes_of_rules(&self, at_hosts: bool, count: usize) -> Vec<Probe> {
        let carries_load = |probe: &Probe| {
            let host = ZoneAddresses::of(probe.lane.to).test_host(probe.destination_on_arrival.ip());
            host.is_none_or(|host| host < HOSTS_OF_LOADS)
        };
        let mut probes = Vec::new();
        while probes.len() < count {
            let mut drawn = self.rule_probes();
            drawn.retain(|probe| !(at_hosts && carries_load(probe)));
            if drawn.is_empty() {
                break;
            }
            probes.extend(drawn);
        }
        probes.truncate(count);
        probes
    }

    /// Gives the zones' namespaces the addresses at which these would arrive, so that sockets there receive them.
    fn take_addresses<'a>(
        &self,
        probes: impl Iterator<Item = &'a Probe> + Clone,
    ) -> Result<Vec<(Zone, IpAddr)>, RigError> {
        let mut taken = Vec::new();
        for zone in &self.site.layout().ports {
            let to_zone = probes.clone().filter(|probe| probe.lane.to == zone.zone);
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

/// A rule may ask for its source port.
fn from_its_port(probe: &Probe) -> PatrolProbe {
    let port = probe.source.port();
    PatrolProbe { frame: probe_frame(probe), source_ports: port..=port }
}

pub(super) fn found(seen: &Patrolled, shown: &[Shown]) -> Found {
    let of = |places: &[usize], expect| {
        places.iter().filter(|which| shown[**which].expect == expect).count() as u64
    };
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for which in seen.arrived.iter().filter(|which| shown[**which].expect == Expect::Dropped) {
        *kinds.entry(&shown[*which].name).or_default() += 1;
    }
    let [sent, arrived] = [&seen.sent, &seen.arrived].map(|places| of(places, Expect::Dropped));
    let broken = (arrived > 0).then(|| {
        let listed: Vec<String> = kinds.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let text = format!(
            "the policy did not hold under load: {arrived} of {} forbidden frames beside the load arrived: {}",
            sent.max(arrived),
            listed.join("; ")
        );
        Mark::new(MarkKind::IllegalGotThrough, text)
    });
    let allowed = [&seen.sent, &seen.arrived].map(|places| of(places, Expect::Arrives));
    Found { sent: seen.sent.len() as u64, arrived: seen.arrived.len() as u64, broken, allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> [Shown; 3] {
        [
            ("forbidden port, IPv4", Expect::Dropped),
            ("forbidden direction, IPv6", Expect::Dropped),
            ("rule 3 of 9", Expect::Arrives),
        ]
        .map(|(name, expect)| Shown { name: name.to_owned(), expect })
    }

    #[test]
    fn what_a_patrol_saw_is_said_by_its_kinds() {
        let sent = vec![0, 1, 0, 1, 0, 1, 2, 2];
        let nothing = found(&Patrolled { sent: sent.clone(), arrived: vec![2] }, &shown());
        assert_eq!(nothing, Found { sent: 8, arrived: 1, broken: None, allowed: [2, 1] });
        let some = found(&Patrolled { sent, arrived: vec![1, 0, 1, 2] }, &shown());
        let mark = some.broken.unwrap();
        assert_eq!((some.allowed, mark.kind), ([2, 1], MarkKind::IllegalGotThrough));
        assert!(
            mark.text.ends_with(
                "3 of 6 forbidden frames beside the load arrived: forbidden direction, IPv6 2; forbidden port, IPv4 1"
            ),
            "{}",
            mark.text
        );
    }

    #[test]
    fn allowed_frames_that_stay_away_are_noticed_when_chance_cannot_explain_it() {
        // Share that is due; frames sent and arrived in each trial; after how many trials it is noticed.
        for (due, sent, arrived, noticed) in [
            (DUE_BESIDE_FRAMES, 10, 0, Some(1)),
            (DUE_BESIDE_FRAMES, 8, 4, Some(13)),
            (DUE_BESIDE_FRAMES, 8, 6, None),
            (DUE_BESIDE_FRAMES, 8, 9, None),
            (DUE_BESIDE_CONNECTIONS, 8, 0, Some(3)),
            (DUE_BESIDE_CONNECTIONS, 8, 2, Some(14)),
            (DUE_BESIDE_CONNECTIONS, 8, 4, None),
            (DUE_BESIDE_FRAMES, 0, 0, None),
        ] {
            let mut allowed = Allowed::default();
            let found = (1..=1000).find(|_| {
                allowed.add([sent, arrived], due);
                allowed.broken().is_some()
            });
            assert_eq!(found, noticed, "{due} {sent} {arrived}");
        }
    }
}
