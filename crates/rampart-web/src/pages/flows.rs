//! Open flows: search, and end.

use crate::app::{Context, Fault};
use crate::http::{Answer, Fields};
use rampart_client::api::{Flows, Killed, protocol_name};
use rampart_client::{Filter, Operation};
use serde_json::json;

/// Flows on a page.
const SHOWN: &str = "200";

/// Fields of the search, as the filter of the API names them.
const KEYS: [&str; 11] =
    ["host", "proto", "dport", "rule", "zone", "state", "src", "dst", "sport", "from", "to"];

/// The filter that a form asks for.
fn wanted(fields: &Fields) -> Vec<(&'static str, &str)> {
    KEYS.iter().map(|key| (*key, fields.get(key))).filter(|(_, value)| !value.is_empty()).collect()
}

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let filter = wanted(context.query());
    let protocols = [6, 17, 132, 1, 58].map(protocol_name);
    let mut values = json!({
        "title": "Flows", "script": "live.js", "help": "flows", "is_filtered": !filter.is_empty(),
        "protocols": protocols,
    });
    for (key, value) in &filter {
        values["wanted"][key] = (*value).into();
    }
    if let Err(error) = Filter::of_pairs(filter.iter().copied()) {
        values["why"] = error.to_string().into();
        return Ok(context.page_of(422, "flows.html", values));
    }
    let query: Vec<_> = filter.iter().copied().chain([("limit", SHOWN)]).collect();
    let Flows { matched, flows } = context.ask(Operation::Flows, &query)?;
    values["matched"] = matched.into();
    values["flows"] = json!(flows);
    context.page("flows.html", values)
}

pub(crate) fn end(context: &Context<'_>) -> Result<Answer, Fault> {
    let filter = wanted(context.form());
    // A form that lost its fields must not end every flow.
    if filter.is_empty() {
        return Err(Fault::Wrong(422, "this would end every flow: search for some first".to_owned()));
    }
    let Killed { killed } = context.ask(Operation::EndFlows, &filter)?;
    let said = match killed {
        1 => "1 flow was ended.".to_owned(),
        n => format!("{n} flows were ended."),
    };
    Ok(context.done("/flows", said))
}
