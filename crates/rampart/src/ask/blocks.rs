//! `rampart blocks`: the sources that may open no flow because they scanned, and ending that.

use super::shown;
use crate::api::{Block, Blocks, Operation, Unblocked};
use crate::cli::BlocksArgs;
use crate::failure::Failure;
use crate::table::{Side, Table, grouped, span};
use rampart_client::Client;

pub(crate) fn blocks(args: &BlocksArgs, json: bool) -> Result<String, Failure> {
    let client = Client::new(args.socket.as_deref())?;
    let mut query: Vec<(String, String)> = Vec::new();
    query.extend(args.end.map(|source| ("source".to_owned(), source.to_string())));
    query.extend(args.zone.iter().map(|zone| ("zone".to_owned(), zone.clone())));
    query.extend(args.end_all.then(|| ("all".to_owned(), "true".to_owned())));
    if args.end.is_some() || args.end_all {
        let unblocked: Unblocked = client.ask(Operation::EndBlocks, &query)?;
        return shown(&unblocked, json, |unblocked| format!("{} ended\n", counted(unblocked.ended)));
    }
    let blocks: Blocks = client.ask(Operation::Blocks, &[])?;
    shown(&blocks, json, text)
}

fn text(blocks: &Blocks) -> String {
    if blocks.blocks.is_empty() {
        return "nobody is blocked\n".to_owned();
    }
    let mut table = Table::new(&[
        ("source", Side::Left),
        ("zone", Side::Left),
        ("blocked for", Side::Right),
        ("ends in", Side::Right),
        ("ports", Side::Right),
        ("hosts", Side::Right),
    ]);
    for block in &blocks.blocks {
        table.row([
            source(block),
            block.zone.clone(),
            span(block.seconds),
            span(block.left_seconds),
            grouped(block.ports),
            grouped(block.hosts),
        ]);
    }
    format!("{}{}\n", table.text(), counted(blocks.blocks.len() as u64))
}

fn source(block: &Block) -> String {
    match block.prefix {
        32 => block.source.to_string(),
        prefix => format!("{}/{prefix}", block.source),
    }
}

fn counted(blocks: u64) -> String {
    crate::table::of(blocks, "block")
}
