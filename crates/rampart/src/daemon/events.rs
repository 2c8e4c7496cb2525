//! The newest events that rules recorded, in memory. Older events are evicted, and a client that asks too late learns how many it
//! missed. Reads no clock.

use crate::api::{Event, EventDetails, Events};
use jiff::{SignedDuration, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Events that are kept: some 5 MB of them at most.
const KEPT: usize = 16_384;

/// The time that was so long ago, in milliseconds like every time that the daemon shows.
pub(super) fn moment(now: Timestamp, ago: Duration) -> Timestamp {
    let ago = SignedDuration::try_from(ago).unwrap_or(SignedDuration::ZERO);
    let at = now.checked_sub(ago).unwrap_or(now);
    at.round(jiff::Unit::Millisecond).unwrap_or(at)
}

#[derive(Debug, Default)]
pub(super) struct EventBuffer {
    /// The newest, the oldest of them first.
    kept: VecDeque<Event>,
    /// Number of the newest.
    last: u64,
    pub(super) suppressed: u64,
}

impl EventBuffer {
    /// Returns the event as it is kept.
    pub(super) fn add(&mut self, now: Timestamp, ago: Duration, details: EventDetails) -> &Event {
        let at = moment(now, ago);
        self.last += 1;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Event { number: self.last, at, details });
        &self.kept[self.kept.len() - 1]
    }

    /// Those after a number, the oldest first, or the newest; `limit` of them at most.
    pub(super) fn events(&self, after: Option<u64>, limit: u64) -> Events {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let first_kept = self.last + 1 - self.kept.len() as u64;
        let (skipped, missed) = match after {
            None => (self.kept.len().saturating_sub(limit), 0),
            // A number of the future is one of another daemon: its events are over.
            Some(after) if after > self.last => (0, 0),
            Some(after) => {
                let skipped = (after + 1).saturating_sub(first_kept);
                let missed = first_kept.saturating_sub(after + 1);
                (usize::try_from(skipped).unwrap_or(usize::MAX), missed)
            }
        };
        let events: Vec<Event> = self.kept.iter().skip(skipped).take(limit).cloned().collect();
        let next = events.last().map_or(self.last, |event| event.number);
        Events { next, missed, suppressed: self.suppressed, events }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::api::{Closed, EventName};

    pub(crate) fn details(rule: &str) -> EventDetails {
        EventDetails {
            event: EventName::Opened,
            rule: Some(rule.to_owned()),
            source_list: None,
            destination_list: None,
            protocol: "tcp".to_owned(),
            source: "10.0.0.5".parse().unwrap(),
            source_port: 40_000,
            destination: "2001:db8::1".parse().unwrap(),
            destination_port: 443,
            from: "in".to_owned(),
            to: Some("out".to_owned()),
            reason: None,
            closed: None,
            alert: None,
            scan: None,
            request: None,
        }
    }

    pub(crate) fn refused() -> EventDetails {
        let reason = Some("default-deny".to_owned());
        EventDetails { event: EventName::Refused, rule: None, to: None, reason, ..details("") }
    }

    pub(crate) fn closed() -> EventDetails {
        let closed = Closed {
            state: "time-wait".to_owned(),
            seconds: 250,
            packets_out: 6,
            bytes_out: 1_395,
            packets_back: 5,
            bytes_back: 783,
        };
        EventDetails { event: EventName::Closed, closed: Some(closed), ..details("web") }
    }

    #[test]
    fn the_newest_are_kept_and_what_is_missing_is_counted() {
        let mut buffer = EventBuffer::default();
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        let numbers = |buffer: &EventBuffer, after, limit| {
            let found = buffer.events(after, limit);
            let numbers: Vec<u64> = found.events.iter().map(|event| event.number).collect();
            (numbers.first().copied(), numbers.len(), found.missed, found.next)
        };
        assert_eq!(numbers(&buffer, None, 10), (None, 0, 0, 0));
        for i in 0..KEPT as u64 + 5 {
            buffer.add(now, Duration::from_millis(i), details("web"));
        }
        let last = KEPT as u64 + 5;
        assert_eq!(buffer.kept[0].at.to_string(), "2026-11-20T09:59:59.995Z");
        for (what, after, limit, expected) in [
            ("the newest", None, 3, (Some(last - 2), 3, 0, last)),
            ("all", None, u64::MAX, (Some(6), KEPT, 0, last)),
            ("after one", Some(last - 2), 10, (Some(last - 1), 2, 0, last)),
            ("a part of those after one", Some(10), 4, (Some(11), 4, 0, 14)),
            ("nothing is newer", Some(last), 10, (None, 0, 0, last)),
            ("asked too late", Some(2), 1, (Some(6), 1, 3, 6)),
            ("from the beginning", Some(0), 1, (Some(6), 1, 5, 6)),
            ("numbers of another daemon", Some(last + 9), 1, (Some(6), 1, 0, 6)),
        ] {
            assert_eq!(numbers(&buffer, after, limit), expected, "{what}");
        }
    }
}
