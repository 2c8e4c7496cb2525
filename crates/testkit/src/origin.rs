//! A server of HTTP that is as bad as the path says, clients that go away, and what must come of each of them through a gateway.

use crate::slowness;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long anything may take that must come.
pub fn patience() -> Duration {
    Duration::from_secs(60) * slowness()
}

/// A server whose answers the paths name, for as long as the test runs. It counts its connections.
#[derive(Debug)]
pub struct Origin {
    /// Where it listens.
    pub at: SocketAddr,
    /// Connections that it was opened.
    pub connections: Arc<AtomicU64>,
    /// Those of them that have ended.
    pub ended: Arc<AtomicU64>,
}

impl Origin {
    /// Serves a listener.
    pub fn start(listener: TcpListener) -> Self {
        let at = listener.local_addr().unwrap();
        let origin = Self { at, connections: Arc::default(), ended: Arc::default() };
        let (connections, ended) = (Arc::clone(&origin.connections), Arc::clone(&origin.ended));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let ended = Arc::clone(&ended);
                std::thread::spawn(move || {
                    serve(stream);
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        origin
    }
}

/// What a server does after it has sent some bytes.
enum Then {
    GoOn,
    Close,
    Reset,
    Wait,
    /// Sends for as long as somebody takes it.
    Flood,
}

fn answer(path: &str, body: &[u8]) -> (Vec<u8>, Then) {
    let ok = |lines: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n{body}").into_bytes();
    match path {
        "/length" => (ok("Content-Length: 5\r\n", "hello"), Then::GoOn),
        "/chunked" => (ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"), Then::GoOn),
        "/close" => (ok("", "hello"), Then::Close),
        "/short" => (ok("Content-Length: 10\r\n", "hello"), Then::Close),
        "/reset" => (ok("Content-Length: 10\r\n", "hello"), Then::Reset),
        "/reset-close" => (ok("", "hello"), Then::Reset),
        "/cut-chunk" => (ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"), Then::Close),
        "/more" => (ok("Content-Length: 5\r\n", "helloHTTP/1.1 200 OK\r\n"), Then::GoOn),
        "/two-lengths" => (ok("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), Then::GoOn),
        "/interim" => (
            [b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), ok("Content-Length: 2\r\n", "ok")].concat(),
            Then::GoOn,
        ),
        "/upgrade" => (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".to_vec(), Then::Wait),
        "/nothing" => (Vec::new(), Then::Close),
        "/never" => (Vec::new(), Then::Wait),
        "/half" => (ok("Content-Length: 10\r\n", "hello"), Then::Wait),
        "/head-only" => (b"HTTP/1.1 200 OK\r\nContent-".to_vec(), Then::Wait),
        "/echo" => {
            ([ok(&format!("Content-Length: {}\r\n", body.len()), ""), body.to_vec()].concat(), Then::GoOn)
        }
        "/typed" => (
            ok("Content-Type: image/png\r\nX-Content-Type-Options: none\r\nContent-Length: 5\r\n", "hello"),
            Then::GoOn,
        ),
        "/leave" => (ok("Content-Length: 2\r\nConnection: close\r\n", "ok"), Then::Close),
        "/endless" => (ok("", "hello"), Then::Flood),
        other => panic!("{other}"),
    }
}

fn serve(mut stream: TcpStream) {
    stream.set_read_timeout(Some(patience())).unwrap();
    while let Some((path, body)) = read_request(&mut stream) {
        let (bytes, then) = answer(&path, &body);
        if stream.write_all(&bytes).is_err() {
            return;
        }
        match then {
            Then::GoOn => {}
            Then::Close => return,
            Then::Reset => return reset(stream),
            Then::Wait => {
                let _ = stream.read(&mut [0]);
                return;
            }
            Then::Flood => {
                while stream.write_all(&[0; 65_536]).is_ok() {}
                return;
            }
        }
    }
}

/// Ends a connection by a reset. What was sent goes before it: there is one way, and nothing overtakes.
pub fn reset(stream: TcpStream) {
    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    drop(stream);
}

/// The path and the body of the next request; `None` if it does not come as a whole.
fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 65_536];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let path = head.split(' ').nth(1)?.to_owned();
            let body = bytes[head.len() + 4..].to_vec();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
            if head.contains("Transfer-Encoding") {
                if body.ends_with(b"0\r\n\r\n") {
                    return Some((path, body));
                }
            } else if body.len() >= length.unwrap_or(0) {
                return Some((path, body));
            }
        }
        match stream.read(&mut piece) {
            Ok(count @ 1..) => bytes.extend(&piece[..count]),
            _ => return None,
        }
    }
}

/// An answer of the server, and what a client gets of it through a gateway.
#[derive(Debug)]
pub struct Weather {
    /// What is asked for.
    pub path: &'static str,
    /// The status that the client gets.
    pub status: u16,
    /// The last bytes that it gets.
    pub end: &'static str,
    /// Whether its connection ends well; or else by a reset.
    pub is_good: bool,
    /// Why it failed, in the gateway's event; `carried`: it did not.
    pub reason: &'static str,
}

/// Good and bad answers, with limits of time that are longer than any of them takes.
pub const WEATHER: [Weather; 11] = [
    weather("/length", 200, "\r\n\r\nhello", true, "carried"),
    weather("/chunked", 200, "5\r\nhello\r\n0\r\n\r\n", true, "carried"),
    weather("/close", 200, "5\r\nhello\r\n0\r\n\r\n", true, "carried"),
    weather("/interim", 200, "\r\n\r\nok", true, "carried"),
    weather("/short", 200, "hello", false, "server-ended"),
    weather("/reset", 200, "hello", false, "server-ended"),
    weather("/reset-close", 200, "hello\r\n", false, "server-ended"),
    weather("/cut-chunk", 200, "hello\r\n", false, "server-ended"),
    weather("/two-lengths", 502, "</html>\n", true, "two-lengths"),
    weather("/upgrade", 502, "</html>\n", true, "upgrade"),
    weather("/nothing", 502, "</html>\n", true, "server-ended"),
];

/// Answers that do not come, or not to their end, with limits of a second for an answer and for what follows.
pub const CALMS: [Weather; 3] = [
    weather("/half", 200, "hello", false, "slow-answer"),
    weather("/never", 504, "</html>\n", true, "answer-time"),
    weather("/head-only", 504, "</html>\n", true, "answer-time"),
];

const fn weather(
    path: &'static str,
    status: u16,
    end: &'static str,
    is_good: bool,
    reason: &'static str,
) -> Weather {
    Weather { path, status, end, is_good, reason }
}

impl Weather {
    /// Reads what a client gets, which has asked with `Connection: close`.
    pub fn expect(&self, stream: &mut TcpStream, what: &str) {
        let (answer, is_good) = read_to_end(stream);
        assert_eq!(status(&answer), self.status, "{what} {}: {answer}", self.path);
        assert!(answer.ends_with(self.end), "{what} {}: {answer:?}", self.path);
        assert_eq!(is_good, self.is_good, "{what} {}: {answer}", self.path);
    }
}

/// A request for a path of a server: with the server in the target for a gateway that its client names, or as for the server itself.
pub fn request(names_server: bool, method: &str, server: SocketAddr, path: &str, rest: &str) -> String {
    let before = if names_server { format!("http://{server}") } else { String::new() };
    format!("{method} {before}{path} HTTP/1.1\r\nHost: {server}\r\n{rest}")
}

/// A client that goes away before all is done. The gateway's event says so, and the server's connection ends.
#[derive(Debug)]
pub struct Leaving {
    /// How, for messages.
    pub what: &'static str,
    method: &'static str,
    path: &'static str,
    rest: &'static str,
    /// Waits for the beginning of the answer.
    waits: bool,
    /// By a reset; or else it only sends nothing more.
    resets: bool,
}

/// Clients that go away.
pub const LEAVING: [Leaving; 3] = [
    Leaving {
        what: "finishes in the middle of its body",
        method: "POST",
        path: "/echo",
        rest: "Content-Length: 5\r\n\r\nabc",
        waits: false,
        resets: false,
    },
    Leaving {
        what: "resets in the middle of its body",
        method: "POST",
        path: "/echo",
        rest: "Content-Length: 5\r\n\r\nabc",
        waits: false,
        resets: true,
    },
    Leaving {
        what: "resets in the middle of the answer",
        method: "GET",
        path: "/endless",
        rest: "\r\n",
        waits: true,
        resets: true,
    },
];

impl Leaving {
    /// Asks, and goes away. `is_asked` waits until the server has a connection for it.
    pub fn go(&self, mut stream: TcpStream, names_server: bool, server: SocketAddr, is_asked: impl FnOnce()) {
        let bytes = request(names_server, self.method, server, self.path, self.rest);
        stream.write_all(bytes.as_bytes()).unwrap();
        is_asked();
        if self.waits {
            stream.read_exact(&mut [0; 20]).unwrap();
        }
        if self.resets {
            return reset(stream);
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&mut stream), (String::new(), false), "{}: no answer", self.what);
    }
}

/// What comes until the end, and whether that is a good one: no reset.
pub fn read_to_end(stream: &mut TcpStream) -> (String, bool) {
    stream.set_read_timeout(Some(patience())).unwrap();
    let mut bytes = Vec::new();
    let is_good = match stream.read_to_end(&mut bytes) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            false
        }
    };
    (String::from_utf8_lossy(&bytes).into_owned(), is_good)
}

/// The status of an answer; 0: there is none.
pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A connection from a port of any address, also if it was another connection's a moment ago.
pub fn connect_from(port: u16, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    let from: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    socket.bind(&SocketAddr::new(from.ip(), port).into())?;
    socket.connect_timeout(&to.into(), patience() / 4)?;
    Ok(socket.into())
}
