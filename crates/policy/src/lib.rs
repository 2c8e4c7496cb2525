//! Policies of the firewall: text to checked policy to tables, and the reference interpreter.
//!
//! ```text
//! text --Policy::parse--> Policy --Form::of(at)--> Form --Tables::build--> Tables --look_up--> Verdict
//!                            \--interpret::decide(at)---------------------------------------/
//! ```
//!
//! ```
//! use policy::{Policy, Tables, interpret::{Packet, decide}};
//!
//! let text = "
//!     [zones]
//!     inside = { interfaces = 'eth1' }
//!     outside = { interfaces = 'eth0' }
//!     [[rules]]
//!     name = 'browsing'
//!     from = 'inside'
//!     to = 'outside'
//!     service = ['http', 'https']
//!     action = 'allow'
//! ";
//! let policy = Policy::parse("example.toml", text)?;
//! let at = jiff::Timestamp::UNIX_EPOCH;
//! let tables = Tables::build(&policy, at)?;
//! let packet = Packet {
//!     from: policy.zone("inside").ok_or("no zone")?,
//!     to: policy.zone("outside").ok_or("no zone")?,
//!     source: "10.0.0.1".parse()?,
//!     destination: "192.0.2.1".parse()?,
//!     source_port: 40_000,
//!     protocol: policy::service::TCP,
//!     selector: 443,
//! };
//! let (verdict, accesses) = tables.look_up(&packet);
//! assert_eq!(verdict, decide(&policy, &packet, at));
//! assert!(accesses < 12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The language is described in `docs/guide/policy.md`, the tables in `docs/design/tables.md`. Pure: reads no files and no
//! clock, and knows nothing of BPF; its tables are arrays that others load into maps.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]

pub mod address;
mod analysis;
pub mod answered;
pub mod bridge;
mod check;
pub mod ends;
pub mod exports;
pub mod form;
pub mod gateways;
pub mod hosts;
pub mod interpret;
pub mod lists;
pub mod model;
pub mod prefix;
pub mod quantity;
pub mod quota;
pub mod ranges;
pub mod scans;
pub mod schedule;
pub mod schema;
pub mod service;
pub mod settings;
pub mod tables;
pub mod translation;
mod words;

pub use analysis::{Kind as WarningKind, Warning};
pub use bridge::Bridge;
pub use model::Policy;
pub use tables::Tables;
pub use toml_reader::{Problem, Problems};
