//! The vocabulary of an experiment: zones, lanes, flows, and the policy that a firewall under test is given.
//! These are plain values; `testbed` builds beds from them and `traffic` builds frames from them.

use crate::application::ApplicationShape;
use crate::bulk::BulkShape;
use crate::connections::ConnectionShape;
use crate::frame::{FrameMix, PREAMBLE_AND_GAP_BYTES, fragment_frames};
use rule_sets::Family;
use serde::{Deserialize, Serialize};

/// A network zone of the five reports' test beds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Zone {
    /// The protected network: clients.
    Private,
    /// The servers' network, reachable from both others.
    Dmz,
    /// The outside.
    Hostile,
}

impl Zone {
    /// The name used in suites, results and namespaces.
    pub const fn name(self) -> &'static str {
        match self {
            Zone::Private => "private",
            Zone::Dmz => "dmz",
            Zone::Hostile => "hostile",
        }
    }
}

/// Which zones a bed has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZoneForm {
    /// Private and hostile.
    Two,
    /// Private, DMZ and hostile.
    Three,
}

/// One direction of traffic between two zones. Sequence numbers, loss and latency are kept per lane and core.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Lane {
    /// Where frames enter the firewall.
    pub from: Zone,
    /// Where they leave it.
    pub to: Zone,
}

impl Lane {
    /// Whether this lane carries answers: from servers back to clients.
    pub const fn is_reverse(self) -> bool {
        use Zone::{Dmz, Hostile, Private};
        !matches!((self.from, self.to), (Private, Hostile | Dmz) | (Hostile, Dmz))
    }
}

/// One- or two-way traffic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Directions {
    /// Private to hostile only (and, with three zones, private to DMZ and hostile to DMZ).
    OneWay,
    /// Both ways; `reverse_share` is the share of all frames that flows back, 0 < share < 1.
    TwoWay {
        /// 0.5 is symmetric.
        reverse_share: f64,
    },
}

/// IP version of the test frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IpVersion {
    /// 198.18.0.0/15 (RFC 2544 appendix C.2.2).
    V4,
    /// 2001:2::/48 (RFC 5180 section 8).
    V6,
}

/// The UDP checksum of test frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UdpChecksum {
    /// Absent (zero), which only IPv4 allows. A real card would have checked it before the firewall saw the frame.
    Zero,
    /// Computed for every frame.
    Valid,
}

/// What the generator sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrafficShape {
    /// Frame size or mix.
    pub frame: FrameMix,
    /// IP version.
    pub ip: IpVersion,
    /// Distinct flows (5-tuples), 1 to 4,000,000, in seeded pseudorandom order (RFC 4814).
    pub flows: u32,
    /// Distinct source addresses that the flows are spread over.
    pub clients: u32,
    /// Distinct destination addresses that the flows are spread over.
    pub servers: u32,
    /// One- or two-way.
    pub directions: Directions,
    /// UDP checksum.
    pub udp_checksum: UdpChecksum,
    /// Frames that each datagram is sent in: 1 sends whole datagrams, 2 each datagram in two IP fragments (RFC 3511
    /// section 5.9); the generator refuses other values. The frame size is then the datagram's before it is cut, as RFC
    /// 3511's packet size is, while rates, counts and bits are those of the frames sent: of the fragments.
    pub fragments: u32,
    /// Cores that generate, each with its own slice of the flows.
    pub cores: u32,
    /// Seed of every pseudorandom choice.
    pub seed: u64,
}

impl TrafficShape {
    /// Frames a second that fill an Ethernet link of `bits_per_second`, preamble and gap included.
    pub fn line_rate_frames_per_second(&self, bits_per_second: f64) -> f64 {
        if self.fragments == 1 {
            return self.frame.line_rate_frames_per_second(bits_per_second);
        }
        let sizes = self.frame.sizes();
        let bytes: f64 = sizes.iter().flat_map(|&size| fragment_frames(size, self.ip)).map(f64::from).sum();
        let frames = 2.0 * sizes.len() as f64;
        bits_per_second * frames / (8.0 * (bytes + frames * f64::from(PREAMBLE_AND_GAP_BYTES)))
    }
}

/// The policy that every firewall under test is given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PolicyShape {
    /// Rules in all, the matching one included; 0 means no filter at all (forward everything).
    pub rules: u32,
    /// 1-based position of the rule that allows the test traffic; 1..=rules, or 0 when there are no rules.
    pub match_position: u32,
    /// The family of rule sets that the other rules are as; `None`: rules of the bench's own.
    pub rule_family: Option<Family>,
    /// Track connections; replies are allowed by state.
    pub stateful: bool,
    /// Translate source addresses of private to hostile traffic.
    pub nat: bool,
    /// Addresses on the block lists, none of which the test traffic uses.
    pub listed_addresses: u32,
    /// Lists that they are spread over, 1 to 3; three share them as 1:2:3 (PoliWall's 5 + 10 + 15 million).
    pub lists: u32,
    /// Subnets of the country table: only traffic from and to these is looked at by the rules at all; the test networks are
    /// among them. 0 is no country table.
    pub allowed_subnets: u32,
    /// The protocol of the test traffic, which the matching rule allows.
    pub protocol: TestProtocol,
    /// Whether the matching rule allows the attackers' range as well, so that a flood meets the firewall's state and not its
    /// rules.
    pub admits_attackers: bool,
    /// What is asked of an application gateway beside its rules.
    pub gateway: GatewayShape,
    /// Seed of filler rules and lists.
    pub seed: u64,
}

/// What is asked of a firewall whose own programs carry connections, beside its rules: what the NSTL report of 1997 changed from run to run. The
/// default is what each firewall does that is not asked for anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GatewayShape {
    /// Names of servers and of clients are looked up.
    pub look_ups: bool,
    /// Decisions about requests are kept for a while, where a gateway can do so.
    pub keeps_decisions: bool,
    /// Where each request that passes is recorded.
    pub event_log: EventLog,
    /// KB of 1,024 bytes that the kernel may keep of what comes in on a connection to the firewall itself; `None`: as many as it decides.
    pub receive_kb: Option<u32>,
    /// MB of 1,048,576 bytes that the firewall's own programs may take once they run; `None`: no limit.
    pub memory_mb: Option<u32>,
}

impl GatewayShape {
    /// Nothing is asked.
    pub const USUAL: Self = Self {
        look_ups: false,
        keeps_decisions: true,
        event_log: EventLog::None,
        receive_kb: None,
        memory_mb: None,
    };
}

/// Where a gateway records each request that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventLog {
    /// Nowhere.
    None,
    /// In files in memory (tmpfs).
    Memory,
    /// In files on a disk.
    Disk,
}

impl PolicyShape {
    /// No filter at all: everything is forwarded.
    pub const fn forward_everything(seed: u64) -> Self {
        Self {
            rules: 0,
            match_position: 0,
            rule_family: None,
            stateful: false,
            nat: false,
            listed_addresses: 0,
            lists: 1,
            allowed_subnets: 0,
            protocol: TestProtocol::Udp,
            admits_attackers: false,
            gateway: GatewayShape::USUAL,
            seed,
        }
    }
}

/// The protocol of the test traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TestProtocol {
    /// Frames are UDP.
    Udp,
    /// Connections are TCP. A stateful policy then also drops what belongs to no connection and is no SYN.
    Tcp,
}

/// Where the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Generator, firewall and sink share each core: the rate is the cost of the whole pipeline.
    Inline,
    /// The firewall's receive work has cores of its own: overload and loss are real.
    Isolated,
}

impl Placement {
    /// As suites and results write it.
    pub const fn name(self) -> &'static str {
        match self {
            Placement::Inline => "inline",
            Placement::Isolated => "isolated",
        }
    }
}

/// What is sent through the firewall.
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// Frames of UDP, without answers.
    Frames,
    /// TCP connections that the bench opens and answers.
    Connections(ConnectionShape),
    /// A bulk transfer over the kernel's own TCP.
    Bulk(BulkShape),
    /// Virtual clients that fetch files over the kernel's own TCP.
    Application(ApplicationShape),
}

/// Everything that makes two trials comparable: the levels of all factors of one cell of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Zones of the bed.
    pub zones: ZoneForm,
    /// The frames; of another workload, the addresses, ports and cores.
    pub traffic: TrafficShape,
    /// What is sent.
    pub workload: Workload,
    /// The policy.
    pub policy: PolicyShape,
    /// Where the work is done.
    pub placement: Placement,
    /// Rate limit of every link in bits a second (TBF), or none.
    pub link_bits_per_second: Option<u64>,
    /// Whether links carry TCP segments put together and with unfinished checksums, as between cards that do such work themselves.
    /// Without, each segment passes the firewall by itself, and whole.
    pub offloads: bool,
}

impl Setup {
    /// What connections are like; `None` of another workload.
    pub fn connections(&self) -> Option<&ConnectionShape> {
        match &self.workload {
            Workload::Connections(shape) => Some(shape),
            _ => None,
        }
    }

    /// The lanes that this setup sends on, forward lanes first, each with its share of all frames. Shares sum to 1.
    pub fn lanes(&self) -> Vec<(Lane, f64)> {
        let forward: &[(Zone, Zone)] = match self.zones {
            ZoneForm::Two => &[(Zone::Private, Zone::Hostile)],
            ZoneForm::Three => {
                &[(Zone::Private, Zone::Hostile), (Zone::Private, Zone::Dmz), (Zone::Hostile, Zone::Dmz)]
            }
        };
        let reverse_share = match self.traffic.directions {
            Directions::OneWay => 0.0,
            Directions::TwoWay { reverse_share } => reverse_share,
        };
        let count = forward.len() as f64;
        let mut lanes: Vec<(Lane, f64)> =
            forward.iter().map(|&(from, to)| (Lane { from, to }, (1.0 - reverse_share) / count)).collect();
        if reverse_share > 0.0 {
            lanes.extend(
                forward.iter().map(|&(from, to)| (Lane { from: to, to: from }, reverse_share / count)),
            );
        }
        lanes
    }
}
