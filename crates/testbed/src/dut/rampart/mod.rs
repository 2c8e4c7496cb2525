//! Rampart itself, driven by the command line that its users have: `rampart up` in the firewall's namespace, and questions
//! over its socket. It forwards on its own; the kernel's forwarding stays off.

mod gateway;
mod text;

use super::kernel::{check_links, gone, version_of};
use super::services::{self, NameServer};
use super::sets::{Set, sets_of};
use super::{
    Capabilities, Driver, Relay, Replaced, Requirement, Running, admit, check_replacement, kept_state,
};
use crate::bed::{Bed, FirewallSide, Wiring};
use crate::error::TestbedError;
use crate::guest::Guest;
use crate::journal::Journal;
use crate::memory_group::MemoryGroup;
use crate::policy::PolicySpec;
use measure::application::Protocol;
use measure::shape::{PolicyShape, Setup};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use text::Means;

/// A large table takes the kernel some seconds to clear.
const PATIENCE: Duration = Duration::from_secs(60);
const PROGRAM: &str = "rampart";
/// The set of countries, as [`Set::name`] has it.
const COUNTRIES: &str = "countries";
/// No hook is chosen: the policy says that the kernel forwards.
const KERNEL_FORWARDS: &str = "auto";

/// Rampart on one of its hooks.
pub(super) struct Rampart {
    name: &'static str,
    summary: &'static str,
    /// As `--hook` takes it, or [`KERNEL_FORWARDS`].
    hook: &'static str,
    /// What `ip link` shows of an interface that it is on.
    mark: &'static str,
    /// What it is between the zones: a router, or a bridge.
    wiring: Wiring,
    /// Whether its transparent gateways take HTTP and FTP.
    has_gateway: bool,
}

/// In the driver.
pub(super) const XDP: Rampart = Rampart {
    name: "rampart",
    summary: "Rampart at the XDP hook",
    hook: "xdp",
    mark: " xdp ",
    wiring: Wiring::Firewall,
    has_gateway: false,
};

/// In the traffic control layer.
pub(super) const TC: Rampart = Rampart {
    name: "rampart-tc",
    summary: "Rampart at the TC hook, for virtual links",
    hook: "tc",
    mark: "",
    wiring: Wiring::Firewall,
    has_gateway: false,
};

/// With its gateways for HTTP and FTP, which clients do not know of.
pub(super) const GATEWAY: Rampart = Rampart {
    name: "rampart-gateway",
    summary: "Rampart at the TC hook, with its transparent gateways of HTTP and FTP",
    has_gateway: true,
    ..TC
};

/// Where the kernel forwards, and asks.
pub(super) const KERNEL: Rampart = Rampart {
    name: "rampart-kernel",
    summary: "Rampart at netfilter, where the kernel forwards (`forwarding = \"kernel\"`)",
    hook: KERNEL_FORWARDS,
    mark: "",
    wiring: Wiring::Firewall,
    has_gateway: false,
};

/// A transparent bridge in the driver.
pub(super) const XDP_BRIDGE: Rampart = Rampart {
    name: "rampart-bridge",
    summary: "Rampart as a transparent bridge, at the XDP hook (layer 2)",
    wiring: Wiring::Bridge,
    ..XDP
};

/// A transparent bridge in the traffic control layer.
pub(super) const TC_BRIDGE: Rampart = Rampart {
    name: "rampart-tc-bridge",
    summary: "Rampart as a transparent bridge, at the TC hook (layer 2)",
    wiring: Wiring::Bridge,
    ..TC
};

impl Driver for Rampart {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[
            Requirement::Program(PROGRAM),
            Requirement::KernelFile { path: "/sys/kernel/btf/vmlinux", feature: "BPF with type information" },
        ]
    }

    fn capabilities(&self) -> Capabilities {
        if self.has_gateway {
            return gateway::CAPABILITIES;
        }
        let three_zones = self.wiring != Wiring::Bridge;
        Capabilities { stateless: false, lists: true, countries: true, three_zones, ..Capabilities::RULES }
    }

    fn wiring(&self) -> Wiring {
        self.wiring
    }

    fn versions(&self) -> BTreeMap<String, String> {
        version_of(PROGRAM).into_iter().collect()
    }

    fn remark(&self, asked: &PolicyShape) -> Option<String> {
        if self.has_gateway {
            Some(gateway::REMARK.to_owned())
        } else {
            kept_state(self.name, self.capabilities(), asked)
        }
    }

    fn cannot_handle(&self, setup: &Setup) -> Option<String> {
        if self.has_gateway { gateway::cannot_handle(setup) } else { None }
    }

    fn relays(&self, protocol: Protocol) -> Option<Relay> {
        if self.has_gateway { gateway::relays(protocol).ok() } else { None }
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        let side = bed.firewall_side(self.name)?;
        let mut journal = Journal::start()?;
        let folder = journal.folder(PROGRAM)?;
        let asked = policy.shape.gateway;
        let state =
            services::log_folder(asked.event_log, &mut journal)?.unwrap_or_else(|| folder.join("state"));
        let names = asked.look_ups.then(|| NameServer::start(bed, &folder)).transpose()?;
        if let Some(kb) = asked.receive_kb {
            services::set_receive_buffer(&side.namespace, kb)?;
        }
        let memory = asked.memory_mb.map(|mb| MemoryGroup::make(mb, &mut journal)).transpose()?;
        let mut running = Firewall {
            hook: self.hook,
            mark: self.mark,
            wiring: self.wiring,
            cores: bed.spec().cores.firewall.iter().map(|&core| core as usize).collect(),
            has_gateway: self.has_gateway,
            daemon: None,
            names: Mutex::new(names),
            side,
            folder,
            state,
            memory,
            _journal: journal,
            policy: policy.clone(),
            written: BTreeMap::new(),
            dropped_before: BTreeMap::new(),
            load_seconds: 0.0,
        };
        running.start()?;
        running.side.place()?;
        Ok(Box::new(running))
    }
}

/// Fields are dropped in order: the daemon ends before the journal removes its folder.
struct Firewall {
    hook: &'static str,
    mark: &'static str,
    wiring: Wiring,
    /// Those of the firewall, for its gateway.
    cores: Vec<usize>,
    has_gateway: bool,
    daemon: Option<Guest>,
    /// Whom its gateway asks for names.
    names: Mutex<Option<NameServer>>,
    side: FirewallSide,
    folder: PathBuf,
    /// Where it keeps its event log, among other things.
    state: PathBuf,
    /// What its gateways may take of memory.
    memory: Option<MemoryGroup>,
    _journal: Journal,
    policy: PolicySpec,
    /// The sets whose files are written, by their names.
    written: BTreeMap<String, Set>,
    /// What the daemons before the last reset counted.
    dropped_before: BTreeMap<String, u64>,
    load_seconds: f64,
}

/// Of `rampart drops --json`.
#[derive(Debug, Deserialize)]
struct Drops {
    drops: Vec<DropRow>,
}

#[derive(Debug, Deserialize)]
struct DropRow {
    reason: String,
    packets: u64,
}

/// Of `rampart lists --json`.
#[derive(Debug, Deserialize)]
struct Lists {
    kernel_bytes: u64,
    lists: Vec<ListRow>,
}

#[derive(Debug, Deserialize)]
struct ListRow {
    name: String,
    hits: u64,
}

/// Of `rampart status --json`.
#[derive(Debug, Deserialize)]
struct Status {
    /// An earlier `rampart` calls flows sessions.
    #[serde(alias = "sessions")]
    flows: Occupancy,
    #[serde(default)]
    gateways: Vec<GatewayRow>,
}

#[derive(Debug, Deserialize)]
struct GatewayRow {
    is_up: bool,
}

impl Status {
    fn has_gateways(&self) -> bool {
        self.gateways.len() == gateway::COUNT && self.gateways.iter().all(|gateway| gateway.is_up)
    }
}

#[derive(Debug, Deserialize)]
struct Occupancy {
    open: u64,
}

impl Firewall {
    fn policy_file(&self) -> PathBuf {
        self.folder.join("policy.toml")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// The policy, and the sets that it names, as far as they are others than before.
    fn write_policy(&mut self) -> Result<(), TestbedError> {
        for set in sets_of(&self.policy) {
            if self.written.get(&set.name()) != Some(&set) {
                let file = self.folder.join(text::set_file(&set));
                text::write_set(&set, &file).map_err(TestbedError::io("write", file))?;
                self.written.insert(set.name(), set);
            }
        }
        let file = self.policy_file();
        let means = match (self.hook, self.wiring) {
            (KERNEL_FORWARDS, _) => Means::Kernel,
            (_, Wiring::Bridge) => Means::Bridge,
            _ if self.has_gateway => Means::Gateway,
            _ => Means::Routes,
        };
        std::fs::write(&file, text::render(&self.policy, &self.side.ports, means))
            .map_err(TestbedError::io("write", file))
    }

    /// Starts the daemon and waits until it answers.
    fn start(&mut self) -> Result<(), TestbedError> {
        self.write_policy()?;
        self.kernel_forwards("1")?;
        let begun = Instant::now();
        let (policy, socket) = (self.policy_file(), self.socket());
        let (policy, socket) = (policy.to_string_lossy(), socket.to_string_lossy());
        let state = self.state.to_string_lossy();
        let words = ["up", &policy, "--hook", self.hook, "--socket", &socket, "--state", &state];
        let cores = if self.has_gateway { self.cores.as_slice() } else { &[] };
        if self.has_gateway {
            // As on any machine; the kernel delivers by it what its gateway takes.
            self.side.namespace.run("ip", &["link", "set", "dev", "lo", "up"])?;
            self.side.namespace.set(&gateway::MANY_CONNECTIONS)?;
        }
        let mut daemon = Guest::start(&self.side.namespace, PROGRAM, &words, cores)?;
        daemon.wait_until("answer", PATIENCE, || self.ask("status").is_ok())?;
        if self.has_gateway {
            let is_up = || self.status().is_ok_and(|status| status.has_gateways());
            daemon.wait_until("have its gateways listen", PATIENCE, is_up)?;
            gateway::stand_beside(daemon.pid());
            if let Some(memory) = &self.memory {
                gateway::limit(daemon.pid(), memory)?;
            }
        }
        self.daemon = Some(daemon);
        self.load_seconds = begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// The kernel's own forwarding, where it is to forward.
    fn kernel_forwards(&self, on: &str) -> Result<(), TestbedError> {
        if self.hook != KERNEL_FORWARDS {
            return Ok(());
        }
        self.side.namespace.set(&[("ipv4/ip_forward", on), ("ipv6/conf/all/forwarding", on)])
    }

    fn ask(&self, question: &str) -> Result<String, TestbedError> {
        let socket = self.socket();
        self.side.namespace.run(PROGRAM, &[question, "--json", "--socket", &socket.to_string_lossy()])
    }

    fn status(&self) -> Result<Status, TestbedError> {
        read(&self.ask("status")?)
    }

    fn lists(&self) -> Result<Lists, TestbedError> {
        read(&self.ask("lists")?)
    }

    fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            // The firewall outlives a daemon that is only ended. One that does not answer goes with its namespace.
            let _ = self.ask("down");
            daemon.end(PATIENCE);
            // The namespace may be gone already; then it forwards nothing.
            let _ = self.kernel_forwards("0");
        }
    }
}

fn read<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, TestbedError> {
    serde_json::from_str(text).map_err(|error| {
        TestbedError::Impossible(format!("rampart's answer cannot be read: {error}: {text}"))
    })
}

/// Bytes of all BPF maps among what the kernel tells of open files, each once.
fn map_bytes(files: impl Iterator<Item = String>) -> u64 {
    let number = |text: &str, key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok())
    };
    let maps: BTreeMap<u64, u64> = files
        .filter_map(|text| Some((number(&text, "map_id:")?, number(&text, "memlock:").unwrap_or(0))))
        .collect();
    maps.values().sum()
}

impl Running for Firewall {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        let drops: Drops = read(&self.ask("drops")?)?;
        let mut counters = self.dropped_before.clone();
        for list in self.lists()?.lists {
            let name = if list.name == COUNTRIES { "country_drop" } else { "listed_drop" };
            *counters.entry(name.to_owned()).or_default() += list.hits;
        }
        // What lists refuse is there already.
        for row in drops.drops.into_iter().filter(|row| row.reason != "list") {
            *counters.entry(row.reason).or_default() += row.packets;
        }
        Ok(counters)
    }

    fn flow_entries(&self) -> Result<Option<u64>, TestbedError> {
        Ok(Some(self.status()?.flows.open))
    }

    /// The maps of its data plane: all preallocated, so the same however many flows there are.
    fn memory_bytes(&self) -> Option<u64> {
        let folder = format!("/proc/{}/fdinfo", self.daemon.as_ref()?.pid());
        let texts = std::fs::read_dir(folder).ok()?.flatten();
        // No open file leads to the lists.
        let lists = self.lists().ok()?.kernel_bytes;
        let programs = gateway::resident_bytes(self.has_gateway, self.daemon.as_ref()?.pid());
        Some(
            lists
                + programs
                + map_bytes(texts.filter_map(|entry| std::fs::read_to_string(entry.path()).ok())),
        )
    }

    fn policy_load_seconds(&self) -> Option<f64> {
        Some(self.load_seconds)
    }

    fn replace(&mut self, policy: &PolicySpec) -> Result<Replaced, TestbedError> {
        check_replacement(&self.policy, policy)?;
        self.policy = policy.clone();
        self.write_policy()?;
        let begun = Instant::now();
        let (file, socket) = (self.policy_file(), self.socket());
        let words = ["apply", &file.to_string_lossy(), "--socket", &socket.to_string_lossy()];
        self.side.namespace.run(PROGRAM, &words)?;
        Ok(Replaced { command_seconds: begun.elapsed().as_secs_f64() })
    }

    fn forget_flows(&mut self) -> Result<(), TestbedError> {
        let socket = self.socket();
        let words = ["sessions", "--kill", "--all", "--json", "--socket", &socket.to_string_lossy()];
        self.side.namespace.run(PROGRAM, &words).map(drop)
    }

    fn firewall_threads(&self) -> Vec<i32> {
        let mut threads = self.side.threads();
        if let (true, false, Some(daemon)) = (self.has_gateway, threads.is_empty(), &self.daemon) {
            threads.extend(gateway::threads(daemon.pid()));
        }
        threads
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        if self.has_gateway && !self.status()?.has_gateways() {
            return Err(gone("a gateway of it does not listen".to_owned()));
        }
        if let Some(names) = &mut *self.names.lock().unwrap_or_else(PoisonError::into_inner) {
            names.check_runs()?;
        }
        self.status()?;
        check_links(&self.side, self.mark)
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        self.side.links_down()?;
        self.dropped_before = self.counters()?;
        self.stop();
        self.side.links_up()?;
        self.start()
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        self.stop();
        if let Some(names) = self.names.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            names.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_added_up_once_each() {
        let files = [
            "pos:\t0\nflags:\t02\n",
            "map_type:\t2\nmemlock:\t4096\nmap_id:\t7\nfrozen:\t0\n",
            "map_type:\t2\nmemlock:\t4096\nmap_id:\t7\n",
            "map_type:\t2\nmemlock:\t100\nmap_id:\t8\n",
            "prog_type:\t6\nmemlock:\t8192\nprog_id:\t5\n",
        ];
        assert_eq!(map_bytes(files.into_iter().map(str::to_owned)), 4196);
    }
}
