//! Keys of Ed25519 (RFC 8032), by which statements are signed and known.

use crate::FleetError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use std::fmt;
use std::str::FromStr;

const KIND: &str = "ed25519:";
const BYTES: usize = 32;
/// Characters in a line of PEM (RFC 7468).
const PEM_LINE: usize = 64;

/// What a signature is known by: `ed25519:` and 32 bytes in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; BYTES]);

impl PublicKey {
    /// Whether somebody who has the private key has signed this.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KIND}{}", STANDARD.encode(self.0))
    }
}

impl FromStr for PublicKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = text.strip_prefix(KIND).and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| {
            "a public key is `ed25519:` and 44 characters, as `rampart fleet key` prints it".to_owned()
        })
    }
}

/// What signs.
pub struct PrivateKey(Ed25519KeyPair);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey of {}", self.public())
    }
}

impl PrivateKey {
    /// A new key, in PEM (PKCS #8).
    ///
    /// # Errors
    /// The machine gives no random bytes.
    pub fn new_pem() -> Result<String, FleetError> {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| FleetError::Server("the machine gives no random bytes".to_owned()))?;
        let text = STANDARD.encode(der.as_ref());
        let lines: Vec<String> =
            text.as_bytes().chunks(PEM_LINE).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        Ok(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n")))
    }

    /// Reads a key as [`Self::new_pem`] or `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    /// It is none.
    pub fn from_pem(pem: &[u8]) -> Result<Self, FleetError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).ok();
        let pair =
            der.and_then(|der| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).ok());
        pair.map(Self).ok_or_else(|| {
            FleetError::Wrong(
                "it is no private key of Ed25519 in PEM: `rampart fleet key FILE` makes one".to_owned(),
            )
        })
    }

    /// What its signatures are known by.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `openssl genpkey -algorithm ed25519` wrote it, and its public half as `openssl pkey -pubout` did.
    const OF_OPENSSL: &str = "-----BEGIN PRIVATE KEY-----\n\
                              MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
                              -----END PRIVATE KEY-----\n";
    const ITS_PUBLIC_KEY: &str = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

    #[test]
    fn a_key_is_the_same_after_it_was_written() {
        let pem = PrivateKey::new_pem().unwrap();
        let key = PrivateKey::from_pem(pem.as_bytes()).unwrap();
        let public: PublicKey = key.public().to_string().parse().unwrap();
        assert_eq!(public, key.public());
        assert!(public.has_signed(b"words", &key.sign(b"words")));
        assert!(!public.has_signed(b"other", &key.sign(b"words")));
    }

    #[test]
    fn keys_of_other_programs_are_read() {
        // The first key of RFC 8032 7.1.
        let key = PrivateKey::from_pem(OF_OPENSSL.as_bytes()).unwrap();
        assert_eq!(key.public().to_string(), ITS_PUBLIC_KEY);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "ed25519:", "ed25519:AAAA", "rsa:AAAA", &ITS_PUBLIC_KEY[8..], "ed25519:!"] {
            assert!(text.parse::<PublicKey>().is_err(), "{text:?}");
        }
        for pem in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", ITS_PUBLIC_KEY] {
            assert!(PrivateKey::from_pem(pem.as_bytes()).is_err(), "{pem:?}");
        }
    }
}
