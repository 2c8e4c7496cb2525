//! Random numbers that nobody can guess, and comparisons that tell nobody how far they got.

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The kernel gave no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the kernel gives no random numbers")]
pub struct NoRandom;

/// 256 random bits, in hexadecimal digits.
///
/// # Errors
/// [`NoRandom`].
pub fn token() -> Result<String, NoRandom> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(hex(&bytes))
}

/// SHA-256 of a text, in hexadecimal digits.
pub fn hash(text: &str) -> String {
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Whether two texts are the same. What is compared is their hashes, so the time says nothing about the texts.
pub fn same(a: &str, b: &str) -> bool {
    hash(a) == hash(b)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
