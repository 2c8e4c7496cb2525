//! The firewall's data plane: loads `bpf/firewall`, puts policies into its maps, reads what it counts.
//!
//! ```text
//! Policy --Tables::build--> Tables --Policies::apply--> maps <-- bpf/firewall.bpf.c, for each packet
//! ```
//!
//! A [`Firewall`] has parts, each with the maps that it owns: [`FlowTable`], [`Ports`], [`Policies`], [`EventLog`],
//! [`Counters`] and [`Scans`]. Decides nothing about packets; that is done in C (`docs/design/dataplane.md`), by the tables that `policy`
//! builds. Reads no clock: the user calls [`FlowTable::sweep`] about once a second, and keeps a [`routes::Follower`] beside the
//! [`Firewall`], which follows the kernel's routes, neighbours and addresses. The firewall's unsafe code is here.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]

mod attendant;
mod carrying;
mod clock;
mod contexts;
mod continuing;
mod counters;
mod earlier;
mod early;
mod error;
mod event_log;
mod firewall;
mod flow_records;
mod flow_table;
mod forwarding;
mod interface;
mod layout;
mod loading;
mod names;
mod notes;
pub mod others;
mod policies;
mod ports;
mod reason;
mod refused;
#[allow(unsafe_code, reason = "what libbpf tells of programs that it is not to load itself")]
mod relocated;
mod ring;
pub mod routes;
mod scans;
#[allow(
    unsafe_code,
    reason = "memory shared with BPF programs, plain structures as bytes, programs run by hand"
)]
mod shared;
mod skeleton;
#[allow(unsafe_code, reason = "the system call that takes system calls away")]
pub mod system_calls;
#[cfg(feature = "testing")]
mod testing;
mod tracking;

pub use attendant::Attendant;
pub use carrying::{Carried, Carrying};
pub use continuing::{Continuing, Terms};
pub use counters::Counters;
pub use earlier::{Earlier, take_from};
pub use error::DataplaneError;
pub use event_log::{Event, EventKind, EventLog};
pub use firewall::{Firewall, Occupancy, Settings};
pub use flow_records::{FlowRecords, RecordedFlow};
pub use flow_table::{Filter, Flow, FlowId, FlowTable, Moved};
pub use interface::Interface;
pub use policies::{Generation, Policies};
pub use ports::{Attached, Hook, Meddling, Ports, Station, held_namespaces, release_namespace};
pub use reason::{Reason, State, Tally};
pub use scans::{Blocked, Scans};

/// The mark of the socket at which a transparent gateway listens.
pub const GATEWAY_LISTENS: u32 = skeleton::types::gateway_mark::GATEWAY_LISTENS.0;
/// The mark of packets that a transparent gateway takes.
pub const GATEWAY_TAKES: u32 = skeleton::types::gateway_mark::GATEWAY_TAKES.0;
#[cfg(feature = "testing")]
pub use testing::{Judgement, Place, TestRun, Tester, Verdict};
