//! Patterns: what the API calls the value of a header field from frame to frame, one value, a list in turns, or steps up or down.

use crate::node::Node;
use crate::refusal::Refusal;
use std::net::{Ipv4Addr, Ipv6Addr};
use testbed::layout::Mac;

/// How a field's values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number of so many bits.
    Number(u32),
    /// `00:11:22:33:44:55`.
    Mac,
    /// `192.0.2.1`.
    V4,
    /// `2001:db8::1`.
    V6,
}

impl Kind {
    fn bits(self) -> u32 {
        match self {
            Kind::Number(bits) => bits,
            Kind::Mac => 48,
            Kind::V4 => 32,
            Kind::V6 => 128,
        }
    }

    /// All bits of the field.
    fn mask(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    fn read(self, node: &Node<'_>) -> Result<u128, Refusal> {
        let wrong = |what: &str| node.refuse(format!("it must be {what}"));
        match self {
            Kind::Number(_) => node.whole(0..=self.mask() as u64).map(u128::from),
            Kind::Mac => {
                let mac = Mac::parse(node.text()?);
                let mac = mac.ok_or_else(|| wrong("an Ethernet address, such as 02:00:00:00:00:01"))?;
                Ok(mac.0.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte)))
            }
            Kind::V4 => {
                let address = node.text()?.parse::<Ipv4Addr>();
                Ok(u32::from(address.map_err(|_| wrong("an IPv4 address"))?).into())
            }
            Kind::V6 => {
                let address = node.text()?.parse::<Ipv6Addr>();
                Ok(address.map_err(|_| wrong("an IPv6 address"))?.into())
            }
        }
    }
}

/// The values of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// In turns.
    Values(Vec<u128>),
    /// `count` steps from `start`, then from `start` again; within the bits of `mask`.
    Steps { start: u128, step: u128, count: u64, mask: u128 },
}

/// Values of a field at most.
const MOST_VALUES: u64 = traffic::MOST_COMBINATIONS as u64;

impl Pattern {
    /// Reads the field `key` of a header; without it, every frame has `default`.
    pub(super) fn read(header: &Node<'_>, key: &str, kind: Kind, default: u128) -> Result<Self, Refusal> {
        let Some(node) = header.get(key) else { return Ok(Self::Values(vec![default])) };
        let chosen = node.choice(&["value", "values", "increment", "decrement"], "value")?;
        let Some(found) = node.get(chosen) else { return Ok(Self::Values(vec![default])) };
        match chosen {
            "value" => Ok(Self::Values(vec![kind.read(&found)?])),
            "values" => {
                let values = found.items()?;
                if values.is_empty() || values.len() as u64 > MOST_VALUES {
                    return Err(found.refuse(format!("it must be 1 to {MOST_VALUES} values")));
                }
                Ok(Self::Values(values.iter().map(|node| kind.read(node)).collect::<Result<_, _>>()?))
            }
            up_or_down => Self::steps(&found, kind, default, up_or_down == "decrement"),
        }
    }

    fn steps(node: &Node<'_>, kind: Kind, default: u128, down: bool) -> Result<Self, Refusal> {
        node.only(&["start", "step", "count"])?;
        let start = node.get("start").map_or(Ok(default), |start| kind.read(&start))?;
        let step = node.get("step").map_or(Ok(1), |step| kind.read(&step))?;
        let count = node.get("count").map_or(Ok(1), |count| count.whole(1..=MOST_VALUES))?;
        let step = if down { step.wrapping_neg() } else { step };
        Ok(Self::Steps { start, step, count, mask: kind.mask() })
    }

    /// How many values there are before they begin again.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Values(values) => values.len() as u64,
            Self::Steps { count, .. } => *count,
        }
    }

    /// The value of frame `number`.
    pub(super) fn at(&self, number: u64) -> u128 {
        match self {
            Self::Values(values) => values[(number % values.len() as u64) as usize],
            Self::Steps { start, step, count, mask } => {
                start.wrapping_add(step.wrapping_mul(u128::from(number % count))) & mask
            }
        }
    }

    /// Whether no two values differ in other bits than the last so many.
    pub(super) fn differs_in_last_bits_only(&self, bits: u32) -> bool {
        let first = self.at(0) >> bits;
        (0..self.count()).all(|number| self.at(number) >> bits == first)
    }
}

/// Reads a field that is the same in all frames.
pub(super) fn single(header: &Node<'_>, key: &str, kind: Kind, default: u128) -> Result<u128, Refusal> {
    let pattern = Pattern::read(header, key, kind, default)?;
    match (pattern.count(), header.get(key)) {
        (2.., Some(node)) => {
            Err(node.refuse("it must be one value: the generator varies addresses, within their last two bytes, and UDP ports"))
        }
        _ => Ok(pattern.at(0)),
    }
}

/// Checks a field that the generator writes itself: `auto`, or the value that it writes.
pub(super) fn written(header: &Node<'_>, key: &str, value: u128) -> Result<(), Refusal> {
    let Some(node) = header.get(key) else { return Ok(()) };
    let wrong =
        || node.refuse(format!("the generator writes this field itself: leave it out, or write {value}"));
    match node.choice(&["auto", "value", "generated"], "auto") {
        Ok("auto") => Ok(()),
        Ok("generated") => match node.need("generated")?.text()? {
            "good" => Ok(()),
            _ => Err(node.refuse("the generator writes good checksums only")),
        },
        Ok(_)
            if node
                .get("value")
                .is_some_and(|it| it.whole(0..=u64::MAX).is_ok_and(|it| u128::from(it) == value)) =>
        {
            Ok(())
        }
        _ => Err(wrong()),
    }
}
