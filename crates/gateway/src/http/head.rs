//! Heads of requests and answers. httparse reads them. It takes some forms that others read differently (a line that ends by LF alone, empty
//! lines before a request), so these are refused before it is asked; what fields mean together is decided after.

use super::Fault;
use super::body::Length;
use super::field::{Field, Fields, is_token_byte};
use super::target::{self, Authority, Target};

/// Fields of a head at most that can be asked for.
pub const MOST_FIELDS: usize = 200;

/// Ranges of a file at most that a request asks for: some servers copy each, however they overlap (CVE-2011-3192).
const MOST_RANGES: usize = 64;
/// Fields that must not come in another form, which some programs take for them.
const NOT_TO_DISGUISE: [&str; 4] =
    ["content-length", "transfer-encoding", "proxy-authorization", "http2-settings"];

/// How large a head may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, with the line that ends it.
    pub bytes: usize,
    /// Fields, 1 to [`MOST_FIELDS`].
    pub fields: usize,
}

/// A request's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its method, as it was sent.
    pub method: String,
    /// What it is for.
    pub target: Target,
    /// The host that `Host` names.
    pub host: Option<Authority>,
    /// 0 or 1, of HTTP/1.
    pub minor: u8,
    /// Its fields.
    pub fields: Fields,
    /// What `Connection` names, in small letters.
    pub nominated: Vec<String>,
    /// How long its body is.
    pub body: Length,
    /// Whether the client wants to ask for more on this connection.
    pub persists: bool,
    /// Whether the client waits for a word before it sends the body.
    pub expects_continue: bool,
}

/// An answer's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status, 100 to 999.
    pub status: u16,
    /// What the server says about it.
    pub reason: String,
    /// Its fields.
    pub fields: Fields,
    /// What `Connection` names, in small letters.
    pub nominated: Vec<String>,
    /// How long its body is.
    pub body: Length,
    /// Whether the server wants to be asked for more on this connection.
    pub persists: bool,
}

/// Where a head ends: the number of bytes with the empty line.
pub fn end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Refuses bytes of a head in which lines end otherwise than by CR LF, or go on in the next one (obs-fold), or that have a NUL.
///
/// # Errors
/// Which of these it is.
pub fn strict_lines(bytes: &[u8]) -> Result<(), Fault> {
    for (i, byte) in bytes.iter().enumerate() {
        let (before, after) = (i.checked_sub(1).map(|i| bytes[i]), bytes.get(i + 1));
        match byte {
            0 => return Err(Fault::malformed("nul")),
            b'\n' if before != Some(b'\r') => return Err(Fault::malformed("bare-lf")),
            b'\r' if after.is_some_and(|after| *after != b'\n') => return Err(Fault::malformed("bare-cr")),
            b'\n' if matches!(after, Some(b' ' | b'\t')) => return Err(Fault::malformed("folded-field")),
            _ => {}
        }
        if *byte == b'\n' && i >= 3 && bytes[i - 3..=i] == *b"\r\n\r\n" {
            break;
        }
    }
    Ok(())
}

/// The bytes of a whole head, if they have come.
fn whole(bytes: &[u8], limits: Limits) -> Result<Option<&[u8]>, Fault> {
    const TOO_LARGE: Fault = Fault::with_status(431, "head-too-large");
    if matches!(bytes.first(), Some(b'\r' | b'\n' | b' ' | b'\t')) {
        return Err(Fault::malformed("empty-line"));
    }
    let seen = &bytes[..bytes.len().min(limits.bytes)];
    strict_lines(seen)?;
    match end(seen) {
        Some(end) => Ok(Some(&seen[..end])),
        None if bytes.len() < limits.bytes => Ok(None),
        None => Err(TOO_LARGE),
    }
}

/// Reads a request's head: with how many bytes it has, or `None` if more have to come.
///
/// # Errors
/// It is none that everybody understands alike, or it is too large.
pub fn request(bytes: &[u8], limits: Limits) -> Result<Option<(Request, usize)>, Fault> {
    let Some(head) = whole(bytes, limits)? else { return Ok(None) };
    let mut room = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut parsed = httparse::Request::new(&mut room[..limits.fields.min(MOST_FIELDS)]);
    is_whole(parsed.parse(head), head.len())?;
    let (Some(method), Some(text), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(Fault::malformed("request-line"));
    };
    if head.iter().take_while(|byte| **byte != b'\r').filter(|byte| **byte == b' ').count() != 2 {
        return Err(Fault::malformed("request-line"));
    }
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        // `delete` is another method than `DELETE` (RFC 9110 section 9.1), and the same to some servers.
        return Err(Fault::malformed("method-case"));
    }
    let fields = fields(parsed.headers)?;
    let nominated = fields.nominated()?;
    check_ranges(&fields)?;
    let (target, host) = (target::target(method, text)?, host(&fields, minor)?);
    if let (Target::Absolute(one, _) | Target::Authority(one), Some(other)) = (&target, &host) {
        // RFC 9112 section 3.2.2 has a proxy ignore `Host`; some servers do not.
        // Where `Host` names no port, CONNECT's target has one all the same.
        let port = if method == "CONNECT" { one.port } else { Some(one.port.unwrap_or(80)) };
        let same = one.host == other.host
            && other.port.or(if method == "CONNECT" { port } else { Some(80) }) == port;
        if !same {
            return Err(Fault::malformed("target-and-host"));
        }
    }
    let body = request_body(&fields, minor)?;
    if method == "CONNECT" && body != Length::None {
        return Err(Fault::malformed("body-of-connect"));
    }
    if method == "TRACE" && body != Length::None {
        return Err(Fault::malformed("body-of-trace"));
    }
    let expects_continue = match fields.one("expect", Fault::malformed("expect"))? {
        None => false,
        Some(field) if field.value.eq_ignore_ascii_case(b"100-continue") => minor > 0,
        Some(_) => return Err(Fault::with_status(417, "expectation")),
    };
    let persists = if minor > 0 {
        !Fields::has_option(&nominated, "close")
    } else {
        Fields::has_option(&nominated, "keep-alive")
    };
    let method = method.to_owned();
    let request =
        Request { method, target, host, minor, fields, nominated, body, persists, expects_continue };
    Ok(Some((request, head.len())))
}

/// Reads the head of an answer to a request of a method.
///
/// # Errors
/// It is none that everybody understands alike, or it is too large.
pub fn answer(method: &str, bytes: &[u8], limits: Limits) -> Result<Option<(Answer, usize)>, Fault> {
    let Some(head) = whole(bytes, limits)? else { return Ok(None) };
    let mut room = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut parsed = httparse::Response::new(&mut room[..limits.fields.min(MOST_FIELDS)]);
    is_whole(parsed.parse(head), head.len())?;
    let (Some(status), Some(minor)) = (parsed.code, parsed.version) else {
        return Err(Fault::malformed("status-line"));
    };
    if !(100..=999).contains(&status) {
        return Err(Fault::malformed("status-line"));
    }
    let reason: String = parsed.reason.unwrap_or_default().chars().filter(char::is_ascii).collect();
    let fields = fields(parsed.headers)?;
    let nominated = fields.nominated()?;
    let body = answer_body(method, status, minor, &fields)?;
    let persists = body != Length::UntilClose
        && if minor > 0 {
            !Fields::has_option(&nominated, "close")
        } else {
            Fields::has_option(&nominated, "keep-alive")
        };
    Ok(Some((Answer { status, reason, fields, nominated, body, persists }, head.len())))
}

fn is_whole(parsed: Result<httparse::Status<usize>, httparse::Error>, length: usize) -> Result<(), Fault> {
    use httparse::Error;
    match parsed {
        Ok(httparse::Status::Complete(read)) if read == length => Ok(()),
        Ok(_) => Err(Fault::malformed("head")),
        Err(Error::TooManyHeaders) => Err(Fault::with_status(431, "too-many-fields")),
        Err(Error::HeaderName) => Err(Fault::malformed("field-name")),
        Err(Error::HeaderValue) => Err(Fault::malformed("field-value")),
        Err(Error::Version) => Err(Fault::with_status(505, "version")),
        Err(_) => Err(Fault::malformed("start-line")),
    }
}

fn fields(parsed: &[httparse::Header<'_>]) -> Result<Fields, Fault> {
    let one = |field: &httparse::Header<'_>| {
        if field.name.is_empty() || !field.name.bytes().all(is_token_byte) {
            return Err(Fault::malformed("field-name"));
        }
        let value = field.value.trim_ascii();
        if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(Fault::malformed("field-value"));
        }
        let field = Field { name: field.name.to_owned(), value: value.to_vec() };
        if NOT_TO_DISGUISE.iter().any(|name| field.means(name) && !field.is(name)) {
            return Err(Fault::malformed("disguised-field"));
        }
        Ok(field)
    };
    Ok(Fields(parsed.iter().map(one).collect::<Result<_, _>>()?))
}

fn check_ranges(fields: &Fields) -> Result<(), Fault> {
    const WRONG: Fault = Fault::malformed("ranges");
    let ranges = fields.one("range", WRONG)?;
    let count = ranges.map_or(0, |field| field.value.split(|byte| *byte == b',').count());
    if count > MOST_RANGES { Err(WRONG) } else { Ok(()) }
}

fn host(fields: &Fields, minor: u8) -> Result<Option<Authority>, Fault> {
    let Some(field) = fields.one("host", Fault::malformed("two-hosts"))? else {
        return if minor > 0 { Err(Fault::malformed("no-host")) } else { Ok(None) };
    };
    let text = std::str::from_utf8(&field.value).map_err(|_| Fault::malformed("host"))?;
    target::authority(text).map(Some)
}

/// Chunks, if that is what is said, and nothing else is: two answers to how long a body is are how a second request is hidden in it.
fn is_chunked(fields: &Fields, minor: u8) -> Result<bool, Fault> {
    let coding = fields.one("transfer-encoding", Fault::malformed("two-transfer-encodings"))?;
    let Some(coding) = coding else { return Ok(false) };
    if minor == 0 {
        return Err(Fault::malformed("transfer-encoding-of-1.0"));
    }
    if fields.all("content-length").next().is_some() {
        return Err(Fault::malformed("length-and-chunks"));
    }
    if !coding.value.eq_ignore_ascii_case(b"chunked") {
        return Err(Fault::with_status(501, "transfer-encoding"));
    }
    Ok(true)
}

fn length(fields: &Fields) -> Result<Option<u64>, Fault> {
    const WRONG: Fault = Fault::malformed("length");
    let Some(field) = fields.one("content-length", Fault::malformed("two-lengths"))? else { return Ok(None) };
    if field.value.is_empty() || !field.value.iter().all(u8::is_ascii_digit) {
        return Err(WRONG);
    }
    let text = std::str::from_utf8(&field.value).map_err(|_| WRONG)?;
    text.parse().map(Some).map_err(|_| WRONG)
}

fn request_body(fields: &Fields, minor: u8) -> Result<Length, Fault> {
    if is_chunked(fields, minor)? {
        return Ok(Length::Chunked);
    }
    Ok(length(fields)?.map_or(Length::None, Length::Bytes))
}

fn answer_body(method: &str, status: u16, minor: u8, fields: &Fields) -> Result<Length, Fault> {
    let is_chunked = is_chunked(fields, minor)?;
    let length = length(fields)?;
    let has_none = method == "HEAD" || status < 200 || matches!(status, 204 | 304);
    if has_none {
        return Ok(Length::None);
    }
    Ok(match length {
        _ if is_chunked => Length::Chunked,
        Some(length) => Length::Bytes(length),
        None => Length::UntilClose,
    })
}
