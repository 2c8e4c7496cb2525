//! One transfer: a data connection on each side, and bytes from one to the other. What breaks off on one side is never a whole file on the other: that side's
//! connection is reset, and its end waits until the server has said that it has sent all.

use super::super::client::Next;
use super::super::relay::{Buffer, abort, finish_sending, reset_if_killed, write_within};
use super::super::{Shared, relay};
use super::control::{self, Heard, Server};
use super::data::{NoWay, ToServer, refused};
use super::{Client, said};
use crate::config::{Ftp, Gateway, Limits};
use crate::decide::{Asked, Decision};
use crate::ftp::command::{self, Command, Means};
use crate::ftp::reply::Reply;
use crate::ftp::session;
use crate::http::Fault;
use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a server may take to say that it has noticed, after a transfer was broken off.
const LAST_WORD: Duration = Duration::from_secs(5);
/// As long as it takes: something else ends the wait.
const EVER: Duration = Duration::MAX;

/// Why a transfer does not come to its end.
enum End {
    /// A side has gone, is too slow, has sent more than it may, or may not any more.
    Broken(Fault),
    /// The client wants no more.
    Aborted,
    /// The client has gone.
    Gone,
    /// The server says that it takes no more.
    Said(Result<Reply, Fault>),
}

const fn broken(reason: &'static str) -> End {
    End::Broken(Fault::with_status(426, reason))
}

/// Carries a transfer that a rule allows, from the place on that `REST` has said.
pub(super) async fn carry(
    client: &mut Client<'_>,
    gateway: &Arc<Gateway>,
    settings: Ftp,
    command: &Command,
    rule: usize,
    restart: Option<Vec<u8>>,
) -> Next {
    let limits = &gateway.limits;
    let Some(way) = client.way.take() else {
        let fault = Fault::with_status(425, "no-data-connection");
        return client.refuse(gateway, Some(command), Some(rule), fault).await;
    };
    let Some(server) = &mut client.server else { return Next::Close };
    let stranger = client.local.stranger(client.ends, client.session.asked.as_ref());
    let (to_server, begun) = match begin(server, settings, limits, command, restart, stranger).await {
        Ok(begun) => begun,
        Err(NoWay::Said(reply)) => return client.hand_on(gateway, &reply).await,
        Err(NoWay::Failed(fault)) => return fail(client, gateway, command, rule, fault, [0; 2]).await,
        Err(NoWay::Lost(fault)) => return client.lose(gateway, Some(command), Some(rule), fault).await,
    };
    if client.say(gateway, &begun).await != Next::Another {
        return Next::Abort;
    }
    let opened = async {
        let of_server = to_server.open(limits).await?;
        match way.open(limits).await {
            Ok(of_client) => Ok((of_server, of_client)),
            Err(fault) => {
                abort(of_server);
                Err(fault)
            }
        }
    };
    let opened = opened.await;
    let transfer = Transfer { gateway, command, rule, moved: Cell::new(0) };
    match opened {
        Ok((of_server, of_client)) => transfer.run(client, of_server, of_client).await,
        Err(fault) => transfer.break_off(client, fault).await,
    }
}

/// Agrees with the server about a data connection and has it begin; its reply to that.
async fn begin(
    server: &mut Server,
    settings: Ftp,
    limits: &Limits,
    command: &Command,
    restart: Option<Vec<u8>>,
    stranger: impl Fn() + 'static,
) -> Result<(ToServer, Reply), NoWay> {
    let to_server = ToServer::agree(server, settings, limits, stranger).await?;
    // Servers forget it if another command comes between (RFC 3659 section 5.3), and the data connection was agreed about just now.
    if let Some(line) = restart {
        let reply = server.ask(&line, limits).await.map_err(NoWay::Lost)?;
        if reply.code != 350 {
            return Err(refused(reply));
        }
    }
    server.send(&command.line(), limits).await.map_err(NoWay::Lost)?;
    let begun = server.reply(limits.answer_time).await.map_err(NoWay::Lost)?;
    if begun.is_preliminary() { Ok((to_server, begun)) } else { Err(refused(begun)) }
}

/// Records a transfer that a rule allowed and that failed.
async fn fail(
    client: &Client<'_>,
    gateway: &Gateway,
    command: &Command,
    rule: usize,
    fault: Fault,
    bytes: [u64; 2],
) -> Next {
    Shared::count(&client.local.shared.counted.failed);
    client.record(gateway, Some(command), Some(rule), Some(fault), bytes);
    client.say(gateway, &said(fault)).await
}

struct Transfer<'a> {
    gateway: &'a Arc<Gateway>,
    command: &'a Command,
    rule: usize,
    /// Bytes that have been read.
    moved: Cell<u64>,
}

impl Transfer<'_> {
    fn is_upload(&self) -> bool {
        self.command.means == Means::Upload
    }

    /// Bytes of the client's, and of the server's.
    fn bytes(&self) -> [u64; 2] {
        if self.is_upload() { [self.moved.get(), 0] } else { [0, self.moved.get()] }
    }

    async fn run(&self, client: &mut Client<'_>, of_server: TcpStream, of_client: TcpStream) -> Next {
        let (from, to) = if self.is_upload() { (&of_client, &of_server) } else { (&of_server, &of_client) };
        reset_if_killed(&of_server, true);
        reset_if_killed(&of_client, true);
        if let Err(end) = self.relay(client, from, to).await {
            abort(of_server);
            abort(of_client);
            return self.end_early(client, end).await;
        }
        reset_if_killed(&of_server, false);
        if self.is_upload() {
            finish_sending(&of_server);
        }
        let Some(server) = &mut client.server else { return Next::Close };
        let last = server.last_reply(self.gateway.limits.answer_time).await;
        // Only now the client learns that it has all.
        if last.as_ref().is_ok_and(Reply::is_success) {
            reset_if_killed(&of_client, false);
        } else {
            abort(of_client);
        }
        self.settle(client, last, true).await
    }

    /// Ends a transfer whose data connections are gone.
    async fn end_early(&self, client: &mut Client<'_>, end: End) -> Next {
        match end {
            End::Said(last) => self.settle(client, last, false).await,
            End::Broken(fault) => self.break_off(client, fault).await,
            End::Aborted => match self.break_off(client, Fault::with_status(426, "aborted")).await {
                Next::Another => {
                    client.say(self.gateway, &Reply::new(226, "The transfer was broken off")).await
                }
                next => next,
            },
            End::Gone => {
                Shared::count(&client.local.shared.counted.failed);
                let fault = Fault::with_status(0, "client-ended");
                client.record(self.gateway, Some(self.command), Some(self.rule), Some(fault), self.bytes());
                Next::Abort
            }
        }
    }

    /// Gives the client what the server has said at the end. A server that has not had all can say what it likes: it has not done what was asked for.
    async fn settle(&self, client: &mut Client<'_>, last: Result<Reply, Fault>, is_whole: bool) -> Next {
        let Self { gateway, command, rule, .. } = *self;
        match last {
            Err(fault) => client.lose(gateway, Some(command), Some(rule), fault).await,
            Ok(reply) if reply.is_success() && is_whole => {
                client.carried(gateway, command, rule, reply.code, self.bytes());
                client.hand_on(gateway, &reply).await
            }
            Ok(reply) if reply.code >= 400 => {
                Shared::count(&client.local.shared.counted.failed);
                let fault = Fault::with_status(reply.code, "server-broke-off");
                client.record(gateway, Some(command), Some(rule), Some(fault), self.bytes());
                client.hand_on(gateway, &reply).await
            }
            Ok(_) => {
                let fault = Fault::with_status(426, "server-reply");
                fail(client, gateway, command, rule, fault, self.bytes()).await
            }
        }
    }

    /// The server says something about a transfer that was broken off, which is not for the client.
    async fn break_off(&self, client: &mut Client<'_>, fault: Fault) -> Next {
        let Some(server) = &mut client.server else { return Next::Close };
        if let Err(lost) = server.last_reply(LAST_WORD).await {
            client.record(self.gateway, Some(self.command), Some(self.rule), Some(fault), self.bytes());
            return client.lose(self.gateway, Some(self.command), Some(self.rule), lost).await;
        }
        fail(client, self.gateway, self.command, self.rule, fault, self.bytes()).await
    }

    async fn relay(&self, client: &mut Client<'_>, from: &TcpStream, to: &TcpStream) -> Result<(), End> {
        let (shared, address) = (Arc::clone(&client.local.shared), client.ends.client.ip());
        let Client { stream, buffer, server, session, .. } = client;
        let of_server = async {
            match server {
                Some(server) if self.is_upload() => End::Said(server.last_reply(EVER).await),
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            end = listen_for_abort(stream, buffer) => Err(end),
            moved = self.bytes_on(from, to) => moved,
            end = of_server => Err(end),
            end = self.policy(&shared, session.asked.as_ref(), address) => Err(end),
        }
    }

    async fn bytes_on(&self, from: &TcpStream, to: &TcpStream) -> Result<(), End> {
        let limits = &self.gateway.limits;
        let rule = &self.gateway.rules[self.rule];
        let (most, too_large) = if self.is_upload() {
            (rule.largest_request, "request-too-large")
        } else {
            (rule.largest_answer, "answer-too-large")
        };
        let mut buffer = Buffer::default();
        loop {
            match timeout(limits.idle, buffer.fill(from)).await {
                Err(_) => return Err(broken("slow-data")),
                Ok(Err(_)) => return Err(broken("data-broke-off")),
                Ok(Ok(0)) => return Ok(()),
                Ok(Ok(_)) => {}
            }
            let unread = buffer.unread();
            self.moved.set(self.moved.get() + unread.len() as u64);
            if most.is_some_and(|most| self.moved.get() > most) {
                return Err(End::Broken(Fault::with_status(552, too_large)));
            }
            if write_within(to, unread, limits.idle).await.is_err() {
                return Err(broken("data-not-taken"));
            }
            buffer.used(buffer.unread().len());
        }
    }

    /// Ends when the policy does not allow the transfer any more.
    async fn policy(&self, shared: &Shared, asked: Option<&Asked>, client: IpAddr) -> End {
        let mut changes = shared.gateway.clone();
        loop {
            let now = Arc::clone(&changes.borrow_and_update());
            if !matches!(session::judge(&now, client, asked, self.command.verb), Decision::Allow(_)) {
                return broken("not-allowed-any-more");
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Ends when a client says `ABOR`, or goes away. Another command waits.
async fn listen_for_abort(stream: &TcpStream, buffer: &mut relay::Buffer) -> End {
    loop {
        let next = buffer.unread();
        if next.contains(&b'\n') || next.len() > crate::ftp::LONGEST_LINE {
            let whole = next.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = whole.strip_suffix(b"\r\n").unwrap_or(whole);
            let is_abort = command::read(line).is_ok_and(|command| command.means == Means::Abort);
            if is_abort && matches!(control::line(buffer), Some(Heard::Line(_))) {
                return End::Aborted;
            }
            return std::future::pending().await;
        }
        if !matches!(buffer.fill(stream).await, Ok(1..)) {
            return End::Gone;
        }
    }
}
