//! Access hours: windows of the week on a time zone's wall clock, between two dates, with dates that are excepted. Reads no clock;
//! the moment is an argument.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use std::fmt;

/// Times at which a rule holds.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// The time zone of the wall clock.
    pub time_zone: TimeZone,
    /// Parts of the week; never empty.
    pub windows: Vec<Window>,
    /// First day on which a window may begin; `None` is no bound.
    pub from: Option<Date>,
    /// Last day on which a window may begin; `None` is no bound.
    pub until: Option<Date>,
    /// Days on which no window begins.
    pub except: Vec<Date>,
}

/// Hours on some days of the week. A window that ends at or before its beginning runs into the next day and belongs to the day
/// on which it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The days: bit 0 is Monday.
    pub days: u8,
    /// Minute of the day at which it begins, below 1440.
    pub begin: u16,
    /// Minute of the day at which it ends: the first minute outside. At most 1440.
    pub end: u16,
}

/// Minutes of a day on the wall clock.
pub const DAY: u16 = 1440;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Schedule {
    /// Whether the schedule holds at a moment.
    pub fn holds(&self, at: Timestamp) -> bool {
        let local = at.to_zoned(self.time_zone.clone()).datetime();
        self.holds_locally(local)
    }

    fn holds_locally(&self, local: DateTime) -> bool {
        let minute = local.hour() as u16 * 60 + local.minute() as u16;
        let today = |w: &Window| w.has(local.date()) && minute >= w.begin && (minute < w.end || w.wraps());
        let since_yesterday = |w: &Window, yesterday: Date| w.wraps() && w.has(yesterday) && minute < w.end;
        let yesterday = local.date().yesterday().ok();
        (self.day_counts(local.date()) && self.windows.iter().any(today))
            || yesterday
                .is_some_and(|y| self.day_counts(y) && self.windows.iter().any(|w| since_yesterday(w, y)))
    }

    /// Whether a window begins on a day.
    pub(crate) fn begins_on(&self, day: Date) -> bool {
        self.day_counts(day) && self.windows.iter().any(|w| w.has(day))
    }

    fn day_counts(&self, day: Date) -> bool {
        self.from.is_none_or(|from| day >= from)
            && self.until.is_none_or(|until| day <= until)
            && !self.except.contains(&day)
    }

    /// Whether dates bound the schedule. If they do not, all weeks are the same on the wall clock.
    pub fn is_dated(&self) -> bool {
        self.from.is_some() || self.until.is_some() || !self.except.is_empty()
    }

    /// Whether a minute of the week (0 is Monday 00:00) is in a window, whatever the dates say.
    pub fn holds_in_week(&self, minute_of_week: u16) -> bool {
        let (day, minute) = (minute_of_week / DAY, minute_of_week % DAY);
        let yesterday = (day + 6) % 7;
        self.windows.iter().any(|w| {
            let today = w.days & 1 << day != 0 && minute >= w.begin && (minute < w.end || w.wraps());
            today || (w.wraps() && w.days & 1 << yesterday != 0 && minute < w.end)
        })
    }

    /// Moments after `at`, up to a week after the nearest of them, at which the schedule may begin or cease to hold.
    fn candidates(&self, at: Timestamp) -> Vec<Timestamp> {
        let today = at.to_zoned(self.time_zone.clone()).date();
        let dates = self.from.iter().chain(&self.until).chain(&self.except).copied();
        let ahead = std::iter::once(today).chain(dates.filter(|day| *day >= today));
        let mut found: Vec<Timestamp> = self.time_zone.following(at).take(4).map(|t| t.timestamp()).collect();
        for start in ahead {
            for offset in -2i64..=8 {
                let Ok(day) = start.checked_add(offset.days()) else { continue };
                let minutes = self.windows.iter().flat_map(|w| [w.begin, w.end]).chain([0]);
                found.extend(minutes.flat_map(|minute| self.moments(day, minute)));
            }
        }
        found
    }

    /// The moments at which the wall clock shows a minute of a day: two when the clock is put back.
    fn moments(&self, day: Date, minute: u16) -> impl Iterator<Item = Timestamp> + use<> {
        let day = if minute == DAY { day.tomorrow().unwrap_or(day) } else { day };
        let ambiguous = self.time_zone.to_ambiguous_timestamp(day.to_datetime(clock(minute % DAY)));
        ambiguous.earlier().into_iter().chain(ambiguous.later())
    }
}

fn clock(minute: u16) -> Time {
    // Both parts are below 60, so they fit.
    Time::new((minute / 60) as i8, (minute % 60) as i8, 0, 0).unwrap_or_default()
}

/// The next moment after `at` at which one of some schedules begins or ceases to hold, so that tables must be replaced; `None`
/// if none ever does.
pub fn next_change<'a>(
    schedules: impl IntoIterator<Item = &'a Schedule> + Clone,
    at: Timestamp,
) -> Option<Timestamp> {
    let state = |t: Timestamp| schedules.clone().into_iter().map(|s| s.holds(t)).collect::<Vec<_>>();
    let now = state(at);
    let mut candidates: Vec<Timestamp> =
        schedules.clone().into_iter().flat_map(|s| s.candidates(at)).filter(|t| *t > at).collect();
    candidates.sort_unstable();
    candidates.dedup();
    candidates.into_iter().find(|t| state(*t) != now)
}

impl Window {
    fn has(self, day: Date) -> bool {
        self.days & 1 << weekday_bit(day.weekday()) != 0
    }

    fn wraps(self) -> bool {
        self.end <= self.begin
    }

    /// Reads `mon-fri 08:00-18:00`, `sat,sun`, `daily 22:00-06:00`.
    ///
    /// # Errors
    /// A message that says what is wrong, and a help that says what would be right.
    pub fn parse(text: &str) -> Result<Self, (String, Option<String>)> {
        let wrong = |help: &str| (format!("`{text}` is not a time of the week"), Some(help.to_owned()));
        let example = "write days, and hours if it is not the whole day: \"mon-fri 08:00-18:00\", \"sat,sun\", \
                       \"daily 22:00-06:00\"";
        let mut words = text.split_whitespace();
        let days = words.next().and_then(days).ok_or_else(|| wrong(example))?;
        let (begin, end) = match words.next() {
            None => (0, DAY),
            Some(hours) => hours_of(hours).ok_or_else(|| wrong(example))?,
        };
        match words.next() {
            Some(_) => Err(wrong(example)),
            None if begin == end => Err(wrong("it ends when it begins: for whole days leave the hours out")),
            None => Ok(Self { days, begin, end }),
        }
    }
}

fn weekday_bit(day: Weekday) -> u32 {
    u32::from(day.to_monday_zero_offset().unsigned_abs())
}

fn days(text: &str) -> Option<u8> {
    if text == "daily" {
        return Some(0x7f);
    }
    let position = |name: &str| DAYS.iter().position(|day| *day == name);
    text.split(',').try_fold(0u8, |found, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (position(first)?, position(last)?);
        let length = (last + 7 - first) % 7;
        Some((0..=length).fold(found, |found, i| found | 1 << ((first + i) % 7)))
    })
}

fn hours_of(text: &str) -> Option<(u16, u16)> {
    let (begin, end) = text.split_once('-')?;
    Some((minute(begin).filter(|m| *m < DAY)?, minute(end)?))
}

fn minute(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let two_digits =
        |s: &str| (s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse::<u16>().ok());
    let (hours, minutes) = (two_digits(hours)??, two_digits(minutes)??);
    (minutes < 60 && hours * 60 + minutes <= DAY).then_some(hours * 60 + minutes)
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = (0..7).filter(|i| self.days & 1 << i != 0).map(|i| DAYS[i]).collect();
        let (b, e) = (self.begin, self.end);
        write!(f, "{} {:02}:{:02}-{:02}:{:02}", names.join(","), b / 60, b % 60, e / 60, e % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZoneDatabase;

    fn schedule(zone: &str, windows: &[&str]) -> Schedule {
        Schedule {
            name: "s".to_owned(),
            time_zone: TimeZoneDatabase::bundled().get(zone).unwrap(),
            windows: windows.iter().map(|w| Window::parse(w).unwrap()).collect(),
            from: None,
            until: None,
            except: Vec::new(),
        }
    }

    #[test]
    fn hours_are_those_of_the_wall_clock() {
        let office = schedule("Europe/Berlin", &["mon-fri 08:00-18:00", "sat 22:00-02:00"]);
        for (at, expected, why) in [
            ("2026-11-20T07:00:00Z", true, "Friday 08:00 in winter"),
            ("2026-11-20T06:59:59Z", false, "a second before"),
            ("2026-11-20T17:00:00Z", false, "18:00 is outside"),
            ("2026-07-17T06:00:00Z", true, "08:00 in summer"),
            ("2026-11-21T12:00:00Z", false, "Saturday at noon"),
            ("2026-11-21T21:30:00Z", true, "Saturday 22:30"),
            ("2026-11-22T00:30:00Z", true, "Sunday 01:30 belongs to Saturday's window"),
            ("2026-11-22T21:30:00Z", false, "Sunday 22:30"),
        ] {
            assert_eq!(office.holds(at.parse().unwrap()), expected, "{why}");
        }
    }

    #[test]
    fn dates_bound_the_day_on_which_a_window_begins() {
        let mut night = schedule("UTC", &["daily 22:00-06:00"]);
        night.from = Some("2026-12-01".parse().unwrap());
        night.until = Some("2026-12-03".parse().unwrap());
        night.except = vec!["2026-12-02".parse().unwrap()];
        for (at, expected) in [
            ("2026-12-01T03:00:00Z", false),
            ("2026-12-01T23:00:00Z", true),
            ("2026-12-02T03:00:00Z", true),
            ("2026-12-02T23:00:00Z", false),
            ("2026-12-03T03:00:00Z", false),
            ("2026-12-04T05:59:00Z", true),
            ("2026-12-04T23:00:00Z", false),
        ] {
            assert_eq!(night.holds(at.parse().unwrap()), expected, "{at}");
        }
    }

    /// The next change is compared with a walk minute by minute, over both changes of the clock.
    #[test]
    fn the_next_change_is_found_also_where_the_clock_is_moved() {
        let mut dated = schedule("America/New_York", &["daily 23:00-24:00"]);
        dated.from = Some("2026-03-30".parse().unwrap());
        let schedules = [schedule("Europe/Berlin", &["daily 02:30-04:00", "sun 01:00-02:15"]), dated];
        for start in ["2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z", "2026-03-25T00:00:00Z"] {
            let mut at: Timestamp = start.parse().unwrap();
            for _ in 0..12 {
                let state = |t| schedules.iter().map(|s| s.holds(t)).collect::<Vec<_>>();
                let next = next_change(&schedules, at).unwrap();
                let mut walk = at;
                while state(walk) == state(at) {
                    walk = walk.checked_add(1.minute()).unwrap();
                }
                assert_eq!(next, walk, "after {at}");
                at = next;
            }
        }
    }

    #[test]
    fn a_schedule_that_is_over_never_changes() {
        let mut over = schedule("UTC", &["daily"]);
        over.until = Some("2020-01-01".parse().unwrap());
        assert_eq!(next_change([&over], "2026-01-01T00:00:00Z".parse().unwrap()), None);
        assert_eq!(next_change([&schedule("UTC", &["daily"])], Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn windows_as_they_are_written() {
        for (text, days, begin, end) in [
            ("mon-fri 08:00-18:00", 0x1f, 480, 1080),
            ("sat,sun", 0x60, 0, DAY),
            ("fri-mon 00:00-24:00", 0x71, 0, DAY),
            ("daily 22:00-06:00", 0x7f, 1320, 360),
        ] {
            assert_eq!(Window::parse(text).unwrap(), Window { days, begin, end }, "{text}");
        }
        for text in [
            "",
            "mon 8-9",
            "mon 08:00-25:00",
            "someday",
            "mon 08:00-08:00",
            "mon 24:00-01:00",
            "mon 08:00-09:00 x",
        ] {
            assert!(Window::parse(text).is_err(), "{text}");
        }
    }
}
