//! Replies of servers (RFC 959 section 4.2). They are read strictly and written anew, so that no client reads another reply in one.

use super::LONGEST_LINE;
use crate::http::Fault;

/// Bytes of a whole reply at most.
pub const LONGEST: usize = 16 * 1024;

/// Features (RFC 2389) that clients may learn of: those that the gateway carries.
const FEATURES: [&str; 10] = ["EPRT", "EPSV", "MDTM", "MFMT", "MLSD", "MLST", "REST", "SIZE", "TVFS", "UTF8"];

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// 100 to 599.
    pub code: u16,
    /// Its lines, without codes; one at least.
    pub lines: Vec<Vec<u8>>,
}

impl Reply {
    /// A reply of one line.
    pub fn new(code: u16, text: &str) -> Self {
        Self { code, lines: vec![text.as_bytes().to_vec()] }
    }

    /// Another one follows it.
    pub fn is_preliminary(&self) -> bool {
        self.code < 200
    }

    /// What was asked for is done.
    pub fn is_success(&self) -> bool {
        self.code / 100 == 2
    }

    /// The reply as it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (place, line) in self.lines.iter().enumerate() {
            let is_last = place + 1 == self.lines.len();
            if is_last || place == 0 {
                out.extend(self.code.to_string().as_bytes());
                out.push(if is_last { b' ' } else { b'-' });
            } else if line.first().is_some_and(u8::is_ascii_digit) {
                // Some clients would take it for the end.
                out.push(b' ');
            }
            out.extend(line);
            out.extend(b"\r\n");
        }
        out
    }

    /// The reply to `FEAT` without features that the gateway does not carry.
    pub fn known_features(mut self) -> Self {
        let count = self.lines.len();
        let mut place = 0;
        self.lines.retain(|line| {
            let is_edge = place == 0 || place + 1 == count;
            place += 1;
            let word = line.trim_ascii().split(|byte| *byte == b' ').next().unwrap_or_default();
            is_edge || FEATURES.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
        });
        self
    }
}

/// Reads a reply, and how many bytes it took; `None` if it is not whole yet.
///
/// # Errors
/// It is none, or a client could read something else.
pub fn read(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Fault> {
    const MALFORMED: Fault = Fault::with_status(421, "server-reply");
    const TOO_LONG: Fault = Fault::with_status(421, "server-reply-too-long");
    let mut found: Option<Reply> = None;
    let mut at = 0;
    while let Some(end) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        let line = &bytes[at..at + end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        at += end + 1;
        if line.len() > LONGEST_LINE || at > LONGEST {
            return Err(TOO_LONG);
        }
        // Servers list directories in replies (STAT), with tabs in some.
        if line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(MALFORMED);
        }
        let Some(reply) = &mut found else {
            let (code, rest) = coded(line).ok_or(MALFORMED)?;
            let (apart, text) = rest.split_first().unwrap_or((&b' ', b""));
            let reply = Reply { code, lines: vec![text.to_vec()] };
            match apart {
                b' ' => return Ok(Some((reply, at))),
                b'-' => found = Some(reply),
                _ => return Err(MALFORMED),
            }
            continue;
        };
        let same = coded(line).filter(|(code, _)| *code == reply.code);
        match same.map(|(_, rest)| rest.split_first().unwrap_or((&b' ', b""))) {
            Some((b' ', text)) => {
                reply.lines.push(text.to_vec());
                return Ok(found.map(|reply| (reply, at)));
            }
            Some((b'-', text)) => reply.lines.push(text.to_vec()),
            _ => reply.lines.push(line.to_vec()),
        }
    }
    if bytes.len() - at > LONGEST_LINE || bytes.len() > LONGEST { Err(TOO_LONG) } else { Ok(None) }
}

/// A code at the beginning of a line, and what follows it.
fn coded(line: &[u8]) -> Option<(u16, &[u8])> {
    let (code, rest) = line.split_at_checked(3)?;
    let is_code = code.iter().all(u8::is_ascii_digit) && (b'1'..=b'5').contains(&code[0]);
    let code = std::str::from_utf8(code).ok().filter(|_| is_code)?.parse().ok()?;
    Some((code, rest))
}
