//! `rampart apply`, `confirm` and `down`: the commands that change what runs.

use super::shown;
use crate::api::{Applied, Confirmed, Down, NewPolicy, Operation};
use crate::cli::{ApplyArgs, AskArgs};
use crate::daemon::changes;
use crate::daemon::instance::Instance;
use crate::failure::Failure;
use crate::{forwarding, own_session};
use dataplane::Earlier;
use policy::Policy;
use rampart_client::{Client, ClientError};
use std::path::Path;

/// Puts a policy in force.
pub(crate) fn apply(args: &ApplyArgs, json: bool) -> Result<String, Failure> {
    let (file, text) = crate::read_text(&args.policy)?;
    let folder = crate::folder_of(&args.policy);
    // What is wrong with the text is for the daemon to say.
    if let (false, Ok(policy)) = (args.force, Policy::parse(&file, &text)) {
        own_session::refuse_to_cut(&policy.in_folder(folder.clone()))?;
    }
    let new = NewPolicy { file, folder, text, confirm_seconds: args.confirm };
    let applied: Applied = Client::new(args.socket.as_deref())?.send(Operation::Apply, &new)?;
    shown(&applied, json, |applied| {
        let mut text = format!(
            "{} is in force as generation {}, {} rules\n{}",
            new.file,
            applied.generation,
            applied.rules,
            changes::listed(&applied.changes)
        );
        if let Some(back) = applied.rolls_back_at {
            text += &format!("goes back at {back} unless `rampart confirm` comes\n");
        }
        text
    })
}

/// Keeps a policy that waits for it.
pub(crate) fn confirm(args: &AskArgs, json: bool) -> Result<String, Failure> {
    let confirmed: Confirmed = Client::new(args.socket.as_deref())?.ask(Operation::Confirm, &[])?;
    shown(&confirmed, json, |confirmed| format!("generation {} stays\n", confirmed.generation))
}

/// Takes the firewall down.
pub(crate) fn down(args: &AskArgs, json: bool) -> Result<String, Failure> {
    let down: Down = match Client::new(args.socket.as_deref())?.down() {
        Err(unreachable @ ClientError::Unreachable(_)) => return remains(args, json, unreachable.into()),
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
    forwarding::close_loopback(Path::new(forwarding::SETTINGS)).map_err(|error| machine(&error))?;
    instance.remove_sockets();
    let detached = serde_json::json!({ "pid": null, "detached": earlier.interfaces() });
    shown(&detached, json, |_| format!("detached from {}; no daemon ran\n", earlier.interfaces().join(", ")))
}
