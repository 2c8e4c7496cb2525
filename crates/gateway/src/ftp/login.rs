//! Who logs in, and where. A client that a rule asks who it is says so in one of two ways that clients have for other gateways:
//!
//! ```text
//! USER anna             its name here                        USER me@anna@host     its name there, here, and where
//! PASS word             its password here                    PASS word@word        its password there, and here
//! USER me@host          its name there, and where
//! PASS word             its password there
//! ```
//!
//! On the left anything may stand in the password; on the right what follows the last `@` is the one for here.

use crate::decide::Asked;
use crate::http::Fault;
use crate::http::basic::Credentials;
use crate::http::target::{self, Authority, Host};
use crate::users::Who;
use std::net::IpAddr;

/// The port of servers where none is said.
const USUAL_PORT: u16 = 21;

/// A user's name at a server, and where that is.
pub type Server = (Vec<u8>, Asked);

/// What a client has said in `USER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Who it is at a server.
    Server(Server),
    /// Who it is here.
    Here(String),
    /// Both.
    Both(String, Server),
}

/// How far a client has come with the gateway itself.
#[derive(Debug, Default)]
pub enum Login {
    /// It has said nothing.
    #[default]
    Nobody,
    /// It has said who it is, and not its password.
    Waits(Said),
    /// Its password was right.
    Known(Who),
}

impl Login {
    /// Whether the next password is for the gateway.
    pub fn waits(&self) -> bool {
        matches!(self, Self::Waits(_))
    }

    /// Who it is.
    pub fn who(&self) -> Option<&Who> {
        match self {
            Self::Known(who) => Some(who),
            _ => None,
        }
    }

    /// The name that the client has said, with the password of a command, and the password for the server if there is one.
    ///
    /// # Errors
    /// There is only one password, where there must be two.
    pub fn passwords(&self, argument: &[u8]) -> Result<(Credentials, Option<Vec<u8>>), Fault> {
        const NONE: Fault = Fault::with_status(530, "two-passwords");
        let (name, here, there) = match self {
            Self::Waits(Said::Here(name)) => (name, argument, None),
            Self::Waits(Said::Both(name, _)) => {
                let (there, here) = apart(argument).ok_or(NONE)?;
                (name, here, Some(there.to_vec()))
            }
            _ => return Err(Fault::with_status(503, "no-user")),
        };
        // Bytes that are no text are nobody's password.
        let password = String::from_utf8_lossy(here).into_owned();
        Ok((Credentials { name: name.clone(), password: password.into() }, there))
    }

    /// The password was right: where the client wants to go, if it has said that already.
    pub fn known(&mut self, who: Who) -> Option<Server> {
        match std::mem::replace(self, Self::Known(who)) {
            Self::Waits(Said::Both(_, server)) => Some(server),
            _ => None,
        }
    }
}

/// What stands before and after the last `@`.
fn apart(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let place = text.iter().rposition(|byte| *byte == b'@')?;
    Some((&text[..place], &text[place + 1..]))
}

/// Reads the argument of `USER`. `or_here`: the client may say who it is at the gateway, which it has not done yet.
///
/// # Errors
/// It names no server.
pub fn user(argument: &[u8], or_here: bool) -> Result<Said, Fault> {
    let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    match apart(argument) {
        None if or_here => Ok(Said::Here(name(argument))),
        Some((before, host)) if or_here && before.contains(&b'@') => {
            let (user, here) = apart(before).unwrap_or_default();
            let there = [user, b"@", host].concat();
            Ok(Said::Both(name(here), server(&there)?))
        }
        _ => server(argument).map(Said::Server),
    }
}

/// `user@host` or `user@host:port`. The user's own name may have an `@` too.
fn server(argument: &[u8]) -> Result<Server, Fault> {
    const NO_HOST: Fault = Fault::with_status(530, "no-host");
    let apart = argument.iter().rposition(|byte| *byte == b'@').ok_or(NO_HOST)?;
    let (user, host) = (&argument[..apart], &argument[apart + 1..]);
    let host = std::str::from_utf8(host).map_err(|_| NO_HOST)?;
    if user.is_empty() || host.is_empty() {
        return Err(NO_HOST);
    }
    let authority = match host.parse::<IpAddr>() {
        Ok(address) => Authority { host: Host::Address(address), port: None },
        Err(_) => target::authority(host).map_err(|fault| Fault { status: 530, ..fault })?,
    };
    let port = authority.port.unwrap_or(USUAL_PORT);
    Ok((user.to_vec(), Asked { authority, port, path: None, server: None, is_tunnel: false, who: None }))
}
