//! `rampart drops`: why packets were dropped.

use super::shown;
use crate::api::{Drops, Operation};
use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::table::{Side, Table, grouped};
use rampart_client::Client;

pub(crate) fn drops(args: &AskArgs, json: bool) -> Result<String, Failure> {
    let drops: Drops = Client::new(args.socket.as_deref())?.ask(Operation::Drops, &[])?;
    shown(&drops, json, text)
}

fn text(drops: &Drops) -> String {
    if drops.drops.is_empty() {
        return "no packet was dropped\n".to_owned();
    }
    let mut table = Table::new(&[
        ("packets", Side::Right),
        ("no.", Side::Right),
        ("reason", Side::Left),
        ("", Side::Left),
    ]);
    for drop in &drops.drops {
        table.row([
            grouped(drop.packets),
            drop.number.to_string(),
            drop.reason.clone(),
            drop.explanation.clone(),
        ]);
    }
    table.text()
}
