//! Alerts of rules that stand: raised when more came than the rule allows, over when that is no longer so. Reads no clock.

use super::Moment;
use super::told::moment;
use crate::api::{Alert, EventName, Heard, Surging};
use crate::plane::Surge;
use jiff::Timestamp;
use policy::quota::Sliding;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Alerts at once. Each rule can have one for every address that there is.
const MOST: usize = 1_024;

/// How often the data plane tells of one that goes on, and as much again because it is asked now and then.
const QUIET: Duration = Duration::from_secs(2);

/// The alerts that stand.
#[derive(Debug, Default)]
pub(super) struct Surges {
    standing: BTreeMap<(String, Option<IpAddr>), Standing>,
    /// Whether there was one more than can stand, since the last look.
    is_beyond: bool,
}

#[derive(Debug)]
struct Standing {
    since: Timestamp,
    heard: Heard,
    sliding: Sliding,
    /// When it was told last, on the data plane's clock and on ours.
    at: Duration,
    told: Instant,
}

impl Standing {
    /// What came within the time before now, if nothing came since it was told.
    fn count(&self, now: Instant) -> u64 {
        self.sliding.estimate(self.at + now.saturating_duration_since(self.told))
    }
}

impl Surges {
    /// Takes in what was told so long ago. Gives the alert when it is a new one.
    pub(super) fn heed(&mut self, surge: Surge, now: Moment, ago: Duration) -> Option<Heard> {
        let Surge { heard, sliding, at } = surge;
        let alert = heard.alert.as_ref()?;
        let key = (heard.rule.clone().unwrap_or_default(), alert.address);
        let told = now.steady.checked_sub(ago).unwrap_or(now.steady);
        if let Some(standing) = self.standing.get_mut(&key) {
            *standing = Standing { since: standing.since, heard, sliding, at, told };
            return None;
        }
        if self.standing.len() == MOST {
            self.is_beyond = true;
            return None;
        }
        let since = moment(now.wall, ago);
        self.standing.insert(key, Standing { since, heard: heard.clone(), sliding, at, told });
        Some(heard)
    }

    /// Forgets those of which nothing more is told and whose time has gone by. Gives them.
    pub(super) fn fade(&mut self, now: Moment) -> Vec<Heard> {
        let is_over = |standing: &Standing| {
            let threshold = standing.heard.alert.as_ref().map_or(0, |alert| alert.threshold);
            now.steady.saturating_duration_since(standing.told) > QUIET
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
            let alert = standing.heard.alert.map(|alert| Surging { count, ..alert });
            Heard { event: EventName::Over, alert, ..standing.heard }
        })
        .collect()
    }

    /// Those that stand, by rule.
    pub(super) fn standing(&self) -> Vec<Alert> {
        let alert = |((rule, _), standing): (&(String, _), &Standing)| {
            let what = standing.heard.alert.clone()?;
            Some(Alert { rule: rule.clone(), since: standing.since, what })
        };
        self.standing.iter().filter_map(alert).collect()
    }

    /// What to look into, beside the alerts themselves.
    pub(super) fn trouble(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_beyond).then(|| {
            format!("more than {MOST} alerts would stand at once, and the others are not told: raise the counts of `alert`")
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::told::tests::heard;
    use super::*;
    use jiff::SignedDuration;

    /// So many came from an address by a second of a window of a minute; ten raise no alert.
    pub(crate) fn surge(rule: &str, from: u8, second: u64, count: u64) -> Surge {
        let address = Some(IpAddr::from([10, 0, 0, from]));
        let alert = Surging { per: "source".to_owned(), address, count, threshold: 10, within_seconds: 60 };
        let sliding = Sliding { count, ..Sliding::new(Duration::from_secs(60), Duration::from_secs(1_000)) };
        let heard = Heard { event: EventName::Alert, alert: Some(alert), ..heard(rule) };
        Surge { heard, sliding, at: Duration::from_secs(1_000 + second) }
    }

    #[test]
    fn an_alert_stands_until_its_time_has_gone_by() {
        let start = Moment { wall: "2026-11-20T10:00:00Z".parse().unwrap(), steady: Instant::now() };
        let at = |second: u64| Moment {
            wall: start.wall + SignedDuration::from_secs(second as i64),
            steady: start.steady + Duration::from_secs(second),
        };
        let mut surges = Surges::default();
        let words =
            |heard: &Heard| format!("{}: {}", heard.event.name(), heard.alert.as_ref().unwrap().words());
        let raised = |surges: &mut Surges, surge: Surge, second| {
            surges.heed(surge, at(second), Duration::ZERO).iter().map(words).collect::<Vec<_>>()
        };
        assert_eq!(
            raised(&mut surges, surge("a", 1, 0, 11), 0),
            ["alert: 11 within 1min from 10.0.0.1, more than 10"]
        );
        assert!(raised(&mut surges, surge("a", 1, 1, 40), 1).is_empty(), "it stands already");
        assert_eq!(raised(&mut surges, surge("a", 2, 1, 12), 1).len(), 1, "another address");
        assert_eq!(raised(&mut surges, surge("b", 1, 1, 12), 1).len(), 1, "another rule");
        assert_eq!(surges.standing()[0].what.count, 40);
        // 40 and 12 came in the window that ends after a minute, and fade in the one after it.
        for (second, over) in [(2, 0), (59, 0), (65, 0), (71, 2), (72, 0), (103, 0), (105, 1), (106, 0)] {
            let faded = surges.fade(at(second));
            assert_eq!(faded.len(), over, "at {second} s");
            for heard in faded {
                assert!(words(&heard).starts_with("over: "), "{}", words(&heard));
            }
        }
        assert!(surges.standing().is_empty());
    }

    #[test]
    fn there_is_a_most_and_it_is_told() {
        let now = Moment { wall: "2026-11-20T10:00:00Z".parse().unwrap(), steady: Instant::now() };
        let mut surges = Surges::default();
        for i in 0..MOST + 1 {
            surges.heed(surge(&i.to_string(), 1, 0, 11), now, Duration::ZERO);
        }
        assert_eq!(surges.standing().len(), MOST);
        assert!(surges.trouble().is_some_and(|text| text.contains("1024 alerts")));
        assert_eq!(surges.trouble(), None);
    }
}
