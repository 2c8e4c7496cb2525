//! Beside every trial: frames that the policy forbids, of every kind that its proof has, in both directions and both IP versions, and frames
//! about which rules decide that no frame of the test meets. A firewall that enforces its policy while it is proved, and not while it is
//! measured, lets one of those pass, or none of these. They look like the load, and come from where it comes. And the proof that a firewall has
//! forgotten its connections when it says so.

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
use testbed::policy::{Expect, HOSTS_OF_LOADS, Hosts, Probe, Protocol};
use traffic::{Clock, Lookout, Looks, Patrol, PatrolProbe, Patrolled, Port, ProbeFrame};

/// So many go along with a trial, in so far as the time between two stays within these.
const FRAMES_OF_A_TRIAL: f64 = 40.0;
const SHORTEST: f64 = 0.005;
const LONGEST: f64 = 0.03;
/// How long a frame that is allowed may take at rest, and one that must not arrive is waited for at least.
const PATIENCE: Duration = Duration::from_secs(1);
const SHORT_WAIT: Duration = Duration::from_millis(20);
/// How often one that is allowed is sent at most: links may lose it.
const ATTEMPTS: u32 = 5;
/// Between so many pairs of hosts each kind goes.
const PAIRS_OF_HOSTS: usize = 16;
/// Sockets are at so many addresses that only frames about which rules decide go to, where the load has sockets of the kernel.
const ADDRESSES_OF_RULES: usize = 8;

/// Of allowed frames beside a load of frames, at least this share is due as long as no more of the load than `LOST_AT_MOST` is lost: single
/// frames come when others do, so they meet the queues that those meet.
pub(super) const DUE_BESIDE_FRAMES: f64 = 0.75;
const LOST_AT_MOST: f64 = 0.1;
/// The same beside connections, which send again what is lost.
pub(super) const DUE_BESIDE_CONNECTIONS: f64 = 0.5;
/// Where so few arrive that chance would do it less often than this, the firewall does not do what its rules say.
const TOO_UNLIKELY: f64 = 1e-6;

/// Who carries the load, and so what it looks like and where arrivals are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// The generator of frames, whose programs have the ports.
    Generator,
    /// Client and server of the bench, whose programs have them.
    Engine,
    /// The kernel's own sockets.
    Kernel,
}

/// What a frame shows, and what the policy says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    name: String,
    protocol: &'static str,
    expect: Expect,
}

impl From<&Probe> for Shown {
    fn from(probe: &Probe) -> Self {
        let protocol = match probe.protocol {
            Protocol::Udp => "UDP",
            Protocol::Tcp => "TCP",
            Protocol::Icmp => "ICMP",
            Protocol::Any => "IP",
        };
        Self { name: probe.name.clone(), protocol, expect: probe.expect }
    }
}

/// Who walks beside the trials of a station.
pub(super) struct Beside {
    patrol: Patrol,
    /// Of each of its probes.
    shown: Vec<Shown>,
    /// Over all trials of the station, by protocols: a firewall may leave out the rules of one.
    allowed: BTreeMap<&'static str, Allowed>,
}

/// What a trial's patrol found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) counted: Patrolled,
    /// What was let through costs the trial its value.
    pub(super) broken: Option<Mark>,
    /// Of those that are allowed, how many were sent and arrived, by protocols.
    allowed: BTreeMap<&'static str, [u64; 2]>,
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

    fn broken(&self, protocol: &str) -> Option<Mark> {
        (self.chance() < TOO_UNLIKELY).then(|| {
            let Self { sent, arrived, due } = self;
            let text = format!(
                "the policy did not hold under load: of {sent} frames that rules allow, beside loads that passed, {arrived} arrived, and at least \
                 {due:.0} were due ({protocol})"
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
    pub(super) fn begin_patrol(&mut self, carrier: Carrier, seconds: f64) -> Result<(), RigError> {
        if self.beside.is_none() {
            self.beside = self.beside(carrier)?;
        }
        // A mark as stamps have them, but of neither the trial before nor this one, whose sinks would take the frames for their own.
        let mark = match carrier {
            Carrier::Generator => Some(self.shared.engine()?.borrow().last_mark().wrapping_sub(1)),
            Carrier::Engine | Carrier::Kernel => None,
        };
        let Some(beside) = &mut self.beside else { return Ok(()) };
        let every = Duration::from_secs_f64(seconds_between(seconds));
        beside.patrol.set_out(every, mark).map_err(broken_traffic)
    }

    pub(super) fn end_patrol(&mut self) -> Result<Found, RigError> {
        let Some(beside) = &mut self.beside else { return Ok(Found::default()) };
        let seen = beside.patrol.halt().map_err(broken_traffic)?;
        Ok(found(seen, &beside.shown))
    }

    /// Enters what a patrol found into its trial. `due_share` of the allowed frames should have arrived if the load did; `None` where the
    /// load may leave no room for others.
    pub(super) fn judge_patrol(&mut self, found: Found, due_share: Option<f64>, outcome: &mut TrialOutcome) {
        let passed = due_share.filter(|_| has_passed(&outcome.ledger));
        let allowed = self.beside.as_mut().zip(passed).and_then(|(beside, due)| {
            for (protocol, counts) in found.allowed {
                beside.allowed.entry(protocol).or_default().add(counts, due);
            }
            beside.allowed.iter().find_map(|(protocol, allowed)| allowed.broken(protocol))
        });
        outcome.policy_broken = outcome.policy_broken.take().or(found.broken).or(allowed);
    }

    /// What a patrol between hosts sends, and what each frame shows. One sends nothing where nothing is forbidden.
    pub(super) fn forbidden_between_hosts(&self) -> (Vec<ProbeFrame>, Vec<Shown>) {
        let forbidden = self.probes().into_iter().filter(|probe| probe.expect == Expect::Dropped);
        forbidden.map(|probe| (probe_frame(&probe), Shown::from(&probe))).unzip()
    }

    fn beside(&self, carrier: Carrier) -> Result<Option<Beside>, RigError> {
        let mut forbidden = self.probes();
        forbidden.retain(|probe| probe.expect == Expect::Dropped);
        let is_named = self.site.is_opaque();
        let at_hosts = carrier == Carrier::Kernel;
        if forbidden.is_empty() || at_hosts && is_named {
            return Ok(None);
        }
        let kinds = forbidden.len();
        if !is_named {
            let hosts = match carrier {
                Carrier::Generator => Hosts::AnyAndOfLoad(traffic::hosts_of(&self.setup.traffic)),
                Carrier::Engine => Hosts::Any,
                Carrier::Kernel => Hosts::One,
            };
            forbidden = self.policy.between_other_ends(&forbidden, PAIRS_OF_HOSTS, &hosts, Clock::now_ns());
        }
        let of_rules =
            self.probes_of_rules(at_hosts, if at_hosts { ADDRESSES_OF_RULES } else { forbidden.len() });
        let addressed = forbidden.iter().take(kinds).chain(&of_rules);
        let lookout = match carrier {
            Carrier::Kernel => Lookout::Hosts(self.take_addresses(addressed)?),
            Carrier::Generator | Carrier::Engine => Lookout::Ports,
        };
        // Each round has every kind, and as many frames again about which rules decide.
        let mut rules = of_rules.iter().cycle();
        let mut sent: Vec<(PatrolProbe, Shown)> = Vec::new();
        for round in forbidden.chunks(kinds) {
            sent.extend(round.iter().map(|probe| (self.of_its_kind(probe), Shown::from(probe))));
            sent.extend(rules.by_ref().take(kinds).map(|probe| (of_its_rule(probe), Shown::from(probe))));
        }
        let round = if of_rules.is_empty() { kinds } else { 2 * kinds };
        let (probes, shown): (Vec<_>, Vec<_>) = sent.into_iter().unzip();
        let ports = self.described_ports();
        let patrol =
            Patrol::new(&ports, &probes, round, &lookout, self.looks(carrier)).map_err(broken_traffic)?;
        Ok(Some(Beside { patrol, shown, allowed: BTreeMap::new() }))
    }

    fn looks(&self, carrier: Carrier) -> Looks {
        match carrier {
            Carrier::Generator => Looks::of_frames(&self.setup.traffic),
            Carrier::Engine => Looks::of_connections(),
            Carrier::Kernel => Looks::of_sockets(),
        }
    }

    /// A probe from and to any ports of which the policy says the same. Of a box the owner stated ports.
    fn of_its_kind(&self, probe: &Probe) -> PatrolProbe {
        let stated = PatrolProbe { has_any_form: true, ..probe_frame(probe).into() };
        if self.site.is_opaque() {
            return stated;
        }
        let [source_ports, destination_ports] = probe.ports_of_its_kind(self.setup.policy.protocol);
        PatrolProbe { source_ports, destination_ports, ..stated }
    }

    /// Up to so many frames about which rules decide that no frame of the test meets, other ones for each bed. Where sockets carry the load,
    /// only to hosts that have none of it.
    fn probes_of_rules(&self, at_hosts: bool, count: usize) -> Vec<Probe> {
        let carries_load = |probe: &Probe| {
            let host = ZoneAddresses::of(probe.lane.to).test_host(probe.destination_on_arrival.ip());
            host.is_some_and(|host| host < HOSTS_OF_LOADS)
        };
        let mut probes = Vec::new();
        while probes.len() < count {
            let mut drawn = self.rule_probes(true);
            drawn.retain(|probe| !(at_hosts && carries_load(probe)));
            if drawn.is_empty() {
                break;
            }
            probes.extend(drawn);
        }
        // They are in the order of what becomes of them.
        let step = (probes.len() / count.max(1)).max(1);
        probes.into_iter().step_by(step).take(count).collect()
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
        let looks = Looks::of_connections();
        let watch = Patrol::new(&ports, &[], 0, &Lookout::Ports, looks).map_err(broken_traffic)?;
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

/// A rule asks for ports, and not of echo requests, which have numbers there.
fn of_its_rule(probe: &Probe) -> PatrolProbe {
    let exactly = PatrolProbe::exactly(probe_frame(probe));
    match probe.protocol {
        Protocol::Icmp => {
            PatrolProbe { source_ports: 0..=u16::MAX, destination_ports: 0..=u16::MAX, ..exactly }
        }
        _ => exactly,
    }
}

pub(super) fn found(seen: Patrolled, shown: &[Shown]) -> Found {
    let of = |places: &[usize], expect| {
        places.iter().filter(|which| shown[**which].expect == expect).count() as u64
    };
    let mut allowed: BTreeMap<&'static str, [u64; 2]> = BTreeMap::new();
    for (at, places) in [&seen.sent, &seen.arrived].into_iter().enumerate() {
        for Shown { protocol, .. } in
            places.iter().map(|which| &shown[*which]).filter(|shown| shown.expect == Expect::Arrives)
        {
            allowed.entry(protocol).or_default()[at] += 1;
        }
    }
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
    Found { counted: seen, broken, allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> [Shown; 3] {
        [
            ("forbidden port, IPv4", "UDP", Expect::Dropped),
            ("forbidden direction, IPv6", "UDP", Expect::Dropped),
            ("rule 3 of 9", "TCP", Expect::Arrives),
        ]
        .map(|(name, protocol, expect)| Shown { name: name.to_owned(), protocol, expect })
    }

    #[test]
    fn what_a_patrol_saw_is_said_by_its_kinds() {
        let seen = |arrived| Patrolled { sent: vec![0, 1, 0, 1, 0, 1, 2, 2], arrived, frames: [8, 8] };
        let nothing = found(seen(vec![2]), &shown());
        let allowed = BTreeMap::from([("TCP", [2, 1])]);
        assert_eq!(nothing, Found { counted: seen(vec![2]), broken: None, allowed: allowed.clone() });
        let some = found(seen(vec![1, 0, 1, 2]), &shown());
        let mark = some.broken.unwrap();
        assert_eq!((some.allowed, mark.kind), (allowed, MarkKind::IllegalGotThrough));
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
                allowed.broken("TCP").is_some()
            });
            assert_eq!(found, noticed, "{due} {sent} {arrived}");
        }
    }
}
