//! The firewall's data plane: loads `bpf/firewall`, puts policies into its maps, reads what it counts.
//!
//! ```text
//! Policy --Tables::build--> Tables --Firewall::apply--> maps <-- bpf/firewall.bpf.c, for each packet
//! ```
//!
//! Decides nothing about packets; that is done in C (`docs/design/dataplane.md`), by the tables that `policy` builds. Reads
//! no clock: whoever uses it calls [`Firewall::sweep`] about once a second, and keeps [`routes::Routes`] beside the
//! [`Firewall`], which follow the kernel's routes, neighbours and addresses. The firewall's unsafe code is here.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]

mod error;
mod events;
mod firewall;
mod forwarding;
mod generation;
mod hooks;
mod layout;
mod limits;
mod reason;
pub mod routes;
mod sessions;
#[allow(
    unsafe_code,
    reason = "memory shared with BPF programs, plain structures as bytes, programs run by hand"
)]
mod shared;
mod skeleton;
mod tie;
mod trial;

pub use error::DataplaneError;
pub use events::{Event, What};
pub use firewall::{Firewall, Generation, Settings};
pub use hooks::{Attached, Hook};
pub use reason::{Reason, Tally};
pub use sessions::{Filter, Occupancy, Session, State};
pub use trial::{Judgement, TestRun, Tester, Verdict};
