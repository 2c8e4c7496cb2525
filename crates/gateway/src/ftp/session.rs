//! What is to be done about each command of a client, by what it has said before and by the rules.

use super::LOWEST_PORT;
use super::address::{self, Extended};
use super::command::{self, Command, Means};
use super::login::{self, Login};
use super::reply::Reply;
use crate::config::{Gateway, Mode};
use crate::decide::{self, Asked, Decision};
use crate::http::Fault;
use crate::http::basic::Credentials;
use crate::http::target::{Authority, Host};
use crate::users::Who;
use std::net::{IpAddr, SocketAddr};

/// What a client has said so far.
#[derive(Debug, Default)]
pub struct Session {
    /// How far it has come with the gateway itself.
    login: Login,
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
    /// It is to be seen whether this password is right; [`Session::known`] or [`Session::unknown`] says what then. With the password for the server,
    /// if the client has said that too.
    LogIn(Credentials, Option<Vec<u8>>),
    /// A server is to be connected to, and gets this user, and this password if the client has said it already.
    Connect(Asked, Vec<u8>, Option<Vec<u8>>),
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
            _ if command.verb == "PASS" && self.login.waits() => return self.pass(command),
            (_, None) if command.verb == "NOOP" => return Step::Say(Reply::new(200, "Nothing is done")),
            (_, None) if command.verb == "PASS" => {
                return Step::Refuse(None, Fault::with_status(503, "no-user"));
            }
            (_, None) => return Step::Refuse(None, Fault::with_status(530, "no-user")),
            (_, Some(asked)) if enter(gateway, client, asked).is_err() => {
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
                Some(asked) if enter(gateway, client, asked).is_ok() => Step::Pass(None),
                _ => Step::End(Fault::with_status(421, "not-allowed-any-more")),
            };
        }
        (self.asked, self.extended_only) = (None, false);
        let said = match login::user(argument, gateway.users.is_some() && self.login.who().is_none()) {
            Ok(said) => said,
            Err(fault) => return Step::Refuse(None, fault),
        };
        match said {
            login::Said::Server(server) => self.connect(gateway, client, server, None),
            said => {
                self.login = Login::Waits(said);
                Step::Say(Reply::new(331, "The password of the firewall's user, please"))
            }
        }
    }

    /// The password for the gateway itself, with that for the server behind it if the client has named both.
    fn pass(&mut self, command: &Command) -> Step {
        match self.login.passwords(command.argument.as_deref().unwrap_or_default()) {
            Ok((credentials, there)) => Step::LogIn(credentials, there),
            Err(fault) => Step::Refuse(None, fault),
        }
    }

    /// The password was right: what is to be done now.
    pub fn known(&mut self, gateway: &Gateway, client: IpAddr, who: Who, there: Option<Vec<u8>>) -> Step {
        match self.login.known(who) {
            None => Step::Say(Reply::new(230, "Logged in at the firewall; go on with USER USER@HOST")),
            Some(server) => self.connect(gateway, client, server, there),
        }
    }

    /// It was not.
    pub fn unknown(&mut self) {
        self.login = Login::default();
    }

    /// Who has logged in at the gateway.
    pub fn who(&self) -> Option<&Who> {
        self.login.who()
    }

    fn connect(
        &mut self,
        gateway: &Gateway,
        client: IpAddr,
        (user, asked): login::Server,
        password: Option<Vec<u8>>,
    ) -> Step {
        let asked = Asked { who: self.login.who().cloned(), ..asked };
        if !gateway.ports.contains(&asked.port) {
            return Step::Refuse(None, Fault::with_status(530, "port"));
        }
        match enter(gateway, client, &asked) {
            Ok(()) => Step::Connect(asked, user, password),
            Err(fault) => Step::Refuse(None, fault),
        }
    }

    fn judged(&self, gateway: &Gateway, client: IpAddr, command: &Command) -> Step {
        match judge(gateway, client, self.asked.as_ref(), command.judged_as()) {
            Decision::Refuse(rule, fault) => Step::Refuse(rule, Fault { status: 550, ..fault }),
            Decision::Authenticate(rule) => {
                Step::Refuse(Some(rule), Fault::with_status(530, "not-logged-in"))
            }
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
///
/// # Errors
/// No rule does, or none that does not ask who it is.
pub fn enter(gateway: &Gateway, client: IpAddr, asked: &Asked) -> Result<(), Fault> {
    let mut fault = Fault::with_status(530, "no-rule");
    for verb in command::judged() {
        match decide::decide(gateway, client, verb, asked) {
            Decision::Allow(_) => return Ok(()),
            Decision::Authenticate(_) => fault = Fault::with_status(530, "not-logged-in"),
            Decision::Refuse(..) => {}
        }
    }
    Err(fault)
}

/// The server that a transparent client has connected to.
pub fn transparent(at: SocketAddr) -> Asked {
    let authority = Authority { host: Host::Address(at.ip()), port: Some(at.port()) };
    Asked { authority, port: at.port(), path: None, server: Some(at), is_tunnel: false, who: None }
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
