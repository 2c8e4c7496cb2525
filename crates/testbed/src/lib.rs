//! The test bed: namespaces and links for the zones of the reports, the firewalls under test between them, and
//! what can be observed of the machine meanwhile.
//!
//! Never touches the host's own interfaces, routes or firewall unless the user names them, and leaves nothing
//! behind: [`bed::Bed`] removes itself when dropped, [`leftovers`] removes what a killed run left.

pub mod applications;
pub mod bed;
pub mod counters;
pub mod cpu;
pub mod doctor;
pub mod dut;
pub mod environment;
mod error;
pub mod guest;
pub mod interface;
mod journal;
pub mod layout;
pub mod leftovers;
mod link;
pub mod machine_lock;
pub mod machine_settings;
mod memory_group;
pub mod netns;
mod origin;
pub mod placement;
pub mod policy;
pub mod priority;
mod program;
pub mod quota;
mod stat;
pub mod tables;

pub use error::TestbedError;
pub use journal::{Change, JOURNAL_FOLDER};
