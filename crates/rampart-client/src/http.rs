//! HTTP/1.1 as both ends of the socket speak it: one request a connection, a body of a known length. Heads are parsed by
//! `httparse`; what is here bounds them and carries bodies. Knows nothing of what is asked.

use std::io::{self, ErrorKind, Read, Write};

/// Bytes of a head at most.
const MAX_HEAD: usize = 16 << 10;

/// Header fields of a head at most.
const MAX_FIELDS: usize = 64;

/// Bytes of a body at most: a policy of a million rules has about half of that.
pub const MAX_BODY: usize = 256 << 20;

/// The header field by which a program says for whom it asks, for example the user of a web page. The daemon records it as a claim.
pub const ACTING_FOR: &str = "Rampart-Acting-For";

/// A request as it came in.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Method, for example `GET`.
    pub method: String,
    /// Path, for example `/v1/status`.
    pub path: String,
    /// What follows the `?`, as it came.
    pub query: String,
    /// The one `Host` field; `None` if there is none, or more than one.
    pub host: Option<String>,
    /// Whom the client says that it acts for (the field [`ACTING_FOR`]), as it came; nothing proves it.
    pub acting_for: Option<String>,
    /// Body; empty if there is none.
    pub body: Vec<u8>,
}

/// A response as it came in.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    /// Status, for example 200.
    pub status: u16,
    /// Body.
    pub body: Vec<u8>,
}

/// Why a message could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The other end went away, or was too slow.
    Io(io::Error),
    /// It is not what it should be: the status to answer with, and why.
    Wrong(u16, String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

/// A head up to its empty line, and what came along of the body.
struct Head {
    bytes: Vec<u8>,
    early: Vec<u8>,
}

/// What of a head matters here.
#[derive(Default)]
struct Fields {
    length: Option<usize>,
    transfer_encoding: bool,
    expects_continue: bool,
    hosts: Vec<String>,
    acting_for: Option<String>,
}

/// Reads a request. `None` when the other end left without asking.
///
/// # Errors
/// [`ReadError`].
pub fn read_request(stream: &mut (impl Read + Write)) -> Result<Option<Request>, ReadError> {
    Ok(read_admitted(stream, |_, _, _| Ok(()))?.map(|(request, ())| request))
}

/// Reads a request whose body is read only if `admit` lets it in, by method, path and length. What `admit` gives is kept while the
/// body is read, and given back with the request.
///
/// # Errors
/// [`ReadError`]; that of `admit` among them.
pub fn read_admitted<T>(
    stream: &mut (impl Read + Write),
    admit: impl FnOnce(&str, &str, usize) -> Result<T, ReadError>,
) -> Result<Option<(Request, T)>, ReadError> {
    let Some(Head { bytes, early }) = read_head(stream)? else { return Ok(None) };
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    parsed.parse(&bytes).map_err(|error| ReadError::Wrong(400, format!("this is not HTTP/1.1: {error}")))?;
    let target = parsed.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (method, path, query) =
        (parsed.method.unwrap_or_default().to_owned(), path.to_owned(), query.to_owned());
    let fields = Fields::of(parsed.headers)?;
    if fields.transfer_encoding {
        return Err(ReadError::Wrong(411, "send the body whole, with Content-Length".to_owned()));
    }
    let length = fields.length.unwrap_or(0);
    if length > MAX_BODY {
        return Err(ReadError::Wrong(413, format!("the body is longer than {MAX_BODY} bytes")));
    }
    let admitted = admit(&method, &path, length)?;
    if fields.expects_continue && early.is_empty() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = read_body(stream, early, length)?;
    let Fields { acting_for, mut hosts, .. } = fields;
    let host = hosts.pop().filter(|_| hosts.is_empty());
    Ok(Some((Request { method, path, query, host, acting_for, body }, admitted)))
}

/// Writes a request.
///
/// # Errors
/// When the other end went away.
pub fn write_request(stream: &mut impl Write, method: &str, target: &str, body: &[u8]) -> io::Result<()> {
    write_request_for(stream, method, target, None, body)
}

/// Writes a request for somebody: what is no ASCII letter, digit or sign of his name is left out.
///
/// # Errors
/// As [`write_request`].
pub fn write_request_for(
    stream: &mut impl Write,
    method: &str,
    target: &str,
    acting_for: Option<&str>,
    body: &[u8],
) -> io::Result<()> {
    let plain = |name: &str| name.chars().filter(char::is_ascii_graphic).collect::<String>();
    let acting_for = acting_for.map(|name| format!("{ACTING_FOR}: {}\r\n", plain(name))).unwrap_or_default();
    let content = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: rampart\r\nConnection: close\r\n{acting_for}{content}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}

/// Reads a response.
///
/// # Errors
/// [`ReadError`]; its status means nothing here.
pub fn read_response(stream: &mut impl Read) -> Result<Response, ReadError> {
    let ended = || ReadError::Io(ErrorKind::UnexpectedEof.into());
    let Head { bytes, early } = read_head(stream)?.ok_or_else(ended)?;
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    parsed
        .parse(&bytes)
        .map_err(|error| ReadError::Wrong(502, format!("the answer is not HTTP/1.1: {error}")))?;
    let status = parsed.code.unwrap_or_default();
    let length = Fields::of(parsed.headers)?.length;
    let length =
        length.ok_or_else(|| ReadError::Wrong(502, "the answer has no Content-Length".to_owned()))?;
    let body = read_body(stream, early, length)?;
    Ok(Response { status, body })
}

/// Content type of bodies unless another is said.
pub const JSON: &str = "application/json";

/// Writes a response with a body of a content type. `allow` names the methods of a path where the status is 405.
///
/// # Errors
/// When the other end went away.
pub fn write_response(
    stream: &mut impl Write,
    status: u16,
    allow: Option<&str>,
    (content, body): (&str, &[u8]),
) -> io::Result<()> {
    let allow = allow.map(|methods| format!("Allow: {methods}\r\n")).unwrap_or_default();
    let (reason, length) = (reason(status), body.len());
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content}\r\n{allow}Connection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        408 => "Request Timeout",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// Reads up to the empty line. `None` when nothing came at all.
fn read_head(stream: &mut impl Read) -> Result<Option<Head>, ReadError> {
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = match stream.read(&mut chunk) {
            // The process was stopped or frozen meanwhile, as by Ctrl-Z.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 && head.is_empty() {
            return Ok(None);
        }
        if read == 0 {
            return Err(ReadError::Wrong(400, "the head ends before its empty line".to_owned()));
        }
        // The empty line may have come in two parts.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(&chunk[..read]);
        let end = head[from..].windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| from + at + 4);
        if end.unwrap_or(head.len()) > MAX_HEAD {
            return Err(ReadError::Wrong(431, format!("the head is longer than {MAX_HEAD} bytes")));
        }
        if let Some(end) = end {
            let early = head.split_off(end);
            return Ok(Some(Head { bytes: head, early }));
        }
    }
}

fn read_body(stream: &mut impl Read, mut body: Vec<u8>, length: usize) -> Result<Vec<u8>, ReadError> {
    if length > MAX_BODY {
        return Err(ReadError::Wrong(413, format!("the body is longer than {MAX_BODY} bytes")));
    }
    body.truncate(length);
    let rest = (length - body.len()) as u64;
    stream.take(rest).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(ReadError::Wrong(
            400,
            format!("the body has {} bytes, and {length} were announced", body.len()),
        ));
    }
    Ok(body)
}

impl Fields {
    fn of(headers: &[httparse::Header<'_>]) -> Result<Self, ReadError> {
        let mut fields = Self::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let value = || std::str::from_utf8(header.value).unwrap_or_default().trim();
            if is("content-length") {
                let length = value().parse().map_err(|_| {
                    ReadError::Wrong(400, format!("Content-Length is no number of bytes: `{}`", value()))
                })?;
                if fields.length.is_some_and(|before| before != length) {
                    return Err(ReadError::Wrong(400, "Content-Length is there twice".to_owned()));
                }
                fields.length = Some(length);
            }
            if is(ACTING_FOR) {
                fields.acting_for = Some(value().to_owned());
            }
            if is("host") {
                fields.hosts.push(value().to_owned());
            }
            fields.transfer_encoding |= is("transfer-encoding");
            fields.expects_continue |= is("expect") && value().eq_ignore_ascii_case("100-continue");
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time, each time at the second attempt, and keeps what is written.
    struct Stuttering<'b> {
        bytes: &'b [u8],
        at_once: usize,
        is_interrupted: bool,
        written: Vec<u8>,
    }

    impl Read for Stuttering<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.is_interrupted = !self.is_interrupted;
            if self.is_interrupted {
                return Err(ErrorKind::Interrupted.into());
            }
            let now = self.at_once.min(self.bytes.len()).min(buffer.len());
            buffer[..now].copy_from_slice(&self.bytes[..now]);
            self.bytes = &self.bytes[now..];
            Ok(now)
        }
    }

    impl Write for Stuttering<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn request(bytes: &[u8], at_once: usize) -> (String, Vec<u8>) {
        let mut stream = Stuttering { bytes, at_once, is_interrupted: false, written: Vec::new() };
        let read = match read_request(&mut stream) {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(r)) => {
                format!("{} {} ?{} {}", r.method, r.path, r.query, String::from_utf8_lossy(&r.body))
            }
            Err(ReadError::Wrong(status, why)) => format!("{status} {why}"),
            Err(ReadError::Io(error)) => format!("io {error}"),
        };
        (read, stream.written)
    }

    #[test]
    fn requests_are_read_however_they_are_cut() {
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(MAX_HEAD));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: a\r\n".repeat(MAX_FIELDS + 1));
        for (bytes, expected) in [
            ("", "nothing"),
            ("GET /v1/status HTTP/1.1\r\n\r\n", "GET /v1/status ? "),
            ("GET /s?a=b&c HTTP/1.1\r\nHost: x\r\n\r\n", "GET /s ?a=b&c "),
            ("PUT /p HTTP/1.1\r\ncontent-LENGTH: 4\r\n\r\nbody", "PUT /p ? body"),
            ("PUT /p HTTP/1.1\r\nContent-Length: 2\r\n\r\nbody", "PUT /p ? bo"),
            (
                "PUT /p HTTP/1.1\r\nContent-Length: 9\r\n\r\nbody",
                "400 the body has 4 bytes, and 9 were announced",
            ),
            (
                "PUT /p HTTP/1.1\r\nContent-Length: -9\r\n\r\n",
                "400 Content-Length is no number of bytes: `-9`",
            ),
            (
                "PUT /p HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                "400 Content-Length is there twice",
            ),
            (
                "PUT /p HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n",
                "413 the body is longer than 268435456 bytes",
            ),
            (
                "PUT /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "411 send the body whole, with Content-Length",
            ),
            ("GET / HTTP/1.1\r\n", "400 the head ends before its empty line"),
            ("hello\r\n\r\n", "400 this is not HTTP/1.1: invalid token"),
            ("GET / HTTP/3.0\r\n\r\n", "400 this is not HTTP/1.1: invalid HTTP version"),
            (long.as_str(), "431 the head is longer than 16384 bytes"),
            (many.as_str(), "400 this is not HTTP/1.1: too many headers"),
        ] {
            for at_once in [1, 3, 10_000] {
                assert_eq!(
                    request(bytes.as_bytes(), at_once).0,
                    expected,
                    "{at_once} at once of {bytes:.60}"
                );
            }
        }
    }

    #[test]
    fn a_client_that_waits_before_a_large_body_is_asked_to_go_on() {
        let waiting = b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok";
        let head = waiting.len() - 2;
        assert_eq!(request(waiting, head).1, b"HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(request(waiting, 10_000), ("PUT / ? ok".to_owned(), Vec::new()));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        write_request(&mut bytes, "PUT", "/v1/policy?x=y", b"{}").unwrap();
        assert_eq!(request(&bytes, 7).0, "PUT /v1/policy ?x=y {}");
        for status in [200, 405, 500] {
            let mut bytes = Vec::new();
            write_response(&mut bytes, status, (status == 405).then_some("GET"), (JSON, b"{\"a\":1}"))
                .unwrap();
            let response = read_response(&mut bytes.as_slice()).unwrap();
            assert_eq!(response, Response { status, body: b"{\"a\":1}".to_vec() });
        }
        assert!(matches!(read_response(&mut &b""[..]), Err(ReadError::Io(_))));
        assert!(matches!(read_response(&mut &b"HTTP/1.1 200 OK\r\n\r\n"[..]), Err(ReadError::Wrong(502, _))));
    }
}
