//! A client's connection: one request after the other.

use super::logins::Refusal;
use super::page::{self, Reader};
use super::relay::{Buffer, abort, close, write_within};
use super::{Local, Shared, dns, forward, ftp, tunnel};
use crate::config::{Gateway, Mode, Protocol};
use crate::decide::{self, Asked, Decision};
use crate::event::Event;
use crate::http::Fault;
use crate::http::basic::{self, Credentials};
use crate::http::body::Length;
use crate::http::head::{self, Request};
use crate::users::Who;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Both ends of a client's connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) client: SocketAddr,
    pub(super) at: SocketAddr,
    /// Why nothing at that address is connected to, where it is the server's.
    pub(super) refused: Option<&'static str>,
}

/// What becomes of a client's connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Another request may come.
    Another,
    /// It ends well.
    Close,
    /// The same, and the client knows that.
    Done,
    /// It is reset: what was sent is not all.
    Abort,
}

pub(super) async fn serve(local: &Local, stream: TcpStream, from: SocketAddr) {
    let shared = &local.shared;
    let Ok(at) = stream.local_addr() else { return };
    let (from, at) = (canonical(from), canonical(at));
    let gateway = shared.gateway();
    let is_transparent = gateway.mode == Mode::Transparent;
    let refused = if is_transparent { local.refusal(at.ip(), &gateway) } else { None };
    let ends = Ends { client: from, at, refused };
    match gateway.protocol {
        Protocol::Ftp(settings) => return ftp::serve(local, stream, ends, settings).await,
        Protocol::Dns(_) => return dns::serve(shared, stream, ends).await,
        Protocol::Http => {}
    }
    Shared::count(&shared.counted.connections);
    let Some(_admitted) = shared.admit(from.ip()) else {
        let fault = Fault::with_status(503, "too-many-connections");
        shared.record(event(ends, &gateway, None, None, Some(fault), [0; 2]));
        let reader = Reader { persists: false, minor: 1, is_head: false };
        let page = page::of(&gateway, fault, None, reader);
        // Nobody waits for such a client.
        let _ = stream.try_write(&page);
        return;
    };
    let _ = stream.set_nodelay(true);
    let mut buffer = Buffer::default();
    loop {
        buffer.rest();
        let idle = shared.gateway().limits.idle;
        if buffer.is_empty() && !matches!(timeout(idle, buffer.fill(&stream)).await, Ok(Ok(1..))) {
            return;
        }
        match one(local, &stream, &mut buffer, ends).await {
            Next::Another => {}
            Next::Close => return close(stream).await,
            // Whoever has said that nothing follows, and has sent nothing more, sends nothing that a reset would answer.
            Next::Done if buffer.is_empty() => return,
            Next::Done => return close(stream).await,
            Next::Abort => return abort(stream),
        }
    }
}

/// IPv4 in the clothes of IPv6 is IPv4: a socket of IPv6 at every address takes both.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// One request.
async fn one(local: &Local, stream: &TcpStream, buffer: &mut Buffer, ends: Ends) -> Next {
    let gateway = local.shared.gateway();
    let mut request = match read_head(stream, buffer, &gateway).await {
        Ok(Some(request)) => request,
        Ok(None) => return Next::Abort,
        Err(fault) => return refuse(local, stream, &gateway, ends, None, None, fault).await,
    };
    let offered = match basic::take(&gateway, &mut request.fields) {
        Ok(offered) => offered,
        Err(fault) => {
            return refuse(local, stream, &gateway, ends, Some((&request, None)), None, fault).await;
        }
    };
    let judged = match judge(&local.shared, &gateway, ends, &request, None) {
        Judged::Unknown(rule, asked) => match log_in(&local.shared, &gateway, ends, offered).await {
            Ok(who) => judge(&local.shared, &gateway, ends, &request, Some(who)),
            Err((who, fault)) => Judged::Refused(Some(rule), Some(Asked { who, ..asked }), fault),
        },
        judged => judged,
    };
    let (rule, asked) = match judged {
        Judged::Unknown(rule, _) => {
            // The user has gone from the policy in between.
            let (known, fault) = (Some((&request, None)), decide::challenge(&gateway, "no-user"));
            return refuse(local, stream, &gateway, ends, known, Some(rule), fault).await;
        }
        Judged::Allowed(rule, asked) => (rule, asked),
        Judged::Refused(rule, asked, fault) => {
            let known = Some((&request, asked.as_ref()));
            return refuse(local, stream, &gateway, ends, known, rule, fault).await;
        }
    };
    let exchange =
        forward::Exchange { local, stream, gateway: &gateway, ends, request: &request, asked: &asked, rule };
    if asked.is_tunnel {
        tunnel::carry(&exchange, buffer).await
    } else {
        forward::carry(&exchange, buffer).await
    }
}

/// The head of a request; `None` if the client has gone.
async fn read_head(
    stream: &TcpStream,
    buffer: &mut Buffer,
    gateway: &Gateway,
) -> Result<Option<Request>, Fault> {
    let limits = gateway.limits.head();
    let whole = async {
        loop {
            if let Some((request, read)) = head::request(buffer.unread(), limits)? {
                buffer.used(read);
                return Ok(Some(request));
            }
            if !matches!(buffer.fill(stream).await, Ok(1..)) {
                return Ok(None);
            }
        }
    };
    let slow = Err(Fault::with_status(408, "slow-head"));
    timeout(gateway.limits.head_time, whole).await.unwrap_or(slow)
}

/// Who asks; otherwise who he said that he is, and why he is not.
async fn log_in(
    shared: &Shared,
    gateway: &Gateway,
    ends: Ends,
    offered: Option<Result<Credentials, Fault>>,
) -> Result<Who, (Option<Who>, Fault)> {
    let offered = match offered {
        None => return Err((None, decide::challenge(gateway, "no-user"))),
        Some(read) => read.map_err(|fault| (None, fault))?,
    };
    let who = Who::said(&offered.name);
    shared.logins.check(gateway, ends.client.ip(), offered).await.map_err(|refusal| {
        let fault = match refusal {
            Refusal::Wrong => decide::challenge(gateway, refusal.reason()),
            Refusal::Throttled => Fault::with_status(429, refusal.reason()),
            Refusal::Busy => Fault::with_status(503, refusal.reason()),
        };
        (who, fault)
    })
}

/// What is decided about a request.
pub(super) enum Judged {
    /// It depends by a rule on who asks, and that is not known.
    Unknown(usize, Asked),
    /// It passes by a rule, and asks for this.
    Allowed(usize, Asked),
    /// It is refused, by a rule if one has decided; what it asks for, if that is known.
    Refused(Option<usize>, Option<Asked>, Fault),
}

pub(super) fn judge(
    shared: &Shared,
    gateway: &Arc<Gateway>,
    ends: Ends,
    request: &Request,
    who: Option<Who>,
) -> Judged {
    // Decisions are kept by name, and this one's password may have changed since.
    let who = who.filter(|who| gateway.users.as_ref().is_some_and(|users| users.proved(who).is_some()));
    let asked = match decide::asked(gateway, request, ends.at) {
        Ok(asked) => Asked { who, ..asked },
        Err(fault) => return Judged::Refused(None, None, fault),
    };
    let client = ends.client.ip();
    let question = || asked.question(client, &request.method);
    let decided = || decide::decide(gateway, client, &request.method, &asked);
    let decision = shared.decide(gateway, question, decided);
    match decide::alike(gateway, client, request, &asked, decision) {
        Decision::Refuse(rule, fault) => Judged::Refused(rule, Some(asked), fault),
        Decision::Authenticate(rule) => Judged::Unknown(rule, asked),
        Decision::Allow(rule) if !decide::fits(request.body, gateway.rules[rule].largest_request) => {
            Judged::Refused(Some(rule), Some(asked), Fault::with_status(413, "request-too-large"))
        }
        Decision::Allow(rule) => Judged::Allowed(rule, asked),
    }
}

/// Answers a request that is not carried.
pub(super) async fn refuse(
    local: &Local,
    stream: &TcpStream,
    gateway: &Gateway,
    ends: Ends,
    known: Option<(&Request, Option<&Asked>)>,
    rule: Option<usize>,
    fault: Fault,
) -> Next {
    let counted = &local.shared.counted;
    Shared::count(if matches!(fault.status, 502 | 504) { &counted.failed } else { &counted.refused });
    local.shared.record(event(ends, gateway, known, rule, Some(fault), [0; 2]));
    let request = known.map(|(request, _)| request);
    let reader = Reader {
        // A body that nobody reads would be taken for the next request.
        persists: request.is_some_and(|request| {
            request.persists && matches!(request.body, Length::None | Length::Bytes(0))
        }),
        minor: request.map_or(1, |request| request.minor),
        is_head: request.is_some_and(|request| request.method == "HEAD"),
    };
    let rule = rule.map(|place| gateway.rules[place].name.as_str());
    let page = page::of(gateway, fault, rule, reader);
    match write_within(stream, &page, gateway.limits.idle).await {
        Ok(()) if reader.persists => Next::Another,
        Ok(()) => Next::Close,
        Err(_) => Next::Abort,
    }
}

/// What the event log has of a request.
pub(super) fn event(
    ends: Ends,
    gateway: &Gateway,
    known: Option<(&Request, Option<&Asked>)>,
    rule: Option<usize>,
    fault: Option<Fault>,
    bytes: [u64; 2],
) -> Event {
    let asked = known.and_then(|(_, asked)| asked);
    Event {
        is_datagram: false,
        client: ends.client,
        client_name: None,
        at: ends.at,
        rule: rule.map(|place| gateway.rules[place].name.clone()),
        reason: fault.map(|fault| fault.reason.to_owned()),
        user: asked.and_then(|asked| asked.who.as_ref()).map(|who| who.name.clone()),
        method: known.map(|(request, _)| request.method.clone()),
        host: asked.map(Asked::host),
        path: asked.and_then(|asked| asked.path.as_ref()).map(|path| path.path.clone()),
        status: fault.map_or(0, |fault| fault.status),
        bytes,
    }
}
