//! Frame sizes and mixes, counted as the RFCs count them: **with** the 4-byte frame check sequence
//! (RFC 1242 section 3.5 and RFC 2544 section 9). A virtual link carries a frame without its FCS, so a
//! "64-byte frame" is 60 bytes in memory.

use crate::shape::IpVersion;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of the frame check sequence, which the RFCs count and a virtual link does not carry.
pub const FCS_BYTES: u16 = 4;
/// Preamble, start delimiter and the minimum gap between two frames on Ethernet, in bytes (IEEE 802.3).
pub const PREAMBLE_AND_GAP_BYTES: u16 = 20;

/// An Ethernet frame's size in bytes, FCS included. Always 64 to 9216.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameSize(u16);

impl FrameSize {
    /// The smallest Ethernet frame.
    pub const MIN_BYTES: u16 = 64;
    /// The largest jumbo frame that the bench sends.
    pub const MAX_BYTES: u16 = 9216;

    /// A size in bytes with FCS, if Ethernet has such a frame.
    pub const fn new(bytes_with_fcs: u16) -> Option<Self> {
        if bytes_with_fcs < Self::MIN_BYTES || bytes_with_fcs > Self::MAX_BYTES {
            None
        } else {
            Some(Self(bytes_with_fcs))
        }
    }

    /// Bytes with FCS: what reports print.
    pub const fn bytes(self) -> u16 {
        self.0
    }

    /// Bytes in memory, without FCS: what a virtual link carries.
    pub const fn bytes_without_fcs(self) -> u16 {
        self.0 - FCS_BYTES
    }

    /// Bits that the frame occupies on an Ethernet wire, preamble and gap included.
    pub const fn wire_bits(self) -> u64 {
        (self.0 as u64 + PREAMBLE_AND_GAP_BYTES as u64) * 8
    }
}

/// The sizes that a stream repeats, in order: one size, or an IMIX (RFC 6985).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FrameMix {
    /// None of one size for every frame.
    name: Option<String>,
    sizes: Vec<FrameSize>,
}

impl FrameMix {
    /// One size for every frame.
    pub fn fixed(size: FrameSize) -> Self {
        Self { name: None, sizes: vec![size] }
    }

    /// Reads a size or mix as suites write it:
    ///
    /// - `64`: every frame has this many bytes, FCS included;
    /// - `imix:tolly`: 64, 570 and 1518 bytes, 7:4:1 (The Tolly Group, December 2007);
    /// - `imix:simple`: 64, 594 and 1518 bytes, 7:4:1: the common "simple IMIX" of 40, 576 and 1500-byte packets;
    /// - `genome:aaag`: the letters of RFC 6985 section 3, in the order written. `A` to `Z` are sizes of one's own
    ///   (section 4) and `z` is the largest frame of the link: both are given behind the letters, as in
    ///   `genome:aaAz;A=590;z=1518`.
    ///
    /// The named mixes spread each size evenly over the sequence (64 570 64 64 570 64 1518 …), so that no short
    /// stretch is all small or all large.
    ///
    /// # Errors
    /// [`FrameError`] says what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, FrameError> {
        let sizes = match text.split_once(':') {
            Some(("imix", name)) => named_mix(name)?,
            Some(("genome", genome)) => genome_sizes(genome)?,
            Some(_) => return Err(FrameError::Unknown(text.into())),
            None => return size(text).map(Self::fixed),
        };
        Self::sequence(text, sizes).ok_or(FrameError::EmptyGenome)
    }

    /// Whether every frame of the mix can be a test frame of this IP version.
    ///
    /// # Errors
    /// [`FrameError::TooSmall`] with the arithmetic.
    pub fn check_fits(&self, ip: IpVersion) -> Result<(), FrameError> {
        let least = smallest_test_frame(ip);
        match self.sizes.iter().find(|size| size.bytes() < least) {
            Some(size) => Err(FrameError::TooSmall { bytes: size.bytes(), ip: IpArithmetic(ip) }),
            None => Ok(()),
        }
    }

    /// A named sequence; `None` when it is empty.
    pub fn sequence(name: impl Into<String>, sizes: Vec<FrameSize>) -> Option<Self> {
        if sizes.is_empty() { None } else { Some(Self { name: Some(name.into()), sizes }) }
    }

    /// The size of every frame; `None` of a sequence with a name.
    pub fn fixed_size(&self) -> Option<FrameSize> {
        self.name.is_none().then(|| self.sizes[0])
    }

    /// The repeating order of sizes; never empty.
    pub fn sizes(&self) -> &[FrameSize] {
        &self.sizes
    }

    /// The largest size of the mix.
    pub fn largest(&self) -> FrameSize {
        self.sizes.iter().copied().max().unwrap_or(self.sizes[0])
    }

    /// Mean bytes a frame, FCS included.
    pub fn mean_bytes(&self) -> f64 {
        self.sizes.iter().map(|s| f64::from(s.bytes())).sum::<f64>() / self.sizes.len() as f64
    }

    /// Frames a second that fill an Ethernet link of `bits_per_second`, preamble and gap included.
    pub fn line_rate_frames_per_second(&self, bits_per_second: f64) -> f64 {
        let bits: u64 = self.sizes.iter().map(|s| s.wire_bits()).sum();
        bits_per_second * self.sizes.len() as f64 / bits as f64
    }
}

impl From<FrameMix> for String {
    fn from(mix: FrameMix) -> Self {
        mix.to_string()
    }
}

impl TryFrom<String> for FrameMix {
    type Error = FrameError;

    fn try_from(text: String) -> Result<Self, FrameError> {
        Self::parse(&text)
    }
}

/// As suites and reports write it: `64`, `imix:tolly`, `genome:aaag`.
impl fmt::Display for FrameMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.sizes[0].bytes()),
        }
    }
}

/// Ethernet header of a frame without VLAN tag.
const ETHERNET_BYTES: u16 = 14;
/// UDP header.
const UDP_BYTES: u16 = 8;
/// What the generator writes into each frame: stream, sequence number, send time.
pub const TEST_PAYLOAD_BYTES: u16 = 18;

/// Bytes, FCS included, of the smallest frame that can carry the test payload: 64 for IPv4, 84 for IPv6.
pub const fn smallest_test_frame(ip: IpVersion) -> u16 {
    ETHERNET_BYTES + ip_header_bytes(ip) + UDP_BYTES + TEST_PAYLOAD_BYTES + FCS_BYTES
}

/// Smallest IP payload of a first and of a second fragment: each carries the test payload, the first a UDP header before it,
/// the second as much behind it, and fragments begin at multiples of 8 bytes.
const FIRST_FRAGMENT_BYTES: u16 = 32;
const SECOND_FRAGMENT_BYTES: u16 = UDP_BYTES + TEST_PAYLOAD_BYTES;
/// IPv6's fragment header (RFC 8200 section 4.5).
const FRAGMENT_HEADER_BYTES: u16 = 8;

/// Bytes, FCS included, of the smallest frame whose datagram can be sent in two fragments: 96 for IPv4, 116 for IPv6.
pub const fn smallest_fragmented_frame(ip: IpVersion) -> u16 {
    ETHERNET_BYTES + ip_header_bytes(ip) + FIRST_FRAGMENT_BYTES + SECOND_FRAGMENT_BYTES + FCS_BYTES
}

/// Bytes, FCS included, of the frames of the two fragments of a datagram that whole would make a frame of `size`, which is
/// at least [`smallest_fragmented_frame`]. The first is half of it or a little less, so that a router that cuts again by the
/// size of the largest fragment cuts at the same place.
pub fn fragment_frames(size: FrameSize, ip: IpVersion) -> [u16; 2] {
    let headers = ETHERNET_BYTES + ip_header_bytes(ip) + FCS_BYTES;
    let payload = size.bytes().saturating_sub(headers);
    let first = (payload / 2 / 8 * 8).max(FIRST_FRAGMENT_BYTES).min(payload);
    let each = headers + if matches!(ip, IpVersion::V6) { FRAGMENT_HEADER_BYTES } else { 0 };
    [each + first, each + payload - first]
}

const fn ip_header_bytes(ip: IpVersion) -> u16 {
    match ip {
        IpVersion::V4 => 20,
        IpVersion::V6 => 40,
    }
}

/// Why a text is no frame size or mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Neither a number nor a known form.
    #[error(
        "`{0}` is no frame size: write a number of bytes such as 64, `imix:tolly`, `imix:simple` or `genome:aaag`"
    )]
    Unknown(String),
    /// Ethernet has no such frame.
    #[error(
        "no Ethernet frame has {0} bytes: sizes go from {min} to {max}, counted with the 4-byte FCS",
        min = FrameSize::MIN_BYTES,
        max = FrameSize::MAX_BYTES
    )]
    OutOfRange(String),
    /// A mix by a name that nobody gave.
    #[error(
        "no mix is called `imix:{0}`: there are `imix:tolly` (7:4:1 of 64, 570, 1518 bytes) and `imix:simple` (7:4:1 of 64, 594, 1518 bytes)"
    )]
    UnknownMix(String),
    /// `genome:` without letters.
    #[error("a genome needs at least one letter, as in `genome:aaag`")]
    EmptyGenome,
    /// A letter that RFC 6985 does not define.
    #[error(
        "`{0}` is no letter of RFC 6985: a=64 b=128 c=256 d=512 e=1024 f=1280 g=1518 h=2112 i=9000 j=16000 z=MTU, A to Z of one's own"
    )]
    UnknownLetter(char),
    /// A letter whose size must be given.
    #[error("the genome uses `{0}` without its size: add it behind the letters, as in `;{0}=1500`")]
    SizeMissing(char),
    /// A part behind the letters that is no `LETTER=BYTES`.
    #[error("`{0}` does not give a letter's size: write one of A to Z, or z, and its bytes, as in `A=590`")]
    BadAssignment(String),
    /// A size given for a letter that the genome does not use.
    #[error("the genome gives `{0}` a size but does not use it")]
    UnusedLetter(char),
    /// Too long a sequence.
    #[error("a genome may have {MAX_GENOME_LETTERS} letters at most, not {0}")]
    TooLong(usize),
    /// The IP version needs more bytes.
    #[error("{bytes} bytes are too few: {ip}")]
    TooSmall {
        /// The size that was asked for.
        bytes: u16,
        /// The IP version, which prints what it needs.
        ip: IpArithmetic,
    },
}

/// Prints how many bytes a test frame of an IP version needs, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpArithmetic(pub IpVersion);

impl fmt::Display for IpArithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self.0 {
            IpVersion::V4 => 4,
            IpVersion::V6 => 6,
        };
        write!(
            f,
            "an IPv{version} test frame needs {} (Ethernet {ETHERNET_BYTES} + IPv{version} {} + UDP {UDP_BYTES} + test payload \
             {TEST_PAYLOAD_BYTES} + FCS {FCS_BYTES})",
            smallest_test_frame(self.0),
            ip_header_bytes(self.0),
        )
    }
}

/// Longest genome: far above any in use, and short enough for a table in the generator.
pub const MAX_GENOME_LETTERS: usize = 256;

fn size(text: &str) -> Result<FrameSize, FrameError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FrameError::Unknown(text.into()));
    }
    text.parse().ok().and_then(FrameSize::new).ok_or_else(|| FrameError::OutOfRange(text.into()))
}

fn named_mix(name: &str) -> Result<Vec<FrameSize>, FrameError> {
    let middle = match name {
        "tolly" => FrameSize(570),
        "simple" => FrameSize(594),
        _ => return Err(FrameError::UnknownMix(name.into())),
    };
    Ok(spread(&[(FrameSize(64), 7), (middle, 4), (FrameSize(1518), 1)]))
}

/// Interleaves sizes by their counts: at each place the size that lags most behind its share comes next, the first
/// named on a tie (smooth weighted round robin).
fn spread(parts: &[(FrameSize, i64)]) -> Vec<FrameSize> {
    let total: i64 = parts.iter().map(|&(_, count)| count).sum();
    let mut credit: Vec<i64> = vec![0; parts.len()];
    let mut sizes = Vec::new();
    for _ in 0..total {
        let mut best = 0;
        for (i, &(_, count)) in parts.iter().enumerate() {
            credit[i] += count;
            if credit[i] > credit[best] {
                best = i;
            }
        }
        credit[best] -= total;
        sizes.push(parts[best].0);
    }
    sizes
}

fn genome_sizes(genome: &str) -> Result<Vec<FrameSize>, FrameError> {
    let mut parts = genome.split(';');
    let letters = parts.next().unwrap_or_default();
    let count = letters.chars().count();
    if count > MAX_GENOME_LETTERS {
        return Err(FrameError::TooLong(count));
    }
    let mut given: Vec<(char, FrameSize)> = Vec::new();
    for part in parts {
        let (letter, bytes) = assignment(part)?;
        if !letters.contains(letter) {
            return Err(FrameError::UnusedLetter(letter));
        }
        given.push((letter, size(bytes)?));
    }
    letters.chars().map(|letter| letter_size(letter, &given)).collect()
}

fn assignment(part: &str) -> Result<(char, &str), FrameError> {
    let bad = || FrameError::BadAssignment(part.into());
    let (letter, bytes) = part.split_once('=').ok_or_else(bad)?;
    match letter.chars().next() {
        Some(c) if letter.len() == 1 && (c.is_ascii_uppercase() || c == 'z') => Ok((c, bytes)),
        _ => Err(bad()),
    }
}

/// The table of RFC 6985 section 3, and the sizes of one's own.
fn letter_size(letter: char, given: &[(char, FrameSize)]) -> Result<FrameSize, FrameError> {
    let bytes = match letter {
        'a' => 64,
        'b' => 128,
        'c' => 256,
        'd' => 512,
        'e' => 1024,
        'f' => 1280,
        'g' => 1518,
        'h' => 2112,
        'i' => 9000,
        'j' => 16000,
        'z' | 'A'..='Z' => {
            let known = given.iter().find(|(l, _)| *l == letter);
            return known.map(|&(_, size)| size).ok_or(FrameError::SizeMissing(letter));
        }
        other => return Err(FrameError::UnknownLetter(other)),
    };
    FrameSize::new(bytes).ok_or_else(|| FrameError::OutOfRange(bytes.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match FrameMix::parse(text) {
            Ok(mix) => {
                let sizes: Vec<String> = mix.sizes().iter().map(|s| s.bytes().to_string()).collect();
                format!("{mix}: {}", sizes.join(" "))
            }
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn sizes_and_mixes_are_read_or_refused_with_what_would_be_right() {
        let rows = [
            ("64", "64: 64"),
            ("9000", "9000: 9000"),
            ("imix:tolly", "imix:tolly: 64 570 64 64 570 64 1518 64 570 64 570 64"),
            ("imix:simple", "imix:simple: 64 594 64 64 594 64 1518 64 594 64 594 64"),
            ("genome:aaag", "genome:aaag: 64 64 64 1518"),
            ("genome:abcdefghi", "genome:abcdefghi: 64 128 256 512 1024 1280 1518 2112 9000"),
            ("genome:aAz;A=590;z=1514", "genome:aAz;A=590;z=1514: 64 590 1514"),
            ("63", "no Ethernet frame has 63 bytes: sizes go from 64 to 9216, counted with the 4-byte FCS"),
            (
                "9217",
                "no Ethernet frame has 9217 bytes: sizes go from 64 to 9216, counted with the 4-byte FCS",
            ),
            (
                "genome:aj",
                "no Ethernet frame has 16000 bytes: sizes go from 64 to 9216, counted with the 4-byte FCS",
            ),
            ("genome:", "a genome needs at least one letter, as in `genome:aaag`"),
            ("genome:az", "the genome uses `z` without its size: add it behind the letters, as in `;z=1500`"),
            ("genome:a;A=100", "the genome gives `A` a size but does not use it"),
            (
                "genome:aA;A590",
                "`A590` does not give a letter's size: write one of A to Z, or z, and its bytes, as in `A=590`",
            ),
            (
                "genome:ak",
                "`k` is no letter of RFC 6985: a=64 b=128 c=256 d=512 e=1024 f=1280 g=1518 h=2112 i=9000 j=16000 \
                 z=MTU, A to Z of one's own",
            ),
            (
                "imix:toly",
                "no mix is called `imix:toly`: there are `imix:tolly` (7:4:1 of 64, 570, 1518 bytes) and \
                 `imix:simple` (7:4:1 of 64, 594, 1518 bytes)",
            ),
            (
                "big",
                "`big` is no frame size: write a number of bytes such as 64, `imix:tolly`, `imix:simple` or \
                 `genome:aaag`",
            ),
            (
                "+64",
                "`+64` is no frame size: write a number of bytes such as 64, `imix:tolly`, `imix:simple` or \
                 `genome:aaag`",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_frame_must_hold_its_headers() {
        let rows = [
            ("64", IpVersion::V4, "fits"),
            ("84", IpVersion::V6, "fits"),
            (
                "genome:ba",
                IpVersion::V6,
                "64 bytes are too few: an IPv6 test frame needs 84 (Ethernet 14 + IPv6 40 + UDP 8 + test payload 18 \
                 + FCS 4)",
            ),
        ];
        for (text, ip, expected) in rows {
            let found = FrameMix::parse(text).expect("a mix").check_fits(ip);
            assert_eq!(found.map_or_else(|e| e.to_string(), |()| "fits".into()), expected, "{text}");
        }
        assert_eq!(smallest_test_frame(IpVersion::V4), FrameSize::MIN_BYTES);
    }
}
