//! The reference interpreter goes through the rules one by one and compares every field. It is slow and obvious. Tests compare
//! the tables and the data plane with it.

use crate::lists::OnLists;
use crate::model::{Action, Policy, Rule, SELF, ZoneId};
use jiff::Timestamp;
use std::net::IpAddr;

/// The fields of a packet that rules compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Number of the zone that the packet comes from.
    pub from: ZoneId,
    /// Number of the zone that the packet goes to.
    pub to: ZoneId,
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family as the source.
    pub destination: IpAddr,
    /// Source port; 0 if the protocol has none.
    pub source_port: u16,
    /// IP protocol number; in IPv6 the number of the last header.
    pub protocol: u8,
    /// Destination port, or ICMP `type << 8 | code`; 0 if the protocol has neither.
    pub selector: u16,
}

/// What decided about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decider {
    /// The rule at a place in [`Policy::rules`].
    Rule(usize),
    /// No rule matched, so the default of the pair of zones decided.
    Default,
}

/// What happens to a packet, and what decided that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// What decided.
    pub decider: Decider,
    /// What happens.
    pub action: Action,
}

/// The first field, in the order of comparison, that keeps a rule from matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mismatch {
    /// The rule is not enabled.
    Disabled,
    /// The rule's schedule does not hold at the moment.
    Schedule,
    /// The packet comes from another zone.
    From,
    /// The packet goes to another zone.
    To,
    /// The rule does not name the packet's source.
    Source,
    /// The rule does not name the packet's destination.
    Destination,
    /// The rule does not name the packet's service.
    Service,
    /// The rule names the packet's service from other source ports alone.
    SourcePort,
}

/// The verdict on a packet at a moment: the first rule that matches decides.
pub fn decide(policy: &Policy, packet: &Packet, at: Timestamp) -> Verdict {
    decide_listed(policy, packet, OnLists::default(), at)
}

/// The same of a packet whose ends are on some lists. What lists are bound to is not asked.
pub fn decide_listed(policy: &Policy, packet: &Packet, on: OnLists, at: Timestamp) -> Verdict {
    for (i, rule) in policy.rules.iter().enumerate() {
        if mismatch(policy, rule, packet, on, at).is_none() {
            return Verdict { decider: Decider::Rule(i), action: rule.effect.action };
        }
    }
    let action = policy.default_between(packet.from, packet.to).action;
    Verdict { decider: Decider::Default, action }
}

/// Why a rule does not match a packet; `None` when it does.
pub fn mismatch(
    policy: &Policy,
    rule: &Rule,
    packet: &Packet,
    on: OnLists,
    at: Timestamp,
) -> Option<Mismatch> {
    let source = rule.source.contains(packet.source) || rule.source_lists & on.source != 0;
    let destination =
        rule.destination.contains(packet.destination) || rule.destination_lists & on.destination != 0;
    let checks = [
        (rule.enabled, Mismatch::Disabled),
        (rule.schedule.is_none_or(|s| policy.schedules[s].holds(at)), Mismatch::Schedule),
        (rule.from & 1 << packet.from != 0, Mismatch::From),
        (rule.to & 1 << packet.to != 0, Mismatch::To),
        (source, Mismatch::Source),
        (destination, Mismatch::Destination),
    ];
    let found = checks.into_iter().find(|(matches, _)| !matches).map(|(_, mismatch)| mismatch);
    found.or_else(|| service_mismatch(rule, packet))
}

fn service_mismatch(rule: &Rule, packet: &Packet) -> Option<Mismatch> {
    if rule.service.contains(packet.protocol, packet.source_port, packet.selector) {
        return None;
    }
    let key = crate::service::key(packet.protocol, packet.selector);
    let from_other_ports = rule.service.parts().iter().any(|part| part.keys.contains(key));
    Some(if from_other_ports { Mismatch::SourcePort } else { Mismatch::Service })
}

/// The verdict on a packet, and why each rule above the one that decided does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that stand above and do not match, each with the reason.
    pub passed_over: Vec<(usize, Mismatch)>,
}

/// Explains the verdict on a packet, whose ends are on some lists, at a moment.
pub fn explain(policy: &Policy, packet: &Packet, on: OnLists, at: Timestamp) -> Explanation {
    let verdict = decide_listed(policy, packet, on, at);
    let above = match verdict.decider {
        Decider::Rule(i) => &policy.rules[..i],
        Decider::Default => &policy.rules[..],
    };
    let reason = |(i, rule): (usize, &Rule)| Some((i, mismatch(policy, rule, packet, on, at)?));
    Explanation { verdict, passed_over: above.iter().enumerate().filter_map(reason).collect() }
}

impl Mismatch {
    /// The rule's key that does not match.
    pub const fn field(self) -> &'static str {
        match self {
            Mismatch::Disabled => "enabled",
            Mismatch::Schedule => "schedule",
            Mismatch::From => "from",
            Mismatch::To => "to",
            Mismatch::Source => "source",
            Mismatch::Destination => "destination",
            Mismatch::Service => "service",
            Mismatch::SourcePort => "source_port",
        }
    }

    /// The reason as a sentence: "its service is http, the packet's tcp/443".
    pub fn words(self, policy: &Policy, rule: &Rule, packet: &Packet) -> String {
        let written = &rule.written;
        let zone = |written: &str, id: ZoneId| match (written, id) {
            ("any", SELF) => "self, which `any` leaves out",
            _ => &policy.zones[usize::from(id)].name,
        };
        match self {
            Mismatch::Disabled => "it is not enabled".to_owned(),
            Mismatch::Schedule => {
                let name = rule.schedule.map_or("", |s| &policy.schedules[s].name);
                format!("its schedule `{name}` does not hold at that time")
            }
            Mismatch::From => {
                let from = &written.from;
                format!("it is from {from}, the packet from {}", zone(from, packet.from))
            }
            Mismatch::To => {
                format!("it is to {}, the packet to {}", written.to, zone(&written.to, packet.to))
            }
            Mismatch::Source => {
                format!("its source is {}, and {} is not in it", written.source, packet.source)
            }
            Mismatch::Destination => {
                format!("its destination is {}, and {} is not in it", written.destination, packet.destination)
            }
            Mismatch::Service => {
                format!("its service is {}, the packet's {}", written.service, packet.service_words())
            }
            Mismatch::SourcePort => {
                let port = packet.source_port;
                match written.source_port.as_str() {
                    // A service that the text defines asks for the port.
                    "any" => format!("its service {} is not from port {port}", written.service),
                    ports => format!("its source_port is {ports}, the packet's {port}"),
                }
            }
        }
    }
}

impl Packet {
    /// Whether a flow can come of it: all but ICMP that is neither a query (echo, timestamp) nor an answer to one.
    pub fn opens_flow(&self) -> bool {
        use crate::service::{ICMP, ICMPV6};
        match self.protocol {
            ICMP => matches!(self.selector, 0x0800 | 0 | 0x0d00 | 0x0e00),
            ICMPV6 => matches!(self.selector, 0x8000 | 0x8100),
            _ => true,
        }
    }

    /// Whether it answers a query of ICMP. It passes with the flow of its question alone, whatever the rules say.
    pub fn answers_query(&self) -> bool {
        use crate::service::{ICMP, ICMPV6};
        matches!((self.protocol, self.selector), (ICMP, 0 | 0x0e00) | (ICMPV6, 0x8100))
    }

    /// The service as policies write it: `tcp/80`.
    pub fn service_words(&self) -> String {
        use crate::service::{ICMP, ICMPV6, SCTP, TCP, UDP};
        let port = self.selector;
        match self.protocol {
            TCP => format!("tcp/{port}"),
            UDP => format!("udp/{port}"),
            SCTP => format!("sctp/{port}"),
            ICMP => format!("icmp/{}/{}", port >> 8, port & 0xff),
            ICMPV6 => format!("icmpv6/{}/{}", port >> 8, port & 0xff),
            other => format!("protocol/{other}"),
        }
    }
}
