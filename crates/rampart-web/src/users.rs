//! Users with their roles and the hashes of their passwords, in one file. The file is read at each request, so that whoever was
//! removed or lost a role is stopped at once. Passwords are hashed by Argon2id; none is ever kept or written.

use crate::secret;
use passwords::file::{Entry, UserFile};
use passwords::hash::Hasher;
use passwords::{LONGEST, check_name, check_password, wrong};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub use passwords::{SHORTEST, UsersError};

/// What a user may do. Each may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// See all pages but that of users.
    Read,
    /// End flows and blocks, too.
    Operate,
    /// Put policies in force and manage users, too.
    Administer,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Read, Role::Operate, Role::Administer];

    /// As the file and the command line write it.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Administer => "administer",
        }
    }

    /// Reads it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == text)
    }
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Name: small letters, digits, `.`, `_` and `-`, at most 32.
    pub name: String,
    /// What he may do.
    pub role: Role,
    /// The hash of his password, in the PHC string format.
    hash: String,
}

impl User {
    /// What is another one whenever his password is, and for another user of this name.
    pub fn stamp(&self) -> String {
        secret::hash(&self.hash)
    }
}

impl Entry for User {
    fn name(&self) -> &str {
        &self.name
    }
}

/// The users in a file.
#[derive(Debug)]
pub struct Users {
    file: UserFile<User>,
    hasher: Hasher,
    /// One password is hashed at a time: each takes 19 MiB.
    turn: Mutex<()>,
}

impl Users {
    /// The users in a file, which need not exist yet.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn at(path: &Path) -> Result<Self, UsersError> {
        Ok(Self::with(path, Hasher::usual()?))
    }

    /// The same with hashes that cost next to nothing, for tests.
    ///
    /// # Errors
    /// As [`Users::at`].
    pub fn cheap(path: &Path) -> Result<Self, UsersError> {
        Ok(Self::with(path, Hasher::cheap()?))
    }

    fn with(path: &Path, hasher: Hasher) -> Self {
        Self { file: UserFile::at(path), hasher, turn: Mutex::default() }
    }

    /// All users, by name.
    ///
    /// # Errors
    /// [`UsersError::Io`].
    pub fn all(&self) -> Result<Vec<User>, UsersError> {
        self.file.all()
    }

    /// A user by name.
    ///
    /// # Errors
    /// [`UsersError::Io`].
    pub fn find(&self, name: &str) -> Result<Option<User>, UsersError> {
        Ok(self.all()?.into_iter().find(|user| user.name == name))
    }

    /// The user whose name and password these are. Takes as long for a name that nobody has.
    ///
    /// # Errors
    /// [`UsersError::Io`].
    pub fn log_in(&self, name: &str, password: &str) -> Result<Option<User>, UsersError> {
        let user = self.find(name)?;
        let hash = user.as_ref().map(|user| user.hash.as_str());
        let is_right = password.len() <= LONGEST && self.verifies(password, hash);
        Ok(user.filter(|_| is_right))
    }

    fn verifies(&self, password: &str, hash: Option<&str>) -> bool {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.hasher.verifies(password, hash)
    }

    fn hash(&self, password: &str) -> Result<String, UsersError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.hasher.hash(password)
    }

    /// Whether a user can be added by this name.
    ///
    /// # Errors
    /// The name is none or taken.
    pub fn check_free(&self, name: &str) -> Result<(), UsersError> {
        check_name(name)?;
        self.find(name)?.map_or(Ok(()), |_| Err(taken(name)))
    }

    /// Whether there is a user of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn check_there(&self, name: &str) -> Result<(), UsersError> {
        self.find(name)?.map(drop).ok_or_else(|| unknown(name))
    }

    /// Adds a user.
    ///
    /// # Errors
    /// The name or the password is none, or the name is taken.
    pub fn add(&self, name: &str, role: Role, password: &str) -> Result<(), UsersError> {
        check_name(name)?;
        check_password(name, password)?;
        let user = User { name: name.to_owned(), role, hash: self.hash(password)? };
        self.file.change(|users| {
            if users.iter().any(|user| user.name == name) {
                return Err(taken(name));
            }
            users.push(user);
            Ok(())
        })
    }

    /// Gives a user another password: the user's new [`User::stamp`].
    ///
    /// # Errors
    /// There is no such user, or the password is none.
    pub fn set_password(&self, name: &str, password: &str) -> Result<String, UsersError> {
        check_password(name, password)?;
        let hash = self.hash(password)?;
        let stamp = secret::hash(&hash);
        self.file.change(|users| {
            user_of(users, name)?.hash = hash;
            Ok(())
        })?;
        Ok(stamp)
    }

    /// Gives a user another role. The last administrator keeps his, unless `even_the_last`.
    ///
    /// # Errors
    /// There is no such user, or he is the last administrator.
    pub fn set_role(&self, name: &str, role: Role, even_the_last: bool) -> Result<(), UsersError> {
        self.file.change(|users| {
            user_of(users, name)?.role = role;
            even_the_last.then_some(()).map_or_else(|| keep_an_administrator(users), Ok)
        })
    }

    /// Removes a user. The last administrator stays, unless `even_the_last`.
    ///
    /// # Errors
    /// There is no such user, or he is the last administrator.
    pub fn remove(&self, name: &str, even_the_last: bool) -> Result<(), UsersError> {
        self.file.change(|users| {
            user_of(users, name)?;
            users.retain(|user| user.name != name);
            even_the_last.then_some(()).map_or_else(|| keep_an_administrator(users), Ok)
        })
    }
}

fn user_of<'u>(users: &'u mut [User], name: &str) -> Result<&'u mut User, UsersError> {
    let found = users.iter_mut().find(|user| user.name == name);
    found.ok_or_else(|| unknown(name))
}

fn taken(name: &str) -> UsersError {
    wrong(format!("there is a user {name} already"))
}

fn unknown(name: &str) -> UsersError {
    wrong(format!("there is no user {name:?}"))
}

fn keep_an_administrator(users: &[User]) -> Result<(), UsersError> {
    let is_left = users.iter().any(|user| user.role == Role::Administer);
    let last = "this is the last administrator: make another first";
    is_left.then_some(()).ok_or_else(|| wrong(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    const PASSWORD: &str = "correct horse battery";

    #[test]
    fn names_and_passwords_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::cheap(&folder.path().join("users.json")).unwrap();
        for (name, password, expected) in [
            ("anna", PASSWORD, "Ok"),
            ("anna", PASSWORD, "there is a user anna already"),
            ("Anna", PASSWORD, "small letters"),
            ("", PASSWORD, "small letters"),
            ("a/../b", PASSWORD, "small letters"),
            ("a\nb", PASSWORD, "small letters"),
            ("<b>", PASSWORD, "small letters"),
            (&"a".repeat(33), PASSWORD, "small letters"),
            ("ben", "short", "12 characters or more"),
            ("ben", &"xy".repeat(600), "1024 bytes"),
            ("ben", "the password of Ben", "user's name"),
            ("ben", "aaaaaaaaaaaaa", "one character"),
        ] {
            let said = format!("{:?}", users.add(name, Role::Read, password));
            assert!(said.contains(expected), "{name:?} {password:?}: {said}");
        }
    }

    #[test]
    fn who_knows_the_password_logs_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.json");
        let users = Users::cheap(&path).unwrap();
        assert!(users.log_in("anna", PASSWORD).unwrap().is_none(), "there is no file");
        users.add("anna", Role::Operate, PASSWORD).unwrap();
        for (name, password, expected) in [
            ("anna", PASSWORD, Some(Role::Operate)),
            ("anna", "correct horse", None),
            ("anna", "", None),
            ("Anna", PASSWORD, None),
            ("nobody", "nobody has this password", None),
        ] {
            let found = users.log_in(name, password).unwrap().map(|user| user.role);
            assert_eq!(found, expected, "{name} {password}");
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("$argon2id$v=19$") && !text.contains("horse"), "{text}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        users.set_password("anna", "another long one").unwrap();
        assert!(users.log_in("anna", PASSWORD).unwrap().is_none());
        assert!(users.log_in("anna", "another long one").unwrap().is_some());
    }

    #[test]
    fn an_administrator_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::cheap(&folder.path().join("users.json")).unwrap();
        users.add("anna", Role::Administer, PASSWORD).unwrap();
        users.add("ben", Role::Read, PASSWORD).unwrap();
        let last = |done: Result<(), UsersError>| done.unwrap_err().to_string();
        assert!(last(users.remove("anna", false)).contains("last administrator"));
        assert!(last(users.set_role("anna", Role::Read, false)).contains("last administrator"));
        assert!(last(users.remove("carl", false)).contains("no user"));
        users.set_role("ben", Role::Administer, false).unwrap();
        users.remove("anna", false).unwrap();
        users.remove("ben", true).unwrap();
        assert_eq!(users.all().unwrap(), []);
    }

    #[test]
    fn a_file_that_is_none_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.json");
        let users = Users::cheap(&path).unwrap();
        let hash = r#"{"users":[{"name":"anna","role":"read","hash":"x"}]}"#;
        for (text, is_readable) in [("", false), ("{}", false), ("[]", false), (hash, true)] {
            fs::write(&path, text).unwrap();
            let found = users.log_in("anna", "x");
            assert_eq!(found.as_ref().is_ok_and(Option::is_none), is_readable, "{text}: {found:?}");
        }
    }
}
