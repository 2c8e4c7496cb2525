//! gRPC for clients that come by it, as snappi does with `transport="grpc"`: calls over HTTP/2 in the clear, which are the requests of the API
//! in protobuf. Every connection has a thread with a runtime of its own, and has one call under way; its client has bounds in bytes and time.

mod call;
mod model;

use crate::bench::Bench;
use crate::http::{MAX_BODY, PATIENCE};
use crate::refusal::Refusal;
use bytes::Bytes;
use call::Call;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_serving::is_ours;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// What a client of HTTP/2 sends first begins with this, and no request of HTTP/1.1 does (RFC 9113 section 3.4).
pub(crate) const PREFACE: [u8; 4] = *b"PRI ";

/// How long a connection stays without a new call; a client opens another one when it needs it. A call is over much earlier.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes of a head at most.
const MAX_HEAD: u32 = 8 << 10;
/// Bytes that a client may send before they are read, and that are kept of an answer that it does not read.
const WINDOW: u32 = 1 << 20;
/// Bytes of what is wrong at most. Clients take heads of 8 KiB, and a byte may take three in it.
const MOST_SAID: usize = 1_500;
/// The type of what is said by gRPC.
const KIND: &str = "application/grpc";

/// Serves a connection until its client leaves it, or leaves it alone for too long. `name` is one that the server answers to besides addresses
/// and `localhost`.
pub(crate) fn serve(stream: TcpStream, name: String, bench: Arc<Mutex<Bench>>) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async { connection(tokio::net::TcpStream::from_std(stream)?, name, bench).await })
}

async fn connection(stream: tokio::net::TcpStream, name: String, bench: Arc<Mutex<Bench>>) -> io::Result<()> {
    let mut builder = Builder::new();
    // One, so that a client takes no more memory than by HTTP/1.1; others of it wait.
    builder.max_concurrent_streams(1).max_header_list_size(MAX_HEAD).max_send_buffer_size(WINDOW as usize);
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let mut connection =
        timeout(PATIENCE, builder.handshake::<_, Bytes>(stream)).await?.map_err(io::Error::other)?;
    loop {
        match timeout(IDLE, connection.accept()).await {
            Ok(Some(next)) => {
                let (request, respond) = next.map_err(io::Error::other)?;
                let (name, bench) = (name.clone(), Arc::clone(&bench));
                tokio::spawn(timeout(PATIENCE, exchange(request, respond, name, bench)));
            }
            Ok(None) => return Ok(()),
            Err(_) => {
                connection.graceful_shutdown();
                let end = async { while connection.accept().await.is_some() {} };
                return timeout(PATIENCE, end).await.map_err(io::Error::from);
            }
        }
    }
}

/// A call and its answer.
async fn exchange(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    name: String,
    bench: Arc<Mutex<Bench>>,
) {
    let (head, body) = request.into_parts();
    let done = match find(&head, &name) {
        Err(refusal) => Err(refusal),
        Ok(call) => match read(body).await {
            // Messages are decoded by who has the bench, so that not all clients take memory for theirs at once.
            Ok(Some(bytes)) => call.answer(&bytes, &mut bench.lock().unwrap_or_else(PoisonError::into_inner)),
            // The client has given the call up.
            Ok(None) => return respond.send_reset(Reason::CANCEL),
            Err(refusal) => Err(refusal),
        },
    };
    // A client that has left gets nothing.
    let _ = say(&mut respond, done);
}

/// Which call a head asks for.
fn find(head: &http::request::Parts, name: &str) -> Result<Call, Refusal> {
    let host = head.uri.authority().map_or("", |authority| authority.as_str());
    if !is_ours(host, &[name]) {
        return Err(Refusal::wrong("this server answers only to its address and to localhost"));
    }
    let kind = head.headers.get("content-type").map(HeaderValue::as_bytes).unwrap_or_default();
    if head.method != "POST" || !kind.starts_with(KIND.as_bytes()) {
        return Err(Refusal::wrong(format!("this is no call of gRPC: POST with the type {KIND}")));
    }
    Call::find(head.uri.path())
}

/// All bytes of a body; `None` if its client gives up.
async fn read(mut body: RecvStream) -> Result<Option<Bytes>, Refusal> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let Ok(piece) = piece else { return Ok(None) };
        // No more is taken than is given back, so this cannot fail.
        let _ = body.flow_control().release_capacity(piece.len());
        bytes.extend_from_slice(&piece);
        if bytes.len() > MAX_BODY {
            return Err(Refusal { status: 413, what: format!("a call has {MAX_BODY} bytes at most") });
        }
    }
    Ok(Some(bytes.into()))
}

fn say(respond: &mut SendResponse<Bytes>, done: Result<Vec<u8>, Refusal>) -> Result<(), h2::Error> {
    let mut head = Response::new(());
    head.headers_mut().insert("content-type", HeaderValue::from_static(KIND));
    match done {
        Ok(bytes) => {
            let mut stream = respond.send_response(head, false)?;
            stream.send_data(bytes.into(), false)?;
            stream.send_trailers(HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-status"),
                HeaderValue::from(0),
            )]))
        }
        Err(refusal) => {
            let (status, said) = refused(refusal);
            head.headers_mut().insert("grpc-status", status);
            head.headers_mut().insert("grpc-message", said);
            respond.send_response(head, true).map(|_| ())
        }
    }
}

/// A refusal as gRPC says it: a status of its own, and the API's `Error` in JSON where other servers have words.
fn refused(mut refusal: Refusal) -> (HeaderValue, HeaderValue) {
    let status = match refusal.status {
        404 => 12,
        413 => 8,
        500 => 13,
        _ => 3,
    };
    let ends = refusal.what.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(|end| *end <= MOST_SAID).last().unwrap_or(0);
    refusal.what.truncate(end);
    let mut said = String::new();
    for byte in refusal.body().to_string().bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => said.push(char::from(byte)),
            other => said += &format!("%{other:02X}"),
        }
    }
    // Only characters that a head may have are left.
    (HeaderValue::from(status), HeaderValue::from_str(&said).unwrap_or(HeaderValue::from_static("")))
}
