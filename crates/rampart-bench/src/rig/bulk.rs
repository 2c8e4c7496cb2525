//! A rig whose trials are bulk transfers: iperf3 in the private zone sends to iperf3 in the hostile zone through the kernel's
//! own TCP, from the zones' own addresses. No XDP program of the bench is on a zone's end meanwhile: it would turn TSO off
//! and measure something else. The frame engine has the ports only while it proves.

use super::iperf3::{self, Transfer};
use super::machine_time::MachineTime;
use super::patrol::{Carrier, DUE_BESIDE_CONNECTIONS};
use super::station::Station;
use super::trespass::Trespass;
use super::{Shared, broken, other_workload, round_trip};
use measure::bulk::{BulkOutcome, BulkRequest, BulkShape};
use measure::ledger::{BulkPlaces, Ledger, Places};
use measure::shape::{IpVersion, Setup, Zone};
use measure::trial::{Rig, RigError, TrialOutcome, TrialRequest, WorkloadOutcome};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use testbed::guest::Guest;
use testbed::layout::ZonePort;
use traffic::app::Side;

/// The program at both ends.
pub(crate) const PROGRAM: &str = "iperf3";
/// Its usual port.
const PORT: u16 = 5201;
/// Where the idle round trip is measured.
const ROUND_TRIP_PORT: u16 = 5202;
/// Reports of each connection's round trip that iperf3 makes in the time of a transfer, and the times between two that it can keep.
const REPORTS: f64 = 10.0;
const REPORT_SECONDS: std::ops::RangeInclusive<f64> = 0.1..=60.0;
/// Milliseconds in which the first connection must be made.
const CONNECT_MS: &str = "5000";
/// How long both ends may take beside the transfer: to connect, to exchange results, to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the server may take to write its report when its client has ended well.
const TO_REPORT: Duration = Duration::from_secs(10);
/// Between two looks at what runs; short enough that Ctrl-C is answered at once.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One firewall under test, ready for bulk transfers.
pub(crate) struct BulkRig {
    shape: BulkShape,
    station: Station,
}

/// Where one end of the transfers is.
struct Ends {
    client: ZonePort,
    server: ZonePort,
    ip: IpVersion,
}

impl BulkRig {
    /// Builds the bed and sets the firewall up.
    pub(crate) fn build(
        dut: &str,
        setup: &Setup,
        shape: BulkShape,
        shared: &Shared,
    ) -> Result<Self, RigError> {
        Ok(Self { shape, station: Station::build(dut, setup, false, shared)? })
    }

    fn ends(&self) -> Result<Ends, RigError> {
        let layout = self.station.site.layout();
        let port = |zone| {
            let missing = || RigError::Broken("a bed without two zones".to_owned());
            layout.port(zone).cloned().ok_or_else(missing)
        };
        Ok(Ends {
            client: port(Zone::Private)?,
            server: port(Zone::Hostile)?,
            ip: self.station.setup.traffic.ip,
        })
    }

    fn run_trial(&mut self, request: BulkRequest) -> Result<TrialOutcome, RigError> {
        // The suite was refused if they are not whole.
        let seconds = request.seconds.max(1.0).round() as u64;
        self.station.take_from_frames();
        self.station.place()?;
        // Where nothing connects, iperf3 says so.
        let idle = self.ends()?.idle_round_trip().ok();
        let threads = self.station.running.firewall_threads();
        let cpu = self.station.processor_time(&threads)?;
        let begun = MachineTime::now();
        let trespass = self.trespass()?;
        self.station.begin_patrol(Carrier::Kernel, request.seconds)?;
        let transfer = self.transfer(seconds);
        let patrol = self.station.end_patrol()?;
        let transfer = transfer?;
        let trespassed = trespass.map(Trespass::end).transpose().map_err(RigError::Broken)?.flatten();
        let cpu_use = self.station.processor_time(&threads)?.since(&cpu);
        let mut outcome = self.outcome(transfer, idle, request.seconds);
        outcome.cpu = cpu_use;
        outcome.policy_broken = trespassed;
        self.station.judge_patrol(patrol, Some(DUE_BESIDE_CONNECTIONS), &mut outcome);
        outcome.flow_entries = self.station.running.flow_entries().ok().flatten();
        begun.judge(&mut outcome);
        if let Err(dead) = self.station.check_alive() {
            outcome.faults.push(dead.to_string());
        }
        Ok(outcome)
    }

    fn trespass(&self) -> Result<Option<Trespass>, RigError> {
        let ends = self.ends()?;
        let clients = Side {
            namespace: Some(ends.client.end.namespace.path()),
            addresses: vec![ends.address(&ends.client)],
        };
        self.station.trespass(clients, ends.address(&ends.server))
    }

    /// Starts both ends and waits for them; `Err` within is why the trial must not count.
    fn transfer(&self, seconds: u64) -> Result<Result<Transfer, String>, RigError> {
        let ends = self.ends()?;
        let cores = &self.station.cores;
        let connections = self.shape.connections;
        let (client, server) = (ends.client_words(seconds, connections), ends.server_words(seconds));
        let start = |port: &ZonePort, words: &[String]| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Guest::start(&port.end.namespace, PROGRAM, &words, cores).map_err(broken)
        };
        let mut listening = start(&ends.server, &server)?;
        if let Err(why) = listening.wait_until_it_listens(PORT) {
            return Ok(Err(why.to_string()));
        }
        let mut sending = start(&ends.client, &client)?;
        if !self.wait(&mut sending, Duration::from_secs(seconds) + PATIENCE)? {
            return Ok(Err(format!("iperf3 did not end within {} s of its time", PATIENCE.as_secs())));
        }
        let sent = sending.finish().map_err(broken)?;
        if sent.output.trim().is_empty() {
            return Ok(Err(format!("iperf3 wrote no report ({}): {}", sent.status, sent.errors)));
        }
        let transfer = match iperf3::parse(&sent.output, connections) {
            Ok(transfer) => transfer,
            // After an error of its client a server may wait for the next one: then it ends with its handle.
            Err(why) => return Ok(Err(why)),
        };
        if !self.wait(&mut listening, TO_REPORT)? {
            return Ok(Err(format!(
                "iperf3's server did not end within {} s of its client: the client's transfer was not with it",
                TO_REPORT.as_secs()
            )));
        }
        let counted = listening.finish().map_err(broken)?;
        Ok(transfer.confirmed_by(&counted.output, connections))
    }

    /// Whether a program ends within this time.
    fn wait(&self, guest: &mut Guest, patience: Duration) -> Result<bool, RigError> {
        let begun = Instant::now();
        loop {
            let ended = guest.has_ended().map_err(broken)?;
            if self.station.shared.interrupt.asked() {
                return Err(RigError::Interrupted);
            }
            if ended || begun.elapsed() > patience {
                return Ok(ended);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn outcome(
        &self,
        transfer: Result<Transfer, String>,
        idle: Option<Duration>,
        asked_seconds: f64,
    ) -> TrialOutcome {
        let (bulk, seconds, faults) = match transfer {
            Ok(t) => (
                BulkOutcome {
                    connections: self.shape.connections,
                    sent_bytes: t.sent_bytes,
                    received_bytes: t.received_bytes,
                    retransmitted: t.retransmitted,
                    segment_bytes: t.segment_bytes,
                    idle_round_trip_ns: idle.and_then(|idle| u64::try_from(idle.as_nanos()).ok()),
                    loaded_round_trip_ns: t.round_trip_ns,
                    congestion_control: t.congestion_control,
                },
                t.seconds,
                Vec::new(),
            ),
            Err(fault) => (BulkOutcome::default(), asked_seconds, vec![fault]),
        };
        TrialOutcome {
            id: 0,
            seconds,
            ledger: ledger(&bulk),
            per_second: Vec::new(),
            cpu: measure::results::CpuUse::default(),
            flow_entries: None,
            memory_bytes: self.station.running.memory_bytes(),
            policy_load_seconds: self.station.running.policy_load_seconds(),
            faults,
            remarks: Vec::new(),
            policy_broken: None,
            workload: WorkloadOutcome::Bulk(bulk),
        }
    }
}

impl Ends {
    fn address(&self, port: &ZonePort) -> IpAddr {
        match self.ip {
            IpVersion::V4 => port.addresses.own_v4().into(),
            IpVersion::V6 => port.addresses.own_v6().into(),
        }
    }

    fn idle_round_trip(&self) -> std::io::Result<Duration> {
        let [client, server] = [&self.client, &self.server].map(|port| &port.end.namespace);
        round_trip::least(client, server, self.address(&self.server), ROUND_TRIP_PORT)
    }

    /// One client, then it ends, with a report of its own.
    fn server_words(&self, seconds: u64) -> Vec<String> {
        let (address, port) = (self.address(&self.server).to_string(), PORT.to_string());
        let every = report_every(seconds);
        ["--server", "--one-off", "--json", "--interval", &every, "--bind", &address, "--port", &port]
            .map(str::to_owned)
            .into()
    }

    fn client_words(&self, seconds: u64, connections: u32) -> Vec<String> {
        let [from, to] = [&self.client, &self.server].map(|port| self.address(port).to_string());
        let every = report_every(seconds);
        let (port, seconds, connections) = (PORT.to_string(), seconds.to_string(), connections.to_string());
        [
            "--client",
            &to,
            "--bind",
            &from,
            "--port",
            &port,
            "--json",
            "--interval",
            &every,
            "--time",
            &seconds,
            "--parallel",
            &connections,
            "--connect-timeout",
            CONNECT_MS,
        ]
        .map(str::to_owned)
        .into()
    }
}

/// Few reports in between: with many connections and a long time they would be most of the output.
fn report_every(seconds: u64) -> String {
    (seconds as f64 / REPORTS).clamp(*REPORT_SECONDS.start(), *REPORT_SECONDS.end()).to_string()
}

impl Rig for BulkRig {
    fn dut(&self) -> &str {
        &self.station.dut
    }

    fn prove(&mut self) -> Result<(), RigError> {
        self.station.lend_to_frames()?;
        self.station.place()?;
        self.station.prove()
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        match request {
            TrialRequest::Bulk(request) => self.run_trial(*request),
            _ => Err(other_workload()),
        }
    }
}

/// Bytes, as the applications counted them: written by the client, read by the server. What lies between was in socket
/// buffers and on the links when the client stopped; TCP loses nothing that it does not send again.
fn ledger(bulk: &BulkOutcome) -> Ledger {
    Ledger {
        offered: bulk.sent_bytes,
        not_sent: 0,
        received: bulk.received_bytes,
        places: Places::Bulk(BulkPlaces { under_way: bulk.sent_bytes.saturating_sub(bulk.received_bytes) }),
    }
}
