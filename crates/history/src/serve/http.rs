//! HTTP/1.1 as far as pages need it: heads of bounded size in bounded time, no bodies, one request a connection. Heads are parsed by
//! `httparse`. A request whose `Host` is a foreign name is refused, because a page of somebody else could have that name point here
//! and read what is answered (DNS rebinding).

use http_serving::{Deadline, Timed, close, is_ours, reason};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Bytes of a head at most.
const MAX_HEAD: usize = 8 << 10;

/// Header fields of a head at most.
const MAX_FIELDS: usize = 64;

/// Time for a client to send its head, and for it to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A page may load its own style, script and pictures, talk to its own server, and nothing else.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Path as it came, for example `/runs/3`.
    pub(super) path: String,
    /// What follows the `?`, decoded, in order.
    pub(super) query: Vec<(String, String)>,
    /// `HEAD`: the answer has no body.
    pub(super) head_only: bool,
}

/// Why there is no request.
pub(super) enum Wrong {
    /// The client left, or was too slow.
    Gone,
    /// It is answered so.
    Refused(Answer),
}

/// What is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) policy: String,
    pub(super) body: String,
    sends_body: bool,
}

impl Answer {
    pub(super) fn new(status: u16, kind: &'static str, body: String) -> Self {
        Self { status, kind, policy: POLICY.to_owned(), body, sends_body: true }
    }

    pub(super) fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    pub(super) fn with_body(self, sends_body: bool) -> Self {
        Self { sends_body, ..self }
    }
}

/// Reads a request's head.
pub(super) fn read(stream: &TcpStream, name: &str) -> Result<Request, Wrong> {
    let mut timed = Timed::new(stream, &Deadline::after(PATIENCE)).map_err(|_| Wrong::Gone)?;
    let mut bytes = Vec::new();
    let mut piece = [0; 2048];
    loop {
        if let Some(request) = parse(&bytes, name) {
            return request.map_err(Wrong::Refused);
        }
        if bytes.len() >= MAX_HEAD {
            return Err(Wrong::Refused(Answer::text(431, "the head of the request is too large")));
        }
        match timed.read(&mut piece) {
            Ok(0) | Err(_) => return Err(Wrong::Gone),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// The request in a head; `None` while the head is not whole.
fn parse(bytes: &[u8], name: &str) -> Option<Result<Request, Answer>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    match head.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Some(Err(Answer::text(431, "too many header fields")));
        }
        Err(error) => return Some(Err(Answer::text(400, &format!("this is not HTTP/1.1: {error}")))),
    }
    let hosts: Vec<&[u8]> = head
        .headers
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case("host"))
        .map(|f| f.value)
        .collect();
    let ours =
        matches!(hosts.as_slice(), [host] if std::str::from_utf8(host).is_ok_and(|h| is_ours(h, &[name])));
    if !ours {
        return Some(Err(Answer::text(
            421,
            "this server answers only to its address and to localhost: another name could be made to lead here by others",
        )));
    }
    let method = head.method.unwrap_or_default();
    if !matches!(method, "GET" | "HEAD") {
        return Some(Err(Answer::text(405, "only GET and HEAD: nothing can be changed here")));
    }
    let target = head.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Some(Err(Answer::text(400, "the target of a request begins with /")));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query = pairs.map(|(name, value)| (decoded(name), decoded(value))).collect();
    Some(Ok(Request { path: path.to_owned(), query, head_only: method == "HEAD" }))
}

/// The text behind `%41` and `+`; what is no such code stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let code =
            behind.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes an answer; a client that does not take it in time is left.
pub(super) fn write(stream: &TcpStream, answer: &Answer) {
    let length = format!("Content-Length: {}\r\n", answer.body.len());
    let mut bytes = head(answer.status, answer.kind, &answer.policy, &length).into_bytes();
    if answer.sends_body {
        bytes.extend_from_slice(answer.body.as_bytes());
    }
    if send(stream, &bytes).is_ok() {
        close(stream);
    }
}

/// The head of an answer.
pub(super) fn head(status: u16, kind: &str, policy: &str, more: &str) -> String {
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\nContent-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
         Connection: close\r\n{allow}{more}\r\n",
        reason(status)
    )
}

/// Sends all of it, or gives up when the client's time is over.
pub(super) fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    Timed::new(stream, &Deadline::after(PATIENCE))?.write_all(bytes)
}

/// Asks a client beyond the bound to come again, without waiting for it.
pub(super) fn turn_away(stream: &TcpStream) {
    let answer = head(503, "text/plain", POLICY, "Retry-After: 1\r\nContent-Length: 0\r\n");
    let _ = stream.set_nonblocking(true);
    let _ = (&*stream).write(answer.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_or_refused() {
        let rows: [(&str, Option<Result<&str, u16>>); 11] = [
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Some(Ok("/"))),
            ("HEAD /runs/1 HTTP/1.1\r\nhost: [::1]:80\r\n\r\n", Some(Ok("/runs/1"))),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n", None),
            ("", None),
            ("GET / HTTP/1.1\r\n\r\n", Some(Err(421))),
            ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", Some(Err(421))),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: a.example\r\n\r\n", Some(Err(421))),
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", Some(Err(405))),
            ("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", Some(Err(400))),
            ("\u{0} / HTTP/1.1\r\n\r\n", Some(Err(400))),
            ("GET / HTTP/9.9\r\n\r\n", Some(Err(400))),
        ];
        for (text, expected) in rows {
            let found = parse(text.as_bytes(), "").map(|r| r.map(|r| r.path).map_err(|answer| answer.status));
            assert_eq!(found, expected.map(|r| r.map(str::to_owned)), "{text}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1));
        assert_eq!(parse(many.as_bytes(), "").unwrap().unwrap_err().status, 431);
    }

    #[test]
    fn queries_are_decoded() {
        for (text, expected) in
            [("a%20b+c", "a b c"), ("%C3%A9", "é"), ("%ff", "\u{fffd}"), ("%4", "%4"), ("%zz", "%zz")]
        {
            assert_eq!(decoded(text), expected);
        }
    }
}
