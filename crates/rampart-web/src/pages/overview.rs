//! The first page: whether all is well, how full the firewall is, and what it has counted.

use crate::app::{Context, Fault};
use crate::http::Answer;
use crate::view::{span, time, who};
use rampart_client::Operation;
use rampart_client::api::{History, Status};
use serde_json::json;

/// Counters that stand above the others.
const FIRST: [&str; 1] = ["forwarded"];

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let status: Status = context.ask(Operation::Status, &[])?;
    let dropped = crate::app::lock(&context.app.samples).history(None, context.now.wall);
    let chart = crate::chart::Chart::of(&dropped, 60, "packets dropped");
    let uptime = context.now.wall.as_second() - status.since.as_second();
    let (first, others): (Vec<_>, Vec<_>) =
        status.counters.iter().filter(|it| it.count > 0).partition(|it| FIRST.contains(&it.name.as_str()));
    let counters = [first, others].concat();
    let percent = status.flows.open.saturating_mul(100).checked_div(status.flows.capacity).unwrap_or(0);
    let alerts: Vec<_> = status
        .alerts
        .iter()
        .map(|alert| json!({ "rule": alert.rule, "since": time(alert.since), "counted": alert.counted }))
        .collect();
    context.page(
        "overview.html",
        json!({
            "title": "Overview", "script": "live.js", "help": "overview",
            "status": status, "since": time(status.since), "uptime": span(uptime.max(0).cast_unsigned()),
            "applied_at": time(status.policy.applied_at), "next_change": status.policy.next_change.map(time),
            "waits": waits(context, &status)?, "alerts": alerts, "counters": counters,
            "percent": percent, "chart": chart,
        }),
    )
}

/// What a policy that waits to be confirmed is shown with.
fn waits(context: &Context<'_>, status: &Status) -> Result<Option<serde_json::Value>, Fault> {
    let Some(back) = status.policy.rolls_back_at else { return Ok(None) };
    let history: History = context.ask(Operation::History, &[])?;
    let left = back.as_second() - context.now.wall.as_second();
    let before = super::history::before(&history);
    let number = status.policy.waiting;
    let entry = history.entries.iter().find(|entry| Some(entry.number) == number);
    Ok(Some(json!({
        "until": back.to_string(), "at": time(back), "left": left.max(0), "before": before, "number": number,
        "by": entry.map(|entry| who(&entry.by)),
    })))
}
