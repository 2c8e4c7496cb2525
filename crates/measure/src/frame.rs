//! Frame sizes and mixes, counted as the RFCs count them: **with** the 4-byte frame check sequence
//! (RFC 1242 section 3.5 and RFC 2544 section 9). A virtual link carries a frame without its FCS, so a
//! "64-byte frame" is 60 bytes in memory.

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameMix {
    name: String,
    sizes: Vec<FrameSize>,
}

impl FrameMix {
    /// One size for every frame; its name is the number.
    pub fn fixed(size: FrameSize) -> Self {
        Self { name: size.bytes().to_string(), sizes: vec![size] }
    }

    /// A named sequence; `None` when it is empty.
    pub fn sequence(name: impl Into<String>, sizes: Vec<FrameSize>) -> Option<Self> {
        if sizes.is_empty() { None } else { Some(Self { name: name.into(), sizes }) }
    }

    /// As reports and suites write it: `64`, `imix:tolly`, `genome:aaag`.
    pub fn name(&self) -> &str {
        &self.name
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

impl fmt::Display for FrameMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
