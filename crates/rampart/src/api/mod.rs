//! What the daemon and the commands say to each other: the shapes of requests and answers, as JSON over HTTP on a Unix
//! socket. Pure: opens nothing and knows nothing of the data plane. `docs/schema/rampart-api.json` is made from it.

mod filter;
mod openapi;

pub(crate) use filter::{Filter, protocol_name};
pub(crate) use openapi::{Operation, ROUTES, description};

use crate::table::{grouped, span};
use jiff::Timestamp;
use policy::Problem as PolicyProblem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Sessions that are told at once unless the question says otherwise.
pub(crate) const SESSIONS_TOLD: u64 = 100;

/// Events that are told at once unless the question says otherwise.
pub(crate) const EVENTS_TOLD: u64 = 100;

/// What runs, since when, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Status {
    /// Version of the daemon.
    pub(crate) version: String,
    /// Its process.
    pub(crate) pid: u32,
    /// The network namespace that it runs in: a name that `ip netns` knows, `default`, or `net-` and the inode.
    pub(crate) namespace: String,
    /// When it was started.
    pub(crate) since: Timestamp,
    /// The policy in force.
    pub(crate) policy: PolicyStatus,
    /// The interfaces that the firewall is attached to.
    pub(crate) interfaces: Vec<Interface>,
    /// How full the table of sessions is.
    pub(crate) sessions: Occupancy,
    /// What was counted besides drops and rules since the firewall was started.
    pub(crate) counters: Vec<Counter>,
    /// Alerts of rules that stand.
    pub(crate) alerts: Vec<Alert>,
    /// What is not as it should be, each with what to do; empty when all is well.
    pub(crate) troubles: Vec<String>,
}

/// The policy in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PolicyStatus {
    /// The file that it was read from, as it was named.
    pub(crate) file: String,
    /// Number of its rules.
    pub(crate) rules: usize,
    /// The generation of tables in force: goes up with each policy that is applied, and with each schedule that begins or
    /// ends.
    pub(crate) generation: u64,
    /// When it was applied.
    pub(crate) applied_at: Timestamp,
    /// When a schedule next begins or ends.
    pub(crate) next_change: Option<Timestamp>,
    /// When the policy before it comes back unless this one is confirmed; absent when nothing waits for it.
    pub(crate) rolls_back_at: Option<Timestamp>,
}

/// An interface of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Interface {
    /// Its name.
    pub(crate) name: String,
    /// The zone that it belongs to.
    pub(crate) zone: String,
    /// Where packets are taken: `xdp` in the driver, `tc` behind it.
    pub(crate) hook: HookName,
    /// Why it is not the hook that was asked for.
    pub(crate) note: Option<String>,
}

/// Where packets are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HookName {
    /// In the driver, before the kernel makes a buffer of it.
    Xdp,
    /// In the traffic control layer, on the kernel's buffers.
    Tc,
}

impl HookName {
    /// In a word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            HookName::Xdp => "xdp",
            HookName::Tc => "tc",
        }
    }
}

/// How full the table of sessions is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Occupancy {
    /// Sessions in the table.
    pub(crate) open: u64,
    /// Of these, how many are half-open.
    pub(crate) half_open: u64,
    /// Sessions that fit.
    pub(crate) capacity: u64,
}

/// Something that was counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Counter {
    /// In a word.
    pub(crate) name: String,
    /// What it means.
    pub(crate) explanation: String,
    /// How much.
    pub(crate) count: u64,
}

/// The rules with their counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Rules {
    /// The generation of tables in force.
    pub(crate) generation: u64,
    /// The rules, in the order in which they are asked.
    pub(crate) rules: Vec<RuleCount>,
}

/// A rule with its counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RuleCount {
    /// Its name.
    pub(crate) name: String,
    /// `allow`, `deny` or `reject`.
    pub(crate) action: String,
    /// Whether it takes part now: it is enabled, and its schedule holds.
    pub(crate) in_force: bool,
    /// Zones from, as the policy writes them.
    pub(crate) from: String,
    /// Zones to.
    pub(crate) to: String,
    /// Sources.
    pub(crate) source: String,
    /// Destinations.
    pub(crate) destination: String,
    /// Services.
    pub(crate) service: String,
    /// The schedule, if it has one.
    pub(crate) schedule: Option<String>,
    /// Times that it decided, since a rule of this name came into the policy: new sessions, and packets refused.
    pub(crate) hits: u64,
    /// Of these, packets that it would have allowed and that were beyond its limit.
    pub(crate) limited: u64,
}

/// Sessions that pass a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sessions {
    /// How many there are.
    pub(crate) matched: u64,
    /// As many of them as were asked for.
    pub(crate) sessions: Vec<Session>,
}

/// A session: both directions of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Session {
    /// `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, or the number.
    pub(crate) protocol: String,
    /// Who opened it.
    pub(crate) source: IpAddr,
    /// The port it came from, or the identifier of an ICMP query; 0 where there is neither.
    pub(crate) source_port: u16,
    /// Who was called.
    pub(crate) destination: IpAddr,
    /// The port that was called; 0 where there is none.
    pub(crate) destination_port: u16,
    /// Zone that it came from.
    pub(crate) from: String,
    /// Zone that it went to.
    pub(crate) to: String,
    /// The rule that let it in; absent when it was the default of the two zones, or a rule that is gone.
    pub(crate) rule: Option<String>,
    /// The state, in a word.
    pub(crate) state: String,
    /// Seconds without a packet.
    pub(crate) idle_seconds: u64,
    /// Seconds until it is forgotten if no packet comes.
    pub(crate) expires_seconds: u64,
    /// Packets from who opened it.
    pub(crate) packets_out: u64,
    /// Bytes of these, as IP counts them.
    pub(crate) bytes_out: u64,
    /// Packets of the answers.
    pub(crate) packets_back: u64,
    /// Bytes of these.
    pub(crate) bytes_back: u64,
}

/// Sessions that were ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Killed {
    /// How many.
    pub(crate) killed: u64,
}

/// What rules told, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Events {
    /// The number to name as `after` for what comes next.
    pub(crate) next: u64,
    /// Events after the number that was named which are not here: newer ones took their place before they were asked for.
    pub(crate) forgotten: u64,
    /// Events that were not told since the firewall was started, because there were more than `log_rate` of `[settings]` allows.
    pub(crate) untold: u64,
    /// The events.
    pub(crate) events: Vec<Event>,
}

/// Something that a rule told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Event {
    /// From 1, and one more for each.
    pub(crate) number: u64,
    /// When it happened.
    pub(crate) at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub(crate) what: Heard,
}

/// What a rule told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Heard {
    /// In a word.
    pub(crate) event: EventName,
    /// The rule; absent when it was the default of the two zones, or a rule that is gone.
    pub(crate) rule: Option<String>,
    /// `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, or the number.
    pub(crate) protocol: String,
    /// Who sent the packet, or opened the session.
    pub(crate) source: IpAddr,
    /// The port it came from, or the identifier of an ICMP query; 0 where there is neither.
    pub(crate) source_port: u16,
    /// Who was called.
    pub(crate) destination: IpAddr,
    /// The port that was called; 0 where there is none.
    pub(crate) destination_port: u16,
    /// Zone that it came from.
    pub(crate) from: String,
    /// Zone that it went to; absent where it led to none.
    pub(crate) to: Option<String>,
    /// Why it was refused, as `rampart drops` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What there was of a session that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) closed: Option<Closed>,
    /// What came, where it is more than an alert allows or is so no longer; the packet is the one that was too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alert: Option<Surging>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventName {
    /// A session opened.
    Opened,
    /// A packet was refused.
    Refused,
    /// A session ended.
    Closed,
    /// More came than the rule's alert allows.
    Alert,
    /// It is no longer so.
    Over,
}

impl EventName {
    /// In a word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            EventName::Opened => "opened",
            EventName::Refused => "refused",
            EventName::Closed => "closed",
            EventName::Alert => "alert",
            EventName::Over => "over",
        }
    }
}

/// What came within the time of an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Surging {
    /// What is counted together: `rule`, `source` or `destination`.
    pub(crate) per: String,
    /// The address that is counted, if one is.
    pub(crate) address: Option<IpAddr>,
    /// New sessions and refused packets within the time.
    pub(crate) count: u64,
    /// As many as raise no alert yet.
    pub(crate) threshold: u64,
    /// The time.
    pub(crate) within_seconds: u64,
}

impl Surging {
    /// "154 within 1min from 198.51.100.7, more than 100".
    pub(crate) fn words(&self) -> String {
        let side = if self.per == "destination" { "to" } else { "from" };
        let whom = self.address.map(|address| format!(" {side} {address}")).unwrap_or_default();
        let than = if self.count > self.threshold { "more" } else { "no more" };
        let (count, threshold) = (grouped(self.count), grouped(self.threshold));
        format!("{count} within {}{whom}, {than} than {threshold}", span(self.within_seconds))
    }
}

/// An alert that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Alert {
    /// The rule.
    pub(crate) rule: String,
    /// Since when.
    pub(crate) since: Timestamp,
    /// What came, the last time that it was told.
    #[serde(flatten)]
    pub(crate) what: Surging,
}

/// What there was of a session that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Closed {
    /// Its state in the end, in a word.
    pub(crate) state: String,
    /// Seconds that it was open.
    pub(crate) seconds: u64,
    /// Packets from who opened it.
    pub(crate) packets_out: u64,
    /// Bytes of these, as IP counts them.
    pub(crate) bytes_out: u64,
    /// Packets of the answers.
    pub(crate) packets_back: u64,
    /// Bytes of these.
    pub(crate) bytes_back: u64,
}

/// Packets that did not pass, by reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Drops {
    /// Reasons that were met, the most frequent first.
    pub(crate) drops: Vec<Drop>,
}

/// A reason not to let a packet pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Drop {
    /// Its number; never given to another reason.
    pub(crate) number: u32,
    /// In a word.
    pub(crate) reason: String,
    /// What it means, and what to do.
    pub(crate) explanation: String,
    /// Packets since the firewall was started.
    pub(crate) packets: u64,
    /// Whether somebody should look into it as soon as it is met.
    pub(crate) alarming: bool,
}

/// A policy to put in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPolicy {
    /// How messages call it.
    pub(crate) file: String,
    /// The policy.
    pub(crate) text: String,
    /// Seconds after which the policy before it comes back unless this one is confirmed; without it, it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub(crate) confirm_seconds: Option<u32>,
}

/// What a new policy changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Applied {
    /// The generation of tables now in force.
    pub(crate) generation: u64,
    /// Number of rules now.
    pub(crate) rules: usize,
    /// What is different.
    pub(crate) changes: Changes,
    /// When the policy before it comes back unless this one is confirmed.
    pub(crate) rolls_back_at: Option<Timestamp>,
}

/// The difference between two policies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Changes {
    /// Names of rules that were not there before.
    pub(crate) added: Vec<String>,
    /// Names of rules that are no longer there.
    pub(crate) removed: Vec<String>,
    /// Rules of the same name that say something else, with the keys that do.
    pub(crate) changed: Vec<ChangedRule>,
    /// Whether rules that stayed are asked in another order.
    pub(crate) reordered: bool,
    /// Whether zones or their interfaces are different.
    pub(crate) zones: bool,
    /// Whether what happens where no rule matches is different.
    pub(crate) defaults: bool,
    /// Whether settings are different.
    pub(crate) settings: bool,
}

/// A rule that says something else under the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ChangedRule {
    /// Its name.
    pub(crate) name: String,
    /// Its keys that are different.
    pub(crate) keys: Vec<String>,
}

/// The policy in force stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Confirmed {
    /// The generation that was confirmed.
    pub(crate) generation: u64,
}

/// The firewall is down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Down {
    /// The process that ends.
    pub(crate) pid: u32,
    /// The interfaces that it was detached from.
    pub(crate) detached: Vec<String>,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Refusal {
    /// What is wrong and what to do, complete.
    pub(crate) error: String,
    /// What is wrong with a policy, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<Problem>,
}

/// A problem of a policy's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Problem {
    /// The policy as the request named it.
    pub(crate) file: String,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Column in characters, from 1.
    pub(crate) column: usize,
    /// What is wrong.
    pub(crate) message: String,
    /// What would be right.
    pub(crate) help: Option<String>,
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
