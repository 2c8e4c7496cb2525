//! Durations and rates as people write them: `2h4min`, `100/s`.

use std::time::Duration;

const UNITS: [(&str, u64); 4] = [("s", 1), ("min", 60), ("h", 3_600), ("d", 86_400)];

/// Reads a duration: whole numbers with the units s, min, h and d, one after the other. `None` if the text is none.
pub fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut seconds = 0u64;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let unit_length = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(unit_length);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(*factor)?)?;
        rest = after.trim_start();
    }
    (!text.trim().is_empty()).then(|| Duration::from_secs(seconds))
}

/// Reads a number of bytes: `4096`, `100B`, `64KiB`, `10MiB`, `2GiB`. `None` if the text is none.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A number of events in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// How many events, at least 1.
    pub events: u32,
    /// In this many seconds: 1, 60, 3,600 or 86,400.
    pub seconds: u32,
}

/// Reads a rate: `100/s`, `1000/min`, `5/h`, `1/d`.
pub fn rate(text: &str) -> Option<Rate> {
    let (events, unit) = text.split_once('/')?;
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
    let events = events.trim().replace('_', "").parse().ok().filter(|n| *n > 0)?;
    Some(Rate { events, seconds: u32::try_from(*seconds).ok()? })
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unit = UNITS.iter().find(|(_, s)| *s == u64::from(self.seconds)).map_or("s", |(name, _)| name);
        write!(f, "{}/{unit}", self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_rates_as_they_are_written() {
        for (text, expected) in [
            ("30s", Some(30)),
            ("2h4min", Some(7_440)),
            ("1d 2h", Some(93_600)),
            ("", None),
            ("10", None),
            ("s", None),
            ("5 fortnights", None),
            ("99999999999999999999d", None),
            ("999999999999999999d", None),
        ] {
            assert_eq!(duration(text).map(|d| d.as_secs()), expected, "{text}");
        }
        for (text, expected) in [
            ("100", Some(100)),
            ("100 B", Some(100)),
            ("64KiB", Some(65_536)),
            ("2GiB", Some(2 << 30)),
            ("2GB", None),
            ("", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
        for (text, expected) in [
            ("100/s", Some((100, 1))),
            ("1_000/min", Some((1_000, 60))),
            ("0/s", None),
            ("5", None),
            ("5/week", None),
        ] {
            assert_eq!(rate(text).map(|r| (r.events, r.seconds)), expected, "{text}");
        }
    }
}
