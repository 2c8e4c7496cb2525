//! Schedules: from text to windows, dates and a time zone.

use super::Kind;
use crate::schedule::{Schedule, Window};
use crate::schema;
use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::ops::Range;
use toml_reader::{Collector, DeValue, Located, Section, Value, shortened, texts, wrong_type};

const KIND: Kind = Kind {
    key: "schedules",
    one: "schedule",
    form: "a table with `times`",
    reserved: &["always"],
    keys: schema::SCHEDULE,
};

/// The most schedules of a policy, because each change of one of them builds new tables.
const MAX_SCHEDULES: usize = 256;
/// The most windows, and the most excepted dates, of a schedule.
const MAX_PARTS: usize = 400;

/// The schedules, each with the bytes that name it.
pub(super) fn read(root: &Section<'_>, c: &mut Collector<'_>) -> Vec<(Schedule, Range<usize>)> {
    let mut schedules = Vec::new();
    let zones = TimeZoneDatabase::bundled();
    for (name, section) in KIND.sections(root, c) {
        if let Some(schedule) = schedule(&name, &section, &zones, c) {
            schedules.push((schedule, name.span));
        }
    }
    if let Some((_, span)) = schedules.get(MAX_SCHEDULES) {
        c.report(
            span.clone(),
            "the policy has too many schedules",
            Some(format!("it can have {MAX_SCHEDULES}")),
        );
    }
    schedules
}

fn schedule(
    name: &Located<&str>,
    section: &Section<'_>,
    zones: &TimeZoneDatabase,
    c: &mut Collector<'_>,
) -> Option<Schedule> {
    let time_zone =
        section.required_text("time_zone", "\"Europe/Berlin\"", c).and_then(|t| time_zone(&t, zones, c));
    let windows = windows(section, c);
    let from = section.value("from").and_then(|value| date(value, "from", c));
    let until = section.value("until").and_then(|value| date(value, "until", c));
    let except = section.value("except").map_or_else(Vec::new, |value| dates(value, c));
    if let (Some(from), Some(until)) = (from, until)
        && until < from
    {
        let help = "write the first day under `from` and the last under `until`".to_owned();
        c.report(section.key_span("until"), "the schedule ends before it begins", Some(help));
    }
    Some(Schedule {
        name: name.value.to_owned(),
        time_zone: time_zone?,
        windows: windows?,
        from,
        until,
        except,
    })
}

fn time_zone(text: &Located<&str>, zones: &TimeZoneDatabase, c: &mut Collector<'_>) -> Option<TimeZone> {
    match zones.get(text.value) {
        Ok(zone) => Some(zone),
        Err(_) => {
            let names: Vec<String> = zones.available().map(|name| name.as_str().to_owned()).collect();
            let near = c.suggestion(text.value, names.iter().map(String::as_str));
            let near = near.filter(|help| help.starts_with("did"));
            let help = near.unwrap_or("write a name such as \"Europe/Berlin\" or \"UTC\"".to_owned());
            c.report(
                text.span.clone(),
                format!("there is no time zone `{}`", shortened(text.value)),
                Some(help),
            );
            None
        }
    }
}

fn windows(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Vec<Window>> {
    let Some(value) = section.value("times") else {
        section.missing("times", "[\"mon-fri 08:00-18:00\"]", c);
        return None;
    };
    let words = texts(value, "times", c)?;
    if words.len() > MAX_PARTS {
        c.report(value.span(), "the schedule has too many times", Some(format!("it can have {MAX_PARTS}")));
        return None;
    }
    let windows = words.iter().map(|word| match Window::parse(word.value) {
        Ok(window) => Some(window),
        Err((message, help)) => {
            c.report(word.span.clone(), shortened(&message), help);
            None
        }
    });
    windows.collect::<Vec<_>>().into_iter().collect()
}

fn dates(value: &Value<'_>, c: &mut Collector<'_>) -> Vec<Date> {
    match value.get_ref() {
        DeValue::Array(items) if items.len() <= MAX_PARTS => {
            items.iter().filter_map(|item| date(item, "except", c)).collect()
        }
        DeValue::Array(_) => {
            c.report(
                value.span(),
                "the schedule has too many dates",
                Some(format!("it can have {MAX_PARTS}")),
            );
            Vec::new()
        }
        other => {
            wrong_type(c, "except", value.span(), other, "dates in [ ]: [2026-12-24]").unwrap_or_default()
        }
    }
}

/// A TOML date without a time: `2026-12-24`.
fn date(value: &Value<'_>, key: &str, c: &mut Collector<'_>) -> Option<Date> {
    let written = value.get_ref().as_datetime().filter(|d| d.time.is_none() && d.offset.is_none());
    let Some(day) = written.and_then(|d| d.date) else {
        return wrong_type(c, key, value.span(), value.get_ref(), "a date without quotes: 2026-12-24");
    };
    let date =
        i16::try_from(day.year).ok().and_then(|year| Date::new(year, day.month as i8, day.day as i8).ok());
    // Near the ends of the calendar the day before or after does not exist.
    let date = date.filter(|date| (1..=9998).contains(&date.year()));
    if date.is_none() {
        c.report(
            value.span(),
            "there is no such day",
            Some("write a date of the years 1 to 9998".to_owned()),
        );
    }
    date
}
