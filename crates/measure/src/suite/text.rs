//! How levels are written: each function reads one form, or says `None`.

use crate::application::{MOST_OBJECT_KB, Object, PROTOCOLS, ProtocolMix};
use crate::connections::{AttackKind, AttackSources, Illegal, IllegalKind};
use crate::procedure::Flood;
use crate::shape::Directions;
use rule_sets::Family;
use std::ops::RangeInclusive;

use super::value::{Match, NSTL, OBJECTS, OWN_RULES, Value};

/// Addresses of the attackers' range (`10.0.0.0/8`).
const ATTACKERS: u32 = 1 << 24;
/// The fastest flood, in frames a second.
const FASTEST_FLOOD: u32 = 100_000_000;

pub(super) fn one_of<T: Copy>(text: &str, known: &[(&str, T)]) -> Option<T> {
    known.iter().find(|(name, _)| *name == text).map(|&(_, value)| value)
}

/// The name of a value: the other way round.
pub(super) fn name_of<T: PartialEq>(value: &T, known: &[(&'static str, T)]) -> &'static str {
    known.iter().find(|(_, v)| v == value).map_or("", |(name, _)| name)
}

pub(super) fn flag(text: &str) -> Option<bool> {
    one_of(text, &[("true", true), ("false", false)])
}

/// A count in digits, or in thousands (`100k`) or millions (`1M`).
pub(super) fn count(text: &str, range: RangeInclusive<u32>) -> Option<Value> {
    whole(text, range).map(Value::Count)
}

fn whole(text: &str, range: RangeInclusive<u32>) -> Option<u32> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number = digits_only(digits)?.checked_mul(unit)?;
    u32::try_from(number).ok().filter(|n| range.contains(n))
}

fn digits_only(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Seconds in decimal digits with at most one point, up to a day.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|s| plain && (0.0..=86_400.0).contains(s))
}

pub(super) fn matching(text: &str) -> Option<Value> {
    Some(Value::Match(match text {
        "first" => Match::First,
        "last" => Match::Last,
        _ => Match::At(whole(text, 1..=100_000)?),
    }))
}

/// `bench`, or the name of a family.
pub(super) fn family(text: &str) -> Option<Option<Family>> {
    if text == OWN_RULES { Some(None) } else { Family::named(text).map(Some) }
}

/// A protocol, or the mix of the NSTL benchmark; mixes of a suite's own are read where the suite is at hand.
pub(super) fn protocol(text: &str) -> Option<ProtocolMix> {
    if text == NSTL { Some(ProtocolMix::Nstl) } else { one_of(text, &PROTOCOLS).map(ProtocolMix::Only) }
}

/// A size in KB, or a word for several files.
pub(super) fn object(text: &str) -> Option<Object> {
    one_of(text, &OBJECTS).or_else(|| whole(text, 1..=MOST_OBJECT_KB).map(Object::Kb))
}

/// Shares of frames that flow back. Of fewer there would be none in a trial.
const REVERSE_SHARES: std::ops::RangeInclusive<f64> = 0.001..=0.999;

pub(super) fn directions(text: &str) -> Option<Value> {
    let directions = match text {
        "one-way" => Some(Directions::OneWay),
        "two-way" => Some(Directions::TwoWay { reverse_share: 0.5 }),
        _ => {
            let share = text.strip_prefix("two-way:")?;
            let is_plain = share.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let reverse_share =
                share.parse().ok().filter(|share| is_plain && REVERSE_SHARES.contains(share))?;
            Some(Directions::TwoWay { reverse_share })
        }
    };
    directions.map(Value::Directions)
}

pub(super) fn link(text: &str) -> Option<Option<u64>> {
    if text == "none" {
        return Some(None);
    }
    let unit = match text.as_bytes().last()? {
        b'M' => 1_000_000,
        b'G' => 1_000_000_000,
        _ => return None,
    };
    let bits = digits_only(&text[..text.len() - 1])?.checked_mul(unit)?;
    (1_000_000..=100_000_000_000).contains(&bits).then_some(Some(bits))
}

pub(super) fn bound(text: &str, range: std::ops::RangeInclusive<u32>) -> Option<Option<u32>> {
    if text == "none" {
        return Some(None);
    }
    let number = u32::try_from(digits_only(text)?).ok()?;
    range.contains(&number).then_some(Some(number))
}

pub(super) fn rate_text(bits: u64) -> String {
    if bits.is_multiple_of(1_000_000_000) {
        format!("{}G", bits / 1_000_000_000)
    } else {
        format!("{}M", bits / 1_000_000)
    }
}

/// `none`, or `80%:address,port`; `+` for the comma, which `--set` cannot pass.
pub(super) fn illegal(text: &str) -> Option<Option<Illegal>> {
    if text == "none" {
        return Some(None);
    }
    let (percent, names) = text.split_once("%:")?;
    let percent: f64 = percent.parse().ok().filter(|p| (0.01..=99.99).contains(p))?;
    let mut kinds = Vec::new();
    for name in names.split([',', '+']) {
        let kind = IllegalKind::ALL.into_iter().find(|kind| kind.name() == name)?;
        if kinds.contains(&kind) {
            return None;
        }
        kinds.push(kind);
    }
    Some(Some(Illegal { share: percent / 100.0, kinds }))
}

pub(super) fn illegal_text(illegal: &Illegal) -> String {
    let names: Vec<&str> = illegal.kinds.iter().map(|kind| kind.name()).collect();
    format!("{}%:{}", (illegal.share * 1e6).round() / 1e4, names.join("+"))
}

/// `none`, `syn:66485`, or `udp:50k:1M`.
pub(super) fn flood(text: &str) -> Option<Option<Flood>> {
    if text == "none" {
        return Some(None);
    }
    let mut parts = text.split(':');
    let name = parts.next()?;
    let kind = AttackKind::ALL.into_iter().find(|kind| kind.name() == name)?;
    let frames_per_second = f64::from(whole(parts.next()?, 1..=FASTEST_FLOOD)?);
    let sources = match parts.next() {
        None => AttackSources::Random,
        Some(addresses) => AttackSources::Distinct(whole(addresses, 1..=ATTACKERS)?),
    };
    parts.next().is_none().then_some(Some(Flood { kind, frames_per_second, sources }))
}

pub(super) fn flood_text(flood: &Flood) -> String {
    let sources = match flood.sources {
        AttackSources::Random => String::new(),
        AttackSources::Distinct(addresses) => format!(":{addresses}"),
    };
    format!("{}:{}{sources}", flood.kind.name(), flood.frames_per_second)
}
