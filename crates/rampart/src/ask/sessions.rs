//! `rampart sessions`: what is open, and ending it.

use super::shown;
use crate::api::{Filter, Killed, Operation, Session, Sessions};
use crate::cli::SessionsArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::table::{Side, Table, grouped, span};
use std::net::IpAddr;

pub(crate) fn sessions(args: &SessionsArgs, json: bool) -> Result<String, Failure> {
    let filter =
        Filter::parse(args.filter.iter().map(String::as_str)).map_err(|e| Failure::Wrong(e.to_string()))?;
    let words = args.filter.iter().filter_map(|word| word.split_once('='));
    let mut query: Vec<(String, String)> = words.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    if args.kill && filter.is_all() && !args.all {
        let error =
            "--kill without a filter ends every session: name a filter, or add --all if that is meant";
        return Err(Failure::Wrong(error.to_owned()));
    }
    let client = Client::new(args.socket.as_deref())?;
    if args.kill {
        query.extend(args.all.then(|| ("all".to_owned(), "true".to_owned())));
        let killed: Killed = client.ask(Operation::KillSessions, &query)?;
        return shown(&killed, json, |killed| format!("{} ended\n", counted(killed.killed)));
    }
    query.push(("limit".to_owned(), if args.all { u64::MAX } else { args.limit }.to_string()));
    let sessions: Sessions = client.ask(Operation::Sessions, &query)?;
    shown(&sessions, json, text)
}

fn text(sessions: &Sessions) -> String {
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
    for session in &sessions.sessions {
        table.row(row(session));
    }
    let shown = sessions.sessions.len() as u64;
    let more = match sessions.matched.saturating_sub(shown) {
        0 => String::new(),
        more => {
            format!(", {} of them not shown: --all shows them, --limit as many as you like", grouped(more))
        }
    };
    let table = if shown == 0 { String::new() } else { table.text() };
    format!("{table}{}{more}\n", counted(sessions.matched))
}

fn counted(sessions: u64) -> String {
    format!("{} session{}", grouped(sessions), if sessions == 1 { "" } else { "s" })
}

fn row(session: &Session) -> [String; 12] {
    [
        session.protocol.clone(),
        end(session.source, session.source_port),
        end(session.destination, session.destination_port),
        format!("{} > {}", session.from, session.to),
        session.rule.clone().unwrap_or_else(|| "-".to_owned()),
        session.state.clone(),
        span(session.idle_seconds),
        span(session.expires_seconds),
        grouped(session.packets_out),
        grouped(session.bytes_out),
        grouped(session.packets_back),
        grouped(session.bytes_back),
    ]
}

/// An address with its port, if it has one.
pub(super) fn end(address: IpAddr, port: u16) -> String {
    match (address, port) {
        (address, 0) => address.to_string(),
        (IpAddr::V4(v4), port) => format!("{v4}:{port}"),
        (IpAddr::V6(v6), port) => format!("[{v6}]:{port}"),
    }
}
