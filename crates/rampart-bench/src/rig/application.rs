//! A rig whose trials are application traffic: virtual clients in the private zone fetch files from servers in the hostile zone,
//! through the kernel's own TCP at both ends. No program of the bench is on a zone's end meanwhile. The frame engine has the ports
//! only while it proves.

use super::machine_time::MachineTime;
use super::patrol::{Carrier, DUE_BESIDE_CONNECTIONS};
use super::station::Station;
use super::trespass::Trespass;
use super::{Shared, Site, broken, broken_traffic, other_workload};
use measure::application::{
    ApplicationRequest, ApplicationShape, Arrivals, CLIENT_MACHINES, PORTS_OF_MACHINE, Protocol, ProtocolMix,
    SERVERS,
};
use measure::shape::{Setup, Zone};
use measure::trial::{Rig, RigError, TrialOutcome, TrialRequest, WorkloadOutcome};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testbed::applications::{self, Segments};
use testbed::dut::{Driver, Relay};
use testbed::layout::ZonePort;
use testbed::policy::TEST_DESTINATION_PORTS;
use traffic::app::{self, FileSet, Load, Reached, Side};

/// The servers' ports.
const HTTP: u16 = 80;
const HTTPS: u16 = 443;
const FTP: u16 = 21;
/// First port that connections come from.
const FIRST_PORT: u16 = 32_768;
/// Ports of the servers' data connections: up to the last that every policy of the bench allows.
const DATA_PORTS: RangeInclusive<u16> = *TEST_DESTINATION_PORTS.end() - 8191..=*TEST_DESTINATION_PORTS.end();

/// How long a proxy may take to answer to a connection that is allowed.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one that is forbidden is waited for at least.
const SHORT_WAIT: Duration = Duration::from_millis(200);

/// One firewall under test, ready for application traffic.
pub(crate) struct ApplicationRig {
    shape: ApplicationShape,
    station: Station,
    clients: Side,
    servers: Side,
    files: Arc<FileSet>,
}

impl ApplicationRig {
    /// Builds the bed with its hosts and sets the firewall up.
    pub(crate) fn build(
        dut: &str,
        setup: &Setup,
        shape: ApplicationShape,
        shared: &Shared,
    ) -> Result<Self, RigError> {
        let mut station = Station::build(dut, setup, false, shared)?;
        let Site::Built(bed) = &station.site else {
            return Err(RigError::Broken("application traffic needs a bed of its own".to_owned()));
        };
        let port = |zone| {
            let missing = || RigError::Broken("a bed without two zones".to_owned());
            bed.layout().port(zone).cloned().ok_or_else(missing)
        };
        let (private, hostile) = (port(Zone::Private)?, port(Zone::Hostile)?);
        applications::send_whole_checksums(bed).map_err(broken)?;
        if station.segments == Segments::Any {
            station.segments = Segments::Cut;
        }
        let last = FIRST_PORT + (PORTS_OF_MACHINE - 1) as u16;
        applications::choose_ports(&private, &(FIRST_PORT..=last)).map_err(broken)?;
        applications::choose_ports(&hostile, &DATA_PORTS).map_err(broken)?;
        let hosts =
            |port: &ZonePort, count| applications::add_hosts(port, setup.traffic.ip, count).map_err(broken);
        let (machines, servers) = (hosts(&private, CLIENT_MACHINES)?, hosts(&hostile, SERVERS)?);
        let files = Arc::new(match shape.protocol.stated() {
            Some(mix) => FileSet::of_mix(mix, setup.traffic.seed),
            None => FileSet::new(shape.object, setup.traffic.seed),
        });
        Ok(Self {
            shape,
            station,
            clients: side(&private, machines),
            servers: side(&hostile, servers),
            files,
        })
    }

    /// A trial that holds connections may fill the table. It begins with an empty one, and leaves one in which the next proof finds room.
    fn run_held(&mut self, request: ApplicationRequest) -> Result<TrialOutcome, RigError> {
        self.station.forget_flows()?;
        let outcome = self.run_trial(request)?;
        self.station.forget_flows()?;
        Ok(outcome)
    }

    /// Shows what the proofs by frames cannot, where a proxy answers in the servers' place: that it takes what the policy allows, and not what
    /// the policy forbids. Nobody listens behind it yet, so a connection that went past it would be refused.
    fn prove_proxy(&mut self) -> Result<(), RigError> {
        let ports = proxied(self.station.driver, &self.shape.protocol);
        if ports.is_empty() {
            return Ok(());
        }
        self.station.take_from_frames();
        for port in ports {
            let to = |side: &Side| SocketAddr::new(side.addresses[0], port);
            let begun = Instant::now();
            let allowed = app::reach(&self.clients, to(&self.servers), PATIENCE).map_err(broken_traffic)?;
            if allowed != Reached::Taken {
                return Err(RigError::Broken(not_taken(port, allowed)));
            }
            if !self.station.policy.has_rules() {
                continue;
            }
            // As long as would be long enough for one that is allowed.
            let limit = SHORT_WAIT.max(begun.elapsed() * 20);
            if app::reach(&self.servers, to(&self.clients), limit).map_err(broken_traffic)? == Reached::Taken
            {
                return Err(RigError::Broken(format!(
                    "the proxy took a connection from the hostile to the private zone, port {port}, but the policy forbids it"
                )));
            }
        }
        Ok(())
    }

    fn run_trial(&mut self, request: ApplicationRequest) -> Result<TrialOutcome, RigError> {
        self.station.take_from_frames();
        self.station.place()?;
        let threads = self.station.running.firewall_threads();
        let cpu = self.station.processor_time(&threads)?;
        let begun = MachineTime::now();
        let interrupt = self.station.shared.interrupt.clone();
        let load = self.load(request);
        let trespass = self.station.trespass(self.clients.clone(), self.servers.addresses[0])?;
        self.station.begin_patrol(Carrier::Kernel, request.seconds)?;
        let run = app::run(&self.clients, &self.servers, &load, &self.files, &|| interrupt.asked());
        let cpu = self.station.processor_time(&threads)?.since(&cpu);
        let patrol = self.station.end_patrol()?;
        let trespassed = trespass.map(Trespass::end).transpose().map_err(RigError::Broken)?.flatten();
        let mut run = run.map_err(broken_traffic)?;
        if let (Some(held), ProtocolMix::Only(protocol)) = (&mut run.application.held, &self.shape.protocol) {
            held.relayed = self.station.driver.relays(*protocol) == Some(Relay::Requests);
        }
        let dead = self.station.check_alive().err().map(|dead| dead.to_string());
        let mut outcome = TrialOutcome {
            id: 0,
            seconds: request.seconds,
            ledger: run.ledger,
            per_second: run.per_second,
            cpu,
            flow_entries: self.station.running.flow_entries().ok().flatten(),
            memory_bytes: self.station.running.memory_bytes(),
            policy_load_seconds: self.station.running.policy_load_seconds(),
            faults: run.fault.into_iter().chain(dead).collect(),
            remarks: Vec::new(),
            policy_broken: trespassed,
            workload: WorkloadOutcome::Application(run.application),
        };
        // Connections that are held may fill the firewall's table.
        let due = (!matches!(request.arrivals, Arrivals::Held(_))).then_some(DUE_BESIDE_CONNECTIONS);
        self.station.judge_patrol(patrol, due, &mut outcome);
        begun.judge(&mut outcome);
        Ok(outcome)
    }

    fn load(&self, request: ApplicationRequest) -> Load {
        Load {
            clients: self.shape.clients,
            arrivals: request.arrivals,
            protocol: self.shape.protocol.clone(),
            transactions: self.shape.transactions,
            seconds: request.seconds,
            transaction_limit: Duration::from_secs_f64(request.limit_seconds),
            http_port: HTTP,
            https_port: HTTPS,
            ftp_port: FTP,
            cores: self.station.cores.clone(),
            seed: self.station.setup.traffic.seed,
        }
    }
}

/// The servers' ports at which a proxy answers.
fn proxied(driver: &dyn Driver, mix: &ProtocolMix) -> Vec<u16> {
    let protocols = mix.protocols().into_iter().filter(|protocol| driver.relays(*protocol).is_some());
    // Several protocols of a mix may share one.
    protocols.map(port_of).collect::<BTreeSet<u16>>().into_iter().collect()
}

const fn port_of(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Http10 | Protocol::Http11 => HTTP,
        Protocol::Https | Protocol::Http2 => HTTPS,
        Protocol::Ftp(_) => FTP,
    }
}

fn not_taken(port: u16, reached: Reached) -> String {
    let what = match reached {
        Reached::Refused => "was refused: the proxy does not take it, or it went past the proxy",
        _ => "was not answered",
    };
    format!("a connection from the private to the hostile zone, port {port}, which the policy allows, {what}")
}

fn side(port: &ZonePort, addresses: Vec<IpAddr>) -> Side {
    Side { namespace: Some(port.end.namespace.path()), addresses }
}

impl Rig for ApplicationRig {
    fn dut(&self) -> &str {
        &self.station.dut
    }

    fn prove(&mut self) -> Result<(), RigError> {
        self.station.lend_to_frames()?;
        self.station.place()?;
        self.station.prove()?;
        self.prove_proxy()
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        match request {
            TrialRequest::Application(request @ ApplicationRequest { arrivals: Arrivals::Held(_), .. }) => {
                self.run_held(*request)
            }
            TrialRequest::Application(request) => self.run_trial(*request),
            _ => Err(other_workload()),
        }
    }
}
