//! An event or a report as syslog and journald have it: a severity, a sentence, and fields. Pure.

use super::{Item, Report};
use crate::api::{Event, EventDetails, EventName};
use crate::ask::log::words;
use jiff::Timestamp;

/// Severities of RFC 5424 section 6.2.1.
pub(super) const ERROR: u8 = 3;
pub(super) const WARNING: u8 = 4;
pub(super) const NOTICE: u8 = 5;
pub(super) const INFORMATION: u8 = 6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) at: Timestamp,
    /// Short identifier of its kind: letters and `-`.
    pub(super) kind: String,
    pub(super) severity: u8,
    pub(super) message: String,
    /// Names are of lower-case letters and `_`, 32 at most; values are whatever they are.
    pub(super) fields: Vec<(&'static str, String)>,
}

impl Notice {
    /// The notice of an item: an event or a report.
    pub(super) fn of(item: &Item) -> Option<Self> {
        match item {
            Item::Event(event) => Some(of_event(event)),
            Item::Report(report) => Some(of_report(report)),
            _ => None,
        }
    }

    /// Others were lost before this.
    pub(super) fn lost(lost: u64, at: Timestamp) -> Self {
        Self {
            at,
            kind: "lost".to_owned(),
            severity: WARNING,
            message: format!("{lost} messages were lost on their way here"),
            fields: vec![("lost", lost.to_string())],
        }
    }
}

fn of_event(event: &Event) -> Notice {
    let details = &event.details;
    let severity = match details.event {
        EventName::Opened | EventName::Closed | EventName::Over | EventName::Request => INFORMATION,
        EventName::Refused => NOTICE,
        EventName::Alert | EventName::Scan => WARNING,
    };
    let kind = details.event.name().to_owned();
    let message = format!("{kind}  {}", words(details));
    Notice { at: event.at, kind, severity, message, fields: fields(event.number, details) }
}

fn fields(number: u64, details: &EventDetails) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("number", number.to_string()),
        ("protocol", details.protocol.clone()),
        ("source", details.source.to_string()),
        ("source_port", details.source_port.to_string()),
        ("destination", details.destination.to_string()),
        ("destination_port", details.destination_port.to_string()),
        ("from", details.from.clone()),
    ];
    let texts = [
        ("to", &details.to),
        ("rule", &details.rule),
        ("reason", &details.reason),
        ("source_list", &details.source_list),
        ("destination_list", &details.destination_list),
    ];
    fields.extend(texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))));
    if let Some(closed) = &details.closed {
        fields.push(("state", closed.state.clone()));
        let numbers = [
            ("seconds", closed.seconds),
            ("packets_out", closed.packets_out),
            ("bytes_out", closed.bytes_out),
            ("packets_back", closed.packets_back),
            ("bytes_back", closed.bytes_back),
        ];
        fields.extend(numbers.map(|(name, number)| (name, number.to_string())));
    }
    if let Some(alert) = &details.alert {
        fields.push(("per", alert.per.clone()));
        fields.extend(alert.address.map(|address| ("address", address.to_string())));
        let numbers = [
            ("count", alert.count),
            ("threshold", alert.threshold),
            ("within_seconds", alert.within_seconds),
        ];
        fields.extend(numbers.map(|(name, number)| (name, number.to_string())));
    }
    if let Some(scan) = details.scan {
        let found = [("ports", scan.ports), ("hosts", scan.hosts)];
        fields.extend(found.map(|(name, number)| (name, number.to_string())));
        fields.push(("blocked", scan.blocked.to_string()));
    }
    if let Some(request) = &details.request {
        fields.push(("gateway", request.gateway.clone()));
        let texts = [
            ("client_name", &request.client_name),
            ("user", &request.user),
            ("method", &request.method),
            ("host", &request.host),
            ("path", &request.path),
        ];
        fields.extend(texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))));
        fields.push(("status", request.status.to_string()));
        let numbers = [("bytes_out", request.bytes_out), ("bytes_back", request.bytes_back)];
        fields.extend(numbers.map(|(name, number)| (name, number.to_string())));
    }
    fields
}

fn of_report(report: &Report) -> Notice {
    let severity = match report.event.as_str() {
        "trouble" => ERROR,
        "denied" | "refused" => WARNING,
        "attached" | "detached" | "scheduled" | "refreshed" | "over" => INFORMATION,
        _ => NOTICE,
    };
    // Rules have events of these names, too.
    let kind = match report.event.as_str() {
        "refused" => "policy-refused",
        "over" => "trouble-over",
        other => other,
    };
    Notice {
        at: report.at,
        kind: kind.to_owned(),
        severity,
        message: format!("{kind}: {}", report.message),
        fields: report.by.iter().map(|by| ("by", by.clone())).collect(),
    }
}
