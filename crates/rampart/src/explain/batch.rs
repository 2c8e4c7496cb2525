//! Many packets: a line of JSON for each, and a line of answer for each.

use super::translated::untranslatable;
use super::{Question, UNASKED, contents, line, misfit_of, packet};
use crate::failure::Failure;
use jiff::Timestamp;
use policy::Policy;
use policy::interpret::{Decider, Packet, Verdict};
use policy::lists::ListTable;
use policy::model::Action;
use policy::tables::Tables;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::Path;
use std::process::ExitCode;

/// Answers each line of a file, or of standard input where the file is `-`. A line that is no packet is answered with what is wrong with it, the
/// others are answered none the less, and the exit status is 1.
pub(super) fn run(file: &Path, policy: &Policy, at: Timestamp, json: bool) -> Result<ExitCode, Failure> {
    // By the tables, because going through the rules one by one takes a second for some thousand packets and 100,000 rules.
    let tables =
        Tables::build(policy, at).map_err(|error| Failure::Wrong(format!("{}: {error}", policy.file)))?;
    let lists = contents(policy, at)?;
    let lists = ListTable::build(&lists.iter().collect::<Vec<_>>())
        .map_err(|error| Failure::Wrong(format!("{}: {error}", policy.file)))?;
    let cannot = |error: std::io::Error| Failure::Wrong(format!("{}: {error}", file.display()));
    let mut input: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(file).map_err(cannot)?))
    };
    let mut output = crate::output::Output;
    let mut all_answered = true;
    for number in 1.. {
        let Some(text) = next_line(&mut input).map_err(cannot)? else { break };
        if text.len() as u64 > LONGEST {
            let place = format!("{}:{number}", file.display());
            return Err(Failure::Wrong(format!(
                "{place}: the line has more than {LONGEST} bytes, which no packet takes"
            )));
        }
        if text.trim().is_empty() {
            continue;
        }
        let asked = serde_json::from_str::<Question>(&text).map_err(|error| error.to_string());
        let answer = asked.and_then(|question| packet(&question, policy));
        let written = match answer {
            Ok((packet, before)) => {
                let listed = lists.refusing(&policy.lists, packet.source, packet.destination);
                let answer = match (misfit_of(policy, &packet, before), listed) {
                    (Some(misfit), _) => brief_of_reason(misfit.name(), Some(number), json),
                    (None, Some(list)) => brief_of_list(policy, list, Some(number), json),
                    (None, None) => {
                        let on = lists.on_lists(packet.source, packet.destination);
                        let verdict = tables.look_up_listed(&packet, on).0;
                        let asked = before.as_ref().map(|(_, asked)| asked);
                        brief(policy, &packet, asked, &verdict, Some(number), json)
                    }
                };
                writeln!(output, "{answer}")
            }
            Err(error) => {
                all_answered = false;
                if json {
                    writeln!(output, "{}", json!({ "line": number, "error": error }))
                } else {
                    writeln!(output, "{}:{number}: {error}", file.display())
                }
            }
        };
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            other => other.map_err(|error| Failure::Machine(error.to_string()))?,
        }
    }
    Ok(if all_answered { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The longest line of a packet, in bytes, and far more than one takes. A file without ends of lines may have no end itself.
const LONGEST: u64 = 65_536;

/// The next line, or as much of a longer one as shows that it is longer; `None` behind the last.
fn next_line(input: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    if input.take(LONGEST + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    String::from_utf8(line)
        .map(Some)
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}

/// The same where a list decides, by its place: `deny list:bad`.
pub(super) fn brief_of_list(policy: &Policy, list: usize, asked_in: Option<u64>, json: bool) -> String {
    let list = &policy.lists[list];
    if !json {
        return format!("deny {}", list.counter());
    }
    let mut answer = json!({ "action": "deny", "rule": null, "list": list.name });
    if let Some(number) = asked_in {
        answer["line"] = number.into();
    }
    answer.to_string()
}

/// What becomes of a packet in a line: `allow web`, or as JSON, with the number of the line that asked. Where a rule allows it and no translation can
/// be made of it, the translation decides: `deny nat:out`. `asked` is the packet before its destination was translated.
pub(super) fn brief(
    policy: &Policy,
    packet: &Packet,
    asked: Option<&Packet>,
    verdict: &Verdict,
    asked_in: Option<u64>,
    json: bool,
) -> String {
    if packet.answers_query() {
        return brief_of_reason(UNASKED, asked_in, json);
    }
    let dropped_by = untranslatable(policy, packet, asked, verdict.action);
    let action = if dropped_by.is_some() { Action::Deny } else { verdict.action }.name();
    let rule = match (dropped_by, verdict.decider) {
        (None, Decider::Rule(place)) => Some(place),
        _ => None,
    };
    let name = rule.map(|place| policy.rules[place].name.as_str());
    let translation = dropped_by.map(|place| policy.translations[place].name.as_str());
    if !json {
        return match translation {
            Some(translation) => format!("{action} nat:{translation}"),
            None => format!("{action} {}", name.unwrap_or("(default)")),
        };
    }
    let mut answer = json!({ "action": action, "rule": name });
    if let Some(translation) = translation {
        answer["translation"] = translation.into();
    }
    if let Some(number) = asked_in {
        answer["line"] = number.into();
    } else {
        answer["rule_line"] = rule.map(|place| line(policy, place)).into();
    }
    answer.to_string()
}

/// Of a packet that is dropped whatever the rules say: for its addresses, or as an answer to an ICMP query, which opens no flow.
pub(super) fn brief_of_reason(reason: &str, asked_in: Option<u64>, json: bool) -> String {
    if !json {
        return format!("deny {reason}");
    }
    let mut answer = json!({ "action": Action::Deny.name(), "rule": null, "reason": reason });
    if let Some(number) = asked_in {
        answer["line"] = number.into();
    }
    answer.to_string()
}
