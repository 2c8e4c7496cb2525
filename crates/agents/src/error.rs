//! Why something between the bench and its agents cannot be done.

use fleet::FleetError;

/// Why something between the bench and its agents cannot be done. Each text is complete, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    /// What was given is wrong: a file, a key, a name.
    #[error("{0}")]
    Wrong(String),
    /// The server cannot be used.
    #[error(transparent)]
    Server(#[from] FleetError),
    /// An agent does not answer, or refuses.
    #[error("agent {agent}: {why}")]
    Agent {
        /// The agent's name.
        agent: String,
        /// What it said, or that it said nothing.
        why: String,
    },
}

impl AgentsError {
    pub(crate) fn agent(agent: &str, why: impl Into<String>) -> Self {
        Self::Agent { agent: agent.to_owned(), why: why.into() }
    }
}
