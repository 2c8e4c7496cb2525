//! Pages and forms over a firewall in memory, and attacks on them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attacks;
mod bed;
mod browser;
mod commands;
mod connections;
mod firewall;
mod walk;
