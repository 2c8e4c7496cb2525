//! `rampart metrics`: what the firewall knows, for programs that keep it.

use super::shown;
use crate::api::Operation;
use crate::cli::AskArgs;
use crate::failure::Failure;
use rampart_client::Client;

pub(crate) fn metrics(args: &AskArgs, json: bool) -> Result<String, Failure> {
    let bytes = Client::new(args.socket.as_deref())?.fetch(Operation::Metrics)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    shown(&serde_json::json!({ "metrics": text }), json, |_| text.clone())
}
