//! The event log: what rules with `log` or `alert`, and scans, recorded.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Events that an answer has unless the question says otherwise.
pub const EVENTS_SHOWN: u64 = 100;

/// A part of the event log, the oldest event first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Number to send as `after` to continue from here.
    pub next: u64,
    /// Events after `after` that are no longer kept, because newer ones took their place.
    pub missed: u64,
    /// Events since the firewall was started that were not recorded, because there were more than `log_rate` of `[settings]`
    /// allows.
    pub suppressed: u64,
    /// The events.
    pub events: Vec<Event>,
}

/// An event that a rule, or a scan, recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Number of the event: 1 for the first since the firewall was started, and one more for each.
    pub number: u64,
    /// When it happened, for example `2026-11-20T10:00:00.125Z`.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub details: EventDetails,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventDetails {
    /// Kind of event.
    pub event: EventName,
    /// Name of the rule; null if it was the default of the two zones, if the rule is gone, and of `scan` events.
    pub rule: Option<String>,
    /// The list, or the country, on which the rule found the source (`bad`, `country:CH`); of rules that ask for one, and not of `closed` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_list: Option<String>,
    /// The same of the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_list: Option<String>,
    /// `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, or the protocol's number, for example `47`.
    pub protocol: String,
    /// Address of the sender of the packet, or of the initiator of the flow.
    pub source: IpAddr,
    /// Its port; of an ICMP query its identifier; 0 if there is neither.
    pub source_port: u16,
    /// Address that the packet was sent to, or of the responder of the flow.
    pub destination: IpAddr,
    /// Its port, for example 443; 0 if there is none.
    pub destination_port: u16,
    /// Zone that the packet came from, for example `outside`.
    pub from: String,
    /// Zone that the packet was going to; null if it was none.
    pub to: Option<String>,
    /// Why a packet was refused, as in the drops, for example `rule-deny`; of `refused` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the flow was; of `closed` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// What the alert counted; of `alert` and `over` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<AlertCount>,
    /// What the source had done; of `scan` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanCount>,
    /// What a client asked a gateway for; of `request` events, and of `refused` events of gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<GatewayRequest>,
}

/// A request that a gateway carried or refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayRequest {
    /// Name of the gateway, for example `web`.
    pub gateway: String,
    /// The client's name, if the gateway looks names of clients up and the client has one, for example `pc7.office.example`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// The user of the gateway, for example `anna`: who has logged in, or who somebody said to be who was refused for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its method, for example `GET`; null if the request was not understood.
    pub method: Option<String>,
    /// Host and port, for example `www.example.com:80`; null if they are not known.
    pub host: Option<String>,
    /// The path without its query, for example `/pub/`; null if there is none.
    pub path: Option<String>,
    /// Status that the client got, for example 403; 0 if it got none.
    pub status: u16,
    /// Bytes of the request's body, or from the client in a tunnel.
    pub bytes_out: u64,
    /// Bytes of the answer's body, or from the server in a tunnel.
    pub bytes_back: u64,
}

/// What a source that scanned had asked for in vain within the window, the last of it in the event's packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScanCount {
    /// Different ports, estimated; of the packet's protocol and others.
    pub ports: u64,
    /// Different hosts, estimated.
    pub hosts: u64,
    /// Whether it is blocked for that.
    pub blocked: bool,
}

/// Kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventName {
    /// A flow opened.
    Opened,
    /// A packet was refused.
    Refused,
    /// A flow ended.
    Closed,
    /// The alert of a rule passed its threshold.
    Alert,
    /// An alert that stood is over.
    Over,
    /// A source scanned.
    Scan,
    /// A gateway carried a request.
    Request,
}

impl EventName {
    /// All of them.
    pub const ALL: [EventName; 7] = [
        EventName::Opened,
        EventName::Refused,
        EventName::Closed,
        EventName::Alert,
        EventName::Over,
        EventName::Scan,
        EventName::Request,
    ];

    /// Short identifier, for example `opened`.
    pub const fn name(self) -> &'static str {
        match self {
            EventName::Opened => "opened",
            EventName::Refused => "refused",
            EventName::Closed => "closed",
            EventName::Alert => "alert",
            EventName::Over => "over",
            EventName::Scan => "scan",
            EventName::Request => "request",
        }
    }
}

/// What an alert counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlertCount {
    /// What is counted together: `rule`, `source` or `destination`.
    pub per: String,
    /// Address that is counted, for example `198.51.100.7`; null if `per` is `rule`.
    pub address: Option<IpAddr>,
    /// New flows and refused packets within the time, for example 154.
    pub count: u64,
    /// The greatest count that raises no alert, for example 100.
    pub threshold: u64,
    /// The time in seconds, for example 60.
    pub within_seconds: u64,
}

/// An alert that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alert {
    /// Name of the rule, for example `web`.
    pub rule: String,
    /// When the alert was raised.
    pub since: Timestamp,
    /// What the alert counted when it was last recorded.
    #[serde(flatten)]
    pub counted: AlertCount,
}

/// What a flow that ended was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Closed {
    /// Short identifier of its last state, for example `time-wait`.
    pub state: String,
    /// Seconds that the flow was open.
    pub seconds: u64,
    /// Packets from the initiator.
    pub packets_out: u64,
    /// IP bytes from the initiator.
    pub bytes_out: u64,
    /// Packets from the responder.
    pub packets_back: u64,
    /// IP bytes from the responder.
    pub bytes_back: u64,
}
