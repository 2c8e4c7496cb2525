//! Addresses of names that gateways have connected to.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Names that are kept at most.
const KEPT: usize = 4096;
/// How long an answer is kept, whatever it says itself.
const LEAST: Duration = Duration::from_secs(5);
const MOST: Duration = Duration::from_secs(3600);

/// Addresses of names, for as long as their answers say. Without a clock: the moment is an argument.
#[derive(Debug, Default)]
pub struct Cache {
    known: HashMap<String, (Vec<IpAddr>, Instant)>,
}

impl Cache {
    /// The addresses of a name, if they are known: none if it is known to have none.
    pub fn get(&self, name: &str, now: Instant) -> Option<Vec<IpAddr>> {
        let (addresses, until) = self.known.get(name)?;
        (now < *until).then(|| addresses.clone())
    }

    /// Keeps addresses for so many seconds.
    pub fn put(&mut self, name: &str, addresses: Vec<IpAddr>, seconds: u32, now: Instant) {
        if self.known.len() >= KEPT {
            self.known.retain(|_, (_, until)| now < *until);
        }
        if self.known.len() >= KEPT {
            // Whoever asks for thousands of names makes the cache useless, and nothing else.
            self.known.clear();
        }
        let time = Duration::from_secs(u64::from(seconds)).clamp(LEAST, MOST);
        self.known.insert(name.to_owned(), (addresses, now + time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_a_lifetime_between_bounds() {
        let start = Instant::now();
        let address: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap()];
        for (seconds, kept) in [(0, 5), (4, 5), (60, 60), (1_000_000, 3600)] {
            let mut cache = Cache::default();
            cache.put("a.test", address.clone(), seconds, start);
            let at = |seconds| cache.get("a.test", start + Duration::from_secs(seconds));
            assert_eq!((at(kept - 1), at(kept)), (Some(address.clone()), None), "{seconds}");
            assert_eq!(cache.get("b.test", start), None);
        }
    }
}
