//! Names and passwords in requests (RFC 7617), which end at the gateway that they are for.

use super::Fault;
use super::field::Fields;
use crate::config::{Gateway, Mode};
use base64ct::{Base64, Encoding as _};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of name and password together at most; those that there can be have far fewer.
const LONGEST: usize = 2048;

/// What a client says who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name, whatever it is.
    pub name: String,
    /// The password.
    pub password: Zeroizing<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with a password", self.name)
    }
}

/// Takes the credentials that are for this gateway out of a request: `None` if there are none, an error within if they cannot be read.
///
/// # Errors
/// There are two: the next reader might believe the other one.
pub fn take(gateway: &Gateway, fields: &mut Fields) -> Result<Option<Result<Credentials, Fault>>, Fault> {
    let name = match gateway.mode {
        _ if gateway.users.is_none() => return Ok(None),
        Mode::Explicit => "proxy-authorization",
        Mode::Publish(_) => "authorization",
        Mode::Transparent => return Ok(None),
    };
    let found = fields
        .one(name, Fault::malformed("two-credentials"))?
        .map(|field| read(&field.value).ok_or_else(|| crate::decide::challenge(gateway, "credentials")));
    fields.0.retain(|field| !field.is(name));
    Ok(found)
}

/// Reads the value of the field.
fn read(value: &[u8]) -> Option<Credentials> {
    let text = std::str::from_utf8(value).ok()?;
    let (scheme, encoded) = text.split_once(' ')?;
    let encoded = encoded.trim_start_matches(' ');
    if !scheme.eq_ignore_ascii_case("basic") || encoded.len() > LONGEST * 4 / 3 {
        return None;
    }
    let decoded = Zeroizing::new(Base64::decode_vec(encoded).ok()?);
    let text = std::str::from_utf8(&decoded).ok()?;
    let (name, password) = text.split_once(':').filter(|_| !text.chars().any(char::is_control))?;
    Some(Credentials { name: name.to_owned(), password: Zeroizing::new(password.to_owned()) })
}
