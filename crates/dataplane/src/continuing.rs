//! Flows that go on for long, for the exporter: what each has carried since its record before, so that a collector sees a download of hours
//! while it goes on (the active timeout of IPFIX). What the records of a flow say sums up to what it carried. What was recorded of a flow is
//! known to this process alone, and of a bounded number of flows.

use crate::clock::{since as since_tick, whole_tick};
use crate::flow_records::{Identity, RecordedFlow};
use crate::flow_table::{FlowTable, is_mapping, named};
use crate::{DataplaneError, Flow};
use std::collections::HashMap;
use std::time::Duration;

/// Flows of which it is known what was recorded: some 12 MiB. Further ones have one record, at their end.
const MOST: usize = 65_536;
/// Records of a walk at most: a quarter of what waits for a collector that is slow (`crates/rampart/src/export/outlet.rs`).
const AT_ONCE: u64 = 16_384;
/// flowEndReason of a flow that goes on (RFC 5102 section 5.11.3): the active timeout.
const ACTIVE: u8 = 2;
/// How often the table is walked within a timeout, and between which times.
const WALKS: u32 = 6;
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Which flows that go on are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long after its beginning, or after its record before, a flow has one.
    pub timeout: Duration,
    /// Records a second at most, on average between two walks. Further ones come with the next walks.
    pub rate: u32,
}

impl Terms {
    fn pause(&self) -> Duration {
        (self.timeout / WALKS).clamp(LEAST_PAUSE, LONGEST_PAUSE)
    }

    /// Records of a walk that comes so long after the one before.
    fn room(&self, since: Duration) -> u64 {
        (u64::from(self.rate) * since.as_secs().max(1)).min(AT_ONCE)
    }
}

/// What records have said of a flow.
#[derive(Debug, Clone, Copy)]
struct Before {
    packets: (u64, u64),
    bytes: (u64, u64),
    /// When the last packet came that they count.
    until: Duration,
    /// When the last of them was due.
    at: Duration,
    /// The last walk that met the flow.
    walk: u64,
}

impl Before {
    /// A counter of two words may be read in the middle of its change, and then seems to have gone back.
    fn no_less_than(self, known: Before) -> Self {
        let most = |of: (u64, u64), known: (u64, u64)| (of.0.max(known.0), of.1.max(known.1));
        Self { packets: most(self.packets, known.packets), bytes: most(self.bytes, known.bytes), ..self }
    }
}

/// What was recorded of flows that go on.
#[derive(Debug, Default)]
pub struct Continuing {
    flows: HashMap<Identity, Before>,
    /// Another process may have recorded the flows that this one finds.
    comes_after_another: bool,
    walk: u64,
    walked: Option<Duration>,
    missing: u64,
}

impl Continuing {
    /// Of a firewall whose flows another process may have recorded before. What they carried until now is left to that one.
    pub fn after_another() -> Self {
        Self { comes_after_another: true, ..Self::default() }
    }

    /// Records that were not made, of flows that are more than can be followed or that another process recorded.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// A flow has ended: its record says what it carried since the one before.
    pub fn end(&mut self, ended: &mut RecordedFlow) {
        if let Some(before) = self.flows.remove(&ended.identity) {
            ended.since = Some(before.until);
            subtract(&mut ended.flow, &before);
        }
    }

    /// Nobody wants records of flows that go on. What was recorded stays known until the flows end.
    pub fn rest(&mut self) {
        self.comes_after_another = false;
    }

    /// The records that are due, if it is time to look. To be called about once a second or more often; `now` is CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The kernel does not let the table be read.
    pub fn due(
        &mut self,
        table: &FlowTable,
        terms: &Terms,
        now: Duration,
    ) -> Result<Vec<RecordedFlow>, DataplaneError> {
        let since = self.walked.map(|walked| now.saturating_sub(walked));
        if since.is_some_and(|since| since < terms.pause()) {
            return Ok(Vec::new());
        }
        let mut room = terms.room(since.unwrap_or(LEAST_PAUSE));
        let mut due = Vec::new();
        let (names, tick) = (table.names.now(), whole_tick(now));
        let rules = names.rules();
        table.each_record(|record, flow| {
            let identity = Identity::of(flow);
            // Of a full table most flows are young, and names cost most of a walk.
            let may_be_due =
                since_tick(tick, flow.opened) >= terms.timeout || self.flows.contains_key(&identity);
            if is_mapping(flow) || !may_be_due {
                return;
            }
            let Some(named) = named(record, flow, tick, &names, &rules) else { return };
            let recorded = self.meet(identity, named, terms, (now, since), room > 0);
            room -= u64::from(recorded.is_some());
            due.extend(recorded);
        })?;
        self.has_walked(now);
        Ok(due)
    }

    /// A walk comes by a flow: its record, if one is due and there is room for it. `since` is the time since the last walk.
    fn meet(
        &mut self,
        identity: Identity,
        mut flow: Flow,
        terms: &Terms,
        (now, since): (Duration, Option<Duration>),
        has_room: bool,
    ) -> Option<RecordedFlow> {
        let is_old = flow.age >= terms.timeout;
        let known = self.flows.get_mut(&identity).map(|before| {
            before.walk = self.walk;
            *before
        });
        if let Some(before) = known {
            if now.saturating_sub(before.at) < terms.timeout || !has_room {
                return None;
            }
        } else if !is_old || !has_room {
            return None;
        } else if self.flows.len() >= MOST {
            // Once for each record that it would have had.
            let is_news = flow.age.as_millis() % terms.timeout.as_millis().max(1)
                < since.unwrap_or(LEAST_PAUSE).as_millis();
            self.missing += u64::from(is_news);
            return None;
        }
        let until = now.saturating_sub(flow.idle);
        let (packets, bytes) = (flow.packets, flow.bytes);
        let after = Before { packets, bytes, until, at: now, walk: self.walk };
        let before = self.flows.insert(identity, known.map_or(after, |known| after.no_less_than(known)));
        if before.is_none() && self.comes_after_another {
            self.missing += 1;
            return None;
        }
        let Some(before) = before else {
            return Some(RecordedFlow { at: now, flow, end: ACTIVE, since: None, identity });
        };
        subtract(&mut flow, &before);
        let is_idle = flow.packets == (0, 0);
        let record = RecordedFlow { at: now, flow, end: ACTIVE, since: Some(before.until), identity };
        (!is_idle).then_some(record)
    }

    /// Forgets flows that are gone and whose last records were lost: two walks have not met them.
    fn has_walked(&mut self, now: Duration) {
        let this = self.walk;
        self.flows.retain(|_, before| before.walk + 1 >= this);
        self.walk += 1;
        self.walked = Some(now);
        self.comes_after_another = false;
    }
}

/// Leaves what came after `before`.
fn subtract(flow: &mut Flow, before: &Before) {
    let less = |of: (u64, u64), from: (u64, u64)| (of.0.saturating_sub(from.0), of.1.saturating_sub(from.1));
    flow.packets = less(flow.packets, before.packets);
    flow.bytes = less(flow.bytes, before.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skeleton::types;
    use crate::{FlowId, State};

    const TERMS: Terms = Terms { timeout: Duration::from_secs(60), rate: 1_000 };

    fn flow(port: u16, age: u64, packets: u64) -> Flow {
        let end = |port| ("192.0.2.1".parse().unwrap(), port);
        Flow {
            id: FlowId { record: 0, use_count: 0 },
            protocol: policy::service::TCP,
            initiator: end(port),
            responder: end(80),
            aliases: (None, None),
            zones: ("inside".to_owned(), "outside".to_owned()),
            state: State::Established,
            age: Duration::from_secs(age),
            idle: Duration::from_secs(1),
            packets: (packets, 0),
            bytes: (packets * 100, 0),
            rule: None,
        }
    }

    fn identity(port: u32) -> Identity {
        Identity::of(&types::flow { opened: port, ..types::flow::default() })
    }

    /// A walk over flows, each with its age and its packets, and the packets that their records say.
    fn walk(
        continuing: &mut Continuing,
        at: u64,
        flows: &[(u16, u64, u64)],
        mut room: usize,
    ) -> Vec<(u16, u64)> {
        let now = Duration::from_secs(at);
        let since = continuing.walked.map(|walked| now.saturating_sub(walked));
        let mut found = Vec::new();
        for (port, age, packets) in flows {
            let flow = flow(*port, *age, *packets);
            let record = continuing.meet(identity((*port).into()), flow, &TERMS, (now, since), room > 0);
            room -= usize::from(record.is_some());
            found.extend(record.map(|record| (*port, record.flow.packets.0)));
        }
        continuing.has_walked(now);
        found
    }

    #[test]
    fn records_of_a_flow_sum_up_to_what_it_carried() {
        let mut continuing = Continuing::default();
        for (at, flows, room, expected) in [
            (1_000, &[(1, 59, 10), (2, 60, 20)][..], 9, &[(2, 20)][..]),
            (1_010, &[(1, 69, 15), (2, 70, 25)], 9, &[(1, 15)]),
            (1_060, &[(1, 119, 16), (2, 120, 30)], 9, &[(2, 10)]),
            // Without a packet there is nothing to say.
            (1_070, &[(1, 129, 15), (2, 130, 31)], 9, &[]),
            // What finds no room comes later, with all that it carried meanwhile.
            (1_130, &[(1, 189, 16), (2, 190, 32)], 1, &[(1, 1)]),
            (1_131, &[(1, 190, 17), (2, 191, 33)], 1, &[(2, 3)]),
            // After 52 days a flow seems to be young.
            (1_191, &[(1, 3, 20), (2, 4, 40)], 9, &[(1, 4), (2, 7)]),
        ] {
            assert_eq!(walk(&mut continuing, at, flows, room), expected, "at {at}");
        }
        let mut ended = |port: u16, packets| {
            let at = Duration::from_secs(1_192);
            let flow = flow(port, 4, packets);
            let mut record = RecordedFlow { at, flow, end: 3, since: None, identity: identity(port.into()) };
            continuing.end(&mut record);
            (record.flow.packets.0, record.flow.bytes.0, record.since)
        };
        assert_eq!(ended(1, 25), (5, 500, Some(Duration::from_secs(1_190))));
        assert_eq!(ended(1, 25), (25, 2_500, None), "another flow between the same ends");
        assert_eq!(ended(3, 7), (7, 700, None), "a short one");
    }

    #[test]
    fn what_was_recorded_is_forgotten_with_the_flow() {
        let mut continuing = Continuing::default();
        assert_eq!(walk(&mut continuing, 100, &[(1, 60, 5)], 9), [(1, 5)]);
        for (at, left) in [(110, 1), (120, 0)] {
            walk(&mut continuing, at, &[], 9);
            assert_eq!(continuing.flows.len(), left, "at {at}");
        }
    }

    #[test]
    fn flows_that_are_too_many_have_one_record_and_are_counted() {
        let mut continuing = Continuing::default();
        let all = 0..MOST as u32;
        let known =
            Before { packets: (0, 0), bytes: (0, 0), until: Duration::ZERO, at: Duration::ZERO, walk: 9 };
        continuing.flows.extend(all.map(|number| (identity(1_000_000 + number), known)));
        for (at, age, missing) in [(100, 60, 1), (110, 70, 1), (150, 110, 1), (165, 125, 2)] {
            assert_eq!(walk(&mut continuing, at, &[(1, age, 5)], 9), []);
            assert_eq!(continuing.missing(), missing, "at {at}");
            assert!(continuing.flows.len() <= MOST);
        }
    }

    #[test]
    fn what_another_process_may_have_recorded_is_not_recorded_twice() {
        let mut continuing = Continuing::after_another();
        assert_eq!(walk(&mut continuing, 100, &[(1, 500, 5), (2, 30, 7)], 9), []);
        assert_eq!(continuing.missing(), 1, "the old one");
        assert_eq!(walk(&mut continuing, 160, &[(1, 560, 8), (2, 90, 9)], 9), [(1, 3), (2, 9)]);
    }

    #[test]
    fn a_walk_is_no_flood_of_records() {
        for (rate, since, room) in [(1, 60, 60), (100, 0, 100), (10_000, 1, 10_000), (10_000, 60, AT_ONCE)] {
            let terms = Terms { timeout: Duration::from_secs(60), rate };
            assert_eq!(terms.room(Duration::from_secs(since)), room, "{rate} a second after {since} s");
        }
    }

    #[test]
    fn the_table_is_walked_often_enough_and_no_more() {
        for (timeout, pause) in [(1, 1), (6, 1), (60, 10), (1_800, 60), (604_800, 60)] {
            let terms = Terms { timeout: Duration::from_secs(timeout), rate: 1 };
            assert_eq!(terms.pause(), Duration::from_secs(pause), "{timeout} s");
        }
    }
}
