//! What an agent believes and obeys: one session at a time, of a leader that has the key; each order once, in its order. Pure: knows neither
//! connection nor clock; the time is given to it.

use crate::AgentsError;
use crate::seal::{Key, Sealed, Way};
use crate::wire::{Answer, Greeting, LARGEST, Order, PROTOCOL, VERSION, Welcome};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A leader that says nothing for so long is gone.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// Greetings that are remembered. Each costs nobody anything.
const GREETINGS: usize = 8;

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard {
    /// An answer that needs nothing to be done.
    Reply(Vec<u8>),
    /// The first order of a session, which begins.
    Begin(Order),
    /// An order.
    Obey(Order),
    /// Nothing, and this is why. Nobody is answered, who may be anybody.
    Ignored(&'static str),
}

/// A session.
#[derive(Debug)]
struct Session {
    id: String,
    key: Key,
    leader: String,
    /// Of the last order.
    number: u64,
    /// What was answered to it; nothing yet while it is done.
    answer: Option<Vec<u8>>,
    heard: Instant,
}

/// What an agent knows of those who speak to it.
#[derive(Debug)]
pub(crate) struct Desk {
    name: String,
    key: Key,
    /// Sessions that may begin: their identifiers.
    greeted: VecDeque<String>,
    session: Option<Session>,
}

/// What a session is known by: a number of each side, so that neither side takes an earlier session for this one.
pub(crate) fn session_of(leader: &str, agent: &str) -> String {
    format!("{leader}-{agent}")
}

/// What messages of a session are sealed with.
pub(crate) fn session_key(key: &Key, session: &str) -> Key {
    key.derive("session", session)
}

impl Desk {
    pub(crate) fn new(name: &str, key: Key) -> Self {
        Self { name: name.to_owned(), key, greeted: VecDeque::new(), session: None }
    }

    /// Takes a message. `nonce` draws a number that was never drawn before.
    pub(crate) fn hear(
        &mut self,
        bytes: &[u8],
        now: Instant,
        nonce: impl FnOnce() -> Result<String, AgentsError>,
    ) -> Heard {
        if bytes.len() > LARGEST {
            return Heard::Ignored("a message that is larger than any of the bench");
        }
        let Ok(message) = serde_json::from_slice::<Sealed>(bytes) else {
            return Heard::Ignored("a message that is none of the bench");
        };
        if message.agent != self.name {
            return Heard::Ignored("a message for another agent");
        }
        match message.session.as_str() {
            "" => self.greet(&message, nonce),
            _ => self.hear_order(&message, now),
        }
    }

    fn greet(&mut self, message: &Sealed, nonce: impl FnOnce() -> Result<String, AgentsError>) -> Heard {
        if !message.is_of(&self.key, Way::ToAgent) {
            return Heard::Ignored("a greeting that nobody with the key has sealed");
        }
        let Ok(greeting) = serde_json::from_str::<Greeting>(&message.body) else {
            return Heard::Ignored("a greeting that cannot be read");
        };
        let welcome = match nonce() {
            _ if (greeting.protocol, greeting.version.as_str()) != (PROTOCOL, VERSION) => {
                Welcome::Refused(format!(
                    "it is rampart-bench {VERSION} (messages {PROTOCOL}), and you are {} (messages {}): both hosts need the same version",
                    greeting.version, greeting.protocol
                ))
            }
            Ok(own) => {
                self.greeted.push_front(session_of(&greeting.nonce, &own));
                self.greeted.truncate(GREETINGS);
                Welcome::Nonce(own)
            }
            Err(why) => Welcome::Refused(why.to_string()),
        };
        // The leader's number is sealed with it, so that no earlier welcome is taken for this one.
        let body = serde_json::to_string(&welcome).unwrap_or_default();
        let reply =
            Sealed::new(&self.key, Way::FromAgent, (&self.name, &greeting.nonce, message.number), body);
        Heard::Reply(reply.bytes())
    }

    fn hear_order(&mut self, message: &Sealed, now: Instant) -> Heard {
        if let Some(session) = self.session.as_mut().filter(|session| session.id == message.session) {
            if !message.is_of(&session.key, Way::ToAgent) {
                return Heard::Ignored("an order that nobody with the key has sealed");
            }
            if message.number == session.number {
                // An order that was sent again because its answer was lost.
                return session
                    .answer
                    .clone()
                    .map_or(Heard::Ignored("an order that is being obeyed"), Heard::Reply);
            }
            if message.number < session.number {
                return Heard::Ignored("an order that was obeyed before");
            }
            let Ok(order) = serde_json::from_str(&message.body) else {
                return Heard::Ignored("an order that cannot be read");
            };
            (session.number, session.heard, session.answer) = (message.number, now, None);
            return Heard::Obey(order);
        }
        self.begin(message, now)
    }

    /// The first order of another session than the present one.
    fn begin(&mut self, message: &Sealed, now: Instant) -> Heard {
        let Some(place) = self.greeted.iter().position(|session| *session == message.session) else {
            return Heard::Ignored("an order of an earlier session");
        };
        let key = session_key(&self.key, &message.session);
        if !message.is_of(&key, Way::ToAgent) {
            return Heard::Ignored("an order that nobody with the key has sealed");
        }
        let Ok(order @ Order::Take { .. }) = serde_json::from_str(&message.body) else {
            return Heard::Ignored("a session that does not begin with its port");
        };
        if let Some(session) = &self.session {
            let answer = Answer::Refused(format!(
                "it works for {} already: wait until that run has ended",
                session.leader
            ));
            let body = serde_json::to_string(&answer).unwrap_or_default();
            let reply =
                Sealed::new(&key, Way::FromAgent, (&self.name, &message.session, message.number), body);
            return Heard::Reply(reply.bytes());
        }
        self.greeted.remove(place);
        let leader = if let Order::Take { leader, .. } = &order { leader.clone() } else { String::new() };
        self.session = Some(Session {
            id: message.session.clone(),
            key,
            leader,
            number: message.number,
            answer: None,
            heard: now,
        });
        Heard::Begin(order)
    }

    /// Seals the answer to the last order.
    pub(crate) fn answer(&mut self, answer: &Answer, now: Instant) -> Vec<u8> {
        let Some(session) = &mut self.session else { return Vec::new() };
        let body = serde_json::to_string(answer).unwrap_or_default();
        let sealed =
            Sealed::new(&session.key, Way::FromAgent, (&self.name, &session.id, session.number), body);
        let bytes = sealed.bytes();
        // What was done may have taken its time.
        session.heard = now;
        session.answer = Some(bytes.clone());
        bytes
    }

    /// Who leads.
    pub(crate) fn leader(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.leader.as_str())
    }

    /// Whether the leader of the session has said nothing for too long.
    pub(crate) fn is_abandoned(&self, now: Instant) -> bool {
        self.session.as_ref().is_some_and(|session| {
            session.answer.is_some() && now.saturating_duration_since(session.heard) > LEASE
        })
    }

    /// Ends the session.
    pub(crate) fn end(&mut self) {
        self.session = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::shape::Zone;

    fn key() -> Key {
        Key::of(&[5; 32])
    }

    /// A leader as the desk sees it.
    struct Leader {
        nonce: &'static str,
        session: String,
        key: Key,
    }

    fn greeting(key: &Key, agent: &str, nonce: &str, version: &str) -> Vec<u8> {
        let body = Greeting { protocol: PROTOCOL, version: version.to_owned(), nonce: nonce.to_owned() };
        Sealed::new(key, Way::ToAgent, (agent, "", 0), serde_json::to_string(&body).unwrap()).bytes()
    }

    impl Leader {
        /// Greets, and has the answer.
        fn greets(desk: &mut Desk, nonce: &'static str, own: &str) -> Self {
            let heard =
                desk.hear(&greeting(&key(), "left", nonce, VERSION), Instant::now(), || Ok(own.to_owned()));
            let Heard::Reply(bytes) = heard else { panic!("{heard:?}") };
            let reply: Sealed = serde_json::from_slice(&bytes).unwrap();
            assert!(reply.is_of(&key(), Way::FromAgent) && reply.session == nonce);
            assert_eq!(serde_json::from_str::<Welcome>(&reply.body).unwrap(), Welcome::Nonce(own.to_owned()));
            let session = session_of(nonce, own);
            Self { nonce, key: session_key(&key(), &session), session }
        }

        fn sends(&self, number: u64, order: &Order) -> Vec<u8> {
            let body = serde_json::to_string(order).unwrap();
            Sealed::new(&self.key, Way::ToAgent, ("left", &self.session, number), body).bytes()
        }

        fn take(&self) -> Order {
            Order::Take { leader: format!("host {}", self.nonce), zone: Zone::Private, flows: 1 }
        }
    }

    fn no_nonce() -> Result<String, AgentsError> {
        panic!("nobody greets")
    }

    fn refusal(heard: &Heard) -> String {
        let Heard::Reply(bytes) = heard else { panic!("{heard:?}") };
        let reply: Sealed = serde_json::from_slice(bytes).unwrap();
        reply.body
    }

    #[test]
    fn an_order_is_obeyed_once_and_answered_as_often_as_it_is_sent() {
        let (mut desk, now) = (Desk::new("left", key()), Instant::now());
        let leader = Leader::greets(&mut desk, "n1", "o1");
        let first = leader.sends(1, &leader.take());
        assert_eq!(desk.hear(&first, now, no_nonce), Heard::Begin(leader.take()));
        assert_eq!(desk.leader(), Some("host n1"));
        assert_eq!(desk.hear(&first, now, no_nonce), Heard::Ignored("an order that is being obeyed"));
        let answer = desk.answer(&Answer::Done, now);
        assert_eq!(desk.hear(&first, now, no_nonce), Heard::Reply(answer.clone()));
        let second = leader.sends(2, &Order::Look);
        assert_eq!(desk.hear(&second, now, no_nonce), Heard::Obey(Order::Look));
        assert_eq!(desk.hear(&first, now, no_nonce), Heard::Ignored("an order that was obeyed before"));
    }

    #[test]
    fn strangers_and_earlier_messages_are_nothing() {
        let (mut desk, now) = (Desk::new("left", key()), Instant::now());
        let earlier = Leader::greets(&mut desk, "n0", "o0");
        let recorded = earlier.sends(1, &earlier.take());
        assert!(matches!(desk.hear(&recorded, now, no_nonce), Heard::Begin(_)));
        let stop = earlier.sends(9, &Order::Begin(5));
        desk.end();
        let leader = Leader::greets(&mut desk, "n1", "o1");
        assert!(matches!(desk.hear(&leader.sends(1, &leader.take()), now, no_nonce), Heard::Begin(_)));
        let stranger = Key::of(&[6; 32]);
        let forged = |key: &Key, session: &str| {
            let body = serde_json::to_string(&Order::Begin(5)).unwrap();
            Sealed::new(key, Way::ToAgent, ("left", session, 8), body).bytes()
        };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let order = text(leader.sends(8, &Order::Begin(5)));
        for (name, bytes, expected) in [
            (
                "a stranger greets",
                greeting(&stranger, "left", "x", VERSION),
                "a greeting that nobody with the key has sealed",
            ),
            (
                "a stranger orders",
                forged(&stranger, &leader.session),
                "an order that nobody with the key has sealed",
            ),
            // The key itself seals no order: sessions have keys of their own.
            (
                "the wrong key of ours",
                forged(&key(), &leader.session),
                "an order that nobody with the key has sealed",
            ),
            (
                "changed",
                order.replace(":5}", ":6}").into_bytes(),
                "an order that nobody with the key has sealed",
            ),
            (
                "renumbered",
                order.replace("\"number\":8", "\"number\":9").into_bytes(),
                "an order that nobody with the key has sealed",
            ),
            ("an earlier session's beginning", recorded, "an order of an earlier session"),
            ("an earlier session's order", stop, "an order of an earlier session"),
            ("another agent's", greeting(&key(), "right", "x", VERSION), "a message for another agent"),
            ("huge", vec![b' '; LARGEST + 1], "a message that is larger than any of the bench"),
            ("no JSON", b"begin!".to_vec(), "a message that is none of the bench"),
            ("deep JSON", vec![b'['; 100_000], "a message that is none of the bench"),
        ] {
            assert_eq!(desk.hear(&bytes, now, no_nonce), Heard::Ignored(expected), "{name}");
        }
        // None of these has cost the session anything.
        assert_eq!(desk.hear(order.as_bytes(), now, no_nonce), Heard::Obey(Order::Begin(5)));
    }

    #[test]
    fn one_leads_at_a_time_and_the_other_is_told_who() {
        let (mut desk, now) = (Desk::new("left", key()), Instant::now());
        let (first, second) = (Leader::greets(&mut desk, "n1", "o1"), Leader::greets(&mut desk, "n2", "o2"));
        assert!(matches!(desk.hear(&first.sends(1, &first.take()), now, no_nonce), Heard::Begin(_)));
        let refused = refusal(&desk.hear(&second.sends(1, &second.take()), now, no_nonce));
        assert!(refused.contains("works for host n1 already"), "{refused}");
        assert_eq!(desk.hear(&first.sends(2, &Order::Look), now, no_nonce), Heard::Obey(Order::Look));
        desk.end();
        assert!(matches!(desk.hear(&second.sends(2, &second.take()), now, no_nonce), Heard::Begin(_)));
    }

    #[test]
    fn an_agent_of_another_version_refuses() {
        let mut desk = Desk::new("left", key());
        let heard = desk.hear(&greeting(&key(), "left", "n", "0.0.9"), Instant::now(), || Ok("o".to_owned()));
        let said = refusal(&heard);
        assert!(
            said.contains("you are 0.0.9") && said.contains("both hosts need the same version"),
            "{said}"
        );
    }

    #[test]
    fn a_leader_that_says_nothing_is_gone() {
        let (mut desk, begun) = (Desk::new("left", key()), Instant::now());
        let leader = Leader::greets(&mut desk, "n1", "o1");
        assert!(!desk.is_abandoned(begun + LEASE * 2), "nobody leads");
        assert!(matches!(desk.hear(&leader.sends(1, &leader.take()), begun, no_nonce), Heard::Begin(_)));
        // What takes its time is waited for.
        assert!(!desk.is_abandoned(begun + LEASE * 2));
        desk.answer(&Answer::Done, begun + LEASE * 2);
        assert!(!desk.is_abandoned(begun + LEASE * 3));
        assert!(desk.is_abandoned(begun + LEASE * 3 + Duration::from_secs(1)));
        // A recorded order does not keep it alive.
        let at = begun + LEASE * 3;
        let _ = desk.hear(&leader.sends(1, &leader.take()), at, no_nonce);
        assert!(desk.is_abandoned(at + Duration::from_secs(1)));
        assert!(matches!(desk.hear(&leader.sends(2, &Order::Look), at, no_nonce), Heard::Obey(_)));
        desk.answer(&Answer::Done, at);
        assert!(!desk.is_abandoned(at + LEASE));
    }
}
