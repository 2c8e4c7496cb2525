//! What is signed for a group: a policy, and that it is confirmed. Pure.

use crate::key::{PrivateKey, PublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What stands for a group on the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    /// The policy.
    pub order: Signed,
    /// That it is confirmed; absent while it is tried.
    #[serde(default)]
    pub confirmation: Option<Signed>,
}

/// A statement that somebody has signed. The text is kept as it was signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// JSON.
    pub statement: String,
    /// In base64.
    pub signature: String,
}

/// A kind of statement. A signature under one of them holds for no other.
pub trait Statement: Serialize + DeserializeOwned {
    /// Its kind and version.
    const KIND: &'static str;
}

/// A policy for a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The group.
    pub group: String,
    /// When it was made, which is also its name: a later one takes its place.
    pub made_at: Timestamp,
    /// The policy's file, for messages.
    pub file: String,
    /// The policy.
    pub text: String,
    /// Seconds after which a firewall goes back unless the order is confirmed, 10 to 3600.
    pub confirm_seconds: u32,
}

impl Statement for Order {
    const KIND: &'static str = "rampart fleet: order 1";
}

/// An order is confirmed: it stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The group.
    pub group: String,
    /// When the order was made.
    pub order: Timestamp,
}

impl Statement for Confirmation {
    const KIND: &'static str = "rampart fleet: confirmation 1";
}

impl Signed {
    /// Signs a statement.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new<S: Statement>(statement: &S, key: &PrivateKey) -> Result<Self, serde_json::Error> {
        let statement = serde_json::to_string(statement)?;
        let signature = STANDARD.encode(key.sign(&message::<S>(&statement)));
        Ok(Self { statement, signature })
    }

    /// What was signed, if one of these keys has.
    ///
    /// # Errors
    /// None of them has, or it is no such statement.
    pub fn read<S: Statement>(&self, trusted: &[PublicKey]) -> Result<S, String> {
        let signature = STANDARD.decode(&self.signature).unwrap_or_default();
        let message = message::<S>(&self.statement);
        if !trusted.iter().any(|key| key.has_signed(&message, &signature)) {
            return Err("no key under `trust` has signed it".to_owned());
        }
        serde_json::from_str(&self.statement).map_err(|error| format!("it cannot be read: {error}"))
    }
}

fn message<S: Statement>(statement: &str) -> Vec<u8> {
    [S::KIND.as_bytes(), b"\n", statement.as_bytes()].concat()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn key() -> PrivateKey {
        PrivateKey::from_pem(PrivateKey::new_pem().unwrap().as_bytes()).unwrap()
    }

    #[test]
    fn a_statement_is_read_only_as_it_was_signed_by_somebody_who_is_trusted() {
        let (own, foreign) = (key(), key());
        let confirmation =
            Confirmation { group: "branches".to_owned(), order: "2026-11-27T10:00:00Z".parse().unwrap() };
        let signed = Signed::new(&confirmation, &own).unwrap();
        assert_eq!(signed.read::<Confirmation>(&[foreign.public(), own.public()]), Ok(confirmation));
        let unsigned = "no key under `trust` has signed it";
        let changed = Signed { statement: signed.statement.replace("branches", "all"), ..signed.clone() };
        let no_signature = Signed { signature: "!".to_owned(), ..signed.clone() };
        for (what, signed, trusted) in [
            ("by another key", &signed, vec![foreign.public()]),
            ("trusts nobody", &signed, vec![]),
            ("changed", &changed, vec![own.public()]),
            ("no signature", &no_signature, vec![own.public()]),
        ] {
            assert_eq!(signed.read::<Confirmation>(&trusted).unwrap_err(), unsigned, "{what}");
        }
        // What was signed as one kind is no other, even if it has its keys.
        assert_eq!(signed.read::<Order>(&[own.public()]).unwrap_err(), unsigned);
    }
}
