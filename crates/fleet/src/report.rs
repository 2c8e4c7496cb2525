//! What an agent says of its firewall, on the server.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An agent and its firewall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The agent's name.
    pub name: String,
    /// The group whose policies it takes.
    pub group: String,
    /// Version of the agent.
    pub version: String,
    /// When the last order that it has acted upon was made; null before the first.
    pub order: Option<Timestamp>,
    /// What came of it.
    pub order_state: OrderState,
    /// The firewall; null if it does not answer.
    pub firewall: Option<Firewall>,
    /// Events of the firewall that were gone before the agent could send them, since it was started.
    pub events_missed: u64,
    /// What needs attention, each as a sentence: of the firewall, and of orders that the agent does not take.
    pub troubles: Vec<String>,
}

/// A firewall as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firewall {
    /// Version of the daemon.
    pub version: String,
    /// File of the policy in force, for messages.
    pub file: String,
    /// Number of its rules.
    pub rules: u64,
    /// Flows that are open.
    pub flows_open: u64,
}

/// What came of an order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum OrderState {
    /// There was none.
    #[default]
    None,
    /// It is in force, and goes away unless it is confirmed.
    Waiting {
        /// When it goes.
        until: Timestamp,
        /// Its number in the firewall's history, by which it is confirmed and no other.
        number: Option<u64>,
    },
    /// It is in force and stays.
    Confirmed,
    /// It was in force, and nobody confirmed it in time, or somebody has gone back at the firewall.
    RolledBack,
    /// The firewall took it not.
    Refused {
        /// Why.
        why: String,
    },
}
