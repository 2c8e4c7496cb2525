//! How often somebody may try passwords: by user, and by address. The time is given. After some free attempts every further failure
//! makes the next attempt wait twice as long. A user is not locked out by others who know his name: from an address at which he has
//! logged in, only failures at that address count.

use crate::LONGEST_NAME;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

/// Failures of a user that cost no waiting.
const FREE_OF_USER: u32 = 5;
/// Failures of an address: several users may share it.
const FREE_OF_ADDRESS: u32 = 10;
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// Failures are forgotten after this time without another.
const FORGOTTEN: Duration = Duration::from_secs(60 * 60);
/// Users and addresses that are remembered at most.
const MOST: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    User(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Duration,
}

/// Failed attempts.
#[derive(Debug, Default)]
pub struct Throttle {
    failures: HashMap<Key, Failures>,
    known: HashSet<(String, IpAddr)>,
}

impl Throttle {
    /// How long an attempt has to wait; zero if it may be made.
    pub fn wait(&self, user: &str, address: IpAddr, now: Duration) -> Duration {
        self.keys(user, address).iter().map(|key| self.wait_of(key, now)).max().unwrap_or_default()
    }

    /// An attempt failed.
    pub fn failed(&mut self, user: &str, address: IpAddr, now: Duration) {
        for key in self.keys(user, address) {
            self.make_room(&key, now);
            let failures = self.failures.entry(key).or_insert(Failures { count: 0, last: now });
            *failures = Failures { count: failures.count.saturating_add(1), last: now };
        }
    }

    /// An attempt that was counted as failed has succeeded. What others failed at stays counted, so that nobody with a password of his own
    /// can try those of others without end.
    pub fn succeeded(&mut self, user: &str, address: IpAddr) {
        for key in self.keys(user, address) {
            if let Some(failures) = self.failures.get_mut(&key) {
                failures.count = failures.count.saturating_sub(1);
            }
        }
        self.logged_in(user, address);
    }

    /// A user has logged in from an address by an attempt that was not counted as failed.
    pub fn logged_in(&mut self, user: &str, address: IpAddr) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert((user.to_owned(), network(address)));
    }

    /// What counts for an attempt.
    fn keys(&self, user: &str, address: IpAddr) -> Vec<Key> {
        let address = network(address);
        let mut keys = vec![Key::Address(address)];
        // No user has a longer name, and names of any length would take memory.
        if user.len() <= LONGEST_NAME && !self.known.contains(&(user.to_owned(), address)) {
            keys.push(Key::User(user.to_owned()));
        }
        keys
    }

    fn wait_of(&self, key: &Key, now: Duration) -> Duration {
        let Some(failures) = self.failures.get(key).filter(|it| !it.is_forgotten(now)) else {
            return Duration::ZERO;
        };
        let free = if matches!(key, Key::User(_)) { FREE_OF_USER } else { FREE_OF_ADDRESS };
        let Some(beyond) = failures.count.checked_sub(free) else { return Duration::ZERO };
        let wait = Duration::from_secs(1 << beyond.min(10)).min(LONGEST);
        (failures.last + wait).saturating_sub(now)
    }

    /// Forgets what is over; where that is not enough, the oldest.
    fn make_room(&mut self, key: &Key, now: Duration) {
        if self.failures.len() < MOST || self.failures.contains_key(key) {
            return;
        }
        self.failures.retain(|_, failures| !failures.is_forgotten(now));
        if self.failures.len() >= MOST {
            let oldest = self.failures.iter().min_by_key(|(_, it)| it.last).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.failures.remove(&key));
        }
    }
}

impl Failures {
    fn is_forgotten(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= FORGOTTEN
    }
}

/// Who is counted for an address: an address of IPv4, and of IPv6 its network of 64 bits, of which a host has all addresses.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// How long the next attempt waits after a number of failures, from addresses of a kind.
    #[test]
    fn every_failure_beyond_the_free_ones_doubles_the_wait() {
        for (failures, seconds) in [(4, 0), (5, 1), (6, 2), (9, 16), (14, 512), (15, 900), (1000, 900)] {
            let mut throttle = Throttle::default();
            for n in 0..failures {
                // Each from another network, so that only the user counts.
                let from = IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
                throttle.failed("anna", from, START);
            }
            let wait = |user, at| throttle.wait(user, address("192.0.2.1"), at);
            assert_eq!(wait("anna", START), Duration::from_secs(seconds), "{failures}");
            assert_eq!(wait("ben", START), Duration::ZERO);
            assert_eq!(wait("anna", START + Duration::from_secs(seconds)), Duration::ZERO, "{failures}");
            assert_eq!(wait("anna", START + FORGOTTEN), Duration::ZERO, "{failures}");
        }
    }

    #[test]
    fn an_address_is_throttled_whatever_names_it_tries() {
        for (from, then, waits) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
        ] {
            let mut throttle = Throttle::default();
            for n in 0..20 {
                throttle.failed(&format!("user{n}"), address(from), START);
            }
            let wait = throttle.wait("somebody", address(then), START);
            assert_eq!(wait > Duration::ZERO, waits, "{from} {then}: {wait:?}");
        }
    }

    #[test]
    fn others_do_not_lock_a_user_out_where_he_has_logged_in() {
        let mut throttle = Throttle::default();
        throttle.succeeded("anna", address("192.0.2.1"));
        for n in 0..100 {
            throttle.failed("anna", IpAddr::from([10, 0, 0, n]), START);
        }
        assert_eq!(throttle.wait("anna", address("192.0.2.1"), START), Duration::ZERO);
        assert!(throttle.wait("anna", address("192.0.2.2"), START) > Duration::ZERO);
        // Attempts there count for the address alone.
        for _ in 0..20 {
            throttle.failed("anna", address("192.0.2.1"), START);
        }
        assert!(throttle.wait("anna", address("192.0.2.1"), START) > Duration::ZERO);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut throttle = Throttle::default();
        for n in 0..(MOST as u32 + 100) {
            throttle.failed(&format!("user{n}"), IpAddr::from(n.to_be_bytes()), START);
        }
        assert!(throttle.failures.len() <= MOST);
        let mut throttle = Throttle::default();
        throttle.failed(&"a".repeat(LONGEST_NAME + 1), address("192.0.2.1"), START);
        assert_eq!(throttle.failures.len(), 1, "the address alone");
    }
}
