//! Puts a file in place as a whole: a reader, after a crash of the machine too, finds the one before or this one. It is written under
//! another name beside its own, goes through no link that was put there, and leaves that other name behind only if it is killed.

use rampart_client::http::MAX_BODY;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// How the name of a file ends before it is whole.
const UNFINISHED: &str = "new";
/// After this time an unfinished file is written no more: its writer was killed.
const LONG_AGO: Duration = Duration::from_secs(3_600);
/// Bits of a file's mode by which others than its owner may do something with it.
const OTHERS: u32 = 0o077;
/// Names that are tried: a process that was killed may have had the same number.
const TRIES: u32 = 64;

/// Opens a file, and nothing else: some devices do something when they are opened, and a pipe would wait for whoever writes to it.
///
/// # Errors
/// It cannot be opened, or is no file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let no_file = || io::Error::new(ErrorKind::InvalidInput, "is no file");
    if !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    // A pipe may have come there meanwhile.
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}

/// Whether nobody but root, or whoever asks, may do something with a file that was opened: who reads a secret has it, and who writes one makes his own.
///
/// # Errors
/// Somebody may: what to do. `shown` is the file for people.
pub(crate) fn check_secret(file: &File, shown: &dyn std::fmt::Display) -> Result<(), String> {
    let about = file.metadata().map_err(|error| format!("{shown}: {error}"))?;
    if about.uid() != 0 && about.uid() != nix::unistd::geteuid().as_raw() {
        return Err(format!("{shown} belongs to another user: `chown root {shown}`"));
    }
    if about.mode() & OTHERS != 0 {
        return Err(format!("others may read or write {shown}: `chmod 600 {shown}`"));
    }
    Ok(())
}

/// Reads a file that somebody named, at most as much of it as a daemon takes: a device, for example, may have no end.
///
/// # Errors
/// It cannot be read, or is larger.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_from(File::open(path)?)
}

/// The same of what is open already.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_from(open: impl Read) -> io::Result<Vec<u8>> {
    read_within(MAX_BODY, open)
}

/// The same, with another bound on its bytes.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_within(most: usize, open: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open.take(most as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() > most {
        true => {
            Err(io::Error::other(format!("it is larger than {most} bytes, which nothing of a firewall is")))
        }
        false => Ok(bytes),
    }
}

/// Replaces a file, or makes it, with a mode that the umask may take from.
///
/// # Errors
/// It cannot be written, or what is there is no file, as `/dev/stdout`: a file in its place would harm whoever uses it next. It is as it was,
/// unless the folder alone cannot be written to the disk.
pub(crate) fn replace(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "what is there is no file"));
    }
    put(path, mode, bytes, |early, path| fs::rename(early, path))
}

/// The same where there is no file yet.
///
/// # Errors
/// As [`replace`]; [`ErrorKind::AlreadyExists`] if there is one, whenever it came.
pub(crate) fn create(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    put(path, mode, bytes, |early, path| fs::hard_link(early, path))
}

fn put(path: &Path, mode: u32, bytes: &[u8], place: fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    let (early, mut file) = begin(path, mode)?;
    let placed = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| place(&early, path));
    // A disk that is full is not to stay so. After a rename there is none.
    let _ = fs::remove_file(&early);
    placed?;
    // The new name itself is on the disk only when the folder is.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// An empty file beside another one, by a name that no other thread and no other process takes.
///
/// # Errors
/// There can be none.
pub(crate) fn begin(path: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut last = None;
    for _ in 0..TRIES {
        let mut early = path.as_os_str().to_owned();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        early.push(format!(".{}.{number}.{UNFINISHED}", std::process::id()));
        let early = PathBuf::from(early);
        match OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&early) {
            Ok(file) => return Ok((early, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| ErrorKind::AlreadyExists.into()))
}

/// Whether a name is one of a file that is not whole.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == UNFINISHED)
}

/// Removes what processes that were killed a while ago have left in a folder.
///
/// # Errors
/// The folder cannot be read, or a file cannot be removed.
pub(crate) fn forget_unfinished(folder: &Path) -> io::Result<()> {
    let before = SystemTime::now() - LONG_AGO;
    for path in fs::read_dir(folder)?.flatten().map(|file| file.path()).filter(|path| is_unfinished(path)) {
        // A process that still wrote it may be done by now.
        let written_at = fs::symlink_metadata(&path).and_then(|about| about.modified());
        if written_at.is_ok_and(|at| at < before) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|file| file.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, precious) = (folder.path().join("file"), folder.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &file).unwrap();
        assert_eq!(create(&file, 0o600, b"x").unwrap_err().kind(), ErrorKind::AlreadyExists);
        replace(&file, 0o640, b"secret").unwrap();
        assert_eq!(fs::symlink_metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(create(&file, 0o600, b"x").unwrap_err().kind(), ErrorKind::AlreadyExists);
        let texts = [&file, &precious].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(texts, ["secret", "precious"]);
        let other = folder.path().join("other");
        create(&other, 0o600, b"first").unwrap();
        assert!(replace(&folder.path().join("none/file"), 0o600, b"x").is_err());
        assert!(replace(folder.path(), 0o600, b"x").is_err(), "a folder is no file");
        assert_eq!(names(folder.path()), ["file", "other", "precious"], "nothing unfinished is left");
    }

    #[test]
    fn what_is_no_file_is_not_replaced_and_what_has_no_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        symlink(&pipe, &link).unwrap();
        for path in [&pipe, &link] {
            assert_eq!(replace(path, 0o600, b"x").unwrap_err().kind(), ErrorKind::InvalidInput, "{path:?}");
        }
        assert_eq!(names(folder.path()), ["link", "pipe"]);
        assert_eq!(read_within(3, &b"abc"[..]).unwrap(), b"abc");
        assert!(read_within(3, io::repeat(b'x')).unwrap_err().to_string().contains("larger than 3 bytes"));
    }

    #[test]
    fn what_a_killed_process_left_is_in_nobodys_way_and_goes_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let (left, open) = begin(&file, 0o600).unwrap();
        // Of a process that had our number, under the names that come next.
        let number: u64 = left.to_str().unwrap().rsplit('.').nth(1).unwrap().parse().unwrap();
        for next in number + 1..number + 9 {
            let _ = File::create_new(folder.path().join(format!("file.{}.{next}.new", std::process::id())));
        }
        replace(&file, 0o600, b"x").unwrap();
        forget_unfinished(folder.path()).unwrap();
        assert!(left.exists(), "another process may be writing it");
        open.set_modified(SystemTime::now() - LONG_AGO - LONG_AGO).unwrap();
        forget_unfinished(folder.path()).unwrap();
        assert!(!left.exists() && file.exists());
    }
}
