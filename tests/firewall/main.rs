//! The firewall's forwarding and answers, row by row on the BPF programs, and real programs across it in namespaces of their
//! own. Needs root.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod crossing;
mod ends;
mod forward_rows;
mod links;
mod path_mtu;
mod programs;
mod proxied;
mod routes;
mod rows_program;
mod weather;
