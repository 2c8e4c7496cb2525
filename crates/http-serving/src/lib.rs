//! What our servers over HTTP have in common, pages and APIs alike: every client has bounds in number and in time, names that are not ours
//! are known, and a connection ends such that its client gets the answer. What is asked and answered is each server's own.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are written between two looks at the time.
const PIECE: usize = 64 << 10;
/// Longest time that a client may go on sending after it was answered, in each of its pieces.
const LINGER: Duration = Duration::from_millis(500);

/// Hands each connection of a port that does not block to `take`, until `stop` says so, which is asked every `look_ms`.
pub fn accept(
    listener: &TcpListener,
    look_ms: u16,
    mut stop: impl FnMut() -> bool,
    mut take: impl FnMut(TcpStream, SocketAddr),
) {
    while !stop() {
        let mut ready = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut ready, PollTimeout::from(look_ms));
        match listener.accept() {
            Ok((stream, peer)) => take(stream, peer),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Too many open files, for example: others will be closed.
            Err(_) => std::thread::park_timeout(Duration::from_millis(u64::from(look_ms))),
        }
    }
}

/// What to do about a port that cannot be had, to stand behind the reason; nothing where the reason alone is known.
pub fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::InvalidInput => ": write an address and a port, such as 127.0.0.1:8443",
        ErrorKind::AddrInUse => ": another program listens there, so choose another port",
        ErrorKind::AddrNotAvailable => {
            ": this machine has no such address; `ip -br address` shows those that it has"
        }
        ErrorKind::PermissionDenied => ": ports below 1024 are for root",
        _ => "",
    }
}

/// So many at once.
#[derive(Debug, Clone)]
pub struct Places {
    taken: Arc<AtomicUsize>,
    most: usize,
}

/// One of them; given back also by a thread that panics.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Places {
    /// None of them is taken.
    pub fn new(most: usize) -> Self {
        Self { taken: Arc::default(), most }
    }

    /// One of them, if one is free.
    pub fn take(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.taken));
        // If it is too many, dropping the place takes it back.
        (self.taken.fetch_add(1, Ordering::Relaxed) < self.most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A moment by which a client must be done; clones are the same moment.
#[derive(Debug, Clone)]
pub struct Deadline(Rc<Cell<Instant>>);

impl Deadline {
    /// So long from now.
    pub fn after(time: Duration) -> Self {
        Self(Rc::new(Cell::new(Instant::now() + time)))
    }

    /// Gives the client so long from now.
    pub fn renew(&self, time: Duration) {
        self.0.set(Instant::now() + time);
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.0.get().saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

/// Does a step again that ended because the process was stopped or frozen meanwhile: with a time limit it does, although no signal was for it
/// (`signal(7)`).
///
/// # Errors
/// Those of the step, but for [`ErrorKind::Interrupted`].
pub fn uninterrupted<T>(mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match step() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A stream of which everything must have been read or written by its deadline, in however many small pieces.
#[derive(Debug)]
pub struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Deadline,
}

impl<'a> Timed<'a> {
    /// A stream that blocks, which accepted ones do not everywhere.
    ///
    /// # Errors
    /// The kernel does not let it block.
    pub fn new(stream: &'a TcpStream, deadline: &Deadline) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        Ok(Self { stream, deadline: deadline.clone() })
    }

    /// Fills `bytes` with what comes next, which stays there. It is fewer if the client leaves before, or sends no more in time.
    ///
    /// # Errors
    /// Nothing comes in time.
    pub fn peek<'b>(&mut self, bytes: &'b mut [u8]) -> io::Result<&'b [u8]> {
        let all = MsgFlags::MSG_PEEK | MsgFlags::MSG_WAITALL;
        let count = uninterrupted(|| {
            self.stream.set_read_timeout(self.deadline.left()?)?;
            Ok(recv(self.stream.as_raw_fd(), bytes, all)?)
        })?;
        Ok(&bytes[..count])
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| {
            self.stream.set_read_timeout(self.deadline.left()?)?;
            self.stream.read(bytes)
        })
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        uninterrupted(|| {
            self.stream.set_write_timeout(self.deadline.left()?)?;
            self.stream.write(piece)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Ends a connection such that the client gets the answer even when it is still sending: what is unread would reset it.
pub fn close(mut stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(LINGER));
    let mut rest = [0; 2048];
    for _ in 0..32 {
        if !matches!(stream.read(&mut rest), Ok(1..)) {
            break;
        }
    }
}

/// Whether a `Host` is an address, `localhost`, or one of the names that the user gives, with any port, which a tunnel may change. A page of
/// somebody else could have any other name lead here and speak with this server through a user's browser (DNS rebinding).
pub fn is_ours(host: &str, names: &[impl AsRef<str>]) -> bool {
    let is_port = |text: &str| text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let bare = match host.strip_prefix('[') {
        Some(six) => match six.split_once(']') {
            Some((address, port)) if port.is_empty() || is_port(port) => address,
            _ => return false,
        },
        None => match host.find(':') {
            Some(place) if is_port(&host[place..]) => &host[..place],
            Some(_) => return false,
            None => host,
        },
    };
    let is_named = |name: &str| !name.is_empty() && bare.eq_ignore_ascii_case(name);
    bare.parse::<IpAddr>().is_ok()
        || is_named("localhost")
        || names.iter().any(|name| is_named(name.as_ref()))
}

/// Names for [`is_ours`]: those that the user gives, and that of the machine.
pub fn our_names(given: &[String]) -> Vec<String> {
    let machine = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    given.iter().cloned().chain(machine).collect()
}

/// The words behind a status in an answer's first line (RFC 9110 section 15).
pub const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_answered() {
        for (host, ours) in [
            ("127.0.0.1:8021", true),
            ("127.0.0.1", true),
            ("192.0.2.7:80", true),
            ("[::1]:8021", true),
            ("[::1]", true),
            ("[2001:db8::1]:8443", true),
            ("localhost:1", true),
            ("LOCALHOST", true),
            ("fw.example:8443", true),
            ("evil.example", false),
            ("fw.example.evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1:x", false),
            ("[::1]x", false),
            ("[::1", false),
            ("", false),
            ("localhost:99999", false),
            ("user@localhost", false),
        ] {
            assert_eq!(is_ours(host, &["fw.example", ""]), ours, "{host}");
        }
    }

    #[test]
    fn places_are_so_many_and_are_given_back() {
        let places = Places::new(2);
        let (first, second) = (places.take(), places.take());
        assert!(first.is_some() && second.is_some() && places.take().is_none() && places.take().is_none());
        drop(first);
        let third = places.take();
        assert!(third.is_some() && places.take().is_none());
        let panicked = std::thread::spawn(move || {
            let _place = third;
            panic!("a thread that ends");
        });
        assert!(panicked.join().is_err() && places.take().is_some());
    }

    #[test]
    fn a_client_has_until_its_deadline_however_many_pieces_it_sends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        far.write_all(b"GET / HTTP/1.1").unwrap();
        let (near, _) = listener.accept().unwrap();
        let deadline = Deadline::after(Duration::from_secs(600));
        let mut timed = Timed::new(&near, &deadline).unwrap();
        assert_eq!((timed.peek(&mut [0]).unwrap(), timed.read(&mut [0]).unwrap()), (&b"G"[..], 1));
        // Bytes are there, and still it is too late.
        deadline.renew(Duration::ZERO);
        assert_eq!(timed.peek(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(timed.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(timed.write(b"x").unwrap_err().kind(), ErrorKind::TimedOut);
        deadline.renew(Duration::from_secs(600));
        assert_eq!(timed.read(&mut [0]).unwrap(), 1);
    }
}
