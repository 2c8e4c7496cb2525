//! Policies of the firewall: text to checked policy to tables, and the reference interpreter.
//!
//! ```text
//! text --Policy::parse--> Policy --Form::of(at)--> Form --Tables::build--> Tables --look_up--> Verdict
//!                            \--interpret::decide(at)---------------------------------------/
//! ```
//!
//! The language is described in `docs/guide/policy.md`, the tables in `docs/design/tables.md`. Pure: reads no files and no
//! clock, and knows nothing of BPF; its tables are arrays that others load into maps.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]

pub mod address;
mod analysis;
mod check;
pub mod form;
pub mod interpret;
pub mod model;
mod problem;
pub mod quantity;
pub mod ranges;
mod read;
pub mod schedule;
pub mod schema;
pub mod service;
pub mod settings;
pub mod tables;

pub use analysis::{Kind as WarningKind, Warning};
pub use model::Policy;
pub use problem::{Problem, Problems};
pub use tables::Tables;
