//! HTTP/1.1 as far as pages with forms need it: heads and bodies of bounded size, one request a connection. Heads are parsed by
//! `httparse`. Knows nothing of users; how long a client may take is the stream's business.

use http_serving::reason;
use std::io::{self, Read, Write};

/// Bytes of a head at most.
pub const MAX_HEAD: usize = 16 << 10;

/// Header fields of a head at most.
const MAX_FIELDS: usize = 64;

/// Bytes of a form at most, but for policies.
pub const MAX_FORM: usize = 16 << 10;

/// Bytes of a form with a policy at most. Letters of other alphabets take six bytes each in a form.
pub const MAX_POLICY_FORM: usize = 6 << 20;

/// A page may load its own style, script and pictures, talk to its own server, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// How something is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A page.
    Get,
    /// The head of a page.
    Head,
    /// A form that may change something.
    Post,
}

/// Keys and values of a query or a form, decoded, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `a=1&b=2`.
    pub fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// The first value of a key, without the spaces around it; empty if there is none.
    pub fn get(&self, key: &str) -> &str {
        self.raw(key).trim()
    }

    /// The first value of a key as it came; empty if there is none.
    pub fn raw(&self, key: &str) -> &str {
        self.0.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Path as it came, for example `/rules`.
    pub path: String,
    /// What follows the `?`.
    pub query: Fields,
    /// The body, which is a form.
    pub form: Fields,
    /// `Host`, for example `192.0.2.1:8443`.
    pub host: String,
    /// `Origin`; `None` if the client sends none.
    pub origin: Option<String>,
    /// `Cookie`.
    pub cookies: String,
    /// Whether a script asks for what has changed, and no user (`Rampart-Live`).
    pub is_live: bool,
}

impl Request {
    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let pairs = self.cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// Why there is no request.
#[derive(Debug)]
pub enum Wrong {
    /// The client left, or was too slow.
    Gone,
    /// It is answered so.
    Refused(Answer),
}

impl From<io::Error> for Wrong {
    fn from(_: io::Error) -> Self {
        Wrong::Gone
    }
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status, for example 200.
    pub status: u16,
    /// Content type.
    pub kind: &'static str,
    /// Body.
    pub body: String,
    /// `Location`: a path of ours.
    pub location: Option<String>,
    /// `Set-Cookie`.
    pub cookie: Option<String>,
    /// Whether a browser may keep it: files that are the same for everybody.
    pub is_kept: bool,
}

impl Answer {
    /// An answer with a body.
    pub fn new(status: u16, kind: &'static str, body: String) -> Self {
        Self { status, kind, body, location: None, cookie: None, is_kept: false }
    }

    /// A page.
    pub fn html(status: u16, body: String) -> Self {
        Self::new(status, "text/html; charset=utf-8", body)
    }

    /// A line of text.
    pub fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    /// Another page, which the browser asks for next.
    pub fn see(path: &str) -> Self {
        Self { location: Some(path.to_owned()), ..Self::text(303, "see the other page") }
    }
}

/// Reads a request. `admit` says how long a body may be, once the head is there: nobody's body takes memory before that.
///
/// # Errors
/// [`Wrong`].
pub fn read(stream: &mut impl Read, admit: impl FnOnce(&Request) -> usize) -> Result<Request, Wrong> {
    let mut bytes = Vec::new();
    let mut piece = [0; 2048];
    let (mut request, body) = loop {
        if let Some(parsed) = parse(&bytes) {
            break parsed.map_err(Wrong::Refused)?;
        }
        if bytes.len() >= MAX_HEAD {
            return Err(refused(431, "the head of the request is too large"));
        }
        let room = piece.len().min(MAX_HEAD - bytes.len());
        let count = stream.read(&mut piece[..room])?;
        if count == 0 {
            return Err(Wrong::Gone);
        }
        bytes.extend_from_slice(&piece[..count]);
    };
    let Body { start, length } = body;
    if length == 0 {
        return Ok(request);
    }
    let most = admit(&request);
    if length > most {
        return Err(refused(413, &format!("the form is longer than {most} bytes")));
    }
    let mut form = bytes.split_off(start);
    form.truncate(length);
    let missing = (length - form.len()) as u64;
    if stream.take(missing).read_to_end(&mut form)? as u64 != missing {
        return Err(Wrong::Gone);
    }
    request.form = Fields::parse(&form);
    Ok(request)
}

fn refused(status: u16, why: &str) -> Wrong {
    Wrong::Refused(Answer::text(status, why))
}

/// Where a body begins among the bytes, and how long it is.
#[derive(Debug, PartialEq, Eq)]
struct Body {
    start: usize,
    length: usize,
}

/// The request in a head; `None` while the head is not whole.
fn parse(bytes: &[u8]) -> Option<Result<(Request, Body), Answer>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    match head.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(start)) => {
            Some(request(&head).map(|(request, length)| (request, Body { start, length })))
        }
        Err(httparse::Error::TooManyHeaders) => Some(Err(Answer::text(431, "too many header fields"))),
        Err(error) => Some(Err(Answer::text(400, &format!("this is not HTTP/1.1: {error}")))),
    }
}

fn request(head: &httparse::Request<'_, '_>) -> Result<(Request, usize), Answer> {
    let wrong = |why: &str| Answer::text(400, why);
    let one = |name: &str| -> Result<Option<String>, Answer> {
        let mut values = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let value = values.next().map(|field| String::from_utf8_lossy(field.value).trim().to_owned());
        if values.next().is_some() {
            return Err(wrong(&format!("{name} is there twice")));
        }
        Ok(value)
    };
    let method = match head.method.unwrap_or_default() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        _ => return Err(Answer::text(405, "only GET, HEAD and POST")),
    };
    let target = head.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(wrong("the target of a request begins with /"));
    }
    if one("transfer-encoding")?.is_some() {
        return Err(Answer::text(411, "send the form whole, with Content-Length"));
    }
    let length = one("content-length")?.unwrap_or_default();
    let length = match length.as_str() {
        "" => 0,
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().unwrap_or(usize::MAX),
        _ => return Err(wrong("Content-Length is no number of bytes")),
    };
    if length > 0 && method != Method::Post {
        return Err(wrong("a page is asked for without a body"));
    }
    let kind = one("content-type")?.unwrap_or_default().to_ascii_lowercase();
    if length > 0 && kind.split(';').next().map(str::trim) != Some("application/x-www-form-urlencoded") {
        return Err(Answer::text(415, "a form is application/x-www-form-urlencoded"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = Request {
        method,
        path: path.to_owned(),
        query: Fields::parse(query.as_bytes()),
        form: Fields::default(),
        host: one("host")?.unwrap_or_default(),
        origin: one("origin")?,
        cookies: one("cookie")?.unwrap_or_default(),
        is_live: one("rampart-live")?.is_some(),
    };
    Ok((request, length))
}

/// Writes an answer.
///
/// # Errors
/// The client does not take it in time.
pub fn write(stream: &mut impl Write, answer: &Answer, with_body: bool, is_tls: bool) -> io::Result<()> {
    let field = |name: &str, value: &Option<String>| {
        // What goes into a head is ours, and still no line of it may end early.
        let plain = |value: &String| value.chars().filter(|c| !c.is_control()).collect::<String>();
        value.as_ref().map(|value| format!("{name}: {}\r\n", plain(value))).unwrap_or_default()
    };
    let keep = if answer.is_kept { "private, max-age=300" } else { "no-store" };
    let only_tls = if is_tls { "Strict-Transport-Security: max-age=31536000\r\n" } else { "" };
    // With `no-referrer` browsers say `Origin: null` of forms.
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nContent-Security-Policy: {POLICY}\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: same-origin\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n{only_tls}\
         Cache-Control: {keep}\r\nConnection: close\r\n{}{}{}\r\n",
        answer.status,
        reason(answer.status),
        answer.kind,
        answer.body.len(),
        if answer.status == 405 { "Allow: GET, HEAD, POST\r\n" } else { "" },
        field("Location", &answer.location),
        field("Set-Cookie", &answer.cookie),
    );
    stream.write_all(head.as_bytes())?;
    if with_body {
        stream.write_all(answer.body.as_bytes())?;
    }
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(text: &str) -> Result<(Method, String, String), u16> {
        match read(&mut text.as_bytes(), |_| 8) {
            Ok(request) => Ok((request.method, request.path.clone(), request.form.raw("a").to_owned())),
            Err(Wrong::Gone) => Err(0),
            Err(Wrong::Refused(answer)) => Err(answer.status),
        }
    }

    #[test]
    fn requests_are_read_or_refused() {
        let form = "Host: a\r\nContent-Type: application/x-www-form-urlencoded\r\n";
        let page = |method| Ok((method, "/".to_owned(), String::new()));
        let rows = [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), page(Method::Get)),
            ("HEAD /?x=1 HTTP/1.1\r\n\r\n".to_owned(), page(Method::Head)),
            (
                format!("POST / HTTP/1.1\r\n{form}Content-Length: 5\r\n\r\na=%26more"),
                Ok((Method::Post, "/".to_owned(), "&".to_owned())),
            ),
            (format!("POST / HTTP/1.1\r\n{form}\r\n"), page(Method::Post)),
            (format!("POST / HTTP/1.1\r\n{form}Content-Length: 9\r\n\r\na=1234567"), Err(413)),
            (format!("POST / HTTP/1.1\r\n{form}Content-Length: 99999999999999999999999\r\n\r\n"), Err(413)),
            (format!("POST / HTTP/1.1\r\n{form}Content-Length: -1\r\n\r\n"), Err(400)),
            (format!("POST / HTTP/1.1\r\n{form}Content-Length: 1\r\nContent-Length: 1\r\n\r\na"), Err(400)),
            (format!("POST / HTTP/1.1\r\n{form}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), Err(411)),
            (format!("POST / HTTP/1.1\r\n{form}Content-Length: 8\r\n\r\na=1"), Err(0)),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na=1".to_owned(), Err(415)),
            (
                "POST / HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\na=1".to_owned(),
                Err(415),
            ),
            ("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\na=1".to_owned(), Err(400)),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(), Err(400)),
            ("GET / HTTP/1.1\r\nCookie: a=1\r\nCookie: a=2\r\n\r\n".to_owned(), Err(400)),
            ("GET http://a/ HTTP/1.1\r\n\r\n".to_owned(), Err(400)),
            ("DELETE / HTTP/1.1\r\n\r\n".to_owned(), Err(405)),
            ("GET / HTTP/9.9\r\n\r\n".to_owned(), Err(400)),
            ("GET / HTTP/1.1\r\nHost: a\r\n".to_owned(), Err(0)),
            (format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1)), Err(431)),
            (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(MAX_HEAD)), Err(431)),
        ];
        for (text, expected) in rows {
            assert_eq!(status_of(&text), expected, "{}", &text[..text.len().min(200)]);
        }
    }

    #[test]
    fn a_cookie_is_the_whole_of_its_name() {
        let request = |cookies: &str| {
            let text = format!("GET / HTTP/1.1\r\nCookie: {cookies}\r\n\r\n");
            let request = read(&mut text.as_bytes(), |_| 0).unwrap();
            request.cookie("id").map(str::to_owned)
        };
        for (cookies, expected) in
            [("id=1", Some("1")), ("xid=2; id=1", Some("1")), ("id", None), ("a=id=3", None), ("", None)]
        {
            assert_eq!(request(cookies).as_deref(), expected, "{cookies}");
        }
    }

    #[test]
    fn a_head_has_no_line_of_others() {
        let answer = Answer { location: Some("/x\r\nSet-Cookie: a=1".to_owned()), ..Answer::see("/") };
        let mut bytes = Vec::new();
        write(&mut bytes, &answer, true, true).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("Location: /xSet-Cookie: a=1\r\n") && !text.contains("\nSet-Cookie"), "{text}");
        for field in ["X-Frame-Options: DENY", "script-src 'self'", "frame-ancestors 'none'", "no-store"] {
            assert!(text.contains(field), "{field}: {text}");
        }
        assert!(!text.contains("unsafe"), "{text}");
    }
}
