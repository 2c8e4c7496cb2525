//! What the daemon reports while it runs: a line per event, for people or as JSON.

use jiff::Timestamp;
use serde_json::json;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

pub(crate) struct Log {
    json: bool,
    out: Mutex<Box<dyn Write + Send>>,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The firewall is up.
    Up,
    /// A policy came into force.
    Applied,
    /// A policy was not put in force.
    Refused,
    /// A policy was confirmed.
    Confirmed,
    /// A policy was not confirmed, and the one before it came back.
    RolledBack,
    /// A schedule began or ended.
    Scheduled,
    /// A user ended flows.
    Killed,
    /// An alert was raised.
    Alert,
    /// The daemon ends, and the firewall goes on without it.
    Left,
    /// Something needs attention.
    Trouble,
    /// A trouble or an alert is over.
    Over,
    /// The firewall is down.
    Down,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Up => "up",
            Kind::Applied => "applied",
            Kind::Refused => "refused",
            Kind::Confirmed => "confirmed",
            Kind::RolledBack => "rolled-back",
            Kind::Scheduled => "scheduled",
            Kind::Killed => "killed",
            Kind::Alert => "alert",
            Kind::Left => "left",
            Kind::Trouble => "trouble",
            Kind::Over => "over",
            Kind::Down => "down",
        }
    }
}

impl Log {
    pub(crate) fn new(json: bool, out: Box<dyn Write + Send>) -> Self {
        Self { json, out: Mutex::new(out) }
    }

    /// Writes an event. A reader that went away is no reason to stop a firewall.
    pub(crate) fn event(&self, at: Timestamp, kind: Kind, message: impl fmt::Display) {
        let line = if self.json {
            json!({ "at": at, "event": kind.name(), "message": message.to_string() }).to_string()
        } else {
            format!("{at:.3} {}: {message}", kind.name())
        };
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
