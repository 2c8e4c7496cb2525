//! Seals: who has the key has written a message, for this reader, in this session, at this place of its order. Others can read it, where
//! the server's connections are not encrypted, and can neither change it nor write one. Pure but for random numbers.

use crate::AgentsError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a seal holds for; another version seals nothing that this one believes.
const KIND: &str = "rampart-bench agents 1";
/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// A file with a key has a few more bytes at most.
const LARGEST_FILE: u64 = 4096;

/// A key that the bench and its agents share, or one that was derived from it.
#[derive(Clone)]
pub struct Key(hmac::Key);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Reads a key from a file that nobody but its owner can read: 32 bytes in base64.
    ///
    /// # Errors
    /// The file cannot be read, can be read by others, or holds no key.
    pub fn read(path: &Path) -> Result<Self, AgentsError> {
        use std::os::unix::fs::MetadataExt as _;
        let make =
            "make one with `(umask 077; openssl rand -base64 32 > bench.key)` and copy it to each host";
        let name = path.display();
        let wrong = |why: String| AgentsError::Wrong(format!("--key {name}: {why}"));
        let about = std::fs::metadata(path).map_err(|error| wrong(format!("{error}: {make}")))?;
        if about.mode() & 0o077 != 0 {
            return Err(wrong(format!(
                "others can read it, and could send frames from your hosts: `chmod 600 {name}`"
            )));
        }
        if about.len() > LARGEST_FILE {
            return Err(wrong(format!("it is no key: {make}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        match STANDARD.decode(text.trim()) {
            Ok(bytes) if bytes.len() == KEY_BYTES => Ok(Self::of(&bytes)),
            _ => Err(wrong(format!("it does not hold {KEY_BYTES} bytes in base64: {make}"))),
        }
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// A key for one purpose, from which nobody learns this one.
    pub(crate) fn derive(&self, purpose: &str, of: &str) -> Self {
        Self::of(self.tag(&["derived", purpose, of]).as_ref())
    }

    /// What the secrets of a trial are drawn from: both hosts of a ticket have the same, and nobody without the key. It is never sent.
    pub(crate) fn secret(&self, ticket: &str, trial: u64) -> u64 {
        let tag = self.tag(&["secret", ticket, &trial.to_string()]);
        tag.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    fn tag(&self, parts: &[&str]) -> hmac::Tag {
        hmac::sign(&self.0, &joined(parts))
    }

    fn verifies(&self, parts: &[&str], seal: &str) -> bool {
        let seal = STANDARD.decode(seal).unwrap_or_default();
        hmac::verify(&self.0, &joined(parts), &seal).is_ok()
    }
}

/// Parts such that no two lists of them are one text.
fn joined(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in std::iter::once(&KIND).chain(parts) {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

/// A number that was never drawn before, in hexadecimal digits.
///
/// # Errors
/// The kernel gives none.
pub(crate) fn nonce() -> Result<String, AgentsError> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| AgentsError::Wrong("the kernel gives no random numbers".to_owned()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Which way a message goes. A message of one way is none of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToAgent,
    FromAgent,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Way::ToAgent => "to the agent",
            Way::FromAgent => "from the agent",
        }
    }
}

/// A message with its seal. The body is kept as it was sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    /// The agent that it is for, or of.
    pub(crate) agent: String,
    /// What the session is known by.
    pub(crate) session: String,
    /// Of the messages of a session each order has a higher one; an answer has its order's.
    pub(crate) number: u64,
    /// JSON.
    pub(crate) body: String,
    /// In base64.
    seal: String,
}

impl Sealed {
    pub(crate) fn new(
        key: &Key,
        way: Way,
        (agent, session, number): (&str, &str, u64),
        body: String,
    ) -> Self {
        let tag = key.tag(&[way.name(), agent, session, &number.to_string(), &body]);
        let (agent, session, seal) = (agent.to_owned(), session.to_owned(), STANDARD.encode(tag));
        Self { agent, session, number, body, seal }
    }

    /// Whether somebody with the key has sealed this.
    pub(crate) fn is_of(&self, key: &Key, way: Way) -> bool {
        let Self { agent, session, number, body, seal } = self;
        key.verifies(&[way.name(), agent, session, &number.to_string(), body], seal)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        // A structure of texts and a number always has a form in JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_holds_for_what_was_sealed_and_nothing_else() {
        let (key, other) = (Key::of(&[1; 32]), Key::of(&[2; 32]));
        let sealed = Sealed::new(&key, Way::ToAgent, ("left", "s", 7), "{}".to_owned());
        assert!(sealed.is_of(&key, Way::ToAgent));
        let changed = |change: fn(&mut Sealed)| {
            let mut it = sealed.clone();
            change(&mut it);
            it
        };
        for (name, message) in [
            ("another agent", changed(|it| it.agent = "right".to_owned())),
            ("another session", changed(|it| it.session = "t".to_owned())),
            ("another number", changed(|it| it.number = 8)),
            ("another body", changed(|it| it.body.push(' '))),
            (
                "moved between fields",
                changed(|it| (it.agent, it.session) = ("lefts".to_owned(), String::new())),
            ),
            ("no seal", changed(|it| it.seal.clear())),
        ] {
            assert!(!message.is_of(&key, Way::ToAgent), "{name}");
        }
        assert!(!sealed.is_of(&other, Way::ToAgent), "another key");
        assert!(!sealed.is_of(&key, Way::FromAgent), "the other way");
        let secrets = [
            key.secret("a", 1),
            key.secret("a", 2),
            key.secret("b", 1),
            other.secret("a", 1),
            key.derive("clock", "a").secret("a", 1),
        ];
        let different: std::collections::BTreeSet<u64> = secrets.into_iter().collect();
        assert_eq!((different.len(), key.secret("a", 1)), (secrets.len(), secrets[0]));
    }

    #[test]
    fn a_key_is_32_bytes_that_nobody_else_can_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("agents-key-{}", std::process::id()));
        let good = STANDARD.encode([7; 32]);
        for (text, mode, said) in [
            (good.as_str(), 0o600, ""),
            (&format!("{good}\n"), 0o400, ""),
            (&good, 0o640, "others can read it"),
            ("c2hvcnQ=", 0o600, "32 bytes in base64"),
            ("not base64!", 0o600, "32 bytes in base64"),
            (&"A".repeat(5000), 0o600, "it is no key"),
        ] {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let found = Key::read(&path).map(drop).map_err(|error| error.to_string());
            match said {
                "" => assert_eq!(found, Ok(()), "{text}"),
                _ => assert!(found.clone().is_err_and(|error| error.contains(said)), "{text}: {found:?}"),
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Key::read(&path).unwrap_err().to_string().contains("openssl rand -base64 32"));
    }
}
