//! What a request is for: host, port and path, each in one form only. What is judged is what the server is then asked for.

use super::Fault;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Bytes of a host's name at most (RFC 1035 section 2.3.4).
const LONGEST_NAME: usize = 253;

/// A host as a request names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Host {
    /// A name in small letters, without a dot at its end.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(v4)) => write!(f, "{v4}"),
            Host::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
        }
    }
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port; `None` where it is not written.
    pub port: Option<u16>,
}

/// Path and query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path {
    /// The path as the server is asked for it: without `.` and `..`, with letters and digits as themselves and other escapes in capitals.
    pub path: String,
    /// The path as rules see it: escapes are what they mean, and several slashes are one.
    pub judged: String,
    /// What follows the `?`, as it was sent.
    pub query: Option<String>,
}

/// The target of a request (RFC 9112 section 3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `/path`: the host is in a field.
    Origin(Path),
    /// `http://host/path`: to a proxy.
    Absolute(Authority, Path),
    /// `host:port`, of `CONNECT`.
    Authority(Authority),
    /// `*`, of `OPTIONS`.
    Asterisk,
}

/// Reads the target of a request.
///
/// # Errors
/// It has a form that this method does not have, or that two readers could understand differently.
pub fn target(method: &str, text: &str) -> Result<Target, Fault> {
    const WRONG: Fault = Fault::malformed("target");
    if method == "CONNECT" {
        let authority = authority(text)?;
        return if authority.port.is_some() { Ok(Target::Authority(authority)) } else { Err(WRONG) };
    }
    if text == "*" {
        return if method == "OPTIONS" { Ok(Target::Asterisk) } else { Err(WRONG) };
    }
    if text.starts_with('/') {
        return Ok(Target::Origin(path(text)?));
    }
    let Some((scheme, rest)) = text.split_once("://") else { return Err(WRONG) };
    if !scheme.eq_ignore_ascii_case("http") {
        // What TLS protects is asked for by CONNECT, and other protocols have other gateways.
        return Err(Fault::malformed("scheme"));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, tail) = rest.split_at(end);
    let tail = if tail.is_empty() { "/".to_owned() } else { tail.to_owned() };
    let tail = if tail.starts_with('?') { format!("/{tail}") } else { tail };
    Ok(Target::Absolute(authority(host)?, path(&tail)?))
}

/// Reads `host` or `host:port`.
///
/// # Errors
/// It names nobody, or it has a form that some take for an address and others for a name (`127.1`, `0x7f000001`, `user@host`).
pub fn authority(text: &str) -> Result<Authority, Fault> {
    const WRONG: Fault = Fault::malformed("host");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inner, after) = rest.split_once(']').ok_or(WRONG)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| WRONG)?;
            let port = match after {
                "" => None,
                after => Some(after.strip_prefix(':').ok_or(WRONG)?),
            };
            // IPv4 in the clothes of IPv6 is IPv4 to the kernel, and to rules.
            (Host::Address(IpAddr::from(address).to_canonical()), port)
        }
        None => {
            let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
            (named(host).ok_or(WRONG)?, port)
        }
    };
    let port = match port {
        None => None,
        Some(digits) if digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let port: u16 = digits.parse().map_err(|_| WRONG)?;
            if port == 0 || digits.starts_with('0') {
                return Err(WRONG);
            }
            Some(port)
        }
        Some(_) => return Err(WRONG),
    };
    Ok(Authority { host, port })
}

/// A name, or an IPv4 address with four decimal parts.
fn named(text: &str) -> Option<Host> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_good = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > LONGEST_NAME || !name.split('.').all(is_good) {
        return None;
    }
    let last = name.rsplit('.').next()?;
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if !is_number {
        return Some(Host::Name(name));
    }
    // Libraries take `127.1`, `2130706433` and `0x7f.1` for addresses. This parser takes four decimal parts without zeros before them.
    text.parse().ok().map(|address| Host::Address(IpAddr::V4(address)))
}

/// Reads a path that begins with `/`, and its query.
///
/// # Errors
/// It has a form that servers are known to understand differently.
pub fn path(text: &str) -> Result<Path, Fault> {
    let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
    // A backslash is a slash to some servers, and a fragment is nothing that is sent.
    let harmless = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>\\`".contains(&byte);
    if !path.bytes().all(harmless)
        || !query.unwrap_or_default().bytes().all(|byte| harmless(byte) || byte == b'`')
    {
        return Err(Fault::malformed("target"));
    }
    let mut kept: Vec<(String, String)> = Vec::new();
    let (mut has_dots, mut has_empty) = (false, false);
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (i, segment) in segments.iter().enumerate() {
        let is_last = i + 1 == segments.len();
        let (written, meant) = unescaped(segment)?;
        if !matches!(meant.as_str(), "." | "..") {
            has_empty |= written.is_empty() && !is_last;
            kept.push((written, meant));
            continue;
        }
        has_dots = true;
        if meant == ".." && kept.pop().is_none() {
            // RFC 3986 section 5.2.4 stays at the root. Servers have not always done so.
            return Err(Fault::malformed("above-root"));
        }
        if is_last {
            kept.push(Default::default());
        }
    }
    if has_dots && has_empty {
        // `/a//../b` is `/a/b` to one server, and `/b` to another that makes one slash of two before.
        return Err(Fault::malformed("dots-and-empty-segments"));
    }
    let last = kept.len().saturating_sub(1);
    let judged = kept.iter().enumerate().filter(|(i, (_, meant))| *i == last || !meant.is_empty());
    let judged: Vec<&str> = judged.map(|(_, (_, meant))| meant.as_str()).collect();
    let written: Vec<&str> = kept.iter().map(|(written, _)| written.as_str()).collect();
    Ok(Path {
        path: format!("/{}", written.join("/")),
        judged: format!("/{}", judged.join("/")),
        query: query.map(str::to_owned),
    })
}

/// A segment as it is sent on, and what it means.
fn unescaped(segment: &str) -> Result<(String, String), Fault> {
    const WRONG: Fault = Fault::malformed("escape");
    let (mut written, mut meant) = (String::new(), Vec::new());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            written.push(char::from(byte));
            meant.push(byte);
            continue;
        }
        let digits = rest.get(..2).ok_or(WRONG)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(WRONG);
        let value = (digit(digits[0])? * 16 + digit(digits[1])?) as u8;
        rest = &rest[2..];
        if value < 0x20 || value == 0x7f {
            return Err(WRONG);
        }
        if matches!(value, b'/' | b'\\') {
            // A part of a name to one server, and a slash to another.
            return Err(Fault::malformed("escaped-slash"));
        }
        if value.is_ascii_alphanumeric() || b"-._~".contains(&value) {
            written.push(char::from(value));
        } else {
            written.push_str(&format!("%{value:02X}"));
        }
        meant.push(value);
    }
    if is_overlong(&meant) {
        return Err(Fault::malformed("overlong"));
    }
    let meant = String::from_utf8_lossy(&meant).into_owned();
    let twice = meant.to_ascii_lowercase();
    if ["%2e", "%2f", "%5c", "%00", "%25"].iter().any(|escape| twice.contains(escape)) {
        return Err(Fault::malformed("escaped-twice"));
    }
    // To some servers `..;x` is `..`, with a parameter.
    if meant.contains(';') && matches!(meant.split(';').next(), Some("." | "..")) {
        return Err(Fault::malformed("hidden-dots"));
    }
    Ok((written, meant))
}

/// Whether bytes have a character in more bytes of UTF-8 than it takes (RFC 3629 section 10): to some servers `%C0%AF` is a slash.
fn is_overlong(bytes: &[u8]) -> bool {
    bytes
        .windows(2)
        .any(|two| matches!(two, [0xc0 | 0xc1, 0x80..=0xbf] | [0xe0, 0x80..=0x9f] | [0xf0, 0x80..=0x8f]))
}

impl Path {
    /// What rules would see if what follows a `;` in each segment were parameters, which some servers take away; `None` if there are none.
    pub fn without_parameters(&self) -> Option<String> {
        if !self.judged.contains(';') {
            return None;
        }
        let segments: Vec<&str> =
            self.judged.split('/').map(|it| it.split(';').next().unwrap_or_default()).collect();
        let last = segments.len() - 1;
        let kept = segments.iter().enumerate().filter(|(i, it)| *i == last || !it.is_empty());
        let kept: Vec<&str> = kept.map(|(_, it)| *it).collect();
        Some(format!("/{}", kept.join("/")))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        self.query.as_ref().map_or(Ok(()), |query| write!(f, "?{query}"))
    }
}
