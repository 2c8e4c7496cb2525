//! What the daemon tells while it runs: one line an event, for people or as JSON.

use jiff::Timestamp;
use serde_json::json;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Where events are written.
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
    /// Sessions were ended by a person.
    Killed,
    /// More came than the alert of a rule allows.
    Alert,
    /// Something is not as it should be.
    Trouble,
    /// It is as it should be again.
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
