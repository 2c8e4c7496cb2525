//! The history of a firewall: which policies were put in force, by whom, and what came of them.

use super::Actor;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Policies that were put in force, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Number of the entry whose policy is in force; null if the policy in force could not be kept.
    pub in_force: Option<u64>,
    /// The entries.
    pub entries: Vec<HistoryEntry>,
    /// Files of the history that cannot be read, and why.
    pub broken: Vec<String>,
}

/// A policy that was put in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// Number of the entry: 1 for the first, and one more for each. It is never given to another entry.
    pub number: u64,
    /// When the policy was put in force, for example `2026-11-20T10:00:00Z`.
    pub at: Timestamp,
    /// Who put it in force.
    pub by: Actor,
    /// By which way it came.
    pub way: Way,
    /// For `rollback`, the number of the entry that it was taken from; for entries that came with a backup, their number there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// Whether the entry came with a backup, and was in force on the machine that made it.
    #[serde(default)]
    pub from_backup: bool,
    /// File that the policy was read from, as the request named it, for example `policy.toml`.
    pub file: String,
    /// Folder from which on the policy names the files of its lists; null if it names them from the root on.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// Number of its rules.
    pub rules: u64,
    /// SHA-256 of its text, in hexadecimal digits.
    pub sha256: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// By which way a policy came into force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The firewall came up with it.
    Up,
    /// Somebody applied it.
    Apply,
    /// SIGHUP, at which the daemon reads its file again.
    Reload,
    /// Somebody went back to an entry of the history.
    Rollback,
    /// Somebody restored a backup.
    Restore,
    /// Somebody reset the firewall.
    FactoryReset,
}

impl Way {
    /// Short identifier, for example `apply`.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Up => "up",
            Way::Apply => "apply",
            Way::Reload => "reload",
            Way::Rollback => "rollback",
            Way::Restore => "restore",
            Way::FactoryReset => "factory-reset",
        }
    }
}

/// What came of a policy that was put in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It needed no confirmation.
    Applied,
    /// It waits to be confirmed.
    Waiting,
    /// Somebody confirmed it.
    Confirmed,
    /// Nobody confirmed it in time, or before the daemon ended: the one before it came back.
    RolledBack,
    /// Another policy was put in force before anybody confirmed it.
    Replaced,
}

impl Outcome {
    /// Short identifier, for example `rolled-back`.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Applied => "applied",
            Outcome::Waiting => "waiting",
            Outcome::Confirmed => "confirmed",
            Outcome::RolledBack => "rolled-back",
            Outcome::Replaced => "replaced",
        }
    }
}

/// A policy as it was put in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptPolicy {
    /// Number of its entry in the history; null if it has none.
    pub number: Option<u64>,
    /// File that the policy was read from, as the request named it.
    pub file: String,
    /// Folder from which on the policy names the files of its lists; null if it names them from the root on.
    pub folder: Option<PathBuf>,
    /// The policy's text, in TOML, as it was.
    pub text: String,
}

/// A backup that was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The policy of the backup, which is in force now.
    pub applied: super::Applied,
    /// Entries of the backup's history that this machine did not have.
    pub entries: u64,
    /// Copies of lists that this machine did not have.
    pub lists: u64,
}
