//! The policy: its text with what is wrong beside it, how it differs from the one in force, and putting it in force such that it comes back
//! by itself unless somebody confirms it. Texts are read here, in a process without rights; the firewall checks again what it is given.

use crate::app::{Context, Fault, lock};
use crate::http::Answer;
use crate::secret::hash;
use rampart_client::api::{Applied, Changes, Confirmed, KeptPolicy, NewPolicy};
use rampart_client::policy::{Policy, Problem};
use rampart_client::{ClientError, Operation, api};
use serde::Serialize;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// Bytes of a policy at most; larger ones are no work for a browser.
const LARGEST: usize = 1 << 20;
/// Warnings that are shown.
const WARNINGS: usize = 50;
/// Seconds that somebody may take to confirm.
pub(crate) const CONFIRM: [u32; 5] = [30, 60, 120, 300, 600];
/// Of them, the one that is proposed.
const USUAL: u32 = 60;
/// Time for a comparison; beyond that it is less exact.
const COMPARING: Duration = Duration::from_secs(2);

/// The policy in force: as it is kept, and read.
pub(crate) fn in_force(context: &Context<'_>) -> Result<(KeptPolicy, Policy), Fault> {
    let kept = kept(context, None)?;
    let policy = {
        let _turn = lock(&context.app.reading);
        Policy::parse(&kept.file, &kept.text)
    };
    let policy = policy.map_err(|_| {
        Fault::Wrong(
            502,
            "the policy in force cannot be read here: the firewall is of another version".to_owned(),
        )
    })?;
    Ok((kept, policy))
}

/// A policy of the history, or the one in force.
pub(crate) fn kept(context: &Context<'_>, number: Option<&str>) -> Result<KeptPolicy, Fault> {
    let query: Vec<_> = number.iter().map(|number| ("number", *number)).collect();
    let kept: KeptPolicy = context.ask(Operation::Policy, &query)?;
    if kept.text.len() > LARGEST {
        let why = format!(
            "the policy has more than {LARGEST} bytes: `rampart export`, `rampart check` and `rampart apply --confirm` do what this page does"
        );
        return Err(Fault::Wrong(413, why));
    }
    Ok(kept)
}

/// A mistake, with the line that it is in.
#[derive(Serialize)]
struct Mistake {
    kind: &'static str,
    line: usize,
    column: usize,
    message: String,
    help: Option<String>,
    text: String,
    /// Spaces up to the place.
    before: String,
}

impl Mistake {
    fn of(kind: &'static str, problem: &api::Problem, text: &str) -> Self {
        let line = text.lines().nth(problem.line.saturating_sub(1)).unwrap_or_default();
        // A long line is cut around the place.
        let skip = problem.column.saturating_sub(60);
        let shown: String = line.chars().skip(skip).take(120).collect();
        let before = line.chars().skip(skip).take(problem.column.saturating_sub(1 + skip));
        let before = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        Self {
            kind,
            line: problem.line,
            column: problem.column,
            message: problem.message.clone(),
            help: problem.help.clone(),
            text: shown,
            before,
        }
    }
}

/// What a text is: its mistakes, or the policy.
fn read(context: &Context<'_>, text: &str) -> Result<Policy, Vec<Mistake>> {
    let _turn = lock(&context.app.reading);
    Policy::parse("policy", text).map_err(|problems| mistakes("error", problems.list(), text))
}

fn mistakes(kind: &'static str, problems: &[Problem], text: &str) -> Vec<Mistake> {
    problems.iter().map(|problem| Mistake::of(kind, &problem.into(), text)).collect()
}

fn warnings(context: &Context<'_>, policy: &Policy) -> (Vec<Mistake>, usize) {
    let _turn = lock(&context.app.reading);
    let all = policy.warnings();
    let shown = all.iter().take(WARNINGS);
    let shown =
        shown.map(|warning| Mistake::of(warning.kind.name(), &(&warning.problem).into(), &policy.text));
    (shown.collect(), all.len())
}

/// The editor with a text.
fn editor(context: &Context<'_>, status: u16, text: &str, base: &str, more: Value) -> Answer {
    let mut values = json!({
        "title": "Policy", "script": "editor.js", "help": "policy", "text": text, "base": base,
        "rows": text.lines().count().clamp(12, 40),
    });
    if let Value::Object(more) = more {
        more.into_iter().for_each(|(key, value)| values[key] = value);
    }
    context.page_of(status, "policy.html", values)
}

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let number = context.query().get("number");
    let kept = kept(context, (!number.is_empty()).then_some(number))?;
    let base = if number.is_empty() { hash(&kept.text) } else { hash(&self::kept(context, None)?.text) };
    Ok(editor(context, 200, &kept.text, &base, json!({ "file": kept.file, "number": kept.number })))
}

/// The text of a form, and the policy that it began with.
fn posted<'c>(context: &'c Context<'_>) -> Result<(String, &'c str), Fault> {
    // Browsers send line ends of their own.
    let text = context.form().raw("text").replace("\r\n", "\n");
    if text.len() > LARGEST {
        return Err(Fault::Wrong(413, format!("the policy has more than {LARGEST} bytes")));
    }
    Ok((text, context.form().get("base")))
}

pub(crate) fn check(context: &Context<'_>) -> Result<Answer, Fault> {
    let (text, base) = posted(context)?;
    Ok(match read(context, &text) {
        Err(mistakes) => editor(context, 422, &text, base, json!({ "mistakes": mistakes })),
        Ok(policy) => {
            let (shown, all) = warnings(context, &policy);
            let more = json!({ "is_right": true, "rules": policy.rules.len(), "warnings": shown, "all_warnings": all });
            editor(context, 200, &text, base, more)
        }
    })
}

/// Lines that differ, each with a sign, and a few around them; and how many were added and removed.
pub(crate) fn difference(old: &str, new: &str) -> (Vec<Value>, [usize; 2]) {
    let diff = TextDiff::configure().timeout(COMPARING).diff_lines(old, new);
    let mut lines = Vec::new();
    let mut counts = [0, 0];
    for (place, group) in diff.grouped_ops(3).iter().enumerate() {
        if place > 0 {
            lines.push(json!({ "sign": "…", "class": "gap", "text": "" }));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, class) = match change.tag() {
                ChangeTag::Equal => (" ", "same"),
                ChangeTag::Insert => ("+", "added"),
                ChangeTag::Delete => ("-", "removed"),
            };
            counts[0] += usize::from(sign == "+");
            counts[1] += usize::from(sign == "-");
            let line = change.new_index().or(change.old_index()).map(|index| index + 1);
            lines.push(json!({
                "sign": sign, "class": class, "line": line, "text": change.value().trim_end_matches('\n'),
            }));
        }
    }
    (lines, counts)
}

pub(crate) fn changes(context: &Context<'_>) -> Result<Answer, Fault> {
    let (text, base) = posted(context)?;
    let policy = match read(context, &text) {
        Err(mistakes) => return Ok(editor(context, 422, &text, base, json!({ "mistakes": mistakes }))),
        Ok(policy) => policy,
    };
    let now = kept(context, None)?;
    let (lines, [added, removed]) = difference(&now.text, &text);
    let (_, all_warnings) = warnings(context, &policy);
    context.page(
        "changes.html",
        json!({
            "title": "What changes", "help": "policy", "lines": lines, "added": added, "removed": removed, "text": text,
            // Who looks at the differences looks at those to what is in force now.
            "base": hash(&now.text), "is_newer": base != hash(&now.text), "rules": policy.rules.len(),
            "all_warnings": all_warnings, "seconds": CONFIRM, "usual": USUAL,
        }),
    )
}

/// How long somebody may take to confirm. There is no way without: whoever cuts himself off waits, and is back.
pub(crate) fn confirm_seconds(context: &Context<'_>) -> Result<u32, Fault> {
    let written = context.form().get("confirm_seconds");
    let seconds = written.parse().ok().filter(|seconds| CONFIRM.contains(seconds));
    seconds.ok_or_else(|| Fault::Wrong(422, "choose how long to wait for the confirmation".to_owned()))
}

pub(crate) fn apply(context: &Context<'_>) -> Result<Answer, Fault> {
    let ((text, base), seconds) = (posted(context)?, confirm_seconds(context)?);
    let _turn = lock(&context.app.applying);
    let now = kept(context, None)?;
    if base != hash(&now.text) {
        let why = "Another policy came into force since you looked at the differences. Look at them again.";
        return Ok(editor(context, 409, &text, base, json!({ "why": why })));
    }
    let new = NewPolicy { file: now.file, folder: now.folder, text, confirm_seconds: Some(seconds) };
    match context.firewall().send::<Applied>(Operation::Apply, &new) {
        Ok(applied) => Ok(context.done("/", in_words("The policy is in force", &applied))),
        Err(ClientError::Refused { status, refusal }) if status < 500 => {
            let mistakes: Vec<_> =
                refusal.problems.iter().map(|problem| Mistake::of("error", problem, &new.text)).collect();
            let why = mistakes.is_empty().then_some(refusal.error);
            Ok(editor(context, 422, &new.text, base, json!({ "mistakes": mistakes, "why": why })))
        }
        Err(error) => Err(error.into()),
    }
}

/// Confirms the policy that the page showed, and no other that has come into force since.
pub(crate) fn confirm(context: &Context<'_>) -> Result<Answer, Fault> {
    let number = context.form().get("number");
    let query: Vec<_> = (!number.is_empty()).then_some(("number", number)).into_iter().collect();
    let Confirmed { generation } = context.ask(Operation::Confirm, &query)?;
    Ok(context.done("/", format!("The policy is confirmed and stays (generation {generation}).")))
}

/// What came into force, in a sentence.
pub(crate) fn in_words(what: &str, applied: &Applied) -> String {
    let Changes { added, removed, changed, .. } = &applied.changes;
    let mut parts = Vec::new();
    for (word, count) in [("added", added.len()), ("removed", removed.len()), ("changed", changed.len())] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    let rules = if parts.is_empty() {
        "no rule is different".to_owned()
    } else {
        format!("rules: {}", parts.join(", "))
    };
    let warnings = applied.not_kept.iter().map(|warning| format!(" Warning: {warning}."));
    format!("{what}; {rules}.{}", warnings.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_into_force_is_said_with_what_the_disk_did_not_keep() {
        let changes = Changes { added: vec!["web".to_owned()], ..Changes::default() };
        let not_kept = vec!["the disk is full".to_owned()];
        let applied =
            Applied { generation: 2, number: None, rules: 1, changes, rolls_back_at: None, not_kept };
        assert_eq!(in_words("In force", &applied), "In force; rules: 1 added. Warning: the disk is full.");
    }

    #[test]
    fn a_mistake_is_shown_with_its_line() {
        let problem = |line, column| api::Problem {
            file: "p".to_owned(),
            line,
            column,
            message: String::new(),
            help: None,
        };
        let long = "x".repeat(500);
        for (text, line, column, shown, before) in [
            ("a\n\tbad = 1\n", 2, 2, "\tbad = 1", "\t"),
            ("é = 1", 1, 5, "é = 1", "    "),
            ("a", 9, 9, "", ""),
            ("", 1, 1, "", ""),
            (&long, 1, 500, &"x".repeat(60), &" ".repeat(59)),
        ] {
            let mistake = Mistake::of("error", &problem(line, column), text);
            assert_eq!((mistake.text.as_str(), mistake.before.as_str()), (shown, before), "{text}");
        }
    }

    #[test]
    fn a_difference_has_what_was_added_and_removed() {
        let (lines, counts) = difference("a\nb\nc\n", "a\nB\nc\nd\n");
        let signs: String = lines.iter().filter_map(|line| line["sign"].as_str()).collect();
        assert_eq!((signs.as_str(), counts), (" -+ +", [2, 1]));
        assert_eq!(difference("a", "a"), (Vec::new(), [0, 0]));
    }
}
