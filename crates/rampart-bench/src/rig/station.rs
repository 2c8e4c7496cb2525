//! What every rig stands on: a bed with a firewall under test in it, the policy that it was given, and the proof that it
//! enforces it. What the traffic is, rigs decide.

use super::patrol::Beside;
use super::trespass::Trespass;
use super::{Hosts, Shared, Site, broken, broken_traffic, port};
use crate::between::{Between, Where};
use measure::application::Protocol;
use measure::shape::{Placement, Setup, TestProtocol, Zone};
use measure::trial::RigError;
use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;
use testbed::TestbedError;
use testbed::applications::Segments;
use testbed::bed::{Bed, BedSpec, CoreSplit};
use testbed::cpu::CpuSnapshot;
use testbed::dut::{self, Driver, ExternalBed, Running};
use testbed::netns::Namespace;
use testbed::policy::{self, Expect, PolicySpec, Probe};
use traffic::app::Side;
use traffic::{Arrival, Clock, Port, Ports, ProbeFrame, Transport};

/// How long the beds' kernel firewalls remember an idle UDP flow. Their own 30 s would let flows expire in the middle
/// of a trial with many flows and a low rate, and the trial would measure something else.
const FLOW_SECONDS: &str = "600";

/// How often a probe that must arrive is sent at most.
const PROBE_ATTEMPTS: usize = 5;
/// Where another core, a program or a card hands frames on, one that must not arrive is waited for so long.
pub(super) const FORBIDDEN_WAIT: Duration = Duration::from_millis(100);

/// In which order probes are sent.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// Of all directions, one after the other at once: what an answer should meet may come behind it.
    AllTogether,
    /// Of one direction, so often at most.
    OneWay { left: usize },
}

/// What is wrong with what became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// It did not arrive. Losses are measured and not proved, and a box may drop the first packet to a neighbour while it looks for it.
    Lost,
    /// The policy forbids it, and it arrived: once is enough.
    Passed,
    /// It arrived elsewhere, or otherwise.
    Changed,
}

impl Order {
    /// Whether probes of which these are wrong say nothing yet of the firewall.
    fn allows_another_try(self, mut wrong: impl Iterator<Item = Wrong>) -> bool {
        match self {
            Order::AllTogether => wrong.all(|wrong| wrong != Wrong::Passed),
            Order::OneWay { left } => wrong.all(|wrong| wrong == Wrong::Lost && left > 1),
        }
    }
}

/// One firewall under test in its place. Fields are dropped in order: the firewall before its bed.
pub(super) struct Station {
    pub(super) dut: String,
    pub(super) driver: &'static dyn Driver,
    pub(super) shared: Shared,
    /// What goes along with trials and must not arrive, once there has been one.
    pub(super) beside: Option<Beside>,
    /// What was asked of the ends' offloads.
    pub(super) segments: Segments,
    /// The frame engine's ports, while it has them.
    pub(super) frame_ports: Option<Ports>,
    pub(super) running: Box<dyn Running>,
    pub(super) site: Site,
    pub(super) setup: Setup,
    pub(super) policy: PolicySpec,
    pub(super) cores: Vec<usize>,
}

impl Station {
    /// Builds the bed and sets the firewall up.
    pub(super) fn build(
        dut: &str,
        setup: &Setup,
        replaceable: bool,
        shared: &Shared,
    ) -> Result<Self, RigError> {
        if let Some(between) = shared.between.clone().filter(|between| between.firewall.name() == dut) {
            return Self::external(&between, setup, shared);
        }
        let driver = dut::driver(dut).map_err(broken)?;
        if let Some(what) = driver.cannot_handle(setup) {
            return Err(broken(TestbedError::Unsupported { dut: driver.name(), what }));
        }
        let split = cores_for(setup)?;
        let spec = BedSpec {
            zones: setup.zones,
            wiring: driver.wiring(),
            largest_frame: setup.traffic.frame.largest(),
            placement: setup.placement,
            cores: split.clone(),
            link_bits_per_second: setup.link_bits_per_second,
        };
        let bed = Bed::build(&spec).map_err(broken)?;
        let policy = policy_for(driver, setup, replaceable)?;
        let running = driver.set_up(&bed, &policy).map_err(broken)?;
        keep_flows(&bed, setup);
        let segments = if setup.offloads { Segments::Any } else { Segments::Apart };
        if segments == Segments::Apart {
            testbed::applications::keep_segments_apart(&bed).map_err(broken)?;
        }
        Ok(Self {
            dut: dut.to_owned(),
            driver,
            shared: shared.clone(),
            beside: None,
            segments,
            frame_ports: None,
            running,
            site: Site::Built(bed),
            setup: setup.clone(),
            policy,
            cores: split.generator.iter().map(|&core| core as usize).collect(),
        })
    }

    /// Takes two named interfaces and whatever is between them.
    fn external(between: &Between, setup: &Setup, shared: &Shared) -> Result<Self, RigError> {
        let firewall = between.firewall;
        if let Some(what) = firewall.capabilities().lacks(&setup.policy, setup.zones) {
            return Err(RigError::Unsupported(format!(
                "{} cannot do {what}: leave it out of this test",
                firewall.name()
            )));
        }
        let (running, site) = match &between.ports {
            Where::Here(ports) => {
                let bed = ports.bed().map_err(broken)?;
                // The box may look for every test host itself.
                shared.engine()?.borrow_mut().set_answer_neighbours(true);
                (bed.running(), Site::Named(bed))
            }
            Where::Hosts(link) => (ExternalBed::unknown(), Site::Hosts(Box::new(Hosts::open(link, setup)?))),
        };
        Ok(Self {
            dut: firewall.name().to_owned(),
            driver: firewall,
            shared: shared.clone(),
            beside: None,
            segments: Segments::Any,
            frame_ports: None,
            running,
            site,
            setup: setup.clone(),
            policy: firewall.policy(setup).map_err(broken)?,
            cores: (0..setup.traffic.cores as usize).collect(),
        })
    }

    /// The cores that a trial may work on: the generator's, and in isolated placement the firewall's.
    pub(super) fn own_cores(&self) -> Vec<u32> {
        let of_generator = self.cores.iter().map(|&core| core as u32);
        match (&self.site, self.setup.placement) {
            (Site::Built(_), Placement::Isolated) => testbed::placement::cores_online(),
            _ => of_generator.collect(),
        }
    }

    /// The processor time so far, as the firewall of a trial uses it: its receive threads and its programs.
    pub(super) fn processor_time(&self, threads: &[i32]) -> Result<CpuSnapshot, RigError> {
        let firewall = match &self.site {
            Site::Built(bed) => bed.firewall().map(Namespace::name),
            Site::Named(_) | Site::Hosts(_) => None,
        };
        CpuSnapshot::take(threads, &self.own_cores(), firewall).map_err(broken)
    }

    /// Every zone's port, private first and hostile last.
    pub(super) fn described_ports(&self) -> Vec<Port> {
        self.site.layout().ports.iter().map(port).collect()
    }

    /// Gives the ports to the frame engine, which sends probes as well.
    pub(super) fn lend_to_frames(&mut self) -> Result<(), RigError> {
        // Agents have the ports of their hosts.
        if self.frame_ports.is_none() && !matches!(self.site, Site::Hosts(_)) {
            let ports = self.described_ports();
            let attached = self.shared.engine()?.borrow_mut().attach(&ports).map_err(broken_traffic)?;
            self.frame_ports = Some(attached);
        }
        Ok(())
    }

    /// Takes the ports back from the frame engine.
    pub(super) fn take_from_frames(&mut self) {
        if let Some(ports) = self.frame_ports.take()
            && let Ok(Ok(mut engine)) = self.shared.engine().map(RefCell::try_borrow_mut)
        {
            engine.detach(ports);
        }
    }

    /// Pins receive work again: a port that got its first XDP program has new threads.
    pub(super) fn place(&self) -> Result<(), RigError> {
        match &self.site {
            Site::Built(bed) => bed.place().map_err(broken),
            Site::Named(_) | Site::Hosts(_) => Ok(()),
        }
    }

    /// Whether the firewall is what was set up, and the ends of its links as well.
    pub(super) fn check_alive(&self) -> Result<(), TestbedError> {
        self.running.check_alive()?;
        match &self.site {
            Site::Built(bed) => self.segments.check(bed),
            Site::Named(_) | Site::Hosts(_) => Ok(()),
        }
    }

    /// Shows by probes that the policy is enforced. The frame engine has the ports.
    pub(super) fn prove(&self) -> Result<(), RigError> {
        if self.shared.interrupt.asked() {
            return Err(RigError::Interrupted);
        }
        let probes = self.probes();
        if !(self.forwards_at_once() && self.are_right(&probes, Order::AllTogether)?) {
            // Where the ways are not one core's, an answer could overtake what it answers: one direction at a time.
            self.prove_one_way(&probes)?;
        }
        self.prove_one_way(&self.rule_probes(false))?;
        self.running.check_alive().map_err(broken)
    }

    /// Whether a frame has arrived, or never will, as soon as it was sent: one core does all that is done with it.
    fn forwards_at_once(&self) -> bool {
        let one_core = self.setup.placement == Placement::Inline && matches!(self.site, Site::Built(_));
        one_core && !self.driver.hands_on_later()
    }

    fn prove_one_way(&self, probes: &[Probe]) -> Result<(), RigError> {
        for direction in probes.chunk_by(|a, b| a.lane == b.lane) {
            let mut left = PROBE_ATTEMPTS;
            while !self.are_right(direction, Order::OneWay { left })? {
                left -= 1;
            }
        }
        Ok(())
    }

    /// Rules that no trial meets, others in each proof; `with_icmp` those about ICMP as well. Of a box of `--ports` nobody but its owner knows
    /// them.
    pub(super) fn rule_probes(&self, with_icmp: bool) -> Vec<Probe> {
        let Site::Built(_) = &self.site else { return Vec::new() };
        let mut probes = self.policy.rule_probes(with_icmp, Clock::now_ns());
        // A proxy may take a connection to anybody for itself.
        if self.driver.relays(Protocol::Http11).is_some() {
            probes.retain(|probe| probe.segment.is_none());
        }
        probes
    }

    /// What must be shown: of a box that somebody else configured, what its owner states.
    pub(super) fn probes(&self) -> Vec<Probe> {
        match (&self.site, &self.shared.between) {
            (Site::Named(_) | Site::Hosts(_), Some(between)) => {
                between.firewall.probes(&self.policy, &self.setup)
            }
            _ => self.policy.probes(),
        }
    }

    /// The ports of the forbidden traffic that goes along with trial number `trial`: what its owner stated of a box, one after the other,
    /// and otherwise what the policy forbids. Nobody stated anything of answers, so none go along where there are some.
    pub(super) fn forbidden_ports(&self, tested: TestProtocol, trial: u64) -> Option<RangeInclusive<u16>> {
        let stated = match (&self.site, &self.shared.between) {
            (Site::Named(_) | Site::Hosts(_), Some(between)) => between.firewall.forbidden_ports(tested),
            _ => Vec::new(),
        };
        if stated.is_empty() {
            return self.policy.forbidden_ports();
        }
        let answered =
            tested == TestProtocol::Udp && self.setup.lanes().iter().any(|(lane, _)| lane.is_reverse());
        stated.get(trial as usize % stated.len()).filter(|_| !answered).map(|&port| port..=port)
    }

    /// Forbidden connections for as long as a trial of the kernel's sockets goes on; none where nothing is forbidden.
    pub(super) fn trespass(&self, clients: Side, to: IpAddr) -> Result<Option<Trespass>, RigError> {
        let Some(ports) = self.policy.forbidden_ports() else { return Ok(None) };
        let missing = || RigError::Broken("a bed without a hostile zone".to_owned());
        let servers = self.site.layout().port(Zone::Hostile).ok_or_else(missing)?;
        let begun = Trespass::begin(clients, &servers.end.namespace, to, &ports, Clock::now_ns());
        begun.map(Some).map_err(RigError::Broken)
    }

    /// Sends probes. Returns whether all that became of them is right, or else whether it may be asked again.
    ///
    /// # Errors
    /// The policy is not enforced.
    fn are_right(&self, probes: &[Probe], order: Order) -> Result<bool, RigError> {
        let frames: Vec<ProbeFrame> = probes.iter().map(probe_frame).collect();
        let expected = probes.iter().filter(|p| p.expect == Expect::Arrives).count();
        let arrivals = match &self.site {
            Site::Hosts(hosts) => hosts.probe(&frames, expected)?,
            Site::Built(_) | Site::Named(_) => {
                let mut engine = self.shared.engine()?.borrow_mut();
                let beyond = if self.forwards_at_once() { Duration::ZERO } else { FORBIDDEN_WAIT };
                engine.probe(lent(&self.frame_ports)?, &frames, expected, beyond).map_err(broken_traffic)?
            }
        };
        let pairs = probes.iter().zip(&arrivals);
        let wrong: Vec<(Wrong, String)> =
            pairs.filter_map(|(probe, arrival)| self.misbehaviour(probe, arrival.as_ref())).collect();
        if order.allows_another_try(wrong.iter().map(|(wrong, _)| *wrong)) {
            return Ok(wrong.is_empty());
        }
        let texts: Vec<String> = wrong.into_iter().map(|(_, text)| text).collect();
        Err(RigError::Broken(texts.join("; ")))
    }

    /// What is wrong with what became of a probe, if anything.
    fn misbehaviour(&self, probe: &Probe, arrival: Option<&Arrival>) -> Option<(Wrong, String)> {
        let name = &probe.name;
        let arrival = match (probe.expect, arrival) {
            (Expect::Arrives, None) => return Some((Wrong::Lost, format!("probe «{name}» did not arrive"))),
            (Expect::Dropped, Some(_)) => {
                return Some((Wrong::Passed, format!("probe «{name}» arrived, but the policy forbids it")));
            }
            (Expect::Dropped, None) => return None,
            (Expect::Arrives, Some(arrival)) => arrival,
        };
        let zone =
            self.site.layout().ports.iter().find(|p| p.end.mac.0 == arrival.destination_mac).map(|p| p.zone);
        if zone != Some(probe.lane.to) {
            return Some((Wrong::Changed, format!("probe «{name}» arrived at the wrong port")));
        }
        let (source, destination) = (probe.source_on_arrival, probe.destination_on_arrival);
        // A translation may choose another port when the one that the host used is taken.
        let same = arrival.source.ip() == source.ip() && arrival.destination == destination;
        (!same).then(|| {
            let text = format!(
                "probe «{name}» arrived as {} to {} instead of {source} to {destination}",
                arrival.source, arrival.destination
            );
            (Wrong::Changed, text)
        })
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.take_from_frames();
    }
}

/// The frame engine's ports, which it must have.
pub(super) fn lent(ports: &Option<Ports>) -> Result<&Ports, RigError> {
    ports.as_ref().ok_or_else(|| RigError::Broken("the ports were given back already".to_owned()))
}

/// The first cores generate. Inline they are the firewall's too; isolated, the firewall gets all the others.
fn cores_for(setup: &Setup) -> Result<CoreSplit, RigError> {
    let generating = setup.traffic.cores;
    if setup.placement == Placement::Inline {
        return CoreSplit::of(Placement::Inline, generating).map_err(broken);
    }
    let online = testbed::placement::cores_online();
    let (generator, firewall) = online.split_at(online.len().min(generating as usize));
    if firewall.is_empty() {
        return Err(RigError::Broken(format!(
            "isolated placement needs a core for the firewall beside {generating} that generate, and there are {}",
            online.len()
        )));
    }
    Ok(CoreSplit { generator: generator.to_vec(), firewall: firewall.to_vec() })
}

/// The policy of a setup as the firewall enforces it, or none for one that only forwards.
fn policy_for(driver: &dyn Driver, setup: &Setup, replaceable: bool) -> Result<PolicySpec, RigError> {
    if driver.capabilities().only_forwards() {
        return Ok(PolicySpec::forward_everything(setup.zones));
    }
    let generate = if replaceable { PolicySpec::generate_replaceable } else { PolicySpec::generate };
    let policy = generate(&driver.capabilities().as_enforced(&setup.policy), setup.zones).map_err(broken)?;
    Ok(PolicySpec { connections: setup.traffic.flows, ..policy })
}

fn keep_flows(bed: &Bed, setup: &Setup) {
    if !(setup.policy.stateful || setup.policy.nat) {
        return;
    }
    let Some(firewall) = bed.firewall() else { return };
    for name in ["nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"] {
        // A firewall without connection tracking has no such setting.
        let _ = firewall.set(&[(&format!("netfilter/{name}"), FLOW_SECONDS)]);
    }
}

pub(super) fn probe_frame(probe: &Probe) -> ProbeFrame {
    ProbeFrame {
        from: probe.lane.from,
        source: probe.source.ip(),
        destination: probe.destination.ip(),
        transport: match probe.segment {
            Some(segment) => Transport::Tcp {
                sequence: segment.sequence(),
                acknowledgement: segment.acknowledgement(),
                flags: segment.flags(),
            },
            None if probe.protocol == policy::Protocol::Icmp => Transport::Echo,
            None => Transport::Udp,
        },
        source_port: probe.source.port(),
        destination_port: probe.destination.port(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_and_arrives_is_never_asked_again() {
        use Wrong::{Changed, Lost, Passed};
        let last = Order::OneWay { left: 1 };
        for (wrong, allowed) in [
            (&[][..], [true, true, true]),
            (&[Lost, Lost], [true, true, false]),
            (&[Changed], [true, false, false]),
            (&[Lost, Changed], [true, false, false]),
            (&[Passed], [false, false, false]),
            (&[Lost, Passed, Changed], [false, false, false]),
        ] {
            let orders = [Order::AllTogether, Order::OneWay { left: PROBE_ATTEMPTS }, last];
            let found = orders.map(|order| order.allows_another_try(wrong.iter().copied()));
            assert_eq!(found, allowed, "{wrong:?}");
        }
    }
}
