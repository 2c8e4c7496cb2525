//! Application traffic over real sockets: virtual clients in one namespace fetch files from servers in another, over TCP
//! connections of their own, and compare every byte with what the server has. Unlike the other engines, this one lets the kernel's
//! own TCP work, as the applications behind a firewall do.
//!
//! Clients are tasks of one thread a core, servers of another, so that a thousand clients cost no thousand threads. Every
//! transaction has a limit of time, so that a run ends when the firewall dies in its middle.

mod client;
mod content;
mod ftp;
mod held;
mod http2;
mod load;
#[cfg(test)]
mod mix_tests;
mod nstl;
#[cfg(test)]
mod one_transaction;
mod open;
mod reach;
mod run;
mod seal;
mod server;
#[cfg(test)]
mod tests;
mod tls;

pub use content::FileSet;
pub use reach::{Reached, reach};
pub use run::{Load, Outcome, Side, run};
