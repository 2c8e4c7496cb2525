//! Connections of applications that are opened one after the other, kept open together, and used again and again meanwhile: how many a
//! firewall holds at once (RFC 9411 sections 7.5 and 7.9). Each connection has a transaction when it is opened, one whenever its think time
//! is over, and a last one after all others were open, which proves that it still carries what is asked of it. Plain values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A think time is this share of the time in which connections are open, unless the suite names one: RFC 9411 has ten transactions over a
/// connection.
const THINK_SHARE: f64 = 0.1;

/// How many connections, and when they are opened and used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOpen {
    /// Connections, at least 1.
    pub connections: u64,
    /// Connections a second while they are opened, and again while they are closed, > 0.
    pub opening_rate: f64,
    /// Seconds in which all are open, 0 or more.
    pub hold_seconds: f64,
    /// Seconds from the end of a transaction to the next one of its connection, > 0; `None`: a tenth of opening and holding.
    pub think_seconds: Option<f64>,
}

impl HeldOpen {
    /// Seconds in which they are opened.
    pub fn opening_seconds(&self) -> f64 {
        self.connections as f64 / self.opening_rate
    }

    /// All phases together, where nothing is late: opening, holding and closing.
    pub fn seconds(&self) -> f64 {
        2.0 * self.opening_seconds() + self.hold_seconds
    }

    /// When a connection is due, in seconds from the start; and, from the end of the hold, its last transaction. Connections count from 0.
    pub fn due_seconds(&self, number: u64) -> f64 {
        number as f64 / self.opening_rate
    }

    /// The think time that is kept.
    pub fn think(&self) -> f64 {
        self.think_seconds.unwrap_or((self.opening_seconds() + self.hold_seconds) * THINK_SHARE)
    }
}

/// What became of connections that were to be open at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldOutcome {
    /// Connections that were to be opened.
    pub asked: u64,
    /// Connections whose first transaction completed.
    pub opened: u64,
    /// Connections all of whose transactions completed, the last one after all connections were open.
    pub alive: u64,
    /// Connections that the servers accepted.
    pub accepted: u64,
    /// The most connections that the servers had open at once.
    pub open_at_servers: u64,
    /// Whether a proxy carried the requests over connections of its own choice. Then nobody can tell from the servers' connections how many
    /// it held, and the transactions alone say which were alive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relayed: bool,
    /// Why these are fewer than were asked of the bench, where this machine cannot have both ends of so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
}

impl HeldOutcome {
    /// The share of the connections that did not hold.
    pub fn lost_share(&self) -> f64 {
        1.0 - self.alive as f64 / self.asked.max(1) as f64
    }

    /// What clients and servers do not agree about, in words. A connection that lives from its opening to the last transaction was open
    /// together with all others, and so at the servers too, where they are the other end of it.
    pub(crate) fn disagreements(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.relayed {
            return found;
        }
        if self.open_at_servers < self.alive {
            found.push(format!(
                "clients had {} connections open at once and the servers {}: somebody else held the others",
                self.alive, self.open_at_servers
            ));
        }
        if self.accepted > self.asked {
            found.push(format!(
                "{} connections reached the servers and the clients opened {}: somebody opened them again",
                self.accepted, self.asked
            ));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_from_the_rate() {
        let held =
            HeldOpen { connections: 1000, opening_rate: 500.0, hold_seconds: 1.0, think_seconds: None };
        assert_eq!((held.opening_seconds(), held.seconds(), held.due_seconds(999)), (2.0, 5.0, 1.998));
        for (given, kept) in [(None, 0.3), (Some(2.0), 2.0)] {
            let think = HeldOpen { think_seconds: given, ..held }.think();
            assert!((think - kept).abs() < 1e-12, "{given:?}: {think}");
        }
    }

    #[test]
    fn what_servers_did_not_hold_is_somebody_elses() {
        let honest = HeldOutcome {
            asked: 100,
            opened: 100,
            alive: 100,
            accepted: 100,
            open_at_servers: 100,
            relayed: false,
            limited_by: None,
        };
        type Row = (fn(&mut HeldOutcome), &'static str, f64);
        let rows: [Row; 7] = [
            // A proxy that shares its connections to servers, and opens them again as it likes.
            (|h| (h.relayed, h.accepted, h.open_at_servers) = (true, 140, 10), "", 0.0),
            (|h| (h.relayed, h.alive) = (true, 50), "", 0.5),
            (|_| (), "", 0.0),
            // A firewall that is full: refused, or closed later.
            (|h| (h.opened, h.alive, h.accepted, h.open_at_servers) = (60, 50, 60, 60), "", 0.5),
            (
                |h| h.open_at_servers = 10,
                "clients had 100 connections open at once and the servers 10: somebody else held the others",
                0.0,
            ),
            (
                |h| h.accepted = 140,
                "140 connections reached the servers and the clients opened 100: somebody opened them again",
                0.0,
            ),
            (|h| h.alive = 0, "", 1.0),
        ];
        for (change, said, lost) in rows {
            let mut held = honest.clone();
            change(&mut held);
            assert_eq!(
                (held.disagreements().join("; ").as_str(), held.lost_share()),
                (said, lost),
                "{held:?}"
            );
        }
    }
}
