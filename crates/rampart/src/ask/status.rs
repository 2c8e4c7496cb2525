//! `rampart status`: the state of the firewall.

use super::shown;
use crate::api::{Alert, Export, GatewayStatus, Operation, Status};
use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::table::{Side, Table, alert_words, grouped};
use rampart_client::Client;

pub(crate) fn status(args: &AskArgs, json: bool) -> Result<String, Failure> {
    let status: Status = Client::new(args.socket.as_deref())?.ask(Operation::Status, &[])?;
    shown(&status, json, text)
}

fn text(status: &Status) -> String {
    let Status { version, pid, namespace, since, policy, flows, .. } = status;
    let mut lines = vec![
        format!("rampart {version}, process {pid}, namespace {namespace}, up since {since}"),
        format!(
            "policy     {}: {}, generation {}, applied at {}",
            policy.file,
            crate::table::rules(policy.rules as u64),
            policy.generation,
            policy.applied_at
        ),
    ];
    if let Some(change) = policy.next_change {
        lines.push(format!("           a schedule begins or ends at {change}"));
    }
    if let Some(back) = policy.rolls_back_at {
        lines.push(format!(
            "           goes back to the policy before it at {back} unless `rampart confirm` comes"
        ));
    }
    for interface in &status.interfaces {
        let note = interface.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        lines.push(format!(
            "interface  {}: zone {}, {}{note}",
            interface.name,
            interface.zone,
            interface.hook.name()
        ));
    }
    lines.push(format!(
        "flows      {} of {}, {} of them half-open, {} unanswered",
        grouped(flows.open),
        grouped(flows.capacity),
        grouped(flows.half_open),
        grouped(flows.unanswered)
    ));
    let mut counted = Table::new(&[("", Side::Right), ("", Side::Left), ("", Side::Left)]);
    for counter in status.counters.iter().filter(|counter| counter.count > 0) {
        counted.row([grouped(counter.count), counter.name.clone(), counter.explanation.clone()]);
    }
    lines.extend(counted.text().lines().skip(1).map(|line| format!("counted    {line}")));
    let alert = |alert: &Alert| {
        format!("alert      {}: {}, since {}", alert.rule, alert_words(&alert.counted), alert.since)
    };
    lines.extend(status.alerts.iter().map(alert));
    if status.blocked_sources > 0 {
        let sources = grouped(status.blocked_sources);
        lines.push(format!("blocked    {sources} of the sources that scanned: `rampart blocks` lists them"));
    }
    let export = |export: &Export| {
        let (sent, lost) = (grouped(export.sent), grouped(export.lost));
        format!("export     {} {}: {sent} sent, {lost} lost", export.form, export.to)
    };
    lines.extend(status.exports.iter().map(export));
    let gateway = |gateway: &GatewayStatus| {
        let is_up = if gateway.is_up { "up" } else { "down" };
        format!(
            "gateway    {} at {}: {is_up}, {} connections, {} requests carried, {} refused, {} failed, started again {} times",
            gateway.name,
            gateway.listen,
            grouped(gateway.open),
            grouped(gateway.carried),
            grouped(gateway.refused),
            grouped(gateway.failed),
            grouped(gateway.restarts)
        )
    };
    lines.extend(status.gateways.iter().map(gateway));
    lines.extend(status.troubles.iter().map(|trouble| format!("trouble    {trouble}")));
    lines.join("\n") + "\n"
}
