//! The checked policy: everything named in the text is resolved, everything in it is meant.

use crate::address::AddressSet;
use crate::quantity::Rate;
use crate::schedule::{self, Schedule};
use crate::service::ServiceSet;
use crate::settings::Settings;
use jiff::Timestamp;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Number of a zone: its place in [`Policy::zones`].
pub type ZoneId = u8;

/// The zone of the firewall itself, in every policy.
pub const SELF: ZoneId = 0;

/// Zones of a policy at most, with `self`.
pub const MAX_ZONES: usize = 64;

/// Rules of a policy at most.
pub const MAX_RULES: usize = 1_000_000;

/// A policy without errors.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How messages call the file.
    pub file: String,
    /// The text.
    pub text: String,
    /// The zones; the first is `self`.
    pub zones: Vec<Zone>,
    /// The objects, in the order of the text.
    pub objects: Vec<Object>,
    /// The services that the text defines, in its order.
    pub services: Vec<Service>,
    /// The schedules, in the order of the text.
    pub schedules: Vec<Schedule>,
    /// The rules; the first that matches decides.
    pub rules: Vec<Rule>,
    /// What happens where no rule matches, at `from * zones + to`.
    pub defaults: Vec<PairDefault>,
    /// Settings.
    pub settings: Settings,
    /// What the text defines and nothing refers to: what it is called, and where it is.
    pub(crate) unused: Vec<(String, Range<usize>)>,
}

/// Interfaces that are trusted alike.
#[derive(Debug, Clone)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Names of its interfaces; `self` has none.
    pub interfaces: Vec<String>,
    /// Addresses that live there; none when the text does not say.
    pub networks: AddressSet,
    /// What it is, for people.
    pub description: Option<String>,
}

/// A name for addresses.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// The addresses.
    pub addresses: Arc<AddressSet>,
    /// Bytes of the text that name it.
    pub span: Range<usize>,
}

/// A name for protocols and ports.
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

/// What to do with packets of a kind.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Its name, unique; counters follow it.
    pub name: String,
    /// What it is for, for people.
    pub description: Option<String>,
    /// Zones that the packet comes from.
    pub from: ZoneSet,
    /// Zones that it goes to.
    pub to: ZoneSet,
    /// Addresses that it comes from.
    pub source: Arc<AddressSet>,
    /// Addresses that it goes to.
    pub destination: Arc<AddressSet>,
    /// Protocols and destination ports.
    pub service: Arc<ServiceSet>,
    /// When it holds: a place in [`Policy::schedules`]; always when `None`.
    pub schedule: Option<usize>,
    /// What happens to the packet, and what else is done about it.
    pub effect: Effect,
    /// Whether it counts at all.
    pub enabled: bool,
    /// Bytes of the text that name it.
    pub span: Range<usize>,
    /// The fields in the words of the text.
    pub written: Written,
}

/// The fields of a rule in the words of the text, `any` where it says nothing.
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
}

/// What a rule does with its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// The action.
    pub action: Action,
    /// What is logged.
    pub log: Log,
    /// How much is let through.
    pub limit: Limit,
    /// When somebody is told.
    pub alert: Option<Alert>,
}

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// It passes.
    Allow,
    /// It is dropped without a word.
    Deny,
    /// It is dropped, and its sender is told: a TCP reset, or an ICMP error.
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

/// What is logged of a rule's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Log {
    /// Nothing.
    Nothing,
    /// Each flow as it opens, or each packet that is not allowed.
    Open,
    /// Each flow as it ends, with its counts.
    Close,
    /// Both ends of each flow.
    Both,
}

/// Limits of a rule that allows. What is beyond a limit is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// New flows in a time.
    pub rate: Option<Rate>,
    /// New flows at once beyond the rate; as many as the rate when the text does not say.
    pub burst: Option<u32>,
    /// Flows open at once.
    pub connections: Option<u32>,
    /// What the limits are counted for.
    pub per: Per,
}

/// What a limit or a threshold is counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Per {
    /// All traffic of the rule together.
    #[default]
    Rule,
    /// Each source address.
    Source,
    /// Each destination address.
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
    /// Flows (or refused packets) that raise it.
    pub count: u32,
    /// Within this time.
    pub within: Duration,
    /// What they are counted for.
    pub per: Per,
}

/// What happens between two zones where no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairDefault {
    /// The action; deny where the text does not say.
    pub action: Action,
    /// Whether each is logged.
    pub log: Log,
}

impl Policy {
    /// Reads and checks a policy. `file` is how messages call it.
    ///
    /// # Errors
    /// Every problem of the text.
    pub fn parse(file: &str, text: &str) -> Result<Self, crate::Problems> {
        crate::check::policy(file, text)
    }

    /// The zone of a name.
    pub fn zone(&self, name: &str) -> Option<ZoneId> {
        self.zones.iter().position(|zone| zone.name == name).and_then(|i| ZoneId::try_from(i).ok())
    }

    /// What happens from a zone to a zone where no rule matches.
    pub fn default_between(&self, from: ZoneId, to: ZoneId) -> PairDefault {
        self.defaults[usize::from(from) * self.zones.len() + usize::from(to)]
    }

    /// Whether a rule takes part at a moment: enabled, and its schedule holds.
    pub fn takes_part(&self, rule: &Rule, at: Timestamp) -> bool {
        rule.enabled && rule.schedule.is_none_or(|s| self.schedules[s].holds(at))
    }

    /// The next moment after `at` at which any rule begins or ceases to take part: tables built for `at` hold until then.
    pub fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let used: Vec<&Schedule> = (self.schedules.iter().enumerate())
            .filter(|(i, _)| self.rules.iter().any(|r| r.enabled && r.schedule == Some(*i)))
            .map(|(_, schedule)| schedule)
            .collect();
        schedule::next_change(used, at)
    }
}
