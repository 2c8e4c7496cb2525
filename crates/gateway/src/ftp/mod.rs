//! FTP (RFC 959, RFC 2428) as lines: commands of a list that is known ([`command`]), replies ([`reply`]), addresses in both ([`address`]), who logs in and where ([`login`]), and what
//! is to be done about a command ([`session`]). Nothing here has a socket or a clock.

pub mod address;
pub mod command;
pub mod login;
pub mod reply;
pub mod session;

/// Bytes of a line at most, without its end.
pub const LONGEST_LINE: usize = 2048;
/// The lowest port of a data connection: below are servers of other protocols (RFC 2577 section 3).
pub const LOWEST_PORT: u16 = 1024;
