//! HTTP/1.1 as far as the API needs it: requests of bounded size in bounded time, one a connection. A `Host` that is a foreign name is
//! refused, because a page of somebody else could have that name point here; a body that is no JSON by its type as well, because a page
//! can have a browser send others without asking.

use crate::refusal::Refusal;
use http_serving::{is_ours, reason};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::time::Duration;

/// Bytes of a head at most.
const MAX_HEAD: usize = 8 << 10;
/// Header fields of a head at most.
const MAX_FIELDS: usize = 64;
/// Bytes of a body at most: a configuration of a million values.
pub(crate) const MAX_BODY: usize = 16 << 20;
/// Time for a client to send its request, and for it to take the answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The client left, or was too slow.
    Gone,
    /// It is answered so.
    Refused(Refusal),
}

fn refused(status: u16, what: impl Into<String>) -> Wrong {
    Wrong::Refused(Refusal { status, what: what.into() })
}

/// What a head says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    method: String,
    path: String,
    body_bytes: usize,
    /// The client waits for leave to send the body.
    waits: bool,
    /// Where the body begins.
    bytes: usize,
}

/// Reads a request. `name` is one that the server answers to besides addresses and `localhost`.
pub(crate) fn read(stream: &mut (impl Read + Write), name: &str) -> Result<Request, Wrong> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(head) = parse(&bytes, name)? {
            break head;
        }
        if bytes.len() >= MAX_HEAD {
            return Err(refused(431, "the head of the request is too large"));
        }
        take(stream, &mut bytes, 2048)?;
    };
    if head.waits && stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").and_then(|()| stream.flush()).is_err()
    {
        return Err(Wrong::Gone);
    }
    let mut body = bytes.split_off(head.bytes);
    while body.len() < head.body_bytes {
        let left = head.body_bytes - body.len();
        take(stream, &mut body, left.min(64 << 10))?;
    }
    body.truncate(head.body_bytes);
    Ok(Request { method: head.method, path: head.path, body })
}

fn take(stream: &mut impl Read, bytes: &mut Vec<u8>, most: usize) -> Result<(), Wrong> {
    let mut piece = vec![0; most];
    match stream.read(&mut piece) {
        Ok(0) | Err(_) => Err(Wrong::Gone),
        Ok(count) => {
            bytes.extend_from_slice(&piece[..count]);
            Ok(())
        }
    }
}

/// The head of a request; `None` while it is not whole.
fn parse(bytes: &[u8], name: &str) -> Result<Option<Head>, Wrong> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let end = match head.parse(bytes) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(end)) => end,
        Err(httparse::Error::TooManyHeaders) => return Err(refused(431, "too many header fields")),
        Err(error) => return Err(refused(400, format!("this is not HTTP/1.1: {error}"))),
    };
    let field = |wanted: &str| -> Vec<&str> {
        let fields = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(wanted));
        fields.map(|field| std::str::from_utf8(field.value).unwrap_or("?").trim()).collect()
    };
    if !matches!(field("host").as_slice(), [host] if is_ours(host, &[name])) {
        return Err(refused(
            421,
            "this server answers only to its address and to localhost: another name could be made to lead here by others",
        ));
    }
    if !field("transfer-encoding").is_empty() {
        return Err(refused(411, "a body comes with its length, not in chunks"));
    }
    let method = head.method.unwrap_or_default().to_owned();
    let body_bytes = match field("content-length").as_slice() {
        [] => 0,
        [length] => length.parse().map_err(|_| refused(400, "Content-Length is no number of bytes"))?,
        _ => return Err(refused(400, "there is more than one Content-Length")),
    };
    if body_bytes > MAX_BODY {
        return Err(refused(413, format!("a body of {body_bytes} bytes: {MAX_BODY} at most")));
    }
    let is_json = |kind: &str| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    };
    let kinds = field("content-type");
    if method != "GET" && (kinds.is_empty() || !kinds.iter().all(|kind| is_json(kind))) {
        return Err(refused(415, "a body is JSON, and its Content-Type says application/json"));
    }
    let path = head.path.unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    let waits = field("expect").iter().any(|expect| expect.eq_ignore_ascii_case("100-continue"));
    Ok(Some(Head { method, path, body_bytes, waits, bytes: end }))
}

/// Writes an answer.
pub(crate) fn write(stream: &mut impl Write, answer: &Result<Value, Refusal>) -> io::Result<()> {
    let (status, body) = match answer {
        Ok(body) => (200, body.to_string()),
        Err(refusal) => (refusal.status, refusal.body().to_string()),
    };
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        reason(status),
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that sends this and takes whatever comes.
    struct Client<'a>(&'a [u8]);

    impl Read for Client<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Client<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn requests_are_read_or_refused() {
        let json = "Host: localhost\r\nContent-Type: application/json\r\n";
        let huge = MAX_BODY + 1;
        type Row<'a> = (String, Result<(&'a str, &'a str), u16>);
        let rows: Vec<Row<'_>> = vec![
            ("GET /config HTTP/1.1\r\nHost: localhost:8443\r\n\r\n".to_owned(), Ok(("/config", ""))),
            (
                format!("POST /config HTTP/1.1\r\n{json}Content-Length: 2\r\n\r\n{{}}more"),
                Ok(("/config", "{}")),
            ),
            (
                format!("POST /a?b HTTP/1.1\r\n{json}Expect: 100-continue\r\nContent-Length: 1\r\n\r\n1"),
                Ok(("/a", "1")),
            ),
            (format!("POST / HTTP/1.1\r\n{json}Content-Length: {huge}\r\n\r\n"), Err(413)),
            (format!("POST / HTTP/1.1\r\n{json}Content-Length: -1\r\n\r\n"), Err(400)),
            (format!("POST / HTTP/1.1\r\n{json}Content-Length: 1\r\nContent-Length: 2\r\n\r\n12"), Err(400)),
            (format!("POST / HTTP/1.1\r\n{json}Transfer-Encoding: chunked\r\n\r\n"), Err(411)),
            ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}".to_owned(), Err(415)),
            ("POST / HTTP/1.1\r\nHost: [::1]\r\nContent-Type: text/plain\r\n\r\n".to_owned(), Err(415)),
            ("GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n".to_owned(), Err(421)),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), Err(421)),
            (format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1)), Err(431)),
            (format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(MAX_HEAD)), Err(431)),
            ("\u{0}\r\n\r\n".to_owned(), Err(400)),
            // The client leaves in the middle.
            (format!("POST / HTTP/1.1\r\n{json}Content-Length: 3\r\n\r\n{{}}"), Err(0)),
            ("GET / HTTP/1.1\r\n".to_owned(), Err(0)),
        ];
        for (text, expected) in rows {
            let found = read(&mut Client(text.as_bytes()), "")
                .map(|it| (it.path, String::from_utf8(it.body).unwrap_or_default()));
            let found = found.map_err(|wrong| match wrong {
                Wrong::Gone => 0,
                Wrong::Refused(refusal) => refusal.status,
            });
            let expected = expected.map(|(path, body)| (path.to_owned(), body.to_owned()));
            assert_eq!(found, expected, "{}", &text[..text.len().min(200)]);
        }
    }
}
