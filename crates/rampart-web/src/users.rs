//! Users with their roles and the hashes of their passwords, in one file. The file is read at each request, so that whoever was
//! removed or lost a role is stopped at once. Passwords are hashed by Argon2id; none is ever kept or written.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Characters of a password at least (NIST SP 800-63B asks for 8, OWASP for more where nothing else protects).
pub const SHORTEST: usize = 12;

/// Bytes of a password at most: what is longer would only cost time.
pub const LONGEST: usize = 1024;

/// Bytes of a name at most; the firewall's audit trail has as many.
const LONGEST_NAME: usize = 32;

/// Bytes of the file at most.
const LARGEST: u64 = 1 << 20;

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

#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    users: Vec<User>,
}

/// Why users cannot be read or changed. Each text is complete.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file cannot be read or written.
    #[error("cannot read or write the users in {}: {source}", path.display())]
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

/// The users in a file.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    params: Params,
    /// One password is hashed at a time: each takes 19 MiB.
    turn: Mutex<()>,
    /// What the password of somebody who does not exist is compared with, so that the time does not tell.
    nobody: String,
}

fn wrong(text: impl Into<String>) -> UsersError {
    UsersError::Wrong(text.into())
}

impl Users {
    /// The users in a file, which need not exist yet.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn at(path: &Path) -> Result<Self, UsersError> {
        Self::with(path, Params::default())
    }

    /// The same with hashes that cost next to nothing, for tests.
    ///
    /// # Errors
    /// As [`Users::at`].
    pub fn cheap(path: &Path) -> Result<Self, UsersError> {
        let params = Params::new(8, 1, 1, None).map_err(|error| wrong(error.to_string()))?;
        Self::with(path, params)
    }

    fn with(path: &Path, params: Params) -> Result<Self, UsersError> {
        let mut users = Self { path: path.to_owned(), params, turn: Mutex::default(), nobody: String::new() };
        users.nobody = users.hash("nobody has this password")?;
        Ok(users)
    }

    /// All users, by name.
    ///
    /// # Errors
    /// [`UsersError::Io`].
    pub fn all(&self) -> Result<Vec<User>, UsersError> {
        let io = |source| UsersError::Io { path: self.path.clone(), source };
        let length = match fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            found => found.map_err(io)?.len(),
        };
        if length > LARGEST {
            return Err(io(io::Error::other(format!("larger than {LARGEST} bytes"))));
        }
        let text = fs::read(&self.path).map_err(io)?;
        let document: Document = serde_json::from_slice(&text).map_err(|error| io(error.into()))?;
        Ok(document.users)
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
        let hash = user.as_ref().map_or(&self.nobody, |user| &user.hash);
        let is_right = password.len() <= LONGEST && self.verifies(password, hash);
        Ok(user.filter(|_| is_right))
    }

    fn verifies(&self, password: &str, hash: &str) -> bool {
        let Ok(hash) = PasswordHash::new(hash) else { return false };
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.argon2().verify_password(password.as_bytes(), &hash).is_ok()
    }

    fn argon2(&self) -> Argon2<'_> {
        Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone())
    }

    fn hash(&self, password: &str) -> Result<String, UsersError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = self.argon2().hash_password(password.as_bytes());
        hash.map(|hash| hash.to_string()).map_err(|error| wrong(format!("cannot hash a password: {error}")))
    }

    /// Adds a user.
    ///
    /// # Errors
    /// The name or the password is none, or the name is taken.
    pub fn add(&self, name: &str, role: Role, password: &str) -> Result<(), UsersError> {
        check_name(name)?;
        check_password(name, password)?;
        let user = User { name: name.to_owned(), role, hash: self.hash(password)? };
        self.change(|users| {
            if users.iter().any(|user| user.name == name) {
                return Err(wrong(format!("there is a user {name} already")));
            }
            users.push(user);
            Ok(())
        })
    }

    /// Gives a user another password.
    ///
    /// # Errors
    /// There is no such user, or the password is none.
    pub fn set_password(&self, name: &str, password: &str) -> Result<(), UsersError> {
        check_password(name, password)?;
        let hash = self.hash(password)?;
        self.change(|users| {
            user_of(users, name)?.hash = hash;
            Ok(())
        })
    }

    /// Gives a user another role. The last administrator keeps his, unless `even_the_last`.
    ///
    /// # Errors
    /// There is no such user, or he is the last administrator.
    pub fn set_role(&self, name: &str, role: Role, even_the_last: bool) -> Result<(), UsersError> {
        self.change(|users| {
            user_of(users, name)?.role = role;
            even_the_last.then_some(()).map_or_else(|| keep_an_administrator(users), Ok)
        })
    }

    /// Removes a user. The last administrator stays, unless `even_the_last`.
    ///
    /// # Errors
    /// There is no such user, or he is the last administrator.
    pub fn remove(&self, name: &str, even_the_last: bool) -> Result<(), UsersError> {
        self.change(|users| {
            user_of(users, name)?;
            users.retain(|user| user.name != name);
            even_the_last.then_some(()).map_or_else(|| keep_an_administrator(users), Ok)
        })
    }

    /// Changes the file as a whole: others see it as it was before, or as it is after.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<User>) -> Result<(), UsersError>,
    ) -> Result<(), UsersError> {
        let io = |source| UsersError::Io { path: self.path.clone(), source };
        let _lock = self.lock().map_err(io)?;
        let mut users = self.all()?;
        change(&mut users)?;
        users.sort_by(|a, b| a.name.cmp(&b.name));
        let mut text = serde_json::to_vec_pretty(&Document { users }).map_err(|error| io(error.into()))?;
        text.push(b'\n');
        self.write(&text).map_err(io)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or_else(|| Path::new("/"))
    }

    /// Held while somebody changes the file: the server or the command line.
    fn lock(&self) -> io::Result<Flock<File>> {
        let file = self.create(&self.path.with_extension("lock"))?;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
    }

    /// A file of the folder that belongs to whom the folder belongs: root writes for the server.
    fn create(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(path)?;
        let folder = fs::metadata(self.folder())?;
        if nix::unistd::geteuid().is_root() {
            fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
        }
        Ok(file)
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let path = self.path.with_extension("new");
        let mut file = self.create(&path)?;
        file.set_len(0)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&path, &self.path)?;
        File::open(self.folder())?.sync_all()
    }
}

fn user_of<'u>(users: &'u mut [User], name: &str) -> Result<&'u mut User, UsersError> {
    let found = users.iter_mut().find(|user| user.name == name);
    found.ok_or_else(|| wrong(format!("there is no user {name:?}")))
}

fn keep_an_administrator(users: &[User]) -> Result<(), UsersError> {
    let is_left = users.iter().any(|user| user.role == Role::Administer);
    let last = "this is the last administrator: make another first";
    is_left.then_some(()).ok_or_else(|| wrong(last))
}

fn check_name(name: &str) -> Result<(), UsersError> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    if (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(());
    }
    Err(wrong(format!("a name has 1 to {LONGEST_NAME} small letters, digits, `.`, `_` and `-`")))
}

fn check_password(name: &str, password: &str) -> Result<(), UsersError> {
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

#[cfg(test)]
mod tests {
    use super::*;
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
