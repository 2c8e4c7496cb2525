//! The server's end: each request is answered with a file, and the connection ended behind the last one.

use super::super::content::File;
use super::super::server::{LONGEST_REQUEST, World};
use super::LAST;
use bytes::Buf;
use h2::Reason;
use h2::server::{Builder, SendResponse};
use http::{Method, Request, Response, StatusCode, header};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncWrite};

/// Answers over a connection to its end.
pub(in super::super) async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    world: &World,
) -> io::Result<()> {
    answer(&mut stream, world).await.map_err(io::Error::other)?;
    // What the client still says, of settings and windows, must find an open socket: a reset in answer to it would overtake the file.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, world: &World) -> Result<(), h2::Error> {
    let is_over = Cell::new(false);
    let mut greeting = Builder::new();
    greeting.max_header_list_size(LONGEST_REQUEST as u32);
    let mut connection = greeting.handshake(stream).await?;
    loop {
        let next = poll_fn(|context| {
            let next = connection.poll_accept(context);
            if is_over.get() { Poll::Ready(None) } else { next }
        });
        let Some(asked) = next.await else { break };
        let (request, respond) = asked?;
        world.served.borrow_mut().requests += 1;
        give(&request, respond, world, &is_over)?;
    }
    connection.abrupt_shutdown(Reason::NO_ERROR);
    poll_fn(|context| connection.poll_closed(context)).await
}

/// Begins an answer, which is written as the client's windows allow. Behind the connection's last one `is_over` is set.
fn give<'a, B>(
    request: &Request<B>,
    mut respond: SendResponse<Body<'a>>,
    world: &'a World,
    is_over: &'a Cell<bool>,
) -> Result<(), h2::Error> {
    let file = world.kept.files.named(request.uri().path()).filter(|_| request.method() == Method::GET);
    let Some(file) = file else {
        let mut nothing = Response::new(());
        *nothing.status_mut() = StatusCode::NOT_FOUND;
        return respond.send_response(nothing, true).map(drop);
    };
    let is_over = request.headers().contains_key(LAST).then_some(is_over);
    let body = Body { rest: &file.bytes, length: file.bytes.len(), world, is_over };
    respond.send_response(head(file), false)?.send_data(body, true)
}

fn head(file: &File) -> Response<()> {
    let mut head = Response::new(());
    let fields = head.headers_mut();
    fields.insert(header::SERVER, header::HeaderValue::from_static("rampart-bench"));
    fields.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(file.kind.mime()));
    fields.insert(header::CONTENT_LENGTH, file.bytes.len().into());
    head
}

/// A file on its way out, counted when its last byte is handed over: before any client can have it.
struct Body<'a> {
    rest: &'a [u8],
    length: usize,
    world: &'a World,
    is_over: Option<&'a Cell<bool>>,
}

impl Buf for Body<'_> {
    fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn chunk(&self) -> &[u8] {
        self.rest
    }

    fn advance(&mut self, count: usize) {
        self.rest = &self.rest[count..];
        if count > 0 && self.rest.is_empty() {
            self.world.count(self.length);
            self.is_over.into_iter().for_each(|over| over.set(true));
        }
    }
}
