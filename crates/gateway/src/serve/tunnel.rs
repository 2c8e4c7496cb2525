//! CONNECT: bytes in both directions, which the gateway does not read. It can look whether they begin as TLS for the host that was named.

use super::client::{self, Judged, Next};
use super::forward::Exchange;
use super::relay::{Buffer, abort, finish_sending, reset_if_killed, write_within};
use super::{Shared, upstream};
use crate::hello::{self, Hello};
use crate::http::Fault;
use crate::http::target::Host;
use std::cell::Cell;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How much longer a tunnel may be silent than a request.
const PATIENCE: u32 = 10;

/// Why a tunnel has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Both sides have finished.
    Whole,
    /// One of them has gone.
    Broken,
    /// Nothing came for too long.
    Silent,
    /// More came than may.
    TooLarge,
    /// The policy does not allow it any more.
    Refused,
}

pub(super) async fn carry(exchange: &Exchange<'_>, buffer: &mut Buffer) -> Next {
    let Exchange { local, stream, gateway, asked, rule, .. } = *exchange;
    let connected = match upstream::addresses(exchange).await {
        Ok(addresses) => upstream::connect(local, gateway, &addresses).await,
        Err(fault) => Err(fault),
    };
    let server = match connected {
        Ok((server, _)) => server,
        Err(fault) => return exchange.refuse(fault).await,
    };
    if write_within(stream, b"HTTP/1.1 200 OK\r\n\r\n", gateway.limits.idle).await.is_err() {
        return Next::Abort;
    }
    if gateway.rules[rule].server_name
        && let Err(reason) = check_name(exchange, buffer).await
    {
        Shared::count(&local.shared.counted.refused);
        let known = Some((exchange.request, Some(asked)));
        let fault = Fault::with_status(403, reason);
        local.shared.record(client::event(exchange.ends, gateway, known, Some(rule), Some(fault), [0; 2]));
        abort(server);
        return Next::Abort;
    }
    let moved = [Cell::new(0), Cell::new(0)];
    [stream, &server].iter().for_each(|side| reset_if_killed(side, true));
    let end = both_ways(exchange, buffer, &server, &moved).await;
    let bytes = [moved[0].get(), moved[1].get()];
    let reason = match end {
        End::Whole => None,
        End::Broken => Some("broken"),
        End::Silent => Some("silent"),
        End::TooLarge => Some("too-large"),
        End::Refused => Some("not-allowed-any-more"),
    };
    exchange.record(200, reason.map(|reason| Fault::with_status(502, reason)), bytes);
    if end == End::Whole {
        [stream, &server].iter().for_each(|side| reset_if_killed(side, false));
        return Next::Close;
    }
    abort(server);
    Next::Abort
}

/// Whether the client begins with TLS for the host that it named. What was read stays in the buffer.
async fn check_name(exchange: &Exchange<'_>, buffer: &mut Buffer) -> Result<(), &'static str> {
    let read = async {
        loop {
            match hello::read(buffer.unread()) {
                Hello::More if matches!(buffer.fill(exchange.stream).await, Ok(1..)) => {}
                Hello::More | Hello::Other => return Err("no-tls"),
                Hello::Name(name) => return Ok(name),
            }
        }
    };
    let name = timeout(exchange.gateway.limits.head_time, read).await.unwrap_or(Err("slow-head"))?;
    let is_same = match (&exchange.asked.authority.host, name) {
        (Host::Name(asked), Some(name)) => *asked == name,
        (Host::Address(_), None) => true,
        _ => false,
    };
    if is_same { Ok(()) } else { Err("server-name") }
}

async fn both_ways(
    exchange: &Exchange<'_>,
    buffer: &mut Buffer,
    server: &TcpStream,
    moved: &[Cell<u64>; 2],
) -> End {
    let Exchange { local, stream, gateway, ends, request, asked, rule, .. } = *exchange;
    let limit = &gateway.rules[rule];
    let idle = gateway.limits.idle;
    let mut back = Buffer::default();
    let ways = async {
        let up = one_way(stream, buffer, server, &moved[0], limit.largest_request, idle);
        let down = one_way(server, &mut back, stream, &moved[1], limit.largest_answer, idle);
        match tokio::try_join!(up, down) {
            Ok(_) => End::Whole,
            Err(end) => end,
        }
    };
    let silence = async {
        loop {
            let before = moved[0].get() + moved[1].get();
            tokio::time::sleep(idle * PATIENCE).await;
            if moved[0].get() + moved[1].get() == before {
                return End::Silent;
            }
        }
    };
    let policy = async {
        let mut changes = local.shared.gateway.clone();
        changes.mark_unchanged();
        loop {
            let now = std::sync::Arc::clone(&changes.borrow_and_update());
            let who = asked.who.clone();
            if !matches!(client::judge(&local.shared, &now, ends, request, who), Judged::Allowed(..)) {
                return End::Refused;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        end = ways => end,
        end = silence => end,
        end = policy => end,
    }
}

async fn one_way(
    from: &TcpStream,
    buffer: &mut Buffer,
    to: &TcpStream,
    moved: &Cell<u64>,
    most: Option<u64>,
    idle: Duration,
) -> Result<(), End> {
    loop {
        let unread = buffer.unread();
        let count = unread.len();
        if count > 0 {
            moved.set(moved.get() + count as u64);
            if most.is_some_and(|most| moved.get() > most) {
                return Err(End::TooLarge);
            }
            write_within(to, unread, idle * PATIENCE).await.map_err(|_| End::Broken)?;
            buffer.used(count);
        }
        buffer.rest();
        match buffer.fill(from).await {
            Ok(0) => {
                finish_sending(to);
                return Ok(());
            }
            Ok(_) => {}
            Err(_) => return Err(End::Broken),
        }
    }
}
