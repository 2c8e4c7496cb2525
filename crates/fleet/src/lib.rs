//! Many firewalls by one policy: an agent beside each firewall takes signed policies for its group from a server of NATS, and whoever directs the
//! group sends them, keeps them once every firewall works by them, and sees who is late. `docs/guide/fleet.md` is for users.
//!
//! The server is trusted with nothing but to carry: what an agent does it has read in a statement that a key of its own configuration has signed
//! (`statement`), and what comes of that is decided without clock and connection (`member`).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]

pub mod agent;
pub mod config;
pub mod director;
mod error;
pub mod key;
pub mod member;
pub mod report;
pub mod server;
pub mod statement;

pub use error::FleetError;
