//! Clients of FTP: one command after the other, each judged and answered before the next is read. The gateway ends every data connection itself and has one
//! of its own to the other side, so each side may connect or be connected to, whatever the other does.

mod control;
mod data;
mod transfer;

pub(super) use data::Expected;

use super::client::{Ends, Next};
use super::relay::{Buffer, abort, close, write_within};
use super::{Local, Shared, upstream};
use crate::config::{Ftp, Gateway, Mode, Protocol};
use crate::decide::Asked;
use crate::event::Event;
use crate::ftp::command::{self, Command, Means};
use crate::ftp::reply::Reply;
use crate::ftp::session::{self, Session, Step};
use crate::http::Fault;
use crate::http::basic::Credentials;
use crate::users::Who;
use control::{Heard, Server};
use data::Way;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;

/// Replies before the last one that a server may send.
const MOST_PRELIMINARY: usize = 10;

/// A client's control connection, and all that belongs to it.
struct Client<'a> {
    local: &'a Local,
    stream: &'a TcpStream,
    buffer: Buffer,
    ends: Ends,
    session: Session,
    server: Option<Server>,
    /// Where the next data connection comes from or goes to.
    way: Option<Way>,
    /// Where the next transfer is to begin, if `REST` was the last command that the server has had.
    restart: Option<Vec<u8>>,
}

/// Who a client is at a server.
#[derive(Clone, Copy)]
struct User<'a> {
    /// The command by which it has said so.
    command: &'a Command,
    name: &'a [u8],
    /// If it has said that already.
    password: Option<&'a [u8]>,
}

pub(super) async fn serve(local: &Local, stream: TcpStream, ends: Ends, settings: Ftp) {
    let shared = &local.shared;
    let gateway = shared.gateway();
    let is_transparent = gateway.mode == Mode::Transparent;
    if is_transparent && data::is_among(settings.data_ports, ends.at.port()) {
        if let Err(stream) = shared.expected.deliver(ends, stream) {
            Shared::count(&shared.counted.refused);
            shared.record(event(ends, None, None, None, Some(Fault::with_status(0, "not-expected")), [0; 2]));
            abort(stream);
        }
        return;
    }
    Shared::count(&shared.counted.connections);
    let Some(_admitted) = shared.admit(ends.client.ip()) else {
        let fault = Fault::with_status(421, "too-many-connections");
        shared.record(event(ends, None, None, None, Some(fault), [0; 2]));
        // Nobody waits for such a client.
        let _ = stream.try_write(&said(fault).bytes());
        return;
    };
    let _ = stream.set_nodelay(true);
    let mut client = Client {
        local,
        stream: &stream,
        buffer: Buffer::default(),
        ends,
        session: Session::default(),
        server: None,
        way: None,
        restart: None,
    };
    let begun = if is_transparent {
        client.connect(&gateway, session::transparent(ends.at), None).await
    } else {
        let text = format!("{}: a gateway of FTP; log in as USER@HOST", gateway.name);
        client.say(&gateway, &Reply::new(220, &text)).await
    };
    let end = client.commands(begun).await;
    drop(client);
    match end {
        Next::Abort => abort(stream),
        _ => close(stream).await,
    }
}

impl Client<'_> {
    /// Carries commands to the end of the session.
    async fn commands(&mut self, begun: Next) -> Next {
        let mut next = begun;
        while next == Next::Another {
            let gateway = self.local.shared.gateway();
            // The policy may have a gateway of HTTP in this place by now.
            let Protocol::Ftp(settings) = gateway.protocol else { return Next::Close };
            next = match self.hear(gateway.limits.idle).await {
                Heard::Line(line) => self.obey(&gateway, settings, &line).await,
                Heard::TooLong => self.end(&gateway, Fault::with_status(500, "line-too-long")).await,
                Heard::BareLf => self.end(&gateway, Fault::with_status(500, "bare-lf")).await,
                Heard::Silent => self.end(&gateway, Fault::with_status(421, "idle")).await,
                Heard::OutOfTurn => self.out_of_turn(&gateway).await,
                Heard::Ended => Next::Abort,
            };
        }
        next
    }

    async fn obey(&mut self, gateway: &Arc<Gateway>, settings: Ftp, line: &[u8]) -> Next {
        let command = match command::read(line) {
            Ok(command) => command,
            Err(fault) => {
                Shared::count(&self.local.shared.counted.refused);
                let recorded = event(self.ends, None, self.session.asked.as_ref(), None, Some(fault), [0; 2]);
                self.local.shared.record(Event { method: command::word(line), ..recorded });
                return self.say(gateway, &said(fault)).await;
            }
        };
        let is_about_data = matches!(
            command.means,
            Means::Passive | Means::ExtendedPassive | Means::Port | Means::ExtendedPort
        );
        let restart = self.restart.take();
        if is_about_data {
            self.restart = restart.clone();
        }
        let mut step = self.session.step(gateway, self.ends.client.ip(), self.ends.at, &command);
        if let Step::LogIn(credentials, there) = step {
            step = match self.log_in(gateway, &command, credentials, there).await {
                Ok(step) => step,
                Err(next) => return next,
            };
        }
        match step {
            // Nothing asks for it twice.
            Step::LogIn(..) => Next::Close,
            Step::Say(reply) => self.say(gateway, &reply).await,
            Step::Refuse(rule, fault) => self.refuse(gateway, Some(&command), rule, fault).await,
            Step::End(fault) => {
                self.refuse(gateway, Some(&command), None, fault).await;
                Next::Close
            }
            Step::Connect(asked, user, password) => {
                (self.server, self.way) = (None, None);
                let user = User { command: &command, name: &user, password: password.as_deref() };
                self.connect(gateway, asked, Some(user)).await
            }
            Step::Pass(rule) => self.pass(gateway, &command, rule).await,
            Step::Listen { extended } => self.listen(gateway, settings, extended).await,
            Step::Call(at) => {
                self.way = Some(Way::Call(at));
                self.say(gateway, &Reply::new(200, "The gateway will connect")).await
            }
            Step::Transfer(rule) => transfer::carry(self, gateway, settings, &command, rule, restart).await,
            Step::Quit => {
                self.say(gateway, &Reply::new(221, "Goodbye")).await;
                Next::Close
            }
        }
    }

    /// What is to be done now that the client has logged in at the gateway; if it has not, the answer is given.
    async fn log_in(
        &mut self,
        gateway: &Gateway,
        command: &Command,
        credentials: Credentials,
        there: Option<Vec<u8>>,
    ) -> Result<Step, Next> {
        let (client, said) = (self.ends.client.ip(), Who::said(&credentials.name));
        let refusal = match self.local.shared.logins.check(gateway, client, credentials).await {
            Ok(who) => return Ok(self.session.known(gateway, client, who, there)),
            Err(refusal) => refusal,
        };
        self.session.unknown();
        let fault = Fault::with_status(530, refusal.reason());
        Shared::count(&self.local.shared.counted.refused);
        let recorded = event(self.ends, None, None, Some(command), Some(fault), [0; 2]);
        self.local.shared.record(Event { user: said.map(|who| who.name), ..recorded });
        Err(self.say(gateway, &self::said(fault)).await)
    }

    /// Connects to a server, and logs in there if the client has said who it is.
    async fn connect(&mut self, gateway: &Gateway, asked: Asked, user: Option<User<'_>>) -> Next {
        let command = user.map(|user| user.command);
        let mut server = match self.reach(gateway, &asked).await {
            Ok(server) => server,
            Err(fault) => {
                self.session.asked = Some(asked);
                self.refuse(gateway, command, None, Fault { status: 421, ..fault }).await;
                return Next::Close;
            }
        };
        let mut said = server.last_reply(gateway.limits.answer_time).await;
        if let (Ok(greeting), Some(User { name, password, .. })) = (&said, user)
            && greeting.is_success()
        {
            let line = [b"USER ", name, b"\r\n"].concat();
            said = server.ask(&line, &gateway.limits).await;
            // The client has said it already, and waits for what comes of it.
            if let (Ok(Reply { code: 331, .. }), Some(password)) = (&said, password) {
                let line = [b"PASS ", password, b"\r\n"].concat();
                said = server.ask(&line, &gateway.limits).await;
            }
        }
        self.session.asked = Some(asked);
        match said {
            Ok(reply) => {
                self.server = Some(server);
                self.hand_on(gateway, &reply).await
            }
            Err(fault) => self.lose(gateway, command, None, fault).await,
        }
    }

    async fn reach(&self, gateway: &Gateway, asked: &Asked) -> Result<Server, Fault> {
        let addresses = match asked.server {
            Some(_) if let Some(refused) = self.ends.refused => {
                return Err(Fault::with_status(421, refused));
            }
            Some(_) if !gateway.ports.contains(&asked.port) => return Err(Fault::with_status(421, "port")),
            Some(_) if session::enter(gateway, self.ends.client.ip(), asked).is_err() => {
                return Err(Fault::with_status(421, "no-rule"));
            }
            Some(server) => vec![server],
            None => upstream::look_up(&self.local.shared, gateway, asked).await?,
        };
        let (stream, address) = upstream::connect(self.local, gateway, &addresses).await?;
        Ok(Server::new(stream, address))
    }

    /// Has the server answer a command.
    async fn pass(&mut self, gateway: &Gateway, command: &Command, rule: Option<usize>) -> Next {
        let Some(server) = &mut self.server else { return Next::Close };
        let reply = match server.ask(&command.line(), &gateway.limits).await {
            Ok(reply) if command.verb == "FEAT" => reply.known_features(),
            Ok(reply) => reply,
            Err(fault) => return self.lose(gateway, Some(command), rule, fault).await,
        };
        if let Some(rule) = rule {
            self.carried(gateway, command, rule, reply.code, [0; 2]);
        }
        if command.verb == "REST" && reply.code == 350 {
            self.restart = Some(command.line());
        }
        self.hand_on(gateway, &reply).await
    }

    /// Gives the client a reply of the server's; what the server says last is the end.
    async fn hand_on(&mut self, gateway: &Gateway, reply: &Reply) -> Next {
        match self.say(gateway, reply).await {
            Next::Another if reply.code == 421 => Next::Close,
            next => next,
        }
    }

    async fn listen(&mut self, gateway: &Gateway, settings: Ftp, extended: bool) -> Next {
        // The one before is closed first.
        if let Some(way) = self.way.take() {
            way.close().await;
        }
        let stranger = self.local.stranger(self.ends, self.session.asked.as_ref());
        let Some((way, port)) = Way::wait(self.local, gateway, settings, self.ends, stranger) else {
            return self.refuse(gateway, None, None, Fault::with_status(425, "no-data-port")).await;
        };
        self.way = Some(way);
        self.say(gateway, &data::passive_reply(SocketAddr::new(self.ends.at.ip(), port), extended)).await
    }

    /// The server has said something that nobody asked for.
    async fn out_of_turn(&mut self, gateway: &Gateway) -> Next {
        let said = match &mut self.server {
            Some(server) => server.reply(gateway.limits.answer_time).await,
            None => return Next::Close,
        };
        match said {
            // It says so before it ends.
            Ok(reply) if reply.code == 421 => self.hand_on(gateway, &reply).await,
            Ok(_) => self.lose(gateway, None, None, Fault::with_status(421, "server-out-of-turn")).await,
            Err(fault) => self.lose(gateway, None, None, fault).await,
        }
    }

    async fn say(&self, gateway: &Gateway, reply: &Reply) -> Next {
        match write_within(self.stream, &reply.bytes(), gateway.limits.idle).await {
            Ok(()) => Next::Another,
            Err(_) => Next::Abort,
        }
    }

    /// Answers a command that is not carried.
    async fn refuse(
        &self,
        gateway: &Gateway,
        command: Option<&Command>,
        rule: Option<usize>,
        fault: Fault,
    ) -> Next {
        Shared::count(&self.local.shared.counted.refused);
        self.record(gateway, command, rule, Some(fault), [0; 2]);
        self.say(gateway, &said(fault)).await
    }

    /// Ends a session that cannot go on by the client's fault.
    async fn end(&self, gateway: &Gateway, fault: Fault) -> Next {
        self.refuse(gateway, None, None, fault).await;
        Next::Close
    }

    /// Ends a session that cannot go on without its server.
    async fn lose(
        &mut self,
        gateway: &Gateway,
        command: Option<&Command>,
        rule: Option<usize>,
        fault: Fault,
    ) -> Next {
        self.server = None;
        Shared::count(&self.local.shared.counted.failed);
        let fault = Fault { status: 421, ..fault };
        self.record(gateway, command, rule, Some(fault), [0; 2]);
        self.say(gateway, &said(fault)).await;
        Next::Close
    }

    /// What a rule let pass has an end.
    fn carried(&self, gateway: &Gateway, command: &Command, rule: usize, status: u16, bytes: [u64; 2]) {
        Shared::count(&self.local.shared.counted.carried);
        // Questions about a file come before each transfer, and would be most of what is recorded.
        let is_question = command.means == Means::Judged && command::judged_as(command.verb) != command.verb;
        if gateway.rules[rule].log && !is_question {
            let recorded = event(
                self.ends,
                Some((gateway, rule)),
                self.session.asked.as_ref(),
                Some(command),
                None,
                bytes,
            );
            self.local.shared.record(Event { status, ..recorded });
        }
    }

    fn record(
        &self,
        gateway: &Gateway,
        command: Option<&Command>,
        rule: Option<usize>,
        fault: Option<Fault>,
        bytes: [u64; 2],
    ) {
        let rule = rule.map(|rule| (gateway, rule));
        self.local.shared.record(event(self.ends, rule, self.session.asked.as_ref(), command, fault, bytes));
    }
}

impl Local {
    /// What is done about each connection of somebody else to a data port of a client's.
    fn stranger(&self, ends: Ends, asked: Option<&Asked>) -> impl Fn() + 'static {
        let (shared, asked) = (Arc::clone(&self.shared), asked.cloned());
        move || {
            Shared::count(&shared.counted.refused);
            let fault = Fault::with_status(0, "other-address");
            shared.record(event(ends, None, asked.as_ref(), None, Some(fault), [0; 2]));
        }
    }
}

/// What a client reads of a fault. Nothing of what it has sent is in it.
fn said(fault: Fault) -> Reply {
    let what = match (fault.reason, fault.status) {
        ("no-user" | "no-host", _) => "Log in first, as USER@HOST",
        ("not-logged-in", _) => "Log in at the firewall first, as one of its users",
        ("wrong-password", _) => "The firewall knows no such user with this password",
        ("throttled", _) => "Too many attempts to log in at the firewall have failed. Try again later",
        ("too-many-logins", _) => "Too many want to log in at the firewall at once. Try again",
        ("two-passwords", _) => "Write PASS PASSWORD-THERE@PASSWORD-OF-THE-FIREWALL",
        ("encryption", _) => "The firewall could not read what is encrypted: use plain FTP",
        ("extended-only", _) => "Use EPSV",
        ("no-data-connection", _) => "Use EPSV, PASV, EPRT or PORT first",
        (_, 522) => "Use (1) for IPv4 and (2) for IPv6, as on this connection",
        ("idle", _) => "Nothing has come for too long",
        ("too-many-connections", _) => "There are too many connections. Try again",
        (_, 500 | 501 | 502 | 504) => "The gateway does not carry this",
        (_, 425 | 426) => "The data could not be carried",
        (_, 530 | 550 | 552) => "The firewall does not allow this",
        _ => "The session has ended",
    };
    Reply::new(fault.status, &format!("{what} ({})", fault.reason))
}

/// What the event log has of a command.
fn event(
    ends: Ends,
    rule: Option<(&Gateway, usize)>,
    asked: Option<&Asked>,
    command: Option<&Command>,
    fault: Option<Fault>,
    bytes: [u64; 2],
) -> Event {
    Event {
        is_datagram: false,
        client: ends.client,
        client_name: None,
        at: ends.at,
        rule: rule.map(|(gateway, place)| gateway.rules[place].name.clone()),
        reason: fault.map(|fault| fault.reason.to_owned()),
        user: asked.and_then(|asked| asked.who.as_ref()).map(|who| who.name.clone()),
        method: command.map(|command| command.verb.to_owned()),
        host: asked.map(Asked::host),
        path: command.and_then(Command::shown),
        status: fault.map_or(0, |fault| fault.status),
        bytes,
    }
}
