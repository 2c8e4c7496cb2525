//! Lines of a client, and replies of a server.

use super::super::relay::{Buffer, write_within};
use super::{Client, MOST_PRELIMINARY};
use crate::config::Limits;
use crate::ftp::LONGEST_LINE;
use crate::ftp::reply::{self, Reply};
use crate::http::Fault;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

/// What came while nothing was under way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line of the client's, without its end.
    Line(Vec<u8>),
    /// One that is longer than any.
    TooLong,
    /// One that does not end as lines do: whoever reads otherwise sees other lines.
    BareLf,
    /// Nothing.
    Silent,
    /// Something of the server's, or its end.
    OutOfTurn,
    /// The client has gone.
    Ended,
}

/// The next line in a buffer, if it is whole.
pub(super) fn line(buffer: &mut Buffer) -> Option<Heard> {
    let unread = buffer.unread();
    let Some(end) = unread.iter().position(|byte| *byte == b'\n') else {
        return (unread.len() > LONGEST_LINE + 1).then_some(Heard::TooLong);
    };
    let heard = match unread[..end].strip_suffix(b"\r") {
        Some(line) if line.len() > LONGEST_LINE => Heard::TooLong,
        Some(line) => Heard::Line(line.to_vec()),
        None => Heard::BareLf,
    };
    buffer.used(end + 1);
    Some(heard)
}

impl Client<'_> {
    /// The client's next line, within a time.
    pub(super) async fn hear(&mut self, time: Duration) -> Heard {
        let deadline = Instant::now() + time;
        if self.server.as_ref().is_some_and(|server| !server.buffer.is_empty()) {
            return Heard::OutOfTurn;
        }
        loop {
            if let Some(heard) = line(&mut self.buffer) {
                return heard;
            }
            self.buffer.rest();
            let Self { buffer, server, stream, .. } = self;
            let of_server = async {
                match server {
                    Some(server) => server.buffer.fill(&server.stream).await.map(drop),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                read = buffer.fill(stream) => if !matches!(read, Ok(1..)) {
                    return Heard::Ended;
                },
                _ = of_server => return Heard::OutOfTurn,
                () = sleep_until(deadline) => return Heard::Silent,
            }
        }
    }
}

/// A control connection to a server.
pub(super) struct Server {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    buffer: Buffer,
    /// It does not know `EPSV`.
    pub(super) is_plain: bool,
}

impl Server {
    pub(super) fn new(stream: TcpStream, address: SocketAddr) -> Self {
        Self { stream, address, buffer: Buffer::default(), is_plain: false }
    }

    /// Sends a command; the last reply to it.
    pub(super) async fn ask(&mut self, line: &[u8], limits: &Limits) -> Result<Reply, Fault> {
        self.send(line, limits).await?;
        self.last_reply(limits.answer_time).await
    }

    pub(super) async fn send(&mut self, line: &[u8], limits: &Limits) -> Result<(), Fault> {
        let sent = write_within(&self.stream, line, limits.answer_time).await;
        sent.map_err(|_| Fault::with_status(421, "server-ended"))
    }

    /// The next reply.
    pub(super) async fn reply(&mut self, time: Duration) -> Result<Reply, Fault> {
        let whole = async {
            loop {
                if let Some((reply, read)) = reply::read(self.buffer.unread())? {
                    self.buffer.used(read);
                    self.buffer.rest();
                    return Ok(reply);
                }
                if !matches!(self.buffer.fill(&self.stream).await, Ok(1..)) {
                    return Err(Fault::with_status(421, "server-ended"));
                }
            }
        };
        let late = Err(Fault::with_status(421, "answer-time"));
        timeout(time, whole).await.unwrap_or(late)
    }

    /// The next reply that is not a preliminary one.
    pub(super) async fn last_reply(&mut self, time: Duration) -> Result<Reply, Fault> {
        for _ in 0..MOST_PRELIMINARY {
            let reply = self.reply(time).await?;
            if !reply.is_preliminary() {
                return Ok(reply);
            }
        }
        Err(Fault::with_status(421, "server-reply"))
    }
}
