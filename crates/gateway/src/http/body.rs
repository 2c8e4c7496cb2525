//! Where a body ends (RFC 9112 section 6), and bodies in chunks (section 7.1).

use super::Fault;
use super::head;
use std::ops::Range;

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// There is none.
    None,
    /// So many bytes; there may be 0.
    Bytes(u64),
    /// Chunks say it as they come.
    Chunked,
    /// It ends with the connection: of answers alone.
    UntilClose,
}

/// Digits of a chunk's size at most.
const DIGITS: usize = 16;
/// Bytes of the fields after the last chunk at most. They are read and not passed on.
const TRAILERS: usize = 8 * 1024;

/// A body in chunks as it is read: extensions of chunks are refused, because readers have disagreed where they end.
#[derive(Debug, Clone, Default)]
pub struct Chunked {
    state: State,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Data(u64),
    /// The end of line after a chunk's data.
    After,
    Trailers,
    Done,
}

/// What the bytes at hand are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These of them are data, and so many in all have been read.
    Data(Range<usize>, usize),
    /// More have to come.
    More,
    /// The body ends after so many.
    End(usize),
}

impl Chunked {
    /// Reads on. `bytes` begins where the step before has ended.
    ///
    /// # Errors
    /// They are no chunks.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Step, Fault> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            match self.state {
                State::Size => match size(rest)? {
                    None if at == 0 => return Ok(Step::More),
                    // The end of line before has been read, and the size is yet to come.
                    None => return Ok(Step::Data(at..at, at)),
                    Some((0, read)) => {
                        at += read;
                        self.state = State::Trailers;
                    }
                    Some((length, read)) => {
                        at += read;
                        self.state = State::Data(length);
                    }
                },
                State::Data(left) => {
                    let length = left.min(rest.len() as u64) as usize;
                    if length == 0 {
                        return Ok(if at == 0 { Step::More } else { Step::Data(at..at, at) });
                    }
                    let left = left - length as u64;
                    self.state = if left == 0 { State::After } else { State::Data(left) };
                    return Ok(Step::Data(at..at + length, at + length));
                }
                State::After => match rest {
                    [] | [b'\r'] => return Ok(if at == 0 { Step::More } else { Step::Data(at..at, at) }),
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.state = State::Size;
                    }
                    _ => return Err(Fault::malformed("chunk")),
                },
                State::Trailers => match trailers(rest)? {
                    None => return Ok(if at == 0 { Step::More } else { Step::Data(at..at, at) }),
                    Some(read) => {
                        self.state = State::Done;
                        return Ok(Step::End(at + read));
                    }
                },
                State::Done => return Ok(Step::End(0)),
            }
        }
    }
}

/// A chunk's size, and how many bytes say it.
fn size(bytes: &[u8]) -> Result<Option<(u64, usize)>, Fault> {
    const WRONG: Fault = Fault::malformed("chunk-size");
    let digits = bytes.iter().take(DIGITS + 1).take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits > DIGITS {
        return Err(WRONG);
    }
    let (number, after) = bytes.split_at(digits);
    match after {
        [] | [b'\r'] if digits > 0 || after.is_empty() => return Ok(None),
        [b'\r', b'\n', ..] if digits > 0 => {}
        [b';' | b' ' | b'\t', ..] if digits > 0 => return Err(Fault::malformed("chunk-extension")),
        [b'\n', ..] => return Err(Fault::malformed("bare-lf")),
        _ => return Err(WRONG),
    }
    let text = std::str::from_utf8(number).map_err(|_| WRONG)?;
    let size = u64::from_str_radix(text, 16).map_err(|_| WRONG)?;
    Ok(Some((size, digits + 2)))
}

/// How many bytes the fields after the last chunk are, with the line that ends them.
fn trailers(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    if bytes.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    if bytes == b"\r" || bytes.is_empty() {
        return Ok(None);
    }
    head::strict_lines(bytes)?;
    match head::end(bytes) {
        Some(end) if end <= TRAILERS => {
            let mut fields = [httparse::EMPTY_HEADER; 16];
            match httparse::parse_headers(&bytes[..end], &mut fields) {
                Ok(httparse::Status::Complete(_)) => Ok(Some(end)),
                _ => Err(Fault::malformed("trailers")),
            }
        }
        None if bytes.len() <= TRAILERS => Ok(None),
        _ => Err(Fault::malformed("trailers")),
    }
}
