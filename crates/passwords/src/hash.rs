//! Hashes of passwords by Argon2id (RFC 9106), in the PHC string format.

use crate::{UsersError, wrong};
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};

/// KiB of memory, passes and lanes that a hash may ask for: three times what ours do.
const MOST_MEMORY_KIB: u32 = 64 * 1024;
const MOST_PASSES: u32 = 8;
const MOST_LANES: u32 = 4;
/// Bytes of a hash as text.
const LONGEST: usize = 256;

/// Makes hashes and compares with them. Each takes some ten milliseconds and 19 MiB: how many at once is the caller's to bound.
#[derive(Debug)]
pub struct Hasher {
    params: Params,
    /// What the password of somebody who does not exist is compared with, so that the time does not tell.
    nobody: String,
}

impl Hasher {
    /// The usual one.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn usual() -> Result<Self, UsersError> {
        Self::with(Params::default())
    }

    /// Hashes that cost next to nothing, for tests.
    ///
    /// # Errors
    /// As [`Hasher::usual`].
    pub fn cheap() -> Result<Self, UsersError> {
        Self::with(Params::new(8, 1, 1, None).map_err(|error| wrong(error.to_string()))?)
    }

    fn with(params: Params) -> Result<Self, UsersError> {
        let mut hasher = Self { params, nobody: String::new() };
        hasher.nobody = hasher.hash("nobody has this password")?;
        Ok(hasher)
    }

    /// The hash of a password, with a salt of its own.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn hash(&self, password: &str) -> Result<String, UsersError> {
        let hash = self.argon2().hash_password(password.as_bytes());
        hash.map(|hash| hash.to_string()).map_err(|error| wrong(format!("cannot hash a password: {error}")))
    }

    /// Whether a hash is that of a password. `None` is the hash of somebody who does not exist, which takes as long and is none's.
    pub fn verifies(&self, password: &str, hash: Option<&str>) -> bool {
        let is_right = PasswordHash::new(hash.unwrap_or(&self.nobody))
            .is_ok_and(|hash| self.argon2().verify_password(password.as_bytes(), &hash).is_ok());
        is_right && hash.is_some()
    }

    fn argon2(&self) -> Argon2<'_> {
        Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone())
    }
}

/// Whether a text is a hash that can be compared with at a cost that is known: who writes it says how much memory it takes.
pub fn is_hash(text: &str) -> bool {
    let params = (text.len() <= LONGEST && text.starts_with("$argon2id$"))
        .then(|| Params::try_from(&PasswordHash::new(text).ok()?).ok())
        .flatten();
    params.is_some_and(|params| {
        params.m_cost() <= MOST_MEMORY_KIB && params.t_cost() <= MOST_PASSES && params.p_cost() <= MOST_LANES
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_unknown_cost_are_none() {
        let hasher = Hasher::cheap().unwrap();
        let hash = hasher.hash("correct horse battery").unwrap();
        let with = |from: &str, to: &str| hash.replace(from, to);
        for (text, expected) in [
            (hash.clone(), true),
            (with("m=8,", "m=65536,"), true),
            (with("m=8,", "m=4000000,"), false),
            (with("t=1", "t=9"), false),
            (with("p=1", "p=5"), false),
            (with("argon2id", "argon2d"), false),
            (with("argon2id", "scrypt"), false),
            ("x".to_owned(), false),
            (String::new(), false),
            (hash.clone() + &"A".repeat(300), false),
        ] {
            assert_eq!(is_hash(&text), expected, "{text}");
        }
        assert!(hasher.verifies("correct horse battery", Some(&hash)));
        assert!(!hasher.verifies("correct horse", Some(&hash)));
        assert!(!hasher.verifies("nobody has this password", None), "nobody logs in");
    }
}
