//! `rampart history`, `diff` and `export`: the policies that were put in force, from the daemon or from the disk.

use super::shown;
use crate::api::{Actor, Changes, History, HistoryEntry, KeptPolicy, Operation};
use crate::cli::{DiffArgs, HistoryArgs, HistoryFrom};
use crate::daemon::changes;
use crate::daemon::log::escaped;
use crate::failure::Failure;
use crate::history::{Store, standing};
use crate::state::State;
use crate::table::{Side, Table, grouped};
use policy::Policy;
use rampart_client::Client;
use rampart_client::socket::Namespace;
use serde::Serialize;
use similar::TextDiff;
use std::time::Duration;

/// How long a comparison looks for the shortest difference of two texts.
const PATIENCE: Duration = Duration::from_secs(5);
/// Lines around a difference.
const AROUND: usize = 3;

/// Lists the history, or shows an entry with its text.
pub(crate) fn history(args: &HistoryArgs, json: bool) -> Result<String, Failure> {
    let from = From::of(&args.from)?;
    let history = from.history()?;
    let Some(number) = args.number else { return shown(&history, json, listed) };
    let policy = from.policy(Some(number))?;
    let entry =
        history.entries.iter().find(|entry| entry.number == number).ok_or_else(|| no_entry(number))?;
    let value = serde_json::json!({ "entry": entry, "text": policy.text });
    shown(&value, json, |_| format!("{}\n{}", described(entry, &history), policy.text))
}

/// Prints a policy as it was, byte for byte: it is for a file.
pub(crate) fn export(args: &HistoryArgs, json: bool) -> Result<String, Failure> {
    let policy = From::of(&args.from)?.policy(args.number)?;
    if json { shown(&policy, json, |_| String::new()) } else { Ok(policy.text) }
}

/// How two policies differ.
#[derive(Debug, Serialize)]
struct Difference {
    from: String,
    to: String,
    /// What is different; null if one of the policies cannot be read any more.
    changes: Option<Changes>,
    /// Line by line, as `diff -u`.
    text: String,
}

/// Compares two policies.
pub(crate) fn diff(args: &DiffArgs, json: bool) -> Result<String, Failure> {
    if let (Some(from), Some(to)) = (&args.from, &args.to)
        && [from, to] == [crate::STDIN; 2]
    {
        return Err(Failure::Wrong("standard input is one policy: name a file for the other".to_owned()));
    }
    let from = From::of(&args.at)?;
    let named = |name: &String| match name.parse() {
        Ok(number) => from.policy(Some(number)),
        Err(_) => {
            let (file, text) = crate::read_text_or_stdin(name.as_ref())?;
            // What has mistakes would change nothing; its lines can be compared all the same.
            if !args.text {
                Policy::parse(&file, &text).map_err(|problems| Failure::Problems(Box::new(problems)))?;
            }
            Ok(KeptPolicy { number: None, file, folder: None, text })
        }
    };
    let (before, after) = match (&args.from, &args.to) {
        (None, _) => from.last_change()?,
        (Some(before), Some(after)) => (named(before)?, named(after)?),
        // A file is what may come, and a number is what was.
        (Some(one), None) if one.parse::<u64>().is_err() => (from.policy(None)?, named(one)?),
        (Some(before), None) => (named(before)?, from.policy(None)?),
    };
    let difference = difference(&before, &after);
    shown(&difference, json, |it| match &it.changes {
        Some(changes) if !args.text => format!("from {} to {}\n{}", it.from, it.to, changes::listed(changes)),
        _ if it.text.is_empty() => format!("{} and {} have the same text\n", it.from, it.to),
        _ => it.text.clone(),
    })
}

fn difference(before: &KeptPolicy, after: &KeptPolicy) -> Difference {
    let called = |policy: &KeptPolicy| match policy.number {
        Some(number) => escaped(&format!("{} ({number})", policy.file)),
        None => escaped(&policy.file),
    };
    let parsed = |policy: &KeptPolicy| Policy::parse(&policy.file, &policy.text).ok();
    let changes = parsed(before).zip(parsed(after)).map(|(old, new)| changes::between(&old, &new));
    let (from, to) = (called(before), called(after));
    let lines = TextDiff::configure().timeout(PATIENCE).diff_lines(&before.text, &after.text);
    let text = lines.unified_diff().context_radius(AROUND).header(&from, &to).to_string();
    Difference { from, to, changes, text }
}

/// Where the history is.
enum From {
    Daemon(Client),
    Disk(Store),
}

impl From {
    fn of(args: &HistoryFrom) -> Result<Self, Failure> {
        if !args.kept {
            return Ok(Self::Daemon(Client::new(args.socket.as_deref())?));
        }
        let state = match &args.state {
            Some(folder) => State::named(folder).map_err(Failure::Wrong)?,
            None => State::usual(
                &Namespace::current()
                    .map_err(|e| Failure::Machine(format!("cannot find out the network namespace: {e}")))?
                    .name,
            ),
        };
        Ok(Self::Disk(state.history()))
    }

    fn history(&self) -> Result<History, Failure> {
        match self {
            Self::Daemon(client) => Ok(client.ask(Operation::History, &[])?),
            Self::Disk(store) => store.read().map_err(unreadable),
        }
    }

    /// A policy of the history, or the one in force.
    fn policy(&self, number: Option<u64>) -> Result<KeptPolicy, Failure> {
        let store = match self {
            Self::Daemon(client) => {
                let query: Vec<_> =
                    number.iter().map(|number| ("number".to_owned(), number.to_string())).collect();
                return Ok(client.ask(Operation::Policy, &query)?);
            }
            Self::Disk(store) => store,
        };
        let history = self.history()?;
        let entry = match number {
            Some(number) => {
                let found = history.entries.iter().find(|entry| entry.number == number);
                found.ok_or_else(|| no_entry(number))?
            }
            None => {
                standing(&history.entries).ok_or_else(|| Failure::Wrong("the history is empty".to_owned()))?
            }
        };
        let text = store.text(entry).map_err(unreadable)?;
        let (number, file, folder) = (Some(entry.number), entry.file.clone(), entry.folder.clone());
        Ok(KeptPolicy { number, file, folder, text })
    }

    /// The policy in force, and the one before it.
    fn last_change(&self) -> Result<(KeptPolicy, KeptPolicy), Failure> {
        let (history, after) = (self.history()?, self.policy(None)?);
        let older: Vec<HistoryEntry> =
            history.entries.into_iter().filter(|entry| Some(entry.number) < after.number).collect();
        let before = standing(&older).ok_or_else(|| {
            Failure::Wrong("the history has no policy before the one in force: name two numbers".to_owned())
        })?;
        Ok((self.policy(Some(before.number))?, after))
    }
}

fn no_entry(number: u64) -> Failure {
    Failure::Wrong(format!("the history has no entry {number}: `rampart history` lists those that it has"))
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::Machine(format!(
        "the history on the disk cannot be read: {error}; it is for root alone, and others ask without --kept"
    ))
}

fn listed(history: &History) -> String {
    if history.entries.is_empty() && history.broken.is_empty() {
        return "no policy was kept yet\n".to_owned();
    }
    let mut table = Table::new(&[
        ("no.", Side::Right),
        ("at", Side::Left),
        ("by", Side::Left),
        ("way", Side::Left),
        ("policy", Side::Left),
        ("rules", Side::Right),
        ("outcome", Side::Left),
    ]);
    for entry in &history.entries {
        let in_force = if history.in_force == Some(entry.number) { ", in force" } else { "" };
        table.row([
            entry.number.to_string(),
            format!("{:.0}", entry.at),
            escaped(&who(&entry.by)),
            way(entry),
            escaped(&entry.file),
            grouped(entry.rules),
            format!("{}{in_force}", entry.outcome.name()),
        ]);
    }
    let broken: String = history.broken.iter().map(|why| escaped(why) + "\n").collect();
    table.text() + &broken
}

fn way(entry: &HistoryEntry) -> String {
    match (entry.from_backup, entry.of) {
        (true, _) => format!("{}, by a backup", entry.way.name()),
        (false, Some(number)) => format!("{} to {number}", entry.way.name()),
        (false, None) => entry.way.name().to_owned(),
    }
}

/// In a word, as far as there is one.
fn who(by: &Actor) -> String {
    let Actor::Process { uid, user, login, acting_for, .. } = by else { return by.to_string() };
    let user = user.clone().unwrap_or_else(|| format!("user {uid}"));
    let user = login.iter().fold(user, |user, login| format!("{user} (logged in as {login})"));
    acting_for.iter().fold(user, |user, name| format!("{user} (acting for {name})"))
}

/// An entry with all that is known of it, each line a comment of TOML: the text follows.
fn described(entry: &HistoryEntry, history: &History) -> String {
    let in_force = if history.in_force == Some(entry.number) { ", in force" } else { "" };
    let command = match &entry.by {
        Actor::Process { command, .. } if !command.is_empty() => format!(", by `{command}`"),
        _ => String::new(),
    };
    [
        format!("number {}: {}, {}", entry.number, entry.file, crate::table::rules(entry.rules)),
        format!(
            "{}{in_force}; {} at {} by {}{command}",
            entry.outcome.name(),
            way(entry),
            entry.at,
            entry.by
        ),
        format!("sha256 {}", entry.sha256),
    ]
    .map(|line| format!("# {}\n", escaped(&line)))
    .concat()
}
