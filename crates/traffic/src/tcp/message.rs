//! Requests and answers: bytes that real clients and servers understand, or bytes of no meaning.

use super::skeleton::{MAX_MESSAGE_BYTES, types};
use crate::TrafficError;
use crate::random::SplitMix64;
use measure::connections::MOST_ANSWER_BYTES;

/// A request or an answer, up to 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message(Vec<u8>);

impl Message {
    /// These bytes.
    ///
    /// # Errors
    /// None, or more than 64 KiB.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, TrafficError> {
        let bytes = bytes.into();
        if bytes.is_empty() || bytes.len() > MAX_MESSAGE_BYTES {
            return Err(TrafficError::Impossible(format!(
                "a message of {} bytes: requests and answers have 1 to {MAX_MESSAGE_BYTES}",
                bytes.len()
            )));
        }
        Ok(Self(bytes))
    }

    /// Seeded bytes of no meaning that do not compress.
    ///
    /// # Errors
    /// As [`Message::new`].
    pub fn filling(bytes: usize, seed: u64) -> Result<Self, TrafficError> {
        let mut random = SplitMix64::new(seed);
        Self::new((0..bytes.min(MAX_MESSAGE_BYTES + 1)).map(|_| random.next() as u8).collect::<Vec<_>>())
    }

    /// A single letter.
    pub fn one_byte() -> Self {
        Self(vec![b'x'])
    }

    /// `GET path` of HTTP/1.0: the server closes, or is closed upon.
    pub fn http_get(path: &str) -> Self {
        Self(format!("GET {path} HTTP/1.0\r\n\r\n").into_bytes())
    }

    /// `GET path` of HTTP/1.1, which keeps the connection open.
    pub fn http11_get(path: &str, host: &str) -> Self {
        Self(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes())
    }

    /// The answer 200 of HTTP/1.1 with a body of `bytes` letters, cut off at [`MOST_ANSWER_BYTES`].
    pub fn http_answer(body_bytes: usize) -> Self {
        let body_bytes = body_bytes.min(MOST_ANSWER_BYTES as usize);
        let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n").into_bytes();
        bytes.extend((0..body_bytes).map(|i| b'a' + (i % 26) as u8));
        Self(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes the message and the checksum of each segment where the programs read them.
    pub(crate) fn write(&self, to: &mut types::message, segment_bytes: u32) {
        to.bytes = self.0.len() as u32;
        to.data[..self.0.len()].copy_from_slice(&self.0);
        to.data[self.0.len()..].fill(0);
        for (sum, segment) in to.sums.iter_mut().zip(self.0.chunks(segment_bytes as usize)) {
            *sum = fold(segment);
        }
    }
}

/// The one's complement sum of 16-bit words as loaded, an odd byte padded (RFC 1071).
fn fold(bytes: &[u8]) -> u32 {
    let mut sum: u32 =
        bytes.chunks(2).map(|p| u32::from(u16::from_ne_bytes([p[0], *p.get(1).unwrap_or(&0)]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_outside_the_range_are_refused() {
        for (bytes, fits) in [(0, false), (1, true), (65_536, true), (65_537, false)] {
            assert_eq!(Message::filling(bytes, 1).is_ok(), fits, "{bytes} bytes");
        }
    }

    #[test]
    fn segments_are_summed_apart() {
        let mut written = types::message::default();
        Message::new(vec![1u8, 0, 2, 0, 3]).unwrap().write(&mut written, 2);
        assert_eq!(written.bytes, 5);
        assert_eq!(written.sums[..4], [1, 2, 3, 0].map(|v: u16| u32::from(v.to_le())));
    }

    #[test]
    fn http_says_how_long_its_body_is() {
        let longest = Message::http_answer(MOST_ANSWER_BYTES as usize);
        assert!(
            longest.bytes().len() <= MAX_MESSAGE_BYTES && longest.bytes().len() > MOST_ANSWER_BYTES as usize
        );
        let answer = Message::http_answer(1);
        assert_eq!(answer.bytes(), b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
    }
}
