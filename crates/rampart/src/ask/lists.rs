//! `rampart lists`: the lists of addresses in force, with their counters.

use super::shown;
use crate::api::{ListCount, Lists, Operation};
use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::table::{Side, Table, grouped};
use jiff::{Timestamp, Unit};
use rampart_client::Client;

pub(crate) fn lists(args: &AskArgs, json: bool) -> Result<String, Failure> {
    let lists: Lists = Client::new(args.socket.as_deref())?.ask(Operation::Lists, &[])?;
    shown(&lists, json, |lists| text(lists, Timestamp::now()))
}

fn text(lists: &Lists, now: Timestamp) -> String {
    if lists.lists.is_empty() {
        return "the policy has no lists\n".to_owned();
    }
    let mut table = Table::new(&[
        ("hits", Side::Right),
        ("list", Side::Left),
        ("refuses", Side::Left),
        ("IPv4 addresses", Side::Right),
        ("IPv6 ranges", Side::Right),
        ("read", Side::Left),
        ("", Side::Left),
    ]);
    for list in &lists.lists {
        table.row([
            grouped(list.hits),
            list.name.clone(),
            refuses(list),
            grouped(list.ipv4_addresses),
            grouped(list.ipv6_ranges),
            age(now, list.read_at),
            notes(list, now),
        ]);
    }
    let domains = domains(lists, now);
    format!("{}{} KiB in the kernel\n{domains}", table.text(), grouped(lists.kernel_bytes.div_ceil(1024)))
}

/// The addresses of domains, each with its name, its age and what is left of its time.
fn domains(lists: &Lists, now: Timestamp) -> String {
    let mut table = Table::new(&[
        ("domain", Side::Left),
        ("address", Side::Left),
        ("name", Side::Left),
        ("known for", Side::Right),
        ("left", Side::Right),
    ]);
    let mut any = false;
    for list in &lists.lists {
        for it in &list.domain {
            any = true;
            let time = |from: Timestamp, to: Timestamp| {
                format!("{:#}", to.duration_since(from).round(Unit::Second).unwrap_or_default())
            };
            let words = [
                list.name.clone(),
                it.address.to_string(),
                it.name.clone(),
                time(it.since, now),
                time(now, it.until),
            ];
            table.row(words);
        }
    }
    if any { format!("\n{}", table.text()) } else { String::new() }
}

/// "both" of those on it, "source" of those not on it, and the rules that name it.
fn refuses(list: &ListCount) -> String {
    let block = list.block.iter().map(|ends| format!("on it: {ends}"));
    let require = list.require.iter().map(|ends| format!("not on it: {ends}"));
    let rules = match list.rules.as_slice() {
        [] => None,
        [one] => Some(format!("in the rule {one}")),
        [one, more @ ..] => Some(format!("in the rule {one} and {} more", more.len())),
    };
    block.chain(require).chain(rules).collect::<Vec<_>>().join(", ")
}

fn age(now: Timestamp, at: Timestamp) -> String {
    let since = now.duration_since(at).round(Unit::Second).unwrap_or_default();
    format!("{since:#} ago")
}

fn notes(list: &ListCount, now: Timestamp) -> String {
    let broken =
        (list.broken_lines > 0).then(|| format!("{} broken lines left out", grouped(list.broken_lines)));
    let failures = (list.failures > 0).then(|| format!("{} failures", grouped(list.failures)));
    let expires = list.expires.map(|at| format!("{} at {at}", if at <= now { "expired" } else { "expires" }));
    let next_end = list.next_end.filter(|end| list.domain.is_empty() && list.expires != Some(*end));
    let next_end = next_end.map(|at| format!("the next entry ends at {at}"));
    let not_taken = (list.not_taken > 0).then(|| format!("{} addresses not taken", grouped(list.not_taken)));
    broken
        .into_iter()
        .chain(expires)
        .chain(next_end)
        .chain(not_taken)
        .chain(failures)
        .chain(list.trouble.clone())
        .collect::<Vec<_>>()
        .join("; ")
}
