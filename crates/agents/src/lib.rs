//! Agents of the bench: a measurement whose two ports are at two hosts. An agent at each host has a port, sends from it and counts what arrives at
//! it; the leader plans the trials, compares the hosts' clocks, says when a trial begins, and puts together what both saw. Messages go over a
//! server of NATS, which is trusted with nothing but to carry. `docs/guide/agents.md` is for users.
//!
//! What an agent believes is decided without clock and connection (`desk`), by seals of a key that both have (`seal`). What is done at a host is
//! not known here: the program that starts an agent brings it (`Host`).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]

mod agent;
mod course;
mod desk;
mod error;
mod leader;
mod seal;
mod wire;

pub use agent::{Agent, Host};
pub use course::Course;
pub use error::AgentsError;
pub use fleet::config::{Address, check_name};
pub use leader::{Leader, Session};
pub use seal::Key;
pub use wire::{Answer, Facts, Order, Outcome, Place, Progress, Trial};
