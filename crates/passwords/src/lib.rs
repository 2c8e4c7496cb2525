//! What programs that ask for names and passwords have in common: which names and passwords there may be, hashes by Argon2id ([`hash`]), the file of
//! users ([`mod@file`]), how often somebody may try ([`throttle`]), and how a password is read at a terminal ([`prompt`]). Who may do what is each
//! program's own, and so is when something is asked. A password itself is never kept or written.

pub mod file;
pub mod hash;
pub mod prompt;
pub mod throttle;

use std::io;
use std::path::PathBuf;

/// Characters of a password at least (NIST SP 800-63B asks for 8, OWASP for more where nothing else protects).
pub const SHORTEST: usize = 12;
/// Bytes of a password at most: what is longer would only cost time.
pub const LONGEST: usize = 1024;
/// Bytes of a name at most; the firewall's audit trail has as many.
pub const LONGEST_NAME: usize = 32;

/// Why users cannot be read or changed. Each text is complete.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file cannot be read or written.
    #[error("cannot read or write the users in {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was asked for is wrong.
    #[error("{0}")]
    Wrong(String),
}

/// What helps against a fault of the file, where something does.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; ask as root, or as the user to whom the file belongs",
        io::ErrorKind::NotFound => "; make its folder first, or name another file",
        _ => "",
    }
}

/// What was asked for is wrong.
pub fn wrong(text: impl Into<String>) -> UsersError {
    UsersError::Wrong(text.into())
}

/// Whether a text can be the name of a user: small letters, digits, `.`, `_` and `-`, at most 32. Nothing of it has to be escaped anywhere.
pub fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(plain)
}

/// Refuses what cannot be the name of a user.
///
/// # Errors
/// [`UsersError::Wrong`].
pub fn check_name(name: &str) -> Result<(), UsersError> {
    let rule = || wrong(format!("a name has 1 to {LONGEST_NAME} small letters, digits, `.`, `_` and `-`"));
    is_name(name).then_some(()).ok_or_else(rule)
}

/// Refuses passwords that are too short, too long or known from the name.
///
/// # Errors
/// [`UsersError::Wrong`].
pub fn check_password(name: &str, password: &str) -> Result<(), UsersError> {
    if password.chars().count() < SHORTEST {
        return Err(wrong(format!("a password has {SHORTEST} characters or more")));
    }
    if password.len() > LONGEST {
        return Err(wrong(format!("a password has {LONGEST} bytes at most")));
    }
    let first = password.chars().next();
    if password.to_lowercase().contains(&name.to_lowercase()) || password.chars().all(|c| Some(c) == first) {
        return Err(wrong("a password is neither made of the user's name nor of one character alone"));
    }
    Ok(())
}
