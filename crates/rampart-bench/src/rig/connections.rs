//! A rig whose trials are of TCP connections: the run's client opens them, its server answers, and both count. Probes are
//! the frame engine's, which has the ports only while it proves.

use super::machine_time::MachineTime;
use super::patrol::{Carrier, DUE_BESIDE_CONNECTIONS};
use super::station::{Station, probe_frame};
use super::{SEEN_TOO_LITTLE, Shared, broken, broken_traffic, other_workload, replacement};
use crate::interrupt::Interrupt;
use crate::ledger::link_losses;
use measure::connections::{
    CloseBy, ConnectionOutcome, ConnectionRequest, ConnectionShape, IllegalKind, RatePhase,
    ReplacementOutcome, ResetOutcome, TupleOrder,
};
use measure::ledger::{ConnectionPlaces, Ledger, Places};
use measure::shape::{IpVersion, Setup, TestProtocol};
use measure::trial::{Rig, RigError, SecondSample, TrialOutcome, TrialRequest, WorkloadOutcome};
use std::cell::OnceCell;
use std::time::Duration;
use testbed::policy::PolicySpec;
use traffic::tcp::{
    Answer, Close, Ends, FORBIDDEN_PORT, IllegalPlan, Message, Opening, Order, Ports, Side, TcpPhase,
    TcpPlan, TcpReading,
};
use traffic::{Clock, FIRST_HOST, ProbeStream, Watch};

/// The port that servers listen on.
const SERVER_PORT: u16 = 80;
/// Client ports begin here (RFC 4814 section 4.5).
const FIRST_CLIENT_PORT: u16 = 1024;
/// First retransmission after this long (RFC 6298 section 2.1).
const RETRY: Duration = Duration::from_secs(1);
/// Retransmissions before a connection is given up: 1 + 2 + 4 seconds and what is left of the settling.
const RETRIES: u8 = 3;
/// Longest wait without any progress for open connections after the last phase.
const SETTLE: Duration = Duration::from_secs(3);

/// How often a trial is looked at, so that it is known when its connections ended.
const TICKS: f64 = 100.0;
const SHORTEST_TICK: Duration = Duration::from_millis(2);
const LONGEST_TICK: Duration = Duration::from_millis(20);

/// A round of probes while a policy is replaced.
const PROBE_EVERY: Duration = Duration::from_millis(1);
/// The share of forbidden attempts that the bench adds to a trial, and how many it adds at least.
const FORBIDDEN_SHARE: f64 = 0.001;
const FEWEST_FORBIDDEN: f64 = 8.0;
/// Listed addresses that illegal attempts come from.
const LISTED_SOURCES: usize = 4_096;

/// One firewall under test, ready for trials of connections.
pub(crate) struct ConnectionRig {
    /// The client's and the server's port, while the TCP engine has them. Dropped before the bed.
    ports: Option<Ports>,
    shape: ConnectionShape,
    /// Trials run so far.
    trials: u64,
    /// Addresses of the cell's block lists, once they are needed.
    listed: OnceCell<Vec<u32>>,
    station: Station,
}

impl ConnectionRig {
    /// Builds the bed and sets the firewall up; `replaceable` with a policy whose probes differ from its successor's.
    pub(crate) fn build(
        dut: &str,
        setup: &Setup,
        shape: &ConnectionShape,
        replaceable: bool,
        shared: &Shared,
    ) -> Result<Self, RigError> {
        let station = Station::build(dut, setup, replaceable, shared)?;
        Ok(Self { ports: None, shape: shape.clone(), trials: 0, listed: OnceCell::new(), station })
    }

    /// Gives the ports to client and server.
    fn lend_to_tcp(&mut self) -> Result<(), RigError> {
        if self.ports.is_some() {
            return Ok(());
        }
        self.station.take_from_frames();
        let described = self.station.described_ports();
        let [client, .., server] = described.as_slice() else {
            return Err(RigError::Broken("a bed of one zone".to_owned()));
        };
        let engine = self.station.shared.connections()?;
        let attached = engine.borrow_mut().attach(client, server, Ends::Both).map_err(broken_traffic)?;
        self.ports = Some(attached);
        self.station.place()
    }

    /// What the engine is to do: the cell's shape under the trial's load.
    fn plan(&self, request: &ConnectionRequest) -> Result<TcpPlan, RigError> {
        let traffic = &self.station.setup.traffic;
        let illegal = self.illegal(request);
        let (opening, hold_all) = opening(request, illegal.as_ref());
        let (close, four_way) = match self.shape.close {
            _ if hold_all => (Close::Never, false),
            CloseBy::Reset => (Close::Reset, false),
            CloseBy::Client => (Close::ClientFin, false),
            CloseBy::Server => (Close::ServerFin, false),
            CloseBy::ClientFourWay => (Close::ClientFin, true),
            CloseBy::Hold => (Close::Never, false),
        };
        let get = if self.shape.transactions > 1 {
            Message::http11_get("/", "server")
        } else {
            Message::http_get("/")
        };
        let mut plan = TcpPlan {
            ip: traffic.ip,
            cores: self.station.cores.clone(),
            clients: Side {
                first_host: u32::from(FIRST_HOST),
                hosts: traffic.clients,
                first_port: FIRST_CLIENT_PORT,
                ports: traffic.flows.div_ceil(traffic.clients),
            },
            servers: Side {
                first_host: u32::from(FIRST_HOST),
                hosts: traffic.servers,
                first_port: SERVER_PORT,
                ports: 1,
            },
            tuples: traffic.flows,
            order: match self.shape.order {
                TupleOrder::Random => Order::Random,
                TupleOrder::Sequential => Order::Sequential,
            },
            // What a firewall remembers of the trial before must not be what this one is made of.
            seed: traffic.seed.wrapping_add(self.trials),
            request: get,
            answer: Answer::Exactly(Message::http_answer(self.shape.answer_bytes as usize)),
            transactions: self.shape.transactions,
            close,
            four_way,
            hold: Duration::from_secs_f64(self.shape.hold_seconds),
            reuse: Duration::from_secs_f64(self.shape.reuse_seconds),
            retry: RETRY,
            retries: RETRIES,
            settle: SETTLE,
            attack: request.attack(),
            illegal,
            translates: self.station.policy.shape.nat,
            ..TcpPlan::new(opening)
        };
        // The same as for frames.
        plan.grace = Duration::from_secs_f64(traffic::grace_seconds(plan.seconds()));
        Ok(plan)
    }

    /// The illegal attempts of the cell; or, where it has none, a few of the bench's own that the policy forbids, or that its owner states
    /// not to pass.
    fn illegal(&self, request: &ConnectionRequest) -> Option<IllegalPlan> {
        if let Some(illegal) = &self.shape.illegal {
            return Some(IllegalPlan::new(illegal, self.listed().to_vec()));
        }
        let mut kinds = forbidden_kinds(&self.station.policy, self.station.setup.traffic.ip);
        let ports = self.station.forbidden_ports(TestProtocol::Tcp, self.trials);
        if ports.is_some() && kinds.is_empty() {
            kinds.push(IllegalKind::Port);
        }
        let listed = if kinds.contains(&IllegalKind::Listed) { self.listed().to_vec() } else { Vec::new() };
        let share = forbidden_share(request);
        (!kinds.is_empty()).then_some(IllegalPlan {
            share,
            kinds,
            ports: ports.unwrap_or(FORBIDDEN_PORT..=FORBIDDEN_PORT),
            listed,
            watches: true,
        })
    }

    /// Addresses of the lists that the cell has, whether this firewall was given them or only forwards.
    fn listed(&self) -> &[u32] {
        self.listed.get_or_init(|| {
            let setup = &self.station.setup;
            match PolicySpec::generate(&setup.policy, setup.zones) {
                Ok(policy) => {
                    policy.listed_sample(LISTED_SOURCES, Clock::now_ns()).into_iter().map(u32::from).collect()
                }
                Err(_) => Vec::new(),
            }
        })
    }

    fn run_trial(&mut self, request: &ConnectionRequest) -> Result<TrialOutcome, RigError> {
        self.trials += 1;
        let plan = self.plan(request)?;
        self.lend_to_tcp()?;
        if fills_the_table(request) {
            self.station.forget_flows()?;
        }
        let threads = self.station.running.firewall_threads();
        let cpu = self.station.processor_time(&threads)?;
        let begun = MachineTime::now();
        let links = self.station.site.links();
        let mut watch = Follower::new(self.station.shared.interrupt.clone(), &plan);
        // While a policy is replaced, whatever passes for a moment is measured, and no lie.
        if !replaces(request) {
            self.station.begin_patrol(Carrier::Engine, plan.seconds())?;
        }
        let done = self.run(&plan, request, &mut watch);
        let patrol = self.station.end_patrol()?;
        let done = done?;
        let cpu_use = self.station.processor_time(&threads)?.since(&cpu);
        let mut faults = Vec::new();
        if let Err(dead) = self.station.running.check_alive() {
            faults.push(dead.to_string());
        }
        faults.extend(done.last.is_doubtful().then(|| SEEN_TOO_LITTLE.to_owned()));
        let mut connections = done.last.outcome();
        connections.resets = done.resets;
        if let Some(served) = &mut connections.served {
            served.lost_on_links = link_losses(links, &self.station.site).values().sum();
        }
        // What a suite calls illegal, the owner of a box was to forbid: nobody here knows whether the policy does, so what
        // arrived at the server tells.
        let owners = self.station.site.is_opaque();
        for illegal in connections.illegal.iter_mut().chain(&mut connections.forbidden) {
            illegal.forbidden = owners || self.station.policy.forbids();
        }
        connections.replacement = done.replacement.clone();
        let seconds = watch.seconds.max(plan.seconds());
        let mut outcome = TrialOutcome {
            id: 0,
            seconds,
            ledger: ledger(&done, &connections),
            per_second: watch.samples,
            cpu: cpu_use,
            flow_entries: self.station.running.flow_entries().ok().flatten(),
            memory_bytes: self.station.running.memory_bytes(),
            policy_load_seconds: self.station.running.policy_load_seconds(),
            faults,
            remarks: Vec::new(),
            policy_broken: None,
            workload: WorkloadOutcome::Connections(Box::new(connections)),
        };
        // Floods and held connections may leave no room for others.
        let due = (!fills_the_table(request)).then_some(DUE_BESIDE_CONNECTIONS);
        self.station.judge_patrol(patrol, due, &mut outcome);
        begun.judge(&mut outcome);
        Ok(outcome)
    }

    fn run(
        &mut self,
        plan: &TcpPlan,
        request: &ConnectionRequest,
        watch: &mut Follower,
    ) -> Result<Done, RigError> {
        if let ConnectionRequest::Scheduled { replace_after_seconds: Some(after), .. } = request {
            return self.run_and_replace(plan, *after, watch);
        }
        let ports = self.ports.as_ref().ok_or_else(no_ports)?;
        let engine = self.station.shared.connections()?;
        let mut engine = engine.borrow_mut();
        match request {
            ConnectionRequest::Held { resets: Some(resets), .. } => {
                let check =
                    engine.open_all_reset_and_verify(ports, plan, resets, watch).map_err(broken_traffic)?;
                let verified = Some(check.outcome.alive);
                Ok(Done { last: check.end, verified, resets: Some(check.outcome), replacement: None })
            }
            ConnectionRequest::Held { resets: None, .. } => {
                let (_, last) = engine.open_all_and_verify(ports, plan, watch).map_err(broken_traffic)?;
                let verified = Some(last.counts.verified);
                Ok(Done { last, verified, resets: None, replacement: None })
            }
            ConnectionRequest::Fastest { .. } | ConnectionRequest::Scheduled { .. } => {
                let last = engine.run(ports, plan, watch).map_err(broken_traffic)?;
                Ok(Done { last, verified: None, resets: None, replacement: None })
            }
        }
    }

    /// Runs the connections, and meanwhile, `after` seconds from the start, has the firewall replace its policy.
    fn run_and_replace(
        &mut self,
        plan: &TcpPlan,
        after: f64,
        watch: &mut Follower,
    ) -> Result<Done, RigError> {
        let ports = self.ports.as_ref().ok_or_else(no_ports)?;
        let engine = self.station.shared.connections()?;
        let not_made = || {
            let why = "the policy was not made to be replaced: it has no rules that tell it from another";
            RigError::Broken(why.to_owned())
        };
        let successor = self.station.policy.successor().ok_or_else(not_made)?;
        let probes = self.station.policy.replacement_probes(plan.ip).ok_or_else(not_made)?;
        let frames = replacement::in_order(&probes).map(probe_frame);
        let described = self.station.described_ports();
        let [client, .., server] = described.as_slice() else { return Err(no_ports()) };
        let stream = ProbeStream::start(client, server, &frames, PROBE_EVERY).map_err(broken_traffic)?;
        let running = &mut self.station.running;
        let (last, replaced) = std::thread::scope(|scope| {
            let replacing = scope.spawn(|| {
                std::thread::sleep(Duration::from_secs_f64(after));
                let ordered_ns = Clock::now_ns();
                running.replace(&successor).map(|replaced| (ordered_ns, replaced))
            });
            let last = engine.borrow_mut().run(ports, plan, watch);
            (last, replacing.join())
        });
        let last = last.map_err(broken_traffic)?;
        let (ordered_ns, replaced) = replaced
            .map_err(|_| RigError::Broken("the thread that replaces the policy is gone".to_owned()))?
            .map_err(broken)?;
        self.station.policy = successor;
        let seen = stream.finish().map_err(broken_traffic)?;
        let replacement = replacement::judge(&seen, ordered_ns, replaced.command_seconds);
        Ok(Done { last, verified: None, resets: None, replacement: Some(replacement) })
    }
}

fn no_ports() -> RigError {
    RigError::Broken("client and server have no ports".to_owned())
}

/// What a policy forbids that a single segment like those of connections can show.
fn forbidden_kinds(policy: &PolicySpec, ip: IpVersion) -> Vec<IllegalKind> {
    let v4 = ip == IpVersion::V4;
    [
        (IllegalKind::Address, policy.has_rules() || v4 && !policy.countries.is_empty()),
        (IllegalKind::Port, policy.has_rules()),
        (IllegalKind::Listed, v4 && !policy.listed.is_empty()),
        (IllegalKind::Ack, policy.is_strict()),
    ]
    .into_iter()
    .filter_map(|(kind, forbidden)| forbidden.then_some(kind))
    .collect()
}

/// The share of all starts that the bench forbids itself: one in a thousand, or eight where that would be fewer.
fn forbidden_share(request: &ConnectionRequest) -> f64 {
    let starts = match request {
        ConnectionRequest::Fastest { .. } => f64::INFINITY,
        ConnectionRequest::Held { connections, .. } => *connections as f64,
        ConnectionRequest::Scheduled { phases, .. } => {
            phases.iter().map(|phase| (phase.from + phase.to) / 2.0 * phase.seconds).sum()
        }
    };
    FORBIDDEN_SHARE.max(FEWEST_FORBIDDEN / (starts + FEWEST_FORBIDDEN))
}

/// What a trial left behind.
struct Done {
    last: TcpReading,
    /// Connections that answered the proof, where there was one.
    verified: Option<u64>,
    resets: Option<ResetOutcome>,
    replacement: Option<ReplacementOutcome>,
}

impl Rig for ConnectionRig {
    fn dut(&self) -> &str {
        &self.station.dut
    }

    fn prove(&mut self) -> Result<(), RigError> {
        self.ports = None;
        self.station.lend_to_frames()?;
        self.station.place()?;
        self.station.prove()
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        match request {
            TrialRequest::Connections(request) => self.run_trial(request),
            _ => Err(other_workload()),
        }
    }
}

/// Whether what earlier trials left in the firewall's table would decide how a trial ends.
fn fills_the_table(request: &ConnectionRequest) -> bool {
    request.attack().is_some() || matches!(request, ConnectionRequest::Held { .. })
}

fn replaces(request: &ConnectionRequest) -> bool {
    matches!(request, ConnectionRequest::Scheduled { replace_after_seconds: Some(_), .. })
}

/// When connections are opened, and whether all of them are held for a proof.
///
/// Loads are of legal connections and a suite's illegal attempts together; the bench's own attempts come on top of them.
fn opening(request: &ConnectionRequest, illegal: Option<&IllegalPlan>) -> (Opening, bool) {
    let illegal_share = illegal.map_or(0.0, |illegal| illegal.share);
    let on_top =
        if illegal.is_some_and(|illegal| illegal.watches) { 1.0 / (1.0 - illegal_share) } else { 1.0 };
    match *request {
        ConnectionRequest::Fastest { seconds, .. } => (Opening::Fastest(seconds), false),
        ConnectionRequest::Held { connections, opening_rate, .. } => {
            // Connections are legal ones; the rate is of all attempts.
            let phase =
                TcpPhase::counted(IllegalPlan::attempts(connections, illegal_share), opening_rate * on_top);
            (Opening::Scheduled(vec![phase]), true)
        }
        ConnectionRequest::Scheduled { ref phases, .. } => {
            let phase = |&RatePhase { seconds, from, to }: &RatePhase| TcpPhase {
                seconds,
                from: from * on_top,
                to: to * on_top,
            };
            (Opening::Scheduled(phases.iter().map(phase).collect()), false)
        }
    }
}

/// Where the connections went. A connection counts as received when it did all that was asked of it: every answer and the
/// end, or, where it is held, the answer to the proof.
fn ledger(done: &Done, connections: &ConnectionOutcome) -> Ledger {
    let illegal: u64 =
        connections.illegal.iter().chain(&connections.forbidden).flat_map(|i| i.attempted.values()).sum();
    let offered = done.last.offered.saturating_sub(illegal);
    let mut failed = connections.failed.clone();
    let unserved = connections.served.map_or(0, |served| served.unserved());
    let received = match done.verified {
        Some(verified) => {
            let known: u64 = failed.values().sum();
            let silent = connections.attempted.saturating_sub(verified + known);
            if silent > 0 {
                failed.insert("unproved".to_owned(), silent);
            }
            verified
        }
        None => connections.closed,
    };
    // Answered to the client, but not by the server.
    let unserved = unserved.min(received);
    if unserved > 0 {
        failed.insert("not-served".to_owned(), unserved);
    }
    let received = received - unserved;
    let not_sent = offered.saturating_sub(connections.attempted);
    Ledger { offered, not_sent, received, places: Places::Connections(ConnectionPlaces { failed }) }
}

/// Follows a trial: seconds and interruptions.
struct Follower {
    interrupt: Interrupt,
    last: Option<TcpReading>,
    samples: Vec<SecondSample>,
    seconds: f64,
    tick_every: Duration,
}

impl Follower {
    fn new(interrupt: Interrupt, plan: &TcpPlan) -> Self {
        let tick_every = Duration::from_secs_f64(plan.seconds() / TICKS).clamp(SHORTEST_TICK, LONGEST_TICK);
        Self { interrupt, last: None, samples: Vec::new(), seconds: 0.0, tick_every }
    }
}

impl Watch<TcpReading> for Follower {
    fn interrupted(&self) -> bool {
        self.interrupt.asked()
    }

    fn tick_every(&self) -> Duration {
        self.tick_every
    }

    fn sample(&mut self, at_seconds: f64, reading: &TcpReading) {
        let earlier = self.last.take().unwrap_or_default();
        let within = reading.since(&earlier);
        self.samples.push(SecondSample {
            at_seconds,
            sent: within.counts.attempted,
            received: within.counts.closed,
            latency_ns: None,
            connections: Some(reading.second(&earlier)),
        });
        self.seconds = self.seconds.max(at_seconds);
        self.last = Some(reading.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testbed::layout;
    use traffic::tcp;

    /// The generator sends what the policies forbid or admit: two crates that do not know each other have to mean the same.
    #[test]
    fn policies_and_attempts_agree() {
        assert_eq!(testbed::policy::FORBIDDEN_PORT, tcp::FORBIDDEN_PORT);
        assert_eq!(layout::ATTACKERS_V4.network(), tcp::ATTACKERS_V4);
        assert_eq!(layout::ATTACKERS_V6.network(), tcp::ATTACKERS_V6);
        assert!(layout::STRANGERS_V4.contains(&tcp::FORBIDDEN_V4));
        assert!(layout::STRANGERS_V6.contains(&tcp::FORBIDDEN_V6));
    }

    #[test]
    fn requests_become_openings() {
        let held = ConnectionRequest::Held {
            connections: 500,
            opening_rate: 1000.0,
            hold_seconds: 1.0,
            resets: None,
        };
        let scheduled = ConnectionRequest::Scheduled {
            phases: vec![RatePhase { seconds: 1.0, from: 0.0, to: 10.0 }, RatePhase::constant(10.0, 3.0)],
            attack: None,
            replace_after_seconds: None,
        };
        let phases = vec![TcpPhase { seconds: 1.0, from: 0.0, to: 10.0 }, TcpPhase::constant(10.0, 3.0)];
        let rows = [
            (ConnectionRequest::Fastest { seconds: 2.0, attack: None }, (Opening::Fastest(2.0), false)),
            (held, (Opening::Scheduled(vec![TcpPhase::counted(1000, 1000.0)]), true)),
            (scheduled, (Opening::Scheduled(phases), false)),
        ];
        for (request, wanted) in rows {
            let illegal = IllegalPlan {
                share: 0.5,
                kinds: Vec::new(),
                ports: FORBIDDEN_PORT..=FORBIDDEN_PORT,
                listed: Vec::new(),
                watches: false,
            };
            assert_eq!(opening(&request, Some(&illegal)), wanted, "{request:?}");
        }
    }
}
