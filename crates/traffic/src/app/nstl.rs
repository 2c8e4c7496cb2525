//! The NSTL firewall benchmark's bed as Compaq's report of April 1997 prints it: what the clients ask which server for. Data
//! only; what is done with it is in the other files.

use super::content::Kind;

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

/// Bytes of the ZIP files that are transferred by FTP.
pub(super) const ZIP_BYTES: [usize; 4] = [32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB];

/// The files that are fetched by HTTP, by their kinds and sizes in bytes. All are one directory deep.
pub(super) const HTTP_FILES: [(Kind, &[usize]); 2] = [(Kind::Html, &HTML_BYTES), (Kind::Gif, &GIF_BYTES)];

const KIB: usize = 1024;
/// 1 to 80 KB.
const HTML_BYTES: [usize; 8] = [KIB, 2 * KIB, 4 * KIB, 8 * KIB, 10 * KIB, 20 * KIB, 40 * KIB, 80 * KIB];
/// 512 bytes to 208 KB.
const GIF_BYTES: [usize; 9] =
    [KIB / 2, KIB, 2 * KIB, 4 * KIB, 10 * KIB, 26 * KIB, 52 * KIB, 104 * KIB, 208 * KIB];
