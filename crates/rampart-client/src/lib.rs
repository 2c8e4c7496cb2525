//! Talks to a running firewall: the types of its API, and a client of its socket.
//!
//! ```no_run
//! use rampart_client::{Client, Operation, api::Status};
//!
//! let firewall = Client::new(None)?;
//! let status: Status = firewall.ask(Operation::Status, &[])?;
//! println!("{} flows are open", status.flows.open);
//! # Ok::<(), rampart_client::ClientError>(())
//! ```
//!
//! The command line, a web interface and a fleet's agent all use it. It links neither BPF nor the data plane, which its
//! dependencies enforce (`docs/decisions/0019-the-client-is-a-crate.md`).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]

pub mod api;
mod client;
pub mod http;
pub mod socket;

pub use api::{Filter, FilterError, Operation};
pub use client::{Client, ClientError};
/// The language of policies. Who talks with a firewall about a policy reads it by the same code.
pub use policy;
