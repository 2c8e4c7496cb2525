//! Requests and answers: bytes that real clients and servers understand, or bytes of no meaning. Between the two ends of this
//! bench they have a proof in them (`bpf/traffic/tcp/proof.h`).

use super::skeleton::{MAX_MESSAGE_BYTES, NO_PROOF, PROOF_BYTES, types};
use crate::TrafficError;
use crate::random::SplitMix64;
use measure::connections::MOST_ANSWER_BYTES;

/// A request or an answer, up to 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    bytes: Vec<u8>,
    /// Where the proof is: 16 letters, which are `a` where one of the ends is a stranger.
    proof: Option<usize>,
}

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
        Ok(Self { bytes, proof: None })
    }

    /// Seeded bytes of no meaning that do not compress.
    ///
    /// # Errors
    /// As [`Message::new`].
    pub fn filling(bytes: usize, seed: u64) -> Result<Self, TrafficError> {
        let mut random = SplitMix64::new(seed);
        Self::new((0..bytes.min(MAX_MESSAGE_BYTES + 1)).map(|_| random.next() as u8).collect::<Vec<_>>())
    }

    /// The same with its proof in place of the 16 bytes from `offset`: even, and within the first segment of an answer or the
    /// last of a request.
    ///
    /// # Errors
    /// An odd offset, or one beyond the message.
    pub fn proved_at(mut self, offset: usize) -> Result<Self, TrafficError> {
        let length = self.bytes.len();
        match self.bytes.get_mut(offset..offset.saturating_add(PROOF_BYTES)) {
            Some(letters) if offset.is_multiple_of(2) => letters.fill(b'a'),
            _ => {
                return Err(TrafficError::Impossible(format!(
                    "a proof of {PROOF_BYTES} bytes at {offset} of a message of {length} bytes: it lies within, at an even offset"
                )));
            }
        }
        self.proof = Some(offset);
        Ok(self)
    }

    /// `GET path` of HTTP/1.0, with its proof as a cookie: the server closes, or is closed upon.
    pub fn http_get(path: &str) -> Self {
        Self::around_proof(format!("GET {path} HTTP/1.0\r\nCookie: "), "\r\n\r\n")
    }

    /// `GET path` of HTTP/1.1, with its proof as a cookie, which keeps the connection open.
    pub fn http11_get(path: &str, host: &str) -> Self {
        Self::around_proof(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: t="), "\r\n\r\n")
    }

    /// A message with a proof behind `head`, which gets a space more where its length is odd.
    fn around_proof(mut head: String, tail: &str) -> Self {
        if !head.len().is_multiple_of(2) {
            head.push(' ');
        }
        let proof = Some(head.len());
        Self { bytes: (head + &"a".repeat(PROOF_BYTES) + tail).into_bytes(), proof }
    }

    /// The answer 200 of HTTP/1.1 with its proof as a header and a body of `bytes` letters, cut off at [`MOST_ANSWER_BYTES`].
    pub fn http_answer(body_bytes: usize) -> Self {
        let body_bytes = body_bytes.min(MOST_ANSWER_BYTES as usize);
        let tail = format!("\r\nContent-Length: {body_bytes}\r\n\r\n");
        let mut made = Self::around_proof("HTTP/1.1 200 OK\r\nTrial: ".to_owned(), &tail);
        made.bytes.extend((0..body_bytes).map(|i| b'a' + (i % 26) as u8));
        made
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the segment of bytes `from` to `to` has the whole proof, or there is none.
    pub(crate) fn proves_within(&self, from: usize, to: usize) -> bool {
        self.proof.is_none_or(|at| at >= from && at + PROOF_BYTES <= to)
    }

    /// Writes the message and the checksum of each segment where the programs read them: with zeros in place of the proof
    /// where both ends are ours (`proves`), with letters and without a proof else.
    pub(crate) fn write(&self, to: &mut types::message, segment_bytes: u32, proves: bool) {
        let length = self.bytes.len();
        to.bytes = length as u32;
        to.proof_at = NO_PROOF;
        to.data[..length].copy_from_slice(&self.bytes);
        to.data[length..].fill(0);
        if let Some(at) = self.proof.filter(|_| proves) {
            to.proof_at = at as u32;
            to.data[at..at + PROOF_BYTES].fill(0);
        }
        for (sum, segment) in to.sums.iter_mut().zip(to.data[..length].chunks(segment_bytes as usize)) {
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
        Message::new(vec![1u8, 0, 2, 0, 3]).unwrap().write(&mut written, 2, true);
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
        assert_eq!(
            answer.bytes(),
            b"HTTP/1.1 200 OK\r\nTrial: aaaaaaaaaaaaaaaa\r\nContent-Length: 1\r\n\r\na"
        );
    }

    #[test]
    fn a_proof_lies_at_an_even_offset_and_is_summed_apart() {
        for message in [
            Message::http_get("/"),
            Message::http_get("/page"),
            Message::http11_get("/", "server"),
            Message::http_answer(1),
            Message::filling(40, 1).unwrap().proved_at(24).unwrap(),
        ] {
            let mut written = types::message::default();
            message.write(&mut written, 1448, true);
            let at = written.proof_at as usize;
            assert!(
                at.is_multiple_of(2) && message.bytes()[at..].starts_with(&[b'a'; PROOF_BYTES]),
                "{message:?}"
            );
            assert_eq!(written.data[at..at + PROOF_BYTES], [0; PROOF_BYTES], "{message:?}");
            message.write(&mut written, 1448, false);
            assert_eq!(
                (written.proof_at, &written.data[..written.bytes as usize]),
                (NO_PROOF, message.bytes())
            );
        }
        for offset in [1, 26, usize::MAX] {
            assert!(Message::filling(40, 1).unwrap().proved_at(offset).is_err(), "{offset}");
        }
    }
}
