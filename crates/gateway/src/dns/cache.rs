//! Answers that are kept as long as they hold, within bounds: of bytes, and of those that one client has asked for, so that no client pushes out what
//! the others need. Without a clock: the moment is an argument.

use super::answer::Answer;
use super::name::Wire;
use domain::base::iana::Rtype;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client's part of the cache.
const PART: usize = 4;
/// Bytes of an entry besides its name and its answer: the places in three maps.
const ENTRY: usize = 300;
/// For how long it is kept that nobody could answer (RFC 9520 section 3.2).
const FAILURE: Duration = Duration::from_secs(5);

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The name in small letters.
    pub name: Wire,
    /// The type of records.
    pub kind: Rtype,
    /// With signatures.
    pub signatures: bool,
    /// Without a check of them by whoever is asked.
    pub unchecked: bool,
}

/// What is known of a question: an answer, or that nobody could say.
pub type Outcome = Option<Arc<Answer>>;

#[derive(Debug)]
struct Entry {
    outcome: Outcome,
    until: Instant,
    client: IpAddr,
    number: u64,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Client {
    bytes: usize,
    /// What it has asked for, the oldest first.
    asked: BTreeMap<u64, Arc<Key>>,
}

/// Answers.
#[derive(Debug, Default)]
pub struct Cache {
    entries: HashMap<Arc<Key>, Entry>,
    clients: HashMap<IpAddr, Client>,
    /// Clients by the bytes that are kept for them.
    largest: BTreeSet<(usize, IpAddr)>,
    bytes: usize,
    next: u64,
}

impl Cache {
    /// What is known of a question, and for how many seconds more.
    pub fn get(&mut self, key: &Key, now: Instant) -> Option<(Outcome, u32)> {
        let entry = self.entries.get(key)?;
        if now >= entry.until {
            self.remove(key);
            return None;
        }
        let left = entry.until.duration_since(now).as_secs();
        Some((entry.outcome.clone(), u32::try_from(left).unwrap_or(u32::MAX)))
    }

    /// Keeps what a client has asked for, in so many bytes at most.
    pub fn put(&mut self, key: Key, outcome: Outcome, client: IpAddr, most: usize, now: Instant) {
        self.remove(&key);
        let time = outcome.as_ref().map_or(FAILURE, |answer| Duration::from_secs(answer.lifetime.into()));
        let bytes = ENTRY + 2 * key.name.len() + outcome.as_ref().map_or(0, |answer| answer.size());
        if time.is_zero() || bytes > most / PART {
            return;
        }
        while self.clients.get(&client).is_some_and(|it| it.bytes + bytes > most / PART) {
            self.remove_oldest_of(client);
        }
        while self.bytes + bytes > most {
            let Some((_, largest)) = self.largest.last().copied() else { return };
            self.remove_oldest_of(largest);
        }
        let key = Arc::new(key);
        let number = self.next;
        self.next += 1;
        self.of_client(client, |of_client| {
            of_client.bytes += bytes;
            of_client.asked.insert(number, Arc::clone(&key));
        });
        self.bytes += bytes;
        self.entries.insert(key, Entry { outcome, until: now + time, client, number, bytes });
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn remove_oldest_of(&mut self, client: IpAddr) {
        let oldest = self.clients.get(&client).and_then(|it| it.asked.values().next().cloned());
        if let Some(key) = oldest {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(Entry { client, number, bytes, .. }) = self.entries.remove(key) else { return };
        self.bytes -= bytes;
        self.of_client(client, |of_client| {
            of_client.bytes -= bytes;
            of_client.asked.remove(&number);
        });
    }

    fn of_client(&mut self, client: IpAddr, change: impl FnOnce(&mut Client)) {
        let of_client = self.clients.entry(client).or_default();
        self.largest.remove(&(of_client.bytes, client));
        change(of_client);
        if of_client.asked.is_empty() {
            self.clients.remove(&client);
        } else {
            self.largest.insert((of_client.bytes, client));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::iana::Rcode;
    use domain::base::{Name, Record, Ttl, iana::Class};
    use domain::rdata::Txt;

    const MOST: usize = 100_000;

    fn key(name: &str) -> (Key, Wire) {
        let wire: Wire = Name::vec_from_str(name).unwrap();
        (Key { name: wire.clone(), kind: Rtype::TXT, signatures: false, unchecked: false }, wire)
    }

    fn answer(name: &Wire, lifetime: u32, bytes: usize) -> Outcome {
        let text: Txt<Vec<u8>> = Txt::build_from_slice(&vec![b'x'; bytes]).unwrap();
        let record = Record::new(name.clone(), Class::IN, Ttl::from_secs(lifetime), text);
        let sections = [vec![&record], Vec::new()];
        Answer::write((name, Rtype::TXT), Rcode::NOERROR, sections, lifetime, false).ok().map(Arc::new)
    }

    fn put(cache: &mut Cache, name: &str, client: u8, bytes: usize, now: Instant) {
        let (key, wire) = key(name);
        cache.put(key, answer(&wire, 3600, bytes), [10, 0, 0, client].into(), MOST, now);
    }

    fn has(cache: &mut Cache, name: &str, now: Instant) -> bool {
        cache.get(&key(name).0, now).is_some()
    }

    #[test]
    fn an_answer_is_kept_as_long_as_it_holds() {
        let start = Instant::now();
        for (lifetime, at, left) in
            [(60, 0, Some(60)), (60, 59, Some(1)), (60, 60, None), (60, 61, None), (0, 0, None)]
        {
            let mut cache = Cache::default();
            let (key, wire) = key("a.test");
            cache.put(key.clone(), answer(&wire, lifetime, 10), [10, 0, 0, 1].into(), MOST, start);
            let found = cache.get(&key, start + Duration::from_secs(at));
            assert_eq!(found.map(|(_, left)| left), left, "{lifetime} {at}");
            let other = Key { kind: Rtype::A, ..key };
            assert!(cache.get(&other, start).is_none());
        }
        let mut cache = Cache::default();
        let (key, _) = key("a.test");
        cache.put(key.clone(), None, [10, 0, 0, 1].into(), MOST, start);
        assert_eq!(cache.get(&key, start + Duration::from_secs(4)), Some((None, 1)));
        assert_eq!(cache.get(&key, start + FAILURE), None);
    }

    #[test]
    fn one_client_pushes_out_its_own_answers_and_no_others() {
        let now = Instant::now();
        let mut cache = Cache::default();
        put(&mut cache, "needed.test", 1, 1000, now);
        for number in 0..10_000 {
            put(&mut cache, &format!("{number}.test"), 2, 1000, now);
        }
        assert!(has(&mut cache, "needed.test", now));
        assert!(has(&mut cache, "9999.test", now), "the newest");
        assert!(!has(&mut cache, "0.test", now), "the oldest");
        assert!(cache.bytes <= MOST / PART + 2000, "{}", cache.bytes);
        // Many clients fill it, and whoever has most gives way.
        for client in 3..40 {
            for number in 0..10 {
                put(&mut cache, &format!("{client}.{number}.test"), client, 1000, now);
            }
        }
        assert!(cache.bytes <= MOST && cache.bytes > MOST - 3000, "{}", cache.bytes);
        assert!(has(&mut cache, "needed.test", now));
        let kept: usize = cache.entries.values().map(|entry| entry.bytes).sum();
        assert_eq!((kept, cache.clients.values().map(|it| it.bytes).sum()), (cache.bytes, cache.bytes));
        assert_eq!(cache.largest.len(), cache.clients.len());
    }
}
