//! The checked policy: names are resolved to what they stand for, and every value is within its range.

use crate::address::AddressSet;
pub use crate::bridge::Bridge;
use crate::gateways::{Gateway, GatewayRule};
use crate::lists::{List, ListSet};
use crate::quantity::Rate;
use crate::scans::Scans;
use crate::schedule::{self, Schedule};
use crate::service::ServiceSet;
use crate::settings::{Settings, SynProxy};
pub use crate::translation::{Change, Translation};
use jiff::Timestamp;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use toml_reader::Places;

/// Number of a zone: its place in [`Policy::zones`], 0 to 63.
pub type ZoneId = u8;

/// The zone of the firewall itself, in every policy.
pub const SELF: ZoneId = 0;

/// The most zones of a policy, with `self`.
pub const MAX_ZONES: usize = 64;

/// The most rules of a policy.
pub const MAX_RULES: usize = 1_000_000;

/// A policy without errors.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How messages call the file.
    pub file: String,
    /// The text.
    pub text: String,
    /// The folder from which on the text names files; `None` where nobody said it, and files must be named from the root on.
    pub folder: Option<PathBuf>,
    /// The zones; the first is `self`.
    pub zones: Vec<Zone>,
    /// The transparent bridges, in the order of the text.
    pub bridges: Vec<Bridge>,
    /// The objects, in the order of the text.
    pub objects: Vec<Object>,
    /// The services that the text defines, in the order of the text; built-in services are not among them.
    pub services: Vec<Service>,
    /// The lists of addresses, in the order of the text, then the countries and domains that the text names, each as a list. What a list is bound to refuses
    /// before any rule is asked.
    pub lists: Vec<List>,
    /// The schedules, in the order of the text.
    pub schedules: Vec<Schedule>,
    /// The rules; the first that matches decides.
    pub rules: Vec<Rule>,
    /// What is translated; of each direction the first that matches decides.
    pub translations: Vec<Translation>,
    /// The application gateways, in the order of the text.
    pub gateways: Vec<Gateway>,
    /// What happens when no rule matches: for each pair of zones, at the place `from * zones + to`.
    pub defaults: Vec<PairDefault>,
    /// What is a scan; `None`: nobody looks for scans.
    pub scans: Option<Scans>,
    /// Settings of the firewall as a whole.
    pub settings: Settings,
    /// What the text defines and nothing refers to: how messages call it, and the bytes of its name.
    pub(crate) unused: Vec<(String, Range<usize>)>,
}

/// Interfaces that are trusted alike.
#[derive(Debug, Clone)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Names of its interfaces, and patterns of names (`ppp*`); `self` has none.
    pub interfaces: Vec<String>,
    /// Addresses of the hosts behind the interfaces; empty when the text does not say.
    pub networks: AddressSet,
    /// A description for people.
    pub description: Option<String>,
}

/// What the names that a pattern of interfaces takes begin with; `None` if it is a name.
pub fn pattern(interface: &str) -> Option<&str> {
    interface.strip_suffix('*')
}

impl Zone {
    /// Its interfaces that are named one by one.
    pub fn named_interfaces(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().map(String::as_str).filter(|name| pattern(name).is_none())
    }

    /// What the names of its other interfaces begin with.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().filter_map(|name| pattern(name))
    }
}

impl Policy {
    /// The zone whose networks hold a destination; or, when none does, the only zone of which the policy names no networks.
    ///
    /// # Errors
    /// There is no such zone, or several; as a sentence that says why.
    pub fn zone_of_destination(&self, destination: IpAddr) -> Result<ZoneId, String> {
        let pick = |holds: &dyn Fn(&Zone) -> bool| -> Vec<ZoneId> {
            (0..).zip(&self.zones).skip(1).filter(|(_, zone)| holds(zone)).map(|(id, _)| id).collect()
        };
        let holding = pick(&|zone| zone.networks.contains(destination));
        let open = pick(&|zone| zone.networks.is_empty());
        match (holding.as_slice(), open.as_slice()) {
            ([one], _) | ([], [one]) => Ok(*one),
            ([], _) => Err(format!("no zone's networks hold {destination}")),
            _ => Err(format!("several zones' networks hold {destination}")),
        }
    }

    /// The zone of an interface: the one that names it, or else the one with a pattern that its name matches.
    pub fn zone_of_interface(&self, interface: &str) -> Option<&Zone> {
        let named = self.zones.iter().find(|zone| zone.named_interfaces().any(|name| name == interface));
        named.or_else(|| {
            self.zones.iter().find(|zone| zone.patterns().any(|prefix| interface.starts_with(prefix)))
        })
    }
}

/// A name for a set of addresses.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// The addresses.
    pub addresses: Arc<AddressSet>,
    /// Lists whose addresses it has besides.
    pub lists: ListSet,
    /// Bytes of the text that name it.
    pub span: Range<usize>,
}

/// A name for a set of protocols and ports.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The protocols and ports.
    pub keys: Arc<ServiceSet>,
    /// Bytes of the text that name it.
    pub span: Range<usize>,
}

/// A set of zones: bit `n` is the zone `n`.
pub type ZoneSet = u64;

/// One rule: which packets it matches, and what it does with them.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Its name, which no other rule has. Counters follow the name when the policy changes.
    pub name: String,
    /// A description for people.
    pub description: Option<String>,
    /// Zones that the packet comes from.
    pub from: ZoneSet,
    /// Zones that it goes to.
    pub to: ZoneSet,
    /// Source addresses of the packet.
    pub source: Arc<AddressSet>,
    /// Lists whose addresses are sources of the packet besides.
    pub source_lists: ListSet,
    /// Destination addresses of the packet.
    pub destination: Arc<AddressSet>,
    /// Lists whose addresses are destinations of the packet besides.
    pub destination_lists: ListSet,
    /// Protocols, destination ports and source ports.
    pub service: Arc<ServiceSet>,
    /// When the rule holds: a place in [`Policy::schedules`]; `None` is always.
    pub schedule: Option<usize>,
    /// The action, and what the rule logs, limits and counts.
    pub effect: Effect,
    /// Whether the rule takes part; a disabled rule matches nothing.
    pub enabled: bool,
    /// Bytes of the text that name it.
    pub span: Range<usize>,
    /// The fields as the text writes them.
    pub written: Written,
}

/// The fields of a rule as the text writes them; `any` for a field that the text leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Zones from.
    pub from: String,
    /// Zones to.
    pub to: String,
    /// Sources.
    pub source: String,
    /// Destinations.
    pub destination: String,
    /// Services.
    pub service: String,
    /// Source ports.
    pub source_port: String,
}

/// What a rule does with the packets that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// The action.
    pub action: Action,
    /// What is logged.
    pub log: Log,
    /// How many flows may pass.
    pub limit: Limit,
    /// When an alert is raised.
    pub alert: Option<Alert>,
    /// The transparent gateway that takes the flows: a place in [`Policy::gateways`].
    pub gateway: Option<usize>,
    /// Whether SYNs of the connections are answered with cookies; `None`: as the settings say.
    pub syn_proxy: Option<SynProxy>,
}

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The packet passes.
    Allow,
    /// The packet is dropped, and its sender gets no answer.
    Deny,
    /// The packet is dropped, and its sender gets a TCP reset or an ICMP error.
    Reject,
}

impl Action {
    /// All of them, as policies write them.
    pub const NAMES: [(&'static str, Action); 3] =
        [("allow", Action::Allow), ("deny", Action::Deny), ("reject", Action::Reject)];

    /// As policies write it.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Deny => "deny",
            Action::Reject => "reject",
        }
    }
}

/// Which events of a rule's traffic are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Log {
    /// None.
    Nothing,
    /// Each flow when it opens, or each packet that the rule refuses.
    Open,
    /// Each flow when it ends, with its counters.
    Close,
    /// Each flow when it opens and when it ends.
    Both,
}

/// Limits of a rule that allows. A packet beyond a limit is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// New flows in a time; `None` is no limit.
    pub rate: Option<Rate>,
    /// New flows at once beyond the rate, 1 to 10,000,000; `None` is the number of the rate.
    pub burst: Option<u32>,
    /// Flows that are open at once, 1 to 16,777,216; `None` is no limit.
    pub connections: Option<u32>,
    /// What is counted together.
    pub per: Per,
}

/// What a limit or a threshold counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Per {
    /// All traffic of the rule together.
    #[default]
    Rule,
    /// The traffic of each source address.
    Source,
    /// The traffic of each destination address.
    Destination,
}

impl Per {
    /// All of them, as policies write them.
    pub const NAMES: [(&'static str, Per); 3] =
        [("rule", Per::Rule), ("source", Per::Source), ("destination", Per::Destination)];
}

/// A threshold above which an alert is raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    /// The threshold: an alert is raised by more new flows (or refused packets) than this, 1 to 1,000,000,000.
    pub count: u32,
    /// The sliding time in which they are counted, 1 s to 1 d.
    pub within: Duration,
    /// What is counted together.
    pub per: Per,
}

/// What happens between two zones when no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairDefault {
    /// The action: default deny, unless the text says otherwise.
    pub action: Action,
    /// Which events are recorded.
    pub log: Log,
}

impl Policy {
    /// Reads and checks a policy. `file` is how messages call it.
    ///
    /// # Errors
    /// Every mistake of the text, with its place and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Self, crate::Problems> {
        crate::check::policy(file, text)
    }

    /// The same policy, whose files are in this folder.
    #[must_use]
    pub fn in_folder(self, folder: Option<PathBuf>) -> Self {
        Self { folder, ..self }
    }

    /// Where something of the text begins, as messages write it: `FILE:LINE:COLUMN`.
    pub fn place(&self, span: &Range<usize>) -> String {
        let problem = Places::new(&self.file, &self.text).problem(span.clone(), String::new(), None);
        format!("{}:{}:{}", problem.file, problem.line, problem.column)
    }

    /// The names of all counters: of the rules, then of the lists.
    pub fn counters(&self) -> Vec<String> {
        let rules = self.rules.iter().map(|rule| rule.name.clone());
        rules.chain(self.lists.iter().map(List::counter)).collect()
    }

    /// The number of the zone of a name.
    pub fn zone(&self, name: &str) -> Option<ZoneId> {
        self.zones.iter().position(|zone| zone.name == name).and_then(|i| ZoneId::try_from(i).ok())
    }

    /// What happens from a zone to a zone when no rule matches.
    pub fn default_between(&self, from: ZoneId, to: ZoneId) -> PairDefault {
        self.defaults[usize::from(from) * self.zones.len() + usize::from(to)]
    }

    /// Whether a rule takes part at a moment: the rule is enabled, and its schedule holds.
    pub fn takes_part(&self, rule: &Rule, at: Timestamp) -> bool {
        rule.enabled && rule.schedule.is_none_or(|s| self.schedules[s].holds(at))
    }

    /// Whether a gateway's rule takes part at a moment.
    pub fn gateway_rule_holds(&self, rule: &GatewayRule, at: Timestamp) -> bool {
        rule.enabled && rule.schedule.is_none_or(|s| self.schedules[s].holds(at))
    }

    /// The next moment after `at` at which a rule begins or ceases to take part; tables that were built for `at` are right until
    /// then. `None` when no rule ever changes.
    pub fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let of_gateways = || self.gateways.iter().flat_map(|gateway| &gateway.rules);
        let is_used = |place| {
            self.rules.iter().any(|r| r.enabled && r.schedule == Some(place))
                || of_gateways().any(|r| r.enabled && r.schedule == Some(place))
        };
        let used: Vec<&Schedule> = (self.schedules.iter().enumerate())
            .filter(|(i, _)| is_used(*i))
            .map(|(_, schedule)| schedule)
            .collect();
        schedule::next_change(used, at)
    }
}
