//! The client's end: a file is asked for over a stream of its own, and every byte compared as it comes. No task of its own works on the
//! connection: between transactions nobody reads, as by HTTP/1.1.

use super::super::client::{Arrival, LONGEST_HEAD, Order, Stop, broken};
use super::super::content::File;
use super::{ALPN, LAST, WINDOW_BYTES};
use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use http::{Request, Response, StatusCode, header};
use measure::application::Failure;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

/// An open connection.
pub(in super::super) struct Conversation {
    requests: SendRequest<Bytes>,
    connection: Connection<Witness<TlsStream<TcpStream>>, Bytes>,
    /// Whether nothing more comes over the connection.
    is_over: bool,
    seen: Rc<RefCell<Seen>>,
}

impl Conversation {
    /// Greets a server over a connection whose handshake is done. Nothing is waited for.
    pub(in super::super) async fn begin(stream: TlsStream<TcpStream>) -> Result<Self, Stop> {
        if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(Failure::Alpn.into());
        }
        let seen = Rc::default();
        let witness = Witness { stream, seen: Rc::clone(&seen) };
        let mut greeting = Builder::new();
        greeting.enable_push(false).max_header_list_size(LONGEST_HEAD as u32);
        greeting.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        let (requests, connection) =
            greeting.handshake(witness).await.map_err(|error| meaning(&error, &seen))?;
        Ok(Self { requests, connection, is_over: false, seen })
    }

    /// Asks for the file and reads the answer: to the end of the connection if this is its last one, else to the stream's end.
    pub(in super::super) async fn get(&mut self, order: &Order<'_>) -> Result<Arrival, Stop> {
        let arrival = self.fetch(order).await?;
        if order.is_last {
            self.end().await?;
        }
        Ok(arrival)
    }

    /// Works on the connection meanwhile.
    async fn fetch(&mut self, order: &Order<'_>) -> Result<Arrival, Stop> {
        let Self { requests, connection, is_over, seen } = self;
        let mut fetching = pin!(fetch(requests, order, seen));
        poll_fn(|context| {
            // Behind the end of the connection there may be pieces that nobody has read yet.
            if !*is_over {
                *is_over = Pin::new(&mut *connection).poll(context).is_ready();
            }
            fetching.as_mut().poll(context)
        })
        .await
    }

    /// Waits until the server has ended the connection.
    async fn end(&mut self) -> Result<(), Stop> {
        let ended = if self.is_over { Ok(()) } else { (&mut self.connection).await };
        self.is_over = true;
        match ended {
            _ if self.seen.borrow().is_ended => Ok(()),
            Ok(()) => self.seen.borrow_mut().error.take().map_or(Ok(()), |error| Err(broken(error))),
            Err(error) => Err(meaning(&error, &self.seen)),
        }
    }
}

async fn fetch(
    requests: &mut SendRequest<Bytes>,
    order: &Order<'_>,
    seen: &RefCell<Seen>,
) -> Result<Arrival, Stop> {
    let failed = |error: h2::Error| meaning(&error, seen);
    poll_fn(|context| requests.poll_ready(context)).await.map_err(failed)?;
    let (answer, _) = requests.send_request(request(order)?, true).map_err(failed)?;
    let answer = answer.await.map_err(failed)?;
    let first = Some(Instant::now());
    check_head(&answer, order.file)?;
    let (mut body, mut rest) = (answer.into_body(), &order.file.bytes[..]);
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(failed)?;
        rest = rest.strip_prefix(&piece[..]).ok_or(Failure::Content)?;
        body.flow_control().release_capacity(piece.len()).map_err(failed)?;
    }
    if rest.is_empty() {
        Ok(Arrival { first, last: Some(Instant::now()) })
    } else {
        Err(Failure::Short.into())
    }
}

fn request(order: &Order<'_>) -> Result<Request<()>, Stop> {
    let request = Request::get(format!("https://{}{}", order.host, order.file.path))
        .version(http::Version::HTTP_2)
        .header(header::USER_AGENT, "rampart-bench")
        .header(header::ACCEPT, "*/*");
    let request = if order.is_last { request.header(LAST, "1") } else { request };
    request.body(()).map_err(|bad| Stop::Own(io::Error::other(bad)))
}

/// The head of an answer is right; it need not state the length, because the stream has an end of its own.
fn check_head<B>(answer: &Response<B>, file: &File) -> Result<(), Failure> {
    if answer.status() != StatusCode::OK {
        return Err(Failure::Status);
    }
    match answer.headers().get(header::CONTENT_LENGTH) {
        Some(stated) if stated.as_bytes() != file.bytes.len().to_string().as_bytes() => Err(Failure::Content),
        _ => Ok(()),
    }
}

/// What an error of HTTP/2 means. What broke the connection below it says more than the library, which keeps only its kind.
fn meaning(error: &h2::Error, seen: &RefCell<Seen>) -> Stop {
    if let Some(error) = seen.borrow_mut().error.take() {
        return broken(error);
    }
    match error {
        error if error.is_remote() && error.is_go_away() => Failure::GoAway.into(),
        error if error.is_remote() => Failure::StreamReset.into(),
        error if error.is_library() => Failure::Protocol.into(),
        // The other end closed the connection within a stream or a frame.
        error if error.is_io() => Failure::Short.into(),
        error => Stop::Own(io::Error::other(error.to_string())),
    }
}

/// How a connection below HTTP/2 came to its end.
#[derive(Debug, Default)]
struct Seen {
    /// By an error.
    error: Option<io::Error>,
    /// The server ended it openly.
    is_ended: bool,
}

/// A connection that remembers how it ended, and whose server ends it first.
struct Witness<S> {
    stream: S,
    seen: Rc<RefCell<Seen>>,
}

impl<S> Witness<S> {
    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            self.seen.borrow_mut().error.get_or_insert(error);
            kind.into()
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Witness<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if read.is_ok() && buffer.filled().len() == before {
            self.seen.borrow_mut().is_ended = true;
        }
        Poll::Ready(self.note(read))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Witness<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        Poll::Ready(self.note(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        Poll::Ready(self.note(flushed))
    }

    /// The library closes a connection as soon as the server has said that it will (GOAWAY).
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut nothing = [0; 512];
        while !self.seen.borrow().is_ended {
            ready!(self.as_mut().poll_read(context, &mut ReadBuf::new(&mut nothing)))?;
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
