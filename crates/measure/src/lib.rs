//! What the bench measures and how it decides: suites and plans, search, statistics, the loss ledger and
//! the result schema. Pure: reads no files, no clock, no sockets; everything here is tested as plain functions.
//!
//! Data flows one way: [`suite`] text becomes a [`plan`], a plan's cells are run as trials ([`trial`]) by a
//! [`campaign`] on rigs that somebody else built, and what comes back becomes [`results`].

pub mod application;
pub mod bulk;
pub mod campaign;
pub mod change;
pub mod clock;
pub mod connections;
pub mod frame;
pub mod held_open;
pub mod latency;
pub mod ledger;
pub mod level;
mod mark;
mod metric;
pub mod mix;
pub mod open_loop;
pub mod pace;
pub mod plan;
pub mod procedure;
pub mod process;
pub mod published;
pub mod results;
pub mod search;
pub mod served;

pub mod shape;
pub mod stats;
pub mod suite;
pub mod trial;
