//! Policies that were in force, the way back to them, and who changed what.

use crate::app::{Context, Fault};
use crate::http::Answer;
use crate::pages::policy::{CONFIRM, confirm_seconds, difference, in_words, kept};
use crate::view::{time, who};
use rampart_client::Operation;
use rampart_client::api::{Applied, AuditRecord, AuditTrail, History, HistoryEntry, Outcome};
use serde_json::{Value, json};

/// Records of the audit trail on a page.
const RECORDS: &str = "300";

fn row(history: &History, entry: &HistoryEntry) -> Value {
    json!({
        "number": entry.number, "at": time(entry.at), "who": who(&entry.by), "way": entry.way.name(), "of": entry.of,
        "file": entry.file, "rules": entry.rules, "outcome": entry.outcome.name(), "sha256": entry.sha256,
        "from_backup": entry.from_backup, "in_force": history.in_force == Some(entry.number),
    })
}

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let history: History = context.ask(Operation::History, &[])?;
    let rows: Vec<_> = history.entries.iter().rev().map(|entry| row(&history, entry)).collect();
    context.page(
        "history.html",
        json!({ "title": "History of policies", "help": "history", "rows": rows, "broken": history.broken }),
    )
}

pub(crate) fn entry(context: &Context<'_>) -> Result<Answer, Fault> {
    let history: History = context.ask(Operation::History, &[])?;
    let number = context.query().get("number").parse().ok();
    let found = history.entries.iter().find(|entry| Some(entry.number) == number);
    let entry = found.ok_or_else(|| Fault::Wrong(404, "the history has no such entry".to_owned()))?;
    let policy = kept(context, Some(&entry.number.to_string()))?;
    let (lines, [added, removed]) = difference(&kept(context, None)?.text, &policy.text);
    context.page(
        "entry.html",
        json!({
            "title": format!("Policy {}", entry.number), "help": "history", "entry": row(&history, entry), "text": policy.text,
            "lines": lines, "added": added, "removed": removed, "seconds": CONFIRM, "usual": 60,
        }),
    )
}

/// The entry that comes back when the policy in force is not confirmed.
pub(crate) fn before(history: &History) -> Option<u64> {
    let in_force = history.in_force?;
    let stood = |entry: &&HistoryEntry| matches!(entry.outcome, Outcome::Applied | Outcome::Confirmed);
    history
        .entries
        .iter()
        .filter(|entry| entry.number < in_force)
        .filter(stood)
        .map(|entry| entry.number)
        .max()
}

pub(crate) fn roll_back(context: &Context<'_>) -> Result<Answer, Fault> {
    let number = context.form().get("number");
    let is_number = number.parse::<u64>().is_ok();
    if !is_number {
        return Err(Fault::Wrong(422, "the form names no entry of the history".to_owned()));
    }
    let mut query = vec![("number", number)];
    let seconds = confirm_seconds(context)?.to_string();
    // The policy that would come back by itself needs no confirmation.
    let history: History = context.ask(Operation::History, &[])?;
    let waits = history.entries.iter().any(|it| it.outcome == Outcome::Waiting);
    if !(waits && before(&history).map(|it| it.to_string()).as_deref() == Some(number)) {
        query.push(("confirm_seconds", &seconds));
    }
    let applied: Applied = context.ask(Operation::Rollback, &query)?;
    Ok(context.done("/", in_words(&format!("Policy {number} of the history is in force again"), &applied)))
}

pub(crate) fn audit(context: &Context<'_>) -> Result<Answer, Fault> {
    let AuditTrail { records, broken } = context.ask(Operation::Audit, &[("limit", RECORDS)])?;
    let row = |record: &AuditRecord| {
        json!({
            "at": time(record.at), "event": record.event, "who": who(&record.by), "by": record.by.to_string(),
            "message": record.message,
        })
    };
    let rows: Vec<_> = records.iter().rev().map(row).collect();
    context.page(
        "audit.html",
        json!({ "title": "Audit trail", "help": "audit", "rows": rows, "broken": broken }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_client::api::Way;

    #[test]
    fn what_comes_back_is_the_last_that_stood() {
        use Outcome::{Applied, Confirmed, Replaced, RolledBack, Waiting};
        for (outcomes, expected) in [
            (vec![Applied, Waiting], Some(1)),
            (vec![Confirmed, Applied, RolledBack, Waiting], Some(2)),
            (vec![Confirmed, Replaced, Waiting], Some(1)),
            (vec![Waiting], None),
        ] {
            let entry = |(number, outcome): (u64, &Outcome)| HistoryEntry {
                number,
                at: jiff::Timestamp::UNIX_EPOCH,
                by: "a test".into(),
                way: Way::Apply,
                of: None,
                from_backup: false,
                file: String::new(),
                folder: None,
                rules: 0,
                sha256: String::new(),
                outcome: *outcome,
            };
            let entries: Vec<_> = (1..).zip(&outcomes).map(entry).collect();
            let history = History { in_force: Some(outcomes.len() as u64), entries, broken: Vec::new() };
            assert_eq!(before(&history), expected, "{outcomes:?}");
        }
    }
}
