//! The pages: each file has those of one matter. A page asks the firewall and gives values to a template.

pub(crate) mod account;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod flows;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod lists;
pub(crate) mod login;
pub(crate) mod overview;
pub(crate) mod policy;
pub(crate) mod rules;
pub(crate) mod users;

use crate::app::{Context, Fault};
use crate::http::Answer;
use rampart_client::ClientError;
use serde_json::json;

const FILES: [(&str, &str, &str); 4] = [
    ("/style.css", "text/css; charset=utf-8", include_str!("../static/style.css")),
    ("/live.js", "text/javascript; charset=utf-8", include_str!("../static/live.js")),
    ("/editor.js", "text/javascript; charset=utf-8", include_str!("../static/editor.js")),
    ("/icon.svg", "image/svg+xml", include_str!("../static/icon.svg")),
];

/// A file that is the same for everybody.
pub(crate) fn file(path: &str) -> Option<Answer> {
    let (_, kind, text) = FILES.iter().find(|(known, ..)| *known == path)?;
    Some(Answer { is_kept: true, ..Answer::new(200, kind, (*text).to_owned()) })
}

/// Why there is no page.
pub(crate) fn fault(context: &Context<'_>, fault: Fault) -> Answer {
    match fault {
        Fault::Wrong(status, why) => refusal(context, status, &why),
        Fault::Firewall(error) => {
            let status = match &error {
                ClientError::Refused { status, .. } => *status,
                ClientError::Absent(_) | ClientError::Unreachable(_) | ClientError::Json(_) => 502,
            };
            refusal(context, status, &error.to_string())
        }
    }
}

/// A page that says why there is no other.
pub(crate) fn refusal(context: &Context<'_>, status: u16, why: &str) -> Answer {
    let title = match status {
        401 | 403 => "Not allowed",
        404 => "Not found",
        502 | 503 => "The firewall does not answer",
        _ => "This did not work",
    };
    context.page_of(status, "message.html", json!({ "title": title, "why": why }))
}
