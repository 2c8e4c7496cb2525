//! What the daemon and its clients say to each other: requests and answers, as JSON over HTTP on a Unix socket. Pure: opens
//! nothing and knows nothing of the data plane. `docs/schema/rampart-api.json` is made from it, and the comments of fields are
//! what users read there.

mod events;
mod filter;
mod history;
mod openapi;

pub use events::{
    Alert, AlertCount, Closed, EVENTS_SHOWN, Event, EventDetails, EventName, Events, GatewayRequest,
    ScanCount,
};
pub use filter::{Filter, FilterError, protocol_name};
pub use history::{History, HistoryEntry, KeptPolicy, Outcome, Restored, Way};
pub use openapi::{Operation, ROUTES, Route, description, find};

use jiff::Timestamp;
use policy::Problem as PolicyProblem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// Flows that an answer has unless the question says otherwise.
pub const FLOWS_SHOWN: u64 = 100;

/// State of the firewall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Version of the daemon, for example `0.1.0`.
    pub version: String,
    /// Process ID of the daemon.
    pub pid: u32,
    /// Network namespace that the firewall runs in: the name that `ip netns` knows it by, `default` for the one that the machine
    /// was started in, or `net-` and its inode, for example `net-4026532289`.
    pub namespace: String,
    /// When the daemon was started, for example `2026-11-20T10:00:00Z`.
    pub since: Timestamp,
    /// The policy in force.
    pub policy: PolicyStatus,
    /// Interfaces that the firewall is attached to.
    pub interfaces: Vec<Interface>,
    /// How full the flow table is.
    pub flows: Occupancy,
    /// What was counted since the firewall was started, besides drops and hits of rules.
    pub counters: Vec<Counter>,
    /// Alerts that stand, by rule.
    pub alerts: Vec<Alert>,
    /// Number of sources that may open no flow because they scanned. Daemons before this field say 0.
    #[serde(default)]
    pub blocked_sources: u64,
    /// Where events and records of flows are sent. Daemons before this field send nothing.
    #[serde(default)]
    pub exports: Vec<Export>,
    /// Application gateways. Daemons before this field have none.
    #[serde(default)]
    pub gateways: Vec<GatewayStatus>,
    /// What needs attention, each as a sentence with what to do; empty when all is well.
    pub troubles: Vec<String>,
}

/// A place to which events or records of flows are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Export {
    /// In which form: `syslog`, `journald` or `ipfix`.
    pub form: String,
    /// Where to, for example `udp://192.0.2.1:514`.
    pub to: String,
    /// Messages or records that were handed to the kernel since this was begun.
    pub sent: u64,
    /// Messages or records that found no place while the collector was away or slow, or were cut off on their way.
    pub lost: u64,
    /// Why nothing reaches it, with what to do; null if all is well.
    pub trouble: Option<String>,
}

/// An application gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayStatus {
    /// Its name, for example `web`.
    pub name: String,
    /// Where it listens, for example `10.0.0.1:3128`.
    pub listen: String,
    /// Whether its process runs.
    pub is_up: bool,
    /// Connections of clients that are open.
    pub open: u64,
    /// Connections of clients in all. Like all that follows, since the daemon was started.
    pub connections: u64,
    /// Of them, those that were turned away because there were too many.
    pub turned_away: u64,
    /// Requests that were carried to their end.
    pub carried: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that a rule allowed and that failed.
    pub failed: u64,
    /// Connections to servers.
    pub to_servers: u64,
    /// Requests that went over a connection to a server that was open already.
    pub reused: u64,
    /// How often its process has ended by itself, and was started again.
    pub restarts: u64,
    /// Connections of clients that ended with a process.
    pub broken: u64,
    /// Why it serves nobody, with what to do; null if all is well.
    pub trouble: Option<String>,
}

/// The policy in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyStatus {
    /// File that the policy was read from, as the request named it, for example `policy.toml`.
    pub file: String,
    /// Number of its rules.
    pub rules: usize,
    /// Number of the tables in force, from 1. It goes up with each policy that is applied, and with each schedule that begins or
    /// ends.
    pub generation: u64,
    /// When the policy was applied, for example `2026-11-20T10:00:00Z`.
    pub applied_at: Timestamp,
    /// When a schedule of the policy next begins or ends; null if no schedule does.
    pub next_change: Option<Timestamp>,
    /// When the previous policy comes back unless this one is confirmed; null if it needs no confirmation.
    pub rolls_back_at: Option<Timestamp>,
    /// While it waits to be confirmed: the number of its entry in the history, by which it is confirmed and no other; null if it needs no
    /// confirmation or could not be kept.
    #[serde(default)]
    pub waiting: Option<u64>,
}

/// An interface that the firewall is attached to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Name of the interface, for example `eth0`.
    pub name: String,
    /// Name of its zone, for example `outside`.
    pub zone: String,
    /// Where the firewall is attached.
    pub hook: HookName,
    /// Why it is not the hook that was asked for; null if it is.
    pub note: Option<String>,
}

/// Where the firewall is attached to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookName {
    /// In the driver (XDP), before the kernel allocates a socket buffer.
    Xdp,
    /// In traffic control (TC), on the kernel's socket buffers.
    Tc,
    /// In netfilter, where the kernel forwards (`forwarding = "kernel"`).
    Netfilter,
}

impl HookName {
    /// Short identifier, for example `xdp`.
    pub const fn name(self) -> &'static str {
        match self {
            HookName::Xdp => "xdp",
            HookName::Tc => "tc",
            HookName::Netfilter => "netfilter",
        }
    }
}

/// How full the flow table is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Occupancy {
    /// Flows in the table, 0 to `capacity`.
    pub open: u64,
    /// TCP handshakes under way, which are some of these flows.
    pub half_open: u64,
    /// Of these, flows other than TCP that nobody has answered yet. Daemons before this field say 0.
    #[serde(default)]
    pub unanswered: u64,
    /// Flows that fit, for example 1048576 (`flows` in `[settings]`).
    pub capacity: u64,
}

/// A counter of the firewall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// Short identifier, for example `forwarded`.
    pub name: String,
    /// What is counted, for example "packets that the fast path forwarded".
    pub explanation: String,
    /// The count since the firewall was started.
    pub count: u64,
}

/// The rules with their counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rules {
    /// Number of the tables in force, as in the status.
    pub generation: u64,
    /// The rules, in the order in which they are tried.
    pub rules: Vec<RuleCount>,
}

/// A rule with its counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleCount {
    /// Name of the rule, for example `web`.
    pub name: String,
    /// `allow`, `deny` or `reject`.
    pub action: String,
    /// Whether the rule is tried now: it is enabled, and its schedule holds.
    pub in_force: bool,
    /// Zones that packets come from, as the policy writes them, for example `inside`.
    pub from: String,
    /// Zones that packets go to, as the policy writes them, for example `outside`.
    pub to: String,
    /// Source addresses, as the policy writes them, for example `10.0.0.0/8`.
    pub source: String,
    /// Destination addresses, as the policy writes them, for example `any`.
    pub destination: String,
    /// Services, as the policy writes them, for example `tcp/443`.
    pub service: String,
    /// Source ports, as the policy writes them, for example `1024-65535`; `any` if the rule does not ask for them.
    #[serde(default = "any")]
    pub source_port: String,
    /// Name of its schedule, for example `office-hours`; null if it has none.
    pub schedule: Option<String>,
    /// Decisions of the rule since a rule of this name came into the policy: new flows that it allowed, and packets that it
    /// refused.
    pub hits: u64,
    /// Packets among these that the rule would have allowed, had they not exceeded its limit.
    pub limited: u64,
}

/// What an older daemon means by saying nothing of source ports.
fn any() -> String {
    "any".to_owned()
}

/// The lists of addresses of the policy in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lists {
    /// Bytes that all lists take in the kernel together.
    pub kernel_bytes: u64,
    /// The lists, in the order in which they are asked.
    pub lists: Vec<ListCount>,
}

/// A list of addresses with its counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListCount {
    /// Name of the list, for example `bad`; of a country that rules name, `country:CH`; of a domain, `domain:www.example.org`.
    pub name: String,
    /// File that it is read from; null if there is none.
    pub file: Option<PathBuf>,
    /// Program that fetches it, for example `curl`; null if none does.
    #[serde(default)]
    pub command: Option<String>,
    /// At which ends it refuses addresses that are on it: `both`, `source` or `destination`; null if at none.
    pub block: Option<String>,
    /// At which ends it refuses addresses that are not on it; null if at none.
    pub require: Option<String>,
    /// Rules that name it.
    #[serde(default)]
    pub rules: Vec<String>,
    /// IPv4 addresses on it, 0 to 4294967296.
    pub ipv4_addresses: u64,
    /// Networks and ranges of IPv6 on it.
    pub ipv6_ranges: u64,
    /// Lines of the file that cannot be read and were left out.
    pub broken_lines: u64,
    /// When it was read or fetched, for example `2026-11-20T10:00:00Z`.
    pub read_at: Timestamp,
    /// When the next of its entries ends, for example `2026-11-24T10:00:00Z`; null if none does.
    #[serde(default)]
    pub next_end: Option<Timestamp>,
    /// From when on nothing is on it, for example `2026-12-31T23:00:00Z`; null if it does not expire.
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// How often it could not be fetched since the policy was applied.
    #[serde(default)]
    pub failures: u64,
    /// Why it is not what its file or its command says now; null if it is.
    pub trouble: Option<String>,
    /// Packets that it refused by itself since a list of this name came into the policy; what rules that name it decide is counted with the rules.
    pub hits: u64,
    /// Of a domain, its addresses now.
    #[serde(default)]
    pub domain: Vec<DomainAddress>,
    /// Of a domain, addresses that were said of it and not taken: too many, or of private networks.
    #[serde(default)]
    pub not_taken: u64,
}

/// An address of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DomainAddress {
    /// The address.
    pub address: IpAddr,
    /// The name that was asked for last, for example `www.example.org`.
    pub name: String,
    /// When it was heard first, for example `2026-11-20T10:00:00Z`.
    pub since: Timestamp,
    /// Until when the domain has it, unless it is said again: its lifetime and the grace.
    pub until: Timestamp,
}

/// Flows that pass a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// Number of flows that pass the filter.
    pub matched: u64,
    /// The first of them, at most as many as the request asked for.
    pub flows: Vec<Flow>,
}

/// A flow: a two-way exchange of packets. Its initiator sent the first packet; the other end is its responder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, or the protocol's number, for example `47`.
    pub protocol: String,
    /// Address of the initiator, for example `10.0.0.5`.
    pub source: IpAddr,
    /// Port of the initiator; of an ICMP query its identifier; 0 if there is neither.
    pub source_port: u16,
    /// Address of the responder, for example `192.0.2.10`.
    pub destination: IpAddr,
    /// Port of the responder, for example 443; 0 if there is none.
    pub destination_port: u16,
    /// By which address and port the responder knows the initiator, if translation changes them.
    #[serde(default)]
    pub source_alias: Option<Alias>,
    /// By which address and port the initiator knows the responder, if translation changes them.
    #[serde(default)]
    pub destination_alias: Option<Alias>,
    /// Zone of the initiator, for example `inside`.
    pub from: String,
    /// Zone of the responder, for example `outside`.
    pub to: String,
    /// Name of the rule that allowed the flow; null if the default of the two zones did, or if the rule is gone.
    pub rule: Option<String>,
    /// Short identifier of the state, for example `established`.
    pub state: String,
    /// Seconds since the last packet.
    pub idle_seconds: u64,
    /// Seconds until the flow expires if no packet comes.
    pub expires_seconds: u64,
    /// Packets from the initiator.
    pub packets_out: u64,
    /// IP bytes from the initiator.
    pub bytes_out: u64,
    /// Packets from the responder.
    pub packets_back: u64,
    /// IP bytes from the responder.
    pub bytes_back: u64,
}

/// How the other end of a translated flow knows an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alias {
    /// The address, for example `203.0.113.7`.
    pub address: IpAddr,
    /// The port; of an ICMP query its identifier; 0 if there is neither.
    pub port: u16,
}

/// Flows that a user ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Killed {
    /// Number of flows that were ended.
    pub killed: u64,
}

/// Sources that may open no flow because they scanned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blocks {
    /// The blocks, the oldest first.
    pub blocks: Vec<Block>,
}

/// A source that asked in vain for too many ports or hosts (`[scans]` with `block`). It opens no flow in the zone that it came from; flows that it has go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// The source, for example `198.51.100.7`; of IPv6 the first address of its network of 64 bits.
    pub source: IpAddr,
    /// Bits that all blocked addresses begin with: 32 of IPv4, 64 of IPv6.
    pub prefix: u8,
    /// Zone that it came from, for example `outside`.
    pub zone: String,
    /// Seconds since it was blocked.
    pub seconds: u64,
    /// Seconds until it may open flows again.
    pub left_seconds: u64,
    /// Different ports that it had asked for in vain, estimated.
    pub ports: u64,
    /// Different hosts that it had asked in vain, estimated.
    pub hosts: u64,
}

/// Ethernet addresses behind the interfaces of bridges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stations {
    /// The stations, by bridge, VLAN and address.
    pub stations: Vec<Station>,
}

/// An Ethernet address that a bridge of more than two interfaces has heard of. Frames for it go to its interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Station {
    /// The bridge, for example `office`.
    pub bridge: String,
    /// The VLAN that it is in, for example 20; absent where its frames have no tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The address, for example `02:00:5e:10:00:01`.
    pub address: String,
    /// Interface that it is behind, for example `eth1`.
    pub interface: String,
    /// Interface that it was behind before it moved, for ten minutes after that; otherwise the same as `interface`.
    pub home: String,
    /// It was heard at another interface and then at home again: two may have the address. Meanwhile nobody else takes it, for five minutes.
    pub claimed: bool,
    /// Seconds since it moved, or was first heard.
    pub moved_seconds: u64,
    /// Seconds since it was last heard.
    pub seen_seconds: u64,
}

/// Blocks that a user ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unblocked {
    /// Number of blocks that were ended.
    pub ended: u64,
}

/// A part of the audit trail, the oldest record first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditTrail {
    /// The records.
    pub records: Vec<AuditRecord>,
    /// Lines of the files that cannot be read, for example because the machine stopped while one was written.
    pub broken: u64,
}

/// Somebody changed the firewall, or tried to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecord {
    /// When, for example `2026-11-20T10:00:00.125Z`.
    pub at: Timestamp,
    /// What was done: `up`, `applied`, `refused`, `confirmed`, `rolled-back`, `killed`, `unblocked`, `left`, `down` or `denied`.
    pub event: String,
    /// Who did it.
    pub by: Actor,
    /// What was done and what came of it, as the daemon reports it.
    pub message: String,
}

/// Who did something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Actor {
    /// A process that sent a request.
    Process {
        /// Its user ID.
        uid: u32,
        /// The name of that user; absent if /etc/passwd has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Who logged in, by name or number, if that is another user: sudo and su do not change it. Absent if the machine does not keep it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<String>,
        /// Whom the process says that it acts for, for example a user of the web administration; nothing proves it. Absent if it says nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        acting_for: Option<String>,
        /// Its process ID.
        pid: i32,
        /// The beginning of its command line, as the process itself states it; empty if it was gone already.
        command: String,
    },
    /// The daemon itself, or a signal: for example `SIGHUP`.
    Other(String),
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Actor::Process { uid, pid, user, login, acting_for, .. } => {
                write!(f, "user {uid} (")?;
                user.iter().try_for_each(|user| write!(f, "{user}, "))?;
                login.iter().try_for_each(|login| write!(f, "logged in as {login}, "))?;
                acting_for.iter().try_for_each(|name| write!(f, "acting for {name}, "))?;
                write!(f, "process {pid})")
            }
            Actor::Other(name) => f.write_str(name),
        }
    }
}

impl From<&str> for Actor {
    fn from(name: &str) -> Self {
        Actor::Other(name.to_owned())
    }
}

/// Dropped packets by reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drops {
    /// Reasons for which packets were dropped, the most frequent first.
    pub drops: Vec<Drop>,
}

/// A reason for which packets were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drop {
    /// Number of the reason, for example 30; it is never given to another reason.
    pub number: u32,
    /// Short identifier, for example `tcp-window`.
    pub reason: String,
    /// What it means, for example "TCP outside the window of its connection", and what to do where something can be done.
    pub explanation: String,
    /// Packets dropped since the firewall was started.
    pub packets: u64,
    /// Whether a single packet is worth a look. Such a reason also appears among the troubles for a minute.
    pub alarming: bool,
}

/// A policy to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPolicy {
    /// Name of the file for messages, for example `policy.toml`. The daemon does not open it.
    pub file: String,
    /// Folder from which on the policy names the files of its lists, which the daemon opens; for example `/etc/rampart`. Without it, the
    /// policy must name them from the root on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The policy's text, in TOML.
    pub text: String,
    /// Seconds after which the previous policy comes back unless this one is confirmed, 1 to 86400; without it, the new policy
    /// needs no confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub confirm_seconds: Option<u32>,
}

/// A policy that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// Number of the tables now in force.
    pub generation: u64,
    /// Number of its entry in the history; null if it could not be kept. What is in force already gets no new entry.
    #[serde(default)]
    pub number: Option<u64>,
    /// Number of rules now.
    pub rules: usize,
    /// How it differs from the previous policy.
    pub changes: Changes,
    /// When the previous policy comes back unless this one is confirmed; null if it needs no confirmation.
    pub rolls_back_at: Option<Timestamp>,
    /// What could not be written down, each a sentence: the policy is in force, and after a restart another one comes up, or the history lacks it.
    #[serde(default)]
    pub not_kept: Vec<String>,
}

/// The difference between two policies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// Names of rules that are new.
    pub added: Vec<String>,
    /// Names of rules that are gone.
    pub removed: Vec<String>,
    /// Rules that kept their names and changed.
    pub changed: Vec<ChangedRule>,
    /// Whether rules that stayed are tried in another order.
    pub reordered: bool,
    /// Whether zones, their interfaces or their networks changed.
    pub zones: bool,
    /// Whether defaults between zones changed.
    pub defaults: bool,
    /// Whether settings changed.
    pub settings: bool,
}

/// A rule that kept its name and changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedRule {
    /// Name of the rule, for example `web`.
    pub name: String,
    /// Keys that changed, for example `["service", "limit"]`.
    pub keys: Vec<String>,
}

/// A policy that was confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmed {
    /// Number of the tables that stay in force.
    pub generation: u64,
}

/// A firewall that was taken down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Down {
    /// Process ID of the daemon, which ends.
    pub pid: u32,
    /// Interfaces that the firewall was detached from, for example `["eth0", "eth1"]`.
    pub detached: Vec<String>,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// What is wrong and what to do, in a sentence.
    pub error: String,
    /// Errors of a policy, each with its place; absent for other requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// An error in a policy's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// File, as the request named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead; null if there is no suggestion.
    pub help: Option<String>,
}

impl From<&PolicyProblem> for Problem {
    fn from(problem: &PolicyProblem) -> Self {
        Self {
            file: problem.file.clone(),
            line: problem.line,
            column: problem.column,
            message: problem.message.clone(),
            help: problem.help.clone(),
        }
    }
}
