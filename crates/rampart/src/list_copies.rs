//! Copies of lists as they were read or fetched last, compiled, in a folder of the firewall's own: for a machine that comes up, and for a policy
//! that comes back, when a file is gone or broken. What is fetched is read from its copy alone.

use crate::fetch::Fetch;
use crate::list_files::Read;
use crate::whole_file;
use policy::lists::{Contents, List, MAX_LISTS, compiled};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Copies that are kept: of the lists of two policies.
pub(crate) const MOST_COPIES: usize = 2 * MAX_LISTS;

/// Where copies are, and what may be done with them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copies<'f> {
    pub(crate) folder: &'f Path,
    /// A copy takes the place of a file that cannot be read.
    pub(crate) stand_in: bool,
    /// Who runs commands; without it, what was fetched before is all there is.
    pub(crate) fetcher: Option<&'f dyn Fetch>,
    /// Copies are written, or else only read.
    pub(crate) keep: bool,
}

/// Where a list is read from, for this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// From the policy alone.
    Policy,
    File(PathBuf),
    /// From what a program prints.
    Fetched(Vec<String>),
}

/// Where a list is read from; `folder` is the policy's.
///
/// # Errors
/// The policy names it from a folder on, and nobody knows which.
pub(crate) fn source(list: &List, folder: Option<&Path>) -> Result<Source, String> {
    use policy::lists::Origin;
    let file = match (&list.origin, list.origin.command()) {
        (_, Some(words)) => return Ok(Source::Fetched(words)),
        (Origin::File(file), _) => file,
        _ => return Ok(Source::Policy),
    };
    place_of(file, folder).map(Source::File)
}

/// Where a file is that a policy names; `folder` is the policy's.
///
/// # Errors
/// The policy names it from a folder on, and nobody knows which.
pub(crate) fn place_of(file: &str, folder: Option<&Path>) -> Result<PathBuf, String> {
    let path = Path::new(file);
    match folder {
        _ if path.is_absolute() => Ok(path.to_owned()),
        Some(folder) => Ok(folder.join(path)),
        None => {
            Err(format!("the request does not say in which folder `{file}` is: name it from the root on"))
        }
    }
}

impl Source {
    /// The file that is to be looked at: what is read when it has changed.
    pub(crate) fn watched(&self, list: &List, copies: Option<&Path>) -> Option<PathBuf> {
        match self {
            Self::Policy => None,
            Self::File(path) => Some(path.clone()),
            Self::Fetched(_) => copies.map(|folder| copy_of(folder, list, self)),
        }
    }
}

/// Lists of the same name may come from several places, of which each has its copy.
fn copy_of(folder: &Path, list: &List, source: &Source) -> PathBuf {
    let mut words: Vec<&[u8]> = match source {
        Source::Policy => Vec::new(),
        Source::File(path) => vec![b"file", path.as_os_str().as_encoded_bytes()],
        Source::Fetched(words) => {
            [b"command".as_slice()].into_iter().chain(words.iter().map(String::as_bytes)).collect()
        }
    };
    words.push(b"");
    words.extend(list.countries.iter().map(String::as_bytes));
    folder.join(format!("{}-{:016x}.list", list.name, fnv(&words)))
}

/// FNV-1a. Names of copies outlive the program that made them, so they do not hang on the hash of a library.
fn fnv(words: &[&[u8]]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.iter().copied().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Copies<'_> {
    pub(crate) fn path(&self, list: &List, source: &Source) -> PathBuf {
        copy_of(self.folder, list, source)
    }

    /// A file for what a command prints, until it has been read as a whole. It has no name, so nothing of it is left when it is closed.
    pub(crate) fn nameless(&self) -> io::Result<File> {
        self.make_folder()?;
        let (path, file) = whole_file::begin(&self.folder.join("fetched"), 0o600)?;
        fs::remove_file(path)?;
        Ok(file)
    }

    fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder)?;
        self.check_folder()
    }

    /// Whoever else could write there would say what is on the lists.
    ///
    /// # Errors
    /// Others can write there, or there is no such folder.
    pub(crate) fn check_folder(&self) -> io::Result<()> {
        let about = fs::symlink_metadata(self.folder)?;
        let is_ours = about.uid() == 0 || about.uid() == nix::unistd::geteuid().as_raw();
        if about.is_dir() && is_ours && about.mode() & 0o022 == 0 {
            return Ok(());
        }
        let what = "users other than root can change it: give it to root, with mode 0700";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
    }

    /// Keeps a list in place of its last copy; of a file that is compiled its bytes.
    pub(crate) fn keep(&self, list: &List, source: &Source, read: &Read) -> io::Result<()> {
        if !self.keep {
            return Ok(());
        }
        let path = self.path(list, source);
        match &read.compiled {
            Some(bytes) => self.write(&path, bytes),
            None => self.write(&path, &compiled::encode(&read.contents)),
        }
    }

    /// The same, unless the last copy says the same. Returns whether it was another.
    pub(crate) fn keep_another(&self, list: &List, source: &Source, contents: &Contents) -> io::Result<bool> {
        let (path, bytes) = (self.path(list, source), compiled::encode(contents));
        if fs::read(&path).is_ok_and(|before| before == bytes) {
            return Ok(false);
        }
        self.write(&path, &bytes).map(|()| true)
    }

    /// Names of the copies that are there.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        match fs::read_dir(self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            files => {
                let mut names: Vec<String> =
                    files?.flatten().filter_map(|file| file.file_name().into_string().ok()).collect();
                names.sort();
                Ok(names)
            }
        }
    }

    /// Keeps a copy that another machine has made, unless there is one of the same list. Returns the file if it is new.
    pub(crate) fn import(&self, name: &str, bytes: &[u8]) -> io::Result<Option<PathBuf>> {
        let path = self.folder.join(name);
        if path.exists() { Ok(None) } else { self.write(&path, bytes).map(|()| Some(path)) }
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.make_folder()?;
        whole_file::replace(path, 0o600, bytes)
    }

    /// Forgets what a daemon that was killed has not finished, and the copies that were written first, but none of these lists.
    pub(crate) fn forget_oldest(&self, but: &[PathBuf]) -> io::Result<()> {
        if !self.keep || !self.folder.exists() {
            return Ok(());
        }
        let mut copies: Vec<_> = fs::read_dir(self.folder)?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| !whole_file::is_unfinished(path))
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
            .collect();
        copies.sort();
        let too_many = copies.len().saturating_sub(MOST_COPIES);
        let old = copies.into_iter().filter(|(_, path)| !but.contains(path)).take(too_many);
        old.map(|(_, path)| path).try_for_each(fs::remove_file)?;
        whole_file::forget_unfinished(self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::{Duration, SystemTime};

    fn copies(folder: &Path) -> Copies<'_> {
        Copies { folder, stand_in: true, fetcher: None, keep: true }
    }

    #[test]
    fn only_a_folder_that_nobody_else_can_write_to_has_copies() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("lists");
        assert_eq!(copies(&folder).check_folder().unwrap_err().kind(), io::ErrorKind::NotFound);
        copies(&folder).nameless().unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        for mode in [0o770, 0o707, 0o777] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let made = copies(&folder).nameless().map(drop).map_err(|error| error.kind());
            assert_eq!(made, Err(io::ErrorKind::PermissionDenied), "{mode:o}");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(copies(&folder).check_folder().is_ok(), "others may read it");
        let link = outside.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(copies(&link).check_folder().is_err(), "a link leads where somebody else wants it");
    }

    #[test]
    fn what_a_killed_daemon_left_is_removed_and_what_another_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, age: u64| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        file("copy.17.1.new", 2 * 3_600);
        file("copy.17.2.new", 60);
        (0..MOST_COPIES as u64 + 2).for_each(|place| file(&format!("bad-{place}.list"), 9_000 - place));
        let oldest = folder.path().join("bad-0.list");
        copies(folder.path()).forget_oldest(std::slice::from_ref(&oldest)).unwrap();
        let is_there = |name: &str| folder.path().join(name).exists();
        let there =
            ["copy.17.1.new", "copy.17.2.new", "bad-0.list", "bad-1.list", "bad-2.list", "bad-3.list"];
        assert_eq!(there.map(is_there), [false, true, true, false, false, true]);
        // A copy is whole or not there at all.
        let path = folder.path().join("bad-0.list/none.list");
        assert!(copies(folder.path()).write(&path, b"x").is_err());
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, MOST_COPIES + 1, "what could not be finished is removed");
    }
}
