//! Passwords that were compared lately, so that the requests of a browser cost one comparison and not hundreds. What is kept is a keyed hash of name
//! and password by a key that this process alone has, never the password. The time is given.

use super::Hash;
use crate::http::basic::Credentials;
use blake2::Blake2bMac512;
use blake2::digest::{KeyInit as _, Mac as _};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long it is known.
pub const KEPT_FOR: Duration = Duration::from_secs(300);
/// Of how many it is known at most, of right and of wrong ones each.
const MOST: usize = 4096;

/// Name and password, for whoever has the key.
pub type Sealed = [u8; 64];

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    /// The hash it was compared with; `None`: there was no such user.
    with: Option<Hash>,
    until: Instant,
}

/// Passwords that were right, and those that were not.
pub struct Checked {
    key: [u8; 64],
    right: HashMap<Sealed, Found>,
    wrong: HashMap<Sealed, Found>,
}

impl Checked {
    /// Nothing yet, with a key of its own.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn new() -> std::io::Result<Self> {
        let mut key = [0; 64];
        getrandom::fill(&mut key).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self { key, right: HashMap::new(), wrong: HashMap::new() })
    }

    /// Name and password as they are kept.
    pub fn seal(&self, offered: &Credentials) -> Sealed {
        let mut seal = Blake2bMac512::new(&self.key.into());
        // The length keeps `a` with `bc` from `ab` with `c`.
        seal.update(&(offered.name.len() as u64).to_le_bytes());
        seal.update(offered.name.as_bytes());
        seal.update(offered.password.as_bytes());
        seal.finalize().into_bytes().into()
    }

    /// Whether it was right the last time, if it was compared with this hash and not long ago.
    pub fn recall(&self, sealed: &Sealed, hash: Option<&Hash>, now: Instant) -> Option<bool> {
        let is_known = |found: &HashMap<Sealed, Found>| {
            found.get(sealed).is_some_and(|found| now < found.until && found.with.as_ref() == hash)
        };
        if is_known(&self.wrong) {
            return Some(false);
        }
        is_known(&self.right).then_some(true)
    }

    /// Keeps what was found.
    pub fn keep(&mut self, sealed: Sealed, with: Option<Hash>, is_right: bool, now: Instant) {
        let kept = if is_right { &mut self.right } else { &mut self.wrong };
        if kept.len() >= MOST && !kept.contains_key(&sealed) {
            kept.retain(|_, found| now < found.until);
            if kept.len() >= MOST {
                kept.clear();
            }
        }
        kept.insert(sealed, Found { with, until: now + KEPT_FOR });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(name: &str, password: &str) -> Credentials {
        Credentials { name: name.to_owned(), password: password.to_owned().into() }
    }

    #[test]
    fn what_was_found_is_known_for_a_while_and_of_the_same_hash_alone() {
        let mut checked = Checked::new().unwrap();
        let now = Instant::now();
        let hash = |text: &str| Some(Hash(text.to_owned()));
        let (right, wrong) = (checked.seal(&offered("anna", "x")), checked.seal(&offered("anna", "y")));
        checked.keep(right, hash("1"), true, now);
        checked.keep(wrong, hash("1"), false, now);
        let soon = now + KEPT_FOR - Duration::from_millis(1);
        for (what, sealed, with, at, expected) in [
            ("right", right, hash("1"), soon, Some(true)),
            ("wrong", wrong, hash("1"), soon, Some(false)),
            ("another password since", right, hash("2"), soon, None),
            ("another password that may be the wrong one of before", wrong, hash("2"), soon, None),
            ("the user has gone", right, None, soon, None),
            ("long ago", right, hash("1"), now + KEPT_FOR, None),
            ("apart elsewhere", checked.seal(&offered("ann", "ax")), hash("1"), now, None),
            ("another key", Checked::new().unwrap().seal(&offered("anna", "x")), hash("1"), now, None),
        ] {
            assert_eq!(checked.recall(&sealed, with.as_ref(), at), expected, "{what}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_wrong_ones_do_not_push_right_ones_out() {
        let mut checked = Checked::new().unwrap();
        let now = Instant::now();
        let right = checked.seal(&offered("anna", "x"));
        checked.keep(right, None, true, now);
        for n in 0..3 * MOST as u64 {
            let mut sealed = [0; 64];
            sealed[..8].copy_from_slice(&n.to_le_bytes());
            checked.keep(sealed, None, false, now);
            assert!(checked.wrong.len() <= MOST);
        }
        assert_eq!(checked.recall(&right, None, now), Some(true));
    }
}
