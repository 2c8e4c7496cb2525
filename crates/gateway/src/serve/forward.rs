//! A request to a server, and its answer.

use super::client::{self, Ends, Next};
use super::relay::{Body, Broken, Buffer, reset_if_killed, write_within};
use super::{Local, Shared, upstream};
use crate::config::Gateway;
use crate::decide::{self, Asked};
use crate::exchange;
use crate::http::body::Length;
use crate::http::head::{self, Answer, Request};
use crate::http::{Fault, media, write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Answers before the last one that a server may send.
const MOST_INTERIM: usize = 10;
/// How long a server that takes no more of a request may take to say why.
const LAST_WORD: Duration = Duration::from_secs(2);

/// A request that is allowed, and its client.
pub(super) struct Exchange<'a> {
    pub(super) local: &'a Local,
    pub(super) stream: &'a TcpStream,
    pub(super) gateway: &'a std::sync::Arc<Gateway>,
    pub(super) ends: Ends,
    pub(super) request: &'a Request,
    pub(super) asked: &'a Asked,
    pub(super) rule: usize,
}

/// A connection to a server.
struct Server {
    stream: TcpStream,
    address: SocketAddr,
    buffer: Buffer,
}

/// What has gone wrong: why, and whether the server had answered anything.
struct Failed {
    fault: Fault,
    has_begun: bool,
}

impl Exchange<'_> {
    /// Answers with a page of why the request was not carried.
    pub(super) async fn refuse(&self, fault: Fault) -> Next {
        let known = Some((self.request, Some(self.asked)));
        client::refuse(self.local, self.stream, self.gateway, self.ends, known, Some(self.rule), fault).await
    }

    /// Counts and records what became of a request that was answered.
    pub(super) fn record(&self, status: u16, fault: Option<Fault>, bytes: [u64; 2]) {
        let counted = &self.local.shared.counted;
        Shared::count(if fault.is_some() { &counted.failed } else { &counted.carried });
        if fault.is_some() || self.gateway.rules[self.rule].log {
            let known = Some((self.request, Some(self.asked)));
            let event = client::event(self.ends, self.gateway, known, Some(self.rule), fault, bytes);
            self.local.shared.record(crate::event::Event { status, ..event });
        }
    }

    /// A request that may be sent a second time if nothing came back: it changes nothing, and nothing of it is used up.
    fn is_repeatable(&self) -> bool {
        matches!(self.request.method.as_str(), "GET" | "HEAD" | "OPTIONS")
            && self.request.body == Length::None
    }
}

pub(super) async fn carry(exchange: &Exchange<'_>, buffer: &mut Buffer) -> Next {
    let Exchange { local, gateway, asked, .. } = *exchange;
    let addresses = match upstream::addresses(exchange).await {
        Ok(addresses) => addresses,
        Err(fault) => return exchange.refuse(fault).await,
    };
    if exchange.is_repeatable()
        && let Some((stream, address)) = upstream::pooled(local, &addresses, asked)
    {
        let server = Server { stream, address, buffer: Buffer::default() };
        match attempt(exchange, buffer, server).await {
            Err(failed) if !failed.has_begun && failed.fault.reason == "server-ended" => {}
            done => return settle(exchange, done).await,
        }
    }
    match upstream::connect(local, gateway, &addresses).await {
        Ok((stream, address)) => {
            let server = Server { stream, address, buffer: Buffer::default() };
            let done = attempt(exchange, buffer, server).await;
            settle(exchange, done).await
        }
        Err(fault) => exchange.refuse(fault).await,
    }
}

async fn settle(exchange: &Exchange<'_>, done: Result<Next, Failed>) -> Next {
    match done {
        Ok(next) => next,
        // Where the client's own request is at fault, what follows on its connection is not a request.
        Err(failed) => match exchange.refuse(failed.fault).await {
            Next::Another if exchange.request.body != Length::None => Next::Close,
            next => next,
        },
    }
}

/// Asks a server. An error is one that can still be an answer to the client.
async fn attempt(exchange: &Exchange<'_>, buffer: &mut Buffer, mut server: Server) -> Result<Next, Failed> {
    let Exchange { stream, gateway, request, asked, .. } = *exchange;
    let limits = &gateway.limits;
    let failed = |reason| Failed { fault: Fault::with_status(502, reason), has_begun: false };
    let head = exchange::request_head(gateway, exchange.ends.client.ip(), request, asked);
    if request.expects_continue && request.body != Length::None {
        write_within(stream, b"HTTP/1.1 100 Continue\r\n\r\n", limits.idle)
            .await
            .map_err(|_| failed("client-ended"))?;
    }
    let most = gateway.rules[exchange.rule].largest_request;
    let mut body = Body {
        from: stream,
        buffer,
        length: request.body,
        to: &server.stream,
        as_length: request.body,
        head,
        most,
        idle: limits.idle,
        has_rate: true,
        moved: 0,
    };
    let (sent, answer) = send_and_hear(exchange, &mut body, &server.stream, &mut server.buffer).await;
    let up = body.moved;
    let answer = match (sent, answer) {
        // The client gets no answer to a request that it has not made.
        (Some(Err(Broken::Source)), _) => {
            exchange.record(0, Some(Fault::malformed("client-ended")), [up, 0]);
            super::relay::abort(server.stream);
            return Ok(Next::Abort);
        }
        (Some(Err(broken @ (Broken::Slow | Broken::Malformed(_) | Broken::TooLarge))), _) => {
            super::relay::abort(server.stream);
            return Err(Failed { fault: of_request(broken), has_begun: true });
        }
        (_, Err(fault)) => return Err(Failed { fault, has_begun: !server.buffer.is_empty() }),
        (_, Ok(answer)) => answer,
    };
    let is_all_sent = matches!(sent, Some(Ok(())));
    Ok(answer_with(exchange, server, answer, is_all_sent, up).await)
}

/// Whether a request proves with its credentials who the connection is, and not only it (RFC 4559 section 6): the next client on that would be this one.
fn proves_connection(request: &Request) -> bool {
    let is_of = |value: &[u8], scheme: &str| {
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    request
        .fields
        .all("authorization")
        .any(|field| ["basic", "digest", "bearer"].iter().all(|scheme| !is_of(&field.value, scheme)))
}

/// Whether the next client on the connection gets an answer to its own request. A server that reads no body where one was sent takes it for a request, and
/// its answer to that may come late (CL.0, TE.0).
fn leaves_nothing(request: &Request) -> bool {
    matches!(request.body, Length::None | Length::Bytes(0)) && !proves_connection(request)
}

fn of_request(broken: Broken) -> Fault {
    match broken {
        Broken::Slow => Fault::with_status(408, "slow-body"),
        Broken::Malformed(fault) => fault,
        Broken::TooLarge => Fault::with_status(413, "request-too-large"),
        Broken::Source => Fault::malformed("client-ended"),
        Broken::Sink => Fault::with_status(502, "server-ended"),
    }
}

/// Sends the body, and reads the head of the answer, which may come before all is sent: then the rest is not sent (`None`).
async fn send_and_hear(
    exchange: &Exchange<'_>,
    body: &mut Body<'_>,
    server: &TcpStream,
    buffer: &mut Buffer,
) -> (Option<Result<(), Broken>>, Result<Answer, Fault>) {
    let limits = &exchange.gateway.limits;
    let hearing = hear(exchange, server, buffer);
    tokio::pin!(hearing);
    let sent = {
        let sending = body.carry();
        tokio::pin!(sending);
        tokio::select! {
            biased;
            sent = &mut sending => sent,
            answer = &mut hearing => return (None, answer),
        }
    };
    let patience = match sent {
        Ok(()) => limits.answer_time,
        Err(Broken::Sink) => LAST_WORD,
        Err(_) => return (Some(sent), Err(of_request(Broken::Source))),
    };
    let late = match sent {
        Ok(()) => Fault::with_status(504, "answer-time"),
        Err(_) => Fault::with_status(502, "server-ended"),
    };
    let answer = timeout(patience, hearing).await.unwrap_or(Err(late));
    (Some(sent), answer)
}

/// The head of the last answer; those before it say nothing that a client needs.
async fn hear(exchange: &Exchange<'_>, server: &TcpStream, buffer: &mut Buffer) -> Result<Answer, Fault> {
    const BAD: fn(Fault) -> Fault = |fault| Fault { status: 502, ..fault };
    let limits = exchange.gateway.limits.head();
    for _ in 0..MOST_INTERIM {
        let answer = loop {
            let found = head::answer(&exchange.request.method, buffer.unread(), limits).map_err(BAD)?;
            if let Some((answer, read)) = found {
                buffer.used(read);
                break answer;
            }
            if !matches!(buffer.fill(server).await, Ok(1..)) {
                return Err(Fault::with_status(502, "server-ended"));
            }
        };
        match answer.status {
            // Nobody asked for another protocol.
            101 => return Err(Fault::with_status(502, "upgrade")),
            100..=199 => {}
            _ => return Ok(answer),
        }
    }
    Err(Fault::with_status(502, "too-many-answers"))
}

/// Gives the client the answer. From here on no other answer is possible.
async fn answer_with(
    exchange: &Exchange<'_>,
    mut server: Server,
    mut answer: Answer,
    is_all_sent: bool,
    up: u64,
) -> Next {
    let Exchange { local, stream, gateway, request, asked, .. } = *exchange;
    let rule = &gateway.rules[exchange.rule];
    let (most, types) = (rule.largest_answer, &rule.content_types);
    let too_large = (!decide::fits(answer.body, most)).then_some(Fault::with_status(403, "answer-too-large"));
    if let Some(fault) = media::refusal(types, &answer).or(too_large) {
        super::relay::abort(server.stream);
        let next = exchange.refuse(fault).await;
        return if is_all_sent { next } else { Next::Abort };
    }
    if !types.is_empty() {
        media::forbid_sniffing(&mut answer.fields);
    }
    let as_length = exchange::client_length(answer.body, request.minor);
    let persists = request.persists && is_all_sent && as_length != Length::UntilClose;
    let head = write::answer(&answer, &request.method, as_length, persists, request.minor);
    let mut body = Body {
        from: &server.stream,
        buffer: &mut server.buffer,
        length: answer.body,
        to: stream,
        as_length,
        head,
        most,
        idle: gateway.limits.idle,
        has_rate: false,
        moved: 0,
    };
    let ends_with_connection = as_length == Length::UntilClose;
    if ends_with_connection {
        reset_if_killed(stream, true);
    }
    let done = body.carry().await;
    let bytes = [up, body.moved];
    if ends_with_connection && done.is_ok() {
        reset_if_killed(stream, false);
    }
    if let Err(broken) = done {
        let reason = match broken {
            Broken::Source => "server-ended",
            Broken::Slow => "slow-answer",
            Broken::Malformed(fault) => fault.reason,
            Broken::TooLarge => "answer-too-large",
            Broken::Sink => "client-ended",
        };
        exchange.record(answer.status, Some(Fault::with_status(502, reason)), bytes);
        super::relay::abort(server.stream);
        return Next::Abort;
    }
    exchange.record(answer.status, None, bytes);
    if answer.persists && is_all_sent && server.buffer.is_empty() && leaves_nothing(request) {
        // Each thread has its part of them.
        let most = (gateway.limits.pooled as usize).div_ceil(local.threads);
        local.pool.borrow_mut().put(
            upstream::key(server.address, asked),
            server.stream,
            most,
            Instant::now(),
        );
    }
    match (persists, request.persists) {
        (true, _) => Next::Another,
        (false, true) => Next::Close,
        // It has asked for that.
        (false, false) => Next::Done,
    }
}
