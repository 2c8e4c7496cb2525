//! Lists of addresses, and sources that are blocked because they scanned.

use crate::app::{Context, Fault};
use crate::http::Answer;
use crate::view::time;
use rampart_client::Operation;
use rampart_client::api::{Blocks, ListCount, Lists, Unblocked};
use serde_json::json;

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let Lists { kernel_bytes, lists } = context.ask(Operation::Lists, &[])?;
    let row = |list: &ListCount| {
        let bound = [("block", &list.block), ("require", &list.require)];
        let bound: Vec<String> =
            bound.iter().filter_map(|(word, at)| at.as_ref().map(|at| format!("{word} {at}"))).collect();
        json!({ "list": list, "bound": bound.join(", "), "read_at": time(list.read_at), "next_end": list.next_end.map(time), "expires": list.expires.map(time) })
    };
    let rows: Vec<_> = lists.iter().map(row).collect();
    context.page(
        "lists.html",
        json!({ "title": "Lists of addresses", "help": "lists", "kernel_bytes": kernel_bytes, "rows": rows }),
    )
}

pub(crate) fn blocks(context: &Context<'_>) -> Result<Answer, Fault> {
    let Blocks { blocks } = context.ask(Operation::Blocks, &[])?;
    context.page("blocks.html", json!({ "title": "Blocked sources", "help": "blocked", "blocks": blocks }))
}

pub(crate) fn end_block(context: &Context<'_>) -> Result<Answer, Fault> {
    let (source, zone) = (context.form().get("source"), context.form().get("zone"));
    if source.is_empty() {
        return Err(Fault::Wrong(422, "the form names no source".to_owned()));
    }
    let zone = (!zone.is_empty()).then_some(("zone", zone));
    let query: Vec<_> = [("source", source)].into_iter().chain(zone).collect();
    let Unblocked { ended } = context.ask(Operation::EndBlocks, &query)?;
    let said = match ended {
        0 => format!("{source} was not blocked any more."),
        _ => format!("{source} may open flows again."),
    };
    Ok(context.done("/blocks", said))
}
