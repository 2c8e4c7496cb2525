//! Events with filters, and dropped packets by reason; both over time.

use crate::app::{Context, Fault, lock};
use crate::chart::{Chart, histogram};
use crate::http::Answer;
use crate::view::time;
use rampart_client::Operation;
use rampart_client::api::{AlertCount, Drops, Event, EventName, Events, GatewayRequest};
use serde_json::json;

/// Events that are looked through.
const LOOKED_AT: &str = "10000";
/// Of them, those on a page.
const SHOWN: usize = 200;
/// Bars of the histogram at most.
const BARS: usize = 60;

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let Events { suppressed, events, .. } = context.ask(Operation::Log, &[("limit", LOOKED_AT)])?;
    let query = context.query();
    let [kind, search, rule] = ["kind", "search", "rule"].map(|key| query.get(key));
    let passes = |event: &&Event| {
        let it = &event.details;
        let ends = [
            it.source.to_string(),
            it.destination.to_string(),
            it.from.clone(),
            it.to.clone().unwrap_or_default(),
        ];
        (kind.is_empty() || it.event.name() == kind)
            && (rule.is_empty() || it.rule.as_deref() == Some(rule))
            && (search.is_empty()
                || ends.iter().any(|end| end.starts_with(search))
                || it.destination_port.to_string() == search
                || it.reason.as_deref() == Some(search))
    };
    let found: Vec<&Event> = events.iter().filter(passes).collect();
    let moments: Vec<_> = found.iter().map(|event| event.at).collect();
    let (counts, seconds) = histogram(&moments, BARS);
    let mut rules: Vec<&str> = events.iter().filter_map(|event| event.details.rule.as_deref()).collect();
    rules.sort_unstable();
    rules.dedup();
    let rows: Vec<_> = found.iter().rev().take(SHOWN).map(|event| row(event)).collect();
    context.page(
        "events.html",
        json!({
            "title": "Events", "script": "live.js", "help": "events", "suppressed": suppressed, "looked_at": events.len(),
            "matched": found.len(), "rows": rows, "kinds": EventName::ALL.map(EventName::name), "rules": rules,
            "kind": kind, "search": search, "rule": rule, "chart": Chart::of(&counts, seconds, "events"),
        }),
    )
}

fn row(event: &Event) -> serde_json::Value {
    let it = &event.details;
    let mut words = Vec::new();
    words.extend(it.reason.iter().cloned());
    words.extend(it.source_list.iter().map(|list| format!("source on {list}")));
    words.extend(it.destination_list.iter().map(|list| format!("destination on {list}")));
    words.extend(it.closed.iter().map(|closed| {
        format!("{} s, {} packets out, {} back", closed.seconds, closed.packets_out, closed.packets_back)
    }));
    words.extend(it.request.iter().map(request_words));
    words.extend(it.alert.iter().map(alert_words));
    words.extend(it.scan.iter().map(|scan| {
        let blocked = if scan.blocked { ", blocked" } else { "" };
        format!("{} ports, {} hosts{blocked}", scan.ports, scan.hosts)
    }));
    json!({ "at": time(event.at), "it": it, "words": words.join("; ") })
}

/// What a gateway carried or refused, and for whom.
fn request_words(request: &GatewayRequest) -> String {
    let what = [&request.method, &request.host, &request.path].into_iter().flatten();
    let what: String = what.map(|word| format!("{word}, ")).collect();
    let user = request.user.iter().map(|user| format!(", user {user}")).collect::<String>();
    let client = request.client_name.iter().map(|name| format!(", client {name}")).collect::<String>();
    format!("gateway {}: {what}{}{client}{user}", request.gateway, request.status)
}

/// What an alert counted: of one that is over, no more than its threshold.
fn alert_words(alert: &AlertCount) -> String {
    let of = alert.address.map(|address| format!(" of {address}")).unwrap_or_default();
    let than = if alert.count > alert.threshold { "more" } else { "no more" };
    format!("{}{of} within {} s, {than} than {}", alert.count, alert.within_seconds, alert.threshold)
}

pub(crate) fn drops(context: &Context<'_>) -> Result<Answer, Fault> {
    let Drops { drops } = context.ask(Operation::Drops, &[])?;
    let reason = context.query().get("reason");
    let of = (!reason.is_empty()).then_some(reason);
    let history = lock(&context.app.samples).history(of, context.now.wall);
    context.page(
        "drops.html",
        json!({
            "title": "Dropped packets", "script": "live.js", "help": "drops", "drops": drops, "reason": of,
            "chart": Chart::of(&history, 60, "packets dropped"),
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_that_of_its_gateway() {
        let event = |request: serde_json::Value| {
            let event = json!({
                "number": 1, "at": "2026-11-24T17:00:00Z", "event": "refused", "protocol": "tcp", "source": "10.0.0.5", "source_port": 40_000,
                "destination": "192.0.2.10", "destination_port": 80, "from": "inside", "reason": "http-rule", "request": request,
            });
            row(&serde_json::from_value(event).unwrap())
        };
        let whole = json!({
            "gateway": "web", "client_name": "pc7.test", "user": "anna", "method": "GET", "host": "www.example.com:80", "path": "/pub/", "status": 403, "bytes_out": 0,
            "bytes_back": 0,
        });
        let empty = json!({
            "gateway": "web", "method": null, "host": null, "path": null, "status": 400, "bytes_out": 0, "bytes_back": 0,
        });
        for (request, expected) in [
            (
                whole,
                "http-rule; gateway web: GET, www.example.com:80, /pub/, 403, client pc7.test, user anna",
            ),
            (empty, "http-rule; gateway web: 400"),
        ] {
            assert_eq!(event(request)["words"], expected);
        }
    }

    #[test]
    fn an_alert_that_is_over_is_no_more_than_its_threshold() {
        for (count, expected) in [
            (154, "154 of 198.51.100.7 within 60 s, more than 100"),
            (100, "100 of 198.51.100.7 within 60 s, no more than 100"),
            (0, "0 of 198.51.100.7 within 60 s, no more than 100"),
        ] {
            let alert = json!({
                "per": "source", "address": "198.51.100.7", "count": count, "threshold": 100, "within_seconds": 60,
            });
            assert_eq!(alert_words(&serde_json::from_value(alert).unwrap()), expected);
        }
    }
}
