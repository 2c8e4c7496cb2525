//! Moments as people write and read them: with a time zone, in UTC, on this machine's clock, or so long ago.

use jiff::civil::Time;
use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// What a moment may look like.
const MOMENTS: &str = "2026-11-20T22:30[Europe/Berlin], 2026-11-20T21:30Z or 2026-11-20T22:30";

/// A moment with a time zone, with an offset, or on this machine's clock.
///
/// # Errors
/// What may be written instead.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    read(text).map_err(|why| format!("{why}write {MOMENTS}"))
}

/// A moment, a day on this machine's clock, from its first hour on, or how long ago it was: `10min`, `2h30min`, `7d`.
///
/// # Errors
/// What may be written instead.
pub(crate) fn past(text: &str) -> Result<Timestamp, String> {
    let ago = policy::quantity::duration(text).and_then(|ago| Timestamp::now().checked_sub(ago).ok());
    let when = || {
        let others = "write how long ago, as 10min or 2h30min, or when";
        read(text).map_err(|why| format!("{why}{others}: {MOMENTS}"))
    };
    ago.map_or_else(when, Ok)
}

/// A moment, or what is wrong with its time zone, which the clock of this machine must not take the place of.
fn read(text: &str) -> Result<Timestamp, String> {
    if text.contains('[') {
        let zoned = text.parse::<Zoned>().map(|zoned| zoned.timestamp());
        return zoned.map_err(|why| format!("{why}: "));
    }
    text.parse().ok().or_else(|| local(text)).ok_or_else(String::new)
}

/// A moment on this machine's clock: one that says nothing of another.
fn local(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    if pieces.offset().is_some() || pieces.time_zone_annotation().is_some() {
        return None;
    }
    let local = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    local.to_zoned(TimeZone::system()).ok().map(|zoned| zoned.timestamp())
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

    /// What is written of a place or of an offset is meant: a mistake there makes no moment of this machine's clock.
    #[test]
    fn a_time_zone_that_is_mistyped_is_no_moment() {
        for text in [
            "2026-11-20T22:30[Europe/Berlinn]",
            "2026-11-20[Europe/Berlinn]",
            "2026-11-20T22:30+05:00[Europe/Berlin]",
            "2026-11-20T21:30Z[Europe/Berlinn]",
            "2026-11-20T22:30[]",
            "2026-11-20T22:30[Europe/Berlin",
            "2026-11-20T22:30+26:00",
        ] {
            for read in [moment(text), past(text)] {
                let why = read.unwrap_err();
                assert!(why.contains("2026-11-20T22:30[Europe/Berlin]"), "{text}: {why}");
            }
        }
        assert!(moment("2026-11-20T22:30[Europe/Berlinn]").unwrap_err().contains("Europe/Berlinn"));
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
