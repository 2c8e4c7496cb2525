//! Alerts that stand: each is raised when its rule passes the threshold, and over when the count is below it again. Reads no clock.

use super::Moment;
use super::events::moment;
use crate::api::{Alert, AlertCount, EventDetails, EventName};
use crate::plane::AlertReading;
use jiff::Timestamp;
use policy::quota::Sliding;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Alerts that can stand at once. Each rule can have one for every address that there is.
const MOST: usize = 1_024;

/// The data plane repeats a standing alert once a second, and is read now and then: without a reading for this long, none came.
const QUIET: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Alerts {
    standing: BTreeMap<(String, Option<IpAddr>), Standing>,
    /// Whether there was one more than can stand, since the last look.
    is_beyond: bool,
}

#[derive(Debug)]
struct Standing {
    since: Timestamp,
    details: EventDetails,
    sliding: Sliding,
    /// When it was last read, on the data plane's clock and on ours.
    at: Duration,
    read: Instant,
}

impl Standing {
    /// The count within the time before now, if nothing came since the last reading.
    fn count(&self, now: Instant) -> u64 {
        self.sliding.estimate(self.at + now.saturating_duration_since(self.read))
    }
}

impl Alerts {
    /// Takes in a reading that was so long ago. Returns the event if the alert did not stand before.
    pub(super) fn take(&mut self, reading: AlertReading, now: Moment, ago: Duration) -> Option<EventDetails> {
        let AlertReading { details, sliding, at } = reading;
        let alert = details.alert.as_ref()?;
        let key = (details.rule.clone().unwrap_or_default(), alert.address);
        let read = now.steady.checked_sub(ago).unwrap_or(now.steady);
        if let Some(standing) = self.standing.get_mut(&key) {
            *standing = Standing { since: standing.since, details, sliding, at, read };
            return None;
        }
        if self.standing.len() == MOST {
            self.is_beyond = true;
            return None;
        }
        let since = moment(now.wall, ago);
        self.standing.insert(key, Standing { since, details: details.clone(), sliding, at, read });
        Some(details)
    }

    /// Ends the alerts whose count fell to the threshold and that are no longer repeated. Returns their events.
    pub(super) fn end_quiet(&mut self, now: Moment) -> Vec<EventDetails> {
        let is_over = |standing: &Standing| {
            let threshold = standing.details.alert.as_ref().map_or(0, |alert| alert.threshold);
            now.steady.saturating_duration_since(standing.read) > QUIET
                && standing.count(now.steady) <= threshold
        };
        let over: Vec<_> = self
            .standing
            .iter()
            .filter(|(_, standing)| is_over(standing))
            .map(|(key, _)| key.clone())
            .collect();
        let over = over.iter().filter_map(|key| self.standing.remove(key));
        over.map(|standing| {
            let count = standing.count(now.steady);
            let alert = standing.details.alert.map(|alert| AlertCount { count, ..alert });
            EventDetails { event: EventName::Over, alert, ..standing.details }
        })
        .collect()
    }

    /// The alerts that stand, by rule.
    pub(super) fn standing(&self) -> Vec<Alert> {
        let alert = |((rule, _), standing): (&(String, _), &Standing)| {
            let counted = standing.details.alert.clone()?;
            Some(Alert { rule: rule.clone(), since: standing.since, counted })
        };
        self.standing.iter().filter_map(alert).collect()
    }

    pub(super) fn trouble(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_beyond).then(|| {
            format!("more than {MOST} alerts would stand at once, and the others are not shown: raise the counts of `alert`")
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::events::tests::details;
    use super::*;
    use crate::table::alert_words;
    use jiff::SignedDuration;

    /// So many came from an address by a second of a window of a minute; ten raise no alert.
    pub(crate) fn reading(rule: &str, from: u8, second: u64, count: u64) -> AlertReading {
        let address = Some(IpAddr::from([10, 0, 0, from]));
        let alert =
            AlertCount { per: "source".to_owned(), address, count, threshold: 10, within_seconds: 60 };
        let sliding = Sliding { count, ..Sliding::new(Duration::from_secs(60), Duration::from_secs(1_000)) };
        let details = EventDetails { event: EventName::Alert, alert: Some(alert), ..details(rule) };
        AlertReading { details, sliding, at: Duration::from_secs(1_000 + second) }
    }

    #[test]
    fn an_alert_stands_until_its_time_has_gone_by() {
        let start = Moment { wall: "2026-11-20T10:00:00Z".parse().unwrap(), steady: Instant::now() };
        let at = |second: u64| Moment {
            wall: start.wall + SignedDuration::from_secs(second as i64),
            steady: start.steady + Duration::from_secs(second),
        };
        let mut alerts = Alerts::default();
        let words = |details: &EventDetails| {
            format!("{}: {}", details.event.name(), alert_words(details.alert.as_ref().unwrap()))
        };
        let raised = |alerts: &mut Alerts, reading: AlertReading, second| {
            alerts.take(reading, at(second), Duration::ZERO).iter().map(words).collect::<Vec<_>>()
        };
        assert_eq!(
            raised(&mut alerts, reading("a", 1, 0, 11), 0),
            ["alert: 11 within 1min from 10.0.0.1, more than 10"]
        );
        assert!(raised(&mut alerts, reading("a", 1, 1, 40), 1).is_empty(), "it stands already");
        assert_eq!(raised(&mut alerts, reading("a", 2, 1, 12), 1).len(), 1, "another address");
        assert_eq!(raised(&mut alerts, reading("b", 1, 1, 12), 1).len(), 1, "another rule");
        assert_eq!(alerts.standing()[0].counted.count, 40);
        // 40 and 12 came in the window that ends after a minute, and end_quiet in the one after it.
        for (second, over) in [(2, 0), (59, 0), (65, 0), (71, 2), (72, 0), (103, 0), (105, 1), (106, 0)] {
            let quiet = alerts.end_quiet(at(second));
            assert_eq!(quiet.len(), over, "at {second} s");
            for details in quiet {
                assert!(words(&details).starts_with("over: "), "{}", words(&details));
            }
        }
        assert!(alerts.standing().is_empty());
    }

    #[test]
    fn there_is_a_most_and_it_is_reported() {
        let now = Moment { wall: "2026-11-20T10:00:00Z".parse().unwrap(), steady: Instant::now() };
        let mut alerts = Alerts::default();
        for i in 0..MOST + 1 {
            alerts.take(reading(&i.to_string(), 1, 0, 11), now, Duration::ZERO);
        }
        assert_eq!(alerts.standing().len(), MOST);
        assert!(alerts.trouble().is_some_and(|text| text.contains("1024 alerts")));
        assert_eq!(alerts.trouble(), None);
    }
}
