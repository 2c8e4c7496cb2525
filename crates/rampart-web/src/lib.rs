//! The web administration of the firewall: pages that are made here, without a script but for live updates, over the API of
//! the firewall's socket. A process of its own without rights: what it may do to the firewall, the group of its user says.
//!
//! ```text
//! bytes --http--> Request --routes: session, role, token--> page --view: every text escaped--> Answer
//!                                                             \--rampart-client--> the firewall
//! ```
//!
//! [`app::App::answer`] decides everything and has neither a connection nor a clock, so that attacks are rows of a test.
//! `docs/decisions/0060-the-web-administration.md` says why it is made so, `docs/guide/web.md` how it is used.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]

pub mod app;
mod chart;
pub mod http;
mod pages;
pub mod privileges;
pub mod routes;
pub mod samples;
pub mod secret;
pub mod server;
pub mod sessions;
pub mod tls;
pub mod users;
mod view;
