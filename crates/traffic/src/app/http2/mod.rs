//! HTTP/2 (RFC 9113) over TLS: both ends, over the library `h2`. One connection has one stream after the other, so that transactions follow
//! one another as by HTTP/1.1. Nothing here decides what is asked for, or what an error of TCP or TLS means: that is in [`super::client`].

pub(super) mod client;
pub(super) mod server;
#[cfg(test)]
mod tests;

/// As ends of TLS name the protocol to each other (RFC 9113 section 3.2).
pub(super) const ALPN: &[u8] = b"h2";
/// The field of a connection's last request. HTTP/2 has no `Connection: close`, and a client that said it by GOAWAY would close first, so that
/// its port could not be used again for a minute.
const LAST: &str = "rampart-last";
/// What a client lets come before it has read, of a stream and of the connection: more than a file has, so that none waits for leave, as with
/// browsers.
const WINDOW_BYTES: u32 = 2 << 20;
