//! Copies of lists as they were read or fetched last, compiled, in a folder of the firewall's own: for a machine that comes up, and for a policy
//! that comes back, when a file is gone or broken. What is fetched is read from its copy alone.

use crate::fetch::Fetch;
use policy::address::AddressSet;
use policy::lists::{List, MAX_LISTS, compiled};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Copies that are kept: of the lists of two policies.
const MOST_COPIES: usize = 2 * MAX_LISTS;

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
    let path = Path::new(file);
    match folder {
        _ if path.is_absolute() => Ok(Source::File(path.to_owned())),
        Some(folder) => Ok(Source::File(folder.join(path))),
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

    /// Where what a command prints is kept until it has been read as a whole.
    pub(crate) fn unread(&self, list: &List, source: &Source) -> io::Result<(PathBuf, File)> {
        let path = self.path(list, source).with_extension("fetched");
        let file = self.open(&path)?;
        Ok((path, file))
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder)?;
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
    }

    /// Keeps a list in place of its last copy.
    pub(crate) fn keep(&self, list: &List, source: &Source, set: &AddressSet) -> io::Result<()> {
        if self.keep { self.write(&self.path(list, source), &compiled::encode(set)) } else { Ok(()) }
    }

    /// The same, unless the last copy says the same. Returns whether it was another.
    pub(crate) fn keep_another(&self, list: &List, source: &Source, set: &AddressSet) -> io::Result<bool> {
        let (path, bytes) = (self.path(list, source), compiled::encode(set));
        if fs::read(&path).is_ok_and(|before| before == bytes) {
            return Ok(false);
        }
        self.write(&path, &bytes).map(|()| true)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let early = path.with_extension("new");
        let mut out = self.open(&early)?;
        out.write_all(bytes)?;
        out.sync_all()?;
        fs::rename(early, path)
    }

    /// Forgets the copies that were written first, but none of these lists.
    pub(crate) fn forget_oldest(&self, but: &[PathBuf]) -> io::Result<()> {
        if !self.keep || !self.folder.exists() {
            return Ok(());
        }
        let mut all: Vec<_> = fs::read_dir(self.folder)?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
            .collect();
        all.sort();
        let too_many = all.len().saturating_sub(MOST_COPIES);
        let old = all.into_iter().filter(|(_, path)| !but.contains(path)).take(too_many);
        old.map(|(_, path)| path).try_for_each(fs::remove_file)
    }
}
