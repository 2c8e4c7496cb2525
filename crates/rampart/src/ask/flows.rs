//! `rampart flows`: open flows, and ending them.

use super::shown;
use crate::api::{Alias, Filter, Flow, Flows, Killed, Operation};
use crate::cli::FlowsArgs;
use crate::failure::Failure;
use crate::table::{Side, Table, grouped, span};
use rampart_client::Client;
use std::net::IpAddr;

pub(crate) fn flows(args: &FlowsArgs, json: bool) -> Result<String, Failure> {
    let filter =
        Filter::parse(args.filter.iter().map(String::as_str)).map_err(|e| Failure::Wrong(e.to_string()))?;
    let words = args.filter.iter().filter_map(|word| word.split_once('='));
    let mut query: Vec<(String, String)> = words.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    if args.kill && filter.is_all() && !args.all {
        let error = "--kill without a filter ends every flow: name a filter, or add --all if that is meant";
        return Err(Failure::Wrong(error.to_owned()));
    }
    let client = Client::new(args.socket.as_deref())?;
    if args.kill {
        query.extend(args.all.then(|| ("all".to_owned(), "true".to_owned())));
        let killed: Killed = client.ask(Operation::EndFlows, &query)?;
        return shown(&killed, json, |killed| format!("{} ended\n", counted(killed.killed)));
    }
    query.push(("limit".to_owned(), if args.all { u64::MAX } else { args.limit }.to_string()));
    let flows: Flows = client.ask(Operation::Flows, &query)?;
    shown(&flows, json, text)
}

fn text(flows: &Flows) -> String {
    let mut table = Table::new(&[
        ("protocol", Side::Left),
        ("source", Side::Left),
        ("destination", Side::Left),
        ("zones", Side::Left),
        ("rule", Side::Left),
        ("state", Side::Left),
        ("idle", Side::Right),
        ("expires", Side::Right),
        ("packets", Side::Right),
        ("bytes", Side::Right),
        ("back", Side::Right),
        ("bytes", Side::Right),
    ]);
    for flow in &flows.flows {
        table.row(row(flow));
    }
    let shown = flows.flows.len() as u64;
    let more = match flows.matched.saturating_sub(shown) {
        0 => String::new(),
        more => {
            format!(", {} of them not shown: --all shows them, --limit as many as you like", grouped(more))
        }
    };
    let table = if shown == 0 { String::new() } else { table.text() };
    format!("{table}{}{more}\n", counted(flows.matched))
}

fn counted(flows: u64) -> String {
    crate::table::of(flows, "flow")
}

fn row(flow: &Flow) -> [String; 12] {
    [
        flow.protocol.clone(),
        known(flow.source, flow.source_port, flow.source_alias),
        known(flow.destination, flow.destination_port, flow.destination_alias),
        format!("{} > {}", flow.from, flow.to),
        flow.rule.clone().unwrap_or_else(|| "-".to_owned()),
        flow.state.clone(),
        span(flow.idle_seconds),
        span(flow.expires_seconds),
        grouped(flow.packets_out),
        grouped(flow.bytes_out),
        grouped(flow.packets_back),
        grouped(flow.bytes_back),
    ]
}

/// An end, and how the other end knows it.
fn known(address: IpAddr, port: u16, alias: Option<Alias>) -> String {
    let own = end(address, port);
    alias.map_or_else(|| own.clone(), |alias| format!("{own} as {}", end(alias.address, alias.port)))
}

/// An address with its port, if it has one.
pub(super) fn end(address: IpAddr, port: u16) -> String {
    match (address, port) {
        (address, 0) => address.to_string(),
        (IpAddr::V4(v4), port) => format!("{v4}:{port}"),
        (IpAddr::V6(v6), port) => format!("[{v6}]:{port}"),
    }
}
