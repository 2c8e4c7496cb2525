//! Which server answered which request, over HTTP without TLS. A client puts a number into each request that nobody can foretell, and
//! the server's answer carries a seal of that number and the file's path, made with a secret of the run that both ends share. So an answer
//! that somebody kept, fetched beforehand or gives to another request is found out even where the counts of both ends agree. HTTPS needs none
//! of it: nobody else has the key. This never seals the file itself, because clients compare every byte of it.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};

/// The field of a request that has its number.
pub(super) const REQUEST: &str = "Rampart-Request";
/// The field of an answer that has its seal.
pub(super) const SEAL: &str = "Rampart-Seal";

/// A run's secret, which the standard library draws from the kernel: the key of SipHash.
#[derive(Debug, Clone, Default)]
pub(super) struct Secret(RandomState);

impl Secret {
    /// The seal of a request for a path, as the answer has it. `number` is as it stands in the request.
    pub(super) fn seal(&self, number: &[u8], path: &str) -> String {
        hex(self.0.hash_one((number, path)))
    }
}

fn hex(value: u64) -> String {
    format!("{value:016x}")
}

/// The requests of a thread of clients.
#[derive(Debug)]
pub(super) struct Requests {
    secret: Secret,
    /// Of this thread alone, so that numbers do not follow from each other.
    numbers: RandomState,
    made: Cell<u64>,
}

/// What one request says, and what its answer must say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) number: String,
    pub(super) seal: String,
}

impl Requests {
    pub(super) fn new(secret: Secret) -> Self {
        Self { secret, numbers: RandomState::new(), made: Cell::new(0) }
    }

    /// One more request, for a path.
    pub(super) fn ask(&self, path: &str) -> Asked {
        self.made.set(self.made.get() + 1);
        let number = hex(self.numbers.hash_one(self.made.get()));
        let seal = self.secret.seal(number.as_bytes(), path);
        Asked { number, seal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_request_one_path_and_one_run() {
        let secret = Secret::default();
        let requests = Requests::new(secret.clone());
        let [first, second] = [requests.ask("/a"), requests.ask("/a")];
        assert_eq!(secret.seal(first.number.as_bytes(), "/a"), first.seal);
        assert_ne!(first.number, second.number);
        let others = [
            second.seal,
            secret.seal(first.number.as_bytes(), "/b"),
            Secret::default().seal(first.number.as_bytes(), "/a"),
            Requests::new(secret).ask("/a").seal,
        ];
        assert!(!others.contains(&first.seal), "{others:?}");
    }
}
