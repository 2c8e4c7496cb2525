//! `rampart apply`, `confirm` and `down`: the commands that change what runs.

use super::shown;
use crate::api::{Applied, Confirmed, Down, NewPolicy, Operation};
use crate::cli::{ApplyArgs, AskArgs};
use crate::daemon::changes;
use crate::failure::Failure;
use rampart_client::Client;

/// Puts a policy in force.
pub(crate) fn apply(args: &ApplyArgs, json: bool) -> Result<String, Failure> {
    let (file, text) = crate::read_text(&args.policy)?;
    let new = NewPolicy { file, text, confirm_seconds: args.confirm };
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
    let down: Down = Client::new(args.socket.as_deref())?.down()?;
    shown(&down, json, |down| {
        format!("detached from {}; process {} has ended\n", down.detached.join(", "), down.pid)
    })
}
