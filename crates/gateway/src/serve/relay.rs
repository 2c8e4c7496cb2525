//! Bytes from one connection to another. A body that ends early at one side never ends well at the other.

use crate::http::Fault;
use crate::http::body::{Chunked, Length, Step};
use crate::http::write;
use socket2::SockRef;
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};

/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;
/// Pieces of memory that a thread keeps: 2 MiB.
const MOST_SPARE: usize = 32;
/// Bytes of a body that are copied behind what goes before them, so that both are one packet.
const TOGETHER: usize = 16 * 1024;
/// What a client that is to read an answer to its end may still send, and for how long.
const LINGER_BYTES: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(2);
/// Bodies of requests must come at this rate at least, once this time is over: bytes a second.
const SLOWEST: u64 = 128;
const PATIENCE: Duration = Duration::from_secs(60);

/// What was read of a connection and not used.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

thread_local! {
    /// Memory that no connection of this thread needs at the moment. To ask the kernel for it each time takes longer than to read a small request.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Buffer {
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unread().is_empty()
    }

    pub(super) fn used(&mut self, count: usize) {
        self.start += count;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Gives its memory back while nothing comes.
    pub(super) fn rest(&mut self) {
        if self.is_empty() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        self.start = 0;
        bytes.clear();
        // A thread that ends needs none.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if bytes.capacity() == PIECE && spare.len() < MOST_SPARE {
                spare.push(bytes);
            }
        });
    }

    /// Reads more: 0 if the other side has finished.
    pub(super) async fn fill(&mut self, from: &TcpStream) -> io::Result<usize> {
        self.bytes.drain(..self.start);
        self.start = 0;
        loop {
            from.readable().await?;
            if self.bytes.capacity() == 0 {
                self.bytes = SPARE.with(|spare| spare.borrow_mut().pop()).unwrap_or_default();
            }
            let before = self.bytes.len();
            self.bytes.reserve_exact(PIECE.saturating_sub(self.bytes.capacity() - before));
            match from.try_read_buf(&mut self.bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}

pub(super) async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes within a time.
pub(super) async fn write_within(to: &TcpStream, bytes: &[u8], time: Duration) -> io::Result<()> {
    timeout(time, write_all(to, bytes)).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Why a body did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// It ended early, or the connection broke, where it came from.
    Source,
    /// Nothing came for too long, or too little.
    Slow,
    /// What came is no body.
    Malformed(Fault),
    /// It is larger than it may be.
    TooLarge,
    /// Whoever it goes to takes no more.
    Sink,
}

/// A body on its way.
pub(super) struct Body<'a> {
    pub(super) from: &'a TcpStream,
    pub(super) buffer: &'a mut Buffer,
    pub(super) length: Length,
    pub(super) to: &'a TcpStream,
    /// How the other side learns where it ends.
    pub(super) as_length: Length,
    /// What is sent before it.
    pub(super) head: Vec<u8>,
    /// Bytes at most.
    pub(super) most: Option<u64>,
    /// How long nothing may come, or be taken.
    pub(super) idle: Duration,
    /// Whether it must come at a rate.
    pub(super) has_rate: bool,
    /// Bytes that have come.
    pub(super) moved: u64,
}

impl Body<'_> {
    /// Carries it to its end.
    pub(super) async fn carry(&mut self) -> Result<(), Broken> {
        let begin = Instant::now();
        let mut chunks = Chunked::default();
        loop {
            let unread = self.buffer.unread();
            let (data, used, is_end) = match self.length {
                Length::None => (0..0, 0, true),
                Length::Bytes(length) => {
                    let left = length - self.moved;
                    let count = left.min(unread.len() as u64) as usize;
                    (0..count, count, count as u64 == left)
                }
                Length::UntilClose => (0..unread.len(), unread.len(), false),
                Length::Chunked => match chunks.next(unread).map_err(Broken::Malformed)? {
                    Step::Data(data, used) => (data, used, false),
                    Step::More => (0..0, 0, false),
                    Step::End(used) => (0..0, used, true),
                },
            };
            self.pass(data).await?;
            self.buffer.used(used);
            if is_end {
                return self.finish().await;
            }
            if used > 0 && !self.buffer.is_empty() {
                continue;
            }
            // It does not wait for what comes.
            self.send_head().await?;
            let is_too_slow = self.has_rate
                && begin.elapsed() > PATIENCE
                && self.moved / begin.elapsed().as_secs().max(1) < SLOWEST;
            if is_too_slow {
                return Err(Broken::Slow);
            }
            match timeout(self.idle, self.buffer.fill(self.from)).await {
                Err(_) => return Err(Broken::Slow),
                Ok(Ok(0)) if self.length == Length::UntilClose => return self.finish().await,
                Ok(Ok(0) | Err(_)) => return Err(Broken::Source),
                Ok(Ok(_)) => {}
            }
        }
    }

    async fn pass(&mut self, data: std::ops::Range<usize>) -> Result<(), Broken> {
        if data.is_empty() {
            return Ok(());
        }
        self.moved += data.len() as u64;
        if self.most.is_some_and(|most| self.moved > most) {
            return Err(Broken::TooLarge);
        }
        let bytes = &self.buffer.unread()[data];
        if bytes.len() > TOGETHER {
            send(self.to, &mut self.head, self.idle).await?;
        }
        let done = if self.as_length == Length::Chunked {
            let mut chunk = std::mem::take(&mut self.head);
            chunk.extend_from_slice(write::chunk_head(bytes.len()).as_bytes());
            chunk.extend_from_slice(bytes);
            chunk.extend(b"\r\n");
            write_within(self.to, &chunk, self.idle).await
        } else if self.head.is_empty() {
            write_within(self.to, bytes, self.idle).await
        } else {
            self.head.extend_from_slice(bytes);
            return send(self.to, &mut self.head, self.idle).await;
        };
        done.map_err(|_| Broken::Sink)
    }

    async fn finish(&mut self) -> Result<(), Broken> {
        if self.as_length == Length::Chunked {
            self.head.extend_from_slice(write::LAST_CHUNK);
        }
        self.send_head().await
    }

    /// Sends what goes before the body, if that is still to be done.
    async fn send_head(&mut self) -> Result<(), Broken> {
        send(self.to, &mut self.head, self.idle).await
    }
}

/// Sends bytes, once.
async fn send(to: &TcpStream, bytes: &mut Vec<u8>, time: Duration) -> Result<(), Broken> {
    let bytes = std::mem::take(bytes);
    if bytes.is_empty() {
        return Ok(());
    }
    write_within(to, &bytes, time).await.map_err(|_| Broken::Sink)
}

/// Tells the other side that nothing more comes.
pub(super) fn finish_sending(stream: &TcpStream) {
    let _ = SockRef::from(stream).shutdown(Shutdown::Write);
}

/// Whether the kernel ends a connection by a reset if this process is killed. It must while nothing but the connection's end says where the bytes
/// end, or else what has come would be taken for all of it.
pub(super) fn reset_if_killed(stream: &TcpStream, resets: bool) {
    let _ = SockRef::from(stream).set_linger(resets.then_some(Duration::ZERO));
}

/// Ends a connection by a reset, so that nobody takes what has come for all of it.
pub(super) fn abort(stream: TcpStream) {
    let _ = stream.set_zero_linger();
    drop(stream);
}

/// Ends a connection whose last bytes the other side is to read. What it still sends is taken for a while: the kernel would answer that with
/// a reset, which overtakes the last bytes.
pub(super) async fn close(stream: TcpStream) {
    finish_sending(&stream);
    let deadline = tokio::time::Instant::now() + LINGER;
    let (mut buffer, mut read) = (Buffer::default(), 0);
    while let Ok(Ok(count @ 1..)) = timeout_at(deadline, buffer.fill(&stream)).await {
        buffer.used(count);
        read += count;
        if read > LINGER_BYTES {
            return;
        }
    }
}
