//! Connections to servers that are open and that nobody uses. One comes here only if its last answer ended where it said and nothing followed it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// How long a connection waits for its next request.
const LONGEST: Duration = Duration::from_secs(30);

/// The server and the name that it was asked by: another name may be another server behind the same address.
pub(super) type Key = (SocketAddr, String);

#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: HashMap<Key, Vec<(TcpStream, Instant)>>,
    count: usize,
}

impl Pool {
    /// A connection that is still open, and on which nothing has come that nobody asked for.
    pub(super) fn take(&mut self, key: &Key, now: Instant) -> Option<TcpStream> {
        let of_key = self.idle.get_mut(key)?;
        let mut found = None;
        while found.is_none()
            && let Some((stream, since)) = of_key.pop()
        {
            self.count -= 1;
            let is_quiet = matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
            found = (is_quiet && now.duration_since(since) < LONGEST).then_some(stream);
        }
        if of_key.is_empty() {
            self.idle.remove(key);
        }
        found
    }

    pub(super) fn put(&mut self, key: Key, stream: TcpStream, most: usize, now: Instant) {
        if self.count < most {
            self.count += 1;
            self.idle.entry(key).or_default().push((stream, now));
        }
    }

    /// Closes what has waited too long.
    pub(super) fn look_through(&mut self, now: Instant) {
        self.idle.retain(|_, of_key| {
            of_key.retain(|(_, since)| now.duration_since(*since) < LONGEST);
            !of_key.is_empty()
        });
        self.count = self.idle.values().map(Vec::len).sum();
    }
}
