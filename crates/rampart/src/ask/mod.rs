//! The commands that ask a running firewall. Each gives the text to print.

pub(crate) mod apply;
pub(crate) mod backup;
mod blocks;
mod drops;
mod flows;
pub(crate) mod history;
mod lists;
pub(crate) mod log;
mod metrics;
mod rules;
mod stations;
mod status;
pub(crate) mod top;
mod wanted;

pub(crate) use apply::{apply, confirm, down};
pub(crate) use blocks::blocks;
pub(crate) use drops::drops;
pub(crate) use flows::flows;
pub(crate) use lists::lists;
pub(crate) use metrics::metrics;
pub(crate) use rules::rules;
pub(crate) use stations::stations;
pub(crate) use status::status;

use crate::daemon::log::escaped;
use crate::failure::Failure;
use serde::Serialize;

/// A line without commands to a terminal; tabs stay.
fn escaped_words(line: &str) -> String {
    line.split('\t').map(escaped).collect::<Vec<_>>().join("\t")
}

/// A value as text for people or as JSON for programs.
fn shown<T: Serialize>(value: &T, json: bool, text: impl FnOnce(&T) -> String) -> Result<String, Failure> {
    if !json {
        // Names of files and of whoever applied a policy are in it, and those of a backup are anybody's.
        return Ok(text(value).split('\n').map(escaped_words).collect::<Vec<_>>().join("\n"));
    }
    let json = serde_json::to_string_pretty(value);
    json.map(|json| json + "\n").map_err(|error| Failure::Wrong(format!("cannot write JSON: {error}")))
}
