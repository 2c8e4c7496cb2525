//! What is to be done about each command of a client, by what it has said before and by the rules.

use super::LOWEST_PORT;
use super::address::{self, Extended};
use super::command::{self, Command, Means};
use super::reply::Reply;
use crate::config::{Gateway, Mode};
use crate::decide::{self, Asked, Decision};
use crate::http::Fault;
use crate::http::target::{self, Authority, Host};
use std::net::{IpAddr, SocketAddr};

/// The port of servers where none is said.
const USUAL_PORT: u16 = 21;

/// What a client has said so far.
#[derive(Debug, Default)]
pub struct Session {
    /// The server that it has asked for.
    pub asked: Option<Asked>,
    /// It has said that it will use the extended forms alone (RFC 2428 section 4).
    extended_only: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The gateway answers.
    Say(Reply),
    /// The gateway does not carry it, by a rule if one has decided.
    Refuse(Option<usize>, Fault),
    /// The same, and nothing more is carried.
    End(Fault),
    /// A server is to be connected to, and gets this user.
    Connect(Asked, Vec<u8>),
    /// The server is to answer. A rule, if rules are about it.
    Pass(Option<usize>),
    /// The client is to connect for data, and gets an address and a port for that.
    Listen {
        /// In the extended form.
        extended: bool,
    },
    /// The client waits for data there.
    Call(SocketAddr),
    /// Data is to be carried by a rule.
    Transfer(usize),
    /// The end.
    Quit,
}

impl Session {
    /// What is to be done about a command of `client`, which is connected to `at`.
    pub fn step(&mut self, gateway: &Gateway, client: IpAddr, at: SocketAddr, command: &Command) -> Step {
        match (command.means, &self.asked) {
            (Means::Quit, _) => return Step::Quit,
            (Means::User, _) => return self.user(gateway, client, command),
            (_, None) if command.verb == "NOOP" => return Step::Say(Reply::new(200, "Nothing is done")),
            (_, None) if command.verb == "PASS" => {
                return Step::Refuse(None, Fault::with_status(503, "no-user"));
            }
            (_, None) => return Step::Refuse(None, Fault::with_status(530, "no-user")),
            (_, Some(asked)) if !may_enter(gateway, client, asked) => {
                return Step::End(Fault::with_status(421, "not-allowed-any-more"));
            }
            _ => {}
        }
        let argument = command.argument.as_deref().unwrap_or_default();
        match command.means {
            Means::Plain => Step::Pass(None),
            Means::Abort => Step::Say(Reply::new(226, "No transfer is under way")),
            Means::Judged | Means::Download | Means::Upload => self.judged(gateway, client, command),
            Means::Passive | Means::Port | Means::ExtendedPort if self.extended_only => {
                Step::Refuse(None, Fault::with_status(501, "extended-only"))
            }
            Means::Passive if at.is_ipv6() => Step::Refuse(None, Fault::with_status(425, "extended-only")),
            Means::Passive => Step::Listen { extended: false },
            Means::ExtendedPassive => self.extended_passive(argument, at),
            Means::Port => call(address::of_six_numbers(argument), client),
            Means::ExtendedPort => match address::of_extended(argument) {
                Some(Extended::OtherFamily) => Step::Refuse(None, Fault::with_status(522, "family")),
                Some(Extended::At(at)) => call(Some(at), client),
                None => call(None, client),
            },
            Means::User | Means::Quit | Means::Security => {
                Step::Refuse(None, Fault::with_status(502, "command"))
            }
        }
    }

    fn user(&mut self, gateway: &Gateway, client: IpAddr, command: &Command) -> Step {
        let argument = command.argument.as_deref().unwrap_or_default();
        if gateway.mode == Mode::Transparent {
            return match &self.asked {
                Some(asked) if may_enter(gateway, client, asked) => Step::Pass(None),
                _ => Step::End(Fault::with_status(421, "not-allowed-any-more")),
            };
        }
        (self.asked, self.extended_only) = (None, false);
        let (user, asked) = match login(argument) {
            Ok(found) => found,
            Err(fault) => return Step::Refuse(None, fault),
        };
        if !gateway.ports.contains(&asked.port) {
            return Step::Refuse(None, Fault::with_status(530, "port"));
        }
        if !may_enter(gateway, client, &asked) {
            return Step::Refuse(None, Fault::with_status(530, "no-rule"));
        }
        Step::Connect(asked, user)
    }

    fn judged(&self, gateway: &Gateway, client: IpAddr, command: &Command) -> Step {
        match judge(gateway, client, self.asked.as_ref(), command.judged_as()) {
            Decision::Refuse(rule, fault) => Step::Refuse(rule, Fault { status: 550, ..fault }),
            Decision::Allow(rule) if command.means == Means::Judged => Step::Pass(Some(rule)),
            Decision::Allow(rule) => Step::Transfer(rule),
        }
    }

    fn extended_passive(&mut self, argument: &[u8], at: SocketAddr) -> Step {
        if argument.eq_ignore_ascii_case(b"ALL") {
            self.extended_only = true;
            return Step::Say(Reply::new(200, "EPSV alone from now on"));
        }
        match argument {
            b"" => {}
            b"1" if at.is_ipv4() => {}
            b"2" if at.is_ipv6() => {}
            _ => return Step::Refuse(None, Fault::with_status(522, "family")),
        }
        Step::Listen { extended: true }
    }
}

/// Whether a verb passes.
pub fn judge(gateway: &Gateway, client: IpAddr, asked: Option<&Asked>, verb: &str) -> Decision {
    let refused = Decision::Refuse(None, Fault::with_status(550, "no-rule"));
    asked.map_or(refused, |asked| decide::decide(gateway, client, command::judged_as(verb), asked))
}

/// Whether a client may log in at a server: a rule lets it do something there.
pub fn may_enter(gateway: &Gateway, client: IpAddr, asked: &Asked) -> bool {
    let passes = |verb| matches!(decide::decide(gateway, client, verb, asked), Decision::Allow(_));
    command::judged().any(passes)
}

/// The server that a transparent client has connected to.
pub fn transparent(at: SocketAddr) -> Asked {
    let authority = Authority { host: Host::Address(at.ip()), port: Some(at.port()) };
    Asked { authority, port: at.port(), path: None, server: Some(at), is_tunnel: false }
}

/// `user@host` or `user@host:port`. The user's own name may have an `@` too.
fn login(argument: &[u8]) -> Result<(Vec<u8>, Asked), Fault> {
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
    Ok((user.to_vec(), Asked { authority, port, path: None, server: None, is_tunnel: false }))
}

/// Only the client itself is called, and no server of its machine: who could name others would use the gateway to reach them (RFC 2577 section 3).
fn call(at: Option<SocketAddr>, client: IpAddr) -> Step {
    match at {
        None => Step::Refuse(None, Fault::with_status(501, "address")),
        Some(at) if at.ip().to_canonical() != client => {
            Step::Refuse(None, Fault::with_status(501, "other-address"))
        }
        Some(at) if at.port() < LOWEST_PORT => Step::Refuse(None, Fault::with_status(501, "low-port")),
        Some(at) => Step::Call(SocketAddr::new(client, at.port())),
    }
}
