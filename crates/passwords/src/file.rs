//! Users in a file, which is changed as a whole: others see it as it was before, or as it is after.

use crate::UsersError;
use nix::fcntl::{Flock, FlockArg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// Bytes of the file at most.
pub const LARGEST: u64 = 1 << 20;

/// What a file has of a user.
pub trait Entry: Serialize + DeserializeOwned {
    /// His name.
    fn name(&self) -> &str;
}

/// A file of users.
#[derive(Debug)]
pub struct UserFile<U> {
    path: PathBuf,
    users: PhantomData<fn() -> U>,
}

#[derive(Serialize, Deserialize)]
struct Document<U> {
    users: Vec<U>,
}

impl<U: Entry> UserFile<U> {
    /// A file, which need not exist yet.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), users: PhantomData }
    }

    /// All users, by name; none if there is no file.
    ///
    /// # Errors
    /// [`UsersError::Io`].
    pub fn all(&self) -> Result<Vec<U>, UsersError> {
        match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            found => found.and_then(|file| read(&file)).map_err(|source| self.io(source)),
        }
    }

    /// Changes the users. `change` may refuse that, and the file is as it was.
    ///
    /// # Errors
    /// [`UsersError::Io`], and what `change` says.
    pub fn change(
        &self,
        change: impl FnOnce(&mut Vec<U>) -> Result<(), UsersError>,
    ) -> Result<(), UsersError> {
        let _lock = self.lock().map_err(|source| self.io(source))?;
        let mut users = self.all()?;
        change(&mut users)?;
        users.sort_by(|a, b| a.name().cmp(b.name()));
        let mut text =
            serde_json::to_vec_pretty(&Document { users }).map_err(|error| self.io(error.into()))?;
        text.push(b'\n');
        self.write(&text).map_err(|source| self.io(source))
    }

    fn io(&self, source: io::Error) -> UsersError {
        UsersError::Io { path: self.path.clone(), source }
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
            Some(folder) => folder,
            None => Path::new("/"),
        }
    }

    /// Held while somebody changes the file: a server or the command line.
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
        if text.len() as u64 > LARGEST {
            return Err(too_large());
        }
        let path = self.path.with_extension("new");
        let mut file = self.create(&path)?;
        file.set_len(0)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&path, &self.path)?;
        File::open(self.folder())?.sync_all()
    }
}

/// The users in a file that is open.
///
/// # Errors
/// It cannot be read, is larger than [`LARGEST`] or is no file of users.
pub fn read<U: Entry>(file: &File) -> io::Result<Vec<U>> {
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(too_large());
    }
    let document: Document<U> = serde_json::from_slice(&text)?;
    Ok(document.users)
}

fn too_large() -> io::Error {
    io::Error::other(format!("it would have more than {LARGEST} bytes"))
}
