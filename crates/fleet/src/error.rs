//! Why something of a fleet cannot be done.

use rampart_client::ClientError;

/// Why something of a fleet cannot be done. Each text is complete, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// What was given is wrong: a file, a key, a name.
    #[error("{0}")]
    Wrong(String),
    /// The server, or the machine, does not do what is asked.
    #[error("{0}")]
    Server(String),
    /// The firewall does not.
    #[error(transparent)]
    Firewall(#[from] ClientError),
}

impl FleetError {
    /// What the server was asked for, and why there is no answer.
    pub(crate) fn of_server(what: &str, why: &dyn std::fmt::Display) -> Self {
        Self::Server(format!("the server of the fleet does not {what}: {why}"))
    }
}
