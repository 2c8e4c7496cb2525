//! The NSTL firewall benchmark's bed as Compaq's report of April 1997 prints it: what the clients ask which server for. Data
//! only; what is done with it is in the other files.

use super::content::Kind;
use measure::application::{GIF_BYTES, HTML_BYTES};

/// Machines that virtual clients share: `client01` to `client08`.
pub(super) const CLIENT_MACHINES: usize = measure::application::CLIENT_MACHINES as usize;
/// Servers: `server01` to `server06`.
pub(super) const SERVERS: usize = measure::application::SERVERS as usize;

/// How often each server is hit by the clients of a machine, per thousand (table 2): `client01` to `client05`, and the others.
pub(super) const HITS_PER_THOUSAND: [[u16; SERVERS]; CLIENT_MACHINES] = {
    const MOSTLY_OUTSIDE: [u16; SERVERS] = [24, 24, 238, 238, 238, 238];
    const MOSTLY_INSIDE: [u16; SERVERS] = [400, 400, 50, 50, 50, 50];
    [
        MOSTLY_OUTSIDE,
        MOSTLY_OUTSIDE,
        MOSTLY_OUTSIDE,
        MOSTLY_OUTSIDE,
        MOSTLY_OUTSIDE,
        MOSTLY_INSIDE,
        MOSTLY_INSIDE,
        MOSTLY_INSIDE,
    ]
};

/// How many of the requests of a server are FTP's, per thousand (table 1); the others are HTTP's.
pub(super) const FTP_PER_THOUSAND: [u16; SERVERS] = [100, 900, 100, 900, 100, 900];

/// The files that are fetched by HTTP, by their kinds and sizes in bytes. All are one directory deep.
pub(super) const HTTP_FILES: [(Kind, &[usize]); 2] = [(Kind::Html, &HTML_BYTES), (Kind::Gif, &GIF_BYTES)];
