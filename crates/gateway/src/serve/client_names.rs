//! Names of clients, for events. A client's address is looked up, and the name counts if the address is one of the name's: the owner of the reverse zone of an
//! address can write any name there. No request waits for that; events about it do, for as long as a look-up takes.

use super::{Shared, lock, resolve};
use crate::event::Event;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clients whose names are kept.
const KEPT: usize = 4096;
/// How long a name is kept, and how long that there is none.
const NAMED_FOR: Duration = Duration::from_secs(600);
const NAMELESS_FOR: Duration = Duration::from_secs(60);
/// Clients that are looked up at once, and events of each that wait: others have no name.
const LOOKED_UP: usize = 256;
const WAITING: usize = 64;

/// What is known of clients. Without a clock and without a network.
#[derive(Debug, Default)]
pub(super) struct ClientNames {
    known: HashMap<IpAddr, (Option<String>, Instant)>,
    waiting: HashMap<IpAddr, Vec<Event>>,
}

/// What becomes of an event.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// All is known that will be.
    Record(Box<Event>),
    /// It waits for a look-up that is under way.
    Wait,
    /// It waits, and its client is to be looked up.
    LookUp(IpAddr),
}

impl ClientNames {
    fn take(&mut self, event: Event, now: Instant) -> Step {
        let client = event.client.ip();
        if let Some((name, until)) = self.known.get(&client)
            && now < *until
        {
            return Step::Record(Box::new(Event { client_name: name.clone(), ..event }));
        }
        let is_full = self.waiting.len() >= LOOKED_UP;
        match self.waiting.get_mut(&client) {
            Some(events) if events.len() < WAITING => events.push(event),
            None if !is_full => {
                self.waiting.insert(client, vec![event]);
                return Step::LookUp(client);
            }
            _ => return Step::Record(Box::new(event)),
        }
        Step::Wait
    }

    /// A look-up is over: what waited for it.
    fn learn(&mut self, client: IpAddr, name: Option<String>, now: Instant) -> Vec<Event> {
        if self.known.len() >= KEPT {
            self.known.retain(|_, (_, until)| now < *until);
        }
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        let time = if name.is_some() { NAMED_FOR } else { NAMELESS_FOR };
        self.known.insert(client, (name.clone(), now + time));
        let events = self.waiting.remove(&client).unwrap_or_default();
        events.into_iter().map(|event| Event { client_name: name.clone(), ..event }).collect()
    }
}

/// Records an event with the name of its client.
pub(super) fn record(shared: &Arc<Shared>, event: Event) {
    let step = lock(&shared.client_names).take(event, Instant::now());
    match step {
        Step::Record(event) => shared.send(*event),
        Step::Wait => {}
        Step::LookUp(client) => {
            let shared = Arc::clone(shared);
            tokio::task::spawn_local(async move {
                let name = resolve::name_of(&shared, &shared.gateway(), client).await;
                let events = lock(&shared.client_names).learn(client, name, Instant::now());
                events.into_iter().for_each(|event| shared.send(event));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(client: u16, status: u16) -> Event {
        let [high, low] = client.to_be_bytes();
        Event {
            is_datagram: false,
            client: ([10, 0, high, low], 1000).into(),
            client_name: None,
            at: ([10, 9, 0, 1], 3128).into(),
            rule: None,
            reason: None,
            user: None,
            method: None,
            host: None,
            path: None,
            status,
            bytes: [0; 2],
        }
    }

    fn record(event: Event) -> Step {
        Step::Record(Box::new(event))
    }

    #[test]
    fn events_wait_for_one_look_up_within_bounds() {
        let (mut names, now) = (ClientNames::default(), Instant::now());
        let client = event(1, 0).client.ip();
        assert_eq!(names.take(event(1, 0), now), Step::LookUp(client));
        for status in 1..64 {
            assert_eq!(names.take(event(1, status), now), Step::Wait, "{status}");
        }
        assert_eq!(names.take(event(1, 64), now), record(event(1, 64)), "more of a client do not wait");
        let named = |status| Event { client_name: Some("pc.test".to_owned()), ..event(1, status) };
        let learned = names.learn(client, Some("pc.test".to_owned()), now);
        assert_eq!(learned, (0..64).map(named).collect::<Vec<_>>(), "in their order");
        assert_eq!(names.take(event(1, 7), now + NAMED_FOR / 2), record(named(7)), "it is known");
        assert_eq!(names.take(event(1, 7), now + NAMED_FOR), Step::LookUp(client), "for a time");
        for client in 2..257 {
            assert!(matches!(names.take(event(client, 0), now), Step::LookUp(_)), "{client}");
        }
        assert_eq!(names.take(event(257, 0), now), record(event(257, 0)), "so many at once");
        let nameless = names.learn(event(2, 0).client.ip(), None, now);
        assert_eq!(nameless, [event(2, 0)]);
        assert_eq!(names.take(event(2, 1), now + NAMELESS_FOR / 2), record(event(2, 1)));
        assert!(matches!(names.take(event(2, 1), now + NAMELESS_FOR), Step::LookUp(_)), "for less time");
    }

    #[test]
    fn names_are_kept_within_bounds() {
        let (mut names, now) = (ClientNames::default(), Instant::now());
        for client in 0..10_000 {
            names.learn(event(client, 0).client.ip(), None, now);
            assert!(names.known.len() <= KEPT);
        }
    }
}
