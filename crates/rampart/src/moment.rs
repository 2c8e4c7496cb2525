//! Moments as people write and read them: with a time zone, in UTC, on this machine's clock, or so long ago.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// What a moment may look like.
const MOMENTS: &str = "2026-11-20T22:30[Europe/Berlin], 2026-11-20T21:30Z or 2026-11-20T22:30";

/// A moment with a time zone, with an offset, or on this machine's clock.
///
/// # Errors
/// What may be written instead.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    read(text).ok_or_else(|| format!("write {MOMENTS}"))
}

/// A moment, a day on this machine's clock, from its first hour on, or how long ago it was: `10min`, `2h30min`, `7d`.
///
/// # Errors
/// What may be written instead.
pub(crate) fn past(text: &str) -> Result<Timestamp, String> {
    let ago = policy::quantity::duration(text).and_then(|ago| Timestamp::now().checked_sub(ago).ok());
    ago.or_else(|| read(text))
        .ok_or_else(|| format!("write how long ago, as 10min or 2h30min, or when: {MOMENTS}"))
}

fn read(text: &str) -> Option<Timestamp> {
    let zoned = || text.parse::<Zoned>().map(|zoned| zoned.timestamp());
    let local = || {
        let local: jiff::civil::DateTime = text.parse()?;
        local.to_zoned(TimeZone::system()).map(|zoned| zoned.timestamp())
    };
    zoned().or_else(|_| text.parse::<Timestamp>()).or_else(|_: jiff::Error| local()).ok()
}

/// A time between two moments, each of which may be missing. Both belong to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Period {
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
}

impl Period {
    /// Whether every moment is within.
    pub(crate) fn is_all(self) -> bool {
        self.since.is_none() && self.until.is_none()
    }

    pub(crate) fn has(self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at <= until)
    }
}

/// How times are shown, to the millisecond.
#[derive(Debug, Clone)]
pub(crate) enum Clock {
    /// `2026-11-20T21:30:00.000Z`.
    Utc,
    /// With the offset from UTC at that moment: `2026-11-20T22:30:00.000+01:00`.
    Local(TimeZone),
}

impl Clock {
    /// UTC, or the clock of this machine.
    pub(crate) fn new(is_local: bool) -> Self {
        if is_local { Self::Local(TimeZone::system()) } else { Self::Utc }
    }

    pub(crate) fn shown(&self, at: Timestamp) -> String {
        match self {
            Self::Utc => format!("{at:.3}"),
            Self::Local(zone) => format!("{:.3}", at.display_with_offset(zone.to_offset(at))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn moments_are_read() {
        for (text, expected) in [
            ("2026-11-20T22:30[Europe/Berlin]", Some("2026-11-20T21:30:00Z")),
            ("2026-11-20T21:30Z", Some("2026-11-20T21:30:00Z")),
            ("2026-11-20T21:30:05+01:00", Some("2026-11-20T20:30:05Z")),
            ("10min", None),
            ("now", None),
            ("", None),
        ] {
            assert_eq!(moment(text).ok(), expected.map(at), "{text:?}");
        }
        assert!(moment("2026-11-20T22:30").is_ok() && moment("2026-11-20").is_ok(), "of this machine");
    }

    #[test]
    fn what_is_past_is_so_long_ago() {
        for (text, seconds) in [("10min", 600), ("1h30min", 5_400), ("7d", 604_800)] {
            let before = Timestamp::now();
            let read = past(text).unwrap().as_second() + seconds;
            assert!((before.as_second()..=Timestamp::now().as_second()).contains(&read), "{text}");
        }
        assert_eq!(past("2026-11-20T21:30Z"), Ok(at("2026-11-20T21:30:00Z")));
        for text in ["yesterday", "", "10", "-5min", "99999999999999d"] {
            assert!(past(text).is_err_and(|why| why.contains("how long ago")), "{text:?}");
        }
    }

    #[test]
    fn both_ends_belong_to_a_period() {
        let [first, second, third] = ["2026-11-20T21:00Z", "2026-11-20T21:30Z", "2026-11-20T22:00Z"].map(at);
        for (since, until, expected) in [
            (None, None, [true, true, true]),
            (Some(second), None, [false, true, true]),
            (None, Some(second), [true, true, false]),
            (Some(second), Some(second), [false, true, false]),
            (Some(third), Some(first), [false, false, false]),
        ] {
            let period = Period { since, until };
            assert_eq!([first, second, third].map(|at| period.has(at)), expected, "{period:?}");
            assert_eq!(period.is_all(), expected == [true; 3]);
        }
    }

    #[test]
    fn clocks_show_the_same_moment() {
        let moment = at("2026-07-20T21:30:00.0015Z");
        assert_eq!(Clock::new(false).shown(moment), "2026-07-20T21:30:00.001Z");
        let berlin = Clock::Local(TimeZone::get("Europe/Berlin").unwrap());
        assert_eq!(berlin.shown(moment), "2026-07-20T23:30:00.001+02:00");
    }
}
