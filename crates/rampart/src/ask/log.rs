//! `rampart log`: the event log, once or as events happen.

use super::flows::end;
use super::shown;
use super::wanted::{Wanted, newest};
use crate::api::{Actor, AuditRecord, AuditTrail, Event, EventDetails, Events, Operation, ScanCount, Status};
use crate::cli::LogArgs;
use crate::daemon::log::escaped;
use crate::daemon::recorder;
use crate::failure::Failure;
use crate::moment::Clock;
use crate::output;
use crate::state::State;
use crate::table::alert_words;
use crate::table::{grouped, span};
use jiff::Timestamp;
use rampart_client::Client;
use rampart_client::socket::Namespace;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How often somebody who follows asks.
const PATIENCE: Duration = Duration::from_millis(300);

/// Events that somebody who follows takes at once.
const AT_ONCE: u64 = 4_096;

/// Shows the newest events, and with --follow those that come, until it is interrupted.
///
/// # Errors
/// When the firewall does not answer.
pub(crate) fn log(args: &LogArgs, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let wanted =
        Wanted::parse(&args.filter, args.period()).map_err(|error| Failure::Wrong(error.to_string()))?;
    // What is left out was looked at, too.
    let looked_at = if wanted.is_all() { args.limit() } else { u64::MAX };
    let clock = Clock::new(args.local);
    if args.audit || args.kept {
        let text = if args.audit {
            audit(args, &clock, json)?
        } else {
            kept(args, looked_at, &wanted, &clock, json)?
        };
        let _ = out.write_all(text.as_bytes());
        return Ok(());
    }
    let client = Client::new(args.socket.as_deref())?;
    let ask = |query: &[(&str, u64)]| -> Result<Events, Failure> {
        let query: Vec<_> = query.iter().map(|(key, value)| ((*key).to_owned(), value.to_string())).collect();
        Ok(client.ask(Operation::Log, &query)?)
    };
    let mut events = ask(&[("limit", looked_at)])?;
    let gone = before_memory(&client, args.since, &events)?.map(|begins| {
        let begins = clock.shown(begins);
        format!("the events in memory begin at {begins}: --kept shows older ones from the disk")
    });
    wanted.keep(&mut events.events, args.limit());
    if let (Some(gone), true) = (&gone, json) {
        output::say(format_args!("rampart: {gone}"));
    }
    let gone = gone.filter(|_| !json).map(|gone| gone + "\n").unwrap_or_default();
    if !args.follow {
        let text =
            shown(&events, json, |events| gone.clone() + &text(events, &wanted, &clock, !gone.is_empty()))?;
        // A reader that went away is no fault of ours.
        let _ = out.write_all(text.as_bytes());
        return Ok(());
    }
    let _ = out.write_all(gone.as_bytes());
    let (mut suppressed, mut is_all_read) = (events.suppressed, true);
    loop {
        let text = lines(&events, &clock, json, events.suppressed.saturating_sub(suppressed))?;
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        suppressed = events.suppressed;
        if is_all_read {
            std::thread::sleep(PATIENCE);
        }
        events = ask(&[("after", events.next), ("limit", AT_ONCE)])?;
        is_all_read = (events.events.len() as u64) < AT_ONCE;
        wanted.keep(&mut events.events, u64::MAX);
    }
}

/// When the events in memory begin, if that is after the time from which on somebody asks for them: earlier ones were evicted, or an earlier
/// daemon recorded them. `events` has all that are in memory.
fn before_memory(
    client: &Client,
    since: Option<Timestamp>,
    events: &Events,
) -> Result<Option<Timestamp>, Failure> {
    let Some(since) = since else { return Ok(None) };
    let begins = match events.events.first() {
        Some(oldest) if oldest.number > 1 => oldest.at,
        // None was evicted yet.
        _ => client.ask::<Status>(Operation::Status, &[])?.since,
    };
    Ok((since < begins).then_some(begins))
}

/// The audit trail, from the daemon or from the disk.
fn audit(args: &LogArgs, clock: &Clock, json: bool) -> Result<String, Failure> {
    let period = args.period();
    let looked_at = if period.is_all() { args.limit() } else { u64::MAX };
    let mut trail = if args.kept {
        let kept = recorder::trail(&folder(args)?, looked_at).map_err(unreadable)?;
        AuditTrail { records: kept.values, broken: kept.broken }
    } else {
        let limit = ("limit".to_owned(), looked_at.to_string());
        Client::new(args.socket.as_deref())?.ask(Operation::Audit, &[limit])?
    };
    trail.records.retain(|record| period.has(record.at));
    newest(&mut trail.records, args.limit());
    shown(&trail, json, |trail| {
        let lines: String = trail.records.iter().map(|record| record_line(record, clock)).collect();
        or_empty(
            broken(trail.broken) + &lines,
            if period.is_all() {
                "nobody has changed the firewall"
            } else {
                "nobody changed the firewall then"
            },
        )
    })
}

fn record_line(record: &AuditRecord, clock: &Clock) -> String {
    let command = match &record.by {
        Actor::Process { command, .. } if !command.is_empty() => format!("  ({command})"),
        _ => String::new(),
    };
    // Whoever did it stands in most messages already, because they are printed without the rest, too.
    let by = record.by.to_string();
    let by = if record.message.contains(&by) { String::new() } else { format!("  by {by}") };
    let at = clock.shown(record.at);
    escaped(&format!("{at} {:<11}  {}{by}{command}", record.event, record.message)) + "\n"
}

/// Events from the disk.
fn kept(
    args: &LogArgs,
    looked_at: u64,
    wanted: &Wanted,
    clock: &Clock,
    json: bool,
) -> Result<String, Failure> {
    let mut kept = recorder::events(&folder(args)?, looked_at).map_err(unreadable)?;
    wanted.keep(&mut kept.values, args.limit());
    let value = serde_json::json!({ "events": &kept.values, "broken": kept.broken });
    shown(&value, json, |_| {
        let lines: String = kept.values.iter().map(|event| line(event, clock)).collect();
        let nothing = if wanted.is_all() { "no events are kept" } else { "no such events are kept" };
        or_empty(broken(kept.broken) + &lines, nothing)
    })
}

fn folder(args: &LogArgs) -> Result<PathBuf, Failure> {
    let namespace = || {
        Namespace::current()
            .map_err(|e| Failure::Machine(format!("cannot find out the network namespace: {e}")))
    };
    let state = match &args.state {
        Some(folder) => State::named(folder).map_err(Failure::Wrong)?,
        None => State::usual(&namespace()?.name),
    };
    Ok(state.log())
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::Machine(format!(
        "the log on the disk cannot be read: {error}; it is for root alone, and others ask without --kept"
    ))
}

fn broken(lines: u64) -> String {
    let s = if lines == 1 { "" } else { "s" };
    if lines == 0 {
        String::new()
    } else {
        format!("{} line{s} cannot be read: cut, or written by somebody else\n", grouped(lines))
    }
}

fn or_empty(text: String, otherwise: &str) -> String {
    if text.is_empty() { format!("{otherwise}\n") } else { text }
}

/// A line an event; with JSON an object each, and nothing else.
fn lines(events: &Events, clock: &Clock, json: bool, suppressed: u64) -> Result<String, Failure> {
    if !json {
        return Ok(lines_of(events, clock, suppressed));
    }
    let line = |event: &Event| {
        let line = serde_json::to_string(event);
        line.map(|line| line + "\n").map_err(|e| Failure::Wrong(format!("cannot write JSON: {e}")))
    };
    events.events.iter().map(line).collect()
}

/// `is_said`: that older events are elsewhere stands above already.
fn text(events: &Events, wanted: &Wanted, clock: &Clock, is_said: bool) -> String {
    match lines_of(events, clock, events.suppressed) {
        nothing if nothing.is_empty() && wanted.is_all() => "the event log is empty\n".to_owned(),
        nothing if nothing.is_empty() && is_said => "no such events are in memory\n".to_owned(),
        nothing if nothing.is_empty() => {
            "no such events are in memory: --kept looks for older ones on the disk\n".to_owned()
        }
        text => text,
    }
}

fn lines_of(events: &Events, clock: &Clock, suppressed: u64) -> String {
    let mut text = String::new();
    for (missing, why) in [
        (events.missed, "came faster than they were read, and are not shown"),
        (suppressed, "were suppressed: there were more than `log_rate` of `[settings]` allows"),
    ] {
        if missing > 0 {
            text += &format!("{} event{} {why}\n", grouped(missing), if missing == 1 { "" } else { "s" });
        }
    }
    text + &events.events.iter().map(|event| line(event, clock)).collect::<String>()
}

/// An event, as a line.
pub(crate) fn line(event: &Event, clock: &Clock) -> String {
    let (at, event, words) = (clock.shown(event.at), event.details.event.name(), words(&event.details));
    let line = format!("{at} {event:<7}  {words}");
    escaped(&line) + "\n"
}

/// What happened, without its kind and its time.
pub(crate) fn words(details: &EventDetails) -> String {
    let rule = match (&details.rule, &details.scan, &details.request) {
        (Some(rule), ..) => rule,
        (None, None, None) => "(default)",
        (None, Some(_), _) => "[scans]",
        (None, None, Some(request)) => &request.gateway,
    };
    let (source, destination) =
        (end(details.source, details.source_port), end(details.destination, details.destination_port));
    let zones = format!("{} > {}", details.from, details.to.as_deref().unwrap_or("?"));
    let mut line = format!("{rule}  {} {source} > {destination}  {zones}", details.protocol);
    for (list, end) in [(&details.source_list, "source"), (&details.destination_list, "destination")] {
        if let Some(list) = list {
            line += &format!("  {end} on {list}");
        }
    }
    if let Some(reason) = &details.reason {
        line += &format!("  {reason}");
    }
    if let Some(closed) = &details.closed {
        line += &format!(
            "  {} after {}, {} packets and {} bytes, {} and {} back",
            closed.state,
            span(closed.seconds),
            grouped(closed.packets_out),
            grouped(closed.bytes_out),
            grouped(closed.packets_back),
            grouped(closed.bytes_back)
        );
    }
    if let Some(request) = &details.request {
        if let Some(name) = &request.client_name {
            line += &format!("  client {name}");
        }
        if let Some(user) = &request.user {
            line += &format!("  user {user}");
        }
        let what = [&request.method, &request.host, &request.path].into_iter().flatten();
        let what: Vec<&str> = what.map(String::as_str).collect();
        line += &format!(
            "  {} {}, {} bytes and {} back",
            what.join(" "),
            request.status,
            grouped(request.bytes_out),
            grouped(request.bytes_back)
        );
    }
    if let Some(alert) = &details.alert {
        line += &format!("  {}", alert_words(alert));
    }
    if let Some(ScanCount { ports, hosts, blocked }) = details.scan {
        let so = if blocked { ", and is blocked" } else { "" };
        line += &format!(
            "  had asked in vain for about {} ports of {} hosts{so}",
            grouped(ports),
            grouped(hosts)
        );
    }
    line
}
