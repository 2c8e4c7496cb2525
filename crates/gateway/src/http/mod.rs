//! HTTP/1.1 as bytes (RFC 9112), read strictly: what two readers could understand differently is refused and never repaired, because the
//! other reader is the server behind. Every function here is pure.

pub mod basic;
pub mod body;
pub mod field;
pub mod head;
pub mod media;
pub mod target;
pub mod write;

/// Why something is not carried on: the status that the client gets, and a short identifier, for example `two-lengths`. Identifiers do not change
/// their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// 400 to 505.
    pub status: u16,
    /// Short identifier.
    pub reason: &'static str,
}

impl Fault {
    /// What was sent is no request, or no answer, that everybody understands alike.
    pub const fn malformed(reason: &'static str) -> Self {
        Self { status: 400, reason }
    }

    /// The same of another status.
    pub const fn with_status(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }
}
