//! `rampart top`: current rates. Two readings make a rate.

use super::shown;
use crate::api::{Drops, Occupancy, Operation, Rules, Status};
use crate::cli::TopArgs;
use crate::failure::Failure;
use crate::table::{Side, Table, grouped};
use rampart_client::Client;
use serde::Serialize;
use std::collections::HashMap;
use std::io::{IsTerminal as _, Write};
use std::time::{Duration, Instant};

/// Rates of a kind that are shown at once: as many as fit a terminal.
const SHOWN: usize = 20;

/// Counters at a moment.
struct Reading {
    at: Instant,
    status: Status,
    rules: Rules,
    drops: Drops,
}

/// What happens a second.
#[derive(Debug, PartialEq, Serialize)]
struct Rates {
    seconds: f64,
    namespace: String,
    generation: u64,
    flows: Occupancy,
    /// Growth of the flow table, in flows a second.
    flows_change: f64,
    /// What else was counted, the fastest first.
    counters: Vec<Rate>,
    /// Rules by name that decided, the busiest first.
    rules: Vec<Rate>,
    /// Drops by reason, the most frequent first.
    drops: Vec<Rate>,
}

/// How much of something there is.
#[derive(Debug, PartialEq, Serialize)]
struct Rate {
    name: String,
    per_second: f64,
    total: u64,
}

/// Shows rates until it is interrupted, or once.
///
/// # Errors
/// When the firewall does not answer.
pub(crate) fn top(args: &TopArgs, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::new(args.socket.as_deref())?;
    let clear = !args.once && !json && std::io::stdout().is_terminal();
    let mut before = read(&client)?;
    loop {
        std::thread::sleep(Duration::from_secs_f64(args.interval));
        let after = read(&client)?;
        let text = shown(&rates(&before, &after), json, text)?;
        let screen = if clear { "\x1b[H\x1b[2J" } else { "" };
        // A reader that went away wants no more.
        if write!(out, "{screen}{text}").and_then(|()| out.flush()).is_err() || args.once {
            return Ok(());
        }
        before = after;
    }
}

fn read(client: &Client) -> Result<Reading, Failure> {
    Ok(Reading {
        status: client.ask(Operation::Status, &[])?,
        rules: client.ask(Operation::Rules, &[])?,
        drops: client.ask(Operation::Drops, &[])?,
        at: Instant::now(),
    })
}

fn rates(before: &Reading, after: &Reading) -> Rates {
    let seconds = after.at.saturating_duration_since(before.at).as_secs_f64().max(f64::EPSILON);
    let hits = |reading: &Reading| -> Vec<(String, u64)> {
        reading.rules.rules.iter().map(|rule| (rule.name.clone(), rule.hits)).collect()
    };
    let drops = |reading: &Reading| -> Vec<(String, u64)> {
        reading.drops.drops.iter().map(|drop| (drop.reason.clone(), drop.packets)).collect()
    };
    let counters = |reading: &Reading| -> Vec<(String, u64)> {
        reading.status.counters.iter().map(|counter| (counter.name.clone(), counter.count)).collect()
    };
    let flows = after.status.flows;
    Rates {
        seconds,
        namespace: after.status.namespace.clone(),
        generation: after.rules.generation,
        flows,
        flows_change: (flows.open as f64 - before.status.flows.open as f64) / seconds,
        counters: grown(counters(before), counters(after), seconds),
        rules: grown(hits(before), hits(after), seconds),
        drops: grown(drops(before), drops(after), seconds),
    }
}

/// What counted meanwhile, the fastest first. A counter that is less than before was set to zero in between.
fn grown(before: Vec<(String, u64)>, after: Vec<(String, u64)>, seconds: f64) -> Vec<Rate> {
    let before: HashMap<String, u64> = before.into_iter().collect();
    let rate = |(name, total): (String, u64)| {
        let more = total.checked_sub(before.get(&name).copied().unwrap_or(0)).unwrap_or(total);
        Rate { name, per_second: more as f64 / seconds, total }
    };
    let mut rates: Vec<Rate> = after.into_iter().map(rate).filter(|rate| rate.per_second > 0.0).collect();
    rates.sort_by(|a, b| b.per_second.total_cmp(&a.per_second).then_with(|| a.name.cmp(&b.name)));
    rates
}

fn text(rates: &Rates) -> String {
    let Rates { namespace, generation, flows, flows_change, .. } = rates;
    let mut text = format!(
        "namespace {namespace}, generation {generation}: {} flows ({flows_change:+.0}/s), {} half-open, {} unanswered, {} fit\n",
        grouped(flows.open),
        grouped(flows.half_open),
        grouped(flows.unanswered),
        grouped(flows.capacity),
    );
    let quiet = format!("nothing happened in {:.1} s\n", rates.seconds);
    let parts = [("counter", &rates.counters), ("rule", &rates.rules), ("drop", &rates.drops)];
    for (what, rates) in parts {
        let mut table = Table::new(&[("a second", Side::Right), ("in all", Side::Right), (what, Side::Left)]);
        for rate in rates.iter().take(SHOWN) {
            table.row([grouped(rate.per_second.round() as u64), grouped(rate.total), rate.name.clone()]);
        }
        if !rates.is_empty() {
            text += &format!("\n{}", table.text());
        }
        if rates.len() > SHOWN {
            text += &format!("and {} more\n", rates.len() - SHOWN);
        }
    }
    if parts.iter().all(|(_, rates)| rates.is_empty()) {
        text += &quiet;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_grew_and_survive_counters_that_start_anew() {
        let list =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect::<Vec<_>>();
        let before = list(&[("a", 10), ("b", 5), ("gone", 9), ("anew", 100)]);
        let after = list(&[("a", 30), ("b", 5), ("new", 4), ("anew", 6)]);
        let shown: Vec<(String, f64, u64)> =
            grown(before, after, 2.0).into_iter().map(|r| (r.name, r.per_second, r.total)).collect();
        let expected = [("a", 10.0, 30), ("anew", 3.0, 6), ("new", 2.0, 4)];
        assert_eq!(shown, expected.map(|(n, r, t)| (n.to_owned(), r, t)));
    }
}
