//! How many answers a client gets in a second. Whoever forges the addresses of others makes this gateway send them something; the bound is what they
//! get of it. Without a clock: the moment is an argument.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Clients that are distinguished. Beyond that two have one bound between them, and nobody can choose with whom.
const PLACES: usize = 16_384;

/// How many more each may have.
#[derive(Debug)]
pub struct Rates {
    keys: RandomState,
    places: Vec<Place>,
    start: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Thousandths of answers that were used, and when that was, in milliseconds.
    used: u64,
    at: u64,
    /// Questions that got no answer, of which every second is answered by a hint to ask by TCP.
    beyond: u32,
}

/// What a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// An answer.
    Answer,
    /// That it is to ask by TCP, where nobody can forge its address.
    Hint,
    /// Nothing.
    Nothing,
}

impl Rates {
    /// Nobody has had anything.
    pub fn new(start: Instant) -> Self {
        Self { keys: RandomState::new(), places: vec![Place::default(); PLACES], start }
    }

    /// What a client gets that may have so many answers in a second, and as many at once.
    pub fn ask(&mut self, client: IpAddr, rate: u32, now: Instant) -> Allowed {
        let now = u64::try_from(now.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX);
        let number = self.keys.hash_one(client) as usize % PLACES;
        let place = &mut self.places[number];
        let rate = u64::from(rate);
        place.used = place.used.saturating_sub((now - place.at.min(now)).saturating_mul(rate));
        place.at = now;
        if place.used + ONE <= rate * ONE {
            place.used += ONE;
            place.beyond = 0;
            return Allowed::Answer;
        }
        place.beyond = place.beyond.wrapping_add(1);
        if place.beyond.is_multiple_of(2) { Allowed::Hint } else { Allowed::Nothing }
    }
}

/// An answer in thousandths: a rate a second is as many thousandths in a millisecond.
const ONE: u64 = Duration::from_secs(1).as_millis() as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_rate_and_every_second_question_beyond_it_a_hint() {
        let start = Instant::now();
        let mut rates = Rates::new(start);
        let client: IpAddr = "10.0.0.1".parse().unwrap();
        let mut ask = |milliseconds| rates.ask(client, 2, start + Duration::from_millis(milliseconds));
        let found: Vec<Allowed> =
            [0, 0, 0, 0, 0, 499, 500, 500, 10_000, 10_000, 10_000].iter().map(|at| ask(*at)).collect();
        use Allowed::{Answer, Hint, Nothing};
        let expected =
            [Answer, Answer, Nothing, Hint, Nothing, Hint, Answer, Nothing, Answer, Answer, Nothing];
        assert_eq!(found, expected);
        assert_eq!(rates.ask("10.0.0.2".parse().unwrap(), 2, start), Answer, "another client");
    }
}
