//! `rampart apply`, `rollback`, `factory-reset`, `confirm` and `down`: the commands that change what runs.

use super::shown;
use crate::api::{Applied, Confirmed, Down, KeptPolicy, NewPolicy, Operation};
use crate::before::Before;
use crate::cli::{ApplyArgs, AskArgs, Caution, ConfirmArgs, ResetArgs, RollbackArgs};
use crate::daemon::changes;
use crate::daemon::instance::Instance;
use crate::daemon::past::factory_text;
use crate::failure::Failure;
use crate::{forwarding, own_session};
use dataplane::Earlier;
use policy::Policy;
use rampart_client::{Client, ClientError};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Puts a policy in force.
pub(crate) fn apply(args: &ApplyArgs, json: bool) -> Result<String, Failure> {
    let (file, text) = crate::read_text_or_stdin(&args.policy)?;
    let folder = crate::folder_of(&args.policy);
    let caution = &args.caution;
    refuse_to_cut(caution, &file, folder.clone(), &text)?;
    let new = NewPolicy { file, folder, text, confirm_seconds: caution.confirm };
    let applied: Applied = Client::new(caution.socket.as_deref())?.send(Operation::Apply, &new)?;
    shown(&applied, json, |applied| in_force(&new.file, applied))
}

/// What came into force.
pub(super) fn in_force(what: &str, applied: &Applied) -> String {
    let Applied { generation, rules, .. } = applied;
    let changes = changes::listed(&applied.changes);
    let mut text = format!(
        "{what} is in force as generation {generation}, {}\n{changes}",
        crate::table::rules(*rules as u64)
    );
    if let Some(number) = applied.number {
        text += &format!("number {number} of the history\n");
    }
    if let Some(back) = applied.rolls_back_at {
        text += &format!("goes back at {back} unless `rampart confirm` comes\n");
    }
    for trouble in &applied.not_kept {
        text += &format!("warning: {trouble}\n");
    }
    text
}

/// Goes back to a policy of the history.
pub(crate) fn rollback(args: &RollbackArgs, json: bool) -> Result<String, Failure> {
    let (caution, number) = (&args.caution, args.number);
    let client = Client::new(caution.socket.as_deref())?;
    let wanted = ("number".to_owned(), number.to_string());
    let KeptPolicy { file, folder, text: old, .. } =
        client.ask(Operation::Policy, std::slice::from_ref(&wanted))?;
    refuse_to_cut(caution, &file, folder, &old)?;
    let query: Vec<_> = std::iter::once(wanted).chain(confirm_of(caution)).collect();
    let applied: Applied = client.ask(Operation::Rollback, &query)?;
    shown(&applied, json, |applied| in_force(&format!("{file}, number {number},"), applied))
}

/// Puts the policy of a new firewall in force.
pub(crate) fn factory_reset(args: &ResetArgs, json: bool) -> Result<String, Failure> {
    let caution = &args.caution;
    let client = Client::new(caution.socket.as_deref())?;
    // A session to another port than SSH's would be cut.
    let KeptPolicy { file, folder, text, .. } = client.ask(Operation::Policy, &[])?;
    if let Ok(policy) = Policy::parse(&file, &text) {
        refuse_to_cut(caution, "factory-reset", folder, &factory_text(&policy))?;
    }
    if !args.yes {
        ask_at_terminal()?;
    }
    let applied: Applied = client.send_bytes(Operation::FactoryReset, &confirm_of(caution), &[])?;
    shown(&applied, json, |applied| in_force("the policy of a new firewall", applied))
}

/// Nobody takes the rules of a firewall away by mistake.
fn ask_at_terminal() -> Result<(), Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::Wrong(
            "this takes every rule away: say --yes where there is no terminal to ask at".to_owned(),
        ));
    }
    let question =
        "Every rule of the policy in force goes, and nothing is forwarded any more. Write `yes` to go on: ";
    // Who cannot be asked says nothing.
    let _ = std::io::stderr().write_all(question.as_bytes());
    let mut answer = String::new();
    let read = stdin.read_line(&mut answer);
    if read.is_ok() && answer.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::Wrong("nothing is changed".to_owned()))
}

/// How long the policy may wait to be confirmed, for a query.
pub(super) fn confirm_of(caution: &Caution) -> Vec<(String, String)> {
    caution.confirm.iter().map(|seconds| ("confirm_seconds".to_owned(), seconds.to_string())).collect()
}

/// Refuses a policy that would cut the session that the command is given in, unless that is forced.
pub(super) fn refuse_to_cut(
    caution: &Caution,
    file: &str,
    folder: Option<PathBuf>,
    text: &str,
) -> Result<(), Failure> {
    match Policy::parse(file, text) {
        Ok(policy) if !caution.force => own_session::refuse_to_cut(&policy.in_folder(folder)),
        // What is wrong with the text is for the daemon to say.
        _ => Ok(()),
    }
}

/// Keeps a policy that waits for it.
pub(crate) fn confirm(args: &ConfirmArgs, json: bool) -> Result<String, Failure> {
    let number: Vec<_> = args.number.iter().map(|it| ("number".to_owned(), it.to_string())).collect();
    let confirmed: Confirmed = Client::new(args.ask.socket.as_deref())?.ask(Operation::Confirm, &number)?;
    shown(&confirmed, json, |confirmed| format!("generation {} stays\n", confirmed.generation))
}

/// Takes the firewall down.
pub(crate) fn down(args: &AskArgs, json: bool) -> Result<String, Failure> {
    let down: Down = match Client::new(args.socket.as_deref())?.down() {
        Err(away @ (ClientError::Absent(_) | ClientError::Unreachable(_))) => {
            return remains(args, json, away.into());
        }
        other => other?,
    };
    shown(&down, json, |down| {
        format!("detached from {}; process {} has ended\n", down.detached.join(", "), down.pid)
    })
}

/// Takes away what a firewall left that has no daemon; `failure` when there is nothing.
fn remains(args: &AskArgs, json: bool, failure: Failure) -> Result<String, Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err(failure);
    }
    let machine = |error: &dyn std::fmt::Display| Failure::Machine(error.to_string());
    let instance = Instance::here(args.socket.as_deref()).map_err(|error| machine(&error))?;
    // Where a daemon runs, this is not the way.
    let Ok(_lock) = instance.lock() else { return Err(failure) };
    let Some(earlier) = Earlier::find().map_err(|error| machine(&error))? else { return Err(failure) };
    earlier.take_away().map_err(|error| machine(&error))?;
    let before = Before::of(&instance);
    before.put_back(Path::new(forwarding::SETTINGS), None).map_err(|error| machine(&error))?;
    instance.remove_sockets();
    let detached = serde_json::json!({ "pid": null, "detached": earlier.interfaces() });
    shown(&detached, json, |_| format!("detached from {}; no daemon ran\n", earlier.interfaces().join(", ")))
}
