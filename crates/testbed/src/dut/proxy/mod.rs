//! Proxies as firewalls: what a client opens ends at the proxy, which makes a connection of its own to the server. Clients need not know of
//! it: the kernel hands their connections over (TPROXY), with the destination that they asked for.
//!
//! What may come in is nftables' affair, as on any machine with a proxy. The rules of the policy stand in one chain, which judges what is
//! forwarded and what is handed to the proxy alike. A connection to a port of the proxy is never forwarded past it: a proxy that does not
//! run carries nothing.
//!
//! Nothing is kept from one request to the next but connections to servers, and nothing is logged unless the test asks for it: forwarding is what is measured.

mod haproxy;
mod intercept;
mod squid;

use super::kernel::{Forwarding, gone, version_of};
use super::nftables::{TABLE, TableCounters};
use super::services::{self, NameServer};
use super::{Capabilities, Driver, Relay, Requirement, Running, admit, refused_part};
use crate::bed::Bed;
use crate::error::TestbedError;
use crate::guest::Guest;
use crate::journal::Journal;
use crate::memory_group::MemoryGroup;
use crate::policy::PolicySpec;
use intercept::Taken;
use measure::application::{Protocol, ProtocolMix};
use measure::shape::{PolicyShape, Setup, Workload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(super) use haproxy::HAPROXY;
pub(super) use squid::SQUID;

const PATIENCE: Duration = Duration::from_secs(20);
/// Settings of whoever opens many connections from one address: more ports, and those of ended connections at once.
const MANY_CONNECTIONS: [(&str, &str); 2] =
    [("ipv4/ip_local_port_range", "10240 65535"), ("ipv4/tcp_tw_reuse", "1")];

/// A proxy that the distribution has.
pub(super) struct Proxy {
    /// Its name here, and its program's.
    name: &'static str,
    summary: &'static str,
    requirements: &'static [Requirement],
    /// What is handed to it.
    takes: &'static [Taken],
    /// What it does otherwise than other firewalls, for the report.
    remark: &'static str,
    /// What of a gateway's settings it has.
    settings: Capabilities,
    /// What it does with connections of a protocol, or why it is not asked to carry them.
    relays: fn(Protocol) -> Result<Relay, &'static str>,
    /// The arguments of its program, once its files are written.
    prepare: fn(&Place<'_>) -> Result<Vec<String>, TestbedError>,
}

/// A proxy knows connections alone, so a policy without state is none for it; addresses of servers' clients are its own.
const PLAIN: Capabilities =
    Capabilities { stateless: false, replacement: false, own_sockets: true, ..Capabilities::RULES };

/// Where a proxy runs, and as what.
struct Place<'a> {
    /// A folder of its own.
    folder: &'a Path,
    /// Where it records requests, if it does.
    log: Option<&'a Path>,
    /// Whether it asks the bed's name server.
    look_ups: bool,
    /// Cores that are the firewall's.
    cores: usize,
}

impl Place<'_> {
    /// Writes a file of its folder, and tells its path.
    fn write(&self, name: &str, text: &str) -> Result<String, TestbedError> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).map_err(TestbedError::io("write", &path))?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Proxy {
    /// Why it does not carry something of a mix, if anything.
    fn refuses(&self, mix: &ProtocolMix) -> Option<String> {
        refused_part(mix, self.relays)
    }
}

impl Driver for Proxy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn requirements(&self) -> &'static [Requirement] {
        self.requirements
    }

    fn capabilities(&self) -> Capabilities {
        self.settings
    }

    fn versions(&self) -> BTreeMap<String, String> {
        version_of(self.name).into_iter().chain(version_of("nft")).collect()
    }

    fn remark(&self, _asked: &PolicyShape) -> Option<String> {
        Some(self.remark.to_owned())
    }

    fn cannot_handle(&self, setup: &Setup) -> Option<String> {
        match &setup.workload {
            Workload::Application(shape) => self.refuses(&shape.protocol),
            _ => Some(
                "traffic other than of applications: frames, streams and connections without HTTP would pass it by".to_owned(),
            ),
        }
    }

    fn relays(&self, protocol: Protocol) -> Option<Relay> {
        (self.relays)(protocol).ok()
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        let forwarding = Forwarding::that_tracks(bed, self.name)?;
        let mut journal = Journal::start()?;
        let folder = journal.folder(self.name)?;
        let asked = policy.shape.gateway;
        let log = services::log_folder(asked.event_log, &mut journal)?;
        let names = asked.look_ups.then(|| NameServer::start(bed, &folder)).transpose()?;
        if let Some(kb) = asked.receive_kb {
            services::set_receive_buffer(forwarding.namespace(), kb)?;
        }
        let memory = asked.memory_mb.map(|mb| MemoryGroup::make(mb, &mut journal)).transpose()?;
        let mut running = Interception {
            program: Mutex::new(None),
            names: Mutex::new(names),
            log,
            memory,
            name: self.name,
            takes: self.takes,
            prepare: self.prepare,
            cores: bed.spec().cores.firewall.iter().map(|&core| core as usize).collect(),
            is_isolated: !forwarding.threads().is_empty(),
            forwarding,
            folder,
            policy: policy.clone(),
            counted: TableCounters::default(),
            load_seconds: 0.0,
            _journal: journal,
        };
        running.load()?;
        running.start()?;
        Ok(Box::new(running))
    }
}

/// A proxy that runs. Fields are dropped in order: the program ends before the journal removes its folder.
struct Interception {
    program: Mutex<Option<Guest>>,
    names: Mutex<Option<NameServer>>,
    log: Option<PathBuf>,
    memory: Option<MemoryGroup>,
    name: &'static str,
    takes: &'static [Taken],
    prepare: fn(&Place<'_>) -> Result<Vec<String>, TestbedError>,
    cores: Vec<usize>,
    is_isolated: bool,
    forwarding: Forwarding,
    folder: PathBuf,
    policy: PolicySpec,
    counted: TableCounters,
    load_seconds: f64,
    _journal: Journal,
}

impl Interception {
    /// Rules, and what is handed to the proxy. Nobody is there yet to take it.
    fn load(&mut self) -> Result<(), TestbedError> {
        let begun = Instant::now();
        let namespace = self.forwarding.namespace();
        let devices = self.forwarding.devices();
        namespace
            .feed("nft", &["-f", "-"], |out| intercept::table(&self.policy, self.takes, &devices, out))?;
        intercept::hand_over(namespace)?;
        self.forwarding.inspect_strictly()?;
        namespace.set(&MANY_CONNECTIONS)?;
        self.load_seconds = begun.elapsed().as_secs_f64();
        Ok(())
    }

    fn start(&self) -> Result<(), TestbedError> {
        let arguments = (self.prepare)(&Place {
            folder: &self.folder,
            log: self.log.as_deref(),
            look_ups: self.policy.shape.gateway.look_ups,
            cores: self.cores.len(),
        })?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut program = Guest::start(self.forwarding.namespace(), self.name, &arguments, &self.cores)?;
        for taken in self.takes {
            program.wait_until_it_listens(taken.proxy_port)?;
        }
        if let Some(memory) = &self.memory {
            memory.take(program.pid())?;
        }
        *self.program.lock().unwrap_or_else(PoisonError::into_inner) = Some(program);
        Ok(())
    }

    fn stop(&self) {
        let program = self.program.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(program) = program {
            program.end(PATIENCE);
        }
    }

    fn pid(&self) -> Option<u32> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Guest::pid)
    }
}

impl Running for Interception {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        let mut counters = self.counted.read(self.forwarding.namespace())?;
        counters.insert("ip_discards".to_owned(), self.forwarding.ip_discards()?);
        Ok(counters)
    }

    fn flow_entries(&self) -> Result<Option<u64>, TestbedError> {
        self.forwarding.flow_entries()
    }

    /// What the program has of the machine's memory, and the connection entries.
    fn memory_bytes(&self) -> Option<u64> {
        let resident = crate::guest::resident_bytes(self.pid()?)?;
        self.forwarding.memory_bytes(Some(resident))
    }

    fn policy_load_seconds(&self) -> Option<f64> {
        Some(self.load_seconds)
    }

    fn forget_flows(&mut self) -> Result<(), TestbedError> {
        self.forwarding.forget_flows()
    }

    /// The program's own threads work beside those that receive.
    fn firewall_threads(&self) -> Vec<i32> {
        let mut threads = self.forwarding.threads();
        if let (true, Some(pid)) = (self.is_isolated, self.pid()) {
            threads.extend(crate::guest::threads_of(pid));
        }
        threads
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        self.forwarding.check_alive()?;
        self.counted.read(self.forwarding.namespace())?;
        intercept::check(self.forwarding.namespace())?;
        if let Some(names) = &mut *self.names.lock().unwrap_or_else(PoisonError::into_inner) {
            names.check_runs()?;
        }
        match &mut *self.program.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(program) => program.check_runs(),
            None => Err(gone(format!("{} was ended", self.name))),
        }
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        self.forwarding.reset(|| {
            self.stop();
            self.start()
        })
    }
}

impl Drop for Interception {
    fn drop(&mut self) {
        self.stop();
        if let Some(names) = self.names.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            names.stop();
        }
        let namespace = self.forwarding.namespace();
        // It may never have been loaded, or the namespace may be gone.
        let _ = namespace.run("nft", &["delete", "table", "inet", TABLE]);
        intercept::hand_over_no_more(namespace);
    }
}

#[cfg(test)]
mod tests;
