//! Which events `rampart log` shows: `event=refused dport=22 reason=default-deny`, and of which time. All parts must hold. Pure.

use crate::api::{Event, EventDetails, EventName, Filter, FilterError, Flow};
use crate::moment::Period;

/// Keys that events have and flows have not.
const OWN: [(&str, &str); 3] = [
    ("event", "opened, refused, closed, alert, over or scan"),
    ("reason", "why a packet was refused, as `rampart drops` names it"),
    ("list", "the list on which an end was found, for example bad or country:CH"),
];

/// Events that are shown; without parts, all of them.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    flows: Filter,
    own: Vec<(&'static str, String)>,
    period: Period,
    is_all: bool,
}

impl Wanted {
    /// Reads words such as `event=refused`, for events of a period.
    ///
    /// # Errors
    /// The first word that is no part of a filter.
    pub(super) fn parse(words: &[String], period: Period) -> Result<Self, FilterError> {
        let (mut own, mut of_flows) = (Vec::new(), Vec::new());
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match OWN.iter().find(|(name, _)| *name == key) {
                Some((name, takes)) => {
                    let is_event = || EventName::ALL.iter().any(|event| event.name() == value);
                    let is_reason = || dataplane::Reason::ALL.iter().any(|reason| reason.name() == value);
                    let is_right = match *name {
                        "event" => is_event(),
                        "reason" => is_reason(),
                        _ => !value.is_empty(),
                    };
                    if !is_right {
                        return Err(FilterError(format!("{word}: {key} takes {takes}")));
                    }
                    own.push((*name, value.to_owned()));
                }
                None if key == "state" => {
                    let why = "`state` is of flows: events have `event`, `reason` and `list` besides the other filters of flows";
                    return Err(FilterError(why.to_owned()));
                }
                None => of_flows.push(word.as_str()),
            }
        }
        let is_all = words.is_empty() && period.is_all();
        Ok(Self { flows: Filter::parse(of_flows)?, own, period, is_all })
    }

    pub(super) fn is_all(&self) -> bool {
        self.is_all
    }

    /// Leaves those that are wanted, the newest, as many as that.
    pub(super) fn keep(&self, events: &mut Vec<Event>, limit: u64) {
        events.retain(|event| self.period.has(event.at) && self.accepts(&event.details));
        newest(events, limit);
    }

    fn accepts(&self, details: &EventDetails) -> bool {
        let own = self.own.iter().all(|(key, value)| {
            let is = |it: &Option<String>| it.as_ref() == Some(value);
            match *key {
                "event" => details.event.name() == value,
                "reason" => is(&details.reason),
                _ => is(&details.source_list) || is(&details.destination_list),
            }
        });
        own && self.flows.accepts(&as_flow(details))
    }
}

/// Leaves the last, as many as that.
pub(super) fn newest<T>(values: &mut Vec<T>, limit: u64) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    values.drain(..values.len().saturating_sub(limit));
}

/// An event's packet as if it were a flow: the filters of flows look at ends, zones and the rule.
fn as_flow(details: &EventDetails) -> Flow {
    Flow {
        protocol: details.protocol.clone(),
        source: details.source,
        source_port: details.source_port,
        destination: details.destination,
        destination_port: details.destination_port,
        source_alias: None,
        destination_alias: None,
        from: details.from.clone(),
        to: details.to.clone().unwrap_or_default(),
        rule: details.rule.clone(),
        state: String::new(),
        idle_seconds: 0,
        expires_seconds: 0,
        packets_out: 0,
        bytes_out: 0,
        packets_back: 0,
        bytes_back: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_filtered_by_what_they_say() {
        let refused = EventDetails {
            event: EventName::Refused,
            rule: Some("web".to_owned()),
            source_list: Some("bad".to_owned()),
            destination_list: None,
            protocol: "tcp".to_owned(),
            source: "10.0.0.5".parse().unwrap(),
            source_port: 40_000,
            destination: "192.0.2.7".parse().unwrap(),
            destination_port: 22,
            from: "in".to_owned(),
            to: None,
            reason: Some("rule-deny".to_owned()),
            closed: None,
            alert: None,
            scan: None,
            request: None,
        };
        for (words, expected) in [
            ("", Ok(true)),
            ("event=refused", Ok(true)),
            ("event=opened", Ok(false)),
            ("reason=rule-deny list=bad", Ok(true)),
            ("reason=rule-deny list=good", Ok(false)),
            ("reason=default-deny", Ok(false)),
            ("src=10.0.0.0/8 dport=20-25 proto=tcp zone=in rule=web", Ok(true)),
            ("host=192.0.2.8", Ok(false)),
            ("to=out", Ok(false)),
            ("event=denied", Err("event=denied: event takes opened, refused")),
            ("list=", Err("list=: list takes the list")),
            ("reason", Err("reason takes why")),
            ("reason=rule-denied", Err("reason takes why")),
            ("state=established", Err("`state` is of flows")),
            ("port=22", Err("there is no filter `port`")),
            ("22", Err("`22` is no filter")),
        ] {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            match (Wanted::parse(&words, Period::default()), expected) {
                (Ok(wanted), Ok(expected)) => {
                    assert_eq!(wanted.accepts(&refused), expected, "{words:?}");
                    assert_eq!(wanted.is_all(), words.is_empty());
                }
                (Err(why), Err(text)) => assert!(why.0.contains(text), "{words:?}: {why}"),
                (other, _) => panic!("{words:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn of_those_that_are_wanted_the_newest_are_shown() {
        let minute = |number: u64| format!("2026-11-22T10:0{number}:00Z").parse().unwrap();
        let event = |number: u64| Event {
            number,
            at: minute(number),
            details: EventDetails {
                rule: Some(if number.is_multiple_of(2) { "even" } else { "odd" }.to_owned()),
                ..crate::daemon::events::tests::details("")
            },
        };
        for (words, since, until, limit, expected) in [
            ("rule=odd", None, None, 2, vec![7, 9]),
            ("rule=odd", None, None, 99, vec![1, 3, 5, 7, 9]),
            ("rule=none", None, None, 9, vec![]),
            ("", None, None, 1, vec![9]),
            ("", Some(3), Some(5), 99, vec![3, 4, 5]),
            ("", Some(3), Some(5), 2, vec![4, 5]),
            ("rule=odd", Some(4), None, 99, vec![5, 7, 9]),
        ] {
            let mut events: Vec<Event> = (1..10).map(event).collect();
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let period = Period { since: since.map(minute), until: until.map(minute) };
            Wanted::parse(&words, period).unwrap().keep(&mut events, limit);
            assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), expected, "{words:?}");
        }
    }
}
